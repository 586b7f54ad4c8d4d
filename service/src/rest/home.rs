//! Response to `GET /`. Browsers get the console or, if it is not served, a page with first steps. Programs get the
//! location of the API description.

use std::sync::LazyLock;

use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::http::{CONSOLE_ROOT, Console, names_accepted};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Address that the page shows if the request does not contain one.
const ADDRESS: &str = "127.0.0.1:7420";

const STYLE: &str = "\
:root { color-scheme: light dark }\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem }\
pre { padding: .8rem 1rem; overflow-x: auto; border: 1px solid #8886; border-radius: 6px }\
code, pre { font: 14px/1.5 ui-monospace, monospace }\
";

/// Content security policy that permits only the style that this page contains.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
});

pub(super) fn show(console: Console, headers: &HeaderMap) -> Response {
    // A browser is recognized by `text/html` in the `Accept` header. The `*/*` that curl sends does not count.
    let (content_type, body) = match (names_accepted(headers, &ACCEPT, "text/html"), console) {
        (true, Console::On) => return to_console(),
        (true, Console::Off) => ("text/html; charset=utf-8", page(&address(headers))),
        (false, _) => ("application/json", card()),
    };
    let headers: [(HeaderName, HeaderValue); 6] = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (VARY, HeaderValue::from_static("accept")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
    ];
    (StatusCode::OK, headers, body).into_response()
}

fn to_console() -> Response {
    let headers: [(HeaderName, HeaderValue); 3] = [
        (LOCATION, HeaderValue::from_static(CONSOLE_ROOT)),
        (VARY, HeaderValue::from_static("accept")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (StatusCode::FOUND, headers).into_response()
}

/// Returns the address at which the caller reached the service.
fn address(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    // People copy the address into commands. A host with characters that do not belong in an address is therefore
    // ignored.
    let is_address = |host: &&str| {
        !host.is_empty()
            && host
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | ':' | '[' | ']'))
    };
    let host = text(HOST.as_str()).filter(is_address).unwrap_or(ADDRESS);
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    format!("{scheme}://{host}")
}

fn card() -> String {
    let card = json!({
        "service": "baton", "version": VERSION, "openapi": "/openapi.json", "metrics": "/metrics",
        "workflows": "/v1/domains/default/workflows",
    });
    card.to_string()
}

fn page(url: &str) -> String {
    let option = if url.ends_with(ADDRESS) { String::new() } else { format!(" --url {url}") };
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Baton</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Baton {VERSION}</h1>
<p>This is a Baton service: it stores the histories of workflows and dispatches decider tasks and activity tasks. Use it
over REST or with the command line. The web console is disabled (<code>--no-console</code>).</p>
<h2>Start a workflow</h2>
<pre>curl -s {url}/v1/domains/default/workflows -H 'content-type: application/json'   -d '{{"workflowId": "hello-1", "workflowType": "hello", "taskList": "hello"}}'</pre>
<p>The workflow waits until a decider polls its task list. <code>README.md</code> in the source continues from here with
curl, and <a href="/docs">/docs</a> describes every call. If credentials are configured, add
<code>-H 'authorization: Bearer &lt;secret&gt;'</code>.</p>
<h2>List and show workflows</h2>
<pre>baton workflow list{option}
baton workflow show hello-1{option}
baton history hello-1{option}</pre>
<h2>For programs</h2>
<ul>
<li><a href="/openapi.json">/openapi.json</a>: description of the API (OpenAPI)</li>
<li><a href="/metrics">/metrics</a>: metrics for Prometheus</li>
<li><a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a>: liveness and readiness</li>
<li><code>POST /</code>: the protocol of Amazon SWF</li>
</ul>
</body>
</html>
"#
    )
}
