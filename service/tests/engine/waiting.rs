//! Tasks that have waited long, in the memory of a node that is no more.

use std::time::Duration;

use store::HeadKey;

use crate::members::{clock, open, pass, slow_store};
use crate::{DOMAIN, Service};

/// The longest that a waiting task may stand without an offer. Source: `OFFER_EVERY_MAX` in `service/src/engine/commit.rs`.
const OFFER_EVERY_MAX: u64 = 600_000;

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

fn is_ahead(service: &Service, due: u64) -> bool {
    let now = clock_now(service);
    (now + 1..=now + OFFER_EVERY_MAX).contains(&due)
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_waited_for_hours_is_offered_at_once_after_a_restart() {
    let (store, clock) = (slow_store().await, clock());
    let before = open(&store, &clock, None).await;
    before.start("w").await;
    for _ in 0..10 {
        wait_long(&before, 31).await;
        assert!(is_ahead(&before, due(&before, "w").await));
    }
    // Far ahead, or the restart would prove nothing.
    while due(&before, "w").await < clock_now(&before) + OFFER_EVERY_MAX / 2 {
        wait_long(&before, 1).await;
    }
    before.engine.begin_shutdown();
    // The clock stands still from here on.
    let after = open(&store, &clock, None).await;
    let turn = after.turn().await;
    assert_eq!(turn.task().attempt, 1);
    turn.delivered();
}

#[tokio::test(start_paused = true)]
async fn tasks_that_have_waited_for_hours_at_a_node_that_vanished_are_offered_by_those_who_are_left() {
    let (store, clock) = (slow_store().await, clock());
    let [one, two] = [
        open(&store, &clock, Some("http://node0".to_owned())).await,
        open(&store, &clock, Some("http://node1".to_owned())).await,
    ];
    for number in 0..12 {
        one.start(&format!("w{number}")).await;
    }
    wait_long(&one, 100).await;
    one.engine.begin_shutdown();
    pass(&two, 15).await;
    for _ in 0..12 {
        two.turn().await.delivered();
    }
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
