//! What Baton needs from a database, as one narrow trait, and what every engine behind it promises.
//!
//! The store owns bytes, versions and indexes. It owns no workflow rule and never parses a body. For each workflow id
//! there is one small *head*, replaced by compare-and-swap; everything else is an immutable *part* that a head refers
//! to, or an index that may lag.
//!
//! Engines: [`memory::Memory`] is the reference; `store-embedded` is production on one machine, `store-dynamodb` on many.
//! All of them pass `conformance`. [`fault::FaultStore`] wraps any of them and injects what real stores do on bad days.

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
pub use limits::{HEAD_HARD_MIN, Limits, PART_MAX_MIN, Stats, TOOK_MICROS, Took};
pub use listing::{Count, ListPage, ListQuery, Listed, Order, PageToken};
