//! `baton workflow start` and `execute`.

use clap::Args;
use client::body::{StartSignal, StartWorkflow};
use history::{ConflictPolicy, Duration, Factor, RetryPolicy, ReusePolicy};

use super::result::{NOTE_AFTER, show_result};
use crate::options::{AlwaysJson, word};
use crate::{Done, Identity, Target, print_json, read_input};

#[derive(Debug, Args)]
pub struct StartArgs {
    /// Workflow id
    workflow_id: String,
    /// Workflow type
    #[arg(long = "type", value_name = "TYPE")]
    workflow_type: String,
    /// Task list of the deciders
    #[arg(long, value_name = "LIST")]
    list: Option<String>,
    /// Input: JSON, @file, or - for standard input
    #[arg(long)]
    input: Option<String>,
    /// Tag, by which runs can be listed; can be repeated up to five times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Maximum time from start to close, including retries and runs that continue as new, e.g. 30d
    #[arg(long)]
    execution_timeout: Option<Duration>,
    /// Maximum time from start to close of one run
    #[arg(long)]
    run_timeout: Option<Duration>,
    /// Maximum time of a turn, e.g. 10m if you answer turns yourself [default: 30s]
    #[arg(long, value_name = "DURATION")]
    turn_timeout: Option<Duration>,
    /// Policy for reusing the id of a closed run: allow-duplicate-failed-only, allow-duplicate or reject-duplicate
    #[arg(long, value_name = "POLICY", value_parser = word::<ReusePolicy>)]
    reuse: Option<ReusePolicy>,
    /// Policy if a run with this id is open: fail, use-existing or terminate-existing
    #[arg(long, value_name = "POLICY", value_parser = word::<ConflictPolicy>)]
    conflict: Option<ConflictPolicy>,
    /// Name of a signal to send with the start, or to the run that is already open
    #[arg(long, value_name = "NAME")]
    signal: Option<String>,
    /// Input of the signal: JSON, @file, or - for standard input
    #[arg(long, requires = "signal", value_name = "INPUT")]
    signal_input: Option<String>,
    /// Delay before the first turn, e.g. 1h
    #[arg(long = "start-after", value_name = "DURATION")]
    after: Option<Duration>,
    #[command(flatten)]
    retry: Retry,
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

/// Options of the retry policy, which starts a new run if a run fails or exceeds its run timeout. Without any of these
/// options, there is no retry policy.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Maximum number of attempts [default: unlimited]
    #[arg(help_heading = "Retry options", long = "retry-attempts", value_name = "COUNT")]
    attempts: Option<u32>,
    /// Wait before the second attempt, e.g. 10s [default: 1s]
    #[arg(help_heading = "Retry options", long = "retry-interval", value_name = "DURATION")]
    interval: Option<Duration>,
    /// Factor between the lengths of two successive waits [default: 2]
    #[arg(help_heading = "Retry options", long = "retry-coefficient", value_name = "FACTOR", value_parser = factor)]
    coefficient: Option<Factor>,
    /// Maximum wait between two attempts [default: a hundred times the first wait]
    #[arg(help_heading = "Retry options", long = "retry-interval-max", value_name = "DURATION")]
    interval_max: Option<Duration>,
    /// Fraction of each wait that is random (0.0–1.0)
    #[arg(help_heading = "Retry options", long = "retry-jitter", value_name = "SHARE", value_parser = factor)]
    jitter: Option<Factor>,
    /// Do not retry a failure with this reason; can be repeated
    #[arg(help_heading = "Retry options", long = "no-retry-on", value_name = "REASON")]
    no_retry_on: Vec<String>,
}

impl Retry {
    pub(crate) fn policy(self) -> Option<RetryPolicy> {
        let default = RetryPolicy::default();
        let policy = RetryPolicy {
            initial_interval: self.interval.unwrap_or(default.initial_interval),
            backoff_coefficient: self.coefficient.unwrap_or(default.backoff_coefficient),
            maximum_interval: self.interval_max,
            maximum_attempts: self.attempts,
            jitter: self.jitter.unwrap_or(default.jitter),
            non_retryable_reasons: self.no_retry_on,
            ..default
        };
        let is_given = policy != RetryPolicy::default()
            || self.interval.is_some()
            || self.coefficient.is_some()
            || self.jitter.is_some();
        is_given.then_some(policy)
    }
}

fn factor(text: &str) -> Result<Factor, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    Factor::try_from(number)
}

/// Default time for which `baton workflow execute` and `baton activity execute` wait. Our choice: equals the default
/// execution timeout of runs.
pub(crate) const EXECUTE_WAIT: Duration = Duration::from_days(365);

impl StartArgs {
    pub(super) async fn execute(self) -> Done {
        let wait = self.wait.or(Some(EXECUTE_WAIT));
        Self { wait, ..self }.run().await
    }

    pub(super) async fn run(self) -> Done {
        let signal_input = read_input(self.signal_input.as_deref())?;
        let signal = self.signal.map(|name| StartSignal { name, input: signal_input });
        let start = StartWorkflow {
            workflow_id: self.workflow_id,
            workflow_type: self.workflow_type,
            task_list: self.list,
            input: read_input(self.input.as_deref())?,
            tags: self.tags,
            execution_timeout: self.execution_timeout,
            run_timeout: self.run_timeout,
            decider_start_to_close: self.turn_timeout,
            reuse_policy: self.reuse,
            conflict_policy: self.conflict,
            signal,
            start_after: self.after,
            retry: self.retry.policy(),
            identity: Some(self.who.identity()),
            ..StartWorkflow::default()
        };
        let (client, key) = (self.target.client()?, self.key.as_deref());
        match self.wait.map(std::time::Duration::from) {
            None => print_json(&client.start(&start, key).await?),
            Some(wait) => {
                let result = client.execute(&start, key, wait.min(NOTE_AFTER)).await?;
                show_result(&client, &start.workflow_id, result, wait.saturating_sub(NOTE_AFTER)).await
            }
        }
    }
}
