//! A commit is conditional on the run id and not only on the version. After a run is deleted, a new run of its workflow
//! id begins again with version 1.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use async_trait::async_trait;
use engine::RunRef;
use history::{Command, Duration, Start};
use simulation::intercepted::{Commit, Intercepted, Interceptor};
use simulation::steps::{DOMAIN, at, signal};
use simulation::still::open;
use store::memory::Memory;
use store::{Cas, Error, Expect, Store};
use tokio::sync::Semaphore;
use uuid::Uuid;

/// Store of a node whose second commit to the workflow id `w` is delayed until it is released.
struct Stalled {
    store: Arc<dyn Store>,
    reached: Arc<Semaphore>,
    released: Arc<Semaphore>,
    /// True if the delayed commit is conditional only on the version.
    drops_run: bool,
}

#[async_trait]
impl Interceptor for Stalled {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        if &*key.workflow_id != "w" || head.version != 2 {
            return self.store.commit(key, expect, head, parts).await;
        }
        self.reached.add_permits(1);
        self.released.acquire().await.unwrap().forget();
        let found = self.store.load(key).await?;
        let expect = match (expect, found) {
            (Expect::Exactly { version, .. }, Some(found)) if self.drops_run => {
                Expect::Exactly { run: found.run, version }
            }
            (expect, _) => expect,
        };
        self.store.commit(key, expect, head, parts).await
    }
}

fn forgettable() -> Start {
    Start { retention: Duration::ZERO, ..Start::new("w", "test", "w") }
}

/// Delays a writer while its run closes, is deleted and is replaced by a new run. Returns the new run, and the run that
/// exists after the writer has continued.
async fn overtake(drops_run: bool) -> (Uuid, Uuid) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let (reached, released) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let stalled = Stalled {
        store: Arc::clone(&store),
        reached: Arc::clone(&reached),
        released: Arc::clone(&released),
        drops_run,
    };
    let slow = open(Arc::new(Intercepted(stalled)), 1).await;
    let first = slow.commands().start(DOMAIN, forgettable()).await.unwrap().run_id;
    let run = RunRef { run_id: Some(first), ..at("w") };
    let writer = tokio::spawn({
        let run = run.clone();
        async move { slow.commands().submit(&run, signal("s")).await }
    });
    reached.acquire().await.unwrap().forget();

    let quick = open(Arc::clone(&store), 2).await;
    let end = Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
    quick.commands().submit(&run, end).await.unwrap();
    assert_eq!(store.expire(quick.clock().now().as_millis(), 10).await.unwrap(), 1);
    let second = quick.commands().start(DOMAIN, forgettable()).await.unwrap().run_id;
    released.add_permits(10);
    let committed = writer.await.unwrap();
    assert_eq!(committed.is_ok(), drops_run, "{committed:?}");

    let found = open(store, 3).await.views().describe(&at("w")).await.unwrap().run.started.run_id;
    (second, found)
}

#[tokio::test]
async fn a_writer_that_was_held_up_does_not_write_over_a_stranger() {
    let (second, found) = overtake(false).await;
    assert_eq!(found, second);
}

#[tokio::test]
async fn without_the_run_in_its_condition_it_would() {
    let (second, found) = overtake(true).await;
    assert_ne!(found, second);
}
