//! Updates with several nodes over one store. An update is sent to one node and validated by a decider of another node,
//! with failures between these steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{DeciderTask, Delivery, Poll, Refusal, UpdateRequest};
use history::{Author, CallerName, Command, EventKind, Permissions, StartTimer, UpdateAnswer, Verdict};
use simulation::stores::many;
use tokio::time::Instant;

use crate::elsewhere::{nodes, until_waiting};
use crate::updates::{Asking, code, done, ids, marker, named, rejected, result, takes_updates};
use crate::{DOMAIN, Service, at};

/// Maximum time for an update to reach a decider at another node. Our choice: equal to the maximum time for tasks.
const HANDOVER_MAX: Duration = Duration::from_millis(50);

type Polling = tokio::task::JoinHandle<Delivery<DeciderTask>>;

fn poll(node: &Service) -> Polling {
    let engine = Arc::clone(&node.engine);
    let poll = takes_updates(Duration::from_secs(60), 64);
    tokio::spawn(
        async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().expect("a task comes") },
    )
}

/// Starts a poll, and waits until all nodes know of it.
async fn waiting(node: &Service) -> Polling {
    let polling = poll(node);
    until_waiting(node, 1).await;
    polling
}

fn token(task: Delivery<DeciderTask>) -> String {
    let (task, receipt) = task.split();
    receipt.delivered();
    task.token
}

#[tokio::test(start_paused = true)]
async fn an_update_reaches_another_node_at_once_in_one_commit() {
    let ([one, two, three], _) = nodes().await;
    two.idle("w").await;
    let polling = waiting(&two).await;
    let (before, commits) = (one.names("w").await.len(), one.store.stats().commits);
    let began = Instant::now();
    let asking = one.update("w", "u").await;
    let task = polling.await.unwrap();
    assert!(began.elapsed() < HANDOVER_MAX, "{:?}", began.elapsed());
    assert!(task.task().speculative && ids(&task) == ["u"]);
    two.say(&token(task), &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
    assert_eq!(one.store.stats().commits, commits + 1, "one commit");
    let turn = ["DeciderScheduled", "DeciderStarted", "DeciderCompleted", "UpdateAccepted", "UpdateCompleted"];
    assert_eq!(one.names("w").await[before..], turn);
    // A caller that has lost the response can repeat the update at any node.
    for node in [&one, &two, &three] {
        assert_eq!(result(node.update("w", "u").await.await.unwrap()).0, "2");
    }
    assert_eq!(one.store.stats().commits, commits + 1);
    assert_eq!((one.gauge("updates_waiting"), two.gauge("updates_waiting")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_at_another_node_leaves_the_store_unchanged() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    let stored = one.stored("w").await;
    for id in ["a", "b"] {
        let polling = waiting(&two).await;
        let asking = one.update("w", id).await;
        two.say(&token(polling.await.unwrap()), &[(id, rejected())], Vec::new()).await.unwrap();
        let Refusal::UpdateRejected { reason, details, .. } = asking.await.unwrap().unwrap_err() else { panic!() };
        assert_eq!((reason.as_str(), details.unwrap().text()), ("taken", Some("[2]")));
        // The node that received the update from its caller remembers the rejection.
        assert_eq!(code(one.update("w", id).await.await.unwrap()), "update-rejected");
    }
    assert_eq!(one.stored("w").await, stored, "a rejection stores nothing");
}

#[tokio::test(start_paused = true)]
async fn every_outcome_of_an_update_returns_from_another_node() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    let failed = Verdict::Failed { reason: "broken".to_owned(), details: None };
    for (id, verdict, expected) in [("f", Some(failed), "update-failed"), ("n", None, "update-rejected")] {
        let polling = waiting(&two).await;
        let asking = one.update("w", id).await;
        let answers: Vec<_> = verdict.into_iter().map(|verdict| (id, verdict)).collect();
        two.say(&token(polling.await.unwrap()), &answers, Vec::new()).await.unwrap();
        assert_eq!(code(asking.await.unwrap()), expected);
    }
    // The update is accepted in one turn and completed in a later turn.
    let polling = waiting(&two).await;
    let asking = one.update("w", "l").await;
    two.say(&token(polling.await.unwrap()), &[("l", Verdict::Later)], Vec::new()).await.unwrap();
    two.signal("w", "go").await;
    let task = two.judge().await;
    two.say(&token(task), &[("l", done("3"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "3");
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_checked_at_another_node() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    let version = one.engine.views().describe(&at("w")).await.unwrap().run.version;
    let conditional = |id: &str| UpdateRequest { if_version: Some(version), ..named(id) };
    let polling = waiting(&two).await;
    let first = one.update_of(at("w"), conditional("a"), Duration::from_secs(60)).await;
    let task = polling.await.unwrap();
    let second = one.update_of(at("w"), conditional("b"), Duration::from_secs(60)).await;
    assert_eq!(ids(&task), ["a"]);
    two.say(&token(task), &[("a", done("2"))], Vec::new()).await.unwrap();
    assert!(first.await.unwrap().is_ok());
    assert_eq!(code(second.await.unwrap()), "version-mismatch");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_may_be_given_to_any_node() {
    let ([one, two, three], _) = nodes().await;
    two.idle("w").await;
    // Tests both a speculative turn and a regular turn.
    for (id, is_speculative) in [("a", true), ("b", false)] {
        let asking = if is_speculative {
            one.update("w", id).await
        } else {
            two.signal("w", "go").await;
            two.update("w", id).await
        };
        let task = poll(&two).await.unwrap();
        assert_eq!((task.task().speculative, ids(&task)), (is_speculative, vec![id]));
        let token = token(task);
        // A refusal by the rules is returned to the decider and changes nothing.
        let refused = three.say(&token, &[("x", done("2"))], Vec::new()).await.unwrap_err();
        assert_eq!(refused.code(), "unknown-update", "{refused}");
        three.say(&token, &[(id, done("2"))], vec![marker()]).await.unwrap();
        assert_eq!(result(asking.await.unwrap()).0, "2");
        let again = three.say(&token, &[(id, done("2"))], vec![marker()]).await.unwrap_err();
        assert_eq!(again.code(), "turn-completed", "{again}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_passed_answer_keeps_its_deciders_name_and_permissions() {
    let ([one, two, three], _) = nodes().await;
    two.idle("w").await;
    let before = one.names("w").await.len();
    let asking = one.update("w", "u").await;
    let task = poll(&two).await.unwrap();
    let timers = Permissions { decisions: Some(vec!["StartTimer".to_owned()]), ..Permissions::default() };
    let none = Permissions { decisions: Some(Vec::new()), ..Permissions::default() };
    let by = Some(CallerName::new("order-decider").unwrap());
    let author = Author { may: Some([none, timers].into()), ..Author::named(by.clone()) };
    let timer = StartTimer { timer_id: "t".to_owned(), after: history::Duration::from_secs(9), control: None };
    three.say_as(author, &token(task), &[("u", done("2"))], vec![marker(), timer.into()]).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
    let events = &one.events("w").await[before..];
    for event in events
        .iter()
        .filter(|event| !matches!(event.kind.name(), "DeciderScheduled" | "DeciderStarted" | "UpdateAccepted"))
    {
        assert_eq!(event.by, by, "{event:?}");
    }
    let names: Vec<_> = events.iter().map(|event| event.kind.name()).collect();
    assert!(names.contains(&"MarkerFailed") && names.contains(&"TimerScheduled"), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn an_update_goes_with_a_turn_at_another_node() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    two.signal("w", "go").await;
    let held = two.judge().await;
    // The other node has handed out the turn, and another decider also waits at that node.
    let polling = waiting(&two).await;
    let asking = one.update("w", "u").await;
    two.signal("w", "go").await;
    two.say(&token(held), &[], Vec::new()).await.unwrap();
    let task = polling.await.unwrap();
    assert_eq!((task.task().speculative, ids(&task)), (false, vec!["u"]));
    two.say(&token(task), &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_no_remote_decider_takes_returns() {
    let ([one, two], _) = nodes().await;
    two.idle("w").await;
    // This decider takes turns, but no updates.
    let engine = Arc::clone(&two.engine);
    let plain = Poll { wait: Duration::from_secs(60), ..Poll::default() };
    let plain = tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", plain).await });
    until_waiting(&two, 1).await;
    let asking = one.update("w", "u").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(two.gauge("updates_waiting"), 1, "the update is at the other node");
    let task = poll(&one).await.unwrap();
    assert_eq!(ids(&task), ["u"]);
    one.say(&token(task), &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
    assert_eq!(two.gauge("updates_waiting"), 0);
    plain.abort();
}

#[tokio::test(start_paused = true)]
async fn a_turn_ended_by_another_node_does_not_delay_an_update() {
    let ([one, two], _) = nodes().await;
    one.idle("w").await;
    one.signal("w", "go").await;
    let turn = one.judge().await;
    let asking = one.update("w", "u").await;
    two.say(&token(turn), &[], Vec::new()).await.unwrap();
    let task = one.judge().await;
    one.say(&token(task), &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

/// Sends an update to the first of three nodes, lets a decider of the second take it, and stops the second node.
/// Returns the nodes, the token of that decider, and the waiting caller.
async fn lost(update: UpdateRequest) -> ([Service; 3], String, Asking) {
    let ([one, two, three], line) = nodes().await;
    two.idle("w").await;
    let polling = waiting(&two).await;
    let asking = one.update_of(at("w"), update, Duration::from_secs(600)).await;
    let held = token(polling.await.unwrap());
    line.nodes.lock().unwrap().remove("http://node1");
    two.engine.begin_shutdown();
    ([one, two, three], held, asking)
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_dead_node_is_judged_elsewhere_and_counts_once() {
    let ([one, _two, three], held, asking) = lost(named("u")).await;
    let answers = [("u", done("1"))];
    let error = three.say(&held, &answers, Vec::new()).await.unwrap_err();
    assert_eq!(error.code(), "outcome-unknown", "while the node may return: {error}");
    let task = poll(&three).await.unwrap();
    assert_eq!(ids(&task), ["u"]);
    three.say(&token(task), &[("u", done("2"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
    crate::members::pass(&one, 6).await;
    let error = three.say(&held, &answers, Vec::new()).await.unwrap_err();
    assert!(["turn-lost", "turn-completed"].contains(&error.code()), "{error}");
    assert_eq!(one.names("w").await.iter().filter(|name| **name == "UpdateAccepted").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_update_recorded_by_a_dead_node_is_found() {
    let ([one, two, _three], held, asking) = lost(named("u")).await;
    // The other node has recorded the answer, but its reply is lost.
    two.say(&held, &[("u", done("1"))], Vec::new()).await.unwrap();
    let polling = poll(&one);
    assert_eq!(result(asking.await.unwrap()).0, "1");
    assert!(!polling.is_finished(), "no decider judges it again");
    polling.abort();
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_not_final_after_the_loss_of_a_node() {
    let ([one, two, three], held, asking) = lost(named("u")).await;
    let task = poll(&three).await.unwrap();
    three.say(&token(task), &[("u", rejected())], Vec::new()).await.unwrap();
    let is_unknown = |refusal: &Refusal| match refusal {
        Refusal::UpdateTimedOut { recorded, why, .. } => *recorded && why.contains("rejected"),
        _ => false,
    };
    let refusal = asking.await.unwrap().unwrap_err();
    assert!(is_unknown(&refusal), "{refusal}");
    // The outcome of a repetition is also unknown, even at a node that did not receive the update before.
    for node in [&one, &three] {
        let asking = node.update("w", "u").await;
        if !asking.is_finished() {
            three.say(&token(poll(&three).await.unwrap()), &[("u", rejected())], Vec::new()).await.unwrap();
        }
        let refusal = asking.await.unwrap().unwrap_err();
        assert!(is_unknown(&refusal), "{refusal}");
    }
    // After six seconds, the lost node knows that others may consider it dead. It refuses the late answer of its
    // decider.
    crate::members::pass(&one, 6).await;
    assert_eq!(code(one.update("w", "u").await.await.unwrap()), "update-rejected");
    let late = two.say(&held, &[("u", done("1"))], Vec::new()).await.unwrap_err();
    assert_eq!(late.code(), "turn-lost", "{late}");
    assert!(!one.names("w").await.contains(&"UpdateAccepted"));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_without_an_id_is_not_final_after_a_node_loss() {
    let ([_one, _two, three], _, asking) = lost(unnamed()).await;
    let task = poll(&three).await.unwrap();
    let id = ids(&task).concat();
    three.say(&token(task), &[(&id, rejected())], Vec::new()).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "update-timed-out");
}

/// Returns an update without an id.
fn unnamed() -> UpdateRequest {
    UpdateRequest { update_id: None, ..named("") }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_consults_only_nodes_that_may_hold_the_update() {
    let ([one, two, _three], line) = nodes().await;
    two.idle("w").await;
    for (judge, update, expected) in
        [(&one, unnamed(), 0), (&two, unnamed(), 0), (&one, named("a"), 2), (&two, named("b"), 2)]
    {
        let polling = waiting(judge).await;
        let asking = one.update_of(at("w"), update, Duration::from_secs(60)).await;
        let task = polling.await.unwrap();
        let id = ids(&task).concat();
        judge.say(&token(task), &[(&id, rejected())], Vec::new()).await.unwrap();
        assert_eq!(code(asking.await.unwrap()), "update-rejected");
        let asked = std::mem::take(&mut *line.asked.lock().unwrap());
        assert_eq!(asked.len(), expected, "{id}: {asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_that_may_be_accepted_is_not_rejected_elsewhere() {
    let ([one, two, three], _) = nodes().await;
    one.idle("w").await;
    // In the first attempt, a decider has the update, and the caller stops waiting.
    let first = one.update_of(at("w"), named("u"), Duration::from_secs(1)).await;
    let held = token(poll(&one).await.unwrap());
    assert_eq!(code(first.await.unwrap()), "update-timed-out");
    // In the second attempt, a decider of another node rejects the update.
    let second = two.update("w", "u").await;
    let other = token(poll(&two).await.unwrap());
    two.say(&other, &[("u", rejected())], Vec::new()).await.unwrap();
    let refusal = second.await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::UpdateTimedOut { recorded: true, .. }), "{refusal}");
    // The first decider accepts the update nevertheless. Every later caller gets its result.
    one.say(&held, &[("u", done("1"))], Vec::new()).await.unwrap();
    for node in [&two, &three] {
        assert_eq!(result(node.update("w", "u").await.await.unwrap()).0, "1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_returned_by_one_node_is_returned_by_all() {
    let ([one, two, three], _) = nodes().await;
    one.idle("w").await;
    // Two callers send the same update to two nodes. A decider of one node has the update.
    let asking = one.update("w", "u").await;
    let held = token(poll(&one).await.unwrap());
    let other = three.update("w", "u").await;
    one.say(&held, &[("u", rejected())], Vec::new()).await.unwrap();
    assert_eq!(code(asking.await.unwrap()), "update-rejected");
    assert_eq!(code(other.await.unwrap()), "update-rejected", "it was waiting for a decider and no longer needs one");
    assert_eq!(code(two.update("w", "u").await.await.unwrap()), "update-rejected");
    assert_eq!([&one, &two, &three].map(|node| node.gauge("updates_waiting")), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn waiting_callers_keep_waiting_when_nodes_join_or_leave() {
    let ([one, two, three], line) = nodes().await;
    one.idle("w").await;
    let asking = one.update("w", "u").await;
    one.say(&token(poll(&one).await.unwrap()), &[("u", Verdict::Later)], Vec::new()).await.unwrap();
    let run = one.engine.views().describe(&at("w")).await.unwrap().run;
    let seen = engine::SeenVersion { run_id: run.started.run_id, version: run.version, hash: None };
    let engine = Arc::clone(&one.engine);
    let watching =
        tokio::spawn(async move { engine.views().describe_unlike(&at("w"), seen, Duration::from_secs(600)).await });
    line.nodes.lock().unwrap().remove("http://node2");
    three.engine.begin_shutdown();
    // Tokio's paused time advances only while all tasks are idle, so it does not advance while callers are busy.
    crate::members::pass(&one, 10).await;
    assert_eq!(one.engine.nodes().alive().len(), 2);
    two.signal("w", "go").await;
    let task = two.judge().await;
    two.say(&token(task), &[("u", done("3"))], Vec::new()).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "3");
    assert!(watching.await.unwrap().unwrap().run.version > seen.version);
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_updates_were_lost_goes_to_another_decider() {
    let ([one, two, three], line) = nodes().await;
    two.idle("w").await;
    two.signal("w", "go").await;
    let asking = two.update("w", "u").await;
    let task = two.judge().await;
    assert!(!task.task().speculative && ids(&task) == ["u"]);
    let held = token(task);
    line.nodes.lock().unwrap().remove("http://node1");
    two.engine.begin_shutdown();
    assert!(asking.await.unwrap().is_err());
    crate::members::pass(&one, 6).await;
    let error = three.say(&held, &[("u", done("1"))], Vec::new()).await.unwrap_err();
    assert_eq!(error.code(), "turn-lost", "{error}");
    assert_eq!(one.names("w").await.last(), Some(&"DeciderScheduled"), "before its timeout");
}

/// Runs a decider at one node until it is aborted. The decider rejects the updates whose number is a multiple of three
/// and accepts all others.
fn judging(node: &Service) -> tokio::task::JoinHandle<()> {
    let engine = Arc::clone(&node.engine);
    tokio::spawn(async move {
        loop {
            let poll = takes_updates(Duration::from_secs(60), 64);
            let Ok(Some(task)) = engine.tasks().poll_decider(DOMAIN, "deciders", poll).await else { continue };
            let (task, receipt) = task.split();
            receipt.delivered();
            // Simulates that deciding takes time.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
            let answers = task.updates.iter().map(|update| {
                let number: u64 = update.update_id.parse().unwrap();
                let verdict = if number.is_multiple_of(3) { rejected() } else { done(&update.update_id) };
                UpdateAnswer { update_id: update.update_id.clone(), verdict }
            });
            let token = engine.tasks().decider_token(&task.token).unwrap();
            let command = Command::complete(token.turn, Vec::new());
            drop(engine.tasks().answer_turn_with(&token, command, Vec::new(), answers.collect()).await);
        }
    })
}

fn put(node: &Service, number: u64) -> Asking {
    let engine = Arc::clone(&node.engine);
    tokio::spawn(async move {
        engine.request_reply().update(&at("w"), named(&number.to_string()), Duration::from_secs(50)).await
    })
}

async fn counts_each_once(seed: u64) {
    fastrand::seed(seed);
    let ([one, two, three], line) = nodes().await;
    one.start("w").await;
    let nodes = [one, two, three];
    let mut deciders = vec![judging(&nodes[0]), judging(&nodes[1]), judging(&nodes[2])];
    let mut asked: Vec<(u64, Asking)> = Vec::new();
    let mut told: BTreeMap<u64, Result<(), &'static str>> = BTreeMap::new();
    for number in 0..40 {
        if number == 20 {
            // Stops a node, with its decider and all data that it has only in memory. Then stops the decider of another
            // node.
            line.nodes.lock().unwrap().remove("http://node1");
            nodes[1].engine.begin_shutdown();
            deciders.remove(2).abort();
            deciders.remove(1).abort();
        }
        let alive: &[usize] = if number < 20 { &[0, 1, 2] } else { &[0, 2] };
        let any = || fastrand::choice(alive).and_then(|at| nodes.get(*at)).unwrap();
        if fastrand::u8(0..3) == 0 {
            any().signal("w", "s").await;
        }
        asked.push((number, put(any(), number)));
        if fastrand::bool() {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..400))).await;
        }
    }
    while let Some((number, asking)) = asked.pop() {
        match asking.await.unwrap() {
            Ok(updated) => {
                let (text, ..) = result(Ok(updated));
                assert_eq!(text, number.to_string(), "seed {seed}");
                told.insert(number, Ok(()));
            }
            Err(refusal) if refusal.code() == "update-rejected" => drop(told.insert(number, Err("rejected"))),
            // A caller that got no outcome repeats the update with the same id at another node.
            Err(Refusal::UpdateTimedOut { .. } | Refusal::Stopping) => {
                crate::members::pass(&nodes[0], 5).await;
                asked.push((number, put(&nodes[2], number)));
            }
            Err(refusal) => panic!("seed {seed}: {refusal}"),
        }
    }
    for decider in deciders {
        decider.abort();
    }
    let mut accepted: BTreeMap<u64, u32> = BTreeMap::new();
    for event in nodes[0].events("w").await {
        if let EventKind::UpdateAccepted(it) = event.kind {
            *accepted.entry(it.update_id.parse().unwrap()).or_default() += 1;
        }
    }
    for (number, told) in &told {
        let expected = (number % 3 != 0).then_some(1);
        assert_eq!(accepted.get(number).copied(), expected, "seed {seed}: update {number}, reported as {told:?}");
        assert_eq!(told.is_ok(), expected.is_some(), "seed {seed}: update {number}");
    }
    assert_eq!(told.len(), 40, "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn updates_at_any_node_count_once_whichever_node_dies() {
    for seed in 0..many(10) {
        counts_each_once(seed).await;
    }
}
