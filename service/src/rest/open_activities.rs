//! Open activities of a described run, with their runners and the runners' progress.

use std::collections::{BTreeMap, BTreeSet};

use client::body;
use history::event::OperatorAction;
use history::{CallerName, EventId, EventKind, PausedActivity, Payload, PendingActivity, Run};

use crate::http::Refused;
use engine::{Engine, EventRange, Refusal, RunRef, RunState};

/// Maximum number of pages of the history that are read to find the runners of activities, and the number of events of
/// such a page. Our choice: pages of recent events cost nothing, and each other page costs one read of the store.
const RUNNER_PAGES_MAX: usize = 16;
const RUNNER_PAGE_EVENTS: usize = 100;

/// Maximum total size of the details of heartbeats in a description, in bytes. Our choice: at least four details of the
/// maximum size of a payload.
const HEARTBEAT_DETAILS_BYTES_MAX: usize = 1024 * 1024;

/// Runner that has an activity.
#[derive(Debug, Default)]
struct Runner {
    identity: Option<String>,
    by: Option<CallerName>,
}

/// Returns the open activities of a run. Details of heartbeats are included only if the caller may see payloads.
pub(super) async fn open_activities(
    engine: &Engine,
    at: &RunRef,
    described: &RunState,
    sees_payloads: bool,
) -> Result<Vec<body::OpenActivity>, Refused> {
    let RunState { run, heartbeats, .. } = described;
    let mut runners = runners(engine, at, run).await?;
    let mut left = if sees_payloads { HEARTBEAT_DETAILS_BYTES_MAX } else { 0 };
    let mut fitting = |details: &Payload| {
        left = left.checked_sub(details.len())?;
        Some(details.clone())
    };
    let activities = run.activities.iter().map(|(id, activity)| {
        let beat = heartbeats.iter().find(|beat| beat.scheduled_event_id == *id);
        let details = beat.and_then(|beat| beat.details.as_ref()).and_then(&mut fitting);
        let runner = runners.remove(id).unwrap_or_default();
        body::OpenActivity {
            last_heartbeat_at: beat.map(|beat| beat.at),
            heartbeat_details: details,
            ..open_activity(*id, activity, runner)
        }
    });
    Ok(activities.collect())
}

fn open_activity(scheduled_event_id: EventId, activity: &PendingActivity, runner: Runner) -> body::OpenActivity {
    body::OpenActivity {
        behind: Vec::new(),
        activity_id: activity.activity_id.clone(),
        activity_type: activity.activity_type.clone(),
        task_list: activity.task_list.clone(),
        scheduled_event_id,
        scheduled_at: activity.scheduled_at,
        started_at: activity.held_since(),
        identity: runner.identity,
        by: runner.by,
        attempt: activity.attempt(),
        maximum_attempts: activity.retry.as_ref().and_then(|retry| retry.maximum_attempts),
        next_attempt_at: activity.not_before(),
        last_failure: activity.last_failure().cloned(),
        cancel_requested: activity.cancel_event_id.is_some(),
        paused: activity.paused.as_deref().map(paused),
        last_heartbeat_at: None,
        heartbeat_details: None,
    }
}

fn paused(paused: &PausedActivity) -> body::PausedActivity {
    let OperatorAction { identity, reason } = paused.operator.clone();
    body::PausedActivity { at: paused.at, cause: paused.cause, event_id: paused.event_id, identity, reason }
}

/// Returns the runners of a run's open activities, by ActivityScheduled event. With a retry policy, the run's state
/// contains the runner. Otherwise its ActivityStarted event does. If these events are spread over too many pages, the
/// runners of the newest activities are missing.
async fn runners(engine: &Engine, at: &RunRef, run: &Run) -> Result<BTreeMap<EventId, Runner>, Refused> {
    let (mut runners, mut unread) = (BTreeMap::new(), BTreeSet::new());
    for (id, activity) in run.activities.iter().filter(|_| run.is_open()) {
        if let Some(held) = activity.attempts.as_ref().and_then(|attempts| attempts.held.as_ref()) {
            runners.insert(*id, Runner { identity: held.identity.clone(), by: held.by.clone() });
        }
        unread.extend(activity.started_event_id);
    }
    let at = RunRef { run_id: Some(run.started.run_id), ..at.clone() };
    for _ in 0..RUNNER_PAGES_MAX {
        let Some(first) = unread.first() else { break };
        let (after, limit, leaves_payloads_out) = (first - 1, RUNNER_PAGE_EVENTS, true);
        let page = EventRange { after, limit, leaves_payloads_out, ..EventRange::default() };
        let events = match engine.views().history(&at, &page).await {
            Ok(page) => page.events,
            Err(Refusal::Corrupt { .. }) => break,
            Err(refusal) => return Err(refusal.into()),
        };
        let Some(last) = events.last().map(|event| event.id) else { break };
        for event in events {
            if let EventKind::ActivityStarted(it) = event.kind
                && unread.contains(&event.id)
            {
                runners.insert(it.scheduled_event_id, Runner { identity: it.identity, by: event.by });
            }
        }
        unread = unread.split_off(&(last + 1));
    }
    Ok(runners)
}
