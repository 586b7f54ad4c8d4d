//! Clocks that are set: what `/readyz` and the metrics say of them, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use engine::{Clock, Engine, Node, Settings};
use history::Timestamp;
use serde_json::{Value, json};
use service::access::Credentials;
use service::api::router_for;
use simulation::stores::fresh;
use simulation::told::BEGIN;
use store::{Cas, Expect, HeadKey, Store};
use tokio::time::Instant;

use crate::support::{Api, Ask, READY};

/// A clock that goes on as time does, and can be set.
pub(crate) struct Settable {
    started: Instant,
    ahead: AtomicI64,
}

impl Settable {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), ahead: AtomicI64::new(0) })
    }

    /// So many seconds ahead of the right time.
    pub(crate) fn set(&self, ahead: i64) {
        self.ahead.store(ahead, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for Settable {
    fn now(&self) -> Timestamp {
        let right = BEGIN + u64::try_from(self.started.elapsed().as_millis()).unwrap();
        Timestamp::from_millis(right.saturating_add_signed(self.ahead.load(Ordering::SeqCst) * 1_000))
    }

    fn steady(&self) -> Option<Duration> {
        Some(self.started.elapsed())
    }

    async fn sleep_until(&self, at: Timestamp) {
        tokio::time::sleep(Duration::from_millis(at.since(self.now()).as_millis()).min(Duration::from_secs(10))).await;
    }
}

/// A service with such a clock.
pub(crate) async fn open(store: &Arc<dyn Store>, clock: &Arc<Settable>, node: Option<&str>) -> Api {
    let node = node.map(|address| Node { address: address.to_owned() });
    let settings = Settings { node, ..Settings::default() };
    let engine = Engine::open(Arc::clone(store), Arc::clone(clock) as _, settings).await.unwrap();
    let router = router_for(Arc::clone(&engine), Credentials::default());
    Api { engine, router, ..Api::open().await }
}

/// Time in which the service compares its clock, and in a minute of it holds it against the store.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn warnings(api: &Api) -> Vec<Value> {
    let ready = api.get("/readyz").await.json(200);
    assert_eq!(ready["ready"], true, "it takes work");
    ready["warnings"].as_array().unwrap().clone()
}

async fn codes(api: &Api) -> Vec<String> {
    warnings(api).await.iter().map(|warning| warning["code"].as_str().unwrap().to_owned()).collect()
}

async fn metric(api: &Api, name: &str) -> u64 {
    let metrics = api.get("/metrics").await.text;
    let line =
        metrics.lines().find(|line| line.split([' ', '{']).next() == Some(name)).unwrap_or_else(|| panic!("{name}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

pub(crate) async fn confirm(api: &Api) {
    api.ask(Ask::new("POST", "/v1/clock/confirm")).await.json(200);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_either_way_is_told_until_it_is_confirmed() {
    let (store, clock) = (fresh().await, Settable::new());
    let api = open(&store, &clock, None).await;
    pass(61).await;
    // A minute of it is nothing.
    clock.set(59);
    pass(2).await;
    assert_eq!(api.get("/readyz").await.text, READY);

    clock.set(59 + 3_600);
    pass(2).await;
    let told = warnings(&api).await;
    assert_eq!((told.len(), &told[0]["code"]), (1, &json!("clock-moved")));
    assert!(
        told[0]["detail"].as_str().unwrap().starts_with("the clock jumped ahead by PT1H, from 2023-11-14T22:"),
        "{told:?}"
    );
    assert!(told[0]["advice"].as_str().unwrap().contains("baton clock confirm"), "{told:?}");
    assert_eq!((metric(&api, "baton_clock_jumps").await, metric(&api, "baton_clock_behind_seconds").await), (1, 0));

    // The hour that is ahead is seen over the store, and then the clock is put right.
    pass(61).await;
    clock.set(0);
    pass(2).await;
    assert_eq!(codes(&api).await, ["clock-behind", "clock-moved"]);
    let behind = metric(&api, "baton_clock_behind_seconds").await;
    assert!((3_500..3_660).contains(&behind), "{behind}");
    assert_eq!(metric(&api, "baton_clock_jumps").await, 2);
    let told = warnings(&api).await;
    assert!(told[1]["detail"].as_str().unwrap().contains("was put back by PT1H"), "{told:?}");

    // One that begins then is told so by the store.
    let again = open(&store, &clock, None).await;
    pass(2).await;
    assert_eq!(codes(&again).await, ["clock-behind", "clock-moved"]);

    confirm(&api).await;
    assert_eq!(api.get("/readyz").await.text, READY);
    assert_eq!((metric(&api, "baton_clock_jumps").await, metric(&api, "baton_clock_behind_seconds").await), (0, 0));
    pass(120).await;
    assert_eq!(again.get("/readyz").await.text, READY, "confirmed at one, confirmed at all");
    assert_eq!(api.get("/readyz").await.text, READY);
}

/// Another node, as its heartbeats are in the store: its clock is so many seconds ahead of this one.
async fn beat(store: &Arc<dyn Store>, clock: &Settable, count: u64, ahead: i64, zones: &str) {
    let key = HeadKey { domain: "".into(), workflow_id: "nodes".into() };
    let said = clock.now().as_millis().saturating_add_signed(ahead * 1_000);
    loop {
        let mut head = store.load(&key).await.unwrap().expect("the service has beaten");
        let mut record: Value = serde_json::from_slice(&head.body).unwrap();
        record["http://other"] = json!({ "boot": 1, "count": count, "at": said / 1_000, "tz": zones });
        let expect = Expect::Exactly { run: head.run, version: head.version };
        head.version += 1;
        head.body = serde_json::to_vec(&record).unwrap().into();
        if store.commit(&key, expect, &head, &[]).await.unwrap() == Cas::Won {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_with_other_clocks_or_other_zone_tables_are_told_until_they_agree() {
    let (store, clock) = (fresh().await, Settable::new());
    let api = open(&store, &clock, Some("http://one")).await;
    let own = history::zone_tables();
    pass(2).await;
    for count in 1..4 {
        beat(&store, &clock, count, -3_600, "1999a").await;
        pass(1).await;
    }
    let told = warnings(&api).await;
    assert_eq!(codes(&api).await, ["clocks-apart", "zones-differ"], "{told:?}");
    assert!(told[0]["detail"].as_str().unwrap().contains("http://other"), "{told:?}");
    assert!(told[1]["detail"].as_str().unwrap().contains(&format!("1999a, this one {own}")), "{told:?}");
    assert!((3_598..3_603).contains(&metric(&api, "baton_clock_apart_seconds").await));
    for count in 4..7 {
        beat(&store, &clock, count, 30, &own).await;
        pass(1).await;
    }
    assert_eq!(api.get("/readyz").await.text, READY);
    assert_eq!(metric(&api, "baton_clock_apart_seconds").await, 0);
}

/// How many runs the schedule has started.
async fn started(api: &Api) -> u64 {
    api.get("/v1/domains/default/schedules/s").await.json(200)["totals"]["started"].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_schedule_goes_on_when_the_clock_was_ahead_and_is_right_again() {
    for (ahead, is_restarted) in [(7_200, false), (7_200, true), (2 * 86_400, false), (2 * 86_400, true)] {
        let (store, clock) = (fresh().await, Settable::new());
        let mut api = open(&store, &clock, None).await;
        let schedule = json!({
            "scheduleId": "s",
            "schedule": {
                "spec": { "intervals": [{ "every": 60 }] },
                "action": { "workflowId": "s", "workflowType": "t" },
                "overlap": "allow-all",
                "catchUpWindow": "PT1M",
            },
        });
        api.post("/v1/domains/default/schedules", &schedule).await.json(201);
        pass(130).await;
        let right = started(&api).await;
        assert!((1..=3).contains(&right), "{right}");
        clock.set(ahead);
        pass(130).await;
        let wrong = started(&api).await;
        assert!((right + 1..=right + 4).contains(&wrong), "{right} {wrong}");
        if is_restarted {
            api.engine.begin_shutdown();
            clock.set(0);
            api = open(&store, &clock, None).await;
        } else {
            clock.set(0);
        }
        pass(190).await;
        let again = started(&api).await;
        assert!((wrong + 2..=wrong + 4).contains(&again), "{ahead} {is_restarted}: {right} {wrong} {again}");
    }
}
