//! Permissions: every call with every kind of credential, and which payloads its responses contain.

use std::path::PathBuf;
use std::sync::Arc;

use history::Permissions;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use service::access::{CallAccess, Level, Wire, page};
use service::access::{ClaimRule, Credential, Credentials, Issuer, Stanzas};
use service::api::router_for;
use service::api::table;

use crate::holders::{credential, one};
use crate::issuer::Key;
use crate::support::{Answer, Api, Ask, WORKFLOWS, activity_path, schedule, turn_path, writes_docs};
use crate::tokens::{claims, in_file, rule};

/// Text that every payload contains, and no other part of a request.
const NEEDLE: &str = "sesame-in-a-payload";

/// Line before the generated part of `docs/access.md`.
const BEGIN: &str = "<!-- From here on generated from the table: see service/tests/http/access.rs. -->\n";

/// Every kind of credential and the levels that it has in domain `default`. The name of a credential is also its
/// secret.
pub(crate) fn kinds() -> Vec<(Credential, &'static [Level])> {
    use Level as L;
    let reads: &[L] = &[L::Nothing, L::Known, L::Related, L::Reader];
    vec![
        (
            Credential { operator: true, ..credential("operator") },
            &[
                L::Nothing,
                L::Known,
                L::Related,
                L::Metrics,
                L::Reader,
                L::Application,
                L::ActivityStarter,
                L::DomainOperator,
                L::Decider,
                L::Runner,
                L::Operator,
            ],
        ),
        (
            Credential { operators: one("default"), ..credential("domain operator") },
            &[L::Nothing, L::Known, L::Related, L::Reader, L::DomainOperator],
        ),
        (
            Credential { applications: one("default"), ..credential("application") },
            &[L::Nothing, L::Known, L::Related, L::Reader, L::Application],
        ),
        (
            Credential { applications: one("default"), deciders: one("default/acts"), ..credential("starter") },
            &[L::Nothing, L::Known, L::Related, L::Reader, L::Application, L::ActivityStarter],
        ),
        (Credential { readers: one("default"), ..credential("reader") }, reads),
        (Credential { readers_without_payloads: one("*"), ..credential("bare reader") }, reads),
        (
            Credential { deciders: one("default/deciders"), ..credential("decider") },
            &[L::Nothing, L::Known, L::Related, L::Decider],
        ),
        (
            Credential { runners: one("default/*"), ..credential("runner") },
            &[L::Nothing, L::Known, L::Related, L::Runner],
        ),
        (Credential { metrics: true, ..credential("metrics") }, &[L::Nothing, L::Known, L::Metrics]),
        (
            Credential {
                readers: one("other"),
                applications: one("other"),
                operators: one("other"),
                deciders: vec!["default/others".to_owned(), "other/*".to_owned()],
                runners: one("other/*"),
                ..credential("stranger")
            },
            // Its permissions name a task list of this domain.
            &[L::Nothing, L::Known, L::Related],
        ),
    ]
}

pub(crate) fn guarded(api: &Api) -> Api {
    guarded_by(api, Stanzas { credentials: credentials(), ..Stanzas::default() })
}

fn credentials() -> Vec<Credential> {
    kinds().into_iter().map(|(credential, _)| credential).collect()
}

/// Like [`guarded`], and accepts tokens with the same permissions for the same names.
fn guarded_with_tokens(api: &Api) -> (Api, Key) {
    let key = Key::ed("ed");
    let (_file, issuer) = in_file(&[&key]);
    let rule_of = |it: Credential| ClaimRule {
        operator: it.operator,
        metrics: it.metrics,
        readers: it.readers,
        readers_without_payloads: it.readers_without_payloads,
        applications: it.applications,
        operators: it.operators,
        deciders: it.deciders,
        runners: it.runners,
        ..rule(&it.name)
    };
    let rules = credentials().into_iter().map(rule_of).collect();
    let issuers = vec![Issuer { rules, ..issuer }];
    (guarded_by(api, Stanzas { credentials: credentials(), issuers }), key)
}

pub(crate) fn guarded_by(api: &Api, stanzas: Stanzas) -> Api {
    let router = router_for(Arc::clone(&api.engine), Credentials::new(stanzas).unwrap());
    api.with(router)
}

pub(crate) fn bearer(ask: Ask, secret: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {secret}"))
}

/// Request to a call, in domain `default`, for list `deciders` or `acts` and the given tasks.
pub(crate) fn request(call: CallAccess, turn: &str, activity: &str) -> Ask {
    let list = if call.level == Level::Decider { "deciders" } else { "acts" };
    let path = call.name.replace("/v1/decider-tasks/{token}", turn).replace("/v1/activity-tasks/{token}", activity);
    let path = path.replace("{domain}", "default").replace("{list}", list).replace("{id}", "w");
    let path = path.replace("{name}", "s").replace("{activity}", "a").replace("{type}", "t");
    let path = path.replace("{group}", "g").replace("{*view}", "v").replace("{*page}", "install");
    assert!(!path.contains('{'), "{path}: a variable segment has no value here");
    if call.method == "GET" { Ask::get(&path) } else { Ask::new(call.method, &path) }
}

#[tokio::test]
async fn each_call_is_allowed_to_its_levels_only() {
    let open = Api::open().await;
    let activity = activity_path(&open.activity("w").await);
    open.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({})).await.json(202);
    let turn = turn_path(&open.turn().await);
    let (guarded, key) = guarded_with_tokens(&open);
    // Authorized polls return at once.
    open.engine.begin_shutdown();
    let before = open.everything().await;
    let calls: Vec<CallAccess> = table().into_iter().filter(|call| call.wire == Wire::Rest).collect();
    assert!(calls.len() > 60, "{}", calls.len());
    for allowed in [false, true] {
        for call in &calls {
            let methods = if call.method == "GET" { vec!["GET", "HEAD"] } else { vec![call.method] };
            for method in methods {
                let ask = || request(CallAccess { method, ..*call }, &turn, &activity);
                for (credential, levels) in kinds() {
                    if levels.contains(&call.level) != allowed {
                        continue;
                    }
                    let token = key.sign(&claims(&credential.name));
                    for (way, shown) in [("a secret", &credential.name), ("a token", &token)] {
                        let answer = guarded.call(bearer(ask(), shown)).await;
                        let status = answer.status().as_u16();
                        let what = format!("{}, by {way}: {method} {}: {status}", credential.name, call.name);
                        assert_eq!([401, 403].contains(&status), !allowed, "{what}");
                        assert_ne!(status, 405, "{what}");
                    }
                }
                if !allowed {
                    let status = guarded.call(ask()).await.status().as_u16();
                    assert_eq!(status == 401, call.level != Level::Nothing, "{method} {}: {status}", call.name);
                }
            }
        }
        if !allowed {
            assert_eq!(open.everything().await, before, "a refused request has left nothing behind");
        }
    }
}

#[tokio::test]
async fn unknown_paths_need_a_credential_too() {
    let guarded = guarded(&Api::open().await);
    for (method, path, status, code) in
        [("GET", "/v1/nothing", 404, "unknown-path"), ("DELETE", "/v1/domains", 405, "method-not-allowed")]
    {
        let ask = || Ask::new(method, path);
        Answer::read(guarded.call(ask()).await).await.problem(401, "unauthorized");
        Answer::read(guarded.call(bearer(ask(), "metrics")).await).await.problem(status, code);
    }
}

#[tokio::test]
async fn unknown_methods_are_no_metric_label() {
    let guarded = guarded(&Api::open().await);
    // Refused before the method is checked against the path.
    Answer::read(guarded.call(Ask::new("MADE-UP", "/v1/domains")).await).await.problem(401, "unauthorized");
    let page = Answer::read(guarded.call(bearer(Ask::get("/metrics"), "metrics")).await).await;
    assert!(page.text.contains("baton_http_request_seconds_count{call=\"*\",status=\"4xx\"} 1"), "{}", page.text);
    assert!(!page.text.contains("MADE-UP"), "{}", page.text);
}

#[tokio::test]
async fn a_credential_sees_only_domains_that_it_has_permissions_in() {
    let open = Api::open().await;
    for name in ["other", "third"] {
        open.post("/v1/domains", &json!({ "name": name })).await.json(201);
    }
    let guarded = guarded(&open);
    for (who, hears) in [
        ("operator", vec!["default", "other", "third"]),
        ("bare reader", vec!["default", "other", "third"]),
        ("application", vec!["default"]),
        ("runner", vec!["default"]),
        ("stranger", vec!["default", "other"]),
        ("metrics", vec![]),
    ] {
        let listed = guarded.ask(bearer(Ask::get("/v1/domains"), who)).await.json(200);
        let names: Vec<&str> =
            listed["domains"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, hears, "{who}");
        for name in ["default", "other", "third"] {
            for path in ["", "/workflow-types", "/activity-types"] {
                let path = format!("/v1/domains/{name}{path}");
                let status = guarded.ask(bearer(Ask::get(&path), who)).await.status.as_u16();
                assert_eq!(status, if hears.contains(&name) { 200 } else { 403 }, "{who} {path}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_reported_only_for_readable_domains() {
    let open = Api::open().await;
    open.post("/v1/domains", &json!({ "name": "other" })).await.json(201);
    let guarded = guarded(&open);
    for who in ["runner", "metrics"] {
        assert_eq!(guarded.ask(bearer(Ask::get("/v1/changes"), who)).await.status, 204, "{who}");
    }
    let mut stream = guarded.call(bearer(Ask::get("/v1/changes"), "application")).await.into_body();
    let mut told = async || {
        let next = tokio::time::timeout(std::time::Duration::from_secs(10), stream.frame()).await;
        next.is_ok_and(|frame| frame.is_some_and(|frame| frame.is_ok()))
    };
    assert!(told().await, "it begins");
    for (domain, hears) in [("other", false), ("default", true)] {
        let start = json!({ "workflowId": "w", "workflowType": "t" });
        open.post(&format!("/v1/domains/{domain}/workflows"), &start).await.json(201);
        assert_eq!(told().await, hears, "{domain}");
    }
}

/// Starts run `w` and records a payload in every event that can have one.
async fn start_with_payloads(api: &Api) {
    let retry = json!({ "maximumAttempts": 5 });
    let start = json!({ "workflowId": "w", "workflowType": "t", "taskList": "deciders", "input": NEEDLE });
    api.post(WORKFLOWS, &start).await.json(201);
    api.post(&format!("{WORKFLOWS}/w/signals/s"), &json!({ "input": NEEDLE })).await.json(202);
    let mut tried = schedule("tried", "tries");
    (tried["input"], tried["control"], tried["retry"]) = (json!(NEEDLE), json!(NEEDLE), retry);
    let turn = turn_path(&api.turn().await);
    let decisions = json!([
        schedule("a", "acts"), tried,
        { "type": "RecordMarker", "name": "m", "details": NEEDLE },
        { "type": "StartTimer", "timerId": "t", "after": "P9D", "control": NEEDLE },
        { "type": "StartChild", "workflowId": "c", "workflowType": "c", "taskList": "c", "input": NEEDLE },
        { "type": "SignalExternal", "workflowId": "nobody", "name": "n", "input": NEEDLE, "control": NEEDLE },
    ]);
    api.post(&format!("{turn}/complete"), &json!({ "decisions": decisions, "context": NEEDLE })).await.json(200);
    let task = activity_path(&api.take_activity("acts").await);
    api.post(&format!("{task}/success"), &json!({ "result": NEEDLE })).await.json(200);
    let task = activity_path(&api.take_activity("tries").await);
    api.post(&format!("{task}/failure"), &json!({ "reason": "r", "details": NEEDLE })).await.json(200);
    let turn = turn_path(&api.turn().await);
    api.post(&format!("{turn}/fail"), &json!({ "reason": "r", "details": NEEDLE })).await.json(200);
    let create = json!({ "scheduleId": "s", "schedule": {
        "spec": { "intervals": [{ "every": "P1D" }] },
        "action": { "workflowId": "n", "workflowType": "t", "input": NEEDLE, "signal": { "name": "s", "input": NEEDLE } },
    } });
    api.post("/v1/domains/default/schedules", &create).await.json(201);
}

#[tokio::test]
async fn a_reader_without_payloads_sees_events_without_payloads() {
    let open = Api::open().await;
    start_with_payloads(&open).await;
    let guarded = guarded(&open);
    let history = format!("{WORKFLOWS}/w/history");
    let looks = |with_payloads: bool, result: bool| {
        let paths = [history.clone(), format!("{WORKFLOWS}/w"), "/v1/domains/default/schedules/s".to_owned()];
        let closed =
            || vec![format!("{WORKFLOWS}/w/result"), WORKFLOWS.to_owned(), format!("{WORKFLOWS}/w"), history.clone()];
        let paths = if result { closed() } else { paths.to_vec() };
        let (guarded, history) = (&guarded, &history);
        async move {
            for path in &paths {
                for who in ["reader", "application", "operator", "domain operator", "bare reader"] {
                    let answer = guarded.ask(bearer(Ask::get(path), who)).await;
                    answer.json(200);
                    let sees = with_payloads && who != "bare reader";
                    assert_eq!(answer.text.contains(NEEDLE), sees, "{who} {path}: {}", answer.text);
                }
            }
            let full = guarded.ask(bearer(Ask::get(history), "reader")).await.json(200);
            let bare = guarded.ask(bearer(Ask::get(history), "bare reader")).await.json(200);
            let kinds = |page: &Value| -> Vec<Value> {
                page["events"].as_array().unwrap().iter().map(|event| event["type"].clone()).collect()
            };
            assert_eq!(kinds(&full), kinds(&bare));
        }
    };
    looks(true, false).await;
    let end = json!({ "reason": "enough", "details": NEEDLE });
    open.post(&format!("{WORKFLOWS}/w/terminate"), &end).await.json(200);
    looks(true, true).await;
    for (who, sees) in [("reader", true), ("bare reader", false)] {
        let ask = bearer(Ask::get(&history), who).header("accept", "text/event-stream");
        let streamed = guarded.ask(ask).await;
        assert_eq!(streamed.text.contains(NEEDLE), sees, "{who}: {}", streamed.text);
        assert!(streamed.text.contains("event: WorkflowTerminated"), "{who}: {}", streamed.text);
    }
}

#[tokio::test]
async fn a_reader_without_payloads_gets_a_query_answer_without_one() {
    let open = Api::open().await;
    open.start("w").await;
    open.decide(json!([{ "type": "StartTimer", "timerId": "t", "after": "P9D" }])).await;
    let guarded = guarded(&open);
    for (who, expected) in [("reader", json!(NEEDLE)), ("bare reader", Value::Null)] {
        let ask = Ask::post(&format!("{WORKFLOWS}/w/queries/total"), &json!({ "input": who }));
        let deciding = async {
            let poll = Ask::post(crate::support::DECIDERS, &json!({ "queries": true })).header("prefer", "wait=20");
            let task = open.ask(poll).await.json(200);
            let results = json!({ "queryResults": [{ "id": task["queries"][0]["id"], "result": NEEDLE }] });
            open.post(&format!("{}/complete", turn_path(&task)), &results).await.json(200);
        };
        let (answer, ()) = tokio::join!(guarded.ask(bearer(ask, who)), deciding);
        assert_eq!(answer.json(200)["result"], expected, "{who}");
    }
}

#[tokio::test]
async fn only_an_operator_moves_an_activity_to_another_list() {
    let open = Api::open().await;
    open.start("w").await;
    open.decide(json!([schedule("charge", "PCI")])).await;
    let guarded = guarded(&open);
    let acts = format!("{WORKFLOWS}/w/activities/charge");
    let moves = || Ask::post(&format!("{acts}/options"), &json!({ "taskList": "mine" }));
    for who in ["application", "reader", "decider", "runner", "stranger"] {
        guarded.ask(bearer(moves(), who)).await.problem(403, "forbidden");
        for act in ["success", "failure", "retry", "pause", "resume"] {
            let ask = Ask::post(&format!("{acts}/{act}"), &json!({}));
            guarded.ask(bearer(ask, who)).await.problem(403, "forbidden");
        }
    }
    guarded.ask(bearer(moves(), "domain operator")).await.json(200);
    open.take_activity("mine").await;
}

#[tokio::test]
async fn a_decision_without_permission_is_recorded_as_failed() {
    let open = Api::open().await;
    open.start("w").await;
    let may_decide = Some(Permissions { task_lists: Some(one("mail")), ..Permissions::default() });
    let credentials = vec![
        Credential { deciders: one("default/deciders"), may_decide, ..credential("limited") },
        Credential { deciders: one("default/deciders"), ..credential("order-decider") },
    ];
    let router = router_for(Arc::clone(&open.engine), Credentials::new(credentials).unwrap());
    let guarded = open.with(router);
    for (who, charged) in [("limited", "ActivityScheduleFailed"), ("order-decider", "ActivityScheduled")] {
        let poll = bearer(Ask::post(crate::support::DECIDERS, &json!({})), who);
        let turn = turn_path(&guarded.ask(poll).await.json(200));
        let id = |what: &str| format!("{what} by {who}");
        let decisions = json!({ "decisions": [schedule(&id("charge"), "PCI"), schedule(&id("letter"), "mail")] });
        guarded.ask(bearer(Ask::post(&format!("{turn}/complete"), &decisions), who)).await.json(200);
        let history = open.get(&format!("{WORKFLOWS}/w/history")).await.json(200);
        let of = |name: String| {
            let events = history["events"].as_array().unwrap();
            events.iter().find(|event| event["activityId"] == *name).cloned().unwrap()
        };
        assert_eq!(of(id("letter"))["type"], "ActivityScheduled");
        let charge = of(id("charge"));
        assert_eq!(charge["type"], charged, "{charge}");
        if who == "limited" {
            assert_eq!(charge["cause"], "OperationNotPermitted", "{charge}");
        }
    }
}

#[test]
fn the_access_page_matches_the_table() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/access.md");
    let written = std::fs::read_to_string(&path).unwrap();
    let (before, _) = written.split_once(BEGIN).expect("start of the generated part");
    let expected = format!("{before}{BEGIN}\n{}", page(&table()));
    if writes_docs() {
        std::fs::write(&path, expected).unwrap();
    } else {
        assert!(written == expected, "docs/access.md differs from the table: write it with BATON_DOCS=write");
    }
}
