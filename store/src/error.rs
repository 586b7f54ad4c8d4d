//! Errors of a store. Each tells whether anything was written.

use std::time::Duration;

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was written. A retry can help.
    #[error("not applied: {why}")]
    NotApplied {
        /// Cause of the failure.
        why: String,
        /// Time to wait before the retry, if the engine knows it.
        retry_after: Option<Duration>,
    },
    /// The disk has too little space for anything except deletions. Nothing was written. A retry can succeed after
    /// space has been freed.
    #[error("the disk of the store is full: {free} bytes are free, and {least} are needed to write")]
    Full {
        /// Free bytes.
        free: u64,
        /// Bytes that must be free.
        least: u64,
    },
    /// The data may have been written, may not have been written, or may still be written later.
    #[error("outcome unknown: {why}")]
    Unknown {
        /// Cause of the failure.
        why: String,
    },
    /// A body or part exceeds the engine's limit. Nothing was written.
    #[error("{found} bytes exceed the limit of {max} bytes")]
    TooLarge {
        /// Maximum size.
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
        /// Description of the damage and its location.
        what: String,
    },
    /// Another process has the store open, and only one process at a time may open it. The store was not opened.
    #[error("in use by {by}; stop that process first, or use another directory")]
    InUse {
        /// Description of the other process.
        by: String,
    },
    /// The store can no longer guarantee its contract, and refuses all further calls. The process should stop.
    #[error("the store has failed and must be reopened: {why}")]
    Failed {
        /// First failure, which caused this state.
        why: String,
    },
}
