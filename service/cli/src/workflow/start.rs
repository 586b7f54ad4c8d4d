//! `baton workflow start` and `execute`.

use clap::Args;
use client::body::{StartSignal, StartWorkflow};
use history::{ConflictPolicy, Duration, Factor, RetryPolicy, ReusePolicy};

use super::result::{NOTE_AFTER, show_result};
use crate::options::word;
use crate::{Done, Identity, Target, print_json, read_input};

#[derive(Debug, Args)]
pub struct StartArgs {
    /// The workflow id
    workflow_id: String,
    /// The workflow type
    #[arg(long = "type", value_name = "TYPE")]
    workflow_type: String,
    /// The task list where its deciders poll
    #[arg(long, value_name = "LIST")]
    list: Option<String>,
    /// The input: JSON, @file, or - for standard input
    #[arg(long)]
    input: Option<String>,
    /// A tag, for lists; may be given up to five times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// From start to close, at most, of all runs that go on for each other, e.g. 30d
    #[arg(long)]
    execution_timeout: Option<Duration>,
    /// From start to close of one run, at most
    #[arg(long)]
    run_timeout: Option<Duration>,
    /// How long a decider may take for a turn, e.g. 10m where you are the decider; 30 seconds unless given
    #[arg(long, value_name = "DURATION")]
    turn_timeout: Option<Duration>,
    /// Whether the id of a closed run may be used again: allow-duplicate-failed-only, allow-duplicate or
    /// reject-duplicate
    #[arg(long, value_name = "POLICY", value_parser = word::<ReusePolicy>)]
    reuse: Option<ReusePolicy>,
    /// What to do while a run of this id is open: fail, use-existing or terminate-existing
    #[arg(long, value_name = "POLICY", value_parser = word::<ConflictPolicy>)]
    conflict: Option<ConflictPolicy>,
    /// Signal the run as it starts, or the one that is open
    #[arg(long, value_name = "NAME")]
    signal: Option<String>,
    /// What the signal says: JSON, @file, or - for standard input
    #[arg(long, requires = "signal", value_name = "INPUT")]
    signal_input: Option<String>,
    /// How long the first turn waits, e.g. 1h
    #[arg(long = "start-after", value_name = "DURATION")]
    after: Option<Duration>,
    #[command(flatten)]
    retry: Retry,
    /// The same key never starts twice
    #[arg(long)]
    key: Option<String>,
    /// How long to wait for its end, e.g. 30s or 1h, to show it as `workflow result` does; the run stays when it is
    /// not over by then
    #[arg(long, value_name = "DURATION")]
    wait: Option<Duration>,
    #[command(flatten)]
    who: Identity,
    #[command(flatten)]
    target: Target,
}

/// Whether the workflow is tried again, by a new run, after it failed or took longer than its run timeout. Any of
/// these makes a policy.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// How many tries there are in all; no limit unless given
    #[arg(long = "retry-attempts", value_name = "COUNT")]
    attempts: Option<u32>,
    /// The wait before the second try, e.g. 10s; one second unless given
    #[arg(long = "retry-interval", value_name = "DURATION")]
    interval: Option<Duration>,
    /// How much longer each wait is than the one before; 2 unless given
    #[arg(long = "retry-coefficient", value_name = "FACTOR", value_parser = factor)]
    coefficient: Option<Factor>,
    /// The longest wait; a hundred times the first unless given
    #[arg(long = "retry-interval-max", value_name = "DURATION")]
    interval_max: Option<Duration>,
    /// The share of each wait that may be left out, by chance; 0 to 1
    #[arg(long = "retry-jitter", value_name = "SHARE", value_parser = factor)]
    jitter: Option<Factor>,
    /// A failure with this reason is not tried again; may be given several times
    #[arg(long = "no-retry-on", value_name = "REASON")]
    no_retry_on: Vec<String>,
}

impl Retry {
    pub(super) fn policy(self) -> Option<RetryPolicy> {
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

impl StartArgs {
    /// Default wait of `baton workflow execute`. Ours: the default execution timeout of a run.
    const EXECUTE_WAIT: Duration = Duration::from_days(365);

    pub(super) async fn execute(self) -> Done {
        let wait = self.wait.or(Some(Self::EXECUTE_WAIT));
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
