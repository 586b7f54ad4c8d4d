//! Names that an epoch has from its creation, shared with the module of directories.

/// File with the owner of the epoch.
pub(super) const OWNER: &str = "OWNER";
/// Folder of the chunks.
pub(super) const CHUNKS: &str = "chunks";
/// Folder of the segments.
pub(super) const LOG: &str = "log";
