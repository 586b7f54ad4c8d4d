//! `baton-bench children`: one parent with many concurrent children, each with many concurrent activities.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use client::Client;
use client::body::StartWorkflow;
use decider_kit::{Activity, Child, Decider, Decisions, Event, EventKind, Window};
use history::{Payload, Status};
use runner_kit::{ActivityContext, ActivityFailure, activity_fn};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::failed::Failed;
use crate::progress::Progress;
use crate::service::{Counters, Process, Scratch, Service, client, mib, other};

const LIST: &str = "bench-children";

/// Maximum time of the parent.
const PARENT_WAIT: Duration = Duration::from_secs(3_600);

/// Wait of one request for the result, after which the progress is printed.
const RESULT_WAIT: Duration = Duration::from_secs(5);

/// Measure: one parent that starts children, all at once, each of which schedules its activities all at once
#[derive(Debug, Args)]
pub(super) struct Children {
    /// Number of children, at most 1,000
    #[arg(long = "children", default_value_t = 50)]
    count: usize,
    /// Activities of each child, at most 1,000
    #[arg(long, default_value_t = 10)]
    activities: usize,
    /// Maximum number of concurrent turns and of concurrent activities
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Data directory of the service; a new temporary directory by default
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "URL")]
    workers_of: Option<String>,
}

/// Input of a parent.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Family {
    children: usize,
    activities: usize,
}

/// A workflow that starts its children, passes each its number of activities, and waits for all of them.
struct Parent;

impl Decider for Parent {
    type State = (Family, usize);

    fn evolve(&self, (family, closed): &mut Self::State, event: &Event) {
        match &event.kind {
            EventKind::WorkflowStarted(it) => {
                *family = it.input.as_ref().and_then(|input| input.read().ok()).unwrap_or_default();
            }
            EventKind::ChildSuccess(_) => *closed += 1,
            _ => {}
        }
    }

    fn decide(&self, (family, closed): &Self::State, window: &Window) -> Decisions {
        if window.previous_started_event_id == 0 {
            let child =
                |number| Child::new(format!("{}-{number}", window.workflow_id), "child").input(&family.activities);
            return (0..family.children).fold(Decisions::new(), |decisions, number| decisions.child(child(number)));
        }
        if closed == &family.children { Decisions::new().succeed(closed) } else { Decisions::new() }
    }
}

/// A workflow that schedules its activities and waits for all of them.
struct Worker;

impl Decider for Worker {
    type State = (usize, usize);

    fn evolve(&self, (activities, closed): &mut Self::State, event: &Event) {
        match &event.kind {
            EventKind::WorkflowStarted(it) => {
                *activities = it.input.as_ref().and_then(|input| input.read().ok()).unwrap_or_default();
            }
            EventKind::ActivitySuccess(_) => *closed += 1,
            _ => {}
        }
    }

    fn decide(&self, (activities, closed): &Self::State, window: &Window) -> Decisions {
        if window.previous_started_event_id == 0 {
            let activity = |number| Activity::new(format!("step-{number}"), "step").input(&number);
            return (0..*activities).fold(Decisions::new(), |all, number| all.schedule(activity(number)));
        }
        if closed == activities { Decisions::new().succeed(closed) } else { Decisions::new() }
    }
}

async fn step(_: ActivityContext, number: usize) -> Result<usize, ActivityFailure> {
    Ok(number)
}

impl Children {
    pub(super) async fn run(self) -> Result<(), Failed> {
        if let Some(url) = &self.workers_of {
            let client = Client::new(url)?;
            let deciders = decider_kit::Host::new(client.clone(), LIST).register("parent", Parent);
            let deciders = deciders.register("child", Worker).concurrency(self.concurrency);
            let runners = runner_kit::Host::new(client, LIST).register(activity_fn("step", step));
            tokio::join!(deciders.run(), runners.concurrency(self.concurrency).run());
            return Ok(());
        }
        let scratch = Scratch::new(self.data_dir.clone())?;
        let service = Service::start(&scratch).await?;
        let concurrency = self.concurrency.to_string();
        let workers = Process::start(&["children", "--workers-of", &service.url, "--concurrency", &concurrency])?;
        let client = client(&service.url)?;
        let before = Counters::read(std::slice::from_ref(&client)).await?;
        let began = Instant::now();
        self.one_family(&client, &before).await?;
        let seconds = began.elapsed().as_secs_f64();
        let after = Counters::read(std::slice::from_ref(&client)).await?;
        self.report(seconds, &before, &after, &service);
        workers.stop().await;
        service.process.stop().await;
        Ok(())
    }

    async fn one_family(&self, client: &Client, before: &Counters) -> Result<(), Failed> {
        let progress = Progress::begin();
        let family = Family { children: self.count, activities: self.activities };
        let start = StartWorkflow {
            workflow_id: "parent".to_owned(),
            workflow_type: "parent".to_owned(),
            task_list: Some(LIST.to_owned()),
            input: Some(Payload::of(&family).map_err(|error| other(error.to_string()))?),
            ..StartWorkflow::default()
        };
        client.start(&start, None).await?;
        let deadline = Instant::now() + PARENT_WAIT;
        while Instant::now() < deadline {
            let result = client.result("parent", None, RESULT_WAIT).await?;
            match result.status {
                Status::Open => {
                    let now = Counters::read(std::slice::from_ref(client)).await?;
                    let (commits, events) = (now.commits - before.commits, now.events - before.events);
                    progress.at(|| format!("{commits} commits, {events} events"));
                }
                Status::Success => {
                    progress.end("the parent has closed");
                    return Ok(());
                }
                status => return Err(other(format!("the parent closed with status {status}"))),
            }
        }
        Err(other("the parent did not close".to_owned()))
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people, far below 2^52")]
    fn report(&self, seconds: f64, before: &Counters, after: &Counters, service: &Service) {
        let children = self.count.max(1) as f64;
        let activities = (self.count * self.activities) as f64;
        let per_child = |after: u64, before: u64| after.saturating_sub(before) as f64 / children;
        println!("1 parent, {} children, {} activities each: {seconds:.1} s", self.count, self.activities);
        println!("  {:>10.0}  children/s", children / seconds);
        println!("  {:>10.0}  activities/s", activities / seconds);
        println!("  {:>10.1}  commits per child", per_child(after.commits, before.commits));
        println!("  {:>10.1}  events per child", per_child(after.events, before.events));
        println!("  {:>10.0}  bytes written per child", per_child(after.written, before.written));
        println!("  {:>10.0}  MiB of memory in the service", mib(service.process.memory().unwrap_or_default()));
    }
}
