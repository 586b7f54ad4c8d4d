//! `baton-bench open`: many open runs that wait for a timer, and a restart of the service over them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use client::Client;
use client::body::StartWorkflow;
use decider_kit::{Decider, Decisions, Event, Window};
use tokio::time::Instant;

use crate::failed::Failed;
use crate::progress::Progress;
use crate::service::{Counters, Process, Scratch, Service, client, mib, other};

const LIST: &str = "bench-open";

/// Duration of the timers.
const TIMER: history::Duration = history::Duration::from_secs(30 * 24 * 3_600);

/// Maximum time without any progress of turns.
const TURNS_WAIT: Duration = Duration::from_secs(60);

/// Measure: opens many runs with a 30-day timer each, then kills and restarts the service
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Number of runs
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// Maximum number of concurrent starts
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Data directory of the service; a new temporary directory by default
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "URL")]
    decider_of: Option<String>,
}

/// A workflow that waits for its timer.
struct Sleeper;

impl Decider for Sleeper {
    type State = ();

    fn evolve(&self, (): &mut (), _: &Event) {}

    fn decide(&self, (): &(), window: &Window) -> Decisions {
        if window.previous_started_event_id == 0 { Decisions::new().timer("later", TIMER) } else { Decisions::new() }
    }
}

impl Open {
    pub(super) async fn run(self) -> Result<(), Failed> {
        if let Some(url) = &self.decider_of {
            let host = decider_kit::Host::new(Client::new(url)?, LIST).register("sleeper", Sleeper);
            host.concurrency(self.concurrency).cached_states(1).run().await;
            return Ok(());
        }
        let scratch = Scratch::new(self.data_dir.clone())?;
        let service = Service::start(&scratch).await?;
        let concurrency = self.concurrency.to_string();
        let decider = Process::start(&["open", "--decider-of", &service.url, "--concurrency", &concurrency])?;
        let began = Instant::now();
        self.start_runs(&client(&service.url)?).await?;
        self.wait_for_turns(&client(&service.url)?).await?;
        let seconds = began.elapsed().as_secs_f64();
        report("all runs open", &service);
        #[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
        let rate = self.runs as f64 / seconds;
        println!("  {rate:>10.0}  runs/s opened, in {seconds:.0} s");
        decider.stop().await;
        service.process.stop().await;
        // At its start, the service reads the log of the killed process once. It merges the log in the background.
        let service = Service::start(&scratch).await?;
        report("killed and restarted", &service);
        let last = format!("open-{}", self.runs.saturating_sub(1));
        let client = client(&service.url)?;
        let began = Instant::now();
        let described = client.describe(&last, None).await?;
        println!("  {:>10.2}  ms until the first run was described", began.elapsed().as_secs_f64() * 1_000.0);
        if described.open_timers.len() != 1 {
            return Err(other(format!("{last} has {} timers", described.open_timers.len())));
        }
        let on_disk = Counters::read(std::slice::from_ref(&client)).await?.on_disk;
        println!("  {:>10}  bytes on disk per run", on_disk / self.runs.max(1));
        let rested = service.process.memory_at_rest().await.unwrap_or_default();
        println!("  {:>10.0}  MiB of memory in the service at rest", mib(rested));
        service.process.stop().await;
        Ok(())
    }

    async fn start_runs(&self, client: &Client) -> Result<(), Failed> {
        let next = Arc::new(AtomicU64::new(0));
        let mut starters = tokio::task::JoinSet::new();
        let (total, progress) = (self.runs, Arc::new(Progress::begin()));
        for _ in 0..self.concurrency.max(1) {
            let (client, next, progress) = (client.clone(), Arc::clone(&next), Arc::clone(&progress));
            starters.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        return Ok::<_, Failed>(());
                    }
                    progress.at(|| format!("{number} of {total} runs"));
                    let start = StartWorkflow {
                        workflow_id: format!("open-{number}"),
                        workflow_type: "sleeper".to_owned(),
                        task_list: Some(LIST.to_owned()),
                        ..StartWorkflow::default()
                    };
                    client.start(&start, None).await?;
                }
            });
        }
        while let Some(done) = starters.join_next().await {
            done.map_err(|error| other(error.to_string()))??;
        }
        progress.end(&format!("{total} of {total} runs"));
        Ok(())
    }

    /// Waits until every run's turn is completed. Each run then has five events.
    async fn wait_for_turns(&self, client: &Client) -> Result<(), Failed> {
        let mut events = 0;
        let mut deadline = Instant::now() + TURNS_WAIT;
        while events < self.runs * 5 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = Counters::read(std::slice::from_ref(client)).await?.events;
            if now > events {
                deadline = Instant::now() + TURNS_WAIT;
            } else if Instant::now() > deadline {
                return Err(other("some turns were not completed".to_owned()));
            }
            events = now;
        }
        Ok(())
    }
}

fn report(when: &str, service: &Service) {
    println!("{when}:");
    println!("  {:>10.2}  s until ready", service.ready_after.as_secs_f64());
    println!("  {:>10.0}  MiB of memory in the service", mib(service.process.memory().unwrap_or_default()));
}
