//! Registered types and their defaults.

use serde_json::{Value, json};

use crate::support::{Api, Ask, WORKFLOWS};

const DOMAIN: &str = "/v1/domains/default";

fn post(path: &str) -> Ask {
    Ask::new("POST", path)
}

#[tokio::test]
async fn a_type_is_registered_deprecated_and_deleted() {
    for kind in ["workflow-types", "activity-types"] {
        let api = Api::open().await;
        let types = format!("{DOMAIN}/{kind}");
        let register = json!({ "name": "order", "version": "1", "defaults": { "taskList": "l", "taskPriority": -1 } });
        let registered = api.post(&types, &register).await.json(201);
        assert_eq!((&registered["type"], &registered["defaults"]["taskList"]), (&json!("order/1"), &json!("l")));
        api.post(&types, &register).await.problem(409, "type-exists");
        api.post(&types, &json!({ "name": "order" })).await.json(201);
        let one = format!("{types}/order%2F1");
        assert_eq!(api.get(&one).await.json(200), registered);
        api.ask(Ask::new("DELETE", &one)).await.problem(409, "type-in-use");
        api.ask(post(&format!("{one}/undeprecate"))).await.problem(409, "type-exists");
        let deprecated = api.ask(post(&format!("{one}/deprecate"))).await.json(200);
        assert!(deprecated["deprecatedAt"].is_string());
        api.ask(post(&format!("{one}/deprecate"))).await.problem(409, "type-deprecated");
        let names = async |query: &str| -> Vec<Value> {
            let page = api.get(&format!("{types}{query}")).await.json(200);
            page["types"].as_array().unwrap().iter().map(|it| it["type"].clone()).collect()
        };
        assert_eq!(names("").await, ["order", "order/1"]);
        assert_eq!(names("?deprecated=true").await, ["order/1"]);
        assert_eq!(names("?limit=1").await, ["order"]);
        assert_eq!(names("?limit=1&after=order").await, ["order/1"]);
        api.ask(post(&format!("{one}/undeprecate"))).await.json(200);
        api.ask(post(&format!("{one}/deprecate"))).await.json(200);
        assert_eq!(api.ask(Ask::new("DELETE", &one)).await.status, 204);
        api.get(&one).await.problem(404, "unknown-type");
        api.post(&types, &register).await.json(201);
    }
}

#[tokio::test]
async fn an_invalid_type_is_refused() {
    let api = Api::open().await;
    let types = format!("{DOMAIN}/activity-types");
    let bad = [
        json!({ "name": "" }),
        json!({ "name": "a/b" }),
        json!({ "name": "a", "version": "" }),
        json!({ "name": "a", "version": "1/2" }),
        json!({ "name": "a\u{1}" }),
        json!({ "name": "a", "defaults": { "taskList": "" } }),
        json!({ "name": "a", "defaults": { "timeouts": { "heartbeat": "P4000D" } } }),
    ];
    for bad in bad {
        api.refused(Ask::post(&types, &bad), 400, "invalid-field").await;
    }
    for long in [json!({ "name": "x".repeat(257) }), json!({ "name": "a", "version": "x".repeat(257) })] {
        api.refused(Ask::post(&types, &long), 413, "too-large").await;
    }
    api.post(&types, &json!({ "name": "x".repeat(256), "version": "y".repeat(64) })).await.json(201);
    // The longest version has 64 characters of four bytes.
    let longest = "🚚".repeat(64);
    api.post(&types, &json!({ "name": "a", "version": longest })).await.json(201);
    api.refused(Ask::post(&types, &json!({ "name": "a", "version": longest + "v" })), 413, "too-large").await;
    let unknown = json!({ "name": "a", "defaults": { "deciderStartToClose": 1 } });
    api.refused(Ask::post(&types, &unknown), 400, "bad-json").await;
}

#[tokio::test]
async fn a_start_takes_defaults_from_its_type() {
    let api = Api::open().await;
    let defaults = json!({ "taskList": "of the type", "executionTimeout": "PT1H", "deciderStartToClose": "PT7S" });
    let register = json!({ "name": "order", "defaults": defaults });
    api.post(&format!("{DOMAIN}/workflow-types"), &register).await.json(201);
    api.post(WORKFLOWS, &json!({ "workflowId": "w", "workflowType": "order" })).await.json(201);
    let run = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!((&run["taskList"], &run["executionTimeout"]), (&json!("of the type"), &json!("PT1H")));
    let started = api.get(&format!("{WORKFLOWS}/w/history?limit=1")).await.json(200);
    assert_eq!(started["events"][0]["deciderStartToClose"], "PT7S");
    let own = json!({ "workflowId": "own", "workflowType": "order", "taskList": "own", "executionTimeout": 60 });
    api.post(WORKFLOWS, &own).await.json(201);
    let run = api.get(&format!("{WORKFLOWS}/own")).await.json(200);
    assert_eq!((&run["taskList"], &run["executionTimeout"]), (&json!("own"), &json!("PT1M")));

    api.ask(post(&format!("{DOMAIN}/workflow-types/order/deprecate"))).await.json(200);
    let late = json!({ "workflowId": "late", "workflowType": "order" });
    api.refused(Ask::post(WORKFLOWS, &late), 409, "type-deprecated").await;
}

#[tokio::test]
async fn an_activity_takes_defaults_from_its_type_then_its_run() {
    let api = Api::open().await;
    let defaults = json!({ "taskList": "of the type", "timeouts": { "heartbeat": "PT3S" } });
    let types = format!("{DOMAIN}/activity-types");
    api.post(&types, &json!({ "name": "do", "defaults": defaults })).await.json(201);
    api.post(&types, &json!({ "name": "old" })).await.json(201);
    api.ask(post(&format!("{types}/old/deprecate"))).await.json(200);
    api.start("w").await;
    let schedule = |id: &str, of: &str| json!({ "type": "ScheduleActivity", "activityId": id, "activityType": of });
    let mut own = schedule("own", "do");
    own["taskList"] = json!("own");
    own["timeouts"] = json!({ "heartbeat": "PT9S" });
    api.decide(json!([schedule("a", "do"), own, schedule("b", "other"), schedule("c", "old")])).await;
    let history = api.get(&format!("{WORKFLOWS}/w/history?after=4")).await.json(200);
    let told: Vec<_> = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["taskList"], &it["timeouts"], &it["cause"]))
        .collect();
    let (list, run, none) = (json!("of the type"), json!("deciders"), Value::Null);
    let expected = [
        (&list, &json!({ "startToClose": "PT5M", "heartbeat": "PT3S" }), &none),
        (&json!("own"), &json!({ "startToClose": "PT5M", "heartbeat": "PT9S" }), &none),
        (&run, &json!({ "startToClose": "PT5M" }), &none),
        (&none, &none, &json!("ActivityTypeDeprecated")),
    ];
    assert_eq!(told[..4], expected);
}
