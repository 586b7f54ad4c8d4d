//! The stream of a domain's changes: one message for many changes, and none while nothing changes.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use engine::{Engine, Settings};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use serde_json::json;
use simulation::intercepted::{Intercepted, Interceptor};
use simulation::manual_clock::ManualClock;
use store::memory::Memory;
use store::{Count, Error, Head, HeadKey, ListPage, ListQuery, PageToken, PartKey, RunId, Store};

use crate::support::{Api, Ask, WORKFLOWS};

const CHANGES: &str = "/v1/domains/default/changes";

/// The next message of the stream.
async fn next(stream: &mut Body) -> Option<String> {
    let frame = stream.frame().await?.unwrap().into_data().unwrap();
    Some(String::from_utf8(frame.to_vec()).unwrap())
}

/// A stream after its first message.
async fn follow(api: &Api, path: &str) -> Body {
    let mut stream = api.call(Ask::get(path)).await.into_body();
    assert_eq!(next(&mut stream).await.unwrap(), ": from now on\n\n");
    stream
}

async fn signal(api: &Api) {
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
}

#[tokio::test(start_paused = true)]
async fn changes_are_reported_at_most_once_a_second() {
    let api = Api::open().await;
    api.start("w").await;
    api.post("/v1/domains", &json!({ "name": "other" })).await.json(201);
    let (mut stream, mut other) = (follow(&api, CHANGES).await, follow(&api, "/v1/domains/other/changes").await);
    for _ in 0..10 {
        signal(&api).await;
    }
    let changed = "event: changed\ndata: {}\n\n";
    assert_eq!(next(&mut stream).await.unwrap(), changed);
    let told = tokio::time::Instant::now();
    for _ in 0..10 {
        signal(&api).await;
    }
    assert_eq!(next(&mut stream).await.unwrap(), changed, "changes in between are reported");
    assert_eq!(told.elapsed().as_secs(), 1);
    let nothing = tokio::time::timeout(Duration::from_secs(3_600), next(&mut stream)).await;
    assert!(nothing.is_err(), "no change is left to report");
    let nothing = tokio::time::timeout(Duration::from_secs(1), next(&mut other)).await;
    assert!(nothing.is_err(), "changes of other domains are not reported");
    api.engine.begin_shutdown();
    assert_eq!((next(&mut stream).await, next(&mut other).await), (None, None));
    api.get(CHANGES).await.problem(503, "stopping");
}

#[tokio::test(start_paused = true)]
async fn one_stream_follows_every_domain() {
    let api = Api::open().await;
    api.start("w").await;
    api.post("/v1/domains", &json!({ "name": "other" })).await.json(201);
    let mut stream = follow(&api, "/v1/changes").await;
    for number in 0..4 {
        let nothing = tokio::time::timeout(Duration::from_secs(10), next(&mut stream)).await;
        assert!(nothing.is_err(), "nothing has changed");
        if number % 2 == 0 {
            signal(&api).await;
        } else {
            let start = json!({ "workflowId": format!("w{number}"), "workflowType": "t" });
            api.post("/v1/domains/other/workflows", &start).await.json(201);
        }
        assert_eq!(next(&mut stream).await.unwrap(), "event: changed\ndata: {}\n\n", "{number}");
    }
    api.engine.begin_shutdown();
    assert_eq!(next(&mut stream).await, None);
}

#[tokio::test]
async fn an_unknown_domain_has_no_change_stream() {
    let api = Api::open().await;
    api.get("/v1/domains/none/changes").await.problem(404, "unknown-domain");
}

/// A store that counts reads.
struct Read {
    store: Arc<dyn Store>,
    reads: Arc<AtomicUsize>,
}

impl Read {
    fn one_more(&self) {
        self.reads.fetch_add(1, Relaxed);
    }
}

#[async_trait]
impl Interceptor for Read {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.one_more();
        self.store.load(key).await
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        self.one_more();
        self.store.load_run(key, run).await
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        self.one_more();
        self.store.parts(key, run, want).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.one_more();
        self.store.list(query, page).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        self.one_more();
        self.store.count(query, at_most).await
    }
}

const STREAMS: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn idle_change_streams_read_nothing_for_an_hour() {
    let reads = Arc::<AtomicUsize>::default();
    let store = Arc::new(Intercepted(Read { store: Arc::new(Memory::new()), reads: Arc::clone(&reads) }));
    let clock = ManualClock::new();
    let settings = Settings { seed: Some(7), ..Settings::default() };
    // Without background work of the service, such as reading its due index.
    let engine = Engine::open_for_reading(store, Arc::clone(&clock) as _, settings).await.unwrap();
    let api = Api::of(engine.into(), clock);
    api.post("/v1/domains", &json!({ "name": "default" })).await.json(201);
    api.start("w").await;
    let (woken, told) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    for stream in 0..STREAMS {
        let mut stream = follow(&api, if stream % 2 == 0 { CHANGES } else { "/v1/changes" }).await;
        let (woken, told) = (Arc::clone(&woken), Arc::clone(&told));
        tokio::spawn(async move {
            loop {
                let frame = poll_fn(|context| {
                    woken.fetch_add(1, Relaxed);
                    Pin::new(&mut stream).poll_frame(context)
                });
                if frame.await.is_none() {
                    return;
                }
                told.fetch_add(1, Relaxed);
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(woken.swap(0, Relaxed), STREAMS, "each waits");
    reads.store(0, Relaxed);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(
        (reads.load(Relaxed), woken.load(Relaxed), told.load(Relaxed)),
        (0, 0, 0),
        "nothing is read and no stream wakes"
    );
    signal(&api).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(told.load(Relaxed), STREAMS, "every stream gets the change");
}
