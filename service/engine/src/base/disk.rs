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
    /// As it was said last.
    was_low: AtomicBool,
}

impl DiskReserve {
    pub(crate) fn new(store: Arc<dyn Store>, reserve: u64) -> Self {
        Self { store, reserve, was_low: AtomicBool::new(false) }
    }

    /// How the disk stands; `None` where the store has none, or the system does not tell.
    pub(crate) fn room(&self) -> Option<DiskRoom> {
        let room = DiskRoom { free: self.store.disk_free()?, reserve: self.reserve };
        if room.is_low() != self.was_low.swap(room.is_low(), Ordering::Relaxed) {
            if room.is_low() {
                tracing::error!("{room}: no run is started until there is room; those that are open go on");
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
    /// [`Refusal::DiskLow`].
    pub(crate) fn must_have_room(&self) -> Result<(), Refusal> {
        self.room().filter(|room| room.is_low()).map_or(Ok(()), |room| Err(Refusal::DiskLow { room }))
    }
}
