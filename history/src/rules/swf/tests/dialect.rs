//! Differences between SWF runs and other runs.

use crate::decision::{ContinueAsNew, ScheduleActivity, StartChild, SwfSettings};
use crate::event::{ActivityTimeouts, ChildPolicy, EventKind};
use crate::scene::{Scene, cancel, check, child, done, plain, scene, schedule, settle, success, terminate};
use crate::{
    ActivityDefaults, Command, Decision, Duration, EffectKind, Payload, RecordMarker, Registration, Start, SwfRun,
    Transition, TurnAnswer, WorkflowDefaults,
};

/// Returns a start over SWF's protocol.
fn start(child_policy: ChildPolicy) -> Start {
    Start { swf: Some(SwfRun { child_policy, ..SwfRun::default() }), ..plain() }
}

/// Returns an SWF run in a domain whose types have all defaults.
fn swf() -> Scene {
    typed(&start(ChildPolicy::Terminate))
}

fn typed(start: &Start) -> Scene {
    let scene = Scene::of(start).with_activity("A", known(activity()));
    scene.with_workflow("C", known(workflow())).with_workflow("order", known(workflow()))
}

const SPAN: Option<Duration> = Some(Duration::from_secs(60));

fn workflow() -> WorkflowDefaults {
    WorkflowDefaults {
        task_list: Some("l".to_owned()),
        execution_timeout: SPAN,
        decider_start_to_close: SPAN,
        child_policy: Some(ChildPolicy::Abandon),
        task_priority: Some(3),
        lambda_role: None,
    }
}

fn activity() -> ActivityDefaults {
    let timeouts =
        ActivityTimeouts { schedule_to_start: SPAN, start_to_close: SPAN, schedule_to_close: SPAN, heartbeat: SPAN };
    ActivityDefaults { task_list: Some("l".to_owned()), timeouts, task_priority: None }
}

fn known<D>(defaults: D) -> Registration<D> {
    Registration::Known(Box::new(defaults))
}

fn child_of_type() -> Decision {
    let (workflow_id, workflow_type) = ("c".to_owned(), "C".to_owned());
    StartChild { workflow_id, workflow_type, ..StartChild::default() }.into()
}

fn act() -> Decision {
    let (activity_id, activity_type) = ("a".to_owned(), "A".to_owned());
    ScheduleActivity { activity_id, activity_type, ..ScheduleActivity::default() }.into()
}

/// Lets the decider make these decisions, and returns the names of the events that follow DeciderCompleted.
fn names(scene: Scene, decisions: Vec<Decision>) -> Vec<&'static str> {
    let scene = if scene.run.turn.is_none() { scene.take() } else { scene };
    let before = scene.events.len() + 1;
    let command = scene.complete_all(decisions);
    let scene = scene.then(&command);
    scene.events[before..].iter().map(|event| event.kind.name()).collect()
}

fn newest(scene: &Scene) -> &EventKind {
    &scene.events.last().unwrap().kind
}

#[test]
fn the_start_of_a_child_schedules_a_turn() {
    let (native, swf) = (scene().decide([child("c")]), swf().decide([child_of_type()]));
    check(&native, &settle(5, EffectKind::StartChild, done()), "ChildStarted(c)");
    check(&swf, &settle(5, EffectKind::StartChild, done()), "ChildStarted(c) DeciderScheduled");
}

#[test]
fn a_close_after_canceling_an_unstarted_activity_fails() {
    let native = scene().decide([schedule("a")]).then(&crate::scene::signal("s"));
    let expected = ["ActivityTaskCancel", "ActivityCanceled", "WorkflowSuccess"];
    assert_eq!(names(native, vec![cancel("a"), success()]), expected);
    let swf = swf().decide([act()]).then(&crate::scene::signal("s"));
    let expected = ["ActivityTaskCancel", "ActivityCanceled", "WorkflowCloseFailed", "DeciderScheduled"];
    assert_eq!(names(swf, vec![cancel("a"), success()]), expected);
}

#[test]
fn the_child_policy_applies_on_termination_and_timeout_only() {
    let ends = |scene: &Scene| scene.links.outbox.ready().filter(|effect| effect.kind == EffectKind::EndChild).count();
    for (policy, ended) in [(ChildPolicy::Terminate, 1), (ChildPolicy::RequestCancel, 1), (ChildPolicy::Abandon, 0)] {
        let parent = typed(&start(policy)).decide([child_of_type()]);
        let parent = parent.then(&settle(5, EffectKind::StartChild, done()));
        assert_eq!(ends(&parent.clone().decide([success()])), 0, "{policy:?}");
        let terminated = parent.clone().then(&terminate());
        assert_eq!(ends(&terminated), ended, "{policy:?}");
        let outbound = terminated
            .links
            .outbox
            .ready()
            .next()
            .and_then(|effect| effect.outbound(&terminated.run.started, &terminated.events[4]));
        assert_eq!(outbound.is_some(), ended > 0);
        if let Some(outbound) = outbound {
            assert!(format!("{outbound:?}").contains(&format!("policy: {policy:?}")), "{outbound:?}");
        }
        let other = Command::Terminate {
            reason: Some(String::new()),
            details: None,
            child_policy: Some(ChildPolicy::Abandon),
            identity: None,
            key: None,
        };
        assert_eq!(ends(&parent.clone().then(&other)), 0, "the request's policy takes precedence");
        let late = parent
            .after(400 * 24 * 3_600)
            .then(&Command::FireDeadlines { heartbeats: Vec::new(), stopped: std::sync::Arc::default() });
        assert_eq!((newest(&late).name(), ends(&late)), ("WorkflowTimedOut", ended), "{policy:?}");
    }
}

#[test]
fn an_activity_without_required_settings_fails() {
    let without = |change: fn(&mut ActivityDefaults)| {
        let mut defaults = activity();
        change(&mut defaults);
        known(defaults)
    };
    for (registration, cause) in [
        (Registration::Unknown, "ActivityTypeUnknown"),
        (Registration::Deprecated, "ActivityTypeDeprecated"),
        (without(|it| it.task_list = None), "DefaultTaskListUndefined"),
        (without(|it| it.timeouts.schedule_to_start = None), "DefaultScheduleToStartUndefined"),
        (without(|it| it.timeouts.schedule_to_close = None), "DefaultScheduleToCloseUndefined"),
        (without(|it| it.timeouts.start_to_close = None), "DefaultStartToCloseUndefined"),
        (without(|it| it.timeouts.heartbeat = None), "DefaultHeartbeatUndefined"),
    ] {
        let scene = swf().with_activity("A", registration).decide([act()]);
        let failed = &scene.events[scene.events.len() - 2].kind;
        assert!(format!("{failed:?}").contains(cause), "{cause}: {failed:?}");
    }
    assert_eq!(names(swf(), vec![act()]), ["ActivityScheduled"]);
}

#[test]
fn children_and_successors_without_required_settings_fail() {
    let without = |change: fn(&mut WorkflowDefaults)| {
        let mut defaults = workflow();
        change(&mut defaults);
        known(defaults)
    };
    for (registration, cause) in [
        (Registration::Unknown, "WorkflowTypeUnknown"),
        (Registration::Deprecated, "WorkflowTypeDeprecated"),
        (without(|it| it.execution_timeout = None), "DefaultExecutionTimeoutUndefined"),
        (without(|it| it.task_list = None), "DefaultTaskListUndefined"),
        (without(|it| it.decider_start_to_close = None), "DefaultDeciderTimeoutUndefined"),
        (without(|it| it.child_policy = None), "DefaultChildPolicyUndefined"),
    ] {
        let scene = swf().with_workflow("C", registration.clone()).with_workflow("order", registration);
        for decision in [child_of_type(), ContinueAsNew::default().into()] {
            let scene = scene.clone().decide([decision]);
            let [.., failed, scheduled] = scene.events.as_slice() else { panic!("too few events") };
            assert!(format!("{:?}", failed.kind).contains(cause), "{cause}: {failed:?}");
            assert_eq!(scheduled.kind.name(), "DeciderScheduled");
        }
    }
}

#[test]
fn a_successor_has_its_own_timeout_and_settings() {
    let tagged = Start { tags: vec!["t".to_owned()], ..start(ChildPolicy::Terminate) };
    let settings = SwfSettings { task_priority: Some(-1), ..SwfSettings::default() };
    let go_on = ContinueAsNew { swf: settings, ..ContinueAsNew::default() };
    let scene = typed(&tagged).decide([go_on.into()]);
    let EventKind::WorkflowContinuedAsNew(it) = newest(&scene) else { panic!("{:?}", newest(&scene)) };
    let next = Transition::successor(&scene.run, it, None, None, scene.now).into_parts().0.started;
    assert_eq!((Some(next.execution_timeout), Some(next.decider_start_to_close)), (SPAN, SPAN));
    assert_eq!((next.task_list.as_str(), next.tags.len(), next.execution_from), ("l", 0, None));
    let expected = SwfRun { child_policy: ChildPolicy::Abandon, task_priority: Some(-1), ..SwfRun::default() };
    assert_eq!(next.swf, Some(expected));
}

#[test]
fn a_child_with_an_id_in_use_is_scheduled_anyway() {
    let twice = vec![child_of_type(), child_of_type()];
    assert_eq!(names(swf(), twice), ["ChildScheduled", "ChildScheduled"]);
    assert_eq!(
        names(scene(), vec![child("c"), child("c")]),
        ["ChildScheduled", "ChildScheduleFailed", "DeciderScheduled"]
    );
}

#[test]
fn swf_accepts_inputs_that_other_runs_refuse() {
    // The runner cancels an activity that was not asked to stop.
    let held = |scene: Scene, decision| scene.decide([decision]).takes("a");
    let stop = |scene: &Scene| Command::CancelActivity { task: scene.task("a"), details: None };
    let (native, swf_run) = (held(scene(), schedule("a")), held(swf(), act()));
    check(&native, &stop(&native), "fault cancel-not-requested");
    check(&swf_run, &stop(&swf_run), "ActivityCanceled DeciderScheduled");
    // The runner reports a failure without a reason, or with an empty reason.
    for reason in [None, Some(String::new())] {
        let fail = |scene: &Scene| Command::FailActivity {
            task: scene.task("a"),
            reason: reason.clone(),
            details: None,
            non_retryable: false,
            retry_after: None,
        };
        check(&native, &fail(&native), "fault invalid-field");
        check(&swf_run, &fail(&swf_run), "ActivityFailed DeciderScheduled");
        let (_, events) = swf_run.clone().admit_within(&fail(&swf_run), None).unwrap();
        let EventKind::ActivityFailed(failed) = &events[0].kind else { panic!("{events:?}") };
        assert_eq!((failed.reason.as_str(), failed.has_empty_reason), ("", reason.is_some()));
    }
    // The poller sends an empty identity.
    let takes = Command::StartTurn { scheduled_event_id: 2, identity: Some(String::new()), poll: None };
    check(&scene(), &takes, "fault invalid-field");
    check(&swf(), &takes, "DeciderStarted");
    // The decider uses a reserved marker name, and a timeout of zero.
    let note = || Decision::from(RecordMarker { name: "baton.x".to_owned(), details: None });
    assert_eq!(names(scene(), vec![note()]), ["MarkerFailed", "DeciderScheduled"]);
    assert_eq!(names(swf(), vec![note()]), ["Marker"]);
    let mut zero = activity();
    zero.timeouts.schedule_to_start = Some(Duration::ZERO);
    assert_eq!(names(swf().with_activity("A", known(zero)), vec![act()]), ["ActivityScheduled"]);
    // The start has an empty tag, and the decider's context has 32,768 characters of three bytes each.
    let tagged = Start { tags: vec![String::new()], ..start(ChildPolicy::Terminate) };
    let busy = Scene::of(&tagged).take();
    let context = Payload::of(&"漢".repeat(32_768)).unwrap();
    let complete = |scene: &Scene| {
        Command::complete(scene.turn(), TurnAnswer { context: Some(context.clone()), ..TurnAnswer::default() })
    };
    check(&busy, &complete(&busy), "DeciderCompleted");
    let native = scene().take();
    check(&native, &complete(&native), "fault too-large");
}
