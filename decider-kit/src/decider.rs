//! What an explicit decider is.

use baton_history::{Event, Payload};

use crate::decisions::Decisions;
use crate::query::{Query, QueryError};
use crate::update::{Rejection, Update, Verdict};
use crate::window::Window;

/// Decides what a run does next. Pure: the same history always gives the same decisions.
pub trait Decider: Send + Sync + 'static {
    /// What the decider makes of a history. Kept between turns where possible, and made again from event 1 where not.
    type State: Default + Send + 'static;

    /// Takes one more event into the state. Called once for every event of the run, in order.
    fn evolve(&self, state: &mut Self::State, event: &Event);

    /// What to do now. `state` has every event up to the window's end.
    fn decide(&self, state: &Self::State, window: &Window) -> Decisions;

    /// What to say to an update, with everything up to the window's end in the state. Asked before [`decide`](Self::decide),
    /// whose turn it is, too. An update that is accepted becomes an event that `evolve` sees; one that is rejected leaves
    /// no trace. Without this method every update is rejected as unknown.
    fn update(&self, _state: &Self::State, _update: &Update, _window: &Window) -> Verdict {
        Verdict::reject(Rejection::unknown([]))
    }

    /// Answers a query, from `state` alone: it is read-only, and what comes of it touches neither the run nor the turn. Asked
    /// after [`decide`](Self::decide) where a turn is to be decided, too; see [`Query::decided`].
    ///
    /// # Errors
    ///
    /// [`QueryError`]. Without this method every query is one that the decider does not know.
    fn query(&self, _state: &Self::State, query: &Query<'_>) -> Result<Payload, QueryError> {
        Err(QueryError::Unknown { name: query.name().to_owned(), known: Vec::new() })
    }
}
