//! `baton-bench floor`: alternates between Baton and an empty server that does only the durable round trips of a
//! workflow.

mod log;
mod server;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::failed::Failed;
use crate::load::{Load, Report};
use crate::service::{Process, Scratch, count, cpu_seconds, histogram, micros_each, micros_since, other, shown_micros};

/// Size of a request of the empty server. Our choice: about the size of an answer of a decider or a runner with a
/// payload of 100 bytes.
const BODY_BYTES: usize = 300;

/// Measure: Baton and an empty server that does only the durable round trips of a workflow, alternating
///
/// A workflow of n sequential activities takes 3 + 4 × n round trips if each task is polled and completed separately:
/// the start, and a poll and an answer for each of n + 1 turns and n activities. Here n is 3, which makes 15. The empty
/// server takes each as a POST over the service's HTTP stack, and responds when the body is in a synced log. One sync
/// serves all waiting requests.
#[derive(Debug, Args)]
pub(crate) struct Floor {
    /// Number of workflows in each round
    #[arg(long, default_value_t = 5_000)]
    workflows: u64,
    /// Maximum number of concurrent workflows
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    #[arg(long, hide = true, value_name = "DIR")]
    serve: Option<PathBuf>,
}

/// Durable round trips of a workflow of three activities.
const ROUND_TRIPS: u32 = 15;

impl Floor {
    pub(super) async fn run(self) -> Result<(), Failed> {
        if let Some(directory) = self.serve {
            return tokio::task::spawn_blocking(move || server::serve(&directory))
                .await
                .map_err(|error| other(error.to_string()))?;
        }
        println!("{} workflows of three activities, {} concurrently", self.workflows, self.concurrency);
        println!("  round  what    workflows/s   p50 ms   p99 ms  processor µs per workflow, server · all");
        let (mut floors, mut batons) = (Vec::new(), Vec::new());
        for round in 1..=self.rounds.max(1) {
            let floor = self.floor().await?;
            floor.print(round, "floor");
            floors.push(floor);
            let (report, _) = Load::of(self.workflows, self.concurrency).report().await?;
            let baton = Figures::from(&report);
            baton.print(round, "Baton");
            batons.push(baton);
        }
        let ratio = |of: fn(&Figures) -> f64| median(&batons, of) / median(&floors, of);
        println!(
            "  Baton completes {:.2} times as many workflows per second as the floor, with {:.2} times its p50 (medians)",
            ratio(|figures| figures.per_second),
            ratio(|figures| figures.p50)
        );
        Ok(())
    }
}

/// Results of one round.
struct Figures {
    per_second: f64,
    p50: f64,
    p99: f64,
    /// Processor time per workflow: first of the server, then (next field) of all processes.
    server: Option<f64>,
    all: Option<f64>,
}

impl From<&Report> for Figures {
    fn from(report: &Report) -> Self {
        Self {
            per_second: report.workflows_per_second,
            p50: report.start_to_close_ms_p50,
            p99: report.start_to_close_ms_p99,
            server: report.service_micros_per_workflow,
            all: report.micros_per_workflow,
        }
    }
}

impl Figures {
    fn print(&self, round: u32, what: &str) {
        println!(
            "  {round:>5}  {what:<6}  {:>11.0}  {:>7.2}  {:>7.2}  {} · {}",
            self.per_second,
            self.p50,
            self.p99,
            shown_micros(self.server),
            shown_micros(self.all)
        );
    }
}

/// Returns the median. Of two middle values, returns the greater one.
fn median(figures: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Floor {
    /// Runs one round of the empty server.
    async fn floor(&self) -> Result<Figures, Failed> {
        let scratch = Scratch::new(None)?;
        let address = scratch.port_file();
        let mut server = Process::start(&["floor", "--serve", &address.with_file_name("").to_string_lossy()])?;
        let url = server.url(&address).await?;
        let processors = || (server.cpu_seconds(), cpu_seconds(std::process::id()));
        let (before, began) = (processors(), Instant::now());
        let latencies = self.round_trips(&url).await?;
        let (seconds, after) = (began.elapsed().as_secs_f64(), processors());
        let micros = |now, earlier| micros_each(now, earlier, self.workflows);
        let (of_server, of_driver) = (micros(after.0, before.0), micros(after.1, before.1));
        server.stop().await;
        let ms = |quantile: f64| count(latencies.value_at_quantile(quantile)) / 1_000.0;
        Ok(Figures {
            per_second: count(self.workflows) / seconds,
            p50: ms(0.5),
            p99: ms(0.99),
            server: of_server,
            all: of_server.zip(of_driver).map(|(one, other)| one + other),
        })
    }

    /// Returns the latencies of all round trips of a workflow together, in microseconds.
    async fn round_trips(&self, url: &str) -> Result<Histogram<u64>, Failed> {
        let next = Arc::new(AtomicU64::new(0));
        let http = reqwest::Client::builder().tcp_nodelay(true).no_proxy().build();
        let http = http.map_err(|error| other(error.to_string()))?;
        let mut drivers = tokio::task::JoinSet::new();
        for _ in 0..self.concurrency.max(1) {
            let (next, http, url, workflows) = (Arc::clone(&next), http.clone(), url.to_owned(), self.workflows);
            drivers.spawn(async move {
                let mut latencies = histogram();
                while next.fetch_add(1, Ordering::Relaxed) < workflows {
                    let began = Instant::now();
                    for _ in 0..ROUND_TRIPS {
                        let answer = http.post(&url).body(vec![b'x'; BODY_BYTES]).send().await?.error_for_status()?;
                        answer.bytes().await?;
                    }
                    latencies.saturating_record(micros_since(began));
                }
                Ok::<_, reqwest::Error>(latencies)
            });
        }
        let mut all = histogram();
        while let Some(done) = drivers.join_next().await {
            let latencies =
                done.map_err(|error| other(error.to_string()))?.map_err(|error| other(error.to_string()))?;
            all.add(latencies).map_err(|error| other(error.to_string()))?;
        }
        Ok(all)
    }
}
