//! Agenda: the runs that must be woken soon, with the times of their wakes. It is a bounded cache of the earliest
//! entries of the store's due index, from which it can be rebuilt.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};

use history::{Duration, Timestamp};
use store::{Due, HeadKey};

/// Maximum delay before a waiting task that has no row in the backlog of its list (`lists/backlog.rs`) is offered to
/// the list again. A node that takes over from another node reads the due index this far ahead. Our choice: few tasks
/// are offered within this time, so there is little to read.
pub(crate) const OFFER_SOON_MAX: history::Duration = history::Duration::from_secs(600);

/// Length of the period from now for which the due index is read. Our choice.
const READ_AHEAD: Duration = Duration::from_secs(60);

/// Maximum number of runs on the agenda. If more runs are due soon, the agenda covers a shorter period. Our choice: at
/// about 200 bytes each, the entries take at most 4 MB.
pub(crate) const ENTRIES_MAX: usize = 20_000;

/// Delay before a run is woken again if it could not be handled or its task could not be started. Our choice: short,
/// because the run makes no progress meanwhile, but not zero, because the store has just failed several attempts.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Time at which a run must be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AgendaEntry {
    at: Timestamp,
    /// True if the wake was requested by a module rather than read from the due index. A commit does not move a
    /// requested wake to a later time.
    is_requested: bool,
}

#[derive(Default)]
struct AgendaEntries {
    order: BTreeSet<(Timestamp, HeadKey)>,
    by_key: HashMap<HeadKey, AgendaEntry>,
    /// All entries of the due index before this time are on the agenda.
    horizon: Timestamp,
    /// Time when the due index was last read, including reads that did not move the horizon.
    read_at: Timestamp,
    /// Time at which the sweeper wakes up next, unless it is notified of an earlier time.
    next_wake: Timestamp,
}

impl AgendaEntries {
    fn remove(&mut self, key: &HeadKey) {
        if let Some((key, entry)) = self.by_key.remove_entry(key) {
            self.order.remove(&(entry.at, key));
        }
    }

    fn insert(&mut self, entry: AgendaEntry, key: &HeadKey) {
        self.remove(key);
        self.by_key.insert(key.clone(), entry);
        self.order.insert((entry.at, key.clone()));
        if self.order.len() > ENTRIES_MAX
            && let Some((latest, key)) = self.order.pop_last()
        {
            self.by_key.remove(&key);
            self.horizon = self.horizon.min(latest);
        }
    }
}

/// Runs to be woken soon.
pub(crate) struct Agenda {
    entries: Mutex<AgendaEntries>,
    /// Interval at which the due index is read even if the horizon is far ahead. Needed if other nodes also write to
    /// the index.
    read_every: Option<Duration>,
    /// Notified when the sweeper must wake up earlier than planned.
    pub(crate) earlier: tokio::sync::Notify,
}

impl Agenda {
    pub(crate) fn new(read_every: Option<Duration>) -> Self {
        Self { entries: Mutex::default(), read_every, earlier: tokio::sync::Notify::new() }
    }

    /// Makes the sweeper read the due index at once, because this node's shards have changed.
    pub(crate) fn read_again(&self) {
        self.lock().read_at = Timestamp::default();
        self.earlier.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, AgendaEntries> {
        self.entries.lock().expect("no code panics while it holds this lock")
    }

    /// Sets the time at which a run must be woken, after a commit. If a module has requested an earlier wake, that wake
    /// is kept.
    pub(crate) fn set(&self, key: &HeadKey, due: Option<Timestamp>) {
        let mut entries = self.lock();
        let asked = entries.by_key.get(key).filter(|known| known.is_requested).map(|known| known.at);
        if asked.is_some_and(|asked| due.is_none_or(|due| asked <= due)) {
            return;
        }
        match due {
            Some(at) if at < entries.horizon => {
                entries.insert(AgendaEntry { at, is_requested: asked.is_some() }, key);
                self.wake_by(at, entries);
            }
            _ => entries.remove(key),
        }
    }

    /// Makes the sweeper wake up at this time at the latest. The sweeper may then find no run due, because later
    /// commits often move a wake to a later time. Such an unnecessary wake-up costs less than notifying the sweeper of
    /// each commit.
    fn wake_by(&self, at: Timestamp, mut entries: MutexGuard<'_, AgendaEntries>) {
        if at < entries.next_wake {
            entries.next_wake = at;
            drop(entries);
            self.earlier.notify_one();
        }
    }

    /// Wakes a run at this time at the latest, even if the due index has a later time or no time for the run. Used
    /// after failures that are not recorded in the store.
    pub(crate) fn set_by(&self, key: &HeadKey, at: Timestamp) {
        let mut entries = self.lock();
        let known = entries.by_key.get(key);
        let at = known.map_or(at, |known| known.at.min(at));
        entries.insert(AgendaEntry { at, is_requested: true }, key);
        self.wake_by(at, entries);
    }

    /// Wakes a run again soon, because it could not be handled or its task could not be started.
    pub(crate) fn wake_again(&self, key: &HeadKey, now: Timestamp) {
        self.set_by(key, now.plus(RETRY_DELAY));
    }

    /// Extends the horizon, which is the time up to which all due runs are on the agenda. Returns the old and the new
    /// horizon. After this call, a run is put on the agenda if its commit sets a wake before the new horizon. The
    /// caller must read the due index up to the new horizon, then call [`Agenda::fill`]. If the read fails, the caller
    /// must call [`Agenda::retract`] with the old horizon.
    pub(crate) fn extend(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        let mut entries = self.lock();
        let before = entries.horizon;
        entries.horizon = before.max(now.plus(READ_AHEAD));
        entries.read_at = now;
        (before, entries.horizon)
    }

    /// Moves the horizon back to its old value, because the store could not be read.
    pub(crate) fn retract(&self, horizon: Timestamp) {
        let mut entries = self.lock();
        entries.horizon = entries.horizon.min(horizon);
    }

    /// Adds entries of the due index. `complete` says whether these are all entries before the horizon.
    pub(crate) fn fill(&self, due: Vec<Due>, complete: bool) {
        let mut entries = self.lock();
        if !complete && let Some(last) = due.last() {
            entries.horizon = entries.horizon.min(Timestamp::from_millis(last.at));
        }
        for Due { at, key } in due {
            let at = Timestamp::from_millis(at);
            // A time that is already on the agenda is kept, because it may come from a commit after the index was read.
            // If nodes share the store, an earlier time in the index replaces the time on the agenda, because another
            // node may have written it.
            let known = entries.by_key.get(&key).copied();
            if known.is_none_or(|known| self.read_every.is_some() && at < known.at) {
                let is_requested = known.is_some_and(|known| known.is_requested);
                entries.insert(AgendaEntry { at, is_requested }, &key);
            }
        }
    }

    /// Removes and returns runs that are due, at most `limit`.
    pub(crate) fn take_due(&self, now: Timestamp, limit: usize) -> Vec<HeadKey> {
        let mut entries = self.lock();
        let mut due = Vec::new();
        while due.len() < limit
            && let Some((at, _)) = entries.order.first()
            && *at <= now
            && let Some((_, key)) = entries.order.pop_first()
        {
            entries.by_key.remove(&key);
            due.push(key);
        }
        due
    }

    /// Returns the time at which the sweeper must wake up next, and whether it must then extend the agenda.
    pub(crate) fn next(&self, now: Timestamp) -> (Timestamp, bool) {
        let mut entries = self.lock();
        // The last read can be this far in the future only if the clock was set back. The due index must then be read
        // again, because other nodes may have written entries for times that are in the future again.
        if entries.read_at > now.plus(READ_AHEAD) {
            entries.read_at = Timestamp::default();
            entries.horizon = entries.horizon.min(now);
        }
        // Extends the agenda once half of `READ_AHEAD` has passed, so that entries are known well before they are due.
        let extend_at = Timestamp::from_millis(entries.horizon.as_millis().saturating_sub(READ_AHEAD.as_millis() / 2));
        let extend_at = self.read_every.map_or(extend_at, |every| extend_at.min(entries.read_at.plus(every)));
        let (at, extend) = match entries.order.first() {
            Some((at, _)) if *at <= extend_at => (*at, false),
            _ => (extend_at.max(now), extend_at <= now),
        };
        entries.next_wake = at;
        (at, extend)
    }

    /// Returns the number of runs on the agenda.
    pub(crate) fn len(&self) -> usize {
        self.lock().order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> HeadKey {
        HeadKey { domain: "d".into(), workflow_id: id.into() }
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_requested_wake_stays_until_it_is_taken() {
        let (agenda, run) = (Agenda::new(None), key("w"));
        agenda.extend(at(0));
        agenda.set_by(&run, at(1_000));
        agenda.set(&run, None);
        agenda.set(&run, Some(at(30_000)));
        assert_eq!(agenda.take_due(at(1_000), 10), std::slice::from_ref(&run));
        agenda.set(&run, Some(at(30_000)));
        agenda.set(&run, None);
        assert_eq!(agenda.len(), 0, "nobody asks any more");
    }

    #[test]
    fn the_earliest_time_of_a_requested_wake_counts() {
        let (agenda, run) = (Agenda::new(None), key("w"));
        agenda.extend(at(0));
        for (due, by) in [(500, 1_000), (1_000, 500)] {
            agenda.set(&run, Some(at(due)));
            agenda.set_by(&run, at(by));
            agenda.set(&run, None);
            assert!(agenda.take_due(at(499), 10).is_empty());
            assert_eq!(agenda.take_due(at(500), 10), std::slice::from_ref(&run));
        }
        agenda.set_by(&run, at(1_000));
        agenda.set(&run, Some(at(500)));
        agenda.set(&run, None);
        assert_eq!(agenda.take_due(at(500), 10), std::slice::from_ref(&run));
    }

    #[test]
    fn the_due_index_is_read_after_the_clock_was_put_back() {
        for read_every in [None, Some(Duration::from_secs(5))] {
            let agenda = Agenda::new(read_every);
            agenda.extend(at(7_200_000));
            assert!(!agenda.next(at(7_200_000)).1);
            assert_eq!(agenda.next(at(3_600_000)), (at(3_600_000), true));
            assert_eq!(agenda.extend(at(3_600_000)).1, at(3_660_000));
            assert!(!agenda.next(at(3_600_000)).1);
        }
    }

    #[test]
    fn only_an_earlier_wake_is_notified() {
        let (agenda, run, other) = (Agenda::new(None), key("w"), key("v"));
        let is_told = || {
            let mut told = std::pin::pin!(agenda.earlier.notified());
            told.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_ready()
        };
        agenda.extend(at(0));
        assert_eq!(agenda.next(at(0)).0, at(30_000));
        agenda.set(&run, Some(at(10_000)));
        assert!(is_told());
        for due in [20_000, 10_000, 15_000] {
            agenda.set(&run, Some(at(due)));
            assert!(!is_told(), "it looks at 10 s whatever has moved");
        }
        agenda.set(&other, Some(at(9_999)));
        assert!(is_told());
        agenda.set_by(&run, at(9_998));
        assert!(is_told());
        assert_eq!(agenda.take_due(at(9_999), 10).len(), 2);
        assert_eq!(agenda.next(at(9_999)).0, at(30_000));
        agenda.set(&run, Some(at(20_000)));
        assert!(is_told(), "since it has looked, it sleeps for longer");
    }
}
