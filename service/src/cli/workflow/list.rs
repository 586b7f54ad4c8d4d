//! `baton workflow list`, and the filter of runs that several commands share.

use clap::{Args, ValueEnum};
use client::Filter;
use client::body::Listed;
use history::RunCondition;

use crate::cli::{Done, Target, print_json, print_rows};

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
pub(crate) struct Filters {
    /// open, closed, how open ones stand (paused, blocked, stuck, failing, retrying or repeating: the first that
    /// applies), or how they closed: success, failed, canceled, timed-out, terminated or continued-as-new
    #[arg(long)]
    status: Option<String>,
    /// Of this workflow type
    #[arg(long = "type", value_name = "TYPE")]
    workflow_type: Option<String>,
    /// Of this workflow id
    #[arg(long = "id", value_name = "ID")]
    workflow_id: Option<String>,
    /// Of workflow ids that begin with this
    #[arg(long = "id-prefix", value_name = "BEGINNING")]
    workflow_id_prefix: Option<String>,
    /// With this tag
    #[arg(long)]
    tag: Option<String>,
    /// That closed with exactly this reason, as the list shows it
    #[arg(long)]
    reason: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    pub(super) limit: usize,
}

impl Filters {
    pub(super) fn filter(&self) -> Filter {
        Filter {
            status: self.status.clone(),
            workflow_type: self.workflow_type.clone(),
            workflow_id: self.workflow_id.clone(),
            workflow_id_prefix: self.workflow_id_prefix.clone(),
            tag: self.tag.clone(),
            reason: self.reason.clone(),
            closed_from: None,
            closed_before: None,
            order: None,
            limit: Some(self.limit.min(1_000)),
        }
    }
}

/// Returns the status of a run as a value of `--status`.
fn standing(run: &Listed) -> &'static str {
    let flags = [
        (run.paused, RunCondition::Paused),
        (run.blocked, RunCondition::Blocked),
        (run.stuck, RunCondition::Stuck),
        (run.failing, RunCondition::Failing),
        (run.retrying, RunCondition::Retrying),
        (run.repeating, RunCondition::Repeating),
    ];
    flags.into_iter().find(|(applies, _)| *applies).map_or(run.status.word(), |(_, standing)| standing.word())
}

/// Formats the reason and details of a run's close on one line.
pub(crate) fn close_reason(reason: Option<&str>, details: Option<&str>) -> Option<String> {
    match (reason, details) {
        (Some(reason), Some(details)) => Some(format!("{reason}: {details}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

pub(super) async fn list(filter: &Filter, most: usize, json: bool, target: &Target) -> Done {
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
        ["started", "status", "type", "workflow id", "run id", "tags", "reason"],
        found.into_iter().map(|run| {
            let (started, status) = (run.started_at.to_string(), standing(&run).to_owned());
            let reason = close_reason(run.reason.as_deref(), run.details_line.as_deref());
            let (run_id, tags) = (run.run_id.to_string(), run.tags.join(", "));
            [started, status, run.workflow_type, run.workflow_id, run_id, tags, reason.unwrap_or_default()]
        }),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_says_how_each_run_stands_in_the_word_that_finds_it() {
        for flagged in RunCondition::FLAGGED.map(RunCondition::word) {
            let mut row = json!({
                "workflowId": "w", "runId": "01890000-0000-7000-8000-000000000001", "workflowType": "t",
                "status": "open",
                "startedAt": "2026-01-01T00:00:00.000Z", "tags": [],
            });
            assert_eq!(standing(&serde_json::from_value(row.clone()).unwrap()), "open");
            row[flagged] = json!(true);
            assert_eq!(standing(&serde_json::from_value(row).unwrap()), flagged);
        }
    }
}
