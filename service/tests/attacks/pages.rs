//! A web page in the browser of a user whose machine runs a service without credentials: its requests to the service's
//! own name, and to a foreign name that resolves to this machine.

use serde_json::json;

use crate::line::Line;
use crate::support::{Scratch, Service};

#[tokio::test]
async fn a_web_page_changes_takes_and_reads_nothing() {
    let scratch = Scratch::new("web-page");
    let service = Service::start(&scratch.0, &[]);
    let host = service.url.trim_start_matches("http://");
    let mut line = Line::to(host);
    let start = json!({ "workflowId": "w", "workflowType": "order/1", "taskList": "deciders" });
    line.call("POST", "/v1/domains/default/workflows", &[], Some(&start)).await.json(201);
    let of_page = [
        ("host", host),
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
    ];
    // Requests that a form or `fetch` may send without a preflight: no content type, or a simple one.
    for path in [
        "/v1/domains/default/deprecate",
        "/v1/domains/default/workflows/w/terminate",
        "/v1/domains/default/workflows/w/signals/s",
        "/v1/domains/default/task-lists/deciders/decider/poll",
        "/v1/secret/rotate",
        "/v1/clock/confirm",
        "/",
    ] {
        for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
            let mut headers = of_page.to_vec();
            headers.push(("x-amz-target", "SimpleWorkflowService.DeprecateDomain"));
            headers.extend(kind.map(|kind| ("content-type", kind)));
            let body = kind.map(|_| json!({ "name": "default" }));
            let answer = line.call("POST", path, &headers, body.as_ref()).await;
            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        }
    }
    // A foreign name that resolves to this machine, so that the browser treats the service as the page's own.
    for path in ["/v1/domains/default/workflows/w/history", "/metrics", "/v1/domains"] {
        let turned = [("host", "evil.example:7420"), ("sec-fetch-site", "same-origin")];
        assert_eq!(line.call("GET", path, &turned, None).await.status, 421, "{path}");
    }
    let run = line.call("GET", "/v1/domains/default/workflows/w", &[], None).await.json(200);
    assert_eq!((&run["status"], &run["historyLength"]), (&json!("open"), &json!(2)), "{run}");
}
