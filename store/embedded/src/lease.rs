//! The lease of a store that is copied to an archive: the time for which the store may acknowledge commits after its
//! last write to the archive. A standby waits for the same time before it takes over, so that two stores never
//! acknowledge commits at the same time. The shipping thread renews the lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use store::Error;

use crate::faults::Faults;

/// A lease. After it has expired, it stays expired, because another store may have taken over.
#[derive(Debug)]
pub struct Lease {
    length: Duration,
    archive: String,
    /// Time of the last write to the archive, in milliseconds of the lease's clock. `OVER` after the lease has expired.
    written_at: AtomicU64,
    faults: Arc<Faults>,
}

const OVER: u64 = u64::MAX;

impl Lease {
    /// Creates a lease that begins now.
    pub fn new(length: Duration, archive: String, faults: Arc<Faults>) -> Self {
        let lease = Self { length, archive, written_at: AtomicU64::new(0), faults };
        lease.written_at.store(lease.now(), Ordering::SeqCst);
        lease
    }

    /// Returns the milliseconds since the machine was started. Time during which the machine slept is included, because
    /// other machines were awake then.
    pub fn now(&self) -> u64 {
        let now = clock_gettime(ClockId::Boottime);
        let since =
            Duration::new(now.tv_sec.try_into().unwrap_or_default(), now.tv_nsec.try_into().unwrap_or_default());
        u64::try_from((since + self.faults.slept()).as_millis()).unwrap_or(OVER - 1)
    }

    /// Renews the lease because the archive was written at `at`. An expired lease is not renewed.
    pub fn renew(&self, at: u64) {
        if !self.is_over() {
            self.written_at.fetch_max(at, Ordering::SeqCst);
        }
    }

    /// Returns whether the lease has expired, because more time than its length has passed since the last write to the
    /// archive.
    pub fn is_over(&self) -> bool {
        let written_at = self.written_at.load(Ordering::SeqCst);
        let is_over = written_at == OVER || u128::from(self.now().saturating_sub(written_at)) > self.length.as_millis();
        if is_over {
            self.written_at.store(OVER, Ordering::SeqCst);
        }
        is_over
    }

    /// Returns the error message for a store that stops because its lease has expired.
    pub fn expired_reason(&self) -> String {
        format!(
            "the archive `{}` was unreachable for longer than --ship-lease, and another store may have taken over",
            self.archive
        )
    }

    /// Checks that the lease has not expired.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] if the lease has expired.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_over() { Err(Error::Failed { why: self.expired_reason() }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_expires_while_the_machine_sleeps() {
        let faults = Arc::new(Faults::default());
        let lease = Lease::new(Duration::from_secs(60), "a".to_owned(), Arc::clone(&faults));
        faults.sleep(Duration::from_secs(50));
        assert!(!lease.is_over());
        lease.renew(lease.now());
        faults.sleep(Duration::from_secs(50));
        lease.check().unwrap();
        faults.sleep(Duration::from_secs(15));
        assert!(lease.check().unwrap_err().to_string().contains("--ship-lease"));
        lease.renew(lease.now());
        assert!(lease.is_over(), "another store may have taken over");
    }

    #[test]
    fn a_write_that_ends_after_the_lease_does_not_renew_it() {
        let faults = Arc::new(Faults::default());
        let lease = Lease::new(Duration::from_secs(60), "a".to_owned(), Arc::clone(&faults));
        faults.sleep(Duration::from_secs(30));
        let began = lease.now();
        faults.sleep(Duration::from_secs(31));
        lease.renew(began);
        assert!(lease.is_over());
    }
}
