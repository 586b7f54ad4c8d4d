//! Which values of the log may stay there when redb comes past them, and where they are. Owns the two bounds; owns no files.

use std::collections::BTreeMap;

use crate::keys;

/// What is as long may stay. Ours: a page of redb; what is shorter costs less there than the place of it does.
pub(crate) const STAYS_MIN: usize = 4 << 10;

/// A segment stays for its values where they are so many quarters of what was written to it, at least: the rest of it stays with them.
const WORTH_QUARTERS: u64 = 3;

/// Whether the value of a key may stay: parts are written once and read whole, everything else is written over and merged.
pub(crate) fn may_stay(key: &[u8], length: usize) -> bool {
    length >= STAYS_MIN && can_stay(key)
}

pub(crate) fn can_stay(key: &[u8]) -> bool {
    key.first() == Some(&keys::PART)
}

/// Where the log has values that may stay, as far as redb does not have them.
#[derive(Debug, Default)]
pub(crate) struct LoggedValues {
    /// Where batches begin that have some: segment and offset.
    batches: BTreeMap<u64, (u64, u64)>,
    /// Bytes of frames in a segment, and of values in them that may stay.
    segments: BTreeMap<u64, (u64, u64)>,
}

impl LoggedValues {
    /// A frame of `bytes` bytes with `staying` bytes of values that may stay.
    pub(crate) fn note(&mut self, batch: u64, (segment, offset): (u64, u64), bytes: u64, staying: u64) {
        let (written, stays) = self.segments.entry(segment).or_default();
        (*written, *stays) = (*written + bytes, *stays + staying);
        if staying > 0 {
            self.batches.insert(batch, (segment, offset));
        }
    }

    /// Segment and offset of what begins at `at` in a batch's frame, if the segment is worth staying for it.
    pub(crate) fn place(&self, batch: u64, at: u32) -> Option<(u64, u64)> {
        let (segment, offset) = *self.batches.get(&batch)?;
        self.segments.get(&segment).is_some_and(is_worth_it).then_some((segment, offset + u64::from(at)))
    }

    /// Whether the next segment will be worth staying for its values, as far as the last that has anything says so.
    pub(crate) fn next_is_worth_it(&self) -> bool {
        self.segments.values().next_back().is_some_and(is_worth_it)
    }

    /// Redb has everything up to a batch, and no segment before one is in the log any more.
    pub(crate) fn forget(&mut self, through: u64, before: u64) {
        self.batches = self.batches.split_off(&(through + 1));
        self.segments = self.segments.split_off(&before);
    }
}

fn is_worth_it((written, staying): &(u64, u64)) -> bool {
    *staying >= written / 4 * WORTH_QUARTERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_page_and_more_may_stay_and_nothing_else() {
        assert!(may_stay(b"pkey", STAYS_MIN) && !may_stay(b"pkey", STAYS_MIN - 1));
        assert!(!may_stay(b"hkey", STAYS_MIN) && !may_stay(b"", STAYS_MIN));
    }

    #[test]
    fn what_the_next_segment_will_be_like_is_known_from_the_last_that_has_anything() {
        let mut logged = LoggedValues::default();
        assert!(!logged.next_is_worth_it());
        logged.note(7, (1, 32), 1000, 750);
        assert!(logged.next_is_worth_it());
        logged.note(8, (2, 32), 1000, 0);
        assert!(!logged.next_is_worth_it());
    }

    #[test]
    fn a_value_has_a_place_while_its_segment_is_for_the_most_part_values_and_redb_does_not_have_its_batch() {
        let mut logged = LoggedValues::default();
        logged.note(7, (1, 32), 1000, 750);
        assert_eq!((logged.place(7, 100), logged.place(8, 100)), (Some((1, 132)), None));
        logged.note(8, (1, 1032), 4, 0);
        assert_eq!(logged.place(7, 100), None, "less than three quarters");
        logged.note(9, (2, 32), 1000, 1000);
        logged.forget(7, 2);
        assert_eq!((logged.place(7, 100), logged.place(9, 100)), (None, Some((2, 132))));
        assert!(logged.segments.keys().eq([&2]), "the first is forgotten");
    }
}
