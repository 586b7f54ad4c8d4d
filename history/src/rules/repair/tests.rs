//! Repair of runs that were changed while the clock was two days ahead.

use std::collections::BTreeMap;

use crate::event::ActivityTimeouts;
use crate::scene::{
    Scene, check, child, fail_with, failure, operator, pause, plain, request_cancel, resume, scene, schedule_with,
    schedule_with_retry, signal, stop, success, timer,
};
use crate::{
    ActivityCommand, Command, DeadlineKind, Duration, RetryPolicy, Start, Successor, Transition, UpcomingChange,
    UpcomingKind,
};

const TWO_DAYS: u64 = 172_800;

const NONE: ActivityTimeouts =
    ActivityTimeouts { schedule_to_start: None, start_to_close: None, schedule_to_close: None, heartbeat: None };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Runs `then` while the clock is two days ahead. A minute later, the clock is corrected.
fn ahead(given: Scene, then: impl FnOnce(Scene) -> Scene) -> Scene {
    then(given.after(TWO_DAYS)).after(60).put_back(TWO_DAYS)
}

fn command(given: &Scene) -> Command {
    Command::RepairDeadlines {
        heartbeats: given.heartbeats.clone(),
        timers: BTreeMap::new(),
        operator: operator(),
        key: None,
    }
}

/// Repairs the run twice, and again a second later. Checks that only the first repair changes anything.
fn repaired(given: Scene) -> Scene {
    let repair = command(&given);
    let now = given.now;
    let mut given = given.then(&repair);
    for heartbeat in &mut given.heartbeats {
        heartbeat.at = heartbeat.at.min(now);
    }
    let again = command(&given);
    for later in [0, 1, TWO_DAYS] {
        let given = given.clone().after(later);
        check(&given, &again, &format!("repeats {}", given.run.last_event_id));
    }
    assert_eq!(given.run.late_deadlines(&given.heartbeats, &given.links.outbox, given.now), []);
    given
}

/// Returns each late deadline, with the number of seconds until it is due before and after the repair.
fn late(given: &Scene) -> Vec<(UpcomingKind, u64, u64)> {
    let late = given.run.late_deadlines(&given.heartbeats, &given.links.outbox, given.now);
    let wait = |at: crate::Timestamp| at.since(given.now).as_millis() / 1_000;
    late.into_iter().map(|late| (late.what, wait(late.at), wait(late.repaired_at))).collect()
}

/// Returns the seconds until each upcoming change of a wanted kind.
fn due_in(given: &Scene, wanted: impl Fn(&UpcomingKind) -> bool) -> Vec<u64> {
    let future =
        given.run.future(&given.heartbeats, &given.links.outbox, crate::StoppedLists::NONE, given.now).into_iter();
    future
        .filter(|UpcomingChange { what, .. }| wanted(what))
        .map(|it| it.at.since(given.now).as_millis() / 1_000)
        .collect()
}

/// Checks that exactly one deadline of a wanted kind is two days late, and that it is due `after` seconds after the
/// repair.
#[track_caller]
fn comes_back(given: Scene, after: u64, wanted: impl Fn(&UpcomingKind) -> bool) -> Scene {
    let found: Vec<_> = late(&given).into_iter().filter(|(what, ..)| wanted(what)).collect();
    let [(_, before, repaired_in)] = found.as_slice() else { panic!("{found:?} of {:?}", late(&given)) };
    assert!((TWO_DAYS + after - 60..=TWO_DAYS + after).contains(before), "{before}");
    assert_eq!(*repaired_in, after);
    let given = repaired(given);
    assert_eq!(due_in(&given, wanted), [after]);
    given
}

fn deadline(wanted: fn(&DeadlineKind) -> bool) -> impl Fn(&UpcomingKind) -> bool {
    move |coming| matches!(coming, UpcomingKind::Deadline(kind) if wanted(kind))
}

#[test]
fn timers_set_ahead_restart_at_the_repair() {
    let given = ahead(scene(), |given| given.decide([timer("t", 9)]));
    check(&given, &command(&given), "WorkflowPaused WorkflowResumed");
    let given = comes_back(given, 9, deadline(|kind| matches!(kind, DeadlineKind::Timer { .. })));
    check(&given.clone().after(8), &given.fire(), "");
    check(&given.clone().after(9), &given.fire(), "TimerExpired(t) DeciderScheduled");
    assert!(serde_json::to_string(&given.events).unwrap().contains(r#""repairsDeadlines":true"#));
}

#[test]
fn timeouts_and_retries_of_activities_count_from_the_repair() {
    use DeadlineKind as Kind;
    let with = |timeouts| move |given: Scene| given.decide([schedule_with("a", timeouts)]);
    let given = ahead(scene(), with(ActivityTimeouts { schedule_to_start: Some(seconds(5)), ..NONE }));
    comes_back(given, 5, deadline(|kind| matches!(kind, Kind::ActivityScheduleToStart { .. })));
    let given = ahead(scene(), with(ActivityTimeouts { schedule_to_close: Some(seconds(6)), ..NONE }));
    let given = comes_back(given, 6, deadline(|kind| matches!(kind, Kind::ActivityScheduleToClose { .. })));
    check(&given.clone().after(6), &given.fire(), "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
    let both = ActivityTimeouts { start_to_close: Some(seconds(8)), heartbeat: Some(seconds(3)), ..NONE };
    let held = ahead(scene(), |given| with(both)(given).takes("a"));
    comes_back(held.clone(), 8, deadline(|kind| matches!(kind, Kind::ActivityStartToClose { .. })));
    comes_back(held, 3, deadline(|kind| matches!(kind, Kind::ActivityHeartbeat { .. })));
    // A heartbeat is recorded while the clock is ahead. Then the runner crashes.
    let heartbeats = ActivityTimeouts { heartbeat: Some(seconds(3)), ..NONE };
    let beaten = ahead(with(heartbeats)(scene()).takes("a"), |given| given.heartbeat("a", "1"));
    let given = comes_back(beaten, 3, deadline(|kind| matches!(kind, Kind::ActivityHeartbeat { .. })));
    check(&given.clone().after(3), &given.fire(), "ActivityTimedOut(Heartbeat, 1) DeciderScheduled");

    let retry = RetryPolicy { initial_interval: seconds(7), ..RetryPolicy::default() };
    let failed = |after: Option<u64>| {
        let retry = retry.clone();
        move |given: Scene| {
            let given = given.decide([schedule_with_retry("a", retry, NONE)]).takes("a");
            given.clone().then(&fail_with(given.task("a"), "r", after.map(seconds)))
        }
    };
    for (after, given) in [
        (7, ahead(scene(), failed(None))),
        (4, ahead(scene(), failed(Some(4)))),
        // The activity was scheduled by the correct clock, so no event shows that the clock was ahead afterwards.
        (
            7,
            ahead(scene().decide([schedule_with_retry("a", retry.clone(), NONE)]).takes("a"), |given| {
                given.clone().then(&fail_with(given.task("a"), "r", None))
            }),
        ),
    ] {
        let given = comes_back(given, after, deadline(|kind| matches!(kind, Kind::ActivityRetry { .. })));
        check(&given, &given.start_activity("a"), "fault activity-not-waiting");
        let given = given.after(after);
        let given = given.clone().then(&given.fire());
        given.clone().takes("a").succeeds("a");
    }
}

#[test]
fn turns_delayed_ahead_restart_their_delay_at_the_repair() {
    let given = ahead(scene(), Scene::take);
    comes_back(given, 30, deadline(|kind| matches!(kind, DeadlineKind::TurnStartToClose { .. })));
    let given = ahead(scene(), |given| given.clone().take().then(&given.take().fail_turn()));
    let given = comes_back(given, 1, |coming| matches!(coming, UpcomingKind::TurnRetry { .. }));
    check(&given, &given.start_turn(), "fault turn-not-waiting");
    given.after(1).take();
    let waits = Start { decider_schedule_to_start: Some(seconds(50)), ..plain() };
    let given = ahead(Scene::of(&waits).decide([]), |given| given.then(&signal("s")));
    comes_back(given, 50, deadline(|kind| matches!(kind, DeadlineKind::TurnScheduleToStart { .. })));
}

/// Returns a run that was started while the clock was ahead.
fn started_ahead(start: &Start) -> Scene {
    let mut given = Scene::of(start);
    let began = given.now.plus(seconds(TWO_DAYS));
    let (run, events) = Transition::start(start, uuid::Uuid::nil(), began).unwrap().into_parts();
    (given.run, given.events) = (run, events);
    given.after(60)
}

#[test]
fn a_run_started_ahead_counts_from_the_repair() {
    let start = Start { run_timeout: Some(seconds(600)), execution_timeout: seconds(3_000), ..plain() };
    let given = started_ahead(&start);
    comes_back(given.clone(), 600, deadline(|kind| *kind == DeadlineKind::Run));
    let given = comes_back(given, 3_000, deadline(|kind| *kind == DeadlineKind::Execution));
    check(&given.clone().after(600), &given.fire(), "WorkflowTimedOut");
    let delayed = Start { start_after: Some(seconds(100)), ..start.clone() };
    let given = started_ahead(&delayed);
    comes_back(given.clone(), 100, |coming| matches!(coming, UpcomingKind::FirstTurn { .. }));
    let given = comes_back(given, 700, deadline(|kind| *kind == DeadlineKind::Run));
    assert_eq!(due_in(&given, deadline(|kind| *kind == DeadlineKind::Execution)), [3_100]);
    check(&given.clone().after(99), &given.start_turn(), "fault turn-not-waiting");
    given.clone().after(100).take();
    // The cancel request makes the first turn available. The timeouts count from the request.
    let released = given.after(20).then(&request_cancel());
    assert_eq!(due_in(&released, deadline(|kind| *kind == DeadlineKind::Run)), [600]);
    assert_eq!(due_in(&released, deadline(|kind| *kind == DeadlineKind::Execution)), [3_000]);
    let released = started_ahead(&delayed).then(&request_cancel());
    assert_eq!(due_in(&released, deadline(|kind| *kind == DeadlineKind::Run)), [600], "without a repair");
}

#[test]
fn a_retry_begun_ahead_restarts_its_backoff_at_the_repair() {
    let retry = RetryPolicy { initial_interval: seconds(700), ..RetryPolicy::default() };
    let start = Start { retry: Some(retry), run_timeout: Some(seconds(60)), ..plain() };
    let before = Scene::of(&start).after(TWO_DAYS).decide([failure()]);
    let Successor { run_id, not_before: at } = before.events.last().unwrap().kind.followed_by().unwrap();
    let next = Transition::retry(&before.run, run_id, None, at.unwrap(), None, before.now);
    let (run, events) = next.into_parts();
    let given = Scene { run, events, ..before }.after(60).put_back(TWO_DAYS);
    let given = comes_back(given, 700, |coming| matches!(coming, UpcomingKind::FirstTurn { .. }));
    assert_eq!(due_in(&given, deadline(|kind| *kind == DeadlineKind::Run)), [760]);
}

#[test]
fn effects_pending_since_ahead_are_delivered_soon() {
    // Several rounds of deliveries begin, until the next round is an hour away.
    let given = ahead(scene(), |given| {
        (0..6).fold(given.decide([child("c")]), |given, _| given.after(3_600).then(&Command::RetryEffects))
    });
    let found = late(&given);
    assert!(matches!(found.as_slice(), [(UpcomingKind::Effects, _, 30)]), "{found:?}");
    let given = repaired(given);
    assert_eq!(due_in(&given, |coming| *coming == UpcomingKind::Effects), [30]);
}

#[test]
fn the_repair_of_a_paused_run_keeps_it_paused() {
    for (pause, left) in [(pause(), 8), (stop(), 9)] {
        let given = ahead(scene().then(&pause), |given| given.then(&signal("s")));
        assert_eq!(late(&given), [], "no deadline is late");
        let armed = ahead(scene(), |given| given.decide([timer("t", 9)])).then(&pause);
        check(&armed, &command(&armed), "WorkflowResumed WorkflowPaused");
        let by = armed.run.paused.clone().unwrap().operator;
        let given = repaired(armed);
        let paused = given.run.paused.clone().unwrap();
        assert_eq!((paused.stops_clock, &paused.operator), (left == 9, &by));
        check(&given, &resume(), "WorkflowResumed");
        let resumed = given.after(1).then(&resume());
        check(&resumed.clone().after(left - 1), &resumed.fire(), "");
        check(&resumed.clone().after(left), &resumed.fire(), "TimerExpired(t) DeciderScheduled");
    }
}

#[test]
fn a_timer_stopped_ahead_keeps_its_remaining_time() {
    let given = ahead(scene(), |given| given.decide([timer("t", 9), timer("u", 900)]).after(5).then(&stop()));
    assert_eq!(late(&given), [], "the stop goes back with the clock");
    let given = given.then(&resume());
    check(&given.clone().after(3), &given.fire(), "");
    check(&given.clone().after(4), &given.fire(), "TimerExpired(t) DeciderScheduled");
    // The run's clock was stopped by the correct clock of the service. The timer is set during the stop.
    let held = scene().take().then(&stop());
    let given = ahead(held, |given| given.decide([timer("t", 900)]));
    assert_eq!(late(&given), [], "it counts from the stop");
}

#[test]
fn an_activity_paused_between_attempts_is_repaired() {
    let retry = RetryPolicy { initial_interval: seconds(7), ..RetryPolicy::default() };
    let given = ahead(scene().decide([schedule_with_retry("a", retry, NONE)]).takes("a"), |given| {
        given.clone().then(&fail_with(given.task("a"), "r", None))
    });
    let act = |act| Command::ActOnActivity { activity_id: "a".to_owned(), act, operator: operator(), key: None };
    let given = repaired(given.then(&act(ActivityCommand::Pause))).then(&act(ActivityCommand::Resume));
    let given = given.after(7);
    given.clone().then(&given.fire()).takes("a");
}

#[test]
fn deadlines_set_by_a_correct_clock_are_unchanged() {
    let retry = RetryPolicy { initial_interval: seconds(7_000), ..RetryPolicy::default() };
    let limits = ActivityTimeouts { schedule_to_close: Some(seconds(9_000)), heartbeat: Some(seconds(3_000)), ..NONE };
    let start = Start { start_after: Some(seconds(500)), run_timeout: Some(seconds(80_000)), ..plain() };
    let given = Scene::of(&start).after(500).decide([
        timer("t", 900),
        schedule_with_retry("a", retry.clone(), limits),
        schedule_with("b", limits),
        child("c"),
    ]);
    let given = given.takes("a").takes("b").heartbeat("b", "1");
    let given = given.clone().then(&fail_with(given.task("a"), "r", None)).then(&pause()).after(10).then(&resume());
    let before = given.run.future(&given.heartbeats, &given.links.outbox, crate::StoppedLists::NONE, given.now);
    assert_eq!(late(&given), []);
    check(&given, &command(&given), &format!("repeats {}", given.run.last_event_id));
    // Of two timers, only the late one is repaired.
    let mut given = ahead(given, |given| given.then(&signal("s")).decide([timer("late", 5)]));
    given.now = given.now.minus(seconds(60));
    let given = repaired(given);
    let mut after = given.run.future(&given.heartbeats, &given.links.outbox, crate::StoppedLists::NONE, given.now);
    let late = given.run.timers["late"].scheduled_event_id;
    let what = UpcomingKind::Deadline(DeadlineKind::Timer { scheduled_event_id: late });
    after.retain(|coming| coming.what != what);
    assert_eq!(after, before);
    // A clock that is ahead by less than a minute is treated as correct.
    let given = scene().after(50).decide([timer("t", 9)]).put_back(50);
    assert_eq!(late_count(&given), 0);
}

fn late_count(given: &Scene) -> usize {
    late(given).len()
}

#[test]
fn a_closed_run_has_no_late_deadlines() {
    let given = ahead(scene(), |given| given.decide([timer("t", 9)]).then(&signal("s")).decide([success()]));
    assert_eq!(late(&given), []);
    check(&given, &command(&given), "fault run-closed");
}

#[test]
fn an_old_timer_is_repaired_once_its_duration_is_known() {
    let mut given = ahead(scene(), |given| given.decide([timer("t", 9)]));
    let set = given.run.timers["t"].scheduled_event_id;
    given.run.timers.get_mut("t").unwrap().after = None;
    assert_eq!(given.run.timers_without_span(given.now), [set]);
    check(&given, &command(&given), &format!("repeats {}", given.run.last_event_id));
    let timers = BTreeMap::from([(set, seconds(9))]);
    let given = given.clone().then(&Command::RepairDeadlines {
        heartbeats: Vec::new(),
        timers,
        operator: operator(),
        key: None,
    });
    check(&given.clone().after(9), &given.fire(), "TimerExpired(t) DeciderScheduled");
}
