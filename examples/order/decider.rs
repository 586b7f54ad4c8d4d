//! The decider of orders: reserve stock and check for fraud side by side; give the customer a moment to cancel; charge
//! the card, on the list `PCI`; ship, and try again while the carrier is busy.

use std::collections::{BTreeMap, BTreeSet};

use decider_kit::{Activity, Decider, Decisions, Duration, Event, EventKind, Window};
use history::limits::AWAITING_CANCEL;

use crate::orders::Order;

/// Where cards are charged: runners on servers of their own.
pub(crate) const PCI: &str = "PCI";

/// Where nobody polls: what is sent there is nice to have (S3.51).
pub(crate) const TELEMETRY: &str = "telemetry";

/// How often shipping is tried.
pub(crate) const SHIP_TRIES_MAX: u32 = 5;

/// The wait before shipping is tried a second time; twice as long before each further one.
pub(crate) const SHIP_WAIT: Duration = Duration::from_millis(200);

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

/// What the customer may send while the window is open, so that it can be seen what the run waits for.
const CANCELS: [&str; 2] = [AWAITING_CANCEL, "cancel"];

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
            None if state.timers_set.contains("cancel-window") => return Decisions::new().awaiting(CANCELS),
            None => return Decisions::new().timer("cancel-window", self.cancel_window).awaiting(CANCELS),
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

#[cfg(test)]
mod tests {
    use decider_kit::Status;
    use decider_kit::testing::{Closed, TestService, Work};

    use super::*;

    /// The cancel window of these tests: a day, which takes no time here.
    const WINDOW: Duration = Duration::from_days(1);

    fn shop() -> TestService {
        let mut shop = TestService::new();
        shop.decider("order", OrderDecider { cancel_window: WINDOW });
        shop.activity("reserve-stock", |_| Work::success(&1).takes(Duration::from_secs(2)));
        shop.activity("release-stock", |_| Work::success(&1));
        shop.activity("fraud-check", |call| Work::success(&call.input::<Order>().suspicious));
        shop.activity_on(PCI, "charge-card", |call| {
            if call.input::<Order>().is_declined() {
                Work::failure("card-declined", &()).non_retryable()
            } else {
                Work::success(&"receipt")
            }
        });
        shop.activity("ship", |call| {
            let (order, attempt) = call.input::<(Order, u32)>();
            if attempt < order.carrier_busy { Work::failure("carrier-busy", &()) } else { Work::success(&"parcel") }
        });
        shop
    }

    fn order() -> Order {
        Order { id: "1".to_owned(), cents: 990, card: "4111".to_owned(), ..Order::default() }
    }

    fn run(shop: &mut TestService, order: &Order) -> Closed {
        shop.start("order", "1", order);
        shop.finish("1")
    }

    #[test]
    fn an_order_is_charged_on_pci_after_the_cancel_window_and_shipped() {
        let mut shop = shop();
        let closed = run(&mut shop, &order());
        assert_eq!(closed.status, Status::Success);
        assert_eq!(closed.result::<u64>(), 990);
        assert_eq!(closed.after, Duration::from_millis(WINDOW.as_millis() + 2_000));
        let charged_on = shop.history("1").iter().find_map(|event| match &event.kind {
            EventKind::ActivityScheduled(it) if it.activity_type == "charge-card" => Some(it.task_list.clone()),
            _ => None,
        });
        assert_eq!(charged_on.as_deref(), Some(PCI));
    }

    #[test]
    fn telemetry_that_nobody_takes_is_ignored() {
        let mut shop = shop();
        assert_eq!(run(&mut shop, &order()).status, Status::Success);
        shop.assert_count("1", "ActivityScheduledTimeout", 1);
    }

    #[test]
    fn a_cancellation_within_the_window_takes_the_timer_back_and_charges_nothing() {
        let mut shop = shop();
        shop.start("order", "1", &order());
        shop.after(Duration::from_secs(3_600)).signal("1", "cancel", &());
        let closed = shop.finish("1");
        assert_eq!(closed.status, Status::Canceled);
        assert_eq!(closed.after, Duration::from_secs(3_600));
        shop.assert_count("1", "TimerCanceled", 1);
        shop.assert_count("1", "TimerExpired", 0);
        let charged =
            |event: &Event| matches!(&event.kind, EventKind::ActivityScheduled(it) if it.activity_id == "charge-card");
        assert!(!shop.history("1").iter().any(charged));
    }

    #[test]
    fn a_cancellation_before_the_window_opens_is_not_forgotten() {
        let mut shop = shop();
        shop.start("order", "1", &order());
        shop.after(Duration::from_secs(1)).signal("1", "cancel", &());
        assert_eq!(shop.finish("1").status, Status::Canceled);
        shop.assert_count("1", "TimerScheduled", 0);
    }

    #[test]
    fn a_declined_card_puts_the_stock_back_and_fails_the_order() {
        let mut shop = shop();
        let closed = run(&mut shop, &Order { card: "4110000".to_owned(), ..order() });
        assert_eq!(closed.status, Status::Failed);
        let released = |event: &Event| matches!(&event.kind, EventKind::ActivityScheduled(it) if it.activity_id == "release-stock");
        assert!(shop.history("1").iter().any(released));
    }

    #[test]
    fn a_suspicious_order_is_never_charged() {
        let mut shop = shop();
        assert_eq!(run(&mut shop, &Order { suspicious: true, ..order() }).status, Status::Failed);
        shop.assert_count("1", "TimerScheduled", 0);
    }

    #[test]
    fn a_busy_carrier_is_asked_again_after_twice_the_time_and_then_no_more() {
        let mut patient = shop();
        let closed = run(&mut patient, &Order { carrier_busy: 3, ..order() });
        assert_eq!(closed.status, Status::Success);
        let waits = SHIP_WAIT.as_millis() * (1 + 2 + 4);
        assert_eq!(closed.after, Duration::from_millis(WINDOW.as_millis() + 2_000 + waits));
        let mut hopeless = shop();
        let closed = run(&mut hopeless, &Order { carrier_busy: u32::MAX, ..order() });
        assert_eq!(closed.status, Status::Failed);
    }

    #[test]
    fn the_endings_that_the_file_promises_come_about() {
        for order in Order::all().unwrap().iter().take(60) {
            let mut shop = shop();
            shop.start("order", "1", order);
            if order.cancels {
                shop.after(Duration::ZERO).signal("1", "cancel", &());
            }
            let expected = match order.ending() {
                crate::orders::Ending::Shipped => Status::Success,
                crate::orders::Ending::Declined | crate::orders::Ending::Suspicious => Status::Failed,
                crate::orders::Ending::Canceled => Status::Canceled,
            };
            assert_eq!(shop.finish("1").status, expected, "{order:?}");
        }
    }
}
