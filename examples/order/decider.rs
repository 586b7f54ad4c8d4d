//! The decider of orders: reserve stock and check for fraud side by side; give the customer a moment to cancel; charge
//! the card, on the list `PCI`; ship, and try again while the carrier is busy.

use std::collections::{BTreeMap, BTreeSet};

use decider_kit::{Activity, Decider, Decisions, Duration, Event, EventKind, Window};

use crate::orders::Order;

/// Where cards are charged: runners on servers of their own.
pub(crate) const PCI: &str = "PCI";

/// Where nobody polls: what is sent there is nice to have (S3.51).
pub(crate) const TELEMETRY: &str = "telemetry";

/// How often shipping is tried.
const SHIP_TRIES_MAX: u32 = 5;

/// The wait before shipping is tried a second time; twice as long before each further one.
const SHIP_WAIT: Duration = Duration::from_millis(200);

/// Decides orders.
pub(crate) struct OrderDecider {
    /// How long a customer can still cancel once the stock is reserved.
    pub(crate) cancel_window: Duration,
}

/// What became of an activity.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Open,
    Done,
    Failed { reason: String, final_word: bool },
}

/// What the history of an order says.
#[derive(Debug, Default)]
pub(crate) struct State {
    order: Order,
    /// By activity id.
    steps: BTreeMap<String, Step>,
    /// The names of activities, by their ActivityScheduled.
    names: BTreeMap<u64, String>,
    is_suspicious: bool,
    timers_set: BTreeSet<String>,
    timers_over: BTreeSet<String>,
    wants_to_cancel: bool,
}

impl State {
    fn step(&self, activity_id: &str) -> Option<&Step> {
        self.steps.get(activity_id)
    }

    fn close(&mut self, scheduled_event_id: u64, step: Step) {
        if let Some(name) = self.names.get(&scheduled_event_id) {
            self.steps.insert(name.clone(), step);
        }
    }
}

impl Decider for OrderDecider {
    type State = State;

    fn evolve(&self, state: &mut State, event: &Event) {
        match &event.kind {
            EventKind::WorkflowStarted(it) => {
                state.order = it.input.as_ref().and_then(|input| input.read().ok()).unwrap_or_default();
            }
            EventKind::ActivityScheduled(it) => {
                state.names.insert(event.id, it.activity_id.clone());
                state.steps.insert(it.activity_id.clone(), Step::Open);
            }
            EventKind::ActivitySuccess(it) => {
                if state.names.get(&it.scheduled_event_id).is_some_and(|name| name == "fraud-check") {
                    state.is_suspicious = it.result.as_ref().and_then(|result| result.read().ok()).unwrap_or(false);
                }
                state.close(it.scheduled_event_id, Step::Done);
            }
            EventKind::ActivityFailed(it) => {
                let step = Step::Failed { reason: it.reason.clone(), final_word: it.non_retryable };
                state.close(it.scheduled_event_id, step);
            }
            EventKind::ActivityTimedOut(it) => {
                let step = Step::Failed { reason: "timed-out".to_owned(), final_word: false };
                state.close(it.scheduled_event_id, step);
            }
            EventKind::ActivityScheduledTimeout(it) => {
                let step = Step::Failed { reason: "nobody-took-it".to_owned(), final_word: false };
                state.close(it.scheduled_event_id, step);
            }
            EventKind::TimerScheduled(it) => drop(state.timers_set.insert(it.timer_id.clone())),
            EventKind::TimerExpired(it) => drop(state.timers_over.insert(it.timer_id.clone())),
            EventKind::TimerCanceled(it) => drop(state.timers_set.remove(&it.timer_id)),
            EventKind::Signal(it) if it.name == "cancel" => state.wants_to_cancel = true,
            EventKind::WorkflowCancelRequested(_) => state.wants_to_cancel = true,
            _ => {}
        }
    }

    fn decide(&self, state: &State, _: &Window) -> Decisions {
        let order = &state.order;
        if state.steps.is_empty() {
            let telemetry = Activity::new("telemetry", "telemetry").list(TELEMETRY).input(&order.id);
            return Decisions::new()
                .schedule(Activity::new("reserve-stock", "reserve-stock").input(order))
                .schedule(Activity::new("fraud-check", "fraud-check").input(order))
                .schedule(telemetry.schedule_to_start(Duration::from_secs(1)));
        }
        for id in ["reserve-stock", "fraud-check"] {
            match state.step(id) {
                Some(Step::Done) => {}
                // The join (S3.41): wait for both.
                Some(Step::Open) | None => return Decisions::new(),
                Some(Step::Failed { reason, .. }) => return Decisions::new().fail(reason.clone(), &id),
            }
        }
        if state.is_suspicious {
            return unwind(state, Decisions::new().fail("suspicious", &order.customer));
        }
        let may_cancel = state.step("charge-card").is_none();
        if state.wants_to_cancel && may_cancel {
            // The time-gated cancellation (S3.55): the timer goes, and so does the order.
            let is_waiting = state.timers_set.contains("cancel-window") && !state.timers_over.contains("cancel-window");
            let stop = Decisions::new();
            let stop = if is_waiting { stop.cancel_timer("cancel-window") } else { stop };
            return stop.and(unwind(state, Decisions::new().cancel(&"the customer thought again")));
        }
        match state.step("charge-card") {
            None if state.timers_over.contains("cancel-window") => {
                return Decisions::new().schedule(Activity::new("charge-card", "charge-card").list(PCI).input(order));
            }
            None if state.timers_set.contains("cancel-window") => return Decisions::new(),
            None => return Decisions::new().timer("cancel-window", self.cancel_window),
            Some(Step::Open) => return Decisions::new(),
            Some(Step::Done) => {}
            // The fail code lets the decider choose (S3.52): a declined card is not tried again.
            Some(Step::Failed { reason, .. }) => {
                return unwind(state, Decisions::new().fail(reason.clone(), &order.cents));
            }
        }
        ship(state)
    }
}

/// Puts the stock back, then closes.
fn unwind(state: &State, closing: Decisions) -> Decisions {
    match state.step("release-stock") {
        None => Decisions::new().schedule(Activity::new("release-stock", "release-stock").input(&state.order)),
        Some(Step::Open) => Decisions::new(),
        Some(Step::Done | Step::Failed { .. }) => closing,
    }
}

/// Ships; after a failure waits, twice as long each time, and tries again (S3.51).
fn ship(state: &State) -> Decisions {
    for attempt in 0..SHIP_TRIES_MAX {
        let (id, wait) = (format!("ship-{attempt}"), format!("carrier-{attempt}"));
        match state.step(&id) {
            None => {
                let activity = Activity::new(id, "ship").input(&(&state.order, attempt));
                return Decisions::new().schedule(activity);
            }
            Some(Step::Open) => return Decisions::new(),
            Some(Step::Done) => return Decisions::new().succeed(&state.order.cents),
            Some(Step::Failed { reason, final_word: true }) => return Decisions::new().fail(reason.clone(), &id),
            Some(Step::Failed { .. }) if state.timers_over.contains(&wait) => {}
            Some(Step::Failed { .. }) if state.timers_set.contains(&wait) => return Decisions::new(),
            Some(Step::Failed { .. }) => return Decisions::new().timer(wait, SHIP_WAIT.times(1 << attempt)),
        }
    }
    Decisions::new().fail("not-shipped", &SHIP_TRIES_MAX)
}
