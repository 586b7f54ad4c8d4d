//! Task lists for operators: waiting tasks, started tasks and pollers.

use std::sync::Arc;

use engine::Clock as _;
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;
use sha2::{Digest, Sha256};

use crate::support::{Api, Ask, WORKFLOWS, schedule};
use crate::unpolled::hex;

const LISTS: &str = "/v1/domains/default/task-lists";

impl Api {
    /// One list; `kind` is `decider` or `activity`.
    async fn list(&self, name: &str, kind: &str) -> Value {
        let page = self.get(&format!("{LISTS}/{name}")).await.json(200);
        let mut lists = page["taskLists"].as_array().unwrap().iter();
        lists.find(|list| list["kind"] == kind).unwrap().clone()
    }

    /// Names and kinds of a page of lists, and its `nextPage`.
    async fn lists_page(&self, query: &str) -> (Vec<String>, Option<String>) {
        let page = self.get(&format!("{LISTS}{query}")).await.json(200);
        let lists = page["taskLists"].as_array().unwrap().iter();
        let names = lists.map(|list| format!("{} {}", list["name"].as_str().unwrap(), list["kind"].as_str().unwrap()));
        (names.collect(), page["nextPage"].as_str().map(str::to_owned))
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(history::Duration::from_secs(seconds));
    }
}

#[tokio::test]
async fn a_list_without_pollers_shows_its_waiting_tasks_and_times() {
    let api = Api::open().await;
    let opened = api.clock.now();
    api.advance(60);
    api.start("w").await;
    let began = api.clock.now();
    api.advance(60);
    api.start("v").await;
    let mut list = api.list("deciders", "decider").await;
    let next = list.as_object_mut().unwrap().remove("next").unwrap();
    let next = next.as_array().unwrap().iter().map(|task| {
        assert!(task["runId"].is_string() && task["scheduledEventId"] == 2 && task["priority"] == 0, "{task}");
        (task["workflowId"].clone(), task["since"].clone())
    });
    let since = |at: history::Timestamp| serde_json::to_value(at).unwrap();
    let waits = [(json!("w"), since(began)), (json!("v"), since(api.clock.now()))];
    assert_eq!(next.collect::<Vec<_>>(), waits, "the next tasks, in their order");
    let expected = json!({
        "name": "deciders", "kind": "decider", "waiting": 2, "moreWaiting": false, "oldestSince": began, "inFlight": 0,
        "dispatchedLastMinute": 0, "polls": 0, "noPollersSince": opened,
    });
    assert_eq!(list, expected);
    assert_eq!(api.list("deciders", "activity").await["waiting"], 0, "the runners' list of this name is another list");
    assert_eq!(api.lists_page("").await.0, ["deciders decider"]);
    let page = api.get(LISTS).await.json(200);
    assert!(page["taskLists"][0]["next"].is_null(), "only for a single list: {page}");
}

#[tokio::test]
async fn a_list_shows_100_waiting_tasks_by_priority() {
    let api = Api::open().await;
    for number in 0..=100 {
        let (id, priority) = (format!("w{number:03}"), i32::from(number == 100));
        let start =
            json!({"workflowId": id, "workflowType": "order", "taskList": "deciders", "taskPriority": priority});
        api.post(WORKFLOWS, &start).await.json(201);
    }
    let list = api.list("deciders", "decider").await;
    let next = list["next"].as_array().unwrap();
    assert_eq!((list["waiting"].clone(), next.len()), (json!(101), 100));
    assert_eq!((&next[0]["workflowId"], &next[0]["priority"]), (&json!("w100"), &json!(1)));
    assert_eq!((&next[1]["workflowId"], &next[99]["workflowId"]), (&json!("w000"), &json!("w098")));
}

#[tokio::test]
async fn started_tasks_are_in_flight_until_completed_or_timed_out() {
    let api = Api::open().await;
    api.start("w").await;
    api.decide(json!([schedule("a", "acts"), schedule("b", "acts")])).await;
    let flight =
        |list: Value| (list["waiting"].clone(), list["inFlight"].clone(), list["dispatchedLastMinute"].clone());
    assert_eq!(flight(api.list("deciders", "decider").await), (json!(0), json!(0), json!(1)));
    assert_eq!(flight(api.list("acts", "activity").await), (json!(2), json!(0), json!(0)));
    let token = api.take_activity("acts").await["token"].as_str().unwrap().to_owned();
    assert_eq!(flight(api.list("acts", "activity").await), (json!(1), json!(1), json!(1)));
    api.post(&format!("/v1/activity-tasks/{token}/success"), &json!({})).await.json(200);
    assert_eq!(flight(api.list("acts", "activity").await), (json!(1), json!(0), json!(1)));
    api.take_activity("acts").await;
    assert_eq!(api.list("acts", "activity").await["inFlight"], 1);
    api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    assert_eq!(api.list("acts", "activity").await["inFlight"], 0, "its run has closed");
    api.advance(180);
    assert_eq!(api.list("acts", "activity").await["dispatchedLastMinute"], 0);
}

#[tokio::test]
async fn a_poller_is_listed_until_five_minutes_after_its_poll() {
    let api = Arc::new(Api::open().await);
    let came = api.clock.now();
    let poll = {
        let api = Arc::clone(&api);
        let ask = Ask::post(&format!("{LISTS}/acts/activity/poll"), &json!({ "identity": "runner-1" }));
        tokio::spawn(async move { api.ask(ask).await })
    };
    api.until_pollers("acts", 1).await;
    api.advance(30);
    let list = api.list("acts", "activity").await;
    assert_eq!(list["pollers"], json!([{ "identity": "runner-1", "polls": 1, "since": came }]));
    assert_eq!((&list["polls"], &list["noPollersSince"]), (&json!(1), &Value::Null));
    poll.abort();
    drop(poll.await);
    api.until_pollers("acts", 0).await;
    let left = api.clock.now();
    api.advance(300);
    let list = api.list("acts", "activity").await;
    let gone = json!([{ "identity": "runner-1", "polls": 0, "since": came, "lastPolledAt": left }]);
    assert_eq!((&list["pollers"], &list["polls"], &list["noPollersSince"]), (&gone, &json!(0), &json!(left)));
    api.advance(1);
    assert_eq!(api.list("acts", "activity").await["pollers"], Value::Null);
    assert_eq!(api.list("acts", "activity").await["noPollersSince"], json!(left), "the list is kept for longer");
}

#[tokio::test]
async fn task_lists_are_paged() {
    let api = Api::open().await;
    for number in 0..5 {
        let start =
            json!({ "workflowId": format!("w{number}"), "workflowType": "t", "taskList": format!("list {number}") });
        api.post(WORKFLOWS, &start).await.json(201);
    }
    api.post("/v1/domains", &json!({ "name": "other" })).await.json(201);
    let expected: Vec<String> = (0..5).map(|number| format!("list {number} decider")).collect();
    let (mut found, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let (names, next) = api.lists_page(&query).await;
        assert!(names.len() <= 2);
        found.extend(names);
        let Some(next) = next else { break };
        query = format!("?limit=2&page={next}");
    }
    assert_eq!(found, expected);
    assert_eq!(api.lists_page("?limit=5").await, (expected, None), "a full last page has no next");
    // A page token is valid in its own domain only.
    let (_, next) = api.lists_page("?limit=2").await;
    let elsewhere = format!("/v1/domains/other/task-lists?page={}", next.unwrap());
    api.get(&elsewhere).await.problem(400, "bad-page");
    assert_eq!(api.get("/v1/domains/other/task-lists").await.json(200)["taskLists"], json!([]));
    api.get("/v1/domains/none/task-lists").await.problem(404, "unknown-domain");
    api.get("/v1/domains/none/task-lists/l").await.problem(404, "unknown-domain");
}

#[tokio::test]
async fn twenty_pollers_are_named_and_all_are_counted() {
    let api = Arc::new(Api::open().await);
    let polls: Vec<_> = (0..25)
        .map(|number| {
            let ask = Ask::post(&format!("{LISTS}/acts/activity/poll"), &json!({ "identity": format!("r{number}") }));
            let api = Arc::clone(&api);
            tokio::spawn(async move { api.ask(ask).await })
        })
        .collect();
    api.until_pollers("acts", 25).await;
    let list = api.list("acts", "activity").await;
    assert_eq!((list["pollers"].as_array().unwrap().len(), &list["polls"]), (20, &json!(25)));
    polls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn readers_may_list_task_lists_and_runners_may_not() {
    let api = Api::open().await;
    let digest = |secret: &str| hex(&Sha256::digest(secret));
    let holder =
        |name: &str| Credential { name: name.to_owned(), secret_sha256: digest(name), ..Credential::default() };
    let credentials = vec![
        Credential { runners: vec!["default/acts".to_owned()], ..holder("runner") },
        Credential { readers: vec!["default".to_owned()], ..holder("reader") },
    ];
    let router = router_for(Arc::clone(&api.engine), Credentials::new(credentials).unwrap());
    let api = Api { router, ..api };
    for (who, status) in [("runner", 403), ("reader", 200)] {
        for path in [LISTS.to_owned(), format!("{LISTS}/acts")] {
            let answer = api.ask(Ask::get(&path).header("authorization", &format!("Bearer {who}"))).await;
            assert_eq!(answer.status.as_u16(), status, "{who} {path}");
        }
    }
}
