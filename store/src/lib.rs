//! The storage interface of Baton: one narrow trait, and the contract that every implementation (*engine*) fulfills.
//!
//! The store contains bytes, versions and indexes. It has no workflow rules and never parses a body. It stores:
//!
//! * A *head* for each workflow id: a small record, replaced by compare-and-swap.
//! * *Parts*: immutable pieces of a run that are too large for its head.
//! * *Marks*: small records of a workflow id, independent of its runs.
//! * Indexes of heads, which may lag behind the heads.
//!
//! There are three engines, and all of them pass `conformance`. [`memory::Memory`] is the reference, `store-embedded`
//! is for production on one machine, and `store-dynamodb` is for several nodes. [`fault::FaultStore`] wraps any of them
//! and injects faults that occur in real stores.

#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
mod error;
pub mod fault;
mod head;
mod limits;
pub mod listing;
pub mod memory;

pub use contract::Store;
pub use error::Error;
pub use head::{Cas, Due, Expect, Head, HeadKey, MARK_BYTES_MAX, Mark, PartKey, Row, RowReason, RunId, UnixMs};
pub use limits::{HEAD_HARD_MIN, LATENCY_BOUNDS_MICROS, LatencyHistogram, Limits, PART_MAX_MIN, Stats};
pub use listing::{Count, ListPage, ListQuery, Listed, Order, PageToken};
