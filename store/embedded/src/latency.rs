//! A histogram of latencies that several threads can update.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::{LATENCY_BOUNDS_MICROS, LatencyHistogram};

/// A histogram that several threads can update.
#[derive(Debug, Default)]
pub(crate) struct LatencyRecorder {
    counts: [AtomicU64; LATENCY_BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
}

impl LatencyRecorder {
    pub(crate) fn note(&self, long: Duration) {
        let micros = u64::try_from(long.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get(LatencyHistogram::bucket_index(micros)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> LatencyHistogram {
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        LatencyHistogram { counts, micros: self.micros.load(Ordering::Relaxed) }
    }
}
