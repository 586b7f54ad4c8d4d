//! A parent whose child has started, closed and been replaced by an unrelated run with the same workflow id. All of
//! this happens before the parent records the child's start.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use history::{ReusePolicy, Start, StartChild, SucceedWorkflow};
use simulation::intercepted::{Commit, Intercepted, Interceptor};
use simulation::steps::{DOMAIN, at, decide, names};
use simulation::still::open;
use store::memory::Memory;
use store::{Cas, Due, Error, Head, HeadKey, RunId, Store, UnixMs};

/// Version of the head of `parent` that records the child's start. The earlier versions record the start, the taken
/// turn and the completed turn.
const KNOWS: u64 = 4;

/// Store as the first node sees it: every commit that would record news of the child in `parent` fails.
struct Deaf {
    store: Arc<dyn Store>,
    is_deaf: AtomicBool,
}

#[async_trait]
impl Interceptor for Deaf {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        if &*key.workflow_id == "parent" && head.version >= KNOWS {
            self.is_deaf.store(true, Ordering::SeqCst);
            return Err(Error::NotApplied { why: "deaf".to_owned(), retry_after: None });
        }
        self.store.commit(key, expect, head, parts).await
    }
}

/// Store as the second node sees it. Only `parent` is due. With `looks`, the node can read the earlier run of `child`
/// that was replaced by the unrelated run. Otherwise the earlier run is hidden.
struct Second {
    store: Arc<dyn Store>,
    looks: bool,
}

#[async_trait]
impl Interceptor for Second {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        let found = self.store.load_run(key, run).await?;
        Ok(found.filter(|_| self.looks || &*key.workflow_id != "child"))
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        let mut due = self.store.due(shard, until, after, limit).await?;
        due.retain(|due| &*due.key.workflow_id == "parent");
        Ok(due)
    }
}

/// Returns the name of the event with which the parent records the outcome of its child.
async fn outcome(looks: bool) -> &'static str {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let deaf = Arc::new(Intercepted(Deaf { store: Arc::clone(&store), is_deaf: AtomicBool::new(false) }));
    let one = open(Arc::clone(&deaf) as _, 1).await;
    one.commands().start(DOMAIN, Start::new("parent", "test", "parent")).await.unwrap();
    let child = StartChild {
        workflow_id: "child".to_owned(),
        workflow_type: "test".to_owned(),
        task_list: Some("child".to_owned()),
        reuse_policy: ReusePolicy::AllowDuplicate,
        ..StartChild::default()
    };
    decide(&one, "parent", vec![child.into()]).await;
    decide(&one, "child", vec![SucceedWorkflow::default().into()]).await;
    while !deaf.0.is_deaf.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    let stranger = Start { reuse_policy: ReusePolicy::AllowDuplicate, ..Start::new("child", "test", "child") };
    one.commands().start(DOMAIN, stranger).await.unwrap();
    one.begin_shutdown();

    let two = open(Arc::new(Intercepted(Second { store, looks })), 2).await;
    let outcome = async {
        loop {
            if let Some(name) = names(&two, &at("parent")).await.get(5) {
                return *name;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), outcome).await.expect("the parent records an outcome in time")
}

#[tokio::test]
async fn a_child_that_was_there_before_a_stranger_has_been_started() {
    assert_eq!(outcome(true).await, "ChildStarted");
}

#[tokio::test]
async fn without_a_look_among_earlier_runs_it_would_be_said_to_have_failed() {
    assert_eq!(outcome(false).await, "ChildScheduleFailed");
}
