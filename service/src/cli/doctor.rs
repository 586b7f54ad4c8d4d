//! `baton doctor`: what is wrong with a running service, and what to do about it.

mod checks;

use std::process::ExitCode;

use clap::Args;
use client::{Error, shown};
use engine::{Clock as _, SystemClock};

use self::checks::{Check, Verdict, checks};
use super::{Failed, Target, print_rows};
use crate::cli::say::note;

/// Check a running service: whether it takes work, its clock, its store, what waits and what is stuck
///
/// Exit codes: 0 all is well; 1 there are warnings; 2 something fails, or the service cannot be asked.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    target: Target,
    /// Show what is well, too
    #[arg(long)]
    all: bool,
}

impl Doctor {
    pub(super) async fn run(self) -> ExitCode {
        match self.look().await {
            Ok(verdict) => ExitCode::from(verdict.exit_code()),
            Err(failed) => {
                failed.report();
                ExitCode::from(Verdict::Failing.exit_code())
            }
        }
    }

    async fn look(&self) -> Result<Verdict, Failed> {
        let client = self.target.client()?;
        let mut found = vec![ready(client.ready().await)];
        match client.metrics().await {
            Ok(metrics) => found.extend(checks(&metrics, SystemClock.now())),
            Err(error) => found.push(Check {
                what: "metrics",
                verdict: Verdict::Failing,
                found: shown::line(&error.to_string()).into_owned(),
                advice: "give a credential that may read them: --secret-file or BATON_SECRET".to_owned(),
            }),
        }
        let worst = found.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Well);
        let rows = found.into_iter().filter(|check| self.all || check.verdict > Verdict::Well);
        let rows: Vec<_> = rows.map(Check::row).collect();
        if rows.is_empty() {
            note("all is well; --all shows what was looked at");
        } else {
            print_rows(["CHECK", "VERDICT", "FOUND", "WHAT TO DO"], rows)?;
        }
        Ok(worst)
    }
}

fn ready(answer: Result<(), Error>) -> Check {
    let (verdict, found, advice) = match answer {
        Ok(()) => (Verdict::Well, "it takes work".to_owned(), ""),
        Err(error @ Error::Refused { .. }) => {
            (Verdict::Failing, error.to_string(), "where it stops, wait for it to start again; else see its log")
        }
        Err(error) => (
            Verdict::Failing,
            error.to_string(),
            "is `baton serve` running there? --url or BATON_URL says where to look",
        ),
    };
    Check { what: "ready", verdict, found, advice: advice.to_owned() }
}
