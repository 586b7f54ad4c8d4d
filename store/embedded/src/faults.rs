//! Fault injection for tests: disks that fail, and a process that ends between any two steps. The code that can fail
//! checks these switches. Only tests switch them on.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Switches for the faults of one store.
#[derive(Debug)]
pub struct Faults {
    writes_fail: AtomicBool,
    syncs_fail: AtomicBool,
    space_left: AtomicU64,
    disk_free: AtomicU64,
    opens_refused: AtomicU64,
    at_point: Mutex<Option<(String, FaultAction)>>,
    synced_bytes: AtomicU64,
    slept_ms: AtomicU64,
}

/// Effect of reaching a named step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAction {
    /// The step fails with an error.
    Fail,
    /// The process aborts without running any cleanup.
    Abort,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            writes_fail: AtomicBool::new(false),
            syncs_fail: AtomicBool::new(false),
            space_left: AtomicU64::new(u64::MAX),
            disk_free: AtomicU64::new(u64::MAX),
            opens_refused: AtomicU64::new(0),
            at_point: Mutex::new(None),
            synced_bytes: AtomicU64::new(0),
            slept_ms: AtomicU64::new(0),
        }
    }
}

impl Faults {
    /// Advances the clock of the store's lease, as if the machine had been suspended for this time.
    pub fn sleep(&self, time: Duration) {
        self.slept_ms.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Returns the total time that was simulated with [`sleep`](Self::sleep).
    pub fn slept(&self) -> Duration {
        Duration::from_millis(self.slept_ms.load(Ordering::SeqCst))
    }

    /// Makes all further writes to the log fail after half of their bytes.
    pub fn fail_writes(&self) {
        self.writes_fail.store(true, Ordering::SeqCst);
    }

    /// Makes all further syncs of the log fail without an effect.
    pub fn fail_syncs(&self) {
        self.syncs_fail.store(true, Ordering::SeqCst);
    }

    /// Limits the space that is left on the disk of the log.
    pub fn limit_space(&self, bytes: u64) {
        self.space_left.store(bytes, Ordering::SeqCst);
    }

    /// Sets the number of free bytes that the store reports. With `u64::MAX`, the store reports the real number again.
    pub fn set_disk_free(&self, bytes: u64) {
        self.disk_free.store(bytes, Ordering::SeqCst);
    }

    pub(crate) fn disk_free(&self) -> Option<u64> {
        Some(self.disk_free.load(Ordering::SeqCst)).filter(|bytes| *bytes != u64::MAX)
    }

    /// Makes the next `times` attempts to open a log file fail, as if the process had no file descriptors left.
    pub fn refuse_opens(&self, times: u64) {
        self.opens_refused.store(times, Ordering::SeqCst);
    }

    /// Returns how many attempts to open a log file will still fail.
    pub fn opens_refused(&self) -> u64 {
        self.opens_refused.load(Ordering::SeqCst)
    }

    /// Triggers `action` when the step named `point` is next reached. The names of steps are listed in `checkpoint.rs`
    /// and `log.rs`.
    pub fn at(&self, point: &str, action: FaultAction) {
        *self.at_point.lock().unwrap_or_else(PoisonError::into_inner) = Some((point.to_owned(), action));
    }

    /// Returns the number of bytes of the newest segment that are synced and therefore survive a power failure.
    pub fn synced_bytes(&self) -> u64 {
        self.synced_bytes.load(Ordering::SeqCst)
    }

    pub(crate) fn set_synced_bytes(&self, bytes: u64) {
        self.synced_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Triggers the action that was set for the step of this name, if any.
    ///
    /// # Errors
    ///
    /// The injected error.
    pub fn point(&self, name: &str) -> io::Result<()> {
        let mut at_point = self.at_point.lock().unwrap_or_else(PoisonError::into_inner);
        match at_point.take_if(|(point, _)| point == name) {
            Some((_, FaultAction::Abort)) => std::process::abort(),
            Some((_, FaultAction::Fail)) => Err(io::Error::other(format!("injected at `{name}`"))),
            None => Ok(()),
        }
    }

    /// Checks whether `length` bytes may be written. If not, returns how many of the bytes are written before the
    /// error.
    ///
    /// # Errors
    ///
    /// The injected error, and the number of bytes to write before it occurs.
    pub fn before_write(&self, length: usize) -> Result<(), (usize, io::Error)> {
        if self.writes_fail.load(Ordering::Relaxed) {
            return Err((length / 2, io::Error::other("injected write failure")));
        }
        let space = self.space_left.load(Ordering::Relaxed);
        if space == u64::MAX {
            return Ok(());
        }
        if space < length as u64 {
            return Err((usize::try_from(space).unwrap_or(0), io::Error::from(io::ErrorKind::StorageFull)));
        }
        self.space_left.store(space - length as u64, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn before_open(&self) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(1);
        match self.opens_refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Err(rustix::io::Errno::MFILE.into()),
            Err(_) => Ok(()),
        }
    }

    /// Fails if [`fail_syncs`](Self::fail_syncs) was called.
    ///
    /// # Errors
    ///
    /// The injected error.
    pub fn before_sync(&self) -> io::Result<()> {
        if self.syncs_fail.load(Ordering::Relaxed) { Err(io::Error::other("injected sync failure")) } else { Ok(()) }
    }
}
