//! For authors of deciders: programs that read the window of a run's history and answer with decisions.
//!
//! A decider is a pure function. It looks at what has become of the run's [`Steps`] and says what to do next. It does no work
//! itself, reads no clock ([`Window::now`] is the time) and keeps nothing between turns: what it needs to know is in the history.
//!
//! ```
//! use decider_kit::{Activity, Decisions, Progress, Steps, Window};
//!
//! /// Charges a card, then ships.
//! fn order(steps: &Steps, _: &Window) -> Decisions {
//!     let Some(receipt) = steps.done::<String>("charge") else {
//!         return match steps.activity("charge").progress() {
//!             // Done by runners that poll the list `PCI`, and by nobody else.
//!             Progress::New => Decisions::new().schedule(Activity::new("charge", "charge-card").list("PCI")),
//!             Progress::Failed(failure) => Decisions::new().fail_with(failure.clone()),
//!             // Nothing to do yet: the next news brings another turn.
//!             Progress::Open | Progress::Done => Decisions::new(),
//!         };
//!     };
//!     match steps.activity("ship").progress() {
//!         Progress::New => Decisions::new().schedule(Activity::new("ship", "ship").input(&receipt)),
//!         Progress::Open => Decisions::new(),
//!         Progress::Done => Decisions::new().succeed(&receipt),
//!         Progress::Failed(failure) => Decisions::new().fail_with(failure.clone()),
//!     }
//! }
//! ```
//!
//! `docs/deciders.md` has all decisions and all events. Where a decider needs a state of its own, it implements [`Decider`]:
//! [`Decider::evolve`] folds events into that state, one by one, and [`Decider::decide`] looks at it.
//!
//! A [`Host`] polls a task list and runs deciders:
//!
//! ```no_run
//! # use decider_kit::{Decisions, Host, Steps, Window, decide};
//! # fn order(_: &Steps, _: &Window) -> Decisions { Decisions::new() }
//! # async fn run() -> Result<(), client::Error> {
//! let client = client::Client::new("http://127.0.0.1:7420")?;
//! // Until SIGTERM or ctrl-c; turns in hand are finished first.
//! Host::new(client, "orders").register("order", decide(order)).concurrency(8).run().await;
//! # Ok(())
//! # }
//! ```
//!
//! The module [`mod@flow`] is for those who prefer straight-line code: a decider whose state is a suspended `async fn`.
//!
//! The module [`testing`] asks deciders about single turns, gives them recorded histories once more, and runs them against a
//! stand-in for the service: the same rules, in memory and in one thread, with a clock that jumps to what comes next, so that
//! thirty days take a millisecond. It has no store, no network and no second node.

mod decisions;
mod ended;
mod failure;
pub mod flow;
mod host;
mod query;
mod steps;
pub mod testing;
mod update;
mod window;

pub use decisions::{Activity, Child, Decisions};
pub use failure::{ActivityEnd, Cause, ChildEnd, Failure};
pub use history::{
    Closed, Decision, Duration, Event, EventId, EventKind, Payload, ReusePolicy, Status, Tally, Timestamp,
    event::ActivityTimeout, event::ChildPolicy,
};
pub use host::Host;
pub use query::{Answers, Query, QueryError};
pub use steps::{Progress, Received, Step, Steps, decide};
#[doc(hidden)]
pub use update::Taken;
pub use update::{Rejection, Update, Verdict};
pub use window::Window;

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
        update::take_turn(self, state, window, updates, shown)
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
