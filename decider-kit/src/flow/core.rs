//! What the code of a flow and the history share: decisions going one way, outcomes coming the other.
//!
//! Everything is kept in the order in which it came about (keys count up, maps are sorted), so that the same history
//! always wakes the same things in the same order. User code never runs while the lock is held.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use history::{CancelActivity, CancelTimer, Decision, EventId, Payload, RecordMarker, Timestamp};
use uuid::Uuid;

use super::failure::{Cause, Failure};
use super::query::Query;
use super::trouble::Trouble;
use crate::decisions::payload;

/// Names a wait. Counts up.
pub(super) type Key = u64;

/// Who can be canceled together.
#[derive(Debug, Default)]
pub(super) struct ScopeNode {
    parent: Option<Arc<ScopeNode>>,
    /// Set once: why.
    canceled: OnceLock<Option<String>>,
}

impl ScopeNode {
    pub(super) fn within(parent: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { parent: Some(Arc::clone(parent)), canceled: OnceLock::new() })
    }

    /// The failure of what waits in here; `None` while it is not canceled.
    pub(super) fn canceled(&self) -> Option<Failure> {
        let mut node = Some(self);
        while let Some(scope) = node {
            if let Some(reason) = scope.canceled.get() {
                let details = reason.as_ref().map(payload);
                return Some(Failure::of("canceled", details, Cause::Canceled));
            }
            node = scope.parent.as_deref();
        }
        None
    }
}

/// What a wait is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum On {
    Activity { activity_id: String, activity_type: String, outlasts_cancel: bool },
    Timer { timer_id: String },
    Signal { name: String },
    Cancel,
}

/// What came of a wait.
pub(super) type Outcome = Result<Option<Payload>, Failure>;

/// Somebody waits for something.
#[derive(Debug)]
struct Wait {
    on: On,
    scope: Arc<ScopeNode>,
    waker: Option<Waker>,
    /// With the event that brought it.
    outcome: Option<(EventId, Outcome)>,
    /// Its scope's cancellation has been taken note of.
    is_canceled: bool,
}

/// A decision, and who waits for what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Issued {
    pub(super) decision: Decision,
    pub(super) key: Option<Key>,
}

/// The markers among a turn's recorded decisions, in the place of each.
pub(super) type Foreseen = Vec<Option<RecordMarker>>;

/// Which run this is.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    pub(super) workflow_id: String,
    pub(super) run_id: Uuid,
    pub(super) workflow_type: String,
}

/// What code and history share.
#[derive(Default)]
pub(super) struct Core {
    pub(super) about: About,
    pub(super) now: Timestamp,
    /// Whether the code is being run: nothing is issued at other times, e.g. when a state is dropped.
    pub(super) is_running: bool,
    /// What the history says about the turn being run; `None` when it is decided for the first time.
    pub(super) foreseen: Option<Foreseen>,
    /// This turn's decisions.
    pub(super) issued: Vec<Issued>,
    pub(super) queries: BTreeMap<String, Query>,
    pub(super) trouble: Option<Trouble>,
    waits: BTreeMap<Key, Wait>,
    keys: Key,
    /// Waits for what was scheduled, by the event that scheduled it.
    scheduled: BTreeMap<EventId, Key>,
    /// How often each id has been given out.
    ids: BTreeMap<String, u64>,
    signals: BTreeMap<String, VecDeque<(EventId, Option<Payload>)>>,
    patches: BTreeMap<String, bool>,
}

/// The core, shared.
pub(super) type Shared = Arc<Mutex<Core>>;

pub(super) fn lock(shared: &Shared) -> MutexGuard<'_, Core> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cancels a scope, and wakes what waited in it.
pub(super) fn cancel(shared: &Shared, scope: &ScopeNode, reason: Option<String>) {
    if scope.canceled.set(reason).is_ok() {
        let wakers = lock(shared).note_cancellations();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Asking for things: what futures do.
impl Core {
    /// An id for something that has none: its name, and from the second time on with a number.
    pub(super) fn id_for(&mut self, name: &str) -> String {
        let count = self.ids.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1 { name.to_owned() } else { format!("{name}#{count}") }
    }

    pub(super) fn issue(&mut self, decision: impl Into<Decision>, key: Option<Key>) {
        if self.is_running {
            self.issued.push(Issued { decision: decision.into(), key });
        }
    }

    pub(super) fn wait(&mut self, on: On, scope: &Arc<ScopeNode>) -> Key {
        self.keys += 1;
        let wait = Wait { on, scope: Arc::clone(scope), waker: None, outcome: None, is_canceled: false };
        self.waits.insert(self.keys, wait);
        self.keys
    }

    /// What came of a wait, which is then over; otherwise the waker is kept for when it comes.
    pub(super) fn take_outcome(&mut self, key: Key, waker: &Waker) -> Option<(EventId, Outcome)> {
        let wait = self.waits.get_mut(&key)?;
        match wait.outcome.take() {
            Some(outcome) => {
                self.waits.remove(&key);
                Some(outcome)
            }
            None => {
                wait.waker = Some(waker.clone());
                None
            }
        }
    }

    /// Nobody waits any more: what is still open is taken back.
    pub(super) fn abandon(&mut self, key: Key) {
        let Some(wait) = self.waits.remove(&key) else { return };
        if wait.outcome.is_none() && !wait.is_canceled {
            self.take_back(wait.on);
        }
    }

    fn take_back(&mut self, on: On) {
        match on {
            On::Activity { activity_id, .. } => self.issue(CancelActivity { activity_id }, None),
            On::Timer { timer_id } => self.issue(CancelTimer { timer_id }, None),
            On::Signal { .. } | On::Cancel => {}
        }
    }

    pub(super) fn take_signal(&mut self, name: &str) -> Option<(EventId, Option<Payload>)> {
        self.signals.get_mut(name)?.pop_front()
    }

    /// The marker that the history has in the place of the next decision, if it has this name.
    fn next_marker(&self, name: &str) -> Option<&RecordMarker> {
        let next = self.foreseen.as_ref()?.get(self.issued.len())?.as_ref();
        next.filter(|marker| marker.name == name)
    }

    /// What a side effect was, when it was done; `None` if it is to be done now.
    pub(super) fn recorded(&mut self, name: &str) -> Option<RecordMarker> {
        let marker = self.next_marker(name)?.clone();
        self.issue(marker.clone(), None);
        Some(marker)
    }

    /// Whether the run takes the new way, decided once.
    pub(super) fn patched(&mut self, name: &str, marker: RecordMarker) -> bool {
        if let Some(known) = self.patches.get(name) {
            return *known;
        }
        let is_patched = self.foreseen.is_none() || self.next_marker(&marker.name).is_some();
        self.patches.insert(name.to_owned(), is_patched);
        if is_patched {
            self.issue(marker, None);
        }
        is_patched
    }

    /// Passes over the marker of a patch, where the history has it.
    pub(super) fn pass_patch(&mut self, name: &str, marker: RecordMarker) {
        if !self.patches.contains_key(name) && self.next_marker(&marker.name).is_some() {
            self.patches.insert(name.to_owned(), true);
            self.issue(marker, None);
        }
    }

    pub(super) fn in_trouble(&mut self, trouble: Trouble) {
        // The first explains the others.
        self.trouble.get_or_insert(trouble);
    }
}

/// Bringing news: what the history does.
impl Core {
    /// The history has taken the decision that somebody waits for as this event.
    pub(super) fn bind(&mut self, key: Key, event_id: EventId) {
        if self.waits.contains_key(&key) {
            self.scheduled.insert(event_id, key);
        }
    }

    /// What was scheduled by this event has come to an end.
    pub(super) fn resolve(
        &mut self,
        scheduled_event_id: EventId,
        event_id: EventId,
        outcome: impl FnOnce(&On) -> Outcome,
    ) -> Option<Waker> {
        let key = self.scheduled.remove(&scheduled_event_id)?;
        let wait = self.waits.get_mut(&key)?;
        if wait.outcome.is_some() {
            return None;
        }
        wait.outcome = Some((event_id, outcome(&wait.on)));
        wait.waker.take()
    }

    pub(super) fn signal(&mut self, event_id: EventId, name: &str, input: Option<Payload>) -> Vec<Waker> {
        self.signals.entry(name.to_owned()).or_default().push_back((event_id, input));
        let waits = self.waits.values_mut().filter(|wait| matches!(&wait.on, On::Signal { name: it } if it == name));
        waits.filter_map(|wait| wait.waker.take()).collect()
    }

    fn note_cancellations(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut taken_back = Vec::new();
        for wait in self.waits.values_mut().filter(|wait| wait.outcome.is_none() && !wait.is_canceled) {
            let Some(failure) = wait.scope.canceled() else { continue };
            wait.is_canceled = true;
            taken_back.push(wait.on.clone());
            if !matches!(wait.on, On::Activity { outlasts_cancel: true, .. }) {
                wait.outcome = Some((0, Err(failure)));
            }
            wakers.extend(wait.waker.take());
        }
        for on in taken_back {
            self.take_back(on);
        }
        wakers
    }

    /// Whether somebody waits for something that may come.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waits.values().any(|wait| wait.waker.is_some())
    }

    /// What is open although nobody waits for it, for people.
    pub(super) fn open(&self) -> String {
        let names = self.waits.values().map(|wait| match &wait.on {
            On::Activity { activity_id, .. } => format!("activity `{activity_id}`"),
            On::Timer { timer_id } => format!("timer `{timer_id}`"),
            On::Signal { name } => format!("signal `{name}`"),
            On::Cancel => "the cancellation".to_owned(),
        });
        let names: Vec<_> = names.collect();
        if names.is_empty() {
            "nothing is open".to_owned()
        } else {
            format!("open, but not awaited: {}", names.join(", "))
        }
    }
}
