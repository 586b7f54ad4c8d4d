//! `baton-bench fair`: by how much a domain under full load slows down another.

mod within;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use client::Client;
use client::body::{CreateDomain, StartWorkflow};
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::failed::Failed;
use crate::service::{Counters, Process, Scratch, Service, client, histogram, micros_since, other};
use within::{QuietLog, Took};

const QUIET: &str = "quiet";

const LOUD: &str = "loud";

/// A task list without pollers.
const LIST: &str = "bench-fair";

/// Quantile of the quiet domain's requests that is compared.
const QUANTILE: f64 = 0.99;

/// Maximum ratio of the quiet domain's p99 with and without the loud domain. Source: the project's goal.
const RATIO_MAX: f64 = 1.2;

/// Time for which the loud domain is under load before the measurement.
const WARM: Duration = Duration::from_secs(2);

/// Niceness of the loud clients' process, because it shares processors with the service.
const NICE: i32 = 10;

/// Measure: a quiet domain alone and next to a domain under full load, alternating
#[derive(Debug, Args)]
pub(super) struct Fair {
    /// Number of clients of the quiet domain
    #[arg(long, default_value_t = 4)]
    quiet: usize,
    /// Requests per second of each of these clients
    #[arg(long, default_value_t = 25)]
    rate: u64,
    /// Number of clients of the loud domain, each with one request at a time
    #[arg(long, default_value_t = 64)]
    loud: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Run the clients of the loud domain
    #[arg(long, hide = true, value_name = "URL")]
    loud_of: Option<String>,
}

fn start(id: String) -> StartWorkflow {
    StartWorkflow {
        workflow_id: id,
        workflow_type: "bench-fair".to_owned(),
        task_list: Some(LIST.to_owned()),
        ..StartWorkflow::default()
    }
}

impl Fair {
    pub(super) async fn run(self) -> Result<(), Failed> {
        if let Some(url) = &self.loud_of {
            return self.be_loud(url).await;
        }
        let (mut alone, mut beside, mut loud) = (Took::new(), Took::new(), 0);
        for round in 1..=self.rounds {
            loud += self.round(round, &mut alone, &mut beside).await?;
        }
        self.report(&alone, &beside, loud);
        Ok(())
    }

    /// Measures one round, and returns the number of starts of the loud domain. Each round has a new service, because
    /// cleanup after the loud domain would slow down the next measurement of the quiet domain without the loud domain.
    async fn round(&self, round: u32, alone: &mut Took, beside: &mut Took) -> Result<u64, Failed> {
        let scratch = Scratch::new(None)?;
        let mut log = QuietLog::at(scratch.file("access.jsonl"));
        let service = Service::start_with(&scratch, &["--access-log", &log.path()]).await?;
        let all = client(&service.url)?;
        for name in [QUIET, LOUD] {
            let (name, tags) = (name.to_owned(), BTreeMap::new());
            all.create_domain(&CreateDomain { name, description: None, retention: None, tags }).await?;
        }
        eprintln!("round {round} of {}: without load", self.rounds);
        log.skip().await?;
        let count = self.measure(&all, "alone", &mut alone.clients).await?;
        log.read(QUIET, count, &mut alone.within).await?;
        eprintln!("round {round} of {}: with {} clients under full load", self.rounds, self.loud);
        let clients = self.loud.to_string();
        let loud_of = Process::start(&["fair", "--loud-of", &service.url, "--loud", &clients])?;
        tokio::time::sleep(WARM).await;
        let before = Counters::read(std::slice::from_ref(&all)).await?.commits;
        log.skip().await?;
        let quiet = self.measure(&all, "beside", &mut beside.clients).await?;
        log.read(QUIET, quiet, &mut beside.within).await?;
        let after = Counters::read(std::slice::from_ref(&all)).await?.commits;
        loud_of.stop().await;
        service.process.stop().await;
        Ok(after.saturating_sub(before).saturating_sub(quiet))
    }

    /// Sends the quiet domain's requests at a fixed rate, and returns their number.
    async fn measure(&self, all: &Client, name: &str, latencies: &mut Histogram<u64>) -> Result<u64, Failed> {
        let every = Duration::from_secs(1) / u32::try_from(self.rate.max(1)).unwrap_or(u32::MAX);
        let count = self.rate.max(1) * self.seconds.max(1);
        let mut clients = JoinSet::new();
        for number in 0..self.quiet.max(1) {
            let (client, name) = (all.clone().domain(QUIET), format!("{name}-{number}"));
            clients.spawn(async move {
                let mut ticks = tokio::time::interval(every);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
                let mut latencies = histogram();
                for request in 0..count {
                    // The latency begins when the request is due, so it includes a delay caused by the previous
                    // request.
                    let due = ticks.tick().await;
                    client.start(&start(format!("{name}-{request}")), None).await?;
                    latencies.saturating_record(micros_since(due));
                }
                Ok::<_, Failed>(latencies)
            });
        }
        while let Some(done) = clients.join_next().await {
            let found = done.map_err(|error| other(error.to_string()))??;
            latencies.add(found).map_err(|error| other(error.to_string()))?;
        }
        Ok(count * self.quiet.max(1) as u64)
    }

    async fn be_loud(&self, url: &str) -> Result<(), Failed> {
        // The loud clients get a low priority, because in production they would have separate processors.
        let niced = rustix::process::nice(NICE);
        niced.map_err(|error| other(format!("cannot lower the priority of the loud clients' process: {error}")))?;
        let next = Arc::new(AtomicU64::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..self.loud.max(1) {
            let (client, next) = (client(url)?.domain(LOUD), Arc::clone(&next));
            let process = std::process::id();
            clients.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = client.start(&start(format!("{process}-{number}")), None).await {
                        return Failed::from(error);
                    }
                }
            });
        }
        match clients.join_next().await {
            Some(Ok(failed)) => Err(failed),
            Some(Err(error)) => Err(other(error.to_string())),
            None => Ok(()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
    fn report(&self, alone: &Took, beside: &Took, loud: u64) {
        let ms = |latencies: &Histogram<u64>, quantile| latencies.value_at_quantile(quantile) as f64 / 1_000.0;
        let seconds = (u64::from(self.rounds.max(1)) * self.seconds.max(1)) as f64;
        let rate = self.rate.max(1) * self.quiet.max(1) as u64;
        println!(
            "quiet domain: {rate} starts per second of {} clients; loud domain: {} clients",
            self.quiet, self.loud
        );
        println!("  {:>10.0}  starts per second of the loud domain", loud as f64 / seconds);
        for (who, alone, beside) in [
            (
                "at its clients, from the due time of a request until its response is read",
                &alone.clients,
                &beside.clients,
            ),
            (
                "in the service, from the head of a request until its response is passed to the connection",
                &alone.within,
                &beside.within,
            ),
        ] {
            println!("{who}:");
            for (what, latencies) in [("without load", alone), ("under load", beside)] {
                println!("  {:>10.2}  ms p50 {what}", ms(latencies, 0.5));
                println!("  {:>10.2}  ms p99 {what}, of {} requests", ms(latencies, QUANTILE), latencies.len());
            }
            let ratio = ms(beside, QUANTILE) / ms(alone, QUANTILE).max(f64::MIN_POSITIVE);
            let is_met = if ratio <= RATIO_MAX { "met" } else { "missed" };
            println!(
                "  {ratio:>10.2}  p99 under load / p99 without load; the goal (at most {RATIO_MAX:.2}) is {is_met}"
            );
        }
    }
}
