//! Progress of the sweep for expired data, which [`crate::expiry`] performs.

use store::UnixMs;

use crate::attributes::Item;

/// Number of segments in which the table is read. A process starts with a random one, so that short-lived processes
/// reach all of them.
pub(crate) const SEGMENTS: i32 = 8;

/// Progress of the sweep.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Earliest instant of the next step.
    pub(crate) next_at: UnixMs,
    pub(crate) segment: i32,
    /// Last item read of the segment.
    pub(crate) after: Option<Item>,
    /// Number of new items that the previous step accounted for.
    pub(crate) new_items: u64,
}

impl Sweep {
    pub(crate) fn new() -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        // The standard library's only source of randomness. It only determines where reading starts.
        let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let segment = i32::try_from(chance % u64::from(SEGMENTS.unsigned_abs())).unwrap_or(0);
        Self { next_at: 0, segment, after: None, new_items: 0 }
    }
}
