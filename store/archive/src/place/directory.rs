//! A directory as the location of an archive.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use super::{ArchivePlace, FilePart, FileTag, Intervals, ListedFile, PutAnswer, PutWhen, StoredFile};
use crate::ArchiveError;
use crate::names::{CHUNKS, LOG, OWNER};
use crate::sealed::Files;
use store_embedded::files::{storage_error, sync_directory};
use store_embedded::private;

/// Maximum size of a file that is read. Our choice: the largest value has 16 MiB, and a file can contain several
/// values.
const FILE_READ_MAX: u64 = 64 << 20;

/// Intervals for a directory. Our choice: at most a second of data may be lost when a machine fails. To leave a margin,
/// data is copied ten times per second.
const INTERVALS: Intervals =
    Intervals { every: Duration::from_millis(100), heartbeat: Duration::from_secs(1), watch: Duration::ZERO };

/// An archive in a directory.
#[derive(Debug)]
pub(crate) struct DirectoryPlace {
    pub(crate) path: PathBuf,
    pub(crate) files: Files,
}

impl DirectoryPlace {
    fn open(&self, name: &str) -> Result<Option<File>, ArchiveError> {
        let path = self.path.join(name);
        match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => Ok(Some(opened.map_err(|error| storage_error(&error, "read", &path))?)),
        }
    }
}

impl ArchivePlace for DirectoryPlace {
    fn directory(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn intervals(&self) -> Intervals {
        INTERVALS
    }

    fn shown(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn prepare(&self) -> Result<(), ArchiveError> {
        private::directory(&self.path, || is_archive_or_empty(&self.path))?;
        Ok(())
    }

    fn is_there(&self) -> Result<bool, ArchiveError> {
        Ok(self.path.is_dir())
    }

    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, ArchiveError> {
        let path = self.path.join(folder);
        let failed = |error: io::Error| storage_error(&error, "list the archive", &path);
        let mut found = Vec::new();
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_empty() => return Ok(found),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata.map_err(failed)?,
            };
            let bytes = (!metadata.is_dir()).then_some(metadata.len());
            found.extend(entry.file_name().into_string().ok().map(|name| ListedFile { name, bytes }));
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    fn read(&self, name: &str) -> Result<Option<StoredFile>, ArchiveError> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(FILE_READ_MAX).read_to_end(&mut bytes);
        read.map_err(|error| storage_error(&error, "read", &self.path.join(name)))?;
        Ok(Some(StoredFile { bytes: bytes.into(), tag: FileTag::default() }))
    }

    fn read_part(&self, name: &str, from: u64, to: u64) -> Result<Option<FilePart>, ArchiveError> {
        let failed = |error: io::Error| storage_error(&error, "read", &self.path.join(name));
        let Some(mut file) = self.open(name)? else { return Ok(None) };
        let length = file.metadata().map_err(failed)?.len();
        file.seek(SeekFrom::Start(from)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(to.saturating_sub(from)).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(FilePart { bytes: bytes.into(), length }))
    }

    fn put(&self, name: &str, bytes: &Bytes, _when: PutWhen<'_>) -> Result<PutAnswer, ArchiveError> {
        let path = self.path.join(name);
        let written = self.files.write_whole(&path, bytes);
        written.map_err(|error| storage_error(&error, "write", &path))?;
        Ok(PutAnswer::Done(FileTag::default()))
    }

    fn put_chunk(&self, folder: &str, name: &str, bytes: &Bytes) -> Result<(), ArchiveError> {
        let directory = self.path.join(folder);
        let failed = |error: io::Error| storage_error(&error, "write chunks in", &directory);
        let new = directory.join("new");
        let mut file = private::create(&new).map_err(failed)?;
        self.files.write(&mut file, bytes).map_err(failed)?;
        self.files.sync(&file).map_err(failed)?;
        self.files.faults.point("archive: chunk").map_err(failed)?;
        std::fs::rename(&new, directory.join(name)).map_err(failed)?;
        Ok(())
    }

    fn sync(&self, folder: &str) -> Result<(), ArchiveError> {
        let path = self.path.join(folder);
        Ok(sync_directory(&path).map_err(|error| storage_error(&error, "write", &path))?)
    }

    fn claim(&self, folder: &str, owner: &str, bytes: &Bytes) -> Result<PutAnswer, ArchiveError> {
        let directory = self.path.join(folder);
        let failed = |error: io::Error| storage_error(&error, "create an epoch in", &self.path);
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(PutAnswer::Otherwise),
            Err(error) => return Err(failed(error).into()),
        }
        sync_directory(&self.path).map_err(failed)?;
        for made in [CHUNKS, LOG] {
            private::directory(&directory.join(made), || Ok(true))?;
        }
        self.put(&format!("{folder}/{owner}"), bytes, PutWhen::Always)
    }

    fn is_claimed(&self, folder: &str, _owner: &str) -> Result<bool, ArchiveError> {
        let path = self.path.join(folder);
        Ok(path.try_exists().map_err(|error| storage_error(&error, "check for", &path))?)
    }

    fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        let path = self.path.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(storage_error(&error, "remove expired data from", &self.path).into())
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether a directory contains an archive or nothing.
fn is_archive_or_empty(root: &Path) -> io::Result<bool> {
    let mut is_empty = true;
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.path().join(OWNER).exists() {
            return Ok(true);
        }
        is_empty &= entry.file_name() == "lost+found";
    }
    Ok(is_empty)
}
