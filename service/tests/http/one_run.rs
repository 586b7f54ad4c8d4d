//! Polls that name a run, to debug it.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Ask, DECIDERS, WORKFLOWS, schedule, turn_path};

const ACTS: &str = "/v1/domains/default/task-lists/acts/activity/poll";

async fn poll(api: &Api, path: &str, body: &Value, wait: &str) -> Answer {
    api.ask(Ask::post(path, body).header("prefer", &format!("wait={wait}"))).await
}

/// Polls for a task of this run that waits already.
async fn task_of(api: &Api, path: &str, id: &str) -> Option<Value> {
    let answer = poll(api, path, &json!({ "workflowId": id }), "0").await;
    (answer.status.as_u16() == 200).then(|| answer.json(200))
}

async fn complete(api: &Api, turn: &Value, decisions: Value) {
    api.post(&format!("{}/complete", turn_path(turn)), &json!({ "decisions": decisions })).await.json(200);
}

#[tokio::test]
async fn a_poll_that_names_a_run_gets_only_its_tasks() {
    let api = Api::open().await;
    for id in ["a", "b", "c"] {
        api.start(id).await;
    }
    let turn = task_of(&api, DECIDERS, "b").await.unwrap();
    assert_eq!(turn["workflowId"], "b");
    assert!(task_of(&api, DECIDERS, "b").await.is_none());
    assert!(task_of(&api, DECIDERS, "nothing").await.is_none());
    complete(&api, &turn, json!([schedule("x", "acts")])).await;
    for id in ["a", "c"] {
        let turn = api.turn().await;
        assert_eq!(turn["workflowId"], id, "the others keep their order");
        complete(&api, &turn, json!([schedule("x", "acts")])).await;
    }
    for id in ["c", "b", "a"] {
        assert_eq!(task_of(&api, ACTS, id).await.unwrap()["workflowId"], id);
    }
}

#[tokio::test]
async fn a_poll_that_names_a_run_waits_for_it_before_others() {
    let api = Api::open().await;
    let all = async {
        let turn = poll(&api, DECIDERS, &json!({}), "20").await.json(200);
        assert_eq!(turn["workflowId"], "a");
    };
    let one = async {
        let turn = poll(&api, DECIDERS, &json!({ "workflowId": "b" }), "20").await.json(200);
        assert_eq!(turn["workflowId"], "b");
    };
    let starts = async {
        api.until_pollers("list=\"deciders\"", 1).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        for id in ["b", "a"] {
            api.start(id).await;
        }
    };
    tokio::join!(all, one, starts);
}

#[tokio::test]
async fn a_poll_that_names_a_run_ends_at_its_time_or_a_shutdown() {
    let api = Api::open().await;
    api.start("other").await;
    let answer = poll(&api, DECIDERS, &json!({ "workflowId": "w" }), "0.05").await;
    assert_eq!(answer.status.as_u16(), 204);
    let stop = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        api.engine.begin_shutdown();
    };
    let body = json!({ "workflowId": "w" });
    let (answer, ()) = tokio::join!(poll(&api, DECIDERS, &body, "60"), stop);
    assert_eq!(answer.status.as_u16(), 204);
}

#[tokio::test]
async fn an_exchange_that_names_a_run_gets_only_its_tasks() {
    let api = Api::open().await;
    for id in ["a", "b"] {
        api.start(id).await;
        api.decide(json!([schedule("x", "acts"), schedule("y", "acts")])).await;
    }
    let path = "/v1/domains/default/task-lists/acts/activity/exchange";
    let exchanged = poll(&api, path, &json!({ "maxTasks": 3, "workflowId": "b" }), "0").await.json(200);
    let tasks: Vec<_> = exchanged["tasks"].as_array().unwrap().iter().map(|it| &it["task"]).collect();
    let found: Vec<_> = tasks.iter().map(|it| (it["workflowId"].as_str(), it["activityId"].as_str())).collect();
    assert_eq!(found, [(Some("b"), Some("x")), (Some("b"), Some("y"))]);
    let path = path.replace("activity", "decider").replace("acts", "deciders");
    api.post(&format!("{WORKFLOWS}/a/signals/s"), &json!({})).await.json(202);
    let exchanged = poll(&api, &path, &json!({ "maxTasks": 3, "workflowId": "b" }), "0").await.json(200);
    assert_eq!(exchanged["tasks"], json!([]));
}

#[tokio::test]
async fn a_poll_that_names_a_run_answers_its_queries() {
    let api = Api::open().await;
    for id in ["a", "b"] {
        api.start(id).await;
        api.decide(json!([])).await;
    }
    let decider = async {
        let task = poll(&api, DECIDERS, &json!({ "workflowId": "b", "queries": true }), "20").await.json(200);
        assert_eq!((&task["workflowId"], &task["queryOnly"]), (&json!("b"), &json!(true)));
        let results = json!({ "queryResults": [{ "id": task["queries"][0]["id"], "result": 7 }] });
        api.post(&format!("{}/complete", turn_path(&task)), &results).await.json(200);
    };
    let ask = |id: &str, wait: &str| {
        Ask::post(&format!("{WORKFLOWS}/{id}/queries/q"), &json!({})).header("prefer", &format!("wait={wait}"))
    };
    let (other, answer, ()) = tokio::join!(api.ask(ask("a", "0.5")), api.ask(ask("b", "20")), decider);
    assert_eq!(answer.json(200)["result"], 7);
    assert_ne!(other.status.as_u16(), 200, "nothing answers the queries of the other run");
}

#[tokio::test]
async fn an_invalid_workflow_id_in_a_poll_is_refused() {
    let api = Api::open().await;
    let ask = |id: &str| Ask::post(DECIDERS, &json!({ "workflowId": id })).header("prefer", "wait=0");
    let problem = api.refused(ask(""), 400, "invalid-field").await;
    assert_eq!(problem["field"], "workflowId");
    api.refused(ask(&"x".repeat(257)), 413, "too-large").await;
    assert_eq!(api.ask(ask(&"x".repeat(256))).await.status.as_u16(), 204);
}
