//! Runs that go on as new.

use serde_json::{Value, json};

use crate::support::{Api, Ask, COUNT, WORKFLOWS};

async fn go_on(api: &Api, input: u64) {
    api.decide(json!([{ "type": "ContinueAsNew", "input": input }])).await;
}

#[tokio::test]
async fn a_run_goes_on_at_once_under_its_id_and_both_histories_are_there() {
    let api = Api::open().await;
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders", "input": 0,
                        "executionTimeout": 100, "runTimeout": 60 });
    let begin = || Ask::post(WORKFLOWS, &start).header("idempotency-key", "k");
    let first = api.ask(begin()).await.json(201)["runId"].clone();
    go_on(&api, 1).await;
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

    // A signal finds the run that is open, and its turn says what it was started with.
    api.post(&format!("{WORKFLOWS}/w/signals/go"), &json!({})).await.json(202);
    let turn = api.decide(json!([{ "type": "SucceedWorkflow", "result": "done" }])).await;
    let started = &turn["events"][0];
    assert_eq!((&started["input"], &started["continuedFrom"]), (&json!(1), &first));
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.runs, report.findings), (2, vec![]));
}

#[tokio::test]
async fn who_waits_for_the_newest_run_waits_for_the_one_that_goes_on() {
    let api = Api::open().await;
    api.start("w").await;
    let wait = api.ask(Ask::get(&format!("{WORKFLOWS}/w/result")).header("prefer", "wait=20"));
    let decide = async {
        for input in 0..3 {
            go_on(&api, input).await;
        }
        api.decide(json!([{ "type": "SucceedWorkflow", "result": "done" }])).await;
    };
    let (answer, ()) = tokio::join!(wait, decide);
    let result: Value = answer.json(200);
    assert_eq!((&result["status"], &result["result"]), (&json!("success"), &json!("done")));
}
