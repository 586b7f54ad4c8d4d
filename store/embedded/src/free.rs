//! How much room the disk of the directory has. Owns how often the system is asked.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::faults::Faults;

/// How long an answer of the system holds. Ours: a disk does not fill up within a second by what a reserve is made for, and starts of
/// runs, which ask each time, should not cost a call of the system each.
const HOLDS: Duration = Duration::from_secs(1);

/// While less is free, an answer holds only [`HOLDS_WHILE_LOW`]. Ours: more than a disk takes in within a second.
const LOW: u64 = 1 << 30;

/// How long an answer of the system holds while little is free. Ours: a fast disk takes a few MiB in that time.
const HOLDS_WHILE_LOW: Duration = Duration::from_millis(10);

/// The free room of a disk.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    directory: PathBuf,
    faults: Arc<Faults>,
    /// When the system was asked, and what it said.
    known: Mutex<Option<(Instant, Option<u64>)>>,
}

impl FreeSpace {
    pub(crate) fn of(directory: &Path, faults: Arc<Faults>) -> Self {
        Self { directory: directory.to_owned(), faults, known: Mutex::default() }
    }

    /// Bytes that this process may still write there; `None` where the system does not tell.
    pub(crate) fn bytes(&self) -> Option<u64> {
        if let Some(bytes) = self.faults.disk_free() {
            return Some(bytes);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some((at, bytes)) if at.elapsed() < holds(bytes) => bytes,
            _ => {
                // What is kept for the system's administrator is not ours: `f_bavail`, not `f_bfree`.
                let asked = rustix::fs::statvfs(&self.directory);
                let bytes = asked.ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
                *known = Some((Instant::now(), bytes));
                bytes
            }
        }
    }

    /// What was known does not hold any more.
    pub(crate) fn ask_again(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn holds(bytes: Option<u64>) -> Duration {
    if bytes.is_some_and(|bytes| bytes < LOW) { HOLDS_WHILE_LOW } else { HOLDS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_system_is_asked_once_a_second_and_what_it_does_not_tell_is_not_known() {
        let scratch = tempfile::TempDir::new().unwrap();
        let free = FreeSpace::of(scratch.path(), Arc::default());
        assert!(free.bytes().is_some_and(|bytes| bytes > 0));
        let first = free.bytes();
        std::fs::remove_dir(scratch.path()).unwrap();
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(free.bytes(), first, "as it was told");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(free.bytes(), None, "asked again, and there is no such directory any more");
        std::fs::create_dir(scratch.path()).unwrap();
        assert_eq!(free.bytes(), None, "which holds as long");
        tokio::time::advance(HOLDS).await;
        assert!(free.bytes().is_some());
    }
}
