//! Retries of workflows. Each attempt is a new run.

use crate::admit::{Starting, is_cancel_request, may_start, starting};
use crate::event::{ChildPolicy, EventKind, RequestKey, Successor, WorkflowTimeout};
use crate::factor::Factor;
use crate::retry::RetryPolicy;
use crate::run::DeadlineKind;
use crate::scene::{
    Scene, cancel_of, check, failure, origin, pause, plain, request_cancel, resume, signal, summary, terminate,
};
use crate::{
    Command, ConflictPolicy, ContinueAsNew, Decision, Duration, FailWorkflow, Payload, ReusePolicy, Run, Start, Status,
    Timestamp, Transition, check as checker,
};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

/// Returns a policy of three attempts, with delays of ten and twenty seconds.
fn policy() -> RetryPolicy {
    RetryPolicy {
        initial_interval: SECONDS(10),
        maximum_attempts: Some(3),
        non_retryable_reasons: vec!["hopeless".to_owned()],
        ..RetryPolicy::default()
    }
}

fn start() -> Start {
    let input = Some(Payload::from_json("7").unwrap());
    Start { input, retry: Some(policy()), run_timeout: Some(SECONDS(60)), ..plain() }
}

fn fails(reason: &str) -> Decision {
    FailWorkflow { reason: reason.to_owned(), ..FailWorkflow::default() }.into()
}

fn closing(scene: &Scene) -> &EventKind {
    &scene.events.last().unwrap().kind
}

/// Returns the run of the next attempt. It is created at the scene's current time.
fn next_attempt(scene: &Scene) -> Scene {
    let Successor { run_id, not_before } = closing(scene).followed_by().expect("another attempt");
    let input = scene.events[0].kind.payload().cloned();
    let cancel_request = scene.events.iter().rfind(|event| is_cancel_request(event));
    let next = Transition::retry(&scene.run, run_id, input, not_before.unwrap(), cancel_request, scene.now);
    let (run, events) = next.into_parts();
    checker::history(&events).unwrap();
    assert_eq!(Run::replay(&events).as_ref(), Some(&run));
    Scene { run, events, ..scene.clone() }
}

#[test]
fn a_failed_run_is_retried_after_the_backoff() {
    let first = Scene::of(&start()).after(5).decide([fails("busy")]);
    let at = first.now.plus(SECONDS(10));
    let EventKind::WorkflowFailed(failed) = closing(&first) else { panic!("{}", summary(&first.events)) };
    assert_eq!((first.run.status, failed.next_attempt_at), (Status::Failed, Some(at)));
    assert_eq!((first.run.has_successor(), first.run.retried_as), (true, failed.new_run_id));

    let second = next_attempt(&first);
    assert_eq!(summary(&second.events), "WorkflowStarted DeciderScheduled(+PT10S)");
    let (before, after) = (&first.run.started, &second.run.started);
    assert_eq!((Some(after.run_id), after.continued_from), (failed.new_run_id, Some(before.run_id)));
    assert_eq!((before.attempt, after.attempt), (Some(1), Some(2)));
    assert_eq!((&after.retry, after.run_timeout), (&before.retry, before.run_timeout));
    assert_eq!(second.events[0].kind.payload().unwrap().text(), Some("7"), "the same input");
    check(&second.clone().after(9), &second.start_turn(), "fault turn-not-waiting");
    check(&second.clone().after(10), &second.start_turn(), "DeciderStarted");

    // The third attempt is the last. The delay before it is twice as long.
    let third = next_attempt(&second.after(10).decide([fails("busy")]));
    assert_eq!(third.run.started.first_turn_at(), third.now.plus(SECONDS(20)));
    let last = third.after(20).decide([fails("busy")]);
    assert_eq!((closing(&last).followed_by(), last.run.has_successor()), (None, false));
}

#[test]
fn no_retry_without_a_policy_or_for_other_reasons() {
    for (start, reason) in [(plain(), "busy"), (start(), "hopeless")] {
        let scene = Scene::of(&start).decide([fails(reason)]);
        assert_eq!((closing(&scene).followed_by(), scene.run.has_successor()), (None, false), "{reason}");
    }
}

#[test]
fn only_failures_and_run_timeouts_are_retried() {
    let open = Scene::of(&start());
    let late = open.clone().after(60);
    let late = late.clone().then(&late.fire());
    let EventKind::WorkflowTimedOut(it) = closing(&late) else { panic!("{}", summary(&late.events)) };
    assert_eq!((it.timeout, it.next_attempt_at), (WorkflowTimeout::Run, Some(late.now.plus(SECONDS(10)))));
    assert_eq!(next_attempt(&late).run.started.attempt, Some(2));

    let ends = [
        open.clone().then(&terminate()),
        open.clone().decide([crate::CancelWorkflow::default().into()]),
        open.clone().decide([crate::SucceedWorkflow::default().into()]),
    ];
    for scene in ends {
        assert!(!scene.run.has_successor(), "{}", scene.run.status);
    }
    let short = Scene::of(&Start { execution_timeout: SECONDS(60), ..start() }).after(60);
    let short = short.clone().then(&short.fire());
    let EventKind::WorkflowTimedOut(it) = closing(&short) else { panic!("{}", summary(&short.events)) };
    assert_eq!(
        (it.timeout, it.new_run_id),
        (WorkflowTimeout::Execution, None),
        "at the same instant, the execution timeout takes precedence"
    );
}

#[test]
fn the_execution_timeout_covers_all_attempts() {
    for (timeout, is_tried) in [(15, false), (16, true)] {
        let first = Scene::of(&Start { execution_timeout: SECONDS(timeout), run_timeout: None, ..start() });
        let begun = first.now;
        let failed = first.after(5).decide([fails("busy")]);
        assert_eq!(failed.run.has_successor(), is_tried, "{timeout}");
        if is_tried {
            let second = next_attempt(&failed);
            let deadline = second.run.deadlines(&[]).into_iter().find(|it| it.what == DeadlineKind::Execution).unwrap();
            assert_eq!(deadline.at, begun.plus(SECONDS(timeout)));
            // The delays leave time for a second attempt, but not for a third.
            assert!(!second.after(10).decide([fails("busy")]).run.has_successor());
        }
    }
}

#[test]
fn a_late_attempt_has_its_full_run_timeout() {
    let failed = Scene::of(&start()).decide([fails("busy")]);
    let late = next_attempt(&failed.clone().after(3_600));
    assert_eq!((late.run.started.start_after, late.run.started.first_turn_at()), (None, late.now));
    let run_deadline = late.run.deadlines(&[]).into_iter().find(|it| it.what == DeadlineKind::Run).unwrap();
    assert_eq!(run_deadline.at, late.now.plus(SECONDS(60)));
    // If the clock was put back, the delay does not become longer.
    let Successor { run_id, not_before: at } = closing(&failed).followed_by().unwrap();
    let early = Transition::retry(&failed.run, run_id, None, at.unwrap(), None, Timestamp::from_millis(1));
    assert_eq!(early.run().started.first_turn_at(), at.unwrap());
}

#[test]
fn the_jitter_of_a_workflow_retry_is_deterministic() {
    let policy = RetryPolicy { jitter: Factor::from_thousandths(500), ..policy() };
    let failed = || Scene::of(&Start { retry: Some(policy.clone()), ..start() }).decide([fails("busy")]);
    let at = closing(&failed()).followed_by().unwrap().not_before.unwrap();
    let wait = at.since(failed().now);
    assert!(SECONDS(5) <= wait && wait < SECONDS(10), "{wait}");
    assert_eq!(closing(&failed()).followed_by(), closing(&failed()).followed_by());
}

#[test]
fn the_workflow_id_stays_in_use_between_attempts() {
    let start = Start { key: Some(RequestKey(7)), ..start() };
    let failed = Scene::of(&start).decide([fails("busy")]);
    for policy in [ReusePolicy::AllowDuplicate, ReusePolicy::AllowDuplicateFailedOnly, ReusePolicy::RejectDuplicate] {
        assert_eq!(may_start(&failed.run, policy).unwrap_err().code(), "workflow-already-open");
    }
    let second = next_attempt(&failed);
    let run_id = second.run.started.run_id;
    assert_eq!(starting(Some(&second.run), &start), Ok(Starting::Repeated { run_id }));
    let other = Start { key: None, conflict_policy: ConflictPolicy::UseExisting, ..start };
    assert_eq!(starting(Some(&second.run), &other), Ok(Starting::Existing { run_id }));
    // In the meantime the second attempt accepts signals, and can be terminated.
    assert!(!second.run.is_stuck());
    let summary = second.then(&signal("go"));
    assert!(!summary.then(&terminate()).run.has_successor());
}

#[test]
fn the_parent_receives_only_the_last_attempts_close() {
    let first = Scene::of(&Start { parent: Some(origin(3, 7)), ..start() }).decide([failure()]);
    assert!(first.links.outbox.is_empty(), "{:?}", first.links);
    let last = next_attempt(&first).after(10).decide([fails("hopeless")]);
    assert!(!last.links.outbox.is_empty());
}

#[test]
fn continue_as_new_keeps_the_policy_and_resets_attempts() {
    let second = next_attempt(&Scene::of(&start()).decide([fails("busy")])).after(10);
    let third = second.decide([ContinueAsNew::default().into()]);
    let EventKind::WorkflowContinuedAsNew(it) = closing(&third) else { panic!("{}", summary(&third.events)) };
    let started = Transition::successor(&third.run, it, None, None, third.now).run().started.clone();
    assert_eq!((started.attempt, started.retry.clone()), (Some(1), Some(policy())));
}

#[test]
fn a_run_with_a_cancel_request_is_not_retried() {
    let parent = Some(origin(3, 7));
    let child = Start { parent: parent.clone(), ..start() };
    let of_parent = Command::TakeParentClose { origin: origin(3, 7), policy: ChildPolicy::RequestCancel };
    // The request comes from a caller or a schedule's overlap policy, from another run's decider, or from the close of
    // the parent.
    for command in [request_cancel(), cancel_of(4, 1), of_parent] {
        let requested = Scene::of(&child).take().then(&command);
        let fails_by_force = FailWorkflow { reason: "busy".to_owned(), force: true, ..FailWorkflow::default() };
        let unseen = requested.clone().decide([fails_by_force.into()]);
        let seen = Scene::of(&child).then(&command).decide([fails("busy")]);
        let late = requested.after(60);
        let late = late.clone().then(&late.fire());
        for (closed, status) in [(unseen, Status::Failed), (seen, Status::Failed), (late, Status::TimedOut)] {
            assert_eq!(closed.run.status, status, "{command:?}");
            assert_eq!((closing(&closed).followed_by(), closed.run.has_successor()), (None, false), "{command:?}");
            assert!(!closed.links.outbox.is_empty(), "the close is reported to the parent: {command:?}");
            assert!(may_start(&closed.run, ReusePolicy::AllowDuplicate).is_ok(), "the id is free: {command:?}");
        }
    }
    // The cancel request also prevents a retry if it came only during a later attempt.
    let second = next_attempt(&Scene::of(&start()).decide([fails("busy")])).then(&request_cancel());
    assert!(!second.decide([fails("busy")]).run.has_successor());
}

#[test]
fn a_retry_planned_earlier_receives_the_cancel_request() {
    let mut failed = Scene::of(&start()).decide([fails("busy")]);
    // An earlier version recorded a retry in spite of the cancel request.
    let requested = Scene::of(&start()).then(&request_cancel());
    failed.events.insert(1, requested.events[2].clone());
    let second = next_attempt(&failed);
    assert_eq!(summary(&second.events), "WorkflowStarted DeciderScheduled(+PT10S) WorkflowCancelRequested");
    check(&second, &second.start_turn(), "DeciderStarted");
}

#[test]
fn a_cancel_request_releases_a_delayed_first_turn() {
    let delayed = Scene::of(&Start { start_after: Some(SECONDS(1_000)), ..start() });
    let of_parent = Command::TakeParentClose { origin: origin(3, 7), policy: ChildPolicy::RequestCancel };
    for given in [delayed.clone(), next_attempt(&Scene::of(&start()).decide([fails("busy")]))] {
        check(&given, &given.start_turn(), "fault turn-not-waiting");
        for command in [request_cancel(), cancel_of(4, 1), of_parent.clone()] {
            let requested = given.clone().after(5).then(&command);
            let EventKind::WorkflowCancelRequested(request) = closing(&requested) else { panic!() };
            assert!(request.releases_first_turn, "{command:?}");
            check(&requested, &requested.start_turn(), "DeciderStarted");
            assert_eq!((requested.run.next_attempt_at(), requested.run.held_turn(requested.now)), (None, None));
            assert_eq!(requested.run.started.first_turn_at(), requested.now);
            // The timeouts count from the cancel request.
            let deadline = requested.run.deadlines(&[]).into_iter().find(|it| it.what == DeadlineKind::Run).unwrap();
            assert_eq!(deadline.at, requested.now.plus(SECONDS(60)));
            let late = requested.clone().after(60);
            check(&late, &late.fire(), "WorkflowTimedOut");
            // The first turn is already available, so a second request does not make it available.
            let again = requested.then(&request_cancel());
            let EventKind::WorkflowCancelRequested(request) = closing(&again) else { panic!() };
            assert!(!request.releases_first_turn);
        }
        // A signal does not make the delayed turn available. In a paused run, the turn waits for the resume.
        let signaled = given.clone().then(&signal("go"));
        check(&signaled, &signaled.start_turn(), "fault turn-not-waiting");
        let paused = given.clone().then(&pause()).then(&request_cancel());
        check(&paused, &paused.start_turn(), "fault turn-not-waiting");
        let resumed = paused.then(&resume());
        check(&resumed, &resumed.start_turn(), "DeciderStarted");
    }
    // If the delay is over, or the first turn has failed, the request need not make the turn available.
    let over = delayed.after(1_000).then(&request_cancel());
    let EventKind::WorkflowCancelRequested(request) = closing(&over) else { panic!() };
    assert!(!request.releases_first_turn);
    let taken = Scene::of(&start()).take();
    let given_back = taken.clone().then(&taken.fail_turn()).then(&request_cancel());
    let EventKind::WorkflowCancelRequested(request) = closing(&given_back) else { panic!() };
    assert!(!request.releases_first_turn);
    check(&given_back, &given_back.start_turn(), "fault turn-not-waiting");
}

#[test]
fn only_a_delayed_first_turn_can_be_released() {
    for held in [None, Some(SECONDS(10))] {
        let mut given = Scene::of(&Start { start_after: held, ..start() });
        given = given.then(&request_cancel());
        let EventKind::WorkflowCancelRequested(request) = &mut given.events[2].kind else { panic!() };
        assert_eq!(request.releases_first_turn, held.is_some());
        request.releases_first_turn = true;
        assert_eq!(checker::history(&given.events).is_ok(), held.is_some());
    }
}
