//! Upgrading hosts: each operation is a child whose workflow id is the host's name. Therefore operations on a host
//! never overlap, even if different rollouts request them, and no lock is needed.
//!
//! Needs a running service: `cargo run -p baton-service --bin baton -- serve`.

mod flow;
#[cfg(test)]
mod tests;

use std::time::Duration;

use baton_client::Client;
use baton_client::body::StartWorkflow;
use baton_decider_kit::flow::Flow;
use baton_history::Payload;
use baton_runner_kit::{ActivityContext, ActivityFailure, activity_fn};
use clap::Parser;

use crate::flow::{Operation, Rollout};

/// Task list of the deciders and of the activities.
const LIST: &str = "hosts";

#[derive(Parser)]
#[command(about = "Rolls out two versions to the same hosts at the same time")]
struct Cli {
    /// URL of the service
    #[arg(long, env = "BATON_URL", default_value = "http://127.0.0.1:7420")]
    url: String,
    /// Number of hosts
    #[arg(long, default_value_t = 3)]
    hosts: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let client = Client::new(&cli.url)?;
    let deciders = baton_decider_kit::Host::new(client.clone(), LIST)
        .register("rollout", Flow::new(flow::rollout))
        .register("operation", Flow::new(flow::operation));
    let steps = flow::STEPS.into_iter();
    let runners = steps
        .fold(baton_runner_kit::Host::new(client.clone(), LIST), |host, step| host.register(activity_fn(step, work)));
    tokio::select! {
        done = roll_out(&client, &cli) => done,
        () = deciders.run() => Ok(()),
        () = runners.run() => Ok(()),
    }
}

async fn work(context: ActivityContext, operation: Operation) -> Result<(), ActivityFailure> {
    println!("{:<8} {:<8} to {}", operation.host, context.activity_id, operation.version);
    // `baton activity output` shows this while the activity runs, and for an hour after its end.
    context.append(&format!("{} is updated to {}", operation.host, operation.version));
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(())
}

async fn roll_out(client: &Client, cli: &Cli) -> anyhow::Result<()> {
    let hosts: Vec<String> = (1..=cli.hosts).map(|number| format!("host-{number}")).collect();
    let rollouts = ["1.4", "1.5"].map(|version| format!("rollout-{version}-{}", std::process::id()));
    for (workflow_id, version) in rollouts.iter().zip(["1.4", "1.5"]) {
        let start = StartWorkflow {
            workflow_id: workflow_id.clone(),
            workflow_type: "rollout".to_owned(),
            task_list: Some(LIST.to_owned()),
            input: Some(Payload::of(&Rollout { hosts: hosts.clone(), version: version.to_owned() })?),
            ..StartWorkflow::default()
        };
        client.start(&start, None).await?;
    }
    for workflow_id in rollouts {
        client.result(&workflow_id, None, Duration::from_secs(60)).await?;
        println!("{}", baton_tables::history(&client.events(&workflow_id, None).await?));
    }
    Ok(())
}
