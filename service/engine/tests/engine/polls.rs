//! Polls that are repeated because their response was lost. The repeated poll gets the same task again, and no other
//! poller gets this task.

use std::sync::Arc;
use std::time::Duration;

use engine::{ActivityTask, DeciderTask, Delivery, Engine, Node, Poll, Settings};
use history::{Command, Decision, RetryPolicy, ScheduleActivity};

use crate::elsewhere::{Line, nodes, until_waiting};
use crate::members::pass;
use crate::{DOMAIN, Service, activity, at, succeed};

/// Returns an attempt of a poll that waits for a minute.
fn attempt(id: &str, attempt: u32) -> Poll {
    let poll_id = Some(id.to_owned());
    Poll { wait: Duration::from_secs(60), poll_id, attempt: Some(attempt), ..Poll::default() }
}

async fn poll(node: &Service, id: &str, number: u32) -> Option<Delivery<DeciderTask>> {
    node.engine.tasks().poll_decider(DOMAIN, "deciders", attempt(id, number)).await.unwrap()
}

async fn poll_pci(node: &Service, id: &str, number: u32) -> Option<Delivery<ActivityTask>> {
    node.engine.tasks().poll_activity(DOMAIN, "PCI", attempt(id, number)).await.unwrap()
}

/// Polls, loses the response without the service noticing it, and returns the token of the lost task.
async fn lost(node: &Service, id: &str, number: u32) -> String {
    let delivery = poll(node, id, number).await.expect("a turn");
    let token = delivery.task().token.clone();
    delivery.delivered();
    token
}

/// Stops a node, which then sends and receives no more messages.
fn kill(node: &Service, line: &Line, address: &str) {
    node.engine.begin_shutdown();
    line.nodes.lock().unwrap().remove(address);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_poll_gets_the_same_turn_without_an_event() {
    let ([one, two], _) = nodes().await;
    one.start("a").await;
    one.start("b").await;
    let token = lost(&one, "p", 1).await;
    let before = one.names("a").await;
    // Repeats the poll at the same node and at another node.
    for (node, number) in [(&one, 2), (&two, 3), (&two, 4), (&one, 5)] {
        assert_eq!(lost(node, "p", number).await, token, "attempt {number}");
    }
    assert_eq!(one.names("a").await, before);
    let other = poll(&two, "q", 1).await.expect("the other run's turn");
    assert_ne!(other.task().token, token);
    let answer = poll(&one, "p", 6).await.unwrap();
    one.complete(answer, vec![succeed()]).await.unwrap();
    assert_eq!(one.names("a").await.last(), Some(&"WorkflowSuccess"));
}

#[tokio::test(start_paused = true)]
async fn a_poll_with_another_id_or_list_does_not_get_the_task() {
    let ([one, two], _) = nodes().await;
    one.start("a").await;
    lost(&one, "p", 1).await;
    let quick = |id: &str, number| Poll { wait: Duration::from_millis(10), ..attempt(id, number) };
    assert!(two.engine.tasks().poll_decider(DOMAIN, "deciders", quick("q", 2)).await.unwrap().is_none());
    assert!(two.engine.tasks().poll_decider(DOMAIN, "others", quick("p", 2)).await.unwrap().is_none());
    assert!(two.engine.tasks().poll_activity(DOMAIN, "deciders", quick("p", 2)).await.unwrap().is_none());
    assert!(
        two.engine.tasks().poll_decider(DOMAIN, "deciders", quick("p", 1)).await.unwrap().is_none(),
        "no repetition"
    );
    assert!(poll(&two, "p", 2).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_task_in_flight_at_a_dead_node_returns_in_ten_seconds() {
    let ([one, two], line) = nodes().await;
    pass(&one, 4).await;
    one.start("w").await;
    let turn = poll(&one, "p", 1).await.unwrap();
    let retry = ScheduleActivity {
        activity_id: "again".to_owned(),
        activity_type: "do".to_owned(),
        task_list: Some("PCI".to_owned()),
        retry: Some(RetryPolicy::default()),
        ..ScheduleActivity::default()
    };
    one.complete(turn, vec![activity("once", "PCI"), retry.into()]).await.unwrap();
    let mut lost = Vec::new();
    for id in ["r1", "r2"] {
        let delivery = poll_pci(&one, id, 1).await.unwrap();
        lost.push(delivery.task().token.clone());
        delivery.delivered();
    }
    kill(&one, &line, "http://node0");
    let before = two.names("w").await;
    let (first, second) = (Arc::clone(&two.engine), Arc::clone(&two.engine));
    let polls = [("r1", first), ("r2", second)].map(|(id, engine)| {
        tokio::spawn(async move { engine.tasks().poll_activity(DOMAIN, "PCI", attempt(id, 2)).await.unwrap() })
    });
    pass(&two, 10).await;
    for polling in polls {
        assert!(polling.is_finished(), "its start-to-close timeout alone would be five minutes");
        let delivery = polling.await.unwrap().expect("the activity");
        assert!(lost.contains(&delivery.task().token), "unchanged: {}", delivery.task().activity_id);
        lost.retain(|token| *token != delivery.task().token);
        delivery.delivered();
    }
    assert_eq!(two.names("w").await, before);
}

/// A node that restarts immediately serves the same shards and finds the task.
#[tokio::test(start_paused = true)]
async fn a_restarted_node_finds_the_task_that_was_in_flight() {
    for dies in 0..2 {
        let (pair, line) = nodes::<2>().await;
        let (one, two) = (&pair[dies], &pair[1 - dies]);
        let address = format!("http://node{dies}");
        one.start("w").await;
        let token = lost(one, "p", 1).await;
        kill(one, &line, &address);
        let engine = Arc::clone(&two.engine);
        let polling =
            tokio::spawn(
                async move { engine.tasks().poll_decider(DOMAIN, "deciders", attempt("p", 2)).await.unwrap() },
            );
        until_waiting(two, 1).await;
        let node = Some(Node { address: address.clone() });
        let settings = Settings { seed: Some(99), node, ..Settings::default() };
        let (store, clock) = (Arc::clone(&one.store), Arc::clone(&one.clock));
        let next = Engine::open(store, clock, settings).await.unwrap();
        next.join(line.from(&address));
        line.nodes.lock().unwrap().insert(address, Arc::clone(&next));
        pass(two, 4).await;
        assert!(polling.is_finished(), "its start-to-close timeout alone would be five minutes");
        let turn = polling.await.unwrap().expect("the turn");
        assert_eq!(turn.task().token, token);
        turn.delivered();
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_activity_in_flight_is_found_after_a_restart() {
    let ([one, two], line) = nodes().await;
    pass(&one, 4).await;
    one.start("w").await;
    let turn = poll(&one, "p", 1).await.unwrap();
    let Decision::ScheduleActivity(mut long) = activity("long", "PCI") else { unreachable!() };
    long.timeouts.start_to_close = Some(history::Duration::from_days(30));
    one.complete(turn, vec![long.into()]).await.unwrap();
    poll_pci(&one, "r", 1).await.unwrap().delivered();
    // Waits so long that the run is not about to be woken for another reason.
    pass(&one, 120).await;
    kill(&one, &line, "http://node0");
    let engine = Arc::clone(&two.engine);
    let polling =
        tokio::spawn(async move { engine.tasks().poll_activity(DOMAIN, "PCI", attempt("r", 2)).await.unwrap() });
    pass(&two, 10).await;
    assert!(polling.is_finished());
    polling.await.unwrap().expect("the activity").delivered();
}

#[tokio::test(start_paused = true)]
async fn a_lost_task_goes_to_another_poller_if_its_own_has_a_new_one() {
    let ([one, two], line) = nodes().await;
    pass(&one, 4).await;
    one.start("a").await;
    let token = lost(&one, "p", 1).await;
    kill(&one, &line, "http://node0");
    two.start("b").await;
    let other = poll(&two, "p", 2).await.expect("the other run's turn");
    assert_eq!(&*other.task().workflow_id, "b");
    other.delivered();
    let engine = Arc::clone(&two.engine);
    let polling =
        tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", attempt("q", 1)).await.unwrap() });
    pass(&two, 10).await;
    assert!(polling.is_finished());
    let found = polling.await.unwrap().expect("the lost turn");
    assert_eq!(found.task().token, token);
    found.delivered();
}

#[tokio::test(start_paused = true)]
async fn a_task_is_not_taken_back_from_its_next_holder() {
    let ([one, two], _) = nodes().await;
    one.start("w").await;
    let slow = poll(&one, "p", 1).await.unwrap();
    let again = poll(&two, "p", 2).await.expect("the same turn");
    assert_eq!(again.task().token, slow.task().token);
    // The first attempt returns the task too late, so the return has no effect.
    drop(slow);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(two.names("w").await, ["WorkflowStarted", "DeciderScheduled", "DeciderStarted"]);
    two.complete(again, vec![succeed()]).await.unwrap();

    // If the poll is not repeated, the first attempt returns the task in time.
    one.start("v").await;
    drop(poll(&one, "q", 1).await.unwrap());
    one.until("v", "DeciderFailed").await;
    let next = poll(&two, "q", 2).await.expect("the next turn");
    assert_eq!((&*next.task().workflow_id, next.task().started_event_id), ("v", 6));
    next.delivered();
}

#[tokio::test(start_paused = true)]
async fn a_waiting_poll_gets_nothing_once_it_is_repeated() {
    let ([one, two], _) = nodes().await;
    let engine = Arc::clone(&one.engine);
    let first =
        tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", attempt("p", 1)).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let engine = Arc::clone(&two.engine);
    let second =
        tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", attempt("p", 2)).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(10)).await;
    // The task is created while the first attempt is still waiting.
    one.start("w").await;
    second.await.unwrap().expect("the turn").delivered();
    assert!(first.await.unwrap().is_none(), "its caller has disconnected");
}

#[tokio::test(start_paused = true)]
async fn a_completed_turn_is_not_sent_again() {
    let ([one, two], _) = nodes().await;
    one.start("w").await;
    let turn = poll(&one, "p", 1).await.unwrap();
    one.complete(turn, vec![succeed()]).await.unwrap();
    let quick = Poll { wait: Duration::from_millis(10), ..attempt("p", 2) };
    assert!(two.engine.tasks().poll_decider(DOMAIN, "deciders", quick).await.unwrap().is_none());
    // A later turn of the run is not a response to an earlier attempt.
    one.start("v").await;
    let turn = poll(&one, "q", 1).await.unwrap();
    one.complete(turn, vec![]).await.unwrap();
    let signal = Command::Signal { name: "s".to_owned(), input: None, identity: None, key: None, if_version: None };
    one.engine.commands().submit(&at("v"), signal).await.unwrap();
    let next = poll(&two, "q", 2).await.expect("the next turn");
    assert_eq!(next.task().started_event_id, 7);
    next.delivered();
}

/// A damaged run must not make the poll fail.
#[tokio::test]
async fn a_poll_passes_over_a_run_that_cannot_be_read() {
    let service = Service::open().await;
    for id in ["broken", "whole"] {
        service.start(id).await;
    }
    let key = store::HeadKey::new(DOMAIN, "broken");
    let head = store::Store::load(&*service.store, &key).await.unwrap().unwrap();
    let expect = store::Expect::Exactly { run: head.run, version: head.version };
    let garbage = store::Head { version: head.version + 1, body: b"\xff\xff".as_slice().into(), ..head };
    let won = store::Store::commit(&*service.store, &key, expect, &garbage, &[]).await.unwrap();
    assert_eq!(won, store::Cas::Won);
    let turn = service.turn().await;
    assert_eq!(&*turn.task().workflow_id, "whole");
    turn.delivered();
    let none = service.engine.tasks().poll_decider(DOMAIN, "deciders", Poll::default()).await.unwrap();
    assert!(none.is_none(), "the damaged run is not found again at once");
}
