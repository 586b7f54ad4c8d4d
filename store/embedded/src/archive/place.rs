//! The place of an archive: a directory or a bucket, behind one small interface. Owns no name of a file.

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

/// One state of a file, by which the place knows whether it was changed since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileTag(pub(crate) String);

/// A file, whole.
#[derive(Debug, Clone)]
pub(crate) struct StoredFile {
    pub(crate) bytes: Bytes,
    pub(crate) tag: FileTag,
}

/// A part of a file.
pub(crate) struct FilePart {
    pub(crate) bytes: Bytes,
    /// Of the whole file.
    pub(crate) length: u64,
}

/// What is in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub(crate) name: String,
    /// Of a file; `None` for a folder.
    pub(crate) bytes: Option<u64>,
}

/// When a file may be put.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PutWhen<'a> {
    /// Whatever is there.
    Always,
    /// There is none of that name.
    Absent,
    /// It is as it was.
    Unchanged(&'a FileTag),
}

/// What became of a put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PutAnswer {
    Done(FileTag),
    /// There is something else; perhaps what this very put has written, which was sent twice.
    Otherwise,
    /// Nobody knows: the answer did not come.
    Unknown {
        why: String,
    },
}

/// How often a place is written and looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paces {
    /// How often what is new is shipped.
    pub(crate) every: Duration,
    /// How often it is told that nothing is new.
    pub(crate) beat: Duration,
    /// How long whoever comes looks whether another writes.
    pub(crate) watch: Duration,
}

/// What an archive needs of the place where it is. Names have slashes; what is put is there whole or not at all, and durable.
pub(crate) trait ArchivePlace: fmt::Debug + Send + Sync {
    /// Where files can be appended to and locked; `None` for a bucket.
    fn directory(&self) -> Option<&Path> {
        None
    }

    fn paces(&self) -> Paces;

    /// A name, for people.
    fn shown(&self, name: &str) -> String;

    /// Makes the place if need be; refuses one that holds other things.
    fn prepare(&self) -> Result<(), ArchiveError>;

    /// Whether anything is there.
    fn is_there(&self) -> Result<bool, ArchiveError>;

    /// What is directly in a folder, by name; nothing where there is none. The folder `""` is the archive.
    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, ArchiveError>;

    fn read(&self, name: &str) -> Result<Option<StoredFile>, ArchiveError>;

    /// From one offset up to another, or to the end.
    fn read_part(&self, name: &str, from: u64, to: u64) -> Result<Option<FilePart>, ArchiveError> {
        let part = |StoredFile { bytes, .. }: StoredFile| {
            let within = |offset| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let length = bytes.len() as u64;
            FilePart { bytes: bytes.slice(within(from)..within(to).max(within(from))), length }
        };
        Ok(self.read(name)?.map(part))
    }

    /// Puts a file; in a directory, whose writer has a lock, always.
    fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> Result<PutAnswer, ArchiveError>;

    /// Puts a file that may be put by anybody at any time: its name says what is in it. Durable after [`sync`](Self::sync).
    fn put_chunk(&self, folder: &str, name: &str, bytes: &Bytes) -> Result<(), ArchiveError>;

    fn sync(&self, _folder: &str) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Makes an epoch, with the file that says whose it is, which one of several can do.
    fn claim(&self, folder: &str, owner: &str, bytes: &Bytes) -> Result<PutAnswer, ArchiveError>;

    fn is_claimed(&self, folder: &str, owner: &str) -> Result<bool, ArchiveError>;

    /// Removes a file, if it is there.
    fn remove(&self, name: &str) -> Result<(), ArchiveError>;
}
