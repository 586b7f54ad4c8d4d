//! Tasks that have waited long, in the memory of a node that is no more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use service::engine::{Engine, Poll, Settings};
use store::HeadKey;

use crate::members::{clock, open, pass, slow_store};
use crate::{DOMAIN, Service};

async fn due(service: &Service, id: &str) -> u64 {
    let key = HeadKey { domain: DOMAIN.into(), workflow_id: id.into() };
    service.store.load(&key).await.unwrap().unwrap().due.unwrap()
}

/// Many minutes go by.
async fn wait_long(service: &Service, minutes: u64) {
    for _ in 0..minutes {
        tokio::time::sleep(Duration::from_secs(1)).await;
        service.clock.advance(history::Duration::from_secs(60));
    }
    // For what is due now to be looked at.
    tokio::time::sleep(Duration::from_secs(5)).await;
}

fn clock_now(service: &Service) -> u64 {
    service.engine.clock().now().as_millis()
}

/// Hours go by, until the next look at a run is far off.
async fn until_looks_are_late(service: &Service, id: &str) {
    while due(service, id).await < clock_now(service) + 20 * 3_600_000 {
        wait_long(service, 10).await;
    }
}

/// What nobody polls for waits for whoever comes to a node, and nobody looks at it meanwhile.
async fn finds_all(service: &Service, runs: usize) {
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
async fn looks_at_a_run_that_nobody_polls_for_grow_apart_up_to_a_day() {
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
    until_looks_are_late(&service, "w").await;
    instants.insert(due(&service, "w").await);
    let waits: Vec<u64> = instants.iter().map(|at| (at - began).div_ceil(60_000)).collect();
    // Half a minute, two minutes, ten, an hour, a day; each look comes up to a quarter of a minute late here.
    assert!(matches!(waits[..], [1, 3, 13..=15, 73..=76, 1_513..=1_526]), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_waited_for_hours_is_offered_at_once_after_a_restart() {
    let (store, clock) = (slow_store().await, clock());
    let before = open(&store, &clock, None).await;
    before.start("w").await;
    until_looks_are_late(&before, "w").await;
    before.engine.begin_shutdown();
    // The clock stands still from here on.
    let after = open(&store, &clock, None).await;
    finds_all(&after, 1).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_that_have_waited_for_hours_at_a_node_that_vanished_are_offered_by_those_who_are_left() {
    let (store, clock) = (slow_store().await, clock());
    let [one, two] = [
        open(&store, &clock, Some("http://node0".to_owned())).await,
        open(&store, &clock, Some("http://node1".to_owned())).await,
    ];
    // Somebody has been there, and has found nothing.
    let poll = Poll { wait: Duration::from_secs(2), ..Poll::default() };
    assert!(two.engine.poll_decider(DOMAIN, "deciders", poll).await.unwrap().is_none());
    for number in 0..12 {
        one.start(&format!("w{number}")).await;
    }
    until_looks_are_late(&one, "w0").await;
    one.engine.begin_shutdown();
    pass(&two, 15).await;
    finds_all(&two, 12).await;
}

#[tokio::test(start_paused = true)]
async fn what_had_no_room_in_memory_is_found_when_there_is_room_again() {
    let (store, clock) = (slow_store().await, clock());
    let settings = Settings { seed: Some(9), list_tasks_max: 4, ..Settings::default() };
    let engine = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings).await.unwrap();
    let service = Service { engine, clock, store };
    for number in 0..30 {
        service.start(&format!("w{number}")).await;
    }
    assert_eq!(service.engine.waiting_tasks(DOMAIN, "deciders", true), (4, true));
    // The clock stands still: nothing is found because it is due.
    finds_all(&service, 30).await;
    assert!(service.engine.render_metrics().contains("baton_looks_total 0\n"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_starts_does_not_look_at_runs_that_wait_for_time_alone() {
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
        // Each is looked at once more, as what a run was due for when it began stands in the index until then.
        return;
    }
    let metrics = after.engine.render_metrics();
    assert!(metrics.contains("baton_looks_total 1\n"), "{metrics}");
}
