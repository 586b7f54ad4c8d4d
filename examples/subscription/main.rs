//! A subscription: a free month, then a charge every month, with an email after each, until the customer cancels. It is
//! written both as a flow and as an explicit decider. The tests cover fourteen months in milliseconds.
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

/// Task list of the deciders and of the activities.
const LIST: &str = "subscriptions";

#[derive(Parser)]
#[command(about = "Subscribes, pays for some months, and cancels")]
struct Cli {
    /// URL of the service
    #[arg(long, env = "BATON_URL", default_value = "http://127.0.0.1:7420")]
    url: String,
    /// Use the explicit decider instead of the flow
    #[arg(long)]
    explicit: bool,
    /// Length of a month in seconds
    #[arg(long, default_value_t = 1.0)]
    month: f64,
    /// Number of months after which the customer cancels
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
    println!("{}", baton_tables::history(&events));
    Ok(())
}
