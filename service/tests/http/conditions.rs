//! Requests whose outcome depends on the caller's credential or on the state of the store.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::router_for;
use store::fault::{Chances, FaultStore};
use store::memory::Memory;

use crate::holders::credential;
use crate::support::{Api, Ask, DECIDERS, WORKFLOWS, activity_path, schedule, turn_path};

/// Makes the same request any number of times.
type Make<'a> = Box<dyn Fn() -> Ask + 'a>;

/// A service with credentials, a turn of list `deciders` and an activity of list `acts`, both started.
async fn guarded() -> (Api, String, String) {
    let api = Api::open().await;
    let activity = activity_path(&api.activity("w").await);
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    let turn = turn_path(&api.turn().await);
    let credentials = vec![
        Credential { operator: true, ..credential("operator") },
        Credential { applications: vec!["default".to_owned()], ..credential("application") },
        Credential { deciders: vec!["default/deciders".to_owned()], ..credential("decider") },
        Credential { runners: vec!["default/*".to_owned()], ..credential("runner") },
        Credential { applications: vec!["other".to_owned()], ..credential("stranger") },
    ];
    let router = router_for(Arc::clone(&api.engine), Credentials::new(credentials).unwrap());
    (Api { router, ..api }, turn, activity)
}

#[tokio::test(start_paused = true)]
async fn each_level_may_make_its_own_calls_only() {
    let (api, turn, activity) = guarded().await;
    let history = async || {
        let ask = Ask::get(&format!("{WORKFLOWS}/w/history")).header("authorization", "Bearer operator");
        api.ask(ask).await.text
    };
    let post = |path: &str| Ask::post(path, &json!({})).header("prefer", "wait=0");
    let calls: Vec<(&str, Make<'_>)> = vec![
        ("operator", Box::new(|| Ask::post("/v1/domains", &json!({ "name": "default" })))),
        ("operator", Box::new(|| Ask::get("/metrics"))),
        ("application", Box::new(|| Ask::get(WORKFLOWS))),
        ("application", Box::new(|| Ask::get(&format!("{WORKFLOWS}/w")))),
        ("application", Box::new(|| post(&format!("{WORKFLOWS}/nobody/cancel")))),
        ("decider", Box::new(|| post(DECIDERS))),
        ("decider", Box::new(|| Ask::get(&format!("{turn}/history")))),
        ("runner", Box::new(|| post("/v1/domains/default/task-lists/acts/activity/poll"))),
        ("runner", Box::new(|| post(&format!("{activity}/heartbeat")))),
    ];
    for (level, make) in &calls {
        for who in ["operator", "application", "decider", "runner", "stranger"] {
            let before = history().await;
            let answer = api.ask(make().header("authorization", &format!("Bearer {who}"))).await;
            if who == "operator" || who == *level {
                assert!(![401, 403].contains(&answer.status.as_u16()), "{who}: {}", answer.text);
            } else {
                let problem = answer.problem(403, "forbidden");
                assert!(problem["detail"].as_str().unwrap().contains("no permission"), "{problem}");
                assert_eq!(history().await, before);
            }
        }
        for wrong in ["Bearer nobody", "Bearer ", "Basic operator", "operator", "bearer"] {
            let answer = api.ask(make().header("authorization", wrong)).await;
            answer.problem(401, "unauthorized");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
        api.ask(make()).await.problem(401, "unauthorized");
        // A second later, as many wrong secrets are verified again.
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(api.get(path).await.status, 200, "{path} needs no credential");
    }
}

#[tokio::test]
async fn a_credential_may_name_lists_and_domains_with_slashes() {
    let api = Api::open().await;
    api.post("/v1/domains", &json!({ "name": "a/b" })).await.json(201);
    let runner = Credential { runners: vec!["a%2Fb/x%2Fy".to_owned()], ..credential("runner") };
    let router = router_for(Arc::clone(&api.engine), Credentials::new(vec![runner]).unwrap());
    let api = Api { router, ..api };
    let poll = async |path: &str| {
        let ask = Ask::post(path, &json!({})).header("prefer", "wait=0");
        api.ask(ask.header("authorization", "Bearer runner")).await
    };
    assert_eq!(poll("/v1/domains/a%2Fb/task-lists/x%2Fy/activity/poll").await.status, 204);
    poll("/v1/domains/a%2Fb/task-lists/x/activity/poll").await.problem(403, "forbidden");
}

#[test]
fn a_credential_that_can_never_match_is_refused() {
    let refused = |credential| Credentials::new(vec![credential]).unwrap_err();
    for entry in ["PCI", "default/", "/PCI", "default/PCI/1", "default/%ff", ""] {
        let refused = refused(Credential { runners: vec![entry.to_owned()], ..credential("rack") });
        assert_eq!(refused, format!("credential `rack`: `{entry}` is not `domain/list`"));
    }
    let refused = refused(Credential { secret_sha256: "ab".to_owned(), ..credential("rack") });
    assert!(refused.contains("`rack`") && refused.contains("64 hexadecimal digits"), "{refused}");
    let half = Credential { access_key_id: Some("id".to_owned()), ..credential("rack") };
    let refused = Credentials::new(vec![half.clone()]).unwrap_err();
    let expected = "credential `rack`: access-key-id and secret-access-key are both required, and must not be empty";
    assert_eq!(refused, expected);
    let whole =
        Credential { secret_access_key: Some("s".repeat(16)), secret_sha256: String::new(), operator: true, ..half };
    assert_eq!(format!("{whole:?}"), "Credential { name: \"rack\", .. }", "its secret is not printed");
    let twin = Credential { name: "other".to_owned(), ..whole.clone() };
    let twice = Credentials::new(vec![whole, twin]).unwrap_err();
    assert_eq!(twice, "two credentials have the access-key-id `id`");
}

#[tokio::test]
async fn a_failing_store_returns_503_and_nothing_is_recorded() {
    let store = Arc::new(FaultStore::new(Arc::new(Memory::new()), 7, Chances::NONE));
    let api = Api::over(Arc::clone(&store) as _).await;
    let task = api.activity("w").await;
    let before = api.everything().await;
    store.set_chances(Chances { not_applied: 1_000, ..Chances::NONE });
    let asks: [(String, Value); 4] = [
        (WORKFLOWS.to_owned(), json!({ "workflowId": "x", "workflowType": "t" })),
        (format!("{WORKFLOWS}/w/signals/s"), json!({})),
        (format!("{}/success", activity_path(&task)), json!({ "result": 1 })),
        ("/v1/domains".to_owned(), json!({ "name": "x" })),
    ];
    for (path, body) in asks {
        let answer = api.post(&path, &body).await;
        let problem = answer.problem(503, "unavailable");
        assert_eq!(problem["retryable"], true, "{path}");
        assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    }
    store.set_on(false);
    assert_eq!(api.everything().await, before);
    api.post(&format!("{}/success", activity_path(&task)), &json!({})).await.json(200);
}

#[tokio::test]
async fn a_request_with_unknown_outcome_is_recorded_once() {
    for chances in
        [Chances { unknown_before: 1_000, ..Chances::NONE }, Chances { unknown_after: 1_000, ..Chances::NONE }]
    {
        let store = Arc::new(FaultStore::new(Arc::new(Memory::new()), 7, Chances::NONE));
        let api = Api::over(Arc::clone(&store) as _).await;
        api.start("w").await;
        api.decide(json!([schedule("a", "acts")])).await;
        let ask = || Ask::post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).header("idempotency-key", "k");
        store.set_chances(chances);
        let answer = api.ask(ask()).await;
        store.set_on(false);
        let signals = async || api.names("w").await.iter().filter(|name| *name == "Signal").count();
        let recorded = signals().await;
        match answer.status.as_u16() {
            202 => assert_eq!(recorded, 1),
            _ => {
                let problem = answer.json(503);
                assert_eq!(problem["retryable"], true, "{problem}");
                match problem["code"].as_str().unwrap() {
                    "unavailable" => assert_eq!((&problem["recorded"], recorded), (&json!(false), 0)),
                    code => assert_eq!((code, &problem["recorded"]), ("outcome-unknown", &json!("unknown"))),
                }
            }
        }
        api.ask(ask()).await.json(202);
        assert_eq!(signals().await, 1);
        api.everything().await;
    }
}

#[tokio::test]
async fn an_unchanged_description_or_result_returns_304() {
    let api = Api::open().await;
    api.start("w").await;
    let (state, result) = (format!("{WORKFLOWS}/w"), format!("{WORKFLOWS}/w/result"));
    let tag = api.get(&state).await.header("etag").to_owned();
    assert_eq!(api.get(&result).await.header("etag"), tag);
    let unless = |path: &str, tag: &str, wait: &str| Ask::get(path).header("if-none-match", tag).header("prefer", wait);
    for path in [&state, &result] {
        let answer = api.ask(Ask::get(path).header("if-none-match", &format!("W/{tag}"))).await;
        assert_eq!((answer.status.as_u16(), answer.header("etag"), answer.text.as_str()), (304, tag.as_str(), ""));
        let began = tokio::time::Instant::now();
        let answer = api.ask(unless(path, &tag, "wait=0.2")).await;
        assert_eq!((answer.status.as_u16(), answer.header("preference-applied")), (304, "wait=0.2"));
        assert!(began.elapsed() >= Duration::from_millis(200));
        api.refused(unless(path, "\"w\"", "wait=0"), 400, "bad-header").await;
    }
    // The start of a turn does not change the tag; a signal does, and returns at once.
    let wait = async { api.ask(unless(&state, &tag, "wait=30")).await };
    let news = async {
        let turn = api.turn().await;
        api.post(&format!("{WORKFLOWS}/w/signals/go"), &json!({})).await.json(202);
        turn
    };
    let (changed, turn) = tokio::join!(wait, news);
    assert_eq!(changed.json(200)["version"], 4);
    assert_ne!(changed.header("etag"), tag);
    assert_eq!(api.ask(unless(&state, &tag, "wait=30")).await.status, 200, "a changed description returns at once");
    // A result waits for the close of the run and does not change afterwards.
    let wait = async { api.ask(unless(&result, changed.header("etag"), "wait=30")).await };
    let end = async {
        api.post(&format!("{}/complete", turn_path(&turn)), &json!({})).await.json(200);
        api.post(&format!("{WORKFLOWS}/w/terminate"), &json!({})).await.json(200);
    };
    let (ended, ()) = tokio::join!(wait, end);
    assert_eq!(ended.json(200)["status"], "terminated");
    assert_eq!(api.ask(unless(&result, ended.header("etag"), "wait=30")).await.status, 304, "at once");
    // Another run of the workflow id is a change for a caller that watches the newest run.
    let wait = async { api.ask(unless(&state, ended.header("etag"), "wait=30")).await };
    let (next, run_id) = tokio::join!(wait, api.start("w"));
    assert_eq!(next.json(200)["runId"], json!(run_id));
}
