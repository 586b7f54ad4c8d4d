//! The trait of explicit deciders.

use baton_history::{Event, Payload};

use crate::decisions::Decisions;
use crate::query::{Query, QueryError};
use crate::update::{Rejection, Update, Verdict};
use crate::window::Window;

/// Interface of deciders. A decider decides what a run does next. It must be pure, so that the same history always
/// gives the same decisions.
pub trait Decider: Send + Sync + 'static {
    /// State folded from the history. The host keeps it between turns if it can, and otherwise rebuilds it from event
    /// 1.
    type State: Default + Send + 'static;

    /// Applies one event to the state. The host calls it once for every event of the run, in order.
    fn evolve(&self, state: &mut Self::State, event: &Event);

    /// Returns the decisions of this turn. `state` includes every event up to the window's end.
    fn decide(&self, state: &Self::State, window: &Window) -> Decisions;

    /// Judges an update. `state` includes every event up to the window's end. In each turn, the host calls this method
    /// before [`decide`](Self::decide). An accepted update becomes an event that `evolve` receives. A rejected update
    /// leaves no trace. The default rejects every update as unknown.
    fn update(&self, _state: &Self::State, _update: &Update, _window: &Window) -> Verdict {
        Verdict::reject(Rejection::unknown([]))
    }

    /// Answers a query from `state` alone. A query is read-only: its outcome affects neither the run nor the turn. If
    /// the turn also needs decisions, this method is called after [`decide`](Self::decide); see [`Query::decided`].
    ///
    /// # Errors
    ///
    /// Returns a [`QueryError`] if there is no answer. The default answers every query with [`QueryError::Unknown`].
    fn query(&self, _state: &Self::State, query: &Query<'_>) -> Result<Payload, QueryError> {
        Err(QueryError::Unknown { name: query.name().to_owned(), known: Vec::new() })
    }
}
