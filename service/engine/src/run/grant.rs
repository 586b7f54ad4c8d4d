//! Assembles a started task for the poller that gets it.

use std::sync::Arc;

use history::{EventId, SpanId, TurnId};
use store::HeadKey;

use crate::base::metrics::Undelivered;
use crate::commit::StoredRun;
use crate::lists::Taker;
use crate::lists::grant::{Grant, Granted, TakenAlong};
use crate::run::context::RunContext;

impl RunContext {
    /// Returns a started task for its poller. `start` is the number that
    /// [`start_task`](crate::lists::sync_match::start_task) returned. Returns `None` if the task no longer belongs to
    /// this poller.
    pub(crate) fn grant(
        &self,
        key: &HeadKey,
        loaded: &StoredRun,
        scheduled_event_id: EventId,
        start: u32,
        taker: &Taker,
    ) -> Option<Grant> {
        let run = loaded.run();
        // While the outcome of the commit was unknown, another node may have sent the task to another poll.
        if loaded.body.links.sent.poll_of(scheduled_event_id) != taker.poll {
            return None;
        }
        let turn = run.turn.as_ref().filter(|turn| turn.scheduled_event_id == scheduled_event_id);
        let mut riders = TakenAlong::default();
        let run_id = run.started.run_id;
        // If the activity has a retry policy, each start is a separate attempt.
        let span = SpanId::of_attempt(run_id, scheduled_event_id, start);
        let (task_list, what) = if let Some(turn) = turn {
            let id = TurnId { scheduled_event_id, started_event_id: turn.started_event_id };
            let previous_started_event_id = run.previous_started_event_id;
            riders = self.riders.take_with_turn(key, run, id, taker);
            let what = Granted::Turn { turn: id, previous_started_event_id, attempt: turn.attempt };
            (run.list_of_held_turn().to_owned(), what)
        } else {
            let activity = run.activities.get(&scheduled_event_id)?;
            // While the outcome of the commit was unknown, this attempt may have ended and a later attempt may have
            // started.
            let task = activity.task(scheduled_event_id).filter(|task| task.start == start)?;
            // Details of the last heartbeat of an earlier attempt. Only activities with a retry policy have earlier
            // attempts.
            let mut heartbeats = loaded.heartbeats.iter().filter(|_| activity.attempts.is_some());
            let beat = heartbeats.find(|beat| beat.scheduled_event_id == scheduled_event_id);
            let details = beat.and_then(|beat| beat.details.clone());
            (activity.task_list.clone(), Granted::Activity { task, activity: Arc::clone(activity), details })
        };
        Some(Grant {
            poll: taker.poll,
            returner: Some(self.lists.undelivered.returner()),
            undelivered: Undelivered::ConnectionClosed,
            key: key.clone(),
            run_id,
            workflow_type: run.started.workflow_type.clone(),
            task_list,
            tail: loaded.tail.clone(),
            tail_first: loaded.body.tail_first,
            what,
            riders,
            trace: self.traces.of_task(&run.started, span),
        })
    }
}
