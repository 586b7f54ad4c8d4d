//! Use cases of updates over the public API: a service on a socket, deciders with the kit, callers with the client.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

extern crate baton_service as service;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::body::{StartWorkflow, UpdateWorkflow};
use client::{Client, Error, UpdateResponse, Watch, Watched};
use decider_kit::flow::{Context, Failure, Flow};
use decider_kit::{
    Decider, Decisions, Event, EventKind, Payload, Query, QueryError, Rejection, Update, Verdict, Window,
};
use engine::{Engine, Settings, SystemClock};
use runner_kit::activity_fn;
use serde::{Deserialize, Serialize};
use service::access::Credentials;
use service::api::router_for;
use service::http::{Server, ServerLimits};
use simulation::stores::{fresh, many};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Task list of the flows, and task list of the other deciders.
const FLOWS: &str = "flows";
const LIST: &str = "deciders";
const PATIENCE: Duration = Duration::from_secs(120);

/// A decider whose tasks can be matched once.
struct Dispatch;

#[derive(Default)]
struct Matched(BTreeMap<String, String>);

#[derive(Serialize, Deserialize)]
struct Match {
    task: String,
    to: String,
}

impl Decider for Dispatch {
    type State = Matched;

    fn evolve(&self, state: &mut Matched, event: &Event) {
        if let EventKind::UpdateAccepted(it) = &event.kind {
            let Match { task, to } = it.input.as_ref().unwrap().read().unwrap();
            state.0.insert(task, to);
        }
    }

    fn decide(&self, _: &Matched, _: &Window) -> Decisions {
        Decisions::new().awaiting(["match"])
    }

    fn update(&self, state: &Matched, update: &Update, _: &Window) -> Verdict {
        let wanted: Match = match update.read() {
            Ok(wanted) => wanted,
            Err(rejection) => return Verdict::reject(rejection),
        };
        match state.0.get(&wanted.task) {
            Some(to) => Verdict::reject(Rejection::of("taken", to)),
            None => Verdict::accept(&state.0.len()).and(Decisions::new().marker("matched", &wanted.to)),
        }
    }
}

/// A decider that accepts every update and relies on the framework's conditions.
struct Anything;

impl Decider for Anything {
    type State = ();

    fn evolve(&self, (): &mut (), _: &Event) {}

    fn decide(&self, (): &(), _: &Window) -> Decisions {
        Decisions::new().awaiting(["match"])
    }

    fn update(&self, (): &(), _: &Update, _: &Window) -> Verdict {
        Verdict::accept(&"welcome")
    }
}

/// A flow that counts valid messages and rejects others, which are not recorded.
async fn inbox(ctx: Context, (): ()) -> Result<u32, Failure> {
    let mut messages = ctx.updates::<String>("message").validate(|message| {
        if message.starts_with("corrupt") { Err(Rejection::of("corrupt", message)) } else { Ok(()) }
    });
    let mut count = 0;
    loop {
        let message = messages.next().await?;
        count += 1;
        let is_last = message.input == "last";
        message.done(&count);
        if is_last {
            return Ok(count);
        }
    }
}

/// A flow that completes each update with the result of an activity.
async fn pages(ctx: Context, (): ()) -> Result<(), Failure> {
    let mut pages = ctx.updates::<String>("page");
    let address = pages.next().await?;
    let known: String = ctx.activity("look-up", &address.input).await?;
    address.done(&format!("pay for {known}"));
    Ok(())
}

/// A decider that counts signals, and counts its queries.
struct Tally(Arc<AtomicU64>);

impl Decider for Tally {
    type State = u64;

    fn evolve(&self, count: &mut u64, event: &Event) {
        *count += u64::from(matches!(event.kind, EventKind::Signal(_)));
    }

    fn decide(&self, _: &u64, _: &Window) -> Decisions {
        Decisions::new().awaiting(["more"])
    }

    fn query(&self, count: &u64, query: &Query<'_>) -> Result<Payload, QueryError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        query.on("count", |()| *count).answer()
    }
}

async fn service() -> Client {
    let engine = Engine::open(fresh().await, Arc::new(SystemClock), Settings::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = router_for(engine, Credentials::default());
    tokio::spawn(
        Server { listener, router, limits: ServerLimits::default(), tls: None }.run_until(std::future::pending()),
    );
    let client = Client::new(&url).unwrap();
    let deciders = decider_kit::Host::new(client.clone(), LIST);
    let deciders = deciders.register("dispatch", Dispatch).register("anything", Anything);
    tokio::spawn(deciders.run_until(std::future::pending()));
    let flows = decider_kit::Host::new(client.clone(), FLOWS);
    let flows = flows.register("inbox", Flow::new(inbox)).register("pages", Flow::new(pages));
    tokio::spawn(flows.run_until(std::future::pending()));
    let look_up =
        activity_fn(
            "look-up",
            |_: runner_kit::ActivityContext, street: String| async move { Ok(street.to_uppercase()) },
        );
    let runners = runner_kit::Host::new(client.clone(), FLOWS).register(look_up);
    tokio::spawn(runners.run_until(std::future::pending()));
    client
}

/// Starts a run and returns its tag after the first turn.
async fn begun(client: &Client, workflow_type: &str, list: &str) -> String {
    let start = StartWorkflow {
        workflow_id: "w".to_owned(),
        workflow_type: workflow_type.to_owned(),
        task_list: Some(list.to_owned()),
        ..StartWorkflow::default()
    };
    client.start(&start, None).await.unwrap();
    let page = client::Page { after: Some(3), wait: Some(PATIENCE), ..client::Page::default() };
    let events = client.history("w", None, &page).await.unwrap().events;
    assert!(matches!(events.first().unwrap().kind, EventKind::DeciderCompleted(_)));
    client.etag("w", None).await.unwrap()
}

async fn update(
    client: &Client,
    name: &str,
    input: &impl Serialize,
    id: Option<String>,
    tag: Option<&str>,
) -> Result<UpdateResponse, Error> {
    let update = UpdateWorkflow { input: Payload::of(input).ok(), update_id: id, ..UpdateWorkflow::default() };
    client.update("w", name, &update, tag, PATIENCE).await
}

#[track_caller]
fn reason(answer: Result<UpdateResponse, Error>) -> String {
    match answer.unwrap_err() {
        Error::Refused { problem, .. } => match problem.members.get("reason") {
            Some(reason) => reason.as_str().unwrap().to_owned(),
            None => problem.code.clone(),
        },
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_concurrent_matches_of_a_task_one_succeeds() {
    let client = service().await;
    let tag = begun(&client, "dispatch", LIST).await;
    let wanted = |to: u32| Match { task: "T".to_owned(), to: format!("r{to}") };
    let mut matching = JoinSet::new();
    for to in 0..50 {
        let client = client.clone();
        matching.spawn(async move { update(&client, "match", &wanted(to), None, None).await });
    }
    let answers = matching.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 49));
    assert!(lost.into_iter().all(|answer| reason(answer) == "taken"));
    // A repeated match with the same id returns the first result; a match with another id is rejected.
    let again = Match { task: "U".to_owned(), to: "r1".to_owned() };
    let first = update(&client, "match", &again, Some("m-1".to_owned()), None).await.unwrap();
    assert_eq!(update(&client, "match", &again, Some("m-1".to_owned()), None).await.unwrap(), first);
    assert_eq!(reason(update(&client, "match", &again, Some("m-2".to_owned()), None).await), "taken");
    // With a condition, any other change makes it fail, too.
    let other = Match { task: "V".to_owned(), to: "r2".to_owned() };
    assert_eq!(reason(update(&client, "match", &other, None, Some(&tag)).await), "version-mismatch");
    let now = first.etag.unwrap();
    update(&client, "match", &other, None, Some(&now)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_updates_on_one_version_one_succeeds() {
    let client = service().await;
    let tag = begun(&client, "anything", LIST).await;
    let mut sending = JoinSet::new();
    for number in 0..50 {
        let (client, tag) = (client.clone(), tag.clone());
        sending.spawn(async move { update(&client, "match", &number, None, Some(&tag)).await });
    }
    let answers = sending.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 49));
    assert!(lost.into_iter().all(|answer| reason(answer) == "version-mismatch"));
    // A signal changes the version, too.
    let tag = client.etag("w", None).await.unwrap();
    client.signal("w", "news", None, None).await.unwrap();
    assert_eq!(reason(update(&client, "match", &1, None, Some(&tag)).await), "version-mismatch");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_rejected_messages_leave_no_events() {
    let client = service().await;
    let before = begun(&client, "inbox", FLOWS).await;
    let history = client.events("w", None).await.unwrap();
    let mut consumers = JoinSet::new();
    for consumer in 0..50 {
        let client = client.clone();
        consumers.spawn(async move {
            for number in 0..many(200) {
                let (message, id) = (format!("corrupt {number}"), format!("{consumer}-{number}"));
                assert_eq!(reason(update(&client, "message", &message, Some(id), None).await), "corrupt");
            }
        });
    }
    consumers.join_all().await;
    assert_eq!(client.events("w", None).await.unwrap(), history);
    assert_eq!(client.etag("w", None).await.unwrap(), before);
    let answer = update(&client, "message", &"sound", None, None).await.unwrap();
    assert_eq!(answer.updated.result.unwrap().read::<u32>().unwrap(), 1);
    let last = update(&client, "message", &"last", None, None).await.unwrap();
    assert_eq!(last.updated.result.unwrap().read::<u32>().unwrap(), 2);
    assert_eq!(reason(update(&client, "message", &"more", None, None).await), "run-closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_needs_an_activity_completes_in_one_call() {
    let client = service().await;
    begun(&client, "pages", FLOWS).await;
    let answer = update(&client, "page", &"main street", Some("p".to_owned()), None).await.unwrap();
    assert!(answer.updated.done && answer.etag.is_some());
    assert_eq!(answer.updated.result.unwrap().read::<String>().unwrap(), "pay for MAIN STREET");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_message_starts_its_run_and_a_corrupt_one_fails() {
    let client = service().await;
    let start = StartWorkflow {
        workflow_id: "w".to_owned(),
        workflow_type: "inbox".to_owned(),
        task_list: Some(FLOWS.to_owned()),
        reuse_policy: Some(history::ReusePolicy::AllowDuplicate),
        ..StartWorkflow::default()
    };
    let send = async |message: &str, id: &str| {
        let input = Payload::of(&message).ok();
        let update = UpdateWorkflow { input, update_id: Some(id.to_owned()), ..UpdateWorkflow::default() };
        client.update_with_start(&start, "message", &update, PATIENCE).await
    };
    let first = send("corrupt 1", "1").await;
    assert!(matches!(&first, Err(Error::Refused { problem, .. }) if problem.members.contains_key("startedRunId")));
    assert_eq!(reason(first), "corrupt");
    let sound = send("sound", "2").await.unwrap().updated;
    assert_eq!((sound.started, sound.result.unwrap().read::<u32>().unwrap()), (false, 1));
    let last = send("last", "3").await.unwrap().updated;
    // The run has closed: a new message starts another run, and a repeated one does not.
    assert_eq!(send("last", "3").await.unwrap().updated, last);
    let next = send("sound", "4").await.unwrap().updated;
    assert!(next.started && next.run_id != last.run_id);
    assert_eq!(next.result.unwrap().read::<u32>().unwrap(), 1, "accepted and completed by its first turn");
    let events = client.events("w", None).await.unwrap();
    let turns = events.iter().filter(|event| matches!(event.kind, EventKind::DeciderCompleted(_))).count();
    assert_eq!(turns, 1);
}

/// Value of a metric.
async fn counted(client: &Client, name: &str) -> u64 {
    let metrics = client.metrics().await.unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("baton_{name} ")));
    line.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_watchers_cost_one_query_per_change_and_no_write() {
    const WATCHERS: u64 = 1_000;
    let client = service().await;
    let asked = Arc::new(AtomicU64::new(0));
    let deciders = decider_kit::Host::new(client.clone(), "tally").register("tally", Tally(Arc::clone(&asked)));
    tokio::spawn(deciders.run_until(std::future::pending()));
    begun(&client, "tally", "tally").await;
    let mut seen = client.query("w", None, "count", None, PATIENCE).await.unwrap().tag;
    for change in 1..=2 {
        let mut watching = JoinSet::new();
        for number in 0..WATCHERS {
            let (client, seen) = (client.clone(), seen.clone());
            let what = if number % 2 == 0 { Watch::Version } else { Watch::Result };
            watching.spawn(async move { client.watch("w", "count", None, &seen, what, PATIENCE).await });
        }
        while counted(&client, "queries_waiting").await < WATCHERS {
            tokio::task::yield_now().await;
        }
        let (evaluated, written) = (asked.load(Ordering::SeqCst), counted(&client, "store_commits_total").await);
        // Other reads, which write nothing either.
        for _ in 0..20 {
            client.describe("w", None).await.unwrap();
        }
        assert_eq!(counted(&client, "store_commits_total").await, written, "idle watchers cause no writes");
        client.signal("w", "more", None, None).await.unwrap();
        for watched in watching.join_all().await {
            let Watched::Changed(answer) = watched.unwrap() else { panic!("it has changed") };
            assert_eq!(answer.read::<u64>().unwrap(), change);
            seen = answer.tag;
        }
        assert_eq!(asked.load(Ordering::SeqCst), evaluated + 1, "one evaluation, 1,000 replies");
    }
}
