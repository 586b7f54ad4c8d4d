//! `baton schedule …`.

use clap::{Args, Subcommand};
use client::body::{
    BackfillSchedule, CreateSchedule, DescribedSchedule, PauseSchedule, Schedule as Body, StartWorkflow,
    TriggerSchedule,
};
use history::{Duration, Interval, Overlap, ScheduleSpec, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::described::shown;
use super::options::{past, word};
use super::paged::all_pages;
use super::{Done, Failed, Target, print_json, print_line, print_rows, print_text, read_input};

#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Create a schedule
    Create(Box<Create>),
    /// List schedules, newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Show a schedule: its settings, past actions and next times
    Show {
        #[command(flatten)]
        which: ScheduleArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Pause a schedule, so that it starts no runs at its times
    Pause {
        #[command(flatten)]
        which: ScheduleArgs,
        /// Reason
        #[arg(long)]
        reason: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Resume a paused schedule
    Resume {
        #[command(flatten)]
        which: ScheduleArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Perform an action of a schedule (a start of a run) now
    Trigger {
        #[command(flatten)]
        which: ScheduleArgs,
        /// Policy if an earlier run is open [default: that of the schedule]
        #[arg(long, value_name = "POLICY", value_parser = word::<Overlap>)]
        overlap: Option<Overlap>,
        /// Idempotency key: if a request is repeated with the same key, it takes effect only once
        #[arg(long)]
        key: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Perform the actions that a schedule would have performed in a past time range
    Backfill {
        #[command(flatten)]
        which: ScheduleArgs,
        /// First instant of the range, e.g. 2026-11-01T00:00:00Z, or 7d for seven days ago
        #[arg(long, value_name = "TIME", value_parser = past)]
        from: Timestamp,
        /// Last instant of the range
        #[arg(long, value_name = "TIME", value_parser = past)]
        to: Timestamp,
        /// Policy if an earlier run is open [default: that of the schedule]
        #[arg(long, value_name = "POLICY", value_parser = word::<Overlap>)]
        overlap: Option<Overlap>,
        /// Idempotency key: if a request is repeated with the same key, it takes effect only once
        #[arg(long)]
        key: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a schedule; its runs continue
    Delete {
        #[command(flatten)]
        which: ScheduleArgs,
    },
    /// Print the next times at which a schedule starts runs
    Next {
        #[command(flatten)]
        which: ScheduleArgs,
        /// Maximum number of times to print
        #[arg(long, default_value_t = 10)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// Schedule id
    schedule_id: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub struct Create {
    /// Schedule id
    schedule_id: String,
    /// Cron expression with the fields minute, hour, day of month, month and day of week; can be repeated
    #[arg(long, value_name = "EXPRESSION")]
    cron: Vec<String>,
    /// Interval between two actions, e.g. 15m; can be repeated
    #[arg(long, value_name = "DURATION")]
    every: Vec<Duration>,
    /// Time zone of the cron expressions, e.g. Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Maximum random delay of each action
    #[arg(long, value_name = "DURATION")]
    jitter: Option<Duration>,
    /// Complete schedule as JSON in the format of the REST API: @file, or - for standard input
    #[arg(long, value_name = "JSON", conflicts_with_all = ["cron", "every", "workflow_type"])]
    from: Option<String>,
    /// Workflow type of the started runs
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "from")]
    workflow_type: Option<String>,
    /// Workflow id of the started runs, to which the time is appended [default: the schedule id]
    #[arg(long, value_name = "ID")]
    workflow_id: Option<String>,
    /// Task list of the deciders
    #[arg(long, value_name = "LIST")]
    list: Option<String>,
    /// Input of the started runs: JSON, @file, or - for standard input
    #[arg(long)]
    input: Option<String>,
    /// Policy if an earlier run is open: skip, buffer-one, buffer-all, cancel-other, terminate-other or allow-all
    #[arg(long, value_name = "POLICY", value_parser = word::<Overlap>)]
    overlap: Option<Overlap>,
    /// Maximum time after which a missed action is still performed [default: 1d]
    #[arg(long, value_name = "DURATION")]
    catch_up: Option<Duration>,
    /// Pause the schedule if a run fails or times out
    #[arg(long)]
    pause_on_failure: bool,
    /// Number of actions after which the schedule ends
    #[arg(long, value_name = "COUNT")]
    times: Option<u64>,
    /// Description of the schedule
    #[arg(long)]
    note: Option<String>,
    /// Create the schedule paused
    #[arg(long)]
    paused: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

impl Create {
    async fn run(self) -> Done {
        let schedule = match read_input(self.from.as_deref())? {
            Some(given) => serde_json::from_str(given.text().unwrap_or_default())
                .map_err(|error| Failed::Usage(format!("--from is not a schedule: {error}")))?,
            None => Body {
                spec: ScheduleSpec {
                    cron: self.cron,
                    intervals: self.every.into_iter().map(|every| Interval { every, ..Interval::default() }).collect(),
                    time_zone: self.time_zone,
                    jitter: self.jitter,
                    ..ScheduleSpec::default()
                },
                action: StartWorkflow {
                    workflow_id: self.workflow_id.unwrap_or_else(|| self.schedule_id.clone()),
                    workflow_type: self.workflow_type.unwrap_or_default(),
                    task_list: self.list,
                    input: read_input(self.input.as_deref())?,
                    ..StartWorkflow::default()
                },
                overlap: self.overlap.unwrap_or_default(),
                catch_up_window: self.catch_up,
                pause_on_failure: self.pause_on_failure,
                remaining_actions: self.times,
                note: self.note,
            },
        };
        let create = CreateSchedule { schedule_id: self.schedule_id, schedule, paused: self.paused };
        print_schedule(&self.target.client()?.create_schedule(&create, None).await?, self.json)
    }
}

impl ScheduleCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::Create(create) => create.run().await,
            Self::List { json, target } => list(json, &target).await,
            Self::Show { which, json } => {
                let shown = which.target.client()?.describe_schedule(&which.schedule_id).await?;
                print_schedule(&shown, json)
            }
            Self::Pause { which, reason, json } => {
                let client = which.target.client()?;
                print_schedule(&client.pause_schedule(&which.schedule_id, &PauseSchedule { reason }).await?, json)
            }
            Self::Resume { which, json } => {
                print_schedule(&which.target.client()?.resume_schedule(&which.schedule_id).await?, json)
            }
            Self::Trigger { which, overlap, key, json } => {
                let client = which.target.client()?;
                let trigger = TriggerSchedule { overlap };
                print_schedule(&client.trigger_schedule(&which.schedule_id, &trigger, key.as_deref()).await?, json)
            }
            Self::Backfill { which, from, to, overlap, key, json } => {
                let client = which.target.client()?;
                let backfill = BackfillSchedule { from, to, overlap };
                print_schedule(&client.backfill_schedule(&which.schedule_id, &backfill, key.as_deref()).await?, json)
            }
            Self::Delete { which } => Ok(which.target.client()?.delete_schedule(&which.schedule_id).await?),
            Self::Next { which, limit, json } => {
                let next = which.target.client()?.next_times(&which.schedule_id, limit).await?;
                if json {
                    return print_json(&next);
                }
                for at in next.times {
                    print_line(&at.to_string())?;
                }
                Ok(())
            }
        }
    }
}

async fn list(json: bool, target: &Target) -> Done {
    let client = target.client()?;
    let found = all_pages(async |page: Option<String>| {
        let read = client.schedules(None, page.as_deref()).await?;
        Ok((read.schedules, read.next_page))
    })
    .await?;
    if json {
        return print_json(&found);
    }
    print_rows(
        ["created", "status", "type", "schedule"],
        found.into_iter().map(|it| {
            let status = if it.paused { "paused" } else { "active" };
            [it.created_at.to_string(), status.to_owned(), it.workflow_type, it.schedule_id]
        }),
    )
}

fn print_schedule(schedule: &DescribedSchedule, json: bool) -> Done {
    if json { print_json(schedule) } else { print_text(&show(schedule)) }
}

fn show(it: &DescribedSchedule) -> String {
    let (schedule, spec, totals) = (&it.schedule, &it.schedule.spec, &it.totals);
    let mut lines = vec![format!("schedule   {} since {}", it.schedule_id, it.created_at)];
    lines.extend(schedule.note.iter().map(|note| format!("note       {note}")));
    let reason = it.pause_reason.clone().unwrap_or_default();
    lines.extend(it.paused_at.map(|at| format!("paused     since {at}: {reason}")));
    let action = &schedule.action;
    lines.push(format!("starts     {} as {}-<time>", action.workflow_type, action.workflow_id));
    lines.extend(settings("starts", action, &["workflowId", "workflowType"]));
    lines.extend(settings("times", spec, &["cron", "intervals"]));
    let zone = spec.time_zone.as_deref().unwrap_or("UTC");
    lines.extend(spec.cron.iter().map(|cron| format!("cron       {cron} in {zone}")));
    lines.extend(spec.intervals.iter().map(|interval| {
        let phase =
            if interval.phase == Duration::ZERO { String::new() } else { format!(", phase {}", interval.phase) };
        format!("every      {}{phase}", interval.every)
    }));
    lines.extend(settings("schedule", schedule, &["spec", "action", "note", "remainingActions"]));
    lines.extend(schedule.remaining_actions.map(|left| format!("remaining  {left} actions")));
    let (started, refused, skipped, missed) = (totals.started, totals.refused, totals.skipped, totals.missed);
    lines.push(format!("totals     {started} started, {refused} refused, {skipped} skipped, {missed} missed"));
    lines.push(format!("now        {} running, {} waiting", it.running, it.waiting));
    lines.extend(it.recent_actions.iter().map(|action| {
        let refusal = action.refusal.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
        let run = action.run_id.map(|run_id| format!("  run {run_id}")).unwrap_or_default();
        format!("action     {}  {:<8} {}{refusal}{run}", action.nominal_time, action.cause, action.outcome)
    }));
    lines.extend(it.next_times.iter().map(|at| format!("next       {at}")));
    shown(&lines)
}

/// Formats all settings except those whose names are in `shown`. Settings that later versions add are therefore shown,
/// too.
fn settings(what: &str, of: &impl Serialize, shown: &[&str]) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(of) else { return Vec::new() };
    let mut lines = Vec::new();
    for (name, value) in fields {
        match value {
            _ if shown.contains(&name.as_str()) => {}
            // An absent setting has its default value and is not shown.
            Value::Null => {}
            Value::Object(inner) if inner.is_empty() && name != "input" => {}
            Value::String(text) => lines.push(format!("{what:<10} {name} {text}")),
            value => lines.push(format!("{what:<10} {name} {value}")),
        }
    }
    lines
}
