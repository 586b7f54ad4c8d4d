//! States of open runs: gauges that are equal on every node and after a restart, lists by state, and reasons.

use std::sync::Arc;

use engine::Clock as _;
use serde_json::{Value, json};
use store_embedded::{Embedded, Options};

use crate::support::{Api, Ask, COUNT, PATIENCE, WORKFLOWS, activity_path, schedule, turn_path};

const STATES: [&str; 7] = ["open", "paused", "blocked", "stuck", "failing", "retrying", "repeating"];

/// The gauges of a domain, in the order of `STATES`.
async fn gauges(api: &Api, domain: &str) -> [i64; 7] {
    let metrics = api.get("/metrics").await.text;
    STATES.map(|state| {
        let name = format!("baton_runs_{state}{{domain=\"{domain}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("no `{name}` in {metrics}")).parse().unwrap()
    })
}

/// Waits until the gauges have these values. A store with billed counts reports cached values for a moment.
async fn until(api: &Api, expected: [i64; 7]) {
    let wait = async {
        loop {
            let found = gauges(api, "default").await;
            assert!(found.iter().all(|count| *count >= 0), "{found:?}");
            if found == expected {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "{expected:?}, but there are {:?}", gauges(api, "default").await);
}

/// The workflow ids of the runs in a list. Their number must equal the count.
async fn listed(api: &Api, status: &str) -> Vec<String> {
    let page = api.get(&format!("{WORKFLOWS}?status={status}")).await.json(200);
    let rows = page["workflows"].as_array().unwrap();
    let count = api.get(&format!("{COUNT}?status={status}")).await.json(200);
    assert_eq!((&count["count"], &count["truncated"]), (&json!(rows.len()), &json!(false)));
    for row in rows {
        assert_eq!(row["status"], "open");
        for flag in STATES.into_iter().skip(1) {
            assert!(status == "open" || row.get(flag).is_some() == (flag == status), "{status}: {row}");
        }
    }
    let mut ids: Vec<_> = rows.iter().map(|row| row["workflowId"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

/// Checks that the only run has this state in lists, counts and gauges.
async fn check_state(api: &Api, state: &str) {
    for other in STATES.into_iter().skip(1) {
        assert_eq!(listed(api, other).await.len(), usize::from(other == state), "{other}, where it is {state}");
    }
    assert_eq!(listed(api, "open").await, ["w"]);
    let count = api.get(COUNT).await.json(200);
    assert_eq!(count["byStatus"], json!({ state: 1 }));
    let expected = STATES.map(|other| i64::from(other == "open" || other == state));
    until(api, expected).await;
}

async fn describe(api: &Api) -> Value {
    api.get(&format!("{WORKFLOWS}/w")).await.json(200)
}

async fn restarted(api: &Api) -> Api {
    Api::over(Arc::clone(api.engine.store())).await
}

fn advance(api: &Api, seconds: u64) {
    api.clock.advance(history::Duration::from_secs(seconds));
}

/// Fails a waiting turn.
async fn fail_turn(api: &Api) {
    let path = format!("{}/fail", turn_path(&api.turn().await));
    api.post(&path, &json!({ "reason": "panic", "details": "at the disco" })).await.json(200);
}

#[tokio::test]
async fn stuck_runs_are_counted_alike_on_all_nodes_and_restarts() {
    let api = Api::open().await;
    until(&api, [0; 7]).await;
    for id in ["a", "b", "c", "busy"] {
        api.start(id).await;
    }
    for _ in 0..4 {
        let turn = api.turn().await;
        let timer = json!([{ "type": "StartTimer", "timerId": "t", "after": 60 }]);
        let decisions = if turn["workflowId"] == "busy" { timer } else { json!([]) };
        api.post(&format!("{}/complete", turn_path(&turn)), &json!({ "decisions": decisions })).await.json(200);
    }
    until(&api, [4, 0, 0, 3, 0, 0, 0]).await;
    let other = restarted(&api).await;
    until(&other, [4, 0, 0, 3, 0, 0, 0]).await;
    assert_eq!(listed(&other, "stuck").await, ["a", "b", "c"]);
    other.post(&format!("{WORKFLOWS}/a/signals/wake"), &json!({})).await.json(202);
    for node in [&other, &api, &restarted(&api).await] {
        until(node, [4, 0, 0, 2, 0, 0, 0]).await;
        assert_eq!(listed(node, "stuck").await, ["b", "c"]);
    }
    other.post(&format!("{WORKFLOWS}/b/terminate"), &json!({})).await.json(200);
    api.post(&format!("{WORKFLOWS}/a/terminate"), &json!({})).await.json(200);
    for node in [&other, &api, &restarted(&api).await] {
        until(node, [2, 0, 0, 1, 0, 0, 0]).await;
    }
}

#[tokio::test]
async fn the_embedded_store_keeps_its_counts_when_reopened() {
    let directory = tempfile::TempDir::new().unwrap();
    let open = async || {
        let store = Embedded::open(Options::new(directory.path())).await.unwrap();
        Api::over(store).await
    };
    let api = open().await;
    for id in ["a", "b", "c"] {
        api.start(id).await;
        api.decide(json!([])).await;
    }
    assert_eq!(gauges(&api, "default").await, [3, 0, 0, 3, 0, 0, 0], "counting costs nothing, so no count is cached");
    api.engine.shutdown().await.unwrap();
    let api = open().await;
    assert_eq!(gauges(&api, "default").await, [3, 0, 0, 3, 0, 0, 0]);
    api.post(&format!("{WORKFLOWS}/a/signals/wake"), &json!({})).await.json(202);
    assert_eq!(gauges(&api, "default").await, [3, 0, 0, 2, 0, 0, 0]);
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.findings, report.miscounted), (vec![], None));
    api.engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn each_state_is_entered_left_and_explained() {
    let api = Api::open().await;
    api.start("w").await;
    check_state(&api, "open").await;

    // Turns that fail or time out at least twice in a row.
    fail_turn(&api).await;
    check_state(&api, "open").await;
    assert_eq!(describe(&api).await.get("failing"), None);
    advance(&api, 600);
    let later = api.clock.now().to_string();
    fail_turn(&api).await;
    check_state(&api, "failing").await;
    let failing = describe(&api).await["failing"].clone();
    assert_eq!((&failing["turns"], &failing["reason"]), (&json!(2), &json!("panic")));
    assert_eq!(failing["details"], json!("at the disco"));
    assert!(failing["since"].as_str().unwrap() < later.as_str(), "{failing}: since the first failure");
    let api = restarted(&api).await;
    check_state(&api, "failing").await;
    advance(&api, 3_600);
    let held = api.turn().await;
    check_state(&api, "failing").await;
    let retry = json!({ "initialInterval": 60, "maximumAttempts": 2, "whenExhausted": "pause" });
    let mut activity = schedule("a", "acts");
    activity["retry"] = retry;
    let decisions = json!({ "decisions": [activity] });
    api.post(&format!("{}/complete", turn_path(&held)), &decisions).await.json(200);
    check_state(&api, "open").await;

    // An activity after its first attempt.
    let fails = json!({ "reason": "busy" });
    let fail = async || {
        let task = api.take_activity("acts").await;
        api.post(&format!("{}/failure", activity_path(&task)), &fails).await.json(200);
    };
    fail().await;
    check_state(&api, "retrying").await;
    let run = describe(&api).await;
    assert_eq!((&run["retrying"], &run["openActivities"][0]["attempt"]), (&json!(true), &json!(2)));
    assert_eq!(run["openActivities"][0]["lastFailure"]["reason"], "busy");

    // An operator pauses the run. Its other states are shown after the resume.
    api.post(&format!("{WORKFLOWS}/w/pause"), &json!({})).await.json(200);
    check_state(&api, "paused").await;
    assert_eq!(describe(&api).await["retrying"], true, "the description shows both");
    api.post(&format!("{WORKFLOWS}/w/resume"), &json!({})).await.json(200);
    check_state(&api, "retrying").await;

    // The attempts are exhausted, and the activity waits for an operator.
    advance(&api, 60);
    fail().await;
    check_state(&api, "blocked").await;
    api.post(&format!("{WORKFLOWS}/w/activities/a/success"), &json!({})).await.json(200);
    check_state(&api, "open").await;

    // Nothing will wake the run until a signal arrives.
    api.decide(json!([])).await;
    check_state(&api, "stuck").await;
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    check_state(&api, "open").await;
    api.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    until(&api, [0; 7]).await;
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.runs, report.findings), (1, vec![]));
}

#[tokio::test]
async fn turns_that_time_out_make_a_run_failing() {
    let api = Api::open().await;
    api.start("w").await;
    for state in ["open", "failing"] {
        drop(api.turn().await);
        advance(&api, 30);
        while api.names("w").await.last().unwrap() != "DeciderScheduled" {
            tokio::task::yield_now().await;
        }
        check_state(&api, state).await;
        advance(&api, 3_600);
    }
    assert_eq!(describe(&api).await["failing"]["timeout"], "StartToClose");
}

#[tokio::test]
async fn a_failed_turn_and_a_timed_out_one_are_two_in_a_row() {
    let api = Api::open().await;
    api.start("w").await;
    fail_turn(&api).await;
    check_state(&api, "open").await;
    advance(&api, 600);
    drop(api.turn().await);
    advance(&api, 30);
    while !api.names("w").await.contains(&"DeciderTimedOut".to_owned()) {
        tokio::task::yield_now().await;
    }
    check_state(&api, "failing").await;
    let failing = describe(&api).await["failing"].clone();
    assert_eq!((&failing["turns"], &failing["timeout"]), (&json!(2), &json!("StartToClose")));
    assert_eq!(failing.get("reason"), None, "it describes the newest");
}

#[tokio::test]
async fn gauges_have_the_domain_as_a_label_with_any_characters() {
    let api = Api::open().await;
    api.post("/v1/domains", &json!({ "name": "a\"b\\c" })).await.json(201);
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "q\"\\" });
    api.post("/v1/domains/a%22b%5Cc/workflows", &start).await.json(201);
    let metrics = api.get("/metrics").await.text;
    assert!(metrics.contains("baton_runs_open{domain=\"a\\\"b\\\\c\"} 1\n"), "{metrics}");
    assert!(metrics.contains("baton_runs_open{domain=\"default\"} 0\n"), "{metrics}");
    let waiting = "baton_tasks_waiting{domain=\"a\\\"b\\\\c\",kind=\"decider\",list=\"q\\\"\\\\\"} 1\n";
    assert!(metrics.contains(waiting), "{metrics}");
}

#[tokio::test]
async fn an_unknown_state_is_refused_with_the_known_ones() {
    let api = Api::open().await;
    let problem = api.refused(Ask::get(&format!("{WORKFLOWS}?status=asleep")), 400, "bad-query").await;
    for state in STATES {
        assert!(problem["detail"].as_str().unwrap().contains(&format!("`{state}`")), "{problem}");
    }
}
