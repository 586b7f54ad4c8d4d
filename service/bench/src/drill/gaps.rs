//! What stood still in a history, and for how long: a turn, an activity, a timer that was over.

use std::collections::HashMap;

use history::{Event, EventId, EventKind, Timestamp};

/// A time in which something that was open did not go on, though it could have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    /// What it was, from which event to which.
    pub(super) what: String,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// What happened to what a run has open.
enum Step {
    /// It can go on from this instant.
    Opened(Timestamp),
    /// It went on, and can go on.
    Moved(EventId),
    /// It is over.
    Closed(EventId),
}

/// Each time that a turn, an activity or a timer stood still, by itself.
///
/// What else is recorded meanwhile, a signal and the turn that it brings, has nothing go on that stood still before. A run that waits for its
/// callers has nothing open.
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

/// Only of what the load of a drill has: turns, activities without retries, timers that nobody cancels.
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

    /// Events of these seconds, numbered from 1 on.
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
    fn an_activity_that_stands_still_does_so_across_a_signal_and_its_turn() {
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
    fn a_timer_stands_still_once_it_is_over_and_a_run_without_anything_open_never() {
        let timer = r#""type":"TimerScheduled","timerId":"t","after":"PT1S","decisionEventId":1"#;
        let expired = r#""type":"TimerExpired","timerId":"t","scheduledEventId":1"#;
        assert_eq!(seconds(&[(0, timer), (1, expired)]), []);
        assert_eq!(seconds(&[(0, timer), (3, SIGNAL), (6, expired), (20, SIGNAL)]), [(1, 6)]);
    }
}
