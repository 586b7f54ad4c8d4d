//! Checks the clock before anything is deleted because of its age. Otherwise, a clock that was set ahead by mistake
//! would end the retention period of every closed run at once.
//!
//! The newest time that the clock has shown is kept in the store. If the clock is far ahead of this time, the clock is
//! doubted. While the clock is doubted, nothing is deleted because of its age. The doubt ends in one of three cases:
//!
//! * The clock is set back.
//! * The clock has advanced at the normal rate for long enough.
//! * An operator confirms the clock.
//!
//! The clock is also doubted after the service was down for a long time. This only delays deletion.

use std::sync::{Arc, Mutex, MutexGuard};

use history::{Duration, Timestamp};
use serde::{Deserialize, Serialize};
use store::{Cas, Head};
use tokio::time::Instant;

use crate::base::clock::{CLOCK_AHEAD_MAX, CLOCK_MOVED_MIN, ClockMove, ClockStanding, NewestTime};
use crate::base::notices::Notices;
use crate::base::records::Records;
use crate::{Clock, Refusal};

/// Time for which a doubted clock must advance at the normal rate to be trusted again. Our choice: long enough for an
/// operator to see the log and `/readyz`, while deletion is delayed by a day at most.
const BELIEVED_AFTER: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

/// Maximum deviation of a doubted clock from the normal rate. Our choice: more than a time synchronization service
/// corrects in one step.
const DRIFT_MAX: Duration = Duration::from_secs(60);

/// Interval at which the newest time is stored. Our choice: one write per minute, and not longer than the clock lag
/// that is tolerated without a report.
const WRITE_EVERY: Duration = Duration::from_secs(60);

/// Interval at which the clock is compared with the steady clock. Our choice: short enough to notice a jump that lasts
/// three seconds.
pub(crate) const WATCH_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

/// Maximum number of unconfirmed jumps that are kept. Our choice: the newest 16 jumps are enough for a diagnosis.
const MOVES_MAX: usize = 16;

/// Name of the record in the store.
const RECORD: &str = "clock";

/// Stored record with the newest time that the clock has shown while it was not doubted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct GuardRecord {
    newest: Timestamp,
    /// Jumps that no operator has confirmed, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    moves: Vec<ClockMove>,
    /// Number of confirmations by operators. If a node reads a different number than before, it trusts the stored time
    /// and ends its doubt.
    #[serde(default)]
    confirmed: u64,
}

/// A doubted clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubt {
    /// The newest time that the clock showed while it was not doubted.
    pub newest: Timestamp,
    /// Time that the clock showed when the doubt began, or when the clock last deviated from the normal rate.
    pub found: Timestamp,
    since: Instant,
}

#[derive(Debug, Default)]
struct SeenTime {
    newest: Option<Timestamp>,
    written: Option<Timestamp>,
    doubt: Option<Doubt>,
    /// Jumps that no operator has confirmed, as in the stored record.
    moves: Vec<ClockMove>,
    confirmed: u64,
    /// Jumps that must be added to the record, each with the expected time and the time that the clock showed.
    unwritten: Vec<(Timestamp, Timestamp)>,
    /// Last time that the clock showed, with the time of the steady clock at that moment.
    last: Option<(Timestamp, std::time::Duration)>,
    was_put_back: bool,
}

impl SeenTime {
    /// Compares the clock with the steady clock.
    fn watch(&mut self, now: Timestamp, steady: std::time::Duration) {
        if let Some((said, then)) = self.last.replace((now, steady)) {
            let passed = u64::try_from(steady.saturating_sub(then).as_millis()).unwrap_or(u64::MAX);
            self.record_move(said.plus(Duration::from_millis(passed)), now);
        }
    }

    fn record_move(&mut self, from: Timestamp, to: Timestamp) {
        let by = from.since(to).max(to.since(from));
        if by > CLOCK_MOVED_MIN && self.unwritten.len() < MOVES_MAX {
            tracing::error!(
                should_say = %from, says = %to, by = %by,
                "the clock has jumped; deadlines set while it was wrong are wrong"
            );
            self.unwritten.push((from, to));
            self.was_put_back |= to < from;
        }
    }

    /// Updates this node's data from the stored record.
    fn take_in(&mut self, record: &GuardRecord) {
        if self.confirmed != record.confirmed && self.written.is_some() {
            self.believe(record.newest);
            self.was_put_back = true;
        }
        (self.moves, self.confirmed) = (record.moves.clone(), record.confirmed);
    }

    /// Returns the time by which the clock is behind the newest known time; `None` if this time is within the
    /// tolerance.
    fn behind(&self, now: Timestamp) -> Option<Duration> {
        let behind = self.newest?.since(now);
        (behind > CLOCK_MOVED_MIN).then_some(behind)
    }

    /// Checks the clock. `stored` is the newest time that any node has stored.
    fn observe(&mut self, stored: Option<Timestamp>, now: Timestamp, at: Instant) -> Option<Doubt> {
        self.written = stored;
        let Some(newest) = self.newest.max(stored) else {
            // The store has no time yet, so the clock cannot be compared with it.
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

    /// Returns the stored time if the clock can be checked without reading the record again. While there is no doubt,
    /// nearly all checks need no read.
    fn known(&self, now: Timestamp) -> Option<Timestamp> {
        let (newest, written) = (self.newest?, self.written?);
        let is_clear = self.doubt.is_none() && now.since(newest) <= CLOCK_AHEAD_MAX && self.behind(now).is_none();
        (is_clear && newest.max(now).since(written) < WRITE_EVERY).then_some(written)
    }

    /// Returns the newest time if it must be written to the store; otherwise `None`.
    fn news(&self) -> Option<Timestamp> {
        let newest = self.newest?;
        self.written.is_none_or(|written| newest.since(written) >= WRITE_EVERY).then_some(newest)
    }
}

/// Checks the clock and keeps the record of the newest time.
pub struct Guard {
    records: Records,
    clock: Arc<dyn Clock>,
    notices: Arc<Notices>,
    node: Option<String>,
    newest: Arc<NewestTime>,
    seen: Mutex<SeenTime>,
}

impl Guard {
    pub(crate) fn new(
        records: Records,
        clock: Arc<dyn Clock>,
        notices: Arc<Notices>,
        node: Option<String>,
        newest: Arc<NewestTime>,
    ) -> Self {
        Self { records, clock, notices, node, newest, seen: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, SeenTime> {
        self.seen.lock().expect("no code panics while it holds this lock")
    }
}

fn read(head: Option<&Head>) -> Result<Option<GuardRecord>, Refusal> {
    let read = |head: &Head| history::read_json::<GuardRecord>(&head.body);
    let record = head.map(read).transpose();
    record.map_err(|error| Refusal::Corrupt { what: format!("the record of the clock: {error}") })
}

impl Guard {
    /// Returns the current doubt about the clock, which stops deletion by age; `None` if the clock is not doubted.
    pub fn doubt(&self) -> Option<Doubt> {
        self.lock().doubt
    }

    /// Checks the clock and stores the newest time if necessary. Returns the time of the clock, or `None` if the clock
    /// is doubted.
    pub(crate) async fn believed_now(&self) -> Result<Option<Timestamp>, Refusal> {
        let now = self.clock.now();
        let known = self.lock().known(now);
        let (head, record) = match known {
            Some(_) => (None, None),
            None => {
                let head = self.records.load(RECORD).await?;
                let record = read(head.as_ref())?;
                (head, record)
            }
        };
        let (before, doubt, news) = {
            let mut seen = self.lock();
            let before = seen.doubt;
            let is_first = seen.newest.is_none();
            if let Some(record) = &record {
                seen.take_in(record);
            }
            let doubt = seen.observe(known.or(record.as_ref().map(|record| record.newest)), now, Instant::now());
            // The process has just started and knows no earlier time of its clock. Only the stored time shows that the
            // clock is behind.
            if is_first && let Some(behind) = seen.behind(now) {
                seen.record_move(now.plus(behind), now);
            }
            // The clock may have been corrected while the service was down.
            seen.was_put_back |= is_first && !seen.moves.is_empty();
            self.newest.set(seen.newest.unwrap_or_default());
            (before, doubt, seen.news())
        };
        match (before, doubt) {
            // The notice is repeated, at a limited rate, until an operator acts.
            (_, Some(Doubt { newest, found, .. })) => self.notices.clock_doubted(newest, found),
            (Some(_), None) => tracing::warn!("the clock is trusted again; retention resumes"),
            (None, None) => {}
        }
        if let Some(newest) = news {
            // If the write fails because another node has written its time first, the next check reads that time.
            let record = GuardRecord { newest, ..record.unwrap_or_default() };
            match self.records.write(RECORD, head.as_ref(), &record).await {
                Ok(Cas::Won) => self.lock().written = Some(newest),
                // If the disk is full, the stored time stays valid. No error is returned, because deletion by age must
                // continue, because it frees space.
                Ok(Cas::Lost(_)) | Err(Refusal::DiskFull { .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(doubt.is_none().then_some(now))
    }

    /// Returns true if, since the last call, the clock was set back or this node noticed a confirmation.
    pub(crate) fn take_put_back(&self) -> bool {
        std::mem::take(&mut self.lock().was_put_back)
    }

    /// Makes the next call of [`take_put_back`](Self::take_put_back) return true. Used if the caller's work failed and
    /// must be repeated.
    pub(crate) fn put_back_again(&self) {
        self.lock().was_put_back = true;
    }

    /// Compares the clock with the steady clock. If the clock has jumped, records the jump in the store.
    pub(crate) async fn watch(&self) -> Result<(), Refusal> {
        let unwritten = {
            let mut seen = self.lock();
            if let Some(steady) = self.clock.steady() {
                seen.watch(self.clock.now(), steady);
            }
            seen.unwritten.clone()
        };
        if unwritten.is_empty() {
            return Ok(());
        }
        let head = self.records.load(RECORD).await?;
        let mut record = read(head.as_ref())?.unwrap_or_default();
        let moves = unwritten.iter().map(|(from, to)| ClockMove { from: *from, to: *to, node: self.node.clone() });
        record.moves.extend(moves);
        let too_many = record.moves.len().saturating_sub(MOVES_MAX);
        record.moves.drain(..too_many);
        if record.newest == Timestamp::default() {
            record.newest = unwritten.first().map(|(from, _)| *from).unwrap_or_default();
        }
        if self.records.write(RECORD, head.as_ref(), &record).await? == Cas::Won {
            let mut seen = self.lock();
            seen.moves = record.moves;
            seen.unwritten.drain(..unwritten.len());
        }
        Ok(())
    }

    /// Returns the status of the clock.
    pub fn standing(&self) -> ClockStanding {
        let (now, seen) = (self.clock.now(), self.lock());
        let unwritten = seen.unwritten.iter();
        let unwritten = unwritten.map(|(from, to)| ClockMove { from: *from, to: *to, node: self.node.clone() });
        let moves = seen.moves.iter().cloned().chain(unwritten).collect();
        let is_doubted = seen.doubt.is_some();
        ClockStanding { now, newest: seen.newest, behind: seen.behind(now), is_doubted, moves }
    }

    /// Records an operator's confirmation that the clock is right, after it jumped ahead or was set back. Returns the
    /// time of the clock.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub async fn confirm(&self) -> Result<Timestamp, Refusal> {
        loop {
            let head = self.records.load(RECORD).await?;
            let confirmed = read(head.as_ref())?.unwrap_or_default().confirmed + 1;
            let (newest, moves) = (self.clock.now(), Vec::new());
            let record = GuardRecord { newest, moves, confirmed };
            if self.records.write(RECORD, head.as_ref(), &record).await? == Cas::Won {
                let mut seen = self.lock();
                seen.believe(newest);
                self.newest.set(newest);
                (seen.written, seen.confirmed, seen.was_put_back) = (Some(newest), confirmed, true);
                seen.moves.clear();
                seen.unwritten.clear();
                drop(seen);
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

    /// Clock check with a simulated clock. A test specifies the time that the clock shows and the time that has really
    /// passed, both in seconds.
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
            let doubt = self.seen.observe(self.stored, now, self.start + std::time::Duration::from_secs(passed));
            self.stored = self.seen.news().or(self.stored);
            doubt.is_none()
        }
    }

    #[test]
    fn a_clock_that_jumps_is_doubted_until_it_is_back() {
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
    fn a_jumped_clock_is_believed_after_a_day_at_the_normal_rate() {
        let mut bench = Bench::new();
        bench.is_believed(0, 0);
        for hour in 0..24 {
            assert!(!bench.is_believed(30 * DAY + hour * HOUR, hour * HOUR + 30), "{hour}");
        }
        // The clock jumps again. From this jump on, it must advance at the normal rate for another day.
        assert!(!bench.is_believed(60 * DAY, DAY));
        assert!(!bench.is_believed(60 * DAY + 23 * HOUR, DAY + 23 * HOUR));
        assert!(bench.is_believed(61 * DAY, 2 * DAY));
        assert!(bench.is_believed(61 * DAY + 30, 2 * DAY + 30));
    }

    #[test]
    fn the_stored_time_is_read_once_a_minute_and_while_in_doubt() {
        let mut bench = Bench::new();
        let known =
            |bench: &Bench, says: u64| bench.seen.known(Timestamp::from_millis(1_700_000_000_000 + says * 1_000));
        assert_eq!(known(&bench, 0), None);
        bench.is_believed(0, 0);
        bench.is_believed(30, 30);
        assert!(known(&bench, 59).is_some() && known(&bench, 60).is_none());
        assert!(known(&bench, 2 * DAY).is_none(), "another node may have been told that it is right");
        bench.is_believed(2 * DAY, 60);
        assert!(known(&bench, 60).is_none());
    }

    #[test]
    fn a_clock_that_jumps_either_way_is_noticed_and_drift_is_not() {
        let at = |seconds: u64| Timestamp::from_millis(1_700_000_000_000 + seconds * 1_000);
        let steady = std::time::Duration::from_secs;
        let mut seen = SeenTime::default();
        seen.watch(at(0), steady(5));
        // The clock drifts by a minute in each direction, which is tolerated.
        seen.watch(at(61), steady(6));
        seen.watch(at(2), steady(7));
        assert_eq!(seen.unwritten, []);
        // The clock is two days ahead for three seconds, then right again.
        seen.watch(at(2 * DAY + 3), steady(8));
        seen.watch(at(2 * DAY + 6), steady(11));
        seen.watch(at(7), steady(12));
        assert_eq!(seen.unwritten, [(at(3), at(2 * DAY + 3)), (at(2 * DAY + 7), at(7))]);
        // The clock jumps by just over a minute, which is reported.
        seen.watch(at(8 + 61), steady(13));
        assert_eq!(seen.unwritten.len(), 3);
    }

    #[test]
    fn a_clock_behind_the_newest_time_seen_is_noticed() {
        let mut bench = Bench::new();
        bench.is_believed(HOUR, 0);
        let at = |seconds: u64| Timestamp::from_millis(1_700_000_000_000 + seconds * 1_000);
        assert_eq!(bench.seen.behind(at(HOUR - 60)), None);
        assert_eq!(bench.seen.behind(at(HOUR - 61)), Some(Duration::from_secs(61)));
        bench.seen.take_in(&GuardRecord { newest: at(5), moves: Vec::new(), confirmed: 1 });
        assert_eq!(bench.seen.behind(at(5)), Some(Duration::from_secs(HOUR - 5)), "it has yet to read the record once");
        bench.seen.observe(Some(at(HOUR)), at(5), bench.start);
        bench.seen.take_in(&GuardRecord { newest: at(5), moves: Vec::new(), confirmed: 2 });
        assert_eq!(bench.seen.behind(at(5)), None, "an operator confirmed it at another node");
    }

    #[test]
    fn the_newest_time_of_one_node_is_used_by_another() {
        let mut bench = Bench::new();
        bench.is_believed(0, 0);
        assert!(bench.is_believed(2 * HOUR, 2 * HOUR));
        let mut again = Bench { stored: bench.stored, ..Bench::new() };
        assert!(!again.is_believed(2 * DAY, 0), "as one that was down for as long");
        again.seen.believe(again.stored.unwrap().plus(Duration::from_days(3)));
        assert!(again.is_believed(2 * DAY + 30, 30), "it was confirmed");
    }
}
