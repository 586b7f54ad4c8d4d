//! Queries between the decider kit and the client, and output between the runner kit and the client, over sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::body::{CompleteTurn, PollDecider, SignalWorkflow, StartWorkflow};
use client::{Client, OutputPosition, Patience, Tag, Watch, Watched};
use decider_kit::flow::{Context, Failure, Flow};
use decider_kit::{Decider, Decisions, Event, EventKind, Host, Payload, Query, QueryError, Window};
use engine::{Engine, Settings, SystemClock};
use history::ScheduleActivity;
use runner_kit::{ActivityContext, ActivityFailure, activity_fn};
use service::api::router;
use service::http::{Server, ServerLimits};
use simulation::stores::fresh;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use crate::support::PATIENCE;

/// A decider that adds up the signals that it receives.
struct Sum;

impl Decider for Sum {
    type State = u64;

    fn evolve(&self, sum: &mut u64, event: &Event) {
        if let EventKind::Signal(it) = &event.kind {
            *sum += it.input.as_ref().and_then(|input| input.read::<u64>().ok()).unwrap_or_default();
        }
    }

    fn decide(&self, sum: &u64, _: &Window) -> Decisions {
        if *sum >= 100 { Decisions::new().succeed(sum) } else { Decisions::new().awaiting(["add"]) }
    }

    fn query(&self, sum: &u64, query: &Query<'_>) -> Result<Payload, QueryError> {
        let big = |()| *sum >= 10;
        query.on("sum", |()| *sum).on("is-big", big).on("broken", |()| assert!(*sum > 1_000, "no ink")).answer()
    }
}

/// The same decider as a flow.
async fn sum(ctx: Context, (): ()) -> Result<u64, Failure> {
    let sum = Arc::new(std::sync::Mutex::new(0_u64));
    let (shown, compared) = (Arc::clone(&sum), Arc::clone(&sum));
    ctx.query("sum", move |()| *shown.lock().unwrap());
    ctx.query("is-big", move |()| *compared.lock().unwrap() >= 10);
    ctx.query("broken", |()| -> u64 { panic!("no ink") });
    let mut adds = ctx.signals::<u64>("add");
    loop {
        let add = adds.next().await?;
        let mut sum = sum.lock().unwrap();
        *sum += add;
        if *sum >= 100 {
            return Ok(*sum);
        }
    }
}

/// Starts a service on a socket, and returns it with a client.
async fn serve() -> (Arc<Engine>, Client) {
    let engine = Engine::open(fresh().await, Arc::new(SystemClock), Settings::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = Server { listener, router: router(Arc::clone(&engine)), limits: ServerLimits::default(), tls: None };
    tokio::spawn(server.run_until(std::future::pending()));
    (engine, Client::new(&address).unwrap().patience(Patience::None))
}

async fn open(states: usize) -> (Arc<Engine>, Client) {
    let (engine, client) = serve().await;
    let host = Host::new(client.clone(), "default").register("decider", Sum).register("flow", Flow::new(sum));
    tokio::spawn(host.cached_states(states).run_until(std::future::pending()));
    (engine, client)
}

fn add(cents: u64) -> Payload {
    Payload::of(&cents).unwrap()
}

async fn ask<T: serde::de::DeserializeOwned>(client: &Client, id: &str, name: &str) -> Result<(T, Tag), client::Error> {
    let answer = client.query(id, None, name, None, PATIENCE).await?;
    Ok((answer.read().unwrap(), answer.tag))
}

async fn run_queries(workflow_type: &str, states: usize) {
    let (engine, client) = open(states).await;
    // A second run: a host that caches one state has to rebuild states.
    for id in ["w", "v"] {
        let start = StartWorkflow {
            workflow_id: id.to_owned(),
            workflow_type: workflow_type.to_owned(),
            ..StartWorkflow::default()
        };
        client.start(&start, None).await.unwrap();
        assert_eq!(ask::<u64>(&client, id, "sum").await.unwrap().0, 0);
    }
    let mut told = 0;
    for cents in 1..=6 {
        client.signal("w", "add", Some(add(cents)), None).await.unwrap();
        told += cents;
        assert_eq!(ask::<u64>(&client, "w", "sum").await.unwrap().0, told);
        assert_eq!(ask::<u64>(&client, "v", "sum").await.unwrap().0, 0);
        assert_eq!(ask::<u64>(&client, "w", "sum").await.unwrap().0, told, "asked again");
    }
    let error = ask::<u64>(&client, "w", "mean").await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(404), Some("unknown-query")), "{error}");
    let error = ask::<u64>(&client, "w", "broken").await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(422), Some("query-failed")), "{error}");
    assert!(error.to_string().contains("no ink"), "{error}");

    // A signal on the version of an outdated answer is refused without code of the application.
    let (_, page) = ask::<u64>(&client, "v", "sum").await.unwrap();
    let adding = SignalWorkflow { input: Some(add(5)), identity: None };
    client.signal_if("v", None, "add", &adding, &page, None).await.unwrap();
    let error = client.signal_if("v", None, "add", &adding, &page, None).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(412), Some("version-mismatch")), "{error}");

    // A watching query returns only when the result changes.
    let (is_big, seen) = ask::<bool>(&client, "v", "is-big").await.unwrap();
    assert!(!is_big);
    let watching = {
        let (client, seen) = (client.clone(), seen.clone());
        tokio::spawn(async move { client.watch("v", "is-big", None, &seen, Watch::Result, PATIENCE).await.unwrap() })
    };
    while !engine.render_metrics().contains("baton_queries_waiting 1\n") {
        tokio::task::yield_now().await;
    }
    client.signal("v", "add", Some(add(1)), None).await.unwrap();
    assert_eq!(ask::<u64>(&client, "v", "sum").await.unwrap().0, 6);
    assert!(!watching.is_finished());
    client.signal("v", "add", Some(add(7)), None).await.unwrap();
    let Watched::Changed(answer) = watching.await.unwrap() else { panic!("it has changed") };
    assert!(answer.read::<bool>().unwrap());
    let unchanged = client.watch("v", "is-big", None, &answer.tag, Watch::Result, Duration::from_millis(50)).await;
    assert_eq!(unchanged.unwrap(), Watched::Unchanged(answer.tag));

    // A closed run answers queries, too.
    client.signal("w", "add", Some(add(100)), None).await.unwrap();
    client.result("w", None, PATIENCE).await.unwrap();
    assert_eq!(ask::<u64>(&client, "w", "sum").await.unwrap().0, told + 100);
    let events = client.events("w", None).await.unwrap();
    history::check::history(&events).unwrap();
    assert_eq!(ask::<u64>(&client, "w", "sum").await.unwrap().0, told + 100);
    assert_eq!(client.events("w", None).await.unwrap(), events);
}

#[tokio::test]
async fn a_decider_answers_queries_watches_and_conditional_signals() {
    run_queries("decider", 10_000).await;
}

#[tokio::test]
async fn a_decider_with_rebuilt_states_answers_the_same() {
    run_queries("decider", 1).await;
}

#[tokio::test]
async fn a_flow_answers_queries_watches_and_conditional_signals() {
    run_queries("flow", 10_000).await;
}

#[tokio::test]
async fn a_flow_with_rebuilt_states_answers_the_same() {
    run_queries("flow", 1).await;
}

/// A decider that reports its turn, and decides when the test lets it.
struct Held {
    taken: mpsc::UnboundedSender<String>,
    go_on: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Decider for Held {
    type State = ();

    fn evolve(&self, (): &mut (), _: &Event) {}

    fn decide(&self, (): &(), window: &Window) -> Decisions {
        self.taken.send(window.workflow_id.clone()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        Decisions::new().succeed(&())
    }
}

fn held(id: &str, workflow_type: &str, list: &str) -> StartWorkflow {
    let [workflow_id, workflow_type] = [id, workflow_type].map(str::to_owned);
    StartWorkflow { workflow_id, workflow_type, task_list: Some(list.to_owned()), ..StartWorkflow::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_decider_host_continues_when_the_run_of_its_turn_is_deleted() {
    let (_engine, client) = serve().await;
    let (taken, mut turns) = mpsc::unbounded_channel();
    let (go_on, told) = std::sync::mpsc::channel();
    let (held_by, list) = (Held { taken, go_on: Mutex::new(told) }, "held");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let host = Host::new(client.clone(), list).register("held", held_by).concurrency(1);
    let hosting = tokio::spawn(host.run_until(async { drop(stopped.await) }));
    for id in ["gone", "there"] {
        client.start(&held(id, "held", list), None).await.unwrap();
        assert_eq!(turns.recv().await.as_deref(), Some(id));
        if id == "gone" {
            client.delete(id, None, true).await.unwrap();
        }
        go_on.send(()).unwrap();
    }
    let result = client.result("there", None, PATIENCE).await.unwrap();
    assert_eq!(format!("{:?}", result.status), "Success");
    drop(stop);
    tokio::time::timeout(PATIENCE, hosting).await.unwrap().unwrap();
    assert_eq!(turns.try_recv().ok(), None, "the deleted run's turn is not retried");
}

#[tokio::test]
async fn a_runner_host_continues_when_its_activitys_run_is_deleted() {
    let (_engine, client) = serve().await;
    let (taken, mut activities) = mpsc::unbounded_channel();
    let go_on = Arc::new(Notify::new());
    let waits = Arc::clone(&go_on);
    let hold = runner_kit::activity_fn("hold", move |ctx: runner_kit::ActivityContext, (): ()| {
        taken.send(ctx.workflow_id.to_string()).unwrap();
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            Ok::<_, runner_kit::ActivityFailure>(())
        }
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let host = runner_kit::Host::new(client.clone(), "acts").register(hold).concurrency(1);
    let hosting = tokio::spawn(host.run_until(async { drop(stopped.await) }));
    let turn = async || client.poll_decider("by-hand", &PollDecider::default(), PATIENCE).await.unwrap().unwrap();
    for id in ["gone", "there"] {
        client.start(&held(id, "by-hand", "by-hand"), None).await.unwrap();
        let schedule = ScheduleActivity {
            activity_id: "a".to_owned(),
            activity_type: "hold".to_owned(),
            task_list: Some("acts".to_owned()),
            ..ScheduleActivity::default()
        };
        let complete = CompleteTurn { decisions: vec![schedule.into()], ..CompleteTurn::default() };
        client.complete_turn(&turn().await.token, &complete, Patience::None).await.unwrap();
        assert_eq!(activities.recv().await.as_deref(), Some(id));
        if id == "gone" {
            client.delete(id, None, true).await.unwrap();
        }
        go_on.notify_one();
    }
    let next = turn().await;
    assert_eq!(next.workflow_id, "there");
    assert!(next.events.iter().any(|event| matches!(event.kind, EventKind::ActivitySuccess(_))));
    drop(stop);
    tokio::time::timeout(PATIENCE, hosting).await.unwrap().unwrap();
    assert_eq!(activities.try_recv().ok(), None, "the deleted run's activity is not retried");
}

#[tokio::test]
async fn a_cancel_request_reaches_the_code_of_an_activity() {
    let (_engine, client) = serve().await;
    let (begin, mut begun) = mpsc::unbounded_channel();
    let wait = move |context: runner_kit::ActivityContext, (): ()| {
        let begin = begin.clone();
        async move {
            begin.send(()).unwrap();
            context.canceled().await;
            Err::<(), _>(runner_kit::ActivityFailure::canceled())
        }
    };
    let runner = runner_kit::Host::new(client.clone(), "acts").register(runner_kit::activity_fn("wait", wait));
    tokio::spawn(runner.run_until(std::future::pending()));
    let start =
        StartWorkflow { workflow_id: "w".to_owned(), workflow_type: "t".to_owned(), ..StartWorkflow::default() };
    client.start(&start, None).await.unwrap();
    let decide = async |decision: history::Decision| {
        let turn = client.poll_decider("default", &PollDecider::default(), PATIENCE).await.unwrap().unwrap();
        let complete = CompleteTurn { decisions: vec![decision], ..CompleteTurn::default() };
        client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
    };
    // A heartbeat is due each minute only.
    let timeouts = history::event::ActivityTimeouts {
        heartbeat: Some(history::Duration::from_secs(180)),
        ..history::event::ActivityTimeouts::default()
    };
    let (activity_id, activity_type, task_list) = ("a".to_owned(), "wait".to_owned(), Some("acts".to_owned()));
    let schedule = ScheduleActivity { activity_id, activity_type, task_list, timeouts, ..ScheduleActivity::default() };
    decide(schedule.into()).await;
    begun.recv().await.unwrap();
    client.signal("w", "stop", None, None).await.unwrap();
    decide(history::CancelActivity { activity_id: "a".to_owned() }.into()).await;
    let canceled = async {
        while !client
            .events("w", None)
            .await
            .unwrap()
            .iter()
            .any(|it| matches!(it.kind, EventKind::ActivityCanceled(_)))
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), canceled).await.expect("before the next heartbeat is due");
}

#[tokio::test]
async fn readers_follow_the_output_of_an_activity_of_the_kit() {
    let (_engine, client) = serve().await;
    let (begun, proceed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, waits) = (Arc::clone(&begun), Arc::clone(&proceed));
    let talk = move |context: ActivityContext, (): ()| {
        let (begins, waits) = (Arc::clone(&begins), Arc::clone(&waits));
        async move {
            context.append("one");
            begins.notify_one();
            waits.notified().await;
            context.append(&[2]);
            Ok::<_, ActivityFailure>(())
        }
    };
    let runner = runner_kit::Host::new(client.clone(), "acts").register(activity_fn("talk", talk));
    tokio::spawn(runner.run_until(std::future::pending()));
    let (workflow_id, workflow_type) = ("w".to_owned(), "t".to_owned());
    client.start(&StartWorkflow { workflow_id, workflow_type, ..StartWorkflow::default() }, None).await.unwrap();
    let turn = client.poll_decider("default", &PollDecider::default(), PATIENCE).await.unwrap().expect("a turn");
    let (activity_id, activity_type, task_list) = ("a".to_owned(), "talk".to_owned(), Some("acts".to_owned()));
    let schedule = ScheduleActivity { activity_id, activity_type, task_list, ..ScheduleActivity::default() };
    let complete = CompleteTurn { decisions: vec![schedule.into()], ..CompleteTurn::default() };
    client.complete_turn(&turn.token, &complete, Patience::None).await.unwrap();
    begun.notified().await;
    let (mut at, mut texts) = (OutputPosition::default(), Vec::new());
    loop {
        let page = client.activity_output("w", "a", &at, Some(Duration::from_secs(20))).await.unwrap();
        texts.extend(page.chunks.iter().map(|chunk| chunk.data.as_ref().unwrap().to_string()));
        if texts.len() == 1 {
            proceed.notify_one();
        }
        at = OutputPosition::after(&page);
        if let Some(end) = page.end {
            assert_eq!(end.event.as_deref(), Some("ActivitySuccess"));
            break;
        }
    }
    assert_eq!(texts, ["\"one\"", "[2]"]);
}
