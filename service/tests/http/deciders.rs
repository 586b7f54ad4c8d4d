//! Deciders without a kit: full histories in tasks, activity ids in events, warnings about probable mistakes, and
//! tokens sent to the wrong endpoint.

use serde_json::{Value, json};

use crate::support::{Api, Ask, DECIDERS, WORKFLOWS, activity_path, ids, schedule, turn_path};

const EXCHANGE: &str = "/v1/domains/default/task-lists/deciders/decider/exchange";
const ACTIVITY_EXCHANGE: &str = "/v1/domains/default/task-lists/acts/activity/exchange";

/// Polls a turn with these options.
async fn turn_with(api: &Api, poll: Value) -> Value {
    api.ask(Ask::post(DECIDERS, &poll).header("prefer", "wait=20")).await.json(200)
}

async fn complete(api: &Api, turn: &Value, decisions: Value) -> Value {
    api.post(&format!("{}/complete", turn_path(turn)), &json!({ "decisions": decisions })).await.json(200)
}

/// Completes the waiting activity as a runner.
async fn perform(api: &Api) {
    let task = api.take_activity("acts").await;
    api.post(&format!("{}/success", activity_path(&task)), &json!({ "result": task["activityId"] })).await.json(200);
}

/// Starts a run, completes this many activities one after the other, and leaves its turn waiting.
async fn with_steps(api: &Api, id: &str, steps: usize) {
    api.start(id).await;
    for step in 0..steps {
        api.decide(json!([schedule(&format!("s{step}"), "acts")])).await;
        perform(api).await;
    }
}

async fn history(api: &Api, id: &str) -> Vec<Value> {
    api.get(&format!("{WORKFLOWS}/{id}/history")).await.json(200)["events"].as_array().unwrap().clone()
}

/// The events of a task and of the pages that follow, and the number of pages.
async fn all_pages(api: &Api, task: &Value) -> (Vec<Value>, usize) {
    let (mut events, mut pages) = (task["events"].as_array().unwrap().clone(), 1);
    let mut next = task.get("next").cloned();
    while let Some(after) = next {
        let page = api.get(&format!("{}/history?after={after}&limit=2", turn_path(task))).await.json(200);
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        next = page.get("next").cloned();
        pages += 1;
    }
    (events, pages)
}

/// A beginner's decider, which looks only at `events`.
fn naive(turn: &Value) -> Value {
    let of =
        |kind: &'static str| turn["events"].as_array().unwrap().iter().filter(move |it| it["type"] == kind).cloned();
    let scheduled = |id: &str| of("ActivityScheduled").find(|it| it["activityId"] == id).map(|it| it["id"].clone());
    let is_done = |id: &str| of("ActivitySuccess").any(|it| Some(&it["scheduledEventId"]) == scheduled(id).as_ref());
    match (scheduled("charge"), scheduled("ship")) {
        (None, _) => json!([schedule("charge", "acts")]),
        (Some(_), None) if is_done("charge") => json!([schedule("ship", "acts")]),
        (Some(_), Some(_)) if is_done("ship") => json!([{ "type": "SucceedWorkflow" }]),
        _ => json!([]),
    }
}

#[tokio::test]
async fn a_naive_decider_is_right_with_the_full_history() {
    let api = Api::open().await;
    api.start("w").await;
    for activities in [1, 1, 0] {
        let turn = turn_with(&api, json!({ "history": "full" })).await;
        assert_eq!(complete(&api, &turn, naive(&turn)).await, json!({}), "no warning");
        for _ in 0..activities {
            perform(&api).await;
        }
    }
    let names = api.names("w").await;
    assert_eq!(names.iter().filter(|name| *name == "ActivityScheduled").count(), 2, "{names:?}");
    assert_eq!(names.last().unwrap(), "WorkflowSuccess");
}

#[tokio::test]
async fn a_decider_that_repeats_an_activity_is_warned() {
    let api = Api::open().await;
    api.start("w").await;
    let mut warnings = Vec::new();
    for _ in 0..4 {
        let turn = api.turn().await;
        let said = complete(&api, &turn, naive(&turn)).await;
        warnings.push(said["warnings"].as_array().cloned().unwrap_or_default());
        perform(&api).await;
    }
    // Charge, ship, then charge again, because the window has only the newest step.
    assert!(warnings[0].is_empty() && warnings[1].is_empty(), "{warnings:?}");
    let [warning] = &warnings[2][..] else { panic!("{warnings:?}") };
    let scheduled: Vec<Value> =
        history(&api, "w").await.into_iter().filter(|event| event["type"] == "ActivityScheduled").collect();
    assert_eq!(warning["code"], "activity-repeated");
    assert_eq!((&warning["activityId"], &warning["eventId"]), (&json!("charge"), &scheduled[2]["id"]));
    let [detail, advice] = ["detail", "advice"].map(|member| warning[member].as_str().unwrap());
    assert!(detail.contains("`charge`") && advice.contains("\"history\": \"full\""), "{warning}");
    assert_eq!(warnings[3][0]["activityId"], "ship", "each time");
    let run = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!(run["repeating"], json!({ "times": 2, "eventId": scheduled[3]["id"], "activityId": "ship" }));
    let listed = api.get(&format!("{WORKFLOWS}?status=repeating")).await.json(200);
    assert_eq!(
        (&listed["workflows"][0]["workflowId"], &listed["workflows"][0]["repeating"]),
        (&json!("w"), &json!(true))
    );
    assert!(api.get("/metrics").await.text.contains("baton_runs_repeating{domain=\"default\"} 1"));
}

#[tokio::test]
async fn legitimate_repetitions_of_an_activity_have_no_warning() {
    let api = Api::open().await;
    api.start("w").await;
    let item = |n: u64| {
        let mut decision = schedule("item", "acts");
        decision["input"] = json!(n);
        json!([decision])
    };
    // A loop over items, a failure that an operator retries, and a timer that is set again.
    for n in 0..3 {
        let turn = api.turn().await;
        assert_eq!(complete(&api, &turn, item(n)).await, json!({}));
        perform(&api).await;
    }
    let turn = api.turn().await;
    assert_eq!(complete(&api, &turn, json!([schedule("fails", "acts")])).await, json!({}));
    let task = api.take_activity("acts").await;
    api.post(&format!("{}/failure", activity_path(&task)), &json!({ "reason": "declined" })).await.json(200);
    let turn = api.turn().await;
    let decisions = json!([schedule("fails", "acts"), { "type": "StartTimer", "timerId": "t", "after": 0 }]);
    assert_eq!(complete(&api, &turn, decisions).await, json!({}));
    let turn = api.turn().await;
    let timer = json!([{ "type": "StartTimer", "timerId": "t", "after": 0 }]);
    assert_eq!(complete(&api, &turn, timer).await, json!({}));
    assert!(api.get(&format!("{WORKFLOWS}/w")).await.json(200).get("repeating").is_none());
    // A run that continues as new may begin with the same activity. A run that is reset has its earlier activities in
    // its history.
    let turn = api.turn().await;
    assert_eq!(complete(&api, &turn, json!([{ "type": "ContinueAsNew" }])).await, json!({}));
    let turn = api.turn().await;
    assert_eq!(complete(&api, &turn, item(0)).await, json!({}));
    perform(&api).await;
    let before = api.turn().await;
    assert_eq!(complete(&api, &before, json!([])).await, json!({}));
    let completed = history(&api, "w").await.last().unwrap()["id"].clone();
    let reset = api.post(&format!("{WORKFLOWS}/w/reset"), &json!({ "eventId": completed })).await;
    assert!(reset.status.is_success(), "{}", reset.text);
    let turn = api.turn().await;
    assert_ne!(turn["runId"], before["runId"]);
    let said = complete(&api, &turn, item(0)).await;
    assert_eq!(said["warnings"][0]["activityId"], "item", "its history has the success");
}

#[tokio::test]
async fn warnings_come_in_receipts_and_with_the_next_task() {
    let api = Api::open().await;
    with_steps(&api, "a", 1).await;
    with_steps(&api, "b", 0).await;
    let polled = api.ask(Ask::post(EXCHANGE, &json!({ "maxTasks": 2 })).header("prefer", "wait=0")).await.json(200);
    let token = |at: usize| polled["tasks"][at]["task"]["token"].clone();
    let complete = json!({ "decisions": [schedule("s0", "acts")] });
    let answers = json!([{ "token": token(0), "complete": complete }, { "token": token(1), "complete": complete }]);
    let said = api.ask(Ask::post(EXCHANGE, &json!({ "answers": answers })).header("prefer", "wait=0")).await.json(200);
    let told: Vec<_> =
        said["receipts"].as_array().unwrap().iter().map(|it| it["warnings"][0]["code"].clone()).collect();
    let expected = if polled["tasks"][0]["task"]["workflowId"] == "a" { [0, 1] } else { [1, 0] };
    assert_eq!((&told[expected[0]], &told[expected[1]]), (&json!("activity-repeated"), &Value::Null), "{said}");
}

#[tokio::test]
async fn a_full_history_comes_in_pages_up_to_the_turns_start() {
    let api = Api::open().await;
    with_steps(&api, "w", 3).await;
    for most in [1, 2, 5, 1_000] {
        let turn = turn_with(&api, json!({ "history": "full", "maxEvents": most })).await;
        assert_eq!(turn["events"][0]["id"], 1);
        assert!(turn["events"].as_array().unwrap().len() <= most);
        let (events, pages) = all_pages(&api, &turn).await;
        assert_eq!(pages > 1, most < 1_000, "{turn}");
        assert_eq!(json!(events), json!(history(&api, "w").await), "as the history has them");
        assert_eq!(events.last().unwrap()["id"], turn["startedEventId"]);
        // Later events are not part of it.
        api.post(&format!("{WORKFLOWS}/w/signals/news"), &json!({})).await.json(202);
        assert_eq!(all_pages(&api, &turn).await.0.len(), events.len());
        let fail = json!({ "reason": "NameError", "details": "x is not defined" });
        api.post(&format!("{}/fail", turn_path(&turn)), &fail).await.json(200);
        api.clock.advance(history::Duration::from_secs(60));
    }
    // The window is the default, and can be requested by name.
    let window = turn_with(&api, json!({ "history": "window" })).await;
    assert_eq!(window["events"][0]["id"], window["previousStartedEventId"]);
    assert!(window.get("next").is_none());
    let refused = api.ask(Ask::post(DECIDERS, &json!({ "history": "all" }))).await.problem(400, "bad-json");
    assert!(refused["detail"].as_str().unwrap().contains("`window` or `full`"), "{refused}");
}

#[tokio::test]
async fn every_page_size_has_the_context_of_the_last_turn() {
    let api = Api::open().await;
    api.start("w").await;
    let turn = api.turn().await;
    let complete = json!({ "context": { "step": 1 } });
    api.post(&format!("{}/complete", turn_path(&turn)), &complete).await.json(200);
    for most in [1, 4, 5, 1_000] {
        api.post(&format!("{WORKFLOWS}/w/signals/news"), &json!({})).await.json(202);
        let turn = turn_with(&api, json!({ "history": "full", "maxEvents": most })).await;
        assert_eq!(turn["context"], json!({ "step": 1 }), "{most}");
        api.post(&format!("{}/complete", turn_path(&turn)), &complete).await.json(200);
    }
}

#[tokio::test]
async fn exchanges_deliver_the_full_history() {
    let api = Api::open().await;
    for (id, accept) in [("a", "application/json"), ("b", "application/x-ndjson")] {
        with_steps(&api, id, 1).await;
        let ask = json!({ "maxTasks": 1, "history": "full" });
        let ask = Ask::post(EXCHANGE, &ask).header("prefer", "wait=5").header("accept", accept);
        let answer = crate::support::Answer::read(api.call(ask).await).await;
        let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let task = lines.iter().find_map(|line| line["tasks"][0].get("task")).unwrap();
        assert_eq!(task["workflowId"], id);
        assert_eq!(task["events"], json!(history(&api, id).await), "{accept}");
        complete(&api, task, json!([{ "type": "SucceedWorkflow" }])).await;
    }
}

#[tokio::test]
async fn an_end_event_has_the_activitys_id() {
    let api = Api::open().await;
    api.start("w").await;
    api.decide(json!([schedule("long", "acts"), schedule("short", "other")])).await;
    let long = api.take_activity("acts").await;
    // Two turns later the ActivityScheduled is before the window.
    for _ in 0..2 {
        api.post(&format!("{WORKFLOWS}/w/signals/news"), &json!({})).await.json(202);
        api.decide(json!([])).await;
    }
    api.post(&format!("{}/failure", activity_path(&long)), &json!({ "reason": "declined" })).await.json(200);
    let turn = api.turn().await;
    let failed = turn["events"].as_array().unwrap().iter().find(|it| it["type"] == "ActivityFailed").unwrap().clone();
    assert!(!ids(&turn).contains(&failed["scheduledEventId"].as_u64().unwrap()), "it is before the window: {turn}");
    assert_eq!(failed["activityId"], "long");
    // The same in a page of the turn's history, in a page of the run's history, and in a stream.
    let after = failed["id"].as_u64().unwrap() - 1;
    let page = api.get(&format!("{}/history?after={after}&limit=1", turn_path(&turn))).await.json(200);
    assert_eq!(page["events"], json!([failed]));
    let page = api.get(&format!("{WORKFLOWS}/w/history?after={after}&limit=1&reverse=false")).await.json(200);
    assert_eq!(page["events"], json!([failed]));
    complete(&api, &turn, json!([{ "type": "CancelActivity", "activityId": "short" }, { "type": "SucceedWorkflow" }]))
        .await;
    for event in history(&api, "w").await {
        let refers = event["type"].as_str().unwrap().starts_with("Activity");
        assert_eq!(event["activityId"].is_string(), refers, "{event}");
    }
    let stream = Ask::get(&format!("{WORKFLOWS}/w/history?after={after}")).header("accept", "text/event-stream");
    let streamed = crate::support::Answer::read(api.call(stream).await).await.text;
    assert!(streamed.contains(&failed.to_string()) || streamed.contains("\"activityId\":\"long\""), "{streamed}");
}

#[tokio::test]
async fn a_token_of_the_other_kind_of_task_is_refused_with_advice() {
    let api = Api::open().await;
    let task = api.activity("w").await;
    api.post(&format!("{WORKFLOWS}/w/signals/go"), &json!({})).await.json(202);
    let turn = api.turn().await;
    let (turn_token, activity_token) = (turn["token"].as_str().unwrap(), task["token"].as_str().unwrap());
    for (call, body) in [
        ("success", json!({})),
        ("failure", json!({ "reason": "r" })),
        ("canceled", json!({})),
        ("heartbeat", json!({})),
    ] {
        let ask = Ask::post(&format!("/v1/activity-tasks/{turn_token}/{call}"), &body);
        let problem = api.refused(ask, 400, "bad-token").await;
        assert_eq!(problem["detail"], "the token belongs to a decider task, expected an activity task");
        assert!(problem["advice"].as_str().unwrap().contains("/v1/decider-tasks/{token}/complete"), "{problem}");
    }
    for call in ["complete", "fail"] {
        let ask = Ask::post(&format!("/v1/decider-tasks/{activity_token}/{call}"), &json!({}));
        let problem = api.refused(ask, 400, "bad-token").await;
        assert_eq!(problem["detail"], "the token belongs to an activity task, expected a decider task");
        assert!(problem["advice"].as_str().unwrap().contains("/v1/activity-tasks/{token}/success"), "{problem}");
    }
    // The same in receipts of exchanges.
    let answers = json!({ "answers": [{ "token": turn_token, "success": {} }] });
    let said = api.ask(Ask::post(ACTIVITY_EXCHANGE, &answers).header("prefer", "wait=0")).await.json(200);
    assert_eq!(
        said["receipts"][0]["problem"]["detail"],
        "the token belongs to a decider task, expected an activity task"
    );
    let answers = json!({ "answers": [{ "token": activity_token, "complete": {} }] });
    let said = api.ask(Ask::post(EXCHANGE, &answers).header("prefer", "wait=0")).await.json(200);
    assert_eq!(
        said["receipts"][0]["problem"]["detail"],
        "the token belongs to an activity task, expected a decider task"
    );
}

/// Answers a turn with these members, and returns the response.
async fn answer(api: &Api, turn: &Value, answer: Value) -> crate::support::Answer {
    api.post(&format!("{}/complete", turn_path(turn)), &answer).await
}

/// Polls a turn of this list; `None` if none waits.
async fn turn_of(api: &Api, list: &str) -> Option<Value> {
    let poll = Ask::post(&format!("/v1/domains/default/task-lists/{list}/decider/poll"), &json!({}));
    let answer = api.ask(poll.header("prefer", "wait=0")).await;
    (answer.status.as_u16() == 200).then(|| answer.json(200))
}

async fn signal_w(api: &Api) {
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
}

#[tokio::test]
async fn an_answer_moves_later_turns_to_another_list() {
    let api = Api::open().await;
    api.start("w").await;
    let first = api.turn().await;
    // A turn that is already scheduled stays on its list.
    signal_w(&api).await;
    answer(&api, &first, json!({ "taskList": "here" })).await.json(200);
    let second = api.turn().await;
    answer(&api, &second, json!({})).await.json(200);
    signal_w(&api).await;
    assert!(turn_of(&api, "deciders").await.is_none());
    let third = turn_of(&api, "here").await.unwrap();
    assert_eq!(third["taskList"], "here");
    let described = api.get(&format!("{WORKFLOWS}/w")).await.json(200);
    assert_eq!(described["taskList"], "here");
    // Back by an exchange.
    let path = "/v1/domains/default/task-lists/here/decider/exchange";
    let reply = json!({ "token": third["token"], "complete": { "taskList": "deciders" } });
    let exchange = Ask::post(path, &json!({ "answers": [reply], "maxTasks": 0 })).header("prefer", "wait=0");
    assert_eq!(api.ask(exchange).await.json(200)["receipts"], json!([{}]));
    signal_w(&api).await;
    assert!(turn_of(&api, "here").await.is_none());
    assert!(turn_of(&api, "deciders").await.is_some());
}

#[tokio::test]
async fn turns_return_to_the_previous_list_if_one_waits_too_long() {
    let api = Api::open().await;
    api.start("w").await;
    let moves = json!({ "taskList": "here", "taskListScheduleToStart": "PT5S" });
    answer(&api, &api.turn().await, moves).await.json(200);
    signal_w(&api).await;
    api.clock.advance(history::Duration::from_secs(5));
    let turn = api.turn().await;
    assert_eq!((&turn["taskList"], &turn["attempt"]), (&json!("deciders"), &json!(2)));
    assert!(turn_of(&api, "here").await.is_none());
}

#[tokio::test]
async fn an_invalid_move_of_turns_is_refused_whole() {
    let api = Api::open().await;
    api.start("w").await;
    let path = format!("{}/complete", turn_path(&api.turn().await));
    for (moves, field) in [
        (json!({ "taskList": "" }), "taskList"),
        (json!({ "taskListScheduleToStart": "PT5S" }), "taskListScheduleToStart"),
    ] {
        let mut body = json!({ "decisions": [{ "type": "SucceedWorkflow" }] });
        body.as_object_mut().unwrap().extend(moves.as_object().unwrap().clone());
        let problem = api.refused(Ask::post(&path, &body), 400, "invalid-field").await;
        assert_eq!(problem["field"], field, "{problem}");
    }
    api.refused(Ask::post(&path, &json!({ "taskList": "x".repeat(257) })), 413, "too-large").await;
    api.post(&path, &json!({ "taskList": "x".repeat(256) })).await.json(200);
}
