//! Activities of the test service, and the answers of its runners.

use baton_history::{Command, EventId, Heartbeat, TaskId};

use super::{Item, TestService};
use crate::testing::work::{Call, Work, WorkResult};

impl TestService {
    #[track_caller]
    pub(super) fn activity_of(&mut self, index: usize, scheduled_event_id: EventId, runner: usize) {
        self.admit_or_fail(
            index,
            &Command::StartActivity { scheduled_event_id, identity: Some("test runner".to_owned()), poll: None },
        );
        let now = self.now;
        let run = self.at_mut(index);
        let activity = run.run.activities.get(&scheduled_event_id);
        let Some((activity, task)) = activity.and_then(|it| Some((it, it.task(scheduled_event_id)?))) else {
            return;
        };
        let heartbeat = run.heartbeats.iter().find(|heartbeat| heartbeat.scheduled_event_id == scheduled_event_id);
        let nth = run.calls.entry(activity.activity_type.clone()).or_default();
        *nth += 1;
        let place = usize::try_from(scheduled_event_id - 1).unwrap_or(usize::MAX);
        let input = run.events.get(place).and_then(|event| event.kind.payload()).cloned();
        let call = Call {
            workflow_id: run.run.started.workflow_id.clone(),
            activity_id: activity.activity_id.clone(),
            activity_type: activity.activity_type.clone(),
            task_list: activity.task_list.clone(),
            attempt: activity.attempt(),
            heartbeat_details: heartbeat.and_then(|heartbeat| heartbeat.details.clone()),
            input,
            now,
            nth: *nth,
        };
        let Some(runner) = self.runners.get_mut(runner) else {
            return;
        };
        let work = (runner.works)(&call);
        let ends = now.plus(work.takes);
        if !matches!(work.answer, WorkResult::Never) {
            self.plan(ends, Item::Answer(index, task, work.answer.clone()));
        }
        if let Some((every, _)) = &work.heartbeats {
            let at = now.plus(*every);
            self.plan(at, Item::Heartbeat(index, task, Box::new(work)));
        }
    }

    /// Returns whether the runner still holds the activity.
    fn holds(&self, index: usize, task: TaskId) -> bool {
        let activity = self.at(index).run.activities.get(&task.scheduled_event_id);
        activity.is_some_and(|activity| activity.task(task.scheduled_event_id) == Some(task))
    }

    #[track_caller]
    pub(super) fn answer(&mut self, index: usize, task: TaskId, answer: WorkResult) {
        // The service would refuse a late answer, and the runner would ignore the refusal.
        if !self.holds(index, task) {
            return;
        }
        match answer {
            WorkResult::Success(result) => {
                self.admit_or_fail(index, &Command::SucceedActivity { task, result: Some(result) });
            }
            WorkResult::Failure { reason, details, non_retryable, retry_after } => {
                let details = Some(details);
                self.admit_or_fail(
                    index,
                    &Command::FailActivity { task, reason: Some(reason), details, non_retryable, retry_after },
                );
            }
            WorkResult::Never => {}
        }
    }

    #[track_caller]
    pub(super) fn heartbeat(&mut self, index: usize, task: TaskId, work: Work) {
        let Some((every, details)) = work.heartbeats.clone() else {
            return;
        };
        if !self.holds(index, task) {
            return;
        }
        let scheduled_event_id = task.scheduled_event_id;
        let now = self.now;
        let run = self.at_mut(index);
        let is_cancel_requested =
            run.run.activities.get(&scheduled_event_id).is_some_and(|it| it.cancel_event_id.is_some());
        if is_cancel_requested && work.stops_on_cancel {
            self.admit_or_fail(index, &Command::CancelActivity { task, details: Some(details) });
            return;
        }
        run.heartbeats.retain(|heartbeat| heartbeat.scheduled_event_id != scheduled_event_id);
        run.heartbeats.push(Heartbeat { scheduled_event_id, at: now, details: Some(details) });
        self.plan(now.plus(every), Item::Heartbeat(index, task, Box::new(work)));
        self.reschedule(index);
    }
}
