//! Tests of the host with flows over HTTP, against a fake service with one run whose activities complete immediately.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

use std::sync::{Arc, Mutex};

use baton_client::Client;
use baton_client::body::{
    AnswerReceipt, CompleteTurn, DeciderTask, ExchangeTurns, Exchanged, FailTurn, History, SlotTask, TurnReply,
};
use baton_decider_kit::flow::{Context, Failure, Flow};
use baton_decider_kit::{Event, EventKind, Host, Status};
use baton_history::{Command, Run, Start, TaskId, TaskRef, Timestamp, Transition, TurnAnswer, TurnId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A run in the fake service, and the number of requests for its older history.
struct Service {
    run: Run,
    events: Vec<Event>,
    now: u64,
    look_backs: usize,
    /// Number of events. A change wakes waiting polls.
    moved: watch::Sender<usize>,
}

impl Service {
    fn start() -> Arc<Mutex<Self>> {
        let start = Start::new("1", "flow", "flows");
        let (run, events) =
            Transition::start(&start, uuid::Uuid::nil(), Timestamp::from_millis(0)).unwrap().into_parts();
        Arc::new(Mutex::new(Self { run, events, now: 0, look_backs: 0, moved: watch::Sender::new(0) }))
    }

    fn admit(&mut self, command: &Command) {
        self.now += 10_000;
        let mut transition = Transition::of(self.run.clone());
        transition.admit(command, Timestamp::from_millis(self.now)).unwrap();
        let (run, events) = transition.into_parts();
        self.run = run;
        self.events.extend(events);
        self.moved.send_replace(self.events.len());
    }

    fn signal(&mut self, name: &str) {
        let name = name.to_owned();
        self.admit(&Command::Signal { name, input: None, identity: None, key: None, if_version: None });
    }

    fn waiting_activity(&self) -> Option<u64> {
        self.run.waiting_tasks().find_map(|task| match task {
            TaskRef::Activity(task) => Some(task.scheduled_event_id),
            TaskRef::Turn(_) => None,
        })
    }

    /// Completes the waiting activities, then returns the next turn if there is one.
    fn poll(&mut self) -> Option<DeciderTask> {
        while let Some(scheduled_event_id) = self.waiting_activity() {
            self.admit(&Command::StartActivity { scheduled_event_id, identity: None, poll: None });
            let task = TaskId { scheduled_event_id, started_event_id: self.run.last_event_id, start: 0 };
            self.admit(&Command::SucceedActivity { task, result: None });
        }
        let waiting = self.run.turn_task.clone().filter(|_| self.run.turn.is_none())?;
        self.admit(&Command::StartTurn { scheduled_event_id: waiting.scheduled_event_id, identity: None, poll: None });
        let previous = self.run.previous_started_event_id;
        Some(DeciderTask {
            token: format!("{}-{}", waiting.scheduled_event_id, self.run.last_event_id),
            domain: "default".to_owned(),
            workflow_id: "1".to_owned(),
            run_id: uuid::Uuid::nil(),
            workflow_type: "flow".to_owned(),
            task_list: "flows".to_owned(),
            attempt: waiting.attempt,
            started_event_id: self.run.last_event_id,
            previous_started_event_id: previous,
            events: self.events.iter().filter(|event| event.id >= previous).cloned().collect(),
            next: None,
            context: None,
            queries: Vec::new(),
            query_only: false,
            updates: Vec::new(),
            speculative: false,
            traceparent: None,
            tracestate: None,
        })
    }

    /// Returns the page of history that a host requests.
    fn look_back(&mut self, path: &str) -> History {
        let (_, before) = path.split_once("before=").unwrap();
        self.look_backs += 1;
        let before: u64 = before.parse().unwrap();
        let events = self.events.iter().filter(|event| event.id < before).cloned().collect();
        History { events, run_id: uuid::Uuid::nil(), last_event_id: self.run.last_event_id, closed: false, next: None }
    }

    fn answered(&mut self, TurnReply { token, complete, fail }: TurnReply) -> AnswerReceipt {
        let (scheduled, started) = token.split_once('-').unwrap();
        let (scheduled_event_id, started_event_id) = (scheduled.parse().unwrap(), started.parse().unwrap());
        let turn = TurnId { scheduled_event_id, started_event_id };
        if let Some(CompleteTurn { decisions, context, awaiting, .. }) = complete {
            self.admit(&Command::complete(turn, TurnAnswer { decisions, context, awaiting, ..TurnAnswer::default() }));
        } else if let Some(FailTurn { reason, details, .. }) = fail {
            self.admit(&Command::FailTurn { turn, reason, details });
        }
        AnswerReceipt { problem: None, warnings: Vec::new() }
    }
}

async fn serve(service: Arc<Mutex<Service>>, mut stream: TcpStream) {
    let mut request = Vec::new();
    let (head, length) = loop {
        if stream.read_buf(&mut request).await.unwrap() == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse().unwrap())
            });
            break (head.to_owned(), length.unwrap_or(0));
        }
    };
    while request.len() < head.len() + 4 + length {
        stream.read_buf(&mut request).await.unwrap();
    }
    let path = head.split(' ').nth(1).unwrap();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    if !path.ends_with("/exchange") {
        let history = serde_json::to_string(&service.lock().unwrap().look_back(path)).unwrap();
        let _ = stream.write_all(format!("{head}{history}").as_bytes()).await;
        return;
    }
    let exchange: ExchangeTurns = serde_json::from_slice(&request[request.len() - length..]).unwrap();
    let receipts: Vec<_> = exchange.answers.into_iter().map(|reply| service.lock().unwrap().answered(reply)).collect();
    let line = |exchanged: Exchanged<DeciderTask>| serde_json::to_string(&exchanged).unwrap() + "\n";
    let first = line(Exchanged { receipts: Some(receipts), tasks: Vec::new(), no_pollers: None });
    // A host that stops closes the connection, so failed writes are ignored here and below.
    let _ = stream.write_all(format!("{head}{first}").as_bytes()).await;
    if exchange.max_tasks == 0 {
        return;
    }
    // The fake service waits for a turn, like the real service.
    let task = loop {
        let mut moved = service.lock().unwrap().moved.subscribe();
        if let Some(task) = service.lock().unwrap().poll() {
            break task;
        }
        moved.changed().await.unwrap();
    };
    let tasks = vec![SlotTask { slot: 0, task }];
    let _ = stream.write_all(line(Exchanged { receipts: None, tasks, no_pollers: None }).as_bytes()).await;
}

/// Runs a host with this flow until the condition holds.
async fn host(service: &Arc<Mutex<Service>>, flow: Flow, until: impl Fn(&Service) -> bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let accepted = Arc::clone(service);
    let serving = tokio::spawn(async move {
        // The set is dropped when the host stops, because a poll of a stopped host must not take a turn.
        let mut served = tokio::task::JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            served.spawn(serve(Arc::clone(&accepted), stream));
        }
    });
    let mut moved = service.lock().unwrap().moved.subscribe();
    let host = Host::new(client, "flows").register("flow", flow).concurrency(1);
    host.run_until(async {
        while !until(&service.lock().unwrap()) {
            moved.changed().await.unwrap();
        }
    })
    .await;
    serving.abort();
    drop(serving.await);
}

async fn two_and_a_signal(ctx: Context, (): ()) -> Result<(), Failure> {
    ctx.activity::<()>("a", &()).await?;
    ctx.activity::<()>("b", &()).await?;
    ctx.signals::<()>("go").next().await?;
    ctx.activity("c", &()).await
}

/// Returns whether the flow has completed its activities `a` and `b` and waits for the signal.
fn waits(service: &Service) -> bool {
    let is_done = |event: &&Event| matches!(event.kind, EventKind::ActivitySuccess(_));
    let is_idle = service.run.turn.is_none() && service.run.turn_task.is_none();
    service.events.iter().filter(is_done).count() >= 2 && is_idle
}

fn closed(service: &Service) -> bool {
    service.run.status == Status::Success
}

#[tokio::test]
async fn a_turn_of_a_flow_costs_its_window() {
    let service = Service::start();
    host(&service, Flow::new(two_and_a_signal), waits).await;
    assert_eq!(service.lock().unwrap().look_backs, 0);
}

#[tokio::test]
async fn another_host_continues_a_flow_from_its_history() {
    let service = Service::start();
    host(&service, Flow::new(two_and_a_signal), waits).await;
    service.lock().unwrap().signal("go");
    host(&service, Flow::new(two_and_a_signal), closed).await;
    assert_eq!(service.lock().unwrap().look_backs, 1);
    baton_history::check::history(&service.lock().unwrap().events).unwrap();
}

#[tokio::test]
async fn a_mismatch_gives_the_turn_back_with_the_difference() {
    let service = Service::start();
    host(&service, Flow::new(two_and_a_signal), waits).await;
    service.lock().unwrap().signal("go");
    let other = Flow::new(async |ctx: Context, ()| ctx.activity::<()>("b", &()).await);
    let failed = |service: &Service| {
        service.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::DeciderFailed(it) => Some(it.clone()),
            _ => None,
        })
    };
    host(&service, other, |service| failed(service).is_some()).await;
    let failed = failed(&service.lock().unwrap()).unwrap();
    assert_eq!(failed.reason.as_deref(), Some("flow-mismatch"));
    let message: String = failed.details.unwrap().read().unwrap();
    assert!(
        message.contains("event 5 is ActivityScheduled `a`, but the code issued ScheduleActivity `b`"),
        "{message}"
    );
    assert_eq!(service.lock().unwrap().run.status, Status::Open);
}
