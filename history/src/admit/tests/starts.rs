//! Starts: ids in use, signals that come along, first turns that wait.

use uuid::Uuid;

use crate::admit::{Starting, starting};
use crate::run::DeadlineKind;
use crate::scene::{Scene, cancellation, check, failure, plain, scene, signal, success, terminate, told};
use crate::{
    ConflictPolicy, Duration, Fault, Payload, RequestKey, ReusePolicy, Run, Start, StartSignal, Status, Timestamp,
    limits,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
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
fn a_start_does_what_its_policies_say_whatever_became_of_the_run_before() {
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
fn a_start_that_is_repeated_is_known_by_its_key_open_or_closed() {
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
fn a_signal_that_comes_with_a_start_is_there_in_the_first_turn() {
    let input = Some(Payload::from_json("[1]").unwrap());
    let start = Start { signal: Some(StartSignal { name: "go".to_owned(), input: input.clone() }), ..plain() };
    let given = Scene::of(&start);
    assert_eq!(told(&given.events), "WorkflowStarted DeciderScheduled Signal(go)");
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
fn a_first_turn_that_is_to_wait_does_and_the_execution_timeout_with_it() {
    let start = Start { start_after: Some(seconds(60)), execution_timeout: seconds(10), ..plain() };
    let given = Scene::of(&start);
    assert_eq!(told(&given.events), "WorkflowStarted DeciderScheduled(+PT1M)");
    assert!(!given.run.is_stuck());
    // News is recorded, and waits with it.
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
