//! A node that takes over finds all waiting tasks, even if there are many and the pages of the due index are small.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use history::Start;
use simulation::intercepted::{Intercepted, Interceptor};
use simulation::steps::{DOMAIN, turn};
use simulation::still::open;
use store::memory::Memory;
use store::{Due, Error, Store, UnixMs};

/// Maximum number of runs in a page of the due index, regardless of the requested limit.
const PAGE: usize = 3;

/// A store with small pages of the due index.
struct SmallPages(Arc<dyn Store>);

#[async_trait]
impl Interceptor for SmallPages {
    fn store(&self) -> &Arc<dyn Store> {
        &self.0
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.0.due(shard, until, after, limit.min(PAGE)).await
    }
}

async fn finds(runs: usize) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let one = open(Arc::clone(&store), 1).await;
    let mut started = BTreeSet::new();
    for number in 0..runs {
        let id = format!("w{number}");
        one.commands().start(DOMAIN, Start::new(&id, "test", "deciders")).await.unwrap();
        started.insert(id);
    }
    one.begin_shutdown();
    // Time stands still, so no task is found just because it is overdue.
    let two = open(Arc::new(Intercepted(SmallPages(store))), 2).await;
    let mut found = BTreeSet::new();
    for _ in 0..runs {
        let turn = turn(&two, "deciders").await;
        found.insert(turn.task().workflow_id.to_string());
        turn.delivered();
    }
    assert_eq!(found, started);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_takes_over_finds_what_waits_on_every_page() {
    for runs in [PAGE, PAGE + 1, 2 * PAGE, 20] {
        finds(runs).await;
    }
}
