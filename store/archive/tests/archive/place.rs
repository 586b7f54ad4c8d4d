//! An archive of a test in a directory or a bucket, and ways to manipulate it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_store_archive::ArchiveAddress;
use baton_store_archive::memory::MemoryBucket;
use tempfile::TempDir;

use crate::support;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Bucket,
}

pub(crate) enum Place {
    Directory(PathBuf),
    /// A directory that is deleted at the end of the test.
    Copied(TempDir),
    Bucket(String, Arc<MemoryBucket>),
}

impl Place {
    /// Creates an empty location. For a directory, only chooses its name: the writer creates it.
    pub(crate) fn new(kind: Kind, scratch: &Path, name: &str) -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        match kind {
            Kind::Directory => Self::Directory(scratch.join(name)),
            Kind::Bucket => {
                let bucket = format!("bucket-{}", MADE.fetch_add(1, Ordering::SeqCst));
                Self::Bucket(format!("s3://{bucket}/of/a-test"), MemoryBucket::make(&bucket))
            }
        }
    }

    /// Copies the archive to another location.
    pub(crate) fn copy(&self) -> Self {
        let scratch = TempDir::new().unwrap();
        match self.place() {
            Ok(path) => {
                support::copy_directory(path, scratch.path());
                Self::Copied(scratch)
            }
            Err(bucket) => {
                let copy = Self::new(Kind::Bucket, scratch.path(), "");
                copy.bucket().copy_from(bucket);
                copy
            }
        }
    }

    fn place(&self) -> Result<&Path, &MemoryBucket> {
        match self {
            Self::Directory(path) => Ok(path),
            Self::Copied(scratch) => Ok(scratch.path()),
            Self::Bucket(_, bucket) => Err(bucket),
        }
    }

    pub(crate) fn bucket(&self) -> &MemoryBucket {
        self.place().unwrap_err()
    }

    /// Returns the files by their names within the archive.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        match self.place() {
            Ok(path) => {
                let name = |file: &Path| file.strip_prefix(path).unwrap().to_str().unwrap().to_owned();
                files(path).iter().map(|file| (name(file), fs::read(file).unwrap())).collect()
            }
            Err(bucket) => {
                let name = |name: &str| name.strip_prefix("of/a-test/").unwrap().to_owned();
                bucket.all().into_iter().map(|(path, bytes)| (name(&path), bytes)).collect()
            }
        }
    }

    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        match self.place() {
            Ok(path) => support::change(&path.join(name), change),
            Err(bucket) => bucket.change(&format!("of/a-test/{name}"), change),
        }
    }

    /// Makes the archive unavailable while the future runs.
    pub(crate) async fn without<F: Future<Output = ()>>(&self, meanwhile: impl FnOnce() -> F) {
        match self.place() {
            Ok(path) => {
                let elsewhere = path.with_extension("elsewhere");
                fs::rename(path, &elsewhere).unwrap();
                meanwhile().await;
                fs::rename(elsewhere, path).unwrap();
            }
            Err(bucket) => {
                let kept = MemoryBucket::default();
                kept.copy_from(bucket);
                bucket.copy_from(&MemoryBucket::default());
                meanwhile().await;
                bucket.copy_from(&kept);
            }
        }
    }
}

impl From<&Place> for ArchiveAddress {
    fn from(place: &Place) -> Self {
        match place {
            Place::Directory(path) => path.into(),
            Place::Copied(scratch) => scratch.path().into(),
            Place::Bucket(address, _) => address.as_str().into(),
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}
