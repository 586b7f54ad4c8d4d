//! Nodes that share a store: the shards that each node serves, and the consequences of the loss of a node.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Node, Poll, Settings};
use history::{CancelActivity, Command, StartTimer};
use simulation::manual_clock::ManualClock;
use simulation::stores::with_due_shards;
use store::Store;
use store::fault::{Chances, FaultStore};

use crate::{DOMAIN, Service, activity, at};

/// Returns a store with shards of the due index and random delays.
pub(crate) async fn slow_store() -> Arc<dyn Store> {
    let slow = Chances { delay: 1_000, delay_max: Duration::from_millis(20), ..Chances::NONE };
    Arc::new(FaultStore::new(with_due_shards(8).await, 3, slow))
}

pub(crate) async fn open(store: &Arc<dyn Store>, clock: &Arc<ManualClock>, address: Option<String>) -> Service {
    // Each node has a different seed, because nodes with the same seed would mistake each other's commits for their
    // own.
    let seed = address.as_ref().map_or(0, |address| address.bytes().map(u64::from).sum());
    let node = address.map(|address| Node { address });
    let settings = Settings { seed: Some(7 + seed), node, ..Settings::default() };
    let engine = Engine::open(Arc::clone(store), Arc::clone(clock) as _, settings).await.unwrap();
    Service { engine, clock: Arc::clone(clock), store: Arc::clone(store) }
}

pub(crate) fn clock() -> Arc<ManualClock> {
    ManualClock::new()
}

/// Opens nodes over one store, with one clock.
async fn nodes<const N: usize>() -> [Service; N] {
    let (store, clock) = (slow_store().await, clock());
    let mut nodes = Vec::new();
    for number in 0..N {
        nodes.push(open(&store, &clock, Some(format!("http://node{number}"))).await);
    }
    nodes.try_into().ok().unwrap()
}

/// Advances tokio's time and the service's clock.
pub(crate) async fn pass(service: &Service, seconds: u64) {
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        service.clock.advance(history::Duration::from_secs(1));
    }
}

pub(crate) async fn set_timer(service: &Service, timer_id: &str, seconds: u64) {
    let turn = service.turn().await;
    let after = history::Duration::from_secs(seconds);
    service
        .complete(turn, vec![StartTimer { timer_id: timer_id.to_owned(), after, control: None }.into()])
        .await
        .unwrap();
}

/// Starts runs that each wait for a timer. This node has the timers on its agenda.
async fn waiting_runs(service: &Service, seconds: u64) -> Vec<String> {
    let ids: Vec<String> = (0..12).map(|number| format!("w{number}")).collect();
    for id in &ids {
        service.start(id).await;
        set_timer(service, "t", seconds).await;
    }
    ids
}

async fn signal(service: &Service, id: &str) {
    let signal = Command::Signal { name: "s".to_owned(), input: None, identity: None, key: None, if_version: None };
    service.engine.commands().submit(&at(id), signal).await.unwrap();
}

async fn expired(service: &Service, ids: &[String]) -> usize {
    let mut count = 0;
    for id in ids {
        count += usize::from(service.names(id).await.contains(&"TimerExpired"));
    }
    count
}

#[tokio::test(start_paused = true)]
async fn nodes_see_each_other_and_miss_one_that_vanished() {
    let [one, two, three] = nodes().await;
    pass(&one, 4).await;
    let all = ["http://node0", "http://node1", "http://node2"];
    for node in [&one, &two, &three] {
        assert_eq!(node.engine.nodes().alive(), all);
    }
    three.engine.begin_shutdown();
    pass(&one, 2).await;
    assert_eq!(one.engine.nodes().alive(), all, "it may only be slow");
    pass(&one, 3).await;
    assert_eq!(one.engine.nodes().alive(), all[..2]);
    assert_eq!(two.engine.nodes().alive(), all[..2]);
}

#[tokio::test(start_paused = true)]
async fn timers_of_a_vanished_node_are_fired_by_the_others() {
    let [one, two] = nodes().await;
    pass(&one, 4).await;
    let ids = waiting_runs(&one, 15).await;
    one.engine.begin_shutdown();
    pass(&two, 13).await;
    assert_eq!(expired(&two, &ids).await, 0, "not before their time");
    pass(&two, 12).await;
    assert_eq!(expired(&two, &ids).await, 12, "ten seconds later at most");
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_vanished_node_is_offered_within_five_seconds() {
    let [one, two] = nodes().await;
    pass(&one, 4).await;
    one.start("w").await;
    one.engine.begin_shutdown();
    let engine = Arc::clone(&two.engine);
    let poll = Poll { wait: Duration::from_secs(60), ..Poll::default() };
    let polling = tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap() });
    pass(&two, 5).await;
    assert!(polling.is_finished(), "the due index alone would take half a minute");
    polling.await.unwrap().expect("a turn").delivered();
}

#[tokio::test(start_paused = true)]
async fn an_earlier_timer_of_a_vanished_node_is_fired_in_time() {
    let [one, two] = nodes().await;
    pass(&one, 4).await;
    // The timers are due so soon that they are on the node's agenda.
    let ids = waiting_runs(&two, 50).await;
    for id in &ids {
        signal(&one, id).await;
        set_timer(&one, "earlier", 15).await;
    }
    one.engine.begin_shutdown();
    pass(&two, 25).await;
    assert_eq!(expired(&two, &ids).await, 12);
}

#[tokio::test(start_paused = true)]
async fn timers_of_an_unknown_node_are_found_in_the_store() {
    let [one, _two] = nodes().await;
    pass(&one, 4).await;
    // The heartbeats of this node do not arrive at the other nodes.
    let unknown = open(&one.store, &one.clock, None).await;
    let ids = waiting_runs(&unknown, 15).await;
    unknown.engine.begin_shutdown();
    pass(&one, 20).await;
    assert_eq!(expired(&one, &ids).await, 12);
}

#[tokio::test(start_paused = true)]
async fn a_timer_known_to_all_nodes_fires_once() {
    let [one, two, three] = nodes().await;
    pass(&one, 4).await;
    let ids = waiting_runs(&one, 15).await;
    pass(&one, 16).await;
    assert_eq!(expired(&three, &ids).await, 12, "in time");
    let conflicts = [&one, &two, &three].map(|node| conflicts(&node.engine));
    assert_eq!(conflicts, [0, 0, 0], "only the home node of a timer fires it");
}

fn conflicts(engine: &Engine) -> u64 {
    let metrics = engine.render_metrics();
    let line = metrics.lines().find(|line| line.starts_with("baton_commit_conflicts_total ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_names_a_run_finds_its_tasks_of_other_nodes() {
    let [one, other] = nodes().await;
    pass(&one, 3).await;
    for id in ["v", "w"] {
        one.start(id).await;
    }
    let poll = || Poll { wait: Duration::from_secs(20), workflow_id: Some("w".to_owned()), ..Poll::default() };
    let turn_at_other = async || {
        let polled = other.engine.tasks().poll_decider(DOMAIN, "deciders", poll()).await.unwrap();
        let delivery = polled.expect("the run has a turn");
        assert_eq!(&*delivery.task().workflow_id, "w");
        other.complete(delivery, Vec::new()).await.unwrap();
    };
    // The turn waits in the memory of the other node.
    turn_at_other().await;
    // The turn begins to wait there after this poll.
    let later = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        signal(&one, "w").await;
        tokio::time::Instant::now()
    };
    let (signaled, ()) = tokio::join!(later, turn_at_other());
    assert!(signaled.elapsed() <= Duration::from_secs(3), "{:?}", signaled.elapsed());
    let turn = one.turn().await;
    assert_eq!(&*turn.task().workflow_id, "v", "it stayed where it was");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_at_another_node_ends_a_waiting_heartbeat() {
    let [one, other] = nodes().await;
    pass(&one, 3).await;
    one.start("w").await;
    let turn = one.turn().await;
    one.complete(turn, vec![activity("a", "acts")]).await.unwrap();
    let poll = Poll { wait: Duration::from_secs(5), ..Poll::default() };
    let task = one.engine.tasks().poll_activity(DOMAIN, "acts", poll).await.unwrap().expect("it waits");
    let token = one.engine.tasks().activity_token(&task.task().token).unwrap();
    task.delivered();
    let cancel = async {
        signal(&other, "w").await;
        let turn = other.turn().await;
        let cancel = CancelActivity { activity_id: "a".to_owned() };
        other.complete(turn, vec![cancel.into()]).await.unwrap();
        tokio::time::Instant::now()
    };
    let (wait, left) = (Duration::from_secs(60), std::future::pending());
    let (state, canceled) = tokio::join!(one.engine.tasks().heartbeat_and_wait(&token, None, wait, left), cancel);
    assert!(state.unwrap().cancel_requested);
    assert!(canceled.elapsed() <= Duration::from_secs(3), "{:?}", canceled.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_read_shows_what_another_node_has_written() {
    let [one, two] = nodes().await;
    one.start("w").await;
    assert_eq!(two.names("w").await.len(), 2);
    signal(&one, "w").await;
    assert_eq!(two.names("w").await.len(), 3);
    assert_eq!(two.engine.views().describe(&at("w")).await.unwrap().run.last_event_id, 3);
}
