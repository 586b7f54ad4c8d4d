//! Files of an audit log: their names, their permissions, the lock of their directory, and their repair after a crash.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use store_embedded::private::{self, LockAttempt};

/// Size of a file, in bytes, at which a new file is begun. Our choice: about 150,000 entries, which can be verified in
/// a second.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Number of bytes per read in the search for the end of the last line, which begins at the end of the file. Our
/// choice: a few lines.
const TAIL_BYTES: usize = 4_096;

const BEGIN: &str = "audit-";
const END: &str = ".jsonl";
/// Extension of the file to which an incomplete line is moved after a crash.
const TORN: &str = "torn";
const LOCK: &str = "audit.lock";
/// Directory that some file systems create in their root. It is ignored if the audit log's directory is such a root.
const MOUNT_POINT: &str = "lost+found";

/// File of the log, with the sequence number of its first entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) first: u64,
    pub(super) path: PathBuf,
}

/// Returns the name of the file whose first entry has this sequence number.
pub(super) fn named(directory: &Path, first: u64) -> Named {
    Named { first, path: directory.join(format!("{BEGIN}{first:020}{END}")) }
}

fn first_of(name: &str) -> Option<u64> {
    name.strip_prefix(BEGIN)?.strip_suffix(END)?.parse().ok()
}

/// Returns the existing files in the order of their entries.
pub(super) fn all(directory: &Path) -> std::io::Result<Vec<Named>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let first = path.file_name().and_then(|name| name.to_str()).and_then(first_of);
        found.extend(first.map(|first| Named { first, path }));
    }
    found.sort();
    Ok(found)
}

/// Creates the directory if needed. Makes the directory and the files of the log accessible only to their owner.
pub(super) fn close_to_others(directory: &Path) -> Result<(), String> {
    let mut was_open = private::directory(directory, || is_ours(directory)).map_err(|error| error.to_string())?;
    let listed = all(directory).map_err(|error| said(directory, &error))?;
    for file in listed {
        was_open |= private::narrow(&file.path).map_err(|error| error.to_string())?;
    }
    if was_open {
        tracing::warn!(
            directory = %directory.display(),
            "other users had access to the audit log; this access has been removed"
        );
    }
    Ok(())
}

fn is_ours(directory: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(BEGIN));
        if !is_ours && name != LOCK && name != MOUNT_POINT {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lock of a log's directory, held by this process until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    pub(super) fn take(directory: &Path) -> Result<Self, String> {
        let path = directory.join(LOCK);
        match private::take_lock(&path).map_err(|error| said(&path, &error))? {
            LockAttempt::Ours(file) => Ok(Self(file)),
            LockAttempt::By(owner) => {
                let shown = directory.display();
                Err(format!("{shown}: in use by process {owner}; each process needs a separate directory"))
            }
        }
    }

    /// Returns whether the path `directory` still refers to the locked directory.
    pub(super) fn is_of(&self, directory: &Path) -> bool {
        is_at(&self.0, &directory.join(LOCK))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Unlocks explicitly. Closing the file would not release the lock while a child process that is being started
        // still shares the file.
        let _ = self.0.unlock();
    }
}

/// Returns whether any process holds the lock of the directory.
pub(super) fn is_in_use(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join(LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Returns whether the path still refers to this open file.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

/// Opens a file for appending, and creates it if it does not exist. If this creates the file, its directory entry is
/// durable when this returns.
pub(super) fn append(directory: &Path, path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    let file = private::open(options.append(true).create(true), path)?;
    File::open(directory)?.sync_all()?;
    Ok(file)
}

/// Moves an incomplete last line, which a crash has left, into a separate file. Returns the path of that file and the
/// number of bytes moved; `None` if the last line is complete.
pub(super) fn mend(directory: &Path, path: &Path) -> std::io::Result<Option<(PathBuf, usize)>> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let whole = end_of_lines(&mut file, length)?;
    if whole == length {
        return Ok(None);
    }
    let mut torn = Vec::new();
    file.seek(SeekFrom::Start(whole))?;
    file.read_to_end(&mut torn)?;
    let aside = path.with_extension(TORN);
    let mut kept = append(directory, &aside)?;
    kept.write_all(&torn)?;
    kept.write_all(b"\n")?;
    kept.sync_all()?;
    file.set_len(whole)?;
    file.sync_all()?;
    Ok(Some((aside, torn.len())))
}

/// Returns the offset after the last complete line.
fn end_of_lines(file: &mut File, length: u64) -> std::io::Result<u64> {
    let mut end = length;
    let mut buffer = [0; TAIL_BYTES];
    while end > 0 {
        let begin = end.saturating_sub(TAIL_BYTES as u64);
        let wanted = usize::try_from(end - begin).unwrap_or(TAIL_BYTES).min(TAIL_BYTES);
        let Some(part) = buffer.get_mut(..wanted) else { break };
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Formats an error with the path that it concerns.
pub(super) fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_last_line_is_moved_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = named(directory.path(), 1).path;
        let mut kept = String::new();
        for (whole, torn) in [("", "half"), ("one\ntwo\n", "thr"), ("one\n", &"x".repeat(10_000)), ("one\n", "")] {
            std::fs::write(&path, format!("{whole}{torn}")).unwrap();
            let mended = mend(directory.path(), &path).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
            assert_eq!(mended.as_ref().map(|(_, bytes)| *bytes), (!torn.is_empty()).then_some(torn.len()));
            if let Some((aside, _)) = mended {
                kept = kept + torn + "\n";
                assert_eq!(std::fs::read_to_string(aside).unwrap(), kept);
            }
        }
    }

    #[test]
    fn a_directory_is_exclusive_to_one_process_and_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("audit");
        close_to_others(&log).unwrap();
        assert!(!is_in_use(&log));
        let lock = Lock::take(&log).unwrap();
        assert!(is_in_use(&log) && lock.is_of(&log));
        let refused = Lock::take(&log).unwrap_err();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(append(&log, &named(&log, 1).path).unwrap());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&log), mode(&log.join(LOCK)), mode(&named(&log, 1).path)), (0o700, 0o600, 0o600));
        drop(lock);
        assert!(!is_in_use(&log));
        assert_eq!(all(&log).unwrap(), [named(&log, 1)]);
    }
}
