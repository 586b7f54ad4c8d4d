//! The place of an archive: a directory or a bucket, behind one small interface; and what holds of both. A put whose answer
//! was lost is settled here, by reading what is there. Owns no name of a file.

mod directory;
#[doc(hidden)]
pub mod memory;
#[cfg(feature = "s3")]
mod s3;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::address::{AddressKind, ArchiveAddress};
use super::sealed::{seal, unseal};
use super::{ArchiveError, sealed};
use crate::faults::Faults;

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

/// An archive that can be read and written.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    pub(crate) place: Arc<dyn ArchivePlace>,
    pub(crate) address: ArchiveAddress,
    pub(crate) faults: Arc<Faults>,
}

impl Archive {
    pub(crate) fn open(address: &ArchiveAddress, faults: &Arc<Faults>) -> Result<Self, ArchiveError> {
        let place: Arc<dyn ArchivePlace> = match address.kind()? {
            AddressKind::Directory(path) => Arc::new(directory::DirectoryPlace {
                path: path.to_owned(),
                files: sealed::Files { faults: Arc::clone(faults) },
            }),
            AddressKind::Bucket { bucket, prefix } => match memory::find(bucket, prefix) {
                Some(place) => Arc::new(place),
                None => open_bucket(bucket, prefix)?,
            },
        };
        Ok(Self { place, address: address.clone(), faults: Arc::clone(faults) })
    }

    /// A name, for people.
    pub(crate) fn shown(&self, name: &str) -> String {
        self.place.shown(name)
    }

    pub(crate) fn is_bucket(&self) -> bool {
        self.place.directory().is_none()
    }

    pub(crate) fn point(&self, name: &str) -> Result<(), ArchiveError> {
        let failed = |error: std::io::Error| ArchiveError::Away { why: format!("cannot write `{self}`: {error}") };
        self.faults.point(name).map_err(failed)
    }

    /// Failures that a test asked for; of directories the files have them.
    fn may_put(&self, length: usize) -> Result<(), ArchiveError> {
        if !self.is_bucket() {
            return Ok(());
        }
        let failed = |error: std::io::Error| ArchiveError::Away { why: format!("cannot write `{self}`: {error}") };
        self.faults.before_write(length).map_err(|(_, error)| failed(error))?;
        self.faults.before_sync().map_err(failed)
    }

    /// Puts a file; `None` where the condition does not hold, and what is there is not the same.
    pub(crate) fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> Result<Option<FileTag>, ArchiveError> {
        self.may_put(bytes.len())?;
        let answer = self.place.put(name, bytes, when)?;
        self.settle(answer, name, bytes)
    }

    /// What became of a put: what is there says so where the answer does not.
    fn settle(&self, answer: PutAnswer, name: &str, bytes: &Bytes) -> Result<Option<FileTag>, ArchiveError> {
        if let PutAnswer::Done(tag) = answer {
            return Ok(Some(tag));
        }
        let found = self.place.read(name)?.filter(|found| found.bytes == *bytes);
        match (found, answer) {
            (Some(found), _) => Ok(Some(found.tag)),
            (None, PutAnswer::Unknown { why }) => Err(ArchiveError::Away { why }),
            (None, PutAnswer::Done(_) | PutAnswer::Otherwise) => Ok(None),
        }
    }

    /// Puts a file that is called by what is in it.
    pub(crate) fn put_chunk(&self, folder: &str, name: &str, bytes: &Bytes) -> Result<(), ArchiveError> {
        self.may_put(bytes.len())?;
        if self.is_bucket() {
            self.point("archive: chunk")?;
        }
        self.place.put_chunk(folder, name, bytes)
    }

    /// Makes an epoch; `false` where another has it.
    pub(crate) fn claim(&self, folder: &str, owner: &str, value: &impl Serialize) -> Result<bool, ArchiveError> {
        let bytes = seal(owner, value)?;
        self.may_put(bytes.len())?;
        let answer = self.place.claim(folder, owner, &bytes)?;
        Ok(self.settle(answer, &format!("{folder}/{owner}"), &bytes)?.is_some())
    }

    /// What a sealed file says.
    pub(crate) fn read_sealed<T: DeserializeOwned>(
        &self,
        folder: &str,
        name: &str,
    ) -> Result<Option<(T, FileTag)>, ArchiveError> {
        let path = format!("{folder}/{name}");
        let Some(StoredFile { bytes, tag }) = self.place.read(&path)? else { return Ok(None) };
        Ok(Some((unseal(name, &self.shown(&path), &bytes)?, tag)))
    }

    /// Replaces a sealed file that is as it was, or not there as it was not; `None` where it is another.
    pub(crate) fn replace_sealed(
        &self,
        folder: &str,
        name: &str,
        value: &impl Serialize,
        before: Option<&FileTag>,
    ) -> Result<Option<FileTag>, ArchiveError> {
        let when = before.map_or(PutWhen::Absent, PutWhen::Unchanged);
        self.put(&format!("{folder}/{name}"), &seal(name, value)?, when)
    }
}

impl fmt::Display for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

#[cfg(feature = "s3")]
fn open_bucket(bucket: &str, prefix: &str) -> Result<Arc<dyn ArchivePlace>, ArchiveError> {
    Ok(Arc::new(s3::open(bucket, prefix)?))
}

#[cfg(not(feature = "s3"))]
fn open_bucket(bucket: &str, prefix: &str) -> Result<Arc<dyn ArchivePlace>, ArchiveError> {
    Err(ArchiveError::Refused {
        why: format!(
            "`s3://{bucket}/{prefix}`: this build of Baton cannot reach S3. The container image can, and so can what is built with \
             `--features s3`"
        ),
    })
}
