//! `baton update`: sends an update to a run's decider.

use clap::Args;
use client::body::{StartWorkflow, UpdateWorkflow};

use super::options::AlwaysJson;
use super::{Done, Identity, Target, print_json, read_input};

/// Send an update to a run's decider and wait for its answer
///
/// A rejected update is not recorded; its reason is printed, and the exit code is 1.
#[derive(Debug, Args)]
pub struct UpdateCommand {
    /// Workflow id
    workflow_id: String,
    /// Name of the update
    name: String,
    /// Input: JSON, @file, or - for standard input
    #[arg(long)]
    input: Option<String>,
    /// Update id: if a request is repeated with the same id, the run is updated only once, and all requests get the
    /// same answer
    #[arg(long)]
    id: Option<String>,
    /// Send the update only if the run has not changed since this entity tag, which descriptions and answers contain
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    /// Maximum wait for the answer, e.g. 30s or 1h
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    wait: ::history::Duration,
    /// If no run is open, start one of this workflow type; its first turn gets the update
    #[arg(long, value_name = "TYPE", conflicts_with = "if_match")]
    start: Option<String>,
    /// Task list of the started run
    #[arg(long, requires = "start", value_name = "LIST")]
    start_list: Option<String>,
    /// Input of the started run: JSON, @file, or - for standard input
    #[arg(long, requires = "start", value_name = "INPUT")]
    start_input: Option<String>,
    #[command(flatten)]
    who: Identity,
    #[command(flatten)]
    _json: AlwaysJson,
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
