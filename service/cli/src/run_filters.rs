//! Filters of runs, and the order of a list of runs, as options.

use clap::{Args, ValueEnum};
use history::Timestamp;

use super::Failed;
use super::options::past;

/// Values of `--status`: all open runs, all closed runs, the conditions of open runs, and the outcomes of closed runs.
pub(super) const STATUSES: [&str; 14] = [
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
pub(super) const OUTCOMES: [&str; 6] = ["success", "failed", "canceled", "timed-out", "terminated", "continued-as-new"];

/// Values of [`STATUSES`] that select only open runs.
const OPEN_STATUSES: [&str; 7] = ["open", "paused", "blocked", "stuck", "failing", "retrying", "repeating"];

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

impl OrderArg {
    /// Returns the option with this value, if the order is by close.
    fn by_close(self) -> Option<&'static str> {
        match self {
            Self::NewestClose => Some("--order newest-close"),
            Self::OldestClose => Some("--order oldest-close"),
            Self::NewestStart | Self::OldestStart => None,
        }
    }
}

/// Filters of runs that lists and batches have in common. A run must match all given filters.
#[derive(Debug, Default, Args)]
pub(super) struct RunFilters {
    /// Only runs with this status: all open or all closed runs, a condition of open runs, or an outcome of closed runs
    #[arg(long, value_parser = STATUSES)]
    pub(super) status: Option<String>,
    /// Only runs of this workflow type
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) workflow_type: Option<String>,
    /// Only runs of this workflow id
    #[arg(long = "id", value_name = "ID")]
    pub(super) workflow_id: Option<String>,
    /// Only runs whose workflow id begins with this text
    #[arg(long = "id-prefix", value_name = "BEGINNING")]
    pub(super) workflow_id_prefix: Option<String>,
    /// Only runs with this tag
    #[arg(long)]
    pub(super) tag: Option<String>,
    /// Only runs that started at or after this time, e.g. 2026-11-01T00:00:00Z, or 2h for two hours ago
    #[arg(long, value_name = "TIME", alias = "started-from", value_parser = past)]
    pub(super) started_after: Option<Timestamp>,
    /// Only runs that started before this time
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub(super) started_before: Option<Timestamp>,
    /// Only runs that closed at or after this time
    #[arg(long, value_name = "TIME", alias = "closed-from", value_parser = past)]
    pub(super) closed_after: Option<Timestamp>,
    /// Only runs that closed before this time
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub(super) closed_before: Option<Timestamp>,
}

/// Further options that select runs, next to [`RunFilters`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OtherFilters<'a> {
    pub(super) order: Option<OrderArg>,
    /// Name of the option that selects the reason of the close, if it was given.
    pub(super) reason: Option<&'static str>,
    /// Name of the operation, if it selects open runs unless the status is given.
    pub(super) open_by_default: Option<&'a str>,
}

impl RunFilters {
    /// Checks that a run can match all filters.
    ///
    /// # Errors
    ///
    /// [`Failed::Usage`] if no run can match: for an empty range of times, and if one option selects open runs and
    /// another one closed runs.
    pub(super) fn check(&self, others: OtherFilters<'_>) -> Result<(), Failed> {
        let OtherFilters { order, reason, open_by_default } = others;
        check_range(("--started-after", self.started_after), ("--started-before", self.started_before))?;
        check_range(("--closed-after", self.closed_after), ("--closed-before", self.closed_before))?;
        let closed = [
            order.and_then(OrderArg::by_close),
            self.closed_after.map(|_| "--closed-after"),
            self.closed_before.map(|_| "--closed-before"),
            reason,
        ];
        let open = match self.status.as_deref() {
            Some(status) => OPEN_STATUSES.contains(&status).then(|| format!("--status {status}")),
            None => open_by_default.map(|operation| format!("`{operation}`")),
        };
        match closed.into_iter().flatten().next().zip(open) {
            Some((option, open)) => Err(Failed::Usage(format!(
                "{option} selects closed runs, and {open} selects open runs: omit {option}, or select other runs"
            ))),
            None => Ok(()),
        }
    }
}

fn check_range(
    (after_option, after): (&str, Option<Timestamp>),
    (before_option, before): (&str, Option<Timestamp>),
) -> Result<(), Failed> {
    match after.zip(before) {
        Some((after, before)) if after >= before => Err(Failed::Usage(format!(
            "{after_option} is {after}, and {before_option} is {before}: expected {before_option} to be later"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(order: Option<OrderArg>, reason: Option<&'static str>) -> OtherFilters<'static> {
        OtherFilters { order, reason, open_by_default: None }
    }

    fn refusal(filters: &RunFilters, others: OtherFilters<'_>) -> String {
        match filters.check(others) {
            Err(Failed::Usage(why)) => why,
            other => unreachable!("{filters:?}: {other:?}"),
        }
    }

    #[test]
    fn open_runs_with_an_option_for_closed_runs_are_refused() {
        let at = Some(Timestamp::from_millis(1));
        for status in OPEN_STATUSES {
            let open = || RunFilters { status: Some(status.to_owned()), ..RunFilters::default() };
            let closed_after = RunFilters { closed_after: at, ..open() };
            let closed_before = RunFilters { closed_before: at, ..open() };
            for (said, option) in [
                (refusal(&open(), others(Some(OrderArg::NewestClose), None)), "--order newest-close"),
                (refusal(&open(), others(Some(OrderArg::OldestClose), None)), "--order oldest-close"),
                (refusal(&open(), others(None, Some("--reason"))), "--reason"),
                (refusal(&closed_after, OtherFilters::default()), "--closed-after"),
                (refusal(&closed_before, OtherFilters::default()), "--closed-before"),
            ] {
                let expected = format!("{option} selects closed runs, and --status {status} selects open runs");
                assert!(said.contains(&expected), "{said}");
            }
            assert!(open().check(others(Some(OrderArg::OldestStart), None)).is_ok());
        }
        assert!(RunFilters::default().check(others(Some(OrderArg::NewestClose), Some("--reason"))).is_ok());
        let failed = RunFilters { status: Some("failed".to_owned()), closed_after: at, ..RunFilters::default() };
        assert!(failed.check(others(Some(OrderArg::OldestClose), Some("--reason"))).is_ok());
        let cancel = OtherFilters { open_by_default: Some("cancel"), ..OtherFilters::default() };
        assert!(failed.check(cancel).is_ok());
        let said = refusal(&RunFilters { status: None, ..failed }, cancel);
        assert!(said.contains("--closed-after selects closed runs, and `cancel` selects open runs"), "{said}");
    }

    #[test]
    fn every_filter_of_the_rest_api_is_an_option() {
        use clap::Subcommand as _;
        let document: serde_json::Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
        let call = &document["paths"]["/v1/domains/{domain}/workflows"]["get"]["parameters"];
        let parameters = call.as_array().unwrap().iter().filter(|parameter| parameter["in"] == "query");
        let mut program = crate::CliCommand::augment_subcommands(clap::Command::new("baton"));
        let list = program.find_subcommand_mut("workflow").and_then(|it| it.find_subcommand_mut("list")).unwrap();
        let mut count = 0;
        for parameter in parameters.map(|parameter| parameter["name"].as_str().unwrap()) {
            let option = match parameter {
                "workflowId" => "id",
                "workflowIdPrefix" => "id-prefix",
                "startedFrom" => "started-after",
                "startedBefore" => "started-before",
                "closedFrom" => "closed-after",
                "closedBefore" => "closed-before",
                // The command reads the pages itself.
                "page" => "all",
                same => same,
            };
            assert!(list.get_arguments().any(|it| it.get_long() == Some(option)), "--{option} for `{parameter}`");
            count += 1;
        }
        assert!(count > 10, "{count}");
    }

    #[test]
    fn an_empty_range_of_times_is_refused_with_both_times() {
        let at = |millis| Some(Timestamp::from_millis(millis));
        for (after, before, is_good) in [(2, 1, false), (1, 1, false), (1, 2, true)] {
            let started = RunFilters { started_after: at(after), started_before: at(before), ..RunFilters::default() };
            let closed = RunFilters { closed_after: at(after), closed_before: at(before), ..RunFilters::default() };
            for (filters, name) in [(started, "started"), (closed, "closed")] {
                if is_good {
                    assert!(filters.check(OtherFilters::default()).is_ok());
                    continue;
                }
                let said = refusal(&filters, OtherFilters::default());
                let times = [after, before].map(|millis| Timestamp::from_millis(millis).to_string());
                let expected = format!("--{name}-after is {}, and --{name}-before is {}", times[0], times[1]);
                assert!(said.contains(&expected), "{said}");
            }
        }
    }

    #[test]
    fn an_unknown_status_is_refused_with_the_known_ones() {
        use clap::Subcommand as _;
        for line in [
            "workflow list --status bogus",
            "workflow count --status bogus",
            "batch create cancel --status bogus",
            "export -o - --status bogus",
        ] {
            let program = crate::CliCommand::augment_subcommands(clap::Command::new("baton"));
            let typed = ["baton"].into_iter().chain(line.split(' '));
            let said = program.try_get_matches_from(typed).unwrap_err().to_string();
            assert!(said.contains("'bogus'") && OUTCOMES.iter().all(|word| said.contains(word)), "{line}: {said}");
        }
    }

    #[test]
    fn every_status_that_a_list_shows_can_be_selected() {
        use history::{RunCondition, Status};
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
}
