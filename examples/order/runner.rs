//! The activities of orders. Which of them a process runs depends on the list it polls: card data stays with `PCI`.

use baton_client::Client;
use baton_runner_kit::{Context, Failure, Host, activity_fn};

use crate::decider::PCI;
use crate::orders::Order;

/// The host for a list.
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

async fn reserve_stock(_: Context, order: Order) -> Result<u32, Failure> {
    Ok(order.quantity)
}

async fn release_stock(_: Context, order: Order) -> Result<u32, Failure> {
    Ok(order.quantity)
}

/// Whether an order looks suspicious.
async fn fraud_check(_: Context, order: Order) -> Result<bool, Failure> {
    Ok(order.suspicious)
}

async fn charge_card(context: Context, order: Order) -> Result<String, Failure> {
    if order.is_declined() {
        return Err(Failure::new("card-declined").details(&order.cents).non_retryable());
    }
    // The workflow id with the activity's name is the bank's idempotency key.
    Ok(format!("receipt-{}-{}", context.workflow_id, context.activity_id))
}

async fn ship(_: Context, (order, attempt): (Order, u32)) -> Result<String, Failure> {
    if attempt < order.carrier_busy {
        return Err(Failure::new("carrier-busy").details(&attempt));
    }
    Ok(format!("parcel-{}", order.id))
}
