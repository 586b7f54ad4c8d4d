//! Activities with a retry policy: no events are recorded between the first and the last attempt.

use crate::event::{ActivityTimeouts, EventKind};
use crate::run::DeadlineKind;
use crate::scene::{Scene, cancel, check, fail_with, scene, schedule, schedule_with_retry, signal, summary, terminate};
use crate::{Command, Duration, Payload, RetryPolicy, Run, Timestamp, limits};

const NONE: ActivityTimeouts =
    ActivityTimeouts { schedule_to_start: None, start_to_close: None, schedule_to_close: None, heartbeat: None };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns a policy of three attempts, with delays of one and two seconds.
fn policy() -> RetryPolicy {
    RetryPolicy {
        maximum_attempts: Some(3),
        non_retryable_reasons: vec!["hopeless".to_owned()],
        ..RetryPolicy::default()
    }
}

/// Returns a scene with an activity `a` that has the retry policy.
fn given(timeouts: ActivityTimeouts) -> Scene {
    scene().decide([schedule_with_retry("a", policy(), timeouts)])
}

/// Admits a command for an attempt, and checks that it records no event.
#[track_caller]
fn quietly(given: Scene, command: &Command) -> Scene {
    let mut given = given;
    let before = given.run.clone();
    let (_, events) = given.admit(command).unwrap_or_else(|fault| panic!("{command:?}: {fault}"));
    assert_eq!(summary(&events), "", "{command:?}");
    assert_ne!(given.run, before, "{command:?} did not change the state");
    assert_eq!(given.run.last_event_id, before.last_event_id);
    given
}

/// Starts an attempt that fails and is retried later.
fn failed(given: Scene) -> Scene {
    let taken = given.start_activity("a");
    let given = quietly(given, &taken);
    let fails = fail_with(given.task("a"), "busy", None);
    quietly(given, &fails)
}

#[test]
fn a_retried_activity_records_three_events() {
    let once = given(NONE);
    let take = once.start_activity("a");
    let once = quietly(once, &take);
    check(&once, &once.succeed("a"), "ActivityStarted(try 1) ActivitySuccess DeciderScheduled");

    let thrice = failed(failed(given(NONE)).after(1)).after(2);
    let take = thrice.start_activity("a");
    let thrice = quietly(thrice, &take);
    check(&thrice, &thrice.succeed("a"), "ActivityStarted(try 3 after busy) ActivitySuccess DeciderScheduled");
    check(&thrice, &thrice.fail("a"), "ActivityStarted(try 3 after busy) ActivityFailed DeciderScheduled");
}

#[test]
fn the_last_attempt_records_start_runner_and_failure() {
    let given = failed(given(NONE)).after(5);
    let scheduled_event_id = given.scheduled("a");
    let given = quietly(
        given,
        &Command::StartActivity { scheduled_event_id, identity: Some("runner-2".to_owned()), poll: None },
    )
    .after(7);
    let taken_at = given.now.as_millis() - 7_000;
    let answer = given.succeed("a");
    let (_, events) = given.clone().admit(&answer).unwrap();
    let EventKind::ActivityStarted(started) = &events[0].kind else { panic!("{events:?}") };
    assert_eq!((started.attempt, started.identity.as_deref()), (Some(2), Some("runner-2")));
    assert_eq!(started.started_at, Some(Timestamp::from_millis(taken_at)));
    let failure = started.last_failure.as_ref().unwrap();
    assert_eq!((failure.reason.as_deref(), failure.at.as_millis()), (Some("busy"), taken_at - 5_000));
    let EventKind::ActivitySuccess(success) = &events[1].kind else { panic!("{events:?}") };
    assert_eq!(success.started_event_id, events[0].id);
}

#[test]
fn attempts_are_delayed_by_a_growing_backoff() {
    let mut given = given(NONE);
    for wait in [1, 2] {
        given = failed(given);
        let at = given.now.plus(seconds(wait));
        assert_eq!(given.run.activity("a").unwrap().1.not_before(), Some(at));
        assert_eq!(given.run.next_deadline(&[]), Some(at));
        let mut early = given.clone();
        early.now = Timestamp::from_millis(at.as_millis() - 1);
        check(&early, &early.start_activity("a"), "fault activity-not-waiting");
        check(&early, &early.fire(), "");
        assert_eq!(quietly(given.clone().after(wait), &given.fire()).run.activity("a").unwrap().1.not_before(), None);
        given = given.after(wait);
    }
    check(&given, &given.start_activity("a"), "");
}

#[test]
fn a_failure_can_set_the_delay_or_end_the_retries() {
    let mut given = given(NONE);
    let take = given.start_activity("a");
    given = quietly(given, &take);
    let waits = quietly(given.clone(), &fail_with(given.task("a"), "busy", Some(seconds(77))));
    assert_eq!(waits.run.activity("a").unwrap().1.not_before(), Some(given.now.plus(seconds(77))));
    let at_once = quietly(given.clone(), &fail_with(given.task("a"), "busy", Some(Duration::ZERO)));
    assert_eq!(at_once.run.activity("a").unwrap().1.not_before(), None);
    check(&at_once, &at_once.start_activity("a"), "");
    let beyond = Some(Duration::from_millis(limits::SPAN_MAX.as_millis() + 1));
    check(&given, &fail_with(given.task("a"), "busy", beyond), "fault invalid-field");

    let over = "ActivityStarted(try 1) ActivityFailed DeciderScheduled";
    check(&given, &fail_with(given.task("a"), "hopeless", Some(seconds(1))), over);
    let hopeless = Command::FailActivity {
        task: given.task("a"),
        reason: Some("busy".to_owned()),
        details: None,
        non_retryable: true,
        retry_after: None,
    };
    check(&given, &hopeless, over);
}

#[test]
fn timed_out_attempts_are_retried() {
    let timeouts = ActivityTimeouts { start_to_close: Some(seconds(10)), heartbeat: Some(seconds(4)), ..NONE };
    let mut given = given(timeouts);
    for _ in 0..2 {
        let take = given.start_activity("a");
        given = quietly(given, &take).after(4);
        let fire = given.fire();
        given = quietly(given, &fire).after(60);
    }
    let take = given.start_activity("a");
    given = quietly(given, &take)
        .after(3)
        .heartbeat("a", "3")
        .after(3)
        .heartbeat("a", "6")
        .after(3)
        .heartbeat("a", "9")
        .after(1);
    check(
        &given,
        &given.fire(),
        "ActivityStarted(try 3 after Some(Heartbeat)) ActivityTimedOut(StartToClose, 9) DeciderScheduled",
    );
}

#[test]
fn a_heartbeat_of_an_earlier_attempt_does_not_count() {
    let given = given(ActivityTimeouts { heartbeat: Some(seconds(4)), ..NONE });
    let take = given.start_activity("a");
    let given = quietly(given, &take).after(1).heartbeat("a", "1");
    let given = quietly(given.clone(), &given.fail("a")).after(1);
    let given = quietly(given.clone(), &given.start_activity("a"));
    assert_eq!(given.run.next_deadline(&given.heartbeats), Some(given.now.plus(seconds(4))));
}

#[test]
fn schedule_to_close_covers_all_attempts() {
    let given = failed(given(ActivityTimeouts { schedule_to_close: Some(seconds(3)), ..NONE }));
    let late = given.clone().after(3);
    let fired = "ActivityTimedOut(ScheduleToClose) DeciderScheduled";
    check(&late, &late.fire(), fired);
    let (_, events) = late.clone().admit(&late.fire()).unwrap();
    let EventKind::ActivityTimedOut(timed_out) = &events[0].kind else { panic!("{events:?}") };
    assert_eq!(timed_out.last_failure.as_ref().and_then(|failure| failure.reason.as_deref()), Some("busy"));

    // The delay of two seconds would end after the schedule-to-close timeout. The failure is therefore reported at
    // once.
    let given = given.after(1);
    let given = quietly(given.clone(), &given.start_activity("a"));
    check(&given, &given.fail("a"), "ActivityStarted(try 2 after busy) ActivityFailed DeciderScheduled");
    let held = given.after(2);
    check(&held, &held.fire(), &format!("ActivityStarted(try 2 after busy) {fired}"));
}

#[test]
fn schedule_to_start_counts_for_each_attempt() {
    let given = failed(given(ActivityTimeouts { schedule_to_start: Some(seconds(5)), ..NONE }));
    let kinds: Vec<_> = given.run.deadlines(&[]).into_iter().map(|deadline| (deadline.at, deadline.what)).collect();
    let (retry, start) = (given.now.plus(seconds(1)), given.now.plus(seconds(6)));
    let scheduled_event_id = given.scheduled("a");
    assert_eq!(kinds[0], (retry, DeadlineKind::ActivityRetry { scheduled_event_id }));
    assert_eq!(kinds[1], (start, DeadlineKind::ActivityScheduleToStart { scheduled_event_id }));
    let late = given.after(6);
    let (_, events) = late.clone().admit(&late.fire()).unwrap();
    assert_eq!(summary(&events), "ActivityScheduledTimeout DeciderScheduled");
    let EventKind::ActivityScheduledTimeout(timeout) = &events[0].kind else { panic!("{events:?}") };
    assert!(timeout.last_failure.is_some());
}

#[test]
fn an_activity_with_a_cancel_request_is_not_retried() {
    let waiting = failed(given(NONE)).then(&signal("go")).take();
    check(
        &waiting,
        &waiting.complete([cancel("a")]),
        "DeciderCompleted ActivityTaskCancel(a) ActivityCanceled DeciderScheduled",
    );
    let held = waiting.after(1);
    let held = quietly(held.clone(), &held.start_activity("a")).decide([cancel("a")]);
    let started = "ActivityStarted(try 2 after busy)";
    check(&held, &held.fail("a"), &format!("{started} ActivityFailed DeciderScheduled"));
    check(&held, &held.canceled("a"), &format!("{started} ActivityCanceled DeciderScheduled"));
    let lost = Command::ReturnActivity { task: held.task("a"), poll: None };
    let timed_out = format!("{started} ActivityTimedOut(StartToClose, DeliveryFailed) DeciderScheduled");
    check(&held, &lost, &timed_out);
}

#[test]
fn an_undelivered_attempt_does_not_count() {
    let given = given(NONE);
    let given = quietly(given.clone(), &given.start_activity("a"));
    let lost = given.task("a");
    let given = quietly(given, &Command::ReturnActivity { task: lost, poll: None });
    assert_eq!(given.run.activity("a").unwrap().1.attempt(), 1);
    let given = quietly(given.clone(), &given.start_activity("a"));
    // If the lost task reached a runner after all, the result of that runner is refused as late.
    assert_ne!(given.task("a"), lost);
    check(&given, &fail_with(lost, "busy", None), "fault activity-closed");
    check(&given, &Command::ReturnActivity { task: lost, poll: None }, "fault activity-closed");
    check(&given, &given.succeed("a"), "ActivityStarted(try 1) ActivitySuccess DeciderScheduled");
}

#[test]
fn a_token_of_an_earlier_attempt_changes_nothing() {
    let given = given(NONE);
    let given = quietly(given.clone(), &given.start_activity("a"));
    let first = given.task("a");
    let given = quietly(given, &fail_with(first, "busy", None)).after(1);
    check(&given, &fail_with(first, "busy", None), "fault activity-closed");
    let given = quietly(given.clone(), &given.start_activity("a"));
    check(&given, &fail_with(first, "busy", None), "fault activity-closed");
    check(&given, &Command::SucceedActivity { task: first, result: None }, "fault activity-closed");
}

#[test]
fn small_details_of_earlier_attempts_are_kept() {
    for (bytes, is_kept) in [(limits::RETRIED_DETAILS_BYTES_MAX, true), (limits::RETRIED_DETAILS_BYTES_MAX + 1, false)]
    {
        let given = given(NONE);
        let given = quietly(given.clone(), &given.start_activity("a"));
        let details = Payload::from_json(&format!("\"{}\"", "x".repeat(bytes - 2))).unwrap();
        let fails = Command::FailActivity {
            task: given.task("a"),
            reason: Some("busy".to_owned()),
            details: Some(details),
            non_retryable: false,
            retry_after: None,
        };
        let given = quietly(given, &fails);
        assert_eq!(given.run.activity("a").unwrap().1.last_failure().unwrap().details.is_some(), is_kept, "{bytes}");
    }
}

#[test]
fn a_rebuilt_run_counts_attempts_from_the_beginning() {
    let given = failed(given(NONE));
    let rebuilt = Run::replay(&given.events).unwrap();
    assert_ne!(rebuilt, given.run);
    assert_eq!(rebuilt.activity("a").unwrap().1.attempt(), 1);
    assert_eq!(rebuilt.history_derived(), given.run.history_derived());
}

#[test]
fn nothing_is_retried_without_a_policy() {
    let given = scene().decide([schedule("a")]).takes("a");
    check(&given, &fail_with(given.task("a"), "busy", Some(seconds(1))), "ActivityFailed DeciderScheduled");
}

#[test]
fn nothing_is_retried_after_the_close() {
    let given = given(NONE);
    let given = quietly(given.clone(), &given.start_activity("a"));
    let task = given.task("a");
    let closed = given.then(&terminate());
    check(&closed, &fail_with(task, "busy", None), "fault run-closed");
    assert_eq!(closed.run.next_deadline(&[]), None);
}
