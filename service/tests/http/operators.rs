//! Activities that an operator completes, fails, retries, pauses, resumes or changes.

use serde_json::{Value, json};

use crate::support::{Api, Ask, WORKFLOWS, activity_path, schedule};

fn act(verb: &str) -> String {
    format!("{WORKFLOWS}/w/activities/a/{verb}")
}

fn who() -> Value {
    json!({ "identity": "ann", "reason": "the bank called" })
}

async fn describe(api: &Api) -> Value {
    api.get(&format!("{WORKFLOWS}/w")).await.json(200)
}

async fn events(api: &Api, after: u64) -> Vec<Value> {
    let history = api.get(&format!("{WORKFLOWS}/w/history?after={after}")).await.json(200);
    history["events"].as_array().unwrap().clone()
}

/// A service with an activity `a` whose decision has these additional fields.
async fn open(more: Value) -> Api {
    let api = Api::open().await;
    api.start("w").await;
    let mut decision = schedule("a", "acts");
    decision.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.decide(json!([decision])).await;
    api
}

async fn none_waits(api: &Api, list: &str) {
    let path = format!("/v1/domains/default/task-lists/{list}/activity/poll");
    let answer = api.ask(Ask::post(&path, &json!({})).header("prefer", "wait=0")).await;
    assert_eq!(answer.status.as_u16(), 204, "{}", answer.text);
}

async fn assert_consistent(api: &Api) {
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!(report.findings, vec![]);
}

async fn listed(api: &Api, status: &str) -> usize {
    let page = api.get(&format!("{WORKFLOWS}?status={status}")).await.json(200);
    page["workflows"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_operator_completes_or_fails_a_running_activity() {
    let api = open(json!({})).await;
    let task = api.take_activity("acts").await;
    let body = json!({ "result": { "n": 1 }, "identity": "ann", "reason": "the bank called" });
    let key = |ask: Ask| ask.header("idempotency-key", "k");
    let first = api.ask(key(Ask::post(&act("success"), &body))).await.json(200);
    assert_eq!(api.ask(key(Ask::post(&act("success"), &body))).await.json(200), first, "safe to repeat");
    let success = &events(&api, 6).await[0];
    assert_eq!((&success["type"], &success["result"]), (&json!("ActivitySuccess"), &json!({ "n": 1 })));
    assert_eq!((&success["operator"], &success["id"]), (&who(), &first["eventId"]));
    for answer in ["success", "failure", "canceled", "heartbeat"] {
        let late = Ask::post(&format!("{}/{answer}", activity_path(&task)), &json!({ "reason": "r" }));
        let late = if answer == "failure" {
            late
        } else {
            Ask::post(&format!("{}/{answer}", activity_path(&task)), &json!({}))
        };
        api.refused(late, 409, "activity-closed").await;
    }
    assert_consistent(&api).await;

    // A failure by an operator before any runner has started counts as the activity's failure.
    let api = open(json!({ "retry": {} })).await;
    api.post(&act("failure"), &json!({ "failureReason": "lost", "details": 7, "identity": "ann" })).await.json(200);
    let told = events(&api, 5).await;
    let names: Vec<_> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["ActivityStarted", "ActivityFailed", "DeciderScheduled"]);
    assert_eq!((&told[0]["identity"], &told[1]["reason"]), (&json!("ann"), &json!("lost")));
    none_waits(&api, "acts").await;
    assert_consistent(&api).await;
}

#[tokio::test]
async fn an_exhausted_activity_is_flagged_until_an_operator_acts() {
    let retry = json!({ "initialInterval": 60, "maximumAttempts": 1, "whenExhausted": "pause" });
    let api = open(json!({ "retry": retry })).await;
    let task = api.take_activity("acts").await;
    let fails = json!({ "reason": "busy" });
    api.post(&format!("{}/failure", activity_path(&task)), &fails).await.json(200);
    let run = describe(&api).await;
    assert_eq!((&run["blocked"], &run["stuck"]), (&json!(true), &json!(false)));
    let activity = &run["openActivities"][0];
    assert_eq!(
        (&activity["paused"]["cause"], &activity["lastFailure"]["reason"]),
        (&json!("AttemptsExhausted"), &json!("busy"))
    );
    assert_eq!((listed(&api, "blocked").await, listed(&api, "open").await, listed(&api, "stuck").await), (1, 1, 0));
    let row = api.get(&format!("{WORKFLOWS}?status=blocked")).await.json(200)["workflows"][0].clone();
    assert_eq!((&row["status"], &row["blocked"]), (&json!("open"), &json!(true)));
    none_waits(&api, "acts").await;

    // The flag survives a restart. A waiting runner gets the attempt that the operator adds.
    let api = Api::over(std::sync::Arc::clone(api.engine.store())).await;
    assert_eq!(listed(&api, "blocked").await, 1);
    let (task, ()) = tokio::join!(api.take_activity("acts"), async {
        api.until_pollers("acts", 1).await;
        api.post(&act("retry"), &who()).await.json(200);
    });
    assert_eq!(task["attempt"], json!(2));
    assert_eq!(listed(&api, "blocked").await, 0);
    api.post(&format!("{}/success", activity_path(&task)), &json!({})).await.json(200);
    let names = api.names("w").await;
    assert_eq!(
        names[5..],
        ["ActivityPaused", "ActivityRetried", "ActivityStarted", "ActivitySuccess", "DeciderScheduled"]
    );
    assert_consistent(&api).await;
}

#[tokio::test]
async fn a_paused_activity_is_not_dispatched_until_it_is_resumed() {
    let api = open(json!({})).await;
    api.post(&act("pause"), &who()).await.json(200);
    none_waits(&api, "acts").await;
    let paused = describe(&api).await["openActivities"][0]["paused"].clone();
    assert_eq!((&paused["identity"], &paused["reason"]), (&json!("ann"), &json!("the bank called")));
    api.refused(Ask::post(&act("pause"), &json!({})), 409, "already-paused").await;
    api.post(&act("resume"), &json!({})).await.json(200);
    api.refused(Ask::post(&act("resume"), &json!({})), 409, "not-paused").await;
    api.take_activity("acts").await;
    assert_eq!(api.names("w").await[5..], ["ActivityPaused", "ActivityResumed", "ActivityStarted"]);
    assert_consistent(&api).await;
}

#[tokio::test]
async fn an_operator_changes_options_and_list_of_an_activity() {
    let api = open(json!({ "timeouts": { "startToClose": 60, "heartbeat": 10 } })).await;
    let change =
        json!({ "taskList": "gpu", "timeouts": { "heartbeat": null, "startToClose": "PT10M" }, "identity": "ann" });
    api.post(&act("options"), &change).await.json(200);
    none_waits(&api, "acts").await;
    let task = api.take_activity("gpu").await;
    assert_eq!(task["timeouts"], json!({ "startToClose": "PT10M" }));
    let changed = &events(&api, 5).await[0];
    assert_eq!((&changed["type"], &changed["taskList"]), (&json!("ActivityOptionsChanged"), &json!("gpu")));
    api.refused(Ask::post(&act("options"), &json!({ "retry": {} })), 409, "activity-not-retryable").await;
    assert_consistent(&api).await;
}

#[tokio::test]
async fn invalid_operator_calls_are_refused() {
    let api = open(json!({})).await;
    api.refused(Ask::post(&act("retry"), &json!({})), 409, "activity-not-retryable").await;
    api.refused(Ask::post(&act("failure"), &json!({})), 400, "bad-json").await;
    api.refused(Ask::post(&act("failure"), &json!({ "failureReason": "" })), 400, "invalid-field").await;
    api.refused(Ask::post(&act("options"), &json!({})), 400, "invalid-field").await;
    api.refused(Ask::post(&act("options"), &json!({ "timeouts": { "soon": 1 } })), 400, "bad-json").await;
    api.refused(Ask::post(&act("options"), &json!({ "retry": { "maximumAttempts": 0 } })), 400, "invalid-field").await;
    for verb in ["success", "retry", "pause", "resume"] {
        let unknown = format!("{WORKFLOWS}/w/activities/b/{verb}");
        api.refused(Ask::post(&unknown, &json!({})), 409, "activity-closed").await;
        api.refused(Ask::post(&act(verb), &json!({ "who": 1 })), 400, "bad-json").await;
        let nobody = format!("{WORKFLOWS}/nobody/activities/a/{verb}");
        api.refused(Ask::post(&nobody, &json!({})), 404, "unknown-workflow").await;
        let nowhere = format!("/v1/domains/nowhere/workflows/w/activities/a/{verb}");
        api.refused(Ask::post(&nowhere, &json!({})), 404, "unknown-domain").await;
    }
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    api.refused(Ask::post(&act("success"), &json!({})), 409, "run-closed").await;
}
