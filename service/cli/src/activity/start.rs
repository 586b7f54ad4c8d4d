//! `baton activity start` and `execute`: a run of a single activity, without a decider.

use clap::Args;
use client::body::{RunResult, StartActivity};
use history::event::ActivityTimeouts;
use history::{ConflictPolicy, Duration, RetryPolicy, ReusePolicy, Status, WhenExhausted};

use crate::options::AlwaysJson;
use crate::options::word;
use crate::workflow::{EXECUTE_WAIT, NOTE_AFTER, Retry, show_result};
use crate::{Done, Identity, Target, print_json, read_input};

#[derive(Debug, Args)]
pub struct StartActivityArgs {
    /// Activity type
    #[arg(long = "type", value_name = "TYPE")]
    activity_type: String,
    /// Task list of the runners
    #[arg(long, value_name = "LIST")]
    list: String,
    /// Workflow id of the run [default: generated]
    #[arg(long, value_name = "WORKFLOW_ID")]
    id: Option<String>,
    /// Input: JSON, @file, or - for standard input
    #[arg(long)]
    input: Option<String>,
    /// Tag, by which runs can be listed; can be repeated up to five times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Maximum time until a runner takes the activity, e.g. 1h
    #[arg(long, value_name = "DURATION")]
    schedule_to_start: Option<Duration>,
    /// Maximum time of one attempt [default: 5m]
    #[arg(long, value_name = "DURATION")]
    start_to_close: Option<Duration>,
    /// Maximum time from scheduling to close, over all attempts
    #[arg(long, value_name = "DURATION")]
    schedule_to_close: Option<Duration>,
    /// Maximum time between two heartbeats
    #[arg(long, value_name = "DURATION")]
    heartbeat: Option<Duration>,
    /// Priority on the task list: higher first
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Concurrency key, for example a customer, for the limits of the task list
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// Policy for reusing the id of a closed run: allow-duplicate-failed-only, allow-duplicate or reject-duplicate
    #[arg(long, value_name = "POLICY", value_parser = word::<ReusePolicy>)]
    reuse: Option<ReusePolicy>,
    /// Policy if a run with this id is open: fail, use-existing or terminate-existing
    #[arg(long, value_name = "POLICY", value_parser = word::<ConflictPolicy>)]
    conflict: Option<ConflictPolicy>,
    #[command(flatten)]
    retry: Retry,
    /// Pause the activity after its last attempt, until an operator retries or fails it
    #[arg(help_heading = "Retry options", long, requires = "attempts")]
    pause_when_exhausted: bool,
    /// Idempotency key: if a request is repeated with the same key, only one run is started
    #[arg(long)]
    key: Option<String>,
    /// Maximum wait for the close of the run, e.g. 30s or 1h; then print its outcome like `workflow result`
    #[arg(long, value_name = "DURATION")]
    wait: Option<Duration>,
    #[command(flatten)]
    who: Identity,
    #[command(flatten)]
    _json: AlwaysJson,
    #[command(flatten)]
    target: Target,
}

impl StartActivityArgs {
    pub(super) async fn execute(self) -> Done {
        let wait = self.wait.or(Some(EXECUTE_WAIT));
        Self { wait, ..self }.run().await
    }

    pub(super) async fn run(self) -> Done {
        let retry = self.retry.policy();
        let retry = if self.pause_when_exhausted {
            Some(RetryPolicy { when_exhausted: WhenExhausted::Pause, ..retry.unwrap_or_default() })
        } else {
            retry
        };
        let start = StartActivity {
            activity_type: self.activity_type,
            workflow_id: self.id,
            input: read_input(self.input.as_deref())?,
            timeouts: ActivityTimeouts {
                schedule_to_start: self.schedule_to_start,
                start_to_close: self.start_to_close,
                schedule_to_close: self.schedule_to_close,
                heartbeat: self.heartbeat,
            },
            retry,
            task_priority: self.priority,
            concurrency_key: self.concurrency_key,
            tags: self.tags,
            reuse_policy: self.reuse,
            conflict_policy: self.conflict,
            identity: Some(self.who.identity()),
            ..StartActivity::default()
        };
        let (client, key) = (self.target.client()?, self.key.as_deref());
        let Some(wait) = self.wait.map(std::time::Duration::from) else {
            return print_json(&client.start_activity(&self.list, &start, key, None).await?);
        };
        let started = client.start_activity(&self.list, &start, key, Some(wait.min(NOTE_AFTER))).await?;
        let result = started.closed.unwrap_or_else(|| still_open(started.run_id));
        show_result(&client, &started.workflow_id, result, wait.saturating_sub(NOTE_AFTER)).await
    }
}

/// Returns the result of a run that is still open.
fn still_open(run_id: uuid::Uuid) -> RunResult {
    RunResult {
        status: Status::Open,
        run_id,
        closed_at: None,
        result: None,
        reason: None,
        details: None,
        continued_as: None,
    }
}
