//! `baton-bench queries`: costs of queries and updates compared with a turn, and of idle watchers.

use std::time::Duration;

use clap::Args;
use client::body::{StartWorkflow, UpdateWorkflow};
use client::{Client, Tag, Watch};
use decider_kit::{
    Decider, Decisions, Event, EventKind, Host, Payload, Query, QueryError, Rejection, Update, Verdict, Window,
};
use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::turns::measured_turn;
use crate::failed::Failed;
use crate::service::{Counters, Scratch, Service, client, histogram, micros_since, other};

const LIST: &str = "bench-queries";

const WORKFLOW: &str = "asked";

/// Maximum time of a query, and the wait of a watcher.
const WAIT: Duration = Duration::from_secs(60);

/// Measure: signal with query, and updates, compared with one turn; queries of an idle run, and waiting watchers
#[derive(Debug, Args)]
pub(crate) struct Queries {
    /// Number of requests of each kind
    #[arg(long, default_value_t = 1_000)]
    rounds: u64,
    /// Number of watchers of one run, each on a separate connection
    #[arg(long, default_value_t = 1_000)]
    watchers: u64,
    /// Seconds for which the watchers wait
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

/// A workflow that counts signals.
struct Count;

impl Decider for Count {
    type State = u64;

    fn evolve(&self, count: &mut u64, event: &Event) {
        *count += u64::from(matches!(event.kind, EventKind::Signal(_)));
    }

    fn decide(&self, _: &u64, _: &Window) -> Decisions {
        Decisions::new().awaiting(["more"])
    }

    fn query(&self, count: &u64, query: &Query<'_>) -> Result<Payload, QueryError> {
        query.on("count", |()| *count).answer()
    }

    fn update(&self, count: &u64, update: &Update, _: &Window) -> Verdict {
        match update.name.as_str() {
            "count" => Verdict::accept(count),
            _ => Verdict::reject(Rejection::of("unknown", &update.name)),
        }
    }
}

impl Queries {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let scratch = Scratch::new(None)?;
        let service = Service::start(&scratch).await?;
        let client = client(&service.url)?;
        let mut turns = histogram();
        super::turns::begin(&client).await?;
        let host = Host::new(client.clone(), LIST).register("asked", Count);
        let host = tokio::spawn(host.run_until(std::future::pending()));
        let start = StartWorkflow {
            workflow_id: WORKFLOW.to_owned(),
            workflow_type: "asked".to_owned(),
            task_list: Some(LIST.to_owned()),
            ..StartWorkflow::default()
        };
        client.start(&start, None).await?;
        ask(&client).await?;
        let (mut told, mut idle, mut updated, mut rejected) = (histogram(), histogram(), histogram(), histogram());
        // The kinds alternate, so that other load on the machine affects all of them.
        for number in 1..=self.rounds.max(1) {
            measured_turn(&client, &mut turns).await?;
            let began = Instant::now();
            client.signal(WORKFLOW, "more", None, None).await?;
            let (count, _) = ask(&client).await?;
            told.saturating_record(micros_since(began));
            if count < number {
                return Err(other(format!("a query shows {count} of {number} signals")));
            }
            let began = Instant::now();
            client.update(WORKFLOW, "count", &UpdateWorkflow::default(), None, WAIT).await?;
            updated.saturating_record(micros_since(began));
            let began = Instant::now();
            match client.update(WORKFLOW, "nothing", &UpdateWorkflow::default(), None, WAIT).await {
                Err(error) if error.code() == Some("update-rejected") => {
                    rejected.saturating_record(micros_since(began));
                }
                Err(error) => return Err(Failed::from(error)),
                Ok(_) => return Err(other("an update that should be rejected was accepted".to_owned())),
            }
        }
        let before = Counters::read(std::slice::from_ref(&client)).await?;
        for _ in 0..self.rounds.max(1) {
            let began = Instant::now();
            ask(&client).await?;
            idle.saturating_record(micros_since(began));
        }
        let written = Counters::read(std::slice::from_ref(&client)).await?.written - before.written;
        print("turn", &turns);
        print("signal, query", &told);
        print("update", &updated);
        print("rejected update", &rejected);
        print("idle query", &idle);
        println!("{written:>10}  bytes written by idle queries");
        self.watch(&service, &client).await?;
        host.abort();
        service.process.stop().await;
        Ok(())
    }

    async fn watch(&self, service: &Service, client: &Client) -> Result<(), Failed> {
        let (_, seen) = ask(client).await?;
        let mut watchers = tokio::task::JoinSet::new();
        for _ in 0..self.watchers {
            let (client, seen) = (client.clone(), seen.clone());
            watchers.spawn(async move { client.watch(WORKFLOW, "count", None, &seen, Watch::Result, WAIT).await });
        }
        let line = format!("baton_queries_waiting {}\n", self.watchers);
        let deadline = Instant::now() + WAIT / 2;
        while !client.metrics().await?.contains(&line) {
            if Instant::now() > deadline {
                return Err(other(format!("not all of the {} watchers are waiting; check `ulimit -n`", self.watchers)));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let before = service.process.cpu_seconds().unwrap_or_default();
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(self.seconds.max(1))).await;
        let spent = service.process.cpu_seconds().unwrap_or_default() - before;
        println!("{:>10.2}  % of a core for {} watchers", 100.0 * spent / began.elapsed().as_secs_f64(), self.watchers);
        let began = Instant::now();
        client.signal(WORKFLOW, "more", None, None).await?;
        while let Some(watched) = watchers.join_next().await {
            watched.map_err(|error| other(error.to_string()))??;
        }
        println!("{:>10.2}  ms from a signal until all watchers are notified", began.elapsed().as_secs_f64() * 1_000.0);
        Ok(())
    }
}

async fn ask(client: &Client) -> Result<(u64, Tag), Failed> {
    let answer = client.query(WORKFLOW, None, "count", None, WAIT).await?;
    let count = answer.read().map_err(|error| other(error.to_string()))?;
    Ok((count, answer.tag))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
fn print(what: &str, latencies: &Histogram<u64>) {
    let ms = |quantile| latencies.value_at_quantile(quantile) as f64 / 1_000.0;
    println!("{:>10.2}  ms p50, {:.2} ms p99: {what}", ms(0.5), ms(0.99));
}
