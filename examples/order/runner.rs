//! The activities of orders. The list that a process polls determines which activities it runs. Thus only the processes
//! of the list `PCI` see card data.

use baton_client::Client;
use baton_runner_kit::{ActivityContext, ActivityFailure, Host, activity_fn};

use crate::decider::PCI;
use crate::orders::Order;

/// Creates the host for a list.
pub(crate) fn host(client: Client, list: &str) -> Host {
    let host = Host::new(client, list).concurrency(16);
    if list == PCI {
        return host.identity("pci-rack").register(activity_fn("charge-card", charge_card));
    }
    host.identity("warehouse")
        .register(activity_fn("reserve-stock", reserve_stock))
        .register(activity_fn("release-stock", release_stock))
        .register(activity_fn("fraud-check", fraud_check))
        .register(activity_fn("ship", ship))
}

async fn reserve_stock(_: ActivityContext, order: Order) -> Result<u32, ActivityFailure> {
    Ok(order.quantity)
}

async fn release_stock(_: ActivityContext, order: Order) -> Result<u32, ActivityFailure> {
    Ok(order.quantity)
}

/// Returns true if an order looks suspicious.
async fn fraud_check(_: ActivityContext, order: Order) -> Result<bool, ActivityFailure> {
    Ok(order.suspicious)
}

async fn charge_card(context: ActivityContext, order: Order) -> Result<String, ActivityFailure> {
    if order.is_declined() {
        return Err(ActivityFailure::new("card-declined").details(&order.cents).non_retryable());
    }
    // The workflow id and the activity id together are the idempotency key for the bank.
    Ok(format!("receipt-{}-{}", context.workflow_id, context.activity_id))
}

async fn ship(_: ActivityContext, (order, attempt): (Order, u32)) -> Result<String, ActivityFailure> {
    if attempt < order.carrier_busy {
        return Err(ActivityFailure::new("carrier-busy").details(&attempt));
    }
    Ok(format!("parcel-{}", order.id))
}
