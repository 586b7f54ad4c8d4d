//! The run that goes on for one that continued as new (S3.32).

use super::Transition;
use crate::event::{Event, EventKind, WorkflowContinuedAsNew, WorkflowStarted};
use crate::run::Run;
use crate::time::Timestamp;

impl Transition {
    /// The run that goes on for `run`, which has closed with `it`: WorkflowStarted, DeciderScheduled. Whoever starts it, and
    /// however often, starts the same.
    pub fn successor(run: &Run, it: &WorkflowContinuedAsNew, now: Timestamp) -> Self {
        let before = &run.started;
        let now = now.max(run.last_timestamp);
        let started = WorkflowStarted {
            workflow_id: before.workflow_id.clone(),
            run_id: it.new_run_id,
            workflow_type: it.workflow_type.clone(),
            task_list: it.task_list.clone(),
            input: it.input.clone(),
            execution_timeout: before.execution_timeout,
            decider_start_to_close: before.decider_start_to_close,
            decider_schedule_to_start: before.decider_schedule_to_start,
            activity_timeouts: before.activity_timeouts,
            tags: it.tags.clone(),
            retention: before.retention,
            identity: None,
            start_after: None,
            parent: before.parent.clone(),
            run_timeout: before.run_timeout,
            continued_from: Some(before.run_id),
            execution_from: Some(before.execution_from.unwrap_or_else(|| before.first_turn_at())),
        };
        // Who repeats the request that started the first run hears of the one that is open now.
        let key = run.request_keys.iter().find(|(_, event_id)| *event_id == 1).map(|(key, _)| *key);
        let next = Run::begin(now, &started, key);
        let event = Event { id: 1, timestamp: now, kind: EventKind::WorkflowStarted(started), key };
        let mut transition = Self::of(next);
        transition.events.push(event);
        transition.schedule_turn(now);
        transition
    }
}
