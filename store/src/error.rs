//! Why a call did not do what was asked, and whether anything was written.

use std::time::Duration;

/// Why a call did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was written. Asking again can help.
    #[error("not applied: {why}")]
    NotApplied {
        /// What stood in the way.
        why: String,
        /// How long to wait first, where the engine knows.
        retry_after: Option<Duration>,
    },
    /// The disk has not enough room for anything but what deletes. Nothing was written. Asking again helps once there is room.
    #[error("the disk of the store is full: {free} bytes are free, and {least} are needed to write")]
    Full {
        /// Bytes that are free.
        free: u64,
        /// Bytes that must be free.
        least: u64,
    },
    /// It may have been written, or not, or may still be.
    #[error("outcome unknown: {why}")]
    Unknown {
        /// What was lost.
        why: String,
    },
    /// A body or part is larger than the engine can take. Nothing was written.
    #[error("{found} bytes where at most {max} are allowed")]
    TooLarge {
        /// The limit.
        max: usize,
        /// The size given.
        found: usize,
    },
    /// The page token is not one that this store gave. Nothing was read.
    #[error("the page token is not one of this store's")]
    InvalidPage,
    /// Stored bytes are not what they should be. Nothing was written, and nothing was repaired.
    #[error("corrupt: {what}")]
    Corrupt {
        /// What is wrong, and where.
        what: String,
    },
    /// Another process has the store open, which only one may. It was not opened.
    #[error("in use by {by}; stop that process first, or use another directory")]
    InUse {
        /// Who has it.
        by: String,
    },
    /// The store can no longer keep its promise and takes no more work; the process should stop.
    #[error("the store has failed and must be reopened: {why}")]
    Failed {
        /// The first cause.
        why: String,
    },
}
