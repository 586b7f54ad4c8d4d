//! The table of activities, with one case per line, and further rules.

use crate::event::{ActivityTimeouts, OperatorAction};
use crate::scene::{
    Scene, cancel, check, complete, fail, fires, plain, scene, schedule, schedule_with, signal, succeed, success,
    terminate,
};
use crate::{
    ActivityCommand, Command, Decision, Duration, EventKind, Payload, ScheduleActivity, Start, TaskId, Timestamp,
    Transition, limits,
};

const TIMEOUTS: ActivityTimeouts = ActivityTimeouts {
    schedule_to_start: Some(Duration::from_secs(10)),
    start_to_close: Some(Duration::from_secs(20)),
    schedule_to_close: Some(Duration::from_secs(40)),
    heartbeat: None,
};

/// Returns a run whose activity waits for a runner and whose turn is held.
fn waits() -> Scene {
    scene().decide([schedule_with("a", TIMEOUTS)]).then(&signal("go")).take()
}

/// Returns a run whose activity and turn are held.
fn is_held() -> Scene {
    waits().takes("a")
}

fn manually(act: ActivityCommand) -> Command {
    let (activity_id, operator) = ("a".to_owned(), OperatorAction::default());
    Command::ActOnActivity { activity_id, act, operator, key: None }
}

fn poll(scheduled_event_id: u64) -> Command {
    Command::StartActivity { scheduled_event_id, identity: None, poll: None }
}

const IN_USE: &str = "DeciderCompleted ActivityScheduleFailed(a, ActivityIdAlreadyInUse) DeciderScheduled";

#[test]
fn table_of_an_activity_that_is_not_open() {
    let given = scene().take();
    check(&given, &given.complete([schedule("a")]), "DeciderCompleted ActivityScheduled(a)");
    let failed = "DeciderCompleted ActivityTaskCancelFailed(a, ActivityIdUnknown) DeciderScheduled";
    check(&given, &given.complete([cancel("a")]), failed);
    check(&given, &poll(5), "fault activity-not-waiting");
    check(&given, &succeed(NO_TASK), "fault activity-closed");
    check(&given, &fail(NO_TASK), "fault activity-closed");
}

#[test]
fn table_of_a_waiting_activity() {
    let given = waits();
    check(&given, &given.complete([schedule("a")]), IN_USE);
    let canceled = "DeciderCompleted ActivityTaskCancel(a) ActivityCanceled DeciderScheduled";
    check(&given, &given.complete([cancel("a")]), canceled);
    check(&given, &given.start_activity("a"), "ActivityStarted");
    check(&given, &succeed(NO_TASK), "fault activity-closed");
    fires(&given, 10, "ActivityScheduledTimeout DeciderScheduled");
    let timeouts = ActivityTimeouts { schedule_to_start: None, ..TIMEOUTS };
    let given = scene().decide([schedule_with("a", timeouts)]);
    fires(&given, 40, "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
    assert!(given.then(&terminate()).run.activities.is_empty());
}

#[test]
fn table_of_a_held_activity() {
    let given = is_held();
    check(&given, &given.complete([schedule("a")]), IN_USE);
    check(&given, &given.complete([cancel("a")]), "DeciderCompleted ActivityTaskCancel(a)");
    check(&given, &given.start_activity("a"), "fault activity-not-waiting");
    check(&given, &given.succeed("a"), "ActivitySuccess DeciderScheduled");
    check(&given, &given.fail("a"), "ActivityFailed DeciderScheduled");
    check(&given, &given.canceled("a"), "fault cancel-not-requested");
    let requested = given.clone().decide([cancel("a")]);
    check(&requested, &requested.canceled("a"), "ActivityCanceled DeciderScheduled");
    fires(
        &scene().decide([schedule_with("a", TIMEOUTS)]).takes("a"),
        20,
        "ActivityTimedOut(StartToClose) DeciderScheduled",
    );
    assert!(given.then(&terminate()).run.activities.is_empty());
}

#[test]
fn table_of_a_paused_activity() {
    let given = waits().then(&manually(ActivityCommand::Pause));
    check(&given, &given.complete([schedule("a")]), IN_USE);
    let canceled = "DeciderCompleted ActivityTaskCancel(a) ActivityCanceled DeciderScheduled";
    check(&given, &given.complete([cancel("a")]), canceled);
    check(&given, &given.start_activity("a"), "fault activity-not-waiting");
    let given = scene().decide([schedule_with("a", TIMEOUTS)]).then(&manually(ActivityCommand::Pause));
    fires(&given, 40, "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
    assert!(given.then(&terminate()).run.activities.is_empty());
    let given = is_held().then(&manually(ActivityCommand::Pause));
    check(&given, &given.complete([cancel("a")]), "DeciderCompleted ActivityTaskCancel(a)");
    check(&given, &given.succeed("a"), "ActivitySuccess DeciderScheduled");
    check(&given, &given.fail("a"), "ActivityFailed DeciderScheduled");
}

const NO_TASK: TaskId = TaskId { scheduled_event_id: 5, started_event_id: 99, start: 0 };

#[test]
fn a_runner_takes_an_activity_once() {
    let given = scene().decide([schedule("a")]);
    check(&given, &given.start_activity("a"), "ActivityStarted");
    check(
        &given,
        &Command::StartActivity { scheduled_event_id: 4, identity: None, poll: None },
        "fault activity-not-waiting",
    );
    let taken = given.clone().takes("a");
    check(&taken, &given.start_activity("a"), "fault activity-not-waiting");
    assert_eq!(given.run.waiting_tasks().count(), 1);
    assert_eq!(taken.run.waiting_tasks().count(), 0);
}

#[test]
fn a_result_is_accepted_once_and_schedules_a_turn() {
    let given = scene().decide([schedule("a"), schedule("b")]).takes("a").takes("b");
    check(&given, &given.succeed("a"), "ActivitySuccess DeciderScheduled");
    check(&given, &given.fail("a"), "ActivityFailed DeciderScheduled");
    check(&given, &given.canceled("a"), "fault cancel-not-requested");
    let returned = Command::ReturnActivity { task: given.task("a"), poll: None };
    check(&given, &returned, "ActivityTimedOut(StartToClose, DeliveryFailed) DeciderScheduled");
    let answered = given.clone().succeeds("a");
    check(&answered, &given.succeed("b"), "ActivitySuccess");
    for stale in [given.task("a"), NO_TASK, TaskId { scheduled_event_id: 4, started_event_id: 7, start: 0 }] {
        check(&answered, &succeed(stale), "fault activity-closed");
        check(&answered, &fail(stale), "fault activity-closed");
        check(&answered, &Command::CancelActivity { task: stale, details: None }, "fault activity-closed");
        check(&answered, &Command::ReturnActivity { task: stale, poll: None }, "fault activity-closed");
    }
    // A task that combines one activity with the start of another is refused.
    let other = TaskId { started_event_id: 99, ..given.task("b") };
    check(&given, &succeed(other), "fault activity-closed");
    check(&given, &fail(other), "fault activity-closed");
    // A waiting activity accepts no result.
    let waiting = scene().decide([schedule("a")]);
    check(&waiting, &succeed(NO_TASK), "fault activity-closed");
}

#[test]
fn a_runner_may_ignore_a_cancel_request() {
    let given = scene().decide([schedule("a")]).takes("a").then(&signal("stop")).decide([cancel("a")]);
    check(&given, &given.canceled("a"), "ActivityCanceled DeciderScheduled");
    check(&given, &given.succeed("a"), "ActivitySuccess DeciderScheduled");
    check(&given, &given.fail("a"), "ActivityFailed DeciderScheduled");
}

const NONE: ActivityTimeouts =
    ActivityTimeouts { schedule_to_start: None, start_to_close: None, schedule_to_close: None, heartbeat: None };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn an_activity_not_taken_in_time_times_out() {
    let timeouts = ActivityTimeouts { schedule_to_start: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]);
    fires(&given, 10, "ActivityScheduledTimeout DeciderScheduled");
    let taken = given.after(9).takes("a").after(1);
    check(&taken, &taken.fire(), "");
}

#[test]
fn an_activity_without_a_result_in_time_times_out() {
    let timeouts = ActivityTimeouts { start_to_close: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]).after(100);
    check(&given, &given.fire(), "");
    fires(&given.takes("a"), 10, "ActivityTimedOut(StartToClose) DeciderScheduled");
}

#[test]
fn schedule_to_close_applies_started_or_not() {
    let timeouts = ActivityTimeouts { schedule_to_close: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]);
    fires(&given, 10, "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
    fires(&given.after(4).takes("a"), 6, "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
}

#[test]
fn an_activity_without_a_heartbeat_in_time_times_out() {
    let timeouts = ActivityTimeouts { heartbeat: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]).after(100);
    check(&given, &given.fire(), "");
    let given = given.takes("a");
    fires(&given, 10, "ActivityTimedOut(Heartbeat) DeciderScheduled");
    // Each heartbeat postpones the deadline. The timeout event records the details of the last heartbeat.
    let given = given.after(9).heartbeat("a", "7");
    fires(&given, 10, "ActivityTimedOut(Heartbeat, 7) DeciderScheduled");
    let given = given.after(9).heartbeat("a", "8");
    fires(&given, 10, "ActivityTimedOut(Heartbeat, 8) DeciderScheduled");
    // A heartbeat of another activity does not count, so the timeout expires earlier.
    let mut given = given;
    given.heartbeats[0].scheduled_event_id += 1;
    check(&given, &given.fire(), "ActivityTimedOut(Heartbeat) DeciderScheduled");
}

#[test]
fn heartbeat_details_are_in_every_timeout() {
    let timeouts = ActivityTimeouts { start_to_close: Some(seconds(10)), heartbeat: Some(seconds(60)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]).takes("a").after(9).heartbeat("a", "[1]").after(1);
    check(&given, &given.fire(), "ActivityTimedOut(StartToClose, [1]) DeciderScheduled");
}

#[test]
fn a_heartbeat_before_the_start_does_not_count() {
    let timeouts = ActivityTimeouts { heartbeat: Some(seconds(10)), ..NONE };
    let mut given = scene().decide([schedule_with("a", timeouts)]).takes("a");
    given.heartbeats = vec![crate::Heartbeat {
        scheduled_event_id: given.scheduled("a"),
        at: Timestamp::from_millis(0),
        details: None,
    }];
    fires(&given, 10, "ActivityTimedOut(Heartbeat) DeciderScheduled");
}

#[test]
fn of_two_timeouts_of_one_activity_only_the_first_is_recorded() {
    let timeouts = ActivityTimeouts {
        schedule_to_start: Some(seconds(5)),
        start_to_close: Some(seconds(10)),
        schedule_to_close: Some(seconds(10)),
        heartbeat: Some(seconds(10)),
    };
    let given = scene().decide([schedule_with("a", timeouts)]);
    let late = given.clone().after(100);
    check(&late, &late.fire(), "ActivityScheduledTimeout DeciderScheduled");
    let late = given.takes("a").after(100);
    check(&late, &late.fire(), "ActivityTimedOut(Heartbeat) DeciderScheduled");
}

#[test]
fn a_late_answer_to_a_timed_out_activity_is_refused() {
    let timeouts = ActivityTimeouts { start_to_close: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]).takes("a").after(10);
    let answer = given.succeed("a");
    let given = given.clone().then(&given.fire());
    check(&given, &answer, "fault activity-closed");
}

#[test]
fn canceling_a_waiting_activity_closes_it_at_once() {
    let busy = scene().decide([schedule("a")]).then(&signal("stop")).take();
    check(
        &busy,
        &busy.complete([cancel("a")]),
        "DeciderCompleted ActivityTaskCancel(a) ActivityCanceled DeciderScheduled",
    );
    check(
        &busy,
        &busy.complete([cancel("a"), schedule("a")]),
        "DeciderCompleted ActivityTaskCancel(a) ActivityCanceled ActivityScheduled(a) DeciderScheduled",
    );
    // The decider expects its own cancellation, so it may close the run in the same answer.
    check(
        &busy,
        &busy.complete([cancel("a"), success()]),
        "DeciderCompleted ActivityTaskCancel(a) ActivityCanceled WorkflowSuccess",
    );
    check(
        &busy,
        &busy.complete([schedule("b"), cancel("b"), success()]),
        "DeciderCompleted ActivityScheduled(b) ActivityTaskCancel(b) ActivityCanceled WorkflowSuccess",
    );
}

#[test]
fn canceling_a_held_activity_only_requests_it() {
    let given = scene().decide([schedule("a")]).takes("a").then(&signal("stop")).take();
    check(&given, &given.complete([cancel("a")]), "DeciderCompleted ActivityTaskCancel(a)");
    let given = given.decide([cancel("a")]);
    let cancel_event_id = given.run.activity("a").unwrap().1.cancel_event_id;
    assert_eq!(cancel_event_id, Some(given.events.last().unwrap().id));
    // A second request to stop is also recorded.
    let given = given.then(&signal("stop!")).take();
    check(&given, &given.complete([cancel("a")]), "DeciderCompleted ActivityTaskCancel(a)");
}

#[test]
fn activity_timeouts_default_to_those_of_the_start() {
    let all = |seconds| {
        let span = Some(Duration::from_secs(seconds));
        ActivityTimeouts { schedule_to_start: span, start_to_close: span, schedule_to_close: span, heartbeat: span }
    };
    let mine = ActivityTimeouts { heartbeat: Some(Duration::from_secs(1)), ..ActivityTimeouts::default() };
    for (start, decision, expected) in [
        (all(9), ActivityTimeouts::default(), all(9)),
        (all(9), all(5), all(5)),
        (all(9), mine, ActivityTimeouts { heartbeat: mine.heartbeat, ..all(9) }),
        (ActivityTimeouts::default(), mine, mine),
    ] {
        let given = Scene::of(&Start { activity_timeouts: start, ..plain() });
        let given = given.decide([schedule_with("a", decision)]);
        assert_eq!(given.run.activity("a").unwrap().1.timeouts, expected);
    }
    let default = Start::new("w", "t", "l").activity_timeouts;
    assert_eq!(default.start_to_close, Some(limits::ACTIVITY_START_TO_CLOSE_DEFAULT));
}

#[test]
fn the_task_list_of_an_activity_defaults_to_the_run_s() {
    let pci = Decision::from(ScheduleActivity {
        activity_id: "charge".to_owned(),
        activity_type: "Charge".to_owned(),
        task_list: Some("PCI".to_owned()),
        input: Some(Payload::from_json("{\"n\": 1.0}").unwrap()),
        ..ScheduleActivity::default()
    });
    let given = scene().decide([pci, schedule("a")]);
    assert_eq!(given.run.activity("charge").unwrap().1.task_list, "PCI");
    assert_eq!(given.run.activity("a").unwrap().1.task_list, "orders");
    let input = given.events.iter().find_map(|event| match &event.kind {
        EventKind::ActivityScheduled(it) if it.activity_id == "charge" => it.input.clone(),
        _ => None,
    });
    assert_eq!(input.unwrap().text(), Some("{\"n\": 1.0}"));
}

#[test]
fn open_activities_are_limited() {
    let busy = scene().take();
    let ids = (0..limits::OPEN_ACTIVITIES_MAX).map(|index| schedule(&format!("a{index}"))).collect();
    let full = busy.clone().then(&complete(busy.turn(), ids)).then(&signal("go")).take();
    assert_eq!(full.run.activities.len(), limits::OPEN_ACTIVITIES_MAX);
    check(
        &full,
        &full.complete([schedule("x")]),
        "DeciderCompleted ActivityScheduleFailed(x, OpenActivitiesLimit) DeciderScheduled",
    );
    check(
        &full,
        &full.complete([cancel("a0"), schedule("x")]),
        "DeciderCompleted ActivityTaskCancel(a0) ActivityCanceled ActivityScheduled(x) DeciderScheduled",
    );
}

#[test]
fn an_activity_has_its_own_concurrency_key_or_the_runs() {
    let with_key = |id: &str, key: Option<&str>| {
        let concurrency_key = key.map(str::to_owned);
        Decision::from(ScheduleActivity {
            activity_id: id.to_owned(),
            activity_type: "t".to_owned(),
            concurrency_key,
            ..ScheduleActivity::default()
        })
    };
    let of_run = |key: Option<&str>| {
        let start = Start { concurrency_key: key.map(str::to_owned), ..plain() };
        Scene::of(&start).decide([with_key("own", Some("visa")), with_key("none", None)]).run
    };
    for (run, expected) in [(of_run(Some("ada")), ["visa", "ada"]), (of_run(None), ["visa", ""])] {
        let keys = ["own", "none"].map(|id| {
            let activity = run.activity(id).unwrap().1;
            run.key_of(activity).unwrap_or_default().to_owned()
        });
        assert_eq!(keys, expected);
    }
}

#[test]
fn a_concurrency_key_is_checked_like_a_name() {
    for (key, is_valid) in [
        ("k".to_owned(), true),
        ("k".repeat(limits::NAME_CHARS_MAX), true),
        ("k".repeat(limits::NAME_CHARS_MAX + 1), false),
        (String::new(), false),
        ("..".to_owned(), false),
        ("a\nb".to_owned(), false),
    ] {
        let concurrency_key = Some(key.clone());
        let started = Transition::start(&Start { concurrency_key, ..plain() }, uuid::Uuid::nil(), Timestamp::default());
        assert_eq!(started.is_ok(), is_valid, "{key:?} of a start");
        let given = scene().take();
        let activity = ScheduleActivity {
            activity_id: "a".to_owned(),
            activity_type: "t".to_owned(),
            concurrency_key: Some(key.clone()),
            ..ScheduleActivity::default()
        };
        let admitted = given.clone().admit(&given.complete([activity.into()]));
        assert_eq!(admitted.is_ok(), is_valid, "{key:?} of an activity");
    }
}
