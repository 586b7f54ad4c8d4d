//! Effects on other runs that an event requests.

use super::{Effect, EffectKind};
use crate::event::{ChildPolicy, Event, EventKind};
use crate::run::Run;

/// Returns the effects that an event requests. `run` is the state before the event.
pub(crate) fn owed(run: &Run, event: &Event) -> Vec<Effect> {
    let effect = match &event.kind {
        EventKind::ChildScheduled(it) => Effect::new(event.id, EffectKind::StartChild, &it.workflow_id),
        EventKind::ExternalSignalScheduled(it) => Effect::new(event.id, EffectKind::Signal, &it.workflow_id),
        EventKind::ExternalCancelScheduled(it) => Effect::new(event.id, EffectKind::RequestCancel, &it.workflow_id),
        kind if kind.closes() => return owed_at_close(run, event),
        EventKind::WorkflowStarted(_)
        | EventKind::WorkflowSuccess(_)
        | EventKind::WorkflowFailed(_)
        | EventKind::WorkflowCanceled(_)
        | EventKind::WorkflowTimedOut(_)
        | EventKind::WorkflowTerminated(_)
        | EventKind::WorkflowCloseFailed(_)
        | EventKind::WorkflowCancelRequested(_)
        | EventKind::DeciderScheduled(_)
        | EventKind::DeciderStarted(_)
        | EventKind::DeciderCompleted(_)
        | EventKind::DeciderTimedOut(_)
        | EventKind::DeciderFailed(_)
        | EventKind::ActivityScheduled(_)
        | EventKind::ActivityScheduleFailed(_)
        | EventKind::ActivityStarted(_)
        | EventKind::ActivitySuccess(_)
        | EventKind::ActivityFailed(_)
        | EventKind::ActivityCanceled(_)
        | EventKind::ActivityTimedOut(_)
        | EventKind::ActivityScheduledTimeout(_)
        | EventKind::ActivityTaskCancel(_)
        | EventKind::ActivityTaskCancelFailed(_)
        | EventKind::TimerScheduled(_)
        | EventKind::TimerScheduleFailed(_)
        | EventKind::TimerExpired(_)
        | EventKind::TimerCanceled(_)
        | EventKind::TimerCancelFailed(_)
        | EventKind::Signal(_)
        | EventKind::Marker(_)
        | EventKind::MarkerFailed(_)
        | EventKind::WorkflowContinuedAsNew(_)
        | EventKind::ChildScheduleFailed(_)
        | EventKind::ChildStarted(_)
        | EventKind::ChildSuccess(_)
        | EventKind::ChildFailed(_)
        | EventKind::ChildTimedOut(_)
        | EventKind::ChildCanceled(_)
        | EventKind::ChildTerminated(_)
        | EventKind::ExternalSignalDelivered(_)
        | EventKind::ExternalSignalFailed(_)
        | EventKind::ExternalCancelDelivered(_)
        | EventKind::ExternalCancelFailed(_)
        | EventKind::UpdateAccepted(_)
        | EventKind::UpdateCompleted(_)
        | EventKind::UpdateFailed(_)
        | EventKind::ActivityPaused(_)
        | EventKind::ActivityResumed(_)
        | EventKind::ActivityRetried(_)
        | EventKind::ActivityOptionsChanged(_)
        | EventKind::WorkflowPaused(_)
        | EventKind::WorkflowResumed(_)
        | EventKind::WorkflowReset(_) => return Vec::new(),
    };
    vec![effect]
}

/// Returns the effects of a close: first, the child policies of the open children, in the order in which the children
/// were requested, then the report to the parent.
fn owed_at_close(run: &Run, event: &Event) -> Vec<Effect> {
    let is_ended = |policy| run.started.policy_at_close(policy, &event.kind) != ChildPolicy::Abandon;
    let children = run.children.iter().filter(|(_, child)| is_ended(child.policy));
    let ends = children.map(|(id, child)| Effect::new(*id, EffectKind::EndChild, &child.workflow_id));
    // For the parent, a run and its successors are one child. Only the last run reports its close.
    let has_successor = event.kind.followed_by().is_some();
    let tells = run.started.parent.as_ref().filter(|_| !has_successor);
    let tells = tells.map(|parent| Effect::new(event.id, EffectKind::NotifyParent, &parent.workflow_id));
    ends.chain(tells).collect()
}
