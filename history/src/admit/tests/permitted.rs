//! Decisions permitted by the decider's credential.

use std::sync::Arc;

use crate::event::{CloseFailedCause, EventKind, TurnList};
use crate::registered::ActivityDefaults;
use crate::scene::{
    Scene, cancel, cancel_external, cancel_timer, cancellation, check_within, child, failure, marker, scene, schedule,
    signal_external, success, timer,
};
use crate::{
    AnsweredTurn, Command, ContinueAsNew, Decision, Permissions, Registration, ScheduleActivity, StartChild, TurnAnswer,
};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn may(permissions: Permissions) -> Arc<Permissions> {
    Arc::new(permissions)
}

/// Returns a decision to schedule an activity of this type, on this list or without a list.
fn activity(kind: &str, list: Option<&str>) -> Decision {
    let (activity_id, activity_type) = ("a".to_owned(), kind.to_owned());
    let task_list = list.map(str::to_owned);
    Decision::from(ScheduleActivity { activity_id, activity_type, task_list, ..ScheduleActivity::default() })
}

fn child_of(kind: &str, list: Option<&str>) -> Decision {
    let (workflow_id, workflow_type) = ("c".to_owned(), kind.to_owned());
    let task_list = list.map(str::to_owned);
    Decision::from(StartChild { workflow_id, workflow_type, task_list, ..StartChild::default() })
}

fn go_on(kind: Option<&str>, list: Option<&str>) -> Decision {
    let (workflow_type, task_list) = (kind.map(str::to_owned), list.map(str::to_owned));
    Decision::from(ContinueAsNew { workflow_type, task_list, ..ContinueAsNew::default() })
}

/// Returns a run of type `order` on the list `orders`, whose turn a decider holds.
fn busy() -> Scene {
    scene().take()
}

#[test]
fn a_forbidden_decision_is_recorded_as_failed() {
    let nothing = may(Permissions { decisions: Some(names(&[])), ..Permissions::default() });
    let busy = busy();
    for (decision, then) in [
        (schedule("a"), "ActivityScheduleFailed(a, OperationNotPermitted)"),
        (cancel("a"), "ActivityTaskCancelFailed(a, OperationNotPermitted)"),
        (timer("t", 1), "TimerScheduleFailed(t, OperationNotPermitted)"),
        (cancel_timer("t"), "TimerCancelFailed(t, OperationNotPermitted)"),
        (marker("m"), "MarkerFailed(m, OperationNotPermitted)"),
        (child("c"), "ChildScheduleFailed(c, OperationNotPermitted)"),
        (signal_external("o"), "ExternalSignalFailed(o, OperationNotPermitted)"),
        (cancel_external("o"), "ExternalCancelFailed(o, OperationNotPermitted)"),
        (success(), "WorkflowCloseFailed(SucceedWorkflow)"),
        (failure(), "WorkflowCloseFailed(FailWorkflow)"),
        (cancellation(), "WorkflowCloseFailed(CancelWorkflow)"),
        (go_on(None, None), "WorkflowCloseFailed(ContinueAsNew)"),
    ] {
        let then = format!("DeciderCompleted {then} DeciderScheduled");
        check_within(&busy, Some(&nothing), &busy.complete([decision]), &then);
    }
    let (_, events) = busy.clone().admit_within(&busy.complete([success()]), Some(&nothing)).unwrap();
    let closes = events.iter().find_map(|event| match &event.kind {
        EventKind::WorkflowCloseFailed(it) => Some(it.cause),
        _ => None,
    });
    assert_eq!(closes, Some(CloseFailedCause::OperationNotPermitted));
}

#[test]
fn permitted_decisions_take_effect_alongside_forbidden_ones() {
    let marks = may(Permissions { decisions: Some(names(&["RecordMarker"])), ..Permissions::default() });
    let busy = busy();
    let when = busy.complete([marker("m"), timer("t", 1), marker("n")]);
    let then = "DeciderCompleted Marker(m) TimerScheduleFailed(t, OperationNotPermitted) Marker(n) DeciderScheduled";
    check_within(&busy, Some(&marks), &when, then);
    // The credential permits closing the run, but the close fails because the decider has not seen that its first
    // decision was refused.
    let closes = may(Permissions { decisions: Some(names(&["SucceedWorkflow"])), ..Permissions::default() });
    let then = "DeciderCompleted TimerScheduleFailed(t, OperationNotPermitted) WorkflowCloseFailed(SucceedWorkflow) \
         DeciderScheduled";
    check_within(&busy, Some(&closes), &busy.complete([timer("t", 1), success()]), then);
    check_within(
        &busy,
        Some(&may(Permissions::default())),
        &busy.complete([success()]),
        "DeciderCompleted WorkflowSuccess",
    );
}

#[test]
fn activities_need_a_permitted_list_and_type() {
    let busy = busy();
    let lists = may(Permissions { task_lists: Some(names(&["mail"])), ..Permissions::default() });
    let types = may(Permissions { activity_types: Some(names(&["charge", "refund/2"])), ..Permissions::default() });
    let failed = "DeciderCompleted ActivityScheduleFailed(a, OperationNotPermitted) DeciderScheduled";
    let scheduled = "DeciderCompleted ActivityScheduled(a)";
    let by_default = |list: &str| {
        let defaults = ActivityDefaults { task_list: Some(list.to_owned()), ..ActivityDefaults::default() };
        busy.clone().with_activity("charge", Registration::Known(Box::new(defaults)))
    };
    for (may, decision, then) in [
        (&lists, activity("charge", Some("mail")), scheduled),
        (&lists, activity("charge", Some("PCI")), failed),
        // Without a list in the decision, the activity goes to the run's list, for which there is no permission.
        (&lists, activity("charge", None), failed),
        (&types, activity("charge", Some("PCI")), scheduled),
        (&types, activity("charge/7", None), scheduled),
        (&types, activity("refund/2", None), scheduled),
        (&types, activity("refund/1", None), failed),
        (&types, activity("refund", None), failed),
        (&types, activity("charge-all", None), failed),
    ] {
        check_within(&busy, Some(may), &busy.complete([decision]), then);
    }
    for (busy, then) in [(by_default("PCI"), failed), (by_default("mail"), scheduled)] {
        check_within(&busy, Some(&lists), &busy.complete([activity("charge", None)]), then);
    }
}

#[test]
fn children_and_successors_need_a_permitted_list_and_type() {
    let busy = busy();
    let lists = may(Permissions { task_lists: Some(names(&["mail"])), ..Permissions::default() });
    let types = may(Permissions { child_types: Some(names(&["invoice"])), ..Permissions::default() });
    let failed = "DeciderCompleted ChildScheduleFailed(c, OperationNotPermitted) DeciderScheduled";
    let stays = "DeciderCompleted WorkflowCloseFailed(ContinueAsNew) DeciderScheduled";
    let has_successor = "DeciderCompleted WorkflowContinuedAsNew";
    for (may, decision, then) in [
        (&lists, child_of("invoice", Some("mail")), "DeciderCompleted ChildScheduled(c)"),
        (&lists, child_of("invoice", Some("PCI")), failed),
        (&lists, child_of("invoice", None), failed),
        (&types, child_of("invoice/3", None), "DeciderCompleted ChildScheduled(c)"),
        (&types, child_of("order", None), failed),
        // Continuing with the run's own list and type needs no permission.
        (&lists, go_on(None, None), has_successor),
        (&lists, go_on(None, Some("orders")), has_successor),
        (&lists, go_on(None, Some("mail")), has_successor),
        (&lists, go_on(None, Some("PCI")), stays),
        (&types, go_on(Some("order"), None), has_successor),
        (&types, go_on(Some("invoice"), None), has_successor),
        (&types, go_on(Some("refund"), None), stays),
    ] {
        check_within(&busy, Some(may), &busy.complete([decision]), then);
    }
}

#[test]
fn turns_move_only_to_permitted_lists() {
    let busy = busy();
    let lists = may(Permissions { task_lists: Some(names(&["mail"])), ..Permissions::default() });
    let Command::CompleteTurn { turn, .. } = busy.complete([]) else { unreachable!() };
    let moves = |list: &str| {
        let to = TurnList { task_list: list.to_owned(), schedule_to_start: None };
        Command::complete(turn, TurnAnswer { next_task_list: Some(to), ..TurnAnswer::default() })
    };
    check_within(&busy, Some(&lists), &moves("mail"), "DeciderCompleted");
    check_within(&busy, Some(&lists), &moves("PCI"), "fault invalid-field");
    // The same holds for an answer to updates.
    let with_updates = |list: &str| {
        let Command::CompleteTurn { turn, answer: rest } = moves(list) else { unreachable!() };
        let (turn, proposed, answers) = (AnsweredTurn::Held(turn), Vec::new(), Vec::new());
        Command::AnswerUpdates { turn, proposed, answers, rest }
    };
    check_within(&busy, Some(&lists), &with_updates("mail"), "DeciderCompleted");
    check_within(&busy, Some(&lists), &with_updates("PCI"), "fault invalid-field");
}
