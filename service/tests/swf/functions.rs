//! Functions of Lambda tasks, and the runs that may call them.

use std::sync::Arc;

use engine::{Engine, Settings, SystemClock};
use serde_json::{Value, json};
use service::lambda::Function;
use simulation::stores::fresh;

use crate::support::{Swf, execution, kind, register};

fn function(what: Value) -> Function {
    serde_json::from_value(what).unwrap()
}

#[tokio::test]
async fn a_function_is_called_only_for_its_domains_and_types() {
    let settings = Settings { seed: Some(7), ..Settings::default() };
    let engine = Engine::open(fresh().await, Arc::new(SystemClock), settings).await.unwrap();
    let swf = Swf { router: service::api::router(Arc::clone(&engine)) };
    register(&swf).await;
    let functions = [
        ("anybody", json!("cat")),
        ("ours", json!({ "call": "cat", "domains": ["default"], "workflow-types": ["order"] })),
        ("elsewhere", json!({ "call": "cat", "domains": ["shop"] })),
        ("others", json!({ "call": "cat", "workflow-types": ["refund"] })),
    ];
    let names = functions.each_ref().map(|(name, _)| *name);
    service::lambda::serve(&engine, functions.map(|(name, what)| (name.to_owned(), function(what))).into());

    let start = json!({ "domain": "default", "workflowId": "w", "workflowType": kind(), "lambdaRole": "role" });
    let run_id = swf.ask("StartWorkflowExecution", &start).await.json()["runId"].as_str().unwrap().to_owned();
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    let token = swf.ask("PollForDecisionTask", &poll).await.json()["taskToken"].clone();
    let decisions = names.map(|name| {
        let attributes = json!({ "id": name, "name": name, "input": name });
        json!({ "decisionType": "ScheduleLambdaFunction", "scheduleLambdaFunctionDecisionAttributes": attributes })
    });
    swf.ask("RespondDecisionTaskCompleted", &json!({ "taskToken": token, "decisions": decisions })).await.nothing();
    let closed = loop {
        let history = swf.ask("GetWorkflowExecutionHistory", &execution("w", &run_id)).await.json();
        let events = history["events"].as_array().unwrap().clone();
        let closed = events.into_iter().filter(|event| {
            matches!(event["eventType"].as_str(), Some("LambdaFunctionCompleted" | "LambdaFunctionFailed"))
        });
        let closed: Vec<Value> = closed.collect();
        if closed.len() == names.len() {
            break closed;
        }
        tokio::task::yield_now().await;
    };
    let completed = closed.iter().filter_map(|it| it["lambdaFunctionCompletedEventAttributes"]["result"].as_str());
    let mut completed: Vec<&str> = completed.collect();
    completed.sort_unstable();
    assert_eq!(completed, ["anybody", "ours"]);
    let failed: Vec<&Value> = closed.iter().map(|it| &it["lambdaFunctionFailedEventAttributes"]).collect();
    for name in ["elsewhere", "others"] {
        let details = format!("Workflows of type order/1 in domain default may not call function {name}");
        let found = failed.iter().filter(|it| it["reason"] == "AccessDeniedException" && it["details"] == details);
        assert_eq!(found.count(), 1, "{name}: {failed:?}");
    }
}
