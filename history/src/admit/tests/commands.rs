//! Every command, every fault that depends on the run's state, keys and versions.

use uuid::Uuid;

use crate::admit::may_start;
use crate::event::{EventKind, RequestKey};
use crate::limits;
use crate::scene::{
    cancel, cancellation, check, complete, fail, failure, keyed_signal, plain, request_cancel, scene, schedule, signal,
    signal_at, succeed, success, terminate, timer, told,
};
use crate::{
    Command, Duration, Fault, Links, Outcome, Payload, Request, ReusePolicy, Run, Start, Status, TaskId, TaskRef,
    Timestamp, Transition, TurnId, admit,
};

const LOST: TurnId = TurnId { scheduled_event_id: 2, started_event_id: 99 };

const NO_TASK: TaskId = TaskId { scheduled_event_id: 5, started_event_id: 99, start: 0 };

#[test]
fn a_start_is_two_events() {
    assert_eq!(told(&scene().events), "WorkflowStarted DeciderScheduled");
    let start = Start { key: Some(RequestKey(7)), ..plain() };
    let (run, events) = Transition::start(&start, Uuid::nil(), Timestamp::from_millis(5)).unwrap().into_parts();
    assert_eq!(events[0].key, Some(RequestKey(7)));
    assert_eq!(run.request(RequestKey(7)).map(|request| request.event_id), Some(1));
    assert_eq!(Run::replay(&events), Some(run));
}

#[test]
fn an_id_is_started_again_as_its_policy_says() {
    use ReusePolicy::{AllowDuplicate, AllowDuplicateFailedOnly, RejectDuplicate};
    assert_eq!(ReusePolicy::default(), AllowDuplicateFailedOnly);
    let open = scene();
    let closed = [
        (Status::Success, open.clone().decide([success()]).run),
        (Status::Failed, open.clone().decide([failure()]).run),
        (Status::Canceled, open.clone().decide([cancellation()]).run),
        (Status::Terminated, open.clone().then(&terminate()).run),
        (Status::TimedOut, open.clone().after(366 * 86_400).then(&open.fire()).run),
    ];
    for policy in [AllowDuplicate, AllowDuplicateFailedOnly, RejectDuplicate] {
        let refused = may_start(&open.run, policy).unwrap_err();
        assert_eq!(refused.code(), "workflow-already-open");
        assert!(refused.depends_on_state());
        for (status, run) in &closed {
            assert_eq!(run.status, *status);
            let allowed = match policy {
                AllowDuplicate => true,
                // Whatever was not a success counts as failed.
                AllowDuplicateFailedOnly => *status != Status::Success,
                RejectDuplicate => false,
            };
            let answer = may_start(run, policy);
            assert_eq!(answer.is_ok(), allowed, "{policy:?} {status}");
            if let Err(fault) = answer {
                assert_eq!(fault.code(), "workflow-id-reuse-refused");
                assert!(fault.depends_on_state());
            }
        }
    }
}

#[test]
fn news_from_outside_schedules_one_turn() {
    let (new, busy) = (scene(), scene().take());
    let idle = scene().decide([]);
    check(&idle, &signal("go"), "Signal(go) DeciderScheduled");
    check(&idle, &request_cancel(), "WorkflowCancelRequested DeciderScheduled");
    // A turn waits already.
    check(&new, &signal("go"), "Signal(go)");
    check(&new, &request_cancel(), "WorkflowCancelRequested");
    // A turn is started: one more waits behind it, and no third.
    check(&busy, &signal("go"), "Signal(go) DeciderScheduled");
    check(&busy.clone().then(&signal("go")), &signal("stop"), "Signal(stop)");
    assert!(!idle.run.cancel_requested);
    assert!(idle.then(&request_cancel()).run.cancel_requested);
}

#[test]
fn terminate_closes_whatever_is_open() {
    for given in [scene(), scene().take(), scene().decide([schedule("a"), timer("t", 9)]).takes("a")] {
        check(&given, &terminate(), "WorkflowTerminated");
        let run = given.then(&terminate()).run;
        assert_eq!(run.status, Status::Terminated);
        assert!(run.activities.is_empty() && run.timers.is_empty() && run.turn.is_none() && run.turn_task.is_none());
    }
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
fn a_decider_takes_the_turn_that_waits() {
    let new = scene();
    check(&new, &new.start_turn(), "DeciderStarted");
    let other = Command::StartTurn { scheduled_event_id: 1, identity: None, poll: None };
    check(&new, &other, "fault turn-not-waiting");
    let busy = new.take();
    check(&busy, &Command::StartTurn { scheduled_event_id: 2, identity: None, poll: None }, "fault turn-not-waiting");
    // The next turn waits until this one has ended.
    let behind = busy.then(&signal("go"));
    check(&behind, &behind.start_turn(), "fault turn-not-waiting");
    assert_eq!(behind.run.waiting_tasks().count(), 0);
    let free = behind.decide([]);
    check(&free, &free.start_turn(), "DeciderStarted");
    assert!(matches!(free.run.waiting_tasks().next(), Some(TaskRef::Turn(_))));
}

#[test]
fn an_answer_needs_the_turn_and_is_taken_once() {
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
    // The repeated answer that closed the run was heard, too.
    let closed = busy.clone().decide([success()]);
    check(&closed, &complete(turn, vec![success()]), "fault turn-completed");

    // A late answer changes nothing.
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
    let command =
        Command::CompleteTurn { turn: busy.turn(), decisions: vec![], context: context.clone(), awaiting: Vec::new() };
    let events = admit(&busy.run, &command, busy.now).unwrap();
    assert!(matches!(&events[0].kind, EventKind::DeciderCompleted(it) if it.context == context));
}

#[test]
fn a_turn_given_back_waits_longer_each_time() {
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
    // An answer ends the series.
    let given = given.decide([]).then(&signal("go")).take();
    check(&given, &given.fail_turn(), "DeciderFailed(Reported) DeciderScheduled(+PT1S)");
    assert_eq!(given.run.turn.as_ref().unwrap().attempt, 1);
}

#[test]
fn a_turn_given_back_while_another_waits_schedules_no_third() {
    let busy = scene().take().then(&signal("go"));
    check(&busy, &busy.fail_turn(), "DeciderFailed(Reported)");
    check(&busy, &Command::ReturnTurn { turn: busy.turn(), poll: None }, "DeciderFailed(DeliveryFailed)");
    // It waits already, without a wait of its own; news must not let a decider that fails spin.
    let next = busy.clone().then(&busy.fail_turn());
    check(&next, &next.start_turn(), "fault turn-not-waiting");
    let next = next.after(1);
    check(&next, &next.start_turn(), "DeciderStarted");
    let next = busy.clone().then(&Command::ReturnTurn { turn: busy.turn(), poll: None });
    check(&next, &next.start_turn(), "DeciderStarted");
}

#[test]
fn a_turn_that_never_arrived_is_dispatched_again_at_once() {
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
    assert_eq!(next.run.turn_task.as_ref().unwrap().attempt, 1, "it says nothing about the decider");
}

#[test]
fn a_window_begins_at_the_last_completed_turn() {
    let completed = scene().decide([]);
    assert_eq!(completed.run.previous_started_event_id, 3);
    let lost = completed.then(&signal("go")).take();
    let lost = lost.clone().then(&lost.fail_turn());
    // What a lost turn was shown is shown again.
    assert_eq!(lost.run.previous_started_event_id, 3);
}

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
fn a_runner_answers_once_and_a_decider_looks_at_it() {
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
    // An open activity, and a start that is not its own.
    let other = TaskId { started_event_id: 99, ..given.task("b") };
    check(&given, &succeed(other), "fault activity-closed");
    check(&given, &fail(other), "fault activity-closed");
    // Nobody answers what nobody took.
    let waiting = scene().decide([schedule("a")]);
    check(&waiting, &succeed(NO_TASK), "fault activity-closed");
}

#[test]
fn an_activity_asked_to_stop_may_still_do_as_it_likes() {
    let given = scene().decide([schedule("a")]).takes("a").then(&signal("stop")).decide([cancel("a")]);
    check(&given, &given.canceled("a"), "ActivityCanceled DeciderScheduled");
    check(&given, &given.succeed("a"), "ActivitySuccess DeciderScheduled");
    check(&given, &given.fail("a"), "ActivityFailed DeciderScheduled");
}

#[test]
fn a_repeated_key_answers_as_the_first_time() {
    let given = scene().then(&keyed_signal("go", 1));
    check(&given, &keyed_signal("go", 1), "repeats 3");
    check(&given, &keyed_signal("go", 2), "Signal(go)");
    check(&given, &signal("go"), "Signal(go)");
    let key = Some(RequestKey(5));
    let given = given.then(&Command::RequestCancel { reason: None, identity: None, key });
    check(&given, &Command::RequestCancel { reason: None, identity: None, key }, "repeats 4");
    // Even when the run has closed or moved on since.
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
    check(&given, &stale, "fault version-moved");
    check(&given, &keyed_signal("go", 1), "Signal(go)");
}

#[test]
fn a_repeated_request_hears_of_the_run_that_recorded_it_and_one_that_names_another_is_none() {
    let closed = scene().then(&keyed_signal("go", 1)).then(&terminate());
    let (old, new) = (Uuid::nil(), Uuid::from_u128(2));
    let mut next = Transition::start(&plain(), new, closed.now).unwrap();
    next.take_over(&closed.run, Links::default(), closed.now, closed.now);
    let first = Request { run_id: old, event_id: 3 };
    let again = keyed_signal("go", 1);
    assert_eq!(next.admit(&again, closed.now), Ok(Outcome::Repeated(first)));
    for (run_id, expected) in [(None, Some(first)), (Some(old), Some(first)), (Some(new), None)] {
        assert_eq!(next.repeated(&again, run_id), expected);
    }
    // It is one of its own then, and the newest that has the key.
    assert_eq!(next.admit_new(&again, closed.now), Ok(Outcome::Recorded(3)));
    let own = Request { run_id: new, event_id: 3 };
    assert_eq!((next.repeated(&again, Some(new)), next.repeated(&again, None)), (Some(own), Some(own)));
}

#[test]
fn the_version_is_the_newest_news() {
    let mut given = scene();
    let at = |given: &crate::scene::Scene, version| {
        assert_eq!(given.run.version, version, "{}", told(&given.events));
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
    // A lost turn moves nothing.
    given = given.clone().then(&given.fail_turn());
    at(&given, 11);
    given = given.after(1).take().after(30);
    given = given.clone().then(&given.fire());
    at(&given, 11);
}

#[test]
fn a_conditional_signal_is_refused_when_the_run_has_moved_on() {
    let given = scene().then(&signal("go"));
    check(&given, &signal_at(3), "Signal(go)");
    check(&given, &signal_at(2), "fault version-moved");
    check(&given, &signal_at(4), "fault version-moved");
    assert_eq!(admit(&given.run, &signal_at(1), given.now), Err(Fault::VersionMoved { expected: 1, found: 3 }));
    // Of racing conditional signals with one token exactly one is accepted.
    let won = given.then(&signal_at(3));
    check(&won, &signal_at(3), "fault version-moved");
    // Bookkeeping moves nothing.
    check(&won.take(), &signal_at(4), "Signal(go) DeciderScheduled");
}

#[test]
fn time_does_not_go_back_whatever_the_clock_does() {
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
    assert_eq!(transition.admit(&given.succeed("a"), given.now), Ok(Outcome::Recorded(7)));
    assert_eq!(transition.admit(&signal("go"), given.now), Ok(Outcome::Recorded(9)));
    assert_eq!(transition.admit(&given.succeed("a"), given.now), Err(Fault::ActivityClosed));
    let start = Command::StartTurn { scheduled_event_id: 8, identity: None, poll: None };
    assert_eq!(transition.admit(&start, given.now), Ok(Outcome::Recorded(10)));
    assert_eq!(told(transition.events()), "ActivitySuccess DeciderScheduled Signal(go) DeciderStarted");
    let (run, events) = transition.into_parts();
    let all: Vec<_> = given.events.into_iter().chain(events).collect();
    assert_eq!(Run::replay(&all), Some(run));
    crate::check::history(&all).unwrap();
}
