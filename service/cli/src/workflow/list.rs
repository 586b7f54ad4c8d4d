//! `baton workflow list`, `count` and `failures`.

use clap::Args;
use client::Filter;
use client::body::Listed;
use history::RunCondition;

use crate::paged::entries_up_to;
use crate::run_filters::{OrderArg, OtherFilters, RunFilters};
use crate::{Done, Failed, Target, note, print_json, print_line, print_rows};

/// Default number of listed runs. Our choice: a screen or two.
const RUNS_DEFAULT: usize = 100;

/// Maximum number of runs per page. Source: the maximum of the service.
const PAGE_RUNS: usize = 1_000;

#[derive(Debug, Args)]
struct ListFilters {
    #[command(flatten)]
    runs: RunFilters,
    /// Only runs that closed with exactly this reason, as the list shows it
    #[arg(long)]
    reason: Option<String>,
}

impl ListFilters {
    /// Returns the filter for a list in this order.
    ///
    /// # Errors
    ///
    /// [`Failed::Usage`] if no run can match.
    fn filter(self, order: Option<OrderArg>) -> Result<Filter, Failed> {
        let reason = self.reason.as_ref().map(|_| "--reason");
        self.runs.check(OtherFilters { order, reason, open_by_default: None })?;
        let Self { runs, reason } = self;
        Ok(Filter {
            status: runs.status,
            workflow_type: runs.workflow_type,
            workflow_id: runs.workflow_id,
            workflow_id_prefix: runs.workflow_id_prefix,
            tag: runs.tag,
            reason,
            started_from: runs.started_after,
            started_before: runs.started_before,
            closed_from: runs.closed_after,
            closed_before: runs.closed_before,
            order: order.map(Into::into),
            limit: None,
        })
    }
}

/// Arguments of `baton workflow list`.
#[derive(Debug, Args)]
pub struct ListRunsArgs {
    #[command(flatten)]
    filter: ListFilters,
    /// Order of the listed runs
    #[arg(long, value_enum)]
    order: Option<OrderArg>,
    /// Maximum number of listed runs
    #[arg(long, value_name = "COUNT", default_value_t = RUNS_DEFAULT, value_parser = at_least_one)]
    limit: usize,
    /// List all matching runs
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number of at least 1; --all lists all runs".to_owned())
}

/// Arguments of `baton workflow count`.
#[derive(Debug, Args)]
pub struct CountRunsArgs {
    #[command(flatten)]
    filter: ListFilters,
    /// Print JSON, which also contains the number of runs of each status
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Returns the status of a run as the value of `--status` that selects it.
pub(crate) fn standing(run: &Listed) -> &'static str {
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

impl ListRunsArgs {
    pub(super) async fn run(self) -> Done {
        let most = if self.all { usize::MAX } else { self.limit };
        let filter = Filter { limit: Some(most.min(PAGE_RUNS)), ..self.filter.filter(self.order)? };
        let client = self.target.client()?;
        let (found, has_more) = entries_up_to(most, async |page: Option<String>| {
            let read = client.list(&filter, page.as_deref()).await?;
            Ok((read.workflows, read.next_page))
        })
        .await?;
        if self.json {
            print_json(&found)?;
        } else {
            print_rows(
                ["started", "closed", "status", "type", "workflow id", "run id", "tags", "reason"],
                found.into_iter().map(row),
            )?;
        }
        if has_more {
            note(&format!("listed the first {most} runs; there may be more: set --limit, or use --all"));
        }
        Ok(())
    }
}

fn row(run: Listed) -> [String; 8] {
    let status = standing(&run).to_owned();
    // Each cell before the tags has a value, so that scripts can split the row at spaces.
    let closed = run.closed_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let reason = close_reason(run.reason.as_deref(), run.details_line.as_deref()).unwrap_or_default();
    let (run_id, tags) = (run.run_id.to_string(), run.tags.join(", "));
    [run.started_at.to_string(), closed, status, run.workflow_type, run.workflow_id, run_id, tags, reason]
}

impl CountRunsArgs {
    pub(super) async fn run(self) -> Done {
        let filter = self.filter.filter(None)?;
        let count = self.target.client()?.count(&filter).await?;
        if self.json {
            return print_json(&count);
        }
        print_line(&format!("{}{}", count.count, if count.truncated { " or more" } else { "" }))
    }
}

pub(super) async fn failures(json: bool, target: &Target) -> Done {
    let found = target.client()?.failures().await?;
    if json {
        return print_json(&found);
    }
    print_rows(
        ["runs", "status", "type", "first", "last", "reason"],
        found.failures.into_iter().map(|it| {
            let (first, last) = (it.first_at.to_string(), it.last_at.to_string());
            [it.runs.to_string(), it.status, it.workflow_type, first, last, it.reason.unwrap_or_default()]
        }),
    )?;
    if found.truncated {
        note("not all runs were examined; the numbers are lower bounds");
    }
    Ok(())
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
