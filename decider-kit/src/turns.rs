//! What hosts and tests run: deciders and flows alike.

use baton_history::{Event, Payload, RecordMarker, UpdateAnswer};

use crate::decider::Decider;
use crate::decisions::Decisions;
use crate::query::{Query, QueryError};
use crate::update::{TurnEnd, Update, Verdict};
use crate::window::Window;

/// Whatever can take the turns of a run: a [`Decider`], or a [`Flow`](crate::flow::Flow). To make one of your own, implement `Decider`.
#[diagnostic::on_unimplemented(message = "`{Self}` takes no turns: it is neither a `Decider` nor a `Flow`")]
pub trait TakesTurns: Turns {}

impl<T: Turns> TakesTurns for T {}

/// See [`TakesTurns`]. Nobody else can name this, so that it may change.
pub trait Turns: Send + Sync + 'static {
    /// What is made of a history. Kept between turns where possible, and made again from event 1 where not.
    type Memory: Default + Send + 'static;

    /// Updates that come with one turn, at most.
    const UPDATES_AT_ONCE: usize;

    /// Takes one more event into the memory.
    fn take_in(&self, memory: &mut Self::Memory, event: &Event);

    /// A whole turn: judges the updates, then decides. The memory has everything up to the window's end but `shown`, the events
    /// of a turn that is not recorded yet. Without such events there is a turn, whatever is said to the updates.
    fn take_turn(&self, memory: &mut Self::Memory, window: &Window, updates: &[Update], shown: &[Event]) -> TurnEnd;

    /// Answers a query from the memory.
    ///
    /// # Errors
    ///
    /// [`QueryError`]
    fn reply(&self, memory: &Self::Memory, query: &Query<'_>) -> Result<Payload, QueryError>;

    /// The markers that the turn to be decided next recorded, in order, when it was decided before. Only tests call this,
    /// when they have a turn decided once more.
    fn foresee(&self, memory: &mut Self::Memory, markers: Vec<RecordMarker>);
}

impl<D: Decider> Turns for D {
    type Memory = D::State;

    /// As [`update`](Decider::update) judges each with the state before the turn, and does not see what came of another.
    const UPDATES_AT_ONCE: usize = 1;

    fn take_in(&self, memory: &mut D::State, event: &Event) {
        self.evolve(memory, event);
    }

    fn take_turn(&self, memory: &mut D::State, window: &Window, updates: &[Update], shown: &[Event]) -> TurnEnd {
        let mut beside = Decisions::new();
        let mut answers = Vec::with_capacity(updates.len());
        for update in updates {
            let Verdict { verdict, decisions } = self.update(memory, update, window);
            beside = beside.and(decisions);
            answers.push(UpdateAnswer { update_id: update.id.clone(), verdict });
        }
        let rejects = answers.iter().all(|answer| matches!(answer.verdict, baton_history::Verdict::Rejected { .. }));
        if !shown.is_empty() && rejects {
            return TurnEnd::Nothing(answers);
        }
        for event in shown {
            self.evolve(memory, event);
        }
        let decided = self.decide(memory, window);
        // What closes the run must be the last.
        let closes = decided.as_slice().last().is_some_and(|last| last.closes().is_some());
        let mut decisions = if closes { beside.and(decided) } else { decided.and(beside) };
        answers.append(&mut decisions.updates);
        decisions.updates = answers;
        TurnEnd::Turn(decisions)
    }

    fn reply(&self, memory: &D::State, query: &Query<'_>) -> Result<Payload, QueryError> {
        self.query(memory, query)
    }

    /// A decider records no markers to read them back.
    fn foresee(&self, _: &mut D::State, _: Vec<RecordMarker>) {}
}
