//! The embedded store: one process, one directory, and commits that are durable before they are acknowledged.
//!
//! A commit compares and swaps a head in memory (or redb), appends to the open batch of a segmented log, and waits for
//! the single sync that makes the whole batch durable. Data that is in the log but not yet in redb is held in memory.
//! In the background it is written to redb, after overwritten and finished data has been merged away. Large values are
//! kept in the log. `docs/adr/0002-embedded-engine.md` gives the reasons.
//!
//! Owns one directory: `FORMAT`, `KNOWN`, `LOCK`, `tree.redb` and `log/`, and the files that [`archive`] keeps there.
//! It does not interpret bodies.

pub mod archive;
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
mod spare;
mod sums;
mod terms;
mod tree;
mod values;
mod write;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Cas, Count, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, Mark, PageToken, PartKey, RunId, Stats,
    Store, UnixMs,
};

pub use crate::options::{Options, Recovery};

use crate::archive::shipping::{self, ShipState, Shipping};
use crate::archive::source::LogSource;
use crate::archive::{
    ArchiveError, BackupOptions, BackupReport, CopyProgress, Restored, ShipStanding, ShipTo, request,
};
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
};

/// A store in a local directory.
///
/// [`close`](Store::close) it to leave nothing to recover. Dropping it is like a crash, and just as safe.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads that wait for other disks than the store's.
    background: Mutex<Vec<JoinHandle<()>>>,
    directory: Mutex<Option<Directory>>,
    path: PathBuf,
    tree_path: PathBuf,
    recovery: Recovery,
    source: LogSource,
    ship: OnceLock<Arc<ShipState>>,
    forgetting: tokio::sync::Mutex<()>,
}

impl Embedded {
    /// Opens or creates a store.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] if another process has the directory open; [`Error::Failed`] if it cannot be used;
    /// [`Error::Corrupt`] if acknowledged commits are missing or damaged, in which case nothing is repaired.
    pub async fn open(options: Options) -> Result<Arc<Self>, Error> {
        blocking(move || {
            let embedded = Self::new(open::open(&options)?);
            let (source, path) = (embedded.source.clone(), embedded.path.clone());
            let backups = open::spawn_background("store-backup", move || request::serve(&source, &path))?;
            embedded.background().push(backups);
            Ok(Arc::new(embedded))
        })
        .await
    }

    /// Compacts a store that no process has open, and returns the free space to the disk.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open).
    pub async fn compact(directory: impl AsRef<Path>) -> Result<(), Error> {
        let directory = directory.as_ref().to_owned();
        blocking(move || {
            let embedded = Self::new(open::open(&Options::new(&directory))?);
            embedded.take().stop(Phase::Closing)?;
            open::compact(&directory)
        })
        .await
    }

    /// Backs up a data directory. If a process has it open, that process is asked to do it; otherwise it is done here.
    /// `tick` receives the progress. Blocks on disks.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Away`] if a file cannot be read or written; [`ArchiveError::Refused`] if the archive belongs to
    /// another store or is being written; [`ArchiveError::Damaged`] if the data directory or the archive is damaged.
    /// The earlier content of the archive is kept.
    pub fn backup(
        directory: &Path,
        options: &BackupOptions,
        tick: &mut dyn FnMut(CopyProgress),
    ) -> Result<BackupReport, ArchiveError> {
        if !directory.join("FORMAT").is_file() {
            return Err(ArchiveError::Refused { why: format!("there is no store in `{}`", directory.display()) });
        }
        let opened = match open::open(&Options { verify_all: true, ..Options::new(directory) }) {
            Err(Error::InUse { .. }) => return request::request_backup(directory, options, tick),
            opened => opened?,
        };
        let embedded = Self::new(opened);
        let done = archive::back_up(&embedded.source, options, tick);
        embedded.take().stop(Phase::Closing)?;
        done
    }

    fn new(opened: Opened) -> Self {
        let Opened { shared, threads, directory, tree_path, recovery, source } = opened;
        let ship = OnceLock::new();
        let forgetting = tokio::sync::Mutex::default();
        let (threads, background, directory) = (threads.into(), Mutex::default(), Some(directory).into());
        let path = tree_path.parent().map(Path::to_owned).unwrap_or_default();
        Self { shared, threads, background, directory, path, tree_path, recovery, source, ship, forgetting }
    }

    /// Returns statistics about opening the store.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Returns how many bytes of memory hold data that is not yet in redb, now and at most.
    pub fn memory_bytes(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.bytes(), state.most_bytes)
    }

    /// Starts shipping everything durable to an archive. Must be called before the first commit, because a store that
    /// has been taken over must not write.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::TakenOver`] if another store has taken over; [`ArchiveError::Refused`] if the archive belongs to
    /// another store, is ahead of this one, or existed and is gone; [`ArchiveError::Away`] and
    /// [`ArchiveError::Damaged`] if it cannot be read or written.
    pub async fn ship(&self, to: ShipTo) -> Result<(), ArchiveError> {
        let (source, path) = (self.source.clone(), self.path.clone());
        let begun = tokio::task::spawn_blocking(move || Shipping::begin(source, &path, to)).await;
        let shipping = begun.map_err(|error| ArchiveError::Away { why: error.to_string() })??;
        if self.ship.set(Arc::clone(&shipping.state)).is_err() {
            return Err(ArchiveError::Refused { why: "this store is already being shipped".to_owned() });
        }
        let mut background = self.background();
        if let Some(lease) = &shipping.state.lease {
            self.shared.lease.get_or_init(|| Arc::clone(lease));
            let (shared, lease) = (Arc::clone(&self.shared), Arc::clone(lease));
            background.push(open::spawn_background("store-lease", move || shipping::watch_lease(&shared, &lease))?);
        }
        background.push(open::spawn_background("store-ship", move || shipping.run())?);
        Ok(())
    }

    /// Returns the archive that this store was last shipped to, or `None` if it never was.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if this information cannot be read.
    pub fn shipped_to(&self) -> Result<Option<archive::ArchiveAddress>, Error> {
        shipping::shipped_to(&self.path)
    }

    /// Returns the status of shipping, if the store is shipped.
    pub fn ship_standing(&self) -> Option<ShipStanding> {
        let durable = self.shared.lock().durable_batch;
        self.ship.get().map(|ship| ship.standing(durable))
    }

    /// Returns whether data of this store may still be returned to callers. After a lease has expired it may not,
    /// because another store may have taken over.
    pub fn may_answer(&self) -> bool {
        self.shared.lease.get().is_none_or(|lease| !lease.is_over())
    }

    /// Returns the origin of a store that was restored or that took over, until
    /// [`forget_restored`](Self::forget_restored) is called.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if this information cannot be read.
    pub fn restored(&self) -> Result<Option<Restored>, Error> {
        archive::read_sealed(&self.path, archive::RESTORED)
    }

    /// Records that everything handed out by the store before it was restored has been dealt with.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if this cannot be recorded.
    pub fn forget_restored(&self) -> Result<(), Error> {
        let path = self.path.join(archive::RESTORED);
        std::fs::remove_file(&path).map_err(|error| disk::storage_error(&error, "remove", &path))
    }

    fn background(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.background.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything that must be released, once.
    fn take(&self) -> Parts {
        Parts {
            shared: Arc::clone(&self.shared),
            threads: std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)),
            background: std::mem::take(&mut *self.background()),
            directory: self.directory.lock().unwrap_or_else(PoisonError::into_inner).take(),
        }
    }
}

/// Resources of a store.
struct Parts {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    background: Vec<JoinHandle<()>>,
    directory: Option<Directory>,
}

/// How long closing waits for an archive. Ours: data that has not arrived by then is shipped at the next start.
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
        // Every waiting caller has already received the failure.
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
