//! A node that dies between any two writes of a deletion. Each run is then either deleted or complete, and a repeated
//! request at another node continues the deletion.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use engine::{Deletion, EventRange, Refusal, RunRef};
use history::{ContinueAsNew, Payload, Start, StartTimer, check};
use simulation::intercepted::{Commit, Intercepted, Interceptor};
use simulation::steps::{DOMAIN, at, decide};
use simulation::still::open;
use store::memory::Memory;
use store::{Cas, Error, HeadKey, ListQuery, RunId, Store};
use uuid::Uuid;

/// Store of a node that dies at one of its writes, either before the write or between the write and its response.
struct Dying {
    store: Arc<dyn Store>,
    /// Number of writes until the node dies, including the last one.
    left: AtomicU32,
    writes_its_last: bool,
}

impl Dying {
    /// Counts a write. Returns whether it takes effect, and whether the node receives the response.
    fn next(&self) -> (bool, bool) {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(1) => (self.writes_its_last, false),
            Ok(_) => (true, true),
            Err(_) => (false, false),
        }
    }

    async fn write<T>(&self, write: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let (is_done, is_answered) = self.next();
        let done = if is_done { Some(write.await) } else { None };
        match done {
            Some(done) if is_answered => done,
            _ => Err(Error::Failed { why: "the node has died".to_owned() }),
        }
    }
}

#[async_trait]
impl Interceptor for Dying {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        self.write(self.store.commit(key, expect, head, parts)).await
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.write(self.store.drop_run(key, run)).await
    }
}

/// Starts a run of the workflow id `w` that continues as new twice. The newest run is open and has a timer. The
/// histories are too large for the heads, so chunks are written, too.
async fn three_runs(store: &Arc<dyn Store>) -> Vec<Uuid> {
    let engine = open(Arc::clone(store), 1).await;
    let large = || Payload::from_json(&format!("\"{}\"", "x".repeat(200 * 1024))).unwrap();
    let start = Start { input: Some(large()), ..Start::new("w", "test", "w") };
    let mut runs = vec![engine.commands().start(DOMAIN, start).await.unwrap().run_id];
    for _ in 0..2 {
        let decision = ContinueAsNew { input: Some(large()), ..ContinueAsNew::default() };
        decide(&engine, "w", vec![decision.into()]).await;
        // The successor starts as soon as the effects of its predecessor have been delivered.
        let described = loop {
            let run_id = engine.views().describe(&at("w")).await.unwrap().run.started.run_id;
            if !runs.contains(&run_id) {
                break run_id;
            }
            tokio::task::yield_now().await;
        };
        runs.push(described);
    }
    let timer = StartTimer { timer_id: "t".to_owned(), after: history::Duration::from_days(30), control: None };
    decide(&engine, "w", vec![timer.into()]).await;
    runs
}

async fn rows(store: &Arc<dyn Store>) -> usize {
    let query = ListQuery { domain: DOMAIN.into(), limit: 100, ..ListQuery::default() };
    store.list(&query, None).await.unwrap().rows.len()
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_cut_short_goes_on_where_it_was() {
    let deletion = Deletion { terminates: true, ..Deletion::default() };
    let mut cuts = 0;
    for writes_its_last in [false, true] {
        for write in 1.. {
            let store: Arc<dyn Store> = Arc::new(Memory::new());
            let runs = three_runs(&store).await;
            assert_eq!(rows(&store).await, 3);
            let dying = Dying { store: Arc::clone(&store), left: AtomicU32::new(write), writes_its_last };
            let node = open(Arc::new(Intercepted(dying)), 2).await;
            let is_over = node.commands().delete(&at("w"), &deletion).await.is_ok();
            drop(node);

            let node = open(Arc::clone(&store), 3).await;
            for run in &runs {
                let run_ref = RunRef { run_id: Some(*run), ..at("w") };
                match node.views().history(&run_ref, &EventRange { limit: 1_000, ..EventRange::default() }).await {
                    Ok(page) => check::history(&page.events).unwrap(),
                    Err(Refusal::UnknownRun { .. } | Refusal::UnknownWorkflow { .. }) => {}
                    Err(other) => panic!("run {run} after write {write}: {other}"),
                }
            }
            match node.commands().delete(&at("w"), &deletion).await {
                Ok(count) => assert!(!is_over && count > 0),
                Err(Refusal::UnknownWorkflow { .. }) => {}
                Err(other) => panic!("after write {write}: {other}"),
            }
            assert_eq!(rows(&store).await, 0, "after write {write}");
            for run in &runs {
                let key = HeadKey { domain: DOMAIN.into(), workflow_id: "w".into() };
                assert!(store.load_run(&key, *run.as_bytes()).await.unwrap().is_none());
                assert!(store.chunks(&key, *run.as_bytes(), 1, 1 << 20).await.unwrap().is_empty());
            }
            if is_over {
                break;
            }
            cuts += 1;
        }
    }
    assert!(cuts >= 8, "one termination and three runs, each before and after: {cuts}");
}
