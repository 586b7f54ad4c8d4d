//! Queries with the kit on one side and the client on the other, over sockets.

use std::sync::Arc;
use std::time::Duration;

use client::body::{SignalWorkflow, StartWorkflow};
use client::{Client, Patience, Tag, Watch, Watched};
use decider_kit::flow::{Context, Failure, Flow};
use decider_kit::{Decider, Decisions, Event, EventKind, Host, Payload, Query, QueryError, Window};
use engine::{Engine, Settings, SystemClock};
use service::api::router;
use service::http::{Server, ServerLimits};
use simulation::stores::fresh;
use tokio::net::TcpListener;

use crate::support::PATIENCE;

/// Adds up what it is told.
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

/// The same as a flow.
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

async fn open(states: usize) -> (Arc<Engine>, Client) {
    let engine = Engine::open(fresh().await, Arc::new(SystemClock), Settings::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = Server { listener, router: router(Arc::clone(&engine)), limits: ServerLimits::default(), tls: None };
    tokio::spawn(server.run_until(std::future::pending()));
    let client = Client::new(&address).unwrap().patience(Patience::None);
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

async fn story(workflow_type: &str, states: usize) {
    let (engine, client) = open(states).await;
    // Another run, so that a host that keeps one state has to make them again.
    for id in ["w", "v"] {
        let start = StartWorkflow {
            workflow_id: id.to_owned(),
            workflow_type: workflow_type.to_owned(),
            ..StartWorkflow::default()
        };
        client.start(&start, None).await.unwrap();
        assert_eq!(ask::<u64>(&client, id, "sum").await.unwrap().0, 0, "S1.12");
    }
    let mut told = 0;
    for cents in 1..=6 {
        client.signal("w", "add", Some(add(cents)), None).await.unwrap();
        told += cents;
        assert_eq!(ask::<u64>(&client, "w", "sum").await.unwrap().0, told, "S1.11");
        assert_eq!(ask::<u64>(&client, "v", "sum").await.unwrap().0, 0);
        assert_eq!(ask::<u64>(&client, "w", "sum").await.unwrap().0, told, "asked again");
    }
    let error = ask::<u64>(&client, "w", "mean").await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(404), Some("unknown-query")), "{error}");
    let error = ask::<u64>(&client, "w", "broken").await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(422), Some("query-failed")), "{error}");
    assert!(error.to_string().contains("no ink"), "{error}");

    // A page that is stale is found out, without a line of the application's.
    let (_, page) = ask::<u64>(&client, "v", "sum").await.unwrap();
    let adding = SignalWorkflow { input: Some(add(5)), identity: None };
    client.signal_if("v", None, "add", &adding, &page, None).await.unwrap();
    let error = client.signal_if("v", None, "add", &adding, &page, None).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(412), Some("version-moved")), "{error}");

    // Of what is watched only a change is news.
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
    assert!(!watching.is_finished(), "S1.31");
    client.signal("v", "add", Some(add(7)), None).await.unwrap();
    let Watched::Changed(answer) = watching.await.unwrap() else { panic!("it has changed") };
    assert!(answer.read::<bool>().unwrap());
    let unchanged = client.watch("v", "is-big", None, &answer.tag, Watch::Result, Duration::from_millis(50)).await;
    assert_eq!(unchanged.unwrap(), Watched::Unchanged(answer.tag));

    // A run that has closed is asked like any other.
    client.signal("w", "add", Some(add(100)), None).await.unwrap();
    client.result("w", None, PATIENCE).await.unwrap();
    assert_eq!(ask::<u64>(&client, "w", "sum").await.unwrap().0, told + 100);
    let events = client.events("w", None).await.unwrap();
    history::check::history(&events).unwrap();
    assert_eq!(ask::<u64>(&client, "w", "sum").await.unwrap().0, told + 100);
    assert_eq!(client.events("w", None).await.unwrap(), events, "S1.2");
}

#[tokio::test]
async fn a_decider_is_asked_watched_and_signaled_on_condition() {
    story("decider", 10_000).await;
}

#[tokio::test]
async fn a_decider_whose_states_are_made_again_answers_the_same() {
    story("decider", 1).await;
}

#[tokio::test]
async fn a_flow_is_asked_watched_and_signaled_on_condition() {
    story("flow", 10_000).await;
}

#[tokio::test]
async fn a_flow_whose_states_are_made_again_answers_the_same() {
    story("flow", 1).await;
}
