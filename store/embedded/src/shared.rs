//! What the callers and the two threads share: the layers, the open batch, who waits for which batch. Owns the lock and
//! the rules of visibility and back-pressure; the files belong to the threads, and the log's end to whoever writes.

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
use crate::room::SpareRoom;
use crate::tree::Tree;

/// When the open batch holds this many bytes, commits wait for the next.
const BATCH_BYTES: usize = 4 << 20;

/// What callers and threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// There is a batch to write, or the end has come.
    pub(crate) batch_ready: Condvar,
    /// There is a frozen layer to write, a spare to prepare, or the end has come.
    pub(crate) checkpoint_ready: Condvar,
    /// Cuts the pauses of the checkpoint short.
    pub(crate) pace: Condvar,
    /// There may be room for a commit again.
    room: Notify,
    failure: watch::Sender<Option<Arc<str>>>,
    pub(crate) tree: Tree,
    pub(crate) segments: Arc<Segments>,
    pub(crate) spare: SpareRoom,
    pub(crate) half_bytes: usize,
    pub(crate) log_bytes: u64,
    pub(crate) commits: AtomicU64,
    /// Rows that lists have looked at.
    pub(crate) rows_read: AtomicU64,
    /// Set once the store is shipped with a lease.
    pub(crate) lease: OnceLock<Arc<Lease>>,
}

/// How far towards the end the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Takes commits.
    Open,
    /// Takes none; the threads finish what there is.
    Closing,
    /// The threads stop where they are.
    Stopping,
}

/// A layer that takes no more writes, on its way to redb.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) layer: Layer,
    /// Every batch up to here is in this layer or in redb.
    pub(crate) position: u64,
    /// The log must be durable up to here before any of this may reach redb.
    pub(crate) durable_needed: u64,
}

/// How many rows there are, under the keys of those numbers that are not 0.
pub(crate) type Counts = BTreeMap<Vec<u8>, u64>;

/// Under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) active: Layer,
    pub(crate) frozen: Option<Arc<Frozen>>,
    /// Counts the layers that have gone to redb: what was read from redb is current while this stands.
    pub(crate) epoch: u64,
    pub(crate) builder: Builder,
    /// The number of the batch in `builder`, and how many commits are in there.
    pub(crate) open_batch: u64,
    pub(crate) open_commits: u64,
    pub(crate) durable_batch: u64,
    /// Bytes logged since the newest freeze.
    pub(crate) logged: u64,
    pub(crate) needs_spare: bool,
    pub(crate) phase: Phase,
    pub(crate) failure: Option<Arc<str>>,
    waiters: Vec<(u64, oneshot::Sender<()>)>,
    /// Runs whose parts are still being removed.
    pub(crate) doomed: std::collections::BTreeSet<Vec<u8>>,
    /// What the newest rows come to.
    pub(crate) counts: Counts,
    pub(crate) most_bytes: usize,
    /// Set by the committer before it waits: waking it is a system call.
    pub(crate) is_committer_idle: bool,
    /// The end of the log, while nobody writes there.
    pub(crate) log_end: Option<LogEnd>,
    /// Somebody has the end of the log.
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

    /// The newest slot of a key in memory; `None` when only redb can tell.
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

    /// Bytes held in memory for what is not yet in redb.
    pub(crate) fn bytes(&self) -> usize {
        self.active.bytes + self.frozen.as_ref().map_or(0, |frozen| frozen.layer.bytes)
    }

    /// Hands the active layer to the checkpoint. Only when there is no frozen one.
    pub(crate) fn freeze(&mut self) {
        let (open, is_open) = (self.open_batch, !self.builder.is_empty());
        self.freeze_at(open - 1, if is_open { open } else { open - 1 });
    }

    /// The same for what was replayed up to a batch, while the store is being opened: the log has all of it.
    pub(crate) fn freeze_replayed(&mut self, position: u64) {
        self.freeze_at(position, 0);
    }

    fn freeze_at(&mut self, position: u64, durable_needed: u64) {
        let layer = std::mem::take(&mut self.active);
        self.frozen = Some(Arc::new(Frozen { layer, position, durable_needed }));
        self.logged = 0;
    }

    /// The newest slots in memory of a range, in no order.
    pub(crate) fn unwritten(&self, from: &[u8], to: &[u8]) -> impl Iterator<Item = (&[u8], &LayerValue)> {
        let frozen = self.frozen.iter().flat_map(move |frozen| frozen.layer.range(from, to));
        frozen.filter(|(key, _)| self.active.get(key).is_none()).chain(self.active.range(from, to))
    }

    /// Everything up to `batch` is durable: who is to be told, when the lock is free.
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
    pub(crate) fn new(state: State, tree: Tree, segments: Arc<Segments>, spare: SpareRoom, options: &Options) -> Self {
        Self {
            state: Mutex::new(state),
            batch_ready: Condvar::new(),
            checkpoint_ready: Condvar::new(),
            pace: Condvar::new(),
            room: Notify::new(),
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

    /// The state, if the store can still answer.
    pub(crate) fn open(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.lock();
        if let Some(error) = state.failed() {
            return Err(error);
        }
        if state.phase == Phase::Open { Ok(state) } else { Err(Error::Failed { why: "it was closed".to_owned() }) }
    }

    /// Waits until there is room in memory for a commit, which the disk must have now.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], and what [`open`](Self::open) says.
    pub(crate) async fn must_have_room(&self) -> Result<(), Error> {
        self.spare.must_have()?;
        self.wait_for_room().await
    }

    /// The same for what deletes, which may have room where nothing else does.
    ///
    /// # Errors
    ///
    /// As for [`must_have_room`](Self::must_have_room).
    pub(crate) async fn must_have_room_for_deleting(&self) -> Result<(), Error> {
        self.spare.must_have_for_deleting()?;
        self.wait_for_room().await
    }

    /// Waits until there is room in memory for a commit. A few commits may pass at once; the bound is kept to within their sizes.
    async fn wait_for_room(&self) -> Result<(), Error> {
        loop {
            let notified = self.room.notified();
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

    /// Whether the active layer must go to redb, by its size or by the log that stands behind it.
    fn is_full(&self, state: &State) -> bool {
        state.active.bytes >= self.half_bytes || state.logged >= self.log_bytes / 2
    }

    /// Called under the lock after a commit was put into the open batch: what to await until it is durable. Whoever has the lock then lets it
    /// go with [`let_go`](Self::let_go).
    pub(crate) fn committed(state: &mut State) -> Durable {
        state.most_bytes = state.most_bytes.max(state.bytes());
        state.open_commits += 1;
        let batch = state.open_batch;
        Self::durable(state, batch)
    }

    /// What to await until a batch is durable.
    pub(crate) fn durable(state: &mut State, batch: u64) -> Durable {
        if batch <= state.durable_batch {
            return Durable(None);
        }
        let (sender, receiver) = oneshot::channel();
        state.waiters.push((batch, sender));
        Durable(Some(receiver))
    }

    /// Resolves when what `durable` stands for is durable and may be told: not once the lease is over, whenever it was written.
    pub(crate) async fn wait(&self, durable: Durable) -> Result<(), Error> {
        if let Some(receiver) = durable.0 {
            receiver.await.map_err(|_| {
                let why = "it was closed before the commit was durable".to_owned();
                self.lock().failed().unwrap_or(Error::Failed { why })
            })?;
        }
        let Some(lease) = self.lease.get() else { return Ok(()) };
        lease.check().inspect_err(|_| self.fail(&lease.why_over()))
    }

    /// Waits until a batch is durable.
    pub(crate) async fn wait_for_batch(&self, batch: u64) -> Result<(), Error> {
        let durable = Self::durable(&mut *self.open()?, batch);
        self.wait(durable).await
    }

    /// There may be room again.
    pub(crate) fn made_room(&self) {
        self.room.notify_waiters();
    }

    /// Stops everything for good: what is not durable will not be acknowledged.
    pub(crate) fn fail(&self, why: &str) {
        self.silence(why);
        let why = self.lock().failure.clone();
        self.failure.send_if_modified(|told| std::mem::replace(told, why).is_none());
    }

    /// The same, without telling those who wait for a failure yet.
    pub(crate) fn silence(&self, why: &str) {
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
        self.room.notify_waiters();
    }

    /// Moves towards the end; never back.
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
        self.room.notify_waiters();
    }

    /// Resolves with the first cause when the store has failed.
    pub(crate) async fn failure(&self) -> Error {
        let mut failure = self.failure.subscribe();
        let why = failure.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => Error::Failed { why: why.to_string() },
            // The sender lives in `self`, so it does not go away.
            None => std::future::pending().await,
        }
    }

    /// A commit larger than a frame can be.
    pub(crate) fn check_frame(size: usize) -> Result<(), Error> {
        let max = FRAME_MAX / 4;
        if size > max { Err(Error::TooLarge { max, found: size }) } else { Ok(()) }
    }

    pub(crate) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Those whose commits are durable.
#[must_use]
pub(crate) struct Acknowledged(Vec<(u64, oneshot::Sender<()>)>);

impl Acknowledged {
    pub(crate) fn tell(self) {
        for (_, sender) in self.0 {
            // A caller that no longer waits does not need to know.
            let _ = sender.send(());
        }
    }
}

/// A promise of durability. Dropping it is no harm.
#[derive(Debug)]
#[must_use]
pub(crate) struct Durable(Option<oneshot::Receiver<()>>);

#[cfg(test)]
impl Shared {
    /// Of a directory that is empty.
    pub(crate) fn without_threads(options: &crate::Options) -> Self {
        let (tree, _) = Tree::open(&options.directory.join("tree.redb"), 1 << 20).unwrap();
        let found = crate::log::FoundLog { next: 1, ..crate::log::FoundLog::default() };
        let segments = Segments::new(&options.directory, 1, options, Arc::default(), found).unwrap();
        let options = Options { memory_bytes: 1 << 20, log_bytes: 1 << 20, ..options.clone() };
        Self::new(State::new(0), tree, Arc::new(segments), SpareRoom::open(&options), &options)
    }
}
