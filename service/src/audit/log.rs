//! The log as those who change something see it: they announce a change and wait until the entry is durable. A thread of its own
//! writes what has come, all of it at once; whoever comes meanwhile is written with the next.

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

/// Changes that wait to be written, at most; further ones are refused. Ours: many more than a disk that works lets wait.
const CHANGES_MAX: usize = 4_096;

/// How long an outcome may wait for the disk where no change comes. Ours.
const SETTLE_WAIT: Duration = Duration::from_secs(1);

/// A span in which one line is written to the log of the service about changes that were refused. Ours.
const TELL_SPAN: Duration = Duration::from_secs(1);

/// The audit log cannot be written, so that nothing may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log cannot be written")]
pub struct Unwritten;

/// What was counted.
#[derive(Debug, Default)]
pub struct AuditCounts {
    entries: AtomicU64,
    failures: AtomicU64,
    syncs: AtomicU64,
}

impl AuditCounts {
    /// Entries that were written.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Changes that were refused.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Times that the disk was asked to keep what was written.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

/// Whoever waits for the entry of his change. He is sent the means to tell its outcome: where he is gone, that is told, too.
type WaitingEntry = (Change, oneshot::Sender<Result<Announced, Unwritten>>);

#[derive(Default)]
struct Queue {
    changes: Vec<WaitingEntry>,
    /// Not bounded by itself: there is one for each change that was announced, and a request for each of these.
    outcomes: Vec<ChangeOutcome>,
    flushes: Vec<oneshot::Sender<()>>,
    is_closed: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.outcomes.is_empty() && self.flushes.is_empty()
    }
}

/// What the requests and the thread share.
struct LogShared {
    queue: Mutex<Queue>,
    news: Condvar,
    counts: Arc<AuditCounts>,
    /// The number of the last entry that is there for readers.
    last: AtomicU64,
    told: Mutex<Option<Instant>>,
}

impl LogShared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts changes that are refused, and says so in the log of the service, once a second at most.
    fn refuse(&self, changes: usize, why: &dyn std::fmt::Display) {
        let failures = self.counts.failures.fetch_add(changes as u64, Ordering::Relaxed) + changes as u64;
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| now.duration_since(told) >= TELL_SPAN) {
            *told = Some(now);
            tracing::error!(%why, failures, "the audit log cannot be written: what changes something is refused");
        }
    }
}

/// The audit log of this process.
pub struct AuditLog {
    directory: PathBuf,
    shared: Arc<LogShared>,
    thread: Option<JoinHandle<()>>,
}

impl AuditLog {
    /// Opens the log in a directory, which is made if need be.
    ///
    /// # Errors
    ///
    /// When the directory is another process's or cannot be written, or what is in it does not fit.
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
        let (queue, news, told) = (Mutex::default(), Condvar::new(), Mutex::default());
        let shared = Arc::new(LogShared { queue, news, counts, last, told });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("audit-log".to_owned());
        let thread = thread.spawn(move || write_all(writer, &of_thread));
        let thread = Some(thread.map_err(|error| format!("the audit log has no thread: {error}"))?);
        Ok(Arc::new(Self { directory: directory.to_owned(), shared, thread }))
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What was counted.
    pub fn counts(&self) -> &Arc<AuditCounts> {
        &self.shared.counts
    }

    /// The number of the last entry.
    pub fn last(&self) -> u64 {
        self.shared.last.load(Ordering::Acquire)
    }

    /// Writes an entry for a change that is about to be made, and waits until it is durable.
    ///
    /// # Errors
    ///
    /// Where it cannot be: then there is none, and the change must not be made.
    pub async fn announce(&self, change: Change) -> Result<Announced, Unwritten> {
        let (sender, written) = oneshot::channel();
        {
            let mut queue = self.shared.lock();
            if queue.is_closed {
                return Err(Unwritten);
            }
            if queue.changes.len() >= CHANGES_MAX {
                self.shared.refuse(1, &format_args!("{CHANGES_MAX} changes wait for it"));
                return Err(Unwritten);
            }
            queue.changes.push((change, sender));
        }
        self.shared.news.notify_one();
        written.await.unwrap_or(Err(Unwritten))
    }

    /// Waits until what was told is written and durable, as far as it can be.
    pub async fn flush(&self) {
        let (sender, done) = oneshot::channel();
        {
            let mut queue = self.shared.lock();
            if !queue.is_closed {
                queue.flushes.push(sender);
            }
        }
        self.shared.news.notify_one();
        // Nobody answers where the thread has ended; then nothing is left to be written.
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
            // Then the directory is free for another.
            let _ = thread.join();
        }
    }
}

/// A change that has its entry. Dropped without having been told of, it says that nobody waited for its outcome.
pub struct Announced {
    seq: u64,
    shared: Arc<LogShared>,
    is_told: bool,
}

impl Announced {
    /// The number of its entry.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Tells how it went: the status of the answer, and why it was refused.
    pub fn tell(mut self, status: u16, code: Option<&str>) {
        self.put(Some(status), code.map(str::to_owned));
    }

    fn put(&mut self, status: Option<u16>, code: Option<String>) {
        self.is_told = true;
        self.shared.lock().outcomes.push(ChangeOutcome { of: self.seq, status, code });
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
        if !self.is_told {
            self.put(None, None);
        }
    }
}

/// Has nobody wait for a thread that has ended.
struct Ending<'a>(&'a LogShared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.lock() = Queue { is_closed: true, ..Queue::default() };
    }
}

/// Writes what comes, until the log is closed and nothing is left that can be written.
fn write_all(mut writer: Writer, shared: &Arc<LogShared>) {
    let _ending = Ending(shared);
    let mut outcomes = Vec::new();
    let mut is_failing = false;
    loop {
        let Queue { changes, outcomes: told, flushes, is_closed } =
            take(shared, writer.has_unsynced() || !outcomes.is_empty());
        outcomes.extend(told);
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
                    // Where nobody waits any more, dropping it says so.
                    drop(waiting.send(Ok(Announced { seq, shared: Arc::clone(shared), is_told: false })));
                }
            }
            Err(_) => waiting.into_iter().for_each(|waiting| drop(waiting.send(Err(Unwritten)))),
        }
        for flush in flushes {
            // Whoever waited may have gone.
            let _ = flush.send(());
        }
        if is_closed {
            return;
        }
    }
}

/// What has come; waits for it. Comes back without anything where something is left that should be durable by now.
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
