//! What time does: four activity timeouts, two decider timeouts, the execution timeout, timers, heartbeats.

use crate::event::ActivityTimeouts;
use crate::run::DeadlineKind;
use crate::scene::{Scene, check, plain, scene, schedule_with, signal, timer};
use crate::{Command, Duration, Payload, Start, Timestamp};

const NONE: ActivityTimeouts =
    ActivityTimeouts { schedule_to_start: None, start_to_close: None, schedule_to_close: None, heartbeat: None };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Nothing happens until just before `seconds`; then `then`.
#[track_caller]
fn fires(given: &Scene, seconds: u64, then: &str) {
    let mut before = given.clone().after(seconds);
    let due = before.clone();
    before.now = Timestamp::from_millis(due.now.as_millis() - 1);
    check(&before, &before.fire(), "");
    assert_eq!(given.run.next_deadline(&given.beats), Some(due.now));
    check(&due, &due.fire(), then);
}

#[test]
fn an_activity_that_nobody_takes_in_time_times_out() {
    let timeouts = ActivityTimeouts { schedule_to_start: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]);
    fires(&given, 10, "ActivityScheduledTimeout DeciderScheduled");
    let taken = given.after(9).takes("a").after(1);
    check(&taken, &taken.fire(), "");
}

#[test]
fn an_activity_that_is_not_answered_in_time_times_out() {
    let timeouts = ActivityTimeouts { start_to_close: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]).after(100);
    check(&given, &given.fire(), "");
    fires(&given.takes("a"), 10, "ActivityTimedOut(StartToClose) DeciderScheduled");
}

#[test]
fn an_activity_that_does_not_close_in_time_times_out_taken_or_not() {
    let timeouts = ActivityTimeouts { schedule_to_close: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]);
    fires(&given, 10, "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
    fires(&given.after(4).takes("a"), 6, "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
}

#[test]
fn an_activity_that_shows_no_life_in_time_times_out() {
    let timeouts = ActivityTimeouts { heartbeat: Some(seconds(10)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]).after(100);
    check(&given, &given.fire(), "");
    let given = given.takes("a");
    fires(&given, 10, "ActivityTimedOut(Heartbeat) DeciderScheduled");
    // Each beat puts the deadline off, and its details go into the timeout.
    let given = given.after(9).beat("a", "7");
    fires(&given, 10, "ActivityTimedOut(Heartbeat, 7) DeciderScheduled");
    let given = given.after(9).beat("a", "8");
    fires(&given, 10, "ActivityTimedOut(Heartbeat, 8) DeciderScheduled");
    // Without them, the engine would fire it; a beat of another activity does not count.
    let mut given = given;
    given.beats[0].scheduled_event_id += 1;
    check(&given, &given.fire(), "ActivityTimedOut(Heartbeat) DeciderScheduled");
}

#[test]
fn a_heartbeat_goes_into_every_timeout_and_stops_none_but_its_own() {
    let timeouts = ActivityTimeouts { start_to_close: Some(seconds(10)), heartbeat: Some(seconds(60)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts)]).takes("a").after(9).beat("a", "[1]").after(1);
    check(&given, &given.fire(), "ActivityTimedOut(StartToClose, [1]) DeciderScheduled");
}

#[test]
fn a_beat_from_before_the_start_does_not_shorten_the_deadline() {
    let timeouts = ActivityTimeouts { heartbeat: Some(seconds(10)), ..NONE };
    let mut given = scene().decide([schedule_with("a", timeouts)]).takes("a");
    given.beats =
        vec![crate::Beat { scheduled_event_id: given.scheduled("a"), at: Timestamp::from_millis(0), details: None }];
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
fn a_turn_that_nobody_takes_in_time_times_out_and_waits_again() {
    let given = Scene::of(&Start { decider_schedule_to_start: Some(seconds(10)), ..plain() });
    fires(&given, 10, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
    let given = given.clone().after(10).then(&Command::FireDeadlines { beats: vec![] });
    assert_eq!(given.run.turn_task.as_ref().unwrap().attempt, 2);
    fires(&given, 10, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
    let taken = given.after(9).take().after(1);
    check(&taken, &taken.fire(), "");
    // Without that timeout a turn waits as long as it takes.
    let patient = scene().after(86_400);
    check(&patient, &patient.fire(), "");
}

#[test]
fn a_turn_that_waits_behind_another_times_out_from_the_end_of_that_one() {
    let given = Scene::of(&Start { decider_schedule_to_start: Some(seconds(10)), ..plain() });
    let given = given.take().then(&signal("go")).after(20);
    check(&given, &given.fire(), "");
    fires(&given.decide([]), 10, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
}

#[test]
fn a_turn_that_is_held_back_times_out_from_the_end_of_that() {
    let given = Scene::of(&Start { decider_schedule_to_start: Some(seconds(10)), ..plain() }).take();
    let given = given.clone().then(&given.fail_turn());
    fires(&given, 11, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
}

#[test]
fn a_turn_that_is_not_answered_in_time_times_out_and_is_scheduled_again() {
    let given = scene().take();
    fires(&given, 30, "DeciderTimedOut(StartToClose) DeciderScheduled");
    // Unless one waits behind it.
    fires(&given.then(&signal("go")), 30, "DeciderTimedOut(StartToClose)");
    let lost = scene().take().after(30);
    let lost = lost.clone().then(&lost.fire());
    // The timeout was the wait: the next decider may come at once.
    check(&lost, &lost.start_turn(), "DeciderStarted");
    assert_eq!(lost.run.turns_lost, 1);
}

#[test]
fn a_run_that_takes_too_long_times_out() {
    let start = Start { execution_timeout: Duration::from_secs(10), ..plain() };
    fires(&Scene::of(&start), 10, "WorkflowTimedOut");
    let given = Scene::of(&start).decide([timer("t", 10), timer("u", 11)]);
    // What came due before it is recorded before it; what came after, not at all.
    let late = given.after(60);
    check(&late, &late.fire(), "TimerExpired(t) WorkflowTimedOut");
}

#[test]
fn timers_expire_in_the_order_of_time_with_one_turn_for_all() {
    let given = scene().decide([timer("b", 20), timer("a", 10), timer("c", 30), timer("now", 0)]);
    check(&given, &given.fire(), "TimerExpired(now) DeciderScheduled");
    let late = given.clone().after(20);
    check(&late, &late.fire(), "TimerExpired(now) TimerExpired(a) TimerExpired(b) DeciderScheduled");
    // While a turn waits, no further one.
    let given = given.then(&signal("go")).after(10);
    check(&given, &given.fire(), "TimerExpired(now) TimerExpired(a)");
}

#[test]
fn everything_of_one_instant_fires_in_a_fixed_order() {
    let timeouts = ActivityTimeouts { start_to_close: Some(seconds(30)), ..NONE };
    let given = scene().decide([schedule_with("a", timeouts), schedule_with("b", timeouts), timer("t", 30)]);
    let given = given.takes("b").takes("a").then(&signal("go")).take().after(30);
    check(
        &given,
        &given.fire(),
        "TimerExpired(t) ActivityTimedOut(StartToClose) ActivityTimedOut(StartToClose) DeciderTimedOut(StartToClose) \
         DeciderScheduled",
    );
    let order: Vec<_> = given.run.deadlines(&[]).into_iter().map(|deadline| deadline.what).collect();
    assert_eq!(
        order,
        [
            DeadlineKind::Timer { scheduled_event_id: 7 },
            DeadlineKind::ActivityStartToClose { scheduled_event_id: 5 },
            DeadlineKind::ActivityStartToClose { scheduled_event_id: 6 },
            DeadlineKind::TurnStartToClose { scheduled_event_id: 11 },
            DeadlineKind::Execution,
        ]
    );
}

#[test]
fn nothing_due_records_nothing() {
    let given = scene();
    let fire = Command::FireDeadlines {
        beats: vec![crate::Beat {
            scheduled_event_id: 77,
            at: given.now,
            details: Some(Payload::from_json("1").unwrap()),
        }],
    };
    check(&given, &fire, "");
}
