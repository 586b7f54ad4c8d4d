//! Archives: copies of a store in another directory or in a bucket, from which the store can be restored to any
//! instant. Backups, continuous shipping by a running service, and standbys that follow a service share one format.
//! `docs/adr/0032-backup.md` gives the reasons.
//!
//! This module owns the files of an archive, and a data directory made from an archive until it is a complete store. It
//! never writes to the store that is copied.

mod address;
mod backup;
mod chunks;
mod copy;
mod error;
pub(crate) mod holds;
mod layout;
mod names;
mod opened;
mod pieces;
mod place;
mod read;
pub(crate) mod request;
mod sealed;
mod ship;
pub(crate) mod shipping;
pub(crate) mod source;
mod standby;
mod tail;

pub use address::ArchiveAddress;
pub(crate) use backup::run as back_up;
pub use backup::{BackupOptions, BackupReport, BaseReport};
pub(crate) use copy::RESTORED;
pub use copy::{RestoreOptions, Restored, restore};
pub use error::ArchiveError;
#[doc(hidden)]
pub use place::memory;
pub use read::{EpochReport, verify};
pub(crate) use sealed::read_sealed;
pub use shipping::{ShipStanding, ShipTo};
pub use standby::{Followed, Promotion, Standby, StandbyOptions, promote};

/// Progress of a long copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Number of key-value pairs of a base (a snapshot of the store) that were processed so far.
    pub pairs: u64,
    /// Total number of pairs of the base.
    pub pairs_in_all: u64,
    /// Bytes of the processed pairs.
    pub bytes: u64,
}
