//! `baton activity …`: runs of a single activity, and an operator's actions on an open activity.

mod start;

use clap::{Args, Subcommand};
use client::ActivityOperation;
use client::body::{ChangeActivity, ChangeTimeouts, CompleteActivityManually, FailActivityManually};
use history::{Duration, RetryPolicy};

use super::workflow::Hand;
use super::{Done, Failed, print_json, read_input};
use start::StartActivityArgs;

/// Arguments that select one of a run's open activities, and name the operator and the reason.
#[derive(Debug, Args)]
pub struct OpenActivity {
    #[command(flatten)]
    hand: Hand,
    /// Activity id; `baton workflow show` lists the open activities
    activity_id: String,
}

#[derive(Debug, Subcommand)]
pub enum ActivityCommands {
    /// Start a run of a single activity, which needs no decider
    Start(Box<StartActivityArgs>),
    /// Start a run of a single activity, wait for its close, and print its outcome
    Execute(Box<StartActivityArgs>),
    #[command(flatten)]
    Act(Box<ActivityAction>),
}

/// An operator's action on an open activity.
#[derive(Debug, Subcommand)]
pub enum ActivityAction {
    /// Complete an activity with a result, even if a runner is working on it
    Complete {
        #[command(flatten)]
        which: OpenActivity,
        /// Result: JSON, @file, or - for standard input
        #[arg(long)]
        result: Option<String>,
    },
    /// Fail an activity, regardless of its retry policy
    Fail {
        #[command(flatten)]
        which: OpenActivity,
        /// Reason of the failure, which the decider gets
        #[arg(long, value_name = "REASON")]
        failure: String,
        /// Details of the failure: JSON, @file, or - for standard input
        #[arg(long)]
        details: Option<String>,
    },
    /// Retry an activity now, without waiting for its backoff
    Retry {
        #[command(flatten)]
        which: OpenActivity,
    },
    /// Pause an activity: it is no longer dispatched, but a runner that is already working on it may still complete it
    Pause {
        #[command(flatten)]
        which: OpenActivity,
    },
    /// Resume a paused activity
    Resume {
        #[command(flatten)]
        which: OpenActivity,
    },
    /// Change options of an activity; options that are not given stay unchanged
    Set {
        #[command(flatten)]
        which: OpenActivity,
        #[command(flatten)]
        options: ActivityOptionsArgs,
    },
}

#[derive(Debug, Args)]
pub struct ActivityOptionsArgs {
    /// Task list in which the activity waits for a runner
    #[arg(long, value_name = "LIST")]
    list: Option<String>,
    /// Maximum time until a runner takes the activity, e.g. 1h; `none` for no limit
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    schedule_to_start: Option<TimeoutArg>,
    /// Maximum time of one attempt; `none` for no limit
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    start_to_close: Option<TimeoutArg>,
    /// Maximum time from scheduling to close, over all attempts; `none` for no limit
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    schedule_to_close: Option<TimeoutArg>,
    /// Maximum time between two heartbeats; `none` for no limit
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    heartbeat: Option<TimeoutArg>,
    /// Retry policy as JSON, which replaces the whole existing policy, e.g. '{"maximumAttempts": 5, "whenExhausted":
    /// "pause"}'
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    retry: Option<RetryPolicy>,
}

/// Value of an option for a time limit; `None` removes the limit.
#[derive(Debug, Clone, Copy)]
struct TimeoutArg(Option<Duration>);

fn limit(text: &str) -> Result<TimeoutArg, String> {
    if text == "none" { Ok(TimeoutArg(None)) } else { text.parse().map(|span| TimeoutArg(Some(span))) }
}

fn policy(text: &str) -> Result<RetryPolicy, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let policy = history::retry_of_request(&mut reader).map_err(|error| error.to_string())?;
    reader.end().map_err(|error| error.to_string())?;
    policy.ok_or_else(|| "a retry policy cannot be removed".to_owned())
}

impl ActivityOptionsArgs {
    fn timeouts(&self) -> ChangeTimeouts {
        let given = |limit: Option<TimeoutArg>| limit.map(|limit| limit.0);
        ChangeTimeouts {
            schedule_to_start: given(self.schedule_to_start),
            start_to_close: given(self.start_to_close),
            schedule_to_close: given(self.schedule_to_close),
            heartbeat: given(self.heartbeat),
        }
    }
}

impl ActivityCommands {
    pub(crate) async fn run(self) -> Done {
        let (OpenActivity { hand, activity_id }, act) = match self {
            Self::Start(args) => return args.run().await,
            Self::Execute(args) => return args.execute().await,
            Self::Act(action) => action.read()?,
        };
        let (client, (id, run), key) = (hand.target.client()?, hand.which.run(), hand.key.as_deref());
        print_json(&client.act_on_activity(id, run, &activity_id, &act, key).await?)
    }
}

impl ActivityAction {
    fn read(self) -> Result<(OpenActivity, ActivityOperation), Failed> {
        Ok(match self {
            Self::Complete { which, result } => {
                let (identity, reason) = which.hand.who();
                let result = read_input(result.as_deref())?;
                (which, ActivityOperation::Complete(CompleteActivityManually { result, identity, reason }))
            }
            Self::Fail { which, failure, details } => {
                let (identity, reason) = which.hand.who();
                let details = read_input(details.as_deref())?;
                (
                    which,
                    ActivityOperation::Fail(FailActivityManually {
                        failure_reason: failure,
                        details,
                        identity,
                        reason,
                    }),
                )
            }
            Self::Retry { which } => {
                let operator = which.hand.operator();
                (which, ActivityOperation::Retry(operator))
            }
            Self::Pause { which } => {
                let operator = which.hand.operator();
                (which, ActivityOperation::Pause(operator))
            }
            Self::Resume { which } => {
                let operator = which.hand.operator();
                (which, ActivityOperation::Resume(operator))
            }
            Self::Set { which, options } => {
                let (identity, reason) = which.hand.who();
                let timeouts = options.timeouts();
                let ActivityOptionsArgs { list: task_list, retry, .. } = options;
                (which, ActivityOperation::Change(ChangeActivity { task_list, timeouts, retry, identity, reason }))
            }
        })
    }
}
