//! The interface that hosts and tests use to run deciders and flows alike.

use baton_history::{Event, Payload, RecordMarker, UpdateAnswer};

use crate::decider::Decider;
use crate::decisions::Decisions;
use crate::query::{Query, QueryError};
use crate::update::{TurnEnd, Update, Verdict};
use crate::window::Window;

/// A type that can take the turns of a run: a [`Decider`] or a [`Flow`](crate::flow::Flow). To write your own,
/// implement `Decider`.
#[diagnostic::on_unimplemented(message = "`{Self}` cannot take turns: it is neither a `Decider` nor a `Flow`")]
pub trait TakesTurns: Turns {}

impl<T: Turns> TakesTurns for T {}

/// Sealed part of [`TakesTurns`]. It is not exported, so that it can change between versions.
pub trait Turns: Send + Sync + 'static {
    /// State folded from the history. The host keeps it between turns if it can, and otherwise rebuilds it from event
    /// 1.
    type Memory: Default + Send + 'static;

    /// Maximum number of updates in one turn.
    const UPDATES_AT_ONCE: usize;

    /// Applies one event to the state.
    fn apply_event(&self, memory: &mut Self::Memory, event: &Event);

    /// Takes a whole turn: judges the updates, then decides. The state includes everything up to the window's end
    /// except `shown`, the events of a speculative turn, which are not recorded yet. If `shown` is empty, the turn is
    /// decided even if it rejects all updates.
    fn take_turn(&self, memory: &mut Self::Memory, window: &Window, updates: &[Update], shown: &[Event]) -> TurnEnd;

    /// Answers a query from the state.
    ///
    /// # Errors
    ///
    /// Returns a [`QueryError`] if there is no answer.
    fn reply(&self, memory: &Self::Memory, query: &Query<'_>) -> Result<Payload, QueryError>;

    /// Sets the markers that were recorded, in order, when the next turn was first decided. Only tests call this, when
    /// they decide a turn a second time.
    fn set_recorded_markers(&self, memory: &mut Self::Memory, markers: Vec<RecordMarker>);
}

impl<D: Decider> Turns for D {
    type Memory = D::State;

    /// One update, because [`update`](Decider::update) judges with the state before the turn and would not see the
    /// effect of another update.
    const UPDATES_AT_ONCE: usize = 1;

    fn apply_event(&self, memory: &mut D::State, event: &Event) {
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
        // A closing decision must be the last decision.
        let closes = decided.as_slice().last().is_some_and(|last| last.closes().is_some());
        let mut decisions = if closes { beside.and(decided) } else { decided.and(beside) };
        answers.append(&mut decisions.updates);
        decisions.updates = answers;
        TurnEnd::Turn(decisions)
    }

    fn reply(&self, memory: &D::State, query: &Query<'_>) -> Result<Payload, QueryError> {
        self.query(memory, query)
    }

    /// Does nothing: a decider never reads its markers back during a turn.
    fn set_recorded_markers(&self, _: &mut D::State, _: Vec<RecordMarker>) {}
}
