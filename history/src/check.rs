//! An independent checker: whether a history could have come from the rules at all.
//!
//! It owns the invariants of histories, written a second time and in another way than `admit` and `evolve` have them,
//! and shares no code with either; not even the catalogue's columns. It is slow on purpose where that makes it plain,
//! and it looks at whole histories: one that is cut in the middle of a commit may look broken at its end.
//!
//! What a history cannot show is not checked: that a closing decision was forced, heartbeats, answers that
//! were refused.

mod activities;
mod branch;
mod by_hand;
mod clock;
mod others;
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
use others::Others;
use part::{EventRole, closes_activity, decision_event_id, is_by_hand, part};
use rule::broken;
use updates::CheckedUpdates;

pub use rule::{Rule, Violation};

/// Holds a whole history against every rule.
///
/// # Errors
///
/// The first violation, in the order of events.
pub fn history(events: &[Event]) -> Result<(), Violation> {
    let mut reader = HistoryReader::default();
    for event in events {
        reader.read(event)?;
    }
    reader.end()
}

/// Whether `window` is what the decider of the turn that `started` began may see: the events from the DeciderStarted of
/// the last completed turn (`previous_started`; 0 before the first) through `started`, both included.
///
/// # Errors
///
/// [`Rule::Window`].
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
        return violation(found.id, format!("event {} belongs there", due.id));
    }
    if window.len() != due.len() {
        return violation(started, format!("{} events instead of {}", window.len(), due.len()));
    }
    Ok(())
}

/// An activity, for the whole history.
struct CheckedActivity {
    scheduled: ActivityScheduled,
    scheduled_at: Timestamp,
    /// The earliest time by the clock at which it began to wait for a runner: when it was scheduled, or released by hand since.
    waits_from: Timestamp,
    started: Option<(EventId, Timestamp)>,
    cancels: Vec<EventId>,
    closed: Option<EventId>,
    is_paused: bool,
    /// The most tries that any of its policies has allowed, and those that were added by hand.
    attempts_max: u32,
    tries_more: u32,
}

/// A timer, for the whole history.
struct CheckedTimer {
    name: String,
    set: (Timestamp, Duration),
    closed: Option<EventId>,
}

/// Reads a history from its beginning.
#[derive(Default)]
struct HistoryReader {
    last: Option<(EventId, Timestamp)>,
    /// Time of the newest event by the service's clock.
    last_at: Timestamp,
    start: Option<(WorkflowStarted, Timestamp)>,
    closed: Option<EventId>,
    /// Every DeciderScheduled, and when the turn began to wait for a decider.
    turns: BTreeMap<EventId, DeciderScheduled>,
    /// The turn that waits, and since when it could have been taken.
    waiting: Option<(EventId, Timestamp)>,
    /// The turn that is started: its DeciderScheduled, its DeciderStarted, and when.
    active: Option<(EventId, EventId, Timestamp)>,
    /// News that no DeciderScheduled answers yet.
    news: Option<EventId>,
    /// The DeciderCompleted whose decisions are being read.
    deciding: Option<EventId>,
    /// The ActivityTaskCancel directly before, if that is what was directly before.
    canceling: Option<EventId>,
    /// The activity whose last try was recorded directly before, to be closed by the next event; and whether only somebody
    /// who operates the run may have begun it.
    closing: Option<(EventId, bool)>,
    activities: BTreeMap<EventId, CheckedActivity>,
    newest_activity: BTreeMap<String, EventId>,
    timers: BTreeMap<EventId, CheckedTimer>,
    newest_timer: BTreeMap<String, EventId>,
    others: Others,
    clock: CheckedClock,
    updates: CheckedUpdates,
    /// When deadlines were first repaired.
    repaired_at: Option<Timestamp>,
}

impl HistoryReader {
    fn read(&mut self, event: &Event) -> Result<(), Violation> {
        self.frame(event)?;
        self.put_clock_back(event);
        if let Some((scheduled, by_hand)) = self.closing.take() {
            if closes_activity(&event.kind) != Some(scheduled) {
                let found =
                    format!("the last try of activity {scheduled} was recorded, and then {}", event.kind.name());
                return broken(Rule::ActivityLife, event.id, found);
            }
            if by_hand && !is_by_hand(&event.kind) {
                return broken(Rule::Pause, event.id, "a paused activity was started by a runner");
            }
        }
        self.updates.place(event.id, &event.kind)?;
        self.place(event)?;
        self.life(event)?;
        self.others.read(event.id, &event.kind)?;
        self.updates.read(event.id, &event.kind)?;
        self.last = Some((event.id, event.timestamp));
        self.last_at = event.at();
        let canceling = matches!(event.kind, EventKind::ActivityTaskCancel(_));
        self.canceling = canceling.then_some(event.id);
        Ok(())
    }

    fn end(&self) -> Result<(), Violation> {
        if let (Some((scheduled, _)), Some((id, _))) = (self.closing, self.last) {
            return broken(Rule::ActivityLife, id, format!("the last try of activity {scheduled} has no end"));
        }
        self.updates.end()?;
        match (self.closed, self.news) {
            (None, Some(news)) if self.waiting.is_none() => {
                broken(Rule::NewsIsAnswered, news, "the history ends and no turn waits")
            }
            _ => Ok(()),
        }
    }

    /// Timers keep what they had left if the clock of the world is put back while that of the run stands still.
    fn put_clock_back(&mut self, event: &Event) {
        let Some(at) = event.clock else { return };
        if let Some(since) = self.clock.put_back(at) {
            self.timers_keep(since, at);
        }
    }

    /// What waits for somebody does so anew.
    fn waits_anew(&mut self, at: Timestamp) {
        if let Some((_, since)) = &mut self.waiting {
            *since = at;
        }
        for activity in self.activities.values_mut().filter(|activity| activity.closed.is_none()) {
            activity.waits_from = activity.waits_from.min(at);
        }
    }

    /// What timers have left is the same at two instants.
    fn timers_keep(&mut self, since: Timestamp, at: Timestamp) {
        for timer in self.timers.values_mut().filter(|timer| timer.closed.is_none()) {
            timer.set.0 = timer.set.0.min(since).minus(since.since(at));
        }
    }

    /// Whether the run was started over SWF's wire.
    fn is_swf(&self) -> bool {
        self.start.as_ref().is_some_and(|(start, _)| start.swf.is_some())
    }

    /// Ids, time, beginning and end.
    fn frame(&mut self, event: &Event) -> Result<(), Violation> {
        let id = event.id;
        let (last_id, last_at) = self.last.unwrap_or_default();
        if id.checked_sub(1) != Some(last_id) {
            return broken(Rule::Ids, id, format!("{last_id} comes before it"));
        }
        if event.timestamp < last_at {
            let found = format!("it is at {}, the one before it at {last_at}", event.timestamp);
            return broken(Rule::Time, id, found);
        }
        if let Some(clock) = event.clock.filter(|clock| *clock >= event.timestamp) {
            return broken(Rule::Time, id, format!("it is at {}, by a clock that is at {clock}", event.timestamp));
        }
        if event.clock.is_some() && event.timestamp != last_at {
            let found = format!("it is at {}, held up by the one before it, which is at {last_at}", event.timestamp);
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

    /// Whether it may stand at this place: decisions together, news answered.
    fn place(&mut self, event: &Event) -> Result<(), Violation> {
        let id = event.id;
        let part = match &event.kind {
            // In SWF's dialect a child that has begun is news.
            EventKind::ChildStarted(_) if self.is_swf() => EventRole::News,
            kind => part(kind),
        };
        if let Some(decision_event_id) = decision_event_id(&event.kind) {
            if self.deciding != Some(decision_event_id) {
                let found = match self.deciding {
                    Some(deciding) => format!("it names {decision_event_id}, the decisions of {deciding} are read"),
                    None => format!("it names {decision_event_id}, and does not follow it"),
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
                EventKind::ActivityPaused(it) => it.cause == ActivityPausedCause::TriesExhausted,
                _ => false,
            },
        };
        if let Some(news) = self.news
            && !same_commit
        {
            let found = format!("news, and then {} instead of DeciderScheduled", event.kind.name());
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

    /// Turns, activities, timers: what it does to them, and whether it may.
    fn life(&mut self, event: &Event) -> Result<(), Violation> {
        let (id, at) = (event.id, event.at());
        match &event.kind {
            EventKind::WorkflowTimedOut(it) => {
                self.workflow_times_out(id, at, it.timeout)?;
                self.tried_again(event, None)
            }
            EventKind::WorkflowFailed(it) => self.tried_again(event, Some(&it.reason)),
            EventKind::DeciderScheduled(it) => self.turn_waits(id, at, it),
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
            EventKind::ActivityScheduled(it) => self.activity_waits(id, at, it),
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
            EventKind::ActivityTaskCancel(it) => self.activity_asked_to_stop(id, it),
            EventKind::WorkflowPaused(it) => self.clock.pause(id, at, it),
            EventKind::WorkflowResumed(it) => {
                if it.repairs_deadlines {
                    self.count_from(at);
                }
                self.waits_anew(at);
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
