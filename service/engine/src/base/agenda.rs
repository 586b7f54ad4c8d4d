//! When to look at which run. A bounded, disposable copy of the near end of the store's due index.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};

use history::{Duration, Timestamp};
use store::{Due, HeadKey};

/// The longest such wait of a run that its list has no row of (`backlog.rs`). It is also how far ahead a node looks that takes
/// over from another. Ours: so few waits are as short that there is little to look at.
pub(crate) const OFFER_SOON_MAX: history::Duration = history::Duration::from_secs(600);

/// How far ahead the agenda looks.
const AHEAD: Duration = Duration::from_secs(60);

/// The most runs on the agenda: about 200 bytes each. With more of them near, it looks less far ahead.
pub(crate) const ENTRIES_MAX: usize = 20_000;

/// When a run is looked at again that could not be looked at, or whose task could not be taken. Ours: soon, for it stands still
/// meanwhile, but not at once, as the store has just refused after several tries.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// When to look at a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AgendaEntry {
    at: Timestamp,
    /// It is asked for, whatever the store says: the next look ends it, and no commit before.
    is_asked: bool,
}

#[derive(Default)]
struct AgendaEntries {
    order: BTreeSet<(Timestamp, HeadKey)>,
    by_key: HashMap<HeadKey, AgendaEntry>,
    /// Everything due before this is on the agenda.
    horizon: Timestamp,
    /// When the store's index was last read, whatever the horizon.
    read_at: Timestamp,
    /// When the next look is taken at the latest, unless somebody is told of an earlier one.
    next_look: Timestamp,
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

/// The runs that must be looked at soon.
pub(crate) struct Agenda {
    entries: Mutex<AgendaEntries>,
    /// How often the store's index is read although the horizon is far: others write to it, too.
    read_every: Option<Duration>,
    /// Notified when the next look may be earlier than it was.
    pub(crate) earlier: tokio::sync::Notify,
}

impl Agenda {
    pub(crate) fn new(read_every: Option<Duration>) -> Self {
        Self { entries: Mutex::default(), read_every, earlier: tokio::sync::Notify::new() }
    }

    /// Has the store's index read at once: which part of it this node looks after has changed.
    pub(crate) fn read_again(&self) {
        self.lock().read_at = Timestamp::default();
        self.earlier.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, AgendaEntries> {
        self.entries.lock().expect("no code panics while it holds this lock")
    }

    /// Says when a run must be looked at, after a commit. An earlier look that was asked for stays.
    pub(crate) fn set(&self, key: &HeadKey, due: Option<Timestamp>) {
        let mut entries = self.lock();
        let asked = entries.by_key.get(key).filter(|known| known.is_asked).map(|known| known.at);
        if asked.is_some_and(|asked| due.is_none_or(|due| asked <= due)) {
            return;
        }
        match due {
            Some(at) if at < entries.horizon => {
                entries.insert(AgendaEntry { at, is_asked: asked.is_some() }, key);
                self.must_look_by(at, entries);
            }
            _ => entries.remove(key),
        }
    }

    /// Has the next look be no later than this. It may be earlier: what it was for may have moved away, as it does with most commits, and
    /// to wake up once for nothing costs less than to be told each time.
    fn must_look_by(&self, at: Timestamp, mut entries: MutexGuard<'_, AgendaEntries>) {
        if at < entries.next_look {
            entries.next_look = at;
            drop(entries);
            self.earlier.notify_one();
        }
    }

    /// Has a run looked at by then at the latest, whatever the store says: something about it failed that no row tells of.
    pub(crate) fn set_by(&self, key: &HeadKey, at: Timestamp) {
        let mut entries = self.lock();
        let known = entries.by_key.get(key);
        let at = known.map_or(at, |known| known.at.min(at));
        entries.insert(AgendaEntry { at, is_asked: true }, key);
        self.must_look_by(at, entries);
    }

    /// Has a run looked at soon, as something about it could not be done.
    pub(crate) fn look_again(&self, key: &HeadKey, now: Timestamp) {
        self.set_by(key, now.plus(LOOK_AGAIN_AFTER));
    }

    /// Begins to look further ahead: from now on commits due before the second instant are taken in. Fetch what the store
    /// has up to there, then call [`Agenda::fill`], or [`Agenda::retract`] with the first instant.
    pub(crate) fn extend(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        let mut entries = self.lock();
        let before = entries.horizon;
        entries.horizon = before.max(now.plus(AHEAD));
        entries.read_at = now;
        (before, entries.horizon)
    }

    /// Looks no further ahead than this again, as the store could not be read: what it has beyond is not known.
    pub(crate) fn retract(&self, horizon: Timestamp) {
        let mut entries = self.lock();
        entries.horizon = entries.horizon.min(horizon);
    }

    /// Takes in what the store has; `complete` when that is all before the horizon.
    pub(crate) fn fill(&self, due: Vec<Due>, complete: bool) {
        let mut entries = self.lock();
        if !complete && let Some(last) = due.last() {
            entries.horizon = entries.horizon.min(Timestamp::from_millis(last.at));
        }
        for Due { at, key } in due {
            let at = Timestamp::from_millis(at);
            // A commit since the store was read knows better; but another node may have written what is not known here.
            let known = entries.by_key.get(&key).copied();
            if known.is_none_or(|known| self.read_every.is_some() && at < known.at) {
                let is_asked = known.is_some_and(|known| known.is_asked);
                entries.insert(AgendaEntry { at, is_asked }, &key);
            }
        }
    }

    /// Takes off what is due.
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

    /// When to wake up next, and whether the agenda must be extended by then. Who asks does so.
    pub(crate) fn next(&self, now: Timestamp) -> (Timestamp, bool) {
        let mut entries = self.lock();
        // The clock was put back: what it was ahead for was not read, nor what others have written for now.
        if entries.read_at > now.plus(AHEAD) {
            entries.read_at = Timestamp::default();
            entries.horizon = entries.horizon.min(now);
        }
        // Half the distance ahead, so that what comes near is known well before it is due.
        let extend_at = Timestamp::from_millis(entries.horizon.as_millis().saturating_sub(AHEAD.as_millis() / 2));
        let extend_at = self.read_every.map_or(extend_at, |every| extend_at.min(entries.read_at.plus(every)));
        let (at, extend) = match entries.order.first() {
            Some((at, _)) if *at <= extend_at => (*at, false),
            _ => (extend_at.max(now), extend_at <= now),
        };
        entries.next_look = at;
        (at, extend)
    }

    /// How many runs are on it.
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
    fn a_look_that_was_asked_for_stays_until_it_is_taken_whatever_is_committed_meanwhile() {
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
    fn the_earliest_instant_counts_where_a_look_is_asked_for() {
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
    fn the_index_is_read_again_at_once_after_the_clock_was_put_back() {
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
    fn whoever_sleeps_is_told_of_what_is_earlier_than_its_next_look_and_of_nothing_else() {
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
