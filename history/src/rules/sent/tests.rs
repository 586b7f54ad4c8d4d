//! Delivery of started tasks: redelivery after a lost response, and tasks given back after a failed delivery.

use crate::scene::{Scene, check, scene, schedule, schedule_with_retry, signal, success, terminate};
use crate::{Command, Links, PollId, RetryPolicy};

const FIRST: PollId = PollId(1);
const SECOND: PollId = PollId(2);

fn take_turn(scene: &Scene, poll: PollId) -> Command {
    let Command::StartTurn { scheduled_event_id, identity, .. } = scene.start_turn() else { unreachable!() };
    Command::StartTurn { scheduled_event_id, identity, poll: Some(poll) }
}

fn take(scene: &Scene, activity_id: &str, poll: PollId) -> Command {
    let scheduled_event_id = scene.scheduled(activity_id);
    Command::StartActivity { scheduled_event_id, identity: None, poll: Some(poll) }
}

fn again(scheduled_event_id: u64, lost: PollId, poll: PollId) -> Command {
    Command::Redeliver { scheduled_event_id, lost, poll: Some(poll) }
}

/// Returns a run whose turn was sent to the first poll.
fn turn() -> Scene {
    let given = scene();
    let take = take_turn(&given, FIRST);
    given.then(&take)
}

/// Returns a run with activity `a`, which has a retry policy, and activity `b`, both sent to the first poll. No turn is
/// held.
fn activities() -> Scene {
    let given = scene().decide([schedule_with_retry("a", RetryPolicy::default(), NONE), schedule("b")]);
    let (a, b) = (take(&given, "a", FIRST), take(&given, "b", FIRST));
    given.then(&a).then(&b)
}

const NONE: crate::event::ActivityTimeouts = crate::event::ActivityTimeouts {
    schedule_to_start: None,
    start_to_close: None,
    schedule_to_close: None,
    heartbeat: None,
};

fn sent(scene: &Scene) -> Vec<(u64, PollId)> {
    scene.links.sent.iter().collect()
}

#[test]
fn a_task_is_redelivered_once_without_an_event() {
    let given = turn();
    assert_eq!(sent(&given), [(2, FIRST)]);
    check(&given, &again(2, SECOND, FIRST), "fault activity-not-waiting");
    check(&given, &again(3, FIRST, SECOND), "fault activity-not-waiting");
    check(&given, &again(2, FIRST, SECOND), "");
    let before = given.run.clone();
    let given = given.then(&again(2, FIRST, SECOND));
    assert_eq!((sent(&given), &given.run), (vec![(2, SECOND)], &before));
    check(&given, &again(2, FIRST, SECOND), "fault activity-not-waiting");
    check(&given, &given.complete([success()]), "DeciderCompleted WorkflowSuccess");

    let given = activities();
    let (a, b) = (given.scheduled("a"), given.scheduled("b"));
    assert_eq!(sent(&given), [(a, FIRST), (b, FIRST)]);
    let given = given.then(&again(a, FIRST, SECOND));
    assert_eq!(sent(&given), [(b, FIRST), (a, SECOND)]);
    check(&given, &given.succeed("a"), "ActivityStarted(try 1) ActivitySuccess DeciderScheduled");
}

#[test]
fn a_failed_delivery_returns_only_tasks_of_its_poll() {
    let given = turn();
    let returned = |poll| Command::ReturnTurn { turn: given.turn(), poll };
    check(&given, &returned(Some(FIRST)), "DeciderFailed(DeliveryFailed) DeciderScheduled");
    check(&given, &returned(None), "fault turn-lost");
    let moved = given.clone().then(&again(2, FIRST, SECOND));
    check(&moved, &returned(Some(FIRST)), "fault turn-lost");
    check(&moved, &returned(Some(SECOND)), "DeciderFailed(DeliveryFailed) DeciderScheduled");

    let given = activities();
    for activity_id in ["a", "b"] {
        let returned = |poll| Command::ReturnActivity { task: given.task(activity_id), poll };
        let moved = given.clone().then(&again(given.scheduled(activity_id), FIRST, SECOND));
        check(&moved, &returned(Some(FIRST)), "fault activity-closed");
        check(&moved, &returned(None), "fault activity-closed");
    }
    let task = given.task("b");
    let back = "ActivityTimedOut(StartToClose, DeliveryFailed) DeciderScheduled";
    check(&given, &Command::ReturnActivity { task, poll: Some(FIRST) }, back);
}

#[test]
fn a_poll_without_an_id_replaces_the_previous_poll() {
    let given = turn().then(&Command::Redeliver { scheduled_event_id: 2, lost: FIRST, poll: None });
    assert_eq!(given.links, Links::default());
    check(&given, &Command::ReturnTurn { turn: given.turn(), poll: Some(FIRST) }, "fault turn-lost");
    let back = "DeciderFailed(DeliveryFailed) DeciderScheduled";
    check(&given, &Command::ReturnTurn { turn: given.turn(), poll: None }, back);
}

#[test]
fn the_poll_of_a_task_is_forgotten_when_it_ends() {
    let given = turn();
    let complete = given.complete([]);
    let (fail, back) = (given.fail_turn(), Command::ReturnTurn { turn: given.turn(), poll: Some(FIRST) });
    for end in [complete, fail, back, terminate()] {
        let ended = given.clone().then(&end);
        assert_eq!(ended.links, Links::default(), "{end:?}");
        check(&ended, &again(2, FIRST, SECOND), if ended.run.is_open() { NO_TASK } else { "fault run-closed" });
    }
    // Unrelated events change nothing.
    assert_eq!(sent(&given.clone().then(&signal("go"))), [(2, FIRST)]);

    let given = activities();
    let (a, b) = (given.scheduled("a"), given.scheduled("b"));
    assert_eq!(sent(&given.clone().succeeds("b")), [(a, FIRST)]);
    // The next attempt of the activity will be sent to another poll, so the old poll is forgotten.
    let fails = given.fail("a");
    assert_eq!(sent(&given.clone().then(&fails)), [(b, FIRST)]);
    let back = Command::ReturnActivity { task: given.task("a"), poll: Some(FIRST) };
    let waits = given.then(&back);
    assert_eq!(sent(&waits), [(b, FIRST)]);
    let taken = take(&waits, "a", SECOND);
    assert_eq!(sent(&waits.then(&taken)), [(b, FIRST), (a, SECOND)]);
}

const NO_TASK: &str = "fault activity-not-waiting";
