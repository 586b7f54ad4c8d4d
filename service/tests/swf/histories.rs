//! Whole histories, event by event, and responses on the way.

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{SWF, Swf, execution, kind, ready, start};

async fn turn(swf: &Swf) -> Value {
    let poll = json!({ "domain": "default", "taskList": { "name": "deciders" }, "identity": "d" });
    swf.ask("PollForDecisionTask", &poll).await.json()
}

async fn respond(swf: &Swf, turn: &Value, decisions: Value) {
    let respond = json!({ "taskToken": turn["taskToken"], "decisions": decisions });
    swf.ask("RespondDecisionTaskCompleted", &respond).await.nothing();
}

async fn decide(swf: &Swf, decisions: Value) -> Value {
    let turn = turn(swf).await;
    respond(swf, &turn, decisions).await;
    turn
}

async fn take(swf: &Swf) -> Value {
    let poll = json!({ "domain": "default", "taskList": { "name": "runners" } });
    swf.ask("PollForActivityTask", &poll).await.json()
}

async fn events(swf: &Swf, id: &str, run_id: &str) -> Vec<Value> {
    let history = swf.ask("GetWorkflowExecutionHistory", &execution(id, run_id)).await.json();
    history["events"].as_array().unwrap().clone()
}

async fn names(swf: &Swf, id: &str, run_id: &str) -> String {
    let short =
        |name: &str| name.replace("DecisionTask", "DT").replace("ActivityTask", "Act").replace("WorkflowExecution", "");
    let events = events(swf, id, run_id).await;
    events.iter().map(|event| short(event["eventType"].as_str().unwrap())).collect::<Vec<_>>().join(" ")
}

fn complete(result: &str) -> Value {
    json!({ "decisionType": "CompleteWorkflowExecution", "completeWorkflowExecutionDecisionAttributes": { "result": result } })
}

fn schedule(id: &str) -> Value {
    json!({ "decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {
        "activityId": id, "activityType": { "name": "charge", "version": "1" }, "input": "", "control": "note",
    } })
}

#[tokio::test]
async fn a_run_without_activities() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    let turn = decide(&swf, json!([complete("")])).await;
    assert_eq!((&turn["startedEventId"], &turn["previousStartedEventId"]), (&json!(3), &json!(0)));
    assert_eq!(turn["workflowType"], kind());
    assert_eq!(turn["workflowExecution"], json!({ "workflowId": "w", "runId": run_id }));
    assert_eq!(turn["events"].as_array().unwrap().len(), 3);
    assert_eq!(names(&swf, "w", &run_id).await, "Started DTScheduled DTStarted DTCompleted Completed");
    let told = events(&swf, "w", &run_id).await;
    let mut started = told[0]["workflowExecutionStartedEventAttributes"].clone();
    assert_eq!(started["parentInitiatedEventId"].take(), json!(0));
    let expected = json!({
        "input": "in", "executionStartToCloseTimeout": "3600", "taskStartToCloseTimeout": "60", "childPolicy": "TERMINATE",
        "taskList": { "name": "deciders" }, "workflowType": kind(), "parentInitiatedEventId": null,
    });
    assert_eq!(started, expected);
    let scheduled =
        json!({ "taskList": { "name": "deciders" }, "startToCloseTimeout": "60", "scheduleToStartTimeout": "NONE" });
    assert_eq!(told[1]["decisionTaskScheduledEventAttributes"], scheduled);
    assert_eq!(told[2]["decisionTaskStartedEventAttributes"], json!({ "identity": "d", "scheduledEventId": 2 }));
    assert_eq!(told[3]["decisionTaskCompletedEventAttributes"], json!({ "scheduledEventId": 2, "startedEventId": 3 }));
    let completed = json!({ "decisionTaskCompletedEventId": 4, "result": "" });
    assert_eq!(told[4]["workflowExecutionCompletedEventAttributes"], completed, "an empty result is not absent");
    assert_eq!(told[3]["eventTimestamp"], told[4]["eventTimestamp"]);
    let described = swf.ask("DescribeWorkflowExecution", &execution("w", &run_id)).await.json();
    assert_eq!(described["executionInfo"]["closeStatus"], "COMPLETED");
    assert_eq!(described["openCounts"]["openActivityTasks"], 0);
    // The token of a turn that has closed its run.
    let late = json!({ "taskToken": turn["taskToken"] });
    let unknown = format!("Unknown execution: WorkflowExecution=[workflowId=w, runId={run_id}]");
    swf.ask("RespondDecisionTaskCompleted", &late).await.fault(&format!("{SWF}UnknownResourceFault"), &unknown);
}

#[tokio::test]
async fn a_run_with_one_activity() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    decide(&swf, json!([schedule("a")])).await;
    let task = take(&swf).await;
    assert_eq!((&task["activityId"], &task["input"], &task["startedEventId"]), (&json!("a"), &json!(""), &json!(6)));
    assert_eq!(task["activityType"], json!({ "name": "charge", "version": "1" }));
    let token = json!({ "taskToken": task["taskToken"], "details": "half" });
    assert_eq!(swf.ask("RecordActivityTaskHeartbeat", &token).await.json(), json!({ "cancelRequested": false }));
    let done = json!({ "taskToken": task["taskToken"], "result": "ok" });
    swf.ask("RespondActivityTaskCompleted", &done).await.nothing();
    let unknown = format!("{SWF}UnknownResourceFault");
    for operation in ["RespondActivityTaskCompleted", "RespondActivityTaskFailed", "RecordActivityTaskHeartbeat"] {
        swf.ask(operation, &token).await.fault(&unknown, "Unknown activity, scheduledEventId = 5");
    }
    decide(&swf, json!([complete("x")])).await;
    assert_eq!(
        names(&swf, "w", &run_id).await,
        "Started DTScheduled DTStarted DTCompleted ActScheduled ActStarted ActCompleted DTScheduled DTStarted DTCompleted Completed"
    );
    let scheduled = &events(&swf, "w", &run_id).await[4]["activityTaskScheduledEventAttributes"];
    let expected = json!({
        "decisionTaskCompletedEventId": 4, "activityType": { "name": "charge", "version": "1" }, "activityId": "a",
        "input": "", "control": "note", "scheduleToStartTimeout": "60", "scheduleToCloseTimeout": "120",
        "startToCloseTimeout": "60", "heartbeatTimeout": "NONE", "taskList": { "name": "runners" },
    });
    assert_eq!(*scheduled, expected);
}

#[tokio::test]
async fn an_unrequested_cancellation_names_no_request() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    decide(&swf, json!([schedule("a")])).await;
    let task = take(&swf).await;
    let canceled = json!({ "taskToken": task["taskToken"], "details": "left" });
    swf.ask("RespondActivityTaskCanceled", &canceled).await.nothing();
    let told = &events(&swf, "w", &run_id).await[6];
    assert_eq!(told["eventType"], "ActivityTaskCanceled");
    let expected = json!({ "scheduledEventId": 5, "startedEventId": 6, "details": "left" });
    assert_eq!(told["activityTaskCanceledEventAttributes"], expected);
    // The decider gets the event and continues.
    decide(&swf, json!([complete("")])).await;
}

#[tokio::test]
async fn a_result_during_a_decision_task_schedules_another() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    decide(&swf, json!([schedule("a")])).await;
    let task = take(&swf).await;
    let signal = json!({ "domain": "default", "workflowId": "w", "signalName": "go" });
    swf.ask("SignalWorkflowExecution", &signal).await.nothing();
    let held = turn(&swf).await;
    swf.ask("RespondActivityTaskCompleted", &json!({ "taskToken": task["taskToken"] })).await.nothing();
    respond(&swf, &held, json!([complete("too early")])).await;
    decide(&swf, json!([complete("now")])).await;
    let expected = "Started DTScheduled DTStarted DTCompleted ActScheduled ActStarted Signaled DTScheduled DTStarted \
                    ActCompleted DTScheduled DTCompleted CompleteFailed DTStarted DTCompleted Completed";
    assert_eq!(names(&swf, "w", &run_id).await, expected);
    let told = events(&swf, "w", &run_id).await;
    let failed = json!({ "cause": "UNHANDLED_DECISION", "decisionTaskCompletedEventId": 12 });
    assert_eq!(told[12]["completeWorkflowExecutionFailedEventAttributes"], failed);
    assert_eq!(
        told[6]["workflowExecutionSignaledEventAttributes"],
        json!({ "signalName": "go", "externalInitiatedEventId": 0 })
    );
}

#[tokio::test]
async fn a_child_is_started_and_completes() {
    let swf = ready().await;
    let run_id = start(&swf, "parent").await;
    let child = json!({ "decisionType": "StartChildWorkflowExecution", "startChildWorkflowExecutionDecisionAttributes": {
        "workflowId": "child", "workflowType": kind(), "taskList": { "name": "children" }, "control": "",
    } });
    decide(&swf, json!([child])).await;
    let seen = turn(&swf).await;
    assert_eq!(seen["events"].as_array().unwrap()[5]["eventType"], "ChildWorkflowExecutionStarted");
    respond(&swf, &seen, json!([])).await;
    let poll = json!({ "domain": "default", "taskList": { "name": "children" } });
    let of_child = swf.ask("PollForDecisionTask", &poll).await.json();
    let started = &of_child["events"][0]["workflowExecutionStartedEventAttributes"];
    assert_eq!(started["parentWorkflowExecution"], json!({ "workflowId": "parent", "runId": run_id }));
    assert_eq!(started["parentInitiatedEventId"], 5);
    respond(&swf, &of_child, json!([complete("done")])).await;
    decide(&swf, json!([complete("")])).await;
    assert_eq!(
        names(&swf, "parent", &run_id).await,
        "Started DTScheduled DTStarted DTCompleted StartChildInitiated ChildStarted DTScheduled DTStarted DTCompleted \
         ChildCompleted DTScheduled DTStarted DTCompleted Completed"
    );
    let told = events(&swf, "parent", &run_id).await;
    let completed = json!({
        "workflowExecution": of_child["workflowExecution"], "workflowType": kind(), "result": "done",
        "initiatedEventId": 5, "startedEventId": 6,
    });
    assert_eq!(told[9]["childWorkflowExecutionCompletedEventAttributes"], completed);
}

#[tokio::test]
async fn a_run_continues_as_new() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    let go_on = json!({ "decisionType": "ContinueAsNewWorkflowExecution",
        "continueAsNewWorkflowExecutionDecisionAttributes": { "input": "next", "workflowTypeVersion": "1" } });
    decide(&swf, json!([go_on])).await;
    let next = decide(&swf, json!([complete("")])).await;
    let next_id = next["workflowExecution"]["runId"].as_str().unwrap().to_owned();
    assert_eq!(names(&swf, "w", &run_id).await, "Started DTScheduled DTStarted DTCompleted ContinuedAsNew");
    assert_eq!(names(&swf, "w", &next_id).await, "Started DTScheduled DTStarted DTCompleted Completed");
    let old = &events(&swf, "w", &run_id).await[4]["workflowExecutionContinuedAsNewEventAttributes"];
    assert_eq!((&old["newExecutionRunId"], &old["input"]), (&json!(next_id), &json!("next")));
    let started = &events(&swf, "w", &next_id).await[0]["workflowExecutionStartedEventAttributes"];
    assert_eq!((&started["continuedExecutionRunId"], &started["input"]), (&json!(run_id), &json!("next")));
}

#[tokio::test]
async fn a_token_of_the_other_kind_of_task_is_a_fault() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    decide(&swf, json!([schedule("a")])).await;
    let task = take(&swf).await;
    let signal = json!({ "domain": "default", "workflowId": "w", "signalName": "go" });
    swf.ask("SignalWorkflowExecution", &signal).await.nothing();
    let turn = turn(&swf).await;
    let of_decision = "Invalid token: it belongs to a decision task; respond with RespondDecisionTaskCompleted";
    let token = json!({ "taskToken": turn["taskToken"] });
    for operation in [
        "RespondActivityTaskCompleted",
        "RespondActivityTaskFailed",
        "RespondActivityTaskCanceled",
        "RecordActivityTaskHeartbeat",
    ] {
        swf.ask(operation, &token).await.invalid(of_decision);
    }
    let of_activity = "Invalid token: it belongs to an activity task; respond with RespondActivityTaskCompleted, \
                       RespondActivityTaskFailed or RespondActivityTaskCanceled";
    let token = json!({ "taskToken": task["taskToken"] });
    swf.ask("RespondDecisionTaskCompleted", &token).await.invalid(of_activity);
    // Nothing was recorded, and both tokens are valid for their own operations. The protocol has no activity ids in
    // ends of activities.
    swf.ask("RespondActivityTaskCompleted", &token).await.nothing();
    respond(&swf, &turn, json!([])).await;
    let told = events(&swf, "w", &run_id).await;
    let completed = told.iter().find(|event| event["eventType"] == "ActivityTaskCompleted").unwrap();
    assert_eq!(
        completed["activityTaskCompletedEventAttributes"],
        json!({ "scheduledEventId": 5, "startedEventId": 6 })
    );
}

#[tokio::test]
async fn an_invalid_batch_applies_nothing_and_keeps_its_token() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    let turn = turn(&swf).await;
    let marker = json!({ "decisionType": "RecordMarker", "recordMarkerDecisionAttributes": { "markerName": "m", "details": "" } });
    let bad = json!({ "taskToken": turn["taskToken"], "decisions": [complete("x"), marker] });
    swf.ask("RespondDecisionTaskCompleted", &bad).await.invalid("Close must be last decision in list");
    let long = json!({ "taskToken": turn["taskToken"], "decisions": [complete(&"x".repeat(32_769))] });
    assert_eq!(swf.ask("RespondDecisionTaskCompleted", &long).await.status, 400);
    assert_eq!(names(&swf, "w", &run_id).await, "Started DTScheduled DTStarted");
    swf.ask("RespondDecisionTaskCompleted", &json!({ "taskToken": "never" })).await.invalid("Invalid token");
    let edge = "漢".repeat(32_768);
    respond(&swf, &turn, json!([marker, complete(&edge)])).await;
    let told = events(&swf, "w", &run_id).await;
    assert_eq!(told[5]["workflowExecutionCompletedEventAttributes"]["result"], edge);
    assert_eq!(
        told[4]["markerRecordedEventAttributes"],
        json!({ "markerName": "m", "details": "", "decisionTaskCompletedEventId": 4 })
    );
}

#[tokio::test]
async fn a_turn_comes_in_pages_in_both_directions() {
    let swf = ready().await;
    start(&swf, "w").await;
    let marker = |n: u32| json!({ "decisionType": "RecordMarker", "recordMarkerDecisionAttributes": { "markerName": n.to_string() } });
    decide(&swf, json!([marker(1), marker(2), schedule("a")])).await;
    let token = take(&swf).await["taskToken"].clone();
    swf.ask("RespondActivityTaskCompleted", &json!({ "taskToken": token })).await.nothing();
    let all: Vec<u64> = (1..=11).collect();
    let mut reversed = all.clone();
    reversed.reverse();
    let cases = [
        (json!({}), all.clone()),
        (json!({ "reverseOrder": true }), reversed),
        (json!({ "startAtPreviousStartedEvent": true }), all[2..].to_vec()),
    ];
    for (more, expected) in cases {
        let mut poll = json!({ "domain": "default", "taskList": { "name": "deciders" }, "maximumPageSize": 4 });
        poll.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let first = swf.ask("PollForDecisionTask", &poll).await.json();
        assert_eq!((&first["startedEventId"], &first["previousStartedEventId"]), (&json!(11), &json!(3)));
        let (mut found, mut page, mut pages) = (Vec::new(), first.clone(), Vec::new());
        loop {
            assert_eq!(page["taskToken"], first["taskToken"]);
            found.extend(page["events"].as_array().unwrap().iter().map(|event| event["eventId"].as_u64().unwrap()));
            pages.extend(page["events"].as_array().unwrap().iter().cloned());
            let Some(next) = page.get("nextPageToken") else { break };
            poll["nextPageToken"] = next.clone();
            page = swf.ask("PollForDecisionTask", &poll).await.json();
        }
        assert_eq!(found, expected, "{more}");
        // The same events and times as over REST.
        let request = axum::http::Request::get("/v1/domains/default/workflows/w/history");
        let answer = swf.router.clone().oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
        let rest = answer.into_body().collect().await.unwrap().to_bytes();
        let rest: Value = serde_json::from_slice(&rest).unwrap();
        let mut told: Vec<(u64, String)> = pages.iter().map(id_and_time).collect();
        told.sort_unstable();
        let events = rest["events"].as_array().unwrap().iter();
        let events = events.map(|it| (it["id"].as_u64().unwrap(), it["timestamp"].as_str().unwrap().to_owned()));
        let expected: Vec<(u64, String)> = events.filter(|(id, _)| expected.contains(id)).collect();
        assert_eq!(told, expected, "{more}");
        let start = json!({ "domain": "default", "workflowId": "other", "workflowType": kind() });
        let again = swf.ask("StartWorkflowExecution", &start).await;
        // The next case needs a separate run with the same history.
        drop(again);
        let terminate = json!({ "domain": "default", "workflowId": "other", "childPolicy": "ABANDON" });
        swf.ask("TerminateWorkflowExecution", &terminate).await;
        let terminate = json!({ "domain": "default", "workflowId": "w", "reason": "", "details": "" });
        swf.ask("TerminateWorkflowExecution", &terminate).await.nothing();
        start_again(&swf, &marker).await;
    }
    let bad = json!({ "domain": "default", "taskList": { "name": "deciders" }, "nextPageToken": "x.1.0.0.1" });
    swf.ask("PollForDecisionTask", &bad).await.invalid("Invalid token");
}

fn id_and_time(event: &Value) -> (u64, String) {
    let seconds = event["eventTimestamp"].as_f64().unwrap();
    let at = history::Timestamp::from_millis(format!("{:.0}", seconds * 1_000.0).parse().unwrap());
    (event["eventId"].as_u64().unwrap(), at.to_string())
}

async fn start_again(swf: &Swf, marker: &impl Fn(u32) -> Value) {
    start(swf, "w").await;
    decide(swf, json!([marker(1), marker(2), schedule("a")])).await;
    let token = take(swf).await["taskToken"].clone();
    swf.ask("RespondActivityTaskCompleted", &json!({ "taskToken": token })).await.nothing();
}

#[tokio::test]
async fn runs_are_found_by_id_type_tag_and_status() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    let unknown = format!("{SWF}UnknownResourceFault");
    let again = json!({ "domain": "default", "workflowId": "w", "workflowType": kind() });
    swf.ask("StartWorkflowExecution", &again).await.fault(&format!("{SWF}WorkflowExecutionAlreadyStartedFault"), "");
    let other = json!({ "domain": "default", "workflowId": "x", "workflowType": { "name": "no", "version": "1" } });
    swf.ask("StartWorkflowExecution", &other).await.fault(&unknown, "Unknown type: WorkflowType=[name=no, version=1]");
    let bare = json!({ "domain": "default", "name": "bare", "version": "1" });
    swf.ask("RegisterWorkflowType", &bare).await.nothing();
    let of_bare = json!({ "domain": "default", "workflowId": "x", "workflowType": { "name": "bare", "version": "1" } });
    let undefined = format!("{SWF}DefaultUndefinedFault");
    swf.ask("StartWorkflowExecution", &of_bare).await.fault(&undefined, "executionStartToCloseTimeout");
    let count = json!({ "domain": "default", "startTimeFilter": { "oldestDate": 0 } });
    assert_eq!(swf.ask("CountOpenWorkflowExecutions", &count).await.json(), json!({ "count": 1, "truncated": false }));
    let pending = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    assert_eq!(swf.ask("CountPendingDecisionTasks", &pending).await.json()["count"], 1);
    assert_eq!(swf.ask("CountPendingActivityTasks", &pending).await.json()["count"], 0);
    let info = swf.ask("ListOpenWorkflowExecutions", &count).await.json()["executionInfos"][0].clone();
    assert_eq!(info["execution"], json!({ "workflowId": "w", "runId": run_id }));
    assert_eq!((&info["executionStatus"], &info["cancelRequested"]), (&json!("OPEN"), &json!(false)));
    let cancel = json!({ "domain": "default", "workflowId": "w" });
    swf.ask("RequestCancelWorkflowExecution", &cancel).await.nothing();
    decide(&swf, json!([{ "decisionType": "CancelWorkflowExecution" }])).await;
    swf.ask("RequestCancelWorkflowExecution", &cancel).await.fault(&unknown, "Unknown execution, workflowId = w");
    for (filter, found) in [
        (json!({ "closeStatusFilter": { "status": "CANCELED" } }), 1),
        (json!({ "closeStatusFilter": { "status": "FAILED" } }), 0),
        (json!({ "typeFilter": { "name": "order" } }), 1),
        (json!({ "typeFilter": { "name": "order", "version": "2" } }), 0),
        (json!({ "executionFilter": { "workflowId": "w" } }), 1),
        (json!({ "tagFilter": { "tag": "t" } }), 0),
    ] {
        let mut list = json!({ "domain": "default", "closeTimeFilter": { "oldestDate": 0 } });
        list.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
        let listed = swf.ask("ListClosedWorkflowExecutions", &list).await.json();
        assert_eq!(listed["executionInfos"].as_array().unwrap().len(), found, "{filter}");
    }
    let two =
        json!({ "domain": "default", "startTimeFilter": { "oldestDate": 0 }, "closeTimeFilter": { "oldestDate": 0 } });
    assert_eq!(swf.ask("ListClosedWorkflowExecutions", &two).await.status, 400);
}

#[tokio::test]
async fn tasks_of_a_deleted_run_are_unknown() {
    let swf = ready().await;
    let unknown = format!("{SWF}UnknownResourceFault");
    let delete = async |id: &str| {
        let path = format!("/v1/domains/default/workflows/{id}?terminate=true");
        let request = axum::http::Request::delete(path).body(axum::body::Body::empty()).unwrap();
        swf.request(request).await.json();
    };
    start(&swf, "w").await;
    let lost = turn(&swf).await;
    delete("w").await;
    let respond = json!({ "taskToken": lost["taskToken"], "decisions": [complete("")] });
    let message = "Unknown decision task, scheduledEventId = 2";
    swf.ask("RespondDecisionTaskCompleted", &respond).await.fault(&unknown, message);

    start(&swf, "v").await;
    decide(&swf, json!([schedule("a")])).await;
    let task = take(&swf).await;
    delete("v").await;
    let message = "Unknown activity, scheduledEventId = 5";
    for operation in ["RespondActivityTaskCompleted", "RespondActivityTaskFailed", "RespondActivityTaskCanceled"] {
        swf.ask(operation, &json!({ "taskToken": task["taskToken"] })).await.fault(&unknown, message);
    }
    let beat = json!({ "taskToken": task["taskToken"] });
    swf.ask("RecordActivityTaskHeartbeat", &beat).await.fault(&unknown, message);
}

#[tokio::test]
async fn pages_have_at_most_4_mib_and_lose_no_event() {
    let swf = ready().await;
    let run_id = start(&swf, "w").await;
    // In the protocol's text each quote takes one more byte.
    let input = vec![""; 80_000];
    for number in 0..24 {
        let path = format!("/v1/domains/default/workflows/w/signals/s{number}");
        let body = serde_json::to_vec(&json!({ "input": input })).unwrap();
        let request = axum::http::Request::post(path).header("content-type", "application/json");
        swf.request(request.body(axum::body::Body::from(body)).unwrap()).await.status_is(202);
    }
    for reverse in [false, true] {
        let mut ids: Vec<u64> = Vec::new();
        let mut ask = execution("w", &run_id);
        ask["reverseOrder"] = json!(reverse);
        loop {
            let answer = swf.ask("GetWorkflowExecutionHistory", &ask).await;
            assert!(answer.text.len() < (4 << 20) + 1_000, "{}", answer.text.len());
            let page = answer.json();
            assert!(page.get("nextPageToken").is_none() || answer.text.len() > 3 << 20, "{}", answer.text.len());
            ids.extend(page["events"].as_array().unwrap().iter().map(|event| event["eventId"].as_u64().unwrap()));
            match page.get("nextPageToken") {
                Some(next) => ask["nextPageToken"] = next.clone(),
                None => break,
            }
        }
        if reverse {
            ids.reverse();
        }
        assert_eq!(ids, (1..=26).collect::<Vec<_>>());
    }
    // Pages of a turn, too.
    let mut poll = json!({ "domain": "default", "taskList": { "name": "deciders" } });
    let (mut count, mut pages) = (0, 0);
    loop {
        let answer = swf.ask("PollForDecisionTask", &poll).await;
        assert!(answer.text.len() < (4 << 20) + 2_000, "{}", answer.text.len());
        let page = answer.json();
        (count, pages) = (count + page["events"].as_array().unwrap().len(), pages + 1);
        match page.get("nextPageToken") {
            Some(next) => poll["nextPageToken"] = next.clone(),
            None => break,
        }
    }
    assert_eq!((count, pages), (27, 3));
}
