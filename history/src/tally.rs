//! Counting activities over any stretch of history: scheduled, started, closed.

use std::collections::BTreeMap;

use crate::event::{Event, EventId, EventKind};

/// What became of one scheduled activity.
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

/// One scheduled activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityTally {
    /// Id chosen by the decider.
    pub activity_id: String,
    /// Its type.
    pub activity_type: String,
    /// Its ActivityStarted, if the stretch holds it.
    pub started_event_id: Option<EventId>,
    /// How it closed and by which event, if the stretch holds it.
    pub closed: Option<(ActivityOutcome, EventId)>,
}

/// The activities that a stretch of history schedules, by their ActivityScheduled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    activities: BTreeMap<EventId, ActivityTally>,
}

impl Tally {
    /// Counts over `events`.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut tally = Self::default();
        for event in events {
            tally.add(event);
        }
        tally
    }

    /// Takes one more event into the count. An answer whose ActivityScheduled was not counted is passed over.
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
            _ => return,
        };
        if let Some(activity) = self.activities.get_mut(&scheduled_event_id) {
            activity.closed = Some((closed, event.id));
        }
    }

    /// Every counted activity, in the order of scheduling.
    pub fn activities(&self) -> impl Iterator<Item = &ActivityTally> {
        self.activities.values()
    }

    /// Those that have not closed.
    pub fn open(&self) -> impl Iterator<Item = &ActivityTally> {
        self.activities.values().filter(|activity| activity.closed.is_none())
    }

    /// The newest activity that was scheduled with this id.
    pub fn newest(&self, activity_id: &str) -> Option<&ActivityTally> {
        self.activities.values().rev().find(|activity| activity.activity_id == activity_id)
    }
}
