//! When to look at which run. A bounded, disposable copy of the near end of the store's due index.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};

use history::{Duration, Timestamp};
use store::{Due, HeadKey};

/// How far ahead the agenda looks.
const AHEAD: Duration = Duration::from_secs(60);

/// The most runs on the agenda: about 200 bytes each. With more of them near, it looks less far ahead.
pub(super) const ENTRIES_MAX: usize = 20_000;

#[derive(Default)]
struct Entries {
    order: BTreeSet<(Timestamp, HeadKey)>,
    by_key: HashMap<HeadKey, Timestamp>,
    /// Everything due before this is on the agenda.
    horizon: Timestamp,
    /// When the store's index was last read, whatever the horizon.
    read_at: Timestamp,
}

impl Entries {
    fn remove(&mut self, key: &HeadKey) {
        if let Some((key, at)) = self.by_key.remove_entry(key) {
            self.order.remove(&(at, key));
        }
    }

    fn insert(&mut self, at: Timestamp, key: &HeadKey) {
        self.remove(key);
        self.by_key.insert(key.clone(), at);
        self.order.insert((at, key.clone()));
        if self.order.len() > ENTRIES_MAX
            && let Some((latest, key)) = self.order.pop_last()
        {
            self.by_key.remove(&key);
            self.horizon = self.horizon.min(latest);
        }
    }
}

/// The runs that must be looked at soon.
pub(super) struct Agenda {
    entries: Mutex<Entries>,
    /// How often the store's index is read although the horizon is far: others write to it, too.
    read_every: Option<Duration>,
    /// Notified when the next look may be earlier than it was.
    pub(super) earlier: tokio::sync::Notify,
}

impl Agenda {
    pub(super) fn new(read_every: Option<Duration>) -> Self {
        Self { entries: Mutex::default(), read_every, earlier: tokio::sync::Notify::new() }
    }

    /// Has the store's index read at once: which part of it this node looks after has changed.
    pub(super) fn read_again(&self) {
        self.lock().read_at = Timestamp::default();
        self.earlier.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().expect("no code panics while it holds this lock")
    }

    /// Says when a run must be looked at, after a commit.
    pub(super) fn set(&self, key: &HeadKey, due: Option<Timestamp>) {
        let mut entries = self.lock();
        let first = entries.order.first().map(|(at, _)| *at);
        match due {
            Some(at) if at < entries.horizon => {
                // Most commits move the instant away or leave it: nothing to wake up for.
                entries.insert(at, key);
                if first.is_none_or(|first| at < first) {
                    drop(entries);
                    self.earlier.notify_one();
                }
            }
            _ => entries.remove(key),
        }
    }

    /// The same where somebody may have asked for an earlier look while this one was under way: that look stays.
    pub(super) fn set_unless_earlier(&self, key: &HeadKey, due: Option<Timestamp>) {
        let is_asked_for = self.lock().by_key.get(key).is_some_and(|known| due.is_none_or(|due| *known <= due));
        if !is_asked_for {
            self.set(key, due);
        }
    }

    /// Has a run looked at by then at the latest, whatever the store says: something about it failed that no row tells of.
    pub(super) fn set_by(&self, key: &HeadKey, at: Timestamp) {
        let mut entries = self.lock();
        if entries.by_key.get(key).is_some_and(|known| *known <= at) {
            return;
        }
        let first = entries.order.first().map(|(at, _)| *at);
        entries.insert(at, key);
        if first.is_none_or(|first| at < first) {
            drop(entries);
            self.earlier.notify_one();
        }
    }

    /// Begins to look further ahead: from now on commits due before the second instant are taken in. Fetch what the store
    /// has up to there, then call [`Agenda::fill`], or [`Agenda::retract`] with the first instant.
    pub(super) fn extend(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        let mut entries = self.lock();
        let before = entries.horizon;
        entries.horizon = before.max(now.plus(AHEAD));
        entries.read_at = now;
        (before, entries.horizon)
    }

    /// Looks no further ahead than this again, as the store could not be read: what it has beyond is not known.
    pub(super) fn retract(&self, horizon: Timestamp) {
        let mut entries = self.lock();
        entries.horizon = entries.horizon.min(horizon);
    }

    /// Takes in what the store has; `complete` when that is all before the horizon.
    pub(super) fn fill(&self, due: Vec<Due>, complete: bool) {
        let mut entries = self.lock();
        if !complete && let Some(last) = due.last() {
            entries.horizon = entries.horizon.min(Timestamp::from_millis(last.at));
        }
        for Due { at, key } in due {
            let at = Timestamp::from_millis(at);
            // A commit since the store was read knows better; but another node may have written what is not known here.
            let known = entries.by_key.get(&key).copied();
            if known.is_none_or(|known| self.read_every.is_some() && at < known) {
                entries.insert(at, &key);
            }
        }
    }

    /// Takes off what is due.
    pub(super) fn take_due(&self, now: Timestamp, limit: usize) -> Vec<HeadKey> {
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

    /// When to wake up next, and whether the agenda must be extended by then.
    pub(super) fn next(&self, now: Timestamp) -> (Timestamp, bool) {
        let entries = self.lock();
        // Half the distance ahead, so that what comes near is known well before it is due.
        let extend_at = Timestamp::from_millis(entries.horizon.as_millis().saturating_sub(AHEAD.as_millis() / 2));
        let extend_at = self.read_every.map_or(extend_at, |every| extend_at.min(entries.read_at.plus(every)));
        match entries.order.first() {
            Some((at, _)) if *at <= extend_at => (*at, false),
            _ => (extend_at.max(now), extend_at <= now),
        }
    }

    /// How many runs are on it.
    pub(super) fn len(&self) -> usize {
        self.lock().order.len()
    }
}
