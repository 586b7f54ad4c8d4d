//! How entries get into their file: all that came together as one piece, and with one sync. A piece is there whole, or not at
//! all: what a failed write left is cut off before the next is written.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::chain::{ChainHead, Change, ChangeOutcome, EntryContent};
use super::files::{self, FILE_BYTES_MAX, Lock};
use super::verify;
use engine::Clock;

/// Has a file be durable; a seam for tests.
pub(super) type Sync = dyn Fn(&File) -> std::io::Result<()> + Send;

/// Where a file ends, and the chain with it.
#[derive(Debug, Clone)]
struct ChainEnd {
    length: u64,
    head: ChainHead,
}

/// The file that is written to.
#[derive(Debug)]
struct Current {
    file: File,
    path: PathBuf,
}

/// Writes the files of a log.
pub(super) struct Writer {
    directory: PathBuf,
    lock: Lock,
    clock: Arc<dyn Clock>,
    sync: Box<Sync>,
    current: Option<Current>,
    /// As far as is written.
    written: ChainEnd,
    /// As far as is durable.
    synced: ChainEnd,
    /// What is written and not durable yet. It can be waited for: no change is.
    unsynced: Vec<ChangeOutcome>,
    /// Whether what follows `written` has to be cut off.
    is_torn: bool,
    file_bytes_max: u64,
}

impl Writer {
    /// Takes a directory, mends its last line and finds out where its chain ends.
    pub(super) fn open(directory: PathBuf, clock: Arc<dyn Clock>, sync: Box<Sync>) -> Result<Self, String> {
        files::close_to_others(&directory)?;
        let lock = Lock::take(&directory)?;
        let failed = |error: &std::io::Error| files::said(&directory, error);
        let listed = files::all(&directory).map_err(|error| failed(&error))?;
        if let Some(last) = listed.last() {
            let mended = files::mend(&directory, &last.path).map_err(|error| files::said(&last.path, &error))?;
            if let Some((aside, bytes)) = mended {
                let (file, aside) = (last.path.display(), aside.display());
                tracing::warn!(%file, %aside, bytes, "the last line of the audit log was torn, and is put aside");
            }
        }
        let head = verify::head(&listed).map_err(|misfit| {
            let advice = "if it cannot be brought back, keep this directory and name a new one with --audit-log";
            format!("{misfit}; nothing is written behind it: {advice}")
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
        // Whoever starts the service is told now that it cannot be written, and not every caller.
        writer.ready(&mut Vec::new()).map_err(|error| files::said(&writer.directory, &error))?;
        Ok(writer)
    }

    #[cfg(test)]
    pub(super) fn with_file_bytes_max(mut self, bytes: u64) -> Self {
        self.file_bytes_max = bytes;
        self
    }

    /// Whether there is something that is not durable yet.
    pub(super) fn has_unsynced(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// How far the log is written.
    pub(super) fn head(&self) -> &ChainHead {
        &self.written.head
    }

    /// Writes entries for these outcomes and changes; where there are changes, what was written is durable when this returns.
    /// Answers the numbers of the changes. Where it fails nothing of it is there, and the outcomes are left in `ended`, with
    /// those that were not durable yet.
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
            // If this fails, too, the next write begins with it.
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

    /// Has what is written be durable. Where that fails all of it that was not is cut off.
    fn sync(&mut self) -> std::io::Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        if let Err(error) = (self.sync)(&current.file) {
            // What of it is on the disk is not known, and asking again would not tell.
            self.written = self.synced.clone();
            self.is_torn = true;
            let _ = self.cut();
            return Err(error);
        }
        self.synced = self.written.clone();
        self.unsynced.clear();
        Ok(())
    }

    /// Has what is written be durable, if something is not. Where that fails it is put into `outcomes` again.
    pub(super) fn settle(&mut self, outcomes: &mut Vec<ChangeOutcome>) -> std::io::Result<()> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        self.sync().inspect_err(|_| outcomes.append(&mut self.unsynced))
    }

    /// Takes off what a failed write left.
    fn cut(&mut self) -> std::io::Result<()> {
        if let Some(current) = self.current.as_ref().filter(|_| self.is_torn) {
            current.file.set_len(self.written.length)?;
        }
        self.is_torn = false;
        Ok(())
    }

    /// Sees to it that there is a file where the next entry belongs.
    fn ready(&mut self, outcomes: &mut Vec<ChangeOutcome>) -> std::io::Result<()> {
        self.cut()?;
        let is_there = self.current.as_ref().is_some_and(|current| files::is_at(&current.file, &current.path));
        if is_there && self.written.length < self.file_bytes_max {
            return Ok(());
        }
        // What the file before has is finished with it.
        self.settle(outcomes)?;
        match self.next_file() {
            Ok(current) => {
                self.current = Some(current);
                self.written.length = 0;
                self.synced = self.written.clone();
                Ok(())
            }
            // A file that is too long is better than none.
            Err(error) if is_there => {
                tracing::debug!(%error, "the audit log has no new file yet");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn next_file(&mut self) -> std::io::Result<Current> {
        if !self.lock.is_of(&self.directory) {
            // The directory is another one.
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
