//! `baton clock …`.

use clap::{Args, Subcommand};
use client::body::{LateDeadline, LateRun, LateRuns, OperatorAction, RepairedDeadlines};
use client::{Client, Filter};

use super::options::AlwaysJson;
use super::progress::{Progress, Quiet};
use super::{Done, Failed, Identity, Target, note, print_json, print_json_line, print_line, print_rows};

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Confirm that the clock is right although it has jumped; the service then deletes expired runs again and stops
    /// its warnings
    Confirm {
        #[command(flatten)]
        json: AlwaysJson,
        #[command(flatten)]
        target: Target,
    },
    /// List open runs with deadlines that are too late because they were set while the clock was ahead
    ///
    /// Examines every open run. Use this command soon: a deadline is listed only until the clock reaches the time that
    /// it showed when the deadline was set.
    Show {
        #[command(flatten)]
        scope: Scope,
        /// Print JSON, one run per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        quiet: Quiet,
        #[command(flatten)]
        target: Target,
    },
    /// Repair deadlines that are too late because they were set while the clock was ahead
    ///
    /// The whole duration of a repaired timer, timeout or retry begins now. The service refuses this command until its
    /// clock is right: correct the clock, then run `baton clock confirm`. If you repeat this command, it does not
    /// change repaired deadlines again.
    Repair {
        #[command(flatten)]
        scope: Scope,
        /// Print what would be repaired, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Reason, which the histories record
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        who: Identity,
        /// Print JSON, one run per line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        quiet: Quiet,
        #[command(flatten)]
        target: Target,
    },
}

/// Selection of runs, as arguments.
#[derive(Debug, Args)]
pub struct Scope {
    /// Only the run of this workflow id
    #[arg(long, value_name = "ID", conflicts_with = "all_domains")]
    workflow: Option<String>,
    /// Runs of all domains, not only of the domain of --domain
    #[arg(long)]
    all_domains: bool,
}

impl Scope {
    async fn clients(&self, target: &Target) -> Result<Vec<(String, Client)>, Failed> {
        let client = target.client()?;
        if !self.all_domains {
            return Ok(vec![(target.domain().to_owned(), client)]);
        }
        let domains = client.domains().await?.into_iter();
        Ok(domains.map(|domain| (domain.name.clone(), client.clone().domain(&domain.name))).collect())
    }
}

/// Search through the open runs of a domain, page by page.
struct Search<'a> {
    client: &'a Client,
    workflow: Option<&'a str>,
    progress: Progress,
    examined: u64,
    total: Option<u64>,
    page: Option<String>,
    is_over: bool,
}

impl<'a> Search<'a> {
    async fn of(scope: &'a Scope, domain: &str, client: &'a Client, quiet: Quiet) -> Result<Self, Failed> {
        let workflow = scope.workflow.as_deref();
        let open = Filter { status: Some("open".to_owned()), ..Filter::default() };
        let total = if workflow.is_none() { Some(client.count(&open).await?.count) } else { None };
        let progress = quiet.progress(&format!("domain {domain}"), "open runs");
        Ok(Self { client, workflow, progress, examined: 0, total, page: None, is_over: false })
    }

    async fn next(&mut self) -> Result<Option<LateRuns>, Failed> {
        if self.is_over {
            return Ok(None);
        }
        let mut read = self.client.late_runs(self.workflow, self.page.as_deref()).await?;
        self.examined += read.examined;
        self.progress.at(self.examined, self.total.map(|total| total.max(self.examined)));
        self.page = read.next_page.take();
        self.is_over = self.page.is_none();
        Ok(Some(read))
    }
}

impl ClockCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::Confirm { target, json: _ } => print_json(&target.client()?.confirm_clock().await?),
            Self::Show { scope, json, quiet, target } => {
                let late = show(&scope, json, quiet, &target).await?;
                if !json {
                    note(&format!("{late} are too late"));
                }
                Ok(())
            }
            Self::Repair { scope, dry_run: true, json, quiet, target, .. } => {
                let late = show(&scope, json, quiet, &target).await?;
                if json { Ok(()) } else { print_line(&format!("{late} would be repaired")) }
            }
            Self::Repair { scope, reason, who, json, quiet, target, .. } => {
                let operator = OperatorAction { identity: Some(who.identity()), reason };
                let repaired = repair(&scope, &operator, json, quiet, &target).await?;
                if json { Ok(()) } else { print_line(&format!("{repaired} were repaired")) }
            }
        }
    }
}

/// Result of a search: number of deadlines that are too late, number of runs with such deadlines, and number of
/// examined runs.
#[derive(Debug, Default)]
struct Found {
    deadlines: usize,
    runs: usize,
    examined: u64,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { deadlines, runs, examined } = self;
        write!(f, "{deadlines} deadlines in {runs} of {examined} open runs")
    }
}

async fn show(scope: &Scope, json: bool, quiet: Quiet, target: &Target) -> Result<Found, Failed> {
    let (mut found, mut rows, mut doubt) = (Found::default(), Vec::new(), None);
    for (domain, client) in scope.clients(target).await? {
        let mut search = Search::of(scope, &domain, &client, quiet).await?;
        while let Some(page) = search.next().await? {
            doubt = page.clock_problem.or(doubt);
            for late in page.runs {
                found.runs += 1;
                found.deadlines += late.deadlines.len();
                if json {
                    print_json_line(&late)?;
                } else {
                    rows.extend(rows_of(&domain, &late));
                }
            }
        }
        found.examined += search.examined;
    }
    if !rows.is_empty() {
        print_rows(["domain", "workflow id", "run id", "deadline", "due", "repaired"], rows)?;
    }
    if let Some(doubt) = doubt {
        note(&format!("the service's clock may be wrong: {doubt}. Before repairs, run `baton clock confirm`"));
    }
    Ok(found)
}

fn rows_of(domain: &str, late: &LateRun) -> Vec<[String; 6]> {
    let run = [domain.to_owned(), late.workflow_id.clone(), late.run_id.to_string()];
    let row = |it: &LateDeadline| {
        let [domain, workflow_id, run_id] = run.clone();
        [domain, workflow_id, run_id, named(it), it.at.to_string(), it.repaired_at.to_string()]
    };
    late.deadlines.iter().map(row).collect()
}

fn named(it: &LateDeadline) -> String {
    it.name.as_ref().map_or_else(|| it.kind.clone(), |name| format!("{} {name}", it.kind))
}

async fn repair(
    scope: &Scope,
    operator: &OperatorAction,
    json: bool,
    quiet: Quiet,
    target: &Target,
) -> Result<Found, Failed> {
    let mut found = Found::default();
    for (domain, client) in scope.clients(target).await? {
        let mut search = Search::of(scope, &domain, &client, quiet).await?;
        while let Some(page) = search.next().await? {
            for late in page.runs {
                match client.repair_deadlines(&late.workflow_id, Some(late.run_id), operator).await {
                    Ok(repaired) => {
                        found.runs += usize::from(repaired.event_id.is_some());
                        found.deadlines += repaired.deadlines.len();
                        if json {
                            print_json_line(&repaired)?;
                        } else {
                            print_line(&told(&domain, &repaired))?;
                        }
                    }
                    // The run was closed after the page with it had been read.
                    Err(error) if error.is_task_lost() || error.code() == Some("run-not-current") => {}
                    Err(error) => {
                        note(&format!("{found} were repaired; repeat the command to repair the rest"));
                        return Err(error.into());
                    }
                }
            }
        }
        found.examined += search.examined;
    }
    Ok(found)
}

fn told(domain: &str, repaired: &RepairedDeadlines) -> String {
    let deadlines: Vec<_> =
        repaired.deadlines.iter().map(|it| format!("{} at {}", named(it), it.repaired_at)).collect();
    format!("{domain} {} {}: {}", repaired.workflow_id, repaired.run_id, deadlines.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn late_deadlines_are_told_with_when_they_are_due() {
        let deadlines = json!([
            { "kind": "timer", "name": "t", "at": "2026-01-03T00:00:00.000Z",
            "repairedAt": "2026-01-01T00:00:01.000Z" },
            { "kind": "run", "at": "2026-01-03T00:00:00.000Z", "repairedAt": "2026-01-01T00:00:02.000Z" },
        ]);
        let run_id = "01890000-0000-7000-8000-000000000001";
        let run = json!({ "workflowId": "w", "runId": run_id, "workflowType": "t", "deadlines": deadlines });
        let rows = rows_of("default", &serde_json::from_value(run.clone()).unwrap());
        let (due, repaired) = ("2026-01-03T00:00:00.000Z", "2026-01-01T00:00:01.000Z");
        assert_eq!(rows[0], ["default", "w", run_id, "timer t", due, repaired]);
        assert_eq!(rows[1][3], "run");
        let told = told("default", &serde_json::from_value(run).unwrap());
        let expected = format!("default w {run_id}: timer t at {repaired}, run at 2026-01-01T00:00:02.000Z");
        assert_eq!(told, expected);
    }
}
