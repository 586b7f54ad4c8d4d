//! What the code of a flow and the history share: decisions going one way, outcomes coming the other.
//!
//! Everything is kept in the order in which it came about (keys count up, maps are sorted), so that the same history
//! always wakes the same things in the same order. User code never runs while the lock is held.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use baton_history::admit::check_name;
use baton_history::{
    CancelActivity, CancelExternal, CancelTimer, Decision, EventId, Origin, Payload, RecordMarker, Timestamp, Verdict,
    limits,
};
use uuid::Uuid;

use super::query::Query;
use super::trouble::FlowError;
use super::updates::UpdateHandlers;
use crate::ended::Outcome;
use crate::failure::{Cause, Failure};
use crate::payload::payload;

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
    Child { workflow_id: String },
    External { workflow_id: String },
    Signal { name: String },
    Update { name: String },
    Cancel,
}

/// Somebody waits for something.
#[derive(Debug)]
struct PendingWait {
    on: On,
    scope: Arc<ScopeNode>,
    waker: Option<Waker>,
    /// With the event that brought it.
    outcome: Option<(EventId, Outcome)>,
    /// Its scope's cancellation has been taken note of.
    is_canceled: bool,
    /// What it waits for was scheduled by this event.
    scheduled_event_id: Option<EventId>,
}

/// A decision, and who waits for what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Issued {
    pub(super) decision: Decision,
    pub(super) key: Option<Key>,
}

/// The markers among a turn's recorded decisions, in order.
pub(super) type Foreseen = VecDeque<RecordMarker>;

/// Which run this is.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    pub(super) workflow_id: String,
    pub(super) run_id: Uuid,
    pub(super) workflow_type: String,
    pub(super) parent: Option<Origin>,
}

/// What code and history share.
#[derive(Default)]
pub(super) struct Core {
    pub(super) about: About,
    pub(super) now: Timestamp,
    /// Whether the code is being run: nothing is issued at other times, e.g. when a state is dropped.
    pub(super) is_running: bool,
    /// What the history says about the turn being run, and the code has not come to yet; `None` when it is decided for the
    /// first time.
    pub(super) foreseen: Option<Foreseen>,
    /// What this turn's news ends, by the event that scheduled it; the code may not have come to that news yet.
    pub(super) ends: BTreeSet<EventId>,
    /// This turn's decisions.
    pub(super) issued: Vec<Issued>,
    pub(super) queries: BTreeMap<String, Query>,
    pub(super) updates: UpdateHandlers,
    pub(super) trouble: Option<FlowError>,
    waits: BTreeMap<Key, PendingWait>,
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
        if !self.is_running {
            return name.to_owned();
        }
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
        let wait = PendingWait {
            on,
            scope: Arc::clone(scope),
            waker: None,
            outcome: None,
            is_canceled: false,
            scheduled_event_id: None,
        };
        self.waits.insert(self.keys, wait);
        self.keys
    }

    /// What came of a wait, which is then over; otherwise the waker is kept for when it comes.
    pub(super) fn take_outcome(&mut self, key: Key, waker: &Waker) -> Option<(EventId, Outcome)> {
        let wait = self.waits.get_mut(&key)?;
        match wait.outcome.take() {
            Some(outcome) => {
                self.end_wait(key);
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
        let Some(wait) = self.end_wait(key) else { return };
        if wait.outcome.is_none() && !wait.is_canceled {
            self.take_back(key, wait.on, wait.scheduled_event_id);
        }
    }

    fn end_wait(&mut self, key: Key) -> Option<PendingWait> {
        let wait = self.waits.remove(&key)?;
        if let Some(event_id) = wait.scheduled_event_id {
            self.scheduled.remove(&event_id);
        }
        Some(wait)
    }

    /// Takes back what was asked for. True when it was asked for in this very turn: then it never was.
    fn take_back(&mut self, key: Key, on: On, scheduled_event_id: Option<EventId>) -> bool {
        if !self.is_running {
            return false;
        }
        // What is sent is sent: nobody sends something only as long as somebody waits for the answer.
        if matches!(on, On::External { .. }) {
            return false;
        }
        if let Some(place) = self.issued.iter().rposition(|issued| issued.key == Some(key)) {
            self.issued.remove(place);
            return true;
        }
        // What has ended needs no taking back, which would fail and cost a turn.
        if scheduled_event_id.is_none_or(|event_id| self.ends.contains(&event_id)) {
            return false;
        }
        match on {
            On::Activity { activity_id, .. } => self.issue(CancelActivity { activity_id }, None),
            On::Timer { timer_id } => self.issue(CancelTimer { timer_id }, None),
            On::Child { workflow_id } => self.issue(CancelExternal { workflow_id, ..CancelExternal::default() }, None),
            On::External { .. } | On::Signal { .. } | On::Update { .. } | On::Cancel => {}
        }
        false
    }

    pub(super) fn take_signal(&mut self, name: &str) -> Option<(EventId, Option<Payload>)> {
        self.signals.get_mut(name)?.pop_front()
    }

    /// Whether the next marker of this turn has this name.
    fn foresees(&self, name: &str) -> bool {
        self.foreseen.as_ref().and_then(VecDeque::front).is_some_and(|marker| marker.name == name)
    }

    /// Records a marker, or, where the history has it, passes over it; its details as recorded.
    pub(super) fn mark(&mut self, marker: RecordMarker) -> Option<Payload> {
        let foreseen =
            if self.foresees(&marker.name) { self.foreseen.as_mut().and_then(VecDeque::pop_front) } else { None };
        let marker = foreseen.unwrap_or(marker);
        let details = marker.details.clone();
        self.issue(marker, None);
        details
    }

    /// What a side effect was, when it was done; `None` if it is to be done now.
    pub(super) fn recorded(&self, name: &str) -> Option<RecordMarker> {
        if self.foresees(name) { self.foreseen.as_ref()?.front().cloned() } else { None }
    }

    /// Whether the run takes the new way, decided once.
    pub(super) fn patched(&mut self, name: &str, marker: RecordMarker) -> bool {
        if let Some(known) = self.patches.get(name) {
            return *known;
        }
        let is_patched = self.foreseen.is_none() || self.foresees(&marker.name);
        self.patches.insert(name.to_owned(), is_patched);
        if is_patched {
            self.mark(marker);
        }
        is_patched
    }

    /// Passes over the marker of a patch, where the history has it.
    pub(super) fn pass_patch(&mut self, name: &str, marker: RecordMarker) {
        if !self.patches.contains_key(name) && self.foresees(&marker.name) {
            self.patches.insert(name.to_owned(), true);
            self.mark(marker);
        }
    }

    pub(super) fn in_trouble(&mut self, trouble: FlowError) {
        // The first explains the others.
        self.trouble.get_or_insert(trouble);
    }
}

/// Bringing news: what the history does.
impl Core {
    /// The history has taken the decision that somebody waits for as this event.
    pub(super) fn bind(&mut self, key: Key, event_id: EventId) {
        if let Some(wait) = self.waits.get_mut(&key) {
            wait.scheduled_event_id = Some(event_id);
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

    /// Wakes those who wait for an update of this name.
    pub(super) fn wake_for_update(&mut self, update: &str) -> Vec<Waker> {
        let waits = self.waits.values_mut().filter(|wait| matches!(&wait.on, On::Update { name } if name == update));
        waits.filter_map(|wait| wait.waker.take()).collect()
    }

    fn note_cancellations(&mut self) -> Vec<Waker> {
        let is_news = |wait: &PendingWait| wait.outcome.is_none() && !wait.is_canceled;
        let keys: Vec<_> = self.waits.iter().filter(|(_, wait)| is_news(wait)).map(|(key, _)| *key).collect();
        let mut wakers = Vec::new();
        for key in keys {
            let Some(wait) = self.waits.get_mut(&key) else { continue };
            let Some(failure) = wait.scope.canceled() else { continue };
            wait.is_canceled = true;
            wakers.extend(wait.waker.take());
            let (on, scheduled_event_id) = (wait.on.clone(), wait.scheduled_event_id);
            let lasts = matches!(on, On::Activity { outlasts_cancel: true, .. });
            let never_was = self.take_back(key, on, scheduled_event_id);
            if let Some(wait) = self.waits.get_mut(&key)
                && (!lasts || never_was)
            {
                wait.outcome = Some((0, Err(failure)));
            }
        }
        wakers
    }

    /// Whether somebody waits for something that may come.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waits.values().any(|wait| wait.waker.is_some())
    }

    /// The signals that somebody waits for, each once, as far as the service takes them.
    pub(super) fn awaiting(&self) -> Vec<String> {
        let waits = self.waits.values().filter(|wait| wait.waker.is_some());
        let names: BTreeSet<&str> = waits
            .filter_map(|wait| match &wait.on {
                On::Signal { name } | On::Update { name } => Some(name.as_str()),
                On::Cancel => Some(limits::AWAITING_CANCEL),
                On::Activity { .. } | On::Timer { .. } | On::Child { .. } | On::External { .. } => None,
            })
            .collect();
        // What is beyond that goes unsaid: the run is not stuck, and that is what it is about.
        let can_come = |name: &&str| check_name("signal", name).is_ok();
        let mut bytes = 0;
        let has_room = |name: &&str| {
            bytes += name.len();
            bytes <= limits::AWAITING_BYTES_MAX
        };
        names.into_iter().filter(can_come).take(limits::AWAITING_MAX).take_while(has_room).map(str::to_owned).collect()
    }

    /// What is open although nobody waits for it, for people.
    pub(super) fn open(&self) -> String {
        let names = self.waits.values().map(|wait| match &wait.on {
            On::Activity { activity_id, .. } => format!("activity `{activity_id}`"),
            On::Timer { timer_id } => format!("timer `{timer_id}`"),
            On::Child { workflow_id } => format!("child `{workflow_id}`"),
            On::External { workflow_id } => format!("what was sent to `{workflow_id}`"),
            On::Signal { name } => format!("signal `{name}`"),
            On::Update { name } => format!("update `{name}`"),
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

/// Updates, while the code is being run.
impl Core {
    /// The code takes no more updates of this name.
    pub(super) fn forget_updates(&mut self, name: &str, number: u64) {
        if self.is_running {
            self.updates.forget(name, number);
        }
    }

    pub(super) fn answer_update(&mut self, update_id: String, verdict: Verdict) {
        if self.is_running {
            self.updates.say(update_id, verdict);
        }
    }
}

#[cfg(test)]
impl Core {
    /// How much is kept: waits, links from events to waits, signals that nobody has read.
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        (self.waits.len(), self.scheduled.len(), self.signals.values().map(VecDeque::len).sum())
    }
}
