//! `baton activity …`: runs of a single activity, the output of an activity, and an operator's actions on an open
//! activity.

mod start;

use clap::{Args, Subcommand};
use client::body::{ChangeActivity, ChangeTimeouts, CompleteActivityManually, FailActivityManually, OutputChunk};
use client::{ActivityOperation, OutputPosition};
use history::{Duration, RetryPolicy};

use super::workflow::{Hand, Which};
use super::{Done, Failed, Target, note, print_json, print_json_text, print_text, read_input};
use start::StartActivityArgs;

/// Maximum time for which one request of `--follow` waits. Source: the maximum of the service.
const FOLLOW_WAIT: std::time::Duration = std::time::Duration::from_mins(1);

/// Arguments that select one of a run's open activities, and name the operator and the reason.
#[derive(Debug, Args)]
pub struct OpenActivity {
    #[command(flatten)]
    hand: Hand,
    /// Activity id; `baton workflow show` lists the open activities
    activity_id: String,
}

/// Arguments of `baton activity output`.
#[derive(Debug, Args)]
pub struct OutputArgs {
    #[command(flatten)]
    which: Which,
    /// Activity id
    activity_id: String,
    /// Offset of the first chunk
    #[arg(long, value_name = "OFFSET", default_value_t = 0)]
    from: u64,
    /// Print new output as it is appended, until the activity ends
    #[arg(long)]
    follow: bool,
    /// Print each chunk as a line of JSON in the format of the API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Subcommand)]
pub enum ActivityCommands {
    /// Start a run of a single activity, which needs no decider
    Start(Box<StartActivityArgs>),
    /// Start a run of a single activity, wait for its close, and print its outcome
    Execute(Box<StartActivityArgs>),
    /// Print the output that an activity has appended while it runs, until an hour after its end
    Output(Box<OutputArgs>),
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
            Self::Output(output) => return output.run().await,
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

impl OutputArgs {
    async fn run(self) -> Done {
        let client = self.target.client()?;
        let (workflow_id, run_id) = self.which.run();
        let mut at = OutputPosition { run_id, from: self.from, ..OutputPosition::default() };
        let (mut attempt, mut wait) = (1, None);
        loop {
            let page = client.activity_output(workflow_id, &self.activity_id, &at, wait).await?;
            let mut expected = at.from;
            for chunk in &page.chunks {
                note_gap(expected, chunk.offset);
                expected = chunk.offset + 1;
                self.print(chunk, &mut attempt)?;
            }
            note_gap(expected, page.next);
            at = OutputPosition::after(&page);
            if let Some(end) = &page.end {
                if let Some(event) = &end.event {
                    note(&format!("the activity has ended: {event}"));
                }
                return Ok(());
            }
            if page.chunks.is_empty() && !self.follow {
                return Ok(());
            }
            wait = self.follow.then_some(FOLLOW_WAIT);
        }
    }

    fn print(&self, chunk: &OutputChunk, attempt: &mut u32) -> Done {
        if self.json {
            let line = serde_json::to_string(chunk).map_err(|error| Failed::Other(1, error.to_string()))?;
            return print_json_text(&line);
        }
        if chunk.attempt != *attempt {
            *attempt = chunk.attempt;
            note(&format!("attempt {attempt}"));
        }
        let Some(data) = &chunk.data else { return print_text("(hidden: the credential does not permit payloads)") };
        match data.read::<String>() {
            Ok(text) => print_text(text.strip_suffix('\n').unwrap_or(&text)),
            Err(_) => print_json_text(&data.to_string()),
        }
    }
}

/// Reports chunks that are no longer available.
fn note_gap(from: u64, to: u64) {
    if to > from {
        note(&format!("{} chunks from offset {from} are no longer available", to - from));
    }
}
