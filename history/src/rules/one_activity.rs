//! Runs of a single activity, which have no decider. The service decides their turns, in the commit that schedules the
//! turn. The turns are recorded like those of a decider, so that such a run has the same kind of history as any other.
//!
//! | turn is scheduled by | decisions of the service |
//! |---|---|
//! | the start | ScheduleActivity |
//! | ActivitySuccess | SucceedWorkflow, with the result |
//! | ActivityFailed | FailWorkflow, with the reason and the details |
//! | ActivityTimedOut or ActivityScheduledTimeout | FailWorkflow, with the name of the timeout as reason |
//! | ActivityCanceled | CancelWorkflow, with the details |
//! | a cancel request, while a runner holds the activity | CancelActivity |
//! | a cancel request, while no runner holds the activity | CancelActivity, CancelWorkflow |
//! | a second cancel request, or a signal from another run | none |
//! | a reset | none, because the activity is open again |
//!
//! | input | result |
//! |---|---|
//! | a caller's signal, a query or an update | fails with no-decider |
//! | anything else | as in any run |
//!
//! A pause of the run does not delay these turns, because they need no worker. If a runner holds the activity of a
//! paused run and reports its outcome, the run closes.

use crate::command::{TurnAnswer, TurnId};
use crate::decision::{CancelActivity, CancelWorkflow, Decision, FailWorkflow, ScheduleActivity, SucceedWorkflow};
use crate::event::{ActivityClose, ActivityTimeout, DeciderStarted, EventId, EventKind};
use crate::fault::Fault;
use crate::limits;
use crate::payload::Payload;
use crate::run::Run;
use crate::time::Timestamp;
use crate::transition::Transition;

/// Identity of the service in the turns that it decides.
const IDENTITY: &str = "baton";

/// Checks that the run has a decider, which can process messages.
///
/// # Errors
///
/// [`Fault::NoDecider`] if the run consists of a single activity.
pub fn must_have_decider(run: &Run) -> Result<(), Fault> {
    if run.started.one_activity { Err(Fault::NoDecider) } else { Ok(()) }
}

impl Transition {
    /// Takes and completes the first turn of a run, which schedules the run's only activity.
    pub(crate) fn schedule_only_activity(&mut self, activity: &ScheduleActivity, now: Timestamp) -> Result<(), Fault> {
        self.decide(vec![activity.clone().into()], now);
        if self.run.activities.is_empty() {
            let (found, max) = (self.run.reserved_bytes(&self.links), limits::STATE_BYTES_MAX);
            return Err(Fault::StateLimit { found, max });
        }
        Ok(())
    }

    /// Takes and completes the waiting turn of a run with a single activity. Other runs are left unchanged.
    pub(crate) fn decide_only_activity(&mut self, now: Timestamp) {
        if !self.run.started.one_activity || self.run.turn_task.is_none() {
            return;
        }
        let decisions = match self.run.activities.iter().next() {
            Some((_, activity)) if self.run.cancel_requested && activity.cancel_event_id.is_none() => {
                let cancel = CancelActivity { activity_id: activity.activity_id.clone() };
                // If no runner holds the activity, it is canceled at once, and so is the run.
                let ends = activity.held_since().is_none().then(|| CancelWorkflow::default().into());
                [cancel.into()].into_iter().chain(ends).collect()
            }
            Some(_) => Vec::new(),
            // The activity closes in the same commit. If its close is not found here, the turn stays in place, because
            // the run must not close with a wrong outcome.
            None => match self.events().iter().rev().find_map(|event| event.kind.activity_close()) {
                Some(close) => vec![closing(close)],
                None => return,
            },
        };
        self.decide(decisions, now);
    }

    /// Takes the waiting turn and completes it with these decisions, in the name of the service.
    fn decide(&mut self, decisions: Vec<Decision>, now: Timestamp) {
        let Some(scheduled_event_id) = self.run.turn_task.as_ref().map(|task| task.scheduled_event_id) else { return };
        let author = std::mem::take(&mut self.author);
        let identity = Some(IDENTITY.to_owned());
        let started = DeciderStarted { scheduled_event_id, identity };
        let started_event_id = self.push(now, EventKind::DeciderStarted(started));
        let answer = TurnAnswer::from(decisions);
        let turn = TurnId { scheduled_event_id, started_event_id };
        let decision_event_id: EventId = self.turn_completed(turn, &answer, now);
        self.carry_out_all(&answer, decision_event_id, now);
        self.author = author;
    }
}

/// Returns the decision that closes the run with the outcome of its activity.
fn closing(close: ActivityClose<'_>) -> Decision {
    match close {
        ActivityClose::Success(it) => SucceedWorkflow { result: it.result.clone(), force: false }.into(),
        ActivityClose::Failed(it) => failure(&it.reason, it.details.as_ref()),
        ActivityClose::TimedOut(it) => {
            let delivery_failed = it.cause.map(|_| "delivery-failed");
            failure(delivery_failed.unwrap_or(timeout_reason(it.timeout)), it.details.as_ref())
        }
        ActivityClose::ScheduledTimeout(_) => failure("schedule-to-start-timeout", None),
        ActivityClose::Canceled(it) => CancelWorkflow { details: it.details.clone(), force: false }.into(),
    }
}

fn failure(reason: &str, details: Option<&Payload>) -> Decision {
    let (reason, details) = (reason.to_owned(), details.cloned());
    FailWorkflow { reason, details, ..FailWorkflow::default() }.into()
}

/// Returns the reason of a run that failed because its only activity timed out.
const fn timeout_reason(timeout: ActivityTimeout) -> &'static str {
    match timeout {
        ActivityTimeout::StartToClose => "start-to-close-timeout",
        ActivityTimeout::Heartbeat => "heartbeat-timeout",
        ActivityTimeout::ScheduleToClose => "schedule-to-close-timeout",
    }
}

#[cfg(test)]
mod tests;
