//! Several nodes over one store. The memory of a node may be outdated, but no request fails because of that. Also tests
//! a store that does not respond when a run is due.

use std::sync::Arc;
use std::time::Duration;

use engine::{EventRange, Poll, RunRef};
use history::{Command, ConflictPolicy, ReusePolicy, Start, StartTimer};
use store::fault::{Chances, FaultStore};
use store::memory::Memory;

use crate::{DOMAIN, Service, activity, at, succeed};

/// Opens two nodes over the same store. The second node has not seen the changes of the first.
async fn two() -> (Service, Service) {
    let one = Service::open().await;
    let other = Service::over(Arc::clone(&one.store)).await;
    (one, other)
}

/// Returns the id of a run's last event according to this node.
async fn last_event_in_memory(service: &Service) -> u64 {
    service.engine.views().describe(&at("w")).await.unwrap().run.last_event_id
}

#[tokio::test]
async fn a_node_accepts_an_answer_to_a_turn_it_has_not_seen() {
    let (one, other) = two().await;
    one.start("w").await;
    other.engine.views().describe(&at("w")).await.unwrap();
    let turn = one.turn().await;
    let token = one.engine.tasks().decider_token(&turn.task().token).unwrap();
    turn.delivered();
    assert_eq!(last_event_in_memory(&other).await, 2, "it still has the old state");
    let command = Command::complete(token.turn, vec![succeed()]);
    other.engine.tasks().answer_turn(&token, command).await.unwrap();
    assert_eq!(other.names("w").await.last(), Some(&"WorkflowSuccess"));
}

#[tokio::test]
async fn a_node_accepts_a_heartbeat_of_an_activity_it_has_not_seen() {
    let (one, other) = two().await;
    one.start("w").await;
    let turn = one.turn().await;
    one.complete(turn, vec![activity("a", "acts")]).await.unwrap();
    other.engine.views().describe(&at("w")).await.unwrap();
    let poll = Poll { wait: Duration::from_secs(5), ..Poll::default() };
    let task = one.engine.tasks().poll_activity(DOMAIN, "acts", poll).await.unwrap().expect("it waits");
    let token = one.engine.tasks().activity_token(&task.task().token).unwrap();
    task.delivered();
    assert_eq!(last_event_in_memory(&other).await, 5, "it still has the old state");
    assert!(!other.engine.tasks().heartbeat(&token, None).await.unwrap());
    let again = Service::over(Arc::clone(&one.store)).await;
    assert_eq!(again.engine.views().describe(&at("w")).await.unwrap().heartbeats.len(), 1, "it is in the store");
}

#[tokio::test]
async fn a_run_closed_by_another_node_does_not_prevent_the_next_start() {
    let (one, other) = two().await;
    one.start("w").await;
    other.engine.views().describe(&at("w")).await.unwrap();
    let turn = one.turn().await;
    one.complete(turn, vec![succeed()]).await.unwrap();
    assert_eq!(last_event_in_memory(&other).await, 2, "it still has the old state");
    let again = Start { reuse_policy: ReusePolicy::AllowDuplicate, ..Start::new("w", "test", "deciders") };
    let started = other.engine.commands().start(DOMAIN, again).await.unwrap();
    let newest = RunRef { run_id: Some(started.run_id), ..at("w") };
    assert_eq!(one.engine.views().history(&newest, &EventRange::default()).await.unwrap().events.len(), 2);
}

#[tokio::test]
async fn a_run_closed_by_another_node_is_not_used_as_existing() {
    let (one, other) = two().await;
    one.start("w").await;
    let closed = other.engine.views().describe(&at("w")).await.unwrap().run.started.run_id;
    let turn = one.turn().await;
    one.complete(turn, vec![succeed()]).await.unwrap();
    assert_eq!(last_event_in_memory(&other).await, 2, "it still has the old state");
    let (reuse_policy, conflict_policy) = (ReusePolicy::AllowDuplicate, ConflictPolicy::UseExisting);
    let start = Start { reuse_policy, conflict_policy, ..Start::new("w", "test", "deciders") };
    let started = other.engine.commands().start(DOMAIN, start).await.unwrap();
    assert!(!started.existing && started.run_id != closed, "{started:?}");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_found_in_the_run_that_was_replaced() {
    let inner = Arc::new(Memory::new());
    let faults = Arc::new(FaultStore::new(Arc::clone(&inner), 11, Chances::NONE));
    let (one, other) = (Service::over(Arc::clone(&faults) as _).await, Service::over(inner).await);
    one.start("w").await;
    let first = one.engine.views().describe(&at("w")).await.unwrap().run.started.run_id;
    // Both services have the same seed. Starting another run makes their later ids differ.
    other.start("v").await;
    // The command is recorded, but the node that wrote it gets no confirmation.
    faults.set_chances(Chances { unknown_after: 1_000, ..Chances::NONE });
    let name = || "s".to_owned();
    let signal = Command::Signal { name: name(), input: None, identity: None, key: None, if_version: None };
    let run = at("w");
    let (told, ()) = tokio::join!(one.engine.commands().submit(&run, signal), async {
        assert_eq!(other.names("w").await.last(), Some(&"Signal"), "it is not retried yet");
        let terminate =
            Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
        other.engine.commands().submit(&at("w"), terminate).await.unwrap();
        let again = Start { reuse_policy: ReusePolicy::AllowDuplicate, ..Start::new("w", "test", "deciders") };
        other.engine.commands().start(DOMAIN, again).await.unwrap();
        faults.set_on(false);
    });
    assert_eq!(told.unwrap().run_id, first, "the first run has recorded it");
    assert_eq!(other.names("w").await, ["WorkflowStarted", "DeciderScheduled"], "the second run has not");
}

/// Starts a run with a timer of ten seconds. Afterwards, the store does not respond.
async fn timer_without_a_store(agenda: u32) -> (Service, Arc<FaultStore<Memory>>) {
    let store = Arc::new(FaultStore::new(Arc::new(Memory::new()), 11, Chances::NONE));
    let service = Service::over(Arc::clone(&store) as _).await;
    service.start("w").await;
    let turn = service.turn().await;
    let timer = StartTimer { timer_id: "t".to_owned(), after: history::Duration::from_secs(10), control: None };
    service.complete(turn, vec![timer.into()]).await.unwrap();
    until_on_the_agenda(&service, agenda).await;
    store.set_chances(Chances { not_applied: 1_000, ..Chances::NONE });
    service.clock.advance(history::Duration::from_secs(10));
    (service, store)
}

async fn until_on_the_agenda(service: &Service, count: u32) {
    let line = format!("baton_wakes_scheduled {count}\n");
    let wait = async {
        while !service.engine.render_metrics().contains(&line) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the agenda changes");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_wake_failed_is_woken_again_soon() {
    let (service, store) = timer_without_a_store(1).await;
    until_on_the_agenda(&service, 0).await;
    until_on_the_agenda(&service, 1).await;
    assert!(store.injected() > 1, "the store was asked");
    store.set_on(false);
    service.clock.advance(history::Duration::from_secs(5));
    service.until("w", "TimerExpired").await;
}

#[tokio::test(start_paused = true)]
async fn a_due_index_that_failed_to_read_is_read_again_soon() {
    // The agenda is empty before the due index is read for the first time.
    let (service, store) = timer_without_a_store(0).await;
    while store.injected() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    store.set_on(false);
    service.until("w", "TimerExpired").await;
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_start_failed_is_offered_again_soon() {
    let store = Arc::new(FaultStore::new(Arc::new(Memory::new()), 11, Chances::NONE));
    let service = Service::over(Arc::clone(&store) as _).await;
    service.start("w").await;
    until_on_the_agenda(&service, 1).await;
    store.set_chances(Chances { not_applied: 1_000, ..Chances::NONE });
    let refused = service.engine.tasks().poll_decider(DOMAIN, "deciders", Poll::default()).await;
    assert_eq!(refused.map(|_| ()).unwrap_err().code(), "unavailable");
    store.set_on(false);
    service.clock.advance(history::Duration::from_secs(5));
    let turn = service.turn().await;
    assert_eq!(turn.task().attempt, 1);
    turn.delivered();
}
