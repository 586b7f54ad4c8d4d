//! Batches over one or several nodes: each run is operated on once, even if a node stops in the middle of a step.

use std::sync::Arc;
use std::time::Duration;

use engine::{BatchView, Limited, NewBatch, Refusal};
use history::{Batch, BatchAction, BatchFilter, BatchPhase, BatchedOperation, RequestKey, limits};
use simulation::stores::with_due_shards;
use store::Store;
use store::fault::{Chances, FaultStore};

use crate::members::{clock, open, pass, slow_store};
use crate::{DOMAIN, Service};

fn signals(pace: u32) -> NewBatch {
    let operation = BatchedOperation { name: Some("go".to_owned()), ..BatchedOperation::of(BatchAction::Signal) };
    let batch = Batch { operation, filter: BatchFilter::default(), reason: None, identity: Some("ann".to_owned()) };
    NewBatch { batch, pace: Some(pace), by: None }
}

/// Starts this number of runs and creates a batch that signals each of them.
async fn signal_all(service: &Service, count: usize, pace: u32) -> BatchView {
    for number in 0..count {
        service.start(&format!("w{number}")).await;
    }
    service.engine.batches().create(DOMAIN, signals(pace), None).await.unwrap()
}

async fn show(service: &Service, batch: &BatchView) -> BatchView {
    service.engine.batches().describe(DOMAIN, &batch.id).await.unwrap()
}

/// Waits until the batch is completed.
async fn completed(service: &Service, batch: &BatchView) -> BatchView {
    for _ in 0..120 {
        let shown = show(service, batch).await;
        if shown.state.phase == BatchPhase::Completed {
            return shown;
        }
        pass(service, 1).await;
    }
    panic!("{:?}", show(service, batch).await)
}

/// Checks that each run has one signal.
async fn signaled_once(service: &Service, count: usize) {
    for number in 0..count {
        let names = service.names(&format!("w{number}")).await;
        assert_eq!(names.iter().filter(|name| **name == "Signal").count(), 1, "w{number}: {names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_nodes_operate_once_on_each_run() {
    let (store, clock) = (slow_store().await, clock());
    let one = open(&store, &clock, Some("http://node0".to_owned())).await;
    let _two = open(&store, &clock, Some("http://node1".to_owned())).await;
    pass(&one, 4).await;
    let batch = signal_all(&one, 40, 10).await;
    assert_eq!((batch.estimate, batch.is_estimate_cut), (40, false));
    let shown = completed(&one, &batch).await;
    assert_eq!((shown.state.counts.done, shown.state.counts.examined), (40, 40));
    assert!(shown.state.refusals.is_empty());
    signaled_once(&one, 40).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_know_each_other_operate_once() {
    let (store, clock) = (slow_store().await, clock());
    let one = open(&store, &clock, None).await;
    let _two = open(&store, &clock, Some("http://node1".to_owned())).await;
    let batch = signal_all(&one, 40, 10).await;
    let shown = completed(&one, &batch).await;
    assert_eq!(shown.state.counts.done, 40);
    signaled_once(&one, 40).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_cut_off_by_a_crash_is_finished_once() {
    let (store, clock) = (slow_store().await, clock());
    let mut node = open(&store, &clock, Some("http://node0".to_owned())).await;
    let batch = signal_all(&node, 60, 20).await;
    let mut cut_off = 0;
    for crash in 1..20 {
        // Different delays, so that the node stops at different places of a step.
        tokio::time::sleep(Duration::from_millis(17 * crash)).await;
        node.engine.begin_shutdown();
        cut_off += usize::from(show(&node, &batch).await.state.plan.is_some());
        node = open(&store, &clock, Some(format!("http://node{crash}"))).await;
        pass(&node, 1).await;
    }
    assert!(cut_off > 0, "no crash was in the middle of a step");
    let shown = completed(&node, &batch).await;
    assert_eq!(shown.state.counts.done, 60, "{:?}", shown.state);
    signaled_once(&node, 60).await;
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_store_repeat_no_operation() {
    let faults = Arc::new(FaultStore::new(with_due_shards(1).await, 11, Chances::frequent()));
    faults.set_on(false);
    let store: Arc<dyn Store> = Arc::clone(&faults) as _;
    let (one, other) = (open(&store, &clock(), None).await, open(&store, &clock(), None).await);
    other.engine.begin_shutdown();
    let batch = signal_all(&one, 40, 20).await;
    faults.set_on(true);
    pass(&one, 30).await;
    faults.set_on(false);
    let shown = completed(&one, &batch).await;
    assert!(faults.injected() > 0);
    assert_eq!(shown.state.counts.done, 40, "{:?}", shown.state);
    signaled_once(&one, 40).await;
}

#[tokio::test]
async fn a_repeated_creation_returns_the_first_batch() {
    let service = Service::open().await;
    let batches = service.engine.batches();
    let first = batches.create(DOMAIN, signals(1), Some(RequestKey(7))).await.unwrap();
    let again = batches.create(DOMAIN, signals(2), Some(RequestKey(7))).await.unwrap();
    assert_eq!((again.id, again.state.pace), (first.id, 1));
    let other = batches.create(DOMAIN, signals(1), Some(RequestKey(8))).await.unwrap();
    assert_eq!(batches.list(DOMAIN, 10, None).await.unwrap().0.len(), 2);
    assert_ne!(other.id, again.batch.operation.name.unwrap());
}

#[tokio::test]
async fn batches_beyond_the_limit_are_refused() {
    let service = Service::open().await;
    // The clock stands still, so that a batch that operates on one run per second never reaches the second run.
    service.start("w0").await;
    service.start("w1").await;
    let (batches, max) = (service.engine.batches(), limits::BATCHES_OPEN_MAX);
    let first = batches.create(DOMAIN, signals(1), None).await.unwrap();
    for _ in 1..max {
        batches.create(DOMAIN, signals(1), None).await.unwrap();
    }
    let refused = batches.create(DOMAIN, signals(1), None).await.unwrap_err();
    assert!(matches!(refused, Refusal::LimitExceeded { what: Limited::Batches, max: found } if found == max));
    let running = batches.delete(DOMAIN, &first.id).await.unwrap_err();
    assert!(matches!(running, Refusal::BatchRunning { .. }), "{running}");
    batches.stop(DOMAIN, &first.id).await.unwrap();
    batches.delete(DOMAIN, &first.id).await.unwrap();
    batches.create(DOMAIN, signals(1), None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_completed_batch_is_kept_for_thirty_days() {
    let service = Service::open().await;
    let batch = signal_all(&service, 1, 1).await;
    let shown = completed(&service, &batch).await;
    let completed = service.engine.batches().set_pace(DOMAIN, &batch.id, 2).await.unwrap_err();
    assert!(matches!(completed, Refusal::BatchCompleted { .. }), "{completed}");
    let end = shown.state.completed_at.unwrap().plus(limits::BATCH_RETENTION).as_millis();
    service.store.expire(end - 1, 100).await.unwrap();
    show(&service, &batch).await;
    service.store.expire(end, 100).await.unwrap();
    let unknown = service.engine.batches().describe(DOMAIN, &batch.id).await.unwrap_err();
    assert!(matches!(unknown, Refusal::UnknownBatch { .. }), "{unknown}");
}
