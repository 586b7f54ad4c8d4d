//! Task lists without pollers: waiting callers learn their names and the time of the last poll.

use std::sync::Arc;

use engine::Clock as _;
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;
use sha2::{Digest, Sha256};

use crate::support::{Api, Ask, DECIDERS, WORKFLOWS, schedule};

const ACTS: &str = "/v1/domains/default/task-lists/acts/activity/poll";

impl Api {
    async fn unpolled(&self, id: &str) -> Value {
        self.get(&format!("{WORKFLOWS}/{id}")).await.json(200)["noPollers"].clone()
    }

    fn now(&self) -> Value {
        json!(self.clock.now())
    }

    fn advance_two_minutes(&self) {
        self.clock.advance(history::Duration::from_secs(120));
    }
}

fn poll_without_wait(path: &str) -> Ask {
    Ask::post(path, &json!({})).header("prefer", "wait=0")
}

#[tokio::test]
async fn a_run_names_its_lists_without_pollers() {
    let api = Api::open().await;
    let opened = api.now();
    api.advance_two_minutes();
    api.start("w").await;
    assert_eq!(api.unpolled("w").await, json!([{ "taskList": "deciders", "decider": true, "since": opened }]));
    // The only poll so far took the turn and has ended.
    api.decide(json!([schedule("a", "acts"), schedule("b", "acts"), schedule("c", "others")])).await;
    let acts = json!({ "taskList": "acts", "decider": false, "since": opened });
    let others = json!({ "taskList": "others", "decider": false, "since": opened });
    assert_eq!(api.unpolled("w").await, json!([acts, others]), "each list once");
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    let decided = api.now();
    api.advance_two_minutes();
    let deciders = json!({ "taskList": "deciders", "decider": true, "since": decided });
    assert_eq!(api.unpolled("w").await, json!([deciders, acts, others]));

    // A poll of a runner counts until it ends.
    api.take_activity("acts").await;
    api.take_activity("acts").await;
    api.post(&format!("{WORKFLOWS}/w/pause"), &json!({})).await.json(200);
    assert_eq!(api.unpolled("w").await, Value::Null, "a paused run dispatches no tasks");
    api.post(&format!("{WORKFLOWS}/w/resume"), &json!({})).await.json(200);
    assert_eq!(api.unpolled("w").await, json!([deciders, others]), "no task waits on `acts`");
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    assert_eq!(api.unpolled("w").await, Value::Null);
}

#[tokio::test]
async fn a_list_has_a_poller_until_its_poll_ends_or_disconnects() {
    let api = Arc::new(Api::open().await);
    let poll = {
        let api = Arc::clone(&api);
        tokio::spawn(async move { api.ask(Ask::post(ACTS, &json!({}))).await })
    };
    api.until_pollers("acts", 1).await;
    api.start("w").await;
    api.decide(json!([schedule("a", "other")])).await;
    assert_eq!(api.unpolled("w").await[0]["taskList"], "other");
    let elsewhere = api.ask(poll_without_wait("/v1/domains/default/task-lists/acts/decider/poll")).await;
    assert_eq!(elsewhere.header("baton-no-pollers").split(';').next(), Some("other"));
    api.advance_two_minutes();
    poll.abort();
    drop(poll.await);
    api.until_pollers("acts", 0).await;
    let left = api.now();
    api.advance_two_minutes();
    api.start("v").await;
    api.decide(json!([schedule("a", "acts")])).await;
    assert_eq!(api.unpolled("v").await, json!([{ "taskList": "acts", "decider": false, "since": left }]));
}

#[tokio::test]
async fn an_empty_poll_names_lists_with_waiting_tasks() {
    let api = Api::open().await;
    let opened = api.clock.now();
    let answer = api.ask(poll_without_wait(ACTS)).await;
    assert_eq!((answer.status.as_u16(), answer.headers.get("baton-no-pollers")), (204, None));
    api.start("w").await;
    api.post(WORKFLOWS, &json!({ "workflowId": "v", "workflowType": "t", "taskList": "a list, ä" })).await.json(201);
    let domain = json!({ "name": "other" });
    api.post("/v1/domains", &domain).await.json(201);
    // Neither a poll of the other kind nor the other domain's list of this name counts.
    for path in ["/v1/domains/default/task-lists/deciders/activity/poll", ACTS] {
        let heard = api.ask(poll_without_wait(path)).await;
        let expected = format!("a%20list%2C%20%C3%A4;decider;since={opened}, deciders;decider;since={opened}");
        assert_eq!(heard.header("baton-no-pollers"), expected);
    }
    let other = api.ask(poll_without_wait("/v1/domains/other/task-lists/deciders/decider/poll")).await;
    assert_eq!((other.status.as_u16(), other.headers.get("baton-no-pollers")), (204, None));
}

#[tokio::test]
async fn a_credential_learns_only_of_its_own_lists() {
    let api = Api::open().await;
    api.start("w").await;
    let digest = |secret: &str| hex(&Sha256::digest(secret));
    let holder =
        |name: &str| Credential { name: name.to_owned(), secret_sha256: digest(name), ..Credential::default() };
    let (runners, applications) = (vec!["default/acts".to_owned()], vec!["default".to_owned()]);
    let credentials = vec![
        Credential { runners: runners.clone(), ..holder("runner") },
        Credential { runners, applications, ..holder("both") },
        Credential { operator: true, ..holder("operator") },
    ];
    let router = router_for(Arc::clone(&api.engine), Credentials::new(credentials).unwrap());
    let api = Api { router, ..api };
    for (who, hears) in [("runner", false), ("both", true), ("operator", true)] {
        let answer = api.ask(poll_without_wait(ACTS).header("authorization", &format!("Bearer {who}"))).await;
        assert_eq!((answer.status.as_u16(), answer.headers.contains_key("baton-no-pollers")), (204, hears), "{who}");
    }
}

#[tokio::test]
async fn an_unanswered_query_or_update_names_a_list_without_pollers() {
    let api = Api::open().await;
    let opened = api.now();
    api.start("w").await;
    let query = Ask::post(&format!("{WORKFLOWS}/w/queries/total"), &json!({})).header("prefer", "wait=0.01");
    let update = Ask::post(&format!("{WORKFLOWS}/w/updates/add"), &json!({})).header("prefer", "wait=0.01");
    for (ask, code) in [(query, "query-timed-out"), (update, "update-timed-out")] {
        let problem = api.ask(ask).await.problem(504, code);
        let detail = problem["detail"].as_str().unwrap();
        let told = format!("list `deciders` has had no pollers for turns since {}", opened.as_str().unwrap());
        assert!(detail.contains(&told), "{detail}");
        assert_eq!((&problem["taskList"], &problem["noPollersSince"]), (&json!("deciders"), &opened));
    }
    // A decider has the turn, so no poll is needed.
    api.ask(Ask::post(DECIDERS, &json!({}))).await.json(200);
    let query = Ask::post(&format!("{WORKFLOWS}/w/queries/total"), &json!({})).header("prefer", "wait=0.01");
    let problem = api.ask(query).await.problem(504, "query-timed-out");
    assert_eq!(problem["taskList"], Value::Null, "{problem}");
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
