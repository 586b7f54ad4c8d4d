//! A subscription as a flow, which states the steps in sequence.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use baton_decider_kit::flow::{Context, Failure};

use super::customers::{Bill, Customer};

/// Runs a subscription: a free month, then one paid month after the other, until the customer cancels.
pub(crate) async fn subscription(ctx: Context, customer: Customer) -> Result<Bill, Failure> {
    let bill = Arc::new(Mutex::new(Bill::default()));
    let known = Arc::clone(&bill);
    ctx.query("bill", move |(): ()| read(&known));
    let Err(end) = subscribed(&ctx, &customer, &bill).await;
    if !end.is_canceled() {
        return Err(end);
    }
    // From here on the flow cannot be interrupted.
    let ctx = ctx.shielded();
    run_until_success(&ctx, "process-cancellation", "process-cancellation", &customer).await?;
    run_until_success(&ctx, "goodbye-mail", "goodbye-mail", &customer).await?;
    Err(Failure::canceled(&read(&bill)))
}

fn read(bill: &Mutex<Bill>) -> Bill {
    *bill.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Charges one month after the other, until the customer cancels or a charge fails.
async fn subscribed(ctx: &Context, customer: &Customer, bill: &Mutex<Bill>) -> Result<Infallible, Failure> {
    run_until_success(ctx, "welcome-mail", "welcome-mail", customer).await?;
    for month in 1.. {
        ctx.sleep(customer.month).named(format!("month-{month}")).await?;
        run_until_success(ctx, "charge", &format!("charge-{month}"), customer).await?;
        let paid = read(bill).and(customer);
        *bill.lock().unwrap_or_else(PoisonError::into_inner) = paid;
        let mail = if month == 1 { "end-of-trial-mail" } else { "monthly-mail" };
        run_until_success(ctx, mail, &format!("mail-{month}"), customer).await?;
    }
    unreachable!("the loop is endless")
}

/// Retries an activity until it succeeds or has a non-retryable failure. A cancellation interrupts only the pauses
/// between the attempts, and not the activity.
async fn run_until_success(ctx: &Context, activity_type: &str, id: &str, customer: &Customer) -> Result<(), Failure> {
    for attempt in 0.. {
        let done = ctx.shielded().activity::<()>(activity_type, customer).id(id).await;
        match done {
            Err(failure) if failure.may_retry() => {
                ctx.sleep(customer.pause(attempt)).named(format!("{id}-pause-{attempt}")).await?;
            }
            done => return done,
        }
    }
    unreachable!("the loop is endless")
}
