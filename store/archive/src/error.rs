//! Errors of operations on archives.

use store::{Error, UnixMs};

use super::ArchiveAddress;

/// Error of an operation on an archive. None of them affects acknowledged commits.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file cannot be read or written now, e.g. because the disk is full or the directory is not mounted. A retry can
    /// help.
    #[error("{why}")]
    Away {
        /// The file, and the error of the system.
        why: String,
    },
    /// Existing data is truncated, was changed, or has an unknown version.
    #[error("{what}")]
    Damaged {
        /// The damage and its location.
        what: String,
    },
    /// The operation is not allowed with this archive or directory.
    #[error("{why}")]
    Refused {
        /// Reason, and what to do.
        why: String,
    },
    /// Another store has taken over, and this one must not continue.
    #[error("{why}")]
    TakenOver {
        /// Where this is recorded.
        why: String,
    },
    /// The archive does not reach back to the requested instant.
    #[error("the archive `{archive}` does not reach back that far: its first base is from {first} ms since 1970")]
    TooEarly {
        /// The archive.
        archive: ArchiveAddress,
        /// Approximate first instant that can be restored, in milliseconds since 1970.
        first: UnixMs,
    },
    /// The log no longer contains the batches that follow the end of the archive.
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
