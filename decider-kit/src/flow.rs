//! Flows: a workflow written as an `async fn`, for those who prefer straight-line code.
//!
//! A flow takes turns as a [`Decider`](crate::Decider) does: the same [`Host`](crate::Host) runs it, the same service keeps its history, and
//! the history looks the same. It says *what happens one after the other*, and forgets that anything can fail in between:
//! between two lines a process may die, a host be replaced, or a month pass.
//!
//! ```
//! use baton_decider_kit::flow::{Context, Failure, Flow};
//! use baton_decider_kit::Duration;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Order {
//!     card: String,
//!     cents: u64,
//! }
//!
//! async fn order(ctx: Context, order: Order) -> Result<String, Failure> {
//!     let receipt: String = ctx.activity("charge-card", &order).list("PCI").await?;
//!     ctx.sleep(Duration::from_days(14)).await?;
//!     let _: () = ctx.activity("ask-how-it-was", &receipt).await?;
//!     Ok(receipt)
//! }
//!
//! # async fn run() -> Result<(), baton_client::Error> {
//! # let client = baton_client::Client::new("http://127.0.0.1:7420")?;
//! // Beside explicit deciders, if there are any.
//! baton_decider_kit::Host::new(client, "orders").register("order", Flow::new(order)).run().await;
//! # Ok(())
//! # }
//! // The test: fourteen days in no time.
//! use baton_decider_kit::testing::{TestService, Work};
//!
//! let mut service = TestService::new();
//! service.decider("order", Flow::new(order));
//! service.activity_on("PCI", "charge-card", |_| Work::success(&"receipt-1"));
//! service.activity("ask-how-it-was", |_| Work::success(&()));
//! service.start("order", "42", &Order { card: "4111".to_owned(), cents: 990 });
//! let closed = service.finish("42");
//! assert_eq!(closed.result::<String>(), "receipt-1");
//! assert_eq!(closed.after, Duration::from_days(14));
//! ```
//!
//! # How it works
//!
//! The code runs until it waits; what it asked for on the way (activities, timers, markers) is the turn's decisions. The
//! suspended code is the decider's state, kept between turns, so that a turn costs its window. When the state is not at
//! hand (another host, a restart), the code is run again from the beginning, and everything that it waits for is answered
//! from the history, up to where it was. So the code must always do the same with the same history. It is given news one
//! event at a time, in the order of the history, and is polled until it waits again after each; it runs for turns that were
//! completed, and a turn that was lost might as well never have been.
//!
//! # Waiting for several things
//!
//! Everything that a context gives is an ordinary future, and the `futures` ecosystem works: `join!`, `try_join!`,
//! `future::select`, `select_biased!`, `join_all`, `FuturesUnordered`, streams. Nothing is asked for before it is polled
//! (or [`start`](ActivityFuture::start)ed), and *what is dropped is taken back*: the loser of a `select` is a timer that is
//! canceled or an activity that is asked to stop. Of two things that are selected, the one that comes first in the history
//! wins. [`Context::within`] is the `select` with a timer.
//!
//! ```
//! # use baton_decider_kit::flow::{Context, Failure};
//! # use baton_decider_kit::Duration;
//! use futures::future::{Either, select};
//!
//! async fn claim(ctx: Context, claim: String) -> Result<bool, Failure> {
//!     let (scan, photo): (String, String) =
//!         futures::try_join!(ctx.activity("scan", &claim), ctx.activity("photograph", &claim))?;
//!     // Somebody decides within a week, or we do.
//!     let mut verdicts = ctx.signals::<bool>("verdict");
//!     match ctx.within(Duration::from_days(7), verdicts.next()).await {
//!         Ok(verdict) => verdict,
//!         Err(late) if late.is_timeout() => ctx.activity("decide", &(scan, photo)).await,
//!         Err(canceled) => Err(canceled),
//!     }
//! }
//! ```
//!
//! # Failures, and trying again
//!
//! An activity that fails is an `Err` with the runner's reason and details; `?` closes the run with them. A loop tries
//! again:
//!
//! ```
//! # use baton_decider_kit::flow::{Context, Failure};
//! # use baton_decider_kit::Duration;
//! async fn ship(ctx: &Context, parcel: &str) -> Result<String, Failure> {
//!     let mut pause = Duration::from_secs(1);
//!     loop {
//!         match ctx.activity("ship", parcel).await {
//!             Err(failure) if failure.may_retry() && pause < Duration::from_secs(3_600) => {
//!                 ctx.sleep(pause).await?;
//!                 pause = pause.times(2);
//!             }
//!             shipped => return shipped,
//!         }
//!     }
//! }
//! ```
//!
//! # Children and other runs
//!
//! A child is a run of its own that is awaited like an activity; it goes on when the parent's process dies, and its workflow
//! id keeps everybody else from doing the same at the same time. [`Context::signal_external`] and
//! [`Context::cancel_external`] reach any run.
//!
//! ```
//! # use baton_decider_kit::flow::{Context, Failure};
//! async fn fleet(ctx: Context, hosts: Vec<String>) -> Result<usize, Failure> {
//!     let upgrades = hosts.iter().map(|host| ctx.child::<String>("upgrade", host.as_str(), host));
//!     let versions = futures::future::try_join_all(upgrades).await?;
//!     ctx.signal_external("dashboard", "upgraded", &versions).await?;
//!     Ok(versions.len())
//! }
//! ```
//!
//! # Cancellation
//!
//! When the run's cancellation is requested, everything under way is taken back, and whoever waits gets a [`Failure`] that
//! [is a cancellation](Failure::is_canceled); with `?` it closes the run as canceled. After that nothing more is begun,
//! except in a [shielded](Context::shielded) context, where one cleans up. A [`Scope`] is a part of a flow that the flow
//! itself can cancel.
//!
//! ```
//! # use baton_decider_kit::flow::{Context, Failure};
//! async fn trip(ctx: Context, customer: String) -> Result<String, Failure> {
//!     let hotel: String = ctx.activity("book-hotel", &customer).await?;
//!     match ctx.activity("book-flight", &customer).await {
//!         Err(failure) => {
//!             // Whether it failed or was canceled: this is done.
//!             let _: () = ctx.shielded().activity("release-hotel", &hotel).await?;
//!             Err(failure)
//!         }
//!         booked => booked,
//!     }
//! }
//! ```
//!
//! # What a flow must not do
//!
//! Read a clock ([`Context::now`] is the time), roll dice, make ids ([`Context::side_effect`] records them), look at the
//! environment, do IO or work (activities), spawn tasks or threads (`join!`), wait for anything but futures of its context
//! and what is made of them, iterate over a `HashMap` or `HashSet` (use the `BTree` ones: their order is the same on every
//! host), use `select!` without `biased` (it chooses at random), share state between runs.
//!
//! What helps:
//!
//! * The lints below, for the `clippy.toml` of a crate with flows.
//! * Flows run where no tokio runtime is: `tokio::time::sleep` panics, `tokio::spawn` is found out; either gives the turn
//!   back and says what to use instead.
//! * A flow that waits for nothing that a history could bring is found out at once ([`FlowError::Deadlock`]).
//! * In tests ([`crate::testing`]) every turn is decided twice, with the state at hand and with the state made again, and
//!   both must decide the same.
//! * The n-th decision of a turn that is run again must be the n-th in the history. If not, the *turn* is given back, with
//!   a [`FlowError::Mismatch`] that names the event and both sides; the run stays open and waits for the right code.
//!
//! ```toml
#![doc = include_str!("../clippy-flows.toml")]
//! ```
//!
//! # Changing a flow
//!
//! Runs that are open when the code changes go on with the new code, which must still match what they have behind them.
//! Inputs, task lists, timeouts and spans may change; what is asked for, and in which order, only behind
//! [`Context::patched`]. Keep recorded histories (`GET …/history`) beside the code, and replay them in a test:
//!
//! ```
//! # use baton_decider_kit::flow::{Context, Failure, Flow};
//! # use baton_decider_kit::testing::{TestService, Work};
//! # let before = |ctx: Context, ()| async move { ctx.activity::<String>("ship", &()).await };
//! # let mut service = TestService::new();
//! # service.decider("order", Flow::new(before)).activity("ship", |_| Work::success(&"parcel"));
//! # service.start("order", "1", &());
//! # service.finish("1");
//! # let recorded = serde_json::to_string(service.history("1")).unwrap();
//! use baton_decider_kit::testing::replay;
//!
//! async fn order(ctx: Context, (): ()) -> Result<String, Failure> {
//!     if ctx.patched("insure parcels") {
//!         let _: () = ctx.activity("insure", &()).await?;
//!     }
//!     ctx.activity("ship", &()).await
//! }
//!
//! async fn careless(ctx: Context, (): ()) -> Result<String, Failure> {
//!     let _: () = ctx.activity("insure", &()).await?;
//!     ctx.activity("ship", &()).await
//! }
//!
//! replay(&Flow::new(order), &recorded)?;
//! let error = replay(&Flow::new(careless), &recorded).unwrap_err().to_string();
//! assert!(error.contains("event 5 is ActivityScheduled `ship`, but the code issued ScheduleActivity `insure`"));
//! # Ok::<(), baton_decider_kit::testing::ReplayError>(())
//! ```

mod activity;
mod child;
mod context;
mod core;
mod executor;
mod external;
mod machine;
mod matching;
mod query;
mod signal;
mod timer;
mod trouble;
mod update;
mod updates;
mod wait;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use baton_history::{Event, Payload, RecordMarker, UpdateAnswer, Verdict};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::turns::Turns;
use crate::update::{Rejection, TurnEnd, Update};
use crate::{Decisions, Query, Window};
use machine::{Begin, Machine};

pub use crate::failure::{ActivityEnd, Cause, ChildEnd, Failure};
pub use crate::query::QueryError;
pub use activity::ActivityFuture;
pub use child::ChildFuture;
pub use context::{Context, Scope};
pub use external::External;
pub use signal::Signals;
pub use timer::Sleep;
pub use trouble::FlowError;
pub use update::{AcceptedUpdate, Reply, Updates};

pub(crate) use machine::is_canceled_unstarted;

/// A flow, to be registered with a [`Host`](crate::Host) or a test like any decider. Clones are the same.
#[derive(Clone)]
pub struct Flow {
    begin: Arc<Begin>,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").finish_non_exhaustive()
    }
}

/// A flow under way: where it waits, and what for. Kept between turns; made again from event 1 where it is not at hand.
#[derive(Default)]
pub struct FlowState {
    machine: RefCell<Machine>,
    foreseen: RefCell<Option<core::Foreseen>>,
}

impl fmt::Debug for FlowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowState").finish_non_exhaustive()
    }
}

impl Flow {
    /// The flow with this code: what it reads the run's input as, and what it gives as the result.
    pub fn new<I, O, F, Fut>(code: F) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let begin = move |context: Context, input: Option<&Payload>| {
            let input = serde_json::from_str(input.and_then(Payload::text).unwrap_or("null"))?;
            let running = code(context, input);
            let code: executor::Code =
                Box::pin(async move { running.await.map(|result| crate::payload::payload(&result)) });
            Ok(code)
        };
        Self { begin: Arc::new(begin) }
    }

    /// Why the flow cannot go on, if it cannot.
    pub fn trouble(&self, state: &FlowState) -> Option<FlowError> {
        let mut machine = state.machine.borrow_mut();
        machine.settle(&*self.begin);
        machine.trouble()
    }

    /// What a run does now, where there are no updates to judge. The state has every event up to the turn's DeciderStarted.
    pub fn decide(&self, state: &FlowState) -> Decisions {
        let foreseen = state.foreseen.borrow_mut().take();
        self.decided(&mut state.machine.borrow_mut(), foreseen, &[])
    }

    /// Takes one more event of a run into a state. Called once for every event, in order.
    pub fn evolve(&self, state: &mut FlowState, event: &Event) {
        state.machine.get_mut().evolve(&*self.begin, event);
    }

    /// Answers a query with what the flow knows after the events that `state` has seen, and the turn it has decided. The
    /// state is only looked at.
    ///
    /// # Errors
    ///
    /// [`QueryError`]; nothing of it touches the run.
    pub fn answer(&self, state: &FlowState, name: &str, input: Option<&Payload>) -> Result<Payload, QueryError> {
        let query = {
            let machine = state.machine.borrow();
            let core = core::lock(&machine.core);
            if core.trouble.is_some() || core.about.workflow_id.is_empty() {
                return Err(QueryError::NotReady);
            }
            core.queries.get(name).cloned().ok_or_else(|| QueryError::Unknown {
                name: name.to_owned(),
                known: core.queries.keys().cloned().collect(),
            })?
        };
        executor::guarded(|| query(input)).unwrap_or_else(|trouble| Err(QueryError::Panicked(trouble.to_string())))
    }
}

impl Flow {
    fn decided(&self, machine: &mut Machine, foreseen: Option<core::Foreseen>, updates: &[Update]) -> Decisions {
        match machine.decide(&*self.begin, foreseen, updates) {
            Ok((decisions, awaiting, said)) => {
                let mut decided = decisions.into_iter().fold(Decisions::new(), Decisions::push).awaiting(awaiting);
                decided.updates = said;
                decided
            }
            Err(trouble) => Decisions::give_back(trouble.reason(), trouble.to_string()),
        }
    }
}

impl Turns for Flow {
    type Memory = FlowState;

    /// Code judges each after what came of those before it.
    const UPDATES_AT_ONCE: usize = baton_history::limits::UPDATES_PER_TURN_MAX;

    fn take_in(&self, state: &mut FlowState, event: &Event) {
        self.evolve(state, event);
    }

    /// Judges with the code as it is: after this turn's news, and each update after what came of those before it.
    fn take_turn(&self, state: &mut FlowState, _: &Window, updates: &[Update], shown: &[Event]) -> TurnEnd {
        let foreseen = state.foreseen.get_mut().take();
        let machine = state.machine.get_mut();
        let mut left = updates;
        if !shown.is_empty() {
            // Nothing has happened: the code is run only if it is to take something.
            machine.settle(&*self.begin);
            if let Some(trouble) = machine.trouble() {
                return TurnEnd::Turn(Decisions::give_back(trouble.reason(), trouble.to_string()));
            }
            let mut rejected = Vec::new();
            while let Some((update, rest)) = left.split_first()
                && let Err(Rejection { reason, details }) = machine.judge(update)
            {
                let verdict = Verdict::Rejected { reason, details };
                rejected.push(UpdateAnswer { update_id: update.id.clone(), verdict });
                left = rest;
            }
            if left.is_empty() {
                return TurnEnd::Nothing(rejected);
            }
            for event in shown {
                machine.evolve(&*self.begin, event);
            }
            let mut decided = self.decided(machine, foreseen, left);
            rejected.append(&mut decided.updates);
            decided.updates = rejected;
            return TurnEnd::Turn(decided);
        }
        TurnEnd::Turn(self.decided(machine, foreseen, left))
    }

    fn reply(&self, state: &FlowState, query: &Query<'_>) -> Result<Payload, QueryError> {
        // Where the state was made again, the last turn has only been read so far.
        state.machine.borrow_mut().settle(&*self.begin);
        self.answer(state, query.name(), query.input())
    }

    fn foresee(&self, state: &mut FlowState, markers: Vec<RecordMarker>) {
        *state.foreseen.get_mut() = Some(markers.into());
    }
}

#[cfg(test)]
mod tests;
