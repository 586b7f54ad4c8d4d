//! Descriptions of runs: the runner of each activity with its progress, and the context of the decider.

use std::sync::Arc;

use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;

use crate::holders::{credential, one};
use crate::support::{Api, Ask, WORKFLOWS, activity_path, schedule, turn_path};

const ACTS: &str = "/v1/domains/default/task-lists/acts/activity/poll";

async fn describe(api: &Api) -> Value {
    api.get(&format!("{WORKFLOWS}/w")).await.json(200)
}

/// The same service with credentials.
fn guarded(open: &Api) -> Api {
    let credentials = vec![
        Credential { runners: one("default/*"), ..credential("pci") },
        Credential { readers: one("default"), ..credential("reader") },
        Credential { readers_without_payloads: one("default"), ..credential("bare") },
    ];
    open.with(router_for(Arc::clone(&open.engine), Credentials::new(credentials).unwrap()))
}

fn bearer(ask: Ask, secret: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {secret}"))
}

async fn take(api: &Api, identity: &str) -> Value {
    let poll = Ask::post(ACTS, &json!({ "identity": identity })).header("prefer", "wait=20");
    api.ask(bearer(poll, "pci")).await.json(200)
}

/// Stores this context with a turn.
async fn decide_with(api: &Api, more: Value) {
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    let path = format!("{}/complete", turn_path(&api.turn().await));
    api.post(&path, &more).await.json(200);
}

#[tokio::test]
async fn a_description_shows_the_runner_and_its_heartbeat() {
    for policy in [json!(null), json!({ "initialInterval": "PT10S" })] {
        let open = Api::open().await;
        let api = guarded(&open);
        open.start("w").await;
        let mut decision = schedule("a", "acts");
        let has_policy = policy.is_object();
        if has_policy {
            decision["retry"] = policy;
        }
        open.decide(json!([decision])).await;
        let waits = &describe(&open).await["openActivities"][0];
        for absent in ["identity", "by", "startedAt", "lastHeartbeatAt", "heartbeatDetails"] {
            assert_eq!(waits.get(absent), None, "{waits}");
        }
        let path = activity_path(&take(&api, "rack-7").await);
        let beat = Ask::post(&format!("{path}/heartbeat"), &json!({ "details": { "page": 7 } }));
        api.ask(bearer(beat, "pci")).await.json(200);
        let shown = async |secret: &str| {
            let described = api.ask(bearer(Ask::get(&format!("{WORKFLOWS}/w")), secret)).await.json(200);
            described["openActivities"][0].clone()
        };
        let (seen, bare) = (shown("reader").await, shown("bare").await);
        for activity in [&seen, &bare] {
            assert_eq!((&activity["identity"], &activity["by"]), (&json!("rack-7"), &json!("pci")), "{activity}");
            assert_eq!(activity["attempt"], 1);
            assert!(activity["startedAt"].is_string() && activity["lastHeartbeatAt"].is_string(), "{activity}");
        }
        assert_eq!(seen["heartbeatDetails"], json!({ "page": 7 }));
        assert_eq!(bare.get("heartbeatDetails"), None);
        // After the attempt, only the progress is left.
        if has_policy {
            let fail = Ask::post(&format!("{path}/failure"), &json!({ "reason": "busy" }));
            api.ask(bearer(fail, "pci")).await.json(200);
            let failed = shown("reader").await;
            assert_eq!((failed.get("identity"), &failed["attempt"]), (None, &json!(2)));
            assert_eq!(failed["heartbeatDetails"], json!({ "page": 7 }));
        }
    }
}

#[tokio::test]
async fn a_description_has_at_most_1_mib_of_heartbeat_details() {
    let api = Api::open().await;
    api.start("w").await;
    let ids = ["a", "b", "c", "d", "e"];
    api.decide(ids.iter().map(|id| schedule(id, "acts")).collect()).await;
    let largest = "x".repeat(256 * 1024 - 2);
    for _ in ids {
        let path = activity_path(&api.take_activity("acts").await);
        api.post(&format!("{path}/heartbeat"), &json!({ "details": largest })).await.json(200);
    }
    let described = describe(&api).await;
    let activities = described["openActivities"].as_array().unwrap();
    let shown: Vec<bool> = activities.iter().map(|it| it.get("heartbeatDetails").is_some()).collect();
    assert_eq!(shown, [true, true, true, true, false]);
    assert!(activities.iter().all(|it| it["lastHeartbeatAt"].is_string()));
}

#[tokio::test]
async fn runners_are_found_on_at_most_16_pages_of_the_history() {
    let api = Api::open().await;
    api.start("w").await;
    api.decide(json!([schedule("a0", "acts")])).await;
    for number in 0..17 {
        api.take_activity("acts").await;
        for _ in 0..100 {
            api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
        }
        api.decide(json!([schedule(&format!("b{number}"), "acts")])).await;
    }
    let described = describe(&api).await;
    let activities = described["openActivities"].as_array().unwrap();
    let shown: Vec<bool> = activities.iter().map(|it| it["identity"] == "runner").collect();
    assert_eq!(shown.iter().filter(|shown| **shown).count(), 16, "{described}");
    assert_eq!((shown[15], shown[16], shown[17]), (true, false, false), "the last one waits for a runner");
}

#[tokio::test]
async fn a_description_shows_the_newest_context_of_the_decider() {
    let open = Api::open().await;
    open.start("w").await;
    open.decide(json!([])).await;
    assert_eq!(describe(&open).await.get("context"), None);
    decide_with(&open, json!({ "context": { "step": 1 } })).await;
    decide_with(&open, json!({ "context": { "step": 2 } })).await;
    decide_with(&open, json!({})).await;
    assert_eq!(describe(&open).await["context"], json!({ "step": 2 }), "a turn without context keeps it");
    let api = guarded(&open);
    let read = async |secret: &str| api.ask(bearer(Ask::get(&format!("{WORKFLOWS}/w")), secret)).await.json(200);
    assert_eq!(read("reader").await["context"], json!({ "step": 2 }));
    assert_eq!(read("bare").await.get("context"), None);
    decide_with(&open, json!({ "context": null, "decisions": [{ "type": "SucceedWorkflow" }] })).await;
    let closed = describe(&open).await;
    assert_eq!((&closed["status"], closed.get("context")), (&json!("success"), Some(&json!(null))));
}
