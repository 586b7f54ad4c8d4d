//! What was promised to callers, or refused with a reason, and whether the histories bear it out.

use std::collections::{BTreeMap, BTreeSet};

use history::{Duration, Event, EventId, EventKind, Origin, RequestKey, Timestamp, check};
use uuid::Uuid;

use crate::asking::Told;
use crate::clock::AHEAD_MAX;
use crate::hosts::Exchanged;
use crate::repeating::Repeats;
use crate::resetting::{branched, own};

/// Something that a caller was told.
#[derive(Debug, Clone)]
pub enum Promise {
    /// A signal with a name that was used once.
    Signal {
        /// Where.
        run_id: Uuid,
        /// The name.
        name: String,
    },
    /// The answer to a turn.
    Turn {
        /// Where.
        run_id: Uuid,
        /// Its DeciderStarted.
        started: EventId,
        /// When the decider heard it.
        at: Timestamp,
    },
    /// The success of an activity.
    Activity {
        /// Where.
        run_id: Uuid,
        /// Its ActivityScheduled.
        scheduled: EventId,
    },
    /// A start.
    Start {
        /// The run.
        run_id: Uuid,
        /// Its key.
        key: RequestKey,
    },
    /// That an answer or a heartbeat came too late.
    Late {
        /// Where.
        run_id: Uuid,
        /// The DeciderStarted or ActivityStarted of what it was about.
        started: EventId,
        /// When the caller heard it.
        by: Timestamp,
    },
    /// A reset.
    Reset {
        /// The run that goes on.
        run_id: Uuid,
        /// Its key.
        key: RequestKey,
    },
    /// The answer to an update.
    Updated {
        /// Where.
        run_id: Uuid,
        /// Its name.
        update_id: String,
        /// Its UpdateCompleted.
        event_id: EventId,
        /// The version on which it depended.
        if_version: Option<EventId>,
    },
    /// That an update was rejected.
    NotUpdated {
        /// Its name.
        update_id: String,
    },
    /// That another request's run was open.
    Taken {
        /// The run.
        run_id: Uuid,
        /// The key of the start that was refused.
        key: RequestKey,
        /// When the caller asked.
        since: Timestamp,
    },
}

/// Every promise, and what was seen to be wrong on the way.
#[derive(Debug, Default)]
pub struct Facts {
    /// Promises.
    pub promises: Vec<Promise>,
    /// What was wrong.
    pub violations: Vec<String>,
    /// The newest event of each run that somebody was told of.
    pub acknowledged: BTreeMap<Uuid, EventId>,
    /// What those who asked were told.
    pub told: Told,
    /// How often requests were repeated that had been answered.
    pub repeats: Repeats,
    /// What came of exchanges.
    pub exchanged: Exchanged,
    /// How many late deadlines an operator has repaired.
    pub repaired: usize,
    /// By how much clocks may be ahead of each other besides, because they are set.
    pub set_by: Duration,
    /// The tokens of all tasks that have reached a decider or a runner.
    tokens: BTreeSet<String>,
    /// Those of tasks that were lost on their way.
    vanished: BTreeSet<String>,
}

/// Every run of a world, by run id.
pub type Histories = BTreeMap<Uuid, Vec<Event>>;

impl Facts {
    /// A task has reached whoever polled. The same start of a task must reach nobody else.
    pub fn in_hand(&mut self, token: &str) {
        if !self.tokens.insert(token.to_owned()) {
            self.violations.push(format!("a task is in two hands: {token}"));
        }
    }

    /// A task was lost on its way to a host.
    pub fn has_vanished(&mut self, token: &str) {
        self.exchanged.lost += 1;
        self.vanished.insert(token.to_owned());
    }

    /// A task has reached a host.
    pub fn has_come(&mut self, token: &str) {
        self.exchanged.came += 1;
        self.exchanged.came_again += u64::from(self.vanished.remove(token));
    }

    /// Somebody was told of this event.
    pub fn acknowledge(&mut self, run_id: Uuid, event_id: EventId) {
        let newest = self.acknowledged.entry(run_id).or_default();
        *newest = event_id.max(*newest);
    }

    /// An update is accepted once in all.
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

    /// Holds the histories against the promises and the invariants; adds what is wrong.
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

    /// What a run does to another happens once in all, whichever run takes it, and is said to have happened where it has.
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

    /// A run that continued as new is followed by one run, and only such runs are.
    fn continued_once(&mut self, histories: &Histories) {
        let mut followers: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
        for (run_id, events) in histories {
            if let Some(before) = continued_from(events).filter(|_| branched(events).is_none()) {
                followers.entry(before).or_default().push(*run_id);
            }
        }
        for (run_id, events) in histories {
            let wanted = match events.last().map(|event| &event.kind) {
                Some(EventKind::WorkflowContinuedAsNew(it)) => vec![it.new_run_id],
                _ => Vec::new(),
            };
            let found = followers.remove(run_id).unwrap_or_default();
            if found != wanted {
                self.violations.push(format!("run {run_id} is to be followed by {wanted:?}, it is by {found:?}"));
            }
        }
        for (run_id, found) in followers {
            self.violations.push(format!("{found:?} follow a run {run_id} that there never was"));
        }
    }

    /// A wanted child is one run, or several that go on for each other, and its parent says of its end what it says itself.
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

    /// Names of signals are used once; so are keys.
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

/// Where an event comes from, if another run caused it.
fn origin(kind: &EventKind) -> Option<&Origin> {
    match kind {
        EventKind::Signal(it) => it.origin.as_ref(),
        EventKind::WorkflowCancelRequested(it) => it.origin.as_ref(),
        EventKind::WorkflowTerminated(it) => it.origin.as_ref(),
        _ => None,
    }
}

/// The last of the runs that go on for this one, and its last event.
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

/// Whether each of these runs of one key may have begun because those before it were forgotten, or goes on for another.
fn follow_each_other(runs: &BTreeSet<Uuid>, histories: &Histories, ahead_max: Duration) -> bool {
    let mut lives: Vec<(Timestamp, Timestamp)> = Vec::new();
    for events in runs.iter().filter_map(|run_id| histories.get(run_id)) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return false };
        let EventKind::WorkflowStarted(started) = &first.kind else { return false };
        let goes_on = matches!(last.kind, EventKind::WorkflowContinuedAsNew(_));
        let ends = if goes_on { last.timestamp } else { last.timestamp.plus(started.retention) };
        lives.push((first.timestamp, ends));
    }
    lives.sort_unstable();
    // Nodes disagree about the time.
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
            // A commit may land long after the instant that its events name; but not after it was acknowledged.
            let closed_by = turn_that_closed(events);
            let was_closed = facts.promises.iter().any(|promise| {
                let Promise::Turn { run_id: of, started, at } = promise else { return false };
                of == run_id && Some(*started) == closed_by && at < since
            });
            !is_mine && !was_closed
        }),
    }
}

/// The DeciderStarted of the turn whose decision closed a run.
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

/// Whether this event is the end of the turn or the activity that was started with that one.
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
