//! Paused runs, with their clocks running or stopped.

use crate::event::{ActivityTimeouts, EventKind};
use crate::scene::{
    Scene, check, fail_with, pause, plain, request_cancel, resume, scene, schedule, schedule_with, schedule_with_retry,
    signal, stop, success, summary, terminate, timer,
};
use crate::{Command, ContinueAsNew, Duration, RetryPolicy, RunCondition, Start, Transition, limits};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn table_of_open_paused_and_closed_runs() {
    let open = scene().take();
    for pause in [pause(), stop()] {
        check(&open, &pause, "WorkflowPaused");
        check(&open, &resume(), "fault not-paused");
        let paused = open.clone().then(&pause);
        check(&paused, &pause, "fault already-paused");
        check(&paused, &resume(), "WorkflowResumed");
        let closed = paused.then(&terminate());
        assert_eq!(closed.run.paused, None);
        check(&closed, &pause, "fault run-closed");
        check(&closed, &resume(), "fault run-closed");
    }
}

#[test]
fn tasks_of_a_paused_run_wait_for_the_resume() {
    for command in [pause(), stop()] {
        let given = scene().decide([schedule("a")]).then(&signal("s"));
        let (turn, activity) = (given.start_turn(), given.start_activity("a"));
        let paused = given.then(&command);
        assert_eq!((paused.run.condition(), paused.run.waiting_tasks().count()), (RunCondition::Paused, 0));
        check(&paused, &turn, "fault turn-not-waiting");
        check(&paused, &activity, "fault activity-not-waiting");
        check(&paused, &command, "fault already-paused");
        // New events are recorded, and the turns that they schedule wait.
        check(&paused, &signal("t"), "Signal(t)");
        check(&paused, &request_cancel(), "WorkflowCancelRequested");
        let resumed = paused.then(&signal("t")).then(&resume());
        assert_eq!((resumed.run.condition(), resumed.run.waiting_tasks().count()), (RunCondition::Open, 2));
        check(&resumed, &turn, "DeciderStarted");
        check(&resumed, &activity, "ActivityStarted");
        check(&resumed, &resume(), "fault not-paused");
    }
    // An external event still schedules a turn, which waits.
    check(&scene().decide([]).then(&pause()), &signal("s"), "Signal(s) DeciderScheduled");
    let EventKind::WorkflowPaused(paused) = &scene().then(&stop()).events[2].kind else { panic!() };
    assert_eq!((paused.stop_clocks, paused.identity.as_deref()), (true, Some("ann")));
}

#[test]
fn held_tasks_of_a_paused_run_can_be_completed() {
    let given = scene().decide([schedule("a"), schedule("b")]).takes("a").then(&signal("s")).take().then(&stop());
    check(&given, &given.succeed("a"), "ActivitySuccess DeciderScheduled");
    let decided = given.complete([schedule("c"), timer("t", 60)]);
    check(&given, &decided, "DeciderCompleted ActivityScheduled(c) TimerScheduled(t)");
    check(&given, &given.complete([success()]), "DeciderCompleted WorkflowSuccess");
    check(&given, &terminate(), "WorkflowTerminated");
    assert_eq!(given.clone().then(&terminate()).run.condition(), RunCondition::Closed(crate::Status::Terminated));
    check(&given.clone().then(&terminate()), &resume(), "fault run-closed");
    let decided = given.clone().then(&decided);
    let start = decided.start_activity("c");
    check(&decided, &start, "fault activity-not-waiting");
    check(&decided.then(&resume()), &start, "ActivityStarted");
    // A failed attempt is not retried while the run is paused.
    let tried =
        scene().decide([schedule_with_retry("a", RetryPolicy::default(), ActivityTimeouts::default())]).takes("a");
    let tried = tried.then(&pause());
    let failed = tried.clone().then(&fail_with(tried.task("a"), "busy", None)).after(60);
    check(&failed, &failed.start_activity("a"), "fault activity-not-waiting");
    check(&failed, &failed.fire(), "");
    check(&failed.then(&resume()), &Command::StartActivity { scheduled_event_id: 5, identity: None, poll: None }, "");
}

#[test]
fn a_pause_without_a_stop_suspends_only_waits_for_workers() {
    let limits = ActivityTimeouts {
        schedule_to_start: Some(seconds(10)),
        schedule_to_close: Some(seconds(50)),
        ..ActivityTimeouts::default()
    };
    let start = Start { decider_schedule_to_start: Some(seconds(10)), ..plain() };
    let given = Scene::of(&start).decide([schedule_with("a", limits), timer("t", 30)]).then(&pause());
    let late = given.clone().after(40);
    check(&late, &late.fire(), "TimerExpired(t) DeciderScheduled");
    let later = late.then(&given.fire()).after(10);
    check(&later, &later.fire(), "ActivityTimedOut(ScheduleToClose)");
    let resumed = later.then(&resume()).after(9);
    check(&resumed, &resumed.fire(), "ActivityTimedOut(ScheduleToClose)");
    // The waits of the turn and of the activity count from the resume.
    let resumed = given.clone().after(45).then(&given.fire()).then(&resume());
    check(&resumed.clone().after(4), &resumed.fire(), "");
    let expected = "ActivityTimedOut(ScheduleToClose)";
    check(&resumed.clone().after(5), &resumed.fire(), expected);
    let expected = "ActivityTimedOut(ScheduleToClose) DeciderTimedOut(ScheduleToStart) DeciderScheduled";
    check(&resumed.clone().after(10), &resumed.fire(), expected);
    let waits = scene().decide([schedule_with("a", ActivityTimeouts { schedule_to_close: None, ..limits })]);
    let waits = waits.then(&pause()).after(100).then(&resume()).after(9);
    check(&waits, &waits.fire(), "");
    check(&waits.clone().after(1), &waits.fire(), "ActivityScheduledTimeout DeciderScheduled");
}

/// Stops the clock `before` seconds from now, for a thousand seconds. Checks that `what` then happens exactly `left`
/// seconds after the clock runs again.
#[track_caller]
fn shifts(given: &Scene, before: u64, left: u64, what: &str) {
    let given = given.clone().after(before).then(&stop());
    assert_eq!(given.run.deadlines(&given.heartbeats), [], "{what}");
    let given = given.after(1_000);
    check(&given, &given.fire(), "");
    let given = given.then(&resume()).after(left - 1);
    check(&given, &given.fire(), "");
    let given = given.after(1);
    check(&given, &given.fire(), what);
}

#[test]
fn deadlines_continue_after_a_stop_of_the_clock() {
    let start = Start { execution_timeout: seconds(100), decider_start_to_close: seconds(40), ..plain() };
    let run = Start { run_timeout: Some(seconds(90)), ..start.clone() };
    shifts(&Scene::of(&start).decide([]), 30, 70, "WorkflowTimedOut");
    shifts(&Scene::of(&run).decide([]), 30, 60, "WorkflowTimedOut");
    shifts(&Scene::of(&start).take(), 30, 10, "DeciderTimedOut(StartToClose) DeciderScheduled");
    shifts(&Scene::of(&start).decide([timer("t", 60)]), 30, 30, "TimerExpired(t) DeciderScheduled");
    let none = ActivityTimeouts::default();
    let one = |limits| Scene::of(&start).decide([schedule_with("a", limits)]).takes("a");
    let limits = ActivityTimeouts { start_to_close: Some(seconds(50)), ..none };
    shifts(&one(limits), 30, 20, "ActivityTimedOut(StartToClose) DeciderScheduled");
    let limits = ActivityTimeouts { schedule_to_close: Some(seconds(50)), ..none };
    shifts(&one(limits), 30, 20, "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
    let limits = ActivityTimeouts { heartbeat: Some(seconds(50)), ..none };
    let heartbeats = one(limits).after(20).heartbeat("a", "7");
    shifts(&heartbeats, 30, 20, "ActivityTimedOut(Heartbeat, 7) DeciderScheduled");
    // The clock is stopped twice, and a deadline is set during a stop.
    let twice = Scene::of(&start).decide([timer("t", 60)]).then(&stop()).after(500).then(&resume());
    shifts(&twice, 30, 30, "TimerExpired(t) DeciderScheduled");
    let given = Scene::of(&start).take().then(&stop()).after(500);
    let given = given.clone().then(&given.complete([timer("t", 20), timer("now", 0)])).after(500);
    check(&given, &given.fire(), "TimerExpired(now) DeciderScheduled");
    let given = given.clone().then(&given.fire()).then(&resume()).after(19);
    check(&given, &given.fire(), "");
    check(&given.clone().after(1), &given.fire(), "TimerExpired(t)");
}

#[test]
fn stops_of_the_clock_are_limited() {
    let mut given = scene();
    for _ in 0..limits::CLOCK_STOPS_MAX {
        given = given.then(&stop()).after(1).then(&resume());
    }
    check(&given, &stop(), "fault invalid-field");
    check(&given, &pause(), "WorkflowPaused");
}

#[test]
fn the_successor_of_a_paused_run_is_paused() {
    let start = Start { execution_timeout: seconds(100), ..plain() };
    let given = Scene::of(&start).after(10).take().then(&stop()).after(500);
    let closed = given.clone().then(&given.complete([ContinueAsNew::default().into()]));
    let EventKind::WorkflowContinuedAsNew(it) = closed.events.last().unwrap().kind.clone() else { panic!() };
    let (run, links, events) = Transition::successor(&closed.run, &it, None, None, closed.now).into_all();
    assert_eq!(summary(&events), "WorkflowStarted DeciderScheduled WorkflowPaused");
    let next = Scene { run: *run, links, events, ..closed }.after(1_000).then(&resume());
    assert_eq!(next.run.condition(), RunCondition::Open);
    // The clock had run for ten seconds before the pause, so ninety of the hundred seconds remain.
    let soon = next.after(89);
    check(&soon, &soon.fire(), "");
    check(&soon.clone().after(1), &soon.fire(), "WorkflowTimedOut");
}

#[test]
fn a_held_attempt_keeps_the_state_a_fold_of_its_history() {
    let again =
        scene().decide([schedule_with_retry("a", RetryPolicy::default(), ActivityTimeouts::default())]).takes("a");
    // Each step compares the state with the fold of the history.
    let resumed = again.then(&pause()).then(&resume());
    resumed.succeeds("a");
}
