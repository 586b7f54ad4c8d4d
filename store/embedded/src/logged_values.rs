//! Rules for values that are kept in the log instead of being copied to redb, and their locations. Owns the two bounds;
//! owns no files.

use std::collections::BTreeMap;

use crate::keys;

/// Minimum size of a value to be kept in the log. Ours: a page of redb; a shorter value costs less in redb than its
/// location would.
pub(crate) const LOGGED_VALUE_MIN: usize = 4 << 10;

/// Minimum share of values in a segment, in quarters, for keeping the segment. The rest of the segment is kept with
/// them.
const WORTH_QUARTERS: u64 = 3;

/// Returns whether the value of a key may be kept in the log. Only parts may, because they are written once and read
/// whole; everything else is overwritten and merged.
pub(crate) fn may_be_logged(key: &[u8], length: usize) -> bool {
    length >= LOGGED_VALUE_MIN && can_be_logged(key)
}

pub(crate) fn can_be_logged(key: &[u8]) -> bool {
    key.first() == Some(&keys::PART)
}

/// Locations of the values that may be kept in the log, as long as redb does not contain them.
#[derive(Debug, Default)]
pub(crate) struct LoggedValues {
    /// Segment and offset of batches with such values.
    batches: BTreeMap<u64, (u64, u64)>,
    /// Bytes of frames in each segment, and of the values in them that may be kept.
    segments: BTreeMap<u64, (u64, u64)>,
}

impl LoggedValues {
    /// Adds a frame of `bytes` bytes, of which `logged` bytes are values that may be kept.
    pub(crate) fn note(&mut self, batch: u64, (segment, offset): (u64, u64), bytes: u64, logged: u64) {
        let (written, logged_before) = self.segments.entry(segment).or_default();
        (*written, *logged_before) = (*written + bytes, *logged_before + logged);
        if logged > 0 {
            self.batches.insert(batch, (segment, offset));
        }
    }

    /// Returns the segment and offset of the value at `at` in a batch's frame, if its segment is worth keeping.
    pub(crate) fn place(&self, batch: u64, at: u32) -> Option<(u64, u64)> {
        let (segment, offset) = *self.batches.get(&batch)?;
        self.segments.get(&segment).is_some_and(is_worth_it).then_some((segment, offset + u64::from(at)))
    }

    /// Returns whether the next segment is likely to be worth keeping, judged by the last one with any data.
    pub(crate) fn next_is_worth_it(&self) -> bool {
        self.segments.values().next_back().is_some_and(is_worth_it)
    }

    /// Forgets batches up to `through`, which are in redb, and segments before `before`, which are no longer in the
    /// log.
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
