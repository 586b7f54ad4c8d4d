//! Holds on the log. A hold keeps the batches in the log that its holder still has to copy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All holds on the log.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HeldBatches>);

#[derive(Debug, Default)]
struct HeldBatches {
    next: u64,
    /// Last copied batch of each hold, by the hold's number.
    copied: BTreeMap<u64, u64>,
}

/// A hold. Until it is dropped, the log keeps all batches after the last one that this holder has copied.
#[derive(Debug)]
pub struct LogHold {
    holds: Arc<Holds>,
    number: u64,
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, HeldBatches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a hold that keeps all batches after `copied`.
    pub(crate) fn hold(self: &Arc<Self>, copied: u64) -> LogHold {
        let mut held = self.lock();
        let number = held.next;
        held.next += 1;
        held.copied.insert(number, copied);
        LogHold { holds: Arc::clone(self), number }
    }

    /// Returns the last batch that all holders have copied. Returns `None` if there are no holds.
    pub(crate) fn copied(&self) -> Option<u64> {
        self.lock().copied.values().min().copied()
    }
}

impl LogHold {
    /// Records that all batches up to `copied` have been copied.
    pub fn set(&self, copied: u64) {
        self.holds.lock().copied.insert(self.number, copied);
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        self.holds.lock().copied.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_held_for_the_slowest_holder() {
        let holds = Arc::new(Holds::default());
        assert_eq!(holds.copied(), None);
        let (slow, fast) = (holds.hold(3), holds.hold(0));
        fast.set(9);
        assert_eq!(holds.copied(), Some(3));
        drop(slow);
        assert_eq!(holds.copied(), Some(9));
        drop(fast);
        assert_eq!(holds.copied(), None);
    }
}
