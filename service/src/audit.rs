//! The audit log. Every call that changes something has an entry, which is durable before the change begins and
//! contains the hash of the previous entry. This module has the chain of entries, its files and their verification.
//! `access/table.rs` lists the calls that change something, and `http/audit.rs` defines the content of an entry.

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
