//! Deadlines that have passed: timers expire, and late turns, activities and runs time out.

use std::collections::BTreeMap;

use crate::command;
use crate::event::ActivityTimeout::{self, Heartbeat, ScheduleToClose, StartToClose};
use crate::event::{EventId, WorkflowTimeout};
use crate::limits;
use crate::payload::Payload;
use crate::rules::timer::DueTimers;
use crate::run::{DeadlineKind, StoppedLists};
use crate::time::Timestamp;
use crate::transition::Transition;

/// Data that the events of deadlines need, collected once for all deadlines.
struct Facts<'a> {
    /// Latest heartbeat of each activity.
    heartbeats: BTreeMap<EventId, &'a command::Heartbeat>,
    timers: DueTimers,
}

impl Transition {
    /// Records the effect of every deadline that has passed, ordered by time.
    pub(crate) fn fire_deadlines(&mut self, heartbeats: &[command::Heartbeat], stopped: &StoppedLists, now: Timestamp) {
        let due = self.run.deadlines_due(heartbeats, stopped, now);
        // `collect` keeps the last entry for a key. The list is reversed so that an activity's first heartbeat counts,
        // as in `deadlines_due`.
        let heartbeats = heartbeats.iter().rev().map(|heartbeat| (heartbeat.scheduled_event_id, heartbeat)).collect();
        let mut facts = Facts { heartbeats, timers: DueTimers::of(&self.run, now) };
        let (mut counted, mut bytes) = (self.events().len(), 0);
        for deadline in due {
            // Deadlines that do not fit into this commit remain due and fire in the next commit.
            if !self.run.is_open() || bytes > limits::FIRED_BYTES_MAX {
                break;
            }
            self.fire(deadline.what, &mut facts, now);
            let fired = self.events().iter().skip(counted).filter_map(|event| event.kind.payload());
            bytes += fired.map(Payload::len).sum::<usize>();
            counted = self.events().len();
        }
    }

    /// Records the event of one deadline, unless an earlier deadline has made it obsolete.
    fn fire(&mut self, deadline: DeadlineKind, facts: &mut Facts<'_>, now: Timestamp) {
        match deadline {
            DeadlineKind::Execution => self.workflow_takes_too_long(WorkflowTimeout::Execution, now),
            DeadlineKind::Run => self.workflow_takes_too_long(WorkflowTimeout::Run, now),
            DeadlineKind::Timer { scheduled_event_id: id } => self.expire_timer(id, &mut facts.timers, now),
            DeadlineKind::ActivityRetry { scheduled_event_id: id } => self.end_activity_backoff(id),
            DeadlineKind::ActivityScheduleToStart { scheduled_event_id: id } => self.activity_waited_too_long(id, now),
            DeadlineKind::ActivityHeartbeat { scheduled_event_id: id } => self.times_out(id, Heartbeat, facts, now),
            DeadlineKind::ActivityStartToClose { scheduled_event_id: id } => {
                self.times_out(id, StartToClose, facts, now);
            }
            DeadlineKind::ActivityScheduleToClose { scheduled_event_id: id } => {
                self.times_out(id, ScheduleToClose, facts, now);
            }
            DeadlineKind::TurnScheduleToStart { scheduled_event_id: id } => self.turn_waited_too_long(id, now),
            DeadlineKind::TurnStartToClose { .. } => self.turn_took_too_long(now),
        }
    }

    fn times_out(&mut self, id: EventId, timeout: ActivityTimeout, facts: &Facts<'_>, now: Timestamp) {
        let details = facts.heartbeats.get(&id).and_then(|heartbeat| heartbeat.details.clone());
        self.activity_times_out(id, timeout, details, now);
    }
}
