//! Tasks under load, over real connections, with waits of all lengths: each started task reaches the client that polled
//! for it. No client here disconnects, so no delivery may fail.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::{Poll, Settings, SystemClock};
use history::{Command, Decision, ScheduleActivity, Start};
use serde_json::{Value, json};
use service::http::ServerLimits;
use simulation::latent::Latent;
use simulation::manual_clock::ManualClock;
use simulation::stores::{fresh, many};
use store::Store;
use store_embedded::{Embedded, Options};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::sockets::Socket;
use crate::support::{Api, PATIENCE};

const DOMAIN: &str = "default";

/// Total number of tasks of all loads.
const TASKS: u64 = 5_000;

/// Clients that poll each list.
const POLLERS: usize = 2;

/// Concurrent calls that create the tasks of one list.
const MAKERS: usize = 2;

/// Waits of the polls in seconds: none, about the time of a commit, and the usual wait of an idle poller.
const WAITS: [&str; 5] = ["0", "0.001", "0.005", "0.02", "1"];

/// Kind of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    /// One task per poll.
    Single,
    /// Exchanges with a single response.
    AtOnce,
    /// Exchanges with a response of lines.
    Lines,
}

const WIRES: [Wire; 3] = [Wire::Single, Wire::AtOnce, Wire::Lines];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Turns,
    Activities,
}

/// One task list and its pollers.
struct Load {
    socket: Arc<Socket>,
    wire: Wire,
    kind: Kind,
    wait: &'static str,
    tasks: usize,
    /// Tokens of the received tasks.
    came: Mutex<HashSet<String>>,
    is_over: AtomicBool,
}

impl Load {
    fn list(&self) -> String {
        format!("{:?}-{:?}-{}", self.wire, self.kind, self.wait)
    }

    /// Creates a task for each of these numbers.
    async fn make(self: Arc<Self>, numbers: Vec<usize>) {
        let engine = &self.socket.api.engine;
        for number in numbers {
            let (id, list) = (format!("{}-{number}", self.list()), self.list());
            if self.kind == Kind::Turns {
                engine.commands().start(DOMAIN, Start::new(&id, "t", &list)).await.unwrap();
                continue;
            }
            // A separate list, so that the poll gets this turn.
            engine.commands().start(DOMAIN, Start::new(&id, "t", &id)).await.unwrap();
            let poll = Poll { wait: PATIENCE, ..Poll::default() };
            let turn = engine.tasks().poll_decider(DOMAIN, &id, poll).await.unwrap().expect("its first turn");
            let token = engine.tasks().decider_token(&turn.task().token).unwrap();
            turn.delivered();
            let activity = ScheduleActivity {
                activity_id: "a".to_owned(),
                activity_type: "do".to_owned(),
                task_list: Some(list),
                ..ScheduleActivity::default()
            };
            let decisions: Vec<Decision> = vec![activity.into()];
            engine.tasks().answer_turn(&token, Command::complete(token.turn, decisions)).await.unwrap();
        }
    }

    /// Polls and completes tasks until all have arrived.
    async fn poll(self: Arc<Self>) {
        // The service closes idle connections after 15 s.
        let http = reqwest::Client::builder().pool_idle_timeout(Duration::from_secs(10)).build().unwrap();
        let side = if self.kind == Kind::Turns { "decider" } else { "activity" };
        let call = if self.wire == Wire::Single { "poll" } else { "exchange" };
        let base = format!("http://{}/v1", self.socket.address);
        let url = format!("{base}/domains/{DOMAIN}/task-lists/{}/{side}/{call}", self.list());
        let mut answers: Vec<Value> = Vec::new();
        while !self.is_over.load(Ordering::SeqCst) || !answers.is_empty() {
            let body = if self.wire == Wire::Single { json!({}) } else { json!({ "maxTasks": 4, "answers": answers }) };
            let mut request = http.post(&url).header("content-type", "application/json").body(body.to_string());
            request = request.header("prefer", format!("wait={}", self.wait));
            if self.wire == Wire::Lines {
                request = request.header("accept", "application/x-ndjson");
            }
            let response = request.send().await.unwrap();
            assert!(response.status().is_success(), "{}", response.status());
            let text = response.text().await.unwrap();
            let tasks: Vec<Value> = match self.wire {
                Wire::Single => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
                Wire::AtOnce | Wire::Lines => text.lines().flat_map(slots).collect(),
            };
            answers.clear();
            for task in tasks {
                let token = task["token"].as_str().unwrap().to_owned();
                let answer = match self.kind {
                    Kind::Turns => ("complete", json!({ "decisions": [{ "type": "SucceedWorkflow" }] })),
                    Kind::Activities => ("success", json!({})),
                };
                if self.wire == Wire::Single {
                    let url = format!("{base}/{side}-tasks/{token}/{}", answer.0);
                    let request = http.post(url).header("content-type", "application/json");
                    assert_eq!(request.body(answer.1.to_string()).send().await.unwrap().status(), 200);
                } else {
                    let (name, body) = answer;
                    answers.push(json!({ "token": token, name: body }));
                }
                let mut came = self.came.lock().await;
                assert!(came.insert(token), "{}: a task was delivered twice", self.list());
                self.is_over.fetch_or(came.len() == self.tasks, Ordering::SeqCst);
            }
        }
    }
}

/// The tasks of an exchange's response or line. Every receipt in it must be a success.
fn slots(text: &str) -> Vec<Value> {
    let exchanged: Value = serde_json::from_str(text).unwrap();
    let receipts = exchanged["receipts"].as_array().into_iter().flatten();
    receipts.for_each(|receipt| assert_eq!(receipt, &json!({})));
    exchanged["tasks"].as_array().unwrap().iter().map(|filled| filled["task"].clone()).collect()
}

/// Counts of failed deliveries, by reason.
fn failed(api: &Api) -> Vec<String> {
    let metrics = api.engine.render_metrics();
    let counts = metrics.lines().filter(|line| line.starts_with("baton_deliveries_failed_total"));
    counts.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
}

/// Runs all loads at once over one store.
async fn deliver_all_over(store: Arc<dyn Store>, tasks: u64) {
    let settings = Settings { seed: Some(7), ..Settings::default() };
    let engine = engine::Engine::open(store, Arc::new(SystemClock), settings).await.unwrap();
    let api = Api::of(service::front::Front::from(engine), ManualClock::new());
    let socket = Arc::new(Socket::of(api, ServerLimits::default()).await);
    let each = usize::try_from(tasks).unwrap() / (WIRES.len() * WAITS.len() * 2);
    let (mut loads, mut clients) = (Vec::new(), JoinSet::new());
    for wire in WIRES {
        for kind in [Kind::Turns, Kind::Activities] {
            for wait in WAITS {
                let socket = Arc::clone(&socket);
                let (came, is_over) = (Mutex::default(), AtomicBool::default());
                let load = Arc::new(Load { socket, wire, kind, wait, tasks: each, came, is_over });
                for _ in 0..POLLERS {
                    clients.spawn(Arc::clone(&load).poll());
                }
                for maker in 0..MAKERS {
                    clients.spawn(Arc::clone(&load).make((maker..each).step_by(MAKERS).collect()));
                }
                loads.push(load);
            }
        }
    }
    let all = async {
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
    };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        for load in &loads {
            let came = load.came.lock().await.len();
            assert_eq!(came, each, "{}: tasks are missing; {:?}", load.list(), failed(&socket.api));
        }
    }
    assert_eq!(failed(&socket.api), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_reaches_its_poll_over_the_embedded_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(Options::new(directory.path())).await.unwrap();
    deliver_all_over(store, TASKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_reaches_its_poll_over_a_slow_store() {
    deliver_all_over(Latent::over(fresh().await, Duration::from_millis(5)), many(TASKS)).await;
}
