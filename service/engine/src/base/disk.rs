//! The reserve of the disk: what is kept free for runs that are open, so that they go on to their end while nothing new begins.

pub(crate) mod room;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use store::Store;

use crate::Refusal;
use crate::base::disk::room::DiskRoom;

/// Holds starts of runs to the reserve.
pub(crate) struct DiskReserve {
    store: Arc<dyn Store>,
    reserve: u64,
    /// What the store itself needs.
    least: u64,
    /// As it was said last.
    was_low: AtomicBool,
}

impl DiskReserve {
    pub(crate) fn new(store: Arc<dyn Store>, reserve: u64) -> Self {
        let least = store.stats().disk_least;
        Self { store, reserve, least, was_low: AtomicBool::new(false) }
    }

    /// How the disk stands; `None` where the store has none, or the system does not tell.
    pub(crate) fn room(&self) -> Option<DiskRoom> {
        let room = DiskRoom { free: self.store.disk_free()?, reserve: self.reserve, least: self.least };
        if room.is_low() != self.was_low.swap(room.is_low(), Ordering::Relaxed) {
            if room.is_low() {
                tracing::error!("{room}: no run is started until there is room");
            } else {
                tracing::info!("{room}: runs are started again");
            }
        }
        Some(room)
    }

    /// Whether there is room for a run that nobody who is open waits for.
    ///
    /// # Errors
    ///
    /// [`Refusal::DiskLow`], or [`Refusal::DiskFull`].
    pub(crate) fn must_have_room(&self) -> Result<(), Refusal> {
        match self.room() {
            Some(room) if room.is_full() => Err(Refusal::DiskFull { free: room.free, least: room.least }),
            Some(room) if room.is_low() => Err(Refusal::DiskLow { room }),
            _ => Ok(()),
        }
    }
}
