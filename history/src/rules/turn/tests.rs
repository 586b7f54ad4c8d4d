//! The table of turns with one case per line, and further rules.

use crate::event::TurnList;
use crate::scene::{Scene, check, complete, fires, pause, plain, scene, signal, success, terminate};
use crate::{Command, Duration, EventKind, Payload, Start, TaskRef, TurnAnswer, TurnId, admit, limits};

/// Returns the three commands that end this turn: an answer, a failure, and a failed delivery.
fn of(turn: TurnId) -> [Command; 3] {
    let answer = complete(turn, vec![]);
    let given_back = Command::FailTurn { turn, reason: None, details: None };
    [answer, given_back, Command::ReturnTurn { turn, poll: None }]
}

/// Returns the command with which a poll takes the turn of this DeciderScheduled event.
fn poll(scheduled_event_id: u64) -> Command {
    Command::StartTurn { scheduled_event_id, identity: None, poll: None }
}

#[test]
fn table_of_a_turn_that_is_not_scheduled() {
    let given = scene().decide([]);
    check(&given, &poll(5), "fault turn-not-waiting");
    for command in of(LOST) {
        check(&given, &command, "fault turn-lost");
    }
    check(&given.clone().after(3_600), &given.fire(), "");
    check(&given, &signal("go"), "Signal(go) DeciderScheduled");
}

#[test]
fn table_of_a_waiting_turn() {
    let given = Scene::of(&Start { decider_schedule_to_start: Some(seconds(60)), ..plain() });
    check(&given, &given.start_turn(), "DeciderStarted");
    for command in of(LOST) {
        check(&given, &command, "fault turn-lost");
    }
    fires(&given, 60, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
    check(&given, &signal("go"), "Signal(go)");
    assert_eq!(given.clone().then(&terminate()).run.turn_task, None);
    // While the run is paused and no turn can be taken, the schedule-to-start timeout does not run.
    let paused = given.then(&pause()).after(3_600);
    check(&paused, &paused.fire(), "");
    check(&paused, &paused.start_turn(), "fault turn-not-waiting");
}

#[test]
fn table_of_a_delayed_turn() {
    let (start_after, decider_schedule_to_start) = (Some(seconds(60)), Some(seconds(60)));
    let given = Scene::of(&Start { decider_schedule_to_start, start_after, ..plain() });
    check(&given, &given.start_turn(), "fault turn-not-waiting");
    for command in of(LOST) {
        check(&given, &command, "fault turn-lost");
    }
    fires(&given, 120, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
    check(&given.clone().after(60), &given.start_turn(), "DeciderStarted");
    check(&given, &signal("go"), "Signal(go)");
    assert_eq!(given.then(&terminate()).run.turn_task, None);
}

#[test]
fn table_of_a_held_turn() {
    let given = scene().take();
    check(&given, &poll(2), "fault turn-not-waiting");
    let [answer, given_back, not_delivered] = of(given.turn());
    check(&given, &answer, "DeciderCompleted");
    check(&given, &given_back, "DeciderFailed(Reported) DeciderScheduled(+PT1S)");
    check(&given, &not_delivered, "DeciderFailed(DeliveryFailed) DeciderScheduled");
    fires(&given, 30, "DeciderTimedOut(StartToClose) DeciderScheduled");
    check(&given, &signal("go"), "Signal(go) DeciderScheduled");
    assert_eq!(given.then(&terminate()).run.turn, None);
}

#[test]
fn table_of_the_last_completed_turn() {
    let given = scene().take();
    let turn = given.turn();
    for given in [given.clone().decide([]), given.clone().decide([success()])] {
        for command in of(turn) {
            check(&given, &command, "fault turn-completed");
        }
    }
}

#[test]
fn turns_move_to_the_list_of_an_answer() {
    let to = |schedule_to_start| TurnList { task_list: "here".to_owned(), schedule_to_start };
    let moved = |to: TurnList| {
        let given = scene().take();
        let command = Command::complete(given.turn(), TurnAnswer { next_task_list: Some(to), ..TurnAnswer::default() });
        given.then(&command).then(&signal("go"))
    };
    let list = |scene: &Scene| scene.run.next_turn_list().to_owned();
    let for_good = moved(to(None));
    assert_eq!(list(&for_good.after(3_600)), "here");
    let for_now = moved(to(Some(seconds(5))));
    assert_eq!(list(&for_now), "here");
    let timed_out = for_now.clone().after(5).then(&for_now.fire());
    assert_eq!(list(&timed_out), "orders");
}

const LOST: TurnId = TurnId { scheduled_event_id: 2, started_event_id: 99 };

#[test]
fn a_decider_takes_the_waiting_turn() {
    let new = scene();
    check(&new, &new.start_turn(), "DeciderStarted");
    let other = Command::StartTurn { scheduled_event_id: 1, identity: None, poll: None };
    check(&new, &other, "fault turn-not-waiting");
    let busy = new.take();
    check(&busy, &Command::StartTurn { scheduled_event_id: 2, identity: None, poll: None }, "fault turn-not-waiting");
    // The turn that waits behind the held turn cannot be taken before that turn has ended.
    let behind = busy.then(&signal("go"));
    check(&behind, &behind.start_turn(), "fault turn-not-waiting");
    assert_eq!(behind.run.waiting_tasks().count(), 0);
    let free = behind.decide([]);
    check(&free, &free.start_turn(), "DeciderStarted");
    assert!(matches!(free.run.waiting_tasks().next(), Some(TaskRef::Turn(_))));
}

#[test]
fn an_answer_needs_the_held_turn_and_is_accepted_once() {
    let busy = scene().take();
    let turn = busy.turn();
    check(&busy, &busy.complete([]), "DeciderCompleted");
    check(&busy, &complete(LOST, vec![]), "fault turn-lost");
    let other = TurnId { scheduled_event_id: 1, ..turn };
    check(&busy, &complete(other, vec![]), "fault turn-lost");
    check(&scene(), &complete(TurnId { scheduled_event_id: 2, started_event_id: 0 }, vec![]), "fault turn-lost");

    let answered = busy.clone().decide([]);
    check(&answered, &complete(turn, vec![success()]), "fault turn-completed");
    check(&answered, &Command::FailTurn { turn, reason: None, details: None }, "fault turn-completed");
    check(&answered, &Command::ReturnTurn { turn, poll: None }, "fault turn-completed");
    // The answer that closed the run is repeated. The decider learns that it was accepted.
    let closed = busy.clone().decide([success()]);
    check(&closed, &complete(turn, vec![success()]), "fault turn-completed");

    // An answer after the timeout changes nothing.
    let late = busy.clone().after(30);
    let late = late.clone().then(&late.fire());
    check(&late, &complete(turn, vec![success()]), "fault turn-lost");
    let given_back = busy.clone().then(&busy.fail_turn());
    check(&given_back, &complete(turn, vec![success()]), "fault turn-lost");
}

#[test]
fn context_is_kept_in_the_answer() {
    let busy = scene().take();
    let context = Some(Payload::from_json("[1]").unwrap());
    let command = Command::complete(busy.turn(), TurnAnswer { context: context.clone(), ..TurnAnswer::default() });
    let events = admit(&busy.run, &command, busy.now).unwrap();
    assert!(matches!(&events[0].kind, EventKind::DeciderCompleted(it) if it.context == context));
}

#[test]
fn failed_turns_are_delayed_with_a_growing_backoff() {
    let mut given = scene().take();
    for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600] {
        let wait = Duration::from_secs(seconds);
        check(&given, &given.fail_turn(), &format!("DeciderFailed(Reported) DeciderScheduled(+{wait})"));
        given = given.clone().then(&given.fail_turn());
        check(&given, &given.start_turn(), "fault turn-not-waiting");
        given = given.after(seconds - 1);
        check(&given, &given.start_turn(), "fault turn-not-waiting");
        given = given.after(1).take();
    }
    assert_eq!(given.run.turn.as_ref().unwrap().attempt, 14);
    assert_eq!(limits::TURN_BACKOFF_MAX, Duration::from_secs(600));
    // A completed turn resets the number of consecutive failures.
    let given = given.decide([]).then(&signal("go")).take();
    check(&given, &given.fail_turn(), "DeciderFailed(Reported) DeciderScheduled(+PT1S)");
    assert_eq!(given.run.turn.as_ref().unwrap().attempt, 1);
}

#[test]
fn a_failed_turn_delays_the_turn_that_waits_behind_it() {
    let busy = scene().take().then(&signal("go"));
    check(&busy, &busy.fail_turn(), "DeciderFailed(Reported)");
    check(&busy, &Command::ReturnTurn { turn: busy.turn(), poll: None }, "DeciderFailed(DeliveryFailed)");
    // The waiting turn was scheduled without a delay. It is delayed after the failure, so that a failing decider does
    // not loop.
    let next = busy.clone().then(&busy.fail_turn());
    check(&next, &next.start_turn(), "fault turn-not-waiting");
    let next = next.after(1);
    check(&next, &next.start_turn(), "DeciderStarted");
    let next = busy.clone().then(&Command::ReturnTurn { turn: busy.turn(), poll: None });
    check(&next, &next.start_turn(), "DeciderStarted");
}

#[test]
fn an_undelivered_turn_is_available_again_at_once() {
    let busy = scene().take();
    check(
        &busy,
        &Command::ReturnTurn { turn: busy.turn(), poll: None },
        "DeciderFailed(DeliveryFailed) DeciderScheduled",
    );
    check(&busy, &Command::ReturnTurn { turn: LOST, poll: None }, "fault turn-lost");
    check(&busy, &Command::FailTurn { turn: LOST, reason: None, details: None }, "fault turn-lost");
    let next = busy.clone().then(&Command::ReturnTurn { turn: busy.turn(), poll: None });
    check(&next, &next.start_turn(), "DeciderStarted");
    assert_eq!(next.run.turn_task.as_ref().unwrap().attempt, 1, "it is not the decider's failure");
}

#[test]
fn a_window_begins_at_the_last_completed_turn() {
    let completed = scene().decide([]);
    assert_eq!(completed.run.previous_started_event_id, 3);
    let lost = completed.then(&signal("go")).take();
    let lost = lost.clone().then(&lost.fail_turn());
    // Events that were in a lost turn are in the next turn again.
    assert_eq!(lost.run.previous_started_event_id, 3);
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_turn_not_taken_in_time_is_scheduled_again() {
    let given = Scene::of(&Start { decider_schedule_to_start: Some(seconds(10)), ..plain() });
    fires(&given, 10, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
    let given = given
        .clone()
        .after(10)
        .then(&Command::FireDeadlines { heartbeats: vec![], stopped: std::sync::Arc::default() });
    assert_eq!(given.run.turn_task.as_ref().unwrap().attempt, 2);
    fires(&given, 10, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
    let taken = given.after(9).take().after(1);
    check(&taken, &taken.fire(), "");
    // Without a schedule-to-start timeout, a turn can wait indefinitely.
    let patient = scene().after(86_400);
    check(&patient, &patient.fire(), "");
}

#[test]
fn schedule_to_start_counts_from_the_end_of_the_held_turn() {
    let given = Scene::of(&Start { decider_schedule_to_start: Some(seconds(10)), ..plain() });
    let given = given.take().then(&signal("go")).after(20);
    check(&given, &given.fire(), "");
    fires(&given.decide([]), 10, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
}

#[test]
fn schedule_to_start_counts_from_the_end_of_the_delay() {
    let given = Scene::of(&Start { decider_schedule_to_start: Some(seconds(10)), ..plain() }).take();
    let given = given.clone().then(&given.fail_turn());
    fires(&given, 11, "DeciderTimedOut(ScheduleToStart) DeciderScheduled");
}

#[test]
fn a_turn_not_answered_in_time_is_scheduled_again() {
    let given = scene().take();
    fires(&given, 30, "DeciderTimedOut(StartToClose) DeciderScheduled");
    // If a turn is already waiting, the timeout schedules no other turn.
    fires(&given.then(&signal("go")), 30, "DeciderTimedOut(StartToClose)");
    let lost = scene().take().after(30);
    let lost = lost.clone().then(&lost.fire());
    // After a timeout, the next turn is available at once, because the time until the timeout was already a delay.
    check(&lost, &lost.start_turn(), "DeciderStarted");
    assert_eq!(lost.run.turns_lost, 1);
}
