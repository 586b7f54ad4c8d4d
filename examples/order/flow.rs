//! Orders as a flow, which states in sequence the steps that [`crate::decider`] decides case by case. Both programs
//! write the same histories, and each can continue runs that the other program has started.

use baton_decider_kit::Duration;
use baton_decider_kit::flow::{Context, Failure, Flow};
use futures::future::{Either, select};
use serde::de::IgnoredAny;

use crate::decider::{PCI, SHIP_TRIES_MAX, SHIP_WAIT, TELEMETRY};
use crate::orders::Order;

/// Creates the flow of orders. A customer can cancel for `cancel_window` after the stock is reserved.
pub(crate) fn order_flow(cancel_window: Duration) -> Flow {
    Flow::new(move |ctx: Context, it: Order| order(ctx, it, cancel_window))
}

async fn order(ctx: Context, order: Order, cancel_window: Duration) -> Result<u64, Failure> {
    // The work is shielded, because a cancellation must not interrupt it. The flow checks for a cancellation only while
    // a cancellation is still allowed.
    let work = ctx.shielded();
    let reserve = work.activity::<u32>("reserve-stock", &order).start();
    let check = work.activity::<bool>("fraud-check", &order).start();
    // This activity is optional, so the flow does not wait for it.
    let telemetry = work.activity::<()>("telemetry", &order.id).list(TELEMETRY);
    telemetry.schedule_to_start(Duration::from_secs(1)).detach();
    let (reserved, checked) = futures::join!(reserve, check);
    reserved.map_err(|failure| failure.details("reserve-stock"))?;
    if checked.map_err(|failure| failure.details("fraud-check"))? {
        return unwind(&work, &order, Failure::new("suspicious").details(&order.customer)).await;
    }
    if canceled_within(&ctx, cancel_window).await? {
        return unwind(&work, &order, Failure::canceled("the customer thought again")).await;
    }
    match work.activity::<String>("charge-card", &order).list(PCI).await {
        Ok(_) => ship(&work, &order).await,
        // The failure's code says why the charge failed. A declined card is not charged again.
        Err(failure) => unwind(&work, &order, failure.details(&order.cents)).await,
    }
}

/// Returns true if the customer cancels before the window ends, by a signal or by canceling the run.
async fn canceled_within(ctx: &Context, window: Duration) -> Result<bool, Failure> {
    let mut signals = ctx.shielded().signals::<IgnoredAny>("cancel");
    let signal = std::pin::pin!(signals.next());
    let canceled = select(signal, ctx.canceled());
    match select(canceled, ctx.shielded().sleep(window).named("cancel-window")).await {
        Either::Left(_) => Ok(true),
        Either::Right((expired, _)) => expired.map(|()| false),
    }
}

/// Releases the stock, then closes the run.
async fn unwind(work: &Context, order: &Order, closing: Failure) -> Result<u64, Failure> {
    // The run closes even if the release fails.
    let _ = work.activity::<u32>("release-stock", order).await;
    Err(closing)
}

/// Ships the order. After each failure, doubles the wait and then tries again.
async fn ship(work: &Context, order: &Order) -> Result<u64, Failure> {
    for attempt in 0..SHIP_TRIES_MAX {
        let id = format!("ship-{attempt}");
        match work.activity::<String>("ship", &(order, attempt)).id(&id).await {
            Ok(_) => return Ok(order.cents),
            Err(failure) if !failure.may_retry() => return Err(failure.details(&id)),
            Err(_) => {
                let wait = SHIP_WAIT.times(1 << attempt);
                work.sleep(wait).named(format!("carrier-{attempt}")).await?;
            }
        }
    }
    Err(Failure::new("not-shipped").details(&SHIP_TRIES_MAX))
}

#[cfg(test)]
mod tests {
    use baton_decider_kit::testing::{Recorded, TestService, Work, replay_directory};
    use baton_decider_kit::{Event, TakesTurns};

    use super::*;
    use crate::decider::OrderDecider;

    const WINDOW: Duration = Duration::from_secs(10);

    /// Cancellation of an order, and disturbances of its deciders.
    #[derive(Debug, Clone, Copy)]
    struct Plan {
        /// Time at which the customer cancels, in seconds, and whether the customer cancels by a signal.
        cancels: Option<(u64, bool)>,
        turns_take: u64,
        lost: usize,
    }

    fn history(decider: impl TakesTurns, order: &Order, plan: Plan) -> Vec<Event> {
        let mut shop = TestService::new();
        shop.decider("order", decider);
        shop.activity("reserve-stock", |_| Work::success(&1).takes(Duration::from_secs(2)));
        shop.activity("release-stock", |_| Work::success(&1));
        shop.activity("fraud-check", |call| Work::success(&call.input::<Order>().suspicious));
        shop.activity_on(PCI, "charge-card", |call| {
            if call.input::<Order>().is_declined() {
                Work::failure("card-declined", &()).non_retryable()
            } else {
                Work::success(&"receipt").takes(Duration::from_secs(1))
            }
        });
        shop.activity("ship", |call| {
            let (order, attempt) = call.input::<(Order, u32)>();
            if attempt < order.carrier_busy { Work::failure("carrier-busy", &()) } else { Work::success(&"parcel") }
        });
        shop.turns_take(Duration::from_millis(plan.turns_take)).lose_turns(plan.lost);
        shop.start("order", "1", order);
        match plan.cancels {
            None => {}
            Some((at, true)) => shop.after(Duration::from_secs(at)).signal("1", "cancel", &()),
            Some((at, false)) => shop.after(Duration::from_secs(at)).cancel("1"),
        }
        shop.finish("1");
        shop.history("1").to_vec()
    }

    /// Returns the requests and the end of a run as texts without times.
    fn story(events: &[Event]) -> Vec<String> {
        let texts = events.iter().filter_map(|event| {
            let kind = serde_json::to_value(&event.kind).unwrap();
            let field = |name: &str| kind.get(name).map(ToString::to_string).unwrap_or_default();
            let name = event.kind.name();
            let is_asked = event.kind.level() == baton_history::Level::Decider && name != "WorkflowCloseFailed";
            let fields = ["activityId", "timerId", "taskList", "input", "after", "result", "reason", "details"];
            is_asked.then(|| fields.iter().fold(name.to_owned(), |text, it| text + " " + &field(it)))
        });
        texts.collect()
    }

    #[test]
    fn both_styles_write_the_same_history() {
        let orders: Vec<_> = Order::all().unwrap().into_iter().take(40).collect();
        let hopeless = Order { carrier_busy: u32::MAX, ..orders[0].clone() };
        for order in orders.iter().chain([&hopeless]) {
            for cancels in
                [None, Some((0, true)), Some((1, false)), Some((5, true)), Some((5, false)), Some((13, true))]
            {
                let plan = Plan { cancels, turns_take: 0, lost: 0 };
                let explicit = history(OrderDecider { cancel_window: WINDOW }, order, plan);
                let flow = history(order_flow(WINDOW), order, plan);
                assert_eq!(explicit, flow, "{order:?} {plan:?}");
                Recorded::of(&explicit).assert_same(order_flow(WINDOW));
            }
        }
    }

    /// If deciders are slow or crash, events have other positions in the history, but the run makes the same requests
    /// and ends in the same way.
    #[test]
    fn both_styles_agree_with_slow_and_crashing_deciders() {
        for order in Order::all().unwrap().iter().take(20) {
            for turns_take in [100, 700, 1_500] {
                for (cancels, lost) in [(None, 0), (Some((4, true)), 0), (Some((5, false)), 2), (None, 3)] {
                    let plan = Plan { cancels, turns_take, lost };
                    let explicit = history(OrderDecider { cancel_window: WINDOW }, order, plan);
                    let flow = history(order_flow(WINDOW), order, plan);
                    assert_eq!(story(&explicit), story(&flow), "{order:?} {plan:?}");
                }
            }
        }
    }

    /// Histories that a real service has recorded. Keep each history as long as such runs may be open, because new code
    /// must be able to continue them.
    #[test]
    fn recorded_histories_can_be_replayed() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/order/histories");
        let window = Duration::from_secs(1);
        let replayed = replay_directory(directory, |_| Some(order_flow(window))).unwrap();
        assert_eq!(replayed.len(), 3);
        for (path, replayed) in replayed {
            replayed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let recorded = Recorded::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
            recorded.assert_same(order_flow(window));
            recorded.assert_same(OrderDecider { cancel_window: window });
        }
    }
}
