//! What time does to a run: timers expire, and whoever took too long has timed out (S3.50).

use std::collections::BTreeMap;

use super::Transition;
use crate::command::Beat;
use crate::event::{
    ActivityScheduledTimeout, ActivityTimedOut, ActivityTimeout, DeciderTimedOut, DeciderTimeout, EventId, EventKind,
    TimerExpired, WorkflowTimedOut, WorkflowTimeout,
};
use crate::run::DeadlineKind;
use crate::time::Timestamp;

/// What the events of deadlines need beside the run's state, found for all that are due at once.
struct Facts<'a> {
    /// The newest sign of life of each activity.
    beats: BTreeMap<EventId, &'a Beat>,
    /// The names of the timers that are due, sorted by their TimerScheduled.
    timers: Vec<(EventId, String)>,
}

impl Transition {
    /// Records everything whose time has come, in the order of time.
    pub(super) fn fire_deadlines(&mut self, beats: &[Beat], now: Timestamp) {
        let due = self.run.deadlines_due(beats, now);
        // The first beat of an activity counts, as it does for its deadline.
        let beats = beats.iter().rev().map(|beat| (beat.scheduled_event_id, beat)).collect();
        let timers = self.run.timers.iter().filter(|(_, timer)| timer.expires_at <= now);
        let mut timers: Vec<_> = timers.map(|(timer_id, timer)| (timer.scheduled_event_id, timer_id.clone())).collect();
        timers.sort_unstable_by_key(|(scheduled_event_id, _)| *scheduled_event_id);
        let mut facts = Facts { beats, timers };
        for deadline in due {
            if !self.run.is_open() {
                break;
            }
            if let Some(kind) = self.event_of(deadline.what, &mut facts) {
                self.push(now, kind);
            }
        }
    }

    /// The event of a deadline; `None` when an earlier one made it moot.
    fn event_of(&self, deadline: DeadlineKind, facts: &mut Facts<'_>) -> Option<EventKind> {
        match deadline {
            DeadlineKind::Execution => {
                Some(EventKind::WorkflowTimedOut(WorkflowTimedOut { timeout: WorkflowTimeout::Execution }))
            }
            DeadlineKind::Timer { scheduled_event_id } => {
                let place = facts.timers.binary_search_by_key(&scheduled_event_id, |(id, _)| *id).ok()?;
                let timer_id = std::mem::take(&mut facts.timers.get_mut(place)?.1);
                Some(EventKind::TimerExpired(TimerExpired { timer_id, scheduled_event_id }))
            }
            DeadlineKind::ActivityScheduleToStart { scheduled_event_id } => {
                self.run.activities.get(&scheduled_event_id)?;
                Some(EventKind::ActivityScheduledTimeout(ActivityScheduledTimeout { scheduled_event_id }))
            }
            DeadlineKind::ActivityHeartbeat { scheduled_event_id } => {
                self.activity_timed_out(scheduled_event_id, ActivityTimeout::Heartbeat, facts)
            }
            DeadlineKind::ActivityStartToClose { scheduled_event_id } => {
                self.activity_timed_out(scheduled_event_id, ActivityTimeout::StartToClose, facts)
            }
            DeadlineKind::ActivityScheduleToClose { scheduled_event_id } => {
                self.activity_timed_out(scheduled_event_id, ActivityTimeout::ScheduleToClose, facts)
            }
            DeadlineKind::TurnScheduleToStart { scheduled_event_id } => {
                let timeout = DeciderTimeout::ScheduleToStart;
                let timed_out = DeciderTimedOut { scheduled_event_id, started_event_id: None, timeout };
                Some(EventKind::DeciderTimedOut(timed_out))
            }
            DeadlineKind::TurnStartToClose { scheduled_event_id } => {
                let started_event_id = Some(self.run.turn.as_ref()?.started_event_id);
                let timeout = DeciderTimeout::StartToClose;
                Some(EventKind::DeciderTimedOut(DeciderTimedOut { scheduled_event_id, started_event_id, timeout }))
            }
        }
    }

    fn activity_timed_out(&self, scheduled: EventId, timeout: ActivityTimeout, facts: &Facts<'_>) -> Option<EventKind> {
        let activity = self.run.activities.get(&scheduled)?;
        let beat = facts.beats.get(&scheduled);
        Some(EventKind::ActivityTimedOut(ActivityTimedOut {
            scheduled_event_id: scheduled,
            started_event_id: activity.started_event_id,
            timeout,
            details: beat.and_then(|beat| beat.details.clone()),
            cause: None,
        }))
    }
}
