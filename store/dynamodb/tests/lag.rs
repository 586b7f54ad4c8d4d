//! Reads that are not marked as consistent, and indexes, may show what was there a while ago; on AWS they do. The store keeps its
//! contract, and the engine over it its promises, all the same; and a store that has forgotten a mark is found out.

mod support;

use std::sync::Arc;

use async_trait::async_trait;
use baton_store_dynamodb::Create;
use serde_json::Value;
use simulation::meddled::{Meddled, Meddler};
use simulation::{Outcome, Plan, simulate_over};
use store::{Count, Due, Error, ListPage, ListQuery, PageToken, Store, UnixMs};
use support::{Emulator, IsUnmarked};

/// Where the store marks reads as consistent, each by what its requests look like.
const MARKS: [(&str, IsUnmarked); 4] = [
    ("heads and parts", |operation, _| operation == "GetItem"),
    ("chunks", |operation, request| operation == "Query" && condition(request).contains("BETWEEN")),
    ("the runs of a workflow id", |operation, request| {
        operation == "Query" && condition(request).contains("begins_with") && request["ProjectionExpression"].is_null()
    }),
    ("the parts of a run that is forgotten", |operation, request| {
        operation == "Query" && !request["ProjectionExpression"].is_null()
    }),
];

/// Worlds that are simulated over a table that lags: a second or two of a processor each.
const SEEDS: u64 = 8;

/// How many worlds a store without its marks may get through.
const SEEDS_TO_CATCH: u64 = 30;

/// No mark is taken away.
fn as_marked(_: &str, _: &Value) -> bool {
    false
}

fn condition(request: &Value) -> &str {
    request["KeyConditionExpression"].as_str().unwrap_or_default()
}

/// A store of which whoever asks waits until what may lag has caught up: the contract lets indexes lag, and its sentences about
/// them hold when they do not.
struct Patient {
    store: Arc<dyn Store>,
    emulator: Emulator,
}

#[async_trait]
impl Meddler for Patient {
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
        // Of one workflow id they do not lag.
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

/// Whether every sentence of the contract holds, in a thread of its own: one that does not panics.
fn keeps_the_contract(seed: u64, is_unmarked: IsUnmarked) -> bool {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(store::conformance::all(async || {
            let emulator = Emulator::lagging(seed, is_unmarked);
            let store = table(&emulator).await;
            Arc::new(Meddled(Patient { store, emulator })) as Arc<dyn Store>
        }));
    });
    thread.join().is_ok()
}

#[test]
fn the_contract_holds_where_unmarked_reads_show_what_was_there_before() {
    assert!(keeps_the_contract(1, as_marked));
}

#[test]
fn a_store_that_forgets_to_mark_a_read_as_consistent_breaks_the_contract_wherever_that_is() {
    for (what, is_unmarked) in MARKS {
        assert!(!keeps_the_contract(1, is_unmarked), "unmarked reads of {what} went unnoticed");
    }
}

fn live(seed: u64, plan: Plan, is_unmarked: IsUnmarked) -> Outcome {
    let emulator = Emulator::lagging(seed, is_unmarked);
    simulate_over(seed, plan, async || table(&emulator).await, || emulator.catch_up(true))
}

#[test]
fn every_seed_keeps_every_promise_over_a_table_that_lags() {
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
fn a_store_that_reads_heads_and_parts_unmarked_is_caught() {
    let plan = Plan { steps: 150, ..Plan::default() };
    let [(_, is_unmarked), ..] = MARKS;
    let caught = (0..SEEDS_TO_CATCH).find(|seed| !live(*seed, plan, is_unmarked).violations.is_empty());
    println!("seed {caught:?}");
    assert!(caught.is_some(), "unmarked reads went unnoticed for {SEEDS_TO_CATCH} seeds");
}
