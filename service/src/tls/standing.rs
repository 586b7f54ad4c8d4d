//! Status of the listener's TLS, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use history::Timestamp;

/// Status of the listener's TLS.
#[derive(Debug)]
pub struct TlsStatus {
    until: AtomicU64,
    handshakes_failed: AtomicU64,
}

impl TlsStatus {
    pub(crate) fn of(until: Timestamp) -> Self {
        Self { until: AtomicU64::new(until.as_millis()), handshakes_failed: AtomicU64::new(0) }
    }

    pub(super) fn renewed(&self, until: Timestamp) {
        self.until.store(until.as_millis(), Ordering::Relaxed);
    }

    pub(crate) fn handshake_failed(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the time when the certificate in use expires.
    pub(crate) fn until(&self) -> Timestamp {
        Timestamp::from_millis(self.until.load(Ordering::Relaxed))
    }

    /// Returns the number of connections that ended before their handshake was complete.
    pub(crate) fn handshakes_failed(&self) -> u64 {
        self.handshakes_failed.load(Ordering::Relaxed)
    }
}
