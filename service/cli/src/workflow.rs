//! `baton workflow …`.

mod list;
mod result;
mod start;

use clap::{Args, Subcommand};
use client::body::{CancelWorkflow, OperatorAction, PauseWorkflow, ResetWorkflow, SignalWorkflow, TerminateWorkflow};
use history::event::LaterSignals;
use history::{Duration, EventId};
use uuid::Uuid;

use super::history::History;
use super::options::AlwaysJson;
use super::query::QueryCommand;
use super::update::UpdateCommand;
use super::{Done, Identity, Target, described, print_json, print_text, read_input};
use list::{CountRunsArgs, ListRunsArgs};
pub(super) use list::{close_reason, standing};
pub(super) use result::{NOTE_AFTER, show_result};
use start::StartArgs;
pub(super) use start::{EXECUTE_WAIT, Retry};

#[derive(Debug, Subcommand)]
pub enum Workflow {
    /// Start a run
    Start(Box<StartArgs>),
    /// List runs
    ///
    /// A run must match all given filters. A time is an RFC 3339 time, or a duration before now such as 2h or 7d.
    List(Box<ListRunsArgs>),
    /// Count runs
    ///
    /// A run must match all given filters. A time is an RFC 3339 time, or a duration before now such as 2h or 7d.
    Count(Box<CountRunsArgs>),
    /// Group the failures of blocked and failed runs by workflow type and reason
    Failures {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Show the state of a run with its open activities, timers and children, and its deadlines
    #[command(visible_alias = "describe")]
    Show {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Start a run and wait for its close, like `start --wait` [default wait: a year]
    Execute(Box<StartArgs>),
    /// Send a signal to a run
    Signal {
        #[command(flatten)]
        which: Which,
        /// Name of the signal
        name: String,
        /// Input: JSON, @file, or - for standard input
        #[arg(long)]
        input: Option<String>,
        /// Idempotency key: if a request is repeated with the same key, the signal is sent only once
        #[arg(long)]
        key: Option<String>,
        /// Send the signal only if the run has not changed since `baton query --tag` printed this tag
        #[arg(long, value_name = "TAG")]
        if_match: Option<String>,
        #[command(flatten)]
        who: Identity,
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
    /// Request the cancellation of a run; its decider decides how it ends
    Cancel {
        #[command(flatten)]
        hand: Hand,
    },
    /// Terminate a run at once, without involving its decider
    Terminate {
        #[command(flatten)]
        hand: Hand,
    },
    /// Show a run's history, like `baton history`
    History(History),
    /// Query a run's decider, like `baton query`
    Query(QueryCommand),
    /// Send an update to a run's decider, like `baton update`
    Update(UpdateCommand),
    /// Delete a run, or all runs of a workflow id, although their retention has not ended
    Delete {
        /// Workflow id
        workflow_id: String,
        /// Run id [default: all runs of the workflow id]
        #[arg(long)]
        run: Option<Uuid>,
        /// If a run is open, terminate it first; without this option, the command fails
        #[arg(long)]
        terminate: bool,
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
    /// Pause a run: none of its tasks are dispatched until it is resumed
    Pause {
        #[command(flatten)]
        hand: Hand,
        /// Also stop its timers and timeouts; they continue when the run is resumed
        #[arg(long)]
        stop_clocks: bool,
    },
    /// Resume a paused run
    Resume {
        #[command(flatten)]
        hand: Hand,
    },
    /// Start a new run that continues from an event of a run; the newest run is terminated if it is open
    Reset {
        #[command(flatten)]
        hand: Hand,
        /// Last event of the old history that the new run keeps; if this event is not possible, the error names the
        /// nearest possible ones
        #[arg(long, value_name = "EVENT")]
        at: EventId,
        /// Drop signals that were received after this event [default: the new run gets them]
        #[arg(long)]
        drop_signals: bool,
    },
    /// Wait for a run to close and print its outcome
    Result {
        #[command(flatten)]
        which: Which,
        /// Maximum wait, e.g. 30s or 1h [default: no wait]
        #[arg(long, value_name = "DURATION", default_value = "0s", hide_default_value = true)]
        wait: Duration,
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Debug, Args)]
pub struct Which {
    /// Workflow id
    workflow_id: String,
    /// Run id [default: the newest run]
    #[arg(long)]
    run: Option<Uuid>,
}

/// Arguments that select a run, and name the operator and the reason.
#[derive(Debug, Args)]
pub struct Hand {
    #[command(flatten)]
    pub(super) which: Which,
    /// Reason, which the history records
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    who: Identity,
    /// Idempotency key: if a request is repeated with the same key, it takes effect only once
    #[arg(long)]
    pub(super) key: Option<String>,
    #[command(flatten)]
    _json: AlwaysJson,
    #[command(flatten)]
    pub(super) target: Target,
}

impl Hand {
    pub(super) fn who(&self) -> (Option<String>, Option<String>) {
        (Some(self.who.identity()), self.reason.clone())
    }

    pub(super) fn operator(&self) -> OperatorAction {
        let (identity, reason) = self.who();
        OperatorAction { identity, reason }
    }
}

impl Which {
    pub(crate) fn run(&self) -> (&str, Option<Uuid>) {
        (&self.workflow_id, self.run)
    }
}

impl Workflow {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::Start(start) => start.run().await,
            Self::List(list) => list.run().await,
            Self::Count(count) => count.run().await,
            Self::Failures { json, target } => list::failures(json, &target).await,
            Self::Show { which, json, target } => {
                let described = target.client()?.describe(&which.workflow_id, which.run).await?;
                if json { print_json(&described) } else { print_text(&described::lines(&described)) }
            }
            Self::Execute(start) => start.execute().await,
            Self::Signal { which, name, input, key, if_match, who, target, json: _ } => {
                let signal = SignalWorkflow { input: read_input(input.as_deref())?, identity: Some(who.identity()) };
                let (id, run, client, key) = (&which.workflow_id, which.run, target.client()?, key.as_deref());
                print_json(&match if_match.map(client::Tag::from) {
                    Some(seen) => client.signal_if(id, run, &name, &signal, &seen, key).await?,
                    None => client.signal_run(id, run, &name, &signal, key).await?,
                })
            }
            Self::Cancel { hand } => {
                let (identity, reason) = hand.who();
                let (client, (id, run), key) = (hand.target.client()?, hand.which.run(), hand.key.as_deref());
                let cancel = CancelWorkflow { reason, identity };
                print_json(&client.cancel(id, run, &cancel, key).await?)
            }
            Self::Terminate { hand } => {
                let (identity, reason) = hand.who();
                let (client, (id, run), key) = (hand.target.client()?, hand.which.run(), hand.key.as_deref());
                let terminate = TerminateWorkflow { reason, details: None, identity };
                print_json(&client.terminate(id, run, &terminate, key).await?)
            }
            Self::History(history) => history.run().await,
            Self::Query(query) => query.run().await,
            Self::Update(update) => update.run().await,
            Self::Delete { workflow_id, run, terminate, target, json: _ } => {
                print_json(&target.client()?.delete(&workflow_id, run, terminate).await?)
            }
            Self::Pause { hand, stop_clocks } => {
                let (identity, reason) = hand.who();
                let pause = PauseWorkflow { stop_clocks, identity, reason };
                let (client, (id, run), key) = (hand.target.client()?, hand.which.run(), hand.key.as_deref());
                print_json(&client.pause(id, run, &pause, key).await?)
            }
            Self::Resume { hand } => {
                let (client, (id, run), key) = (hand.target.client()?, hand.which.run(), hand.key.as_deref());
                print_json(&client.resume(id, run, &hand.operator(), key).await?)
            }
            Self::Reset { hand, at, drop_signals } => {
                let (identity, reason) = hand.who();
                let signals = if drop_signals { LaterSignals::Drop } else { LaterSignals::Reapply };
                let reset = ResetWorkflow { event_id: at, signals, identity, reason };
                let (client, (id, run), key) = (hand.target.client()?, hand.which.run(), hand.key.as_deref());
                print_json(&client.reset(id, run, &reset, key).await?)
            }
            Self::Result { which, wait, target, json: _ } => {
                let client = target.client()?;
                let wait = std::time::Duration::from(wait);
                let result = client.result(&which.workflow_id, which.run, wait.min(NOTE_AFTER)).await?;
                show_result(&client, &which.workflow_id, result, wait.saturating_sub(NOTE_AFTER)).await
            }
        }
    }
}
