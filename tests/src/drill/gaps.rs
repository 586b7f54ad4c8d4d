//! Gaps in a history: times in which a turn, an activity or an expired timer made no progress.

use std::collections::HashMap;

use history::{Event, EventId, EventKind, Timestamp};

/// A time in which an open item made no progress although it could have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    /// Description of the item, with the first and the last event of the gap.
    pub(super) what: String,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// A change of an open item.
enum Step {
    /// The item can make progress from this time on.
    Opened(Timestamp),
    /// The item made progress and can make more.
    Moved(EventId),
    /// The item is closed.
    Closed(EventId),
}

/// Returns each time that a turn, an activity or a timer made no progress, each item separately.
///
/// Other events in the meantime, such as a signal and its turn, do not count as progress of the item. A run that
/// waits for its callers has no open items.
pub(super) fn gaps(events: &[Event]) -> Vec<Gap> {
    let mut open: HashMap<EventId, &Event> = HashMap::new();
    let mut ready: HashMap<EventId, Timestamp> = HashMap::new();
    let mut gaps = Vec::new();
    for event in events {
        let Some(step) = step(event) else { continue };
        let of = match step {
            Step::Opened(from) => {
                ready.insert(event.id, from);
                open.insert(event.id, event);
                continue;
            }
            Step::Moved(of) | Step::Closed(of) => of,
        };
        let (Some(before), Some(from)) = (open.remove(&of), ready.remove(&of)) else { continue };
        if from < event.timestamp {
            let what = format!("from {} {} to {} {}", before.id, before.kind.name(), event.id, event.kind.name());
            gaps.push(Gap { what, from, to: event.timestamp });
        }
        if matches!(step, Step::Moved(_)) {
            open.insert(of, event);
            ready.insert(of, event.timestamp);
        }
    }
    gaps
}

/// Interprets an event. It knows only events of a drill's load: turns, activities without retries, and timers that
/// are never canceled.
fn step(event: &Event) -> Option<Step> {
    let step = match &event.kind {
        EventKind::DeciderScheduled(_) | EventKind::ActivityScheduled(_) => Step::Opened(event.timestamp),
        EventKind::TimerScheduled(it) => Step::Opened(event.timestamp.plus(it.after)),
        EventKind::DeciderStarted(it) => Step::Moved(it.scheduled_event_id),
        EventKind::ActivityStarted(it) => Step::Moved(it.scheduled_event_id),
        EventKind::DeciderCompleted(it) => Step::Closed(it.scheduled_event_id),
        EventKind::DeciderTimedOut(it) => Step::Closed(it.scheduled_event_id),
        EventKind::DeciderFailed(it) => Step::Closed(it.scheduled_event_id),
        EventKind::ActivitySuccess(it) => Step::Closed(it.scheduled_event_id),
        EventKind::ActivityFailed(it) => Step::Closed(it.scheduled_event_id),
        EventKind::ActivityTimedOut(it) => Step::Closed(it.scheduled_event_id),
        EventKind::ActivityScheduledTimeout(it) => Step::Closed(it.scheduled_event_id),
        EventKind::TimerExpired(it) => Step::Closed(it.scheduled_event_id),
        _ => return None,
    };
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// Returns a history of events at these seconds, numbered from 1.
    fn history(events: &[(u64, &str)]) -> Vec<Event> {
        let event = |(place, (seconds, text)): (usize, &(u64, &str))| {
            let (id, timestamp) = (place + 1, at(*seconds));
            let timestamp = serde_json::to_value(timestamp).unwrap();
            Event::from_json(&format!(r#"{{"id":{id},"timestamp":{timestamp},{text}}}"#)).unwrap()
        };
        events.iter().enumerate().map(event).collect()
    }

    fn seconds(events: &[(u64, &str)]) -> Vec<(u64, u64)> {
        let seconds = |at: Timestamp| at.as_millis() / 1_000;
        gaps(&history(events)).into_iter().map(|gap| (seconds(gap.from), seconds(gap.to))).collect()
    }

    const ACTIVITY: &str =
        r#""type":"ActivityScheduled","activityId":"a","activityType":"a","taskList":"a","decisionEventId":1"#;
    const SIGNAL: &str = r#""type":"Signal","name":"go""#;
    const TURN: &str = r#""type":"DeciderScheduled","taskList":"a","startToClose":"PT1M","attempt":1"#;

    #[test]
    fn a_gap_of_an_activity_spans_a_signal_and_its_turn() {
        let gaps = seconds(&[
            (0, ACTIVITY),
            (7, SIGNAL),
            (7, TURN),
            (8, r#""type":"DeciderStarted","scheduledEventId":3"#),
            (8, r#""type":"DeciderCompleted","scheduledEventId":3,"startedEventId":4"#),
            (15, r#""type":"ActivityStarted","scheduledEventId":1"#),
            (16, r#""type":"ActivitySuccess","scheduledEventId":1,"startedEventId":6"#),
        ]);
        assert_eq!(gaps, [(7, 8), (0, 15), (15, 16)]);
    }

    #[test]
    fn only_an_expired_timer_has_a_gap() {
        let timer = r#""type":"TimerScheduled","timerId":"t","after":"PT1S","decisionEventId":1"#;
        let expired = r#""type":"TimerExpired","timerId":"t","scheduledEventId":1"#;
        assert_eq!(seconds(&[(0, timer), (1, expired)]), []);
        assert_eq!(seconds(&[(0, timer), (3, SIGNAL), (6, expired), (20, SIGNAL)]), [(1, 6)]);
    }
}
