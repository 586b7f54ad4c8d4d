//! Features of SWF runs: Lambda tasks, turns that move to another list, and limits.

mod dialect;

use crate::decision::{ContinueAsNew, ScheduleActivity, StartChild};
use crate::dialect::{LAMBDA_LIST, SwfLimits, SwfRun, lambda_activity_id};
use crate::event::{ActivityTimeouts, ChildPolicy, EventKind, TerminatedCause, TurnList};
use crate::run::{RunStart, TaskRef};
use crate::scene::{Scene, check, done, marker, plain, scene, schedule, settle, signal, success, summary};
use crate::{
    ActivityDefaults, Command, Decision, DecisionContext, DomainCapacity, Duration, EffectKind, Registration, Start,
    Transition, TurnAnswer, WorkflowDefaults, limits,
};

fn known<D>(defaults: D) -> Registration<D> {
    Registration::Known(Box::new(defaults))
}

fn start(run: SwfRun) -> Start {
    Start { swf: Some(run), ..plain() }
}

fn with_role() -> Scene {
    Scene::of(&start(SwfRun { lambda_role: Some("role".to_owned()), ..SwfRun::default() })).with_functions()
}

fn call(id: &str) -> Decision {
    let start_to_close = Some(Duration::from_secs(9));
    ScheduleActivity {
        activity_id: lambda_activity_id(id),
        activity_type: "resize".to_owned(),
        task_list: Some(LAMBDA_LIST.to_owned()),
        timeouts: ActivityTimeouts { start_to_close, ..ActivityTimeouts::default() },
        ..ScheduleActivity::default()
    }
    .into()
}

/// Lists the events after the newest DeciderCompleted, with their causes.
fn since_the_turn(scene: &Scene) -> String {
    let at = scene.events.iter().rposition(|event| event.kind.name() == "DeciderCompleted").unwrap();
    summary(&scene.events[at + 1..])
}

#[test]
fn a_lambda_task_completes_like_an_activity() {
    let called = with_role().decide([call("l")]);
    assert_eq!(since_the_turn(&called), "ActivityScheduled(lambda:l)");
    let waiting: Vec<_> = called.run.waiting_tasks().collect();
    assert!(matches!(&waiting[..], [TaskRef::Activity(task)] if task.activity.task_list == LAMBDA_LIST));
    let held = called.takes("lambda:l");
    check(&held, &held.succeed("lambda:l"), "ActivitySuccess DeciderScheduled");
    check(&held, &held.fail("lambda:l"), "ActivityFailed DeciderScheduled");
    let late = held.after(9);
    check(&late, &late.fire(), "ActivityTimedOut(StartToClose) DeciderScheduled");
}

#[test]
fn a_lambda_task_without_a_role_is_never_called() {
    let run = Scene::of(&start(SwfRun::default())).with_functions().decide([call("l")]);
    assert_eq!(since_the_turn(&run), "ActivityScheduled(lambda:l) ActivityScheduledTimeout DeciderScheduled");
    assert!(run.run.activities.is_empty());
    // In a run that is not an SWF run, this task list has no special meaning.
    let native = scene().decide([call("l")]);
    assert_eq!(since_the_turn(&native), "ActivityScheduled(lambda:l)");
}

#[test]
fn a_lambda_task_needs_functions_and_a_free_id() {
    let unavailable = Scene { decision_context: DecisionContext::default(), ..with_role() }.decide([call("l")]);
    assert_eq!(since_the_turn(&unavailable), "ActivityScheduleFailed(lambda:l, LambdaUnavailable) DeciderScheduled");
    let twice = with_role().decide([call("l"), call("l")]);
    let expected =
        "ActivityScheduled(lambda:l) ActivityScheduleFailed(lambda:l, ActivityIdAlreadyInUse) DeciderScheduled";
    assert_eq!(since_the_turn(&twice), expected);
}

#[test]
fn lambda_tasks_count_as_open_activities() {
    let mut full = with_role().take();
    let decisions: Vec<_> = (0..limits::OPEN_ACTIVITIES_MAX).map(|id| call(&id.to_string())).collect();
    full = full.clone().then(&full.complete_all(decisions)).then(&signal("s")).take();
    let one_more = full.complete([call("one more")]);
    let expected = "DeciderCompleted ActivityScheduleFailed(lambda:one more, OpenActivitiesLimit) DeciderScheduled";
    check(&full, &one_more, expected);
}

fn move_to(scene: Scene, list: &str, schedule_to_start: Option<u64>) -> Scene {
    let scene = scene.take();
    let to = TurnList { task_list: list.to_owned(), schedule_to_start: schedule_to_start.map(Duration::from_secs) };
    let command = Command::complete(scene.turn(), TurnAnswer { next_task_list: Some(to), ..TurnAnswer::default() });
    scene.then(&command)
}

/// Returns the task list of the next turn, which a signal schedules.
fn list_of_next(scene: &Scene) -> String {
    let signaled = scene.clone().then(&signal("s"));
    let task = signaled.run.turn_task.clone().unwrap();
    signaled.run.list_of_turn(&task).to_owned()
}

#[test]
fn turns_wait_on_the_list_of_a_move() {
    let moved = move_to(scene(), "others", None);
    assert_eq!(list_of_next(&moved), "others");
    let taken = moved.then(&signal("s")).take();
    assert_eq!(taken.run.list_of_held_turn(), "others");
    let late = taken
        .after(10_000)
        .then(&Command::FireDeadlines { heartbeats: Vec::new(), stopped: std::sync::Arc::default() });
    assert_eq!(list_of_next(&late.take().decide([])), "others", "a timeout does not change the list");
}

#[test]
fn a_temporary_move_ends_when_a_turn_times_out() {
    let for_now = move_to(scene(), "debug", Some(5)).then(&signal("s"));
    let late = for_now.clone().after(5);
    let due = late.clone().then(&late.fire());
    let task = due.run.turn_task.clone().unwrap();
    assert_eq!((due.run.list_of_turn(&task), task.schedule_to_start), ("orders", None));
    assert_eq!(due.run.turn_lists, None);
    // The temporary move also ends if a held turn times out.
    let held = for_now.take().after(10_000);
    let due = held.clone().then(&held.fire());
    assert_eq!(due.run.next_turn_list(), "orders");
    // After a permanent move, the turns are moved temporarily. When that ends, the permanent list applies.
    let good = move_to(scene(), "others", None).then(&signal("s"));
    let both = move_to(good, "debug", Some(5)).then(&signal("s"));
    assert_eq!(both.run.next_turn_list(), "debug");
    let late = both.after(5);
    assert_eq!(late.clone().then(&late.fire()).run.next_turn_list(), "others");
}

#[test]
fn a_move_is_derivable_from_the_history() {
    let moved = move_to(move_to(scene(), "others", None).then(&signal("s")), "debug", Some(5));
    assert_eq!(crate::Run::replay(&moved.events), Some(moved.run.clone()));
    assert!(moved.run.turn_lists.is_some());
}

#[test]
fn priorities_come_from_run_decision_or_type() {
    let urgent = Scene::of(&start(SwfRun { task_priority: Some(7), ..SwfRun::default() }));
    let priority = |scene: &Scene| match &scene.events[1].kind {
        EventKind::DeciderScheduled(it) => it.task_priority,
        other => panic!("{other:?}"),
    };
    assert_eq!((priority(&urgent), priority(&scene())), (Some(7), None));
    let wait = Some(Duration::from_secs(60));
    let timeouts =
        ActivityTimeouts { schedule_to_start: wait, start_to_close: wait, schedule_to_close: wait, heartbeat: wait };
    let defaults = ActivityDefaults { task_list: Some("l".to_owned()), timeouts, task_priority: Some(-3) };
    for (said, expected) in [(None, Some(-3)), (Some(9), Some(9)), (Some(0), Some(0))] {
        let decision = ScheduleActivity {
            activity_id: "a".to_owned(),
            activity_type: "A".to_owned(),
            task_priority: said,
            ..ScheduleActivity::default()
        };
        let scheduled = urgent.clone().with_activity("A", known(defaults.clone())).decide([decision.into()]);
        assert_eq!(scheduled.run.activity("a").unwrap().1.task_priority, expected, "{said:?}");
    }
}

fn limited(events: u64, time: Duration) -> Start {
    start(SwfRun { limits: Some(SwfLimits { events, time }), ..SwfRun::default() })
}

#[test]
fn the_limits_of_swf_are_25_000_events_and_a_year() {
    assert_eq!(SwfLimits::default(), SwfLimits { events: 25_000, time: Duration::from_days(365) });
}

#[test]
fn exceeding_the_event_limit_terminates_the_run() {
    // The run has WorkflowStarted, DeciderScheduled, and two signals.
    let full = Scene::of(&limited(4, Duration::from_days(1))).then(&signal("a")).then(&signal("b"));
    assert_eq!((full.run.last_event_id, full.run.is_open()), (4, true), "at the limit");
    check(&full, &signal("c"), "Signal(c) WorkflowTerminated");
    let ended = full.clone().then(&signal("c"));
    let EventKind::WorkflowTerminated(it) = &ended.events.last().unwrap().kind else { panic!("not terminated") };
    assert_eq!(it.cause, Some(TerminatedCause::EventLimit));
    // All events of an answer are recorded before the check. A closing decision in the answer therefore still closes
    // the run.
    let busy = Scene::of(&limited(4, Duration::from_days(1))).take();
    let many = busy.complete([marker("a"), marker("b"), marker("c")]);
    check(&busy, &many, "DeciderCompleted Marker(a) Marker(b) Marker(c) WorkflowTerminated");
    let close = busy.complete([marker("a"), success()]);
    check(&busy, &close, "DeciderCompleted Marker(a) WorkflowSuccess");
    // A run without limits is not terminated.
    let free = Scene::of(&start(SwfRun::default())).take();
    check(
        &free,
        &free.complete([marker("a"), marker("b"), marker("c")]),
        "DeciderCompleted Marker(a) Marker(b) Marker(c)",
    );
}

fn order() -> WorkflowDefaults {
    WorkflowDefaults {
        task_list: Some("l".to_owned()),
        execution_timeout: Some(Duration::from_days(500)),
        decider_start_to_close: Some(Duration::from_secs(60)),
        child_policy: Some(ChildPolicy::Terminate),
        ..WorkflowDefaults::default()
    }
}

fn child() -> Decision {
    let (workflow_id, workflow_type) = ("c".to_owned(), "C".to_owned());
    StartChild { workflow_id, workflow_type, ..StartChild::default() }.into()
}

/// Returns a run with this maximum number of events. Its type and its child's type are registered.
fn typed(events: u64) -> Scene {
    let scene = Scene::of(&limited(events, Duration::from_days(1)));
    scene.with_workflow("C", known(order())).with_workflow("order", known(order()))
}

#[test]
fn the_event_limit_applies_the_child_policy() {
    let parent = typed(8).decide([child(), marker("m")]);
    let parent = parent.then(&settle(5, EffectKind::StartChild, done()));
    assert!(parent.run.is_open());
    let ended = parent.then(&signal("s"));
    assert!(!ended.run.is_open());
    assert!(ended.links.outbox.ready().any(|effect| effect.kind == EffectKind::EndChild));
}

#[test]
fn the_execution_timeout_is_capped_by_the_limit() {
    let limits = SwfLimits { events: 100, time: Duration::from_days(365) };
    let run = SwfRun { limits: Some(limits), ..SwfRun::default() };
    let open_for = |wanted| {
        let start = Start { execution_timeout: wanted, ..start(run.clone()) };
        Scene::of(&start).run.started.execution_timeout
    };
    assert_eq!(open_for(Duration::from_days(364)), Duration::from_days(364));
    assert_eq!(open_for(Duration::from_days(366)), Duration::from_days(365));
    let full = Scene::of(&Start { execution_timeout: Duration::from_days(1_000), ..start(run) });
    let almost = full.clone().after(365 * 24 * 3_600 - 1);
    check(&almost, &almost.fire(), "");
    let late = full.after(365 * 24 * 3_600);
    check(&late, &late.fire(), "WorkflowTimedOut");
}

#[test]
fn children_and_successors_inherit_the_limits() {
    let parent = typed(100).decide([child()]);
    let EventKind::ChildScheduled(child) = &parent.events.last().unwrap().kind else { panic!("no child") };
    assert_eq!(child.swf.as_ref().unwrap().limits, parent.run.started.swf.as_ref().unwrap().limits);
    let closed = typed(100).decide([ContinueAsNew::default().into()]);
    let EventKind::WorkflowContinuedAsNew(it) = &closed.events.last().unwrap().kind else { panic!("not closed") };
    let next = Transition::successor(&closed.run, it, None, None, closed.now).into_parts().0.started;
    let limits = |run: &RunStart| run.swf.as_ref().unwrap().limits;
    assert_eq!(limits(&next), limits(&closed.run.started));
    assert_eq!(next.execution_timeout, Duration::from_days(1));
}

#[test]
fn a_child_is_not_started_in_a_full_domain() {
    let parent = Scene::of(&start(SwfRun::default())).with_workflow("C", known(order()));
    let refused = parent.clone().with_capacity(DomainCapacity::FullForSwf).decide([child()]);
    assert_eq!(since_the_turn(&refused), "ChildScheduleFailed(c, OpenRunsLimit) DeciderScheduled");
    assert_eq!(since_the_turn(&parent.decide([child()])), "ChildScheduled(c)");
    // In a run that is not an SWF run, the limit for children of SWF runs does not apply.
    let native = scene().with_capacity(DomainCapacity::FullForSwf).decide([child(), schedule("a")]);
    assert_eq!(since_the_turn(&native), "ChildScheduled(c) ActivityScheduled(a)");
    let full = scene().with_capacity(DomainCapacity::Full).decide([child()]);
    assert_eq!(since_the_turn(&full), "ChildScheduleFailed(c, OpenRunsLimit) DeciderScheduled");
    // The domain may have capacity for only the first of several children.
    let mut one = scene();
    one.decision_context.child_capacities = vec![DomainCapacity::Free, DomainCapacity::Full];
    let summary = since_the_turn(&one.decide([crate::scene::child("a"), schedule("x"), child()]));
    assert_eq!(
        summary,
        "ChildScheduled(a) ActivityScheduled(x) ChildScheduleFailed(c, OpenRunsLimit) DeciderScheduled"
    );
}

#[test]
fn a_zero_turn_timeout_from_an_old_version_is_the_default() {
    let mut given = scene();
    given.run.started.decider_start_to_close = Duration::ZERO;
    let transition = |scene: &Scene, command: &Command| {
        let mut transition = Transition::of(scene.run.clone());
        transition.admit(command, scene.now).unwrap();
        let (run, events) = transition.into_parts();
        (Scene { run, ..scene.clone() }, events.len())
    };
    let (taken, _) = transition(&given, &given.start_turn());
    let early = taken.clone().after(29);
    assert_eq!(transition(&early, &early.fire()).1, 0, "its decider has time to answer");
    let late = taken.after(30);
    assert_eq!(transition(&late, &late.fire()).1, 2);
}

#[test]
fn defaults_of_zero_from_an_earlier_version_are_none() {
    let (zero, some) = (Some(Duration::ZERO), Some(Duration::from_secs(1)));
    for (stored, usable) in [(zero, None), (some, some), (None, None)] {
        let defaults = WorkflowDefaults {
            execution_timeout: stored,
            decider_start_to_close: stored,
            ..WorkflowDefaults::default()
        };
        assert_eq!(crate::admit::check_workflow_defaults(&defaults).is_err(), stored == zero, "{stored:?}");
        let defaults = defaults.without_zero_timeouts();
        assert_eq!((defaults.execution_timeout, defaults.decider_start_to_close), (usable, usable));
    }
}
