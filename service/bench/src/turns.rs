//! `baton-bench turns`: the cost of a turn for histories of different lengths. The cost should not depend on the
//! length.

use std::time::Duration;

use clap::Args;
use client::body::{CompleteTurn, DeciderTask, PollDecider, StartWorkflow};
use client::tasks::Outcome;
use client::{Client, Patience};
use hdrhistogram::Histogram;
use history::{Decision, RecordMarker};
use tokio::time::Instant;

use crate::failed::Failed;
use crate::service::{Counters, Scratch, Service, client, histogram, mib, micros_since, other};

const LIST: &str = "bench-turns";

const WORKFLOW: &str = "long";

/// Decisions per turn while the history is made long. Source: the maximum of one turn.
const MARKERS_A_TURN: u64 = history::limits::DECISIONS_MAX as u64;

/// Maximum length of histories that are read completely. Our choice: longer histories show nothing new.
const LOOK_BACK_MAX: u64 = 100_000;

/// Number of times that a whole history is read for each length.
const LOOKS_BACK: u64 = 20;

/// Time without writes after which the store is idle.
const SETTLED_FOR: Duration = Duration::from_secs(2);

/// Measure: the cost of one turn for several lengths of its run's history
#[derive(Debug, Args)]
pub(crate) struct Turns {
    /// Lengths of the history, in events
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000, 1_000_000])]
    events: Vec<u64>,
    /// Number of turns measured at each length
    #[arg(long, default_value_t = 500)]
    turns: u64,
}

impl Turns {
    pub(super) async fn run(mut self) -> Result<(), Failed> {
        self.events.sort_unstable();
        let scratch = Scratch::new(None)?;
        let service = Service::start(&scratch).await?;
        let client = client(&service.url)?;
        begin(&client).await?;
        println!(
            "    events   turn p50 ms   turn p99 ms   window bytes   written bytes   service MiB   at rest MiB   \
                whole history p50 ms"
        );
        for events in &self.events {
            grow(&client, *events).await?;
            settle(&client).await?;
            let before = Counters::read(std::slice::from_ref(&client)).await?;
            let mut latencies = histogram();
            let mut window_bytes = 0;
            for _ in 0..self.turns.max(1) {
                window_bytes += measured_turn(&client, &mut latencies).await?;
            }
            let written = Counters::read(std::slice::from_ref(&client)).await?.written - before.written;
            let whole =
                if *events > LOOK_BACK_MAX { "-".to_owned() } else { format!("{:.1}", looks_back(&client).await?) };
            println!(
                "{events:>10}   {:>11.2}   {:>11.2}   {:>12}   {:>13}   {:>11.0}   {:>11.0}   {whole:>20}",
                ms(&latencies, 0.5),
                ms(&latencies, 0.99),
                window_bytes / self.turns.max(1),
                written / self.turns.max(1),
                mib(service.process.memory().unwrap_or_default()),
                mib(service.process.memory_at_rest().await.unwrap_or_default()),
            );
        }
        service.process.stop().await;
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
fn ms(latencies: &Histogram<u64>, quantile: f64) -> f64 {
    latencies.value_at_quantile(quantile) as f64 / 1_000.0
}

/// Extends the history to at least `events`, by turns that record markers.
async fn grow(client: &Client, events: u64) -> Result<(), Failed> {
    loop {
        client.signal(WORKFLOW, "more", None, None).await?;
        let task = poll(client).await?;
        let missing = events.saturating_sub(task.started_event_id);
        let marker = |number| Decision::from(RecordMarker { name: format!("marker-{number}"), details: None });
        complete(client, task, (0..missing.min(MARKERS_A_TURN)).map(marker).collect()).await?;
        if missing == 0 {
            return Ok(());
        }
    }
}

/// Waits until the store has finished its background merges, which are not part of the cost of turns.
async fn settle(client: &Client) -> Result<(), Failed> {
    let mut written = Counters::read(std::slice::from_ref(client)).await?.written;
    loop {
        tokio::time::sleep(SETTLED_FOR).await;
        let now = Counters::read(std::slice::from_ref(client)).await?.written;
        if now == written {
            return Ok(());
        }
        written = now;
    }
}

/// Starts the run whose turns are measured.
pub(super) async fn begin(client: &Client) -> Result<(), Failed> {
    let start = StartWorkflow {
        workflow_id: WORKFLOW.to_owned(),
        workflow_type: "long".to_owned(),
        task_list: Some(LIST.to_owned()),
        ..StartWorkflow::default()
    };
    client.start(&start, None).await?;
    complete(client, poll(client).await?, Vec::new()).await
}

/// Measures the time from a signal to the recorded answer of its turn. Returns the size of the window as JSON.
pub(super) async fn measured_turn(client: &Client, latencies: &mut Histogram<u64>) -> Result<u64, Failed> {
    let began = Instant::now();
    client.signal(WORKFLOW, "measured", None, None).await?;
    let task = poll(client).await?;
    let window = serde_json::to_vec(&task.events).map_err(|error| other(error.to_string()))?;
    complete(client, task, Vec::new()).await?;
    latencies.saturating_record(micros_since(began));
    Ok(window.len() as u64)
}

/// Returns the median time, in milliseconds, that a decider without cached state of the run takes to read its whole
/// history.
async fn looks_back(client: &Client) -> Result<f64, Failed> {
    let mut latencies = histogram();
    for _ in 0..LOOKS_BACK {
        client.signal(WORKFLOW, "measured", None, None).await?;
        let task = poll(client).await?;
        let began = Instant::now();
        let first = task.events.first().map_or(1, |event| event.id);
        let earlier = client.look_back(&task.token, first).await?;
        latencies.saturating_record(micros_since(began));
        if earlier.len() as u64 + 1 != first {
            return Err(other(format!("{} events before event {first}", earlier.len())));
        }
        complete(client, task, Vec::new()).await?;
    }
    Ok(ms(&latencies, 0.5))
}

async fn poll(client: &Client) -> Result<DeciderTask, Failed> {
    let poll = PollDecider::default();
    let polled = client.poll_decider(LIST, &poll, Duration::from_secs(10)).await?;
    polled.ok_or_else(|| other("no turn arrived".to_owned()))
}

async fn complete(client: &Client, task: DeciderTask, decisions: Vec<Decision>) -> Result<(), Failed> {
    let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
    match client.complete_turn(&task.token, &complete, Patience::None).await? {
        Outcome::Recorded | Outcome::RecordedBefore => Ok(()),
        Outcome::Lost(error) => Err(error.into()),
    }
}
