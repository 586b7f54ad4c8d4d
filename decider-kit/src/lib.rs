//! A kit for writing deciders: programs that read the window of a run's history and answer with decisions.
//!
//! A decider is a pure function. It inspects the state of the run's [`Steps`] and decides what to do next. It does no
//! work itself, and [`Window::now`] is its only clock. It keeps nothing between turns, because everything it needs is
//! in the history.
//!
//! ```
//! use baton_decider_kit::{Activity, Decisions, Progress, Steps, Window};
//!
//! /// Charges a card, then ships.
//! fn order(steps: &Steps, _: &Window) -> Decisions {
//!     let Some(receipt) = steps.done::<String>("charge") else {
//!         return match steps.activity("charge").progress() {
//!             // Only runners that poll the list `PCI` receive this activity.
//!             Progress::New => Decisions::new().schedule(Activity::new("charge", "charge-card").list("PCI")),
//!             Progress::Failed(failure) => Decisions::new().fail_with(failure.clone()),
//!             // Nothing to do yet: the next event brings another turn.
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
//! `docs/decisions-and-events.md` lists all decisions and all events. A decider with its own type of state implements
//! [`Decider`]: [`Decider::evolve`] folds events into the state, one by one, and [`Decider::decide`] reads the state.
//!
//! A [`Host`] polls a task list and runs deciders:
//!
//! ```no_run
//! # use baton_decider_kit::{Decisions, Host, Steps, Window, decide};
//! # fn order(_: &Steps, _: &Window) -> Decisions { Decisions::new() }
//! # async fn run() -> Result<(), baton_client::Error> {
//! let client = baton_client::Client::new("http://127.0.0.1:7420")?;
//! // Runs until SIGTERM or ctrl-c, and then finishes the turns it has taken.
//! Host::new(client, "orders").register("order", decide(order)).concurrency(8).run().await;
//! # Ok(())
//! # }
//! ```
//!
//! If you prefer straight-line code, write a flow: the module [`mod@flow`] turns an `async fn` into a decider whose
//! state is the suspended function.
//!
//! The module [`testing`] helps you test deciders. It decides single turns, replays recorded histories, and runs
//! deciders against an in-memory test service. The test service follows the rules of the real service. It has a single
//! thread, and a clock that skips ahead to the next event, so that thirty days take a millisecond. It has no store, no
//! network and no second node.
//!
//! [`Duration`] has whole milliseconds and is the same type as in the runner kit. Functions that take a [`Duration`]
//! also take a [`std::time::Duration`].

mod decider;
mod decisions;
mod ended;
mod failure;
pub mod flow;
mod host;
mod payload;
mod query;
mod steps;
pub mod testing;
mod turns;
mod update;
mod window;

pub use baton_history::{
    ActivityOutcome, Decision, Duration, Event, EventId, EventKind, Payload, RetryPolicy, ReusePolicy, Status, Tally,
    Timestamp, WhenExhausted, event::ActivityTimeout, event::ChildPolicy,
};
pub use decider::Decider;
pub use decisions::{Activity, Child, Decisions};
pub use failure::{ActivityEnd, Cause, ChildEnd, Failure};
pub use host::Host;
pub use query::{Answers, Query, QueryError};
pub use steps::{Progress, Received, Step, Steps, decide};
pub use turns::TakesTurns;
pub use update::{Rejection, Update, Verdict};
pub use window::Window;
