//! The location of an archive, a directory or a bucket, behind one small interface. Owns no file names.

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

/// Tag of a version of a file, by which its location detects changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileTag(pub(crate) String);

/// A complete file.
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
    /// Always.
    Always,
    /// Only if no file has this name.
    Absent,
    /// Only if the file has not changed.
    Unchanged(&'a FileTag),
}

/// Result of a put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PutAnswer {
    Done(FileTag),
    /// The condition does not hold. The existing file may have been written by this very put, if it was sent twice.
    Otherwise,
    /// The outcome is unknown, because there was no response.
    Unknown {
        why: String,
    },
}

/// Intervals of writing and watching a location.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intervals {
    /// Interval at which new data is shipped.
    pub(crate) every: Duration,
    /// Interval of the heartbeats written if there is no new data.
    pub(crate) heartbeat: Duration,
    /// Time that a new writer watches for another one.
    pub(crate) watch: Duration,
}

/// Interface of an archive's location. Names contain slashes. A file is written atomically and durably.
pub(crate) trait ArchivePlace: fmt::Debug + Send + Sync {
    /// Returns the directory, in which files can be appended to and locked, or `None` for a bucket.
    fn directory(&self) -> Option<&Path> {
        None
    }

    fn intervals(&self) -> Intervals;

    /// Returns a name for messages.
    fn shown(&self, name: &str) -> String;

    /// Creates the location if necessary. Refuses a location with other content.
    fn prepare(&self) -> Result<(), ArchiveError>;

    /// Returns whether the location has any content.
    fn is_there(&self) -> Result<bool, ArchiveError>;

    /// Returns the direct entries of a folder by name, or nothing if it does not exist. The folder `""` is the archive.
    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, ArchiveError>;

    fn read(&self, name: &str) -> Result<Option<StoredFile>, ArchiveError>;

    /// Reads a file between two offsets, or to its end.
    fn read_part(&self, name: &str, from: u64, to: u64) -> Result<Option<FilePart>, ArchiveError> {
        let part = |StoredFile { bytes, .. }: StoredFile| {
            let within = |offset| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let length = bytes.len() as u64;
            FilePart { bytes: bytes.slice(within(from)..within(to).max(within(from))), length }
        };
        Ok(self.read(name)?.map(part))
    }

    /// Puts a file. A directory ignores the condition, because its writer holds a lock.
    fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> Result<PutAnswer, ArchiveError>;

    /// Puts a file that any writer may put at any time, because its name is the digest of its content. It is durable
    /// after [`sync`](Self::sync).
    fn put_chunk(&self, folder: &str, name: &str, bytes: &Bytes) -> Result<(), ArchiveError>;

    fn sync(&self, _folder: &str) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Creates an epoch with its owner file. Only one of several callers succeeds.
    fn claim(&self, folder: &str, owner: &str, bytes: &Bytes) -> Result<PutAnswer, ArchiveError>;

    fn is_claimed(&self, folder: &str, owner: &str) -> Result<bool, ArchiveError>;

    /// Removes a file if it exists.
    fn remove(&self, name: &str) -> Result<(), ArchiveError>;
}
