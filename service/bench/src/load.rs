//! `baton-bench`: a load of small workflows. The service, a decider and a runner are separate processes, and
//! everything is durable before it is acknowledged.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::body::{SetListLimits, SetStartRate, StartWorkflow};
use client::{Client, TaskListKind};
use decider_kit::{Activity, Decider, Decisions, Event, EventKind, Window};
use hdrhistogram::Histogram;
use history::event::ActivityTimeouts;
use history::{Factor, Payload, Status};
use runner_kit::{ActivityContext, ActivityFailure, activity_fn};
use tokio::time::Instant;

use crate::failed::Failed;
use crate::prices;
use crate::progress::Progress;
use crate::service::{Counters, Process, Scratch, Service, client, cpu_seconds, histogram, mib, micros_since, other};

/// Task list of the load's decider and runner.
const LIST: &str = "bench";

/// Maximum number of tasks that the decider and the runner each hold. Our choice: as many as concurrent workflows,
/// because a task without a free slot waits in its list, and taking it from there costs another commit.
const SLOTS_MAX: usize = 1_024;

/// Maximum time of one workflow.
const WORKFLOW_WAIT: Duration = Duration::from_secs(120);

/// The role of a process of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Decider,
    Runner,
}

/// The standard load.
#[derive(Debug, Args)]
pub(super) struct Load {
    /// Number of workflows
    #[arg(long, default_value_t = 10_000)]
    workflows: u64,
    /// Maximum number of concurrent workflows
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Maximum number of concurrent tasks of the decider and of the runner; by default that of `--concurrency`
    #[arg(long)]
    slots: Option<usize>,
    /// Run the decider and the runner on several threads each, like `#[tokio::main]`
    #[arg(long)]
    several_threads: bool,
    /// Sequential activities of each workflow
    #[arg(long, default_value_t = 3)]
    activities: usize,
    /// Bytes of each input and result
    #[arg(long, default_value_t = 100)]
    payload: usize,
    /// URL of a running service, or of several over one store, separated by commas; by default a service is started on
    /// a separate data directory
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    url: Vec<String>,
    /// Data directory of the started service; a new temporary directory by default
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[arg(long, hide = true)]
    role: Option<Role>,
    /// True if the task lists have limits, which hold nothing back.
    #[arg(skip)]
    is_limited: bool,
}

/// A workflow that schedules its activities one after the other and then succeeds.
struct Chain {
    activities: usize,
    payload: usize,
}

impl Decider for Chain {
    type State = usize;

    fn evolve(&self, done: &mut usize, event: &Event) {
        if matches!(event.kind, EventKind::ActivitySuccess(_)) {
            *done += 1;
        }
    }

    fn decide(&self, done: &usize, _: &Window) -> Decisions {
        if *done < self.activities {
            let input = "x".repeat(self.payload.saturating_sub(2));
            Decisions::new().schedule(Activity::new(format!("step-{done}"), "step").input(&input))
        } else {
            Decisions::new().succeed(&"done")
        }
    }
}

async fn step(_: ActivityContext, input: String) -> Result<String, ActivityFailure> {
    Ok(input)
}

impl Load {
    pub(super) async fn run(self) -> Result<(), Failed> {
        match (self.role, self.url.first()) {
            (Some(Role::Decider), Some(url)) => {
                let chain = Chain { activities: self.activities, payload: self.payload };
                let host = decider_kit::Host::new(Client::new(url)?, LIST).register("chain", chain);
                host.concurrency(self.concurrency.clamp(1, SLOTS_MAX)).run().await;
                Ok(())
            }
            (Some(Role::Runner), Some(url)) => {
                let host = runner_kit::Host::new(Client::new(url)?, LIST).register(activity_fn("step", step));
                host.concurrency(self.concurrency.clamp(1, SLOTS_MAX)).run().await;
                Ok(())
            }
            _ => {
                let (report, waits) = self.report().await?;
                report.print(self.json, &waits)
            }
        }
    }

    /// Returns the standard load on a new service.
    pub(super) fn of(workflows: u64, concurrency: usize) -> Self {
        let (slots, several_threads, activities, payload) = (None, false, 3, 100);
        let (url, data_dir, json, role, is_limited) = (Vec::new(), None, false, None, false);
        Self {
            workflows,
            concurrency,
            slots,
            several_threads,
            activities,
            payload,
            url,
            data_dir,
            json,
            role,
            is_limited,
        }
    }

    /// Sets limits of the task lists that hold nothing back.
    pub(super) fn limited(self, is_limited: bool) -> Self {
        Self { is_limited, ..self }
    }

    /// Returns true if this process is a host with several threads.
    pub(super) fn is_host_of_several_threads(&self) -> bool {
        self.role.is_some() && self.several_threads
    }

    /// Runs the load. Returns the report and the times that activities waited for a runner.
    pub(super) async fn report(&self) -> Result<(Report, Histogram<u64>), Failed> {
        let scratch = Scratch::new(self.data_dir.clone())?;
        let (service, urls) = if self.url.is_empty() {
            let service = Service::start(&scratch).await?;
            (Some(service.process), vec![service.url])
        } else {
            (None, self.url.clone())
        };
        let clients = urls.iter().map(|url| client(url)).collect::<Result<Vec<Client>, Failed>>()?;
        for client in &clients {
            client.ready().await?;
        }
        if let Some(client) = clients.first().filter(|_| self.is_limited) {
            let rate = Some(SetStartRate { per_second: Factor::from_thousandths(1_000_000_000), burst: None });
            let limits = SetListLimits { max_running: Some(100_000), rate, ..SetListLimits::default() };
            for kind in [TaskListKind::Decider, TaskListKind::Activity] {
                client.limit_list(LIST, kind, &limits).await?;
            }
        }
        let role = |role: &str, url: &String| {
            let (activities, payload) = (self.activities.to_string(), self.payload.to_string());
            let concurrency = self.slots.unwrap_or(self.concurrency).to_string();
            let args = ["--role", role, "--url", url, "--activities", &activities, "--payload", &payload];
            let threads: &[&str] = if self.several_threads { &["--several-threads"] } else { &[] };
            Process::start(&[&args[..], &["--concurrency", &concurrency], threads].concat())
        };
        // Each service has a decider and a runner.
        let workers = urls.iter().flat_map(|url| [role("decider", url), role("runner", url)]);
        let workers = workers.collect::<Result<Vec<Process>, Failed>>()?;
        let before = Counters::read(&clients).await?;
        let processors = || Processors {
            service: service.as_ref().and_then(Process::cpu_seconds),
            others: workers.iter().map(Process::cpu_seconds).chain([cpu_seconds(std::process::id())]).sum(),
        };
        let processors_before = processors();
        let began = Instant::now();
        let latencies = self.load(&clients).await?;
        let elapsed = began.elapsed();
        let after = Counters::read(&clients).await?;
        let took = processors().since(&processors_before);
        let memory = service.as_ref().and_then(Process::memory);
        let report = Report::new(self, &latencies, elapsed, (&before, &after), &took, memory);
        let waits = match clients.first() {
            Some(client) => schedule_to_start(client).await?,
            None => histogram(),
        };
        for worker in workers {
            worker.stop().await;
        }
        if let Some(service) = service {
            service.stop().await;
        }
        Ok((report, waits))
    }

    /// Starts the workflows and waits for each, `concurrency` at a time. Returns their latencies from start to close,
    /// in microseconds.
    async fn load(&self, clients: &[Client]) -> Result<Histogram<u64>, Failed> {
        let next = Arc::new(AtomicU64::new(0));
        let prefix = format!("bench-{}", std::process::id());
        let input =
            Payload::of(&"x".repeat(self.payload.saturating_sub(2))).map_err(|error| other(error.to_string()))?;
        let mut starters = tokio::task::JoinSet::new();
        let total = self.workflows;
        // With several nodes, some may be killed during the load. With a key a start is safe to repeat, and with the
        // timeout a lost activity is soon scheduled again.
        let has_keys = clients.len() > 1;
        let start_to_close = has_keys.then_some(history::Duration::from_secs(10));
        let activity_timeouts = ActivityTimeouts { start_to_close, ..ActivityTimeouts::default() };
        let progress = Arc::new(Progress::begin());
        for client in clients.iter().cycle().take(self.concurrency.max(1)) {
            let (client, next, prefix, input) = (client.clone(), Arc::clone(&next), prefix.clone(), input.clone());
            let progress = Arc::clone(&progress);
            starters.spawn(async move {
                let mut latencies = histogram();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        return Ok::<_, Failed>(latencies);
                    }
                    progress.at(|| format!("{number} of {total} workflows"));
                    let workflow_id = format!("{prefix}-{number}");
                    let start = StartWorkflow {
                        workflow_id: workflow_id.clone(),
                        workflow_type: "chain".to_owned(),
                        task_list: Some(LIST.to_owned()),
                        input: Some(input.clone()),
                        activity_timeouts,
                        ..StartWorkflow::default()
                    };
                    let began = Instant::now();
                    let key = has_keys.then_some(workflow_id.as_str());
                    let result = client.execute(&start, key, WORKFLOW_WAIT).await?;
                    if result.status != Status::Success {
                        return Err(other(format!("{workflow_id} closed with status {}", result.status)));
                    }
                    latencies.saturating_record(micros_since(began));
                }
            });
        }
        let mut all = histogram();
        while let Some(done) = starters.join_next().await {
            let latencies = done.map_err(|error| other(error.to_string()))??;
            all.add(latencies).map_err(|error| other(error.to_string()))?;
        }
        progress.end(&format!("{total} of {total} workflows"));
        Ok(all)
    }
}

/// Returns the times that activities waited for a runner, in milliseconds, from the newest histories.
async fn schedule_to_start(client: &Client) -> Result<Histogram<u64>, Failed> {
    let mut waits = histogram();
    let newest = client.list(&client::Filter { limit: Some(200), ..client::Filter::default() }, None).await?;
    for run in newest.workflows {
        let events = client.events(&run.workflow_id, Some(run.run_id)).await?;
        for event in &events {
            if let EventKind::ActivityStarted(it) = &event.kind
                && let Some(scheduled) = events.iter().find(|event| event.id == it.scheduled_event_id)
            {
                waits.saturating_record(event.timestamp.since(scheduled.timestamp).as_millis());
            }
        }
    }
    Ok(waits)
}

/// Processor times in seconds, if the system provides them. The time of the service is known only if this program
/// started it.
struct Processors {
    service: Option<f64>,
    /// Total of the decider, the runner and the driver.
    others: Option<f64>,
}

impl Processors {
    fn since(&self, earlier: &Self) -> Self {
        let minus = |now: Option<f64>, before: Option<f64>| Some(now? - before?);
        Self { service: minus(self.service, earlier.service), others: minus(self.others, earlier.others) }
    }
}

#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    workflows: u64,
    concurrency: usize,
    activities: usize,
    payload_bytes: usize,
    seconds: f64,
    pub(super) workflows_per_second: f64,
    commits_per_second: f64,
    commits_per_workflow: f64,
    /// Commits that were retried after a conflict, divided by all commits.
    conflicts_per_commit: f64,
    events_per_workflow: f64,
    matched_at_once_per_workflow: f64,
    syncs_per_workflow: f64,
    pub(super) start_to_close_ms_p50: f64,
    pub(super) start_to_close_ms_p99: f64,
    /// Processor time of the service.
    pub(super) service_micros_per_workflow: Option<f64>,
    /// Processor time of all processes.
    pub(super) micros_per_workflow: Option<f64>,
    bytes_written_per_workflow: f64,
    bytes_on_disk_per_workflow: f64,
    service_memory_mib: Option<f64>,
    /// Billed units, for a store that has them.
    units: Option<Units>,
}

/// Billed units of a database, and their price on demand in us-east-1.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Units {
    write_units_per_workflow: f64,
    read_units_per_workflow: f64,
    dollars_per_million_workflows: f64,
}

#[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
impl Report {
    fn new(
        bench: &Load,
        latencies: &Histogram<u64>,
        elapsed: Duration,
        (before, after): (&Counters, &Counters),
        took: &Processors,
        memory: Option<u64>,
    ) -> Self {
        let (seconds, count) = (elapsed.as_secs_f64(), bench.workflows.max(1) as f64);
        let per_workflow = |after: u64, before: u64| after.saturating_sub(before) as f64 / count;
        let ms = |quantile: f64| latencies.value_at_quantile(quantile) as f64 / 1_000.0;
        Self {
            workflows: bench.workflows,
            concurrency: bench.concurrency,
            activities: bench.activities,
            payload_bytes: bench.payload,
            seconds,
            workflows_per_second: count / seconds,
            commits_per_second: after.commits.saturating_sub(before.commits) as f64 / seconds,
            commits_per_workflow: per_workflow(after.commits, before.commits),
            conflicts_per_commit: after.conflicts.saturating_sub(before.conflicts) as f64
                / after.commits.saturating_sub(before.commits).max(1) as f64,
            events_per_workflow: per_workflow(after.events, before.events),
            matched_at_once_per_workflow: per_workflow(after.matched, before.matched),
            syncs_per_workflow: per_workflow(after.syncs, before.syncs),
            start_to_close_ms_p50: ms(0.5),
            start_to_close_ms_p99: ms(0.99),
            service_micros_per_workflow: took.service.map(|seconds| seconds * 1e6 / count),
            micros_per_workflow: took.service.zip(took.others).map(|(one, other)| (one + other) * 1e6 / count),
            bytes_written_per_workflow: per_workflow(after.written, before.written),
            bytes_on_disk_per_workflow: per_workflow(after.on_disk, before.on_disk),
            service_memory_mib: memory.map(mib),
            units: (after.write_units > 0).then(|| {
                let written = per_workflow(after.write_units, before.write_units);
                let read = per_workflow(after.read_units, before.read_units);
                Units {
                    write_units_per_workflow: written,
                    read_units_per_workflow: read,
                    dollars_per_million_workflows: written * prices::WRITE_UNIT + read * prices::READ_UNIT,
                }
            }),
        }
    }

    fn print(&self, json: bool, waits: &Histogram<u64>) -> Result<(), Failed> {
        if json {
            let text = serde_json::to_string_pretty(self).map_err(|error| other(error.to_string()))?;
            println!("{text}");
            return Ok(());
        }
        println!(
            "{} workflows of {} activities, {} concurrently, payloads of {} bytes: {:.1} s",
            self.workflows, self.activities, self.concurrency, self.payload_bytes, self.seconds
        );
        println!("  {:>10.0}  workflows/s", self.workflows_per_second);
        println!("  {:>10.0}  commits/s ({:.1} per workflow)", self.commits_per_second, self.commits_per_workflow);
        println!("  {:>10.2}  % of commits were retried after a conflict", self.conflicts_per_commit * 100.0);
        println!("  {:>10.1}  events per workflow", self.events_per_workflow);
        println!("  {:>10.1}  sync matches per workflow", self.matched_at_once_per_workflow);
        println!("  {:>10.2}  syncs per workflow", self.syncs_per_workflow);
        println!("  {:>10.2}  ms start to close, p50", self.start_to_close_ms_p50);
        println!("  {:>10.2}  ms start to close, p99", self.start_to_close_ms_p99);
        if let (Some(service), Some(all)) = (self.service_micros_per_workflow, self.micros_per_workflow) {
            println!("  {service:>10.0}  µs of processor time of the service per workflow");
            println!("  {all:>10.0}  µs of processor time of all four processes per workflow");
        }
        println!("  {:>10}  ms schedule to start, p50", waits.value_at_quantile(0.5));
        println!("  {:>10}  ms schedule to start, p99", waits.value_at_quantile(0.99));
        println!("  {:>10.0}  bytes written per workflow", self.bytes_written_per_workflow);
        println!("  {:>10.0}  bytes on disk per workflow", self.bytes_on_disk_per_workflow);
        if let Some(memory) = self.service_memory_mib {
            println!("  {memory:>10.0}  MiB of memory in the service");
        }
        if let Some(units) = &self.units {
            println!("  {:>10.2}  write units per workflow", units.write_units_per_workflow);
            println!("  {:>10.2}  read units per workflow", units.read_units_per_workflow);
            println!("  {:>10.2}  dollars per million workflows, on demand", units.dollars_per_million_workflows);
        }
        Ok(())
    }
}
