//! Activities in a part of a history: which were scheduled, started and closed there.

use std::collections::BTreeMap;

use crate::event::{Event, EventId, EventKind};

/// Outcome of a closed activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityOutcome {
    /// ActivitySuccess.
    Success,
    /// ActivityFailed.
    Failed,
    /// ActivityCanceled.
    Canceled,
    /// ActivityTimedOut or ActivityScheduledTimeout.
    TimedOut,
}

/// An activity that was scheduled in the part of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityTally {
    /// Activity id chosen by the decider.
    pub activity_id: String,
    /// Activity type.
    pub activity_type: String,
    /// Id of the activity's ActivityStarted event, if it is in this part of the history.
    pub started_event_id: Option<EventId>,
    /// Outcome, and id of the closing event, if it is in this part of the history.
    pub closed: Option<(ActivityOutcome, EventId)>,
}

/// Activities scheduled in a part of a history, by the id of their ActivityScheduled event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    activities: BTreeMap<EventId, ActivityTally>,
}

impl Tally {
    /// Collects the activities in `events`.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut tally = Self::default();
        for event in events {
            tally.add(event);
        }
        tally
    }

    /// Adds one event. Events of activities that were scheduled before this part of the history are ignored.
    pub fn add(&mut self, event: &Event) {
        let (scheduled_event_id, closed) = match &event.kind {
            EventKind::ActivityScheduled(it) => {
                let activity = ActivityTally {
                    activity_id: it.activity_id.clone(),
                    activity_type: it.activity_type.clone(),
                    started_event_id: None,
                    closed: None,
                };
                self.activities.insert(event.id, activity);
                return;
            }
            EventKind::ActivityStarted(it) => {
                if let Some(activity) = self.activities.get_mut(&it.scheduled_event_id) {
                    activity.started_event_id = Some(event.id);
                }
                return;
            }
            EventKind::ActivitySuccess(it) => (it.scheduled_event_id, ActivityOutcome::Success),
            EventKind::ActivityFailed(it) => (it.scheduled_event_id, ActivityOutcome::Failed),
            EventKind::ActivityCanceled(it) => (it.scheduled_event_id, ActivityOutcome::Canceled),
            EventKind::ActivityTimedOut(it) => (it.scheduled_event_id, ActivityOutcome::TimedOut),
            EventKind::ActivityScheduledTimeout(it) => (it.scheduled_event_id, ActivityOutcome::TimedOut),
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
            | EventKind::ActivityScheduleFailed(_)
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
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => return,
        };
        if let Some(activity) = self.activities.get_mut(&scheduled_event_id) {
            activity.closed = Some((closed, event.id));
        }
    }

    /// Returns all activities in the order in which they were scheduled.
    pub fn activities(&self) -> impl Iterator<Item = &ActivityTally> {
        self.activities.values()
    }

    /// Returns the activities that have not closed.
    pub fn open(&self) -> impl Iterator<Item = &ActivityTally> {
        self.activities.values().filter(|activity| activity.closed.is_none())
    }

    /// Returns the newest activity with this id.
    pub fn newest(&self, activity_id: &str) -> Option<&ActivityTally> {
        self.activities.values().rev().find(|activity| activity.activity_id == activity_id)
    }
}
