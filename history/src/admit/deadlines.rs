//! What time does to a run: timers expire, and whoever took too long has timed out.

use std::collections::BTreeMap;

use super::Transition;
use crate::command::Beat;
use crate::event::{
    ActivityScheduledTimeout, ActivityTimeout, DeciderTimedOut, DeciderTimeout, EventId, EventKind, WorkflowTimedOut,
    WorkflowTimeout,
};
use crate::limits;
use crate::payload::Payload;
use crate::rules::timer::DueTimers;
use crate::run::DeadlineKind;
use crate::time::Timestamp;

/// What the events of deadlines need beside the run's state, found for all that are due at once.
struct Facts<'a> {
    /// The newest sign of life of each activity.
    beats: BTreeMap<EventId, &'a Beat>,
    timers: DueTimers,
}

impl Transition {
    /// Records everything whose time has come, in the order of time.
    pub(super) fn fire_deadlines(&mut self, beats: &[Beat], now: Timestamp) {
        let due = self.run.deadlines_due(beats, now);
        // The first beat of an activity counts, as it does for its deadline.
        let beats = beats.iter().rev().map(|beat| (beat.scheduled_event_id, beat)).collect();
        let mut facts = Facts { beats, timers: DueTimers::of(&self.run, now) };
        let (mut counted, mut bytes) = (self.events.len(), 0);
        for deadline in due {
            // What has no room in this commit is still due after it.
            if !self.run.is_open() || bytes > limits::FIRED_BYTES_MAX {
                break;
            }
            self.fire(deadline.what, &mut facts, now);
            let fired = self.events.iter().skip(counted).filter_map(|event| event.kind.payload());
            bytes += fired.map(Payload::len).sum::<usize>();
            counted = self.events.len();
        }
    }

    /// Records one; nothing when an earlier one made it moot.
    fn fire(&mut self, deadline: DeadlineKind, facts: &mut Facts<'_>, now: Timestamp) {
        let details = |facts: &Facts<'_>, scheduled| facts.beats.get(&scheduled).and_then(|beat| beat.details.clone());
        let kind = match deadline {
            DeadlineKind::Execution => {
                let timeout = WorkflowTimeout::Execution;
                Some(EventKind::WorkflowTimedOut(WorkflowTimedOut { timeout, new_run_id: None, next_try_at: None }))
            }
            DeadlineKind::Run => {
                let (new_run_id, next_try_at) = self.next_try(None, now).unzip();
                let timeout = WorkflowTimeout::Run;
                Some(EventKind::WorkflowTimedOut(WorkflowTimedOut { timeout, new_run_id, next_try_at }))
            }
            DeadlineKind::Timer { scheduled_event_id: id } => return self.expire_timer(id, &mut facts.timers, now),
            DeadlineKind::ActivityRetry { scheduled_event_id } => {
                if self.run.activities.contains_key(&scheduled_event_id) {
                    self.change_tries(scheduled_event_id, |tries| tries.not_before = None);
                }
                None
            }
            DeadlineKind::ActivityScheduleToStart { scheduled_event_id } => {
                self.run.activities.get(&scheduled_event_id).map(|activity| {
                    let last_failure = activity.last_failure().cloned();
                    EventKind::ActivityScheduledTimeout(ActivityScheduledTimeout {
                        scheduled_event_id,
                        last_failure,
                        cause: None,
                    })
                })
            }
            DeadlineKind::ActivityHeartbeat { scheduled_event_id: id } => {
                return self.activity_times_out(id, ActivityTimeout::Heartbeat, details(facts, id), now);
            }
            DeadlineKind::ActivityStartToClose { scheduled_event_id: id } => {
                return self.activity_times_out(id, ActivityTimeout::StartToClose, details(facts, id), now);
            }
            DeadlineKind::ActivityScheduleToClose { scheduled_event_id: id } => {
                return self.activity_times_out(id, ActivityTimeout::ScheduleToClose, details(facts, id), now);
            }
            DeadlineKind::TurnScheduleToStart { scheduled_event_id } => {
                let timeout = DeciderTimeout::ScheduleToStart;
                let timed_out = DeciderTimedOut { scheduled_event_id, started_event_id: None, timeout };
                Some(EventKind::DeciderTimedOut(timed_out))
            }
            DeadlineKind::TurnStartToClose { scheduled_event_id } => self.run.turn.as_ref().map(|turn| {
                let (started_event_id, timeout) = (Some(turn.started_event_id), DeciderTimeout::StartToClose);
                EventKind::DeciderTimedOut(DeciderTimedOut { scheduled_event_id, started_event_id, timeout })
            }),
        };
        if let Some(kind) = kind {
            self.push(now, kind);
        }
    }
}
