//! Opens files of the log, with retries if the operating system temporarily lacks file descriptors or memory.
//!
//! Only opening is retried, because a failed attempt has no effect. A failed write or sync is never retried.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

/// Wait before the second attempt. Chosen: connections are closed within milliseconds, which frees descriptors.
const WAIT_FIRST: Duration = Duration::from_millis(10);

/// Maximum wait between two attempts. Each wait is twice as long as the previous one. Chosen: commits are waiting, and
/// should continue soon after descriptors are available again.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Returns whether the error means that the operating system lacks descriptors or memory. Such an error says nothing
/// about the disk.
fn is_shortage(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// Opens files, and counts failed attempts.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    is_short: AtomicBool,
    postponed: AtomicU64,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

impl Opening {
    /// Opens a file. Retries as long as the operating system lacks descriptors or memory, until the store is stopped.
    pub(crate) fn patiently<T>(&self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut wait = WAIT_FIRST;
        loop {
            match open() {
                Err(error) if is_shortage(&error) => {
                    self.note(&error);
                    if self.wait(wait) {
                        return Err(error);
                    }
                    wait = (wait * 2).min(WAIT_MAX);
                }
                done => return self.end_shortage(done),
            }
        }
    }

    /// Opens a file that is not required. Returns `None` if the operating system lacks descriptors or memory.
    pub(crate) fn if_possible<T>(&self, open: impl FnOnce() -> io::Result<T>) -> io::Result<Option<T>> {
        match open() {
            Err(error) if is_shortage(&error) => {
                self.note(&error);
                Ok(None)
            }
            done => self.end_shortage(done).map(Some),
        }
    }

    /// Ends all current waits, and makes all later waits return at once.
    pub(crate) fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }

    /// Returns the number of attempts that failed because of a lack of descriptors or memory.
    pub(crate) fn postponed(&self) -> u64 {
        self.postponed.load(Ordering::Relaxed)
    }

    /// Counts a failed attempt, and logs it if it is the first one.
    fn note(&self, error: &io::Error) {
        self.postponed.fetch_add(1, Ordering::Relaxed);
        if !self.is_short.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the log cannot open a file now; it retries, and commits may have to wait");
        }
    }

    fn end_shortage<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if done.is_ok() && self.is_short.swap(false, Ordering::Relaxed) {
            tracing::info!("the log can open files again");
        }
        done
    }

    /// Waits for at most this time. Returns whether the store was stopped.
    fn wait(&self, most: Duration) -> bool {
        let is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.stopped.wait_timeout_while(is_stopped, most, |is_stopped| !*is_stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
