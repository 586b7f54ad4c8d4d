//! Addresses of archives as users write them, and the distinction between directories and buckets.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Beginning of the address of a bucket.
const BUCKET: &str = "s3://";

/// Address of an archive: a directory, or `s3://BUCKET/PREFIX`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArchiveAddress(PathBuf);

/// Location that an address refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressKind<'a> {
    Directory(&'a Path),
    Bucket {
        bucket: &'a str,
        /// Prefix without leading and trailing slashes; may be empty.
        prefix: &'a str,
    },
}

impl ArchiveAddress {
    /// Returns the location, or an error message if the address is invalid.
    pub(crate) fn kind(&self) -> Result<AddressKind<'_>, String> {
        let Some(named) = self.0.to_str().and_then(|text| text.strip_prefix(BUCKET)) else {
            return Ok(AddressKind::Directory(&self.0));
        };
        let (bucket, prefix) = named.split_once('/').unwrap_or((named, ""));
        let prefix = prefix.trim_matches('/');
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if bucket.is_empty() || !(prefix.is_empty() || prefix.split('/').all(is_plain)) {
            return Err(format!("`{self}` does not name a bucket: expected `s3://BUCKET/PREFIX`"));
        }
        Ok(AddressKind::Bucket { bucket, prefix })
    }

    /// Returns whether this is the address of a bucket.
    pub fn is_bucket(&self) -> bool {
        self.0.to_str().is_some_and(|text| text.starts_with(BUCKET))
    }

    /// Returns the address with an absolute path, which is valid in every working directory.
    pub(crate) fn absolute(&self) -> Self {
        match self.kind() {
            Ok(AddressKind::Bucket { bucket, prefix }) => {
                let text = format!("{BUCKET}{bucket}/{prefix}");
                Self(text.trim_end_matches('/').into())
            }
            Ok(AddressKind::Directory(path)) => Self(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
            Err(_) => self.clone(),
        }
    }

    /// Returns the address for display.
    pub fn display(&self) -> impl fmt::Display {
        self.0.display()
    }
}

impl fmt::Display for ArchiveAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl PartialEq for ArchiveAddress {
    fn eq(&self, other: &Self) -> bool {
        // `Path` treats `s3://a` (a bucket) and `s3:/a` (a directory) as equal.
        self.is_bucket() == other.is_bucket() && self.0 == other.0
    }
}

impl Eq for ArchiveAddress {}

impl From<PathBuf> for ArchiveAddress {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl From<&PathBuf> for ArchiveAddress {
    fn from(path: &PathBuf) -> Self {
        Self(path.clone())
    }
}

impl From<&Path> for ArchiveAddress {
    fn from(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl From<OsString> for ArchiveAddress {
    fn from(text: OsString) -> Self {
        Self(text.into())
    }
}

impl From<&str> for ArchiveAddress {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_or_a_directory_and_normalized() {
        let bucket = |text: &str| match ArchiveAddress::from(text).kind() {
            Ok(AddressKind::Bucket { bucket, prefix }) => Some((bucket.to_owned(), prefix.to_owned())),
            Ok(AddressKind::Directory(_)) | Err(_) => None,
        };
        assert_eq!(bucket("s3://b"), Some(("b".to_owned(), String::new())));
        assert_eq!(bucket("s3://b/"), Some(("b".to_owned(), String::new())));
        assert_eq!(bucket("s3://b/p/q/"), Some(("b".to_owned(), "p/q".to_owned())));
        for wrong in ["s3://", "s3:///p", "s3://b/p//q", "s3://b/../q"] {
            let message = ArchiveAddress::from(wrong).kind().unwrap_err();
            assert!(message.contains("expected `s3://BUCKET/PREFIX`"), "{message}");
        }
        for path in ["s3", "s3:/b", "./s3://b", "/mnt/b"] {
            assert!(matches!(ArchiveAddress::from(path).kind(), Ok(AddressKind::Directory(_))), "{path}");
            assert!(!ArchiveAddress::from(path).is_bucket());
        }
        let form = |text: &str| ArchiveAddress::from(text).absolute();
        assert_eq!(form("s3://b/p/"), form("s3://b/p"));
        assert_eq!(form("s3://b/").to_string(), "s3://b");
        assert_ne!(form("s3://b"), ArchiveAddress::from("s3:/b"));
        assert!(form("b").to_string().starts_with('/'));
    }
}
