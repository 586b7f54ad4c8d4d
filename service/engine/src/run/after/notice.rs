//! Notices to operators about runs that are failing, blocked or stuck after a commit. A notice contains the reason and
//! advice for the operator. The functions are pure.

use history::event::{ActivityPausedCause, DeciderFailedCause, DeciderTimeout};
use history::{Event, EventKind, PendingActivity, Run, RunCondition, Transition};

use crate::base::notices::{NoticeKind, RunNotice, in_log, in_shell};

/// Returns the notice for a transition that is about to be committed; `None` if the run's condition does not change.
pub(crate) fn of_transition(before: Option<&Run>, made: &Transition) -> Option<RunNotice> {
    let run = made.run();
    let before = before.filter(|before| before.started.run_id == run.started.run_id).map(Run::condition);
    let condition = run.condition();
    if before == Some(condition) {
        return None;
    }
    let (kind, why, advice) = match condition {
        RunCondition::Failing => (NoticeKind::Failing, why_failing(run, made.events()), None),
        RunCondition::Blocked => {
            let (why, advice) = why_blocked(run)?;
            (NoticeKind::Blocked, why, Some(advice))
        }
        RunCondition::Stuck => (NoticeKind::Stuck, why_stuck(), Some(advice_if_stuck())),
        RunCondition::Open
        | RunCondition::Paused
        | RunCondition::Retrying
        | RunCondition::Repeating
        | RunCondition::Closed(_) => {
            return None;
        }
    };
    let (workflow_id, run_id) = (run.started.workflow_id.clone(), run.started.run_id);
    Some(RunNotice { kind, workflow_id, run_id, why, advice })
}

fn why_failing(run: &Run, events: &[Event]) -> String {
    let newest = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::DeciderFailed(it) => Some(match (it.cause, &it.reason) {
            (DeciderFailedCause::Reported, Some(reason)) => {
                format!("its decider failed the last one: {}", in_log(reason))
            }
            (DeciderFailedCause::Reported, None) => "its decider failed the last one without a reason".to_owned(),
            (DeciderFailedCause::DeliveryFailed, _) => "the last one did not reach its decider".to_owned(),
        }),
        EventKind::DeciderTimedOut(it) => Some(match it.timeout {
            DeciderTimeout::StartToClose => "its decider did not answer the last one in time".to_owned(),
            DeciderTimeout::ScheduleToStart => "no decider took the last one in time".to_owned(),
        }),
        _ => None,
    });
    let newest = newest.map(|newest| format!("; {newest}")).unwrap_or_default();
    format!("{} turns in a row failed or timed out{newest}", run.turns_lost)
}

fn why_blocked(run: &Run) -> Option<(String, String)> {
    let blocked = run.activities.values().filter(|activity| activity.is_blocked());
    let first = blocked.clone().next()?;
    let others = match blocked.count() - 1 {
        0 => String::new(),
        others => format!("; {others} more activities are blocked"),
    };
    let id = in_log(&first.activity_id);
    let why = match first.paused.as_deref() {
        Some(paused) if paused.cause == ActivityPausedCause::OperatorInitiated => {
            let by = paused.operator.identity.as_ref().map(|who| format!(" by {}", in_log(who))).unwrap_or_default();
            let why = paused.operator.reason.as_ref().map(|why| format!(": {}", in_log(why))).unwrap_or_default();
            format!("activity `{id}` was paused{by}{why}")
        }
        _ => format!("activity `{id}` has no attempts left and waits for an operator{}", last_failure(first)),
    };
    let (run_of, id) = (in_shell(&run.started.workflow_id), in_shell(&first.activity_id));
    Some((format!("{why}{others}"), format!("`baton activity retry {run_of} {id}` retries it.")))
}

fn last_failure(activity: &PendingActivity) -> String {
    match activity.last_failure() {
        Some(failure) => match (&failure.reason, failure.timeout) {
            (Some(reason), _) => format!("; the last attempt failed: {}", in_log(reason)),
            (None, Some(_)) => "; the last attempt timed out".to_owned(),
            (None, None) => String::new(),
        },
        None => String::new(),
    }
}

fn why_stuck() -> String {
    "no turn, activity, timer or child is open, and its last turn named no signal to wait for".to_owned()
}

fn advice_if_stuck() -> String {
    "A signal, an update or a cancel request wakes it; otherwise it ends with its timeout.".to_owned()
}
