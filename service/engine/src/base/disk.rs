//! Disk reserve: free disk space that is reserved for open runs. Once free space falls below the reserve, new runs are
//! refused, so that open runs can finish.

pub(crate) mod room;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use store::Store;

use crate::Refusal;
use crate::base::disk::room::DiskRoom;

/// Check of the disk reserve when a run starts.
pub(crate) struct DiskReserve {
    store: Arc<dyn Store>,
    reserve: u64,
    /// Free bytes without which the store accepts no writes.
    least: u64,
    /// True if the most recent log line about the disk reported that it was low.
    was_low: AtomicBool,
}

impl DiskReserve {
    pub(crate) fn new(store: Arc<dyn Store>, reserve: u64) -> Self {
        let least = store.stats().disk_least;
        Self { store, reserve, least, was_low: AtomicBool::new(false) }
    }

    /// Returns the free space; `None` if the store has no disk or the system does not report it.
    pub(crate) fn room(&self) -> Option<DiskRoom> {
        let room = DiskRoom { free: self.store.disk_free()?, reserve: self.reserve, least: self.least };
        if room.is_low() != self.was_low.swap(room.is_low(), Ordering::Relaxed) {
            if room.is_low() {
                tracing::error!("{room}: new runs are refused until space is free");
            } else {
                tracing::info!("{room}: new runs are accepted again");
            }
        }
        Some(room)
    }

    /// Fails if the disk has no space for a new run. Not called if an open run waits for the start, for example of a
    /// child.
    ///
    /// # Errors
    ///
    /// [`Refusal::InsufficientStorage`], or [`Refusal::DiskFull`].
    pub(crate) fn must_have_room(&self) -> Result<(), Refusal> {
        match self.room() {
            Some(room) if room.is_full() => Err(Refusal::DiskFull { free: room.free, least: room.least }),
            Some(room) if room.is_low() => Err(Refusal::InsufficientStorage { room }),
            _ => Ok(()),
        }
    }
}
