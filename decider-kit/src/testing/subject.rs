//! A decider and its state for one run.

use std::sync::Arc;

use baton_history::{Decision, Event, EventId, RecordMarker};

use crate::update::{TurnEnd, Update};
use crate::{Decisions, Payload, Query, QueryError, TakesTurns, Window};

/// Length up to which a rebuilt state is compared at every turn. Our choice: in longer histories only every hundredth
/// event is compared, because the cost grows with the square of the length.
const ALWAYS_REPLAYED_EVENTS_MAX: u64 = 1_000;

/// Markers among the decisions of a turn, in order.
pub(super) type Markers = Vec<RecordMarker>;

/// A decider and its state for one run, with the state type erased.
pub(super) trait Subject {
    /// Decides a turn. `events` is the run's history from event 1; events after the window's end are ignored.
    /// `recorded` contains the turn's markers if the turn was already decided.
    ///
    /// # Errors
    ///
    /// If two calls of the decider have different results for the same turn.
    fn decide(
        &mut self,
        events: &[Event],
        window: &Window,
        recorded: Option<Markers>,
    ) -> Result<Decisions, Box<Nondeterminism>>;

    /// Decides a turn with updates to judge. The events from `shown_from` on are not recorded yet.
    ///
    /// # Errors
    ///
    /// If two calls of the decider have different results for the same turn.
    fn judge(
        &mut self,
        events: &[Event],
        window: &Window,
        recorded: Option<Markers>,
        updates: &[Update],
        shown_from: EventId,
    ) -> Result<TurnEnd, Box<Nondeterminism>>;

    /// Answers a query from these events, which are all events of the run.
    fn query(&self, events: &[Event], query: &Query<'_>) -> Result<Payload, QueryError>;
}

/// Two different results of one decider for the same turn.
#[derive(Debug)]
pub(super) struct Nondeterminism {
    /// Difference between the two calls.
    pub(super) how: &'static str,
    pub(super) one: Decisions,
    pub(super) other: Decisions,
}

impl std::fmt::Display for Nondeterminism {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the decider is not deterministic: {}, its decisions are\n{}\nand\n{}",
            self.how,
            describe(&self.one),
            describe(&self.other)
        )
    }
}

/// Function that creates the state of a new run.
pub(super) type SubjectFactory = Box<dyn Fn() -> Box<dyn Subject>>;

pub(super) fn subjects(decider: impl TakesTurns) -> SubjectFactory {
    let decider = Arc::new(decider);
    Box::new(move || Box::new(fresh(Arc::clone(&decider))))
}

pub(super) fn fresh<D: TakesTurns>(decider: Arc<D>) -> impl Subject {
    TypedSubject { decider, state: D::Memory::default(), seen: 0 }
}

struct TypedSubject<D: TakesTurns> {
    decider: Arc<D>,
    state: D::Memory,
    /// Id of the newest event in the state: the DeciderStarted event of the last decided turn.
    seen: EventId,
}

impl<D: TakesTurns> TypedSubject<D> {
    fn evolve(&self, state: &mut D::Memory, events: &[Event], seen: EventId, started_event_id: EventId) {
        // Ids have no gaps, so an event's index is its id minus one.
        let seen = usize::try_from(seen).unwrap_or(usize::MAX);
        for event in events.iter().skip(seen).take_while(|event| event.id <= started_event_id) {
            self.decider.apply_event(state, event);
        }
    }
}

impl<D: TakesTurns> Subject for TypedSubject<D> {
    fn decide(
        &mut self,
        events: &[Event],
        window: &Window,
        recorded: Option<Markers>,
    ) -> Result<Decisions, Box<Nondeterminism>> {
        if self.seen != window.previous_started_event_id {
            // The turn decided last was not completed. A host would also drop the state.
            (self.state, self.seen) = (D::Memory::default(), 0);
        }
        let started_event_id = window.started_event_id;
        let mut state = std::mem::take(&mut self.state);
        self.evolve(&mut state, events, self.seen, started_event_id);
        if let Some(markers) = recorded {
            self.decider.set_recorded_markers(&mut state, markers);
        }
        let one = self.decided(&mut state, window);
        let other = self.decided(&mut state, window);
        (self.state, self.seen) = (state, started_event_id);
        if one != other {
            return Err(Box::new(Nondeterminism { how: "called twice with the same state", one, other }));
        }
        if started_event_id <= ALWAYS_REPLAYED_EVENTS_MAX || started_event_id.is_multiple_of(100) {
            let mut state = D::Memory::default();
            self.evolve(&mut state, events, 0, started_event_id);
            self.decider.set_recorded_markers(&mut state, markers_of(&one));
            let other = self.decided(&mut state, window);
            if one != other {
                let how = "called with its cached state and with a state rebuilt from event 1";
                return Err(Box::new(Nondeterminism { how, one, other }));
            }
        }
        Ok(one)
    }

    fn query(&self, events: &[Event], query: &Query<'_>) -> Result<Payload, QueryError> {
        let mut state = D::Memory::default();
        self.evolve(&mut state, events, 0, EventId::MAX);
        self.decider.reply(&state, query)
    }

    fn judge(
        &mut self,
        events: &[Event],
        window: &Window,
        recorded: Option<Markers>,
        updates: &[Update],
        shown_from: EventId,
    ) -> Result<TurnEnd, Box<Nondeterminism>> {
        if self.seen != window.previous_started_event_id {
            (self.state, self.seen) = (D::Memory::default(), 0);
        }
        let mut state = std::mem::take(&mut self.state);
        if let Some(markers) = recorded.clone() {
            self.decider.set_recorded_markers(&mut state, markers);
        }
        let seen = std::mem::take(&mut self.seen);
        let one = self.take(&mut state, seen, events, window, updates, shown_from);
        if let TurnEnd::Turn(_) = &one {
            (self.state, self.seen) = (state, window.started_event_id);
        }
        let mut state = D::Memory::default();
        let markers = match &one {
            TurnEnd::Turn(decisions) => Some(markers_of(decisions)),
            TurnEnd::Nothing(_) => recorded,
        };
        if let Some(markers) = markers {
            self.decider.set_recorded_markers(&mut state, markers);
        }
        let other = self.take(&mut state, 0, events, window, updates, shown_from);
        if one != other {
            let how = "called with its cached state and with a state rebuilt from event 1";
            return Err(Box::new(Nondeterminism { how, one: one.into_decisions(), other: other.into_decisions() }));
        }
        Ok(one)
    }
}

impl<D: TakesTurns> TypedSubject<D> {
    /// Decides a turn without updates.
    fn decided(&self, state: &mut D::Memory, window: &Window) -> Decisions {
        self.decider.take_turn(state, window, &[], &[]).into_decisions()
    }

    fn take(
        &self,
        state: &mut D::Memory,
        seen: EventId,
        events: &[Event],
        window: &Window,
        updates: &[Update],
        shown_from: EventId,
    ) -> TurnEnd {
        let started_event_id = window.started_event_id;
        self.evolve(state, events, seen, started_event_id.min(shown_from.saturating_sub(1)));
        let shown = events.iter().filter(|event| (shown_from..=started_event_id).contains(&event.id));
        let shown: Vec<Event> = shown.cloned().collect();
        self.decider.take_turn(state, window, updates, &shown)
    }
}

fn markers_of(decisions: &Decisions) -> Markers {
    let marker = |decision: &Decision| match decision {
        Decision::RecordMarker(it) => Some(it.clone()),
        _ => None,
    };
    decisions.as_slice().iter().filter_map(marker).collect()
}

/// Describes decisions for a message: one per line, as JSON.
pub(super) fn describe(decisions: &Decisions) -> String {
    let lines = decisions.as_slice().iter().map(|decision| match serde_json::to_string(decision) {
        Ok(text) => format!("  {text}"),
        Err(_) => format!("  {decision:?}"),
    });
    let context = decisions.context.iter().map(|context| format!("  context {context}"));
    let awaiting = decisions.awaiting.iter().map(|name| format!("  awaits `{name}`"));
    let moves = decisions.moves.iter().map(|list| match list.schedule_to_start {
        None => format!("  moves turns to `{}`", list.task_list),
        Some(wait) => format!("  moves turns to `{}`, until one waits {wait}", list.task_list),
    });
    let given_back =
        decisions.given_back.iter().map(|it| format!("  returns the turn ({}): {}", it.reason, it.message));
    let updates =
        decisions.updates.iter().map(|answer| format!("  update `{}`: {:?}", answer.update_id, answer.verdict));
    let lines: Vec<_> = lines.chain(context).chain(awaiting).chain(moves).chain(updates).chain(given_back).collect();
    if lines.is_empty() { "  nothing".to_owned() } else { lines.join("\n") }
}
