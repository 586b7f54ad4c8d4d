//! Concurrent starts of one workflow id on several nodes. Exactly one of them creates a run. A start repeated with its
//! key, on any node, returns that run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{Engine, Refusal};
use history::{Command, ConflictPolicy, Fault, RequestKey, ReusePolicy, Start};
use simulation::steps::{DOMAIN, at};
use simulation::still::open;
use store::memory::Memory;
use store::{ListQuery, Store};
use tokio::task::JoinSet;

/// Number of starts on each of the three nodes.
const STARTS: u64 = 20;

async fn nodes(store: &Arc<dyn Store>) -> Vec<Arc<Engine>> {
    let mut nodes = Vec::new();
    for seed in 1..=3 {
        nodes.push(open(Arc::clone(store), seed).await);
    }
    nodes
}

/// Sends starts to all nodes concurrently and returns their outcomes. `start` returns the n-th start of each node.
async fn race(nodes: &[Arc<Engine>], start: impl Fn(u64) -> Start) -> Vec<Result<uuid::Uuid, Refusal>> {
    let mut racing = JoinSet::new();
    for number in 0..STARTS {
        for node in nodes {
            let (node, start) = (Arc::clone(node), start(number));
            racing.spawn(async move { node.commands().start(DOMAIN, start).await.map(|started| started.run_id) });
        }
    }
    racing.join_all().await
}

async fn runs(store: &Arc<dyn Store>) -> usize {
    let query = ListQuery { domain: DOMAIN.into(), limit: 1_000, ..ListQuery::default() };
    store.list(&query, None).await.unwrap().rows.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn exactly_one_of_all_nodes_starts_begins_a_run() {
    for reuse_policy in
        [ReusePolicy::AllowDuplicate, ReusePolicy::AllowDuplicateFailedOnly, ReusePolicy::RejectDuplicate]
    {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let nodes = nodes(&store).await;
        let outcomes = race(&nodes, |_| Start { reuse_policy, ..Start::new("w", "test", "w") }).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{reuse_policy:?}");
        let open = |outcome: &&Result<_, Refusal>| matches!(outcome, Err(Refusal::Fault(Fault::AlreadyOpen { .. })));
        assert_eq!(outcomes.iter().filter(open).count(), outcomes.len() - 1);
        assert_eq!(runs(&store).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn exactly_one_of_all_nodes_starts_follows_a_run_that_has_closed() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let nodes = nodes(&store).await;
    for round in 1..=10 {
        let outcomes = race(&nodes, |_| Start::new("w", "test", "w")).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "round {round}");
        assert_eq!(runs(&store).await, round);
        let run = at("w");
        let terminate =
            Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
        nodes.first().unwrap().commands().submit(&run, terminate).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn starts_with_one_key_are_one_start_at_whatever_node() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let nodes = nodes(&store).await;
    let outcomes = race(&nodes, |_| Start { key: Some(RequestKey(7)), ..Start::new("w", "test", "w") }).await;
    let begun: BTreeSet<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!((begun.len(), runs(&store).await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn starts_that_use_an_open_run_use_the_one_that_the_winner_began() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let nodes = nodes(&store).await;
    let conflict_policy = ConflictPolicy::UseExisting;
    let outcomes = race(&nodes, |_| Start { conflict_policy, ..Start::new("w", "test", "w") }).await;
    let begun: BTreeSet<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!((begun.len(), runs(&store).await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn starts_that_end_an_open_run_leave_one_open() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let nodes = nodes(&store).await;
    let conflict_policy = ConflictPolicy::TerminateExisting;
    let outcomes = race(&nodes, |_| Start { conflict_policy, ..Start::new("w", "test", "w") }).await;
    let begun: BTreeSet<_> = outcomes.into_iter().map(Result::unwrap).collect();
    assert_eq!(begun.len() as u64, STARTS * 3, "each begins a run of its own");
    let open = ListQuery { domain: DOMAIN.into(), limit: 1_000, open: Some(true), ..ListQuery::default() };
    assert_eq!(store.list(&open, None).await.unwrap().rows.len(), 1);
}
