//! Recorded histories, whose turns a decider decides again.

use std::fmt;
use std::sync::Arc;

use baton_history::{AnsweredTurn, Event, EventId, EventKind, ProposedUpdate, RecordMarker, Run, TurnId, admit};

use super::commands::judged;
use super::subject::{Subject, describe, fresh};
use super::{assert_consistent, window_of};
use crate::flow::is_canceled_unstarted;
use crate::update::{TurnEnd, Update};
use crate::{Decisions, TakesTurns};

/// A recorded history.
///
/// ```
/// # use baton_decider_kit::{Decider, Decisions, Event, Window};
/// # struct Order;
/// # impl Decider for Order {
/// #     type State = ();
/// #     fn evolve(&self, _: &mut (), _: &Event) {}
/// #     fn decide(&self, _: &(), _: &Window) -> Decisions { Decisions::new().succeed(&"done") }
/// # }
/// use baton_decider_kit::testing::Recorded;
///
/// // curl …/v1/domains/shop/workflows/order-42/history > order-42.json
/// let text = r#"{"events": [
///     {"id":1,"timestamp":"2026-03-01T12:00:00.000Z","type":"WorkflowStarted","workflowId":"order-42",
///      "runId":"00000000-0000-0000-0000-000000000001","workflowType":"order","taskList":"orders",
///      "executionTimeout":"P30D","deciderStartToClose":"PT30S","retention":"P30D"},
///     {"id":2,"timestamp":"2026-03-01T12:00:00.000Z","type":"DeciderScheduled","taskList":"orders",
///      "startToClose":"PT30S","attempt":1},
///     {"id":3,"timestamp":"2026-03-01T12:00:00.500Z","type":"DeciderStarted","scheduledEventId":2},
///     {"id":4,"timestamp":"2026-03-01T12:00:00.501Z","type":"DeciderCompleted","scheduledEventId":2,
///      "startedEventId":3},
///     {"id":5,"timestamp":"2026-03-01T12:00:00.501Z","type":"WorkflowSuccess","result":"done","decisionEventId":4}
/// ]}"#;
/// Recorded::from_json(text)?.assert_same(Order);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    events: Vec<Event>,
}

/// A turn whose decisions differ from the recorded events.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Id of the turn's DeciderStarted event.
    pub started_event_id: EventId,
    /// Decisions made now.
    pub decisions: Decisions,
    /// Events that would be recorded for `decisions`. Empty if the service would refuse the decisions, or if the turn
    /// is given back.
    pub now: Vec<EventKind>,
    /// Recorded events.
    pub then: Vec<EventKind>,
    /// Reason why the service would refuse the decisions; `None` if it would accept them.
    pub refused: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "turn {}: decisions now", self.started_event_id)?;
        writeln!(f, "{}", describe(&self.decisions))?;
        if let Some(refused) = &self.refused {
            writeln!(f, "refused by the service: {refused}")?;
        }
        writeln!(f, "recorded decisions")?;
        for kind in &self.then {
            match serde_json::to_string(kind) {
                Ok(text) => writeln!(f, "  {text}")?,
                Err(_) => writeln!(f, "  {}", kind.name())?,
            }
        }
        Ok(())
    }
}

impl Recorded {
    /// Reads a history from event 1: the response of `GET …/history`, or the bare array of its events.
    ///
    /// # Errors
    ///
    /// If the text has neither form.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(serde::Deserialize)]
        struct HistoryBody {
            events: Vec<Event>,
        }

        let events = if text.trim_start().starts_with('[') {
            serde_json::from_str(text)?
        } else {
            serde_json::from_str::<HistoryBody>(text)?.events
        };
        Ok(Self { events })
    }

    /// Creates a recorded history from these events.
    pub fn of(events: &[Event]) -> Self {
        Self { events: events.to_vec() }
    }

    /// Returns the events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Lets the decider decide every completed turn again, each with its original window. Fails the test if any
    /// decision differs.
    #[track_caller]
    pub fn assert_same(&self, decider: impl TakesTurns) {
        let differences = self.differences(decider);
        if !differences.is_empty() {
            let texts: Vec<_> = differences.iter().map(ToString::to_string).collect();
            super::fail(format_args!("{} turns differ\n\n{}", texts.len(), texts.join("\n")), &self.events);
        }
    }

    /// Lets the decider decide every completed turn again, each with its original window, and returns the differences.
    /// A history does not show whether a close was forced. This counts as a difference only if it changes the recorded
    /// events.
    pub fn differences(&self, decider: impl TakesTurns) -> Vec<Difference> {
        self.differences_of(&mut fresh(Arc::new(decider)))
    }

    pub(super) fn differences_of(&self, subject: &mut dyn Subject) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut events = self.events.iter();
        let Some(first) = events.next() else { return differences };
        let Some(mut run) = Run::replay([first]) else {
            super::fail("the history does not begin with WorkflowStarted", &self.events);
        };
        if let Some(run) = Run::replay(&self.events) {
            assert_consistent(&self.events, &run);
        }
        for event in events {
            if let EventKind::DeciderCompleted(it) = &event.kind {
                let turn = TurnId { scheduled_event_id: it.scheduled_event_id, started_event_id: it.started_event_id };
                let difference = self.compare(subject, &run, turn, event, &it.awaiting);
                // A decider that cannot continue gives back every following turn with the same message. Only the first
                // of these turns is reported.
                let given_back = |it: &Difference| it.decisions.given_back.clone();
                let is_repeated = difference
                    .as_ref()
                    .and_then(given_back)
                    .is_some_and(|it| differences.last().and_then(given_back).is_some_and(|last| last == it));
                if !is_repeated {
                    differences.extend(difference);
                }
            }
            run.evolve(event);
        }
        differences
    }

    /// Compares one turn. `run` is the state just before `completed`.
    fn compare(
        &self,
        subject: &mut dyn Subject,
        run: &Run,
        turn: TurnId,
        completed: &Event,
        awaiting: &[String],
    ) -> Option<Difference> {
        let attempt = run.turn.as_ref().map_or(1, |turn| turn.attempt);
        let window = window_of(&self.events, run, turn.started_event_id, attempt);
        let behind =
            |kind: &EventKind| kind.level() == baton_history::event::Level::Decider || is_canceled_unstarted(kind);
        let batch = self.events.iter().skip_while(|event| event.id <= completed.id).map(|event| &event.kind);
        let batch: Vec<_> = batch.take_while(|kind| behind(kind)).collect();
        let markers = batch.iter().filter_map(|kind| match kind {
            EventKind::Marker(it) => Some(RecordMarker { name: it.name.clone(), details: it.details.clone() }),
            _ => None,
        });
        let proposed: Vec<ProposedUpdate> = batch.iter().filter_map(|kind| proposed_update(kind)).collect();
        let updates: Vec<Update> = proposed.iter().cloned().map(Update::from).collect();
        let markers = Some(markers.collect());
        let decided = if updates.is_empty() {
            subject.decide(&self.events, &window, markers)
        } else {
            let judged = subject.judge(&self.events, &window, markers, &updates, EventId::MAX);
            judged.map(|taken| match taken {
                TurnEnd::Turn(decisions) => decisions,
                TurnEnd::Nothing(updates) => Decisions { updates, ..Decisions::new() },
            })
        };
        let decisions = match decided {
            Ok(decisions) => decisions,
            Err(difference) => difference.one,
        };
        let then: Vec<_> = std::iter::once(&completed.kind).chain(batch).collect();
        if decisions.given_back.is_some() {
            let (now, then) = (Vec::new(), then.into_iter().cloned().collect());
            return Some(Difference { started_event_id: turn.started_event_id, decisions, now, then, refused: None });
        }
        // The awaited signals are informational and not compared. The service's rules determine the events that would
        // be recorded, because the rules know defaults, limits and the ids in use.
        let command =
            judged(AnsweredTurn::Held(turn), proposed, Decisions { awaiting: awaiting.to_vec(), ..decisions.clone() });
        let (now, refused) = match admit(run, &command, completed.timestamp) {
            Ok(events) => (events.into_iter().map(|event| event.kind).collect(), None),
            Err(fault) => (Vec::new(), Some(fault.to_string())),
        };
        let now: Vec<EventKind> =
            now.into_iter().filter(|kind| !matches!(kind, EventKind::DeciderScheduled(_))).collect();
        if now.iter().eq(then.iter().copied()) {
            return None;
        }
        let then = then.into_iter().cloned().collect();
        Some(Difference { started_event_id: turn.started_event_id, decisions, now, then, refused })
    }
}

/// Returns the update whose acceptance this event records.
fn proposed_update(kind: &EventKind) -> Option<ProposedUpdate> {
    match kind {
        EventKind::UpdateAccepted(it) => Some(ProposedUpdate {
            update_id: it.update_id.clone(),
            name: it.name.clone(),
            input: it.input.clone(),
            identity: it.identity.clone(),
            if_version: None,
            by: None,
        }),
        _ => None,
    }
}
