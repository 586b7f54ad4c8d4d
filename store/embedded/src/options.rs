//! Options for opening a store, and statistics on how it was opened.

use std::path::PathBuf;
use std::sync::Arc;

use crate::faults::Faults;

/// Default of [`Options::held_bytes`]. Chosen: a busy service writes a hundred bytes of log per millisecond. At this
/// rate, the archive can be unreachable for an hour and a half. The service reserves as much disk space for open runs.
const HELD_BYTES: u64 = 512 << 20;

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the store, created if it does not exist. Only one process at a time may have it open.
    pub directory: PathBuf,
    /// Maximum memory for data that is not yet in redb. At this limit, commits wait. Default: 32 MiB.
    pub memory_bytes: usize,
    /// Maximum size of the log whose data is not yet in redb. The next start reads at most this much. Default: 64 MiB.
    pub log_bytes: u64,
    /// Size of a segment of the log. Default: 16 MiB.
    pub segment_bytes: u64,
    /// Memory for the cache of redb. Default: 4 MiB. Other pages are in the page cache of the operating system, from
    /// which they are loaded just as fast.
    pub cache_bytes: usize,
    /// Maximum size of the log that is kept for a slow or unreachable archive. If the archive falls further behind, the
    /// oldest log is dropped, and the archive needs a new base (snapshot). Default: 512 MiB.
    pub held_bytes: u64,
    /// True if all pages of `tree.redb` are verified when the store is opened, which reads the whole file. By default,
    /// only files of up to 64 MiB are verified.
    pub verify_all: bool,
    /// Fault injection for tests.
    #[doc(hidden)]
    pub faults: Arc<Faults>,
}

impl Options {
    /// Returns the default options for a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            memory_bytes: 32 << 20,
            log_bytes: 64 << 20,
            segment_bytes: 16 << 20,
            cache_bytes: 4 << 20,
            held_bytes: HELD_BYTES,
            verify_all: false,
            faults: Arc::default(),
        }
    }
}

/// Statistics on how a store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Number of batches that were applied from the log because they were not yet in redb.
    pub batches_replayed: u64,
    /// Number of bytes of the log that were read.
    pub bytes_read: u64,
    /// Number of bytes after the last batch that were cut off. They belong to a batch that was not written completely
    /// and never acknowledged, or are the earlier content of a reused file.
    pub bytes_cut: u64,
    /// Number of layers (data from the log, in memory) that were written to redb before the store was open, because of
    /// the memory limit.
    pub layers_written: u64,
}
