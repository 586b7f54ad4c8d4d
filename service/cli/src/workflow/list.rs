//! `baton workflow list`, and the filter of runs that several commands have in common.

use clap::{Args, ValueEnum};
use client::Filter;
use client::body::Listed;
use history::RunCondition;

use crate::{Done, Failed, Target, note, print_json, print_rows};

/// Order of a list of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    /// Newest start first
    NewestStart,
    /// Oldest start first
    OldestStart,
    /// Newest close first; only closed runs are listed
    NewestClose,
    /// Oldest close first; only closed runs are listed
    OldestClose,
}

impl From<OrderArg> for client::Order {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::NewestStart => Self::NewestStart,
            OrderArg::OldestStart => Self::OldestStart,
            OrderArg::NewestClose => Self::NewestClose,
            OrderArg::OldestClose => Self::OldestClose,
        }
    }
}

/// Values of `--status`: all open runs, all closed runs, the conditions of open runs, and the outcomes of closed runs.
pub(crate) const STATUSES: [&str; 14] = [
    "open",
    "closed",
    "paused",
    "blocked",
    "stuck",
    "failing",
    "retrying",
    "repeating",
    "success",
    "failed",
    "canceled",
    "timed-out",
    "terminated",
    "continued-as-new",
];

/// Outcomes of closed runs. They are also values of `--status`.
pub(crate) const OUTCOMES: [&str; 6] = ["success", "failed", "canceled", "timed-out", "terminated", "continued-as-new"];

/// Values of [`STATUSES`] that select only open runs.
const OPEN_STATUSES: [&str; 7] = ["open", "paused", "blocked", "stuck", "failing", "retrying", "repeating"];

#[derive(Debug, Args)]
pub struct ListFilters {
    /// Only runs with this status: all open or all closed runs, a condition of open runs, or an outcome of closed runs
    #[arg(long, value_parser = STATUSES)]
    status: Option<String>,
    /// Only runs of this workflow type
    #[arg(long = "type", value_name = "TYPE")]
    workflow_type: Option<String>,
    /// Only runs of this workflow id
    #[arg(long = "id", value_name = "ID")]
    workflow_id: Option<String>,
    /// Only runs whose workflow id begins with this text
    #[arg(long = "id-prefix", value_name = "BEGINNING")]
    workflow_id_prefix: Option<String>,
    /// Only runs with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only runs that closed with exactly this reason, as the list shows it
    #[arg(long)]
    reason: Option<String>,
    /// Maximum number of runs
    #[arg(long, default_value_t = 100)]
    pub(super) limit: usize,
}

impl ListFilters {
    /// Returns the filter for a list in this order.
    ///
    /// # Errors
    ///
    /// [`Failed::Usage`] for an order by close with a filter that selects only open runs. Such a list would always be
    /// empty, because an order by close lists only closed runs.
    pub(super) fn ordered(&self, order: Option<OrderArg>) -> Result<Filter, Failed> {
        let by_close = match order {
            Some(OrderArg::NewestClose) => Some("newest-close"),
            Some(OrderArg::OldestClose) => Some("oldest-close"),
            Some(OrderArg::NewestStart | OrderArg::OldestStart) | None => None,
        };
        let open = self.status.as_deref().filter(|status| OPEN_STATUSES.contains(status));
        if let Some((order, status)) = by_close.zip(open) {
            return Err(Failed::Usage(format!(
                "--order {order} lists only closed runs, and --status {status} selects open runs: omit one of \
                 them, or use --order newest-start"
            )));
        }
        Ok(Filter { order: order.map(Into::into), ..self.filter() })
    }

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

    fn filters(status: Option<&str>) -> ListFilters {
        ListFilters {
            status: status.map(str::to_owned),
            workflow_type: None,
            workflow_id: None,
            workflow_id_prefix: None,
            tag: None,
            reason: None,
            limit: 100,
        }
    }

    #[test]
    fn an_order_by_close_of_open_runs_is_refused() {
        for status in OPEN_STATUSES {
            for (order, word) in [(OrderArg::NewestClose, "newest-close"), (OrderArg::OldestClose, "oldest-close")] {
                let Err(Failed::Usage(why)) = filters(Some(status)).ordered(Some(order)) else {
                    unreachable!("{word} of {status} runs")
                };
                assert!(why.contains(&format!("--order {word} lists only closed runs")), "{why}");
                assert!(why.contains(&format!("--status {status} selects open runs")), "{why}");
            }
            assert!(filters(Some(status)).ordered(Some(OrderArg::OldestStart)).is_ok());
        }
        assert!(filters(None).ordered(Some(OrderArg::NewestClose)).is_ok());
        assert!(filters(Some("failed")).ordered(Some(OrderArg::OldestClose)).is_ok());
    }

    #[test]
    fn an_unknown_status_is_refused_with_the_known_ones() {
        use clap::Subcommand as _;
        for line in ["workflow list --status bogus", "workflow count --status bogus", "export -o - --status bogus"] {
            let program = crate::CliCommand::augment_subcommands(clap::Command::new("baton"));
            let typed = ["baton"].into_iter().chain(line.split(' '));
            let said = program.try_get_matches_from(typed).unwrap_err().to_string();
            assert!(said.contains("'bogus'") && OUTCOMES.iter().all(|word| said.contains(word)), "{line}: {said}");
        }
    }

    #[test]
    fn every_status_that_a_list_shows_can_be_selected() {
        use history::Status;
        let closed = [
            Status::Success,
            Status::Failed,
            Status::Canceled,
            Status::TimedOut,
            Status::Terminated,
            Status::ContinuedAsNew,
        ];
        let conditions = [
            RunCondition::Paused,
            RunCondition::Blocked,
            RunCondition::Stuck,
            RunCondition::Failing,
            RunCondition::Retrying,
            RunCondition::Repeating,
        ];
        let words = closed
            .map(Status::word)
            .into_iter()
            .chain(conditions.map(RunCondition::word))
            .chain([Status::Open.word(), "closed"]);
        let words: std::collections::BTreeSet<&str> = words.collect();
        assert_eq!(words, std::collections::BTreeSet::from(STATUSES));
        assert_eq!(closed.map(Status::word), OUTCOMES);
    }

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
