//! Runs of the maximum size, over the memory store, over the embedded store, and over DynamoDB if it is configured.

use std::sync::Arc;

use engine::{Engine, Refusal, Settings};
use simulation::crowd::fill_and_end;
use simulation::intercepted::{Intercepted, Interceptor};
use simulation::manual_clock::ManualClock;
use simulation::stores::fresh;
use store::memory::Memory;
use store::{Limits, Store};
use store_embedded::{Embedded, Options};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_maximum_size_closes() {
    fill_and_end(fresh().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_maximum_size_closes_over_the_embedded_store() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let store = Embedded::open(Options::new(directory.path())).await.expect("a store");
    fill_and_end(store).await;
}

/// A store with smaller limits.
struct Small {
    store: Arc<dyn Store>,
    limits: Limits,
}

impl Interceptor for Small {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}

#[tokio::test]
async fn a_store_too_small_for_the_largest_run_is_refused() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let limits = store.limits();
    let (head, part) = (store::HEAD_HARD_MIN, store::PART_MAX_MIN);
    for (limits, wrong) in [
        (Limits { head_hard: head, part_max: part, ..limits }, None),
        (Limits { head_hard: head - 1, ..limits }, Some(format!("heads of at most {} bytes", head - 1))),
        (Limits { part_max: part - 1, ..limits }, Some(format!("parts of at most {} bytes", part - 1))),
    ] {
        let small = Arc::new(Intercepted(Small { store: Arc::clone(&store), limits }));
        match (Engine::open(small, ManualClock::new(), Settings::default()).await, wrong) {
            (Ok(_), None) => {}
            (Err(Refusal::Unavailable { why, .. }), Some(wrong)) => assert!(why.contains(&wrong), "{why}"),
            (opened, wrong) => panic!("{:?} where {wrong:?} was expected", opened.err()),
        }
    }
}
