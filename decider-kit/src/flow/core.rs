//! State shared between the code of a flow and its history. The code adds decisions, and events add outcomes.
//!
//! All collections are ordered (keys count up, maps are sorted), so that the same history always wakes the same futures
//! in the same order. User code never runs while the lock is held.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use baton_history::admit::check_name;
use baton_history::{
    CancelActivity, CancelExternal, CancelTimer, Decision, EventId, Origin, Payload, RecordMarker, Timestamp, Verdict,
    limits,
};
use uuid::Uuid;

use super::error::FlowError;
use super::query::Query;
use super::updates::UpdateHandlers;
use crate::ended::Outcome;
use crate::failure::{Cause, Failure};
use crate::payload::payload;

/// Number of a wait (see `PendingWait`), in order of creation.
pub(super) type Key = u64;

/// Node of the tree of scopes. Canceling a node cancels all nodes below it.
#[derive(Debug, Default)]
pub(super) struct ScopeNode {
    parent: Option<Arc<ScopeNode>>,
    /// Reason of the cancellation, set when the scope is canceled.
    canceled: OnceLock<Option<String>>,
}

impl ScopeNode {
    pub(super) fn within(parent: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { parent: Some(Arc::clone(parent)), canceled: OnceLock::new() })
    }

    /// Returns the failure for waits in this scope, or `None` while the scope is not canceled.
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

/// Target of a wait.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WaitTarget {
    Activity { activity_id: String, activity_type: String, outlasts_cancel: bool },
    Timer { timer_id: String },
    Child { workflow_id: String },
    External { workflow_id: String },
    Signal { name: String },
    Update { name: String },
    Cancel,
}

/// A wait: something that the code waits for or may wait for later, such as a scheduled activity or a signal.
#[derive(Debug)]
struct PendingWait {
    on: WaitTarget,
    scope: Arc<ScopeNode>,
    waker: Option<Waker>,
    /// Outcome, with the id of the event that delivered it.
    outcome: Option<(EventId, Outcome)>,
    /// True if the cancellation of the scope has been applied to this wait.
    is_canceled: bool,
    /// Id of the event that scheduled the awaited step.
    scheduled_event_id: Option<EventId>,
}

/// A decision, and the wait for its outcome.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Issued {
    pub(super) decision: Decision,
    pub(super) key: Option<Key>,
}

/// Markers among the recorded decisions of a turn, in order.
pub(super) type RecordedMarkers = VecDeque<RecordMarker>;

/// Identity of the run.
#[derive(Debug, Clone, Default)]
pub(super) struct RunIdentity {
    pub(super) workflow_id: String,
    pub(super) run_id: Uuid,
    pub(super) workflow_type: String,
    pub(super) parent: Option<Origin>,
}

/// State shared between code and history.
#[derive(Default)]
pub(super) struct Core {
    pub(super) identity: RunIdentity,
    pub(super) now: Timestamp,
    /// True while the code is running. Decisions are ignored at other times, e.g. when a state is dropped.
    pub(super) is_running: bool,
    /// Recorded markers of the replayed turn that the code has not reached yet; `None` if the turn is decided for the
    /// first time.
    pub(super) recorded_markers: Option<RecordedMarkers>,
    /// Ids of the events that scheduled the steps that have ended in this turn. The code may not have processed the
    /// ends yet.
    pub(super) ends: BTreeSet<EventId>,
    /// Decisions of this turn.
    pub(super) issued: Vec<Issued>,
    pub(super) queries: BTreeMap<String, Query>,
    pub(super) updates: UpdateHandlers,
    pub(super) error: Option<FlowError>,
    waits: BTreeMap<Key, PendingWait>,
    keys: Key,
    /// The waits for scheduled steps, by the id of the event that scheduled the step.
    scheduled: BTreeMap<EventId, Key>,
    /// Number of times each id has been assigned.
    ids: BTreeMap<String, u64>,
    signals: BTreeMap<String, VecDeque<(EventId, Option<Payload>)>>,
    patches: BTreeMap<String, bool>,
}

/// Shared handle to the core.
pub(super) type Shared = Arc<Mutex<Core>>;

pub(super) fn lock(shared: &Shared) -> MutexGuard<'_, Core> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cancels a scope and wakes the futures waiting in it.
pub(super) fn cancel(shared: &Shared, scope: &ScopeNode, reason: Option<String>) {
    if scope.canceled.set(reason).is_ok() {
        let wakers = lock(shared).note_cancellations();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Requests of the futures of a context.
impl Core {
    /// Returns an id for a step for which the code chose none: the step's name, with a number appended from the second
    /// use on.
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

    pub(super) fn wait(&mut self, on: WaitTarget, scope: &Arc<ScopeNode>) -> Key {
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

    /// Returns the outcome of a wait and ends the wait. If there is no outcome yet, stores the waker.
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

    /// Ends a wait whose future was dropped, and cancels the awaited step if it is still open.
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

    /// Cancels a step. Returns true if the step was requested in the current turn. Its decision is then removed and
    /// leaves no trace.
    fn take_back(&mut self, key: Key, on: WaitTarget, scheduled_event_id: Option<EventId>) -> bool {
        if !self.is_running {
            return false;
        }
        // A message to another run cannot be recalled. Dropping the future of a message therefore has no effect on the
        // message.
        if matches!(on, WaitTarget::External { .. }) {
            return false;
        }
        if let Some(place) = self.issued.iter().rposition(|issued| issued.key == Some(key)) {
            self.issued.remove(place);
            return true;
        }
        // A request to cancel a step that has ended would fail, and its failure would cost a turn.
        if scheduled_event_id.is_none_or(|event_id| self.ends.contains(&event_id)) {
            return false;
        }
        match on {
            WaitTarget::Activity { activity_id, .. } => self.issue(CancelActivity { activity_id }, None),
            WaitTarget::Timer { timer_id } => self.issue(CancelTimer { timer_id }, None),
            WaitTarget::Child { workflow_id } => {
                self.issue(CancelExternal { workflow_id, ..CancelExternal::default() }, None);
            }
            WaitTarget::External { .. }
            | WaitTarget::Signal { .. }
            | WaitTarget::Update { .. }
            | WaitTarget::Cancel => {}
        }
        false
    }

    pub(super) fn take_signal(&mut self, name: &str) -> Option<(EventId, Option<Payload>)> {
        self.signals.get_mut(name)?.pop_front()
    }

    /// Returns whether the next recorded marker of this turn has this name.
    fn next_marker_is(&self, name: &str) -> bool {
        self.recorded_markers.as_ref().and_then(VecDeque::front).is_some_and(|marker| marker.name == name)
    }

    /// Records a marker and returns its details. During a replay, consumes the recorded marker and returns the recorded
    /// details.
    pub(super) fn mark(&mut self, marker: RecordMarker) -> Option<Payload> {
        let recorded_markers = if self.next_marker_is(&marker.name) {
            self.recorded_markers.as_mut().and_then(VecDeque::pop_front)
        } else {
            None
        };
        let marker = recorded_markers.unwrap_or(marker);
        let details = marker.details.clone();
        self.issue(marker, None);
        details
    }

    /// Returns the recorded marker of a side effect, or `None` if the effect must be run now.
    pub(super) fn recorded(&self, name: &str) -> Option<RecordMarker> {
        if self.next_marker_is(name) { self.recorded_markers.as_ref()?.front().cloned() } else { None }
    }

    /// Returns whether the run takes the new branch of a patch. The first call determines the result for the run.
    pub(super) fn patched(&mut self, name: &str, marker: RecordMarker) -> bool {
        if let Some(known) = self.patches.get(name) {
            return *known;
        }
        let is_patched = self.recorded_markers.is_none() || self.next_marker_is(&marker.name);
        self.patches.insert(name.to_owned(), is_patched);
        if is_patched {
            self.mark(marker);
        }
        is_patched
    }

    /// Skips the marker of a patch if the history contains it.
    pub(super) fn pass_patch(&mut self, name: &str, marker: RecordMarker) {
        if !self.patches.contains_key(name) && self.next_marker_is(&marker.name) {
            self.patches.insert(name.to_owned(), true);
            self.mark(marker);
        }
    }

    pub(super) fn record_error(&mut self, error: FlowError) {
        // Only the first error is kept, because it usually causes the later errors.
        self.error.get_or_insert(error);
    }
}

/// Events, delivered by the history.
impl Core {
    /// Connects a wait with the event that recorded its decision.
    pub(super) fn bind(&mut self, key: Key, event_id: EventId) {
        if let Some(wait) = self.waits.get_mut(&key) {
            wait.scheduled_event_id = Some(event_id);
            self.scheduled.insert(event_id, key);
        }
    }

    /// Ends the step that this event scheduled.
    pub(super) fn resolve(
        &mut self,
        scheduled_event_id: EventId,
        event_id: EventId,
        outcome: impl FnOnce(&WaitTarget) -> Outcome,
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
        let waits =
            self.waits.values_mut().filter(|wait| matches!(&wait.on, WaitTarget::Signal { name: it } if it == name));
        waits.filter_map(|wait| wait.waker.take()).collect()
    }

    /// Wakes the futures that wait for an update of this name.
    pub(super) fn wake_for_update(&mut self, update: &str) -> Vec<Waker> {
        let waits =
            self.waits.values_mut().filter(|wait| matches!(&wait.on, WaitTarget::Update { name } if name == update));
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
            let lasts = matches!(on, WaitTarget::Activity { outlasts_cancel: true, .. });
            let never_was = self.take_back(key, on, scheduled_event_id);
            if let Some(wait) = self.waits.get_mut(&key)
                && (!lasts || never_was)
            {
                wait.outcome = Some((0, Err(failure)));
            }
        }
        wakers
    }

    /// Returns whether any future waits for something that an event can bring.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waits.values().any(|wait| wait.waker.is_some())
    }

    /// Returns the names of the awaited signals and updates, without duplicates and within the service's limits.
    pub(super) fn awaiting(&self) -> Vec<String> {
        let waits = self.waits.values().filter(|wait| wait.waker.is_some());
        let names: BTreeSet<&str> = waits
            .filter_map(|wait| match &wait.on {
                WaitTarget::Signal { name } | WaitTarget::Update { name } => Some(name.as_str()),
                WaitTarget::Cancel => Some(limits::AWAITING_CANCEL),
                WaitTarget::Activity { .. }
                | WaitTarget::Timer { .. }
                | WaitTarget::Child { .. }
                | WaitTarget::External { .. } => None,
            })
            .collect();
        // Names beyond the limits are dropped. The list only shows that the run is not stuck, and one name is enough
        // for this.
        let can_come = |name: &&str| check_name("signal", name).is_ok();
        let mut bytes = 0;
        let has_room = |name: &&str| {
            bytes += name.len();
            bytes <= limits::AWAITING_BYTES_MAX
        };
        names.into_iter().filter(can_come).take(limits::AWAITING_MAX).take_while(has_room).map(str::to_owned).collect()
    }

    /// Describes the open waits that no future awaits, for an error message.
    pub(super) fn open(&self) -> String {
        let names = self.waits.values().map(|wait| match &wait.on {
            WaitTarget::Activity { activity_id, .. } => format!("activity `{activity_id}`"),
            WaitTarget::Timer { timer_id } => format!("timer `{timer_id}`"),
            WaitTarget::Child { workflow_id } => format!("child `{workflow_id}`"),
            WaitTarget::External { workflow_id } => format!("message to `{workflow_id}`"),
            WaitTarget::Signal { name } => format!("signal `{name}`"),
            WaitTarget::Update { name } => format!("update `{name}`"),
            WaitTarget::Cancel => "the cancellation".to_owned(),
        });
        let names: Vec<_> = names.collect();
        if names.is_empty() {
            "nothing is open".to_owned()
        } else {
            format!("open, but not awaited: {}", names.join(", "))
        }
    }
}

/// Methods that change the state of updates. They do nothing while the code is not running, for example when a state is
/// dropped.
impl Core {
    /// Stops accepting updates of this name.
    pub(super) fn forget_updates(&mut self, name: &str, number: u64) {
        if self.is_running {
            self.updates.forget(name, number);
        }
    }

    pub(super) fn answer_update(&mut self, update_id: String, verdict: Verdict) {
        if self.is_running {
            self.updates.answer(update_id, verdict);
        }
    }
}

#[cfg(test)]
impl Core {
    /// Returns the sizes of the maps, to test that they do not grow.
    pub(super) fn kept(&self) -> (usize, usize, usize) {
        (self.waits.len(), self.scheduled.len(), self.signals.values().map(VecDeque::len).sum())
    }
}
