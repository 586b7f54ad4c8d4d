//! Descriptions of runs.

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use history::event::OperatorAction;
use history::{
    Branched, CloseReason, DeadlineKind, Effect, EventKind, Payload, Repeated, Run, RunPause, StoppedLists, Timestamp,
    UpcomingChange, UpcomingKind,
};

use super::extract::{EntityTag, IfNoneMatch, Params, Path, PreferWait, not_modified, with_etag, with_wait_applied};
use super::limits;
use super::open_activities::open_activities;
use super::workflows::{Awaited, run_ref};
use crate::http::{Answer, Refused, json};
use engine::{Engine, EventRange, HeldTask, Refusal, RunRef, RunState, SeenVersion, Unpolled};

pub(super) async fn describe(on: Awaited) -> Answer {
    let (State(engine), Path([domain, id]), Params(query), PreferWait(wait), IfNoneMatch(known), caller) = on;
    let at = run_ref(&domain, &id, query.run_id);
    let described = match known {
        Some(EntityTag { run_id, version, .. }) => {
            let seen = SeenVersion { run_id, version, hash: None };
            engine.views().describe_unlike(&at, seen, wait.unwrap_or_default()).await?
        }
        None => engine.views().describe(&at).await?,
    };
    let tag = EntityTag::of(&described.run);
    if known.is_some_and(|known| known.names(tag)) {
        return Ok(with_wait_applied(not_modified(tag), wait));
    }
    let failing = failing(&engine, &at, &described.run).await?;
    let repeating = repeating(&engine, &at, &described.run).await?;
    let unpolled = engine.pollers().unpolled(&at.domain, &described.run);
    let closed = close_reason(&engine, &at, &described.run).await?;
    let sees_payloads = caller.sees_payloads(&domain);
    let activities = open_activities(&engine, &at, &described, sees_payloads).await?;
    let stopped = engine.lists().stopped(&at.domain);
    let mut body = render(&described, (failing, repeating), unpolled, activities, &stopped, engine.clock().now());
    (body.reason, body.details_line) = (closed.reason, closed.details);
    add_held_back(&engine, &at, &described.run, &mut body).await;
    if sees_payloads {
        body.context = context(&engine, &at, &described.run).await?;
    } else {
        redact_payloads(&mut body);
    }
    let response = json(StatusCode::OK, &body);
    Ok(with_etag(with_wait_applied(response, wait), tag))
}

fn render(
    described: &RunState,
    (failing, repeating): (Option<body::FailingTurns>, Option<body::RepeatedActivities>),
    unpolled: Vec<Unpolled>,
    open_activities: Vec<body::OpenActivity>,
    stopped: &StoppedLists,
    now: Timestamp,
) -> body::Described {
    let RunState { run, heartbeats, owed, reset_as } = described;
    let started = &run.started;
    let turn = match (&run.turn, &run.turn_task) {
        (Some(_), _) => "started",
        (None, Some(_)) => "waiting",
        (None, None) => "none",
    };
    let open_timers = run.timers.iter().map(|(timer_id, timer)| body::OpenTimer {
        timer_id: timer_id.clone(),
        scheduled_event_id: timer.scheduled_event_id,
        expires_at: timer.expires_at,
    });
    let open_updates = run.updates.open().iter().map(|(accepted_event_id, update)| body::OpenUpdate {
        update_id: update.update_id.clone(),
        name: update.name.clone(),
        accepted_event_id: *accepted_event_id,
        accepted_at: update.accepted_at,
    });
    let open_children = run.children.iter().map(|(scheduled_event_id, child)| body::OpenChild {
        workflow_id: child.workflow_id.clone(),
        scheduled_event_id: *scheduled_event_id,
        started_event_id: child.started_event_id,
        child_policy: child.policy,
    });
    body::Described {
        workflow_id: started.workflow_id.clone(),
        run_id: started.run_id,
        workflow_type: started.workflow_type.clone(),
        task_list: run.next_turn_list().to_owned(),
        one_activity: started.one_activity,
        status: run.status,
        started_at: started.at,
        closed_at: run.closed_at,
        reason: None,
        details_line: None,
        execution_timeout: started.execution_timeout,
        run_timeout: started.run_timeout,
        continued_from: started.continued_from,
        retry: started.retry.clone(),
        attempt: started.attempt,
        next_attempt_at: run.next_attempt_at(),
        retried_as: run.retried_by(),
        reset_as: *reset_as,
        branched_from: run.branched.as_deref().map(branched_from),
        tags: started.tags.clone(),
        cancel_requested: run.cancel_requested,
        stuck: run.is_stuck(),
        blocked: run.is_blocked(),
        retrying: run.is_retrying(),
        repeating,
        failing,
        paused: run.paused.as_deref().filter(|_| run.is_open()).map(paused_run),
        awaiting: run.awaiting.clone(),
        version: run.version,
        history_length: run.last_event_id,
        turn: turn.to_owned(),
        context: None,
        behind: Vec::new(),
        open_activities,
        open_timers: open_timers.collect(),
        open_children: open_children.collect(),
        open_updates: open_updates.collect(),
        parent: run.started.parent.clone(),
        deadlines: run.future(heartbeats, owed, stopped, now).into_iter().map(|coming| deadline(run, coming)).collect(),
        outbox: owed.iter().map(owed_effect).collect(),
        outbox_retries: owed.attempts(),
        no_pollers: unpolled.into_iter().map(unpolled_list).collect(),
    }
}

/// Adds the limits that hold the run's waiting tasks back.
async fn add_held_back(engine: &Engine, at: &RunRef, run: &Run, body: &mut body::Described) {
    for HeldTask { list, scheduled_event_id, holds } in engine.lists().held_back(at, run).await {
        let behind = holds.iter().map(|hold| limits::waits_behind(hold, &list, None)).collect();
        match body.open_activities.iter_mut().find(|it| it.scheduled_event_id == scheduled_event_id) {
            Some(activity) => activity.behind = behind,
            None => body.behind = behind,
        }
    }
}

fn branched_from(branched: &Branched) -> body::BranchedFrom {
    let Branched { run_id, base_event_id: event_id, workflow_id, .. } = branched.clone();
    body::BranchedFrom { run_id, event_id, workflow_id }
}

pub(super) fn deadline(run: &Run, coming: UpcomingChange) -> body::Deadline {
    let (what, scheduled_event_id) = coming_words(coming.what);
    let name = scheduled_event_id.and_then(|id| match run.activities.get(&id) {
        Some(activity) => Some(activity.activity_id.clone()),
        None => run.timers.iter().find(|(_, timer)| timer.scheduled_event_id == id).map(|(name, _)| name.clone()),
    });
    body::Deadline { at: coming.at, kind: what.to_owned(), scheduled_event_id, name }
}

/// Removes payloads from a description.
fn redact_payloads(body: &mut body::Described) {
    body.details_line = None;
    if let Some(failing) = &mut body.failing {
        failing.details = None;
    }
    // Contexts and details of heartbeats are not even read.
    for failure in body.open_activities.iter_mut().filter_map(|activity| activity.last_failure.as_mut()) {
        failure.details = None;
    }
}

/// Returns the newest context of a run's decider, from the event that contains it.
async fn context(engine: &Engine, at: &RunRef, run: &Run) -> Result<Option<Payload>, Refused> {
    let Some(event_id) = run.context_event_id else { return Ok(None) };
    let at = RunRef { run_id: Some(run.started.run_id), ..at.clone() };
    let page = EventRange { after: event_id - 1, limit: 1, ..EventRange::default() };
    let events = match engine.views().history(&at, &page).await {
        Ok(page) => page.events,
        Err(Refusal::Corrupt { .. }) => Vec::new(),
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(events.into_iter().next().and_then(|event| match event.kind {
        EventKind::DeciderCompleted(it) => it.context,
        _ => None,
    }))
}

/// Returns a summary of the activities that were scheduled again although they had succeeded. The id of the newest such
/// activity is read from the history, because the run's state does not contain it.
async fn repeating(engine: &Engine, at: &RunRef, run: &Run) -> Result<Option<body::RepeatedActivities>, Refused> {
    let Some(Repeated { times, scheduled_event_id: event_id }) = run.successes.repeated() else { return Ok(None) };
    let at = RunRef { run_id: Some(run.started.run_id), ..at.clone() };
    let page = EventRange { after: event_id - 1, limit: 1, ..EventRange::default() };
    let activity_id = match engine.views().history(&at, &page).await?.events.pop().map(|event| event.kind) {
        Some(EventKind::ActivityScheduled(it)) => Some(it.activity_id),
        _ => None,
    };
    Ok(Some(body::RepeatedActivities { times, event_id, activity_id }))
}

/// Reads the reason of a run's close from its last event. The run's list row cannot be used instead, because rows
/// written by older versions contain no reason. Also, this function can read only the row of the workflow id's newest
/// run. If the last event cannot be read, the description omits the reason.
async fn close_reason(engine: &Engine, at: &RunRef, run: &Run) -> Result<CloseReason, Refused> {
    if run.is_open() {
        return Ok(CloseReason::default());
    }
    let at = RunRef { run_id: Some(run.started.run_id), ..at.clone() };
    let newest = EventRange { reverse: true, limit: 1, ..EventRange::default() };
    let events = match engine.views().history(&at, &newest).await {
        Ok(page) => page.events,
        Err(Refusal::Corrupt { .. }) => Vec::new(),
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(CloseReason::find(&events).unwrap_or_default())
}

/// Returns information about the failed turns of a run, if the run is flagged as failing. The reason is read from the
/// history, because the run's state does not contain it.
async fn failing(engine: &Engine, at: &RunRef, run: &Run) -> Result<Option<body::FailingTurns>, Refused> {
    let Some(lost) = run.lost_turns.filter(|_| run.is_failing()) else { return Ok(None) };
    let at = RunRef { run_id: Some(run.started.run_id), ..at.clone() };
    let page = EventRange { after: lost.event_id - 1, limit: 1, ..EventRange::default() };
    let newest = engine.views().history(&at, &page).await?.events.pop();
    let scheduled = run.turn.as_ref().map(|turn| turn.scheduled_event_id);
    let mut failing = body::FailingTurns {
        turns: run.turns_lost,
        since: lost.since,
        event_id: lost.event_id,
        scheduled_event_id: scheduled.or(run.turn_task.as_ref().map(|task| task.scheduled_event_id)),
        reason: None,
        details: None,
        timeout: None,
    };
    match newest.map(|event| event.kind) {
        Some(EventKind::DeciderFailed(it)) => (failing.reason, failing.details) = (it.reason, it.details),
        Some(EventKind::DeciderTimedOut(it)) => failing.timeout = Some(it.timeout),
        _ => {}
    }
    Ok(Some(failing))
}

fn unpolled_list(unpolled: Unpolled) -> body::ListWithoutPollers {
    let Unpolled { task_list, is_decider: decider, since } = unpolled;
    body::ListWithoutPollers { task_list, decider, since }
}

fn owed_effect(effect: &Effect) -> body::OutboxEffect {
    body::OutboxEffect { kind: effect.kind.word().to_owned(), event_id: effect.event_id, run_id: effect.of }
}

fn paused_run(pause: &RunPause) -> body::PausedRun {
    let OperatorAction { identity, reason } = pause.operator.clone();
    body::PausedRun { at: pause.at, stop_clocks: pause.stops_clock, event_id: pause.event_id, identity, reason }
}

fn coming_words(what: UpcomingKind) -> (&'static str, Option<u64>) {
    match what {
        UpcomingKind::FirstTurn { scheduled_event_id } => ("first-turn", Some(scheduled_event_id)),
        UpcomingKind::TurnRetry { scheduled_event_id } => ("turn-retry", Some(scheduled_event_id)),
        UpcomingKind::Effects => ("effects", None),
        UpcomingKind::Deadline(what) => deadline_words(what),
    }
}

fn deadline_words(what: DeadlineKind) -> (&'static str, Option<u64>) {
    match what {
        DeadlineKind::Timer { scheduled_event_id } => ("timer", Some(scheduled_event_id)),
        DeadlineKind::ActivityRetry { scheduled_event_id } => ("activity-retry", Some(scheduled_event_id)),
        DeadlineKind::ActivityScheduleToStart { scheduled_event_id } => {
            ("activity-schedule-to-start", Some(scheduled_event_id))
        }
        DeadlineKind::ActivityHeartbeat { scheduled_event_id } => ("activity-heartbeat", Some(scheduled_event_id)),
        DeadlineKind::ActivityStartToClose { scheduled_event_id } => {
            ("activity-start-to-close", Some(scheduled_event_id))
        }
        DeadlineKind::ActivityScheduleToClose { scheduled_event_id } => {
            ("activity-schedule-to-close", Some(scheduled_event_id))
        }
        DeadlineKind::TurnScheduleToStart { scheduled_event_id } => {
            ("turn-schedule-to-start", Some(scheduled_event_id))
        }
        DeadlineKind::TurnStartToClose { scheduled_event_id } => ("turn-start-to-close", Some(scheduled_event_id)),
        DeadlineKind::Execution => ("execution", None),
        DeadlineKind::Run => ("run", None),
    }
}
