//! Reasons why a decider no longer holds a turn, as found in the history.

use crate::command::TurnId;
use crate::event::{DeciderFailedCause, Event, EventKind};
use crate::time::Duration;

/// Reason why a decider no longer holds a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnLoss {
    /// The turn was not answered in time.
    TimedOut {
        /// Time from the turn's DeciderStarted event to the timeout.
        after: Duration,
    },
    /// The decider reported a failure, or the turn could not be delivered.
    GivenBack {
        /// Time from the turn's DeciderStarted event to the failure.
        after: Duration,
        /// Cause, for programs.
        cause: DeciderFailedCause,
        /// Failure code from the decider.
        reason: Option<String>,
    },
    /// The decider has already answered the turn.
    Answered {
        /// Time from the turn's DeciderStarted event to its answer.
        after: Duration,
    },
    /// The run has no such turn.
    NeverWas,
}

impl TurnLoss {
    /// Finds the reason in the events of the history, starting with the turn's DeciderStarted event. Returns `None` if
    /// the events do not show the end of the turn.
    pub fn find(turn: TurnId, events: &[Event]) -> Option<Self> {
        let Some(first) = events.first() else { return Some(Self::NeverWas) };
        let is_its_start = first.id == turn.started_event_id
            && matches!(&first.kind, EventKind::DeciderStarted(it) if it.scheduled_event_id == turn.scheduled_event_id);
        if !is_its_start {
            return Some(Self::NeverWas);
        }
        events.iter().find_map(|event| {
            let after = event.timestamp.since(first.timestamp);
            match &event.kind {
                EventKind::DeciderTimedOut(it) if it.started_event_id == Some(first.id) => {
                    Some(Self::TimedOut { after })
                }
                EventKind::DeciderFailed(it) if it.started_event_id == first.id => {
                    Some(Self::GivenBack { after, cause: it.cause, reason: it.reason.clone() })
                }
                EventKind::DeciderCompleted(it) if it.started_event_id == first.id => Some(Self::Answered { after }),
                _ => None,
            }
        })
    }

    /// Returns the code for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::TimedOut { .. } => "timed-out",
            Self::GivenBack { cause: DeciderFailedCause::Reported, .. } => "failed",
            Self::GivenBack { cause: DeciderFailedCause::DeliveryFailed, .. } => "delivery-failed",
            Self::Answered { .. } => "completed",
            Self::NeverWas => "unknown",
        }
    }

    /// Returns the time from the turn's DeciderStarted event to the end of the turn.
    pub fn after(&self) -> Option<Duration> {
        match self {
            Self::TimedOut { after } | Self::GivenBack { after, .. } | Self::Answered { after } => Some(*after),
            Self::NeverWas => None,
        }
    }
}

impl std::fmt::Display for TurnLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TimedOut { after } => write!(f, "it timed out after {after:#}"),
            Self::GivenBack { after, cause: DeciderFailedCause::Reported, reason } => {
                let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                write!(f, "it failed after {after:#}{reason}")
            }
            Self::GivenBack { after, cause: DeciderFailedCause::DeliveryFailed, .. } => {
                write!(f, "it was not delivered after {after:#}: the connection of its poll was closed")
            }
            Self::Answered { after } => write!(f, "it was completed after {after:#}, and a later turn has followed"),
            Self::NeverWas => f.write_str("the run has no such turn"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{DeciderCompleted, DeciderFailed, DeciderStarted, DeciderTimedOut, DeciderTimeout, Signal};
    use crate::time::Timestamp;

    const TURN: TurnId = TurnId { scheduled_event_id: 2, started_event_id: 3 };

    fn events(kinds: Vec<EventKind>) -> Vec<Event> {
        let at = |index: u64| Timestamp::from_millis(1_000 + 30_000 * index);
        let event = |(index, kind): (u64, EventKind)| Event {
            id: 3 + index,
            timestamp: at(index),
            kind,
            key: None,
            by: None,
            clock: None,
        };
        (0..).zip(kinds).map(event).collect()
    }

    fn started(scheduled_event_id: u64) -> EventKind {
        EventKind::DeciderStarted(DeciderStarted { scheduled_event_id, identity: None })
    }

    fn signal() -> EventKind {
        EventKind::Signal(Signal { name: "s".to_owned(), input: None, identity: None, origin: None, traceparent: None })
    }

    fn completed(started_event_id: u64) -> EventKind {
        let (context, awaiting, next_task_list) = (None, Vec::new(), None);
        let completed = DeciderCompleted { scheduled_event_id: 2, started_event_id, context, awaiting, next_task_list };
        EventKind::DeciderCompleted(completed)
    }

    #[test]
    fn the_loss_of_a_turn_is_found_in_its_history() {
        let timed_out = |started_event_id| {
            let (scheduled_event_id, timeout) = (2, DeciderTimeout::StartToClose);
            EventKind::DeciderTimedOut(DeciderTimedOut { scheduled_event_id, started_event_id, timeout })
        };
        let failed = |cause, reason: Option<&str>| {
            let (scheduled_event_id, started_event_id) = (2, 3);
            let (reason, details, next_not_before) = (reason.map(str::to_owned), None, None);
            let failed =
                DeciderFailed { scheduled_event_id, started_event_id, cause, reason, details, next_not_before };
            EventKind::DeciderFailed(failed)
        };
        let reported = failed(DeciderFailedCause::Reported, Some("no-disk"));
        let undelivered = failed(DeciderFailedCause::DeliveryFailed, None);
        let cases: Vec<(Vec<EventKind>, Option<&str>)> = vec![
            (vec![started(2), timed_out(Some(3))], Some("timed-out: it timed out after 30s")),
            (vec![started(2), signal(), timed_out(Some(3))], Some("timed-out: it timed out after 1m")),
            (vec![started(2), reported], Some("failed: it failed after 30s: no-disk")),
            (
                vec![started(2), undelivered],
                Some("delivery-failed: it was not delivered after 30s: the connection of its poll was closed"),
            ),
            (
                vec![started(2), completed(3)],
                Some("completed: it was completed after 30s, and a later turn has followed"),
            ),
            // The outcomes of other turns are ignored.
            (vec![started(2), timed_out(Some(7)), timed_out(None), completed(8)], None),
            (vec![started(2)], None),
            (vec![], Some("unknown: the run has no such turn")),
            (vec![started(1)], Some("unknown: the run has no such turn")),
            (vec![signal()], Some("unknown: the run has no such turn")),
        ];
        for (kinds, expected) in cases {
            let found = TurnLoss::find(TURN, &events(kinds));
            let shown = found.map(|loss| format!("{}: {loss}", loss.word()));
            assert_eq!(shown.as_deref(), expected);
        }
    }
}
