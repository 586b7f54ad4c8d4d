//! How far the table has been gone over for what can be forgotten. Going over it is [`crate::expiry`].

use store::UnixMs;

use crate::attributes::Item;

/// How many stretches the table is read in. A process begins with any of them, so that the last ones are read too where
/// processes do not live long.
pub(crate) const SEGMENTS: i32 = 8;

/// How far the going-over has come.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Not again before this instant.
    pub(crate) next_at: UnixMs,
    pub(crate) segment: i32,
    /// The last item that was read of the segment.
    pub(crate) after: Option<Item>,
    /// Births that were counted for when it last ended.
    pub(crate) births: u64,
}

impl Sweep {
    pub(crate) fn new() -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        // The standard library's only source of chance; nothing depends on it but where reading begins.
        let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let segment = i32::try_from(chance % u64::from(SEGMENTS.unsigned_abs())).unwrap_or(0);
        Self { next_at: 0, segment, after: None, births: 0 }
    }
}
