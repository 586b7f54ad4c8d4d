//! Recorded histories: every turn once more.

use std::fmt;
use std::sync::Arc;

use baton_history::{AnsweredTurn, Event, EventId, EventKind, ProposedUpdate, RecordMarker, Run, TurnId, admit};

use super::commands::judged;
use super::mind::{Mind, fresh, told};
use super::{must_be_sound, window_of};
use crate::flow::is_canceled_unstarted;
use crate::update::{TurnEnd, Update};
use crate::{Decisions, TakesTurns};

/// A history that was recorded somewhere.
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
///     {"id":4,"timestamp":"2026-03-01T12:00:00.501Z","type":"DeciderCompleted","scheduledEventId":2,"startedEventId":3},
///     {"id":5,"timestamp":"2026-03-01T12:00:00.501Z","type":"WorkflowSuccess","result":"done","decisionEventId":4}
/// ]}"#;
/// Recorded::from_json(text)?.assert_same(Order);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    events: Vec<Event>,
}

/// A turn that is decided in another way than it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The turn's DeciderStarted.
    pub started_event_id: EventId,
    /// What the decider decides now.
    pub decisions: Decisions,
    /// What would be recorded of that; empty when the service would refuse it, or the turn is given back.
    pub now: Vec<EventKind>,
    /// What was recorded then.
    pub then: Vec<EventKind>,
    /// Why the service would refuse it, if it would.
    pub refused: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "turn {}: decided now", self.started_event_id)?;
        writeln!(f, "{}", told(&self.decisions))?;
        if let Some(refused) = &self.refused {
            writeln!(f, "which the service would refuse: {refused}")?;
        }
        writeln!(f, "recorded then")?;
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
    /// Reads a history: the answer of `GET …/history`, or the bare array of its events, from event 1.
    ///
    /// # Errors
    ///
    /// When it is neither.
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

    /// These events.
    pub fn of(events: &[Event]) -> Self {
        Self { events: events.to_vec() }
    }

    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Gives every completed turn to the decider once more, each with the window that it had, and ends the test when
    /// anything is decided in another way.
    #[track_caller]
    pub fn assert_same(&self, decider: impl TakesTurns) {
        let differences = self.differences(decider);
        if !differences.is_empty() {
            let told: Vec<_> = differences.iter().map(ToString::to_string).collect();
            super::fail(format_args!("{} turns differ\n\n{}", told.len(), told.join("\n")), &self.events);
        }
    }

    /// Gives every completed turn to the decider once more, each with the window that it had; what is decided in
    /// another way. Whether a close was forced is not in a history: it differs only where it mattered.
    pub fn differences(&self, decider: impl TakesTurns) -> Vec<Difference> {
        self.differences_of(&mut fresh(Arc::new(decider)))
    }

    pub(super) fn differences_of(&self, mind: &mut dyn Mind) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut events = self.events.iter();
        let Some(first) = events.next() else { return differences };
        let Some(mut run) = Run::replay([first]) else {
            super::fail("the history does not begin with WorkflowStarted", &self.events);
        };
        if let Some(run) = Run::replay(&self.events) {
            must_be_sound(&self.events, &run);
        }
        for event in events {
            if let EventKind::DeciderCompleted(it) = &event.kind {
                let turn = TurnId { scheduled_event_id: it.scheduled_event_id, started_event_id: it.started_event_id };
                let difference = self.compare(mind, &run, turn, event, &it.awaiting);
                // A decider that cannot go on says the same of every turn from here.
                let said = |it: &Difference| it.decisions.given_back.clone();
                let is_repeated = difference
                    .as_ref()
                    .and_then(said)
                    .is_some_and(|it| differences.last().and_then(said).is_some_and(|last| last == it));
                if !is_repeated {
                    differences.extend(difference);
                }
            }
            run.evolve(event);
        }
        differences
    }

    /// One turn: `run` is the state just before `completed`.
    fn compare(
        &self,
        mind: &mut dyn Mind,
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
        let asked: Vec<ProposedUpdate> = batch.iter().filter_map(|kind| asked_update(kind)).collect();
        let updates: Vec<Update> = asked.iter().cloned().map(Update::from).collect();
        let markers = Some(markers.collect());
        let decided = if updates.is_empty() {
            mind.decide(&self.events, &window, markers)
        } else {
            let judged = mind.judge(&self.events, &window, markers, &updates, EventId::MAX);
            judged.map(|taken| match taken {
                TurnEnd::Turn(decisions) => decisions,
                TurnEnd::Nothing(updates) => Decisions { updates, ..Decisions::new() },
            })
        };
        let decisions = match decided {
            Ok(decisions) => decisions,
            Err(split) => split.one,
        };
        let then: Vec<_> = std::iter::once(&completed.kind).chain(batch).collect();
        if decisions.given_back.is_some() {
            let (now, then) = (Vec::new(), then.into_iter().cloned().collect());
            return Some(Difference { started_event_id: turn.started_event_id, decisions, now, then, refused: None });
        }
        // What it waits for is no decision: it changes nothing but what people are told.
        // What would be recorded is for the rules to say: they know defaults, limits and ids in use.
        let command =
            judged(AnsweredTurn::Held(turn), asked, Decisions { awaiting: awaiting.to_vec(), ..decisions.clone() });
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

/// The update that an event says was accepted.
fn asked_update(kind: &EventKind) -> Option<ProposedUpdate> {
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
