//! Tasks that have waited for a long time, in the memory of a node and after the node has stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use async_trait::async_trait;
use engine::{Engine, Poll, Settings, WaitingBounds};
use history::event::OperatorAction;
use history::{Command, Start};
use simulation::intercepted::{Intercepted, Interceptor};
use simulation::manual_clock::ManualClock;
use store::{Due, Error, HeadKey, ListPage, ListQuery, PageToken, Store, UnixMs};

use crate::members::{clock, open, pass, set_timer, slow_store};
use crate::{DOMAIN, Service, activity, at};

async fn due(service: &Service, id: &str) -> u64 {
    let key = HeadKey { domain: DOMAIN.into(), workflow_id: id.into() };
    service.store.load(&key).await.unwrap().unwrap().due.unwrap()
}

/// Advances the clock by this number of minutes.
async fn wait_long(service: &Service, minutes: u64) {
    for _ in 0..minutes {
        tokio::time::sleep(Duration::from_secs(1)).await;
        service.clock.advance(history::Duration::from_secs(60));
    }
    // Waits until due runs have been woken.
    tokio::time::sleep(Duration::from_secs(5)).await;
}

fn clock_now(service: &Service) -> u64 {
    service.engine.clock().now().as_millis()
}

/// Advances the clock until the next wake of a run is at least 20 hours away.
async fn until_wakes_are_late(service: &Service, id: &str) {
    while due(service, id).await < clock_now(service) + 20 * 3_600_000 {
        wait_long(service, 10).await;
    }
}

/// Takes all waiting tasks without advancing the clock, so that no run is woken.
async fn takes_all(service: &Service, runs: usize) {
    let mut found = BTreeSet::new();
    for _ in 0..runs {
        let turn = service.turn().await;
        assert_eq!(turn.task().attempt, 1);
        found.insert(turn.task().workflow_id.to_string());
        turn.delivered();
    }
    assert_eq!(found.len(), runs);
}

#[tokio::test(start_paused = true)]
async fn wakes_of_an_unpolled_run_back_off_up_to_a_day() {
    let (store, clock) = (slow_store().await, clock());
    let service = open(&store, &clock, None).await;
    service.start("w").await;
    let began = clock_now(&service);
    let mut instants = BTreeSet::new();
    for _ in 0..30 * 12 {
        instants.insert(due(&service, "w").await);
        tokio::time::sleep(Duration::from_secs(1)).await;
        service.clock.advance(history::Duration::from_secs(15));
    }
    until_wakes_are_late(&service, "w").await;
    instants.insert(due(&service, "w").await);
    let waits: Vec<u64> = instants.iter().map(|at| (at - began).div_ceil(60_000)).collect();
    // The expected delays are 30 seconds, 2 minutes, 10 minutes, an hour and a day. In this test, each wake may be up
    // to 15 seconds late.
    assert!(matches!(waits[..], [1, 3, 13..=15, 73..=76, 1_513..=1_526]), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_is_woken_soon_although_its_turn_waited_long() {
    let (store, clock) = (slow_store().await, clock());
    let service = open(&store, &clock, None).await;
    service.start("w").await;
    until_wakes_are_late(&service, "w").await;
    let act = async |command| service.engine.commands().submit(&at("w"), command).await;
    let operator = OperatorAction { identity: None, reason: None };
    act(Command::Pause { stop_clocks: false, operator: operator.clone(), key: None }).await.unwrap();
    act(Command::Resume { operator, key: None }).await.unwrap();
    assert!(due(&service, "w").await <= clock_now(&service) + 60_000);
}

#[tokio::test(start_paused = true)]
async fn a_long_waiting_task_is_offered_at_once_after_a_restart() {
    let (store, clock) = (slow_store().await, clock());
    let before = open(&store, &clock, None).await;
    before.start("w").await;
    until_wakes_are_late(&before, "w").await;
    before.engine.begin_shutdown();
    // From this point on, the clock does not advance.
    let after = open(&store, &clock, None).await;
    takes_all(&after, 1).await;
}

#[tokio::test(start_paused = true)]
async fn long_waiting_tasks_of_a_vanished_node_are_offered_by_others() {
    let (store, clock) = (slow_store().await, clock());
    let [one, two] = [
        open(&store, &clock, Some("http://node0".to_owned())).await,
        open(&store, &clock, Some("http://node1".to_owned())).await,
    ];
    // A poll at the other node finds no task.
    let poll = Poll { wait: Duration::from_secs(2), ..Poll::default() };
    assert!(two.engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().is_none());
    for number in 0..12 {
        one.start(&format!("w{number}")).await;
    }
    until_wakes_are_late(&one, "w0").await;
    one.engine.begin_shutdown();
    pass(&two, 15).await;
    takes_all(&two, 12).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_outside_memory_are_found_when_there_is_space() {
    let (store, clock) = (slow_store().await, clock());
    let waiting = WaitingBounds { list_tasks_max: 4, ..WaitingBounds::default() };
    let service = bounded(&store, &clock, waiting).await;
    for number in 0..30 {
        service.start(&format!("w{number}")).await;
    }
    assert_eq!(service.engine.tasks().waiting_tasks(DOMAIN, "deciders", true), (4, true));
    // The clock does not advance, so no task is found because it is due.
    takes_all(&service, 30).await;
    assert!(service.engine.render_metrics().contains("baton_wakes_total 0\n"));
}

async fn bounded(store: &Arc<dyn Store>, clock: &Arc<ManualClock>, waiting: WaitingBounds) -> Service {
    let settings = Settings { seed: Some(9), waiting, ..Settings::default() };
    let engine = Engine::open(Arc::clone(store), Arc::clone(clock) as _, settings).await.unwrap();
    Service { engine, clock: Arc::clone(clock), store: Arc::clone(store) }
}

#[tokio::test(start_paused = true)]
async fn a_poller_finds_tasks_that_did_not_fit_into_memory() {
    let (store, clock) = (slow_store().await, clock());
    let waiting = WaitingBounds { lists_max: 3, ..WaitingBounds::default() };
    let service = bounded(&store, &clock, waiting).await;
    let list = |number: u64| format!("list{}", number % 20);
    for number in 0..40 {
        let start = Start::new(&format!("w{number}"), "order/1", &list(number));
        service.engine.commands().start(DOMAIN, start).await.unwrap();
    }
    assert_eq!(service.engine.tasks().waiting_tasks(DOMAIN, &list(0), true), (2, false));
    assert_eq!(service.engine.tasks().waiting_tasks(DOMAIN, &list(19), true), (0, true));
    let metrics = service.engine.render_metrics();
    assert_eq!(metrics.matches("baton_tasks_waiting{").count(), 3, "{metrics}");
    // The clock does not advance, so no task is found because it is due.
    let mut found = BTreeSet::new();
    // Polls first a list that is not in memory, then the lists in memory, which frees space, then the other lists.
    let in_memory = [0, 1, 2, 20, 21, 22];
    let others = (0..40).rev().filter(|number| !in_memory.contains(number) && *number != 39);
    for number in [39].into_iter().chain(in_memory).chain(others) {
        let poll = Poll { wait: Duration::from_secs(10), ..Poll::default() };
        let turn =
            service.engine.tasks().poll_decider(DOMAIN, &list(number), poll).await.unwrap().expect("one waits there");
        found.insert(turn.task().workflow_id.clone());
        turn.delivered();
    }
    assert_eq!(found.len(), 40);
    assert!(service.engine.render_metrics().contains("baton_wakes_total 0\n"));
}

/// Starts runs. Each has this number of activities, and all activities wait on one list.
async fn with_activities(service: &Service, runs: usize, each: usize) {
    let mut turns = Vec::new();
    for number in 0..runs {
        service.start(&format!("w{number}")).await;
        turns.push(service.turn().await);
    }
    let activities = || (0..each).map(|step| activity(&step.to_string(), "acts")).collect();
    let answers = turns.into_iter().map(|turn| service.complete(turn, activities()));
    assert!(futures_util::future::join_all(answers).await.iter().all(Result::is_ok));
}

async fn takes_all_activities(service: &Service, count: usize) {
    let mut found = BTreeSet::new();
    for _ in 0..count {
        let poll = Poll { wait: Duration::from_secs(10), ..Poll::default() };
        let task = service.engine.tasks().poll_activity(DOMAIN, "acts", poll).await.unwrap().expect("one waits");
        found.insert((task.task().workflow_id.clone(), task.task().activity_id.clone()));
        task.delivered();
    }
    assert_eq!(found.len(), count);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_run_without_space_take_one_row() {
    let (store, clock) = (slow_store().await, clock());
    let waiting = WaitingBounds { list_tasks_max: 4, to_write_max: 10, ..WaitingBounds::default() };
    let service = bounded(&store, &clock, waiting).await;
    with_activities(&service, 10, 20).await;
    // The clock does not advance, so no task is found because it is due.
    takes_all_activities(&service, 200).await;
    assert!(service.engine.render_metrics().contains("baton_wakes_total 0\n"));
}

#[tokio::test(start_paused = true)]
async fn runs_without_space_for_a_row_are_woken_a_second_later() {
    let (store, clock) = (slow_store().await, clock());
    let waiting = WaitingBounds { list_tasks_max: 4, to_write_max: 0, ..WaitingBounds::default() };
    let service = bounded(&store, &clock, waiting).await;
    with_activities(&service, 3, 8).await;
    assert_eq!(service.engine.tasks().waiting_tasks(DOMAIN, "acts", false), (4, true));
    let mut found = 0;
    // Each wake fills the list again. Six wakes are needed, and one more is allowed.
    for _ in 0..7 {
        let now = Poll { wait: Duration::from_millis(100), ..Poll::default() };
        while let Some(task) = service.engine.tasks().poll_activity(DOMAIN, "acts", now.clone()).await.unwrap() {
            task.delivered();
            found += 1;
        }
        service.clock.advance(history::Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(found, 24);
}

#[tokio::test(start_paused = true)]
async fn a_poller_that_arrives_before_the_row_gets_the_task() {
    let (store, clock) = (slow_store().await, clock());
    let waiting = WaitingBounds { lists_max: 0, ..WaitingBounds::default() };
    let service = bounded(&store, &clock, waiting).await;
    // Each operation of the store takes a random time, so that the iterations cover different races.
    for number in 0..20 {
        let list = format!("list{number}");
        service.engine.commands().start(DOMAIN, Start::new(&format!("w{number}"), "order/1", &list)).await.unwrap();
        let poll = Poll { wait: Duration::from_secs(10), ..Poll::default() };
        service.engine.tasks().poll_decider(DOMAIN, &list, poll).await.unwrap().expect("one waits there").delivered();
    }
}

#[tokio::test(start_paused = true)]
async fn slots_that_wait_again_after_the_row_get_the_task() {
    let (store, clock) = (slow_store().await, clock());
    let waiting = WaitingBounds { list_tasks_max: 1, ..WaitingBounds::default() };
    let service = bounded(&store, &clock, waiting).await;
    let tasks = service.engine.tasks();
    // Each operation of the store takes a random time, so that the iterations cover different races.
    for number in 0..40 {
        let list = format!("list{number}");
        for run in ["a", "b"] {
            let start = Start::new(&format!("{run}{number}"), "order/1", &list);
            service.engine.commands().start(DOMAIN, start).await.unwrap();
        }
        let poll = Poll { wait: Duration::from_secs(10), ..Poll::default() };
        let mut slots = tasks.slots(true, (DOMAIN, &list), &poll, vec![0, 1]).await.unwrap();
        let mut found = tasks.next_turns(&mut slots).await.unwrap();
        // Gives the service time to write the row of the second task while no slot waits.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if found.len() == 1 {
            found.extend(tasks.next_turns(&mut slots).await.unwrap());
        }
        assert_eq!(found.len(), 2, "{list}");
        for (_, turn) in found {
            turn.delivered();
        }
    }
}

/// Returns the longest time for which a poller waited for a turn. Each poller pauses after each turn.
async fn longest_wait(service: &Arc<Service>, runs: usize, pollers: usize) -> Duration {
    let left = Arc::new(AtomicUsize::new(runs));
    let waits = (0..pollers).map(|_| {
        let (service, left) = (Arc::clone(service), Arc::clone(&left));
        tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            while left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
                let asked = tokio::time::Instant::now();
                let turn = service.turn().await;
                longest = longest.max(asked.elapsed());
                turn.delivered();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            longest
        })
    });
    let waits = futures_util::future::join_all(waits).await;
    waits.into_iter().map(Result::unwrap).max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn pollers_soon_get_tasks_that_did_not_fit_into_memory() {
    const RUNS: usize = 2_000;
    let (store, clock) = (slow_store().await, clock());
    let waiting = WaitingBounds { list_tasks_max: 200, ..WaitingBounds::default() };
    let service = Arc::new(bounded(&store, &clock, waiting).await);
    let ids: Vec<String> = (0..RUNS).map(|number| format!("w{number}")).collect();
    futures_util::future::join_all(ids.iter().map(|id| service.start(id))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    // Reading a row, reading a run and writing a turn take up to 20 ms each.
    let longest = longest_wait(&service, RUNS, 16).await;
    assert!(longest <= Duration::from_millis(100), "{longest:?}");
}

/// A store that panics a given number of times when it reads rows of a list or the due index.
struct Panicking {
    store: Arc<dyn Store>,
    rows: AtomicUsize,
    due: AtomicUsize,
}

impl Panicking {
    fn over(store: Arc<dyn Store>) -> Arc<Intercepted<Self>> {
        Arc::new(Intercepted(Self { store, rows: AtomicUsize::new(0), due: AtomicUsize::new(0) }))
    }
}

fn may_panic(left: &AtomicUsize) {
    let panics = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
    assert!(!panics, "a defect");
}

#[async_trait]
impl Interceptor for Panicking {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        if query.domain.starts_with('\u{2}') {
            may_panic(&self.rows);
        }
        self.store.list(query, page).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        may_panic(&self.due);
        self.store.due(shard, until, after, limit).await
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_outside_memory_are_found_after_a_read_panicked() {
    let (panicking, clock) = (Panicking::over(slow_store().await), clock());
    let waiting = WaitingBounds { list_tasks_max: 5, ..WaitingBounds::default() };
    let service = bounded(&(Arc::clone(&panicking) as _), &clock, waiting).await;
    for number in 0..20 {
        service.start(&format!("w{number}")).await;
    }
    panicking.0.rows.store(3, SeqCst);
    takes_all(&service, 20).await;
    assert_eq!(panicking.0.rows.load(SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_in_time_after_a_read_of_due_runs_panicked() {
    let (panicking, clock) = (Panicking::over(slow_store().await), clock());
    let service = open(&(Arc::clone(&panicking) as _), &clock, None).await;
    service.start("w").await;
    // This timer is later than the end of the agenda, which is extended every half minute.
    set_timer(&service, "t", 65).await;
    let shards = usize::try_from(service.store.limits().due_shards).unwrap();
    panicking.0.due.store(2 * shards, SeqCst);
    pass(&service, 64).await;
    assert!(!service.names("w").await.contains(&"TimerExpired"));
    pass(&service, 3).await;
    assert!(service.names("w").await.contains(&"TimerExpired"));
    assert_eq!(panicking.0.due.load(SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_other_lists_never_displace_a_whole_list() {
    let (store, clock) = (slow_store().await, clock());
    let waiting = WaitingBounds { tasks_max: 5, ..WaitingBounds::default() };
    let service = bounded(&store, &clock, waiting).await;
    for number in 0..230 {
        service.start(&format!("w{number}")).await;
    }
    assert_eq!(service.engine.tasks().waiting_tasks(DOMAIN, "deciders", true), (100, true));
    service.engine.commands().start(DOMAIN, Start::new("other", "order/1", "others")).await.unwrap();
    assert_eq!(service.engine.tasks().waiting_tasks(DOMAIN, "others", true), (1, false));
    takes_all(&service, 230).await;
    assert!(service.engine.render_metrics().contains("baton_wakes_total 0\n"));
}

#[tokio::test(start_paused = true)]
async fn a_starting_node_does_not_wake_runs_that_wait_only_for_time() {
    let (store, clock) = (slow_store().await, clock());
    let before = open(&store, &clock, None).await;
    for number in 0..20 {
        before.start(&format!("w{number}")).await;
        let timer =
            history::StartTimer { timer_id: "t".to_owned(), after: history::Duration::from_secs(3_600), control: None };
        let turn = before.turn().await;
        before.complete(turn, vec![timer.into()]).await.unwrap();
    }
    before.start("waiting").await;
    before.engine.begin_shutdown();
    let after = open(&store, &clock, None).await;
    after.turn().await.delivered();
    tokio::time::sleep(Duration::from_secs(5)).await;
    if !store.limits().due_moves_are_cheap {
        // In this store, the first due time of each run stays in the index, so every run is woken again.
        return;
    }
    let metrics = after.engine.render_metrics();
    assert!(metrics.contains("baton_wakes_total 1\n"), "{metrics}");
}
