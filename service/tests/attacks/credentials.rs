//! Callers that exceed their permissions, and callers that guess secrets.

use serde_json::{Value, json};

use crate::hash::sha256_hex;
use crate::line::{Answer, Line};
use crate::support::{Scratch, Service};

const CREDENTIALS: [(&str, &str); 6] = [
    ("ops", "operator = true"),
    ("prometheus", "metrics = true"),
    ("eyes", "readers = ['d1']"),
    ("shop", "applications = ['d1']"),
    ("decider-a", "deciders = ['d1/A']"),
    ("decider-b", "deciders = ['d1/B', 'd2/A']"),
];

/// A service with these credentials and two domains, each with two task lists with two waiting turns.
async fn guarded(scratch: &Scratch) -> (Service, Line) {
    let config = scratch.0.join("baton.toml");
    let text = CREDENTIALS.map(|(secret, level)| {
        format!("[[credentials]]\nname = '{secret}'\nsecret-sha256 = '{}'\n{level}\n", sha256_hex(secret))
    });
    std::fs::write(&config, text.concat()).unwrap();
    let service = Service::start(&scratch.0, &["--config", config.to_str().unwrap()]);
    let mut line = Line::to(service.url.trim_start_matches("http://"));
    for domain in ["d1", "d2"] {
        let create = json!({ "name": domain, "description": format!("what {domain} is for") });
        rest(&mut line, "ops", "POST", "/v1/domains", Some(create)).await.json(201);
        for id in ["A1", "A2", "B1", "B2"] {
            let start = json!({ "workflowId": id, "workflowType": "order/1", "taskList": &id[..1], "input": "secret" });
            rest(&mut line, "ops", "POST", &format!("/v1/domains/{domain}/workflows"), Some(start)).await.json(201);
        }
    }
    (service, line)
}

async fn rest(line: &mut Line, who: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
    line.call(method, path, &[("authorization", &format!("Bearer {who}"))], body.as_ref()).await
}

async fn swf(line: &mut Line, who: &str, operation: &str, body: Value) -> Answer {
    let (authorization, target) = (format!("Bearer {who}"), format!("SimpleWorkflowService.{operation}"));
    let headers =
        [("authorization", &*authorization), ("x-amz-target", &target), ("content-type", "application/x-amz-json-1.0")];
    line.call("POST", "/", &headers, Some(&body)).await
}

#[tokio::test]
async fn a_page_token_of_another_list_is_refused() {
    let scratch = Scratch::new("tokens");
    let (_service, mut line) = guarded(&scratch).await;
    for (domain, list) in [("d1", "B"), ("d2", "A")] {
        let poll =
            |domain: &str, list: &str| json!({ "domain": domain, "taskList": { "name": list }, "maximumPageSize": 1 });
        let task = swf(&mut line, "decider-b", "PollForDecisionTask", poll(domain, list)).await.json(200);
        let token = task["nextPageToken"].clone();
        assert!(token.is_string(), "{task}");
        // The request is for the caller's own list, but the token belongs to another.
        let mut stolen = poll("d1", "A");
        stolen["nextPageToken"] = token.clone();
        let answer = swf(&mut line, "decider-a", "PollForDecisionTask", stolen).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(!answer.text().contains("secret"), "{}", answer.text());
        // Its owner gets the next page.
        let mut own = poll(domain, list);
        own["nextPageToken"] = token;
        swf(&mut line, "decider-b", "PollForDecisionTask", own).await.json(200);
        // No other decider may complete or read the turn.
        let turn = task["taskToken"].as_str().unwrap();
        let complete = json!({ "taskToken": turn, "decisions": [] });
        assert_eq!(swf(&mut line, "decider-a", "RespondDecisionTaskCompleted", complete).await.status, 400);
    }
}

#[tokio::test]
async fn no_level_permits_more_than_it_should() {
    let scratch = Scratch::new("levels");
    let (_service, mut line) = guarded(&scratch).await;
    let run = "/v1/domains/d1/workflows/A1";
    let activity = format!("{run}/activities/a");
    for (who, method, path) in [
        // The metrics level neither deletes nor reads.
        ("prometheus", "DELETE", run),
        ("prometheus", "GET", run),
        ("prometheus", "POST", "/v1/secret/rotate"),
        // A reader changes nothing.
        ("eyes", "POST", &format!("{run}/terminate")),
        ("eyes", "POST", &format!("{run}/signals/s")),
        ("eyes", "GET", "/metrics"),
        // An application completes no activity, moves none, and changes no types.
        ("shop", "POST", &format!("{activity}/success")),
        ("shop", "POST", &format!("{activity}/options")),
        ("shop", "POST", &format!("{run}/reset")),
        ("shop", "POST", &format!("{run}/pause")),
        ("shop", "DELETE", "/v1/domains/d1/workflow-types/order%2F1"),
        ("shop", "DELETE", "/v1/domains/d1"),
        // A decider only decides on its list.
        ("decider-a", "GET", run),
        ("decider-a", "POST", "/v1/domains/d1/task-lists/B/decider/poll"),
        ("decider-a", "POST", "/v1/domains/d1/task-lists/A/activity/poll"),
        // Other domains are out of reach.
        ("eyes", "GET", "/v1/domains/d2/workflows/A1"),
        ("shop", "POST", "/v1/domains/d2/workflows/A1/terminate"),
    ] {
        let body = (method == "POST").then(|| json!({}));
        let answer = rest(&mut line, who, method, path, body).await;
        assert_eq!(answer.status, 403, "{who}: {method} {path}: {}", answer.text());
        if method == "GET" {
            assert_eq!(rest(&mut line, who, "HEAD", path, None).await.status, 403, "{who}: HEAD {path}");
        }
    }
    for who in ["eyes", "shop", "decider-a"] {
        let domains = rest(&mut line, who, "GET", "/v1/domains", None).await.json(200).to_string();
        assert!(domains.contains("what d1 is for") && !domains.contains("d2"), "{who}: {domains}");
        let list = json!({ "registrationStatus": "REGISTERED" });
        let domains = swf(&mut line, who, "ListDomains", list).await.text();
        assert!(!domains.contains("d2"), "{who}: {domains}");
    }
}

#[tokio::test]
async fn guesses_are_throttled_and_valid_secrets_are_not() {
    let scratch = Scratch::new("guesses");
    let (_service, mut line) = guarded(&scratch).await;
    let mut heard = 0;
    for number in 0..3_000 {
        let answer = rest(&mut line, &format!("guess-{number}"), "GET", "/v1/domains", None).await;
        match answer.status {
            401 => heard += 1,
            429 => {}
            other => panic!("{other}: {}", answer.text()),
        }
        if number % 100 == 0 {
            rest(&mut line, "ops", "GET", "/v1/domains", None).await.json(200);
        }
    }
    println!("{heard} of 3,000 guesses were verified");
    assert!(heard < 2_000, "{heard}");
    let metrics = rest(&mut line, "prometheus", "GET", "/metrics", None).await.text();
    assert!(metrics.contains("baton_denied_requests_total{reason=\"too-many-failed-attempts\"}"), "{metrics}");
}
