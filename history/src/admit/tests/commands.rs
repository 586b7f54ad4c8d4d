//! Every command and every fault that depends on the run's state, idempotency keys and versions.

use uuid::Uuid;

use crate::scene::{
    check, complete, fail, keyed_signal, plain, request_cancel, scene, schedule, signal, succeed, summary, terminate,
};
use crate::{Command, CommandOutcome, Fault, KnownRequest, Links, RequestKey, Run, Timestamp, Transition};

#[test]
fn an_external_event_schedules_one_turn() {
    let (new, busy) = (scene(), scene().take());
    let idle = scene().decide([]);
    check(&idle, &signal("go"), "Signal(go) DeciderScheduled");
    check(&idle, &request_cancel(), "WorkflowCancelRequested DeciderScheduled");
    // A turn is already waiting, so no other turn is scheduled.
    check(&new, &signal("go"), "Signal(go)");
    check(&new, &request_cancel(), "WorkflowCancelRequested");
    // While a decider holds a turn, the first signal schedules the next turn. A second signal schedules none.
    check(&busy, &signal("go"), "Signal(go) DeciderScheduled");
    check(&busy.clone().then(&signal("go")), &signal("stop"), "Signal(stop)");
    assert!(!idle.run.cancel_requested);
    assert!(idle.then(&request_cancel()).run.cancel_requested);
}

#[test]
fn a_closed_run_refuses_everything() {
    let held = scene().decide([schedule("a")]).takes("a").then(&signal("go")).take();
    let (turn, task) = (held.turn(), held.task("a"));
    let closed = held.then(&terminate());
    for command in [
        signal("go"),
        request_cancel(),
        terminate(),
        Command::StartTurn { scheduled_event_id: 2, identity: None, poll: None },
        complete(turn, vec![]),
        Command::FailTurn { turn, reason: None, details: None },
        Command::ReturnTurn { turn, poll: None },
        Command::StartActivity { scheduled_event_id: 5, identity: None, poll: None },
        succeed(task),
        fail(task),
        Command::CancelActivity { task, details: None },
        Command::ReturnActivity { task, poll: None },
    ] {
        check(&closed, &command, "fault run-closed");
    }
    let closed = closed.after(366 * 86_400);
    check(&closed, &closed.fire(), "");
    assert_eq!(closed.run.next_deadline(&[]), None);
}

#[test]
fn a_repeated_key_gets_the_original_response() {
    let given = scene().then(&keyed_signal("go", 1));
    check(&given, &keyed_signal("go", 1), "repeats 3");
    check(&given, &keyed_signal("go", 2), "Signal(go)");
    check(&given, &signal("go"), "Signal(go)");
    let key = Some(RequestKey(5));
    let given = given.then(&Command::RequestCancel { reason: None, identity: None, key });
    check(&given, &Command::RequestCancel { reason: None, identity: None, key }, "repeats 4");
    // The original outcome is also returned if the run has changed or closed since.
    let terminate = Command::Terminate {
        reason: None,
        details: None,
        identity: None,
        key: Some(RequestKey(6)),
        child_policy: None,
    };
    let given = given.then(&terminate);
    check(&given, &terminate, "repeats 5");
    check(&given, &keyed_signal("go", 1), "repeats 3");
    check(&given, &keyed_signal("go", 3), "fault run-closed");
}

#[test]
fn a_refused_key_is_not_remembered() {
    let key = Some(RequestKey(1));
    let given = scene();
    let stale = Command::Signal { name: "go".to_owned(), input: None, identity: None, key, if_version: Some(9) };
    check(&given, &stale, "fault version-mismatch");
    check(&given, &keyed_signal("go", 1), "Signal(go)");
}

#[test]
fn a_repetition_names_the_run_that_recorded_the_request() {
    let closed = scene().then(&keyed_signal("go", 1)).then(&terminate());
    let (old, new) = (Uuid::nil(), Uuid::from_u128(2));
    let mut next = Transition::start(&plain(), new, closed.now).unwrap();
    next.take_over(&closed.run, Links::default(), closed.now, closed.now);
    let first = KnownRequest { run_id: old, event_id: 3 };
    let again = keyed_signal("go", 1);
    assert_eq!(next.admit(&again, closed.now), Ok(CommandOutcome::Repeated(first)));
    for (run_id, expected) in [(None, Some(first)), (Some(old), Some(first)), (Some(new), None)] {
        assert_eq!(next.repeated(&again, run_id), expected);
    }
    // The new run now has a separate record of the request. It is the newest record with this key, so it is returned.
    assert_eq!(next.admit_unrepeated(&again, closed.now), Ok(CommandOutcome::Recorded(3)));
    let own = KnownRequest { run_id: new, event_id: 3 };
    assert_eq!((next.repeated(&again, Some(new)), next.repeated(&again, None)), (Some(own), Some(own)));
}

#[test]
fn the_version_is_the_id_of_the_newest_external_event() {
    let mut given = scene();
    let at = |given: &crate::scene::Scene, version| {
        assert_eq!(given.run.version, version, "{}", summary(&given.events));
    };
    at(&given, 1);
    given = given.take();
    at(&given, 1);
    given = given.decide([]);
    at(&given, 1);
    given = given.then(&signal("go"));
    at(&given, 5);
    given = given.decide([schedule("a")]);
    at(&given, 9);
    given = given.takes("a");
    at(&given, 9);
    given = given.succeeds("a").take();
    at(&given, 11);
    // A lost turn does not change the version.
    given = given.clone().then(&given.fail_turn());
    at(&given, 11);
    given = given.after(1).take().after(30);
    given = given.clone().then(&given.fire());
    at(&given, 11);
}

#[test]
fn timestamps_do_not_decrease_when_the_clock_does() {
    let mut given = scene().then(&signal("go"));
    let (before, newest) = (given.now, given.run.last_timestamp);
    given.now = Timestamp::from_millis(5);
    let given = given.then(&signal("back"));
    assert_eq!(given.events.last().unwrap().timestamp, newest);
    assert_eq!(given.run.last_timestamp, before);
}

#[test]
fn one_transition_folds_several_commands() {
    let given = scene().decide([schedule("a")]).takes("a");
    let mut transition = Transition::of(given.run.clone());
    assert_eq!(transition.admit(&given.succeed("a"), given.now), Ok(CommandOutcome::Recorded(7)));
    assert_eq!(transition.admit(&signal("go"), given.now), Ok(CommandOutcome::Recorded(9)));
    assert_eq!(transition.admit(&given.succeed("a"), given.now), Err(Fault::ActivityClosed));
    let start = Command::StartTurn { scheduled_event_id: 8, identity: None, poll: None };
    assert_eq!(transition.admit(&start, given.now), Ok(CommandOutcome::Recorded(10)));
    assert_eq!(summary(transition.events()), "ActivitySuccess DeciderScheduled Signal(go) DeciderStarted");
    let (run, events) = transition.into_parts();
    let all: Vec<_> = given.events.into_iter().chain(events).collect();
    assert_eq!(Run::replay(&all), Some(run));
    crate::check::history(&all).unwrap();
}
