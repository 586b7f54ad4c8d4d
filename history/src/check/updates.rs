//! Checks of updates, and of turns that are recorded only together with them.

use std::collections::BTreeMap;

use super::part::decision_event_id;
use super::rule::{Rule, Violation, broken};
use crate::event::{EventId, EventKind};

/// Last recorded event of a turn that was scheduled although no event needed a turn. The events of such a turn must
/// directly follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Scheduled(EventId),
    Started(EventId),
    Completed(EventId),
}

/// An accepted update.
struct CheckedUpdate {
    update_id: String,
    ended: Option<EventId>,
}

#[derive(Default)]
pub(super) struct CheckedUpdates {
    accepted: BTreeMap<EventId, CheckedUpdate>,
    stage: Option<Stage>,
}

impl CheckedUpdates {
    /// Records the scheduling of a turn although no event needed a turn.
    pub(super) fn turn_without_news(&mut self, id: EventId) {
        self.stage = Some(Stage::Scheduled(id));
    }

    /// If the previous event belongs to a turn that was scheduled although no event needed a turn, checks that this
    /// event continues it. Such a turn must end with an update or a decision.
    pub(super) fn place(&mut self, id: EventId, kind: &EventKind) -> Result<(), Violation> {
        let Some(stage) = self.stage.take() else { return Ok(()) };
        self.stage = match (stage, kind) {
            (Stage::Scheduled(scheduled), EventKind::DeciderStarted(it)) if it.scheduled_event_id == scheduled => {
                Some(Stage::Started(id))
            }
            (Stage::Started(started), EventKind::DeciderCompleted(it)) if it.started_event_id == started => {
                Some(Stage::Completed(id))
            }
            (Stage::Completed(completed), kind) if decision_event_id(kind) == Some(completed) => None,
            (Stage::Scheduled(last) | Stage::Started(last) | Stage::Completed(last), kind) => {
                let found = format!("there is no news for a decider, but {} follows", kind.name());
                return broken(Rule::TurnHasCause, last, found);
            }
        };
        Ok(())
    }

    /// Checks that the history does not end within a turn that was scheduled although no event needed a turn.
    pub(super) fn end(&self) -> Result<(), Violation> {
        match self.stage {
            None => Ok(()),
            Some(Stage::Scheduled(last) | Stage::Started(last) | Stage::Completed(last)) => {
                broken(Rule::TurnHasCause, last, "there is no news for a decider")
            }
        }
    }

    pub(super) fn read(&mut self, id: EventId, kind: &EventKind) -> Result<(), Violation> {
        match kind {
            EventKind::UpdateAccepted(it) => self.accepted(id, &it.update_id),
            EventKind::UpdateCompleted(it) => self.ended(id, it.accepted_event_id, &it.update_id),
            EventKind::UpdateFailed(it) => self.ended(id, it.accepted_event_id, &it.update_id),
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
            | EventKind::ChildScheduled(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalScheduled(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => Ok(()),
        }
    }

    fn accepted(&mut self, id: EventId, update_id: &str) -> Result<(), Violation> {
        let is_open = |update: &CheckedUpdate| update.ended.is_none() && update.update_id == update_id;
        if let Some((other, _)) = self.accepted.iter().find(|(_, update)| is_open(update)) {
            return broken(Rule::UpdateLife, id, format!("update `{update_id}` has been open since event {other}"));
        }
        self.accepted.insert(id, CheckedUpdate { update_id: update_id.to_owned(), ended: None });
        Ok(())
    }

    fn ended(&mut self, id: EventId, accepted: EventId, update_id: &str) -> Result<(), Violation> {
        let Some(update) = self.accepted.get_mut(&accepted) else {
            return broken(Rule::Link, id, format!("event {accepted} is not an UpdateAccepted that precedes it"));
        };
        if update.update_id != update_id {
            return broken(Rule::Link, id, format!("`{update_id}` was accepted as `{}`", update.update_id));
        }
        if let Some(ended) = update.ended {
            return broken(Rule::UpdateLife, id, format!("event {ended} answered it"));
        }
        update.ended = Some(id);
        Ok(())
    }
}
