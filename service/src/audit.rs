//! The audit log: an entry for every call that changes something, durable before the change begins, each with the hash
//! of the previous one. This module owns the chain, its files and their verification. `access/table.rs` lists the calls
//! that change something, and `http/audit.rs` defines what an entry contains.

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
pub use verify::{ChainError, VerifiedChain, verify};
