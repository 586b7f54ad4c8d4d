//! The table of children, with one case per line, and effects between parent and child.

use uuid::Uuid;

use crate::command::EffectResult;
use crate::decision::StartChild;
use crate::event::{
    ChildPolicy, EventKind, Origin, WorkflowCanceled, WorkflowFailed, WorkflowSuccess, WorkflowTerminated,
    WorkflowTimedOut, WorkflowTimeout,
};
use crate::scene::{
    Scene, check, child, child_closes, done, plain, scene, schedule, settle, signal, start_child, success, terminate,
};
use crate::{
    Command, Decision, EffectKind, Event, OutboundAction, OutboundEffect, ReusePolicy, Start, Transition, child_run_id,
    limits,
};

fn succeeded() -> EventKind {
    EventKind::WorkflowSuccess(WorkflowSuccess { result: None, decision_event_id: 4 })
}

fn owed(scene: &Scene) -> Vec<(u64, EffectKind)> {
    scene.links.outbox.ready().map(|effect| (effect.event_id, effect.kind)).collect()
}

/// Returns the effects of a run that can be delivered now.
fn outbound_effects(scene: &Scene) -> Vec<OutboundEffect> {
    let event = |event_id: u64| -> &Event { &scene.events[usize::try_from(event_id).unwrap() - 1] };
    let ready = scene.links.outbox.ready();
    ready.map(|effect| effect.outbound(&scene.run.started, event(effect.event_id)).unwrap()).collect()
}

fn with_child() -> Scene {
    scene().decide([child("c")])
}

const TWICE: &str = "DeciderCompleted ChildScheduleFailed(c, WorkflowAlreadyOpen) DeciderScheduled";

#[test]
fn table_of_a_child_that_is_not_open() {
    let closed = with_child().then(&child_closes(5, succeeded()));
    for given in [scene().take(), closed.clone().take()] {
        check(&given, &given.complete([child("c")]), "DeciderCompleted ChildScheduled(c)");
    }
    assert!(closed.links.is_empty(), "there is no start left to deliver");
    check(&closed, &settle(5, EffectKind::StartChild, done()), "");
    check(&closed, &child_closes(5, succeeded()), "repeats 8");
}

#[test]
fn table_of_a_scheduled_child() {
    let given = with_child().then(&signal("go")).take();
    check(&given, &given.complete([child("c")]), TWICE);
    let start = |result| settle(5, EffectKind::StartChild, result);
    check(&given, &start(done()), "ChildStarted(c)");
    for (result, cause) in [
        (EffectResult::AlreadyOpen, "WorkflowAlreadyOpen"),
        (EffectResult::ReuseRefused, "WorkflowIdReuseRefused"),
        (EffectResult::NeverStarts, "StartRefused"),
    ] {
        check(&given, &start(result), &format!("ChildScheduleFailed(c, {cause}) DeciderScheduled"));
    }
    // The report of the child's close can arrive before the report of its start.
    check(&given, &child_closes(5, succeeded()), "ChildStarted(c) ChildSuccess DeciderScheduled");
}

#[test]
fn table_of_a_started_child() {
    let given = with_child().then(&settle(5, EffectKind::StartChild, done())).then(&signal("go")).take();
    check(&given, &given.complete([child("c")]), TWICE);
    check(&given, &settle(5, EffectKind::StartChild, EffectResult::AlreadyOpen), "");
    check(&given, &child_closes(5, succeeded()), "ChildSuccess DeciderScheduled");
}

#[test]
fn only_the_close_of_a_child_schedules_a_turn() {
    let wanted = with_child();
    assert_eq!(owed(&wanted), [(5, EffectKind::StartChild)]);
    check(&wanted, &settle(5, EffectKind::StartChild, done()), "ChildStarted(c)");
    let started = wanted.then(&settle(5, EffectKind::StartChild, done()));
    assert!(started.links.is_empty() && started.run.turn_task.is_none());
    check(&started, &settle(5, EffectKind::StartChild, done()), "");
    let failed = WorkflowFailed {
        has_empty_reason: false,
        reason: "no stock".to_owned(),
        details: None,
        decision_event_id: 4,
        new_run_id: None,
        next_attempt_at: None,
    };
    let timed_out = WorkflowTimedOut { timeout: WorkflowTimeout::Execution, new_run_id: None, next_attempt_at: None };
    let terminated = WorkflowTerminated {
        cause: None,
        reason: None,
        details: None,
        identity: None,
        origin: None,
        child_policy: None,
        reset: None,
    };
    for (close, then) in [
        (succeeded(), "ChildSuccess"),
        (EventKind::WorkflowFailed(failed), "ChildFailed(no stock)"),
        (EventKind::WorkflowTimedOut(timed_out), "ChildTimedOut"),
        (EventKind::WorkflowCanceled(WorkflowCanceled { details: None, decision_event_id: 4 }), "ChildCanceled"),
        (EventKind::WorkflowTerminated(terminated), "ChildTerminated"),
    ] {
        check(&started, &child_closes(5, close.clone()), &format!("{then} DeciderScheduled"));
        let summary = started.clone().then(&child_closes(5, close.clone()));
        check(&summary, &child_closes(5, close), &format!("repeats {}", summary.run.last_event_id));
        assert!(summary.run.children.is_empty());
    }
}

#[test]
fn open_children_are_limited() {
    let many: Vec<Decision> = (0..limits::OPEN_CHILDREN_MAX - 1).map(|id| child(&format!("c{id}"))).collect();
    let scene = scene().take();
    let full = Command::complete(scene.turn(), many);
    let full = scene.then(&full).then(&signal("go")).take();
    check(
        &full,
        &full.complete([child("a"), child("b")]),
        "DeciderCompleted ChildScheduled(a) ChildScheduleFailed(b, OpenChildrenLimit) DeciderScheduled",
    );
}

#[test]
fn absent_child_settings_are_taken_from_the_parent() {
    let start = Start { retention: crate::Duration::from_days(3), ..plain() };
    let wanted = Scene::of(&start).decide([child("c")]);
    let EventKind::ChildScheduled(it) = &wanted.events[4].kind else { panic!("{:?}", wanted.events) };
    assert_eq!((it.task_list.as_str(), it.retention), (start.task_list.as_str(), start.retention));
    assert_eq!(it.execution_timeout, limits::EXECUTION_TIMEOUT_DEFAULT);
    assert_eq!(it.child_policy, ChildPolicy::Terminate);
    let [outbound] = &outbound_effects(&wanted)[..] else { panic!("one outbound") };
    let run_id = child_run_id(wanted.run.started.run_id, 5, wanted.events[4].timestamp);
    assert_eq!((outbound.workflow_id.as_str(), outbound.run_id), ("c", Some(run_id)));
    let OutboundAction::Start(child) = &outbound.task else { panic!("{outbound:?}") };
    let parent = Origin { workflow_id: "order-1".to_owned(), run_id: wanted.run.started.run_id, event_id: 5 };
    assert_eq!(child.parent, Some(parent.clone()));
    let (run, events) = Transition::start(child, run_id, wanted.now).unwrap().into_parts();
    assert_eq!(run.started.parent, Some(parent.clone()));
    assert!(matches!(&events[0].kind, EventKind::WorkflowStarted(it) if it.parent == Some(parent)));
}

#[test]
fn an_open_run_with_the_id_of_the_child_decides_the_start() {
    let wanted = with_child();
    let outbound = outbound_effects(&wanted).remove(0);
    let OutboundAction::Start(start) = &outbound.task else { panic!("{outbound:?}") };
    let run_id = outbound.run_id.unwrap();
    let child = || Transition::start(start, run_id, wanted.now).unwrap();
    assert_eq!(child().apply_effect(&outbound, wanted.now), EffectResult::Done { run_id });
    // Create a later, unrelated run with the child's workflow id.
    let later = Uuid::from_u128(5);
    let mut follower = Transition::start(start, later, wanted.now).unwrap();
    assert_eq!(follower.apply_effect(&outbound, wanted.now), EffectResult::Done { run_id: later });
    let stranger = || Transition::start(&Start { parent: None, ..(**start).clone() }, later, wanted.now).unwrap();
    assert_eq!(stranger().apply_effect(&outbound, wanted.now), EffectResult::AlreadyOpen);
    let mut closed = stranger();
    closed.admit(&terminate(), wanted.now).unwrap();
    let once = OutboundEffect {
        task: OutboundAction::Start(Box::new(Start {
            reuse_policy: ReusePolicy::RejectDuplicate,
            ..(**start).clone()
        })),
        ..outbound.clone()
    };
    assert_eq!(closed.apply_effect(&once, wanted.now), EffectResult::ReuseRefused);
    assert_eq!(closed.apply_effect(&outbound, wanted.now), EffectResult::Closed, "no open run prevents the start");
}

#[test]
fn a_closing_parent_applies_the_child_policies() {
    let wanted = scene().decide([
        start_child("t", ChildPolicy::Terminate),
        start_child("r", ChildPolicy::RequestCancel),
        start_child("a", ChildPolicy::Abandon),
        schedule("x"),
    ]);
    let started =
        [5, 6, 7].into_iter().fold(wanted, |scene, id| scene.then(&settle(id, EffectKind::StartChild, done())));
    let closed = started.then(&terminate());
    assert_eq!(owed(&closed), [(5, EffectKind::EndChild), (6, EffectKind::EndChild)]);
    let policies: Vec<_> = outbound_effects(&closed)
        .into_iter()
        .map(|outbound| match outbound.task {
            OutboundAction::Admit(Command::TakeParentClose { origin, policy }) => (origin.event_id, policy),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(policies, [(5, ChildPolicy::Terminate), (6, ChildPolicy::RequestCancel)]);
    let settled = closed.then(&settle(5, EffectKind::EndChild, done())).then(&settle(6, EffectKind::EndChild, done()));
    assert!(settled.links.is_empty());
}

#[test]
fn a_child_is_started_before_its_policy_is_applied() {
    let closed = with_child().then(&terminate());
    assert_eq!(owed(&closed), [(5, EffectKind::StartChild)]);
    let next = closed.then(&settle(5, EffectKind::StartChild, done()));
    assert_eq!(owed(&next), [(5, EffectKind::EndChild)]);
}

fn child_of(event_id: u64) -> (Scene, Origin) {
    let parent = Origin { workflow_id: "p".to_owned(), run_id: Uuid::from_u128(1), event_id };
    (Scene::of(&Start { parent: Some(parent.clone()), ..plain() }), parent)
}

fn parent_closes(origin: &Origin, policy: ChildPolicy) -> OutboundEffect {
    let command = Command::TakeParentClose { origin: origin.clone(), policy };
    OutboundEffect {
        workflow_id: "order-1".to_owned(),
        run_id: None,
        task: OutboundAction::Admit(command),
        by: None,
        trace: None,
    }
}

#[test]
fn only_the_parent_ends_a_child_and_only_once() {
    let (child, parent) = child_of(5);
    let run_id = child.run.started.run_id;
    let names = |transition: &Transition| transition.events().iter().map(|it| it.kind.name()).collect::<Vec<_>>();
    for (policy, expected) in [
        (ChildPolicy::Terminate, vec!["WorkflowTerminated"]),
        // A turn is already waiting, so the cancel request schedules none.
        (ChildPolicy::RequestCancel, vec!["WorkflowCancelRequested"]),
    ] {
        let mut transition = Transition::of(child.run.clone());
        let outbound = parent_closes(&parent, policy);
        for _ in 0..2 {
            assert_eq!(transition.apply_effect(&outbound, child.now), EffectResult::Done { run_id });
            assert_eq!(names(&transition), expected);
        }
    }
    let stranger = Origin { event_id: 6, ..parent };
    let mut transition = Transition::of(child.run.clone());
    assert_eq!(
        transition.apply_effect(&parent_closes(&stranger, ChildPolicy::Terminate), child.now),
        EffectResult::Unknown
    );
    assert!(transition.events().is_empty());
}

#[test]
fn a_closing_child_reports_to_its_parent() {
    let (child, parent) = child_of(5);
    let closed = child.decide([success()]);
    assert_eq!(owed(&closed), [(5, EffectKind::NotifyParent)]);
    let [outbound] = &outbound_effects(&closed)[..] else { panic!("one outbound") };
    assert_eq!((outbound.workflow_id.as_str(), outbound.run_id), ("p", Some(parent.run_id)));
    // The first two runs are not the parent: another run, and a run without this child. The third run is the parent.
    let wanted = with_child();
    let mut transition = Transition::of(wanted.run.clone());
    assert_eq!(transition.apply_effect(outbound, wanted.now), EffectResult::Unknown, "another run");
    let to_nil = OutboundEffect { run_id: Some(Uuid::nil()), ..outbound.clone() };
    assert_eq!(Transition::of(scene().run).apply_effect(&to_nil, wanted.now), EffectResult::Unknown, "no such child");
    assert_eq!(transition.apply_effect(&to_nil, wanted.now), EffectResult::Done { run_id: Uuid::nil() });
    assert_eq!(transition.apply_effect(&to_nil, wanted.now), EffectResult::Unknown, "reported before");
    let mut over = Transition::of(wanted.then(&terminate()).run);
    assert_eq!(over.apply_effect(&to_nil, closed.now), EffectResult::Closed);
}

#[test]
fn fields_of_children_are_limited() {
    let busy = scene().take();
    let long = "x".repeat(limits::NAME_CHARS_MAX + 1);
    let plain = || StartChild { workflow_id: "c".to_owned(), workflow_type: "t".to_owned(), ..StartChild::default() };
    let zero = Some(crate::Duration::ZERO);
    let ages = Some(limits::SPAN_MAX.times(2));
    for (decision, fault) in [
        (StartChild { workflow_id: String::new(), ..plain() }, "invalid-field"),
        (StartChild { workflow_id: long.clone(), ..plain() }, "too-large"),
        (StartChild { workflow_type: String::new(), ..plain() }, "invalid-field"),
        (StartChild { task_list: Some(String::new()), ..plain() }, "invalid-field"),
        (StartChild { execution_timeout: zero, ..plain() }, "invalid-field"),
        (StartChild { decider_start_to_close: zero, ..plain() }, "invalid-field"),
        (StartChild { decider_schedule_to_start: ages, ..plain() }, "invalid-field"),
        (StartChild { retention: ages, ..plain() }, "invalid-field"),
        (StartChild { tags: vec!["t".to_owned(); limits::TAGS_MAX + 1], ..plain() }, "invalid-field"),
        (StartChild { tags: vec![long.clone()], ..plain() }, "too-large"),
    ] {
        check(&busy, &busy.complete([decision.into()]), &format!("fault {fault}"));
    }
}

#[test]
fn a_closed_child_is_not_started_or_ended_again() {
    let close = |parent: Uuid| OutboundEffect {
        workflow_id: "w".to_owned(),
        run_id: Some(parent),
        task: OutboundAction::Admit(child_closes(5, succeeded())),
        by: None,
        trace: None,
    };
    // The parent closes before the start of its child was reported.
    let closed = scene().decide([child("c"), child("d"), success()]);
    let parent = closed.run.started.run_id;
    let followed =
        Scene { links: closed.links.clone().handed_over(parent), ..Scene::of_run(&plain(), Uuid::from_u128(50)) };
    for scene in [closed, followed] {
        let mut transition = Transition::linked(scene.run.clone(), scene.links.clone());
        assert_ne!(transition.apply_effect(&close(parent), scene.now), EffectResult::Done { run_id: parent });
        assert!(transition.is_changed() && transition.events().is_empty());
        let left: Vec<u64> = transition.links().outbox.iter().map(|effect| effect.event_id).collect();
        assert_eq!(left, [6, 6], "the effect of the other child stays");
    }
}

#[test]
fn a_child_has_its_own_concurrency_key_or_its_parents() {
    let parent = Scene::of(&Start { concurrency_key: Some("ada".to_owned()), ..plain() });
    let own = StartChild {
        workflow_id: "own".to_owned(),
        workflow_type: "child".to_owned(),
        concurrency_key: Some("visa".to_owned()),
        ..StartChild::default()
    };
    let given = parent.decide([own.into(), child("none")]);
    let keys: Vec<Option<String>> = outbound_effects(&given)
        .into_iter()
        .map(|effect| match effect.task {
            OutboundAction::Start(start) => start.concurrency_key,
            OutboundAction::Admit(command) => panic!("{command:?}"),
        })
        .collect();
    assert_eq!(keys, [Some("visa".to_owned()), Some("ada".to_owned())]);
}
