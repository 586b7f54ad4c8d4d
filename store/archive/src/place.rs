//! Interface of an archive's location, which is a directory or a bucket.

pub(super) mod directory;
#[doc(hidden)]
pub mod memory;
#[cfg(feature = "s3")]
pub(super) mod s3;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use super::ArchiveError;

/// Version of a file. Locations use it to detect that a file was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileTag(pub(crate) String);

/// Content of a file, with its version.
#[derive(Debug, Clone)]
pub(crate) struct StoredFile {
    pub(crate) bytes: Bytes,
    pub(crate) tag: FileTag,
}

/// A part of a file.
pub(crate) struct FilePart {
    pub(crate) bytes: Bytes,
    /// Length of the whole file.
    pub(crate) length: u64,
}

/// Entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub(crate) name: String,
    /// Size of a file, or `None` for a folder.
    pub(crate) bytes: Option<u64>,
}

/// Condition of a put.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PutWhen<'a> {
    /// The file is always put.
    Always,
    /// The file is put only if no file has this name.
    Absent,
    /// The file is put only if it still has this version.
    Unchanged(&'a FileTag),
}

/// Result of a put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PutAnswer {
    Done(FileTag),
    /// The condition does not hold. If this put was sent twice, the existing file may be the one written by the first
    /// attempt.
    Otherwise,
    /// The outcome is unknown, because there was no response.
    Unknown {
        why: String,
    },
}

/// Intervals at which a location is written and watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intervals {
    /// Interval at which new data is copied to the archive.
    pub(crate) every: Duration,
    /// Interval at which `NEWEST` is updated if there is no new data.
    pub(crate) heartbeat: Duration,
    /// Time for which a new writer watches the archive, to find out whether another process is writing it.
    pub(crate) watch: Duration,
}

/// Interface of the location of an archive. Names of files contain slashes. A file is written atomically and durably.
pub(crate) trait ArchivePlace: fmt::Debug + Send + Sync {
    /// Returns the directory, in which files can be appended to and locked. Returns `None` for a bucket.
    fn directory(&self) -> Option<&Path> {
        None
    }

    fn intervals(&self) -> Intervals;

    /// Returns the full name of a file, for messages.
    fn shown(&self, name: &str) -> String;

    /// Creates the location if necessary. Fails if it has content that is not an archive.
    fn prepare(&self) -> Result<(), ArchiveError>;

    /// Returns whether the location has any content.
    fn is_there(&self) -> Result<bool, ArchiveError>;

    /// Returns the direct entries of a folder, sorted by name. Returns no entries if the folder does not exist. The
    /// folder `""` is the archive itself.
    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, ArchiveError>;

    fn read(&self, name: &str) -> Result<Option<StoredFile>, ArchiveError>;

    /// Reads a file from one offset to another, or to its end if that comes first.
    fn read_part(&self, name: &str, from: u64, to: u64) -> Result<Option<FilePart>, ArchiveError> {
        let part = |StoredFile { bytes, .. }: StoredFile| {
            let within = |offset| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let length = bytes.len() as u64;
            FilePart { bytes: bytes.slice(within(from)..within(to).max(within(from))), length }
        };
        Ok(self.read(name)?.map(part))
    }

    /// Puts a file. A directory ignores the condition, because its only writer holds a lock.
    fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> Result<PutAnswer, ArchiveError>;

    /// Puts a file whose name is the digest of its content, so that any writer may put it at any time. The file is
    /// durable after [`sync`](Self::sync).
    fn put_chunk(&self, folder: &str, name: &str, bytes: &Bytes) -> Result<(), ArchiveError>;

    fn sync(&self, _folder: &str) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Creates an epoch by putting its owner file. If several processes try, only one succeeds.
    fn claim(&self, folder: &str, owner: &str, bytes: &Bytes) -> Result<PutAnswer, ArchiveError>;

    fn is_claimed(&self, folder: &str, owner: &str) -> Result<bool, ArchiveError>;

    /// Removes a file if it exists.
    fn remove(&self, name: &str) -> Result<(), ArchiveError>;
}
