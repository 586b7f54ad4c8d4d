//! An independent checker: whether a history could have come from the rules at all.
//!
//! It owns the invariants of histories, written a second time and in another way than `admit` and `evolve` have them,
//! and shares no code with either; not even the catalogue's columns. It is slow on purpose where that makes it plain,
//! and it looks at whole histories: one that is cut in the middle of a commit may look broken at its end.
//!
//! What a history cannot show is not checked: that a closing decision was forced (D8), heartbeats (D6), answers that
//! were refused.

mod by_hand;
mod clock;
mod others;
mod part;
mod retries;
mod updates;

use std::collections::BTreeMap;
use std::fmt;

use crate::event::{
    ActivityPausedCause, ActivityScheduled, ActivityStarted, ActivityTimedOut, ActivityTimeout, DeciderScheduled,
    DeciderTimeout, Event, EventId, EventKind, WorkflowStarted, WorkflowTimeout,
};
use crate::time::{Duration, Timestamp};
use clock::Clock;
use others::Others;
use part::{Part, decision_event_id, part};
use updates::Updates;

/// A rule that a history breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event_id} breaks the rule that {rule}: {found}")]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// At which event; for [`Rule::NewsIsAnswered`] at the end of a history: the news that nobody will look at.
    pub event_id: EventId,
    /// What was found there.
    pub found: String,
}

/// The invariants of histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Ids are 1, 2, 3, … without gaps.
    Ids,
    /// Time never goes back.
    Time,
    /// Event 1 is WorkflowStarted, event 2 DeciderScheduled, and WorkflowStarted is nowhere else (S3.6).
    Beginning,
    /// Nothing follows a closing event (S3.7).
    NothingAfterClose,
    /// At most one DeciderScheduled since the last DeciderStarted (S3.36, D1).
    OneTurnWaits,
    /// Never two deciders active at once (S3.37).
    OneTurnStarted,
    /// A turn is scheduled because of news, and of nothing else (S3.38, S3.54), unless an update or a decision is recorded
    /// with all of it at once (S1.34).
    TurnHasCause,
    /// News that schedules a decider is followed by a DeciderScheduled, unless one waits (S3.38, D7).
    NewsIsAnswered,
    /// A link names an earlier event of the right kind, and that event's ids.
    Link,
    /// An activity starts at most once, closes at most once, and is not answered before it starts.
    ActivityLife,
    /// What is paused is resumed before it is paused again, and is not begun in between.
    Pause,
    /// A timer is set, then expires or is canceled, once.
    TimerLife,
    /// No two open activities, timers or children share an id (S3.23).
    IdInUse,
    /// A child starts at most once, and closes at most once, not before it started.
    ChildLife,
    /// An update is accepted, then answered once.
    UpdateLife,
    /// An effect on another run is known to have happened, or not to, once.
    EffectOnce,
    /// What comes from an event of another run comes once.
    OriginOnce,
    /// A decision's events stand directly behind its DeciderCompleted (S3.43).
    DecisionsTogether,
    /// Nothing expires before its time (S3.50), and no turn is handed out while it is held back.
    NotBeforeTime,
    /// A run that failed or took too long is tried again only where its retry policy has another try (S2.30).
    Retry,
    /// A decider sees its window, from the last completed turn's DeciderStarted to its own, and nothing later (S3.39,
    /// S3.40, D2, D3).
    Window,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ids => "ids are 1, 2, 3, … without gaps",
            Self::Time => "time never goes back",
            Self::Beginning => "a history begins with WorkflowStarted and DeciderScheduled (S3.6)",
            Self::NothingAfterClose => "nothing follows a closing event (S3.7)",
            Self::OneTurnWaits => "at most one DeciderScheduled is outstanding (S3.36)",
            Self::OneTurnStarted => "at most one decider is active (S3.37)",
            Self::TurnHasCause => "a turn is scheduled because of news (S3.38)",
            Self::NewsIsAnswered => "news is followed by a DeciderScheduled unless one waits (S3.38)",
            Self::Link => "a link names an earlier event of the right kind",
            Self::ActivityLife => "an activity starts once, then closes once",
            Self::Pause => "what is paused is not begun, and is resumed once",
            Self::TimerLife => "a timer expires or is canceled, once",
            Self::IdInUse => "no two open activities, timers or children share an id (S3.23)",
            Self::ChildLife => "a child starts once, then closes once",
            Self::UpdateLife => "an update is accepted, then answered once",
            Self::EffectOnce => "an effect on another run has one outcome",
            Self::OriginOnce => "an effect of another run happens once",
            Self::DecisionsTogether => "decision events stand directly behind their DeciderCompleted (S3.43)",
            Self::NotBeforeTime => "nothing happens before its time (S3.50)",
            Self::Retry => "a run is tried again as its retry policy says (S2.30)",
            Self::Window => "a window ends with its own DeciderStarted and begins with the last completed one (S3.39)",
        })
    }
}

/// Holds a whole history against every rule.
///
/// # Errors
///
/// The first violation, in the order of events.
pub fn history(events: &[Event]) -> Result<(), Violation> {
    let mut reader = Reader::default();
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
struct Activity {
    scheduled: ActivityScheduled,
    scheduled_at: Timestamp,
    started: Option<(EventId, Timestamp)>,
    cancels: Vec<EventId>,
    closed: Option<EventId>,
    is_paused: bool,
    /// The most tries that any of its policies has allowed, and those that were added by hand.
    attempts_max: u32,
    tries_more: u32,
}

/// A timer, for the whole history.
struct Timer {
    name: String,
    set: (Timestamp, Duration),
    closed: Option<EventId>,
}

/// Reads a history from its beginning.
#[derive(Default)]
struct Reader {
    last: Option<(EventId, Timestamp)>,
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
    activities: BTreeMap<EventId, Activity>,
    newest_activity: BTreeMap<String, EventId>,
    timers: BTreeMap<EventId, Timer>,
    newest_timer: BTreeMap<String, EventId>,
    others: Others,
    clock: Clock,
    updates: Updates,
}

impl Reader {
    fn read(&mut self, event: &Event) -> Result<(), Violation> {
        self.frame(event)?;
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
        if let Some(closed) = self.closed {
            return broken(Rule::NothingAfterClose, id, format!("event {closed} closed the run"));
        }
        match (id, &event.kind) {
            (1, EventKind::WorkflowStarted(started)) => self.start = Some((started.clone(), event.timestamp)),
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
            // In SWF's dialect a child that has begun is news (SWF.md §6).
            EventKind::ChildStarted(_) if self.is_swf() => Part::News,
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
            Part::Decided | Part::DecidedNews | Part::DecidedClose | Part::Close | Part::TimedNews => true,
            Part::News => self.deciding.is_some(),
            Part::Quiet => match &event.kind {
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
            Part::News | Part::TimedNews | Part::DecidedNews => {
                let ends_waiting =
                    matches!(&event.kind, EventKind::DeciderTimedOut(it) if it.started_event_id.is_none());
                if self.waiting.is_none() || ends_waiting {
                    self.news.get_or_insert(id);
                }
            }
            Part::Close | Part::DecidedClose => self.closed = Some(id),
            Part::Decided | Part::Quiet => {}
        }
        Ok(())
    }

    fn is_cancel_of_unstarted(&self, event: &Event) -> bool {
        matches!(&event.kind, EventKind::ActivityCanceled(it)
            if it.started_event_id.is_none() && self.canceling == Some(it.cancel_event_id))
    }

    /// Turns, activities, timers: what it does to them, and whether it may.
    fn life(&mut self, event: &Event) -> Result<(), Violation> {
        let (id, at) = (event.id, event.timestamp);
        match &event.kind {
            EventKind::WorkflowTimedOut(it) => {
                if let Some((start, started_at)) = &self.start {
                    let from = started_at.plus(start.start_after.unwrap_or_default());
                    match it.timeout {
                        WorkflowTimeout::Run => self.clock.expired(id, at, from, start.run_timeout)?,
                        WorkflowTimeout::Execution => {
                            let from = start.execution_from.unwrap_or(from);
                            self.clock.expired(id, at, from, Some(start.execution_timeout))?;
                        }
                    }
                }
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
            EventKind::ActivityScheduledTimeout(it) => {
                let activity = self.open_activity(id, it.scheduled_event_id)?;
                if let Some((started, _)) = activity.started {
                    return broken(Rule::ActivityLife, id, format!("event {started} started it in time"));
                }
                let (since, limit) = (activity.scheduled_at, activity.scheduled.timeouts.schedule_to_start);
                activity.closed = Some(id);
                self.clock.expired(id, at, since, limit)
            }
            EventKind::ActivityPaused(it) => self.activity_paused(id, it),
            EventKind::ActivityResumed(it) => self.activity_resumed(id, it.scheduled_event_id),
            EventKind::ActivityRetried(it) => self.activity_retried(id, it.scheduled_event_id),
            EventKind::ActivityOptionsChanged(it) => self.activity_changed(id, it),
            EventKind::ActivityTaskCancel(it) => {
                let activity = self.open_activity(id, it.scheduled_event_id)?;
                if activity.scheduled.activity_id != it.activity_id {
                    let found = format!("`{}` was scheduled as `{}`", it.activity_id, activity.scheduled.activity_id);
                    return broken(Rule::Link, id, found);
                }
                activity.cancels.push(id);
                Ok(())
            }
            EventKind::WorkflowPaused(it) => self.clock.pause(id, at, it),
            EventKind::WorkflowResumed(_) => self.clock.resume(id, at),
            EventKind::TimerScheduled(it) => self.timer_set(id, (at, it.after), &it.timer_id),
            EventKind::TimerExpired(it) => {
                let (set_at, after) = self.close_timer(id, it.scheduled_event_id, &it.timer_id)?;
                self.clock.expired(id, at, set_at, Some(after))
            }
            EventKind::TimerCanceled(it) => {
                self.close_timer(id, it.scheduled_event_id, &it.timer_id)?;
                Ok(())
            }
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

    fn turn_waits(&mut self, id: EventId, at: Timestamp, scheduled: &DeciderScheduled) -> Result<(), Violation> {
        if let Some((waiting, _)) = self.waiting {
            return broken(Rule::OneTurnWaits, id, format!("turn {waiting} waits already"));
        }
        if self.news.take().is_none() {
            self.updates.turn_without_news(id);
        }
        let start = self.start.as_ref().filter(|_| id == 2);
        if let Some(first) = start.and_then(|(start, started_at)| Some(started_at.plus(start.start_after?)))
            && scheduled.not_before != Some(first)
        {
            let found = format!("the first turn is to wait until {first}, and waits until {:?}", scheduled.not_before);
            return broken(Rule::NotBeforeTime, id, found);
        }
        self.turns.insert(id, scheduled.clone());
        self.waiting = Some((id, at));
        Ok(())
    }

    fn turn_starts(&mut self, id: EventId, at: Timestamp, scheduled: EventId) -> Result<(), Violation> {
        if let Some((_, started, _)) = self.active {
            return broken(Rule::OneTurnStarted, id, format!("turn {started} has not ended"));
        }
        match self.waiting.take() {
            Some((waiting, _)) if waiting == scheduled => {}
            other => {
                let found = format!("it names turn {scheduled}, waiting is {:?}", other.map(|(id, _)| id));
                return broken(Rule::Link, id, found);
            }
        }
        if self.clock.is_paused() {
            return broken(Rule::Pause, id, "the run is paused");
        }
        if let Some(held_until) = self.turns.get(&scheduled).and_then(|turn| turn.not_before) {
            not_before(id, at, held_until)?;
        }
        self.active = Some((scheduled, id, at));
        Ok(())
    }

    fn turn_ends(
        &mut self,
        id: EventId,
        at: Timestamp,
        scheduled: EventId,
        started: EventId,
    ) -> Result<Timestamp, Violation> {
        match self.active {
            Some((held_scheduled, held_started, since)) if (held_scheduled, held_started) == (scheduled, started) => {
                self.active = None;
                if let Some((_, waits_since)) = &mut self.waiting {
                    *waits_since = at;
                }
                Ok(since)
            }
            other => {
                let held = other.map(|(scheduled, started, _)| (scheduled, started));
                broken(Rule::Link, id, format!("it names turn {:?}, started is {held:?}", (scheduled, started)))
            }
        }
    }

    fn turn_times_out(
        &mut self,
        id: EventId,
        at: Timestamp,
        scheduled: EventId,
        started: Option<EventId>,
        timeout: DeciderTimeout,
    ) -> Result<(), Violation> {
        let turn = self.turns.get(&scheduled).cloned();
        match (timeout, started) {
            (DeciderTimeout::StartToClose, Some(started)) => {
                let since = self.turn_ends(id, at, scheduled, started)?;
                self.clock.expired(id, at, since, turn.map(|turn| turn.start_to_close))
            }
            (DeciderTimeout::ScheduleToStart, None) => match self.waiting.take() {
                Some((waiting, since)) if waiting == scheduled && self.active.is_none() => {
                    let since = turn.as_ref().and_then(|turn| turn.not_before).unwrap_or(since);
                    self.clock.expired(id, at, since, turn.and_then(|turn| turn.schedule_to_start))
                }
                _ => broken(Rule::Link, id, format!("turn {scheduled} is not waiting for a decider")),
            },
            (timeout, started) => broken(Rule::Link, id, format!("{timeout:?} of a turn started by {started:?}")),
        }
    }

    fn activity_waits(&mut self, id: EventId, at: Timestamp, scheduled: &ActivityScheduled) -> Result<(), Violation> {
        if let Some(other) = self.newest_activity.insert(scheduled.activity_id.clone(), id)
            && self.activities.get(&other).is_some_and(|other| other.closed.is_none())
        {
            let found = format!("activity `{}` is open since event {other}", scheduled.activity_id);
            return broken(Rule::IdInUse, id, found);
        }
        let activity = Activity {
            scheduled: scheduled.clone(),
            scheduled_at: at,
            started: None,
            cancels: Vec::new(),
            closed: None,
            is_paused: false,
            attempts_max: by_hand::attempts(scheduled.retry.as_ref()),
            tries_more: 0,
        };
        self.activities.insert(id, activity);
        Ok(())
    }

    fn open_activity(&mut self, id: EventId, scheduled: EventId) -> Result<&mut Activity, Violation> {
        match self.activities.get_mut(&scheduled) {
            None => broken(Rule::Link, id, format!("event {scheduled} is not an ActivityScheduled before it")),
            Some(Activity { closed: Some(closed), .. }) => {
                broken(Rule::ActivityLife, id, format!("event {closed} closed the activity"))
            }
            Some(activity) => Ok(activity),
        }
    }

    fn activity_started(&mut self, id: EventId, at: Timestamp, it: &ActivityStarted) -> Result<(), Violation> {
        let run_is_paused = self.clock.is_paused();
        let activity = self.open_activity(id, it.scheduled_event_id)?;
        if let Some((started, _)) = activity.started {
            return broken(Rule::ActivityLife, id, format!("event {started} started it already"));
        }
        if activity.scheduled.retry.is_none() {
            activity.started = Some((id, at));
            if activity.is_paused || run_is_paused {
                self.closing = Some((it.scheduled_event_id, true));
            }
            return match (it.attempt, it.started_at, &it.last_failure) {
                (None, None, None) => Ok(()),
                _ => broken(Rule::ActivityLife, id, "it tells of tries, and there is no retry policy"),
            };
        }
        let (Some(attempt), Some(started_at)) = (it.attempt, it.started_at) else {
            return broken(Rule::ActivityLife, id, "the last try of an activity has no number or no time");
        };
        let attempts_max = activity.attempts_max.saturating_add(activity.tries_more);
        if attempt == 0 || attempt > attempts_max {
            return broken(Rule::ActivityLife, id, format!("try {attempt} of {attempts_max}"));
        }
        if it.last_failure.is_some() != (attempt > 1) {
            return broken(Rule::ActivityLife, id, format!("try {attempt} comes after {:?}", it.last_failure));
        }
        let since = it.last_failure.as_ref().map_or(activity.scheduled_at, |failure| failure.at);
        if since < activity.scheduled_at || started_at < since || at < started_at {
            let found = format!("try {attempt} at {started_at}, the one before it ended at {since}");
            return broken(Rule::NotBeforeTime, id, found);
        }
        activity.started = Some((id, started_at));
        // Whether the try began before a pause cannot be told: tries move no clock, and clocks may go back.
        self.closing = Some((it.scheduled_event_id, false));
        Ok(())
    }

    fn activity_answered(&mut self, id: EventId, scheduled: EventId, started: EventId) -> Result<(), Violation> {
        let activity = self.open_activity(id, scheduled)?;
        match activity.started {
            None => return broken(Rule::ActivityLife, id, "the activity was not started"),
            Some((found, _)) if found != started => {
                return broken(Rule::Link, id, format!("it names start {started}, the activity's is {found}"));
            }
            Some(_) => {}
        }
        activity.closed = Some(id);
        Ok(())
    }

    fn activity_canceled(
        &mut self,
        id: EventId,
        scheduled: EventId,
        started: Option<EventId>,
        cancel: EventId,
    ) -> Result<(), Violation> {
        let (canceling, is_swf) = (self.canceling, self.is_swf());
        let activity = self.open_activity(id, scheduled)?;
        let is_unasked = cancel == 0 && started.is_some() && is_swf;
        if !activity.cancels.contains(&cancel) && !is_unasked {
            return broken(Rule::Link, id, format!("event {cancel} did not ask for this"));
        }
        if activity.started.map(|(started, _)| started) != started {
            let found = format!("it names start {started:?}, the activity's is {:?}", activity.started);
            return broken(Rule::Link, id, found);
        }
        if started.is_none() && canceling != Some(cancel) {
            return broken(Rule::DecisionsTogether, id, "an unstarted activity is canceled at once");
        }
        activity.closed = Some(id);
        Ok(())
    }

    fn activity_timed_out(&mut self, id: EventId, at: Timestamp, it: &ActivityTimedOut) -> Result<(), Violation> {
        let activity = self.open_activity(id, it.scheduled_event_id)?;
        if activity.started.map(|(started, _)| started) != it.started_event_id {
            let found = format!("it names start {:?}, the activity's is {:?}", it.started_event_id, activity.started);
            return broken(Rule::Link, id, found);
        }
        let timeouts = &activity.scheduled.timeouts;
        let started_at = activity.started.map(|(_, at)| at);
        let (from, limit) = match it.timeout {
            ActivityTimeout::StartToClose => (started_at, timeouts.start_to_close),
            ActivityTimeout::Heartbeat => (started_at, timeouts.heartbeat),
            ActivityTimeout::ScheduleToClose => (Some(activity.scheduled_at), timeouts.schedule_to_close),
        };
        let Some(from) = from else {
            return broken(Rule::ActivityLife, id, format!("{:?} of an activity that was not started", it.timeout));
        };
        activity.closed = Some(id);
        match it.cause {
            None => self.clock.expired(id, at, from, limit),
            Some(_) => Ok(()),
        }
    }

    fn timer_set(&mut self, id: EventId, set: (Timestamp, Duration), timer_id: &str) -> Result<(), Violation> {
        if let Some(other) = self.newest_timer.insert(timer_id.to_owned(), id)
            && self.timers.get(&other).is_some_and(|other| other.closed.is_none())
        {
            return broken(Rule::IdInUse, id, format!("timer `{timer_id}` is open since event {other}"));
        }
        let timer = Timer { name: timer_id.to_owned(), set, closed: None };
        self.timers.insert(id, timer);
        Ok(())
    }

    /// Closes a timer; when it was set, and for how long.
    fn close_timer(
        &mut self,
        id: EventId,
        scheduled: EventId,
        timer_id: &str,
    ) -> Result<(Timestamp, Duration), Violation> {
        let Some(timer) = self.timers.get_mut(&scheduled) else {
            return broken(Rule::Link, id, format!("event {scheduled} is not a TimerScheduled before it"));
        };
        if timer.name != timer_id {
            return broken(Rule::Link, id, format!("`{timer_id}` was set as `{}`", timer.name));
        }
        if let Some(closed) = timer.closed {
            return broken(Rule::TimerLife, id, format!("event {closed} closed the timer"));
        }
        timer.closed = Some(id);
        Ok(timer.set)
    }
}

/// The activity that an event closes.
fn closes_activity(kind: &EventKind) -> Option<EventId> {
    match kind {
        EventKind::ActivitySuccess(it) => Some(it.scheduled_event_id),
        EventKind::ActivityFailed(it) => Some(it.scheduled_event_id),
        EventKind::ActivityCanceled(it) => Some(it.scheduled_event_id),
        EventKind::ActivityTimedOut(it) => Some(it.scheduled_event_id),
        _ => None,
    }
}

/// Whether somebody who operates the run closed the activity.
fn is_by_hand(kind: &EventKind) -> bool {
    match kind {
        EventKind::ActivitySuccess(it) => it.by_hand.is_some(),
        EventKind::ActivityFailed(it) => it.by_hand.is_some(),
        _ => false,
    }
}

fn broken<T>(rule: Rule, event_id: EventId, found: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { rule, event_id, found: found.into() })
}

fn not_before(id: EventId, at: Timestamp, due: Timestamp) -> Result<(), Violation> {
    if at < due {
        return broken(Rule::NotBeforeTime, id, format!("it is at {at}, its time is {due}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
