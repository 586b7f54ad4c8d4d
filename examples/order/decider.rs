//! The explicit decider of orders. It reserves stock and checks for fraud in parallel, gives the customer a moment to
//! cancel, and charges the card on the list `PCI`. Then it ships the order, and tries again if the carrier is busy.

use baton_decider_kit::{Activity, Decider, Decisions, Duration, Event, Failure, Progress, Steps, Window};
use baton_history::limits::AWAITING_CANCEL;

use crate::orders::Order;

/// Task list of the card charges, polled by runners on separate servers.
pub(crate) const PCI: &str = "PCI";

/// Task list without pollers. The activities on this list are optional.
pub(crate) const TELEMETRY: &str = "telemetry";

/// Maximum number of shipping attempts.
pub(crate) const SHIP_TRIES_MAX: u32 = 5;

/// Wait before the second shipping attempt. The wait doubles before each further attempt.
pub(crate) const SHIP_WAIT: Duration = Duration::from_millis(200);

/// Decider of orders.
pub(crate) struct OrderDecider {
    /// Time during which a customer can still cancel after the stock is reserved.
    pub(crate) cancel_window: Duration,
}

/// Signals that the run awaits while the customer can cancel. Because they are declared, operators see what the run
/// waits for.
const CANCELS: [&str; 2] = [AWAITING_CANCEL, "cancel"];

impl Decider for OrderDecider {
    type State = Steps;

    fn evolve(&self, steps: &mut Steps, event: &Event) {
        steps.evolve(event);
    }

    fn decide(&self, steps: &Steps, _: &Window) -> Decisions {
        let order: Order = steps.input();
        let [reserve, check, charge] = ["reserve-stock", "fraud-check", "charge-card"].map(|id| steps.activity(id));
        if reserve.is_new() {
            let telemetry = Activity::new("telemetry", "telemetry").list(TELEMETRY).input(&order.id);
            return Decisions::new()
                .schedule(Activity::new("reserve-stock", "reserve-stock").input(&order))
                .schedule(Activity::new("fraud-check", "fraud-check").input(&order))
                .schedule(telemetry.schedule_to_start(Duration::from_secs(1)));
        }
        // Joins the two activities: waits until both have ended.
        if !reserve.has_ended() || !check.has_ended() {
            return Decisions::new();
        }
        for (id, step) in [("reserve-stock", reserve), ("fraud-check", check)] {
            if let Some(failure) = step.failure() {
                return Decisions::new().fail_with(failure.clone().details(id));
            }
        }
        if check.result() == Some(true) {
            return unwind(steps, &order, Failure::new("suspicious").details(&order.customer));
        }
        let window = steps.timer("cancel-window");
        if (steps.is_cancel_requested() || steps.is_signaled("cancel")) && charge.is_new() {
            // The customer cancels in time: cancel the timer, then the order.
            let stop = Decisions::new();
            let stop = if window.is_open() { stop.cancel_timer("cancel-window") } else { stop };
            return stop.and(unwind(steps, &order, Failure::canceled("the customer thought again")));
        }
        match charge.progress() {
            Progress::New if window.is_new() => {
                Decisions::new().timer("cancel-window", self.cancel_window).awaiting(CANCELS)
            }
            Progress::New if window.is_open() => Decisions::new().awaiting(CANCELS),
            Progress::New => {
                Decisions::new().schedule(Activity::new("charge-card", "charge-card").list(PCI).input(&order))
            }
            Progress::Open => Decisions::new(),
            Progress::Done => ship(steps, &order),
            // The failure's code says why the charge failed. A declined card is not charged again.
            Progress::Failed(failure) => unwind(steps, &order, failure.clone().details(&order.cents)),
        }
    }
}

/// Releases the stock, then closes the run.
fn unwind(steps: &Steps, order: &Order, closing: Failure) -> Decisions {
    match steps.activity("release-stock").progress() {
        Progress::New => Decisions::new().schedule(Activity::new("release-stock", "release-stock").input(order)),
        Progress::Open => Decisions::new(),
        Progress::Done | Progress::Failed(_) => Decisions::new().fail_with(closing),
    }
}

/// Ships the order. After each failure, doubles the wait and then tries again.
fn ship(steps: &Steps, order: &Order) -> Decisions {
    for attempt in 0..SHIP_TRIES_MAX {
        let (id, wait) = (format!("ship-{attempt}"), format!("carrier-{attempt}"));
        let pause = steps.timer(&wait);
        match steps.activity(&id).progress() {
            Progress::New => return Decisions::new().schedule(Activity::new(id, "ship").input(&(order, attempt))),
            Progress::Open => return Decisions::new(),
            Progress::Done => return Decisions::new().succeed(&order.cents),
            Progress::Failed(failure) if failure.may_retry() && pause.has_ended() => {}
            Progress::Failed(failure) if failure.may_retry() && pause.is_open() => return Decisions::new(),
            Progress::Failed(failure) if failure.may_retry() => {
                return Decisions::new().timer(wait, SHIP_WAIT.times(1 << attempt));
            }
            Progress::Failed(failure) => {
                return Decisions::new().fail_with(failure.clone().details(&id));
            }
        }
    }
    Decisions::new().fail("not-shipped", &SHIP_TRIES_MAX)
}

#[cfg(test)]
mod tests {
    use baton_decider_kit::testing::{Closed, TestService, Work};
    use baton_decider_kit::{EventKind, Status};

    use super::*;

    /// Cancel window of these tests. In the test service, waiting for a whole day takes no time.
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
    fn an_order_is_charged_on_pci_after_the_cancel_window() {
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
    fn telemetry_without_runners_is_ignored() {
        let mut shop = shop();
        assert_eq!(run(&mut shop, &order()).status, Status::Success);
        shop.assert_count("1", "ActivityScheduledTimeout", 1);
    }

    #[test]
    fn a_cancellation_within_the_window_charges_nothing() {
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
    fn a_cancellation_before_the_window_opens_counts() {
        let mut shop = shop();
        shop.start("order", "1", &order());
        shop.after(Duration::from_secs(1)).signal("1", "cancel", &());
        assert_eq!(shop.finish("1").status, Status::Canceled);
        shop.assert_count("1", "TimerScheduled", 0);
    }

    #[test]
    fn a_declined_card_releases_the_stock_and_fails_the_order() {
        let mut shop = shop();
        let closed = run(&mut shop, &Order { card: "4110000".to_owned(), ..order() });
        assert_eq!(closed.status, Status::Failed);
        let released = |event: &Event| match &event.kind {
            EventKind::ActivityScheduled(it) => it.activity_id == "release-stock",
            _ => false,
        };
        assert!(shop.history("1").iter().any(released));
    }

    #[test]
    fn a_suspicious_order_is_never_charged() {
        let mut shop = shop();
        assert_eq!(run(&mut shop, &Order { suspicious: true, ..order() }).status, Status::Failed);
        shop.assert_count("1", "TimerScheduled", 0);
    }

    #[test]
    fn a_busy_carrier_is_retried_with_doubling_waits() {
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
    fn orders_end_as_the_file_says() {
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
