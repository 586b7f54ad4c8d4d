//! An independent checker that decides whether a history could have been produced by the rules.
//!
//! The checker implements the invariants a second time, in a different way than `admit` and `evolve`. It shares no code
//! with them, not even the table of properties of events (`event.rs`). It prefers clarity to speed. It expects a whole
//! history, because a history that ends in the middle of a commit may seem to break a rule.
//!
//! Some facts leave no trace in a history and are not checked: whether a closing decision was forced, heartbeats, and
//! refused requests.
//!
//! In this module, *news* means an event that needs a turn, because a decider must react to the event.

mod activities;
mod branch;
mod clock;
mod external;
mod one_activity;
mod operator;
mod part;
mod repair;
mod retries;
mod rule;
mod timers;
mod turns;
mod updates;

use std::collections::BTreeMap;

use crate::event::{
    ActivityPausedCause, ActivityScheduled, DeciderScheduled, Event, EventId, EventKind, WorkflowStarted,
    WorkflowTimeout,
};
use crate::time::{Duration, Timestamp};
use clock::CheckedClock;
use external::CheckedLinks;
use part::{EventRole, closes_activity, decision_event_id, is_manual, part};
use rule::broken;
use updates::CheckedUpdates;

pub use rule::{Rule, Violation};

/// Checks a whole history against every rule.
///
/// # Errors
///
/// Returns the first violation, in the order of events.
pub fn history(events: &[Event]) -> Result<(), Violation> {
    let mut reader = HistoryReader::default();
    for event in events {
        reader.read(event)?;
    }
    reader.end()
}

/// Checks that `window` contains exactly the events that the decider of the turn may see: from the DeciderStarted
/// event of the last completed turn (`previous_started`; 0 before the first) through `started`, both included.
///
/// # Errors
///
/// Returns a violation of [`Rule::Window`].
pub fn window(
    events: &[Event],
    previous_started: EventId,
    started: EventId,
    window: &[Event],
) -> Result<(), Violation> {
    let violation = |event_id, found| Err(Violation { rule: Rule::Window, event_id, found });
    if !events.iter().any(|event| event.id == started && matches!(event.kind, EventKind::DeciderStarted(_))) {
        return violation(started, "not a DeciderStarted".to_owned());
    }
    let completed = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::DeciderCompleted(it) if event.id < started => Some(it.started_event_id),
        _ => None,
    });
    let expected = completed.unwrap_or(0);
    if expected != previous_started {
        return violation(started, format!("the last completed turn began with {expected}, not {previous_started}"));
    }
    let first = previous_started.max(1);
    let due = events.iter().filter(|event| (first..=started).contains(&event.id)).collect::<Vec<_>>();
    if let Some((found, due)) = window.iter().zip(&due).find(|(found, due)| found != *due) {
        return violation(found.id, format!("expected event {} here", due.id));
    }
    if window.len() != due.len() {
        return violation(started, format!("{} events instead of {}", window.len(), due.len()));
    }
    Ok(())
}

/// Activity in the checked history. The checker keeps the activity after it has closed.
struct CheckedActivity {
    scheduled: ActivityScheduled,
    scheduled_at: Timestamp,
    /// Earliest time at which the activity's current wait for a runner can have begun: the time when the activity was
    /// last scheduled, resumed or retried.
    waits_from: Timestamp,
    started: Option<(EventId, Timestamp)>,
    cancels: Vec<EventId>,
    closed: Option<EventId>,
    is_paused: bool,
    /// Highest number of attempts allowed by any retry policy the activity has had. Manual retries are counted in
    /// `extra_attempts`.
    attempts_max: u32,
    extra_attempts: u32,
}

/// Timer in the checked history. The checker keeps the timer after it has ended.
struct CheckedTimer {
    name: String,
    set: (Timestamp, Duration),
    closed: Option<EventId>,
}

/// State of the checker for a run that consists of a single activity.
#[derive(Default)]
struct CheckedOneActivity {
    scheduled: Option<EventId>,
    /// Close of the run that follows from the close of the activity: the name of the event, and the reason of a
    /// failure.
    outcome: Option<(&'static str, Option<String>)>,
    /// True if the previous event was the DeciderCompleted event that must close the run.
    must_close: bool,
}

/// State of the checker, which reads a history from its beginning.
#[derive(Default)]
struct HistoryReader {
    last: Option<(EventId, Timestamp)>,
    /// Time of the service's clock at the newest event.
    last_at: Timestamp,
    start: Option<(WorkflowStarted, Timestamp)>,
    closed: Option<EventId>,
    /// Every DeciderScheduled event.
    turns: BTreeMap<EventId, DeciderScheduled>,
    /// Waiting turn: id of its DeciderScheduled event, and the time from which its wait counts.
    waiting: Option<(EventId, Timestamp)>,
    /// Turn held by a decider: ids of its DeciderScheduled and DeciderStarted events, and the time of the start.
    active: Option<(EventId, EventId, Timestamp)>,
    /// First event that needs a turn and has not been followed by a DeciderScheduled event.
    news: Option<EventId>,
    /// Id of the DeciderCompleted event whose decisions are being read.
    deciding: Option<EventId>,
    /// Id of the previous event, if it was an ActivityTaskCancel.
    canceling: Option<EventId>,
    /// Id of the activity whose last attempt the previous event recorded. The current event must close this activity.
    /// The flag is `true` if only an operator can close the activity, because the activity or the run is paused.
    closing: Option<(EventId, bool)>,
    activities: BTreeMap<EventId, CheckedActivity>,
    newest_activity: BTreeMap<String, EventId>,
    timers: BTreeMap<EventId, CheckedTimer>,
    newest_timer: BTreeMap<String, EventId>,
    links: CheckedLinks,
    clock: CheckedClock,
    updates: CheckedUpdates,
    one_activity: CheckedOneActivity,
    /// Earliest time to which a repair of deadlines has moved times back.
    repaired_at: Option<Timestamp>,
}

impl HistoryReader {
    fn read(&mut self, event: &Event) -> Result<(), Violation> {
        self.frame(event)?;
        self.rewind_clock(event);
        if let Some((scheduled, operator)) = self.closing.take() {
            if closes_activity(&event.kind) != Some(scheduled) {
                let found = format!(
                    "the last attempt of activity {scheduled} is followed by {}, not by its close",
                    event.kind.name()
                );
                return broken(Rule::ActivityLife, event.id, found);
            }
            if operator && !is_manual(&event.kind) {
                return broken(Rule::Pause, event.id, "a paused activity was started by a runner");
            }
        }
        self.updates.place(event.id, &event.kind)?;
        self.one_activity(event)?;
        self.place(event)?;
        self.life(event)?;
        self.links.read(event.id, &event.kind)?;
        self.updates.read(event.id, &event.kind)?;
        self.last = Some((event.id, event.timestamp));
        self.last_at = event.at();
        let canceling = matches!(event.kind, EventKind::ActivityTaskCancel(_));
        self.canceling = canceling.then_some(event.id);
        Ok(())
    }

    fn end(&self) -> Result<(), Violation> {
        if let (Some((scheduled, _)), Some((id, _))) = (self.closing, self.last) {
            return broken(Rule::ActivityLife, id, format!("the last attempt of activity {scheduled} has no close"));
        }
        self.updates.end()?;
        self.one_activity_ends()?;
        match (self.closed, self.news) {
            (None, Some(news)) if self.waiting.is_none() => {
                broken(Rule::NewsIsAnswered, news, "the history ends without a waiting turn")
            }
            _ => Ok(()),
        }
    }

    /// Preserves the remaining time of timers if the service's clock is put back while the run's clock is stopped.
    fn rewind_clock(&mut self, event: &Event) {
        let Some(at) = event.clock else { return };
        if let Some(since) = self.clock.put_back(at) {
            self.keep_timer_remainders(since, at);
        }
    }

    /// Restarts the waits for deciders and runners at `at`.
    fn restart_waits(&mut self, at: Timestamp) {
        if let Some((_, since)) = &mut self.waiting {
            *since = at;
        }
        for activity in self.activities.values_mut().filter(|activity| activity.closed.is_none()) {
            activity.waits_from = activity.waits_from.min(at);
        }
    }

    /// Moves the start of each open timer so that its remaining time at `at` equals the remaining time that it had at
    /// `since`.
    fn keep_timer_remainders(&mut self, since: Timestamp, at: Timestamp) {
        for timer in self.timers.values_mut().filter(|timer| timer.closed.is_none()) {
            timer.set.0 = timer.set.0.min(since).minus(since.since(at));
        }
    }

    /// Returns `true` if the run was started over SWF's protocol.
    fn is_swf(&self) -> bool {
        self.start.as_ref().is_some_and(|(start, _)| start.swf.is_some())
    }

    /// Checks the id and the time of an event, that events 1 and 2 have the required kinds, and that no event follows
    /// the close of the run.
    fn frame(&mut self, event: &Event) -> Result<(), Violation> {
        let id = event.id;
        let (last_id, last_at) = self.last.unwrap_or_default();
        if id.checked_sub(1) != Some(last_id) {
            return broken(Rule::Ids, id, format!("the previous event is {last_id}"));
        }
        if event.timestamp < last_at {
            let found = format!("its time is {}, but the previous event's is {last_at}", event.timestamp);
            return broken(Rule::Time, id, found);
        }
        if let Some(clock) = event.clock.filter(|clock| *clock >= event.timestamp) {
            return broken(Rule::Time, id, format!("its time is {}, but its clock shows {clock}", event.timestamp));
        }
        if event.clock.is_some() && event.timestamp != last_at {
            let found = format!("its time is {}, expected {last_at}, the time of the previous event", event.timestamp);
            return broken(Rule::Time, id, found);
        }
        if let Some(closed) = self.closed {
            return broken(Rule::NothingAfterClose, id, format!("event {closed} closed the run"));
        }
        match (id, &event.kind) {
            (1, EventKind::WorkflowStarted(started)) => self.start = Some((started.as_ref().clone(), event.at())),
            (2, EventKind::DeciderScheduled(_)) => {}
            (1 | 2, other) => return broken(Rule::Beginning, id, other.name()),
            (_, EventKind::WorkflowStarted(_)) => return broken(Rule::Beginning, id, "a second WorkflowStarted"),
            _ => {}
        }
        Ok(())
    }

    /// Checks the position of an event: the events of decisions directly follow their DeciderCompleted event, and an
    /// event that needs a turn is followed by DeciderScheduled.
    fn place(&mut self, event: &Event) -> Result<(), Violation> {
        let id = event.id;
        let part = match &event.kind {
            // In SWF runs, a ChildStarted event schedules a turn.
            EventKind::ChildStarted(_) if self.is_swf() => EventRole::News,
            kind => part(kind),
        };
        if let Some(decision_event_id) = decision_event_id(&event.kind) {
            if self.deciding != Some(decision_event_id) {
                let found = match self.deciding {
                    Some(deciding) => format!("it refers to {decision_event_id}, but follows decisions of {deciding}"),
                    None => format!("it refers to {decision_event_id}, but does not directly follow it"),
                };
                return broken(Rule::DecisionsTogether, id, found);
            }
        } else if !self.is_cancel_of_unstarted(event) {
            self.deciding = None;
        }
        let same_commit = match part {
            EventRole::Decided
            | EventRole::DecidedNews
            | EventRole::DecidedClose
            | EventRole::Close
            | EventRole::TimedNews => true,
            EventRole::News => self.deciding.is_some(),
            EventRole::Quiet => match &event.kind {
                EventKind::DeciderScheduled(_) => true,
                EventKind::ActivityStarted(it) => it.attempt.is_some(),
                EventKind::ActivityPaused(it) => it.cause == ActivityPausedCause::AttemptsExhausted,
                EventKind::WorkflowStarted(_)
                | EventKind::WorkflowSuccess(_)
                | EventKind::WorkflowFailed(_)
                | EventKind::WorkflowCanceled(_)
                | EventKind::WorkflowTimedOut(_)
                | EventKind::WorkflowTerminated(_)
                | EventKind::WorkflowCloseFailed(_)
                | EventKind::WorkflowCancelRequested(_)
                | EventKind::DeciderStarted(_)
                | EventKind::DeciderCompleted(_)
                | EventKind::DeciderTimedOut(_)
                | EventKind::DeciderFailed(_)
                | EventKind::ActivityScheduled(_)
                | EventKind::ActivityScheduleFailed(_)
                | EventKind::ActivitySuccess(_)
                | EventKind::ActivityFailed(_)
                | EventKind::ActivityCanceled(_)
                | EventKind::ActivityTimedOut(_)
                | EventKind::ActivityScheduledTimeout(_)
                | EventKind::ActivityTaskCancel(_)
                | EventKind::ActivityTaskCancelFailed(_)
                | EventKind::TimerScheduled(_)
                | EventKind::TimerScheduleFailed(_)
                | EventKind::TimerExpired(_)
                | EventKind::TimerCanceled(_)
                | EventKind::TimerCancelFailed(_)
                | EventKind::Signal(_)
                | EventKind::Marker(_)
                | EventKind::MarkerFailed(_)
                | EventKind::WorkflowContinuedAsNew(_)
                | EventKind::ChildScheduled(_)
                | EventKind::ChildScheduleFailed(_)
                | EventKind::ChildStarted(_)
                | EventKind::ChildSuccess(_)
                | EventKind::ChildFailed(_)
                | EventKind::ChildTimedOut(_)
                | EventKind::ChildCanceled(_)
                | EventKind::ChildTerminated(_)
                | EventKind::ExternalSignalScheduled(_)
                | EventKind::ExternalSignalDelivered(_)
                | EventKind::ExternalSignalFailed(_)
                | EventKind::ExternalCancelScheduled(_)
                | EventKind::ExternalCancelDelivered(_)
                | EventKind::ExternalCancelFailed(_)
                | EventKind::UpdateAccepted(_)
                | EventKind::UpdateCompleted(_)
                | EventKind::UpdateFailed(_)
                | EventKind::ActivityResumed(_)
                | EventKind::ActivityRetried(_)
                | EventKind::ActivityOptionsChanged(_)
                | EventKind::WorkflowPaused(_)
                | EventKind::WorkflowResumed(_)
                | EventKind::WorkflowReset(_) => false,
            },
        };
        if let Some(news) = self.news
            && !same_commit
        {
            let found = format!("the news is followed by {} instead of DeciderScheduled", event.kind.name());
            return broken(Rule::NewsIsAnswered, news, found);
        }
        match part {
            EventRole::News | EventRole::TimedNews | EventRole::DecidedNews => {
                let ends_waiting =
                    matches!(&event.kind, EventKind::DeciderTimedOut(it) if it.started_event_id.is_none());
                if self.waiting.is_none() || ends_waiting {
                    self.news.get_or_insert(id);
                }
            }
            EventRole::Close | EventRole::DecidedClose => self.closed = Some(id),
            EventRole::Decided | EventRole::Quiet => {}
        }
        Ok(())
    }

    fn is_cancel_of_unstarted(&self, event: &Event) -> bool {
        matches!(&event.kind, EventKind::ActivityCanceled(it)
            if it.started_event_id.is_none() && self.canceling == Some(it.cancel_event_id))
    }

    fn workflow_times_out(&self, id: EventId, at: Timestamp, timeout: WorkflowTimeout) -> Result<(), Violation> {
        let Some((start, started_at)) = &self.start else { return Ok(()) };
        let from = started_at.plus(start.start_after.unwrap_or_default());
        let (from, limit) = match timeout {
            WorkflowTimeout::Run => (from, start.run_timeout),
            WorkflowTimeout::Execution => (start.execution_from.unwrap_or(from), Some(start.execution_timeout)),
        };
        let from = self.repaired_at.map_or(from, |repaired_at| from.min(repaired_at));
        self.clock.expired(id, at, from, limit)
    }

    /// Checks the event against the turns, activities and timers read before it, and updates them.
    fn life(&mut self, event: &Event) -> Result<(), Violation> {
        let (id, at) = (event.id, event.at());
        match &event.kind {
            EventKind::WorkflowTimedOut(it) => {
                self.workflow_times_out(id, at, it.timeout)?;
                self.check_retry(event, None)
            }
            EventKind::WorkflowFailed(it) => self.check_retry(event, Some(&it.reason)),
            EventKind::DeciderScheduled(it) => self.turn_scheduled(id, at, it),
            EventKind::DeciderStarted(it) => self.turn_starts(id, at, it.scheduled_event_id),
            EventKind::DeciderCompleted(it) => {
                self.turn_ends(id, at, it.scheduled_event_id, it.started_event_id)?;
                self.deciding = Some(id);
                Ok(())
            }
            EventKind::DeciderFailed(it) => {
                self.turn_ends(id, at, it.scheduled_event_id, it.started_event_id)?;
                Ok(())
            }
            EventKind::DeciderTimedOut(it) => {
                self.turn_times_out(id, at, it.scheduled_event_id, it.started_event_id, it.timeout)
            }
            EventKind::ActivityScheduled(it) => self.activity_scheduled(id, at, it),
            EventKind::ActivityStarted(it) => self.activity_started(id, at, it),
            EventKind::ActivitySuccess(it) => self.activity_answered(id, it.scheduled_event_id, it.started_event_id),
            EventKind::ActivityFailed(it) => self.activity_answered(id, it.scheduled_event_id, it.started_event_id),
            EventKind::ActivityCanceled(it) => {
                self.activity_canceled(id, it.scheduled_event_id, it.started_event_id, it.cancel_event_id)
            }
            EventKind::ActivityTimedOut(it) => self.activity_timed_out(id, at, it),
            EventKind::ActivityScheduledTimeout(it) => self.activity_not_started(id, at, it),
            EventKind::ActivityPaused(it) => self.activity_paused(id, it),
            EventKind::ActivityResumed(it) => self.activity_resumed(id, at, it.scheduled_event_id),
            EventKind::ActivityRetried(it) => self.activity_retried(id, at, it.scheduled_event_id),
            EventKind::ActivityOptionsChanged(it) => self.activity_changed(id, at, it),
            EventKind::ActivityTaskCancel(it) => self.activity_cancel_requested(id, it),
            EventKind::WorkflowPaused(it) => self.clock.pause(id, at, it),
            EventKind::WorkflowResumed(it) => {
                if it.repairs_deadlines {
                    self.limit_times(at);
                }
                self.restart_waits(at);
                self.clock.resume(id, at)
            }
            EventKind::WorkflowReset(it) => self.branches(id, at, it),
            EventKind::TimerScheduled(it) => self.timer_set(id, (at, it.after), &it.timer_id),
            EventKind::TimerExpired(it) => {
                let (set_at, after) = self.close_timer(id, it.scheduled_event_id, &it.timer_id)?;
                self.clock.expired(id, at, set_at, Some(after))
            }
            EventKind::TimerCanceled(it) => {
                self.close_timer(id, it.scheduled_event_id, &it.timer_id)?;
                Ok(())
            }
            EventKind::WorkflowCancelRequested(it) if it.releases_first_turn => self.first_turn_released(id, at),
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Signal(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::ChildScheduled(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalScheduled(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
