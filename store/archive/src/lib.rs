//! Archives: copies of a store in another directory or in a bucket, from which the store can be restored to any
//! instant. Backups, continuous shipping by a running service, and standbys that follow a service share one format.
//! `docs/adr/0032-backup.md` gives the reasons.
//!
//! This crate writes the files of an archive, and the files of a data directory that is not a complete store yet. In
//! the directory of an open store it writes only `SHIPPED`, `RESTORED`, and the files of backup requests. All other
//! files of a store are only read.

mod address;
mod backup;
mod chunks;
mod copy;
mod error;
mod layout;
mod names;
mod opened;
mod pieces;
mod place;
mod read;
mod request;
mod sealed;
mod ship;
mod shipping;
mod standby;
mod tail;

pub use address::ArchiveAddress;
pub use backup::{BackupOptions, BackupReport, BaseReport};
pub use copy::{RestoreOptions, Restored, forget_restored, restore, restored};
pub use error::ArchiveError;
#[doc(hidden)]
pub use place::memory;
pub use read::{EpochReport, verify};
pub use request::{back_up, serve_backups};
pub use shipping::{ShipTo, Shipment, ShippingStatus, ship, shipped_to};
pub use standby::{Followed, Promotion, Standby, StandbyOptions, promote};

/// Number of the format ("form") of archives. Every file of an archive that is not a copy of another file records this
/// number in its first line. A build that does not know the number refuses to read the file. `docs/upgrading.md`
/// explains how to change a form.
pub const FORM: u32 = 1;

/// Progress of a long copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Number of key-value pairs of a base (a snapshot of the store) processed so far.
    pub pairs: u64,
    /// Total number of pairs of the base.
    pub pairs_in_all: u64,
    /// Bytes of the processed pairs.
    pub bytes: u64,
}
