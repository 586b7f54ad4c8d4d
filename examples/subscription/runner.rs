//! The activities of subscriptions. They only print the work that a real runner would do.

use baton_client::Client;
use baton_runner_kit::{ActivityContext, ActivityFailure, Host, activity_fn};

use crate::customers::Customer;

/// Activity types of a subscription.
pub(crate) const ACTIVITIES: [&str; 6] =
    ["welcome-mail", "charge", "end-of-trial-mail", "monthly-mail", "process-cancellation", "goodbye-mail"];

/// Creates the host for a list.
pub(crate) fn host(client: Client, list: &str) -> Host {
    ACTIVITIES.into_iter().fold(Host::new(client, list), |host, name| host.register(activity_fn(name, work)))
}

async fn work(context: ActivityContext, customer: Customer) -> Result<(), ActivityFailure> {
    // A real runner would send the workflow id and the activity id as the bank's idempotency key, so that a retried
    // charge is made only once.
    println!("{:<24} for {} ({})", context.activity_id, customer.email, context.workflow_id);
    Ok(())
}
