//! Names of the files and folders that an epoch has from its creation.

/// File that names the owner of the epoch.
pub(super) const OWNER: &str = "OWNER";
/// Folder of the chunks of bases.
pub(super) const CHUNKS: &str = "chunks";
/// Folder of the log segments.
pub(super) const LOG: &str = "log";
