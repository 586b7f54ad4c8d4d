//! File permissions of the data directory: only the owner has access. Files and directories are created with these
//! permissions, and permissions of other users are removed. The audit log uses this module, too.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use store::Error;

use crate::disk::storage_error;

/// Permissions of a directory: the owner may list it, create files, and enter it.
const DIRECTORY_MODE: u32 = 0o700;
/// Permissions of a file: the owner may read and write.
const FILE_MODE: u32 = 0o600;
/// Permission bits of all users except the owner.
const GROUP_AND_OTHERS: u32 = 0o077;
/// Directory that some file systems have at their mount point.
const MOUNT_POINT: &str = "lost+found";

/// Opens a file. If the file is created, only its owner has access, regardless of the umask.
///
/// # Errors
///
/// The error of opening the file or of changing its permissions.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(FILE_MODE).open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o777 != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Creates an empty file to which only its owner has access, and opens it for writing.
///
/// # Errors
///
/// The errors of [`open`].
pub fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Result of trying to take a lock file.
#[derive(Debug)]
pub enum LockAttempt {
    /// This process holds the lock until the file is closed. The file now contains the id of this process.
    Ours(File),
    /// Another process holds the lock. Contains the content of the file, which is the id of that process.
    By(String),
}

/// Takes a lock file, and creates it if necessary.
///
/// # Errors
///
/// The errors of [`open`], and the error of locking or writing the file.
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

/// Creates a directory. If it exists and other users have permissions, calls `is_empty_or_store`. If the result is
/// `true`, removes these permissions. Otherwise fails.
///
/// Returns whether other users had permissions.
///
/// # Errors
///
/// [`Error::Failed`] if the directory cannot be created or changed, or contains data that is not Baton's.
pub fn directory(path: &Path, is_empty_or_store: impl FnOnce() -> io::Result<bool>) -> Result<bool, Error> {
    let failed = |error: io::Error| storage_error(&error, "create the directory", path);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        // The umask may have removed permissions of the owner, too.
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    if !is_open(path).map_err(failed)? {
        return Ok(false);
    }
    if !is_empty_or_store().map_err(failed)? {
        return Err(Error::Failed {
            why: format!(
                "`{}` is accessible to other users and contains other data than Baton's. Name a directory for Baton \
                 only, e.g. a subdirectory, or remove the permissions of other users with `chmod go= {0}`",
                path.display()
            ),
        });
    }
    narrow(path)
}

/// Returns whether a directory contains a store or nothing.
pub(crate) fn is_empty_or_store(path: &Path) -> io::Result<bool> {
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
    Ok(std::fs::metadata(path)?.permissions().mode() & GROUP_AND_OTHERS != 0)
}

/// Removes the permissions of other users from a file or directory, if it exists. Returns whether there were any.
///
/// # Errors
///
/// [`Error::Failed`] if they cannot be removed.
pub fn narrow(path: &Path) -> Result<bool, Error> {
    let failed = |error: io::Error| storage_error(&error, "read the permissions of", path);
    let mode = match std::fs::metadata(path) {
        Ok(found) => found.permissions().mode() & 0o7777,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    if mode & GROUP_AND_OTHERS == 0 {
        return Ok(false);
    }
    let narrowed = Permissions::from_mode(mode & !GROUP_AND_OTHERS);
    std::fs::set_permissions(path, narrowed).map_err(|error| Error::Failed {
        why: format!(
            "`{}` is accessible to other users (mode {mode:03o}), and its permissions cannot be changed: {error}. Make \
             this process its owner, or name a directory that the process can create, e.g. a subdirectory",
            path.display()
        ),
    })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_directory_with_other_data_is_not_changed() {
        let directory = tempfile::tempdir().unwrap();
        let shared = directory.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        std::fs::write(shared.join("letter"), "").unwrap();
        let error = super::directory(&shared, || is_empty_or_store(&shared)).unwrap_err().to_string();
        assert!(error.contains("contains other data") && error.contains("subdirectory"), "{error}");
        assert_eq!(std::fs::metadata(&shared).unwrap().permissions().mode() & 0o7777, 0o1777);
    }
}
