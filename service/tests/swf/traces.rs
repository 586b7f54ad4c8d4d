//! Traces over the SWF protocol: taken from headers, shown over REST, and absent from SWF responses.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::support::{Answer, Swf, execution, kind, ready};

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn ask(swf: &Swf, operation: &str, body: &Value) -> Answer {
    let target = format!("SimpleWorkflowService.{operation}");
    let headers = [("x-amz-target", &*target), ("content-type", "application/x-amz-json-1.0"), ("traceparent", GIVEN)];
    swf.send(&headers, body.to_string()).await
}

#[tokio::test]
async fn starts_and_signals_join_the_callers_trace() {
    let swf = ready().await;
    let start = json!({ "domain": "default", "workflowId": "w", "workflowType": kind() });
    let run_id = ask(&swf, "StartWorkflowExecution", &start).await.json()["runId"].as_str().unwrap().to_owned();
    let signal = json!({ "domain": "default", "workflowId": "w", "signalName": "go" });
    ask(&swf, "SignalWorkflowExecution", &signal).await.nothing();
    let history = swf.ask("GetWorkflowExecutionHistory", &execution("w", &run_id)).await;
    assert_eq!(history.json()["events"].as_array().unwrap().len(), 3);
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    let task = swf.ask("PollForDecisionTask", &poll).await;
    assert!(!history.text.contains("4bf92f35") && !task.text.contains("4bf92f35"), "{} {}", history.text, task.text);
    let request = Request::get("/v1/domains/default/workflows/w/history").body(Body::empty()).unwrap();
    let told = swf.request(request).await.json();
    assert_eq!((&told["events"][0]["traceparent"], &told["events"][2]["traceparent"]), (&json!(GIVEN), &json!(GIVEN)));
}
