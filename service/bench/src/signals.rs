//! `baton-bench signals`: the number of signals per second that one run accepts, each acknowledged when it is
//! durable.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use client::body::StartWorkflow;
use client::{Client, Page};
use hdrhistogram::Histogram;
use history::{EventKind, Payload};
use tokio::time::Instant;

use crate::failed::Failed;
use crate::service::{
    Counters, Scratch, Service, client, count, cpu_seconds, histogram, micros_each, micros_since, other, shown_micros,
};

/// Prefix of the workflow id. Each round has a separate run.
const WORKFLOW: &str = "signaled";

/// Events per page of the history.
const PAGE: usize = 1_000;

/// Measure: signals per second to one run, from many concurrent clients
///
/// Each client sends its next signal after the last one is acknowledged. At the end, the run's history must have every
/// signal exactly once.
#[derive(Debug, Args)]
pub(crate) struct Signals {
    /// Number of signals in each round
    #[arg(long = "signals", default_value_t = 100_000)]
    total: u64,
    /// Number of concurrent clients
    #[arg(long, default_value_t = 256)]
    clients: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// URL of a running service, for example over DynamoDB; by default one is started
    #[arg(long)]
    url: Option<String>,
}

impl Signals {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let scratch = Scratch::new(None)?;
        let service = match &self.url {
            Some(_) => None,
            None => Some(Service::start(&scratch).await?),
        };
        let url = self.url.as_deref().or(service.as_ref().map(|service| service.url.as_str()));
        let client = client(url.unwrap_or_default())?;
        println!("{} signals to one run from {} concurrent clients", self.total, self.clients);
        println!("  round   signals/s   p50 ms   p99 ms   signals/commit   processor µs per signal, service · both");
        for round in 1..=self.rounds.max(1) {
            let workflow = format!("{WORKFLOW}-{}-{round}", std::process::id());
            let start = StartWorkflow {
                workflow_id: workflow.clone(),
                workflow_type: "signaled".to_owned(),
                task_list: Some("bench-signals".to_owned()),
                ..StartWorkflow::default()
            };
            client.start(&start, None).await?;
            let processors = || {
                (service.as_ref().and_then(|service| service.process.cpu_seconds()), cpu_seconds(std::process::id()))
            };
            let (counted, before, began) =
                (Counters::read(std::slice::from_ref(&client)).await?, processors(), Instant::now());
            let latencies = self.send(&client, &workflow).await?;
            let (seconds, after) = (began.elapsed().as_secs_f64(), processors());
            let commits = Counters::read(std::slice::from_ref(&client)).await?.commits - counted.commits;
            self.must_all_be_there(&client, &workflow).await?;
            let micros = |now, earlier| micros_each(now, earlier, self.total);
            let (of_service, of_driver) = (micros(after.0, before.0), micros(after.1, before.1));
            println!(
                "  {round:>5}   {:>9.0}   {:>6.2}   {:>6.2}   {:>16.1}   {} · {}",
                count(self.total) / seconds,
                count(latencies.value_at_quantile(0.5)) / 1_000.0,
                count(latencies.value_at_quantile(0.99)) / 1_000.0,
                count(self.total) / count(commits.max(1)),
                shown_micros(of_service),
                shown_micros(of_service.zip(of_driver).map(|(one, other)| one + other)),
            );
        }
        if let Some(service) = service {
            service.process.stop().await;
        }
        Ok(())
    }

    /// Sends the signals and returns their latencies in microseconds.
    async fn send(&self, client: &Client, workflow: &str) -> Result<Histogram<u64>, Failed> {
        let next = Arc::new(AtomicU64::new(0));
        let mut senders = tokio::task::JoinSet::new();
        for _ in 0..self.clients.max(1) {
            let (next, client, workflow, total) = (Arc::clone(&next), client.clone(), workflow.to_owned(), self.total);
            senders.spawn(async move {
                let mut latencies = histogram();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        return Ok::<_, Failed>(latencies);
                    }
                    let began = Instant::now();
                    let input = Payload::of(&number).map_err(|error| other(error.to_string()))?;
                    client.signal(&workflow, "counted", Some(input), None).await?;
                    latencies.saturating_record(micros_since(began));
                }
            });
        }
        let mut all = histogram();
        while let Some(done) = senders.join_next().await {
            let latencies = done.map_err(|error| other(error.to_string()))??;
            all.add(latencies).map_err(|error| other(error.to_string()))?;
        }
        Ok(all)
    }

    /// Checks that each of the signals is in the history.
    async fn must_all_be_there(&self, client: &Client, workflow: &str) -> Result<(), Failed> {
        let mut seen = BTreeSet::new();
        let mut page = Page { limit: Some(PAGE), ..Page::default() };
        loop {
            let history = client.history(workflow, None, &page).await?;
            let Some(last) = history.events.last().map(|event| event.id) else {
                break;
            };
            for event in &history.events {
                if let EventKind::Signal(signal) = &event.kind {
                    let number = signal.input.as_ref().and_then(|input| input.read::<u64>().ok());
                    let number = number.ok_or_else(|| other(format!("event {} has a wrong input", event.id)))?;
                    if !seen.insert(number) {
                        return Err(other(format!("signal {number} is in the history twice")));
                    }
                }
            }
            page.after = Some(last);
        }
        if seen.len() as u64 == self.total {
            return Ok(());
        }
        Err(other(format!("the history has {} of {} acknowledged signals", seen.len(), self.total)))
    }
}
