//! Activities in a part of a history: which were scheduled, started and closed there.

use std::collections::BTreeMap;

use crate::event::{ActivityClose, Event, EventId, EventKind};

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
        if let Some(close) = event.kind.activity_close() {
            let outcome = match close {
                ActivityClose::Success(_) => ActivityOutcome::Success,
                ActivityClose::Failed(_) => ActivityOutcome::Failed,
                ActivityClose::Canceled(_) => ActivityOutcome::Canceled,
                ActivityClose::TimedOut(_) | ActivityClose::ScheduledTimeout(_) => ActivityOutcome::TimedOut,
            };
            if let Some(activity) = self.activities.get_mut(&close.scheduled_event_id()) {
                activity.closed = Some((outcome, event.id));
            }
        } else if let EventKind::ActivityScheduled(it) = &event.kind {
            let (activity_id, activity_type) = (it.activity_id.clone(), it.activity_type.clone());
            let activity = ActivityTally { activity_id, activity_type, started_event_id: None, closed: None };
            self.activities.insert(event.id, activity);
        } else if let EventKind::ActivityStarted(it) = &event.kind
            && let Some(activity) = self.activities.get_mut(&it.scheduled_event_id)
        {
            activity.started_event_id = Some(event.id);
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
