//! A workflow that polls a feed repeatedly and continues as new before its history gets long. It could run for years:
//! the caller sees only one workflow id, and each run has a short, readable history.
//!
//! Needs a running service: `cargo run -p baton-service --bin baton -- serve`.

mod flow;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::time::Duration;

use baton_client::body::StartWorkflow;
use baton_client::{Client, Filter};
use baton_decider_kit::flow::Flow;
use baton_history::Payload;
use baton_runner_kit::{ActivityContext, ActivityFailure, activity_fn};
use clap::Parser;
use tokio::time::Instant;

use crate::flow::{Feed, Found};

/// Interval at which the feed gets a new item.
const ITEM_EVERY: Duration = Duration::from_millis(40);

/// Task list of the deciders and of the activities.
const LIST: &str = "pollers";

#[derive(Parser)]
#[command(about = "Polls a feed until it ends")]
struct Cli {
    /// URL of the service
    #[arg(long, env = "BATON_URL", default_value = "http://127.0.0.1:7420")]
    url: String,
    /// Number of items in the feed
    #[arg(long, default_value_t = 200)]
    items: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let client = Client::new(&cli.url)?;
    let deciders = baton_decider_kit::Host::new(client.clone(), LIST).register("poller", Flow::new(flow::poller));
    let (items, since) = (cli.items, Instant::now());
    let runners = baton_runner_kit::Host::new(client.clone(), LIST)
        .register(activity_fn("look", move |_: ActivityContext, feed: Feed| async move {
            Ok(read_feed(&feed, items, since))
        }))
        .register(activity_fn("take", take));
    tokio::select! {
        done = read(&client) => done,
        () = deciders.run() => Ok(()),
        () = runners.run() => Ok(()),
    }
}

/// Simulates a feed that gets items at a fixed interval from the start of this program.
fn read_feed(feed: &Feed, items: u64, since: Instant) -> Found {
    let come = since.elapsed().as_millis() / ITEM_EVERY.as_millis();
    let come = u64::try_from(come).unwrap_or(u64::MAX).min(items);
    let found = (feed.next..come).map(|number| format!("{}-{number}", feed.name)).collect();
    Found { items: found, is_last: come == items }
}

async fn take(_: ActivityContext, item: String) -> Result<(), ActivityFailure> {
    print!("{item} ");
    std::io::stdout().flush().map_err(|error| ActivityFailure::new("Output").details(&error.to_string()))
}

async fn read(client: &Client) -> anyhow::Result<()> {
    let workflow_id = format!("poller-{}", std::process::id());
    let feed = Feed { name: "item".to_owned(), next: 0, every: baton_history::Duration::from_millis(100) };
    let start = StartWorkflow {
        workflow_id: workflow_id.clone(),
        workflow_type: "poller".to_owned(),
        task_list: Some(LIST.to_owned()),
        input: Some(Payload::of(&feed)?),
        ..StartWorkflow::default()
    };
    client.execute(&start, None, Duration::from_secs(600)).await?;
    println!("\n\nRuns, newest first:");
    let filter = Filter { workflow_id: Some(workflow_id), ..Filter::default() };
    for run in client.list(&filter, None).await?.workflows {
        let events = client.events(&run.workflow_id, Some(run.run_id)).await?.len();
        println!("  {}  {:<16} {events:>4} events", run.run_id, run.status.to_string());
    }
    Ok(())
}
