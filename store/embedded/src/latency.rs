//! How long something takes, counted by how long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::{TOOK_MICROS, Took};

/// How long syncs took.
#[derive(Debug, Default)]
pub(crate) struct TookCounts {
    counts: [AtomicU64; TOOK_MICROS.len() + 1],
    micros: AtomicU64,
}

impl TookCounts {
    pub(crate) fn note(&self, long: Duration) {
        let micros = u64::try_from(long.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get(Took::place(micros)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Took {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        Took { counts, micros: self.micros.load(Ordering::Relaxed) }
    }
}
