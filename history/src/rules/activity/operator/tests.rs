//! Manual changes of activities: complete, fail, retry, pause, resume, and change options.

use crate::event::{ActivityTimeouts, EventKind, OperatorAction, RequestKey};
use crate::scene::{Scene, cancel, check, fail_with, scene, schedule, schedule_with, schedule_with_retry, terminate};
use crate::{
    ActivityCommand, Command, DeadlineKind, Duration, OptionsChange, Payload, RetryPolicy, RunCondition, TaskRef,
    WhenExhausted, limits,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn manually(activity_id: &str, act: ActivityCommand) -> Command {
    let operator = OperatorAction { identity: Some("ann".to_owned()), reason: Some("the bank called".to_owned()) };
    Command::ActOnActivity { activity_id: activity_id.to_owned(), act, operator, key: None }
}

fn done() -> Command {
    manually("a", ActivityCommand::Succeed { result: Some(Payload::from_json("7").unwrap()) })
}

fn failed() -> Command {
    manually("a", ActivityCommand::Fail { reason: "lost".to_owned(), details: None })
}

fn pause() -> Command {
    manually("a", ActivityCommand::Pause)
}

fn resume() -> Command {
    manually("a", ActivityCommand::Resume)
}

fn retry() -> Command {
    manually("a", ActivityCommand::Retry)
}

fn change(change: OptionsChange) -> Command {
    manually("a", ActivityCommand::Change(Box::new(change)))
}

/// Returns a policy of two attempts, one hour apart. After the second failure, the activity pauses.
fn policy() -> RetryPolicy {
    RetryPolicy {
        initial_interval: seconds(3_600),
        maximum_attempts: Some(2),
        non_retryable_reasons: vec!["hopeless".to_owned()],
        when_exhausted: WhenExhausted::Pause,
        ..RetryPolicy::default()
    }
}

fn retried(timeouts: ActivityTimeouts) -> Scene {
    scene().decide([schedule_with_retry("a", policy(), timeouts)])
}

fn plain() -> Scene {
    scene().decide([schedule("a")])
}

/// Lets one attempt fail.
fn once(given: Scene) -> Scene {
    let given = given.takes("a");
    let fails = fail_with(given.task("a"), "busy", None);
    given.then(&fails)
}

/// Returns a scene with an activity whose attempts are exhausted.
fn exhausted(timeouts: ActivityTimeouts) -> Scene {
    once(once(retried(timeouts)).after(3_600))
}

fn waits(scene: &Scene) -> bool {
    scene.run.waiting_tasks().any(|task| matches!(task, TaskRef::Activity(_)))
}

#[test]
fn a_manual_result_records_operator_and_reason() {
    for (given, when, then) in [
        (plain(), done(), "ActivityStarted ActivitySuccess DeciderScheduled"),
        (plain().takes("a"), done(), "ActivitySuccess DeciderScheduled"),
        (plain(), failed(), "ActivityStarted ActivityFailed DeciderScheduled"),
        (plain().takes("a"), failed(), "ActivityFailed DeciderScheduled"),
        (plain().then(&pause()), done(), "ActivityStarted ActivitySuccess DeciderScheduled"),
        (retried(ActivityTimeouts::default()), done(), "ActivityStarted(try 1) ActivitySuccess DeciderScheduled"),
        (
            once(retried(ActivityTimeouts::default())),
            failed(),
            "ActivityStarted(try 2 after busy) ActivityFailed DeciderScheduled",
        ),
        (
            exhausted(ActivityTimeouts::default()),
            done(),
            "ActivityStarted(try 3 after busy) ActivitySuccess DeciderScheduled",
        ),
    ] {
        check(&given, &when, then);
        let (_, events) = given.clone().admit(&when).unwrap();
        let close = events.iter().rev().nth(1).unwrap();
        let summary = match &close.kind {
            EventKind::ActivitySuccess(it) => it.operator.clone(),
            EventKind::ActivityFailed(it) => it.operator.clone(),
            other => panic!("{other:?}"),
        };
        let summary = summary.unwrap();
        assert_eq!((summary.identity.as_deref(), summary.reason.as_deref()), (Some("ann"), Some("the bank called")));
        // No runner held the activity, so its ActivityStarted event names the operator.
        if let EventKind::ActivityStarted(started) = &events[0].kind {
            assert_eq!(started.identity.as_deref(), Some("ann"));
        }
        check(&given.clone().then(&when), &when, "fault activity-closed");
    }
    let held = plain().takes("a");
    let late = held.succeed("a");
    check(&held.then(&done()), &late, "fault activity-closed");
    check(&plain().then(&terminate()), &done(), "fault run-closed");
    check(&plain(), &manually("b", ActivityCommand::Pause), "fault activity-closed");
}

#[test]
fn a_manual_change_with_a_key_happens_once() {
    for (given, act) in [
        (plain(), ActivityCommand::Succeed { result: None }),
        (plain().takes("a"), ActivityCommand::Succeed { result: None }),
        (plain(), ActivityCommand::Pause),
    ] {
        let key = Some(RequestKey(7));
        let command =
            Command::ActOnActivity { activity_id: "a".to_owned(), act, operator: OperatorAction::default(), key };
        let first = given.run.last_event_id + 1;
        check(&given.then(&command), &command, &format!("repeats {first}"));
    }
}

#[test]
fn a_resumed_activity_restarts_its_wait_for_a_runner() {
    let limits = ActivityTimeouts { schedule_to_start: Some(seconds(60)), ..ActivityTimeouts::default() };
    let given = scene().decide([schedule_with("a", limits)]);
    let start = given.start_activity("a");
    let paused = given.clone().then(&pause());
    assert!(waits(&given) && !waits(&paused));
    check(&paused, &start, "fault activity-not-waiting");
    check(&paused, &pause(), "fault already-paused");
    check(&given, &resume(), "fault not-paused");
    assert_eq!((given.run.condition(), paused.run.condition()), (RunCondition::Open, RunCondition::Blocked));
    assert_eq!(paused.run.activity("a").unwrap().1.paused.as_ref().unwrap().operator.identity.as_deref(), Some("ann"));

    let paused = paused.after(1_000);
    check(&paused, &paused.fire(), "");
    let resumed = paused.then(&resume());
    assert!(waits(&resumed) && !resumed.run.is_blocked());
    let late = resumed.clone().after(59);
    check(&late, &late.fire(), "");
    check(&resumed.clone().after(60), &resumed.fire(), "ActivityScheduledTimeout DeciderScheduled");
    check(&resumed, &start, "ActivityStarted");

    // The run does not need an operator, because the runner may still report a result.
    let held = scene().decide([schedule("a")]).takes("a").then(&pause());
    assert!(!held.run.is_blocked());
    check(&held, &held.succeed("a"), "ActivitySuccess DeciderScheduled");
    let held = retried(ActivityTimeouts::default()).takes("a").then(&pause());
    let failed = held.clone().then(&fail_with(held.task("a"), "busy", None)).after(10_000);
    assert!(failed.run.is_blocked() && !waits(&failed));
    check(&failed, &resume(), "ActivityResumed");
}

#[test]
fn an_exhausted_activity_pauses_if_its_policy_says_so() {
    let limits = ActivityTimeouts { schedule_to_close: Some(seconds(9_000)), ..ActivityTimeouts::default() };
    let given = exhausted(limits);
    let EventKind::ActivityPaused(paused) = &given.events.last().unwrap().kind else { panic!() };
    assert_eq!(paused.last_failure.as_ref().unwrap().reason.as_deref(), Some("busy"));
    assert!(given.run.is_blocked() && !given.run.is_stuck());
    let activity = given.run.activity("a").unwrap().1;
    assert_eq!(activity.last_failure().unwrap().reason.as_deref(), Some("busy"));
    check(&given, &given.start_activity("a"), "fault activity-not-waiting");

    // The activity stays paused until its schedule-to-close timeout expires.
    let next: Vec<_> = given.run.deadlines(&[]).into_iter().map(|it| it.what).collect();
    let scheduled_event_id = given.scheduled("a");
    assert_eq!(next, [DeadlineKind::ActivityScheduleToClose { scheduled_event_id }, DeadlineKind::Execution]);
    let late = given.clone().after(5_400);
    check(&late, &late.fire(), "ActivityTimedOut(ScheduleToClose) DeciderScheduled");

    // A manual retry allows one more attempt. If it fails, the activity pauses again.
    let again = given.clone().then(&retry()).takes("a");
    assert_eq!(again.run.activity("a").unwrap().1.attempt(), 3);
    check(&again, &again.succeed("a"), "ActivityStarted(try 3 after busy) ActivitySuccess DeciderScheduled");
    let failed = again.clone().then(&fail_with(again.task("a"), "busy", None));
    assert!(failed.run.is_blocked());
    check(&failed, &done(), "ActivityStarted(try 4 after busy) ActivitySuccess DeciderScheduled");
    // A later change of the policy does not reset the number of attempts.
    let fails = RetryPolicy { when_exhausted: WhenExhausted::Fail, ..policy() };
    let changed = failed.then(&change(OptionsChange { retry: Some(fails), ..OptionsChange::default() }));
    check(&changed, &done(), "ActivityStarted(try 4 after busy) ActivitySuccess DeciderScheduled");

    // A failure that the policy does not retry closes the activity at once. A failure under a policy that does not
    // pause also closes it at once.
    let hopeless = retried(limits).takes("a");
    let fails = fail_with(hopeless.task("a"), "hopeless", None);
    check(&hopeless, &fails, "ActivityStarted(try 1) ActivityFailed DeciderScheduled");
    // An attempt that could begin only after the schedule-to-close timeout is skipped, so the attempts count as
    // exhausted.
    let late = ActivityTimeouts { schedule_to_close: Some(seconds(3_600)), ..ActivityTimeouts::default() };
    assert!(once(retried(late)).run.is_blocked());
    // Attempts that timed out also count as failed attempts.
    let slow = ActivityTimeouts { start_to_close: Some(seconds(5)), ..ActivityTimeouts::default() };
    let slow = once(retried(slow)).after(3_600).takes("a").after(5);
    check(&slow, &slow.fire(), "ActivityPaused");
    // An activity that is already paused does not pause again when its attempts are exhausted.
    let held = once(retried(ActivityTimeouts::default())).after(3_600).takes("a").then(&pause());
    check(&held, &fail_with(held.task("a"), "busy", None), "");
}

#[test]
fn a_manual_retry_takes_effect_at_once() {
    let given = once(retried(ActivityTimeouts::default()));
    assert!(given.run.activity("a").unwrap().1.not_before().is_some());
    let again = given.clone().then(&retry());
    assert_eq!(again.run.activity("a").unwrap().1.not_before(), None);
    check(&again, &again.start_activity("a"), "");
    check(&again, &retry(), "fault activity-not-retryable");
    // The runner that held the activity loses it through the retry.
    let held = retried(ActivityTimeouts::default()).takes("a");
    let late = held.succeed("a");
    let taken = held.then(&retry());
    check(&taken, &late, "fault activity-closed");
    let taken = taken.takes("a");
    check(&taken, &late, "fault activity-closed");
    assert_eq!(taken.run.activity("a").unwrap().1.attempt(), 1, "no attempt has failed");
    // Without a retry policy there is only one attempt.
    check(&plain().takes("a"), &retry(), "fault activity-not-retryable");
    check(&plain(), &retry(), "fault activity-not-retryable");
    check(&plain().then(&pause()), &retry(), "ActivityRetried");
    let stopping = retried(ActivityTimeouts::default()).takes("a").then(&crate::scene::signal("s"));
    check(&stopping.decide([cancel("a")]), &retry(), "fault activity-not-retryable");
}

#[test]
fn only_the_given_options_of_an_activity_change() {
    let limits = ActivityTimeouts {
        start_to_close: Some(seconds(60)),
        heartbeat: Some(seconds(10)),
        ..ActivityTimeouts::default()
    };
    let given = scene().decide([schedule_with("a", limits)]).takes("a");
    let longer =
        OptionsChange { start_to_close: Some(Some(seconds(600))), heartbeat: Some(None), ..OptionsChange::default() };
    check(&given, &change(longer.clone()), "ActivityOptionsChanged");
    let changed = given.clone().then(&change(longer)).after(599);
    check(&changed, &changed.fire(), "");
    check(&changed.clone().after(1), &changed.fire(), "ActivityTimedOut(StartToClose) DeciderScheduled");
    let shorter = OptionsChange { start_to_close: Some(Some(seconds(5))), ..OptionsChange::default() };
    let shorter = given.clone().after(5).then(&change(shorter));
    check(&shorter, &shorter.fire(), "ActivityTimedOut(StartToClose) DeciderScheduled");

    let moved = plain().then(&change(OptionsChange { task_list: Some("GPU".to_owned()), ..OptionsChange::default() }));
    let activity = moved.run.activity("a").unwrap().1;
    assert_eq!(activity.task_list, "GPU");
    assert_eq!(activity.released.map(|it| it.event_id), Some(moved.run.last_event_id));
    // A policy can be added only before the activity is started, and it cannot be removed.
    let with = || change(OptionsChange { retry: Some(policy()), ..OptionsChange::default() });
    check(&plain().takes("a"), &with(), "fault activity-not-retryable");
    let given = plain().then(&with()).takes("a");
    check(&given, &given.succeed("a"), "ActivityStarted(try 1) ActivitySuccess DeciderScheduled");
}

#[test]
fn fields_of_manual_changes_are_limited() {
    let given = plain();
    let long = "x".repeat(limits::REASON_CHARS_MAX);
    let fail = |reason: &str| manually("a", ActivityCommand::Fail { reason: reason.to_owned(), details: None });
    check(&given, &fail(&long), "ActivityStarted ActivityFailed DeciderScheduled");
    check(&given, &fail(&format!("{long}x")), "fault too-large");
    check(&given, &fail(""), "fault invalid-field");
    check(&given, &change(OptionsChange::default()), "fault invalid-field");
    let none = OptionsChange { heartbeat: Some(Some(Duration::ZERO)), ..OptionsChange::default() };
    check(&given, &change(none), "fault invalid-field");
    let why = |reason: String| Command::ActOnActivity {
        activity_id: "a".to_owned(),
        act: ActivityCommand::Pause,
        operator: OperatorAction { identity: None, reason: Some(reason) },
        key: None,
    };
    check(&given, &why(long.clone()), "ActivityPaused");
    check(&given, &why(long + "x"), "fault too-large");
}

fn retry_all(key: Option<RequestKey>) -> Command {
    let operator = OperatorAction { identity: Some("ann".to_owned()), reason: Some("the server is back".to_owned()) };
    Command::RetryActivities { failure_reason: None, operator, key }
}

#[test]
fn all_blocked_and_waiting_activities_are_retried_at_once() {
    let none = ActivityTimeouts::default();
    let four = ["blocked", "waiting", "held", "new"].map(|id| schedule_with_retry(id, policy(), none));
    let given = scene().decide(four);
    let given = given.then(&manually("blocked", ActivityCommand::Pause)).takes("waiting").takes("held");
    let failure = fail_with(given.task("waiting"), "busy", None);
    let given = given.then(&failure);
    check(&given, &retry_all(None), "ActivityRetried ActivityRetried");
    let retried = given.then(&retry_all(None));
    assert!(!retried.run.is_blocked() && retried.run.condition() == RunCondition::Retrying);
    check(&retried, &retry_all(None), "fault activity-not-retryable");
    let EventKind::ActivityRetried(it) = &retried.events.last().unwrap().kind else { panic!() };
    assert_eq!((it.identity.as_deref(), it.reason.as_deref()), (Some("ann"), Some("the server is back")));
}

#[test]
fn activities_are_retried_by_the_reason_of_their_failure() {
    let none = ActivityTimeouts::default();
    let two = ["a", "b"].map(|id| schedule_with_retry(id, policy(), none));
    let given = scene().decide(two).takes("a").takes("b");
    let (busy, lost) = (fail_with(given.task("a"), "busy", None), fail_with(given.task("b"), "lost", None));
    let given = given.then(&busy).then(&lost);
    let because = |reason: &str| {
        let (failure_reason, operator) = (Some(reason.to_owned()), OperatorAction::default());
        Command::RetryActivities { failure_reason, operator, key: None }
    };
    check(&given, &retry_all(None), "ActivityRetried ActivityRetried");
    check(&given, &because("lost"), "ActivityRetried");
    let retried = given.clone().then(&because("lost"));
    let EventKind::ActivityRetried(it) = &retried.events.last().unwrap().kind else { panic!() };
    assert_eq!(it.scheduled_event_id, given.scheduled("b"));
    check(&given, &because("other"), "fault activity-not-retryable");
}

#[test]
fn a_retry_of_all_activities_with_a_key_happens_once() {
    let none = ActivityTimeouts::default();
    let two = ["a", "b"].map(|id| schedule_with_retry(id, policy(), none));
    let given = scene().decide(two).then(&pause()).then(&manually("b", ActivityCommand::Pause));
    let command = retry_all(Some(RequestKey(7)));
    let first = given.run.last_event_id + 1;
    check(&given.then(&command), &command, &format!("repeats {first}"));
}

#[test]
fn a_run_without_failing_activities_refuses_a_retry_of_all() {
    check(&plain(), &retry_all(None), "fault activity-not-retryable");
    check(&plain().then(&terminate()), &retry_all(None), "fault run-closed");
}
