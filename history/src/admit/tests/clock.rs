//! Clock adjustments: timestamps never decrease, and deadlines follow the clock as read for each command.

use crate::event::ActivityTimeouts;
use crate::scene::{
    Scene, check, child, fail_with, failure, keyed_signal, plain, resume, scene, schedule_with, schedule_with_retry,
    signal, stop, timer,
};
use crate::{DeadlineKind, Duration, Event, RetryPolicy, Start, Successor, Transition, UpcomingKind};

const TWO_DAYS: u64 = 172_800;

const NONE: ActivityTimeouts =
    ActivityTimeouts { schedule_to_start: None, start_to_close: None, schedule_to_close: None, heartbeat: None };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Changes the run while the clock is two days ahead, and then corrects the clock.
fn touched(given: Scene) -> Scene {
    let given = given.after(TWO_DAYS).then(&signal("ahead")).put_back(TWO_DAYS);
    assert!(given.run.last_timestamp > given.now);
    given
}

/// Returns the seconds until the first upcoming change of a wanted kind.
fn due_in(given: &Scene, wanted: impl Fn(&UpcomingKind) -> bool) -> Option<u64> {
    let future = given.run.future(&given.heartbeats, &given.links.outbox, crate::StoppedLists::NONE, given.now);
    let at = future.iter().find(|coming| wanted(&coming.what))?.at;
    assert!(at >= given.now, "{at} is before {}", given.now);
    Some(at.since(given.now).as_millis() / 1_000)
}

fn deadline_in(given: &Scene, wanted: fn(&DeadlineKind) -> bool) -> Option<u64> {
    due_in(given, |coming| matches!(coming, UpcomingKind::Deadline(kind) if wanted(kind)))
}

#[test]
fn timestamps_never_decrease_and_a_slow_clock_is_recorded() {
    let given = touched(scene());
    let before = given.run.last_timestamp;
    let given = given.then(&signal("right"));
    let last = given.events.last().unwrap();
    assert_eq!((last.timestamp, last.clock, last.at()), (before, Some(given.now), given.now));
    assert!(serde_json::to_string(last).unwrap().contains(r#""clock":"1970-01-01T00:16:40.000Z""#));
    assert_eq!(Event::from_json(&serde_json::to_string(last).unwrap()).unwrap(), *last);
    let mut later = given.after(TWO_DAYS + 1);
    later = later.then(&signal("past it"));
    let last = later.events.last().unwrap();
    assert_eq!((last.timestamp, last.clock), (later.now, None));
}

#[test]
fn deadlines_follow_the_corrected_clock_after_it_was_ahead() {
    use DeadlineKind as Kind;
    type Armed = fn(Scene) -> Scene;
    let turn = |given: Scene| given.take();
    let retry = RetryPolicy { initial_interval: seconds(7), ..RetryPolicy::default() };
    // Each case: the kind of deadline, a run that set the deadline by the correct clock, and the seconds until it is
    // due.
    let with = |timeouts| move |given: Scene| turn(given).decide([schedule_with("a", timeouts)]);
    let timers: Armed = |given| given.decide([timer("t", 9)]);
    let given = timers(touched(scene()));
    assert_eq!(deadline_in(&given, |kind| matches!(kind, Kind::Timer { .. })), Some(9));
    let fired = given.after(9);
    check(&fired, &fired.fire(), "TimerExpired(t) DeciderScheduled");

    let given = with(ActivityTimeouts { schedule_to_start: Some(seconds(5)), ..NONE })(touched(scene()));
    assert_eq!(deadline_in(&given, |kind| matches!(kind, Kind::ActivityScheduleToStart { .. })), Some(5));
    let given = with(ActivityTimeouts { schedule_to_close: Some(seconds(6)), ..NONE })(touched(scene()));
    assert_eq!(deadline_in(&given, |kind| matches!(kind, Kind::ActivityScheduleToClose { .. })), Some(6));
    let both = ActivityTimeouts { start_to_close: Some(seconds(8)), heartbeat: Some(seconds(3)), ..NONE };
    let given = with(both)(touched(scene())).takes("a");
    assert_eq!(deadline_in(&given, |kind| matches!(kind, Kind::ActivityStartToClose { .. })), Some(8));
    assert_eq!(deadline_in(&given, |kind| matches!(kind, Kind::ActivityHeartbeat { .. })), Some(3));
    let beaten = given.after(2).heartbeat("a", "1");
    assert_eq!(deadline_in(&beaten, |kind| matches!(kind, Kind::ActivityHeartbeat { .. })), Some(3));

    let given = turn(touched(scene())).decide([schedule_with_retry("a", retry, NONE)]).takes("a");
    let given = given.clone().then(&fail_with(given.task("a"), "r", None));
    assert_eq!(deadline_in(&given, |kind| matches!(kind, Kind::ActivityRetry { .. })), Some(7));
    let named = touched(scene()).decide([schedule_with_retry("a", RetryPolicy::default(), NONE)]).takes("a");
    let named = named.clone().then(&fail_with(named.task("a"), "r", Some(seconds(4))));
    assert_eq!(deadline_in(&named, |kind| matches!(kind, Kind::ActivityRetry { .. })), Some(4));

    let given = turn(touched(scene()));
    assert_eq!(deadline_in(&given, |kind| matches!(kind, Kind::TurnStartToClose { .. })), Some(30));
    let given = given.clone().then(&given.fail_turn());
    assert_eq!(due_in(&given, |coming| matches!(coming, UpcomingKind::TurnRetry { .. })), Some(1));
    let waits = Start { decider_schedule_to_start: Some(seconds(50)), ..plain() };
    let given = touched(Scene::of(&waits)).take().decide([]).then(&signal("right"));
    assert_eq!(deadline_in(&given, |kind| matches!(kind, Kind::TurnScheduleToStart { .. })), Some(50));

    let given = touched(scene()).decide([child("c")]);
    assert!(due_in(&given, |coming| matches!(coming, UpcomingKind::Effects)).is_some_and(|wait| wait <= 30));
}

#[test]
fn a_successor_follows_the_corrected_clock() {
    let retry = RetryPolicy { initial_interval: seconds(7), ..RetryPolicy::default() };
    let start = Start { retry: Some(retry), run_timeout: Some(seconds(60)), ..plain() };
    let given = touched(Scene::of(&start)).decide([failure()]);
    let Successor { run_id, not_before: at } = given.events.last().unwrap().kind.followed_by().unwrap();
    assert_eq!(at, Some(given.now.plus(seconds(7))));
    let next = Transition::retry(&given.run, run_id, None, at.unwrap(), None, given.now);
    assert_eq!(next.run().started.at, given.now);
    assert_eq!(next.run().started.first_turn_at(), given.now.plus(seconds(7)), "its startAfter");
    let deadlines = next.run().deadlines(&[]);
    assert_eq!(deadlines.first().map(|deadline| deadline.at), Some(given.now.plus(seconds(67))));
    assert_eq!(given.run.closed_at, Some(given.now), "its retention counts from then");
}

#[test]
fn deadlines_set_by_a_slow_clock_count_from_its_time() {
    let given = scene().then(&signal("go")).put_back(3_600);
    let given = given.decide([timer("t", 3)]);
    let timer = &given.run.timers["t"];
    assert_eq!(timer.expires_at, given.now.plus(seconds(3)));
    let fired = given.after(3);
    check(&fired, &fired.fire(), "TimerExpired(t) DeciderScheduled");
    // The clock is correct again. The timer that was set while the clock was behind is therefore due at once.
    let right = fired.after(3_597);
    check(&right, &right.fire(), "TimerExpired(t) DeciderScheduled");
}

#[test]
fn a_request_is_known_for_a_day_of_the_corrected_clock() {
    let given = touched(scene()).then(&keyed_signal("s", 7));
    let until = given.run.known_until().unwrap();
    assert!(until >= given.now.plus(crate::limits::REQUESTS_KEPT), "{until}");
    assert!(until <= given.now.plus(crate::limits::REQUESTS_KEPT.times(2)), "{until}");
}

#[test]
fn timers_stopped_while_ahead_keep_their_remaining_time() {
    // The timer was set, and then stopped, by a clock that was two days ahead. All of its 9 s remain.
    let given = scene().after(TWO_DAYS).decide([timer("t", 9)]).then(&stop()).put_back(TWO_DAYS);
    let given = given.then(&signal("right")).after(100).then(&resume());
    check(&given.clone().after(8), &given.fire(), "");
    let fired = given.after(9);
    check(&fired, &fired.fire(), "TimerExpired(t)");
}

#[test]
fn a_stop_later_than_the_corrected_clock_delays_nothing() {
    let given = scene().take().after(TWO_DAYS).then(&stop()).after(600).then(&resume()).put_back(TWO_DAYS);
    let given = given.decide([timer("t", TWO_DAYS)]);
    assert_eq!(deadline_in(&given, |kind| matches!(kind, DeadlineKind::Timer { .. })), Some(TWO_DAYS));
    let fired = given.after(TWO_DAYS);
    check(&fired, &fired.fire(), "TimerExpired(t) DeciderScheduled");
}
