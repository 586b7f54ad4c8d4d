//! Inputs at the edges of what SWF takes, and what programs hear of them.

use serde_json::{Value, json};

use crate::support::{Swf, execution, ready, start};

const TARGET: &str = "deciders";

/// A turn of the list that all types have as their default.
async fn turn(swf: &Swf) -> Value {
    let poll = json!({ "domain": "default", "taskList": { "name": TARGET } });
    swf.ask("PollForDecisionTask", &poll).await.json()
}

fn decision(kind: &str, attributes: &Value) -> Value {
    let member = format!("{}{}DecisionAttributes", kind[..1].to_lowercase(), &kind[1..]);
    json!({ "decisionType": kind, member: attributes })
}

async fn respond(swf: &Swf, turn: &Value, decisions: &Value) {
    let respond = json!({ "taskToken": turn["taskToken"], "decisions": decisions });
    swf.ask("RespondDecisionTaskCompleted", &respond).await.nothing();
}

/// The events of a run.
async fn events(swf: &Swf, id: &str, run_id: &str) -> Vec<Value> {
    let history = swf.ask("GetWorkflowExecutionHistory", &execution(id, run_id)).await.json();
    history["events"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_run_that_continues_as_new_is_asked_to_cancel_again() {
    let swf = ready().await;
    start(&swf, "w").await;
    swf.ask("RequestCancelWorkflowExecution", &json!({ "domain": "default", "workflowId": "w" })).await.nothing();
    let first = turn(&swf).await;
    respond(&swf, &first, &json!([decision("ContinueAsNewWorkflowExecution", &json!({}))])).await;
    let second = turn(&swf).await;
    assert_ne!(second["workflowExecution"]["runId"], first["workflowExecution"]["runId"]);
    let told = second["events"].as_array().unwrap();
    let request = &told[2];
    assert_eq!(request["eventType"], "WorkflowExecutionCancelRequested");
    let attributes = json!({ "externalInitiatedEventId": 0 });
    assert_eq!(request["workflowExecutionCancelRequestedEventAttributes"], attributes);
    let run_id = second["workflowExecution"]["runId"].as_str().unwrap();
    let described = swf.ask("DescribeWorkflowExecution", &execution("w", run_id)).await.json();
    assert_eq!(described["executionInfo"]["cancelRequested"], json!(true));
    assert_eq!(events(&swf, "w", run_id).await.len(), 4);
}
