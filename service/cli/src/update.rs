//! `baton update`: sends an update to a run's decider.

use clap::Args;
use client::body::{StartWorkflow, UpdateWorkflow};

use super::{Done, Identity, Target, print_json, read_input};

/// Have a run's decider judge an update, and wait for its answer
///
/// One that is rejected leaves no trace; the reason is printed, and the exit code is 1.
#[derive(Debug, Args)]
pub struct UpdateCommand {
    /// The workflow id
    workflow_id: String,
    /// What kind of update it is
    name: String,
    /// What it says: JSON, @file, or - for standard input
    #[arg(long)]
    input: Option<String>,
    /// Your name for this one update: the same id never updates twice, and fetches the answer again
    #[arg(long)]
    id: Option<String>,
    /// Only if the run is just as it was: an entity tag, as the service gives it with a description or an answer
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    /// How long to wait for the answer, e.g. 30s or 1h
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    wait: ::history::Duration,
    /// Start the run as this workflow type unless it is open; its first turn judges the update
    #[arg(long, value_name = "TYPE", conflicts_with = "if_match")]
    start: Option<String>,
    /// The task list of the run that is started
    #[arg(long, requires = "start", value_name = "LIST")]
    start_list: Option<String>,
    /// The input of the run that is started: JSON, @file, or - for standard input
    #[arg(long, requires = "start", value_name = "INPUT")]
    start_input: Option<String>,
    #[command(flatten)]
    who: Identity,
    #[command(flatten)]
    target: Target,
}

impl UpdateCommand {
    pub(crate) async fn run(self) -> Done {
        let input = read_input(self.input.as_deref())?;
        let start_input = read_input(self.start_input.as_deref())?;
        let identity = Some(self.who.identity());
        let start = self.start.map(|workflow_type| {
            Box::new(StartWorkflow {
                workflow_id: self.workflow_id.clone(),
                workflow_type,
                task_list: self.start_list,
                input: start_input,
                identity: identity.clone(),
                ..StartWorkflow::default()
            })
        });
        let update = UpdateWorkflow { input, update_id: self.id, identity, start };
        let (client, wait) = (self.target.client()?, self.wait.into());
        let answer = client.update(&self.workflow_id, &self.name, &update, self.if_match.as_deref(), wait).await?;
        print_json(&answer.updated)
    }
}
