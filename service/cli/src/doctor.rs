//! `baton doctor`: checks a running service for problems and recommends actions.

mod checks;

use std::process::ExitCode;

use clap::Args;
use client::Error;
use client::body::{Readiness, ReadinessWarning};
use engine::{Clock as _, SystemClock};
use serde_json::json;
use tables::escape;

use self::checks::{Check, Verdict, checks, well};
use super::{Failed, Target, print_json, print_rows};
use crate::advice;
use crate::report::report;
use crate::say::note;

/// Check a running service: readiness, store, disk, clock, waiting tasks, stuck runs and nodes
///
/// Exit codes: 0 no problems; 1 warnings; 2 failures, or the service cannot be reached.
#[derive(Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    target: Target,
    /// Also print checks without problems
    #[arg(long)]
    all: bool,
    /// Print JSON, which also includes checks without problems
    #[arg(long)]
    json: bool,
    /// Check only readiness, which needs no credential; for health checks of containers
    #[arg(long)]
    ready: bool,
}

impl Doctor {
    pub(crate) async fn run(self) -> ExitCode {
        match self.look().await {
            Ok(verdict) => ExitCode::from(verdict.exit_code()),
            Err(failed) => {
                report(&failed);
                ExitCode::from(Verdict::Failing.exit_code())
            }
        }
    }

    async fn look(&self) -> Result<Verdict, Failed> {
        let client = self.target.client()?;
        let mut found = of_readiness(client.ready().await)?;
        if self.ready {
            found.retain(|check| matches!(check.what, "ready" | NOT_REACHED));
        }
        // The metrics are requested only if the request for readiness has reached the service.
        if !self.ready && !found.iter().any(|check| check.what == NOT_REACHED) {
            let measured = match client.metrics().await {
                Ok(metrics) => checks(&metrics, SystemClock.now()),
                Err(error) => vec![unmeasured(&error)],
            };
            let is_new = |check: &Check| !found.iter().any(|told| told.what == check.what);
            let measured: Vec<_> = measured.into_iter().filter(is_new).collect();
            found.extend(measured);
        }
        let worst = found.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Well);
        if self.json {
            print_json(&json!({ "verdict": worst, "checks": found }))?;
            return Ok(worst);
        }
        let rows = found.into_iter().filter(|check| self.all || check.verdict > Verdict::Well);
        let rows: Vec<_> = rows.map(Check::row).collect();
        if rows.is_empty() {
            note(if self.ready { "the service is ready" } else { "no problems found; --all lists all checks" });
        } else {
            print_rows(["CHECK", "VERDICT", "FOUND", "WHAT TO DO"], rows)?;
        }
        Ok(worst)
    }
}

/// Name of the check that fails if the service cannot be reached. No other checks are made in this case.
const NOT_REACHED: &str = "reach";

/// Converts the response of `/readyz`, or the failure of the request, to checks.
fn of_readiness(answer: Result<Readiness, Error>) -> Result<Vec<Check>, Failed> {
    match answer {
        Ok(Readiness { warnings, .. }) => {
            let mut found = vec![well("ready", "the service is ready".to_owned())];
            found.extend(warnings.into_iter().map(of_warning));
            if !found.iter().any(|check| check.what == "store") {
                found.push(well("store", "reachable".to_owned()));
            }
            Ok(found)
        }
        Err(Error::Refused { problem, .. }) => Ok(vec![Check {
            what: "ready",
            verdict: Verdict::Failing,
            found: said(&format!("{} ({})", problem.detail, problem.code)),
            advice: "if the service is stopping, wait until it has restarted; otherwise see its log".to_owned(),
        }]),
        Err(Error::Setup { what }) => Err(Failed::Usage(what)),
        Err(error) => Ok(vec![not_reached(&error)]),
    }
}

fn said(text: &str) -> String {
    escape::line(text).into_owned()
}

fn of_warning(ReadinessWarning { code, detail, advice }: ReadinessWarning) -> Check {
    let (what, verdict) = match code.as_str() {
        "store-failing" => ("store", Verdict::Failing),
        "disk-full" | "disk-low" => ("disk", Verdict::Failing),
        "clock-suspect" => ("retention", Verdict::Failing),
        "clock-behind" | "clock-jumped" | "clock-skew" => ("clock", Verdict::Failing),
        "tzdata-mismatch" => ("zones", Verdict::Warning),
        "reload-failed" => ("files", Verdict::Warning),
        "archive-behind" => ("archive", Verdict::Warning),
        // A newer service may report codes that this program does not know.
        _ => ("service", Verdict::Warning),
    };
    Check { what, verdict, found: said(&detail), advice: said(&advice) }
}

fn not_reached(error: &Error) -> Check {
    let advice = match error {
        Error::Insecure { problem, .. } => advice::of_tls(problem),
        Error::Unexpected { .. } => "check --url or BATON_URL: another program or an incompatible service answered",
        _ => "check that `baton serve` is running there, or correct --url or BATON_URL",
    };
    Check { what: NOT_REACHED, verdict: Verdict::Failing, found: said(&error.to_string()), advice: advice.to_owned() }
}

/// Returns the check to report if the service can be reached but its metrics could not be read.
fn unmeasured(error: &Error) -> Check {
    let Error::Refused { problem, .. } = error else { return not_reached(error) };
    let (found, advice) = (format!("{} ({})", problem.detail, problem.code), advice::advice(problem));
    Check { what: "metrics", verdict: Verdict::Failing, found: said(&found), advice: said(&advice) }
}
