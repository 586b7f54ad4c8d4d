//! Large values that stay in the log instead of being copied to redb: which values stay there, and where they are.

use std::collections::BTreeMap;

use crate::keys;

/// Minimum size of a value that may stay in the log. Chosen: the size of a page of redb. A shorter value takes less
/// space in redb than its location would.
pub(crate) const LOGGED_VALUE_MIN: usize = 4 << 10;

/// Minimum fraction of a segment, in quarters, that must consist of values that may stay in the log. If the fraction is
/// smaller, the segment is not kept for these values, because keeping a segment also keeps all its other data.
const WORTH_QUARTERS: u64 = 3;

/// Returns whether a value may stay in the log. Only parts of runs may, because they are written once and read as a
/// whole. Other values are overwritten often.
pub(crate) fn may_be_logged(key: &[u8], length: usize) -> bool {
    length >= LOGGED_VALUE_MIN && can_be_logged(key)
}

pub(crate) fn can_be_logged(key: &[u8]) -> bool {
    key.first() == Some(&keys::PART)
}

/// Locations of large values that may stay in the log and are not yet in redb.
#[derive(Debug, Default)]
pub(crate) struct LoggedValues {
    /// Segment and offset of each batch that contains values that may stay in the log.
    batches: BTreeMap<u64, (u64, u64)>,
    /// For each segment, the bytes of its frames, and the bytes of values that may stay in the log.
    segments: BTreeMap<u64, (u64, u64)>,
}

impl LoggedValues {
    /// Adds a frame of `bytes` bytes. `logged` is the number of bytes of values that may stay in the log.
    pub(crate) fn note(&mut self, batch: u64, (segment, offset): (u64, u64), bytes: u64, logged: u64) {
        let (written, logged_before) = self.segments.entry(segment).or_default();
        (*written, *logged_before) = (*written + bytes, *logged_before + logged);
        if logged > 0 {
            self.batches.insert(batch, (segment, offset));
        }
    }

    /// Returns the segment and offset of the value at `at` in the frame of a batch. Returns `None` if the segment
    /// contains too few large values to be kept.
    pub(crate) fn place(&self, batch: u64, at: u32) -> Option<(u64, u64)> {
        let (segment, offset) = *self.batches.get(&batch)?;
        self.segments.get(&segment).is_some_and(is_worth_it).then_some((segment, offset + u64::from(at)))
    }

    /// Returns whether the next segment will probably be kept for its values, judging by the last segment with any
    /// data.
    pub(crate) fn next_is_worth_it(&self) -> bool {
        self.segments.values().next_back().is_some_and(is_worth_it)
    }

    /// Removes the locations of batches up to `through`, which are now in redb, and the sizes of segments before
    /// `before`, which are no longer in the log.
    pub(crate) fn forget(&mut self, through: u64, before: u64) {
        self.batches = self.batches.split_off(&(through + 1));
        self.segments = self.segments.split_off(&before);
    }
}

fn is_worth_it((written, logged): &(u64, u64)) -> bool {
    *logged >= written / 4 * WORTH_QUARTERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_of_at_least_a_page_may_be_kept() {
        assert!(may_be_logged(b"pkey", LOGGED_VALUE_MIN) && !may_be_logged(b"pkey", LOGGED_VALUE_MIN - 1));
        assert!(!may_be_logged(b"hkey", LOGGED_VALUE_MIN) && !may_be_logged(b"", LOGGED_VALUE_MIN));
    }

    #[test]
    fn the_last_segment_predicts_the_next_one() {
        let mut logged = LoggedValues::default();
        assert!(!logged.next_is_worth_it());
        logged.note(7, (1, 32), 1000, 750);
        assert!(logged.next_is_worth_it());
        logged.note(8, (2, 32), 1000, 0);
        assert!(!logged.next_is_worth_it());
    }

    #[test]
    fn a_value_has_a_location_only_in_a_segment_worth_keeping() {
        let mut logged = LoggedValues::default();
        logged.note(7, (1, 32), 1000, 750);
        assert_eq!((logged.place(7, 100), logged.place(8, 100)), (Some((1, 132)), None));
        logged.note(8, (1, 1032), 4, 0);
        assert_eq!(logged.place(7, 100), None, "less than three quarters");
        logged.note(9, (2, 32), 1000, 1000);
        logged.forget(7, 2);
        assert_eq!((logged.place(7, 100), logged.place(9, 100)), (None, Some((2, 132))));
        assert!(logged.segments.keys().eq([&2]), "the first segment is forgotten");
    }
}
