//! `baton fsck`: checks the runs in a data directory against their histories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use engine::{Engine, Settings, SystemClock};
use serde::Serialize;
use serde_json::json;
use store_embedded::{Embedded, Options};
use uuid::Uuid;

use super::{Done, Failed, Quiet, print_json, print_line};

/// Check every stored run: its bytes are intact, its state follows from its history, and its history obeys the rules
///
/// Stop the service first.
#[derive(Debug, Args)]
pub struct Fsck {
    /// Data directory
    #[arg(long, env = "BATON_DATA_DIR", default_value = "baton-data", value_name = "DIR")]
    data_dir: PathBuf,
    /// Print JSON, also if problems are found
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    quiet: Quiet,
}

/// A run with a problem.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InvalidRun {
    domain: String,
    workflow_id: String,
    run_id: Uuid,
    problem: String,
}

/// A domain whose stored numbers of runs by status differ from the runs.
#[derive(Debug, Serialize)]
struct Miscounted {
    domain: String,
    counted: BTreeMap<String, u64>,
    listed: BTreeMap<String, u64>,
}

impl Fsck {
    pub(crate) async fn run(self) -> Done {
        let failed = |what: String| Failed::Other(1, format!("{}: {what}", self.data_dir.display()));
        if !self.data_dir.is_dir() {
            return Err(failed("the directory does not exist".to_owned()));
        }
        let options = Options { verify_all: true, ..Options::new(&self.data_dir) };
        let store = Embedded::open(options).await.map_err(|error| failed(error.to_string()))?;
        let engine = Engine::open_for_reading(store, Arc::new(SystemClock), Settings::default())
            .await
            .map_err(|refusal| failed(refusal.to_string()))?;
        let (mut invalid, mut miscounted, mut runs, mut events) = (Vec::new(), Vec::new(), 0, 0);
        for domain in engine.registry().domains().await.map_err(|refusal| failed(refusal.to_string()))? {
            let query = store::ListQuery { domain: domain.name.as_str().into(), ..store::ListQuery::default() };
            // The query has no conditions, so the store knows the number of runs without examining them.
            let total = engine.views().count(&query, u64::MAX).await.map_err(|refusal| failed(refusal.to_string()))?;
            let total = total.by_status.values().sum();
            let mut progress = self.quiet.progress(&format!("domain {}", domain.name), "runs");
            progress.at(0, Some(total));
            let say = |report: &engine::FsckReport| progress.at(report.runs, Some(total));
            let report = engine.views().fsck(&domain.name, say).await.map_err(|refusal| failed(refusal.to_string()))?;
            drop(progress);
            (runs, events) = (runs + report.runs, events + report.events);
            for engine::Finding { workflow_id, run_id, problem } in report.findings {
                let found = InvalidRun { domain: domain.name.clone(), workflow_id, run_id, problem };
                if !self.json {
                    print_line(&format!("{} {}: {}", found.workflow_id, found.run_id, found.problem))?;
                }
                invalid.push(found);
            }
            if let Some((counted, listed)) = report.miscounted {
                if !self.json {
                    let (name, counted, listed) = (&domain.name, numbers(&counted), numbers(&listed));
                    print_line(&format!("{name}: the stored counts are {counted}, but the runs are {listed}"))?;
                }
                let named = |runs: BTreeMap<Arc<str>, u64>| {
                    runs.into_iter().map(|(status, runs)| (status.to_string(), runs)).collect()
                };
                let (counted, listed) = (named(counted), named(listed));
                miscounted.push(Miscounted { domain: domain.name.clone(), counted, listed });
            }
        }
        engine.shutdown().await.map_err(|refusal| failed(refusal.to_string()))?;
        if self.json {
            let (invalid, miscounted) = (&invalid, &miscounted);
            print_json(&json!({ "runs": runs, "events": events, "invalid": invalid, "miscounted": miscounted }))?;
        }
        match (invalid.len(), miscounted.len()) {
            (0, 0) if self.json => Ok(()),
            (0, 0) => print_line(&format!("all runs are valid: {runs} runs with {events} events")),
            (0, domains) => Err(failed(format!("the stored run counts of {domains} domains are wrong"))),
            (invalid, _) => Err(failed(format!("{invalid} runs are invalid"))),
        }
    }
}

/// Formats the number of runs of each status on one line.
fn numbers(by_status: &BTreeMap<Arc<str>, u64>) -> String {
    let numbers: Vec<_> = by_status.iter().map(|(status, runs)| format!("{runs} {status}")).collect();
    if numbers.is_empty() { "no runs".to_owned() } else { numbers.join(", ") }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_of_runs_are_words() {
        let of = |numbers: &[(&str, u64)]| {
            super::numbers(&numbers.iter().map(|(word, runs)| ((*word).into(), *runs)).collect())
        };
        assert_eq!(of(&[("open", 3), ("success", 1)]), "3 open, 1 success");
        assert_eq!(of(&[]), "no runs");
    }
}
