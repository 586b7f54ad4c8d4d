//! `baton fsck`: checks the runs in a data directory against their histories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use engine::{Engine, Settings, SystemClock};
use store_embedded::{Embedded, Options};

use super::{Done, Failed, Quiet, print_line};

/// Check every stored run: its bytes are intact, its state follows from its history, and its history obeys the rules
///
/// Stop the service first.
#[derive(Debug, Args)]
pub struct Fsck {
    /// Data directory
    #[arg(long, env = "BATON_DATA_DIR", default_value = "baton-data", value_name = "DIR")]
    data_dir: PathBuf,
    #[command(flatten)]
    quiet: Quiet,
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
        let (mut broken, mut miscounted, mut runs, mut events) = (0, 0, 0, 0);
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
            for finding in &report.findings {
                print_line(&format!("{} {}: {}", finding.workflow_id, finding.run_id, finding.problem))?;
            }
            (runs, events) = (runs + report.runs, events + report.events);
            broken += report.findings.len();
            if let Some((counted, listed)) = &report.miscounted {
                miscounted += 1;
                let (name, counted, listed) = (&domain.name, numbers(counted), numbers(listed));
                print_line(&format!("{name}: the stored counts are {counted}, but the runs are {listed}"))?;
            }
        }
        engine.shutdown().await.map_err(|refusal| failed(refusal.to_string()))?;
        match (broken, miscounted) {
            (0, 0) => print_line(&format!("all runs are valid: {runs} runs with {events} events")),
            (0, domains) => Err(failed(format!("the stored run counts of {domains} domains are wrong"))),
            (broken, _) => Err(failed(format!("{broken} runs are invalid"))),
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
