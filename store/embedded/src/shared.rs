//! State shared by the callers and the two threads: the layers, the open batch, and the waiting commits. Owns the lock
//! and the rules of visibility and back-pressure. The files belong to the threads, and the end of the log to the
//! current writer.

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

/// Size of the open batch above which commits wait for the next one.
const BATCH_BYTES: usize = 4 << 20;

/// State shared by callers and threads.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Signals that there is a batch to write, or that the store stops.
    pub(crate) batch_ready: Condvar,
    /// Signals that there is a frozen layer to write or a spare segment to prepare, or that the store stops.
    pub(crate) checkpoint_ready: Condvar,
    /// Interrupts the pauses of the checkpoint.
    pub(crate) pace: Condvar,
    /// Signals that there may be space for a commit again.
    space: Notify,
    failure: watch::Sender<Option<Arc<str>>>,
    pub(crate) tree: Tree,
    pub(crate) segments: Arc<Segments>,
    pub(crate) spare: SpareSpace,
    pub(crate) half_bytes: usize,
    pub(crate) log_bytes: u64,
    pub(crate) commits: AtomicU64,
    /// Number of rows that lists have examined.
    pub(crate) rows_read: AtomicU64,
    /// Set once the store is shipped with a lease.
    pub(crate) lease: OnceLock<Arc<Lease>>,
}

/// Lifecycle phase of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The store accepts commits.
    Open,
    /// The store accepts no commits; the threads finish their work.
    Closing,
    /// The threads stop without finishing their work.
    Stopping,
}

/// A layer that accepts no more writes, on its way to redb.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) layer: Layer,
    /// Every batch up to this one is in this layer or in redb.
    pub(crate) position: u64,
    /// Batch up to which the log must be durable before any of this layer may be written to redb.
    pub(crate) durable_needed: u64,
}

/// Numbers of rows by their keys, without zeros.
pub(crate) type Counts = BTreeMap<Vec<u8>, u64>;

/// State under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) active: Layer,
    pub(crate) frozen: Option<Arc<Frozen>>,
    /// Number of layers written to redb. Values read from redb are current as long as it does not change.
    pub(crate) epoch: u64,
    pub(crate) builder: Builder,
    /// Number of the batch in `builder`, and how many commits it contains.
    pub(crate) open_batch: u64,
    pub(crate) open_commits: u64,
    pub(crate) durable_batch: u64,
    /// Bytes logged since the last freeze.
    pub(crate) logged: u64,
    pub(crate) needs_spare: bool,
    pub(crate) phase: Phase,
    pub(crate) failure: Option<Arc<str>>,
    waiters: Vec<(u64, oneshot::Sender<()>)>,
    /// Runs whose parts are still being deleted.
    pub(crate) doomed: std::collections::BTreeSet<Vec<u8>>,
    /// Numbers of rows as of the newest commit.
    pub(crate) counts: Counts,
    pub(crate) most_bytes: usize,
    /// Set by the committer thread before it waits, to save the system call that wakes it.
    pub(crate) is_committer_idle: bool,
    /// End of the log, while no write is in progress.
    pub(crate) log_end: Option<LogEnd>,
    /// A write is in progress, and its thread has the end of the log.
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

    /// Returns the newest slot of a key in memory, or `None` if the key is not in memory.
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

    /// Hands the active layer to the checkpoint. Must not be called while there is a frozen one.
    pub(crate) fn freeze(&mut self) {
        let (open, is_open) = (self.open_batch, !self.builder.is_empty());
        self.freeze_at(open - 1, if is_open { open } else { open - 1 });
    }

    /// Freezes a layer of data replayed up to a batch while the store is being opened. The log contains all of it.
    pub(crate) fn freeze_replayed(&mut self, position: u64) {
        self.freeze_at(position, 0);
    }

    fn freeze_at(&mut self, position: u64, durable_needed: u64) {
        let layer = std::mem::take(&mut self.active);
        self.frozen = Some(Arc::new(Frozen { layer, position, durable_needed }));
        self.logged = 0;
    }

    /// Returns the newest slots of a range in memory, unordered.
    pub(crate) fn unwritten(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = (&[u8], &LayerValue)> {
        let frozen = self.frozen.iter().flat_map(move |frozen| frozen.layer.range(from, to));
        frozen.filter(|(key, _)| self.active.get(key).is_none()).chain(self.active.range(from, to))
    }

    /// Records that everything up to `batch` is durable. Returns the commits to acknowledge after the lock is released.
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

    /// Returns the state if the store can still serve calls.
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

    /// Waits until there is space in memory for a commit. The disk must have space now.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], and those of [`open`](Self::open).
    pub(crate) async fn ensure_space(&self) -> Result<(), Error> {
        self.spare.must_have()?;
        self.wait_for_space().await
    }

    /// Like [`ensure_space`](Self::ensure_space), but for deletions, which may use the reserved disk space.
    ///
    /// # Errors
    ///
    /// Those of [`ensure_space`](Self::ensure_space).
    pub(crate) async fn ensure_space_for_deletion(&self) -> Result<(), Error> {
        self.spare.must_have_for_deleting()?;
        self.wait_for_space().await
    }

    /// Waits until there is space in memory for a commit. Several commits may pass at once, so the limit can be
    /// exceeded by their sizes.
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

    /// Returns whether the active layer must be written to redb because of its size or the size of its log.
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

    /// Returns a handle to wait for the durability of a batch.
    pub(crate) fn durable(state: &mut State, batch: u64) -> Durable {
        if batch <= state.durable_batch {
            return Durable(None);
        }
        let (sender, receiver) = oneshot::channel();
        state.waiters.push((batch, sender));
        Durable(Some(receiver))
    }

    /// Waits until the batch is durable and may be acknowledged. After the lease has expired it may not, regardless of
    /// when it was written.
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

    /// Signals that there may be space again.
    pub(crate) fn notify_space(&self) {
        self.space.notify_waiters();
    }

    /// Stops the store permanently. Commits that are not durable will not be acknowledged.
    pub(crate) fn fail(&self, why: &str) {
        self.fail_silently(why);
        let why = self.lock().failure.clone();
        self.failure.send_if_modified(|failure| std::mem::replace(failure, why).is_none());
    }

    /// Like [`fail`](Self::fail), but does not yet notify those who wait for a failure.
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

    /// Advances the phase; `Stopping` is final.
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

    /// Waits for a failure of the store, and returns its first cause.
    pub(crate) async fn failure(&self) -> Error {
        let mut failure = self.failure.subscribe();
        let why = failure.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => Error::Failed { why: why.to_string() },
            // The sender is part of `self`, so it is never dropped here.
            None => std::future::pending().await,
        }
    }

    /// Fails if a commit is too large for a frame.
    pub(crate) fn check_frame(size: usize) -> Result<(), Error> {
        let max = FRAME_MAX / 4;
        if size > max { Err(Error::TooLarge { max, found: size }) } else { Ok(()) }
    }

    pub(crate) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Commits to acknowledge.
#[must_use]
pub(crate) struct Acknowledged(Vec<(u64, oneshot::Sender<()>)>);

impl Acknowledged {
    pub(crate) fn acknowledge(self) {
        for (_, sender) in self.0 {
            // A caller that no longer waits is ignored.
            let _ = sender.send(());
        }
    }
}

/// Handle to wait for the durability of a commit. Dropping it has no effect.
#[derive(Debug)]
#[must_use]
pub(crate) struct Durable(Option<oneshot::Receiver<()>>);

#[cfg(test)]
impl Shared {
    /// Creates the state for an empty directory.
    pub(crate) fn without_threads(options: &crate::Options) -> Self {
        let (tree, _) = Tree::open(&options.directory.join("tree.redb"), 1 << 20).unwrap();
        let found = crate::log::FoundLog { next: 1, ..crate::log::FoundLog::default() };
        let segments = Segments::new(&options.directory, 1, options, Arc::default(), found).unwrap();
        let options = Options { memory_bytes: 1 << 20, log_bytes: 1 << 20, ..options.clone() };
        Self::new(State::new(0), tree, Arc::new(segments), SpareSpace::open(&options), &options)
    }
}
