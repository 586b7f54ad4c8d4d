//! Indexes and reads that are not strongly consistent may return old data, and on AWS they do. The tests check that the
//! store and the engine fulfill their contracts nevertheless. They also detect a store that does not request
//! consistency where it must.

use std::sync::Arc;

use crate::support::{Emulator, IsUnmarked};
use async_trait::async_trait;
use baton_store_dynamodb::Create;
use serde_json::Value;
use simulation::intercepted::{Intercepted, Interceptor};
use simulation::{Outcome, Plan, simulate_over};
use store::{Count, Due, Error, ListPage, ListQuery, PageToken, Store, UnixMs};

/// Kinds of reads for which the store must request strong consistency, each with a function that recognizes its
/// requests.
const MARKS: [(&str, IsUnmarked); 4] = [
    ("heads and parts", |operation, _| operation == "GetItem"),
    ("chunks", |operation, request| operation == "Query" && condition(request).contains("BETWEEN")),
    ("the runs of a workflow id", |operation, request| {
        operation == "Query" && condition(request).contains("begins_with") && request["ProjectionExpression"].is_null()
    }),
    ("the parts of a deleted run", |operation, request| {
        operation == "Query" && !request["ProjectionExpression"].is_null()
    }),
];

/// Number of simulations over a table with lagging indexes. Chosen: each takes a second or two of processor time.
const SEEDS: u64 = 8;

/// Number of simulations within which a store without consistency must be detected.
const SEEDS_TO_CATCH: u64 = 30;

/// Honors every request for consistency.
fn as_marked(_: &str, _: &Value) -> bool {
    false
}

fn condition(request: &Value) -> &str {
    request["KeyConditionExpression"].as_str().unwrap_or_default()
}

/// A store that waits until lagging data has caught up before each query of an index. The contract allows indexes to
/// lag. Its rules about lists hold as soon as the indexes have caught up.
struct Patient {
    store: Arc<dyn Store>,
    emulator: Emulator,
}

#[async_trait]
impl Interceptor for Patient {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        self.emulator.catch_up(false);
        self.store.expire(now, limit).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.emulator.catch_up(false);
        self.store.due(shard, until, after, limit).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        // Queries of one workflow id do not lag.
        if query.workflow_id.is_none() {
            self.emulator.catch_up(false);
        }
        self.store.list(query, page).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        self.emulator.catch_up(false);
        self.store.count(query, at_most).await
    }
}

async fn table(emulator: &Emulator) -> Arc<dyn Store> {
    let store = emulator.store();
    store.create_table(Create::default()).await.expect("the emulator makes tables");
    Arc::new(store)
}

/// Returns whether all rules of the contract hold, in a separate thread because a violation panics.
fn keeps_the_contract(seed: u64, is_unmarked: IsUnmarked) -> bool {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(store::conformance::all(async || {
            let emulator = Emulator::lagging(seed, is_unmarked);
            let store = table(&emulator).await;
            Arc::new(Intercepted(Patient { store, emulator })) as Arc<dyn Store>
        }));
    });
    thread.join().is_ok()
}

#[test]
fn the_contract_holds_with_lagging_reads() {
    assert!(keeps_the_contract(1, as_marked));
}

#[test]
fn a_missing_request_for_consistency_breaks_the_contract() {
    for (what, is_unmarked) in MARKS {
        assert!(!keeps_the_contract(1, is_unmarked), "inconsistent reads of {what} were not detected");
    }
}

fn live(seed: u64, plan: Plan, is_unmarked: IsUnmarked) -> Outcome {
    let emulator = Emulator::lagging(seed, is_unmarked);
    simulate_over(seed, plan, async || table(&emulator).await, || emulator.catch_up(true))
}

#[test]
fn every_simulation_passes_over_a_lagging_table() {
    let only = std::env::var("BATON_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in only.map_or(0..SEEDS, |seed: u64| seed..seed + 1) {
        let nodes = 1 + usize::try_from(seed % 3).unwrap_or_default();
        let outcome = live(seed, Plan { nodes, steps: 150, ..Plan::default() }, as_marked);
        let violations = outcome.violations.join("\n");
        assert!(violations.is_empty(), "{}\n\nseed {seed}:\n{violations}", outcome.trace);
        assert!(outcome.runs > 0 && outcome.faults > 0);
    }
}

#[test]
fn a_store_with_inconsistent_reads_of_heads_is_detected() {
    let plan = Plan { steps: 150, ..Plan::default() };
    let [(_, is_unmarked), ..] = MARKS;
    let caught = (0..SEEDS_TO_CATCH).find(|seed| !live(*seed, plan, is_unmarked).violations.is_empty());
    println!("seed {caught:?}");
    assert!(caught.is_some(), "inconsistent reads were not detected in {SEEDS_TO_CATCH} simulations");
}
