//! Archives: copies of a store in another directory or a bucket, which it is restored from, to any instant. One format for backups, for
//! what a running service ships all the time, and for standbys that follow it. `docs/adr/0032-backup.md` says why.
//!
//! Owns the place of an archive, and a data directory until it is a store. Never writes to the store that is copied.

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

/// How far something is that takes a while.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Pairs of a base that were seen to.
    pub pairs: u64,
    /// How many there are.
    pub pairs_in_all: u64,
    /// Their bytes.
    pub bytes: u64,
}
