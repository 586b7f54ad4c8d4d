//! Queries over REST: answers with entity tags, conditions, and invalid requests and answers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;

use crate::hash::sha256_hex;
use crate::support::{Answer, Api, Ask, DECIDERS, WORKFLOWS, turn_path};

impl Api {
    /// Sends a query and answers it. Returns the response and the task that carried the query.
    async fn query(&self, ask: Ask, say: impl Fn(&Value) -> Value) -> (Answer, Value) {
        let deciding = async {
            let task = self.task().await;
            let results: Vec<Value> = task["queries"].as_array().unwrap().iter().map(say).collect();
            let complete = json!({ "queryResults": results });
            self.post(&format!("{}/complete", turn_path(&task)), &complete).await.json(200);
            task
        };
        tokio::join!(self.ask(ask), deciding)
    }

    async fn task(&self) -> Value {
        let poll = Ask::post(DECIDERS, &json!({ "queries": true })).header("prefer", "wait=20");
        self.ask(poll).await.json(200)
    }

    /// Starts a run and completes its first turn.
    async fn idle(&self, id: &str) -> String {
        let run_id = self.start(id).await;
        self.decide(json!([{ "type": "StartTimer", "timerId": "t", "after": "P9D" }])).await;
        run_id
    }
}

fn total(id: &str) -> String {
    format!("{WORKFLOWS}/{id}/queries/total")
}

fn ask(path: &str) -> Ask {
    Ask::post(path, &json!({ "input": { "of": "cents" } }))
}

fn seven(query: &Value) -> Value {
    json!({ "id": query["id"], "result": 7 })
}

#[tokio::test]
async fn a_query_answer_has_a_tag_that_a_signal_accepts() {
    let api = Api::open().await;
    let run_id = api.idle("w").await;
    let (answer, task) = api.query(ask(&total("w")), seven).await;
    assert_eq!(answer.json(200), json!({ "runId": run_id, "version": 5, "result": 7 }));
    assert_eq!(task["queryOnly"], true);
    assert_eq!(task["queries"][0]["name"], "total");
    assert_eq!(task["queries"][0]["input"], json!({ "of": "cents" }));
    let tag = answer.header("etag").to_owned();
    assert!(tag.starts_with(&format!("\"{run_id}-5-")), "{tag}");
    let signal = || Ask::post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).header("if-match", &tag);
    api.ask(signal()).await.json(202);
    // The tag of this answer is outdated now, whoever sends it.
    api.refused(signal(), 412, "version-mismatch").await;
}

#[tokio::test]
async fn a_task_with_queries_only_moves_no_turns() {
    let api = Api::open().await;
    api.idle("w").await;
    let decider = async {
        let task = api.task().await;
        assert_eq!(task["queryOnly"], true);
        let path = format!("{}/complete", turn_path(&task));
        let problem = api.post(&path, &json!({ "taskList": "here" })).await.problem(400, "invalid-field");
        assert_eq!(problem["field"], "taskList");
        let answer = json!({ "queryResults": [seven(&task["queries"][0])] });
        api.post(&path, &answer).await.json(200);
    };
    let (answer, ()) = tokio::join!(api.ask(ask(&total("w"))), decider);
    assert_eq!(answer.json(200)["result"], 7);
}

#[tokio::test]
async fn tags_of_descriptions_and_results_name_the_version() {
    let api = Api::open().await;
    let run_id = api.idle("w").await;
    for path in ["w", "w/result"] {
        let answer = api.get(&format!("{WORKFLOWS}/{path}")).await;
        assert_eq!(answer.header("etag"), format!("\"{run_id}-5\""), "{path}");
    }
    let run_id = api.succeeded("done").await;
    for path in ["done", "done/result"] {
        let answer = api.get(&format!("{WORKFLOWS}/{path}")).await;
        assert_eq!(answer.header("etag"), format!("\"{run_id}-5\""), "{path}");
    }
}

#[tokio::test]
async fn an_error_of_the_decider_is_returned_to_the_caller() {
    let api = Api::open().await;
    api.idle("w").await;
    let unknown =
        |query: &Value| json!({ "id": query["id"], "error": { "reason": "unknown-query", "known": ["sum", "name"] } });
    let problem = api.query(ask(&total("w")), unknown).await.0.problem(404, "unknown-query");
    assert_eq!(problem["known"], json!(["sum", "name"]));
    let failed =
        |query: &Value| json!({ "id": query["id"], "error": { "reason": "overflow", "message": "too many cents" } });
    let problem = api.query(ask(&total("w")), failed).await.0.problem(422, "query-failed");
    assert_eq!((&problem["reason"], &problem["message"]), (&json!("overflow"), &json!("too many cents")));
    assert_eq!(problem["retryable"], false);
    assert_eq!(api.names("w").await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_query_fails_after_its_wait() {
    let api = Api::open().await;
    api.idle("w").await;
    let began = tokio::time::Instant::now();
    let answer = api.ask(ask(&total("w")).header("prefer", "wait=3")).await;
    let problem = answer.problem(504, "query-timed-out");
    assert_eq!((problem["retryable"].as_bool(), began.elapsed()), (Some(true), Duration::from_secs(3)));
    let began = tokio::time::Instant::now();
    api.ask(ask(&total("w"))).await.problem(504, "query-timed-out");
    assert_eq!(began.elapsed(), Duration::from_secs(10), "the default in docs/request-reply.md");
}

#[tokio::test(start_paused = true)]
async fn if_none_match_holds_a_query_until_its_result_changes() {
    let api = Api::open().await;
    api.idle("w").await;
    let tag = api.query(ask(&total("w")), seven).await.0.header("etag").to_owned();
    for watch in ["version", "result"] {
        let path = format!("{}?watch={watch}", total("w"));
        let held = ask(&path).header("if-none-match", &tag).header("prefer", "wait=5");
        let answer = api.ask(held).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (304, ""));
        assert_eq!(answer.header("preference-applied"), "wait=5");
        assert!(tag.starts_with(answer.header("etag").trim_end_matches('"')), "{tag}");
    }
    let path = format!("{}?watch=result", total("w"));
    let watching = api.ask(ask(&path).header("if-none-match", &format!("W/{tag}")));
    let news = async {
        for says in [7, 8] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
            let task = api.task().await;
            let result = json!([{ "id": task["queries"][0]["id"], "result": says }]);
            api.post(&format!("{}/complete", turn_path(&task)), &json!({ "queryResults": result })).await.json(200);
        }
    };
    let (answer, ()) = tokio::join!(watching, news);
    assert_eq!(answer.json(200)["result"], 8);
    // The default wait is a minute.
    let tag = answer.header("etag").to_owned();
    let began = tokio::time::Instant::now();
    let answer = api.ask_for(ask(&path).header("if-none-match", &tag), Duration::from_secs(90)).await;
    assert_eq!((answer.status.as_u16(), began.elapsed()), (304, Duration::from_secs(60)));
}

/// The hash of the result in a tag.
fn hash_of(answer: &Answer) -> String {
    answer.header("etag").trim_matches('"').rsplit('-').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_tag_does_not_reveal_a_result_without_payloads() {
    let api = Api::open().await;
    let watcher = Credential {
        name: "bare".to_owned(),
        secret_sha256: sha256_hex("bare"),
        readers_without_payloads: vec!["*".to_owned()],
        ..Credential::default()
    };
    let guarded = api.with(router_for(Arc::clone(&api.engine), Credentials::new(vec![watcher]).unwrap()));
    let bare =
        |path: &str, input: i32| Ask::post(path, &json!({ "input": input })).header("authorization", "Bearer bare");
    for id in ["v", "w"] {
        api.idle(id).await;
    }
    let salary = |id: &str| format!("{WORKFLOWS}/{id}/queries/salary");
    let answered = async |path: String, input: i32| {
        let deciding = async {
            let task = api.task().await;
            let results = json!([seven(&task["queries"][0])]);
            api.post(&format!("{}/complete", turn_path(&task)), &json!({ "queryResults": results })).await.json(200);
        };
        let (answer, ()) = tokio::join!(guarded.ask(bare(&path, input)), deciding);
        assert_eq!(answer.json(200).get("result"), None);
        hash_of(&answer)
    };
    let first = answered(salary("w"), 1).await;
    let guess = sha256_hex("7")[..16].to_owned();
    assert_ne!(first, guess, "a hash that anyone could compute");
    assert_eq!(first, answered(salary("w"), 1).await, "the same query of the same run has the same result");
    // Nor does a tag reveal that a known result equals another.
    let mut others = vec![first, answered(salary("w"), 2).await, answered(total("w"), 1).await];
    others.push(answered(salary("v"), 1).await);
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    let turn = api.task().await;
    api.post(&format!("{}/complete", turn_path(&turn)), &json!({})).await.json(200);
    others.push(answered(salary("w"), 1).await);
    others.sort();
    others.dedup();
    assert_eq!(others.len(), 5, "another run, version, query or input has another tag");

    // The decider's message is left out, too.
    let failing = async {
        let task = api.task().await;
        let failed = json!([{ "id": task["queries"][0]["id"],
            "error": { "reason": "no-salary", "message": "of Mr. Smith, 52,000" } }]);
        api.post(&format!("{}/complete", turn_path(&task)), &json!({ "queryResults": failed })).await.json(200);
    };
    let (answer, ()) = tokio::join!(guarded.ask(bare(&salary("w"), 1)), failing);
    let problem = answer.problem(422, "query-failed");
    assert_eq!((&problem["reason"], &problem["message"]), (&json!("no-salary"), &Value::Null), "{problem}");
    assert!(!answer.text.contains("52,000"), "{}", answer.text);
}

#[tokio::test]
async fn a_tag_of_another_form_is_refused() {
    let api = Api::open().await;
    let run_id = api.idle("w").await;
    for (watch, tag) in [
        ("version", "5".to_owned()),
        ("version", "*".to_owned()),
        ("version", "\"5\"".to_owned()),
        ("version", format!("\"{run_id}\"")),
        ("version", format!("\"{run_id}-\"")),
        ("version", format!("\"{run_id}-05\"")),
        ("version", format!("\"{run_id}-5-\"")),
        ("version", format!("\"{run_id}-5-7\"")),
        ("version", format!("\"{run_id}-5-00000000000000zz\"")),
        ("version", format!("\"{run_id}-5\", \"{run_id}-6\"")),
        ("version", format!("{run_id}-5")),
        ("result", format!("\"{run_id}-5\"")),
    ] {
        let path = format!("{}?watch={watch}", total("w"));
        let problem = api.refused(ask(&path).header("if-none-match", &tag), 400, "bad-header").await;
        assert!(problem["detail"].as_str().unwrap().contains("if-none-match"), "{problem}");
    }
    api.refused(ask(&format!("{}?watch=all", total("w"))), 400, "bad-query").await;
}

#[tokio::test]
async fn a_tag_of_another_run_does_not_hold_a_query() {
    let api = Api::open().await;
    api.idle("w").await;
    api.idle("v").await;
    let tag = api.query(ask(&total("v")), seven).await.0.header("etag").to_owned();
    api.query(ask(&total("w")).header("if-none-match", &tag), seven).await.0.json(200);
}

#[tokio::test]
async fn a_query_of_an_unknown_run_is_refused() {
    let api = Api::open().await;
    api.idle("w").await;
    api.refused(ask(&total("nobody")), 404, "unknown-workflow").await;
    let run = "?runId=00000000-0000-7000-8000-000000000000";
    api.refused(ask(&format!("{}{run}", total("w"))), 404, "unknown-run").await;
    api.refused(ask(&total("w").replace("default", "nowhere")), 404, "unknown-domain").await;
    let long = format!("{WORKFLOWS}/w/queries/{}", "q".repeat(257));
    assert_eq!(api.refused(ask(&long), 413, "too-large").await["field"], "query");
    let large = Ask::post(&total("w"), &json!({ "input": "x".repeat(300_000) }));
    assert_eq!(api.refused(large, 413, "too-large").await["field"], "input");
    api.refused(Ask::text(&total("w"), "{\"imput\": 7}"), 400, "bad-json").await;
}

#[tokio::test]
async fn answers_to_unknown_queries_are_refused() {
    let api = Api::open().await;
    api.idle("v").await;
    api.idle("w").await;
    let (of_v, of_w) = (total("v"), total("w"));
    let deciding = async {
        let mut tasks = [api.task().await, api.task().await];
        tasks.sort_by_key(|task| task["workflowId"].to_string());
        let [v, w] = tasks;
        let (v_id, w_id) = (&v["queries"][0]["id"], &w["queries"][0]["id"]);
        let complete = format!("{}/complete", turn_path(&w));
        for results in [
            json!([{ "id": "q" }]),
            json!([{ "id": v_id, "result": 7 }]),
            json!([{ "id": w_id, "result": 7 }, { "id": w_id, "result": 8 }]),
        ] {
            let problem =
                api.refused(Ask::post(&complete, &json!({ "queryResults": results })), 400, "invalid-field").await;
            assert_eq!(problem["field"], "queryResults");
        }
        let decide = json!({ "decisions": [{ "type": "SucceedWorkflow" }] });
        assert_eq!(api.refused(Ask::post(&complete, &decide), 400, "invalid-field").await["field"], "decisions");
        for (task, id) in [(&w, w_id), (&v, v_id)] {
            let complete = format!("{}/complete", turn_path(task));
            let results = json!({ "queryResults": [{ "id": id, "result": null }] });
            api.post(&complete, &results).await.json(200);
            // A second answer is refused.
            api.refused(Ask::post(&complete, &results), 409, "query-task-lost").await;
        }
        // Failing the same task is refused, too: its query is already answered.
        api.refused(Ask::post(&format!("{}/fail", turn_path(&w)), &json!({})), 409, "query-task-lost").await;
    };
    let (v, w, ()) = tokio::join!(api.ask(ask(&of_v)), api.ask(ask(&of_w)), deciding);
    for answer in [v, w] {
        assert_eq!(answer.json(200)["result"], Value::Null);
    }
}
