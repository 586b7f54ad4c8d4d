//! The outcome of a run: waiting for its close, printing the outcome, and determining the exit code.

use client::body::RunResult;
use history::Status;

use crate::{Done, Failed, described, note, print_json};

/// Time that a command waits for the close of a run before it reports task lists without pollers. Our choice.
pub(crate) const NOTE_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// Waits up to `wait` for the close of a run, and prints its outcome. If the run did not succeed, returns a failure
/// with the exit code for the outcome.
pub(crate) async fn show_result(
    client: &client::Client,
    workflow_id: &str,
    mut result: RunResult,
    wait: std::time::Duration,
) -> Done {
    if result.status == Status::Open && !wait.is_zero() {
        let run = client.describe(workflow_id, Some(result.run_id)).await?;
        for line in described::unpolled(&run) {
            note(&format!("baton: {line}; still waiting"));
        }
        result = client.result(workflow_id, Some(result.run_id), wait).await?;
    }
    print_json(&result)?;
    match result.status {
        Status::Success => Ok(()),
        Status::Open => {
            let run = client.describe(workflow_id, Some(result.run_id)).await?;
            let said = [format!("run {} is still open", result.run_id)].into_iter().chain(described::unpolled(&run));
            Err(Failed::Other(5, said.collect::<Vec<_>>().join("\n       ")))
        }
        Status::Failed | Status::Canceled | Status::TimedOut | Status::Terminated | Status::ContinuedAsNew => {
            Err(Failed::Other(4, format!("the run closed: {}", result.status)))
        }
    }
}
