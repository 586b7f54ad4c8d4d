//! Ends of waits on lists that are or were paused with stopped clocks.

use proptest::prelude::*;

use super::*;
use crate::decision::{Decision, ScheduleActivity};
use crate::event::ActivityTimeouts;
use crate::scene::{Scene, check, plain, scene, schedule_with};
use crate::{Command, RetryPolicy, Start};

const MINUTE: u64 = 60;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn stop(from: u64, to: u64) -> ListStop {
    ListStop { from: at(from), to: at(to) }
}

/// Returns the end of a wait from 100 to 160 on a list with these past pauses.
fn ends(past: &[ListStop]) -> WaitEnd {
    ListStops::new(past, None).due_at(at(100), seconds(60), at(5_000))
}

#[test]
fn a_pause_before_or_after_the_wait_does_not_count() {
    for past in [&[][..], &[stop(0, 50)], &[stop(0, 100)], &[stop(160, 200)], &[stop(0, 99), stop(170, 180)]] {
        assert_eq!(ends(past), WaitEnd::At(at(160)), "{past:?}");
    }
}

#[test]
fn a_wait_does_not_advance_during_pauses() {
    assert_eq!(ends(&[stop(120, 420)]), WaitEnd::At(at(460)));
    assert_eq!(ends(&[stop(159, 160)]), WaitEnd::At(at(161)));
    assert_eq!(ends(&[stop(120, 130), stop(165, 175)]), WaitEnd::At(at(180)), "the second begins in the longer wait");
    assert_eq!(ends(&[stop(120, 130), stop(170, 175)]), WaitEnd::At(at(170)), "the second begins when it has ended");
}

#[test]
fn a_wait_that_begins_during_a_pause_advances_at_its_end() {
    assert_eq!(ends(&[stop(50, 150)]), WaitEnd::At(at(210)));
}

#[test]
fn overlapping_and_nested_pauses_count_once() {
    assert_eq!(ends(&[stop(110, 130), stop(120, 150)]), WaitEnd::At(at(200)));
    assert_eq!(ends(&[stop(110, 150), stop(120, 130)]), WaitEnd::At(at(200)));
    assert_eq!(ends(&[stop(120, 150), stop(110, 130)]), WaitEnd::At(at(200)), "in any order");
    assert_eq!(ends(&[stop(150, 110)]), WaitEnd::At(at(160)), "an inverted pause is empty");
}

/// Returns the end of a wait from 100 to 160 on a list that has been paused since `since`.
fn ends_paused(since: u64, now: u64) -> WaitEnd {
    ListStops::new(&[], Some(at(since))).due_at(at(100), seconds(60), at(now))
}

#[test]
fn a_wait_on_a_paused_list_does_not_end() {
    assert_eq!(ends_paused(159, 159), WaitEnd::LookAt(at(159 + MINUTE)));
    assert_eq!(ends_paused(50, 300), WaitEnd::LookAt(at(300 + 250)), "as late as the pause is long");
    assert_eq!(ends_paused(50, 2_000), WaitEnd::LookAt(at(2_000 + 600)), "but at most ten minutes");
}

#[test]
fn a_wait_that_ended_before_the_pause_still_times_out() {
    assert_eq!(ends_paused(160, 500), WaitEnd::At(at(160)));
}

#[test]
fn the_next_look_is_when_the_wait_can_end_at_the_earliest() {
    let stops = ListStops::new(&[], Some(at(200)));
    assert_eq!(stops.due_at(at(100), seconds(10_100), at(300)), WaitEnd::LookAt(at(300 + 10_000)));
}

#[test]
fn a_pause_begun_by_a_clock_that_was_ahead_stops_waits() {
    // The clock was put back from 1000 to 170 during the pause. The wait has not ended, and keeps its full time.
    assert_eq!(ends_paused(1_000, 170), WaitEnd::LookAt(at(170 + 170)));
    let mut past = Vec::new();
    add_list_stop(&mut past, at(1_000), at(180));
    assert_eq!(ends(&past), WaitEnd::At(at(240)));
}

#[test]
fn joined_pauses_postpone_timeouts_and_keep_the_bound() {
    let mut past = Vec::new();
    for number in 1..=(LIST_STOPS_MAX as u64) {
        add_list_stop(&mut past, at(number * 100), at(number * 100 + 10));
    }
    assert_eq!(past.len(), LIST_STOPS_MAX);
    add_list_stop(&mut past, at(2_000), at(2_010));
    add_list_stop(&mut past, at(2_015), at(2_020));
    assert_eq!(past.len(), LIST_STOPS_MAX);
    assert_eq!(past.last(), Some(&stop(2_000, 2_020)), "these have the shortest time between them");
    let begin = past.first().unwrap();
    assert_eq!(begin.from, at(100), "no pause is lost");
}

/// Returns the pauses of the lists of a run: of its turns if `is_decider`, otherwise of its activities.
fn lists(given: &Scene, is_decider: bool, stops: ListStops) -> StoppedLists {
    let mut stopped = StoppedLists::default();
    let of_side = if is_decider { &mut stopped.deciders } else { &mut stopped.activities };
    of_side.insert(given.run.started.task_list.clone(), stops);
    stopped
}

/// Fires the deadlines of a run while its lists are or were paused.
#[track_caller]
fn fires(given: &Scene, stopped: &StoppedLists, then: &str) {
    let command = Command::FireDeadlines { heartbeats: Vec::new(), stopped: stopped.clone().into() };
    check(given, &command, then);
}

/// Checks that the waiting task of `given` times out with `then` when it has waited for 10 s, of which it waits 4 s
/// before its list is paused and 6 s after it was resumed.
#[track_caller]
fn waits_through_a_pause(given: &Scene, is_decider: bool, then: &str) {
    let paused_at = given.now.plus(seconds(4));
    let paused = lists(given, is_decider, ListStops::new(&[], Some(paused_at)));
    let late = given.clone().after(500);
    fires(&late, &paused, "");
    let next = |given: &Scene, stopped| given.run.next_change(&[], &given.links.outbox, stopped, given.now);
    assert_eq!(next(&late, &paused), Some(late.now.plus(seconds(496))), "the wait is computed again");
    let shown = late.run.future(&[], &late.links.outbox, &paused, late.now);
    assert!(shown.iter().all(|coming| coming.at > late.now.plus(seconds(10_000))), "{shown:?}: the end is not known");
    let past = ListStop { from: paused_at, to: given.now.plus(seconds(1_000)) };
    let resumed = lists(given, is_decider, ListStops::new(&[past], None));
    let (early, due) = (given.clone().after(1_005), given.clone().after(1_006));
    assert_eq!(next(&early, &resumed), Some(due.now));
    fires(&early, &resumed, "");
    fires(&due, &resumed, then);
    assert!(!given.run.has_waited_too_long(given.now.plus(seconds(9))));
    assert!(given.run.has_waited_too_long(given.now.plus(seconds(10))), "pauses are ignored");
    let others = lists(given, !is_decider, ListStops::new(&[past], None));
    fires(&given.clone().after(10), &others, then);
}

const TEN_SECONDS: ActivityTimeouts = ActivityTimeouts {
    schedule_to_start: Some(Duration::from_secs(10)),
    start_to_close: None,
    schedule_to_close: None,
    heartbeat: None,
};

#[test]
fn an_activity_keeps_its_time_left_through_a_pause() {
    let given = scene().decide([schedule_with("a", TEN_SECONDS)]);
    waits_through_a_pause(&given, false, "ActivityScheduledTimeout DeciderScheduled");
}

#[test]
fn a_turn_keeps_its_time_left_through_a_pause() {
    let given = Scene::of(&Start { decider_schedule_to_start: Some(seconds(10)), ..plain() });
    waits_through_a_pause(&given, true, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
}

#[test]
fn a_retried_attempt_keeps_its_time_left_through_a_pause() {
    let decision = Decision::from(ScheduleActivity {
        activity_id: "a".to_owned(),
        activity_type: "A".to_owned(),
        timeouts: TEN_SECONDS,
        retry: Some(RetryPolicy::default()),
        ..ScheduleActivity::default()
    });
    let given = scene().decide([decision]).after(7);
    let started = given.clone().then(&given.start_activity("a"));
    let failed = started.clone().then(&started.fail("a"));
    let released = failed.clone().after(1).then(&failed.fire());
    waits_through_a_pause(&released, false, "ActivityScheduledTimeout DeciderScheduled");
}

#[test]
fn a_paused_list_does_not_stop_schedule_to_close() {
    let timeouts = ActivityTimeouts { schedule_to_close: Some(seconds(20)), ..TEN_SECONDS };
    let given = scene().decide([schedule_with("a", timeouts)]);
    let paused = lists(&given, false, ListStops::new(&[], Some(given.now)));
    fires(&given.clone().after(19), &paused, "");
    fires(&given.after(20), &paused, "ActivityTimedOut(ScheduleToClose) DeciderScheduled");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares the end with a simulation that counts every second, and checks that joining never makes it earlier.
    #[test]
    fn a_wait_ends_when_its_list_has_run_that_long(
        pauses in prop::collection::vec((0_u64..300, 0_u64..40), 0..16),
        from in 0_u64..300,
        span in 1_u64..120,
    ) {
        let stops: Vec<ListStop> = pauses.iter().map(|(begin, long)| stop(*begin, begin + long)).collect();
        let is_stopped = |second: u64| stops.iter().any(|stop| stop.from <= at(second) && at(second) < stop.to);
        let mut left = span;
        let end = (from..10_000).find(|second| {
            left -= u64::from(!is_stopped(*second));
            left == 0
        });
        let end = at(end.unwrap() + 1);
        let exact = ListStops::new(&stops, None).due_at(at(from), seconds(span), at(10_000));
        prop_assert_eq!(exact, WaitEnd::At(end));
        let mut joined = Vec::new();
        for stop in &stops {
            add_list_stop(&mut joined, stop.from, stop.to);
        }
        prop_assert!(joined.len() <= LIST_STOPS_MAX);
        match ListStops::new(&joined, None).due_at(at(from), seconds(span), at(10_000)) {
            WaitEnd::At(at) => prop_assert!(at >= end),
            WaitEnd::LookAt(at) => prop_assert!(false, "the list is not paused at {}", at),
        }
    }
}
