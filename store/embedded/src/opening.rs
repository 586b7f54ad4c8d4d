//! Opening files of the log even if the system temporarily lacks descriptors or memory. Owns the waits between attempts
//! and the log messages about them.
//!
//! Only opening is retried, because a failed open has no effect. A failed write or sync is never retried.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

/// Wait before the second attempt. Ours: connections come and go within milliseconds.
const WAIT_FIRST: Duration = Duration::from_millis(10);

/// Maximum wait between two attempts; each wait is twice as long as the previous one. Ours: commits are waiting, and
/// should continue soon after the shortage ends.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Returns whether the error means a lack of descriptors or memory, which implies nothing about the disk.
fn is_shortage(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// Opens files.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    is_short: AtomicBool,
    postponed: AtomicU64,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

impl Opening {
    /// Opens a file, and retries while the system lacks resources and the store is not stopped.
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

    /// Opens an optional file. Returns `None` if the system lacks resources.
    pub(crate) fn if_possible<T>(&self, open: impl FnOnce() -> io::Result<T>) -> io::Result<Option<T>> {
        match open() {
            Err(error) if is_shortage(&error) => {
                self.note(&error);
                Ok(None)
            }
            done => self.end_shortage(done).map(Some),
        }
    }

    /// Ends all waits permanently.
    pub(crate) fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }

    /// Returns how often a file could not be opened because of a lack of descriptors or memory.
    pub(crate) fn postponed(&self) -> u64 {
        self.postponed.load(Ordering::Relaxed)
    }

    /// Counts a shortage, and logs the first one.
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

    /// Waits. Returns whether the store was stopped in the meantime.
    fn wait(&self, most: Duration) -> bool {
        let is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.stopped.wait_timeout_while(is_stopped, most, |is_stopped| !*is_stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
