//! Closed runs that are exported from one service and imported into another.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Ask, COUNT, WORKFLOWS};

/// Path of imports.
const IMPORTED: &str = "/v1/domains/default/imported-runs";

/// The text between the brackets of a page's events: the whole history of a run, byte for byte.
async fn events(api: &Api, id: &str, run_id: &str) -> String {
    let page = api.get(&format!("{WORKFLOWS}/{id}/history?runId={run_id}")).await;
    assert_eq!(page.json(200)["next"], Value::Null, "one page");
    let (_, events) = page.text.split_once(r#"{"events":["#).unwrap();
    events.rsplit_once("],").unwrap().0.to_owned()
}

fn import(events: &str) -> Ask {
    Ask::text(IMPORTED, &format!(r#"{{"events":[{events}]}}"#))
}

/// Imports a run and checks that it is unchanged.
async fn moved(from: &Api, to: &Api, id: &str, run_id: &str) {
    let history = events(from, id, run_id).await;
    let answer = to.ask(import(&history)).await.json(201);
    assert_eq!(answer, json!({ "workflowId": id, "runId": run_id, "repeated": false }));
    assert_eq!(events(to, id, run_id).await, history);
    let at = format!("{WORKFLOWS}/{id}?runId={run_id}");
    assert_eq!(to.get(&at).await.text, from.get(&at).await.text);
    assert_consistent(to).await;
}

async fn assert_consistent(api: &Api) {
    let report = api.engine.views().fsck("default", |_| {}).await.unwrap();
    assert_eq!((report.findings, report.miscounted), (vec![], None));
}

async fn newest(api: &Api, id: &str) -> Value {
    api.get(&format!("{WORKFLOWS}/{id}")).await.json(200)["runId"].clone()
}

/// Another service, whose run ids differ.
async fn another() -> Api {
    let api = Api::open().await;
    for _ in 0..9 {
        api.start("own").await;
        api.post(&format!("{WORKFLOWS}/own/terminate"), &json!({})).await.json(200);
    }
    api
}

/// Starts and completes another run of `w`.
async fn ended(api: &Api) -> String {
    let start = json!({ "workflowId": "w", "workflowType": "test", "taskList": "deciders",
                        "reusePolicy": "allow-duplicate" });
    let started = api.post(WORKFLOWS, &start).await.json(201);
    api.decide(json!([{ "type": "SucceedWorkflow", "result": { "n": 1 } }])).await;
    started["runId"].as_str().unwrap().to_owned()
}

async fn listed(api: &Api, query: &str) -> Vec<String> {
    let page = api.get(&format!("{WORKFLOWS}?{query}")).await.json(200);
    let ids = page["workflows"].as_array().unwrap().iter().map(|run| run["runId"].as_str().unwrap().to_owned());
    ids.collect()
}

#[tokio::test]
async fn an_imported_run_is_complete_and_identical_to_the_byte() {
    let (from, to) = (Api::open().await, another().await);
    let large = "x".repeat(200_000);
    let start = json!({ "workflowId": "w", "workflowType": "order", "taskList": "deciders", "tags": ["eu", "vip"],
                        "input": large });
    let key = |ask: Ask| ask.header("idempotency-key", "k");
    let begun = from.ask(key(Ask::post(WORKFLOWS, &start))).await.json(201);
    let run_id = begun["runId"].as_str().unwrap();
    for number in 0..200 {
        let input = json!({ "input": { "number": number, "text": "ü\u{2028}\u{1b}".repeat(30) } });
        from.ask(Ask::post(&format!("{WORKFLOWS}/w/signals/s"), &input).header("idempotency-key", &number.to_string()))
            .await
            .json(202);
    }
    from.decide(
        json!([{ "type": "SucceedWorkflow", "result": { "total": 1.50, "big": 12_345_678_901_234_567_890_u64 } }]),
    )
    .await;
    moved(&from, &to, "w", run_id).await;
    for query in
        ["status=success", "type=order", "tag=vip", "workflowId=w", "closedFrom=2001-01-01T00:00:00Z&type=order"]
    {
        assert_eq!(listed(&to, query).await, [run_id], "{query}");
        let count = to.get(&format!("{COUNT}?{query}")).await.json(200);
        assert_eq!(count["count"], json!(1), "{query}");
    }
    for page in ["history?after=100&limit=7", "history?reverse=true&limit=50", "history?before=9", "result"] {
        let path = format!("{WORKFLOWS}/w/{page}");
        assert_eq!(to.get(&path).await.text, from.get(&path).await.text, "{page}");
    }
    assert_eq!(newest(&to, "w").await, json!(run_id));
    // Repeating its start with the same key returns the run.
    assert_eq!(to.ask(key(Ask::post(WORKFLOWS, &start))).await.json(200)["runId"], json!(run_id));
    // A repeated import changes nothing.
    let before = to.everything().await;
    let history = events(&from, "w", run_id).await;
    assert_eq!(to.ask(import(&history)).await.json(200)["repeated"], json!(true));
    assert_eq!(to.everything().await, before);
    to.refused(Ask::post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})), 409, "run-closed").await;
    // The workflow id can be used again, and the run can be deleted.
    let mut again = start;
    again["workflowType"] = json!("again");
    again["reusePolicy"] = json!("allow-duplicate");
    to.post(WORKFLOWS, &again).await.json(201);
    assert_eq!(events(&to, "w", run_id).await, history);
    assert_consistent(&to).await;
    let delete = Ask::new("DELETE", &format!("{WORKFLOWS}/w?runId={run_id}"));
    assert_eq!(to.ask(delete).await.json(200), json!({ "runs": 1 }));
    assert_consistent(&to).await;
    moved(&from, &to, "w", run_id).await;
}

#[tokio::test]
async fn imported_runs_of_a_workflow_id_are_ordered_by_start() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
        let (from, to) = (Api::open().await, another().await);
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(ended(&from).await);
            from.clock.advance(history::Duration::from_secs(60));
        }
        let mut seen = 0;
        for index in order {
            moved(&from, &to, "w", &ids[index]).await;
            seen = seen.max(index);
            assert_eq!(newest(&to, "w").await, json!(ids[seen]), "{order:?}");
        }
        assert_eq!(listed(&to, "workflowId=w").await, [&*ids[2], &ids[1], &ids[0]]);
    }
}

/// Polls of a list for turns.
const TURNS: &str = "/v1/domains/default/task-lists/deciders/decider/poll";

/// A response that is not checked against the document, because that check cannot read unpaired surrogates.
async fn unheld(api: &Api, ask: Ask) -> Answer {
    Answer::read(api.call(ask).await).await
}

/// A payload whose text must not change on any part of its way.
const ODD: &str =
    "{\r\n\t\"a\" : [ 1.0,-0,\n9007199254740993 , 1e2 ],\"a\":\"\\ud800 \\n \\u00e9 \u{e9} \\/\",\"\\udc00\":1}";

#[tokio::test]
async fn an_import_is_compared_as_json_and_keeps_payload_text() {
    let (from, to) = (Api::open().await, another().await);
    let run_id = from.start("w").await;
    let signal = Ask::text(&format!("{WORKFLOWS}/w/signals/s"), &format!(r#"{{"input":{ODD}}}"#));
    unheld(&from, signal).await.json(202);
    let turn = unheld(&from, Ask::post(TURNS, &json!({}))).await;
    let (_, token) = turn.text.split_once(r#""token":""#).unwrap();
    let (token, _) = token.split_once('"').unwrap();
    let complete = json!({ "decisions": [{ "type": "SucceedWorkflow" }] });
    from.post(&format!("/v1/decider-tasks/{token}/complete"), &complete).await.json(200);
    let events = async |api: &Api| {
        let page = unheld(api, Ask::get(&format!("{WORKFLOWS}/w/history?runId={run_id}"))).await;
        let (_, events) = page.text.split_once(r#"{"events":["#).unwrap();
        events.rsplit_once("],").unwrap().0.to_owned()
    };
    let history = events(&from).await;
    assert!(history.contains(ODD), "{history}");
    unheld(&to, import(&history)).await.json(201);
    assert_eq!(events(&to).await, history);
    // Other white space around payloads and in them, other escapes, another order of members.
    let spaced = history.replace("\":", "\" :\n ").replace("[ 1.0,-0", "[1.0 , -0");
    let escaped = history.replace('\u{e9}', "\\u00E9").replace("\\ud800", "\\uD800");
    let ordered = history.replace(r#""type":"Signal","name":"s","#, r#""name":"s","type":"Signal","#);
    for same in [&history, &spaced, &escaped, &ordered] {
        assert_eq!(unheld(&to, import(same)).await.json(200)["repeated"], json!(true), "{same}");
    }
    assert_eq!(events(&to).await, history, "the first recorded text is kept");
    // Imported with other white space, a payload keeps it.
    let third = another().await;
    unheld(&third, import(&spaced)).await.json(201);
    assert_eq!(unheld(&third, import(&history)).await.json(200)["repeated"], json!(true));
    for (one, other) in [
        ("1.0,", "1,"),
        ("-0", "0"),
        ("9007199254740993", "9007199254740992"),
        ("1e2", "100"),
        ("\\ud800", "\\ud801"),
        ("\\ud800", "\u{fffd}"),
        ("\"\\udc00\":1}", "\"\\udc00\":1,\"b\":1}"),
    ] {
        assert!(history.contains(one), "{one}");
        unheld(&to, import(&history.replacen(one, other, 1))).await.problem(409, "history-mismatch");
    }
}

#[tokio::test]
async fn an_open_run_stays_the_newest_after_an_import() {
    let (from, to) = (Api::open().await, another().await);
    let run_id = from.succeeded("w").await;
    let open = to.start("w").await;
    moved(&from, &to, "w", &run_id).await;
    assert_eq!(newest(&to, "w").await, json!(open));
    to.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    assert_eq!(listed(&to, "workflowId=w&status=success").await.len(), 2);
    assert_consistent(&to).await;
}

#[tokio::test]
async fn an_imported_run_does_not_continue_as_new() {
    let (from, to) = (Api::open().await, another().await);
    let first = from.start("w").await;
    from.decide(json!([{ "type": "ContinueAsNew" }])).await;
    let second = newest(&from, "w").await.as_str().unwrap().to_owned();
    moved(&from, &to, "w", &first).await;
    to.clock.advance(history::Duration::from_days(1));
    assert_eq!(listed(&to, "workflowId=w").await, [&*first]);
    to.get(&format!("{WORKFLOWS}/w")).await.problem(404, "unknown-workflow");
    from.decide(json!([{ "type": "SucceedWorkflow" }])).await;
    moved(&from, &to, "w", &second).await;
    assert_eq!((newest(&to, "w").await, listed(&to, "workflowId=w").await.len()), (json!(second), 2));
    let old = format!("{WORKFLOWS}/w/result?runId={first}");
    assert_eq!(to.get(&old).await.json(200)["continuedAs"], json!(second));
}

#[tokio::test]
async fn an_import_with_a_different_history_is_refused() {
    let (from, to) = (Api::open().await, another().await);
    let run_id = from.succeeded("w").await;
    moved(&from, &to, "w", &run_id).await;
    let other = events(&from, "w", &run_id).await.replace(r#""n":1"#, r#""n":2"#);
    let problem = to.refused(import(&other), 409, "history-mismatch").await;
    assert_eq!(problem["runId"], json!(run_id));
    // Also for a run that is not the newest.
    ended(&to).await;
    to.refused(import(&other), 409, "history-mismatch").await;
    // Also for an open run.
    let open = from.start("v").await;
    let before = events(&from, "v", &open).await;
    from.post(&format!("{WORKFLOWS}/v/terminate"), &json!({})).await.json(200);
    let closed = events(&from, "v", &open).await;
    assert!(closed.starts_with(&before));
    assert_eq!(from.ask(import(&closed)).await.json(200)["repeated"], json!(true), "its own service has it already");
}

#[tokio::test]
async fn an_invalid_history_is_refused_with_the_reason() {
    let (from, to) = (Api::open().await, another().await);
    let run_id = from.succeeded("w").await;
    let history = events(&from, "w", &run_id).await;
    let all: Vec<_> = history.split(",{\"id\":").map(str::to_owned).collect();
    let joined = |events: &[String]| events.join(",{\"id\":");
    let refused = async |events: &str| {
        let problem = to.refused(import(events), 400, "bad-history").await;
        problem["detail"].as_str().unwrap().to_owned()
    };
    assert!(refused("").await.contains("there are no events"));
    let said = refused(&joined(&all[..4])).await;
    assert!(said.contains("the run is open") && said.contains("only closed runs"), "{said}");
    let said = refused(&joined(&[&all[..2], &all[3..]].concat())).await;
    assert!(said.contains("ids are 1, 2, 3, … without gaps"), "{said}");
    let said = refused(&format!("{{\"id\":{}", all[1])).await;
    assert!(said.contains("event 2"), "{said}");
    let said = refused(&history.replace("SucceedWorkflow", "x").replace("WorkflowSuccess", "WorkflowTriumph")).await;
    assert!(said.contains("cannot be read") && said.contains("WorkflowTriumph"), "{said}");
    let said = refused(&history.replace(r#""type":"DeciderStarted""#, r#""type":"DeciderStarted","later":1"#)).await;
    assert!(said.contains("event 3 would be changed by the import") && said.contains("`later`"), "{said}");
    let said = refused(&history.replace(r#""timestamp":"2"#, r#""timestamp":"3"#)).await;
    assert!(said.contains("the clock of this service shows"), "{said}");
    let elsewhere = Ask::text("/v1/domains/nowhere/imported-runs", &format!(r#"{{"events":[{history}]}}"#));
    to.refused(elsewhere, 404, "unknown-domain").await;
    to.refused(Ask::text(IMPORTED, r#"{"events":1}"#), 400, "bad-json").await;
    to.refused(Ask::text(IMPORTED, r#"{"run":[]}"#), 400, "bad-json").await;
    let large = vec![b' '; history::limits::IMPORTED_BYTES_MAX + 1];
    let large = Ask::new("POST", IMPORTED).header("content-type", "application/json").body(large);
    to.refused(large, 413, "too-large").await;
}

#[tokio::test]
async fn an_imported_run_is_kept_for_its_retention_at_least_a_week() {
    let (from, to) = (Api::open().await, another().await);
    let run_id = from.succeeded("w").await;
    to.clock.advance(history::Duration::from_days(1_000));
    moved(&from, &to, "w", &run_id).await;
    let forget =
        async |to: &Api| while to.engine.store().expire(to.engine.clock().now().as_millis(), 10).await.unwrap() > 0 {};
    to.clock.advance(history::Duration::from_days(6));
    forget(&to).await;
    assert_eq!(listed(&to, "workflowId=w").await.len(), 1);
    to.clock.advance(history::Duration::from_days(2));
    forget(&to).await;
    assert_eq!(listed(&to, "workflowId=w").await.len(), 0);
}
