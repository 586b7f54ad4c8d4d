//! The files at the top of a store's directory. The process that has the store open locks `LOCK`. `FORMAT` contains the
//! number of the format and the id of the store. `KNOWN` contains the number of a batch that the log must contain.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};

use store::Error;

use crate::disk::storage_error;
use crate::forms::{DIRECTORY, DIRECTORY_BEFORE};
use crate::log::sync_directory;
use crate::private::{self, LockAttempt};

/// Beginning of the file `FORMAT`, which is followed by the number of the format and the id.
const FORMAT: &str = "baton embedded store, format ";

/// Content of `FORMAT` in an unfinished copy of a store. No version opens such a directory as a store.
const UNFINISHED: &str = "baton embedded store, unfinished copy, format 4\n";

/// Content of `FORMAT` in an unfinished copy that was made by an earlier version of Baton, with format 3 or earlier.
/// Such a version does not recognize [`UNFINISHED`]. It therefore cannot continue a copy that this version has begun,
/// in which values have checksums.
const UNFINISHED_BEFORE: &str = "baton embedded store, unfinished copy\n";

/// Returns whether `FORMAT` marks an unfinished copy.
fn is_unfinished(format: &str) -> bool {
    [UNFINISHED, UNFINISHED_BEFORE].contains(&format)
}

/// Beginning of the file `KNOWN`, which is followed by the number of a batch.
const KNOWN: &str = "batch ";

/// A locked directory. It is unlocked when this value is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    lock: File,
    /// Random id, chosen when the store was created.
    pub(crate) id: u64,
    /// Number of a batch that the log must contain. If the log ends before this batch, acknowledged commits were lost.
    /// `None` if the store has not acknowledged any commits, or was written by an earlier version of Baton, which did
    /// not write `KNOWN`.
    pub(crate) known: Option<u64>,
}

/// Returns the path of redb's file in a data directory.
pub fn tree_path(directory: &Path) -> PathBuf {
    directory.join("tree.redb")
}

pub(crate) fn log_path(directory: &Path) -> PathBuf {
    directory.join("log")
}

impl Directory {
    /// Creates the directory if necessary, locks it and checks its format.
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let failed = |doing: &'static str| move |error: std::io::Error| storage_error(&error, doing, directory);
        restrict_to_owner(directory)?;
        let lock = take_lock(directory)?;
        let path = directory.join("FORMAT");
        let id = match std::fs::read_to_string(&path) {
            Ok(found) if is_unfinished(&found) => {
                return Err(Error::Corrupt {
                    what: format!(
                        "`{}` is an unfinished copy of a store: a standby, which `baton standby promote` turns into a \
                         store, or the remains of an interrupted restore, which can be removed",
                        directory.display()
                    ),
                });
            }
            Ok(found) => {
                let (form, id) = read_format(&found).ok_or_else(|| Error::Corrupt {
                    what: format!(
                        "`{}` contains `{}`, but this version of Baton expects `{FORMAT}{DIRECTORY}`; use the version \
                         that wrote it, or restore a backup from before it was used",
                        path.display(),
                        found.trim_end()
                    ),
                })?;
                if form != DIRECTORY {
                    // `FORMAT` is written before any data that an earlier version of Baton would misread.
                    write_id(directory, id).map_err(failed("write FORMAT in"))?;
                }
                id
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                write_format(directory).map_err(failed("write FORMAT in"))?
            }
            Err(error) => return Err(storage_error(&error, "read", &path)),
        };
        let known = read_known(directory)?;
        Ok(Self { lock, id, known })
    }
}

/// Records that the log contains this batch. Without this record, a deleted or truncated log could not be distinguished
/// from a new log, or from a log whose last batch was not written completely. The record is written with the first
/// batch and at each start. After a checkpoint, the log position in redb shows how far the log must reach at least.
pub(crate) fn record_known_batch(directory: &Path, batch: u64) -> std::io::Result<()> {
    write_whole(directory, "KNOWN", &format!("{KNOWN}{batch}\n"))
}

fn read_known(directory: &Path) -> Result<Option<u64>, Error> {
    let path = directory.join("KNOWN");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let batch = text.strip_prefix(KNOWN).and_then(|text| text.strip_suffix('\n')?.parse().ok());
            batch.map(Some).ok_or_else(|| Error::Corrupt {
                what: format!(
                    "`{}` must contain `{KNOWN}` and a number. Restore the directory from a backup",
                    path.display()
                ),
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(storage_error(&error, "read", &path)),
    }
}

/// Writes a small file atomically and durably.
fn write_whole(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let new = directory.join(format!("{name}.new"));
    let mut file = private::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, directory.join(name))?;
    sync_directory(directory)
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The file is unlocked explicitly, because a child process that is just being started may share it. Closing the
        // file would then not unlock it.
        let _ = self.lock.unlock();
    }
}

/// Creates the directories if necessary, and removes other users' permissions for existing files. This is necessary
/// because the log contains the payloads of all runs and the secret of task tokens.
fn restrict_to_owner(directory: &Path) -> Result<(), Error> {
    let log = log_path(directory);
    let mut was_open = private::directory(directory, || private::is_empty_or_store(directory))?;
    was_open |= private::directory(&log, || Ok(true))?;
    for file in ["FORMAT", "KNOWN", "LOCK"] {
        was_open |= private::narrow(&directory.join(file))?;
    }
    was_open |= private::narrow(&tree_path(directory))?;
    let failed = |error: std::io::Error| storage_error(&error, "list", &log);
    for entry in std::fs::read_dir(&log).map_err(failed)? {
        was_open |= private::narrow(&entry.map_err(failed)?.path())?;
    }
    if was_open {
        tracing::warn!(
            directory = %directory.display(),
            "other users had access to the data directory or to files in it; this access has been removed. A user who \
             has read the files knows the secret of task tokens: rotate it with `baton secret rotate`"
        );
    }
    Ok(())
}

/// Returns the number of the format and the id from the content of `FORMAT`. Returns `None` if it cannot be read.
fn read_format(text: &str) -> Option<(u32, u64)> {
    let id = text.strip_prefix(FORMAT)?.strip_suffix('\n')?;
    let (form, id) = id.split_once(", id ")?;
    let form = std::iter::once(DIRECTORY).chain(DIRECTORY_BEFORE).find(|known| form == known.to_string())?;
    Some((form, u64::from_str_radix(id, 16).ok()?))
}

fn take_lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join("LOCK");
    match private::take_lock(&path).map_err(|error| storage_error(&error, "lock", &path))? {
        LockAttempt::Ours(file) => Ok(file),
        LockAttempt::By(owner) => Err(Error::InUse { by: format!("process {owner}") }),
    }
}

/// Returns a random id for a new store.
pub fn draw_id() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A directory with an unfinished copy. It is unlocked when this value is dropped.
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
    lock: File,
}

impl Unfinished {
    /// Locks a directory that is empty or does not exist; with `may_continue` also one that holds an unfinished copy.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] if another process has the directory open; [`Error::Failed`] if it cannot be used.
    pub fn take(directory: &Path, may_continue: bool) -> Result<Self, Error> {
        let refused = |why: &str| Error::Failed { why: format!("`{}` {why}", directory.display()) };
        let failed = |error: std::io::Error| storage_error(&error, "make a copy in", directory);
        if directory.join("LOCK").exists() {
            // If the directory is in use, the error message says so, even if there are other problems.
            drop(take_lock(directory)?);
        }
        let format = std::fs::read_to_string(directory.join("FORMAT")).unwrap_or_default();
        let is_copy = is_unfinished(&format);
        if !format.is_empty() && !is_copy {
            return Err(refused("contains a store, which is not overwritten: name another directory"));
        }
        if is_copy && !may_continue {
            return Err(refused(
                "contains an unfinished copy: a standby, or the remains of an interrupted restore. Remove it, or name \
                 another directory",
            ));
        }
        if !is_copy && directory.exists() {
            for entry in std::fs::read_dir(directory).map_err(failed)? {
                if entry.map_err(failed)?.file_name() != "lost+found" {
                    return Err(refused("is not empty: name an empty directory, or one that does not exist"));
                }
            }
        }
        private::directory(directory, || private::is_empty_or_store(directory))?;
        let lock = take_lock(directory)?;
        if format != UNFINISHED {
            write_whole(directory, "FORMAT", UNFINISHED).map_err(failed)?;
        }
        private::directory(&log_path(directory), || Ok(true))?;
        Ok(Self { path: directory.to_owned(), lock })
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Turns the copy into a store.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the directory cannot be written.
    pub fn finish(self, id: u64) -> Result<(), Error> {
        write_id(&self.path, id).map_err(|error| storage_error(&error, "write FORMAT in", &self.path))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

fn write_format(directory: &Path) -> std::io::Result<u64> {
    let id = draw_id();
    write_id(directory, id)?;
    Ok(id)
}

fn write_id(directory: &Path, id: u64) -> std::io::Result<()> {
    write_whole(directory, "FORMAT", &format!("{FORMAT}{DIRECTORY}, id {id:016x}\n"))?;
    // The directory may just have been created. Syncing its parent makes its entry there durable.
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_directory(parent)?;
    }
    Ok(())
}
