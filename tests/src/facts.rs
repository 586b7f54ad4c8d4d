//! Promises made to callers in responses, and checks of the histories against them.

use std::collections::{BTreeMap, BTreeSet};

use history::{Duration, Event, EventId, EventKind, Origin, RequestKey, Timestamp, check};
use uuid::Uuid;

use crate::asking::ReplyCounts;
use crate::clock::AHEAD_MAX;
use crate::hosts::Exchanged;
use crate::repeating::Repeats;
use crate::resetting::{branched, own};

/// A promise that a response of the service made to a caller.
#[derive(Debug, Clone)]
pub enum Promise {
    /// A signal was recorded. No other signal has its name.
    Signal {
        /// Run.
        run_id: Uuid,
        /// Name.
        name: String,
    },
    /// The answer to a turn was recorded.
    Turn {
        /// Run.
        run_id: Uuid,
        /// DeciderStarted of the turn.
        started: EventId,
        /// Time when the decider got the response.
        at: Timestamp,
    },
    /// The success of an activity was recorded.
    Activity {
        /// Run.
        run_id: Uuid,
        /// ActivityScheduled of the activity.
        scheduled: EventId,
    },
    /// A run was started.
    Start {
        /// Run.
        run_id: Uuid,
        /// Key of the start.
        key: RequestKey,
    },
    /// An answer or a heartbeat was too late.
    Late {
        /// Run.
        run_id: Uuid,
        /// DeciderStarted or ActivityStarted of its task.
        started: EventId,
        /// Time when the caller got the response.
        by: Timestamp,
    },
    /// A run was reset.
    Reset {
        /// The new run.
        run_id: Uuid,
        /// Key of the reset.
        key: RequestKey,
    },
    /// An update was answered.
    Updated {
        /// Run.
        run_id: Uuid,
        /// Name of the update.
        update_id: String,
        /// Id of the UpdateCompleted.
        event_id: EventId,
        /// Version of the run that was the condition of the update.
        if_version: Option<EventId>,
    },
    /// An update was rejected.
    NotUpdated {
        /// Name of the update.
        update_id: String,
    },
    /// A start was refused because the run of another start was open.
    Taken {
        /// Run.
        run_id: Uuid,
        /// Key of the refused start.
        key: RequestKey,
        /// Time of the request.
        since: Timestamp,
    },
}

/// All promises, and the violations seen so far.
#[derive(Debug, Default)]
pub struct Facts {
    /// Promises.
    pub promises: Vec<Promise>,
    /// Violations.
    pub violations: Vec<String>,
    /// The newest event of each run that a caller knows.
    pub acknowledged: BTreeMap<Uuid, EventId>,
    /// Counts of answers to queries and updates.
    pub replies: ReplyCounts,
    /// Number of repeated requests that had been answered before.
    pub repeats: Repeats,
    /// Counts of exchanged tasks.
    pub exchanged: Exchanged,
    /// Number of late deadlines that an operator has repaired.
    pub repaired: usize,
    /// Additional difference between clocks that are set.
    pub set_by: Duration,
    /// Tokens of all tasks that have reached a decider or a runner.
    tokens: BTreeSet<String>,
    /// Tokens of tasks that were lost on their way.
    vanished: BTreeSet<String>,
}

/// Events of every run of a world, by run id.
pub type Histories = BTreeMap<Uuid, Vec<Event>>;

impl Facts {
    /// Records that a task has reached its poller. Tasks have a new token each time that they are started, so no other
    /// poller may receive the same token.
    pub fn in_hand(&mut self, token: &str) {
        if !self.tokens.insert(token.to_owned()) {
            self.violations.push(format!("a task is in two hands: {token}"));
        }
    }

    /// Records that a task was lost on its way to a host, although the service considers it delivered.
    pub fn has_vanished(&mut self, token: &str) {
        self.exchanged.lost += 1;
        self.vanished.insert(token.to_owned());
    }

    /// Records that a task has reached a host.
    pub fn has_come(&mut self, token: &str) {
        self.exchanged.came += 1;
        self.exchanged.came_again += u64::from(self.vanished.remove(token));
    }

    /// Records that a caller knows this event.
    pub fn acknowledge(&mut self, run_id: Uuid, event_id: EventId) {
        let newest = self.acknowledged.entry(run_id).or_default();
        *newest = event_id.max(*newest);
    }

    /// Checks that an update is accepted at most once.
    fn accepted_once(&mut self, histories: &Histories) {
        let mut accepted = BTreeSet::new();
        for event in histories.values().flatten() {
            if let EventKind::UpdateAccepted(it) = &event.kind
                && !accepted.insert(&it.update_id)
            {
                self.violations.push(format!("update {} is accepted twice", it.update_id));
            }
        }
    }

    fn ahead_max(&self) -> Duration {
        Duration::from_millis(AHEAD_MAX.as_millis() + self.set_by.as_millis())
    }

    /// Compares the histories with the promises and the invariants, and adds violations.
    pub fn judge(&mut self, histories: &Histories) {
        for (run_id, events) in histories {
            if let Err(violation) = check::history(events) {
                self.violations.push(format!("run {run_id}: {violation}"));
            }
            self.recorded_once(*run_id, events);
        }
        let mut starts: BTreeMap<RequestKey, BTreeSet<Uuid>> = BTreeMap::new();
        for (run_id, events) in histories {
            if let Some(key) = events.first().and_then(|event| event.key)
                && branched(events).is_none()
            {
                starts.entry(key).or_default().insert(*run_id);
            }
        }
        for (key, runs) in starts.iter().filter(|(_, runs)| runs.len() > 1) {
            if !follow_each_other(runs, histories, self.ahead_max()) {
                self.violations.push(format!("key {key:?} started {} runs", runs.len()));
            }
        }
        self.continued_once(histories);
        self.effects_once(histories);
        self.children_once(histories);
        self.branches_are_true(histories);
        self.accepted_once(histories);
        for promise in self.promises.clone() {
            if !is_kept(&promise, histories, self) {
                self.violations.push(format!("a promise is broken: {promise:?}"));
            }
        }
    }

    /// Checks that an effect on another run happens exactly once, in one run, and is acknowledged if and only if it
    /// happened.
    fn effects_once(&mut self, histories: &Histories) {
        let mut taken: BTreeMap<(Uuid, EventId), Vec<Uuid>> = BTreeMap::new();
        for (run_id, events) in histories {
            let of_base = branched(events).and_then(|(_, reset)| histories.get(&reset.run_id));
            let of_base: Vec<_> = of_base.into_iter().flatten().filter_map(|event| origin(&event.kind)).collect();
            for event in own(events) {
                if let Some(origin) = origin(&event.kind).filter(|origin| !of_base.contains(origin)) {
                    taken.entry((origin.run_id, origin.event_id)).or_default().push(*run_id);
                }
            }
        }
        for (effect, by) in taken.iter().filter(|(_, by)| by.len() > 1) {
            self.violations.push(format!("the effect {effect:?} was taken {} times, by {by:?}", by.len()));
        }
        for (run_id, events) in histories {
            for event in own(events) {
                let (scheduled, done) = match &event.kind {
                    EventKind::ExternalSignalDelivered(it) => (it.scheduled_event_id, Some(it.run_id)),
                    EventKind::ExternalCancelDelivered(it) => (it.scheduled_event_id, Some(it.run_id)),
                    EventKind::ExternalSignalFailed(it) => (it.scheduled_event_id.unwrap_or_default(), None),
                    EventKind::ExternalCancelFailed(it) => (it.scheduled_event_id.unwrap_or_default(), None),
                    _ => continue,
                };
                let by = taken.get(&(*run_id, scheduled)).and_then(|by| by.first()).copied();
                if by != done {
                    let said = format!("run {run_id}: event {} says {done:?}, taken by {by:?}", event.id);
                    self.violations.push(said);
                }
            }
        }
    }

    /// Checks that each run that continued as new has one successor, and that other runs have none.
    fn continued_once(&mut self, histories: &Histories) {
        let mut successors: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
        for (run_id, events) in histories {
            if let Some(before) = continued_from(events).filter(|_| branched(events).is_none()) {
                successors.entry(before).or_default().push(*run_id);
            }
        }
        for (run_id, events) in histories {
            let wanted = match events.last().map(|event| &event.kind) {
                Some(EventKind::WorkflowContinuedAsNew(it)) => vec![it.new_run_id],
                _ => Vec::new(),
            };
            let found = successors.remove(run_id).unwrap_or_default();
            if found != wanted {
                self.violations.push(format!("run {run_id} is to be followed by {wanted:?}, it is by {found:?}"));
            }
        }
        for (run_id, found) in successors {
            self.violations.push(format!("{found:?} follow a run {run_id} that there never was"));
        }
    }

    /// Checks that a decided child is one run or a chain of successors, and that its parent has recorded the child's
    /// end.
    fn children_once(&mut self, histories: &Histories) {
        let mut children: BTreeMap<(Uuid, EventId), Vec<Uuid>> = BTreeMap::new();
        for (run_id, events) in histories {
            if let Some(EventKind::WorkflowStarted(it)) = events.first().map(|event| &event.kind)
                && let Some(parent) = &it.parent
                && it.continued_from.is_none()
                && branched(events).is_none()
            {
                children.entry((parent.run_id, parent.event_id)).or_default().push(*run_id);
            }
        }
        for (wanted, runs) in children.iter().filter(|(_, runs)| runs.len() > 1) {
            self.violations.push(format!("the child {wanted:?} was started {} times: {runs:?}", runs.len()));
        }
        for (run_id, events) in histories {
            for event in own(events) {
                let (scheduled, said) = match &event.kind {
                    EventKind::ChildScheduleFailed(it) => (it.scheduled_event_id.unwrap_or_default(), None),
                    EventKind::ChildSuccess(it) => (it.scheduled_event_id, Some((it.run_id, "WorkflowSuccess"))),
                    EventKind::ChildFailed(it) => (it.scheduled_event_id, Some((it.run_id, "WorkflowFailed"))),
                    EventKind::ChildTimedOut(it) => (it.scheduled_event_id, Some((it.run_id, "WorkflowTimedOut"))),
                    EventKind::ChildCanceled(it) => (it.scheduled_event_id, Some((it.run_id, "WorkflowCanceled"))),
                    EventKind::ChildTerminated(it) => (it.scheduled_event_id, Some((it.run_id, "WorkflowTerminated"))),
                    _ => continue,
                };
                let child = children.get(&(*run_id, scheduled)).and_then(|runs| runs.first());
                let found = child.map(|child| last_of(*child, histories));
                if found != said {
                    self.violations.push(format!("run {run_id}: event {} says {said:?}, it is {found:?}", event.id));
                }
            }
        }
    }

    /// Checks that names of signals and keys occur once.
    fn recorded_once(&mut self, run_id: Uuid, events: &[Event]) {
        let (mut names, mut keys) = (BTreeSet::new(), BTreeSet::new());
        for event in events {
            if let EventKind::Signal(signal) = &event.kind
                && !names.insert(&signal.name)
            {
                self.violations.push(format!("run {run_id}: signal {} is there twice", signal.name));
            }
            if let Some(key) = event.key
                && !keys.insert(key)
            {
                self.violations.push(format!("run {run_id}: key {key:?} is there twice"));
            }
        }
    }
}

/// Returns the origin of an event that another run caused.
fn origin(kind: &EventKind) -> Option<&Origin> {
    match kind {
        EventKind::Signal(it) => it.origin.as_ref(),
        EventKind::WorkflowCancelRequested(it) => it.origin.as_ref(),
        EventKind::WorkflowTerminated(it) => it.origin.as_ref(),
        _ => None,
    }
}

/// Returns the last successor of this run and its last event.
fn last_of(run_id: Uuid, histories: &Histories) -> (Uuid, &'static str) {
    match histories.get(&run_id).and_then(|events| events.last()).map(|event| &event.kind) {
        Some(kind) => match kind.followed_by() {
            Some(successor) => last_of(successor.run_id, histories),
            None => (run_id, kind.name()),
        },
        None => (run_id, ""),
    }
}

fn continued_from(events: &[Event]) -> Option<Uuid> {
    match events.first().map(|event| &event.kind) {
        Some(EventKind::WorkflowStarted(it)) => it.continued_from,
        _ => None,
    }
}

/// Returns whether these runs with the same key are allowed: each is a successor, or began after the earlier ones were
/// deleted.
fn follow_each_other(runs: &BTreeSet<Uuid>, histories: &Histories, ahead_max: Duration) -> bool {
    let mut lives: Vec<(Timestamp, Timestamp)> = Vec::new();
    for events in runs.iter().filter_map(|run_id| histories.get(run_id)) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return false };
        let EventKind::WorkflowStarted(started) = &first.kind else { return false };
        let continued = matches!(last.kind, EventKind::WorkflowContinuedAsNew(_));
        let ends = if continued { last.timestamp } else { last.timestamp.plus(started.retention) };
        lives.push((first.timestamp, ends));
    }
    lives.sort_unstable();
    // The clocks of nodes may differ by this much.
    lives.windows(2).all(|pair| matches!(pair, [(_, ends), (begins, _)] if *ends <= begins.plus(ahead_max)))
}

fn is_kept(promise: &Promise, histories: &Histories, facts: &Facts) -> bool {
    let count = |run_id: &Uuid, is_it: &dyn Fn(&EventKind) -> bool| {
        histories.get(run_id).is_some_and(|events| events.iter().filter(|event| is_it(&event.kind)).count() == 1)
    };
    match promise {
        Promise::Signal { run_id, name } => {
            count(run_id, &|kind| matches!(kind, EventKind::Signal(it) if it.name == *name))
        }
        Promise::Turn { run_id, started, .. } => {
            count(run_id, &|kind| matches!(kind, EventKind::DeciderCompleted(it) if it.started_event_id == *started))
        }
        Promise::Activity { run_id, scheduled } => {
            count(run_id, &|kind| matches!(kind, EventKind::ActivitySuccess(it) if it.scheduled_event_id == *scheduled))
        }
        Promise::Start { run_id, key } => {
            histories.get(run_id).and_then(|events| events.first()).is_some_and(|event| event.key == Some(*key))
        }
        Promise::Reset { run_id, key } => {
            let events = histories.get(run_id).map(Vec::as_slice).unwrap_or_default();
            branched(events).is_some_and(|(event, _)| event.key == Some(*key))
        }
        Promise::Updated { run_id, update_id, event_id, if_version } => {
            let is_done =
                count(run_id, &|kind| matches!(kind, EventKind::UpdateCompleted(it) if it.update_id == *update_id));
            histories.get(run_id).is_some_and(|events| {
                let is_there = events.iter().any(|event| {
                    event.id == *event_id
                        && matches!(&event.kind, EventKind::UpdateCompleted(it) if it.update_id == *update_id)
                });
                let before = events.iter().take_while(
                    |event| !matches!(&event.kind, EventKind::UpdateAccepted(it) if it.update_id == *update_id),
                );
                let version = before.filter(|event| event.kind.is_news()).last().map(|event| event.id);
                is_done && is_there && if_version.is_none_or(|expected| version == Some(expected))
            })
        }
        Promise::NotUpdated { update_id } => !histories
            .values()
            .flatten()
            .any(|event| matches!(&event.kind, EventKind::UpdateAccepted(it) if it.update_id == *update_id)),
        Promise::Late { run_id, started, by } => {
            let by = by.plus(facts.ahead_max());
            histories
                .get(run_id)
                .is_some_and(|events| events.iter().any(|event| event.timestamp <= by && ends(&event.kind, *started)))
        }
        Promise::Taken { run_id, key, since } => histories.get(run_id).is_some_and(|events| {
            let is_mine = events.first().is_some_and(|event| event.key == Some(*key));
            // A commit may take effect long after the time of its events, but not after it was acknowledged.
            let closed_by = turn_that_closed(events);
            let was_closed = facts.promises.iter().any(|promise| {
                let Promise::Turn { run_id: of, started, at } = promise else { return false };
                of == run_id && Some(*started) == closed_by && at < since
            });
            !is_mine && !was_closed
        }),
    }
}

/// Returns the DeciderStarted of the turn whose decision closed a run.
fn turn_that_closed(events: &[Event]) -> Option<EventId> {
    let is_decided = |kind: &EventKind| {
        matches!(kind, EventKind::WorkflowSuccess(_) | EventKind::WorkflowFailed(_) | EventKind::WorkflowCanceled(_))
    };
    events.last().filter(|event| is_decided(&event.kind))?;
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::DeciderCompleted(it) => Some(it.started_event_id),
        _ => None,
    })
}

/// Returns whether this event ends the turn or activity with this start event.
fn ends(kind: &EventKind, started: EventId) -> bool {
    let of = match kind {
        EventKind::DeciderCompleted(it) => Some(it.started_event_id),
        EventKind::DeciderFailed(it) => Some(it.started_event_id),
        EventKind::DeciderTimedOut(it) => it.started_event_id,
        EventKind::ActivitySuccess(it) => Some(it.started_event_id),
        EventKind::ActivityFailed(it) => Some(it.started_event_id),
        EventKind::ActivityCanceled(it) => it.started_event_id,
        EventKind::ActivityTimedOut(it) => it.started_event_id,
        kind => return kind.closes(),
    };
    of == Some(started)
}
