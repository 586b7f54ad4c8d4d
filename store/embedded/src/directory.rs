//! The directory of a store: who has it, and which format it has. Owns `LOCK` and `FORMAT`.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use store::Error;

use crate::log::sync_directory;
use crate::storage_error;

const FORMAT: &str = "baton embedded store, format 1\n";

/// A directory that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    _lock: File,
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
        match std::fs::read_to_string(&path) {
            Ok(found) if found == FORMAT => {}
            Ok(found) => {
                let what = format!(
                    "`{}` says `{}` where this version of Baton knows `{}`; use the version that wrote it",
                    path.display(),
                    found.trim_end(),
                    FORMAT.trim_end()
                );
                return Err(Error::Corrupt { what });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                write_format(directory).map_err(failed("write FORMAT in"))?;
            }
            Err(error) => return Err(storage_error(&error, "read", &path)),
        }
        Ok(Self { _lock: lock })
    }
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
            let why = format!(
                "the data directory `{}` is in use by process {}; stop that process, or give this one another directory",
                directory.display(),
                owner.trim()
            );
            return Err(Error::Failed { why });
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

fn write_format(directory: &Path) -> std::io::Result<()> {
    let new = directory.join("FORMAT.new");
    let mut file = File::create(&new)?;
    file.write_all(FORMAT.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, directory.join("FORMAT"))?;
    sync_directory(directory)?;
    // The directory's own entry, when it has just been created.
    directory
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .map_or(Ok(()), sync_directory)
}
