//! Writes entries to their file. All waiting entries are written at once, followed by one sync. If a write fails, the
//! bytes that it has written are cut off before the next write. Each batch is therefore stored completely or not at
//! all.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::chain::{ChainHead, Change, ChangeOutcome, EntryContent};
use super::files::{self, FILE_BYTES_MAX, Lock};
use super::verify;
use engine::Clock;

/// Function that makes a file durable. Tests replace it.
pub(super) type Sync = dyn Fn(&File) -> std::io::Result<()> + Send;

/// Length of a file, and its last entry, which is the end of the chain of entries.
#[derive(Debug, Clone)]
struct ChainEnd {
    length: u64,
    head: ChainHead,
}

/// File that is being written.
#[derive(Debug)]
struct Current {
    file: File,
    path: PathBuf,
}

/// Writer of a log's files.
pub(super) struct Writer {
    directory: PathBuf,
    lock: Lock,
    clock: Arc<dyn Clock>,
    sync: Box<Sync>,
    current: Option<Current>,
    /// Length and chain end up to the last written entry.
    written: ChainEnd,
    /// Length and chain end up to the last durable entry.
    synced: ChainEnd,
    /// Outcomes that are written but not durable yet. Only outcomes can be in this state, because every write with a
    /// change is made durable at once.
    unsynced: Vec<ChangeOutcome>,
    /// True if there may be bytes after `written`, which must be cut off.
    is_torn: bool,
    file_bytes_max: u64,
}

impl Writer {
    /// Locks the directory, repairs an incomplete last line, and finds the end of the chain.
    pub(super) fn open(directory: PathBuf, clock: Arc<dyn Clock>, sync: Box<Sync>) -> Result<Self, String> {
        files::close_to_others(&directory)?;
        let lock = Lock::take(&directory)?;
        let failed = |error: &std::io::Error| files::said(&directory, error);
        let listed = files::all(&directory).map_err(|error| failed(&error))?;
        if let Some(last) = listed.last() {
            let mended = files::mend(&directory, &last.path).map_err(|error| files::said(&last.path, &error))?;
            if let Some((aside, bytes)) = mended {
                let (file, aside) = (last.path.display(), aside.display());
                tracing::warn!(
                    %file, %aside, bytes,
                    "the last line of the audit log was incomplete and has been set aside"
                );
            }
        }
        let head = verify::head(&listed).map_err(|misfit| {
            let advice = "restore it, or keep this directory and name a new one with --audit-log";
            format!("{misfit}; nothing is appended to a damaged log: {advice}")
        })?;
        let current = match listed.last() {
            None => None,
            Some(last) => {
                let file = files::append(&directory, &last.path).map_err(|error| files::said(&last.path, &error))?;
                Some(Current { file, path: last.path.clone() })
            }
        };
        let length = match &current {
            None => 0,
            Some(current) => current.file.metadata().map_err(|error| failed(&error))?.len(),
        };
        let written = ChainEnd { length, head };
        let synced = written.clone();
        let unsynced = Vec::new();
        let file_bytes_max = FILE_BYTES_MAX;
        let mut writer =
            Self { directory, lock, clock, sync, current, written, synced, unsynced, is_torn: false, file_bytes_max };
        // This call makes the service fail at its start if the log cannot be written. Otherwise each later change would
        // fail instead.
        writer.ready(&mut Vec::new()).map_err(|error| files::said(&writer.directory, &error))?;
        Ok(writer)
    }

    #[cfg(test)]
    pub(super) fn with_file_bytes_max(mut self, bytes: u64) -> Self {
        self.file_bytes_max = bytes;
        self
    }

    /// Returns whether some entries are not durable yet.
    pub(super) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Returns the last written entry of the chain.
    pub(super) fn head(&self) -> &ChainHead {
        &self.written.head
    }

    /// Writes entries for the outcomes in `ended` and for these changes, and returns the sequence numbers of the
    /// changes. If there are changes, all entries are durable when this returns.
    ///
    /// On failure, none of these entries is stored. `ended` then contains all outcomes that are not stored, including
    /// outcomes of earlier calls that were not durable yet.
    pub(super) fn write(&mut self, ended: &mut Vec<ChangeOutcome>, changes: Vec<Change>) -> std::io::Result<Vec<u64>> {
        self.ready(ended)?;
        let Some(current) = &mut self.current else { return Err(std::io::ErrorKind::NotFound.into()) };
        let (now, mut head, mut lines) = (self.clock.now(), self.written.head.clone(), Vec::new());
        for outcome in ended.iter() {
            head.append(EntryContent::Outcome(outcome.clone()), now, &mut lines)?;
        }
        let mut numbers = Vec::with_capacity(changes.len());
        for change in changes {
            numbers.push(head.append(EntryContent::Change(Box::new(change)), now, &mut lines)?);
        }
        if let Err(error) = current.file.write_all(&lines) {
            self.is_torn = true;
            // An error of this call is ignored, because the next write cuts off the bytes again before it writes.
            let _ = self.cut();
            return Err(error);
        }
        self.written = ChainEnd { length: self.written.length + lines.len() as u64, head };
        self.unsynced.append(ended);
        if !numbers.is_empty() {
            self.sync().inspect_err(|_| ended.append(&mut self.unsynced))?;
        }
        Ok(numbers)
    }

    /// Makes the written entries durable. On failure, all entries that are not durable are cut off.
    fn sync(&mut self) -> std::io::Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        if let Err(error) = (self.sync)(&current.file) {
            // After a failed sync, it is unknown which bytes are on the disk, and repeating the sync would not report
            // the loss of bytes.
            self.written = self.synced.clone();
            self.is_torn = true;
            let _ = self.cut();
            return Err(error);
        }
        self.synced = self.written.clone();
        self.unsynced.clear();
        Ok(())
    }

    /// Makes the written outcomes durable, if there are any. On failure, they are cut off and moved to `outcomes`.
    pub(super) fn settle(&mut self, outcomes: &mut Vec<ChangeOutcome>) -> std::io::Result<()> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        self.sync().inspect_err(|_| outcomes.append(&mut self.unsynced))
    }

    /// Cuts off the bytes that a failed write has left.
    fn cut(&mut self) -> std::io::Result<()> {
        if let Some(current) = self.current.as_ref().filter(|_| self.is_torn) {
            current.file.set_len(self.written.length)?;
        }
        self.is_torn = false;
        Ok(())
    }

    /// Ensures that there is an open file for the next entry.
    fn ready(&mut self, outcomes: &mut Vec<ChangeOutcome>) -> std::io::Result<()> {
        self.cut()?;
        let is_there = self.current.as_ref().is_some_and(|current| files::is_at(&current.file, &current.path));
        if is_there && self.written.length < self.file_bytes_max {
            return Ok(());
        }
        // Makes the previous file durable before the next one begins.
        self.settle(outcomes)?;
        match self.next_file() {
            Ok(current) => {
                self.current = Some(current);
                self.written.length = 0;
                self.synced = self.written.clone();
                Ok(())
            }
            // If no new file can be created, the current one continues to grow beyond its maximum size, so that changes
            // need not be refused.
            Err(error) if is_there => {
                tracing::debug!(%error, "the next file of the audit log could not be created; retrying");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn next_file(&mut self) -> std::io::Result<Current> {
        if !self.lock.is_of(&self.directory) {
            // The path now refers to another directory, which must also be locked.
            self.lock = Lock::take(&self.directory).map_err(std::io::Error::other)?;
        }
        let path = files::named(&self.directory, self.written.head.seq + 1).path;
        let file = files::append(&self.directory, &path)?;
        if file.metadata()?.len() > 0 {
            let what = format!("{} has entries that this process did not write", path.display());
            return Err(std::io::Error::other(what));
        }
        Ok(Current { file, path })
    }
}
