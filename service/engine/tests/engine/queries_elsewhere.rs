//! Queries with several nodes over one store. A query is sent to one node and answered by a decider of another node,
//! with failures between these steps.

use std::sync::Arc;
use std::time::Duration;

use engine::{DeciderTask, Delivery, EventRange, Poll, QueryOutcome, QueryReply, QueryRequest, Refusal, SeenVersion};
use history::{Command, EventKind};

use simulation::stores::many;

use crate::elsewhere::{nodes, until_waiting};
use crate::queries::{result, said};
use crate::{DOMAIN, Service, at};

type Polling = tokio::task::JoinHandle<Delivery<DeciderTask>>;

fn poll(node: &Service) -> Polling {
    let engine = Arc::clone(&node.engine);
    let poll = Poll { wait: Duration::from_secs(60), queries: true, ..Poll::default() };
    tokio::spawn(
        async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().expect("a task comes") },
    )
}

/// Returns the same outcome for every query of a task.
fn results(task: &DeciderTask, outcome: &QueryOutcome) -> Vec<(String, QueryOutcome)> {
    task.queries.iter().map(|query| (query.id.clone(), outcome.clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_query_reaches_another_node_at_once_without_a_write() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    let polling = poll(&two);
    until_waiting(&two, 1).await;
    let commits = one.store.stats().commits;
    let began = tokio::time::Instant::now();
    let asking = one.ask("w", "total").await;
    let task = polling.await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
    two.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
    assert_eq!(one.store.stats().commits, commits, "no write");
}

#[tokio::test(start_paused = true)]
async fn a_query_error_returns_from_another_node() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    for (outcome, code) in [
        (QueryOutcome::Unknown { known: vec!["sum".to_owned()] }, "unknown-query"),
        (QueryOutcome::Failed { reason: "overflow".to_owned(), message: None }, "query-failed"),
    ] {
        let polling = poll(&two);
        until_waiting(&two, 1).await;
        let asking = one.ask("w", "total").await;
        two.answer(polling.await.unwrap(), Vec::new(), &outcome).await.unwrap();
        assert_eq!(asking.await.unwrap().unwrap_err().code(), code);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_be_given_to_any_node() {
    let ([one, two, three], _) = nodes().await;
    two.idle("w").await;
    for signals in [false, true] {
        // Tests the query both with a separate task and with a turn.
        let polling = poll(&two);
        until_waiting(&two, 1).await;
        let asking = if signals {
            polling.abort();
            two.signal("w", "s").await;
            two.ask("w", "total").await
        } else {
            one.ask("w", "total").await
        };
        let task = if signals { two.task().await } else { polling.await.unwrap() };
        assert_eq!((task.task().query_only, task.task().queries.len()), (!signals, 1));
        let (token, results) = (task.task().token.clone(), results(task.task(), &said("7")));
        task.delivered();
        three.complete_with(&token, Vec::new(), results.clone()).await.unwrap();
        assert_eq!(result(asking.await.unwrap()).0, "7");
        // The decider answers again. The node that holds the queries replies that no caller waits.
        assert!(three.complete_with(&token, Vec::new(), results).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_ended_by_another_node_does_not_delay_a_query() {
    let ([one, two], _) = nodes().await;
    one.idle("w").await;
    one.signal("w", "s").await;
    let turn = one.task().await;
    let asking = one.ask("w", "total").await;
    let token = turn.task().token.clone();
    turn.delivered();
    two.complete_with(&token, Vec::new(), Vec::new()).await.unwrap();
    let task = one.task().await;
    assert!(task.task().query_only);
    one.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn a_query_at_a_node_that_dies_is_answered_later() {
    let ([one, two, three], line) = nodes().await;
    two.idle("w").await;
    let at_two = poll(&two);
    until_waiting(&two, 1).await;
    let asking = one.ask("w", "total").await;
    at_two.await.unwrap().delivered();
    // The stopped node receives no further queries. Queries that it received before are lost.
    line.nodes.lock().unwrap().remove("http://node1");
    let at_three = poll(&three);
    let task = tokio::time::timeout(Duration::from_secs(30), at_three).await.expect("the query is sent again").unwrap();
    three.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7", "another decider answers");
}

#[tokio::test(start_paused = true)]
async fn a_query_watcher_is_notified_of_changes_at_another_node() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    let asking = two.ask("w", "total").await;
    let task = two.task().await;
    two.answer(task, Vec::new(), &said("7")).await.unwrap();
    let QueryReply::Result { run_id, version, hash, .. } = asking.await.unwrap().unwrap() else { panic!("it is new") };
    let polling = poll(&two);
    until_waiting(&two, 1).await;
    let seen = SeenVersion { run_id, version, hash: Some(hash) };
    let ask = QueryRequest { name: "total".to_owned(), input: None, seen: Some(seen) };
    let watching = one.ask_of(at("w"), ask, Duration::from_secs(60)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!watching.is_finished());
    two.signal("w", "s").await;
    let turn = polling.await.unwrap();
    assert_eq!(turn.task().queries.len(), 1, "the turn carries the query");
    two.answer(turn, Vec::new(), &said("8")).await.unwrap();
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

/// Runs a decider at one node until it is aborted. The decider counts signals.
fn counting(node: &Service) -> tokio::task::JoinHandle<()> {
    let engine = Arc::clone(&node.engine);
    tokio::spawn(async move {
        loop {
            let poll = Poll { wait: Duration::from_secs(60), queries: true, ..Poll::default() };
            let Ok(Some(task)) = engine.tasks().poll_decider(DOMAIN, "deciders", poll).await else { continue };
            let (task, receipt) = task.split();
            receipt.delivered();
            let token = engine.tasks().decider_token(&task.token).unwrap();
            // Reads the history from event 1, like a decider without a cached state.
            let page = EventRange { before: Some(task.started_event_id + 1), ..EventRange::default() };
            let Ok(read) = engine.tasks().turn_history(&token, &page).await else { continue };
            let is_signal = |kind: &EventKind| matches!(kind, EventKind::Signal(_));
            let count = read.events.iter().filter(|event| is_signal(&event.kind)).count();
            let results = results(&task, &said(&count.to_string()));
            // Simulates that deciding takes time.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
            let (turn, decisions) = (token.turn, Vec::new());
            let complete = Command::complete(turn, decisions);
            drop(engine.tasks().answer_turn_with(&token, complete, results, Vec::new()).await);
        }
    })
}

async fn reads_its_writes(seed: u64) {
    fastrand::seed(seed);
    let ([one, two, three], line) = nodes().await;
    one.start("w").await;
    let nodes = [one, two, three];
    let mut deciders = vec![counting(&nodes[0]), counting(&nodes[1]), counting(&nodes[2])];
    let (mut told, mut answered) = (0, 0);
    for round in 0..40 {
        if round == 20 {
            // Stops a node, with its decider and all data that it has only in memory.
            deciders.remove(1).abort();
            line.nodes.lock().unwrap().remove("http://node1");
            // Waits until the timeout of a turn that this node may have handed out.
            crate::members::pass(&nodes[0], 35).await;
        }
        let alive: &[usize] = if round < 20 { &[0, 1, 2] } else { &[0, 2] };
        let any = || fastrand::choice(alive).and_then(|at| nodes.get(*at)).unwrap();
        for _ in 0..fastrand::usize(0..3) {
            any().signal("w", "s").await;
            told += 1;
        }
        let asking = any().ask("w", "count").await;
        let more = fastrand::bool();
        if more {
            any().signal("w", "s").await;
        }
        match asking.await.unwrap() {
            Ok(answer) => {
                let (count, _) = result(Ok(answer));
                let count: usize = count.parse().unwrap();
                assert!(count >= told, "seed {seed}: {count} after {told} were acknowledged");
                answered += 1;
            }
            Err(refusal) => assert!(matches!(refusal, Refusal::QueryTimedOut { .. }), "seed {seed}: {refusal}"),
        }
        told += usize::from(more);
    }
    assert!(answered >= 38, "seed {seed}: only {answered} of 40 were answered");
    for decider in deciders {
        decider.abort();
    }
    nodes[0].events("w").await;
}

#[tokio::test(start_paused = true)]
async fn a_query_at_any_node_reflects_acknowledged_events() {
    for seed in 0..many(20) {
        reads_its_writes(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_is_notified_of_events_of_another_node() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    let run = one.engine.views().describe(&at("w")).await.unwrap().run;
    let seen = SeenVersion { run_id: run.started.run_id, version: run.version, hash: None };
    let wait = Duration::from_secs(60);
    let engine = Arc::clone(&one.engine);
    let state =
        tokio::spawn(async move { engine.views().describe_unlike(&at("w"), seen, wait).await.unwrap().run.version });
    let engine = Arc::clone(&one.engine);
    let events =
        tokio::spawn(async move { engine.views().wait_beyond(&at("w"), seen.run_id, run.last_event_id, wait).await });
    let engine = Arc::clone(&one.engine);
    let end =
        tokio::spawn(async move { engine.views().closing_event(&at("w"), wait).await.unwrap().1.unwrap().0.status });
    tokio::time::sleep(Duration::from_secs(5)).await;
    two.signal("w", "go").await;
    // A watcher reads the run at least every two seconds.
    let soon = Duration::from_millis(2_100);
    assert_eq!(tokio::time::timeout(soon, state).await.expect("it is seen soon").unwrap(), run.version + 1);
    events.await.unwrap().unwrap();
    let terminate = Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
    two.engine.commands().submit(&at("w"), terminate).await.unwrap();
    let status = tokio::time::timeout(soon, end).await.expect("it is seen soon").unwrap();
    assert_eq!(status, history::Status::Terminated);
}

#[tokio::test(start_paused = true)]
async fn a_query_of_a_run_that_is_busy_at_another_node_is_answered() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    // A decider also waits at the node that receives the query, but gets no task.
    let waits_in_vain = poll(&one);
    until_waiting(&one, 1).await;
    let polling = poll(&two);
    until_waiting(&two, 1).await;
    two.signal("w", "s").await;
    let mut turn = polling.await.unwrap();
    let asking = one.ask("w", "total").await;
    let mut turns = 0;
    while !asking.is_finished() {
        turns += 1;
        assert!(turns < 20, "each turn was followed by another, and none took the query");
        // A signal during each turn causes the next turn to start as soon as this turn ends.
        two.signal("w", "s").await;
        let polling = poll(&two);
        until_waiting(&two, 1).await;
        two.answer(turn, Vec::new(), &said("7")).await.unwrap();
        turn = polling.await.unwrap();
        assert!(!turn.task().query_only);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(result(asking.await.unwrap()).0, "7");
    waits_in_vain.abort();
}
