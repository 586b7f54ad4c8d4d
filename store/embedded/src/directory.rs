//! The directory of a store: who has it, which format it has, and how far its log has come at least. Owns `LOCK`, `FORMAT`
//! and `KNOWN`.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};

use store::Error;

use crate::disk::storage_error;
use crate::forms::{DIRECTORY, DIRECTORY_BEFORE};
use crate::log::sync_directory;
use crate::private::{self, LockAttempt};

/// Begins the file that says which form the directory has.
const FORMAT: &str = "baton embedded store, format ";

/// What stands there of a copy of a store that is not whole yet. No version takes it for a store.
const UNFINISHED: &str = "baton embedded store, unfinished copy, format 4\n";

/// The same of versions up to form 3. They must not go on with a copy of today's, whose values have checksums.
const UNFINISHED_BEFORE: &str = "baton embedded store, unfinished copy\n";

/// Whether `FORMAT` says that the directory is a copy that is not whole yet.
fn is_unfinished(format: &str) -> bool {
    [UNFINISHED, UNFINISHED_BEFORE].contains(&format)
}

/// Begins the file that says how far the log has come at least.
const KNOWN: &str = "batch ";

/// A directory that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    lock: File,
    /// Drawn when the store was created.
    pub(crate) id: u64,
    /// A batch that the log has had: one that ends before has lost what was acknowledged. `None` in a store that has not
    /// acknowledged anything, or was written by a version that did not say.
    pub(crate) known: Option<u64>,
}

pub(crate) fn tree_path(directory: &Path) -> PathBuf {
    directory.join("tree.redb")
}

pub(crate) fn log_path(directory: &Path) -> PathBuf {
    directory.join("log")
}

impl Directory {
    /// Creates the directory if need be, takes its lock and checks its format.
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let failed = |doing: &'static str| move |error: std::io::Error| storage_error(&error, doing, directory);
        close_to_others(directory)?;
        let lock = take_lock(directory)?;
        let path = directory.join("FORMAT");
        let id = match std::fs::read_to_string(&path) {
            Ok(found) if is_unfinished(&found) => {
                return Err(Error::Corrupt {
                    what: format!(
                        "`{}` is a copy of a store that is not finished: a standby, which `baton standby promote` makes a store \
                         of, or what is left of a restore that was cut short, which can be removed",
                        directory.display()
                    ),
                });
            }
            Ok(found) => {
                let (form, id) = read_format(&found).ok_or_else(|| Error::Corrupt {
                    what: format!(
                        "`{}` says `{}` where this version of Baton knows `{FORMAT}{DIRECTORY}`; use the version that wrote it, or \
                         restore a backup from before it was used",
                        path.display(),
                        found.trim_end()
                    ),
                })?;
                if form != DIRECTORY {
                    // Before anything is written that the version before would misread.
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

/// Says that the log has come so far. Without this a log that was deleted or cut would pass for one that is new, or whose
/// last batch was torn. Written with the first batch and at each start: what a checkpoint reflects is known from its position.
pub(crate) fn make_known(directory: &Path, batch: u64) -> std::io::Result<()> {
    write_whole(directory, "KNOWN", &format!("{KNOWN}{batch}\n"))
}

fn read_known(directory: &Path) -> Result<Option<u64>, Error> {
    let path = directory.join("KNOWN");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let batch = text.strip_prefix(KNOWN).and_then(|text| text.strip_suffix('\n')?.parse().ok());
            batch.map(Some).ok_or_else(|| Error::Corrupt {
                what: format!(
                    "`{}` does not say `{KNOWN}` and a number. Restore the directory from a backup",
                    path.display()
                ),
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(storage_error(&error, "read", &path)),
    }
}

/// Writes a small file whole or not at all, durably.
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
        // Closing the file would do, but for a process that is being started just now and still shares it.
        let _ = self.lock.unlock();
    }
}

/// Makes the directories if need be, and takes the rights of others away from what is there: whoever reads the log has the
/// payloads of all runs, and the secret that task tokens are made with.
fn close_to_others(directory: &Path) -> Result<(), Error> {
    let log = log_path(directory);
    let mut was_open = private::directory(directory, || private::is_ours(directory))?;
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
            "others could use the data directory or files in it; now only its owner can. Whoever has read them knows the \
             secret of task tokens: `baton secret rotate` makes another"
        );
    }
    Ok(())
}

/// The form, if it can be read, and the id.
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

/// An id for a store that is made.
pub(crate) fn draw_id() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A directory in which a copy of a store is made; ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Unfinished {
    path: PathBuf,
    lock: File,
}

impl Unfinished {
    /// Takes a directory that is empty or not there; with `goes_on` also one that is an unfinished copy.
    pub(crate) fn take(directory: &Path, goes_on: bool) -> Result<Self, Error> {
        let refused = |why: &str| Error::Failed { why: format!("`{}` {why}", directory.display()) };
        let failed = |error: std::io::Error| storage_error(&error, "make a copy in", directory);
        if directory.join("LOCK").exists() {
            // Whoever uses it is told before anything else.
            drop(take_lock(directory)?);
        }
        let format = std::fs::read_to_string(directory.join("FORMAT")).unwrap_or_default();
        let is_copy = is_unfinished(&format);
        if !format.is_empty() && !is_copy {
            return Err(refused("holds a store, which is not written over: name another directory"));
        }
        if is_copy && !goes_on {
            return Err(refused(
                "holds a copy that is not finished: a standby, or what is left of a restore that was cut short. Remove it, or name \
                 another directory",
            ));
        }
        if !is_copy && directory.exists() {
            for entry in std::fs::read_dir(directory).map_err(failed)? {
                if entry.map_err(failed)?.file_name() != "lost+found" {
                    return Err(refused("is not empty: name a directory that is, or that is not there"));
                }
            }
        }
        private::directory(directory, || private::is_ours(directory))?;
        let lock = take_lock(directory)?;
        if format != UNFINISHED {
            write_whole(directory, "FORMAT", UNFINISHED).map_err(failed)?;
        }
        private::directory(&log_path(directory), || Ok(true))?;
        Ok(Self { path: directory.to_owned(), lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a store of it.
    pub(crate) fn finish(self, id: u64) -> Result<(), Error> {
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
    // The directory's own entry, when it has just been created.
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_directory(parent)?;
    }
    Ok(())
}
