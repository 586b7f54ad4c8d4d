//! Extracts the facts about a commit that metrics count and measure. The functions are pure.

use history::{Event, EventKind, Run, Transition};

use crate::base::metrics::measured::{CommitFacts, Fact};

/// Returns the facts of a transition that is about to be committed. `before` is the run's previous state.
pub(crate) fn of_transition(before: Option<&Run>, made: &Transition) -> CommitFacts {
    let run = made.run();
    let before = before.filter(|before| before.started.run_id == run.started.run_id);
    // Events copied from another run were already counted for that run.
    let events = made.events().get(made.copied()..).unwrap_or_default();
    let is_one_activity = run.started.one_activity;
    let of_event = |event| of_event(before, events, event, is_one_activity);
    let mut all: Vec<Fact> = events.iter().filter_map(of_event).collect();
    if let Some(closed_at) = run.closed_at.filter(|_| before.is_none_or(Run::is_open)) {
        all.push(Fact::Closed(run.status.word(), closed_at.since(run.started.at)));
    }
    let workflow_type = if all.is_empty() { "" } else { run.started.workflow_type.as_str() };
    CommitFacts { workflow_type: workflow_type.into(), all }
}

fn of_event(before: Option<&Run>, events: &[Event], event: &Event, is_one_activity: bool) -> Option<Fact> {
    let activity_type = |scheduled_event_id| {
        let activity = before.and_then(|before| before.activities.get(&scheduled_event_id));
        activity.map(|activity| Fact::TryFailed(activity.activity_type.clone()))
    };
    match &event.kind {
        EventKind::WorkflowStarted(_) => Some(Fact::Started),
        // The service itself decides the turns of a run with a single activity.
        EventKind::DeciderCompleted(_) if is_one_activity => None,
        EventKind::DeciderCompleted(it) => {
            let held = before.and_then(|before| before.turn.as_ref());
            let held = held.filter(|turn| turn.started_event_id == it.started_event_id).map(|turn| turn.started_at);
            let started = events.iter().find(|event| event.id == it.started_event_id).map(|event| event.timestamp);
            held.or(started).map(|at| Fact::TurnCompleted(event.timestamp.since(at)))
        }
        EventKind::DeciderFailed(_) => Some(Fact::TurnFailed("failed")),
        EventKind::DeciderTimedOut(_) => Some(Fact::TurnFailed("timed-out")),
        EventKind::ActivityFailed(it) => activity_type(it.scheduled_event_id),
        EventKind::ActivityTimedOut(it) => activity_type(it.scheduled_event_id),
        EventKind::ActivityScheduledTimeout(it) => activity_type(it.scheduled_event_id),
        _ => None,
    }
}
