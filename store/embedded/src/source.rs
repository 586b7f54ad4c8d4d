//! Access to the log of an open store, for the crate that copies stores. It provides the durable end of the log, holds
//! that keep uncopied log, and threads for which closing waits. It also stops a store after another store has taken
//! over.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use store::Error;

use crate::background::spawn_background;
use crate::holds::LogHold;
use crate::lease::Lease;
use crate::log::Live;
use crate::shared::{Phase, Shared};
use crate::tree::WholeSnapshot;

/// Maximum wait of [`LogSource::wait`] while the store is closing: about the time to write its last batch.
const CLOSING_WAIT: Duration = Duration::from_millis(1);

/// Handle to the log of an open store.
#[derive(Debug, Clone)]
pub struct LogSource {
    shared: Arc<Shared>,
    directory: PathBuf,
    log: PathBuf,
    id: u64,
    /// Threads for which closing waits. No commit waits for them.
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    is_shipping: Arc<AtomicBool>,
}

impl LogSource {
    pub(crate) fn new(shared: Arc<Shared>, directory: PathBuf, log: PathBuf, id: u64) -> Self {
        Self { shared, directory, log, id, threads: Arc::default(), is_shipping: Arc::default() }
    }

    /// Returns the directory of the store.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory of the log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the id of the store.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the last durable batch.
    pub fn durable(&self) -> u64 {
        self.shared.lock().durable_batch
    }

    /// Returns the segments of the log, oldest first.
    pub fn live(&self) -> Vec<Live> {
        self.shared.segments.live()
    }

    /// Returns a snapshot of the data that has been written to redb.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] and [`Error::Corrupt`] if redb cannot be read.
    pub fn whole(&self) -> Result<WholeSnapshot, Error> {
        self.shared.tree.whole()
    }

    /// Creates a hold, which keeps the log after batch `copied` until the hold is dropped.
    pub fn hold(&self, copied: u64) -> LogHold {
        self.shared.segments.holds.hold(copied)
    }

    /// Returns the phase of the store.
    pub fn phase(&self) -> Phase {
        self.shared.lock().phase
    }

    /// Waits for `pause`, or until the phase changes. If the store is not open, waits only briefly. Returns the phase.
    pub fn wait(&self, pause: Duration) -> Phase {
        let state = self.shared.lock();
        let pause = if state.phase == Phase::Open { pause } else { CLOSING_WAIT };
        let phase = state.phase;
        let waited = self.shared.pace.wait_timeout_while(state, pause, |state| state.phase == phase);
        waited.unwrap_or_else(PoisonError::into_inner).0.phase
    }

    /// Returns true if no further batch becomes durable: the store has stopped, or is closing and has written all
    /// of its commits.
    pub fn is_complete(&self) -> bool {
        let state = self.shared.lock();
        match state.phase {
            Phase::Open => false,
            Phase::Closing => state.builder.is_empty() && state.durable_batch + 1 == state.open_batch,
            Phase::Stopping => true,
        }
    }

    /// Stops the store permanently. Commits that are not durable will not be acknowledged.
    pub fn fail(&self, why: &str) {
        self.shared.fail(why);
    }

    /// Like [`fail`](Self::fail), but does not yet notify callers that wait for a failure.
    pub fn fail_silently(&self, why: &str) {
        self.shared.fail_silently(why);
    }

    /// Records that the store is shipped. Returns false if it was shipped already.
    pub fn begin_shipping(&self) -> bool {
        !self.is_shipping.swap(true, Ordering::SeqCst)
    }

    /// Sets the lease of the store, after whose expiry no commits are acknowledged. If a lease is already set, it is
    /// kept.
    pub fn set_lease(&self, lease: Arc<Lease>) {
        self.shared.lease.get_or_init(|| lease);
    }

    /// Starts a thread for which no commit waits. Closing the store waits for the thread for some seconds.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the system cannot start a thread.
    pub fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = spawn_background(name, run)?;
        self.threads().push(thread);
        Ok(())
    }

    pub(crate) fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
