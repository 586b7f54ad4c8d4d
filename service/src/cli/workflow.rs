//! `baton workflow …`.

use clap::{Args, Subcommand, ValueEnum};
use client::Filter;
use client::body::{
    ByHand, CancelWorkflow, Listed, PauseWorkflow, ResetWorkflow, RunResult, SignalWorkflow, StartSignal,
    StartWorkflow, TerminateWorkflow,
};
use history::event::LaterSignals;
use history::{ConflictPolicy, Duration, EventId, Factor, RetryPolicy, ReusePolicy, Standing, Status};
use uuid::Uuid;

use super::history::History;
use super::query::Query;
use super::update::Update;
use super::{Done, Failed, Target, Who, described, note, print_json, print_line, print_rows, print_text, read_input};

#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    /// Start a run
    Start(Box<Start>),
    /// List runs, newest start first
    List {
        #[command(flatten)]
        filter: Filters,
        /// Which come first; by close, only closed runs are listed
        #[arg(long, value_enum)]
        order: Option<Order>,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Count runs
    Count {
        #[command(flatten)]
        filter: Filters,
        #[command(flatten)]
        target: Target,
    },
    /// Show the state of a run: what is open, and what time will do next
    #[command(visible_alias = "describe")]
    Show {
        #[command(flatten)]
        which: Which,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Start a run and wait for its end, a year unless --wait says: `start --wait`
    Execute(Box<Start>),
    /// Signal a run
    Signal {
        #[command(flatten)]
        which: Which,
        /// The signal's name
        name: String,
        /// What it says: JSON, @file, or - for standard input
        #[arg(long)]
        input: Option<String>,
        /// The same key never signals twice
        #[arg(long)]
        key: Option<String>,
        /// Only if nothing has changed since `baton query --tag` showed this tag
        #[arg(long, value_name = "TAG")]
        if_match: Option<String>,
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        target: Target,
    },
    /// Ask for a run to be canceled; its decider chooses what that means
    Cancel {
        #[command(flatten)]
        hand: Hand,
    },
    /// End a run, whatever its decider thinks
    Terminate {
        #[command(flatten)]
        hand: Hand,
    },
    /// Show a run's history: `baton history`
    History(History),
    /// Ask a run's decider something: `baton query`
    Query(Query),
    /// Have a run's decider judge an update: `baton update`
    Update(Update),
    /// Delete a run, or all runs of a workflow id, before their retention is over
    Delete {
        /// The workflow id
        workflow_id: String,
        /// The run; all of them unless given
        #[arg(long)]
        run: Option<Uuid>,
        /// Terminate an open run first; it is refused otherwise
        #[arg(long)]
        terminate: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Have a run wait: nothing of it is handed out until it is resumed
    Pause {
        #[command(flatten)]
        hand: Hand,
        /// Its timers and all timeouts wait, too, and go on where they were
        #[arg(long)]
        stop_clocks: bool,
    },
    /// Have a paused run go on
    Resume {
        #[command(flatten)]
        hand: Hand,
    },
    /// Have a new run go on from an event of a run; the newest run is terminated if it is open
    Reset {
        #[command(flatten)]
        hand: Hand,
        /// The last event of the old history that the new run has; a refusal names the nearest that can be
        #[arg(long, value_name = "EVENT")]
        at: EventId,
        /// Do without the signals that came later; the new run has them unless given
        #[arg(long)]
        drop_signals: bool,
    },
    /// Wait for a run to close and show how it ended
    Result {
        #[command(flatten)]
        which: Which,
        /// How long to wait for it, e.g. 30s or 1h; not at all unless given
        #[arg(long, value_name = "DURATION", default_value = "0s", hide_default_value = true)]
        wait: Duration,
        #[command(flatten)]
        target: Target,
    },
}

/// Which runs of a list come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Those that started last
    NewestStart,
    /// Those that started first
    OldestStart,
    /// Those that closed last
    NewestClose,
    /// Those that closed first
    OldestClose,
}

impl From<Order> for client::Order {
    fn from(order: Order) -> Self {
        match order {
            Order::NewestStart => Self::NewestStart,
            Order::OldestStart => Self::OldestStart,
            Order::NewestClose => Self::NewestClose,
            Order::OldestClose => Self::OldestClose,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The workflow id
    workflow_id: String,
    /// The run; the newest one unless given
    #[arg(long)]
    run: Option<Uuid>,
}

/// Which run something is done to by hand, who does it, and why.
#[derive(Debug, Args)]
pub(crate) struct Hand {
    #[command(flatten)]
    which: Which,
    /// Why; the history keeps it
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    who: Who,
    /// The same key never does it twice
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Hand {
    fn who(&self) -> (Option<String>, Option<String>) {
        (Some(self.who.identity()), self.reason.clone())
    }
}

#[derive(Debug, Args)]
pub(crate) struct Start {
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
    /// Whether the id of a closed run may be used again: allow-duplicate-failed-only, allow-duplicate or reject-duplicate
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
    /// How long to wait for its end, e.g. 30s or 1h, to show it as `workflow result` does; the run stays when it is not over by then
    #[arg(long, value_name = "DURATION")]
    wait: Option<Duration>,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    target: Target,
}

/// Whether the workflow is tried again, by a new run, after it failed or took longer than its run timeout. Any of these makes
/// a policy.
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

#[derive(Debug, Args)]
pub(crate) struct Filters {
    /// open, closed, how open ones stand (paused, blocked, stuck, failing or retrying: the first that applies), or how they closed: success, failed, canceled, timed-out, terminated or continued-as-new
    #[arg(long)]
    status: Option<String>,
    /// Of this workflow type
    #[arg(long = "type", value_name = "TYPE")]
    workflow_type: Option<String>,
    /// Of this workflow id
    #[arg(long = "id", value_name = "ID")]
    workflow_id: Option<String>,
    /// With this tag
    #[arg(long)]
    tag: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

impl Filters {
    fn filter(&self) -> Filter {
        Filter {
            status: self.status.clone(),
            workflow_type: self.workflow_type.clone(),
            workflow_id: self.workflow_id.clone(),
            tag: self.tag.clone(),
            order: None,
            limit: Some(self.limit.min(1_000)),
        }
    }
}

impl Workflow {
    pub(super) async fn run(self) -> Done {
        match self {
            Self::Start(start) => start.run().await,
            Self::List { filter, order, json, target } => {
                let listed = Filter { order: order.map(Into::into), ..filter.filter() };
                list(&listed, filter.limit, json, &target).await
            }
            Self::Count { filter, target } => {
                let count = target.client()?.count(&Filter { limit: None, ..filter.filter() }).await?;
                print_line(&format!("{}{}", count.count, if count.truncated { " or more" } else { "" }))
            }
            Self::Show { which, json, target } => {
                let described = target.client()?.describe(&which.workflow_id, which.run).await?;
                if json { print_json(&described) } else { print_text(&described::lines(&described)) }
            }
            Self::Execute(start) => start.execute().await,
            Self::Signal { which, name, input, key, if_match, who, target } => {
                let signal = SignalWorkflow { input: read_input(input.as_deref())?, identity: Some(who.identity()) };
                let (id, run, client, key) = (&which.workflow_id, which.run, target.client()?, key.as_deref());
                print_json(&match if_match.map(client::Tag::from) {
                    Some(seen) => client.signal_run_if(id, run, &name, &signal, &seen, key).await?,
                    None => client.signal_run(id, run, &name, &signal, key).await?,
                })
            }
            Self::Cancel { hand } => {
                let (identity, reason) = hand.who();
                let (client, key) = (hand.target.client()?, hand.key.as_deref());
                let cancel = CancelWorkflow { reason, identity };
                print_json(&client.cancel_run(&hand.which.workflow_id, hand.which.run, &cancel, key).await?)
            }
            Self::Terminate { hand } => {
                let (identity, reason) = hand.who();
                let (client, key) = (hand.target.client()?, hand.key.as_deref());
                let terminate = TerminateWorkflow { reason, details: None, identity };
                print_json(&client.terminate_run(&hand.which.workflow_id, hand.which.run, &terminate, key).await?)
            }
            Self::History(history) => history.run().await,
            Self::Query(query) => query.run().await,
            Self::Update(update) => update.run().await,
            Self::Delete { workflow_id, run, terminate, target } => {
                print_json(&target.client()?.delete(&workflow_id, run, terminate).await?)
            }
            Self::Pause { hand, stop_clocks } => {
                let (identity, reason) = hand.who();
                let pause = PauseWorkflow { stop_clocks, identity, reason };
                let (client, key) = (hand.target.client()?, hand.key.as_deref());
                print_json(&client.pause(&hand.which.workflow_id, hand.which.run, &pause, key).await?)
            }
            Self::Resume { hand } => {
                let (identity, reason) = hand.who();
                let (client, key) = (hand.target.client()?, hand.key.as_deref());
                let resume = ByHand { identity, reason };
                print_json(&client.resume(&hand.which.workflow_id, hand.which.run, &resume, key).await?)
            }
            Self::Reset { hand, at, drop_signals } => {
                let (identity, reason) = hand.who();
                let signals = if drop_signals { LaterSignals::Drop } else { LaterSignals::Reapply };
                let reset = ResetWorkflow { event_id: at, signals, identity, reason };
                let (client, key) = (hand.target.client()?, hand.key.as_deref());
                print_json(&client.reset(&hand.which.workflow_id, hand.which.run, &reset, key).await?)
            }
            Self::Result { which, wait, target } => {
                let client = target.client()?;
                let wait = std::time::Duration::from(wait);
                let result = client.result(&which.workflow_id, which.run, wait.min(NOTE_AFTER)).await?;
                show_result(&client, &which.workflow_id, result, wait.saturating_sub(NOTE_AFTER)).await
            }
        }
    }
}

/// How long a command waits for the end of a run before it looks why it does not come.
const NOTE_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// Waits on for the end of a run that has not come at once, shows it, and says so with the exit code.
async fn show_result(
    client: &client::Client,
    workflow_id: &str,
    mut result: RunResult,
    wait: std::time::Duration,
) -> Done {
    if result.status == Status::Open && !wait.is_zero() {
        let run = client.describe(workflow_id, Some(result.run_id)).await?;
        for line in described::unpolled(&run) {
            note(&format!("baton: {line}; waiting for that"));
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

/// Reads one of the words that the API has for a choice.
pub(super) fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

impl Start {
    /// How long [`Workflow::Execute`] waits unless told otherwise. Ours: what a run may take that says nothing.
    const EXECUTE_WAIT: Duration = Duration::from_days(365);

    async fn execute(self) -> Done {
        let wait = self.wait.or(Some(Self::EXECUTE_WAIT));
        Self { wait, ..self }.run().await
    }

    async fn run(self) -> Done {
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

/// How a run stands, in the word that `--status` takes.
fn standing(run: &Listed) -> &'static str {
    let flags = [
        (run.paused, Standing::Paused),
        (run.blocked, Standing::Blocked),
        (run.stuck, Standing::Stuck),
        (run.failing, Standing::Failing),
        (run.retrying, Standing::Retrying),
    ];
    flags.into_iter().find(|(applies, _)| *applies).map_or(run.status.word(), |(_, standing)| standing.word())
}

async fn list(filter: &Filter, most: usize, json: bool, target: &Target) -> Done {
    let client = target.client()?;
    let mut found: Vec<Listed> = Vec::new();
    let mut page = None;
    while found.len() < most {
        let read = client.list(filter, page.as_deref()).await?;
        found.extend(read.workflows);
        page = read.next_page;
        if page.is_none() {
            break;
        }
    }
    found.truncate(most);
    if json {
        return print_json(&found);
    }
    print_rows(
        ["started", "status", "type", "workflow id", "run id", "tags"],
        found.into_iter().map(|run| {
            let (started, status) = (run.started_at.to_string(), standing(&run).to_owned());
            [started, status, run.workflow_type, run.workflow_id, run.run_id.to_string(), run.tags.join(", ")]
        }),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_says_how_each_run_stands_in_the_word_that_finds_it() {
        for flagged in Standing::FLAGGED.map(Standing::word) {
            let mut row = json!({
                "workflowId": "w", "runId": "01890000-0000-7000-8000-000000000001", "workflowType": "t", "status": "open",
                "startedAt": "2026-01-01T00:00:00.000Z", "tags": [],
            });
            assert_eq!(standing(&serde_json::from_value(row.clone()).unwrap()), "open");
            row[flagged] = json!(true);
            assert_eq!(standing(&serde_json::from_value(row).unwrap()), flagged);
        }
    }
}
