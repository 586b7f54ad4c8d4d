//! The table of runs, with one case per line, and further rules.

mod attempts;

use uuid::Uuid;

use crate::admit::Starting;
use crate::admit::may_start;
use crate::admit::starting;
use crate::scene::{
    Scene, cancel, cancel_timer, cancellation, check, failure, fires, marker, plain, request_cancel, scene, schedule,
    signal, success, success_by_force, summary, terminate, timer,
};
use crate::{
    CancelWorkflow, ConflictPolicy, ContinueAsNew, DeadlineKind, Decision, Duration, FailWorkflow, Fault, Payload,
    RequestKey, ReusePolicy, Run, Start, StartSignal, Status, Timestamp, Transition, limits,
};

const CLOSES: [fn() -> Decision; 4] = [success, failure, cancellation, go_on];

fn go_on() -> Decision {
    Decision::from(ContinueAsNew::default())
}

/// Events of the four closing decisions.
const CLOSED: [&str; 4] = ["WorkflowSuccess", "WorkflowFailed(no stock)", "WorkflowCanceled", "WorkflowContinuedAsNew"];

#[test]
fn table_of_an_open_run() {
    let given = scene().take();
    check(&given, &request_cancel(), "WorkflowCancelRequested DeciderScheduled");
    check(&given, &terminate(), "WorkflowTerminated");
    for (close, closed) in CLOSES.iter().zip(CLOSED) {
        check(&given, &given.complete([close()]), &format!("DeciderCompleted {closed}"));
    }
    let late = scene().decide([]).after(366 * 86_400);
    check(&late, &late.fire(), "WorkflowTimedOut");
}

#[test]
fn table_of_an_open_run_with_unseen_events() {
    let given = scene().take().then(&signal("go"));
    for close in CLOSES {
        let failed = given.clone().admit(&given.complete([close()])).unwrap().1;
        let names: Vec<_> = failed.iter().map(|event| event.kind.name()).collect();
        assert_eq!(names, ["DeciderCompleted", "WorkflowCloseFailed"]);
    }
    check(&given, &given.complete([success_by_force()]), "DeciderCompleted WorkflowSuccess");
}

#[test]
fn table_of_a_closed_run() {
    for close in CLOSES {
        let given = scene().decide([close()]);
        check(&given, &request_cancel(), "fault run-closed");
        check(&given, &terminate(), "fault run-closed");
        let again = may_start(&given.run, ReusePolicy::AllowDuplicate).map_err(|fault| fault.code());
        // A run that continued as new has a successor.
        let has_successor = given.run.status == Status::ContinuedAsNew;
        assert_eq!(again, if has_successor { Err("workflow-already-open") } else { Ok(()) });
    }
}

#[test]
fn a_start_is_two_events() {
    assert_eq!(summary(&scene().events), "WorkflowStarted DeciderScheduled");
    let start = Start { key: Some(RequestKey(7)), ..plain() };
    let (run, events) = Transition::start(&start, Uuid::nil(), Timestamp::from_millis(5)).unwrap().into_parts();
    assert_eq!(events[0].key, Some(RequestKey(7)));
    assert_eq!(run.request(RequestKey(7)).map(|request| request.event_id), Some(1));
    assert_eq!(Run::replay(&events), Some(run));
}

#[test]
fn the_reuse_policy_decides_about_another_start() {
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
                // Every close other than a success counts as a failure.
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
fn terminate_closes_all_open_items() {
    for given in [scene(), scene().take(), scene().decide([schedule("a"), timer("t", 9)]).takes("a")] {
        check(&given, &terminate(), "WorkflowTerminated");
        let run = given.then(&terminate()).run;
        assert_eq!(run.status, Status::Terminated);
        assert!(run.activities.is_empty() && run.timers.is_empty() && run.turn.is_none() && run.turn_task.is_none());
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_run_times_out_after_its_execution_timeout() {
    let start = Start { execution_timeout: Duration::from_secs(10), ..plain() };
    fires(&Scene::of(&start), 10, "WorkflowTimedOut");
    let given = Scene::of(&start).decide([timer("t", 10), timer("u", 11)]);
    // Deadlines that were due before the timeout are recorded first. Deadlines after it are not recorded at all.
    let late = given.after(60);
    check(&late, &late.fire(), "TimerExpired(t) WorkflowTimedOut");
}

fn every_close() -> Vec<(Status, Run)> {
    let open = scene();
    vec![
        (Status::Success, open.clone().decide([success()]).run),
        (Status::Failed, open.clone().decide([failure()]).run),
        (Status::Canceled, open.clone().decide([cancellation()]).run),
        (Status::Terminated, open.clone().then(&terminate()).run),
        (Status::TimedOut, open.clone().after(366 * 86_400).then(&open.fire()).run),
    ]
}

#[test]
fn a_start_follows_its_conflict_and_reuse_policies() {
    use ConflictPolicy::{Fail, TerminateExisting, UseExisting};
    use ReusePolicy::{AllowDuplicate, AllowDuplicateFailedOnly, RejectDuplicate};
    let open = scene().run;
    let run_id = open.started.run_id;
    for conflict_policy in [Fail, UseExisting, TerminateExisting] {
        for reuse_policy in [AllowDuplicate, AllowDuplicateFailedOnly, RejectDuplicate] {
            let start = Start { reuse_policy, conflict_policy, ..plain() };
            if (conflict_policy, reuse_policy) == (TerminateExisting, RejectDuplicate) {
                assert!(matches!(starting(None, &start), Err(Fault::Invalid { .. })));
                continue;
            }
            assert_eq!(starting(None, &start), Ok(Starting::New));
            let while_open = match conflict_policy {
                Fail => Err(Fault::AlreadyOpen { run_id }),
                UseExisting => Ok(Starting::Existing { run_id }),
                TerminateExisting => Ok(Starting::TerminateFirst),
            };
            assert_eq!(starting(Some(&open), &start), while_open, "{start:?}");
            for (status, run) in every_close() {
                let is_allowed = match reuse_policy {
                    AllowDuplicate => true,
                    AllowDuplicateFailedOnly => status != Status::Success,
                    RejectDuplicate => false,
                };
                let expected = if is_allowed { Ok(Starting::New) } else { Err(Fault::ReuseRefused { run_id, status }) };
                assert_eq!(starting(Some(&run), &start), expected, "{start:?}");
            }
        }
    }
}

#[test]
fn a_repeated_start_is_known_by_its_key() {
    let key = Some(RequestKey(7));
    for conflict_policy in [ConflictPolicy::Fail, ConflictPolicy::UseExisting, ConflictPolicy::TerminateExisting] {
        let start = Start { conflict_policy, key, ..plain() };
        let open = Scene::of(&start);
        let run_id = open.run.started.run_id;
        assert_eq!(starting(Some(&open.run), &start), Ok(Starting::Repeated { run_id }));
        let closed = open.decide([success()]);
        assert_eq!(starting(Some(&closed.run), &start), Ok(Starting::Repeated { run_id }));
        let other = Start { key: Some(RequestKey(8)), ..start };
        assert_ne!(starting(Some(&closed.run), &other), Ok(Starting::Repeated { run_id }));
    }
}

#[test]
fn a_signal_sent_with_a_start_is_in_the_first_turn() {
    let input = Some(Payload::from_json("[1]").unwrap());
    let start = Start { signal: Some(StartSignal { name: "go".to_owned(), input: input.clone() }), ..plain() };
    let given = Scene::of(&start);
    assert_eq!(summary(&given.events), "WorkflowStarted DeciderScheduled Signal(go)");
    assert_eq!(given.events[2].kind.payload(), input.as_ref());
    check(&given, &given.start_turn(), "DeciderStarted");
    let signal = |name: String, bytes: usize| {
        let input = Some(Payload::from_json(&format!("\"{}\"", "x".repeat(bytes - 2))).unwrap());
        let start = Start { signal: Some(StartSignal { name, input }), ..plain() };
        starting(None, &start).map_err(|fault| fault.to_string())
    };
    let name = "n".repeat(limits::NAME_CHARS_MAX);
    assert_eq!(signal(name.clone(), limits::PAYLOAD_BYTES_MAX), Ok(Starting::New));
    assert!(signal(name.clone() + "n", 2).unwrap_err().contains("`signal.name` has 257 characters"));
    assert!(signal(String::new(), 2).unwrap_err().contains("`signal.name` is empty"));
    assert!(signal(name, limits::PAYLOAD_BYTES_MAX + 1).unwrap_err().contains("`signal.input` has 262145 bytes"));
}

#[test]
fn a_delayed_start_delays_turn_and_execution_timeout() {
    let start = Start { start_after: Some(seconds(60)), execution_timeout: seconds(10), ..plain() };
    let given = Scene::of(&start);
    assert_eq!(summary(&given.events), "WorkflowStarted DeciderScheduled(+PT1M)");
    assert!(!given.run.is_stuck());
    // Events are recorded. The turn that they schedule is also delayed.
    let given = given.then(&signal("go")).after(59);
    check(&given, &given.start_turn(), "fault turn-not-waiting");
    check(&given, &given.fire(), "");
    let given = given.after(1);
    check(&given, &given.start_turn(), "DeciderStarted");
    let execution = given.run.deadlines(&[]).into_iter().find(|it| it.what == DeadlineKind::Execution).unwrap();
    assert_eq!(execution.at, given.now.plus(seconds(10)));
    let late = given.after(10);
    check(&late, &late.fire(), "WorkflowTimedOut");

    let at_once = Scene::of(&Start { start_after: Some(Duration::ZERO), ..plain() });
    assert_eq!(at_once.run.started.start_after, None);
    check(&at_once, &at_once.start_turn(), "DeciderStarted");
    let longest = |start_after| {
        crate::Transition::start(
            &Start { start_after: Some(start_after), ..plain() },
            Uuid::nil(),
            Timestamp::default(),
        )
    };
    assert!(longest(limits::SPAN_MAX).is_ok());
    let beyond = Duration::from_millis(limits::SPAN_MAX.as_millis() + 1);
    assert!(matches!(longest(beyond), Err(Fault::Invalid { field, .. }) if field == "startAfter"));
}

#[test]
fn a_close_with_unseen_events_fails_unless_forced() {
    let busy = scene().take().then(&signal("late"));
    let forced: [Decision; 3] = [
        success_by_force(),
        FailWorkflow { reason: "r".to_owned(), force: true, ..FailWorkflow::default() }.into(),
        CancelWorkflow { details: None, force: true }.into(),
    ];
    // The event's turn is already waiting, so no further turn is scheduled.
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
fn every_external_event_makes_a_close_fail() {
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
    // The start of an activity does not need a decision.
    let given = on_time.takes("b");
    check(&given, &given.complete([success()]), "DeciderCompleted WorkflowSuccess");
}

#[test]
fn a_close_after_a_failed_decision_fails() {
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
fn a_closing_decision_must_be_the_last_one() {
    let busy = scene().take();
    check(&busy, &busy.complete([success(), marker("m")]), "fault invalid-field");
    check(&busy, &busy.complete([success(), success()]), "fault invalid-field");
    check(&busy, &busy.complete([marker("m"), success_by_force(), schedule("a")]), "fault invalid-field");
}
