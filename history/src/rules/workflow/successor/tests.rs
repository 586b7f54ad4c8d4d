//! Continuing as new, and timeouts of a run and of the whole execution.

use crate::decision::ContinueAsNew;
use crate::event::{EventKind, WorkflowContinuedAsNew, WorkflowTimeout};
use crate::run::DeadlineKind;
use crate::scene::{
    Scene, cancel_of, check, complete, failure, plain, request_cancel, scene, schedule, signal, success, summary,
};
use crate::{
    Command, Decision, Duration, Payload, RequestKey, ReusePolicy, Run, Start, Status, Timestamp, Transition,
    admit::{is_cancel_request, may_start, starting},
    check as checker,
};

fn go_on() -> Decision {
    Decision::from(ContinueAsNew { input: Some(Payload::from_json("2").unwrap()), ..ContinueAsNew::default() })
}

fn last(scene: &Scene) -> &WorkflowContinuedAsNew {
    match &scene.events.last().unwrap().kind {
        EventKind::WorkflowContinuedAsNew(it) => it,
        other => panic!("{other:?}"),
    }
}

fn successor(scene: &Scene) -> Scene {
    let cancel_request = scene.events.iter().rfind(|event| is_cancel_request(event));
    let (run, events) = Transition::successor(&scene.run, last(scene), None, cancel_request, scene.now).into_parts();
    checker::history(&events).unwrap();
    assert_eq!(Run::replay(&events).as_ref(), Some(&run));
    Scene { run, events, ..scene.clone() }
}

#[test]
fn a_successor_copies_the_settings_of_its_run() {
    let nominal_time = Timestamp::from_millis(7);
    let by = Some(crate::Scheduled { schedule_id: "nightly".to_owned(), action: 1, nominal_time });
    let run_timeout = Some(Duration::from_secs(60));
    let concurrency_key = Some("ada".to_owned());
    let start = Start { tags: vec!["eu".to_owned()], run_timeout, schedule: by, concurrency_key, ..plain() };
    let given = Scene::of(&start).after(5).decide([schedule("a")]).then(&signal("go")).decide([go_on()]);
    assert_eq!(given.run.status, Status::ContinuedAsNew);
    assert!(given.run.activities.is_empty(), "open items are not copied");
    let next = successor(&given);
    assert_eq!(summary(&next.events), "WorkflowStarted DeciderScheduled");
    let (before, after) = (&given.run.started, &next.run.started);
    assert_eq!(after.run_id, last(&given).new_run_id);
    assert_eq!(after.continued_from, Some(before.run_id));
    assert_eq!(next.events[0].kind.payload().unwrap().text(), Some("2"));
    let like = (&after.workflow_id, &after.workflow_type, &after.task_list, &after.tags, after.run_timeout);
    assert_eq!(like, (&before.workflow_id, &before.workflow_type, &before.task_list, &before.tags, before.run_timeout));
    assert_eq!((after.execution_timeout, &after.schedule), (before.execution_timeout, &start.schedule));
    assert_eq!(after.concurrency_key, start.concurrency_key);

    let other = ContinueAsNew {
        workflow_type: Some("v2".to_owned()),
        task_list: Some("elsewhere".to_owned()),
        tags: Some(Vec::new()),
        ..ContinueAsNew::default()
    };
    let next = successor(&Scene::of(&start).decide([other.into()])).run.started;
    assert_eq!((next.workflow_type.as_str(), next.task_list.as_str(), next.tags.len()), ("v2", "elsewhere", 0));
}

#[test]
fn a_successor_restarts_only_the_run_timeout() {
    let seconds = Duration::from_secs;
    let start = Start { execution_timeout: seconds(100), run_timeout: Some(seconds(60)), ..plain() };
    let first = Scene::of(&start);
    let begun = first.now;
    let late = first.clone().after(60);
    let (_, events) = late.clone().admit(&late.fire()).unwrap();
    let EventKind::WorkflowTimedOut(timed_out) = &events[0].kind else { panic!("{events:?}") };
    assert_eq!(timed_out.timeout, WorkflowTimeout::Run);

    let second = successor(&first.after(50).decide([go_on()]));
    let at = |scene: &Scene, what| scene.run.deadlines(&[]).into_iter().find(|it| it.what == what).unwrap().at;
    assert_eq!(at(&second, DeadlineKind::Execution), begun.plus(seconds(100)));
    assert_eq!(at(&second, DeadlineKind::Run), begun.plus(seconds(110)));
    // Further successors do not extend the execution timeout.
    let third = successor(&second.after(10).decide([go_on()]));
    assert_eq!(at(&third, DeadlineKind::Execution), begun.plus(seconds(100)));
    let late = third.after(40);
    check(&late, &late.fire(), "WorkflowTimedOut");
}

#[test]
fn the_parent_receives_only_the_last_successors_close() {
    let parent = Some(crate::scene::origin(3, 7));
    let given = Scene::of(&Start { parent: parent.clone(), ..plain() }).decide([go_on()]);
    assert!(given.links.outbox.is_empty());
    let next = successor(&given);
    assert_eq!(next.run.started.parent, parent);
    assert!(!next.decide([crate::scene::success()]).links.outbox.is_empty());
}

#[test]
fn continue_as_new_with_unseen_events_fails_unless_forced() {
    let busy = scene().take().then(&signal("go"));
    check(&busy, &busy.complete([go_on()]), "DeciderCompleted WorkflowCloseFailed(ContinueAsNew)");
    let by_force = ContinueAsNew { force: true, ..ContinueAsNew::default() };
    check(&busy, &busy.complete([by_force.into()]), "DeciderCompleted WorkflowContinuedAsNew");
    let not_last = complete(busy.turn(), vec![go_on(), schedule("a")]);
    check(&busy, &not_last, "fault invalid-field");
}

#[test]
fn the_id_stays_in_use_until_the_successor_starts() {
    let start = Start { key: Some(RequestKey(7)), ..plain() };
    let given = Scene::of(&start).decide([go_on()]);
    for policy in [ReusePolicy::AllowDuplicate, ReusePolicy::AllowDuplicateFailedOnly, ReusePolicy::RejectDuplicate] {
        assert_eq!(may_start(&given.run, policy).unwrap_err().code(), "workflow-already-open");
    }
    let next = successor(&given).run;
    assert_eq!(starting(Some(&next), &start), Ok(crate::admit::Starting::Repeated { run_id: next.started.run_id }));
}

#[test]
fn a_successors_run_id_is_deterministic() {
    let given = scene().decide([go_on()]);
    let id = last(&given).new_run_id;
    assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
    assert_eq!(last(&scene().decide([go_on()])).new_run_id, id);
    let again = successor(&given).decide([go_on()]);
    assert_ne!(last(&again).new_run_id, id);
    // The successor's history is separate. It begins at the current time of the clock, even if the history of the old
    // run ended at a later time.
    let early = Transition::successor(&given.run, last(&given), None, None, Timestamp::from_millis(1));
    assert_eq!(early.run().started.at, Timestamp::from_millis(1));
}

#[test]
fn a_successor_receives_the_cancel_request() {
    let cancel_because = |reason: &str| Command::RequestCancel {
        reason: Some(reason.to_owned()),
        identity: Some("ann".to_owned()),
        key: Some(RequestKey(9)),
    };
    let given = scene().then(&cancel_because("the customer thought again")).decide([go_on()]);
    let next = successor(&given);
    assert_eq!(summary(&next.events), "WorkflowStarted DeciderScheduled WorkflowCancelRequested");
    assert!(next.run.cancel_requested);
    let EventKind::WorkflowCancelRequested(carried) = &next.events[2].kind else { panic!() };
    assert_eq!(carried.reason.as_deref(), Some("the customer thought again"));
    assert_eq!((carried.identity.as_deref(), carried.releases_first_turn), (Some("ann"), false));
    assert_eq!(next.events[2].key, None, "the request was made once");
    // The cancel request is passed on to each successor until a decider answers it.
    let third = successor(&next.decide([go_on()]));
    assert_eq!((third.run.cancel_requested, third.events.len()), (true, 3));
    assert!(!third.decide([failure()]).run.has_successor());
    // A cancel request from another run keeps its origin. If there are several requests, the newest is passed on.
    let both = successor(&scene().then(&cancel_because("first")).then(&cancel_of(3, 7)).decide([go_on()]));
    let EventKind::WorkflowCancelRequested(carried) = &both.events[2].kind else { panic!() };
    assert_eq!(carried.origin, Some(crate::scene::origin(3, 7)));
    assert_eq!(both.events.len(), 3);
    // Without a cancel request to the old run, the successor receives no cancel request.
    assert!(!successor(&scene().decide([go_on()])).run.cancel_requested);
    // If the decider has not seen the request, its decision fails. If the decision is forced, the successor receives
    // the request.
    let busy = scene().take().then(&request_cancel());
    check(&busy, &busy.complete([go_on()]), "DeciderCompleted WorkflowCloseFailed(ContinueAsNew)");
    let by_force: Decision = ContinueAsNew { force: true, ..ContinueAsNew::default() }.into();
    assert!(successor(&busy.decide([by_force])).run.cancel_requested);
    // If the run was paused, the successor is paused after the request is recorded.
    let paused = scene().then(&request_cancel()).take().then(&crate::scene::pause()).decide([go_on()]);
    let next = summary(&successor(&paused).events);
    assert_eq!(next, "WorkflowStarted DeciderScheduled WorkflowCancelRequested WorkflowPaused");
}

#[test]
fn an_swf_successor_receives_the_cancel_request() {
    let swf = Some(crate::SwfRun::default());
    let settings = crate::WorkflowDefaults {
        task_list: Some("orders".to_owned()),
        execution_timeout: Some(Duration::from_secs(60)),
        decider_start_to_close: Some(Duration::from_secs(10)),
        child_policy: Some(crate::event::ChildPolicy::Terminate),
        ..crate::WorkflowDefaults::default()
    };
    let known = crate::Registration::Known(Box::new(settings));
    let given = Scene::of(&Start { swf, ..plain() }).with_workflow("order", known).then(&request_cancel());
    let next = successor(&given.decide([go_on()]));
    assert_eq!(summary(&next.events), "WorkflowStarted DeciderScheduled WorkflowCancelRequested");
    assert!(next.run.cancel_requested);
    assert!(!next.decide([success()]).run.has_successor());
}
