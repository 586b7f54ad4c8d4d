//! Retries of activities by the service, which leave no events.

use serde_json::{Value, json};

use crate::support::{Api, Ask, WORKFLOWS, activity_path};

/// Starts a run with one activity that has up to three attempts.
async fn with_policy(api: &Api) {
    api.start("w").await;
    let decision = json!({
        "type": "ScheduleActivity", "activityId": "a", "activityType": "do", "taskList": "acts", "input": 7,
        "timeouts": { "startToClose": 60, "heartbeat": 20 },
        "retry": { "initialInterval": "PT10S", "backoffCoefficient": 1.5, "maximumAttempts": 3,
                   "nonRetryableReasons": ["hopeless"] },
    });
    api.decide(json!([decision])).await;
}

async fn describe(api: &Api) -> Value {
    api.get(&format!("{WORKFLOWS}/w")).await.json(200)
}

async fn fail(api: &Api, task: &Value, more: Value) {
    let mut body = json!({ "reason": "busy", "details": "later" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(api.post(&format!("{}/failure", activity_path(task)), &body).await.json(200), json!({}));
}

fn advance(api: &Api, seconds: u64) {
    api.clock.advance(history::Duration::from_secs(seconds));
}

const BEFORE: [&str; 5] =
    ["WorkflowStarted", "DeciderScheduled", "DeciderStarted", "DeciderCompleted", "ActivityScheduled"];

#[tokio::test]
async fn an_activity_is_retried_and_only_its_last_attempt_recorded() {
    let api = Api::open().await;
    with_policy(&api).await;
    let first = api.take_activity("acts").await;
    assert_eq!((&first["attempt"], &first["input"]), (&json!(1), &json!(7)));
    assert_eq!((first.get("startedEventId"), first.get("heartbeatDetails")), (None, None));
    let beat = format!("{}/heartbeat", activity_path(&first));
    assert_eq!(api.post(&beat, &json!({ "details": { "page": 50 } })).await.json(200)["cancelRequested"], json!(false));
    fail(&api, &first, json!({})).await;
    assert_eq!(api.names("w").await, BEFORE, "an attempt that is not the last leaves no event");

    let described = describe(&api).await;
    let open = &described["openActivities"][0];
    assert_eq!((&open["attempt"], &open["maximumAttempts"]), (&json!(2), &json!(3)));
    assert_eq!(open.get("startedAt"), None);
    let failure = &open["lastFailure"];
    assert_eq!((&failure["reason"], &failure["details"]), (&json!("busy"), &json!("later")));
    assert_eq!(failure["identity"], json!("runner"));
    let next = &described["deadlines"][0];
    assert_eq!((&next["kind"], &next["scheduledEventId"]), (&json!("activity-retry"), &json!(5)));
    assert_eq!(next["at"], open["nextAttemptAt"]);

    // The retry is not available early. Later, a waiting runner gets it.
    let path = "/v1/domains/default/task-lists/acts/activity/poll";
    let early = api.ask(Ask::post(path, &json!({})).header("prefer", "wait=0")).await;
    assert_eq!(early.status.as_u16(), 204);
    let waits = api.take_activity("acts");
    let time = async {
        api.until_pollers("\"acts\"", 1).await;
        advance(&api, 10);
    };
    let (second, ()) = tokio::join!(waits, time);
    assert_eq!((&second["attempt"], &second["heartbeatDetails"]), (&json!(2), &json!({ "page": 50 })));

    // An answer to the first attempt is refused.
    let late = Ask::post(&format!("{}/success", activity_path(&first)), &json!({}));
    api.refused(late, 409, "activity-closed").await;

    let done = api.post(&format!("{}/success", activity_path(&second)), &json!({ "result": "ok" })).await;
    assert_eq!(done.json(200), json!({}));
    let names = api.names("w").await;
    assert_eq!(names[..5], BEFORE);
    assert_eq!(names[5..], ["ActivityStarted", "ActivitySuccess", "DeciderScheduled"]);
    let history = api.get(&format!("{WORKFLOWS}/w/history?after=5&limit=1")).await.json(200);
    let started = &history["events"][0];
    assert_eq!((&started["attempt"], &started["identity"]), (&json!(2), &json!("runner")));
    assert_eq!(started["lastFailure"]["reason"], json!("busy"));
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.runs, report.findings), (1, vec![]));
}

#[tokio::test]
async fn a_failure_sets_its_own_backoff_or_ends_the_retries() {
    let api = Api::open().await;
    with_policy(&api).await;
    let first = api.take_activity("acts").await;
    fail(&api, &first, json!({ "retryAfter": "PT0S" })).await;
    let second = api.take_activity("acts").await;
    assert_eq!(second["attempt"], json!(2));
    fail(&api, &second, json!({ "retryAfter": 3 })).await;
    advance(&api, 3);
    let third = api.take_activity("acts").await;
    fail(&api, &third, json!({ "retryAfter": 3 })).await;
    assert_eq!(api.names("w").await[5..], ["ActivityStarted", "ActivityFailed", "DeciderScheduled"]);

    let api = Api::open().await;
    with_policy(&api).await;
    fail(&api, &api.take_activity("acts").await, json!({ "reason": "hopeless" })).await;
    assert_eq!(api.names("w").await[5..], ["ActivityStarted", "ActivityFailed", "DeciderScheduled"]);
}

#[tokio::test]
async fn an_attempt_without_heartbeat_is_retried() {
    let api = Api::open().await;
    with_policy(&api).await;
    let first = api.take_activity("acts").await;
    let beat = format!("{}/heartbeat", activity_path(&first));
    advance(&api, 15);
    api.post(&beat, &json!({ "details": 15 })).await.json(200);
    advance(&api, 20);
    let timed_out = async {
        loop {
            let open = describe(&api).await["openActivities"][0].clone();
            if open["attempt"] == json!(2) {
                return open;
            }
            tokio::task::yield_now().await;
        }
    };
    let open = tokio::time::timeout(crate::support::PATIENCE, timed_out).await.unwrap();
    assert_eq!(open["lastFailure"]["timeout"], json!("Heartbeat"));
    advance(&api, 10);
    let second = api.take_activity("acts").await;
    assert_eq!((&second["attempt"], &second["heartbeatDetails"]), (&json!(2), &json!(15)));
    api.refused(Ask::post(&beat, &json!({})), 409, "activity-closed").await;
}

#[tokio::test]
async fn attempts_survive_a_restart() {
    let api = Api::open().await;
    with_policy(&api).await;
    let first = api.take_activity("acts").await;
    api.post(&format!("{}/heartbeat", activity_path(&first)), &json!({ "details": 1 })).await.json(200);
    fail(&api, &first, json!({ "retryAfter": 0 })).await;
    api.engine.begin_shutdown();
    let again = Api::over(std::sync::Arc::clone(api.engine.store())).await;
    let second = again.take_activity("acts").await;
    assert_eq!((&second["attempt"], &second["heartbeatDetails"]), (&json!(2), &json!(1)));
    again.refused(Ask::post(&format!("{}/success", activity_path(&first)), &json!({})), 409, "activity-closed").await;
}

#[tokio::test]
async fn an_undelivered_attempt_is_redelivered_and_does_not_count() {
    let api = Api::open().await;
    with_policy(&api).await;
    let poll = engine::Poll { wait: std::time::Duration::from_secs(5), ..Default::default() };
    let delivery = api.engine.tasks().poll_activity("default", "acts", poll).await.unwrap().unwrap();
    assert_eq!(delivery.task().attempt, 1);
    drop(delivery);
    assert_eq!(api.take_activity("acts").await["attempt"], json!(1));
    assert_eq!(api.names("w").await, BEFORE);
}

#[tokio::test]
async fn an_invalid_retry_policy_is_refused() {
    let api = Api::open().await;
    api.start("w").await;
    let turn = api.turn().await;
    let path = format!("{}/complete", crate::support::turn_path(&turn));
    for (retry, status, code) in [
        (json!({ "maximumAttempts": 0 }), 400, "invalid-field"),
        (json!({ "backoffCoefficient": 0.5 }), 400, "invalid-field"),
        (json!({ "backoff": 2 }), 400, "bad-json"),
    ] {
        let decision = json!({ "type": "ScheduleActivity", "activityId": "a", "activityType": "do", "retry": retry });
        api.refused(Ask::post(&path, &json!({ "decisions": [decision] })), status, code).await;
    }
}
