//! The activities of subscriptions. They only say what they would do.

use baton_client::Client;
use baton_runner_kit::{Context, Failure, Host, activity_fn};

use crate::customers::Customer;

/// Everything that is to be done.
pub(crate) const ACTIVITIES: [&str; 6] =
    ["welcome-mail", "charge", "end-of-trial-mail", "monthly-mail", "process-cancellation", "goodbye-mail"];

/// The host for a list.
pub(crate) fn host(client: Client, list: &str) -> Host {
    ACTIVITIES.into_iter().fold(Host::new(client, list), |host, name| host.register(activity_fn(name, work)))
}

async fn work(context: Context, customer: Customer) -> Result<(), Failure> {
    // The workflow id with the activity's id is the bank's idempotency key: a charge that is tried again is made once.
    println!("{:<24} for {} ({})", context.activity_id, customer.email, context.workflow_id);
    Ok(())
}
