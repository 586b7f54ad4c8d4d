//! Runs of a single activity, which have no decider.

use std::sync::Arc;

use history::{Duration, Permissions};
use serde_json::{Value, json};
use service::access::{Credential, Stanzas};

use crate::access::{bearer, guarded_by};
use crate::holders::{credential, one};
use crate::support::{Answer, Api, Ask, COUNT, WORKFLOWS, activity_path};

const ACTIVITIES: &str = "/v1/domains/default/task-lists/acts/activities";

/// Events of a run whose activity has been scheduled.
const BEGIN: [&str; 5] =
    ["WorkflowStarted", "DeciderScheduled", "DeciderStarted", "DeciderCompleted", "ActivityScheduled"];

fn body(more: &Value) -> Value {
    let mut body = json!({ "workflowId": "w", "activityType": "charge", "input": 7 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn start(api: &Api, more: Value) -> Value {
    api.post(ACTIVITIES, &body(&more)).await.json(201)
}

async fn answer(api: &Api, task: &Value, how: &str, body: &Value) {
    api.post(&format!("{}/{how}", activity_path(task)), body).await.json(200);
}

async fn result(api: &Api) -> Value {
    api.get(&format!("{WORKFLOWS}/w/result")).await.json(200)
}

/// Starts an activity and lets a runner take it.
async fn held(api: &Api, more: Value) -> Value {
    start(api, more).await;
    api.take_activity("acts").await
}

#[tokio::test]
async fn a_run_of_one_activity_has_its_result() {
    let api = Api::open().await;
    let started = start(&api, json!({ "tags": ["eu"] })).await;
    assert_eq!((&started["workflowId"], started.get("closed")), (&json!("w"), None));
    assert_eq!(api.names("w").await, BEGIN);
    let task = api.take_activity("acts").await;
    assert_eq!(
        (&task["activityType"], &task["input"], &task["workflowId"]),
        (&json!("charge"), &json!(7), &json!("w"))
    );
    let described = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!((&described["turn"], &described["stuck"]), (&json!("none"), &json!(false)));
    assert_eq!(described["openActivities"][0]["activityId"], json!("activity"));
    answer(&api, &task, "success", &json!({ "result": { "n": 1 } })).await;
    let result = result(&api).await;
    assert_eq!((&result["status"], &result["result"]), (&json!("success"), &json!({ "n": 1 })));
    let closes = ["DeciderScheduled", "DeciderStarted", "DeciderCompleted", "WorkflowSuccess"];
    assert_eq!(api.names("w").await, [&BEGIN[..], &["ActivityStarted", "ActivitySuccess"], &closes].concat());
    let listed = api.get(&format!("{WORKFLOWS}?tag=eu&type=charge")).await.json(200);
    assert_eq!(listed["workflows"][0]["workflowId"], json!("w"));
    assert_eq!(api.get(&format!("{COUNT}?status=success")).await.json(200)["count"], json!(1));
    // No turn was ever offered to deciders.
    let page = api.get("/metrics").await;
    assert!(!page.text.contains("baton_turn_seconds_count{"), "{}", page.text);
}

#[tokio::test]
async fn a_waiting_request_gets_the_outcome() {
    let api = Api::open().await;
    for (how, reported, status) in [
        ("success", json!({ "result": 8 }), "success"),
        ("failure", json!({ "reason": "declined", "details": "card" }), "failed"),
    ] {
        let ask = Ask::post(ACTIVITIES, &body(&json!({ "workflowId": how }))).header("prefer", "wait=60");
        let working = async {
            let task = api.take_activity("acts").await;
            answer(&api, &task, how, &reported).await;
        };
        let (waited, ()) = tokio::join!(api.ask(ask), working);
        assert_eq!(waited.header("preference-applied"), "wait=60");
        let closed = waited.json(201)["closed"].clone();
        assert_eq!(closed["status"], json!(status), "{closed}");
        for (name, value) in reported.as_object().unwrap() {
            assert_eq!(closed[name], *value, "{closed}");
        }
    }
}

#[tokio::test]
async fn a_wait_that_ends_first_leaves_the_run_open() {
    let api = Api::open().await;
    let ask = || Ask::post(ACTIVITIES, &body(&json!({}))).header("prefer", "wait=0.01").header("idempotency-key", "k");
    let started = api.ask(ask()).await.json(201);
    assert_eq!(started.get("closed"), None);
    let task = api.take_activity("acts").await;
    answer(&api, &task, "success", &json!({})).await;
    let again = api.ask(ask()).await.json(200);
    assert_eq!((&again["runId"], &again["closed"]["status"]), (&started["runId"], &json!("success")));
}

#[tokio::test]
async fn a_repeated_request_without_workflow_id_finds_its_run() {
    let api = Api::open().await;
    let asked = json!({ "activityType": "charge" });
    let ask = |path: &str, key: &str| Ask::post(path, &asked).header("idempotency-key", key);
    let first = api.ask(ask(ACTIVITIES, "a")).await.json(201);
    let again = api.ask(ask(ACTIVITIES, "a")).await.json(200);
    assert_eq!(again, first);
    let other = api.ask(ask(ACTIVITIES, "b")).await.json(201);
    let on_other_list = "/v1/domains/default/task-lists/mails/activities";
    let elsewhere = api.ask(ask(on_other_list, "a")).await.json(201);
    let without_key = [api.post(ACTIVITIES, &asked).await.json(201), api.post(ACTIVITIES, &asked).await.json(201)];
    let mut ids: Vec<_> =
        [first, other, elsewhere].iter().chain(&without_key).map(|it| it["workflowId"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "{ids:?}");
    // After the close, the request is still known.
    let task = api.take_activity("mails").await;
    answer(&api, &task, "failure", &json!({ "reason": "declined" })).await;
    api.ask(ask(on_other_list, "a")).await.json(200);
}

#[tokio::test]
async fn policies_decide_about_a_workflow_id_in_use() {
    let api = Api::open().await;
    let first = start(&api, json!({})).await;
    api.refused(Ask::post(ACTIVITIES, &body(&json!({}))), 409, "workflow-already-open").await;
    let used = api.post(ACTIVITIES, &body(&json!({ "conflictPolicy": "use-existing" }))).await.json(200);
    assert_eq!((&used["runId"], &used["existing"]), (&first["runId"], &json!(true)));
    let second = start(&api, json!({ "conflictPolicy": "terminate-existing" })).await;
    assert_ne!(second["runId"], first["runId"]);
    let task = api.take_activity("acts").await;
    answer(&api, &task, "success", &json!({})).await;
    api.refused(Ask::post(ACTIVITIES, &body(&json!({}))), 409, "workflow-id-reuse-refused").await;
    start(&api, json!({ "reusePolicy": "allow-duplicate" })).await;
}

#[tokio::test]
async fn retries_lead_to_success_or_to_the_last_failure() {
    let api = Api::open().await;
    let retry = json!({ "retry": { "maximumAttempts": 2, "initialInterval": "PT1S" } });
    let task = held(&api, retry.clone()).await;
    answer(&api, &task, "failure", &json!({ "reason": "busy" })).await;
    let described = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!((&described["status"], &described["retrying"]), (&json!("open"), &json!(true)));
    api.clock.advance(Duration::from_secs(1));
    let task = api.take_activity("acts").await;
    assert_eq!(task["attempt"], json!(2));
    answer(&api, &task, "success", &json!({ "result": 8 })).await;
    assert_eq!(result(&api).await["result"], json!(8));
    let task = held(&api, json!({ "retry": { "maximumAttempts": 1 }, "reusePolicy": "allow-duplicate" })).await;
    answer(&api, &task, "failure", &json!({ "reason": "busy", "details": [1] })).await;
    let result = result(&api).await;
    let found = (&result["status"], &result["reason"], &result["details"]);
    assert_eq!(found, (&json!("failed"), &json!("busy"), &json!([1])));
}

#[tokio::test]
async fn exhausted_attempts_wait_for_an_operator_if_asked() {
    let api = Api::open().await;
    let retry = json!({ "retry": { "maximumAttempts": 1, "whenExhausted": "pause" } });
    let task = held(&api, retry).await;
    answer(&api, &task, "failure", &json!({ "reason": "busy" })).await;
    assert_eq!(api.get(&format!("{COUNT}?status=blocked")).await.json(200)["count"], json!(1));
    api.post(&format!("{WORKFLOWS}/w/activities/activity/retry"), &json!({})).await.json(200);
    let task = api.take_activity("acts").await;
    answer(&api, &task, "success", &json!({})).await;
    assert_eq!(result(&api).await["status"], json!("success"));
}

#[tokio::test]
async fn a_timeout_is_the_reason_of_the_failure() {
    let api = Api::open().await;
    start(&api, json!({ "timeouts": { "scheduleToStart": "PT5S" } })).await;
    let path = format!("{WORKFLOWS}/w/result");
    let waiting = api.ask(Ask::get(&path).header("prefer", "wait=60"));
    let time = async {
        tokio::task::yield_now().await;
        api.clock.advance(Duration::from_secs(5));
    };
    let (closed, ()) = tokio::join!(waiting, time);
    let closed = closed.json(200);
    assert_eq!((&closed["status"], &closed["reason"]), (&json!("failed"), &json!("schedule-to-start-timeout")));
    let listed = api.get(&format!("{WORKFLOWS}?reason=schedule-to-start-timeout")).await.json(200);
    assert_eq!(listed["workflows"][0]["workflowId"], json!("w"));
}

#[tokio::test]
async fn a_cancel_request_reaches_the_runner() {
    let api = Api::open().await;
    let cancel = format!("{WORKFLOWS}/w/cancel");
    let task = held(&api, json!({})).await;
    api.post(&cancel, &json!({})).await.json(202);
    let beat = api.post(&format!("{}/heartbeat", activity_path(&task)), &json!({})).await.json(200);
    assert_eq!(beat["cancelRequested"], json!(true));
    answer(&api, &task, "canceled", &json!({ "details": "stopped" })).await;
    let closed = result(&api).await;
    assert_eq!((&closed["status"], &closed["details"]), (&json!("canceled"), &json!("stopped")));
    // An activity that no runner holds is canceled at once.
    start(&api, json!({})).await;
    api.post(&cancel, &json!({})).await.json(202);
    assert_eq!(result(&api).await["status"], json!("canceled"));
    let poll = "/v1/domains/default/task-lists/acts/activity/poll";
    assert_eq!(api.ask(Ask::post(poll, &json!({})).header("prefer", "wait=0")).await.status, 204);
}

#[tokio::test]
async fn a_terminated_run_takes_its_activity_along() {
    let api = Api::open().await;
    let task = held(&api, json!({})).await;
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({ "reason": "enough" })).await.json(200);
    let late = Ask::post(&format!("{}/success", activity_path(&task)), &json!({}));
    api.refused(late, 409, "run-closed").await;
    assert_eq!(result(&api).await["reason"], json!("enough"));
}

#[tokio::test]
async fn messages_to_a_run_without_decider_are_refused() {
    let api = Api::open().await;
    start(&api, json!({})).await;
    for call in ["signals/s", "queries/q", "updates/u"] {
        let problem = api.refused(Ask::post(&format!("{WORKFLOWS}/w/{call}"), &json!({})), 409, "no-decider").await;
        assert!(problem["detail"].as_str().unwrap().contains("no decider"), "{problem}");
    }
    let with_signal = json!({
        "workflowId": "w", "workflowType": "t", "signal": { "name": "go" }, "conflictPolicy": "use-existing",
    });
    api.refused(Ask::post(WORKFLOWS, &with_signal), 409, "no-decider").await;
    assert_eq!(api.names("w").await, BEGIN);
    let task = api.take_activity("acts").await;
    answer(&api, &task, "success", &json!({})).await;
    api.refused(Ask::post(&format!("{WORKFLOWS}/w/queries/q"), &json!({})), 409, "no-decider").await;
}

#[tokio::test]
async fn a_reset_runs_the_activity_again() {
    let api = Api::open().await;
    let task = held(&api, json!({})).await;
    answer(&api, &task, "failure", &json!({ "reason": "declined" })).await;
    let reset = json!({ "eventId": 5 });
    api.post(&format!("{WORKFLOWS}/w/reset"), &reset).await.json(201);
    let task = api.take_activity("acts").await;
    assert_eq!(task["input"], json!(7));
    answer(&api, &task, "success", &json!({ "result": 9 })).await;
    assert_eq!(result(&api).await["result"], json!(9));
    // The cancel request of the run is reapplied, so that the new run closes in its first commit.
    start(&api, json!({ "reusePolicy": "allow-duplicate" })).await;
    let task = api.take_activity("acts").await;
    api.post(&format!("{WORKFLOWS}/w/cancel"), &json!({})).await.json(202);
    answer(&api, &task, "failure", &json!({ "reason": "declined" })).await;
    api.post(&format!("{WORKFLOWS}/w/reset"), &reset).await.json(201);
    assert_eq!(result(&api).await["status"], json!("canceled"));
    assert_eq!(api.get(&format!("{COUNT}?status=open")).await.json(200)["count"], json!(0));
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.runs, report.findings), (4, vec![]));
}

#[tokio::test]
async fn a_pause_holds_back_only_the_runner() {
    let api = Api::open().await;
    let task = held(&api, json!({})).await;
    api.post(&format!("{WORKFLOWS}/w/pause"), &json!({})).await.json(200);
    answer(&api, &task, "success", &json!({ "result": 1 })).await;
    assert_eq!(result(&api).await["result"], json!(1));
}

#[tokio::test]
async fn a_restarted_service_continues_the_run() {
    let api = Api::open().await;
    start(&api, json!({ "retry": { "maximumAttempts": 3, "initialInterval": "PT1S" } })).await;
    let api = Api::over(Arc::clone(api.engine.store())).await;
    let task = api.take_activity("acts").await;
    answer(&api, &task, "failure", &json!({ "reason": "busy" })).await;
    let api = Api::over(Arc::clone(api.engine.store())).await;
    api.clock.advance(Duration::from_secs(2));
    let task = api.take_activity("acts").await;
    let api = Api::over(Arc::clone(api.engine.store())).await;
    answer(&api, &task, "success", &json!({ "result": 3 })).await;
    let api = Api::over(Arc::clone(api.engine.store())).await;
    assert_eq!(result(&api).await["result"], json!(3));
}

#[tokio::test]
async fn the_type_gives_defaults_and_can_be_deprecated() {
    let api = Api::open().await;
    let types = "/v1/domains/default/activity-types";
    let defaults = json!({ "timeouts": { "heartbeat": "PT3S" }, "taskPriority": 4 });
    api.post(types, &json!({ "name": "charge", "version": "1", "defaults": defaults })).await.json(201);
    start(&api, json!({ "activityType": "charge/1" })).await;
    let history = api.get(&format!("{WORKFLOWS}/w/history")).await.json(200);
    let scheduled = &history["events"][4];
    assert_eq!(scheduled["timeouts"], json!({ "startToClose": "PT5M", "heartbeat": "PT3S" }), "{scheduled}");
    assert_eq!((&scheduled["taskPriority"], &scheduled["taskList"]), (&json!(4), &json!("acts")));
    api.ask(Ask::new("POST", &format!("{types}/charge%2F1/deprecate"))).await.json(200);
    let again = json!({ "workflowId": "v", "activityType": "charge/1" });
    api.refused(Ask::post(ACTIVITIES, &body(&again)), 409, "type-deprecated").await;
}

#[tokio::test]
async fn bad_bodies_are_refused_with_the_name_of_the_field() {
    let api = Api::open().await;
    for (more, status, code, field) in [
        (json!({ "activityType": "" }), 400, "invalid-field", "activityType"),
        (json!({ "workflowId": "" }), 400, "invalid-field", "workflowId"),
        (json!({ "workflowId": "x".repeat(257) }), 413, "too-large", "workflowId"),
        (json!({ "timeouts": { "startToClose": "PT0S" } }), 400, "invalid-field", "timeouts.startToClose"),
        (json!({ "retry": { "maximumAttempts": 0 } }), 400, "invalid-field", "retry.maximumAttempts"),
        (json!({ "concurrencyKey": "" }), 400, "invalid-field", "concurrencyKey"),
        (json!({ "input": "x".repeat(256 * 1024) }), 413, "too-large", "input"),
    ] {
        let problem = api.refused(Ask::post(ACTIVITIES, &body(&more)), status, code).await;
        assert_eq!(problem["field"], json!(field), "{problem}");
    }
    for text in ["{}", r#"{ "activityType": "t", "workflowType": "t" }"#, r#"{ "activityType": 1 }"#] {
        api.refused(Ask::text(ACTIVITIES, text), 400, "bad-json").await;
    }
    let longest = json!({ "workflowId": "x".repeat(256), "input": "x".repeat(256 * 1024 - 2) });
    api.post(ACTIVITIES, &body(&longest)).await.json(201);
    let unknown = "/v1/domains/nowhere/task-lists/acts/activities";
    api.refused(Ask::post(unknown, &body(&json!({}))), 404, "unknown-domain").await;
}

#[tokio::test]
async fn only_an_application_that_decides_on_the_list_may_start() {
    let open = Api::open().await;
    let may_decide = Some(Permissions { activity_types: Some(one("mail")), ..Permissions::default() });
    let lists = Some(Permissions { task_lists: Some(one("others")), ..Permissions::default() });
    let no_activities = Some(Permissions { decisions: Some(one("StartTimer")), ..Permissions::default() });
    let applications = || one("default");
    let of = |name: &str, deciders: &str| Credential {
        applications: applications(),
        deciders: one(deciders),
        ..credential(name)
    };
    let credentials = vec![
        of("all", "default/*"),
        of("acts", "default/acts"),
        of("other list", "default/others"),
        Credential { applications: applications(), ..credential("application") },
        Credential { deciders: one("default/acts"), ..credential("decider") },
        Credential { runners: one("default/acts"), ..of("runner", "default/others") },
        Credential { applications: one("other"), ..of("domain", "other/acts") },
        Credential { may_decide, ..of("types", "default/acts") },
        Credential { may_decide: lists, ..of("lists", "default/acts") },
        Credential { may_decide: no_activities, ..of("decisions", "default/acts") },
        Credential { operator: true, ..credential("operator") },
    ];
    let guarded = guarded_by(&open, Stanzas { credentials, ..Stanzas::default() });
    for (who, may) in [
        ("all", true),
        ("acts", true),
        ("operator", true),
        ("other list", false),
        ("application", false),
        ("decider", false),
        ("runner", false),
        ("domain", false),
        ("types", false),
        ("lists", false),
        ("decisions", false),
    ] {
        let ask = Ask::post(ACTIVITIES, &body(&json!({ "workflowId": who })));
        let answer = Answer::read(guarded.call(bearer(ask, who)).await).await;
        if may {
            answer.json(201);
        } else {
            answer.problem(403, "forbidden");
            open.refused(Ask::get(&format!("{WORKFLOWS}/{}", who.replace(' ', "%20"))), 404, "unknown-workflow").await;
        }
    }
    let mail = Ask::post(ACTIVITIES, &body(&json!({ "workflowId": "mail", "activityType": "mail/2" })));
    Answer::read(guarded.call(bearer(mail, "types")).await).await.json(201);
    let history = open.get(&format!("{WORKFLOWS}/mail/history")).await.json(200);
    let by: Vec<_> = history["events"].as_array().unwrap().iter().map(|event| event["by"].clone()).collect();
    assert_eq!(by[..2], [json!("types"), json!("types")]);
    assert!(by[2..].iter().all(Value::is_null), "the service decided: {by:?}");
}
