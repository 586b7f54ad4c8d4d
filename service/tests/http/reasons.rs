//! The reasons of closed runs: in lists and descriptions, and as a filter of lists and counts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Api, COUNT, WORKFLOWS};

/// The list row and the description of the newest run of a workflow id.
async fn shown(api: &Api, id: &str) -> [Value; 2] {
    let described = api.get(&format!("{WORKFLOWS}/{id}")).await.json(200);
    let page = api.get(&format!("{WORKFLOWS}?workflowId={id}")).await.json(200);
    let row = page["workflows"].as_array().unwrap().iter().find(|row| row["runId"] == described["runId"]);
    [row.unwrap().clone(), described]
}

async fn ids(api: &Api, filter: &str) -> Vec<String> {
    let page = api.get(&format!("{WORKFLOWS}?order=startedAt&{filter}")).await.json(200);
    let count = api.get(&format!("{COUNT}?{filter}")).await.json(200);
    let rows = page["workflows"].as_array().unwrap();
    assert_eq!(count["count"], json!(rows.len()), "{filter}");
    rows.iter().map(|row| row["workflowId"].as_str().unwrap().to_owned()).collect()
}

/// Checks the list row and the description of a closed run.
async fn shows(api: &Api, id: &str, status: &str, reason: Option<&str>, details_line: Option<&str>) {
    for shown in shown(api, id).await {
        assert_eq!(shown["status"], status, "{shown}");
        assert_eq!(shown.get("reason").and_then(Value::as_str), reason, "{shown}");
        assert_eq!(shown.get("detailsLine").and_then(Value::as_str), details_line, "{shown}");
    }
}

async fn close(api: &Api, id: &str, decision: Value) {
    api.start(id).await;
    api.decide(json!([decision])).await;
    api.clock.advance(history::Duration::from_secs(1));
}

async fn fail(api: &Api, id: &str, reason: &str, details: Value) {
    close(api, id, json!({ "type": "FailWorkflow", "reason": reason, "details": details })).await;
}

#[tokio::test]
async fn closed_runs_show_their_reason_and_line_of_details() {
    let api = Api::open().await;
    fail(&api, "failed", "declined", json!("card 7\nat line 3")).await;
    shows(&api, "failed", "failed", Some("declined"), Some("card 7")).await;
    fail(&api, "object", "declined", json!({ "card": 7, "shop": "a b" })).await;
    shows(&api, "object", "failed", Some("declined"), Some(r#"{"card":7,"shop":"a b"}"#)).await;
    let (longest, large) = ("漢".repeat(256), "x".repeat(200_000));
    fail(&api, "large", &longest, json!(large)).await;
    let line = format!("{}…", &large[..119]);
    shows(&api, "large", "failed", Some(&longest), Some(&line)).await;
    close(&api, "canceled", json!({ "type": "CancelWorkflow", "details": "undone" })).await;
    shows(&api, "canceled", "canceled", None, Some("undone")).await;
    close(&api, "done", json!({ "type": "SucceedWorkflow", "result": "42" })).await;
    shows(&api, "done", "success", None, None).await;
    api.start("open").await;
    shows(&api, "open", "open", None, None).await;
    let end = json!({ "reason": "duplicate", "details": ["first", "second"] });
    api.post(&format!("{WORKFLOWS}/open/terminate"), &end).await.json(200);
    shows(&api, "open", "terminated", Some("duplicate"), Some(r#"["first","second"]"#)).await;
    let late = json!({ "workflowId": "late", "workflowType": "t", "runTimeout": 60 });
    api.post(WORKFLOWS, &late).await.json(201);
    api.clock.advance(history::Duration::from_secs(61));
    api.get(&format!("{WORKFLOWS}/late/result")).await;
    let timed_out = async {
        while shown(&api, "late").await[0]["status"] != "timed-out" {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, timed_out).await.expect("it times out");
    shows(&api, "late", "timed-out", Some("run timeout"), None).await;
}

#[tokio::test]
async fn reason_filters_lists_and_counts_by_its_whole_text() {
    let api = Api::open().await;
    for (id, reason) in [("a", "declined"), ("b", "card \"7\" & co"), ("c", "declined"), ("d", "Declined")] {
        fail(&api, id, reason, json!("declined")).await;
    }
    close(&api, "e", json!({ "type": "SucceedWorkflow" })).await;
    api.start("f").await;
    assert_eq!(ids(&api, "reason=declined").await, ["a", "c"]);
    assert_eq!(ids(&api, "reason=card%20%227%22%20%26%20co").await, ["b"]);
    assert_eq!(ids(&api, "reason=decline").await, [""; 0]);
    assert_eq!(ids(&api, "reason=").await, [""; 0]);
    assert_eq!(ids(&api, "reason=declined&workflowId=c").await, ["c"]);
    assert_eq!(ids(&api, "reason=declined&status=terminated").await, [""; 0]);
    assert_eq!(ids(&api, "reason=declined&status=failed&type=test").await, ["a", "c"]);
    let mut found = Vec::new();
    let mut next = String::new();
    loop {
        let page = api.get(&format!("{WORKFLOWS}?reason=declined&limit=1{next}")).await.json(200);
        found.extend(page["workflows"].as_array().unwrap().iter().map(|row| row["workflowId"].clone()));
        let Some(token) = page.get("nextPage").and_then(Value::as_str) else { break };
        next = format!("&page={token}");
    }
    assert_eq!(found, ["c", "a"]);
}

#[tokio::test]
async fn each_attempt_and_failed_child_has_a_separate_reason() {
    let api = Api::open().await;
    let retry = json!({ "initialInterval": 1, "maximumAttempts": 2 });
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders", "retry": retry });
    let first = api.post(WORKFLOWS, &start).await.json(201)["runId"].clone();
    let fail = |reason: &str| json!([{ "type": "FailWorkflow", "reason": reason, "details": reason }]);
    api.decide(fail("first")).await;
    api.clock.advance(history::Duration::from_secs(10));
    api.decide(fail("second")).await;
    let page = api.get(&format!("{WORKFLOWS}?workflowId=w")).await.json(200);
    let rows: BTreeMap<_, _> =
        page["workflows"].as_array().unwrap().iter().map(|row| (row["runId"].as_str(), &row["reason"])).collect();
    assert_eq!((rows.len(), rows[&first.as_str()]), (2, &json!("first")), "{page}");
    shows(&api, "w", "failed", Some("second"), Some("second")).await;
    let earlier = format!("{WORKFLOWS}/w?runId={}", first.as_str().unwrap());
    let earlier = api.get(&earlier).await.json(200);
    assert_eq!((&earlier["reason"], &earlier["detailsLine"]), (&json!("first"), &json!("first")));

    api.start("parent").await;
    let child = json!({ "type": "StartChild", "workflowId": "child", "workflowType": "t", "taskList": "deciders" });
    api.decide(json!([child])).await;
    api.decide(fail("broken")).await;
    shows(&api, "child", "failed", Some("broken"), Some("broken")).await;
    assert!(api.get(&format!("{WORKFLOWS}/parent")).await.json(200).get("reason").is_none());
}

#[tokio::test]
async fn reason_stays_in_the_row_after_later_commits() {
    let api = Api::open().await;
    fail(&api, "w", "declined", json!("card 7")).await;
    // The reset of a closed run is another commit of it.
    api.post(&format!("{WORKFLOWS}/w/reset"), &json!({ "eventId": 2, "reason": "again" })).await.json(201);
    let page = api.get(&format!("{WORKFLOWS}?reason=declined")).await.json(200);
    assert_eq!(page["workflows"][0]["detailsLine"], "card 7", "{page}");
    assert_eq!(page["workflows"].as_array().unwrap().len(), 1);
    assert!(api.get(&format!("{WORKFLOWS}/w")).await.json(200).get("reason").is_none(), "the new run is open");
}
