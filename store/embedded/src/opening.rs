//! Opening files of the log while the system may be short of descriptors or memory. Owns the waits between the tries, and
//! what is said of them.
//!
//! Only opening is tried again: a file that was not opened has taken nothing. A write or a sync that failed never is.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

/// The wait before the second try. Ours: connections come and go within milliseconds.
const WAIT_FIRST: Duration = Duration::from_millis(10);

/// The longest wait between two tries; each is twice as long as the one before. Ours: commits wait meanwhile, and are to go
/// on soon after the shortage is over.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Whether the system has refused for want of descriptors or memory, which says nothing of the disk.
fn is_shortage(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// Opens files.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    is_short: AtomicBool,
    put_off: AtomicU64,
    is_stopped: Mutex<bool>,
    stopped: Condvar,
}

impl Opening {
    /// Opens, and tries again for as long as the system is short of what that takes and the store is not stopped.
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
                done => return self.over(done),
            }
        }
    }

    /// Opens what the store can do without; `None` when the system is short of what that takes.
    pub(crate) fn if_possible<T>(&self, open: impl FnOnce() -> io::Result<T>) -> io::Result<Option<T>> {
        match open() {
            Err(error) if is_shortage(&error) => {
                self.note(&error);
                Ok(None)
            }
            done => self.over(done).map(Some),
        }
    }

    /// Ends all waits for good.
    pub(crate) fn stop(&self) {
        *self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.notify_all();
    }

    /// How often a file could not be opened for want of descriptors or memory.
    pub(crate) fn put_off(&self) -> u64 {
        self.put_off.load(Ordering::Relaxed)
    }

    /// Counts, and says so where it begins.
    fn note(&self, error: &io::Error) {
        self.put_off.fetch_add(1, Ordering::Relaxed);
        if !self.is_short.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the log cannot open a file now; it is tried again, and commits may wait for it");
        }
    }

    fn over<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if done.is_ok() && self.is_short.swap(false, Ordering::Relaxed) {
            tracing::info!("the log can open files again");
        }
        done
    }

    /// Waits; answers whether the store was stopped meanwhile.
    fn wait(&self, most: Duration) -> bool {
        let is_stopped = self.is_stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.stopped.wait_timeout_while(is_stopped, most, |is_stopped| !*is_stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
