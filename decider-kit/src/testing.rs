//! Testing deciders, without a service and without waiting.
//!
//! **One turn**: [`given`] a run and its past, `when` something happens, `then` the decider decides this.
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
//! #         } else if state.expired && !window.has_scheduled("charge") && window.tally().activities().next().is_none() {
//! #             Decisions::new().schedule(Activity::new("charge", "charge-card").list("PCI"))
//! #         } else {
//! #             Decisions::new()
//! #         }
//! #     }
//! # }
//! use baton_decider_kit::testing::{given, signal, timer_expired};
//!
//! // A trial of 30 days; then the card is charged, unless the customer has left.
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
//! **Updates and queries**: `when` somebody asks for an [`update`], [`then_judges`](Given::then_judges) says what the decider
//! makes of it, and [`query`](Given::query) asks about the run as it is by then.
//!
//! ```
//! use baton_decider_kit::testing::{TestService, activity_succeeded, given, update};
//! use baton_decider_kit::{
//!     Activity, Decider, Decisions, Event, EventKind, Payload, Query, QueryError, Update, Verdict, Window,
//! };
//!
//! /// A task that may be matched to one representative, who is told of it.
//! struct Match;
//!
//! impl Decider for Match {
//!     /// To whom.
//!     type State = Option<String>;
//!
//!     fn evolve(&self, matched: &mut Option<String>, event: &Event) {
//!         if let EventKind::UpdateAccepted(it) = &event.kind {
//!             *matched = it.input.as_ref().and_then(|input| input.read().ok());
//!         }
//!     }
//!
//!     fn decide(&self, _: &Option<String>, window: &Window) -> Decisions {
//!         let told = |event: &Event| matches!(event.kind, EventKind::ActivitySuccess(_));
//!         if window.new_events().any(told) { Decisions::new().succeed(&"told") } else { Decisions::new() }
//!     }
//!
//!     fn update(&self, matched: &Option<String>, update: &Update, _: &Window) -> Verdict {
//!         match (matched, update.read::<String>()) {
//!             (Some(_), _) => Verdict::reject("taken"),
//!             (None, Err(rejection)) => Verdict::reject(rejection),
//!             (None, Ok(to)) => {
//!                 Verdict::accept(&to).and(Decisions::new().schedule(Activity::new("tell", "tell").input(&to)))
//!             }
//!         }
//!     }
//!
//!     fn query(&self, matched: &Option<String>, query: &Query<'_>) -> Result<Payload, QueryError> {
//!         query.on("to", |()| matched.clone()).answer()
//!     }
//! }
//!
//! let tell = Activity::new("tell", "tell").input(&"ann");
//! let story = given(Match, "match")
//!     .then(Decisions::new())
//!     .when(update("match", &"ann"))
//!     .then_judges(Verdict::accept(&"ann").and(Decisions::new().schedule(tell)));
//! assert_eq!(story.query("to", &()), Ok(Some("ann".to_owned())));
//!
//! // What is rejected leaves nothing in the history.
//! let before = story.events().len();
//! let story = story.when(update("match", &"bob")).then_judges(Verdict::reject("taken"));
//! assert_eq!(story.events().len(), before);
//! story.when(activity_succeeded("tell", &())).then(Decisions::new().succeed(&"told"));
//!
//! // The same from beginning to end.
//! let mut service = TestService::new();
//! service.decider("match", Match).start("match", "t", &());
//! assert_eq!(service.update("t", "match", "ann").result::<String>(), "ann");
//! assert_eq!(service.update("t", "match", "bob").rejected(), "taken");
//! assert_eq!(service.query("t", "to", &()), Ok(Some("ann".to_owned())));
//! ```
//!
//! **A recorded history**: [`Recorded::from_json`] reads what `GET …/history` answered, and gives every turn of it to a
//! decider. What it decides now is compared with what was decided then, turn by turn, so that one difference does not
//! hide the next. For flows there is [`replay()`] as well, and [`replay_directory`] for many histories.
//!
//! **Whole runs**: a [`TestService`] is the service in process, on a clock of its own that jumps to whatever happens
//! next. Thirty days take a millisecond.
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
//! Every turn is decided twice, with the state at hand and with the state made again from event 1, and both must agree.
//! Every history that comes about here is made by the service's own rules and held against their invariants
//! ([`baton_history::check::history`]). Where something fails, the history is printed as a table.

mod commands;
mod mind;
mod recorded;
mod replay;
mod scenario;
mod service;
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

/// Ends a test, with the history as a table.
#[track_caller]
fn fail(message: impl std::fmt::Display, events: &[Event]) -> ! {
    panic!("{message}\n\n{}\n", baton_client::table::history(events))
}

/// Holds a history, and the state that it means, against the rules.
#[track_caller]
fn must_be_sound(events: &[Event], run: &Run) {
    if let Err(violation) = check::history(events) {
        fail(format_args!("the history is broken, which is a bug in Baton: {violation}"), events);
    }
    if Run::replay(events).map(Run::history_derived) != Some(run.clone().history_derived()) {
        fail("the run is not what its history means, which is a bug in Baton", events);
    }
}

/// What a decider is given by a turn: its window, out of a history whose ids have no gaps.
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
