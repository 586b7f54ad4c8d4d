//! A decider and what it has made of one run so far.

use std::sync::Arc;

use baton_history::{Decision, Event, EventId, RecordMarker};

use crate::update::{TurnEnd, Update};
use crate::{Decisions, Payload, Query, QueryError, TakesTurns, Window};

/// Histories up to this length are given to a fresh state at every turn; longer ones at every hundredth event, because the
/// cost grows with the square.
const ALWAYS_REPLAYED_EVENTS_MAX: u64 = 1_000;

/// The markers among a turn's decisions, in order.
pub(super) type Markers = Vec<RecordMarker>;

/// A decider at work on one run, its state's type forgotten.
pub(super) trait Mind {
    /// Decides a turn. `events` are the run's, from event 1; none after the window's end is looked at. `recorded` are the
    /// markers of the turn, where it was decided before.
    ///
    /// # Errors
    ///
    /// Two answers to the same query.
    fn decide(&mut self, events: &[Event], window: &Window, recorded: Option<Markers>)
    -> Result<Decisions, Box<Split>>;

    /// Decides a turn that is asked to judge updates. The events from `shown_from` on are not recorded yet.
    ///
    /// # Errors
    ///
    /// As for [`decide`](Self::decide).
    fn judge(
        &mut self,
        events: &[Event],
        window: &Window,
        recorded: Option<Markers>,
        updates: &[Update],
        shown_from: EventId,
    ) -> Result<TurnEnd, Box<Split>>;

    /// Answers a query, from what these events of the run tell, which are all since event 1.
    fn query(&self, events: &[Event], query: &Query<'_>) -> Result<Payload, QueryError>;
}

/// Two answers of one decider to the same query.
#[derive(Debug)]
pub(super) struct Split {
    /// How the second time differed from the first.
    pub(super) how: &'static str,
    pub(super) one: Decisions,
    pub(super) other: Decisions,
}

impl std::fmt::Display for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, the decider decides\n{}\nand\n{}", self.how, told(&self.one), told(&self.other))
    }
}

/// Makes a fresh mind for every run.
pub(super) type Minds = Box<dyn Fn() -> Box<dyn Mind>>;

pub(super) fn minds(decider: impl TakesTurns) -> Minds {
    let decider = Arc::new(decider);
    Box::new(move || Box::new(fresh(Arc::clone(&decider))))
}

pub(super) fn fresh<D: TakesTurns>(decider: Arc<D>) -> impl Mind {
    One { decider, state: D::Memory::default(), seen: 0 }
}

struct One<D: TakesTurns> {
    decider: Arc<D>,
    state: D::Memory,
    /// The newest event in the state: the DeciderStarted of the last turn that was decided.
    seen: EventId,
}

impl<D: TakesTurns> One<D> {
    fn evolve(&self, state: &mut D::Memory, events: &[Event], seen: EventId, started_event_id: EventId) {
        // Ids have no gaps, so that an event's place is its id less one.
        let seen = usize::try_from(seen).unwrap_or(usize::MAX);
        for event in events.iter().skip(seen).take_while(|event| event.id <= started_event_id) {
            self.decider.take_in(state, event);
        }
    }
}

impl<D: TakesTurns> Mind for One<D> {
    fn decide(
        &mut self,
        events: &[Event],
        window: &Window,
        recorded: Option<Markers>,
    ) -> Result<Decisions, Box<Split>> {
        if self.seen != window.previous_started_event_id {
            // The turn that was decided last was not completed: a host drops the state, too.
            (self.state, self.seen) = (D::Memory::default(), 0);
        }
        let started_event_id = window.started_event_id;
        let mut state = std::mem::take(&mut self.state);
        self.evolve(&mut state, events, self.seen, started_event_id);
        if let Some(markers) = recorded {
            self.decider.foresee(&mut state, markers);
        }
        let one = self.decided(&mut state, window);
        let other = self.decided(&mut state, window);
        (self.state, self.seen) = (state, started_event_id);
        if one != other {
            return Err(Box::new(Split { how: "asked twice", one, other }));
        }
        if started_event_id <= ALWAYS_REPLAYED_EVENTS_MAX || started_event_id.is_multiple_of(100) {
            let mut state = D::Memory::default();
            self.evolve(&mut state, events, 0, started_event_id);
            self.decider.foresee(&mut state, markers_of(&one));
            let other = self.decided(&mut state, window);
            if one != other {
                let how = "asked with its state at hand, and with its state made again from event 1";
                return Err(Box::new(Split { how, one, other }));
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
    ) -> Result<TurnEnd, Box<Split>> {
        if self.seen != window.previous_started_event_id {
            (self.state, self.seen) = (D::Memory::default(), 0);
        }
        let mut state = std::mem::take(&mut self.state);
        if let Some(markers) = recorded.clone() {
            self.decider.foresee(&mut state, markers);
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
            self.decider.foresee(&mut state, markers);
        }
        let other = self.take(&mut state, 0, events, window, updates, shown_from);
        if one != other {
            let how = "asked with its state at hand, and with its state made again from event 1";
            return Err(Box::new(Split { how, one: one.into_decisions(), other: other.into_decisions() }));
        }
        Ok(one)
    }
}

impl<D: TakesTurns> One<D> {
    /// A turn without updates.
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

/// An answer, for people: one decision a line, as JSON.
pub(super) fn told(decisions: &Decisions) -> String {
    let lines = decisions.as_slice().iter().map(|decision| match serde_json::to_string(decision) {
        Ok(text) => format!("  {text}"),
        Err(_) => format!("  {decision:?}"),
    });
    let context = decisions.context.iter().map(|context| format!("  context {context}"));
    let awaiting = decisions.awaiting.iter().map(|name| format!("  awaits `{name}`"));
    let given_back =
        decisions.given_back.iter().map(|it| format!("  gives the turn back ({}): {}", it.reason, it.message));
    let updates =
        decisions.updates.iter().map(|answer| format!("  update `{}`: {:?}", answer.update_id, answer.verdict));
    let lines: Vec<_> = lines.chain(context).chain(awaiting).chain(updates).chain(given_back).collect();
    if lines.is_empty() { "  nothing".to_owned() } else { lines.join("\n") }
}
