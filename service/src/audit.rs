//! The audit log: an entry of every call that changes something, durable before the change is begun, each with the hash of the
//! one before it. Owns the chain, its files and their checking; which calls change something stands in the table of calls
//! (`access/table.rs`), and what an entry says of a request is `http/audit.rs`'s.

mod chain;
mod files;
mod log;
mod read;
mod verify;
mod writer;

pub use chain::{Change, ChangeOutcome, Entry, EntryContent, GENESIS, Names};
pub use files::FILE_BYTES_MAX;
pub use log::{Announced, AuditCounts, AuditLog, Unwritten};
pub use read::{EntryPage, PAGE_BYTES_MAX, read_after};
pub use verify::{Misfit, VerifiedChain, verify};
