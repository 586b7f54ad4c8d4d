//! Interface of the audit log. The process announces each change and waits until its entry is durable. A separate
//! thread writes all waiting entries in one batch. Entries that arrive during a write form the next batch.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::chain::{Change, ChangeOutcome};
use super::writer::{Sync, Writer};
use engine::Clock;

/// Maximum number of changes waiting to be written; further changes are refused. Our choice: many times the number that
/// waits while the disk works normally.
const CHANGES_MAX: usize = 4_096;

/// Maximum time until a written outcome is made durable. If another change is announced within this time, the outcome
/// becomes durable together with that announcement. Our choice.
const SETTLE_WAIT: Duration = Duration::from_secs(1);

/// Period in which refused changes cause at most one line in the service's log. Our choice.
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// Error: the audit log cannot be written, so the change must not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log cannot be written")]
pub struct Unwritten;

/// Counters of the audit log.
#[derive(Debug, Default)]
pub struct AuditCounts {
    entries: AtomicU64,
    failures: AtomicU64,
    syncs: AtomicU64,
}

impl AuditCounts {
    /// Returns the number of written entries.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Returns the number of refused changes.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the number of disk syncs.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

/// Waiting change, and the channel to which its announcement is sent. If the receiver no longer exists, the
/// announcement is dropped. Dropping it records that the outcome is unknown.
type WaitingEntry = (Change, oneshot::Sender<Result<Announced, Unwritten>>);

#[derive(Default)]
struct Queue {
    changes: Vec<WaitingEntry>,
    /// Outcomes that wait to be written. Their number needs no limit, because each belongs to an announced change, and
    /// thus to a request in progress.
    outcomes: Vec<ChangeOutcome>,
    flushes: Vec<oneshot::Sender<()>>,
    is_closed: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.outcomes.is_empty() && self.flushes.is_empty()
    }
}

/// State shared by requests and the writing thread.
struct LogShared {
    queue: Mutex<Queue>,
    news: Condvar,
    counts: Arc<AuditCounts>,
    /// Sequence number of the last entry that may be returned to readers of the log.
    last: AtomicU64,
    last_logged: Mutex<Option<Instant>>,
}

impl LogShared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts refused changes, and logs them at most once per second.
    fn refuse(&self, changes: usize, why: &dyn std::fmt::Display) {
        let failures = self.counts.failures.fetch_add(changes as u64, Ordering::Relaxed) + changes as u64;
        let now = Instant::now();
        let mut last_logged = self.last_logged.lock().unwrap_or_else(PoisonError::into_inner);
        if last_logged.is_none_or(|last| now.duration_since(last) >= LOG_PERIOD) {
            *last_logged = Some(now);
            tracing::error!(%why, failures, "the audit log cannot be written: changes are refused");
        }
    }
}

/// Audit log of this process.
pub struct AuditLog {
    directory: PathBuf,
    shared: Arc<LogShared>,
    thread: Option<JoinHandle<()>>,
}

impl AuditLog {
    /// Opens the log in a directory, and creates the directory if needed.
    ///
    /// # Errors
    ///
    /// If another process uses the directory, it cannot be written, or its content is invalid.
    pub fn open(directory: &Path, clock: Arc<dyn Clock>) -> Result<Arc<Self>, String> {
        Self::open_with(directory, clock, Box::new(std::fs::File::sync_data))
    }

    fn open_with(directory: &Path, clock: Arc<dyn Clock>, sync: Box<Sync>) -> Result<Arc<Self>, String> {
        let counts = Arc::new(AuditCounts::default());
        let counted = Arc::clone(&counts);
        let sync = Box::new(move |file: &std::fs::File| {
            counted.syncs.fetch_add(1, Ordering::Relaxed);
            sync(file)
        });
        let writer = Writer::open(directory.to_owned(), clock, sync)?;
        let last = AtomicU64::new(writer.head().seq);
        let (queue, news, last_logged) = (Mutex::default(), Condvar::new(), Mutex::default());
        let shared = Arc::new(LogShared { queue, news, counts, last, last_logged });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("audit-log".to_owned());
        let thread = thread.spawn(move || write_all(writer, &of_thread));
        let thread = Some(thread.map_err(|error| format!("cannot start the thread of the audit log: {error}"))?);
        Ok(Arc::new(Self { directory: directory.to_owned(), shared, thread }))
    }

    /// Returns the log's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the log's counters.
    pub fn counts(&self) -> &Arc<AuditCounts> {
        &self.shared.counts
    }

    /// Returns the sequence number of the last entry that may be returned to readers of the log.
    pub fn last(&self) -> u64 {
        self.shared.last.load(Ordering::Acquire)
    }

    /// Writes an entry for a change that is about to be made, and waits until it is durable.
    ///
    /// # Errors
    ///
    /// If the entry cannot be written. It is then not in the log, and the change must not be made.
    pub async fn announce(&self, change: Change) -> Result<Announced, Unwritten> {
        let (sender, written) = oneshot::channel();
        {
            let mut queue = self.shared.lock();
            if queue.is_closed {
                return Err(Unwritten);
            }
            if queue.changes.len() >= CHANGES_MAX {
                self.shared.refuse(1, &format_args!("{CHANGES_MAX} changes are waiting"));
                return Err(Unwritten);
            }
            queue.changes.push((change, sender));
        }
        self.shared.news.notify_one();
        written.await.unwrap_or(Err(Unwritten))
    }

    /// Waits until all recorded outcomes are written and durable, or until an attempt to do so has failed.
    pub async fn flush(&self) {
        let (sender, done) = oneshot::channel();
        {
            let mut queue = self.shared.lock();
            if !queue.is_closed {
                queue.flushes.push(sender);
            }
        }
        self.shared.news.notify_one();
        // If the writing thread has ended, nothing is left to write, and this returns immediately.
        let _ = done.await;
    }
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.news.notify_one();
        if let Some(thread) = self.thread.take() {
            // When the thread has ended, another process can lock the directory.
            let _ = thread.join();
        }
    }
}

/// Change whose entry is durable. If this is dropped before [`tell`](Self::tell) is called, an outcome without a status
/// is recorded. Such an outcome means that the caller did not wait for the response.
pub struct Announced {
    seq: u64,
    shared: Arc<LogShared>,
    has_outcome: bool,
}

impl Announced {
    /// Returns the sequence number of the change's entry.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Records the outcome: the status of the response, and the code of a refusal.
    pub fn tell(mut self, status: u16, code: Option<&str>) {
        self.put(Some(status), code.map(str::to_owned));
    }

    fn put(&mut self, status: Option<u16>, code: Option<String>) {
        self.has_outcome = true;
        self.shared.lock().outcomes.push(ChangeOutcome { request_seq: self.seq, status, code });
        self.shared.news.notify_one();
    }
}

impl std::fmt::Debug for Announced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Announced").field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if !self.has_outcome {
            self.put(None, None);
        }
    }
}

/// Guard of the writing thread. When the thread ends, dropping the guard closes and empties the queue, so that no
/// request waits for the thread any longer.
struct Ending<'a>(&'a LogShared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.lock() = Queue { is_closed: true, ..Queue::default() };
    }
}

/// Body of the writing thread. Writes entries until the log is closed. Then writes the remaining entries, if possible,
/// and ends.
fn write_all(mut writer: Writer, shared: &Arc<LogShared>) {
    let _ending = Ending(shared);
    let mut outcomes = Vec::new();
    let mut is_failing = false;
    loop {
        let Queue { changes, outcomes: new_outcomes, flushes, is_closed } =
            take(shared, writer.has_unsynced() || !outcomes.is_empty());
        outcomes.extend(new_outcomes);
        let is_idle = changes.is_empty() && outcomes.is_empty();
        let (changes, waiting): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let count = changes.len();
        let before = writer.head().seq;
        let written = if is_idle { Ok(Vec::new()) } else { writer.write(&mut outcomes, changes) };
        let settles = is_closed || is_idle || !flushes.is_empty();
        let settled = if settles && written.is_ok() { writer.settle(&mut outcomes) } else { Ok(()) };
        let last = writer.head().seq;
        shared.counts.entries.fetch_add(last.saturating_sub(before), Ordering::Relaxed);
        shared.last.store(last, Ordering::Release);
        let error = written.as_ref().err().or(settled.as_ref().err());
        match error {
            Some(error) => shared.refuse(count, error),
            None if is_failing && !is_idle => tracing::info!("the audit log is written again"),
            None => {}
        }
        is_failing = error.is_some() || is_failing && is_idle;
        match written {
            Ok(numbers) => {
                for (seq, waiting) in numbers.into_iter().zip(waiting) {
                    // If the receiver no longer exists, the announcement is dropped, which records an outcome without a
                    // status.
                    drop(waiting.send(Ok(Announced { seq, shared: Arc::clone(shared), has_outcome: false })));
                }
            }
            Err(_) => waiting.into_iter().for_each(|waiting| drop(waiting.send(Err(Unwritten)))),
        }
        for flush in flushes {
            // The send fails if the caller has stopped waiting for the flush.
            let _ = flush.send(());
        }
        if is_closed {
            return;
        }
    }
}

/// Waits until the queue has content, and takes it. If `has_unsynced` is true, waits at most [`SETTLE_WAIT`] and may
/// then return an empty queue, so that the writer can make outcomes durable.
fn take(shared: &LogShared, has_unsynced: bool) -> Queue {
    let mut queue = shared.lock();
    while queue.is_empty() && !queue.is_closed {
        if has_unsynced {
            let waited = shared.news.wait_timeout(queue, SETTLE_WAIT).unwrap_or_else(PoisonError::into_inner);
            queue = waited.0;
            if waited.1.timed_out() {
                break;
            }
        } else {
            queue = shared.news.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
    let is_closed = queue.is_closed;
    Queue { is_closed, ..std::mem::take(&mut *queue) }
}

#[cfg(test)]
mod tests;
