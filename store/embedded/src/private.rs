//! The rights of what is in the data directory: its owner's, and nobody else's. Owns how files and directories are made
//! there, and narrows those that were left open to others. The audit log's are made so, too.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use store::Error;

use crate::disk::storage_error;

/// The rights of a directory: its owner lists, makes and enters.
const DIRECTORY_MODE: u32 = 0o700;
/// The rights of a file: its owner reads and writes.
const FILE_MODE: u32 = 0o600;
/// The rights that nobody but the owner may have.
const OTHERS: u32 = 0o077;
/// What a file system keeps for itself in the directory where it is mounted.
const MOUNT_POINT: &str = "lost+found";

/// Opens a file, which is its owner's alone if it is made by this, whatever the umask.
///
/// # Errors
///
/// As for opening any file, and where its rights cannot be changed.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(FILE_MODE).open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o777 != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Makes a file, which is empty, its owner's alone, and open for writing.
///
/// # Errors
///
/// As for [`open`].
pub fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// What becomes of trying to take a lock file.
#[derive(Debug)]
pub enum LockAttempt {
    /// It is this process's until the file is closed; its number stands in it.
    Ours(File),
    /// What stands in it: the number of the process that has it.
    By(String),
}

/// Takes a lock file, which is made if there is none.
///
/// # Errors
///
/// As for [`open`], and where the file cannot be locked or written.
pub fn take_lock(path: &Path) -> io::Result<LockAttempt> {
    let mut file = open(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            return Ok(LockAttempt::By(owner.trim().to_owned()));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(LockAttempt::Ours(file))
}

/// Makes a directory if there is none, and closes one that is there to others. `is_ours` tells whether what is in it lets it
/// be closed; it is asked only of one that is open.
///
/// Answers whether it was open to others.
///
/// # Errors
///
/// [`Error::Failed`] where it cannot be made or closed, or holds what is not ours.
pub fn directory(path: &Path, is_ours: impl FnOnce() -> io::Result<bool>) -> Result<bool, Error> {
    let failed = |error: io::Error| storage_error(&error, "create the directory", path);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        // The umask may have taken rights of the owner, too.
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    if !is_open(path).map_err(failed)? {
        return Ok(false);
    }
    if !is_ours().map_err(failed)? {
        return Err(Error::Failed {
            why: format!(
                "`{}` can be used by others and holds other things than Baton's. Name a directory that is Baton's alone, \
                 e.g. one below it, or take the rights of others away with `chmod go= {0}`",
                path.display()
            ),
        });
    }
    narrow(path)
}

/// Whether a directory holds a store, or nothing.
pub(crate) fn is_ours(path: &Path) -> io::Result<bool> {
    let mut is_empty = true;
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        if name == "FORMAT" {
            return Ok(true);
        }
        is_empty &= name == MOUNT_POINT;
    }
    Ok(is_empty)
}

fn is_open(path: &Path) -> io::Result<bool> {
    Ok(std::fs::metadata(path)?.permissions().mode() & OTHERS != 0)
}

/// Takes the rights of others away from what is there; answers whether they had any.
///
/// # Errors
///
/// [`Error::Failed`] where they cannot be taken.
pub fn narrow(path: &Path) -> Result<bool, Error> {
    let failed = |error: io::Error| storage_error(&error, "see the rights of", path);
    let mode = match std::fs::metadata(path) {
        Ok(found) => found.permissions().mode() & 0o7777,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    if mode & OTHERS == 0 {
        return Ok(false);
    }
    let narrowed = Permissions::from_mode(mode & !OTHERS);
    std::fs::set_permissions(path, narrowed).map_err(|error| Error::Failed {
        why: format!(
            "`{}` can be used by others (mode {mode:03o}), and that cannot be changed: {error}. Have this process own it, \
             or name a directory that it may make itself, e.g. one below it",
            path.display()
        ),
    })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_use_and_that_holds_other_things_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let shared = directory.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        std::fs::write(shared.join("letter"), "").unwrap();
        let error = super::directory(&shared, || is_ours(&shared)).unwrap_err().to_string();
        assert!(error.contains("holds other things") && error.contains("below it"), "{error}");
        assert_eq!(std::fs::metadata(&shared).unwrap().permissions().mode() & 0o7777, 0o1777);
    }
}
