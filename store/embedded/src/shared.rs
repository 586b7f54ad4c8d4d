//! State that callers share with the committer and checkpoint threads: the layers in memory, the open batch, and the
//! commits that wait. This module decides when data becomes visible, and when commits must wait for space. The threads
//! own the files, and the thread that is writing owns the end of the log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use store::Error;
use tokio::sync::{Notify, oneshot, watch};

use crate::frame::{Builder, FRAME_MAX};
use crate::layer::{Layer, LayerValue};
use crate::lease::Lease;
use crate::log::Segments;
use crate::log_end::LogEnd;
use crate::options::Options;
use crate::spare::SpareSpace;
use crate::tree::Tree;

/// Size of the open batch above which further commits wait for the next batch.
const BATCH_BYTES: usize = 4 << 20;

/// State that callers and threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Signals the committer thread: there is a batch to write, or the store stops.
    pub(crate) batch_ready: Condvar,
    /// Signals the checkpoint thread: there is a frozen layer to write or a segment to prepare, or the store stops.
    pub(crate) checkpoint_ready: Condvar,
    /// Ends a pause of the checkpoint thread early.
    pub(crate) pace: Condvar,
    /// Signals that there may be memory for a commit again.
    space: Notify,
    failure: watch::Sender<Option<Arc<str>>>,
    pub(crate) tree: Tree,
    pub(crate) segments: Arc<Segments>,
    pub(crate) spare: SpareSpace,
    pub(crate) half_bytes: usize,
    pub(crate) log_bytes: u64,
    pub(crate) commits: AtomicU64,
    /// Number of rows that were examined for lists.
    pub(crate) rows_read: AtomicU64,
    /// Lease of the store. Set if the store is copied to an archive with a lease.
    pub(crate) lease: OnceLock<Arc<Lease>>,
}

/// Lifecycle phase of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The store accepts commits.
    Open,
    /// The store accepts no commits; the threads finish their work.
    Closing,
    /// The threads stop without finishing their work.
    Stopping,
}

/// A layer (data that is not yet in redb) that is being written to redb and accepts no more changes.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) layer: Layer,
    /// Batch up to which all changes are in this layer or in redb.
    pub(crate) position: u64,
    /// Batch up to which the log must be durable before anything of this layer may be written to redb.
    pub(crate) durable_needed: u64,
}

/// Stored numbers of rows, each under its key (see `keys::count`). Keys whose number is zero are absent.
pub(crate) type Counts = BTreeMap<Vec<u8>, u64>;

/// The part of the shared state that is under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) active: Layer,
    pub(crate) frozen: Option<Arc<Frozen>>,
    /// Number of layers that were written to redb. A value that was read from redb stays current as long as this number
    /// does not change.
    pub(crate) epoch: u64,
    pub(crate) builder: Builder,
    /// Number of the batch in `builder`. The next field is the number of its commits.
    pub(crate) open_batch: u64,
    pub(crate) open_commits: u64,
    pub(crate) durable_batch: u64,
    /// Bytes written to the log since the active layer was last frozen.
    pub(crate) logged: u64,
    pub(crate) needs_spare: bool,
    pub(crate) phase: Phase,
    pub(crate) failure: Option<Arc<str>>,
    waiters: Vec<(u64, oneshot::Sender<()>)>,
    /// Deletion records of runs whose parts are still being deleted.
    pub(crate) doomed: std::collections::BTreeSet<Vec<u8>>,
    /// Numbers of rows after the newest commit.
    pub(crate) counts: Counts,
    pub(crate) most_bytes: usize,
    /// Set by the committer thread before it waits. If it is not set, the system call that wakes the thread can be
    /// omitted.
    pub(crate) is_committer_idle: bool,
    /// End of the log. `None` while a thread is writing.
    pub(crate) log_end: Option<LogEnd>,
    /// True while a thread is writing and owns the end of the log.
    pub(crate) is_writing: bool,
}

impl State {
    pub(crate) fn new(last_batch: u64) -> Self {
        Self {
            active: Layer::default(),
            frozen: None,
            epoch: 0,
            builder: Builder::default(),
            open_batch: last_batch + 1,
            open_commits: 0,
            durable_batch: last_batch,
            logged: 0,
            needs_spare: false,
            phase: Phase::Open,
            failure: None,
            waiters: Vec::new(),
            doomed: std::collections::BTreeSet::new(),
            counts: Counts::new(),
            most_bytes: 0,
            is_committer_idle: false,
            log_end: None,
            is_writing: false,
        }
    }

    /// Returns the newest entry of a key in memory. Returns `None` if the key is not in memory.
    pub(crate) fn slot(&self, key: &[u8]) -> Option<&LayerValue> {
        self.active.get(key).or_else(|| self.frozen.as_ref().and_then(|frozen| frozen.layer.get(key)))
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Bytes, is_new: bool) {
        let at = self.builder.put(key, &value);
        self.logged += Builder::size_of(key, &value) as u64;
        self.active.put(key, value, self.open_batch, at, is_new);
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.builder.delete(key);
        self.logged += Builder::size_of(key, &[]) as u64;
        self.active.delete(key, self.open_batch);
    }

    /// Returns the bytes of memory used for data that is not yet in redb.
    pub(crate) fn bytes(&self) -> usize {
        self.active.bytes + self.frozen.as_ref().map_or(0, |frozen| frozen.layer.bytes)
    }

    /// Freezes the active layer, so that the checkpoint thread writes it to redb. Must not be called while there is a
    /// frozen layer.
    pub(crate) fn freeze(&mut self) {
        let (open, is_open) = (self.open_batch, !self.builder.is_empty());
        self.freeze_at(open - 1, if is_open { open } else { open - 1 });
    }

    /// Freezes a layer while the store is being opened. The layer contains the batches of the log up to `position`.
    pub(crate) fn freeze_replayed(&mut self, position: u64) {
        self.freeze_at(position, 0);
    }

    fn freeze_at(&mut self, position: u64, durable_needed: u64) {
        let layer = std::mem::take(&mut self.active);
        self.frozen = Some(Arc::new(Frozen { layer, position, durable_needed }));
        self.logged = 0;
    }

    /// Returns the newest entries of a key range in memory, unordered.
    pub(crate) fn unwritten(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = (&[u8], &LayerValue)> {
        let frozen = self.frozen.iter().flat_map(move |frozen| frozen.layer.range(from, to));
        frozen.filter(|(key, _)| self.active.get(key).is_none()).chain(self.active.range(from, to))
    }

    /// Records that all batches up to `batch` are durable. Returns the commits that must be acknowledged after the lock
    /// is released.
    pub(crate) fn became_durable(&mut self, batch: u64) -> Acknowledged {
        self.durable_batch = batch;
        let all = std::mem::take(&mut self.waiters).into_iter();
        let (ready, waiting) = all.partition(|(of, _)| *of <= batch);
        self.waiters = waiting;
        Acknowledged(ready)
    }

    fn failed(&self) -> Option<Error> {
        self.failure.as_ref().map(|why| Error::Failed { why: why.to_string() })
    }
}

impl Shared {
    pub(crate) fn new(state: State, tree: Tree, segments: Arc<Segments>, spare: SpareSpace, options: &Options) -> Self {
        Self {
            state: Mutex::new(state),
            batch_ready: Condvar::new(),
            checkpoint_ready: Condvar::new(),
            pace: Condvar::new(),
            space: Notify::new(),
            failure: watch::Sender::new(None),
            tree,
            segments,
            spare,
            half_bytes: (options.memory_bytes / 2).max(1),
            log_bytes: options.log_bytes.max(2),
            commits: AtomicU64::new(0),
            rows_read: AtomicU64::new(0),
            lease: OnceLock::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks and returns the state. Fails if the store cannot serve calls any more.
    pub(crate) fn open(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.lock();
        if let Some(error) = state.failed() {
            return Err(error);
        }
        if state.phase == Phase::Open {
            Ok(state)
        } else {
            Err(Error::Failed { why: "the store was closed".to_owned() })
        }
    }

    /// Waits until there is space in memory for a commit. Fails if the disk has no space.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] if the disk is full. Otherwise the errors of [`open`](Self::open).
    pub(crate) async fn ensure_space(&self) -> Result<(), Error> {
        self.spare.must_have()?;
        self.wait_for_space().await
    }

    /// Works like [`ensure_space`](Self::ensure_space), but for deletions, which may use the reserved disk space.
    ///
    /// # Errors
    ///
    /// The errors of [`ensure_space`](Self::ensure_space).
    pub(crate) async fn ensure_space_for_deletion(&self) -> Result<(), Error> {
        self.spare.must_have_for_deleting()?;
        self.wait_for_space().await
    }

    /// Waits until there is space in memory for a commit. Several commits may continue at the same time, so the limit
    /// can be exceeded by their sizes.
    async fn wait_for_space(&self) -> Result<(), Error> {
        loop {
            let notified = self.space.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            {
                let mut state = self.open()?;
                if self.is_full(&state) && state.frozen.is_none() {
                    state.freeze();
                    self.checkpoint_ready.notify_all();
                }
                let is_batch_full = state.builder.len() >= BATCH_BYTES;
                if !is_batch_full && !self.is_full(&state) {
                    return Ok(());
                }
            }
            notified.await;
        }
    }

    /// Returns whether the active layer must be written to redb: it is too large, or too much log was written since it
    /// became active.
    fn is_full(&self, state: &State) -> bool {
        state.active.bytes >= self.half_bytes || state.logged >= self.log_bytes / 2
    }

    /// Called under the lock after a commit was added to the open batch. Returns a handle to wait for its durability.
    /// The caller then releases the lock with [`write_or_wake`](Self::write_or_wake).
    pub(crate) fn committed(state: &mut State) -> Durable {
        state.most_bytes = state.most_bytes.max(state.bytes());
        state.open_commits += 1;
        let batch = state.open_batch;
        Self::durable(state, batch)
    }

    /// Returns a handle to wait until a batch is durable.
    pub(crate) fn durable(state: &mut State, batch: u64) -> Durable {
        if batch <= state.durable_batch {
            return Durable(None);
        }
        let (sender, receiver) = oneshot::channel();
        state.waiters.push((batch, sender));
        Durable(Some(receiver))
    }

    /// Waits until a commit is durable and may be acknowledged. If the store has a lease that has expired, no commit
    /// may be acknowledged, even if it was written before.
    pub(crate) async fn wait(&self, durable: Durable) -> Result<(), Error> {
        if let Some(receiver) = durable.0 {
            receiver.await.map_err(|_| {
                let why = "the store was closed before the commit was durable".to_owned();
                self.lock().failed().unwrap_or(Error::Failed { why })
            })?;
        }
        let Some(lease) = self.lease.get() else { return Ok(()) };
        lease.check().inspect_err(|_| self.fail(&lease.expired_reason()))
    }

    /// Waits until a batch is durable.
    pub(crate) async fn wait_for_batch(&self, batch: u64) -> Result<(), Error> {
        let durable = Self::durable(&mut *self.open()?, batch);
        self.wait(durable).await
    }

    /// Wakes commits that wait for space in memory.
    pub(crate) fn notify_space(&self) {
        self.space.notify_waiters();
    }

    /// Stops the store permanently. Commits that are not durable are never acknowledged.
    pub(crate) fn fail(&self, why: &str) {
        self.fail_silently(why);
        let why = self.lock().failure.clone();
        self.failure.send_if_modified(|failure| std::mem::replace(failure, why).is_none());
    }

    /// Works like [`fail`](Self::fail), but does not yet wake the callers of [`failure`](Self::failure).
    pub(crate) fn fail_silently(&self, why: &str) {
        let mut state = self.lock();
        if state.failure.is_none() {
            tracing::error!(why, "the store has failed");
            state.failure = Some(Arc::from(why));
        }
        state.phase = Phase::Stopping;
        state.waiters.clear();
        drop(state);
        self.segments.opening.stop();
        self.batch_ready.notify_all();
        self.checkpoint_ready.notify_all();
        self.pace.notify_all();
        self.space.notify_waiters();
    }

    /// Changes the phase. `Stopping` is final.
    pub(crate) fn set_phase(&self, phase: Phase) {
        let mut state = self.lock();
        if state.phase != Phase::Stopping {
            state.phase = phase;
        }
        if phase == Phase::Stopping {
            state.waiters.clear();
            self.segments.opening.stop();
        }
        drop(state);
        self.batch_ready.notify_all();
        self.checkpoint_ready.notify_all();
        self.pace.notify_all();
        self.space.notify_waiters();
    }

    /// Waits until the store fails. Returns the first cause.
    pub(crate) async fn failure(&self) -> Error {
        let mut failure = self.failure.subscribe();
        let why = failure.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => Error::Failed { why: why.to_string() },
            // The sender is a field of `self`, so the channel is never closed here.
            None => std::future::pending().await,
        }
    }

    /// Returns an error if a commit is too large for a frame.
    pub(crate) fn check_frame(size: usize) -> Result<(), Error> {
        let max = FRAME_MAX / 4;
        if size > max { Err(Error::TooLarge { max, found: size }) } else { Ok(()) }
    }

    pub(crate) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Commits that must be acknowledged.
#[must_use]
pub(crate) struct Acknowledged(Vec<(u64, oneshot::Sender<()>)>);

impl Acknowledged {
    pub(crate) fn acknowledge(self) {
        for (_, sender) in self.0 {
            // If the caller has stopped waiting, sending fails. This is not an error.
            let _ = sender.send(());
        }
    }
}

/// Handle to wait until a commit is durable. If it is dropped, the commit continues.
#[derive(Debug)]
#[must_use]
pub(crate) struct Durable(Option<oneshot::Receiver<()>>);

#[cfg(test)]
impl Shared {
    /// Creates the state of a store in an empty directory, without threads.
    pub(crate) fn without_threads(options: &crate::Options) -> Self {
        let (tree, _) = Tree::open(&options.directory.join("tree.redb"), 1 << 20).unwrap();
        let found = crate::log::FoundLog { next: 1, ..crate::log::FoundLog::default() };
        let segments = Segments::new(&options.directory, 1, options, Arc::default(), found).unwrap();
        let options = Options { memory_bytes: 1 << 20, log_bytes: 1 << 20, ..options.clone() };
        Self::new(State::new(0), tree, Arc::new(segments), SpareSpace::open(&options), &options)
    }
}
