//! Errors of a store, which tell whether anything was written.

use std::time::Duration;

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was written. A retry can help.
    #[error("not applied: {why}")]
    NotApplied {
        /// Cause.
        why: String,
        /// Wait before the retry, if the engine knows it.
        retry_after: Option<Duration>,
    },
    /// The disk has too little space for anything except deletions. Nothing was written. A retry helps once there is
    /// space.
    #[error("the disk of the store is full: {free} bytes are free, and {least} are needed to write")]
    Full {
        /// Free bytes.
        free: u64,
        /// Bytes that must be free.
        least: u64,
    },
    /// The call may have been written, or not, or may still be written.
    #[error("outcome unknown: {why}")]
    Unknown {
        /// Cause.
        why: String,
    },
    /// A body or part exceeds the engine's limit. Nothing was written.
    #[error("{found} bytes exceed the limit of {max} bytes")]
    TooLarge {
        /// Limit.
        max: usize,
        /// Actual size.
        found: usize,
    },
    /// The page token was not created by this store for this query. Nothing was read.
    #[error("the page token was not created by this store for this query")]
    InvalidPage,
    /// Stored bytes are damaged. Nothing was written, and nothing was repaired.
    #[error("corrupt: {what}")]
    Corrupt {
        /// Damage and its location.
        what: String,
    },
    /// Another process has the store open, and only one may. The store was not opened.
    #[error("in use by {by}; stop that process first, or use another directory")]
    InUse {
        /// The other process.
        by: String,
    },
    /// The store can no longer guarantee its contract and accepts no more calls. The process should stop.
    #[error("the store has failed and must be reopened: {why}")]
    Failed {
        /// First cause.
        why: String,
    },
}
