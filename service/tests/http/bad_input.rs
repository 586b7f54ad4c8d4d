//! Invalid queries, updates and answers: each has its own fault, and the stored run stays identical to the byte.

use serde_json::{Value, json};

use crate::support::{Api, Ask, DECIDERS, WORKFLOWS, turn_path};

/// A service whose run `w` waits only for a timer after its first turn, and everything that is stored.
async fn idle() -> (Api, String, String) {
    let api = Api::open().await;
    let run_id = waits(&api, "w").await;
    let stored = api.everything().await;
    (api, run_id, stored)
}

async fn waits(api: &Api, id: &str) -> String {
    let run_id = api.start(id).await;
    api.decide(json!([{ "type": "StartTimer", "timerId": "t", "after": "P9D" }])).await;
    run_id
}

fn query(id: &str) -> Ask {
    Ask::post(&format!("{WORKFLOWS}/{id}/queries/total"), &json!({}))
}

fn update(id: &str) -> Ask {
    Ask::post(&format!("{WORKFLOWS}/{id}/updates/match"), &json!({ "updateId": "u" }))
}

fn signal(id: &str) -> Ask {
    Ask::post(&format!("{WORKFLOWS}/{id}/signals/s"), &json!({}))
}

/// The next task of a decider that takes queries and updates.
async fn task(api: &Api) -> Value {
    let poll = Ask::post(DECIDERS, &json!({ "queries": true, "updates": 8 })).header("prefer", "wait=20");
    api.ask(poll).await.json(200)
}

fn complete(task: &Value, body: &Value) -> Ask {
    Ask::post(&format!("{}/complete", turn_path(task)), body)
}

fn query_id(task: &Value) -> &Value {
    &task["queries"][0]["id"]
}

#[tokio::test]
async fn an_unknown_query_returns_404_with_the_known_names() {
    let (api, _, stored) = idle().await;
    let deciding = async {
        let task = task(&api).await;
        let error = json!({ "reason": "unknown-query", "known": ["sum"] });
        let answer = json!({ "queryResults": [{ "id": query_id(&task), "error": error }] });
        api.ask(complete(&task, &answer)).await.json(200);
    };
    let (answer, ()) = tokio::join!(api.ask(query("w")), deciding);
    assert_eq!(answer.problem(404, "unknown-query")["known"], json!(["sum"]));
    assert_eq!(api.everything().await, stored);
}

#[tokio::test]
async fn an_unknown_update_is_rejected_with_the_known_names() {
    let (api, _, stored) = idle().await;
    let deciding = async {
        let rejected = json!({ "reason": "unknown-update", "details": ["page"] });
        let answer = json!({ "updateResults": [{ "id": "u", "rejected": rejected }] });
        api.ask(complete(&task(&api).await, &answer)).await.json(200);
    };
    let (answer, ()) = tokio::join!(api.ask(update("w")), deciding);
    let problem = answer.problem(422, "update-rejected");
    assert_eq!((&problem["reason"], &problem["details"]), (&json!("unknown-update"), &json!(["page"])));
    assert_eq!(api.everything().await, stored);
}

#[tokio::test]
async fn an_answer_to_an_unknown_query_is_refused() {
    let (api, _, stored) = idle().await;
    let deciding = async {
        let task = task(&api).await;
        let strange = json!({ "queryResults": [{ "id": "nobody-asked", "result": 7 }] });
        assert_eq!(api.ask(complete(&task, &strange)).await.problem(400, "invalid-field")["field"], "queryResults");
        let answer = json!({ "queryResults": [{ "id": query_id(&task), "result": 8 }] });
        api.ask(complete(&task, &answer)).await.json(200);
    };
    let (answer, ()) = tokio::join!(api.ask(query("w")), deciding);
    assert_eq!(answer.json(200)["result"], 8);
    assert_eq!(api.everything().await, stored);
}

#[tokio::test]
async fn a_query_takes_only_its_first_answer() {
    let (api, _, stored) = idle().await;
    let deciding = async {
        let task = task(&api).await;
        let say = |result: u64| json!({ "id": query_id(&task), "result": result });
        let twice = json!({ "queryResults": [say(7), say(8)] });
        assert_eq!(api.ask(complete(&task, &twice)).await.problem(400, "invalid-field")["field"], "queryResults");
        api.ask(complete(&task, &json!({ "queryResults": [say(9)] }))).await.json(200);
        api.ask(complete(&task, &json!({ "queryResults": [say(10)] }))).await.problem(409, "query-task-lost");
    };
    let (answer, ()) = tokio::join!(api.ask(query("w")), deciding);
    assert_eq!(answer.json(200)["result"], 9);
    assert_eq!(api.everything().await, stored);
}

#[tokio::test]
async fn an_update_takes_only_its_first_answer() {
    let (api, _, stored) = idle().await;
    let deciding = async {
        let task = task(&api).await;
        let say = |results: Value| complete(&task, &json!({ "updateResults": results }));
        let both = json!([{ "id": "u", "accepted": 1 }, { "id": "u", "rejected": { "reason": "no" } }]);
        api.ask(say(both)).await.problem(400, "invalid-field");
        api.ask(say(json!([{ "id": "u", "rejected": { "reason": "no" } }]))).await.json(200);
        api.ask(say(json!([{ "id": "u", "accepted": 1 }]))).await.problem(409, "turn-lost");
    };
    let (answer, ()) = tokio::join!(api.ask(update("w")), deciding);
    answer.problem(422, "update-rejected");
    assert_eq!(api.everything().await, stored);
}

#[tokio::test]
async fn an_answer_after_the_wait_has_ended_changes_nothing() {
    let (api, _, stored) = idle().await;
    let (answer, asks) = tokio::join!(api.ask(query("w").header("prefer", "wait=1")), task(&api));
    answer.problem(504, "query-timed-out");
    let late = json!({ "queryResults": [{ "id": query_id(&asks), "result": 7 }] });
    api.ask(complete(&asks, &late)).await.problem(409, "query-task-lost");
    assert_eq!(api.everything().await, stored);

    // A late rejection returns to no caller, but is kept for a repeated request.
    let (answer, judges) = tokio::join!(api.ask(update("w").header("prefer", "wait=1")), task(&api));
    let unknown = answer.json(504);
    assert_eq!((&unknown["code"], &unknown["recorded"]), (&json!("update-timed-out"), &json!("unknown")));
    let late = json!({ "updateResults": [{ "id": "u", "rejected": { "reason": "no" } }] });
    api.ask(complete(&judges, &late)).await.json(200);
    assert_eq!(api.ask(update("w")).await.problem(422, "update-rejected")["reason"], "no");
    assert_eq!(api.everything().await, stored);
}

#[tokio::test]
async fn a_token_of_another_run_answers_neither_query_nor_update() {
    let (api, ..) = idle().await;
    waits(&api, "v").await;
    let stored = api.everything().await;
    let deciding = async {
        let [mut w, mut v] = [task(&api).await, task(&api).await];
        if w["workflowId"] == "v" {
            std::mem::swap(&mut w, &mut v);
        }
        let answer = json!({ "queryResults": [{ "id": query_id(&w), "result": 7 }] });
        assert_eq!(api.ask(complete(&v, &answer)).await.problem(400, "invalid-field")["field"], "queryResults");
        api.ask(complete(&w, &answer)).await.json(200);
        let answer = json!({ "updateResults": [{ "id": "u", "accepted": 1 }] });
        api.ask(complete(&v, &answer)).await.problem(409, "unknown-update");
        let answer = json!({ "queryResults": [{ "id": query_id(&v), "result": 8 }] });
        api.ask(complete(&v, &answer)).await.json(200);
    };
    let (w, v, ()) = tokio::join!(api.ask(query("w")), api.ask(query("v")), deciding);
    assert_eq!((&w.json(200)["result"], &v.json(200)["result"]), (&json!(7), &json!(8)));
    assert_eq!(api.everything().await, stored);
}

#[tokio::test]
async fn a_tag_of_another_run_is_stale() {
    let (api, ..) = idle().await;
    let other = format!("\"{}-5\"", waits(&api, "v").await);
    let stored = api.everything().await;
    api.ask(signal("w").header("if-match", &other)).await.problem(412, "version-mismatch");
    api.ask(update("w").header("if-match", &other)).await.problem(412, "version-mismatch");
    assert_eq!(api.everything().await, stored);
}

#[tokio::test]
async fn a_malformed_tag_is_refused() {
    let (api, run_id, stored) = idle().await;
    for tag in ["5", "\"w\"", &format!("\"{run_id}\""), &format!("\"{run_id}-x\""), &format!("{run_id}-5")] {
        for ask in [signal("w"), update("w")] {
            let problem = api.ask(ask.header("if-match", tag)).await.problem(400, "bad-header");
            assert!(problem["detail"].as_str().unwrap().contains("if-match"), "{problem}");
        }
        api.ask(query("w").header("if-none-match", tag)).await.problem(400, "bad-header");
    }
    assert_eq!(api.everything().await, stored);
}
