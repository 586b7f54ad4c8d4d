//! What an explicit decider is.

use history::{Event, Payload, UpdateAnswer};

use crate::decisions::Decisions;
use crate::query::{Query, QueryError};
use crate::update::{Rejection, Taken, Update, Verdict};
use crate::window::Window;

/// Decides what a run does next. Pure: the same history always gives the same decisions.
pub trait Decider: Send + Sync + 'static {
    /// What the decider makes of a history. Kept between turns where possible, and made again from event 1 where not.
    type State: Default + Send + 'static;

    /// Updates that come with one turn, at most: 1, because [`update`](Self::update) judges each with the state before the
    /// turn, and does not see what came of another.
    #[doc(hidden)]
    const UPDATES_AT_ONCE: usize = 1;

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

    /// A whole turn: judges the updates, then decides. `shown` are the events of a turn that is not recorded yet.
    #[doc(hidden)]
    fn take_turn(&self, state: &mut Self::State, window: &Window, updates: &[Update], shown: &[Event]) -> Taken
    where
        Self: Sized,
    {
        take_turn(self, state, window, updates, shown)
    }

    /// Answers a question, from `state` alone: it is read-only, and what comes of it touches neither the run nor the turn. Asked
    /// after [`decide`](Self::decide) where a turn is to be decided, too; see [`Query::decided`].
    ///
    /// # Errors
    ///
    /// [`QueryError`]. Without this method every question is one that the decider does not know.
    fn query(&self, _state: &Self::State, query: &Query<'_>) -> Result<Payload, QueryError> {
        Err(QueryError::Unknown { name: query.name().to_owned(), known: Vec::new() })
    }

    /// The markers that the turn to be decided next recorded, in order, when it was decided before.
    /// Only tests call this, when they give a turn to a decider once more; only flows have a use for it, which read their
    /// side effects back.
    #[doc(hidden)]
    fn foresee(&self, _state: &mut Self::State, _markers: Vec<history::RecordMarker>) {}
}

/// The turn of an explicit decider. `shown` are the events of a turn that is not recorded yet; the state has everything
/// before them.
fn take_turn<D: Decider>(
    decider: &D,
    state: &mut D::State,
    window: &Window,
    updates: &[Update],
    shown: &[Event],
) -> Taken {
    let mut beside = Decisions::new();
    let mut answers = Vec::with_capacity(updates.len());
    for update in updates {
        let Verdict { verdict, decisions } = decider.update(state, update, window);
        beside = beside.and(decisions);
        answers.push(UpdateAnswer { update_id: update.id.clone(), verdict });
    }
    let rejects = answers.iter().all(|answer| matches!(answer.verdict, history::Verdict::Rejected { .. }));
    if !shown.is_empty() && rejects {
        return Taken::Nothing(answers);
    }
    for event in shown {
        decider.evolve(state, event);
    }
    let decided = decider.decide(state, window);
    // What closes the run must be the last.
    let closes = decided.as_slice().last().is_some_and(|last| last.closes().is_some());
    let mut decisions = if closes { beside.and(decided) } else { decided.and(beside) };
    answers.append(&mut decisions.updates);
    decisions.updates = answers;
    Taken::Turn(decisions)
}
