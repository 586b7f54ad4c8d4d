//! Holds the clock against what has been seen of it, before anything is deleted because of it: a clock that is set ahead by
//! mistake would end the retention of every closed run at once.
//!
//! The newest time that was seen is kept in the store. A clock that is far beyond it is doubted: nothing is deleted by
//! retention until it is back, until it has gone on as time does for long enough, or until an operator confirms it. The same
//! after the service was down for as long, which costs nothing but a late deletion.

use std::sync::{Arc, Mutex, MutexGuard};

use history::{Duration, Timestamp};
use serde::{Deserialize, Serialize};
use store::{Cas, Head};
use tokio::time::Instant;

use crate::base::notices::Notices;
use crate::base::records::Records;
use crate::{Clock, Refusal};

/// How far the clock may be beyond the newest time that was seen. Ours: less than any retention that somebody would miss, and
/// more than a service is down for an update.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_days(1);

/// How long a clock that is doubted goes on as time does before it is believed. Ours: somebody has looked at the log and at
/// `/readyz` meanwhile, and what should have been deleted is kept for no more than a day.
const BELIEVED_AFTER: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

/// By how much a clock that is doubted may go on otherwise than time. Ours: more than a clock is drawn to the right time by.
const DRIFT_MAX: Duration = Duration::from_secs(60);

/// How often the newest time is written down. Ours: a small part of [`CLOCK_AHEAD_MAX`].
const WRITE_EVERY: Duration = Duration::from_secs(3_600);

/// The record's name in the store.
const RECORD: &str = "clock";

/// The record: the newest time that was seen, and believed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct GuardRecord {
    newest: Timestamp,
}

/// A clock that is doubted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// The newest time that was believed.
    pub newest: Timestamp,
    /// What the clock said when it was first doubted, or when it last went on otherwise than time does.
    pub found: Timestamp,
    since: Instant,
}

#[derive(Debug, Default)]
struct SeenTime {
    newest: Option<Timestamp>,
    written: Option<Timestamp>,
    doubt: Option<Doubt>,
}

impl SeenTime {
    /// Looks at the clock; `stored` is the newest time that any node has written down.
    fn look(&mut self, stored: Option<Timestamp>, now: Timestamp, at: Instant) -> Option<Doubt> {
        self.written = stored;
        let Some(newest) = self.newest.max(stored) else {
            // A store that nobody has told the time.
            self.newest = Some(now);
            return None;
        };
        self.newest = Some(newest);
        if now.since(newest) <= CLOCK_AHEAD_MAX {
            self.newest = Some(newest.max(now));
            self.doubt = None;
            return None;
        }
        let doubt = self.doubt.get_or_insert(Doubt { newest, found: now, since: at });
        let elapsed = at.duration_since(doubt.since);
        let expected = doubt.found.plus(Duration::from_millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)));
        if now.since(expected).max(expected.since(now)) > DRIFT_MAX {
            *doubt = Doubt { newest, found: now, since: at };
        } else if elapsed >= BELIEVED_AFTER {
            self.believe(now);
            return None;
        }
        self.doubt
    }

    fn believe(&mut self, now: Timestamp) {
        self.newest = Some(now);
        self.doubt = None;
    }

    /// What is written down, as far as it need not be read again to judge the clock: an hour of no doubt takes one read.
    fn known(&self, now: Timestamp) -> Option<Timestamp> {
        let (newest, written) = (self.newest?, self.written?);
        let is_clear = self.doubt.is_none() && now.since(newest) <= CLOCK_AHEAD_MAX;
        (is_clear && newest.max(now).since(written) < WRITE_EVERY).then_some(written)
    }

    /// What is to be written down.
    fn news(&self) -> Option<Timestamp> {
        let newest = self.newest?;
        self.written.is_none_or(|written| newest.since(written) >= WRITE_EVERY).then_some(newest)
    }
}

/// What has been seen of the clock.
pub struct Guard {
    records: Records,
    clock: Arc<dyn Clock>,
    notices: Arc<Notices>,
    seen: Mutex<SeenTime>,
}

impl Guard {
    pub(crate) fn new(records: Records, clock: Arc<dyn Clock>, notices: Arc<Notices>) -> Self {
        Self { records, clock, notices, seen: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, SeenTime> {
        self.seen.lock().expect("no code panics while it holds this lock")
    }
}

fn read(head: Option<&Head>) -> Result<Option<Timestamp>, Refusal> {
    let read = |head: &Head| history::read_json::<GuardRecord>(&head.body);
    let record = head.map(read).transpose();
    let record = record.map_err(|error| Refusal::Corrupt { what: format!("the record of the clock: {error}") })?;
    Ok(record.map(|record| record.newest))
}

impl Guard {
    /// Why the clock is not believed, and nothing is deleted by retention; `None` where it is.
    pub fn doubt(&self) -> Option<Doubt> {
        self.lock().doubt
    }

    /// What the clock says, if it can be believed; writes down how far it has come.
    pub(crate) async fn believed_now(&self) -> Result<Option<Timestamp>, Refusal> {
        let now = self.clock.now();
        let known = self.lock().known(now);
        let (head, stored) = match known {
            Some(written) => (None, Some(written)),
            None => {
                let head = self.records.load(RECORD).await?;
                let stored = read(head.as_ref())?;
                (head, stored)
            }
        };
        let (before, doubt, news) = {
            let mut seen = self.lock();
            let before = seen.doubt;
            let doubt = seen.look(stored, now, Instant::now());
            (before, doubt, seen.news())
        };
        match (before, doubt) {
            // Rate limited, and said again while nobody has acted.
            (_, Some(Doubt { newest, found, .. })) => self.notices.clock_doubted(newest, found),
            (Some(_), None) => tracing::warn!("the clock is believed again; what is past its retention is deleted"),
            (None, None) => {}
        }
        if let Some(newest) = news {
            // Another node that was first has written about the same, which is read with the next look.
            if self.records.write(RECORD, head.as_ref(), &GuardRecord { newest }).await? == Cas::Won {
                self.lock().written = Some(newest);
            }
        }
        Ok(doubt.is_none().then_some(now))
    }

    /// Believes the clock as it is now; answers what it says.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn confirm(&self) -> Result<Timestamp, Refusal> {
        loop {
            let head = self.records.load(RECORD).await?;
            let newest = self.clock.now().max(read(head.as_ref())?.unwrap_or_default());
            if self.records.write(RECORD, head.as_ref(), &GuardRecord { newest }).await? == Cas::Won {
                self.lock().believe(newest);
                tracing::warn!(now = %newest, "the clock was confirmed");
                return Ok(newest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;
    const DAY: u64 = 24 * HOUR;

    /// A clock that says so many seconds since some day, when so many have passed.
    struct Bench {
        seen: SeenTime,
        stored: Option<Timestamp>,
        start: Instant,
    }

    impl Bench {
        fn new() -> Self {
            Self { seen: SeenTime::default(), stored: None, start: Instant::now() }
        }

        fn is_believed(&mut self, says: u64, passed: u64) -> bool {
            let now = Timestamp::from_millis(1_700_000_000_000 + says * 1_000);
            let doubt = self.seen.look(self.stored, now, self.start + std::time::Duration::from_secs(passed));
            self.stored = self.seen.news().or(self.stored);
            doubt.is_none()
        }
    }

    #[test]
    fn a_clock_that_goes_on_as_time_does_is_believed_and_one_that_jumps_is_not_until_it_is_back() {
        let mut bench = Bench::new();
        assert!(bench.is_believed(0, 0), "there is nothing to hold it against");
        assert!(bench.is_believed(30, 30));
        assert!(bench.is_believed(30 + DAY, 60), "not yet far enough to matter");
        assert!(!bench.is_believed(40 * DAY, 90));
        assert!(!bench.is_believed(40 * DAY + 30, 120));
        assert!(bench.is_believed(DAY + 200, 150), "it is back");
        assert!(bench.is_believed(5, 180), "one that is behind deletes nothing that it should not");
        assert!(!bench.is_believed(2 * DAY + 300, 210), "it is held against the newest time, not the last");
    }

    #[test]
    fn a_clock_that_has_jumped_is_believed_when_it_has_gone_on_as_time_does_for_a_day() {
        let mut bench = Bench::new();
        bench.is_believed(0, 0);
        for hour in 0..24 {
            assert!(!bench.is_believed(30 * DAY + hour * HOUR, hour * HOUR + 30), "{hour}");
        }
        // It jumps once more: it is looked at anew.
        assert!(!bench.is_believed(60 * DAY, DAY));
        assert!(!bench.is_believed(60 * DAY + 23 * HOUR, DAY + 23 * HOUR));
        assert!(bench.is_believed(61 * DAY, 2 * DAY));
        assert!(bench.is_believed(61 * DAY + 30, 2 * DAY + 30));
    }

    #[test]
    fn what_is_written_down_is_read_once_an_hour_and_whenever_the_clock_is_doubted() {
        let mut bench = Bench::new();
        let known =
            |bench: &Bench, says: u64| bench.seen.known(Timestamp::from_millis(1_700_000_000_000 + says * 1_000));
        assert_eq!(known(&bench, 0), None);
        bench.is_believed(0, 0);
        bench.is_believed(30, 30);
        assert!(known(&bench, HOUR - 1).is_some() && known(&bench, HOUR).is_none());
        assert!(known(&bench, 2 * DAY).is_none(), "another node may have been told that it is right");
        bench.is_believed(2 * DAY, 60);
        assert!(known(&bench, 60).is_none());
    }

    #[test]
    fn what_one_has_seen_another_is_held_against_after_a_restart() {
        let mut bench = Bench::new();
        bench.is_believed(0, 0);
        assert!(bench.is_believed(2 * HOUR, 2 * HOUR));
        let mut again = Bench { stored: bench.stored, ..Bench::new() };
        assert!(!again.is_believed(2 * DAY, 0), "as one that was down for as long");
        again.seen.believe(again.stored.unwrap().plus(Duration::from_days(3)));
        assert!(again.is_believed(2 * DAY + 30, 30), "it was confirmed");
    }
}
