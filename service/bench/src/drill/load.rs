//! The load of a drill, and the record of everything that was acknowledged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use client::body::{ActivityTask, PollActivity, StartWorkflow, SucceedActivity};
use client::polls::Polls;
use client::tasks::Outcome;
use client::{Client, Patience, Waits};
use decider_kit::{Activity, Decider, Decisions, Event, EventKind, Window};
use history::{EventId, Payload, Status};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

/// Task list of deciders and runners.
const LIST: &str = "drill";

/// Activities of each workflow, one after the other.
const ACTIVITIES: usize = 3;

/// Timer of each workflow, after its activities.
pub(super) const TIMER: history::Duration = history::Duration::from_secs(1);

/// Time limit for retries of callers. Our choice: longer than any failure.
const PATIENCE: Patience = Patience::For(Duration::from_secs(60));

/// Wait of one poll of a runner.
const POLL_WAIT: Duration = Duration::from_secs(10);

/// An acknowledged request.
#[derive(Debug, Clone)]
pub(super) struct Acknowledged {
    pub(super) workflow_id: String,
    pub(super) run_id: Uuid,
    /// Event id of the acknowledged signal or ActivityScheduled; 1 for a start.
    pub(super) event_id: EventId,
    /// Content of the request. It differs from the contents of all other requests.
    pub(super) said: Payload,
}

/// All acknowledged requests.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) starts: Vec<Acknowledged>,
    pub(super) signals: Vec<Acknowledged>,
    pub(super) results: Vec<Acknowledged>,
    /// Calls whose outcome is unknown after all retries, with their last errors. They are part of the report.
    pub(super) in_doubt: Vec<String>,
}

/// A workflow that schedules its activities one after the other and then its timer, and succeeds when it has also
/// received its signal.
struct Chain;

#[derive(Default)]
enum Timer {
    #[default]
    Unset,
    Running,
    Over,
}

#[derive(Default)]
struct State {
    /// Number of ActivityScheduled so far.
    scheduled: usize,
    succeeded: usize,
    is_activity_open: bool,
    timer: Timer,
    is_signaled: bool,
}

impl Decider for Chain {
    type State = State;

    fn evolve(&self, state: &mut State, event: &Event) {
        match event.kind {
            EventKind::ActivityScheduled(_) => {
                state.scheduled += 1;
                state.is_activity_open = true;
            }
            EventKind::ActivitySuccess(_) => {
                state.succeeded += 1;
                state.is_activity_open = false;
            }
            // The activity was lost on the way to a runner and is scheduled again.
            EventKind::ActivityTimedOut(_) | EventKind::ActivityScheduledTimeout(_) => state.is_activity_open = false,
            EventKind::TimerScheduled(_) => state.timer = Timer::Running,
            EventKind::TimerExpired(_) => state.timer = Timer::Over,
            EventKind::Signal(_) => state.is_signaled = true,
            _ => {}
        }
    }

    fn decide(&self, state: &State, _: &Window) -> Decisions {
        let decisions = Decisions::new();
        if state.is_activity_open {
            return decisions;
        }
        match state.timer {
            Timer::Unset if state.succeeded < ACTIVITIES => {
                decisions.schedule(Activity::new(format!("step-{}", state.scheduled), "step"))
            }
            Timer::Unset => decisions.timer("rest", TIMER),
            Timer::Over if state.is_signaled => decisions.succeed(&"done"),
            Timer::Running | Timer::Over => decisions.awaiting(["go"]),
        }
    }
}

/// A load that continues until `finish` is called.
pub(super) struct Load {
    drivers: JoinSet<()>,
    workers: JoinSet<()>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

#[derive(Default)]
struct Shared {
    ledger: Mutex<Ledger>,
    is_over: AtomicBool,
    next: AtomicU64,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no code panics while it holds this lock")
    }

    /// Returns a unique number.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn doubt(&self, what: &str, error: &impl std::fmt::Display) {
        self.ledger().in_doubt.push(format!("{what}: {error}"));
    }
}

impl Load {
    /// Starts this number of concurrent workflows, deciders and runners.
    pub(super) fn start(client: &Client, concurrency: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = watch::channel(false);
        let (mut drivers, mut workers) = (JoinSet::new(), JoinSet::new());
        let client = client.clone().patience(PATIENCE);
        for _ in 0..concurrency.max(1) {
            drivers.spawn(drive(client.clone(), Arc::clone(&shared)));
            workers.spawn(work(client.clone(), Arc::clone(&shared), stopped.clone()));
        }
        let host = decider_kit::Host::new(client, LIST).register("chain", Chain).concurrency(concurrency);
        workers.spawn(host.run_until(async move {
            let mut stopped = stopped;
            drop(stopped.wait_for(|is_stopped| *is_stopped).await);
        }));
        Self { drivers, workers, shared, stop }
    }

    /// Stops starting workflows, waits for the open ones, and returns the acknowledged requests.
    pub(super) async fn finish(mut self, wait: Duration) -> Ledger {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let done = async { while self.drivers.join_next().await.is_some() {} };
        if tokio::time::timeout(wait, done).await.is_err() {
            self.drivers.shutdown().await;
        }
        self.stop.send_replace(true);
        let done = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(wait, done).await.is_err() {
            self.workers.shutdown().await;
        }
        std::mem::take(&mut *self.shared.ledger())
    }
}

/// Starts workflows one after the other, and signals each.
async fn drive(client: Client, shared: Arc<Shared>) {
    while !shared.is_over.load(Ordering::Relaxed) {
        let number = shared.number();
        let workflow_id = format!("drill-{number}");
        let said = Payload::of(&number).expect("a number is JSON");
        let start = StartWorkflow {
            workflow_id: workflow_id.clone(),
            workflow_type: "chain".to_owned(),
            task_list: Some(LIST.to_owned()),
            input: Some(said.clone()),
            ..StartWorkflow::default()
        };
        let run_id = match client.start(&start, Some(&workflow_id)).await {
            Ok(started) => started.run_id,
            Err(error) => {
                shared.doubt("a start", &error);
                continue;
            }
        };
        let acknowledged = Acknowledged { workflow_id: workflow_id.clone(), run_id, event_id: 1, said };
        shared.ledger().starts.push(acknowledged);
        let said = Payload::of(&shared.number()).expect("a number is JSON");
        match client.signal(&workflow_id, "go", Some(said.clone()), Some(&workflow_id)).await {
            Ok(recorded) => {
                let event_id = recorded.event_id;
                let acknowledged = Acknowledged { workflow_id: workflow_id.clone(), run_id, event_id, said };
                shared.ledger().signals.push(acknowledged);
            }
            Err(error) => shared.doubt("a signal", &error),
        }
        // The checks verify how a run ended. This loop only limits the number of concurrent runs.
        loop {
            match client.result(&workflow_id, Some(run_id), POLL_WAIT).await {
                Ok(result) if result.status == Status::Open => {}
                Ok(_) => break,
                Err(error) => {
                    shared.doubt("a wait for a result", &error);
                    break;
                }
            }
        }
    }
}

/// Works on activities, each with a unique result.
async fn work(client: Client, shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    let mut waits = Waits::new(Patience::Endless);
    let mut polls = Polls::default();
    loop {
        let (identity, poll_id) = (Some("drill".to_owned()), Some(polls.id()));
        let poll = PollActivity { identity, poll_id, attempt: polls.attempt(), workflow_id: None };
        let polled = client::shutdown::unless(&stopped, client.poll_activity(LIST, &poll, POLL_WAIT)).await;
        if let Some(polled) = &polled {
            polls.observe(polled);
        }
        match polled {
            None => return,
            Some(Ok(task)) => {
                waits.reset();
                if let Some(task) = task {
                    answer(&client, &shared, task).await;
                }
            }
            Some(Err(error)) => {
                let wait = waits.after(&error).unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1));
                tokio::time::sleep(wait).await;
            }
        }
    }
}

async fn answer(client: &Client, shared: &Shared, task: ActivityTask) {
    let said = Payload::of(&shared.number()).expect("a number is JSON");
    let succeed = SucceedActivity { result: Some(said.clone()) };
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        // Each answer is sent without the client's retries, because they would treat "closed" as "recorded before".
        match client.succeed_activity(&task.token, &succeed, Patience::None).await {
            Ok(Outcome::Recorded) => {
                let ActivityTask { workflow_id, run_id, scheduled_event_id: event_id, .. } = task;
                shared.ledger().results.push(Acknowledged { workflow_id, run_id, event_id, said });
                return;
            }
            Ok(Outcome::RecordedBefore | Outcome::Lost(_)) => return,
            Err(error) if Instant::now() > give_up => return shared.doubt("a result", &error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
