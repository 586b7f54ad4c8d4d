//! A decider and what it has made of one run so far.

use std::sync::Arc;

use history::{Event, EventId};

use crate::{Decider, Decisions, Window};

/// A decider at work on one run, its state's type forgotten.
pub(super) trait Mind {
    /// Decides a turn. `events` are the run's, from event 1; none after the window's end is looked at.
    ///
    /// # Errors
    ///
    /// The two answers of a decider that answers the same question in two ways.
    fn decide(&mut self, events: &[Event], window: &Window) -> Result<Decisions, Box<(Decisions, Decisions)>>;
}

/// Makes a fresh mind for every run.
pub(super) type Minds = Box<dyn Fn() -> Box<dyn Mind>>;

pub(super) fn minds(decider: impl Decider) -> Minds {
    let decider = Arc::new(decider);
    Box::new(move || Box::new(fresh(Arc::clone(&decider))))
}

pub(super) fn fresh<D: Decider>(decider: Arc<D>) -> impl Mind {
    One { decider, state: D::State::default(), seen: 0 }
}

struct One<D: Decider> {
    decider: Arc<D>,
    state: D::State,
    seen: EventId,
}

impl<D: Decider> Mind for One<D> {
    fn decide(&mut self, events: &[Event], window: &Window) -> Result<Decisions, Box<(Decisions, Decisions)>> {
        // Ids have no gaps, so that an event's place is its id less one.
        let seen = usize::try_from(self.seen).unwrap_or(usize::MAX);
        for event in events.iter().skip(seen).take_while(|event| event.id <= window.started_event_id) {
            self.decider.evolve(&mut self.state, event);
        }
        self.seen = window.started_event_id;
        let decisions = self.decider.decide(&self.state, window);
        let again = self.decider.decide(&self.state, window);
        if decisions == again { Ok(decisions) } else { Err(Box::new((decisions, again))) }
    }
}

/// An answer, for people: one decision a line, as JSON.
pub(super) fn told(decisions: &Decisions) -> String {
    let lines = decisions.as_slice().iter().map(|decision| match serde_json::to_string(decision) {
        Ok(text) => format!("  {text}"),
        Err(_) => format!("  {decision:?}"),
    });
    let context = decisions.context.iter().map(|context| format!("  context {context}"));
    let lines: Vec<_> = lines.chain(context).collect();
    if lines.is_empty() { "  nothing".to_owned() } else { lines.join("\n") }
}
