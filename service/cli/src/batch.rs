//! `baton batch …`: one operation on many runs.

use std::time::Duration;

use clap::{Args, Subcommand};
use client::body::{CreateBatch, DescribedBatch, ListedBatch};
use client::{Client, Patience};
use history::event::LaterSignals;
use history::{BatchAction, BatchFilter, BatchPhase, BatchedOperation, EventId, ResetTo};
use serde::Serialize;
use serde_json::Value;

use super::described::shown;
use super::options::word;
use super::paged::all_pages;
use super::run_filters::{OtherFilters, RunFilters};
use super::workflow::standing;
use super::{
    Done, Failed, Identity, Progress, Quiet, Target, print_json, print_line, print_rows, print_text, read_input,
};

/// Interval at which `--wait` reads the progress. Our choice: the longest step of a batch at its usual pace.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Time for which `--wait` retries while the service cannot be reached. Our choice: longer than a restart takes.
const RESTART_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug, Subcommand)]
pub enum BatchCommand {
    /// Create a batch: perform an operation on each run that the filter selects
    ///
    /// Without --status, `delete` selects closed runs, and the other operations select open runs. `reset` requires
    /// --status.
    Create(Box<CreateArgs>),
    /// List batches, newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Show a batch: its progress, and the runs that refused the operation
    Show {
        #[command(flatten)]
        which: BatchArgs,
        #[command(flatten)]
        output: Output,
    },
    /// Stop a batch; the runs of its current step are still operated on
    Stop {
        #[command(flatten)]
        which: BatchArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Resume a stopped batch
    Resume {
        #[command(flatten)]
        which: BatchArgs,
        #[command(flatten)]
        output: Output,
    },
    /// Change the pace of a batch
    Pace {
        #[command(flatten)]
        which: BatchArgs,
        /// Maximum number of runs per second
        pace: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a stopped or completed batch; its runs are not affected
    Delete {
        #[command(flatten)]
        which: BatchArgs,
    },
}

#[derive(Debug, Args)]
pub struct BatchArgs {
    /// Batch id
    batch_id: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct Output {
    /// Wait until the batch is completed or stopped, and report the progress
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Operation: retry-activities, pause, resume, signal, cancel, terminate, reset or delete
    #[arg(value_parser = word::<BatchAction>)]
    operation: BatchAction,
    /// retry-activities: only activities whose last failure has this reason
    #[arg(long, value_name = "REASON")]
    failure: Option<String>,
    /// signal: name of the signal
    #[arg(long, value_name = "NAME")]
    signal: Option<String>,
    /// signal: input: JSON, @file, or - for standard input
    #[arg(long)]
    input: Option<String>,
    /// pause: also stop timers and timeouts
    #[arg(long)]
    stop_clocks: bool,
    /// reset: last event that the new runs keep: first-event, or last-turn to repeat the last completed turn
    #[arg(long, value_name = "POINT", value_parser = word::<ResetTo>)]
    to: Option<ResetTo>,
    /// reset: id of the last event that the new runs keep
    #[arg(long, value_name = "EVENT", conflicts_with = "to")]
    at: Option<EventId>,
    /// reset: drop later signals [default: the new runs get them]
    #[arg(long)]
    drop_signals: bool,
    #[command(flatten)]
    filters: BatchFilters,
    /// Maximum number of runs per second [default: 50]
    #[arg(long, value_name = "RUNS")]
    pace: Option<u32>,
    /// Reason, which the histories record
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    who: Identity,
    /// Idempotency key: repeated requests with the same key create one batch
    #[arg(long)]
    key: Option<String>,
    /// Count the runs, list the first 100, and change nothing
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
struct BatchFilters {
    #[command(flatten)]
    runs: RunFilters,
    /// Only runs of the workflow ids in this file, one per line; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "workflow_id")]
    ids: Option<String>,
    /// Only runs that closed with exactly this reason
    #[arg(long, value_name = "REASON")]
    closed_reason: Option<String>,
}

impl BatchFilters {
    fn filter(self, operation: BatchAction) -> Result<BatchFilter, Failed> {
        let Self { runs, ids, closed_reason } = self;
        let reason = closed_reason.as_ref().map(|_| "--closed-reason");
        // `delete` selects closed runs by default, and `reset` has no default.
        let is_open = !matches!(operation, BatchAction::Delete | BatchAction::Reset);
        runs.check(OtherFilters { order: None, reason, open_by_default: is_open.then(|| operation.word()) })?;
        Ok(BatchFilter {
            status: runs.status,
            r#type: runs.workflow_type,
            workflow_id: runs.workflow_id,
            workflow_id_prefix: runs.workflow_id_prefix,
            workflow_ids: ids.as_deref().map(read_ids).transpose()?.unwrap_or_default(),
            tag: runs.tag,
            reason: closed_reason,
            started_from: runs.started_after,
            started_before: runs.started_before,
            closed_from: runs.closed_after,
            closed_before: runs.closed_before,
        })
    }
}

/// Reads workflow ids from a file or from standard input, one per line.
fn read_ids(file: &str) -> Result<Vec<String>, Failed> {
    let text = if file == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    let text = text.map_err(|error| Failed::Usage(format!("--ids {file}: {error}")))?;
    let ids: Vec<String> = text.lines().map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect();
    // Without any id, the filter would select all runs.
    if ids.is_empty() {
        Err(Failed::Usage(format!("--ids {file}: expected workflow ids, found none")))
    } else {
        Ok(ids)
    }
}

impl CreateArgs {
    async fn run(self) -> Done {
        let operation = BatchedOperation {
            r#type: self.operation,
            failure_reason: self.failure,
            name: self.signal,
            input: read_input(self.input.as_deref())?,
            stop_clocks: self.stop_clocks,
            to: self.to,
            event_id: self.at,
            signals: self.drop_signals.then_some(LaterSignals::Drop),
        };
        let (filter, identity) = (self.filters.filter(self.operation)?, Some(self.who.identity()));
        let create =
            CreateBatch { operation, filter, pace: self.pace, reason: self.reason, identity, dry_run: self.dry_run };
        let client = self.target.client()?;
        if !self.dry_run {
            let batch = client.create_batch(&create, self.key.as_deref()).await?;
            return self.output.print(&client, batch).await;
        }
        let found = client.dry_run_batch(&create).await?;
        if self.output.json {
            return print_json(&found);
        }
        let or_more = if found.truncated { " or more" } else { "" };
        print_line(&format!("{}{or_more} runs would be selected; nothing was changed", found.count))?;
        print_rows(
            ["started", "status", "type", "workflow id", "run id"],
            found.workflows.into_iter().map(|run| {
                let status = standing(&run).to_owned();
                [run.started_at.to_string(), status, run.workflow_type, run.workflow_id, run.run_id.to_string()]
            }),
        )
    }
}

impl Output {
    /// Prints a batch, with `--wait` once it is completed or stopped.
    async fn print(self, client: &Client, mut batch: DescribedBatch) -> Done {
        if self.wait {
            batch = wait(client, batch, self.quiet.progress("operating", "runs")).await?;
        }
        print_batch(&batch, self.json)
    }
}

fn print_batch(batch: &DescribedBatch, json: bool) -> Done {
    if json { print_json(batch) } else { print_text(&show(batch)) }
}

async fn wait(client: &Client, mut batch: DescribedBatch, mut progress: Progress) -> Result<DescribedBatch, Failed> {
    let client = client.clone().patience(Patience::For(RESTART_WAIT));
    while batch.status == BatchPhase::Running {
        progress.at(batch.done + batch.refused, total(&batch));
        tokio::time::sleep(READ_EVERY).await;
        batch = client.describe_batch(&batch.batch_id).await?;
    }
    Ok(batch)
}

/// Returns the estimated number of runs; `None` if there may be more.
fn total(batch: &DescribedBatch) -> Option<u64> {
    (!batch.estimate_truncated).then_some(batch.estimated_total.max(batch.examined))
}

impl BatchCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::Create(create) => create.run().await,
            Self::List { json, target } => list(json, &target).await,
            Self::Show { which, output } => {
                let client = which.target.client()?;
                let batch = client.describe_batch(&which.batch_id).await?;
                output.print(&client, batch).await
            }
            Self::Stop { which, json } => print_batch(&which.target.client()?.stop_batch(&which.batch_id).await?, json),
            Self::Resume { which, output } => {
                let client = which.target.client()?;
                let batch = client.resume_batch(&which.batch_id).await?;
                output.print(&client, batch).await
            }
            Self::Pace { which, pace, json } => {
                print_batch(&which.target.client()?.change_batch_pace(&which.batch_id, pace).await?, json)
            }
            Self::Delete { which } => Ok(which.target.client()?.delete_batch(&which.batch_id).await?),
        }
    }
}

async fn list(json: bool, target: &Target) -> Done {
    let client = target.client()?;
    let found = all_pages(async |page: Option<String>| {
        let read = client.batches(None, page.as_deref()).await?;
        Ok((read.batches, read.next_page))
    })
    .await?;
    if json {
        return print_json(&found);
    }
    print_rows(
        ["created", "status", "operation", "batch"],
        found.into_iter().map(|it| {
            let ListedBatch { batch_id, operation, status, created_at, .. } = it;
            [created_at.to_string(), status, operation, batch_id]
        }),
    )
}

fn show(it: &DescribedBatch) -> String {
    let mut lines = vec![format!("batch      {} since {}", it.batch_id, it.created_at)];
    let until = it.completed_at.map(|at| format!(" at {at}")).unwrap_or_default();
    lines.push(format!("status     {}{until}, at most {} runs a second", it.status.word(), it.pace));
    lines.push(format!("operation  {}{}", it.operation.r#type.word(), members(&it.operation, &["type"])));
    lines.push(format!("filter    {}", members(&it.filter, &[])));
    lines.extend(it.reason.iter().map(|reason| format!("reason     {reason}")));
    lines.extend(it.identity.iter().map(|identity| format!("identity   {identity}")));
    let of = total(it).map_or_else(|| format!("{} or more", it.estimated_total), |total| total.to_string());
    lines.push(format!("runs       {} of {of}: {} done, {} refused", it.done + it.refused, it.done, it.refused));
    lines.extend(it.refused_by_code.iter().map(|(code, count)| format!("refused    {count} {code}")));
    lines.extend(it.refusals.iter().map(|refusal| {
        let run = refusal.run_id.map(|run_id| format!(" run {run_id}")).unwrap_or_default();
        format!("refusal    {}{run}: {} ({})", refusal.workflow_id, refusal.reason, refusal.code)
    }));
    shown(&lines)
}

/// Formats the members of an operation or a filter, except those with names in `left_out`, each after a space.
fn members(of: &impl Serialize, left_out: &[&str]) -> String {
    let Ok(Value::Object(members)) = serde_json::to_value(of) else { return String::new() };
    let members = members.into_iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
    members
        .map(|(name, value)| match value {
            Value::String(text) => format!(" {name}={text}"),
            Value::Array(items) => format!(" {name}={} entries", items.len()),
            value => format!(" {name}={value}"),
        })
        .collect()
}
