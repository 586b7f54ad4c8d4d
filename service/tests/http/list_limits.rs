//! Limits of task lists: how many tasks run at once and start per second, by list, by concurrency key and by group, and
//! pauses of lists.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use engine::Clock as _;
use engine::list_settings::{
    BURST_MAX, KEY_WEIGHT_MAX, LIMIT_GROUPS_MAX, LIMITED_KEYS_MAX, LISTS_WITH_SETTINGS_MAX, MAX_RUNNING_MAX, RATE_MAX,
    RATE_MIN,
};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use service::http::ServerLimits;
use store_embedded::{Embedded, Options};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::sockets::Socket;
use crate::support::{Answer, Api, Ask, PATIENCE, WORKFLOWS, activity_path, turn_path};

const DOMAIN: &str = "/v1/domains/default";
const ACTS: &str = "/v1/domains/default/task-lists/acts/activity";

fn poll(wait: &str) -> Ask {
    poll_of("acts", wait)
}

fn poll_of(list: &str, wait: &str) -> Ask {
    let path = format!("{DOMAIN}/task-lists/{list}/activity/poll");
    Ask::post(&path, &json!({})).header("prefer", &format!("wait={wait}"))
}

/// A decision that schedules an activity with a concurrency key.
fn keyed(id: &str, list: &str, key: Option<&str>) -> Value {
    let schedule = crate::support::schedule(id, list);
    let key = key.map(|key| json!({ "concurrencyKey": key })).unwrap_or_default();
    merged(schedule, key)
}

fn merged(mut value: Value, more: Value) -> Value {
    if let Value::Object(more) = more {
        value.as_object_mut().unwrap().extend(more);
    }
    value
}

impl Api {
    async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask(Ask::put(path, body)).await
    }

    /// Replaces the limits of the runners' list `acts`.
    async fn limit(&self, limits: Value) {
        self.put(&format!("{ACTS}/limits"), &limits).await.json(200);
        self.until_counted().await;
    }

    /// Waits until the service has counted the running tasks of all lists.
    async fn until_counted(&self) {
        let counted = async {
            while self.is_counting().await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, counted).await.expect("the running tasks are counted");
    }

    async fn is_counting(&self) -> bool {
        let lists = self.get(&format!("{DOMAIN}/task-lists?limit=200")).await.json(200);
        lists["taskLists"].as_array().unwrap().iter().any(|list| list["counting"] == true)
    }

    /// Starts a run with these activities.
    async fn scheduled(&self, id: &str, activities: Vec<Value>) {
        self.start(id).await;
        self.decide(activities.into()).await;
    }

    /// Starts a run with this number of activities on list `acts`.
    async fn many(&self, count: usize) {
        self.scheduled("w", (0..count).map(|number| keyed(&format!("a{number}"), "acts", None)).collect()).await;
    }

    async fn taken(&self, wait: &str) -> Option<Value> {
        self.taken_of("acts", wait).await
    }

    async fn taken_of(&self, list: &str, wait: &str) -> Option<Value> {
        let answer = self.ask(poll_of(list, wait)).await;
        (answer.status.as_u16() == 200).then(|| answer.json(200))
    }

    /// The name of the next activity.
    async fn next(&self) -> Option<String> {
        self.taken("0").await.map(|task| task["activityId"].as_str().unwrap().to_owned())
    }

    async fn succeed(&self, task: &Value) {
        self.post(&format!("{}/success", activity_path(task)), &json!({})).await.json(200);
    }

    /// The runners' list of this name.
    async fn runners(&self, name: &str) -> Value {
        let page = self.get(&format!("{DOMAIN}/task-lists/{name}")).await.json(200);
        page["taskLists"].as_array().unwrap().iter().find(|list| list["kind"] == "activity").unwrap().clone()
    }

    /// Number of running tasks of list `acts` that count toward its limits.
    async fn running(&self) -> u64 {
        self.runners("acts").await["uses"][0]["running"].as_u64().unwrap()
    }
}

/// Sends a poll that waits.
fn waiting(api: &Arc<Api>, list: &str) -> JoinHandle<Value> {
    let (waits, ask) = (Arc::clone(api), poll_of(list, "20"));
    tokio::spawn(async move { waits.ask(ask).await.json(200) })
}

#[tokio::test]
async fn a_second_poller_waits_until_a_slot_is_free() {
    let socket = Socket::of(Api::open().await, ServerLimits::default()).await;
    let api = &socket.api;
    api.limit(json!({ "maxRunning": 1 })).await;
    api.many(2).await;
    let (path, headers) = (format!("{ACTS}/poll"), "prefer: wait=20\r\n");
    let mut one = socket.call("POST", &path, headers, "{}").await;
    let (_, task) = one.answer().await;
    let mut other = socket.call("POST", &path, headers, "{}").await;
    api.until_pollers("\"acts\"", 1).await;
    let list = api.runners("acts").await;
    assert_eq!(list["limits"], json!({ "maxRunning": 1 }));
    let used = json!([{ "scope": "list", "name": "acts", "running": 1, "maxRunning": 1 }]);
    assert_eq!(list["uses"], used);
    let hold = json!({ "limit": "max-running", "scope": "list", "name": "acts", "running": 1, "max": 1 });
    assert_eq!(list["behind"], json!([merged(hold.clone(), json!({ "waiting": 1 }))]));
    assert_eq!(list["next"][0]["behind"], json!([merged(hold, json!({ "ahead": 0 }))]));
    api.succeed(&serde_json::from_str(&task).unwrap()).await;
    let (head, task) = other.answer().await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(serde_json::from_str::<Value>(&task).unwrap()["activityId"], "a1");
    let metrics = api.get("/metrics").await.text;
    for line in ["baton_list_running{", "baton_list_max_running{"] {
        let line = format!("{line}domain=\"default\",kind=\"activity\",list=\"acts\"}} 1\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_start_no_faster_than_the_rate() {
    let api = Api::open().await;
    api.limit(json!({ "rate": { "perSecond": 2, "burst": 1 } })).await;
    api.many(4).await;
    let mut starts = Vec::new();
    for _ in 0..4 {
        api.taken("20").await.unwrap();
        starts.push(Instant::now());
    }
    for pair in starts.windows(2) {
        let pause = pair[1] - pair[0];
        assert!((Duration::from_millis(490)..Duration::from_millis(600)).contains(&pause), "{pause:?}");
    }
    tokio::time::advance(Duration::from_millis(100)).await;
    let behind = api.get(&format!("{WORKFLOWS}/w")).await.json(200)["openActivities"][0]["behind"].clone();
    assert_eq!(behind, Value::Null, "it has started");
    api.start("v").await;
    api.decide(json!([keyed("late", "acts", None)])).await;
    let behind = api.get(&format!("{WORKFLOWS}/v")).await.json(200)["openActivities"][0]["behind"].clone();
    let rate = json!({ "perSecond": 2, "burst": 1 });
    assert_eq!(behind, json!([{ "limit": "rate", "scope": "list", "name": "acts", "rate": rate }]));
}

#[tokio::test]
async fn a_key_at_its_limit_delays_no_other_key() {
    let api = Api::open().await;
    api.limit(json!({ "perKey": { "maxRunning": 1 }, "limits": [{ "key": "gold", "maxRunning": 2 }] })).await;
    let of = |id: &str, key: &str| keyed(id, "acts", Some(key));
    let activities = vec![of("v1", "visa"), of("v2", "visa"), of("g1", "gold"), of("g2", "gold"), of("g3", "gold")];
    api.scheduled("w", activities).await;
    let visa = api.taken("20").await.unwrap();
    assert_eq!(visa["activityId"], "v1");
    assert_eq!((api.next().await, api.next().await, api.next().await), (Some("g1".into()), Some("g2".into()), None));
    let list = api.runners("acts").await;
    let hold = |key: &str, max: u32| json!({ "limit": "max-running", "scope": "key", "name": key, "running": max, "max": max });
    let mut behind = list["behind"].as_array().unwrap().clone();
    behind.sort_by_key(|of| of["name"].as_str().unwrap().to_owned());
    let waits = |key, max| merged(hold(key, max), json!({ "waiting": 1 }));
    assert_eq!(behind, [waits("gold", 2), waits("visa", 1)]);
    assert_eq!(list["next"].as_array().unwrap().len(), 2);
    assert!(list["next"].as_array().unwrap().iter().all(|task| task["concurrencyKey"].is_string()), "{list}");
    let metrics = api.get("/metrics").await.text;
    let held = "baton_list_held_back_tasks{domain=\"default\",kind=\"activity\",list=\"acts\"} 2\n";
    assert!(metrics.contains(held), "{metrics}");
    api.succeed(&visa).await;
    assert_eq!(api.next().await.as_deref(), Some("v2"));
}

#[tokio::test]
async fn lists_of_a_group_share_its_limit() {
    let api = Api::open().await;
    let group = format!("{DOMAIN}/limit-groups/bank");
    let made = api.put(&group, &json!({ "maxRunning": 1 })).await.json(200);
    assert_eq!(made, json!({ "name": "bank", "maxRunning": 1 }));
    for list in ["x", "y"] {
        let path = format!("{DOMAIN}/task-lists/{list}/activity/limits");
        let set = api.put(&path, &json!({ "group": "bank" })).await.json(200);
        assert_eq!(set, json!({ "name": list, "kind": "activity", "limits": { "group": "bank" } }));
    }
    api.until_counted().await;
    api.scheduled("w", vec![keyed("x", "x", None), keyed("y", "y", None)]).await;
    let task = api.taken_of("x", "20").await.unwrap();
    assert_eq!(api.taken_of("y", "0").await, None);
    let hold = json!({ "limit": "max-running", "scope": "group", "name": "bank", "running": 1, "max": 1 });
    assert_eq!(api.runners("y").await["behind"], json!([merged(hold, json!({ "waiting": 1 }))]));
    api.ask(Ask::new("DELETE", &group)).await.problem(409, "limit-group-in-use");
    let (other, ()) = tokio::join!(api.taken_of("y", "20"), async {
        api.until_pollers("\"y\"", 1).await;
        api.succeed(&task).await;
    });
    assert_eq!(other.unwrap()["activityId"], "y");
}

#[tokio::test]
async fn groups_are_listed_replaced_and_deleted() {
    let api = Api::open().await;
    let groups = format!("{DOMAIN}/limit-groups");
    assert_eq!(api.get(&groups).await.json(200), json!({ "groups": [] }));
    api.get(&format!("{groups}/none")).await.problem(404, "unknown-limit-group");
    api.put(&format!("{groups}/b"), &json!({ "maxRunning": 1 })).await.json(200);
    api.put(&format!("{groups}/a%20b"), &json!({ "rate": { "perSecond": 0.5 } })).await.json(200);
    api.put(&format!("{groups}/b"), &json!({ "maxRunning": 2 })).await.json(200);
    let (one, other) =
        (json!({ "name": "a b", "rate": { "perSecond": 0.5, "burst": 1 } }), json!({ "name": "b", "maxRunning": 2 }));
    assert_eq!(api.get(&groups).await.json(200), json!({ "groups": [one, other] }));
    assert_eq!(api.get(&format!("{groups}/b")).await.json(200), other);
    let unknown =
        api.put(&format!("{ACTS}/limits"), &json!({ "group": "c" })).await.problem(404, "unknown-limit-group");
    assert!(unknown["detail"].as_str().unwrap().contains("`c`"), "{unknown}");
    assert_eq!(api.ask(Ask::new("DELETE", &format!("{groups}/b"))).await.status.as_u16(), 204);
    api.ask(Ask::new("DELETE", &format!("{groups}/b"))).await.problem(404, "unknown-limit-group");
}

#[tokio::test]
async fn a_resumed_list_gives_tasks_to_waiting_polls_at_once() {
    let api = Arc::new(Api::open().await);
    let (mut fastest, list) = (Duration::MAX, "acts");
    for round in 0..5 {
        let pause = json!({ "identity": "ann", "reason": "the bank is closed" });
        let paused = api.post(&format!("{ACTS}/pause"), &pause).await.json(200);
        let expected = json!({ "since": api.clock.now(), "identity": "ann", "reason": "the bank is closed" });
        assert_eq!(paused, json!({ "name": "acts", "kind": "activity", "paused": expected }));
        api.post(&format!("{ACTS}/pause"), &json!({})).await.problem(409, "task-list-already-paused");
        let id = format!("w{round}");
        api.scheduled(&id, vec![keyed("a", list, None), keyed("b", list, None)]).await;
        assert_eq!(api.taken("0").await, None);
        let polls = [waiting(&api, list), waiting(&api, list)];
        api.until_pollers("\"acts\"", 2).await;
        api.until_counted().await;
        let shown = api.runners("acts").await;
        assert_eq!((&shown["paused"], &shown["waiting"]), (&expected, &json!(2)));
        let behind = json!({ "limit": "paused", "scope": "list", "name": "acts", "waiting": 2 });
        assert_eq!(shown["behind"], json!([behind]));
        let resumed = Instant::now();
        assert_eq!(api.ask(Ask::new("POST", &format!("{ACTS}/resume"))).await.json(200)["paused"], Value::Null);
        for poll in polls {
            api.succeed(&poll.await.unwrap()).await;
        }
        fastest = fastest.min(resumed.elapsed());
        api.ask(Ask::new("POST", &format!("{ACTS}/resume"))).await.problem(409, "task-list-not-paused");
        api.post(&format!("{WORKFLOWS}/{id}/terminate"), &json!({})).await.json(200);
    }
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
}

#[tokio::test]
async fn a_paused_list_does_not_stop_running_tasks() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    api.post(&format!("{ACTS}/pause"), &json!({})).await.json(200);
    api.succeed(&task).await;
    assert_eq!(api.runners("acts").await["inFlight"], 0);
}

#[tokio::test]
async fn limits_and_running_tasks_are_known_after_a_restart() {
    let directory = tempfile::TempDir::new().unwrap();
    let open = async || {
        let store = Embedded::open(Options::new(directory.path())).await.unwrap();
        Api::over(store).await
    };
    let api = open().await;
    api.limit(json!({ "maxRunning": 2, "perKey": { "maxRunning": 1 } })).await;
    let of = |id: &str, key: &str| keyed(id, "acts", Some(key));
    api.scheduled("w", vec![of("a1", "a"), of("a2", "a"), of("b1", "b"), of("c1", "c")]).await;
    let (first, second) = (api.taken("20").await.unwrap(), api.taken("20").await.unwrap());
    assert_eq!((&first["activityId"], &second["activityId"]), (&json!("a1"), &json!("b1")));
    assert_eq!(api.next().await, None);
    api.engine.shutdown().await.unwrap();
    let api = open().await;
    api.until_counted().await;
    assert_eq!(api.running().await, 2);
    assert_eq!(api.next().await, None, "two tasks run");
    api.succeed(&second).await;
    assert_eq!(api.next().await.as_deref(), Some("c1"), "a task with key `a` still runs");
    api.succeed(&first).await;
    assert_eq!(api.next().await.as_deref(), Some("a2"));
}

#[tokio::test]
async fn a_removed_limit_lets_all_waiting_tasks_start() {
    let api = Arc::new(Api::open().await);
    api.limit(json!({ "maxRunning": 1, "perKey": { "maxRunning": 1 } })).await;
    let activities = (0..40).map(|number| keyed(&format!("a{number}"), "acts", Some(&(number % 3).to_string())));
    api.scheduled("w", activities.collect()).await;
    api.taken("20").await.unwrap();
    let polls = (0..39).map(|_| waiting(&api, "acts")).collect::<Vec<_>>();
    api.until_pollers("\"acts\"", 39).await;
    let set = api.put(&format!("{ACTS}/limits"), &json!({})).await.json(200);
    assert_eq!(set, json!({ "name": "acts", "kind": "activity" }));
    join_all(polls).await.into_iter().for_each(|task| drop(task.unwrap()));
    assert_eq!(api.runners("acts").await["uses"], Value::Null);
}

/// Checks that a slot of list `acts` with one slot is free: the next activity starts.
async fn frees(api: &Api, next: &str) {
    let task = api.taken("20").await.unwrap();
    assert_eq!(task["activityId"], next);
    assert_eq!(api.running().await, 1);
}

#[tokio::test]
async fn the_end_of_a_run_frees_its_slots() {
    let api = Api::open().await;
    api.limit(json!({ "maxRunning": 1 })).await;
    api.scheduled("w", vec![keyed("a", "acts", None)]).await;
    api.scheduled("v", vec![keyed("b", "acts", None)]).await;
    api.taken("20").await.unwrap();
    assert_eq!(api.next().await, None);
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    frees(&api, "b").await;
}

#[tokio::test]
async fn a_timeout_frees_the_slot() {
    let api = Api::open().await;
    api.limit(json!({ "maxRunning": 1 })).await;
    let short = merged(keyed("a", "acts", None), json!({ "timeouts": { "startToClose": 30 } }));
    api.scheduled("w", vec![short, keyed("b", "acts", None)]).await;
    api.taken("20").await.unwrap();
    assert_eq!(api.next().await, None);
    let time = async {
        api.until_pollers("\"acts\"", 1).await;
        api.clock.advance(history::Duration::from_secs(30));
    };
    let (task, ()) = tokio::join!(api.taken("60"), time);
    assert_eq!(task.unwrap()["activityId"], "b");
    assert_eq!(api.running().await, 1);
}

#[tokio::test]
async fn an_attempt_that_backs_off_holds_no_slot() {
    let api = Api::open().await;
    api.limit(json!({ "maxRunning": 1 })).await;
    let retried = merged(keyed("a", "acts", None), json!({ "retry": { "initialInterval": "PT1H" } }));
    api.scheduled("w", vec![retried, keyed("b", "acts", None)]).await;
    let task = api.taken("20").await.unwrap();
    assert_eq!(task["activityId"], "a");
    api.post(&format!("{}/failure", activity_path(&task)), &json!({ "reason": "busy" })).await.json(200);
    frees(&api, "b").await;
}

#[tokio::test]
async fn a_failed_delivery_frees_the_slot() {
    let api = Api::open().await;
    api.limit(json!({ "maxRunning": 1 })).await;
    api.many(2).await;
    // The connection closes before it has taken the response.
    drop(api.call(poll("20")).await);
    frees(&api, "a1").await;
}

#[tokio::test]
async fn pollers_that_disconnect_leave_no_slot_behind() {
    let socket = Socket::of(Api::open().await, ServerLimits::default()).await;
    let api = &socket.api;
    api.limit(json!({ "maxRunning": 1 })).await;
    for round in 0..20 {
        let peer = socket.call("POST", &format!("{ACTS}/poll"), "prefer: wait=60\r\n", "{}").await;
        api.until_pollers("\"acts\"", 1).await;
        let id = format!("w{round}");
        api.start(&id).await;
        let retried = merged(keyed("a", "acts", None), json!({ "retry": { "initialInterval": 1 } }));
        let (task, ()) = tokio::join!(api.taken("60"), async {
            drop(peer);
            api.decide(json!([retried])).await;
        });
        api.succeed(&task.unwrap()).await;
        api.post(&format!("{WORKFLOWS}/{id}/terminate"), &json!({})).await.json(200);
    }
    assert_eq!(api.running().await, 0);
}

#[tokio::test]
async fn turns_of_a_limited_decider_list_run_one_at_a_time() {
    let api = Api::open().await;
    let path = format!("{DOMAIN}/task-lists/deciders/decider/limits");
    api.put(&path, &json!({ "perKey": { "maxRunning": 1 } })).await.json(200);
    api.until_counted().await;
    for (id, key) in [("v", "visa"), ("w", "visa"), ("m", "master")] {
        let start = json!({ "workflowId": id, "workflowType": "t", "taskList": "deciders", "concurrencyKey": key });
        api.post(WORKFLOWS, &start).await.json(201);
    }
    let (first, second) = (api.turn().await, api.turn().await);
    assert_eq!((&first["workflowId"], &second["workflowId"]), (&json!("v"), &json!("m")));
    let behind = api.get(&format!("{WORKFLOWS}/w")).await.json(200)["behind"].clone();
    let hold = json!({ "limit": "max-running", "scope": "key", "name": "visa", "running": 1, "max": 1 });
    assert_eq!(behind, json!([hold]));
    // The run's activities and children have its key, unless they have their own.
    let child = |id: &str| json!({ "type": "StartChild", "workflowId": id, "workflowType": "c", "taskList": "c" });
    let own = merged(child("own"), json!({ "concurrencyKey": "gold" }));
    let decisions = json!([keyed("a", "acts", None), keyed("b", "acts", Some("gold")), child("like-parent"), own]);
    api.post(&format!("{}/complete", turn_path(&first)), &json!({ "decisions": decisions })).await.json(200);
    let acts = api.runners("acts").await;
    let keys: Vec<_> = acts["next"].as_array().unwrap().iter().map(|task| task["concurrencyKey"].clone()).collect();
    assert_eq!(keys, ["visa", "gold"]);
    for (id, key) in [("like-parent", "visa"), ("own", "gold")] {
        let started = async {
            while api.get(&format!("{WORKFLOWS}/{id}")).await.status.as_u16() == 404 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, started).await.unwrap();
        let history = api.get(&format!("{WORKFLOWS}/{id}/history")).await.json(200);
        assert_eq!(history["events"][0]["concurrencyKey"], key, "{history}");
    }
    assert_eq!(api.turn().await["workflowId"], "w", "the turn of the other run with key `visa` is over");
}

#[tokio::test]
async fn concurrency_keys_have_1_to_256_characters() {
    let api = Api::open().await;
    let start = |id: &str, key: Value| json!({ "workflowId": id, "workflowType": "t", "taskList": "deciders", "concurrencyKey": key });
    api.post(WORKFLOWS, &start("w", "k".repeat(256).into())).await.json(201);
    api.refused(Ask::post(WORKFLOWS, &start("v", "k".repeat(257).into())), 413, "too-large").await;
    api.refused(Ask::post(WORKFLOWS, &start("v", "".into())), 400, "invalid-field").await;
    api.refused(Ask::post(WORKFLOWS, &start("v", 7.into())), 400, "bad-json").await;
    let turn = api.turn().await;
    let path = format!("{}/complete", turn_path(&turn));
    for (key, status, code) in [("k".repeat(257), 413, "too-large"), (String::new(), 400, "invalid-field")] {
        let decisions = json!({ "decisions": [keyed("a", "acts", Some(&key))] });
        api.refused(Ask::post(&path, &decisions), status, code).await;
    }
}

#[tokio::test]
async fn invalid_limits_are_refused_and_those_at_the_edge_are_not() {
    let api = Api::open().await;
    let path = format!("{ACTS}/limits");
    api.put(&format!("{DOMAIN}/limit-groups/g"), &json!({ "maxRunning": 1 })).await.json(200);
    let keys = |count: usize| -> Value {
        (0..count).map(|number| json!({ "key": number.to_string(), "maxRunning": 1 })).collect()
    };
    let rate = |per_second: Value, burst: Value| json!({ "rate": { "perSecond": per_second, "burst": burst } });
    let key = |more: Value| json!({ "limits": [merged(json!({ "key": "k" }), more)] });
    for limits in [
        json!({}),
        json!({ "maxRunning": 1 }),
        json!({ "maxRunning": MAX_RUNNING_MAX }),
        rate(RATE_MIN.as_f64().into(), 1.into()),
        rate(RATE_MAX.as_f64().into(), BURST_MAX.into()),
        json!({ "rate": { "perSecond": 1.5 } }),
        json!({ "perKey": { "maxRunning": MAX_RUNNING_MAX } }),
        json!({ "limits": keys(LIMITED_KEYS_MAX) }),
        key(json!({ "weight": KEY_WEIGHT_MAX })),
        json!({ "limits": [{ "key": "k".repeat(256) }] }),
        json!({ "group": "g" }),
    ] {
        api.put(&path, &limits).await.json(200);
    }
    let over = MAX_RUNNING_MAX + 1;
    let long = "k".repeat(257);
    for (limits, status, code, field) in [
        (json!({ "maxRunning": 0 }), 400, "invalid-field", "maxRunning"),
        (json!({ "maxRunning": over }), 400, "invalid-field", "maxRunning"),
        (json!({ "maxRunning": -1 }), 400, "bad-json", "maxRunning"),
        (json!({ "maxRunning": 1.5 }), 400, "bad-json", "maxRunning"),
        (json!({ "maxRunning": 1e30 }), 400, "bad-json", "maxRunning"),
        (json!({ "maxRunning": 5_000_000_000_u64 }), 400, "bad-json", "maxRunning"),
        (json!({ "maxRunning": "1" }), 400, "bad-json", "maxRunning"),
        (json!({ "maximum": 1 }), 400, "bad-json", "maximum"),
        (rate(0.into(), 1.into()), 400, "invalid-field", "rate.perSecond"),
        (rate(0.0004.into(), 1.into()), 400, "invalid-field", "rate.perSecond"),
        (rate((-1).into(), 1.into()), 400, "bad-json", "rate.perSecond"),
        (rate(1_000_000.001.into(), 1.into()), 400, "invalid-field", "rate.perSecond"),
        (rate(1e300.into(), 1.into()), 400, "bad-json", "rate.perSecond"),
        (rate(1.into(), 0.into()), 400, "invalid-field", "rate.burst"),
        (rate(1.into(), (BURST_MAX + 1).into()), 400, "invalid-field", "rate.burst"),
        (rate(1.into(), 1.5.into()), 400, "bad-json", "rate.burst"),
        (json!({ "rate": { "burst": 1 } }), 400, "bad-json", "perSecond"),
        (json!({ "rate": { "perSecond": 1, "every": 2 } }), 400, "bad-json", "every"),
        (json!({ "perKey": { "maxRunning": 0 } }), 400, "invalid-field", "perKey.maxRunning"),
        (json!({ "perKey": { "weight": 1 } }), 400, "bad-json", "weight"),
        (json!({ "limits": keys(LIMITED_KEYS_MAX + 1) }), 400, "invalid-field", "limits"),
        (json!({ "limits": [{ "key": "k" }, { "key": "k" }] }), 400, "invalid-field", "limits[k]"),
        (json!({ "limits": [{ "maxRunning": 1 }] }), 400, "bad-json", "key"),
        (json!({ "limits": [{ "key": 7 }] }), 400, "bad-json", "key"),
        (json!({ "limits": [{ "key": "" }] }), 400, "invalid-field", "key"),
        (json!({ "limits": [{ "key": long }] }), 413, "too-large", "key"),
        (key(json!({ "weight": 0 })), 400, "invalid-field", "weight"),
        (key(json!({ "weight": KEY_WEIGHT_MAX + 1 })), 400, "invalid-field", "weight"),
        (key(json!({ "maxRunning": 0 })), 400, "invalid-field", "limits[k].maxRunning"),
        (json!({ "group": "" }), 400, "invalid-field", "group"),
        (json!({ "group": long }), 413, "too-large", "group"),
        (json!([]), 400, "bad-json", "object"),
    ] {
        let problem = api.put(&path, &limits).await.problem(status, code);
        assert!(problem["detail"].as_str().unwrap().contains(field), "{limits}: {problem}");
    }
    assert_eq!(api.runners("acts").await["limits"], json!({ "group": "g" }), "the last ones that were accepted");
    for (name, body, status, code) in [
        ("h", json!({}), 400, "invalid-field"),
        ("h", json!({ "maxRunning": 0 }), 400, "invalid-field"),
        ("h", json!({ "maxRunning": over }), 400, "invalid-field"),
        ("h", json!({ "group": "g" }), 400, "bad-json"),
        (&long, json!({ "maxRunning": 1 }), 413, "too-large"),
    ] {
        api.put(&format!("{DOMAIN}/limit-groups/{name}"), &body).await.problem(status, code);
    }
    let of_long = format!("{DOMAIN}/task-lists/{long}/activity");
    api.put(&format!("{of_long}/limits"), &json!({ "maxRunning": 1 })).await.problem(413, "too-large");
    api.post(&format!("{of_long}/pause"), &json!({})).await.problem(413, "too-large");
    api.ask(Ask::new("POST", &format!("{of_long}/resume"))).await.problem(409, "task-list-not-paused");
    api.post(&format!("{ACTS}/pause"), &json!({ "reason": long })).await.problem(413, "too-large");
    api.post(&format!("{ACTS}/pause"), &json!({ "why": "x" })).await.problem(400, "bad-json");
    api.put("/v1/domains/none/task-lists/l/activity/limits", &json!({})).await.problem(404, "unknown-domain");
    api.put("/v1/domains/none/limit-groups/g", &json!({ "maxRunning": 1 })).await.problem(404, "unknown-domain");
    api.get("/v1/domains/none/limit-groups").await.problem(404, "unknown-domain");
}

#[tokio::test]
async fn a_domain_has_limits_for_200_lists_and_50_groups() {
    let api = Api::open().await;
    let list = |number: usize| format!("{DOMAIN}/task-lists/l{number}/activity/limits");
    for number in 0..LISTS_WITH_SETTINGS_MAX {
        api.put(&list(number), &json!({ "maxRunning": 1 })).await.json(200);
    }
    let problem =
        api.put(&list(LISTS_WITH_SETTINGS_MAX), &json!({ "maxRunning": 1 })).await.problem(409, "limit-exceeded");
    assert!(problem["detail"].as_str().unwrap().contains(&LISTS_WITH_SETTINGS_MAX.to_string()), "{problem}");
    api.put(&list(0), &json!({})).await.json(200);
    api.put(&list(LISTS_WITH_SETTINGS_MAX), &json!({ "maxRunning": 1 })).await.json(200);
    let group = |number: usize| format!("{DOMAIN}/limit-groups/g{number}");
    for number in 0..LIMIT_GROUPS_MAX {
        api.put(&group(number), &json!({ "maxRunning": 1 })).await.json(200);
    }
    let problem = api.put(&group(LIMIT_GROUPS_MAX), &json!({ "maxRunning": 1 })).await.problem(409, "limit-exceeded");
    assert!(problem["detail"].as_str().unwrap().contains(&LIMIT_GROUPS_MAX.to_string()), "{problem}");
}

#[tokio::test]
async fn a_list_shows_its_50_busiest_keys() {
    let api = Api::open().await;
    api.limit(json!({ "perKey": { "maxRunning": 1 } })).await;
    let of = |number: usize| keyed(&format!("a{number}"), "acts", Some(&format!("k{}", number % 51)));
    api.scheduled("w", (0..102).map(of).collect()).await;
    for _ in 0..51 {
        api.taken("20").await.unwrap();
    }
    assert_eq!(api.next().await, None);
    let list = api.runners("acts").await;
    let count = |of: &str| list[of].as_array().unwrap().iter().filter(|it| it["scope"] == "key").count();
    assert_eq!((count("uses"), count("behind")), (50, 50));
    assert_eq!(list["waiting"], 51);
}

#[tokio::test]
async fn no_more_tasks_run_than_the_limit_under_load() {
    let socket = Socket::of(Api::open().await, ServerLimits::default()).await;
    let api = &socket.api;
    api.limit(json!({ "maxRunning": 3 })).await;
    let (running, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let url = format!("http://{}", socket.address);
    let runner = async || {
        let http = reqwest::Client::new();
        let post = |path: &str, body: &str| {
            let request = http.post(format!("{url}{path}")).header("content-type", "application/json");
            request.header("prefer", "wait=1").body(body.to_owned()).send()
        };
        while done.load(SeqCst) < 60 {
            let answer = post(&format!("{ACTS}/poll"), "{}").await.unwrap();
            if answer.status().as_u16() != 200 {
                continue;
            }
            most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
            let task: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            tokio::task::yield_now().await;
            running.fetch_sub(1, SeqCst);
            let answer = post(&format!("{}/success", activity_path(&task)), "{}").await.unwrap();
            assert_eq!(answer.status().as_u16(), 200);
            done.fetch_add(1, SeqCst);
        }
    };
    let create = async {
        for number in 0..6 {
            let activities = (0..10).map(|at| keyed(&format!("a{at}"), "acts", None)).collect();
            api.scheduled(&format!("w{number}"), activities).await;
        }
    };
    // Turns come before the runners begin: otherwise a turn of an earlier run might come first on a slow store.
    create.await;
    join_all((0..10).map(|_| runner())).await;
    // How many of the three run at the same time depends on the store. Other tests show that all three may.
    let most = most.load(SeqCst);
    assert!((1..=3).contains(&most), "{most} tasks ran at once");
    assert_eq!(api.running().await, 0);
}

#[tokio::test]
async fn waiting_polls_get_only_as_many_new_tasks_as_allowed() {
    let api = Arc::new(Api::open().await);
    api.limit(json!({ "maxRunning": 1 })).await;
    let mut polls: FuturesUnordered<_> = (0..3).map(|_| waiting(&api, "acts")).collect();
    api.until_pollers("\"acts\"", 3).await;
    api.many(3).await;
    for left in (0..3).rev() {
        let task = polls.next().await.unwrap().unwrap();
        assert_eq!((api.running().await, polls.len()), (1, left));
        assert_eq!(api.runners("acts").await["waiting"], left);
        api.succeed(&task).await;
    }
}

#[tokio::test]
async fn an_exchange_gets_as_many_tasks_as_the_limit_allows() {
    let api = Api::open().await;
    api.limit(json!({ "maxRunning": 3 })).await;
    api.many(5).await;
    let exchange = async |answers: Value| {
        let body = json!({ "maxTasks": 10, "answers": answers });
        let ask = Ask::post(&format!("{ACTS}/exchange"), &body).header("prefer", "wait=0");
        let tasks = api.ask(ask).await.json(200)["tasks"].as_array().cloned().unwrap_or_default();
        tasks.into_iter().map(|slot| slot["task"].clone()).collect::<Vec<_>>()
    };
    let tasks = exchange(json!([])).await;
    assert_eq!(tasks.len(), 3);
    assert_eq!(exchange(json!([])).await.len(), 0);
    let answers: Vec<Value> =
        tasks.iter().take(2).map(|task| json!({ "token": task["token"], "success": {} })).collect();
    assert_eq!(exchange(answers.into()).await.len(), 2, "two slots are free");
}

#[tokio::test]
async fn a_new_domain_does_not_have_the_limits_of_a_deleted_one() {
    let api = Api::open().await;
    let domain = "/v1/domains/d";
    for _ in 0..2 {
        api.post("/v1/domains", &json!({ "name": "d" })).await.json(201);
        let list = format!("{domain}/task-lists/acts");
        assert_eq!(api.get(&list).await.json(200)["taskLists"][1]["paused"], Value::Null);
        api.put(&format!("{list}/activity/limits"), &json!({ "maxRunning": 1 })).await.json(200);
        api.post(&format!("{list}/activity/pause"), &json!({})).await.json(200);
        api.ask(Ask::new("POST", &format!("{domain}/deprecate"))).await.json(200);
        api.clock.advance(history::Duration::from_secs(61));
        assert_eq!(api.ask(Ask::new("DELETE", domain)).await.status.as_u16(), 204);
    }
}

#[tokio::test]
async fn running_tasks_found_at_a_restart_are_not_new_starts() {
    let directory = tempfile::TempDir::new().unwrap();
    let open = async || {
        let store = Embedded::open(Options::new(directory.path())).await.unwrap();
        Api::over(store).await
    };
    let api = open().await;
    let group = format!("{DOMAIN}/limit-groups/bank");
    api.put(&group, &json!({ "rate": { "perSecond": 1000, "burst": 1000 } })).await.json(200);
    api.limit(json!({ "group": "bank" })).await;
    api.many(21).await;
    for _ in 0..20 {
        api.taken("20").await.unwrap();
    }
    api.put(&group, &json!({ "rate": { "perSecond": 0.1, "burst": 1 } })).await.json(200);
    api.engine.shutdown().await.unwrap();
    let api = open().await;
    // If the tasks that were found counted as starts, the next one could not start for 200 seconds.
    assert_eq!(api.taken("20").await.unwrap()["activityId"], "a20");
}

#[tokio::test(start_paused = true)]
async fn a_raised_rate_applies_at_once_and_a_lowered_one_soon() {
    let api = Api::open().await;
    let rate = |per_second: f64, burst: u32| json!({ "rate": { "perSecond": per_second, "burst": burst } });
    api.limit(rate(1.0, 10)).await;
    api.many(13).await;
    for _ in 0..10 {
        api.taken("20").await.unwrap();
    }
    // Ten starts at the earlier rate delay the next one by less than a second at the new rate.
    api.limit(rate(100.0, 1)).await;
    let began = Instant::now();
    api.taken("20").await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    api.limit(rate(1000.0, 1000)).await;
    api.taken("20").await.unwrap();
    api.limit(rate(0.1, 1)).await;
    let began = Instant::now();
    api.taken("20").await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(11), "one start at the new rate: {:?}", began.elapsed());
}

#[tokio::test]
async fn successors_of_a_run_have_its_concurrency_key() {
    let api = Api::open().await;
    let start = json!({
        "workflowId": "w", "workflowType": "t", "taskList": "deciders", "concurrencyKey": "visa",
        "retry": { "maximumAttempts": 3 },
    });
    api.post(WORKFLOWS, &start).await.json(201);
    api.decide(json!([{ "type": "ContinueAsNew" }])).await;
    api.decide(json!([keyed("a", "acts", None)])).await;
    assert_eq!(api.runners("acts").await["next"][0]["concurrencyKey"], "visa", "of the run that continues as new");
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    api.decide(json!([{ "type": "FailWorkflow", "reason": "broken" }])).await;
    api.clock.advance(history::Duration::from_secs(3_600));
    api.decide(json!([keyed("b", "acts", None)])).await;
    let list = api.runners("acts").await;
    assert_eq!(
        (&list["waiting"], &list["next"][0]["concurrencyKey"]),
        (&json!(1), &json!("visa")),
        "of the retried run"
    );
    api.post(&format!("{WORKFLOWS}/w/reset"), &json!({ "eventId": 2 })).await.json(201);
    api.decide(json!([keyed("c", "acts", None)])).await;
    let list = api.runners("acts").await;
    assert_eq!((&list["waiting"], &list["next"][0]["concurrencyKey"]), (&json!(1), &json!("visa")), "of the reset run");
}
