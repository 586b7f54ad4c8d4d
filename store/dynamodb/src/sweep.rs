//! Progress of the sweep, which reads the table to find expired data. [`crate::expiry`] performs the sweep.

use store::UnixMs;

use crate::attributes::Item;

/// Number of segments into which the table is divided. A process starts with a random segment, so that even short-lived
/// processes together reach all of them.
pub(crate) const SEGMENTS: i32 = 8;

/// Progress of the sweep.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Earliest time of the next step.
    pub(crate) next_at: UnixMs,
    pub(crate) segment: i32,
    /// Last item that was read in the segment.
    pub(crate) after: Option<Item>,
    /// Value of the counter of new items at the last step. The next step reads items in proportion to the increase
    /// since.
    pub(crate) new_items: u64,
}

impl Sweep {
    pub(crate) fn new() -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        // `RandomState` is the only source of randomness in the standard library. It only decides where reading starts.
        let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let segment = i32::try_from(chance % u64::from(SEGMENTS.unsigned_abs())).unwrap_or(0);
        Self { next_at: 0, segment, after: None, new_items: 0 }
    }
}
