//! Flows: workflows written as straight-line `async fn`s.
//!
//! A flow takes turns like a [`Decider`](crate::Decider): the same [`Host`](crate::Host) runs it, the same service
//! keeps its history, and the history looks the same. The code states the steps *in sequence*, as if nothing could fail
//! between two lines. In fact, a process may die, a host may be replaced, or a month may pass between them.
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
//!     let _: () = ctx.activity("request-review", &receipt).await?;
//!     Ok(receipt)
//! }
//!
//! # async fn run() -> Result<(), baton_client::Error> {
//! # let client = baton_client::Client::new("http://127.0.0.1:7420")?;
//! // The same host can also run explicit deciders.
//! baton_decider_kit::Host::new(client, "orders").register("order", Flow::new(order)).run().await;
//! # Ok(())
//! # }
//! // The test covers fourteen days in milliseconds.
//! use baton_decider_kit::testing::{TestService, Work};
//!
//! let mut service = TestService::new();
//! service.decider("order", Flow::new(order));
//! service.activity_on("PCI", "charge-card", |_| Work::success(&"receipt-1"));
//! service.activity("request-review", |_| Work::success(&()));
//! service.start("order", "42", &Order { card: "4111".to_owned(), cents: 990 });
//! let closed = service.finish("42");
//! assert_eq!(closed.result::<String>(), "receipt-1");
//! assert_eq!(closed.after, Duration::from_days(14));
//! ```
//!
//! # How it works
//!
//! The code runs until it waits. The activities, timers and markers that it has requested by then are the turn's
//! decisions. The suspended code is the decider's state. The host keeps this state between turns, so a turn needs only
//! its window: the events since the last turn. If the state is not cached (after a restart, or on another host), the
//! host replays the flow. It runs the code from the beginning, and takes the result of every wait from the history.
//! With the same history, the code must therefore always make the same requests.
//!
//! The code receives the events one at a time, in the order of the history. After each event it is polled until it
//! waits again. It runs only for completed turns and for the turn to decide. A turn that failed or timed out leaves no
//! trace in the code.
//!
//! # Waiting for several things
//!
//! Everything that a context returns is an ordinary future and works with the `futures` ecosystem: `join!`,
//! `try_join!`, `future::select`, `select_biased!`, `join_all`, `FuturesUnordered`, streams. A future requests nothing
//! before it is polled (or [`start`](ActivityFuture::start)ed). *Dropping a future cancels its step*: in a `select`,
//! the losing timer is canceled, and the losing activity is asked to stop. If both sides of a `select` are ready, the
//! side whose event comes first in the history wins. [`Context::within`] is a `select` with a timer.
//!
//! ```
//! # use baton_decider_kit::flow::{Context, Failure};
//! # use baton_decider_kit::Duration;
//! use futures::future::{Either, select};
//!
//! async fn claim(ctx: Context, claim: String) -> Result<bool, Failure> {
//!     let (scan, photo): (String, String) =
//!         futures::try_join!(ctx.activity("scan", &claim), ctx.activity("photograph", &claim))?;
//!     // A clerk has a week to decide; after that, an activity decides.
//!     let mut verdicts = ctx.signals::<bool>("verdict");
//!     match ctx.within(Duration::from_days(7), verdicts.next()).await {
//!         Ok(verdict) => verdict,
//!         Err(late) if late.is_timeout() => ctx.activity("decide", &(scan, photo)).await,
//!         Err(canceled) => Err(canceled),
//!     }
//! }
//! ```
//!
//! # Failures and retries
//!
//! A failed activity is an `Err` with the runner's reason and details. The `?` operator closes the run with this reason
//! and these details. To retry, use a loop:
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
//! A child is a separate run that you await like an activity. It continues if the parent's process dies. At most one
//! open run can have its workflow id, so no second run does the same work at the same time.
//! [`Context::signal_external`] and [`Context::cancel_external`] reach any run.
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
//! When the run's cancellation is requested, everything in progress is canceled. Every pending wait returns a
//! [`Failure`] that [is a cancellation](Failure::is_canceled); with `?`, this failure closes the run as canceled. After
//! that the flow cannot start anything new, except in a [shielded](Context::shielded) context, which is meant for
//! cleanup. A [`Scope`] is a part of a flow that the flow itself can cancel.
//!
//! ```
//! # use baton_decider_kit::flow::{Context, Failure};
//! async fn trip(ctx: Context, customer: String) -> Result<String, Failure> {
//!     let hotel: String = ctx.activity("book-hotel", &customer).await?;
//!     match ctx.activity("book-flight", &customer).await {
//!         Err(failure) => {
//!             // Release the hotel after a failure and after a cancellation.
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
//! A flow must not:
//!
//! * read a clock ([`Context::now`] is the time)
//! * generate random numbers or ids (record them with [`Context::side_effect`])
//! * read the environment
//! * do IO or work (use activities)
//! * spawn tasks or threads (use `join!`)
//! * wait for futures other than those of its context and combinations of these
//! * iterate over a `HashMap` or `HashSet` (use the `BTree` types, whose order is the same on every host)
//! * use `select!` without `biased` (it chooses at random)
//! * share state between runs
//!
//! Mistakes are detected in several ways:
//!
//! * The lints below, for the `clippy.toml` of a crate with flows, reject most of these calls.
//! * Flows run outside any tokio runtime: `tokio::time::sleep` panics and `tokio::spawn` is detected. In both cases the
//!   turn is given back with a message that names the alternative.
//! * A flow that waits although no event can end its wait is detected immediately ([`FlowError::Deadlock`]).
//! * In tests ([`crate::testing`]) every turn is decided twice, with the cached state and with a rebuilt state. Both
//!   times, the decisions must be the same.
//! * When a turn is replayed, its n-th decision must match the n-th recorded decision. Otherwise the *turn* is given
//!   back with a [`FlowError::Mismatch`], which names the event, the recorded decision and the decision of the code.
//!   The run stays open and waits for the right code.
//!
//! ```toml
#![doc = include_str!("../clippy-flows.toml")]
//! ```
//!
//! # Changing a flow
//!
//! When the code changes, open runs continue with the new code, which must still match their histories. Inputs,
//! task lists, timeouts and durations may change freely. A change in the requested steps or their order must be
//! guarded by [`Context::patched`]. Keep recorded histories (`GET …/history`) next to the code, and replay them in
//! a test:
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
mod error;
mod executor;
mod external;
mod machine;
mod matching;
mod query;
mod signal;
mod timer;
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
use machine::{Begin, Machine, TurnDecided};

pub use crate::failure::{ActivityEnd, Cause, ChildEnd, Failure};
pub use crate::query::QueryError;
pub use activity::ActivityFuture;
pub use child::ChildFuture;
pub use context::{Context, Scope};
pub use error::FlowError;
pub use external::External;
pub use signal::Signals;
pub use timer::Sleep;
pub use update::{AcceptedUpdate, Reply, Updates};

pub(crate) use machine::is_canceled_unstarted;

/// A flow. Register it with a [`Host`](crate::Host) or a test, as you would register a decider. Clones share the code.
#[derive(Clone)]
pub struct Flow {
    begin: Arc<Begin>,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").finish_non_exhaustive()
    }
}

/// Suspended code of a flow in one run. The host keeps it between turns if it can, and otherwise rebuilds it from event
/// 1.
#[derive(Default)]
pub struct FlowState {
    machine: RefCell<Machine>,
    recorded_markers: RefCell<Option<core::RecordedMarkers>>,
}

impl fmt::Debug for FlowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowState").finish_non_exhaustive()
    }
}

impl Flow {
    /// Creates a flow from an `async fn`. The run's input is deserialized as `I`, and the result of the run is an `O`.
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

    /// Returns the error that prevents the flow from continuing, if any.
    pub fn error(&self, state: &FlowState) -> Option<FlowError> {
        let mut machine = state.machine.borrow_mut();
        machine.settle(&*self.begin);
        machine.error()
    }

    /// Decides a turn without updates. The state must include every event up to the turn's DeciderStarted.
    pub fn decide(&self, state: &FlowState) -> Decisions {
        let recorded_markers = state.recorded_markers.borrow_mut().take();
        self.decided(&mut state.machine.borrow_mut(), recorded_markers, &[])
    }

    /// Applies one event to a state. Call it once for every event of the run, in order.
    pub fn evolve(&self, state: &mut FlowState, event: &Event) {
        state.machine.get_mut().evolve(&*self.begin, event);
    }

    /// Answers a query. The answer reflects the events in `state` and the turns that the flow has decided. The state is
    /// not changed.
    ///
    /// # Errors
    ///
    /// Returns a [`QueryError`] if there is no answer. The run is not affected.
    pub fn answer(&self, state: &FlowState, name: &str, input: Option<&Payload>) -> Result<Payload, QueryError> {
        let query = {
            let machine = state.machine.borrow();
            let core = core::lock(&machine.core);
            if core.error.is_some() || core.identity.workflow_id.is_empty() {
                return Err(QueryError::NotReady);
            }
            core.queries.get(name).cloned().ok_or_else(|| QueryError::Unknown {
                name: name.to_owned(),
                known: core.queries.keys().cloned().collect(),
            })?
        };
        executor::guarded(|| query(input)).unwrap_or_else(|error| Err(QueryError::Panicked(error.to_string())))
    }
}

impl Flow {
    fn decided(
        &self,
        machine: &mut Machine,
        recorded_markers: Option<core::RecordedMarkers>,
        updates: &[Update],
    ) -> Decisions {
        match machine.decide(&*self.begin, recorded_markers, updates) {
            Ok(TurnDecided { decisions, awaiting, update_answers }) => {
                let mut decided = decisions.into_iter().fold(Decisions::new(), Decisions::push).awaiting(awaiting);
                decided.updates = update_answers;
                decided
            }
            Err(error) => Decisions::give_back(error.reason(), error.to_string()),
        }
    }
}

impl Turns for Flow {
    type Memory = FlowState;

    /// Maximum number of updates that a turn may have. The code processes each update before it judges the next update.
    const UPDATES_AT_ONCE: usize = baton_history::limits::UPDATES_PER_TURN_MAX;

    fn apply_event(&self, state: &mut FlowState, event: &Event) {
        self.evolve(state, event);
    }

    /// Judges the updates with the code, after the code has processed this turn's events. Each update is judged after
    /// the effects of the previous updates.
    fn take_turn(&self, state: &mut FlowState, _: &Window, updates: &[Update], shown: &[Event]) -> TurnEnd {
        let recorded_markers = state.recorded_markers.get_mut().take();
        let machine = state.machine.get_mut();
        let mut left = updates;
        if !shown.is_empty() {
            // A speculative turn has no new events to process. The code runs only if it accepts an update in this turn.
            machine.settle(&*self.begin);
            if let Some(error) = machine.error() {
                return TurnEnd::Turn(Decisions::give_back(error.reason(), error.to_string()));
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
            let mut decided = self.decided(machine, recorded_markers, left);
            rejected.append(&mut decided.updates);
            decided.updates = rejected;
            return TurnEnd::Turn(decided);
        }
        TurnEnd::Turn(self.decided(machine, recorded_markers, left))
    }

    fn reply(&self, state: &FlowState, query: &Query<'_>) -> Result<Payload, QueryError> {
        // If the state was rebuilt, the last turn has not been replayed yet.
        state.machine.borrow_mut().settle(&*self.begin);
        self.answer(state, query.name(), query.input())
    }

    fn set_recorded_markers(&self, state: &mut FlowState, markers: Vec<RecordMarker>) {
        *state.recorded_markers.get_mut() = Some(markers.into());
    }
}

#[cfg(test)]
mod tests;
