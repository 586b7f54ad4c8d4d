//! `baton query`: sends a query to a run's decider.

use std::time::Duration;

use clap::Args;
use client::{Watch, Watched};
use uuid::Uuid;

use super::options::AlwaysJson;
use super::{Done, Failed, Target, print_json_text, read_input};

/// Maximum time for which one request of `--watch` waits. Source: the maximum of the service.
const WATCH_WAIT: Duration = Duration::from_mins(1);

/// Send a query to a run's decider, which answers it from all events recorded so far
#[derive(Debug, Args)]
pub struct QueryCommand {
    /// Workflow id
    workflow_id: String,
    /// Name of the query
    name: String,
    /// Input of the query: JSON, @file, or - for standard input
    #[arg(long)]
    input: Option<String>,
    /// Run id [default: the newest run]
    #[arg(long, conflicts_with = "watch")]
    run: Option<Uuid>,
    /// Maximum wait for the answer, e.g. 30s or 1h
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    wait: ::history::Duration,
    /// Continue until interrupted, and print each new result as a line
    #[arg(long)]
    watch: bool,
    /// Print JSON that also contains a tag, for `--if-match` of a signal or an update
    #[arg(long)]
    tag: bool,
    #[command(flatten)]
    _json: AlwaysJson,
    #[command(flatten)]
    target: Target,
}

impl QueryCommand {
    pub(crate) async fn run(self) -> Done {
        let input = read_input(self.input.as_deref())?;
        let client = self.target.client()?;
        let answer = client.query(&self.workflow_id, self.run, &self.name, input.clone(), self.wait.into()).await?;
        show(&answer, self.tag)?;
        if !self.watch {
            return Ok(());
        }
        let mut seen = answer.tag;
        loop {
            let watched = client.watch(&self.workflow_id, &self.name, input.clone(), &seen, Watch::Result, WATCH_WAIT);
            match watched.await {
                Ok(Watched::Changed(answer)) => {
                    show(&answer, self.tag)?;
                    seen = answer.tag;
                }
                Ok(Watched::Unchanged(tag)) => seen = tag,
                // The run has changed, but no decider has answered the query since the change. The next request sends
                // the query again.
                Err(error) if error.code() == Some("query-timed-out") => {}
                Err(error) => return Err(Failed::from(error)),
            }
        }
    }
}

fn show(answer: &client::QueryResponse, with_tag: bool) -> Done {
    let result = answer.body.result.as_ref().map_or_else(|| "null".to_owned(), ToString::to_string);
    if !with_tag {
        return print_json_text(&result);
    }
    let tag = serde_json::Value::from(answer.tag.to_string());
    print_json_text(&format!("{{\"tag\":{tag},\"result\":{result}}}"))
}
