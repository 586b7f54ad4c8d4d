//! Every decision, every way in which one fails, and closing.

use crate::decision::{CancelWorkflow, FailWorkflow};
use crate::event::{ActivityTimeouts, EventKind};
use crate::scene::{
    Scene, cancel, cancel_timer, cancellation, check, complete, failure, marker, plain, scene, schedule, schedule_with,
    signal, success, success_by_force, timer,
};
use crate::{Decision, Duration, Payload, ScheduleActivity, Start, Status, limits};

#[test]
fn a_decision_is_recorded_behind_its_turn() {
    let busy = scene().take();
    check(&busy, &busy.complete([schedule("a")]), "DeciderCompleted ActivityScheduled(a)");
    check(&busy, &busy.complete([timer("t", 1)]), "DeciderCompleted TimerScheduled(t)");
    check(&busy, &busy.complete([marker("m")]), "DeciderCompleted Marker(m)");
    check(&busy, &busy.complete([success()]), "DeciderCompleted WorkflowSuccess");
    check(&busy, &busy.complete([failure()]), "DeciderCompleted WorkflowFailed(no stock)");
    check(&busy, &busy.complete([cancellation()]), "DeciderCompleted WorkflowCanceled");
    check(&busy, &busy.complete([]), "DeciderCompleted");
    check(
        &busy,
        &busy.complete([marker("m"), schedule("b"), schedule("a"), timer("t", 1)]),
        "DeciderCompleted Marker(m) ActivityScheduled(b) ActivityScheduled(a) TimerScheduled(t)",
    );
    for (decision, status) in
        [(success(), Status::Success), (failure(), Status::Failed), (cancellation(), Status::Canceled)]
    {
        let closed = busy.clone().decide([decision]);
        assert_eq!(closed.run.status, status);
        assert_eq!(closed.run.closed_at, Some(closed.now));
        assert_eq!(closed.run.expires_at(), Some(closed.now.plus(limits::RETENTION_DEFAULT)));
    }
}

#[test]
fn a_decision_that_fails_is_recorded_and_schedules_a_turn() {
    let busy = scene().decide([schedule("a"), timer("t", 9)]).then(&signal("go")).take();
    for (decision, then) in [
        (schedule("a"), "ActivityScheduleFailed(a, ActivityIdAlreadyInUse)"),
        (cancel("b"), "ActivityTaskCancelFailed(b, ActivityIdUnknown)"),
        (timer("t", 1), "TimerScheduleFailed(t, TimerIdAlreadyInUse)"),
        (cancel_timer("u"), "TimerCancelFailed(u, TimerIdUnknown)"),
        (marker("baton.m"), "MarkerFailed(baton.m, NameReserved)"),
    ] {
        check(&busy, &busy.complete([decision]), &format!("DeciderCompleted {then} DeciderScheduled"));
    }
    // One turn for all of them, behind the last.
    check(
        &busy,
        &busy.complete([cancel("b"), marker("m"), cancel_timer("u")]),
        "DeciderCompleted ActivityTaskCancelFailed(b, ActivityIdUnknown) Marker(m) TimerCancelFailed(u, TimerIdUnknown) \
         DeciderScheduled",
    );
}

#[test]
fn an_id_is_free_again_once_its_activity_or_timer_has_ended() {
    let busy = scene().decide([schedule("a"), timer("t", 9)]).takes("a").succeeds("a").take();
    check(&busy, &busy.complete([schedule("a")]), "DeciderCompleted ActivityScheduled(a)");
    check(
        &busy,
        &busy.complete([cancel_timer("t"), timer("t", 1)]),
        "DeciderCompleted TimerCanceled(t) TimerScheduled(t)",
    );
    check(
        &busy,
        &busy.complete([schedule("b"), schedule("b")]),
        "DeciderCompleted ActivityScheduled(b) ActivityScheduleFailed(b, ActivityIdAlreadyInUse) DeciderScheduled",
    );
    let late = busy.after(9);
    let late = late.clone().then(&late.fire());
    check(&late, &late.complete([cancel_timer("t")]), "DeciderCompleted TimerCancelFailed(t, TimerIdUnknown)");
}

#[test]
fn a_timer_taken_back_causes_neither_expiry_nor_turn() {
    let given = scene().decide([timer("t", 9)]).then(&signal("stop")).decide([cancel_timer("t")]).after(9);
    check(&given, &given.fire(), "");
    assert!(given.run.turn_task.is_none());
}

#[test]
fn canceling_an_activity_that_nobody_took_ends_it_on_the_spot() {
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
    // The decider knows what it did: this alone is no unseen news.
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
fn canceling_an_activity_that_a_runner_has_only_asks() {
    let given = scene().decide([schedule("a")]).takes("a").then(&signal("stop")).take();
    check(&given, &given.complete([cancel("a")]), "DeciderCompleted ActivityTaskCancel(a)");
    let given = given.decide([cancel("a")]);
    let cancel_event_id = given.run.activity("a").unwrap().1.cancel_event_id;
    assert_eq!(cancel_event_id, Some(given.events.last().unwrap().id));
    // Asked twice, it is recorded twice.
    let given = given.then(&signal("stop!")).take();
    check(&given, &given.complete([cancel("a")]), "DeciderCompleted ActivityTaskCancel(a)");
}

#[test]
fn a_close_with_unseen_news_fails_unless_forced() {
    let busy = scene().take().then(&signal("late"));
    let forced: [Decision; 3] = [
        success_by_force(),
        FailWorkflow { reason: "r".to_owned(), details: None, force: true }.into(),
        CancelWorkflow { details: None, force: true }.into(),
    ];
    // The turn that the news scheduled waits already; it is the new turn.
    check(&busy, &busy.complete([success()]), "DeciderCompleted WorkflowCloseFailed(SucceedWorkflow)");
    check(&busy, &busy.complete([failure()]), "DeciderCompleted WorkflowCloseFailed(FailWorkflow)");
    check(&busy, &busy.complete([cancellation()]), "DeciderCompleted WorkflowCloseFailed(CancelWorkflow)");
    for (decision, then) in forced.into_iter().zip(["WorkflowSuccess", "WorkflowFailed(r)", "WorkflowCanceled"]) {
        check(&busy, &busy.complete([decision]), &format!("DeciderCompleted {then}"));
    }
    let again = busy.decide([success()]).take();
    check(&again, &again.complete([success()]), "DeciderCompleted WorkflowSuccess");
}

#[test]
fn every_kind_of_news_holds_a_close_up() {
    let given = scene().decide([schedule("a"), schedule("b"), timer("t", 9)]).takes("a").then(&signal("go")).take();
    let (on_time, due) = (given.clone(), given.after(9));
    for (given, news) in [
        (&on_time, signal("late")),
        (&on_time, crate::scene::request_cancel()),
        (&on_time, on_time.succeed("a")),
        (&on_time, on_time.fail("a")),
        (&due, due.fire()),
    ] {
        let given = given.clone().then(&news);
        check(&given, &given.complete([success()]), "DeciderCompleted WorkflowCloseFailed(SucceedWorkflow)");
    }
    // That a runner took an activity is no news.
    let given = on_time.takes("b");
    check(&given, &given.complete([success()]), "DeciderCompleted WorkflowSuccess");
}

#[test]
fn a_close_behind_a_decision_that_failed_fails_too() {
    let busy = scene().take();
    check(
        &busy,
        &busy.complete([cancel_timer("t"), success()]),
        "DeciderCompleted TimerCancelFailed(t, TimerIdUnknown) WorkflowCloseFailed(SucceedWorkflow) DeciderScheduled",
    );
    check(
        &busy,
        &busy.complete([cancel("a"), success_by_force()]),
        "DeciderCompleted ActivityTaskCancelFailed(a, ActivityIdUnknown) WorkflowSuccess",
    );
}

#[test]
fn a_close_that_is_not_last_is_refused_with_the_whole_answer() {
    let busy = scene().take();
    check(&busy, &busy.complete([success(), marker("m")]), "fault invalid-field");
    check(&busy, &busy.complete([success(), success()]), "fault invalid-field");
    check(&busy, &busy.complete([marker("m"), success_by_force(), schedule("a")]), "fault invalid-field");
}

#[test]
fn an_activity_has_its_own_timeouts_and_else_those_of_the_start() {
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
fn an_activity_waits_on_its_own_list_and_else_on_the_run_s() {
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
fn no_more_activities_are_open_than_may_be() {
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
fn no_more_timers_are_open_than_may_be() {
    let busy = scene().take();
    let ids = (0..limits::OPEN_TIMERS_MAX).map(|index| timer(&format!("t{index}"), 9)).collect();
    let full = busy.clone().then(&complete(busy.turn(), ids)).then(&signal("go")).take();
    assert_eq!(full.run.timers.len(), limits::OPEN_TIMERS_MAX);
    check(
        &full,
        &full.complete([timer("x", 1)]),
        "DeciderCompleted TimerScheduleFailed(x, OpenTimersLimit) DeciderScheduled",
    );
    check(
        &full,
        &full.complete([cancel_timer("t0"), timer("x", 1)]),
        "DeciderCompleted TimerCanceled(t0) TimerScheduled(x)",
    );
}
