//! The state of a run as text.

use client::body::{Described, ListWithoutPollers, OpenActivity};
use history::event::{ActivityPausedCause, ChildPolicy};
use history::{Payload, Timestamp};

use super::limits::behind;

/// Returns a line for each task list without pollers in which tasks of the run are waiting.
pub(super) fn unpolled(run: &Described) -> Vec<String> {
    let line = |it: &ListWithoutPollers| {
        let (what, list, since) = (if it.decider { "turns" } else { "activities" }, &it.task_list, it.since);
        format!("list `{list}` has had no pollers for {what} since {since}")
    };
    run.no_pollers.iter().map(line).collect()
}

/// Returns the state of a run as text, with one fact per line.
pub(super) fn lines(run: &Described) -> String {
    let mut lines = vec![
        format!("workflow   {} ({})", run.workflow_id, run.workflow_type),
        format!("run        {}", run.run_id),
        format!("status     {}", run.status),
        format!("started    {}", run.started_at),
        format!("events     {}", run.history_length),
        // The service decides the turns of a run with a single activity.
        if run.one_activity {
            "turn       none; the run is a single activity without a decider".to_owned()
        } else {
            format!("turn       {} on {}", run.turn, run.task_list)
        },
    ];
    lines.extend(behind(&run.behind, &run.task_list).map(|behind| format!("turn       {behind}")));
    let reason = super::workflow::close_reason(run.reason.as_deref(), run.details_line.as_deref());
    lines.extend(reason.map(|reason| format!("reason     {reason}")));
    lines.extend(unpolled(run).into_iter().map(|line| format!("waits      {line}")));
    if !run.tags.is_empty() {
        lines.push(format!("tags       {}", run.tags.join(", ")));
    }
    lines.extend(
        run.parent
            .as_ref()
            .map(|it| format!("child      of {}, run {}, event {}", it.workflow_id, it.run_id, it.event_id)),
    );
    if run.cancel_requested {
        lines.push("cancel     requested".to_owned());
    }
    if let Some(pause) = &run.paused {
        let clocks = if pause.stop_clocks { ", timers and timeouts stopped" } else { "" };
        let by = pause.identity.as_ref().map(|who| format!(" by {who}")).unwrap_or_default();
        let why = pause.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        lines.push(format!("paused     since {}{by}{clocks}{why}", pause.at));
    }
    lines.extend(flags(run));
    lines.extend(run.context.as_ref().map(|context| format!("context    {}", beginning(context))));
    lines.extend(run.awaiting.iter().map(|name| format!("awaits     signal `{name}`")));
    lines.extend(run.closed_at.map(|at| format!("closed     {at}")));
    if let (Some(policy), Some(attempt)) = (&run.retry, run.attempt) {
        let of = policy.maximum_attempts.map(|attempts| format!(" of {attempts}")).unwrap_or_default();
        let after = run.continued_from.filter(|_| attempt > 1).map(|run_id| format!(", after run {run_id}"));
        let waits = run.next_attempt_at.map(|at| format!("; starts {at}")).unwrap_or_default();
        lines.push(format!("attempt    {attempt}{of}{}{waits}", after.unwrap_or_default()));
    }
    lines.extend(run.continued_from.filter(|_| run.attempt.is_none()).map(|run_id| format!("continues  run {run_id}")));
    lines.extend(run.retried_as.map(|run_id| format!("retried    as run {run_id}")));
    lines.extend(run.reset_as.map(|run_id| format!("reset      as run {run_id}")));
    lines.extend(run.branched_from.as_ref().map(|it| {
        let of = it.workflow_id.as_ref().map(|id| format!(" of {id}")).unwrap_or_default();
        format!("branched   from run {}{of}, event {}", it.run_id, it.event_id)
    }));
    lines.extend(run.open_activities.iter().map(|it| {
        let state = match (it.started_at, it.next_attempt_at) {
            (Some(at), _) if it.paused.is_some() => format!("paused, {}", started(it, at)),
            _ if it.paused.is_some() => "paused".to_owned(),
            (Some(at), _) => started(it, at),
            (None, Some(at)) => format!("next attempt at {at}"),
            (None, None) => behind(&it.behind, &it.task_list).unwrap_or_else(|| "waiting for a runner".to_owned()),
        };
        let (tried, progress) = (tried(it), progress(it));
        let (id, kind, list) = (&it.activity_id, &it.activity_type, &it.task_list);
        format!("activity   {id} ({kind}) on {list}: {state}{tried}{progress}")
    }));
    lines.extend(
        run.open_updates.iter().map(|it| format!("update     {} ({}): accepted, not completed", it.update_id, it.name)),
    );
    lines.extend(run.open_children.iter().map(|it| {
        let state = if it.started_event_id.is_some() { "started" } else { "starting" };
        let then = match it.child_policy {
            ChildPolicy::Terminate => "is terminated",
            ChildPolicy::RequestCancel => "gets a cancel request",
            ChildPolicy::Abandon => "continues",
        };
        format!("child      {}: {state}; {then} if this run closes first", it.workflow_id)
    }));
    let tries = if run.outbox_retries > 1 { format!(", {} attempts", run.outbox_retries) } else { String::new() };
    lines.extend(run.outbox.iter().map(|it| {
        let of = it.run_id.map(|run_id| format!(" of run {run_id}")).unwrap_or_default();
        format!("outbox     {} for event {}{of}{tries}", it.kind, it.event_id)
    }));
    lines.extend(run.deadlines.iter().map(|it| {
        let of = it.scheduled_event_id.map(|id| format!(" of event {id}")).unwrap_or_default();
        let name = it.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        format!("next       {}  {}{name}{of}", it.at, it.kind)
    }));
    shown(&lines)
}

/// Maximum number of characters of a payload in a line. Our choice: more would hide the other lines.
const PAYLOAD_CHARS_MAX: usize = 500;

/// Returns the beginning of a payload's JSON. `--json` prints all of it.
fn beginning(payload: &Payload) -> String {
    let text = payload.to_string();
    match text.char_indices().nth(PAYLOAD_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Describes the runner that has an activity.
fn started(activity: &OpenActivity, at: Timestamp) -> String {
    let identity = activity.identity.as_ref().map(|identity| format!(" by {identity}")).unwrap_or_default();
    let credential = activity.by.as_ref().map(|by| format!(" (credential {by})")).unwrap_or_default();
    format!("started {at}{identity}{credential}")
}

/// Describes the last heartbeat of an activity.
fn progress(activity: &OpenActivity) -> String {
    let Some(at) = activity.last_heartbeat_at else { return String::new() };
    let details =
        activity.heartbeat_details.as_ref().map(|details| format!(": {}", beginning(details))).unwrap_or_default();
    format!("; last heartbeat {at}{details}")
}

/// Joins lines. Line breaks and control characters within a line are escaped.
pub(super) fn shown(lines: &[String]) -> String {
    lines.iter().map(|line| tables::escape::line(line)).collect::<Vec<_>>().join("\n")
}

/// Returns the reasons why a run needs attention: it is stuck, blocked, failing or retrying.
fn flags(run: &Described) -> Vec<String> {
    let mut lines = Vec::new();
    if run.stuck {
        let ends = run.deadlines.iter().find(|it| matches!(it.kind.as_str(), "execution" | "run"));
        let ends = ends.map(|it| format!("; times out at {}", it.at)).unwrap_or_default();
        let what = "nothing is open, and its last turn awaits no signal; a signal, update or cancel request wakes it";
        lines.push(format!("stuck      {what}{ends}"));
    }
    let is_blocked = |it: &&OpenActivity| it.paused.is_some() && it.started_at.is_none();
    lines.extend(run.open_activities.iter().filter(is_blocked).map(|it| {
        let (id, workflow_id, tried, why) = (&it.activity_id, &run.workflow_id, tried(it), last_failure(it));
        format!(
            "blocked    activity {id} is paused{tried}{why}; retry it with `baton activity retry \
            {workflow_id} {id}`"
        )
    }));
    lines.extend(run.failing.as_ref().map(|it| {
        let turn = it.scheduled_event_id.map(|id| format!(" of event {id}")).unwrap_or_default();
        let timeout = it.timeout.map(|timeout| format!("timed out ({timeout})"));
        let why = it.reason.clone().or(timeout).unwrap_or_else(|| "given back".to_owned());
        let details = it.details.as_ref().map(|details| format!(" {details}")).unwrap_or_default();
        let (turns, since, event_id) = (it.turns, it.since, it.event_id);
        format!(
            "failing    turn{turn}: lost {turns} times in a row since {since}, last by event {event_id}: {why}{details}"
        )
    }));
    let retried = run.open_activities.iter().filter(|it| it.attempt > 1 && !is_blocked(it));
    lines.extend(retried.map(|it| format!("retrying   activity {}{}{}", it.activity_id, tried(it), last_failure(it))));
    lines.extend(run.repeating.as_ref().map(|it| {
        let id = it.activity_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        let (times, event_id) = (it.times, it.event_id);
        let often = if times == 1 { String::new() } else { format!("; {times} times in total") };
        format!(
            "repeating  activity{id} has succeeded, but event {event_id} schedules it again with the same type and \
             input{often}; if the decider treats its window as the whole history, poll with history `full`"
        )
    }));
    lines
}

/// Describes the failure of an activity's previous attempt.
fn last_failure(activity: &OpenActivity) -> String {
    let Some(failure) = &activity.last_failure else { return String::new() };
    let timeout = failure.timeout.map(|timeout| timeout.to_string());
    let why = failure.reason.clone().or(timeout).map(|why| format!(": {why}")).unwrap_or_default();
    let details = failure.details.as_ref().map(|details| format!(" {details}")).unwrap_or_default();
    format!("; last failure at {}{why}{details}", failure.at)
}

/// Describes the number of the current or next attempt, and the maximum number of attempts. If no attempt follows,
/// describes only the number of attempts that were made.
fn tried(activity: &OpenActivity) -> String {
    let (attempt, most) = (activity.attempt, activity.maximum_attempts);
    let is_beyond = most.is_some_and(|most| attempt > most);
    let has_run_out =
        activity.paused.as_ref().is_some_and(|it| is_beyond || it.cause == ActivityPausedCause::AttemptsExhausted);
    match most {
        _ if attempt <= 1 => String::new(),
        _ if has_run_out => format!(" after attempt {}, the last", attempt - 1),
        // An operator has requested this attempt in addition to those of the retry policy.
        Some(most) if is_beyond => format!(", attempt {attempt} by an operator, after {most} by the retry policy"),
        Some(most) => format!(", attempt {attempt} of {most}"),
        None => format!(", attempt {attempt}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_shown_with_all_that_is_open_and_what_comes_next() {
        let run = "01890000-0000-7000-8000-000000000001";
        let at = "2026-01-01T00:00:00.000Z";
        let described = json!({
            "workflowId": "order-1", "runId": run, "workflowType": "order", "taskList": "orders", "status": "open",
            "startedAt": at, "executionTimeout": "P365D", "tags": ["eu", "gold"], "cancelRequested": true,
            "reason": "declined", "detailsLine": "card 7",
            "stuck": false, "repeating": { "times": 2, "eventId": 11, "activityId": "charge" },
            "awaiting": ["approve"], "version": 9, "historyLength": 12, "turn": "none",
            "parent": { "workflowId": "batch", "runId": run, "eventId": 7 },
            "continuedFrom": run,
            "openActivities": [{
                "activityId": "ship", "activityType": "ship", "taskList": "carriers", "scheduledEventId": 5,
                "scheduledAt": at, "cancelRequested": false, "attempt": 2, "maximumAttempts": 3, "timeouts": {},
                "lastFailure": { "at": at, "reason": "carrier-busy" },
                "nextAttemptAt": "2026-01-01T00:01:00.000Z",
            }, {
                "activityId": "bill", "activityType": "bill", "taskList": "PCI", "scheduledEventId": 10,
                "scheduledAt": at, "cancelRequested": false, "attempt": 1, "startedAt": at, "identity": "rack-7",
                "by": "pci", "lastHeartbeatAt": "2026-01-01T00:02:00.000Z", "heartbeatDetails": { "page": 7 },
            }],
            "context": { "step": 3 },
            "noPollers": [
                { "taskList": "orders", "decider": true, "since": at },
                { "taskList": "carriers", "decider": false, "since": at },
            ],
            "openTimers": [{ "timerId": "t", "scheduledEventId": 6, "expiresAt": at }],
            "openChildren": [
                { "workflowId": "a", "scheduledEventId": 7, "startedEventId": 8, "childPolicy": "terminate" },
                { "workflowId": "b", "scheduledEventId": 9, "childPolicy": "abandon" },
            ],
            "deadlines": [{ "at": at, "kind": "TimerExpired", "name": "t", "scheduledEventId": 6 }],
            "outbox": [{ "kind": "start-child", "eventId": 9 }, { "kind": "notify-parent", "eventId": 4, "runId": run }],
            "outboxRetries": 3,
            "branchedFrom": { "runId": run, "eventId": 2, "workflowId": "order-0" },
        });
        let described = serde_json::from_value(described).unwrap();
        let expected = format!(
            "\
workflow   order-1 (order)
run        {run}
status     open
started    {at}
events     12
turn       none on orders
reason     declined: card 7
waits      list `orders` has had no pollers for turns since {at}
waits      list `carriers` has had no pollers for activities since {at}
tags       eu, gold
child      of batch, run {run}, event 7
cancel     requested
retrying   activity ship, attempt 2 of 3; last failure at {at}: carrier-busy
repeating  activity charge has succeeded, but event 11 schedules it again with the same type and input; 2 times in \
total; if the decider treats its window as the whole history, poll with history `full`
context    {{\"step\":3}}
awaits     signal `approve`
continues  run {run}
branched   from run {run} of order-0, event 2
activity   ship (ship) on carriers: next attempt at 2026-01-01T00:01:00.000Z, attempt 2 of 3
activity   bill (bill) on PCI: started {at} by rack-7 (credential pci); last heartbeat 2026-01-01T00:02:00.000Z: \
{{\"page\":7}}
child      a: started; is terminated if this run closes first
child      b: starting; continues if this run closes first
outbox     start-child for event 9, 3 attempts
outbox     notify-parent for event 4 of run {run}, 3 attempts
next       {at}  TimerExpired `t` of event 6"
        );
        assert_eq!(lines(&described), expected);
    }

    #[test]
    fn the_limits_that_hold_tasks_back_are_shown() {
        let (run, at) = ("01890000-0000-7000-8000-000000000001", "2026-01-01T00:00:00.000Z");
        let hold =
            |list: &str| json!([{ "limit": "max-running", "scope": "list", "name": list, "running": 20, "max": 20 }]);
        let described = json!({
            "workflowId": "w", "runId": run, "workflowType": "t", "taskList": "deciders", "status": "open",
            "startedAt": at, "executionTimeout": "P365D", "tags": [], "cancelRequested": false, "stuck": false,
            "awaiting": [], "version": 9, "historyLength": 12, "turn": "waiting", "behind": hold("deciders"),
            "openActivities": [{
                "activityId": "ship", "activityType": "ship", "taskList": "PCI", "scheduledEventId": 5,
                "scheduledAt": at, "cancelRequested": false, "attempt": 1, "behind": hold("PCI"),
            }],
            "openTimers": [], "deadlines": [],
        });
        let text = lines(&serde_json::from_value(described).unwrap());
        assert!(text.contains("\nturn       waits behind: 20 of 20 running on deciders\n"), "{text}");
        assert!(text.contains("\nactivity   ship (ship) on PCI: waits behind: 20 of 20 running on PCI"), "{text}");
    }

    #[test]
    fn it_is_said_why_a_run_stands_as_it_does() {
        let (run, at) = ("01890000-0000-7000-8000-000000000001", "2026-01-01T00:00:00.000Z");
        let shown = |more: serde_json::Value| {
            let mut described = json!({
                "workflowId": "w", "runId": run, "workflowType": "t", "taskList": "l", "status": "open",
                "startedAt": at,
                "executionTimeout": "P365D", "tags": [], "cancelRequested": false, "stuck": false, "awaiting": [],
                "version": 9, "historyLength": 12, "turn": "none", "openActivities": [], "openTimers": [],
                "deadlines": [{ "at": "2027-01-01T00:00:00.000Z", "kind": "execution" }],
            });
            described.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            flags(&serde_json::from_value(described).unwrap()).join("\n")
        };
        let activity = |more: serde_json::Value| {
            let mut activity = json!({
                "activityId": "ship", "activityType": "ship", "taskList": "l", "scheduledEventId": 5, "scheduledAt": at,
                "attempt": 3, "maximumAttempts": 2, "cancelRequested": false,
                "lastFailure": { "at": at, "reason": "carrier-busy", "details": { "queue": 7 } },
            });
            activity.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!([activity])
        };
        assert_eq!(shown(json!({})), "");
        assert_eq!(
            shown(json!({ "stuck": true })),
            "stuck      nothing is open, and its last turn awaits no signal; a signal, update or cancel request \
             wakes it; times out at 2027-01-01T00:00:00.000Z"
        );
        let paused = activity(json!({ "paused": { "at": at, "cause": "AttemptsExhausted", "eventId": 9 } }));
        assert_eq!(
            shown(json!({ "blocked": true, "openActivities": paused })),
            format!(
                "blocked    activity ship is paused after attempt 2, the last; last failure at {at}: carrier-busy \
                 {{\"queue\":7}}; retry it with `baton activity retry w ship`"
            )
        );
        assert_eq!(
            shown(json!({ "retrying": true, "openActivities": activity(json!({ "maximumAttempts": 5 })) })),
            format!("retrying   activity ship, attempt 3 of 5; last failure at {at}: carrier-busy {{\"queue\":7}}")
        );
        let failing = json!({ "turns": 3, "since": at, "eventId": 11, "scheduledEventId": 12, "reason": "panic" });
        assert_eq!(
            shown(json!({ "failing": failing })),
            format!("failing    turn of event 12: lost 3 times in a row since {at}, last by event 11: panic")
        );
        let failing = json!({ "turns": 2, "since": at, "eventId": 11, "timeout": "StartToClose" });
        assert_eq!(
            shown(json!({ "failing": failing })),
            format!("failing    turn: lost 2 times in a row since {at}, last by event 11: timed out (StartToClose)")
        );
    }

    #[test]
    fn a_long_payload_is_cut_after_500_characters() {
        let payload = |chars: usize| Payload::of(&"ä".repeat(chars)).unwrap();
        assert_eq!(beginning(&payload(498)), payload(498).to_string());
        assert_eq!(beginning(&payload(499)), format!("\"{}…", "ä".repeat(499)));
    }

    #[test]
    fn no_activity_is_in_a_try_beyond_its_last() {
        let at = "2026-01-01T00:00:00.000Z";
        let shown = |attempt: u32, most: Option<u32>, cause: Option<&str>| {
            let mut activity = json!({
                "activityId": "a", "activityType": "a", "taskList": "l", "scheduledEventId": 5, "scheduledAt": at,
                "attempt": attempt, "maximumAttempts": most, "cancelRequested": false,
            });
            if let Some(cause) = cause {
                activity["paused"] = json!({ "at": at, "cause": cause, "eventId": 9 });
            }
            tried(&serde_json::from_value(activity).unwrap())
        };
        assert_eq!(shown(1, Some(2), None), "");
        assert_eq!(shown(2, Some(2), None), ", attempt 2 of 2");
        assert_eq!(shown(7, None, None), ", attempt 7");
        assert_eq!(shown(2, Some(2), Some("OperatorInitiated")), ", attempt 2 of 2");
        assert_eq!(shown(3, Some(2), Some("AttemptsExhausted")), " after attempt 2, the last");
        assert_eq!(shown(3, Some(2), None), ", attempt 3 by an operator, after 2 by the retry policy");
        assert_eq!(shown(3, Some(2), Some("OperatorInitiated")), " after attempt 2, the last");
    }
}
