//! Effects of runs on other runs, if two nodes deliver the same effect and one of them is delayed at the worst moment.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use engine::{Engine, EventRange};
use history::{EventKind, SignalExternal, Start};
use simulation::intercepted::{Commit, Intercepted, Interceptor};
use simulation::steps::{DOMAIN, at, decide, names, until};
use simulation::still::open;
use store::memory::Memory;
use store::{Cas, Error, Head, HeadKey, Store};
use tokio::sync::Notify;

/// Version of the head of `source` that records the outcome of its signal. The earlier versions record the start, the
/// taken turn and the completed turn.
const SETTLED: u64 = 4;

/// A store with a commit that waits until it is released: the commit that records the outcome of the signal in
/// `source`.
struct Holding {
    store: Arc<dyn Store>,
    is_released: AtomicBool,
    released: Notify,
}

impl Holding {
    fn release(&self) {
        self.is_released.store(true, Ordering::SeqCst);
        self.released.notify_waiters();
    }
}

/// Store as the delivering node sees it: the commit that records the outcome waits.
struct Held(Arc<Holding>);

#[async_trait]
impl Interceptor for Held {
    fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        if &*key.workflow_id == "source" && head.version == SETTLED {
            while !self.0.is_released.load(Ordering::SeqCst) {
                self.0.released.notified().await;
            }
        }
        self.0.store.commit(key, expect, head, parts).await
    }
}

/// Store of a second node. Its second read of `source` returns outdated data: before the response arrives, the first
/// node records the outcome of the signal.
struct Overtaken {
    holding: Arc<Holding>,
    other: Arc<Engine>,
    reads: Arc<AtomicU32>,
}

#[async_trait]
impl Interceptor for Overtaken {
    fn store(&self) -> &Arc<dyn Store> {
        &self.holding.store
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        let found = self.store().load(key).await;
        // The first read loads the run itself. The second read is for `target`, which searches the outbox of `source`.
        if &*key.workflow_id == "source" && self.reads.fetch_add(1, Ordering::SeqCst) == 1 {
            self.holding.release();
            while !names(&self.other, &at("source")).await.contains(&"ExternalSignalDelivered") {
                tokio::task::yield_now().await;
            }
        }
        found
    }
}

/// Store of a second node that delivers the signal of `source` late. It reads `target` only after the first node has
/// recorded the outcome and `target` has forgotten the signal's effect.
struct Belated {
    holding: Arc<Holding>,
    other: Arc<Engine>,
    has_come: AtomicBool,
    /// Head of `source` in the first commit by this node.
    source: Mutex<Option<Head>>,
    /// True if the node then reads the current head of `source`. Otherwise it uses the head that it committed.
    looks_again: bool,
}

#[async_trait]
impl Interceptor for Belated {
    fn store(&self) -> &Arc<dyn Store> {
        &self.holding.store
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        if &*key.workflow_id == "target" && !self.has_come.swap(true, Ordering::SeqCst) {
            while self.source.lock().unwrap().is_none() {
                tokio::task::yield_now().await;
            }
            self.holding.release();
            while !names(&self.other, &at("source")).await.contains(&"ExternalSignalDelivered") {
                tokio::task::yield_now().await;
            }
            start_source(&self.other, "after").await;
            while !names(&self.other, &at("after")).await.contains(&"ExternalSignalDelivered") {
                tokio::task::yield_now().await;
            }
        }
        let old = self.source.lock().unwrap().clone();
        if let Some(old) = old.filter(|_| &*key.workflow_id == "source" && !self.looks_again) {
            return Ok(Some(old));
        }
        self.store().load(key).await
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        let answer = self.store().commit(key, expect, head, parts).await?;
        if matches!(answer, Cas::Won) && &*key.workflow_id == "source" {
            self.source.lock().unwrap().get_or_insert_with(|| head.clone());
        }
        Ok(answer)
    }
}

/// Starts a run that immediately signals `target`.
async fn start_source(engine: &Arc<Engine>, id: &str) {
    engine.commands().start(DOMAIN, Start::new(id, "test", id)).await.unwrap();
    let signal = SignalExternal { workflow_id: "target".to_owned(), name: id.to_owned(), ..SignalExternal::default() };
    decide(engine, id, vec![signal.into()]).await;
}

/// Sends `target` five signals. The senders of the first four have recorded the outcome. The sender of the fifth,
/// `source`, has not.
async fn five_signals() -> (Arc<Holding>, Arc<Engine>) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let holding = Arc::new(Holding { store, is_released: AtomicBool::new(false), released: Notify::new() });
    let one = open(Arc::new(Intercepted(Held(Arc::clone(&holding)))), 1).await;
    one.commands().start(DOMAIN, Start::new("target", "test", "target")).await.unwrap();
    // Four remembered effects suffice for `target` to check, at the next effect, which of them it can forget.
    for number in 0..4 {
        let id = format!("before{number}");
        start_source(&one, &id).await;
        until(async || names(&one, &at(&id)).await.contains(&"ExternalSignalDelivered")).await;
    }
    start_source(&one, "source").await;
    until(async || names(&one, &at("target")).await.iter().filter(|name| **name == "Signal").count() == 5).await;
    (holding, one)
}

/// Returns the names of the signals in the history of `target`, which may be invalid.
async fn signals(engine: &Arc<Engine>) -> Vec<String> {
    let page = engine.views().history(&at("target"), &EventRange::default()).await.unwrap();
    let names = page.events.into_iter().filter_map(|event| match event.kind {
        EventKind::Signal(signal) => Some(signal.name),
        _ => None,
    });
    names.collect()
}

#[tokio::test]
async fn an_effect_that_is_settled_while_another_node_is_at_it_too_happens_once() {
    let (holding, one) = five_signals().await;
    let reads = Arc::new(AtomicU32::new(0));
    let overtaken = Overtaken { holding, other: one, reads: Arc::clone(&reads) };
    let two = open(Arc::new(Intercepted(overtaken)), 2).await;
    until(async || two.render_metrics().contains("baton_effects_total 1\n")).await;
    assert!(reads.load(Ordering::SeqCst) >= 3, "it looked what can be forgotten and what is owed");
    assert_eq!(signals(&two).await, ["before0", "before1", "before2", "before3", "source"]);
}

/// Delivers a signal again that `target` has received and forgotten. Returns the signals in its history after that.
async fn come_late(looks_again: bool) -> Vec<String> {
    let (holding, one) = five_signals().await;
    let store = Arc::clone(&holding.store);
    let (has_come, source) = (AtomicBool::new(false), Mutex::default());
    let two = open(Arc::new(Intercepted(Belated { holding, other: one, has_come, source, looks_again })), 2).await;
    until(async || {
        let is_done = two.render_metrics().contains("baton_effects_total 1\n");
        is_done || signals(&two).await.len() > 6
    })
    .await;
    signals(&open(store, 3).await).await
}

#[tokio::test]
async fn an_effect_that_its_target_has_forgotten_does_not_happen_again() {
    assert_eq!(come_late(true).await, ["before0", "before1", "before2", "before3", "source", "after"]);
}

#[tokio::test]
async fn without_another_look_at_the_source_it_would() {
    assert_eq!(come_late(false).await, ["before0", "before1", "before2", "before3", "source", "after", "source"]);
}
