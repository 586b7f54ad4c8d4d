//! The embedded store: one process, one directory, and commits that are durable before they are acknowledged.
//!
//! A commit compares the current head with the expected head and replaces it in memory. It is added to the open batch
//! of a segmented log, and then waits for the sync that makes the whole batch durable. Committed data is held in memory
//! until it has been written to redb, an embedded key-value database, in the background. Values that were overwritten
//! or deleted in the meantime are never written to redb. Large values stay in the log.
//! `docs/adr/0002-embedded-engine.md` gives the reasons.
//!
//! The store owns one directory: `FORMAT`, `KNOWN`, `LOCK`, `tree.redb` and `log/`. It does not interpret the bodies of
//! heads. The crate `baton-store-archive` copies stores and keeps further files in the same directory.

mod background;
mod checkpoint;
mod committer;
mod counts;
mod directory;
mod disk;
pub mod faults;
mod forget;
pub mod forms;
mod frame;
mod free;
mod holds;
mod instant;
mod keys;
mod latency;
mod layer;
mod lease;
mod listing;
mod log;
mod log_end;
mod logged_values;
mod marks;
mod names;
mod newest;
mod open;
mod opening;
mod options;
mod places;
pub mod private;
mod range;
mod read;
mod record;
mod recovery;
mod segment;
mod shared;
mod source;
mod spare;
mod sums;
mod terms;
mod tree;
mod values;
mod write;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Cas, Count, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, Mark, PageToken, PartKey, RunId, Stats,
    Store, UnixMs,
};

pub use crate::options::{Options, Recovery};
pub use crate::source::LogSource;

/// Access to the files of a store, for the crate `baton-store-archive`, which copies stores. This module is not part of
/// the store's API: it changes with the format of the files.
#[doc(hidden)]
pub mod files {
    pub use crate::directory::{Unfinished, draw_id, tree_path};
    pub use crate::disk::storage_error;
    pub use crate::frame::{BatchOperation, Frame, SEGMENT_HEADER, SegmentHeader, frame_at, operations};
    pub use crate::holds::LogHold;
    pub use crate::instant::{now, of as instant_of};
    pub use crate::keys::{COUNT, CountKey, read_count};
    pub use crate::lease::Lease;
    pub use crate::log::{Live, sync_directory};
    pub use crate::names::{salt, segment_name};
    pub use crate::segment::{ReadFrames, SegmentReader};
    pub use crate::shared::Phase;
    pub use crate::tree::{Pairs, Snapshot, Tree, WholeSnapshot};
}

use crate::directory::Directory;
use crate::disk::blocking;
use crate::open::Opened;
use crate::shared::{Phase, Shared};

const LIMITS: Limits = Limits {
    head_soft: 4 << 10,
    head_hard: 1 << 20,
    part_max: 16 << 20,
    payload_inline_max: 2 << 10,
    due_shards: 1,
    op_ids: 0,
    due_moves_are_cheap: true,
    is_shared: false,
};

/// A store in a local directory.
///
/// After [`close`](Store::close), the next start has nothing to recover. Dropping the store without closing it has the
/// effect of a crash, and is just as safe.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,

    directory: Mutex<Option<Directory>>,
    tree_path: PathBuf,
    recovery: Recovery,
    source: LogSource,
    forgetting: tokio::sync::Mutex<()>,
}

impl Embedded {
    /// Opens or creates a store.
    ///
    /// # Errors
    ///
    /// * [`Error::InUse`] if another process has the directory open.
    /// * [`Error::Failed`] if the directory cannot be used.
    /// * [`Error::Corrupt`] if acknowledged commits are missing or damaged. Nothing is repaired in this case.
    pub async fn open(options: Options) -> Result<Arc<Self>, Error> {
        blocking(move || Self::open_blocking(&options).map(Arc::new)).await
    }

    /// Like [`open`](Self::open), but blocks.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn open_blocking(options: &Options) -> Result<Self, Error> {
        Ok(Self::new(open::open(options)?))
    }

    /// Closes the store like [`close`](Store::close), but blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the store has failed.
    pub fn close_blocking(&self) -> Result<(), Error> {
        self.take().stop(Phase::Closing)
    }

    /// Compacts a store that no process has open, and returns the freed space to the disk.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub async fn compact(directory: impl AsRef<Path>) -> Result<(), Error> {
        let directory = directory.as_ref().to_owned();
        blocking(move || {
            Self::open_blocking(&Options::new(&directory))?.close_blocking()?;
            open::compact(&directory)
        })
        .await
    }

    fn new(opened: Opened) -> Self {
        let Opened { shared, threads, directory, tree_path, recovery, source } = opened;
        let (threads, directory) = (threads.into(), Some(directory).into());
        Self { shared, threads, directory, tree_path, recovery, source, forgetting: tokio::sync::Mutex::default() }
    }

    /// Returns access to the log, for copies of the store.
    pub fn source(&self) -> &LogSource {
        &self.source
    }

    /// Returns statistics on how the store was opened.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Returns the current and the highest number of bytes of memory used for data that is not yet in redb.
    pub fn memory_bytes(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.bytes(), state.most_bytes)
    }

    /// Returns whether data of this store may still be returned to callers. If the store is copied to an archive, this
    /// is false after its lease has expired, because a standby may have taken over.
    pub fn may_answer(&self) -> bool {
        self.shared.lease.get().is_none_or(|lease| !lease.is_over())
    }

    /// Takes the resources that must be released. They can be taken only once.
    fn take(&self) -> Parts {
        Parts {
            shared: Arc::clone(&self.shared),
            threads: std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)),
            background: std::mem::take(&mut *self.source.threads()),
            directory: self.directory.lock().unwrap_or_else(PoisonError::into_inner).take(),
        }
    }
}

/// Resources of a store that must be released.
struct Parts {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    background: Vec<JoinHandle<()>>,
    directory: Option<Directory>,
}

/// Maximum time for which closing waits until all commits are in the archive. Chosen: longer waits are unnecessary,
/// because the next start copies the rest.
const BACKGROUND_WAIT: Duration = Duration::from_secs(10);

impl Parts {
    /// Stops the threads and releases the files. If `phase` is `Closing`, the threads finish their work first.
    fn stop(self, phase: Phase) -> Result<(), Error> {
        self.shared.set_phase(phase);
        for thread in self.threads {
            if thread.join().is_err() {
                self.shared.fail("a thread of the store panicked");
            }
        }
        let began = tokio::time::Instant::now();
        while self.background.iter().any(|thread| !thread.is_finished()) {
            if began.elapsed() > BACKGROUND_WAIT {
                tracing::warn!("the archive is too slow: the rest is shipped at the next start");
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.set_phase(Phase::Stopping);
        self.shared.tree.close();
        drop(self.directory);
        match self.shared.lock().failure.as_ref() {
            Some(why) => Err(Error::Failed { why: why.to_string() }),
            None => Ok(()),
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The result is ignored: all waiting callers have already received the failure.
        let _ = self.take().stop(Phase::Stopping);
    }
}

#[async_trait]
impl Store for Embedded {
    fn limits(&self) -> Limits {
        LIMITS
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.shared.load(key).await
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        self.shared.load_run(key, run).await
    }

    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        if !matches!(expect, Expect::Exactly { run, .. } if run == head.run) {
            self.finish_forgetting(key, head.run).await?;
        }
        self.shared.commit(key, expect, head, parts).await
    }

    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error> {
        self.shared.put_kept(key, head, parts).await
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        self.shared.put_part(key, run, part, bytes).await
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        let keys: Vec<_> = want.iter().map(|part| keys::part(key, run, *part)).collect();
        self.shared.large_values(keys).await
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        self.shared.put_marks(key, marks).await
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        self.shared.marks(key, names).await
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        let from = keys::part(key, run, PartKey::Chunk { last: from_event });
        let to = keys::after(&keys::part(key, run, PartKey::Chunk { last: u64::MAX }));
        read::chunks(&self.shared, from, to, false, max_bytes).await
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        let from = keys::part(key, run, PartKey::Chunk { last: 0 });
        let to = keys::part(key, run, PartKey::Chunk { last: before_event });
        read::chunks(&self.shared, from, to, true, max_bytes).await
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.forget_run(key, run).await
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        self.forget_expired(now, limit).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        if shard >= LIMITS.due_shards {
            return Ok(Vec::new());
        }
        read::due(&self.shared, until, after, limit).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        listing::list(&self.shared, query, page).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        counts::count(&self.shared, query, at_most).await
    }

    fn stats(&self) -> Stats {
        let segments = &self.shared.segments;
        let tree_bytes = std::fs::metadata(&self.tree_path).map_or(0, |file| file.len());
        Stats {
            commits: self.shared.commits.load(Ordering::Relaxed),
            syncs: segments.syncs.load(Ordering::Relaxed) + self.shared.tree.writes() * 2,
            bytes_written: segments.bytes_written.load(Ordering::Relaxed) + self.shared.tree.bytes_written(),
            bytes_on_disk: segments.bytes() + segments.kept_bytes() + tree_bytes,
            rows_read: self.shared.rows_read.load(Ordering::Relaxed),
            opens_put_off: segments.opening.postponed(),
            sync_latency: segments.sync_latency(),
            disk_least: self.shared.spare.least(),
            ..Stats::default()
        }
    }

    fn disk_free(&self) -> Option<u64> {
        self.shared.spare.free()
    }

    async fn failed(&self) -> Error {
        self.shared.failure().await
    }

    async fn close(&self) -> Result<(), Error> {
        let parts = self.take();
        blocking(move || parts.stop(Phase::Closing)).await
    }
}
