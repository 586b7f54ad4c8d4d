//! An archive, opened by its address. If the response to a put was lost, this module reads the file to find out whether
//! the put took effect.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ArchiveError;
use super::address::{AddressKind, ArchiveAddress};
#[cfg(feature = "s3")]
use super::place::s3;
use super::place::{ArchivePlace, FileTag, PutAnswer, PutWhen, StoredFile, directory, memory};
use super::sealed::{Files, seal, unseal};
use store_embedded::faults::Faults;

/// An archive that can be read and written.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    pub(crate) place: Arc<dyn ArchivePlace>,
    pub(crate) address: ArchiveAddress,
    pub(crate) faults: Arc<Faults>,
}

impl Archive {
    pub(crate) fn open(address: &ArchiveAddress, faults: &Arc<Faults>) -> Result<Self, ArchiveError> {
        let place: Arc<dyn ArchivePlace> = match address.kind().map_err(|why| ArchiveError::Refused { why })? {
            AddressKind::Directory(path) => Arc::new(directory::DirectoryPlace {
                path: path.to_owned(),
                files: Files { faults: Arc::clone(faults) },
            }),
            AddressKind::Bucket { bucket, prefix } => match memory::find(bucket, prefix) {
                Some(place) => Arc::new(place),
                None => open_bucket(bucket, prefix)?,
            },
        };
        Ok(Self { place, address: address.clone(), faults: Arc::clone(faults) })
    }

    /// Returns the full name of a file, for messages.
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

    /// Applies faults that tests have injected, if the archive is in a bucket. For directories, `Files` does this.
    fn may_put(&self, length: usize) -> Result<(), ArchiveError> {
        if !self.is_bucket() {
            return Ok(());
        }
        let failed = |error: std::io::Error| ArchiveError::Away { why: format!("cannot write `{self}`: {error}") };
        self.faults.before_write(length).map_err(|(_, error)| failed(error))?;
        self.faults.before_sync().map_err(failed)
    }

    /// Puts a file. Returns `None` if the condition does not hold and the existing file has different content.
    pub(crate) fn put(&self, name: &str, bytes: &Bytes, when: PutWhen<'_>) -> Result<Option<FileTag>, ArchiveError> {
        self.may_put(bytes.len())?;
        let answer = self.place.put(name, bytes, when)?;
        self.settle(answer, name, bytes)
    }

    /// Returns the outcome of a put. If the response to the put does not show it, the existing file is read and
    /// compared.
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

    /// Puts a chunk: a file that is named by its digest.
    pub(crate) fn put_chunk(&self, folder: &str, name: &str, bytes: &Bytes) -> Result<(), ArchiveError> {
        self.may_put(bytes.len())?;
        if self.is_bucket() {
            self.point("archive: chunk")?;
        }
        self.place.put_chunk(folder, name, bytes)
    }

    /// Creates an epoch. Returns `false` if another store has created it first.
    pub(crate) fn claim(&self, folder: &str, owner: &str, value: &impl Serialize) -> Result<bool, ArchiveError> {
        let bytes = seal(owner, value)?;
        self.may_put(bytes.len())?;
        let answer = self.place.claim(folder, owner, &bytes)?;
        Ok(self.settle(answer, &format!("{folder}/{owner}"), &bytes)?.is_some())
    }

    /// Reads a file with a checksum, which `sealed.rs` defines.
    pub(crate) fn read_sealed<T: DeserializeOwned>(
        &self,
        folder: &str,
        name: &str,
    ) -> Result<Option<(T, FileTag)>, ArchiveError> {
        let path = format!("{folder}/{name}");
        let Some(StoredFile { bytes, tag }) = self.place.read(&path)? else { return Ok(None) };
        Ok(Some((unseal(name, &self.shown(&path), &bytes)?, tag)))
    }

    /// Replaces a file with a checksum if it has not changed since `before`, or, without `before`, if it does not
    /// exist. Otherwise returns `None`.
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
            "`s3://{bucket}/{prefix}`: this build of Baton has no support for S3. Use the container image, or build \
             with `--features s3`"
        ),
    })
}
