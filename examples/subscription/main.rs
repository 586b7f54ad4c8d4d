//! A subscription: a month for nothing, then a charge every month, with a mail each time, until the
//! customer cancels. As a flow, and as an explicit decider; tested over fourteen months in no time.
//!
//! Needs a running service: `cargo run -p baton-service --bin baton -- serve`.

mod customers;
mod decider;
mod flow;
mod runner;
#[cfg(test)]
mod tests;

use std::time::Duration;

use baton_client::Client;
use baton_client::body::{CancelWorkflow, StartWorkflow};
use baton_decider_kit::flow::Flow;
use baton_history::Payload;
use clap::Parser;

use crate::customers::Customer;

/// The task list of the deciders and of the activities.
const LIST: &str = "subscriptions";

#[derive(Parser)]
#[command(about = "Subscribes, pays for some months, and cancels")]
struct Cli {
    /// The service
    #[arg(long, default_value = "http://127.0.0.1:7420")]
    url: String,
    /// Run the explicit decider rather than the flow
    #[arg(long)]
    explicit: bool,
    /// How many seconds a month is
    #[arg(long, default_value_t = 1.0)]
    month: f64,
    /// After how many months the customer cancels
    #[arg(long, default_value_t = 4)]
    months: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let client = Client::new(&cli.url)?;
    let host = baton_decider_kit::Host::new(client.clone(), LIST);
    let deciders = if cli.explicit {
        host.register("subscription", decider::Subscription)
    } else {
        host.register("subscription", Flow::new(flow::subscription))
    };
    tokio::select! {
        done = subscribe(&client, &cli) => done,
        () = deciders.run() => Ok(()),
        () = runner::host(client.clone(), LIST).run() => Ok(()),
    }
}

async fn subscribe(client: &Client, cli: &Cli) -> anyhow::Result<()> {
    let workflow_id = format!("subscription-{}", std::process::id());
    let month = Duration::try_from_secs_f64(cli.month)?;
    let customer = Customer { email: "ada@example.com".to_owned(), cents: 990, month: month.into() };
    let start = StartWorkflow {
        workflow_id: workflow_id.clone(),
        workflow_type: "subscription".to_owned(),
        task_list: Some(LIST.to_owned()),
        input: Some(Payload::of(&customer)?),
        ..StartWorkflow::default()
    };
    client.start(&start, None).await?;
    tokio::time::sleep(month * cli.months + month / 2).await;
    let cancel = CancelWorkflow { reason: Some("too many subscriptions".to_owned()), identity: None };
    client.cancel(&workflow_id, None, &cancel, None).await?;
    client.result(&workflow_id, None, Duration::from_secs(60)).await?;
    let events = client.events(&workflow_id, None).await?;
    println!("{}", baton_client::table::history(&events));
    Ok(())
}
