//! Limits of task lists if nodes share the store: one node counts for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use engine::list_settings::{ListPause, ListSettings, ListSide, StartRate, TaskLimits};
use engine::{DeciderTask, Delivery, Engine, LimitHold, LimitScope, Poll, RunRef, Settings};
use history::{Factor, Start};
use simulation::intercepted::{Commit, Intercepted, Interceptor};
use simulation::stores::fresh;
use store::{Cas, Store};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::elsewhere::{Line, nodes, until_waiting};
use crate::members::pass;
use crate::{DOMAIN, Service, at, succeed};

/// Maximum time until a list dispatches tasks again after its home node has vanished. Our choice: as for runs.
const TAKEN_OVER_WITHIN: u64 = 8;

type Polling = JoinHandle<Option<Delivery<DeciderTask>>>;

fn side() -> ListSide {
    ListSide { name: "deciders".to_owned(), is_decider: true }
}

fn poll(node: &Service, seconds: u64) -> Polling {
    let engine = Arc::clone(&node.engine);
    let poll = Poll { wait: Duration::from_secs(seconds), ..Poll::default() };
    tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap() })
}

/// Takes a task at a node without waiting, or within two seconds.
async fn take(node: &Service) -> Option<Delivery<DeciderTask>> {
    poll(node, 2).await.unwrap()
}

async fn limit(node: &Service, max: u32) {
    let settings = ListSettings { limits: running(max), ..ListSettings::default() };
    node.engine.lists().set_list(DOMAIN, &side(), &settings).await.unwrap();
}

fn running(max: u32) -> TaskLimits {
    TaskLimits { max_running: Some(max), rate: None }
}

/// Opens three nodes with a limit on the list, and waits until the limit is counted. The first node returned is the
/// home node of the limit.
async fn limited(max: u32) -> ([Service; 3], Arc<Line>) {
    let (mut nodes, line) = nodes::<3>().await;
    limit(&nodes[0], max).await;
    pass(&nodes[0], 5).await;
    let home = home(&nodes);
    nodes.swap(0, home);
    (nodes, line)
}

/// Returns the place of the home node: it alone counts running tasks.
fn home(nodes: &[Service]) -> usize {
    let counts = |node: &Service| node.engine.render_metrics().contains("baton_list_max_running{");
    assert_eq!(nodes.iter().filter(|node| counts(node)).count(), 1);
    nodes.iter().position(counts).unwrap()
}

async fn start(node: &Service, ids: impl IntoIterator<Item = u32>) {
    for id in ids {
        node.start(&format!("w{id}")).await;
    }
}

async fn complete(node: &Service, turn: Delivery<DeciderTask>) {
    node.complete(turn, vec![succeed()]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nodes_together_run_no_more_tasks_than_the_limit() {
    let ([home, two, three], _) = limited(2).await;
    for (node, ids) in [(&home, 0..4), (&two, 4..8), (&three, 8..12)] {
        start(node, ids).await;
    }
    let mut held = vec![(&two, take(&two).await.unwrap()), (&three, take(&three).await.unwrap())];
    for node in [&home, &two, &three] {
        assert!(take(node).await.is_none(), "two run");
    }
    // Each completion lets one task start, whichever node records it and whichever node polls.
    let mut done = 0;
    while let Some((node, turn)) = held.pop() {
        complete(node, turn).await;
        done += 1;
        let next = [&home, &two, &three][done % 3];
        if let Some(turn) = take(next).await {
            held.push((next, turn));
        }
        let other = [&two, &three, &home][done % 3];
        if held.len() == 2 {
            assert!(take(other).await.is_none(), "two run");
        }
    }
    assert_eq!(done, 12, "every run is completed");
}

#[tokio::test(start_paused = true)]
async fn a_limited_task_reaches_a_poller_of_another_node_in_50_ms() {
    let ([home, two, three], _) = limited(1).await;
    let pairs = [(&home, &two), (&two, &three), (&three, &home), (&two, &two)];
    for (number, (creator, taker)) in pairs.into_iter().enumerate() {
        let id = format!("w{number}");
        let polling = poll(taker, 60);
        until_waiting(taker, 1).await;
        let began = Instant::now();
        creator.start(&id).await;
        let turn = polling.await.unwrap().expect("a turn");
        assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
        complete(taker, turn).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_freed_at_another_node_wakes_a_waiting_poller() {
    let ([_, two, three], _) = limited(1).await;
    start(&two, 0..2).await;
    let turn = take(&two).await.unwrap();
    let polling = poll(&three, 60);
    until_waiting(&three, 1).await;
    let began = Instant::now();
    complete(&two, turn).await;
    let turn = polling.await.unwrap().expect("the slot is free");
    assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
    complete(&three, turn).await;
}

#[tokio::test(start_paused = true)]
async fn other_nodes_apply_a_changed_limit_within_two_seconds() {
    let ([home, two, three], _) = limited(1).await;
    start(&two, 0..6).await;
    let _held = take(&two).await.unwrap();
    assert!(take(&three).await.is_none());
    limit(&three, 3).await;
    pass(&home, 2).await;
    let _others = [take(&three).await.unwrap(), take(&two).await.unwrap()];
    assert!(take(&home).await.is_none(), "three run");
}

#[tokio::test(start_paused = true)]
async fn all_nodes_obey_a_pause_and_its_end() {
    let ([home, two, three], _) = limited(5).await;
    start(&home, 0..2).await;
    home.engine.lists().pause_list(DOMAIN, &side(), &ListPause::default()).await.unwrap();
    pass(&home, 2).await;
    start(&three, 2..4).await;
    for node in [&home, &two, &three] {
        assert!(take(node).await.is_none(), "the list is paused");
    }
    let polling = poll(&two, 60);
    until_waiting(&two, 1).await;
    three.engine.lists().resume_list(DOMAIN, &side()).await.unwrap();
    pass(&home, 2).await;
    let turn = polling.await.unwrap().expect("the list has resumed");
    complete(&two, turn).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_limit_is_removed_is_free_at_all_nodes() {
    let ([home, two, three], _) = limited(1).await;
    start(&two, 0..6).await;
    let _held = take(&two).await.unwrap();
    two.engine.lists().set_list(DOMAIN, &side(), &ListSettings::default()).await.unwrap();
    pass(&home, 2).await;
    let mut free = Vec::new();
    for node in [&home, &two, &three, &two, &home] {
        free.push(take(node).await.expect("nothing limits the list"));
    }
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_over_from_a_vanished_home_node() {
    let ([home, two, three], line) = limited(2).await;
    start(&home, 0..6).await;
    let held = take(&two).await.unwrap();
    let of_home = take(&home).await.unwrap();
    home.engine.begin_shutdown();
    line.nodes.lock().unwrap().retain(|_, engine| !Arc::ptr_eq(engine, &home.engine));
    // The tasks that the vanished node had in memory, and the tasks that run, are found in the store.
    pass(&two, 12).await;
    for node in [&two, &three] {
        assert!(take(node).await.is_none(), "two tasks run still");
    }
    complete(&two, held).await;
    let next = take(&three).await.expect("one runs");
    assert!(take(&two).await.is_none(), "two run");
    // The turn of the vanished node's poller ends at another node.
    complete(&three, of_home).await;
    assert!(take(&two).await.is_some());
    complete(&three, next).await;
}

#[tokio::test(start_paused = true)]
async fn limited_tasks_start_within_eight_seconds_after_their_home_node_vanished() {
    let ([home, two, three], line) = limited(2).await;
    start(&two, 0..1).await;
    let polling = poll(&three, 60);
    tokio::time::sleep(Duration::from_millis(100)).await;
    complete(&three, polling.await.unwrap().unwrap()).await;
    home.engine.begin_shutdown();
    line.nodes.lock().unwrap().retain(|_, engine| !Arc::ptr_eq(engine, &home.engine));
    let (began, polling) = (Instant::now(), poll(&three, 60));
    start(&two, 1..2).await;
    complete(&three, polling.await.unwrap().expect("the list continues")).await;
    assert!(began.elapsed() <= Duration::from_secs(TAKEN_OVER_WITHIN), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_and_becomes_the_home_node_counts_first() {
    let (nodes, line) = nodes::<2>().await;
    limit(&nodes[0], 2).await;
    pass(&nodes[0], 5).await;
    start(&nodes[0], 0..8).await;
    let held = [take(&nodes[0]).await.unwrap(), take(&nodes[1]).await.unwrap()];
    let store = Arc::clone(&nodes[0].store);
    let mut joined = Vec::new();
    // Of so many nodes, one becomes the home node.
    for number in 2..10 {
        let address = format!("http://node{number}");
        let node = crate::members::open(&store, &nodes[0].clock, Some(address.clone())).await;
        node.engine.join(line.from(&address));
        line.nodes.lock().unwrap().insert(address, Arc::clone(&node.engine));
        joined.push(node);
    }
    for _ in 0..6 {
        pass(&nodes[0], 1).await;
        for node in nodes.iter().chain(&joined) {
            let polling = poll(node, 0);
            assert!(polling.await.unwrap().is_none(), "two run");
        }
    }
    for (node, turn) in nodes.iter().zip(held) {
        complete(node, turn).await;
    }
    let _two = [take(&joined[3]).await.unwrap(), take(&nodes[1]).await.unwrap()];
    assert!(take(&joined[7]).await.is_none(), "two run");
}

#[tokio::test(start_paused = true)]
async fn a_slot_whose_report_was_lost_is_freed_by_reading_its_run() {
    let ([home, two, three], line) = limited(1).await;
    start(&two, 0..3).await;
    let held = take(&two).await.unwrap();
    // The node records the end of the task, and vanishes before it reports this.
    let home_engine = line.nodes.lock().unwrap().remove(&home_address(&home)).unwrap();
    complete(&two, held).await;
    two.engine.begin_shutdown();
    line.nodes.lock().unwrap().retain(|_, engine| !Arc::ptr_eq(engine, &two.engine));
    line.nodes.lock().unwrap().insert(home_address(&home), home_engine);
    assert!(take(&three).await.is_none(), "the home node does not know that the task has ended");
    pass(&home, 25).await;
    assert!(take(&three).await.is_some());
}

fn home_address(node: &Service) -> String {
    node.engine.nodes().address().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn nodes_together_keep_the_rate() {
    let (nodes, _) = nodes::<3>().await;
    let rate = StartRate { per_second: Factor::try_from(2.0).unwrap(), burst: 1 };
    let limits = TaskLimits { max_running: None, rate: Some(rate) };
    let settings = ListSettings { limits, ..ListSettings::default() };
    nodes[0].engine.lists().set_list(DOMAIN, &side(), &settings).await.unwrap();
    pass(&nodes[0], 6).await;
    start(&nodes[1], 0..40).await;
    let (began, mut turns) = (Instant::now(), Vec::new());
    for number in 0..21 {
        turns.push(take(&nodes[number % 3]).await.expect("half a second later"));
    }
    let took = began.elapsed().as_secs_f64();
    assert!((9.5..=11.0).contains(&took), "20 pauses of half a second took {took}");
}

#[tokio::test(start_paused = true)]
async fn every_node_tells_what_waits_behind_a_limit() {
    let ([home, two, three], _) = limited(1).await;
    start(&three, 0..3).await;
    let _held = take(&two).await.unwrap();
    let hold = LimitHold::Running { scope: LimitScope::List, running: 1, max: 1 };
    for node in [&home, &two, &three] {
        let reports = node.engine.lists().report_of(DOMAIN, "deciders").await.unwrap();
        let report = reports.iter().find(|report| report.is_decider).unwrap();
        assert_eq!((report.waiting, report.is_counting), (2, false));
        assert_eq!(report.behind.iter().map(|it| (&it.hold, it.tasks)).collect::<Vec<_>>(), [(&hold, 2)]);
        assert_eq!(report.next.iter().map(|task| task.behind[0].tasks).collect::<Vec<_>>(), [0, 1]);
        let described = node.engine.views().describe(&at("w2")).await.unwrap();
        let run: RunRef = at("w2");
        let held = node.engine.lists().held_back(&run, &described.run).await;
        assert_eq!(held[0].holds, std::slice::from_ref(&hold));
    }
}

#[tokio::test(start_paused = true)]
async fn keys_take_turns_over_all_nodes() {
    let ([_, two, three], _) = limited(1).await;
    for (node, id, key) in [(&two, 0, "a"), (&two, 1, "a"), (&two, 2, "a"), (&three, 3, "b"), (&three, 4, "b")] {
        let start =
            Start { concurrency_key: Some(key.to_owned()), ..Start::new(&format!("w{id}"), "test", "deciders") };
        node.engine.commands().start(DOMAIN, start).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut order = Vec::new();
    for _ in 0..5 {
        let turn = take(&three).await.unwrap();
        order.push(turn.task().workflow_id.to_string());
        complete(&three, turn).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(order, ["w0", "w3", "w1", "w4", "w2"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_node_failed_before_announcing_it_applies_within_a_minute() {
    let ([home, two, three], _) = limited(1).await;
    home.engine.lists().pause_list(DOMAIN, &side(), &ListPause::default()).await.unwrap();
    pass(&home, 2).await;
    start(&two, 0..2).await;
    // Another process, which is no node, changes the settings without telling the nodes.
    let settings = Settings { seed: Some(99), ..Settings::default() };
    let alone = Engine::open(Arc::clone(&home.store), Arc::clone(&home.clock) as _, settings).await.unwrap();
    alone.lists().resume_list(DOMAIN, &side()).await.unwrap();
    alone.begin_shutdown();
    assert!(take(&three).await.is_none(), "no node knows of the change");
    // A node that refuses a change looks at what is stored, too.
    three.engine.lists().resume_list(DOMAIN, &side()).await.unwrap_err();
    pass(&home, 2).await;
    complete(&three, take(&three).await.expect("the list is not paused")).await;
    home.engine.lists().pause_list(DOMAIN, &side(), &ListPause::default()).await.unwrap();
    pass(&home, 2).await;
    let settings = Settings { seed: Some(98), ..Settings::default() };
    let alone = Engine::open(Arc::clone(&home.store), Arc::clone(&home.clock) as _, settings).await.unwrap();
    alone.lists().resume_list(DOMAIN, &side()).await.unwrap();
    alone.begin_shutdown();
    pass(&home, 62).await;
    assert!(take(&two).await.is_some());
}

/// A node that joins and becomes the home node does not know yet which tasks the previous home node lets start.
#[tokio::test(start_paused = true)]
async fn a_joined_home_node_counts_tasks_that_the_previous_one_let_start() {
    let mut became_home = 0;
    for number in 0..12 {
        let (nodes, line) = nodes::<2>().await;
        limit(&nodes[0], 1).await;
        pass(&nodes[0], 5).await;
        start(&nodes[0], 0..3).await;
        let other = 1 - home(&nodes);
        // The new node joins between two heartbeats of the others.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let address = format!("http://joins{number}");
        let joined = crate::members::open(&nodes[0].store, &nodes[0].clock, Some(address.clone())).await;
        joined.engine.join(line.from(&address));
        line.nodes.lock().unwrap().insert(address, Arc::clone(&joined.engine));
        // The other nodes do not know the new one before their next heartbeat.
        let held = take(&nodes[other]).await.expect("nothing runs");
        pass(&nodes[0], 6).await;
        let is_home = joined.engine.render_metrics().contains("baton_list_max_running{");
        became_home += usize::from(is_home);
        for node in [&joined, &nodes[0], &nodes[1]] {
            assert!(take(node).await.is_none(), "one runs; the new node is home: {is_home}");
        }
        drop(held);
    }
    assert!(became_home > 0, "this test needs names of nodes that become home nodes");
}

/// Changes the settings of lists through another process, which is no node and tells no node of the change.
async fn change_quietly(node: &Service, seed: u64, is_pause: bool) {
    let settings = Settings { seed: Some(seed), ..Settings::default() };
    let alone = Engine::open(Arc::clone(&node.store), Arc::clone(&node.clock) as _, settings).await.unwrap();
    let pause = ListPause { since: alone.lists().now(), stop_clocks: true, ..ListPause::default() };
    let lists = alone.lists();
    let changed = if is_pause {
        lists.pause_list(DOMAIN, &side(), &pause).await
    } else {
        lists.resume_list(DOMAIN, &side()).await
    };
    changed.unwrap();
    alone.begin_shutdown();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_missed_a_stop_of_clocks_lets_nothing_time_out() {
    let ([one, two], _) = nodes::<2>().await;
    let wait = Some(history::Duration::from_secs(60));
    let start = Start { decider_schedule_to_start: wait, ..Start::new("w", "test", "deciders") };
    two.engine.commands().start(DOMAIN, start).await.unwrap();
    pass(&one, 30).await;
    change_quietly(&one, 99, true).await;
    pass(&one, 500).await;
    assert!(!one.names("w").await.contains(&"DeciderTimedOut"), "30 s are left");
    change_quietly(&one, 98, false).await;
    pass(&one, 29).await;
    assert!(!one.names("w").await.contains(&"DeciderTimedOut"), "a second is left");
    // The nodes do not know of the resume, so they read the pauses again when they look at the run.
    pass(&one, 600).await;
    assert!(one.names("w").await.contains(&"DeciderTimedOut"));
}

/// A store in which a commit of settings lands, and its response never arrives while the flag is set.
#[derive(Clone)]
struct Silent {
    store: Arc<dyn Store>,
    loses_response: Arc<AtomicBool>,
    landed: Arc<Notify>,
}

#[async_trait]
impl Interceptor for Silent {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, store::Error> {
        let answer = self.store.commit(key, expect, head, parts).await;
        if key.workflow_id.contains("task-lists") && self.loses_response.load(Ordering::SeqCst) {
            self.landed.notify_one();
            return std::future::pending().await;
        }
        answer
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_caller_leaves_before_its_response_is_applied() {
    let silent = Silent { store: fresh().await, loses_response: Arc::default(), landed: Arc::default() };
    let service = Service::over(Arc::new(Intercepted(silent.clone()))).await;
    service.engine.lists().pause_list(DOMAIN, &side(), &ListPause::default()).await.unwrap();
    start(&service, 0..1).await;
    assert!(take(&service).await.is_none(), "the list is paused");
    silent.loses_response.store(true, Ordering::SeqCst);
    let lists = Arc::clone(service.engine.lists());
    let resuming = tokio::spawn(async move { lists.resume_list(DOMAIN, &side()).await });
    silent.landed.notified().await;
    resuming.abort();
    silent.loses_response.store(false, Ordering::SeqCst);
    assert!(take(&service).await.is_some(), "the list is resumed in the store, and so it is here");
}
