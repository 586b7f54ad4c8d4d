//! Page tokens: with one, no credential reads more than its levels allow, and none can be forged.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use engine::{Engine, Settings, SystemClock};
use serde_json::{Value, json};
use service::access::{Credential, Credentials};
use service::api::{router, router_for};
use simulation::stores::fresh;

use crate::holders::credential;
use crate::support::{Answer, Swf};

const DOMAINS: [&str; 2] = ["d1", "d2"];
const LISTS: [&str; 2] = ["A", "B"];

/// Every domain with each of its lists.
fn places() -> impl Iterator<Item = (&'static str, &'static str)> {
    DOMAINS.into_iter().flat_map(|domain| LISTS.map(|list| (domain, list)))
}

/// Name of a list, which no other name contains.
fn list(domain: &str, list: &str) -> String {
    format!("of-{domain}-{list}")
}

struct World {
    open: Swf,
    guarded: Swf,
    /// Page tokens, each with the operation that returned it.
    tokens: Vec<(&'static str, String)>,
    /// Tokens of started turns.
    turns: Vec<String>,
}

fn next(answer: &Value) -> String {
    answer["nextPageToken"].as_str().unwrap_or_else(|| panic!("no further page: {answer}")).to_owned()
}

async fn rest(swf: &Swf, who: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
    let request = Request::builder().method(method).uri(path).header("authorization", format!("Bearer {who}"));
    let request = match body {
        Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    };
    swf.request(request.unwrap()).await
}

/// Two runs on each of two lists in two domains, and the token of every page of each.
async fn world() -> World {
    let settings = Settings { seed: Some(7), ..Settings::default() };
    let engine = Engine::open(fresh().await, Arc::new(SystemClock), settings).await.unwrap();
    let open = Swf { router: router(Arc::clone(&engine)) };
    let mut credentials = vec![Credential { operator: true, ..credential("operator") }];
    for domain in DOMAINS {
        let name = format!("application {domain}");
        credentials.push(Credential { applications: vec![domain.to_owned()], ..credential(&name) });
    }
    for (domain, list_of) in places() {
        let lists = vec![format!("{domain}/{}", list(domain, list_of))];
        credentials.push(Credential { deciders: lists, ..credential(&format!("decider {domain} {list_of}")) });
    }
    let guarded = Swf { router: router_for(Arc::clone(&engine), Credentials::new(credentials).unwrap()) };
    let mut world = World { open, guarded, tokens: Vec::new(), turns: Vec::new() };
    for domain in DOMAINS {
        let register = json!({ "name": domain, "workflowExecutionRetentionPeriodInDays": "1" });
        world.open.ask("RegisterDomain", &register).await.nothing();
    }
    for (domain, of) in places() {
        world.fill(domain, of).await;
    }
    for domain in DOMAINS {
        world.leaf_through(domain).await;
    }
    let listed = json!({ "registrationStatus": "REGISTERED", "maximumPageSize": 1 });
    let listed = world.open.ask("ListDomains", &listed).await.json();
    world.tokens.push(("ListDomains", next(&listed)));
    world
}

impl World {
    async fn fill(&mut self, domain: &str, of: &str) {
        let name = format!("of-{domain}");
        let kind = json!({
            "domain": domain, "name": name, "version": of,
            "defaultTaskStartToCloseTimeout": "600", "defaultExecutionStartToCloseTimeout": "3600",
            "defaultTaskList": { "name": list(domain, of) }, "defaultChildPolicy": "TERMINATE",
        });
        self.open.ask("RegisterWorkflowType", &kind).await.nothing();
        for id in ["open", "closed"] {
            let id = format!("{id}-{}", list(domain, of));
            let start = json!({ "domain": domain, "workflowId": id, "workflowType": { "name": name, "version": of } });
            let run_id = self.open.ask("StartWorkflowExecution", &start).await.json()["runId"].clone();
            if id.starts_with("closed") {
                let end = json!({ "domain": domain, "workflowId": id });
                self.open.ask("TerminateWorkflowExecution", &end).await.nothing();
            }
            let read = json!({ "domain": domain, "execution": { "workflowId": id, "runId": run_id },
                "maximumPageSize": 1 });
            let page = self.open.ask("GetWorkflowExecutionHistory", &read).await.json();
            self.tokens.push(("GetWorkflowExecutionHistory", next(&page)));
        }
        let schedule = json!({ "scheduleId": list(domain, of), "paused": true, "schedule": {
            "spec": { "intervals": [{ "every": "P1D" }] }, "action": { "workflowId": "n", "workflowType": "t" },
        } });
        let path = format!("/v1/domains/{domain}/schedules");
        rest(&self.open, "", "POST", &path, Some(schedule)).await.status_is(201);
        let poll = json!({ "domain": domain, "taskList": { "name": list(domain, of) }, "maximumPageSize": 1 });
        let turn = self.open.ask("PollForDecisionTask", &poll).await.json();
        self.turns.push(turn["taskToken"].as_str().unwrap().to_owned());
        self.tokens.push(("PollForDecisionTask", next(&turn)));
    }

    async fn leaf_through(&mut self, domain: &str) {
        for operation in ["ListWorkflowTypes", "ListOpenWorkflowExecutions", "ListClosedWorkflowExecutions"] {
            let listed = self.open.ask(operation, &input(domain, "A", None)).await.json();
            self.tokens.push((operation, next(&listed)));
        }
        for list in ["workflows", "schedules"] {
            let path = format!("/v1/domains/{domain}/{list}?limit=1");
            let listed = rest(&self.open, "", "GET", &path, None).await.json();
            self.tokens.push((list, listed["nextPage"].as_str().unwrap().to_owned()));
        }
    }

    /// Sends the token as this caller to every operation that could accept it.
    async fn try_everything(&self, who: &str, (domain, of): (&str, &str), token: &str) -> Vec<(String, Answer)> {
        let mut answers = Vec::new();
        for operation in [
            "PollForDecisionTask",
            "GetWorkflowExecutionHistory",
            "ListWorkflowTypes",
            "ListActivityTypes",
            "ListOpenWorkflowExecutions",
            "ListClosedWorkflowExecutions",
            "ListDomains",
        ] {
            let answer = self.ask_as(who, operation, &input(domain, of, Some(token))).await;
            answers.push((operation.to_owned(), answer));
        }
        for path in [
            format!("/v1/domains/{domain}/workflows?limit=1&page={token}"),
            format!("/v1/domains/{domain}/schedules?limit=1&page={token}"),
            format!("/v1/decider-tasks/{token}/history"),
        ] {
            let answer = rest(&self.guarded, who, "GET", &path, None).await;
            answers.push((path, answer));
        }
        answers
    }

    async fn ask_as(&self, who: &str, operation: &str, input: &Value) -> Answer {
        let (target, bearer) = (format!("SimpleWorkflowService.{operation}"), format!("Bearer {who}"));
        let headers = [
            ("x-amz-target", target.as_str()),
            ("content-type", "application/x-amz-json-1.0"),
            ("authorization", bearer.as_str()),
        ];
        self.guarded.send(&headers, input.to_string()).await
    }
}

fn input(domain: &str, of: &str, token: Option<&str>) -> Value {
    let mut input = json!({
        "domain": domain, "taskList": { "name": list(domain, of) }, "registrationStatus": "REGISTERED",
        "startTimeFilter": { "oldestDate": 0 }, "maximumPageSize": 1,
        "execution": { "workflowId": format!("open-{}", list(domain, of)),
            "runId": "00000000-0000-7000-8000-000000000000" },
    });
    if let Some(token) = token {
        input["nextPageToken"] = json!(token);
    }
    input
}

/// Whether this caller may see this list.
fn may_read(who: &str, domain: &str, of: &str) -> bool {
    match who.split(' ').collect::<Vec<_>>()[..] {
        ["operator"] => true,
        ["application", own] => own == domain,
        ["decider", own, list] => (own, list) == (domain, of),
        _ => false,
    }
}

#[tokio::test]
async fn no_page_token_extends_a_credentials_permissions() {
    let world = world().await;
    let mut names = vec!["operator".to_owned()];
    names.extend(DOMAINS.map(|domain| format!("application {domain}")));
    names.extend(places().map(|(domain, of)| format!("decider {domain} {of}")));
    let turns = world.turns.iter().map(|token| ("", token.clone()));
    let mut led_on = std::collections::BTreeSet::new();
    for (of, token) in world.tokens.iter().cloned().chain(turns) {
        for who in &names {
            for place in places() {
                for (what, answer) in world.try_everything(who, place, &token).await {
                    if answer.status != 200 {
                        continue;
                    }
                    if what == of {
                        led_on.insert(what.clone());
                    }
                    // Types belong to a domain, and are shown to every credential with permissions in it.
                    let shows_types = what == "ListWorkflowTypes";
                    for (domain, of) in places() {
                        let may = may_read(who, domain, of) || shows_types && who.contains(domain);
                        let reads = answer.text.contains(&list(domain, of));
                        assert!(may || !reads, "{who} in {place:?} read {domain}/{of} by {what}: {}", answer.text);
                    }
                }
            }
        }
    }
    // The tokens are valid for their own operations.
    for operation in ["PollForDecisionTask", "ListWorkflowTypes", "ListOpenWorkflowExecutions", "ListDomains"] {
        assert!(led_on.contains(operation), "{operation}: {led_on:?}");
    }
}

#[tokio::test]
async fn a_turns_page_token_is_valid_only_for_its_list_and_decider() {
    let world = world().await;
    let (_, token) = world.tokens.iter().find(|(of, _)| *of == "PollForDecisionTask").unwrap();
    // The token belongs to a turn of the first list of the first domain.
    let ask = async |who: &str, domain: &str, of: &str| {
        world.ask_as(who, "PollForDecisionTask", &input(domain, of, Some(token))).await
    };
    ask("decider d1 A", "d1", "A").await.json();
    for (who, domain, of) in [("decider d1 B", "d1", "B"), ("decider d2 A", "d2", "A"), ("decider d1 B", "d1", "A")] {
        let refused = ask(who, domain, of).await;
        assert!(
            refused.text.contains("has no permission to take or answer turns of list `of-d1-A`"),
            "{}",
            refused.text
        );
    }
    ask("operator", "d2", "A").await.invalid("Invalid token");
    ask("operator", "d1", "B").await.invalid("Invalid token");
}

#[tokio::test]
async fn a_changed_or_forged_page_token_is_refused() {
    let world = world().await;
    for (of, token) in &world.tokens {
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            let answer = match *of {
                "workflows" | "schedules" => {
                    let path = format!("/v1/domains/d1/{of}?limit=1&page={changed}");
                    rest(&world.guarded, "operator", "GET", &path, None).await
                }
                operation => world.ask_as("operator", operation, &input("d1", "A", Some(&changed))).await,
            };
            assert_eq!(answer.status, 400, "{of} changed at {at}: {}", answer.text);
        }
    }
    // A decider knows its turn's token, and the rest of an unsigned page token would be easy to guess.
    let turn = world.turns.first().unwrap();
    for made_up in [format!("t.{:x}.{turn}.1.0.0.1", 1_u64 << 42), format!("h.{:x}.1", 1_u64 << 42)] {
        for operation in ["PollForDecisionTask", "GetWorkflowExecutionHistory"] {
            let answer = world.ask_as("operator", operation, &input("d1", "A", Some(&made_up))).await;
            assert_eq!(answer.status, 400, "{operation}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn tokens_of_a_completed_turn_read_nothing() {
    let world = world().await;
    let turn = world.turns.first().unwrap();
    let (_, page) = world.tokens.iter().find(|(of, _)| *of == "PollForDecisionTask").unwrap();
    let look_back = format!("/v1/decider-tasks/{turn}/history");
    rest(&world.guarded, "decider d1 A", "GET", &look_back, None).await.json();
    world.open.ask("RespondDecisionTaskCompleted", &json!({ "taskToken": turn })).await.nothing();
    let refused = rest(&world.guarded, "decider d1 A", "GET", &look_back, None).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert!(refused.text.contains("turn-completed"), "{}", refused.text);
    let refused = world.ask_as("decider d1 A", "PollForDecisionTask", &input("d1", "A", Some(page))).await;
    assert!(refused.text.contains("Unknown decision task"), "{}", refused.text);
}
