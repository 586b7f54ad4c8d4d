//! Why something that concerns an archive was not done.

use store::{Error, UnixMs};

use super::ArchiveAddress;

/// Why something that concerns an archive was not done. Nothing that is acknowledged is touched by any of them.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file cannot be read or written now: the disk is full, the directory is not mounted. Trying again can help.
    #[error("{why}")]
    Away {
        /// Which, and what the system said.
        why: String,
    },
    /// What is there is cut short, was changed, or is of a version that is not known here.
    #[error("{what}")]
    Damaged {
        /// What is wrong, and where.
        what: String,
    },
    /// What was asked for must not be done with this archive, or this directory.
    #[error("{why}")]
    Refused {
        /// Why, and what to do.
        why: String,
    },
    /// Another store has taken over: this one must not go on.
    #[error("{why}")]
    TakenOver {
        /// Where that stands.
        why: String,
    },
    /// The archive does not go back so far.
    #[error("the archive `{archive}` does not go back so far: its first base is of {first} ms since 1970")]
    TooEarly {
        /// Which.
        archive: ArchiveAddress,
        /// The first instant that can be restored, about, in milliseconds since 1970.
        first: UnixMs,
    },
    /// The log does not have any more what would go on where the archive ends.
    #[error("the log has no batch {batch} any more")]
    Gap {
        /// The first batch that is missing.
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
