//! Registered types, which provide the defaults for absent fields of decisions.

use crate::decision::{ScheduleActivity, StartChild};
use crate::event::{ActivityTimeouts, EventKind};
use crate::scene::{Scene, scene};
use crate::{ActivityDefaults, Decision, Duration, Registration, WorkflowDefaults};

#[expect(clippy::unnecessary_wraps, reason = "what timeouts are compared with")]
fn secs(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

fn newest(scene: &Scene) -> &EventKind {
    &scene.events.last().unwrap().kind
}

fn activity() -> ScheduleActivity {
    let (activity_id, activity_type) = ("a".to_owned(), "A".to_owned());
    ScheduleActivity { activity_id, activity_type, ..ScheduleActivity::default() }
}

fn child() -> StartChild {
    let (workflow_id, workflow_type) = ("c".to_owned(), "C".to_owned());
    StartChild { workflow_id, workflow_type, ..StartChild::default() }
}

#[test]
fn activity_settings_fall_back_to_the_type_then_the_run() {
    let timeouts = ActivityTimeouts { heartbeat: secs(3), start_to_close: secs(4), ..ActivityTimeouts::default() };
    let defaults = ActivityDefaults { task_list: Some("typed".to_owned()), timeouts, task_priority: None };
    let known = Registration::Known(Box::new(defaults));
    let own = ActivityTimeouts { heartbeat: secs(9), ..ActivityTimeouts::default() };
    let own = ScheduleActivity { task_list: Some("own".to_owned()), timeouts: own, ..activity() };
    let typed = scene().with_activity("A", known);
    for (scene, decision, list, heartbeat, start_to_close) in [
        (typed.clone(), activity(), "typed", secs(3), secs(4)),
        (typed, own, "own", secs(9), secs(4)),
        (scene(), activity(), "orders", None, None),
    ] {
        let scene = scene.decide([decision.into()]);
        let EventKind::ActivityScheduled(it) = newest(&scene) else { panic!("{:?}", newest(&scene)) };
        assert_eq!(it.task_list, list);
        assert_eq!((it.timeouts.heartbeat, it.timeouts.start_to_close), (heartbeat, start_to_close));
    }
}

#[test]
fn child_settings_fall_back_to_the_type_then_the_parent() {
    let defaults = WorkflowDefaults {
        task_list: Some("typed".to_owned()),
        execution_timeout: secs(60),
        decider_start_to_close: secs(5),
        ..WorkflowDefaults::default()
    };
    let typed = scene().with_workflow("C", Registration::Known(Box::new(defaults)));
    let own = StartChild { task_list: Some("own".to_owned()), execution_timeout: secs(7), ..child() };
    for (scene, decision, list, execution, decider) in [
        (typed.clone(), child(), "typed", 60, 5),
        (typed, own, "own", 7, 5),
        (scene(), child(), "orders", 365 * 24 * 3_600, 30),
    ] {
        let scene = scene.decide([decision.into()]);
        let EventKind::ChildScheduled(it) = newest(&scene) else { panic!("{:?}", newest(&scene)) };
        assert_eq!(it.task_list, list);
        assert_eq!((Some(it.execution_timeout), Some(it.decider_start_to_close)), (secs(execution), secs(decider)));
    }
}

#[test]
fn deprecated_types_cannot_start() {
    let decisions: [Decision; 2] = [activity().into(), child().into()];
    let names = ["ActivityScheduleFailed", "ChildScheduleFailed"];
    for (decision, name) in decisions.into_iter().zip(names) {
        let busy = scene().with_activity("A", Registration::Deprecated);
        let busy = busy.with_workflow("C", Registration::Deprecated).take();
        let summary = busy.clone().then(&busy.complete([decision]));
        let [.., failed, scheduled] = summary.events.as_slice() else { panic!("too few events") };
        assert_eq!((failed.kind.name(), scheduled.kind.name()), (name, "DeciderScheduled"));
        assert!(format!("{:?}", failed.kind).contains("TypeDeprecated"), "{failed:?}");
    }
}
