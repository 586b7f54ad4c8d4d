//! The database interface of Baton as one narrow trait, and the contract that every engine fulfills.
//!
//! The store owns bytes, versions and indexes. It contains no workflow rules and never parses a body. Each workflow id
//! has one small *head*, which is replaced by compare-and-swap. Everything else is an immutable *part* that a head
//! refers to, or an index that may lag.
//!
//! Engines: [`memory::Memory`] is the reference, `store-embedded` is for production on one machine, and
//! `store-dynamodb` on several. All of them pass `conformance`. [`fault::FaultStore`] wraps any of them and injects
//! faults that real stores have.

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
