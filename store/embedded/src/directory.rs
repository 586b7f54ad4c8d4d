//! The directory of a store: who has it, and which format it has. Owns `LOCK` and `FORMAT`.

use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use store::Error;

use crate::log::sync_directory;
use crate::storage_error;

const FORMAT: &str = "baton embedded store, format 2";

/// A directory that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    lock: File,
    /// Drawn when the store was created.
    pub(crate) id: u64,
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
        std::fs::create_dir_all(log_path(directory)).map_err(failed("create the data directory"))?;
        let lock = take_lock(directory)?;
        let path = directory.join("FORMAT");
        let id = match std::fs::read_to_string(&path) {
            Ok(found) => read_format(&found).ok_or_else(|| Error::Corrupt {
                what: format!(
                    "`{}` says `{}` where this version of Baton knows `{FORMAT}`; use the version that wrote it",
                    path.display(),
                    found.trim_end()
                ),
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                write_format(directory).map_err(failed("write FORMAT in"))?
            }
            Err(error) => return Err(storage_error(&error, "read", &path)),
        };
        Ok(Self { lock, id })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Closing the file would do, but for a process that is being started just now and still shares it.
        let _ = self.lock.unlock();
    }
}

fn read_format(text: &str) -> Option<u64> {
    let id = text.strip_prefix(FORMAT)?.strip_prefix(", id ")?.strip_suffix('\n')?;
    u64::from_str_radix(id, 16).ok()
}

fn take_lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join("LOCK");
    let failed = |error: &std::io::Error| storage_error(error, "lock", &path);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| failed(&error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            return Err(Error::InUse { by: format!("process {}", owner.trim()) });
        }
        Err(TryLockError::Error(error)) => return Err(failed(&error)),
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(|error| failed(&error))?;
    Ok(file)
}

fn write_format(directory: &Path) -> std::io::Result<u64> {
    let id = RandomState::new().hash_one(std::process::id());
    let new = directory.join("FORMAT.new");
    let mut file = File::create(&new)?;
    writeln!(file, "{FORMAT}, id {id:016x}")?;
    file.sync_all()?;
    std::fs::rename(&new, directory.join("FORMAT"))?;
    sync_directory(directory)?;
    // The directory's own entry, when it has just been created.
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_directory(parent)?;
    }
    Ok(id)
}
