//! Updates over REST: results, conditions, repeated requests, and invalid requests and results.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Api, Ask, DECIDERS, WORKFLOWS, turn_path};

impl Api {
    /// The next task of a decider that takes updates.
    async fn judging(&self) -> Value {
        let poll = Ask::post(DECIDERS, &json!({ "updates": 8 })).header("prefer", "wait=20");
        self.ask(poll).await.json(200)
    }

    /// Sends an update and completes it with this result.
    async fn update(&self, ask: Ask, result: Value) -> Answer {
        let deciding = async {
            let task = self.judging().await;
            let mut result = result;
            result["id"] = task["updates"][0]["id"].clone();
            let complete = json!({ "updateResults": [result] });
            self.post(&format!("{}/complete", turn_path(&task)), &complete).await.json(200);
        };
        tokio::join!(self.ask(ask), deciding).0
    }

    async fn quiet(&self, id: &str) -> String {
        let run_id = self.start(id).await;
        self.decide(json!([{ "type": "StartTimer", "timerId": "t", "after": "P9D" }])).await;
        run_id
    }
}

fn path(id: &str) -> String {
    format!("{WORKFLOWS}/{id}/updates/match")
}

fn ask(id: &str) -> Ask {
    Ask::post(&path(id), &json!({ "input": { "to": "ann" }, "identity": "matcher" }))
}

#[tokio::test]
async fn an_updates_result_has_a_tag_that_the_next_update_accepts() {
    let api = Api::open().await;
    let run_id = api.quiet("w").await;
    let answer = api.update(ask("w"), json!({ "accepted": { "page": 2 } })).await;
    let body = answer.json(200);
    assert_eq!((&body["runId"], &body["eventId"], &body["version"]), (&json!(run_id), &json!(10), &json!(10)));
    assert_eq!((&body["done"], &body["result"]), (&json!(true), &json!({ "page": 2 })));
    let tag = answer.header("etag").to_owned();
    assert_eq!(tag, format!("\"{run_id}-10\""));
    let next = api.update(ask("w").header("if-match", &tag), json!({ "accepted": null })).await;
    assert_eq!(next.json(200)["version"], 15);
    // The tag of the first response is outdated now, whoever sends it.
    api.refused(ask("w").header("if-match", &tag), 412, "version-mismatch").await;
    let names = api.names("w").await;
    let turn = ["DeciderScheduled", "DeciderStarted", "DeciderCompleted", "UpdateAccepted", "UpdateCompleted"];
    assert_eq!(names[5..10], turn);
    assert_eq!(names[10..], turn);
}

#[tokio::test]
async fn a_rejected_update_is_a_problem_and_leaves_nothing() {
    let api = Api::open().await;
    api.quiet("w").await;
    let before = api.everything().await;
    let rejected = json!({ "rejected": { "reason": "taken", "details": { "by": "bob" } } });
    let problem = api.update(ask("w"), rejected).await.problem(422, "update-rejected");
    assert_eq!((&problem["reason"], &problem["details"]), (&json!("taken"), &json!({ "by": "bob" })));
    assert_eq!(problem["retryable"], false);
    assert_eq!(api.everything().await, before);
}

#[tokio::test]
async fn the_request_key_is_the_default_update_id() {
    let api = Api::open().await;
    api.quiet("w").await;
    let keyed = || ask("w").header("idempotency-key", "match-7");
    let first = api.update(keyed(), json!({ "accepted": 1 })).await;
    assert_eq!(first.json(200)["updateId"], "match-7");
    // A repeated request returns the same response with its tag, by key or by id.
    let named = Ask::post(&path("w"), &json!({ "updateId": "match-7" }));
    for again in [api.ask(keyed()).await, api.ask(named).await] {
        assert_eq!((again.text.as_str(), again.header("etag")), (first.text.as_str(), first.header("etag")));
    }
    let rejected =
        api.update(ask("w").header("idempotency-key", "match-8"), json!({ "rejected": { "reason": "taken" } }));
    rejected.await.problem(422, "update-rejected");
    api.ask(ask("w").header("idempotency-key", "match-8")).await.problem(422, "update-rejected");
}

#[tokio::test]
async fn an_update_completed_by_a_later_turn_is_accepted_until_then() {
    let api = Api::open().await;
    api.quiet("w").await;
    let named = || Ask::post(&path("w"), &json!({ "updateId": "u" })).header("prefer", "wait=0.2");
    let accepted = api.update(named(), json!({ "later": true })).await;
    let body = accepted.json(202);
    assert_eq!((&body["done"], &body["eventId"], &body["result"]), (&json!(false), &json!(9), &Value::Null));
    let open = api.get(&format!("{WORKFLOWS}/w")).await.json(200)["openUpdates"].clone();
    assert_eq!((&open[0]["updateId"], &open[0]["acceptedEventId"], &open[1]), (&json!("u"), &json!(9), &Value::Null));
    api.post(&format!("{WORKFLOWS}/w/signals/go"), &json!({})).await.json(202);
    let task = api.judging().await;
    let failed = json!({ "updateResults": [{ "id": "u", "failed": { "reason": "no stock", "details": 7 } }] });
    api.post(&format!("{}/complete", turn_path(&task)), &failed).await.json(200);
    let problem = api.ask(named()).await.json(422);
    assert_eq!((&problem["code"], &problem["reason"]), (&json!("update-failed"), &json!("no stock")));
    assert_eq!((&problem["recorded"], &problem["details"]), (&json!("unknown"), &json!(7)));
}

#[tokio::test]
async fn an_invalid_update_is_refused_and_records_nothing() {
    let api = Api::open().await;
    let run_id = api.quiet("w").await;
    let now = |ask: Ask| ask.header("prefer", "wait=0");
    let problem = api.refused(now(ask("w")), 504, "update-timed-out").await;
    assert_eq!(problem["retryable"], true);
    api.refused(now(ask("nobody")), 404, "unknown-workflow").await;
    let other = format!("{}?runId={}", path("w"), uuid::Uuid::nil());
    api.refused(Ask::post(&other, &json!({})), 404, "unknown-run").await;
    for tag in ["w", "\"w\"", "\"1-2\"", &format!("\"{run_id}-x\"")] {
        api.refused(now(ask("w")).header("if-match", tag), 400, "bad-header").await;
    }
    let of_another = format!("\"{}-5\"", uuid::Uuid::nil());
    api.refused(now(ask("w")).header("if-match", &of_another), 412, "version-mismatch").await;
    api.refused(Ask::post(&path("w"), &json!({ "updateId": "" })), 400, "invalid-field").await;
    api.refused(Ask::post(&path("w"), &json!({ "updateId": "x".repeat(257) })), 413, "too-large").await;
    api.refused(Ask::post(&path("w"), &json!({ "inptu": 1 })), 400, "bad-json").await;
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    api.refused(now(ask("w")), 409, "run-closed").await;
}

#[tokio::test]
async fn an_invalid_update_result_is_refused_and_records_nothing() {
    let api = Api::open().await;
    api.quiet("w").await;
    let asking = api.ask(Ask::post(&path("w"), &json!({ "updateId": "u" })).header("prefer", "wait=20"));
    let judging = async {
        let task = api.judging().await;
        assert_eq!((&task["speculative"], &task["updates"][0]["name"]), (&json!(true), &json!("match")));
        let complete = format!("{}/complete", turn_path(&task));
        let say = |results: Value| Ask::post(&complete, &json!({ "updateResults": results }));
        api.refused(say(json!([{ "id": "u" }])), 400, "invalid-field").await;
        api.refused(say(json!([{ "id": "u", "accepted": 1, "later": true }])), 400, "invalid-field").await;
        api.refused(say(json!([{ "id": "u", "acepted": 1 }])), 400, "bad-json").await;
        api.refused(say(json!([{ "id": "u", "accepted": 1 }, { "id": "u", "accepted": 1 }])), 400, "invalid-field")
            .await;
        let problem = api.refused(say(json!([{ "id": "v", "accepted": 1 }])), 409, "unknown-update").await;
        assert_eq!(problem["updateId"], "v");
        api.ask(say(json!([{ "id": "u", "accepted": 1 }]))).await.json(200);
        // A second answer is refused, because the first one is recorded.
        api.refused(say(json!([{ "id": "u", "accepted": 1 }])), 409, "turn-completed").await;
    };
    tokio::join!(asking, judging).0.json(200);
}

#[tokio::test]
async fn an_update_waits_as_long_as_requested() {
    let api = Api::open().await;
    api.quiet("w").await;
    let began = tokio::time::Instant::now();
    let patient = ask("w").header("prefer", "wait=0.3");
    let answer = tokio::time::timeout(crate::support::PATIENCE, api.ask(patient)).await.unwrap();
    answer.problem(504, "update-timed-out");
    assert!(began.elapsed() >= Duration::from_millis(300));
}

fn start(more: &Value) -> Value {
    let mut start = json!({ "workflowId": "new", "workflowType": "order", "taskList": "deciders" });
    if let (Some(start), Value::Object(more)) = (start.as_object_mut(), more.clone()) {
        start.extend(more);
    }
    json!({ "input": 1, "updateId": "u", "start": start })
}

#[tokio::test]
async fn an_update_may_start_its_run_and_reports_it() {
    let api = Api::open().await;
    let begin = |id: &str| Ask::post(&path("new"), &json!({ "updateId": id, "start": start(&json!({}))["start"] }));
    let answer = api.update(begin("u"), json!({ "accepted": 1 })).await.json(200);
    assert_eq!((&answer["started"], &answer["eventId"]), (&json!(true), &json!(6)));
    let again = api.ask(begin("u")).await.json(200);
    assert_eq!((&again["started"], &again["runId"], &again["result"]), (&Value::Null, &answer["runId"], &json!(1)));
    let other = api.update(begin("v"), json!({ "rejected": { "reason": "no" } })).await.json(422);
    assert_eq!((&other["code"], &other["startedRunId"]), (&json!("update-rejected"), &Value::Null));
    assert_eq!(other["recorded"], false);
}

#[tokio::test]
async fn a_run_started_for_a_rejected_update_is_named() {
    let api = Api::open().await;
    let problem = api.update(Ask::post(&path("new"), &start(&json!({}))), json!({ "rejected": { "reason": "no" } }));
    let problem = problem.await.json(422);
    let run_id = api.get(&format!("{WORKFLOWS}/new")).await.json(200)["runId"].clone();
    assert_eq!((&problem["code"], &problem["startedRunId"]), (&json!("update-rejected"), &run_id));
    assert_eq!((&problem["reason"], &problem["recorded"]), (&json!("no"), &json!("unknown")));
    assert_eq!(api.names("new").await.len(), 4);
}

#[tokio::test]
async fn an_invalid_start_within_an_update_starts_nothing() {
    let api = Api::open().await;
    let begin = |more: &Value| Ask::post(&path("new"), &start(more));
    let tag = format!("\"{}-5\"", uuid::Uuid::nil());
    let with_run_id = Ask::post(&format!("{}?runId={}", path("new"), uuid::Uuid::nil()), &start(&json!({})));
    for (ask, status, code) in [
        (begin(&json!({ "workflowId": "other" })), 400, "invalid-field"),
        (begin(&json!({ "startAfter": 5 })), 400, "invalid-field"),
        (begin(&json!({ "workflowType": "" })), 400, "invalid-field"),
        (begin(&json!({ "workflowTyp": "x" })), 400, "bad-json"),
        (with_run_id, 400, "invalid-field"),
        (begin(&json!({})).header("if-match", &tag), 404, "unknown-workflow"),
        (Ask::post("/v1/domains/nowhere/workflows/new/updates/match", &start(&json!({}))), 404, "unknown-domain"),
    ] {
        api.refused(ask, status, code).await;
    }
    api.get(&format!("{WORKFLOWS}/new")).await.problem(404, "unknown-workflow");
}
