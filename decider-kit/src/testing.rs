//! Tests of deciders, without a service and without waiting.
//!
//! **Single turns**: [`given`] creates a run with a past, `when` adds an event, and `then` states the expected
//! decisions.
//!
//! ```
//! # use baton_decider_kit::{Activity, Decider, Decisions, Duration, Event, EventKind, Window};
//! # struct Trial;
//! # #[derive(Default)]
//! # struct State { expired: bool }
//! # impl Decider for Trial {
//! #     type State = State;
//! #     fn evolve(&self, state: &mut State, event: &Event) {
//! #         state.expired |= matches!(event.kind, EventKind::TimerExpired(_));
//! #     }
//! #     fn decide(&self, state: &State, window: &Window) -> Decisions {
//! #         if window.signals().any(|(name, _)| name == "cancel") {
//! #             Decisions::new().cancel_timer("trial").succeed(&"left")
//! #         } else if window.is_first_turn() {
//! #             Decisions::new().timer("trial", Duration::from_days(30))
//! #         } else if state.expired && window.tally().activities().next().is_none() {
//! #             Decisions::new().schedule(Activity::new("charge", "charge-card").list("PCI"))
//! #         } else {
//! #             Decisions::new()
//! #         }
//! #     }
//! # }
//! use baton_decider_kit::testing::{given, signal, timer_expired};
//!
//! // After a trial of 30 days the card is charged, unless the customer has left.
//! given(Trial, "trial")
//!     .then(Decisions::new().timer("trial", Duration::from_days(30)))
//!     .when(timer_expired("trial"))
//!     .then(Decisions::new().schedule(Activity::new("charge", "charge-card").list("PCI")));
//!
//! given(Trial, "trial")
//!     .decided(Decisions::new().timer("trial", Duration::from_days(30)))
//!     .when(signal("cancel", &()))
//!     .then(Decisions::new().cancel_timer("trial").succeed(&"left"));
//! ```
//!
//! **Updates and queries**: after `when` with an [`update`], [`then_judges`](Given::then_judges) states the expected
//! verdict. [`query`](Given::query) queries the run in its current state.
//!
//! ```
//! use baton_decider_kit::testing::{TestService, activity_succeeded, given, update};
//! use baton_decider_kit::{
//!     Activity, Decider, Decisions, Event, EventKind, Payload, Query, QueryError, Update, Verdict, Window,
//! };
//!
//! /// A task that can be assigned once, and then notifies its assignee.
//! struct Assignment;
//!
//! impl Decider for Assignment {
//!     /// The assignee.
//!     type State = Option<String>;
//!
//!     fn evolve(&self, assignee: &mut Option<String>, event: &Event) {
//!         if let EventKind::UpdateAccepted(it) = &event.kind {
//!             *assignee = it.input.as_ref().and_then(|input| input.read().ok());
//!         }
//!     }
//!
//!     fn decide(&self, _: &Option<String>, window: &Window) -> Decisions {
//!         let notified = |event: &Event| matches!(event.kind, EventKind::ActivitySuccess(_));
//!         if window.new_events().any(notified) { Decisions::new().succeed(&"notified") } else { Decisions::new() }
//!     }
//!
//!     fn update(&self, assignee: &Option<String>, update: &Update, _: &Window) -> Verdict {
//!         match (assignee, update.read::<String>()) {
//!             (Some(_), _) => Verdict::reject("taken"),
//!             (None, Err(rejection)) => Verdict::reject(rejection),
//!             (None, Ok(name)) => {
//!                 let notify = Activity::new("notify", "notify").input(&name);
//!                 Verdict::accept(&name).and(Decisions::new().schedule(notify))
//!             }
//!         }
//!     }
//!
//!     fn query(&self, assignee: &Option<String>, query: &Query<'_>) -> Result<Payload, QueryError> {
//!         query.on("assignee", |()| assignee.clone()).answer()
//!     }
//! }
//!
//! let notify = Activity::new("notify", "notify").input(&"ann");
//! let story = given(Assignment, "assignment")
//!     .then(Decisions::new())
//!     .when(update("assign", &"ann"))
//!     .then_judges(Verdict::accept(&"ann").and(Decisions::new().schedule(notify)));
//! assert_eq!(story.query("assignee", &()), Ok(Some("ann".to_owned())));
//!
//! // A rejected update leaves no trace in the history.
//! let before = story.events().len();
//! let story = story.when(update("assign", &"bob")).then_judges(Verdict::reject("taken"));
//! assert_eq!(story.events().len(), before);
//! story.when(activity_succeeded("notify", &())).then(Decisions::new().succeed(&"notified"));
//!
//! // The same as a whole run.
//! let mut service = TestService::new();
//! service.decider("assignment", Assignment).start("assignment", "t", &());
//! assert_eq!(service.update("t", "assign", "ann").result::<String>(), "ann");
//! assert_eq!(service.update("t", "assign", "bob").rejected(), "taken");
//! assert_eq!(service.query("t", "assignee", &()), Ok(Some("ann".to_owned())));
//! ```
//!
//! **Recorded histories**: [`Recorded::from_json`] reads the response of `GET …/history` and lets a decider decide
//! every turn again. The new decisions are compared with the recorded decisions turn by turn, so that one difference
//! does not hide the next. For flows there are also [`replay()`] and, for many histories, [`replay_directory`].
//!
//! **Whole runs**: a [`TestService`] is an in-process service with a virtual clock that skips ahead to the next event,
//! so that thirty days take a millisecond.
//!
//! ```
//! # use baton_decider_kit::{Activity, Decider, Decisions, Duration, Event, EventKind, Status, Window};
//! # struct Trial;
//! # impl Decider for Trial {
//! #     type State = ();
//! #     fn evolve(&self, _: &mut (), _: &Event) {}
//! #     fn decide(&self, _: &(), window: &Window) -> Decisions {
//! #         let kinds = || window.new_events().map(|event| &event.kind);
//! #         if window.is_first_turn() {
//! #             Decisions::new().timer("trial", Duration::from_days(30))
//! #         } else if kinds().any(|kind| matches!(kind, EventKind::TimerExpired(_))) {
//! #             Decisions::new().schedule(Activity::new("charge", "charge-card").list("PCI"))
//! #         } else if kinds().any(|kind| matches!(kind, EventKind::ActivitySuccess(_))) {
//! #             Decisions::new().succeed(&"a customer")
//! #         } else {
//! #             Decisions::new()
//! #         }
//! #     }
//! # }
//! use baton_decider_kit::testing::{TestService, Work};
//!
//! let mut service = TestService::new();
//! service.decider("trial", Trial);
//! service.activity_on("PCI", "charge-card", |_| Work::success(&"paid").takes(Duration::from_secs(2)));
//! service.start("trial", "ann", &"ann@example.com");
//! let closed = service.finish("ann");
//! assert_eq!(closed.status, Status::Success);
//! assert_eq!(closed.after, Duration::from_millis(30 * 86_400_000 + 2_000));
//! ```
//!
//! Every turn is decided twice, with the cached state and with a state rebuilt from event 1. Both times, the decisions
//! must be equal. Every history is made by the service's own rules, and the invariants of the history are checked
//! ([`baton_history::check::history`]). A failed test prints the history as a table.

mod commands;
mod recorded;
mod replay;
mod scenario;
mod service;
mod subject;
mod work;

pub use recorded::{Difference, Recorded};
pub use replay::{ReplayError, replay, replay_directory};
pub use scenario::{
    Given, News, activity_canceled, activity_failed, activity_not_taken, activity_succeeded, activity_timed_out,
    cancel_requested, given, signal, timer_expired, update,
};
pub use service::{Closed, Later, TestService, UpdateOutcome};
pub use work::{Call, Work};

use baton_history::{Event, EventId, EventKind, Run, check};

use crate::Window;
use crate::window::with_activity_names;

/// Fails the test, showing the history as a table.
#[track_caller]
fn fail(message: impl std::fmt::Display, events: &[Event]) -> ! {
    panic!("{message}\n\n{}\n", baton_tables::history(events))
}

/// Checks a history and the run state that belongs to it against the rules.
#[track_caller]
fn assert_consistent(events: &[Event], run: &Run) {
    if let Err(violation) = check::history(events) {
        fail(format_args!("the history is invalid, which is a bug in Baton: {violation}"), events);
    }
    if Run::replay(events).map(Run::history_derived) != Some(run.clone().history_derived()) {
        fail("the state of the run differs from its history, which is a bug in Baton", events);
    }
}

/// Returns the window of a turn, taken from a history whose ids have no gaps.
fn window_of(events: &[Event], run: &Run, started_event_id: EventId, attempt: u32) -> Window {
    let place = |id: EventId| usize::try_from(id).unwrap_or(usize::MAX);
    let previous = run.previous_started_event_id;
    let shown = events.get(..place(started_event_id)).unwrap_or(events);
    let context = shown.iter().rev().find_map(|event| match &event.kind {
        EventKind::DeciderCompleted(it) => Some(it.context.clone()),
        _ => None,
    });
    Window {
        workflow_id: run.started.workflow_id.clone(),
        run_id: run.started.run_id,
        workflow_type: run.started.workflow_type.clone(),
        attempt,
        started_event_id,
        previous_started_event_id: previous,
        events: with_activity_names(shown, shown.get(place(previous.max(1)) - 1..).unwrap_or_default().to_vec()),
        context: context.flatten(),
        trace: None,
    }
}

#[cfg(test)]
mod tests;
