//! Free space on the disk of a directory. The number is cached for a short time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::faults::Faults;

/// Time for which a cached value is used. Chosen: within a second, a disk does not fill up by as much as the reserved
/// space. Every start of a run needs the value, and should not make a system call for it.
const HOLDS: Duration = Duration::from_secs(1);

/// Free space below which a cached value is used only for [`VALID_WHILE_LOW`]. Chosen: more than a disk can write
/// within a second.
const LOW: u64 = 1 << 30;

/// Time for which a cached value is used while little space is free. Chosen: a fast disk writes only a few MiB in this
/// time.
const VALID_WHILE_LOW: Duration = Duration::from_millis(10);

/// Free space of a disk.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    directory: PathBuf,
    faults: Arc<Faults>,
    /// Time and result of the last query.
    known: Mutex<Option<(Instant, Option<u64>)>>,
}

impl FreeSpace {
    pub(crate) fn of(directory: &Path, faults: Arc<Faults>) -> Self {
        Self { directory: directory.to_owned(), faults, known: Mutex::default() }
    }

    /// Returns how many bytes this process can still write. Returns `None` if the operating system does not report it.
    pub(crate) fn bytes(&self) -> Option<u64> {
        if let Some(bytes) = self.faults.disk_free() {
            return Some(bytes);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some((at, bytes)) if at.elapsed() < holds(bytes) => bytes,
            _ => {
                // Uses `f_bavail` instead of `f_bfree`, because this process cannot use the space that is reserved for
                // the administrator.
                let stats = rustix::fs::statvfs(&self.directory);
                let bytes = stats.ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
                *known = Some((Instant::now(), bytes));
                bytes
            }
        }
    }

    /// Discards the cached value.
    pub(crate) fn ask_again(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn holds(bytes: Option<u64>) -> Duration {
    if bytes.is_some_and(|bytes| bytes < LOW) { VALID_WHILE_LOW } else { HOLDS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn free_space_is_queried_once_a_second() {
        let scratch = tempfile::TempDir::new().unwrap();
        let free = FreeSpace::of(scratch.path(), Arc::default());
        assert!(free.bytes().is_some_and(|bytes| bytes > 0));
        let first = free.bytes();
        std::fs::remove_dir(scratch.path()).unwrap();
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(free.bytes(), first, "the cached value");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(free.bytes(), None, "queried again, but the directory no longer exists");
        std::fs::create_dir(scratch.path()).unwrap();
        assert_eq!(free.bytes(), None, "cached as well");
        tokio::time::advance(HOLDS).await;
        assert!(free.bytes().is_some());
    }
}
