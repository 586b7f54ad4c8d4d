//! `baton-bench limits`: what limits of task lists cost: throughput with and without limits, and taking a task from a
//! list on which many tasks of many concurrency keys wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use client::body::{CompleteTurn, PollDecider, SetListLimits, SetStartRate, SetTaskLimits, StartWorkflow};
use client::{Client, Patience, TaskListKind};
use history::{Decision, Factor, SucceedWorkflow};
use tokio::time::Instant;

use crate::failed::Failed;
use crate::load::Load;
use crate::progress::Progress;
use crate::service::{Scratch, Service, client, count, mib, other};

/// Task list of the waiting tasks.
const LIST: &str = "bench-limits";

/// Measure: the cost of limits of task lists
#[derive(Debug, Args)]
pub(super) struct Limits {
    /// Number of rounds with and without limits, alternating
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Workflows of each of these measurements
    #[arg(long, default_value_t = 8_000)]
    workflows: u64,
    /// Number of concurrent workflows
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Number of tasks that wait on one list
    #[arg(long, default_value_t = 100_000)]
    waiting: u64,
    /// Number of their concurrency keys
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// Number of tasks that are then taken and completed, one after the other
    #[arg(long, default_value_t = 2_000)]
    taken: u64,
    /// Seconds for which a rate is measured
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

impl Limits {
    pub(super) async fn run(self) -> Result<(), Failed> {
        self.throughput().await?;
        let plain = self.waiting(false).await?;
        let limited = self.waiting(true).await?;
        let per_task = limited.bytes.saturating_sub(plain.bytes) / self.waiting.max(1);
        println!("  {per_task:>10}  more bytes of memory per waiting task with keys and limits");
        println!(
            "  {:>10.1}  µs more processor time of the service per task taken",
            limited.micros_per_task - plain.micros_per_task
        );
        self.rate().await
    }

    /// Compares the load with and without limits that hold nothing back.
    async fn throughput(&self) -> Result<(), Failed> {
        let mut ratios = Vec::new();
        for round in 0..self.rounds {
            let (mut plain, mut limited) = (0.0, 0.0);
            for is_limited in [round % 2 == 1, round % 2 == 0] {
                let (report, _) = Load::of(self.workflows, self.concurrency).limited(is_limited).report().await?;
                let rate = if is_limited { &mut limited } else { &mut plain };
                *rate = report.workflows_per_second;
            }
            println!("  {plain:>10.0}  workflows/s without limits, {limited:.0} with: {:.2}", limited / plain);
            ratios.push(limited / plain);
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
        println!("  {median:>10.2}  of the throughput without limits, median");
        Ok(())
    }

    /// Lets many tasks wait, then takes some one after the other.
    async fn waiting(&self, has_keys: bool) -> Result<Waiting, Failed> {
        let scratch = Scratch::new(None)?;
        let service = Service::start(&scratch).await?;
        let client = client(&service.url)?;
        if has_keys {
            let per_key = Some(SetTaskLimits { max_running: Some(1), rate: None });
            let limits = SetListLimits { per_key, ..SetListLimits::default() };
            client.limit_list(LIST, TaskListKind::Decider, &limits).await?;
        }
        self.start_runs(&client, self.waiting, has_keys).await?;
        let bytes = service.process.memory_at_rest().await.unwrap_or_default();
        let began = Instant::now();
        let before = service.process.cpu_seconds().unwrap_or_default();
        for _ in 0..self.taken {
            take(&client).await?;
        }
        let spent = service.process.cpu_seconds().unwrap_or_default() - before;
        let micros_per_task = spent * 1e6 / count(self.taken.max(1));
        let ms = began.elapsed().as_secs_f64() * 1_000.0 / count(self.taken.max(1));
        let keys = if has_keys { self.keys } else { 0 };
        println!("{} tasks wait, {keys} keys:", self.waiting);
        println!("  {:>10.0}  MiB of memory in the service", mib(bytes));
        println!("  {ms:>10.2}  ms to take and complete a task");
        println!("  {micros_per_task:>10.0}  µs of processor time of the service for it");
        service.process.stop().await;
        Ok(Waiting { bytes, micros_per_task })
    }

    async fn start_runs(&self, client: &Client, total: u64, has_keys: bool) -> Result<(), Failed> {
        let (next, keys) = (Arc::new(AtomicU64::new(0)), self.keys.max(1));
        let progress = Arc::new(Progress::begin());
        let mut starters = tokio::task::JoinSet::new();
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
                        workflow_id: format!("waiting-{number}"),
                        workflow_type: "waiting".to_owned(),
                        task_list: Some(LIST.to_owned()),
                        concurrency_key: has_keys.then(|| format!("customer-{}", number % keys)),
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

    /// Takes tasks as fast as a rate allows and compares their number with the rate.
    async fn rate(&self) -> Result<(), Failed> {
        const PER_SECOND: u32 = 50;
        const BURST: u32 = 5;
        let scratch = Scratch::new(None)?;
        let service = Service::start(&scratch).await?;
        let client = client(&service.url)?;
        let per_second = Factor::from_thousandths(PER_SECOND * 1_000);
        let limits =
            SetListLimits { rate: Some(SetStartRate { per_second, burst: Some(BURST) }), ..SetListLimits::default() };
        client.limit_list(LIST, TaskListKind::Decider, &limits).await?;
        let runs = u64::from(PER_SECOND) * (self.seconds + 2);
        self.start_runs(&client, runs, false).await?;
        // The burst and the seconds since the limit was set must not count.
        take(&client).await?;
        let (began, mut seconds) = (Instant::now(), Vec::new());
        let mut taken = 0_u64;
        while began.elapsed() < Duration::from_secs(self.seconds) {
            take(&client).await?;
            taken += 1;
            let second = usize::try_from(began.elapsed().as_secs()).unwrap_or_default();
            if seconds.len() <= second {
                seconds.resize(second + 1, 0_u32);
            }
            if let Some(second) = seconds.get_mut(second) {
                *second += 1;
            }
        }
        let wanted = count(u64::from(PER_SECOND) * self.seconds);
        println!("a rate of {PER_SECOND} a second with a burst of {BURST}, for {} s:", self.seconds);
        println!("  {:>10.2}  % more than the rate", (count(taken) / wanted - 1.0) * 100.0);
        println!("  {:>10}  starts in the fullest second", seconds.iter().max().copied().unwrap_or_default());
        service.process.stop().await;
        Ok(())
    }
}

/// Figures of a list on which many tasks wait.
struct Waiting {
    bytes: u64,
    micros_per_task: f64,
}

/// Takes a turn and completes its run.
async fn take(client: &Client) -> Result<(), Failed> {
    let poll = PollDecider::default();
    let task = client.poll_decider(LIST, &poll, Duration::from_secs(10)).await?;
    let task = task.ok_or_else(|| other("no task came in 10 s".to_owned()))?;
    let decisions = vec![Decision::from(SucceedWorkflow::default())];
    let complete = CompleteTurn { decisions, ..CompleteTurn::default() };
    client.complete_turn(&task.token, &complete, Patience::For(Duration::from_secs(10))).await?;
    Ok(())
}
