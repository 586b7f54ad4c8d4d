//! The subscription example in both styles, while one of its processes is killed at every step. Its history must be one
//! that could occur without failures, except for the attempts that were lost with a killed process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::body::{CancelWorkflow, StartWorkflow};
use client::{Client, Patience};
use decider_kit::flow::{Flow, FlowState};
use decider_kit::{Decider, Decisions, Window};
use history::event::{ActivityTimeouts, DeciderFailedCause, EventKind};
use history::{Event, Payload, Status, check};

use crate::customers::Customer;
use crate::support::{Scratch, Service};
use crate::{decider, flow};

const LIST: &str = "subscriptions";

/// Time until the task of a killed process is dispatched again.
const LOST_AFTER: history::Duration = history::Duration::from_secs(2);

/// Number of kills of the service before the customer cancels. A service that starts slowly takes several steps between
/// two kills.
const KILLS: u32 = 12;

/// Variable that turns a process into a worker and names its role: see [`worker`].
const WORKER: &str = "BATON_TEST_WORKER";

const ACTIVITIES: [&str; 6] =
    ["welcome-mail", "charge", "end-of-trial-mail", "monthly-mail", "process-cancellation", "goodbye-mail"];

/// Style of the subscription's decider.
#[derive(Clone, Copy)]
enum Style {
    Flow,
    Explicit,
}

fn host(client: Client, style: Style) -> decider_kit::Host {
    let host = decider_kit::Host::new(client, LIST);
    match style {
        Style::Flow => host.register("subscription", Flow::new(flow::subscription)),
        Style::Explicit => host.register("subscription", decider::Subscription),
    }
}

async fn work(_: runner_kit::ActivityContext, _: Customer) -> Result<(), runner_kit::ActivityFailure> {
    Ok(())
}

fn runner(client: Client) -> runner_kit::Host {
    let host = runner_kit::Host::new(client, LIST);
    ACTIVITIES.into_iter().fold(host, |host, name| host.register(runner_kit::activity_fn(name, work)))
}

/// Decides like `D`, but aborts its process at each first attempt of a turn.
struct Dies<D>(D);

/// Aborts after the decision, before it is sent.
fn die_at_first(decided: Decisions, window: &Window) -> Decisions {
    if window.attempt == 1 {
        std::process::abort();
    }
    decided
}

impl Decider for Dies<decider::Subscription> {
    type State = <decider::Subscription as Decider>::State;

    fn evolve(&self, state: &mut Self::State, event: &Event) {
        self.0.evolve(state, event);
    }

    fn decide(&self, state: &Self::State, window: &Window) -> Decisions {
        die_at_first(self.0.decide(state, window), window)
    }
}

impl Decider for Dies<Flow> {
    type State = FlowState;

    fn evolve(&self, state: &mut FlowState, event: &Event) {
        self.0.evolve(state, event);
    }

    fn decide(&self, state: &FlowState, window: &Window) -> Decisions {
        die_at_first(self.0.decide(state), window)
    }
}

/// Body of the processes to kill. It is not a test, and does nothing without the variable.
#[tokio::test]
async fn worker() {
    let Ok(what) = std::env::var(WORKER) else { return };
    let (role, rest) = what.split_once(' ').unwrap();
    let (url, done) = rest.split_once(' ').unwrap();
    let client = Client::new(url).unwrap();
    let deciders = decider_kit::Host::new(client.clone(), LIST).concurrency(1);
    match role {
        "flow" => deciders.register("subscription", Dies(Flow::new(flow::subscription))).run().await,
        "explicit" => deciders.register("subscription", Dies(decider::Subscription)).run().await,
        _ => {
            let done = std::path::PathBuf::from(done);
            let die = move |context: runner_kit::ActivityContext, _: Customer| {
                let mark = done.join(&*context.activity_id);
                async move {
                    // The activity is done, but no success is sent.
                    if std::fs::File::create_new(mark).is_ok() {
                        std::process::abort();
                    }
                    Ok::<_, runner_kit::ActivityFailure>(())
                }
            };
            let host = runner_kit::Host::new(client, LIST).concurrency(1);
            let host = ACTIVITIES
                .into_iter()
                .fold(host, |host, name| host.register(runner_kit::activity_fn(name, die.clone())));
            host.run().await;
        }
    }
}

/// A separate process that decides or runs activities.
struct Worker {
    what: String,
    child: Child,
}

impl Worker {
    fn start(role: &str, url: &str, done: &Path) -> Self {
        let what = format!("{role} {url} {}", done.display());
        Self { child: Self::spawn(&what), what }
    }

    fn spawn(what: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "subscription::worker", "--test-threads=1"]).env(WORKER, what);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn again(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        self.child = Self::spawn(&self.what);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Names of the completed activities, in order.
fn done(events: &[Event]) -> Vec<String> {
    let mut named = BTreeMap::new();
    let mut done = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::ActivityScheduled(it) => drop(named.insert(event.id, it.activity_id.clone())),
            EventKind::ActivitySuccess(it) => done.extend(named.remove(&it.scheduled_event_id)),
            _ => {}
        }
    }
    done
}

fn count(events: &[Event], name: &str) -> usize {
    events.iter().filter(|event| event.kind.name() == name).count()
}

async fn subscribe(client: &Client) {
    let customer = Customer { email: "ada@example.com".to_owned(), cents: 990, month: history::Duration::from_secs(1) };
    let start = StartWorkflow {
        workflow_id: "ada".to_owned(),
        workflow_type: "subscription".to_owned(),
        task_list: Some(LIST.to_owned()),
        input: Some(Payload::of(&customer).unwrap()),
        decider_start_to_close: Some(LOST_AFTER),
        activity_timeouts: ActivityTimeouts { start_to_close: Some(LOST_AFTER), ..ActivityTimeouts::default() },
        ..StartWorkflow::default()
    };
    client.start(&start, Some("start")).await.unwrap();
}

/// Checks the final history: a welcome, months, and a farewell, each activity once and in order.
async fn check_the_end(client: &Client, events: &[Event]) {
    check::history(events).unwrap();
    let done = done(events);
    // The cancellation may arrive between a month's charge and its mail.
    let monthly = done.len() - 3;
    let mut expected = vec!["welcome-mail".to_owned()];
    let steps = (1..).flat_map(|month| [format!("charge-{month}"), format!("mail-{month}")]);
    expected.extend(steps.take(monthly));
    expected.extend(["process-cancellation", "goodbye-mail"].map(str::to_owned));
    assert_eq!(done, expected);
    assert!(monthly >= 4);
    // If the poller was killed before it received the turn, the service records the failed delivery.
    let is_failure = |event: &&Event| match &event.kind {
        EventKind::ActivityFailed(_) => true,
        EventKind::DeciderFailed(it) => it.cause != DeciderFailedCause::DeliveryFailed,
        _ => false,
    };
    assert_eq!(events.iter().find(is_failure), None);
    assert_eq!(client.result("ada", None, Duration::ZERO).await.unwrap().status, Status::Canceled);
}

async fn kill_the_service(name: &str, style: Style) {
    let scratch = Scratch::new(name);
    let mut service = Service::start(&scratch.0, &[]);
    let (url, listen) = (service.url.clone(), service.url.trim_start_matches("http://").to_owned());
    let client = Client::new(&url).unwrap().patience(Patience::For(Duration::from_secs(60)));
    let (deciders, runners) = (host(client.clone(), style), runner(client.clone()));
    let workers = tokio::spawn(async move { tokio::join!(deciders.run(), runners.run()) });
    subscribe(&client).await;
    let (mut kills, mut seen, mut is_canceled) = (0, 0, false);
    let events = loop {
        let events = client.events("ada", None).await.unwrap();
        if !is_canceled && kills >= KILLS && done(&events).iter().any(|name| name == "mail-2") {
            client.cancel("ada", None, &CancelWorkflow::default(), Some("cancel")).await.unwrap();
            is_canceled = true;
        }
        if client.describe("ada", None).await.unwrap().status != Status::Open {
            break client.events("ada", None).await.unwrap();
        }
        if events.len() == seen {
            tokio::task::yield_now().await;
            continue;
        }
        // The change is recorded, although the response may be lost.
        seen = events.len();
        service.kill();
        service = Service::start_at(&scratch.0, &listen, &[]);
        kills += 1;
        // No event has disappeared or changed.
        let after = client.events("ada", None).await.unwrap();
        assert_eq!(after.get(..seen), Some(events.as_slice()));
    };
    workers.abort();
    check_the_end(&client, &events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_survives_kills_of_the_service_at_every_step() {
    kill_the_service("subscription", Style::Flow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_decider_survives_kills_of_the_service() {
    kill_the_service("subscription-explicit", Style::Explicit).await;
}

/// Kills the worker of this role in two ways: it aborts at the first attempt of each task, and it is killed after each
/// recorded step. Another process replaces it each time.
async fn kill_a_worker(name: &str, role: &str, style: Style) -> Vec<Event> {
    let scratch = Scratch::new(name);
    let marks = scratch.0.join("done");
    std::fs::create_dir(&marks).unwrap();
    let service = Service::start(&scratch.0, &[]);
    let client = Client::new(&service.url).unwrap();
    let mut worker = Worker::start(role, &service.url, &marks);
    let other = client.clone();
    let is_runner = role == "runner";
    let beside =
        tokio::spawn(async move { if is_runner { host(other, style).run().await } else { runner(other).run().await } });
    subscribe(&client).await;
    let (mut steps, mut is_canceled) = (BTreeSet::new(), false);
    let events = loop {
        let events = client.events("ada", None).await.unwrap();
        if !is_canceled && done(&events).iter().any(|name| name == "mail-2") {
            client.cancel("ada", None, &CancelWorkflow::default(), Some("cancel")).await.unwrap();
            is_canceled = true;
        }
        if client.describe("ada", None).await.unwrap().status != Status::Open {
            break client.events("ada", None).await.unwrap();
        }
        // Timeouts of lost attempts do not count as a step, because a retry must get the chance to complete.
        let step =
            ["DeciderCompleted", "ActivityStarted", "ActivitySuccess", "TimerExpired"].map(|of| count(&events, of));
        let is_new = steps.insert(step);
        if is_new || worker.child.try_wait().unwrap().is_some() {
            worker.again();
        }
        tokio::task::yield_now().await;
    };
    beside.abort();
    check_the_end(&client, &events).await;
    events
}

async fn kill_the_decider(name: &str, role: &str, style: Style) {
    let events = kill_a_worker(name, role, style).await;
    let lost = count(&events, "DeciderTimedOut") + count(&events, "DeciderFailed");
    let completed = count(&events, "DeciderCompleted");
    assert!(lost >= completed, "{lost} turns were lost, but each of {completed} should have been lost once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_continues_after_its_process_is_killed_in_every_turn() {
    kill_the_decider("killed-flow", "flow", Style::Flow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_decider_continues_after_a_kill_in_every_turn() {
    kill_the_decider("killed-explicit", "explicit", Style::Explicit).await;
}

async fn kill_the_runner(name: &str, style: Style) {
    let events = kill_a_worker(name, "runner", style).await;
    let (lost, done) = (count(&events, "ActivityTimedOut"), done(&events).len());
    assert!(lost >= done, "{lost} attempts were lost, but each of {done} activities should have been lost once");
}

#[tokio::test(flavor = "multi_thread")]
async fn activities_of_a_flow_complete_although_runners_are_killed() {
    kill_the_runner("killed-runner-flow", Style::Flow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn activities_of_an_explicit_decider_survive_killed_runners() {
    kill_the_runner("killed-runner-explicit", Style::Explicit).await;
}
