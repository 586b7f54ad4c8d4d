//! What a directory must know of the layout: what an epoch has in it from its beginning.

/// Whose the epoch is.
pub(super) const OWNER: &str = "OWNER";
/// The folder of its chunks.
pub(super) const CHUNKS: &str = "chunks";
/// The folder of its segments.
pub(super) const LOG: &str = "log";
