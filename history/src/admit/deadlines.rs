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

/// The newest sign of life of each activity.
type Beats<'a> = BTreeMap<EventId, &'a Beat>;

impl Transition {
    /// Records everything whose time has come, in the order of time.
    pub(super) fn fire_deadlines(&mut self, beats: &[Beat], now: Timestamp) {
        let due = self.run.deadlines_due(beats, now);
        // The first beat of an activity counts, as it does for its deadline.
        let beats: Beats<'_> = beats.iter().rev().map(|beat| (beat.scheduled_event_id, beat)).collect();
        for deadline in due {
            if !self.run.is_open() {
                break;
            }
            if let Some(kind) = self.event_of(deadline.what, &beats) {
                self.push(now, kind);
            }
        }
    }

    /// The event of a deadline; `None` when an earlier one made it moot.
    fn event_of(&self, deadline: DeadlineKind, beats: &Beats<'_>) -> Option<EventKind> {
        match deadline {
            DeadlineKind::Execution => {
                Some(EventKind::WorkflowTimedOut(WorkflowTimedOut { timeout: WorkflowTimeout::Execution }))
            }
            DeadlineKind::Timer { scheduled_event_id } => {
                let timers = &self.run.timers;
                let (timer_id, _) = timers.iter().find(|(_, timer)| timer.scheduled_event_id == scheduled_event_id)?;
                Some(EventKind::TimerExpired(TimerExpired { timer_id: timer_id.clone(), scheduled_event_id }))
            }
            DeadlineKind::ActivityScheduleToStart { scheduled_event_id } => {
                self.run.activities.get(&scheduled_event_id)?;
                Some(EventKind::ActivityScheduledTimeout(ActivityScheduledTimeout { scheduled_event_id }))
            }
            DeadlineKind::ActivityHeartbeat { scheduled_event_id } => {
                self.activity_timed_out(scheduled_event_id, ActivityTimeout::Heartbeat, beats)
            }
            DeadlineKind::ActivityStartToClose { scheduled_event_id } => {
                self.activity_timed_out(scheduled_event_id, ActivityTimeout::StartToClose, beats)
            }
            DeadlineKind::ActivityScheduleToClose { scheduled_event_id } => {
                self.activity_timed_out(scheduled_event_id, ActivityTimeout::ScheduleToClose, beats)
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

    fn activity_timed_out(&self, scheduled: EventId, timeout: ActivityTimeout, beats: &Beats<'_>) -> Option<EventKind> {
        let activity = self.run.activities.get(&scheduled)?;
        let beat = beats.get(&scheduled);
        Some(EventKind::ActivityTimedOut(ActivityTimedOut {
            scheduled_event_id: scheduled,
            started_event_id: activity.started_event_id,
            timeout,
            details: beat.and_then(|beat| beat.details.clone()),
            cause: None,
        }))
    }
}
