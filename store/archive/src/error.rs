//! Errors of operations on archives.

use store::{Error, UnixMs};

use super::ArchiveAddress;

/// Error of an operation on an archive. Acknowledged commits are not affected.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file cannot be read or written now, for example because the disk is full or the directory is not mounted. A
    /// retry can help.
    #[error("{why}")]
    Away {
        /// Name of the file, and the error of the operating system.
        why: String,
    },
    /// A file is truncated, was changed, or has an unknown version.
    #[error("{what}")]
    Damaged {
        /// Description of the damage and its location.
        what: String,
    },
    /// The operation is not allowed with this archive or directory.
    #[error("{why}")]
    Refused {
        /// Reason, and what the user can do.
        why: String,
    },
    /// Another store has taken over the archive, so this store must not continue.
    #[error("{why}")]
    TakenOver {
        /// Description of the file that records this.
        why: String,
    },
    /// The archive begins after the requested instant.
    #[error("the archive `{archive}` does not reach back that far: its first base is from {first} ms since 1970")]
    TooEarly {
        /// Address of the archive.
        archive: ArchiveAddress,
        /// Approximate first instant that can be restored, in milliseconds since 1970.
        first: UnixMs,
    },
    /// The log no longer contains the batches that follow the last batch of the archive.
    #[error("the log no longer contains batch {batch}")]
    Gap {
        /// First missing batch.
        batch: u64,
    },
}

impl From<Error> for ArchiveError {
    fn from(error: Error) -> Self {
        match error {
            Error::Failed { why } => Self::Away { why },
            Error::Corrupt { what } => Self::Damaged { what },
            Error::InUse { .. } => Self::Refused { why: error.to_string() },
            Error::NotApplied { .. }
            | Error::Full { .. }
            | Error::Unknown { .. }
            | Error::TooLarge { .. }
            | Error::InvalidPage => Self::Away { why: error.to_string() },
        }
    }
}
