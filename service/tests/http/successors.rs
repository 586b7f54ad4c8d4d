//! Runs that continue as new.

use serde_json::{Value, json};

use crate::support::{Api, Ask, COUNT, WORKFLOWS};

async fn continue_as_new(api: &Api, input: u64) {
    api.decide(json!([{ "type": "ContinueAsNew", "input": input }])).await;
}

#[tokio::test]
async fn a_run_continues_as_new_at_once_and_keeps_both_histories() {
    let api = Api::open().await;
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders", "input": 0,
                        "executionTimeout": 100, "runTimeout": 60 });
    let begin = || Ask::post(WORKFLOWS, &start).header("idempotency-key", "k");
    let first = api.ask(begin()).await.json(201)["runId"].clone();
    continue_as_new(&api, 1).await;
    let second = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_ne!(second["runId"], first);
    assert_eq!((&second["continuedFrom"], &second["status"]), (&first, &json!("open")));
    assert_eq!(second["runTimeout"], json!("PT1M"));
    assert_eq!(api.ask(begin()).await.json(200)["runId"], second["runId"], "the start is known by its key");
    let old = format!("{WORKFLOWS}/w/result?runId={}", first.as_str().unwrap());
    let closed = api.get(&old).await.json(200);
    assert_eq!((&closed["status"], &closed["continuedAs"]), (&json!("continued-as-new"), &second["runId"]));
    let list = |status: &str| format!("{COUNT}?status={status}");
    assert_eq!(api.get(&list("continued-as-new")).await.json(200)["count"], json!(1));
    assert_eq!(api.get(&list("open")).await.json(200)["count"], json!(1));

    // The signal goes to the open run, whose first event has the new input.
    api.post(&format!("{WORKFLOWS}/w/signals/go"), &json!({})).await.json(202);
    let turn = api.decide(json!([{ "type": "SucceedWorkflow", "result": "done" }])).await;
    let started = &turn["events"][0];
    assert_eq!((&started["input"], &started["continuedFrom"]), (&json!(1), &first));
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.runs, report.findings), (2, vec![]));
}

#[tokio::test]
async fn a_result_without_run_id_waits_for_the_last_successor() {
    let api = Api::open().await;
    api.start("w").await;
    let wait = api.ask(Ask::get(&format!("{WORKFLOWS}/w/result")).header("prefer", "wait=20"));
    let decide = async {
        for input in 0..3 {
            continue_as_new(&api, input).await;
        }
        api.decide(json!([{ "type": "SucceedWorkflow", "result": "done" }])).await;
    };
    let (answer, ()) = tokio::join!(wait, decide);
    let result: Value = answer.json(200);
    assert_eq!((&result["status"], &result["result"]), (&json!("success"), &json!("done")));
}
