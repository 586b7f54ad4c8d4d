//! Activity ids for events that refer to an activity only by the id of its ActivityScheduled event.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, EventId, EventKind};

/// Activity ids. The key is the id of the activity's ActivityScheduled event.
pub type ActivityNames = BTreeMap<EventId, String>;

/// Kinds of events to which the REST API adds the activity id when they are read.
pub const NAMED_WHEN_READ: [&str; 10] = [
    "ActivityStarted",
    "ActivitySuccess",
    "ActivityFailed",
    "ActivityCanceled",
    "ActivityTimedOut",
    "ActivityScheduledTimeout",
    "ActivityPaused",
    "ActivityResumed",
    "ActivityRetried",
    "ActivityOptionsChanged",
];

impl EventKind {
    /// Returns the id of the ActivityScheduled event that this event refers to, and the field that takes the activity
    /// id. Returns `None` for all kinds of events that are not in [`NAMED_WHEN_READ`].
    fn activity_mut(&mut self) -> Option<(EventId, &mut Option<Box<str>>)> {
        match self {
            Self::ActivityStarted(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivitySuccess(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivityFailed(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivityCanceled(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivityTimedOut(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivityScheduledTimeout(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivityPaused(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivityResumed(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivityRetried(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            Self::ActivityOptionsChanged(it) => Some((it.scheduled_event_id, &mut it.activity_id)),
            _ => None,
        }
    }
}

/// Collects the activity ids from the ActivityScheduled events among `events`.
pub fn activity_names<'a>(events: impl IntoIterator<Item = &'a Event>) -> ActivityNames {
    let named = events.into_iter().filter_map(|event| match &event.kind {
        EventKind::ActivityScheduled(it) => Some((event.id, it.activity_id.clone())),
        _ => None,
    });
    named.collect()
}

/// Adds activity ids to the events that refer to an activity. Returns the ids of the ActivityScheduled events for which
/// `names` has no entry.
pub fn name_activities(events: &mut [Event], names: &ActivityNames) -> BTreeSet<EventId> {
    let mut unknown = BTreeSet::new();
    for (scheduled_event_id, activity_id) in events.iter_mut().filter_map(|event| event.kind.activity_mut()) {
        match names.get(&scheduled_event_id) {
            Some(name) => *activity_id = Some(name.as_str().into()),
            None => {
                unknown.insert(scheduled_event_id);
            }
        }
    }
    unknown
}

/// Removes the activity id that was added when the event was read, which restores the stored form. Returns the id of
/// the ActivityScheduled event and the removed activity id, or `None` if the event had no added activity id.
pub fn take_activity_name(event: &mut Event) -> Option<(EventId, Box<str>)> {
    let (scheduled_event_id, activity_id) = event.kind.activity_mut()?;
    activity_id.take().map(|name| (scheduled_event_id, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, fail, scene, schedule};

    /// A history with one successful, one failed and one open activity.
    fn story() -> Scene {
        let given = scene().decide([schedule("a"), schedule("b"), schedule("c")]).takes("a").succeeds("a").takes("b");
        let failed = fail(given.task("b"));
        given.then(&failed).takes("c")
    }

    fn named(events: &[Event]) -> Vec<(&'static str, Option<String>)> {
        let of = |event: &Event| {
            let json = serde_json::to_value(event).unwrap();
            json["scheduledEventId"].is_u64().then(|| json["activityId"].as_str().map(str::to_owned))
        };
        events.iter().filter_map(|event| Some((event.kind.name(), of(event)?))).collect()
    }

    #[test]
    fn events_of_an_activity_carry_its_name_once_added() {
        let mut events = story().events;
        let names = activity_names(&events);
        assert!(named(&events).iter().all(|(kind, name)| name.is_none() || kind.starts_with("Decider")));
        assert!(name_activities(&mut events, &names).is_empty());
        let of_activities: Vec<_> =
            named(&events).into_iter().filter(|(kind, _)| kind.starts_with("Activity")).collect();
        let expected = [
            ("ActivityStarted", "a"),
            ("ActivitySuccess", "a"),
            ("ActivityStarted", "b"),
            ("ActivityFailed", "b"),
            ("ActivityStarted", "c"),
        ];
        assert_eq!(of_activities, expected.map(|(kind, name)| (kind, Some(name.to_owned()))));
    }

    #[test]
    fn missing_activity_names_are_reported() {
        let mut events = story().events;
        events.retain(|event| event.kind.name() == "ActivityFailed");
        let unknown = name_activities(&mut events, &ActivityNames::new());
        assert_eq!(unknown.len(), 1);
        let names = unknown.into_iter().map(|id| (id, "b".to_owned())).collect();
        assert!(name_activities(&mut events, &names).is_empty());
        assert_eq!(named(&events), [("ActivityFailed", Some("b".to_owned()))]);
    }

    #[test]
    fn activity_names_are_not_stored_and_can_be_removed() {
        let stored = story().events;
        let mut events = stored.clone();
        name_activities(&mut events, &activity_names(&stored));
        for (named, event) in events.iter().zip(&stored) {
            assert_eq!(minicbor::to_vec(named).unwrap(), minicbor::to_vec(event).unwrap());
            let text = serde_json::to_string(named).unwrap();
            assert_eq!(&Event::from_json(&text).unwrap(), named);
            let mut read = named.clone();
            let taken = take_activity_name(&mut read);
            assert_eq!((&read, taken.is_some()), (event, named != event));
        }
    }
}
