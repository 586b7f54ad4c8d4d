//! Log lines of requests: in the access log, and at debug level in the service's log. They contain names and numbers,
//! but no payload, secret or token. Query parameters that could contain one of these are omitted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use history::{CallerName, Timestamp};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_with::skip_serializing_none;
use tokio::time::Instant;

use super::body_filter::{BodyFilter, NextFrame, filter_body, length, next_frame};
use super::middleware::{Middleware, MiddlewareLayer};
use super::segment::named;
use crate::access_log::AccessLog;
use engine::Engine;

/// Header with the request id, which logs and the response contain.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Header with the request id in SWF responses.
pub(super) const SWF_REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// Log target of request lines in the service's log: `--log info,baton::requests=debug` enables debug level only for
/// these lines.
const REQUESTS: &str = "baton::requests";

/// Query parameters that are logged. Omitted are `identity`, `reason`, `page`, `tag`, `type`, `workflowId`,
/// `workflowIdPrefix`, and unknown parameters.
const QUERY_KEPT: [&str; 14] = [
    "after",
    "before",
    "closedBefore",
    "closedFrom",
    "deprecated",
    "limit",
    "order",
    "reverse",
    "runId",
    "startedBefore",
    "startedFrom",
    "status",
    "terminate",
    "watch",
];

/// Maximum length of a logged parameter value in bytes. Our choice: a timestamp or a run id fits.
const QUERY_VALUE_BYTES_MAX: usize = 40;

/// Maximum length of a logged path in bytes. Our choice: a path with a domain and a workflow id of maximum length
/// fits.
const PATH_BYTES_MAX: usize = 4_096;

/// Path parameter whose value is secret.
const TOKEN: &str = "{token}";

/// Address of a connection's peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// Id of a request, which logs and responses contain.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

impl RequestId {
    pub(crate) fn new() -> Self {
        Self(uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid().to_string())
    }
}

/// Response extension with the error code of a refusal, for the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code(pub(crate) &'static str);

/// Facts that handlers and the gate add to the log line of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestNotes(Arc<Mutex<FoundRoute>>);

#[derive(Debug, Clone, Default)]
struct FoundRoute {
    by: Option<CallerName>,
    operation: Option<&'static str>,
    domain: Option<String>,
}

impl RequestNotes {
    fn lock(&self) -> MutexGuard<'_, FoundRoute> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the name of the caller, also if the caller lacks the permission for the call.
    pub(crate) fn by(&self, by: Option<CallerName>) {
        self.lock().by = by;
    }

    /// Sets the SWF operation.
    pub(crate) fn operation(&self, operation: &'static str) {
        self.lock().operation = Some(operation);
    }

    /// Sets the domain.
    pub(crate) fn domain(&self, domain: &str) {
        self.lock().domain = Some(domain.to_owned());
    }
}

/// Content of a log line.
#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccessEntry {
    time: Timestamp,
    request_id: String,
    by: Option<CallerName>,
    peer: Option<SocketAddr>,
    method: String,
    /// Template of the path; absent if the path does not exist.
    route: Option<String>,
    path: Option<String>,
    query: Option<String>,
    operation: Option<&'static str>,
    domain: Option<String>,
    /// Status of the response; absent if the client left before there was one.
    status: Option<u16>,
    code: Option<&'static str>,
    bytes_in: u64,
    bytes_out: u64,
    milliseconds: f64,
}

/// Log line of a request in progress. It is written when this value is dropped, which happens after the last byte of
/// the response, or when the client has left.
struct AccessLine {
    /// Access log; `None` if the line goes only to the service's log.
    log: Option<Arc<AccessLog>>,
    entry: AccessEntry,
    noted: RequestNotes,
    began: Instant,
    bytes_in: Arc<AtomicU64>,
}

impl Drop for AccessLine {
    fn drop(&mut self) {
        let FoundRoute { by, operation, domain } = self.noted.lock().clone();
        let entry = &mut self.entry;
        (entry.by, entry.operation) = (by, operation);
        entry.domain = domain.or_else(|| entry.domain.take());
        entry.bytes_in = self.bytes_in.load(Ordering::Relaxed);
        entry.milliseconds = milliseconds(self.began.elapsed());
        let entry = &self.entry;
        entry.trace();
        if let Some(log) = &self.log
            && let Ok(mut line) = serde_json::to_vec(entry)
        {
            line.push(b'\n');
            log.put(line);
        }
    }
}

impl AccessEntry {
    /// Writes the entry to the service's log at debug level.
    fn trace(&self) {
        tracing::debug!(
            target: REQUESTS,
            request_id = self.request_id,
            by = self.by.as_ref().map(CallerName::as_str),
            peer = self.peer.map(tracing::field::display),
            method = self.method,
            path = self.path,
            query = self.query,
            operation = self.operation,
            domain = self.domain,
            status = self.status,
            code = self.code,
            bytes_in = self.bytes_in,
            bytes_out = self.bytes_out,
            milliseconds = self.milliseconds,
            "request"
        );
    }
}

/// Adds a log line for each request: in the access log if there is one, and in the service's log if debug level is
/// enabled. If both are off, requests and responses pass unchanged.
pub fn with_request_log(router: Router, engine: &Arc<Engine>, log: Option<Arc<AccessLog>>) -> Router {
    router.layer(MiddlewareLayer(RecordedCall { engine: Arc::clone(engine), log }))
}

#[derive(Clone)]
struct RecordedCall {
    engine: Arc<Engine>,
    log: Option<Arc<AccessLog>>,
}

impl Middleware for RecordedCall {
    type After = Option<Box<AccessLine>>;

    fn before(&self, request: Request) -> Result<(Request, Self::After), Box<Response>> {
        if self.log.is_none() && !tracing::enabled!(target: REQUESTS, tracing::Level::DEBUG) {
            return Ok((request, None));
        }
        let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
        let path = route.as_deref().map(|route| shown_path(route, request.uri().path()));
        let request_id = RequestId::new();
        let noted = RequestNotes::default();
        let bytes_in = Arc::new(AtomicU64::new(0));
        let line = AccessLine {
            entry: AccessEntry {
                time: self.engine.clock().now(),
                request_id: request_id.0.clone(),
                by: None,
                peer: request.extensions().get::<PeerAddress>().map(|peer| peer.0),
                method: request.method().to_string(),
                domain: route.as_deref().and_then(|route| domain_of(route, request.uri().path())),
                query: request.uri().query().map(shown_query).filter(|query| !query.is_empty()),
                route,
                path,
                operation: None,
                status: None,
                code: None,
                bytes_in: 0,
                bytes_out: 0,
                milliseconds: 0.0,
            },
            noted: noted.clone(),
            log: self.log.clone(),
            began: Instant::now(),
            bytes_in: Arc::clone(&bytes_in),
        };
        let mut request = request.map(|body| filter_body(body, CountedIn(bytes_in)));
        request.extensions_mut().insert(noted);
        request.extensions_mut().insert(request_id);
        Ok((request, Some(Box::new(line))))
    }

    fn after(line: Self::After, mut response: Response) -> Response {
        let Some(mut line) = line else { return response };
        line.entry.status = Some(response.status().as_u16());
        line.entry.code = response.extensions().get::<Code>().map(|code| code.0);
        match response.headers().get(SWF_REQUEST_ID).and_then(|id| id.to_str().ok()) {
            Some(id) => id.clone_into(&mut line.entry.request_id),
            None => {
                if let Ok(id) = HeaderValue::from_str(&line.entry.request_id) {
                    response.headers_mut().insert(REQUEST_ID, id);
                }
            }
        }
        response.map(|body| filter_body(body, CountedOut(line)))
    }
}

/// Converts a duration to milliseconds, with microsecond precision.
#[expect(clippy::cast_precision_loss, reason = "nothing takes 2^52 microseconds")]
fn milliseconds(long: Duration) -> f64 {
    long.as_micros() as f64 / 1_000.0
}

/// Returns the path for the log, with a placeholder instead of the value of a token.
fn shown_path(route: &str, path: &str) -> String {
    let mut names = route.split('/');
    let segments = path.split('/').map(|segment| match names.next() {
        Some(TOKEN) => TOKEN,
        _ => segment,
    });
    let mut shown = segments.collect::<Vec<_>>().join("/");
    // Cutting at any byte is safe, because the path is pure ASCII. Other characters are percent-encoded.
    shown.truncate(PATH_BYTES_MAX);
    shown
}

fn domain_of(route: &str, path: &str) -> Option<String> {
    let segment =
        route.split('/').zip(path.split('/')).find(|(name, _)| *name == "{domain}").map(|(_, found)| found)?;
    percent_decode_str(segment).decode_utf8().ok().map(|decoded| named(&decoded).to_owned())
}

/// Returns the query parameters that may be logged, unchanged.
fn shown_query(query: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-:._,".contains(&byte);
    let is_kept = |parameter: &&str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        QUERY_KEPT.contains(&name) && value.len() <= QUERY_VALUE_BYTES_MAX && value.bytes().all(is_plain)
    };
    query.split('&').filter(is_kept).collect::<Vec<_>>().join("&")
}

/// Filter that counts the bytes of a request body.
struct CountedIn(Arc<AtomicU64>);

/// Filter that counts the bytes of a response body. At the end of the body, dropping this filter writes the log line.
struct CountedOut(Box<AccessLine>);

impl BodyFilter for CountedIn {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame> {
        let piece = ready!(next_frame(body, context));
        self.0.fetch_add(length(&piece), Ordering::Relaxed);
        Poll::Ready(piece)
    }
}

impl BodyFilter for CountedOut {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame> {
        let piece = ready!(next_frame(body, context));
        self.0.entry.bytes_out += length(&piece);
        Poll::Ready(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_with_three_decimals() {
        let shown = |nanos| serde_json::to_string(&milliseconds(Duration::from_nanos(nanos))).unwrap();
        assert_eq!([0, 999, 3_127_999, 60_000_000_000].map(shown), ["0.0", "0.0", "3.127", "60000.0"]);
    }

    #[test]
    fn logged_paths_and_queries_contain_no_tokens_or_free_text() {
        for (route, path, shown) in [
            (
                "/v1/decider-tasks/{token}/complete",
                "/v1/decider-tasks/abc/complete",
                "/v1/decider-tasks/{token}/complete",
            ),
            ("/v1/domains/{domain}/workflows/{id}", "/v1/domains/d%2Fe/workflows/w", "/v1/domains/d%2Fe/workflows/w"),
        ] {
            assert_eq!(shown_path(route, path), shown);
        }
        assert_eq!(domain_of("/v1/domains/{domain}", "/v1/domains/d%2Fe").as_deref(), Some("d/e"));
        assert_eq!(domain_of("/v1/decider-tasks/{token}/fail", "/v1/decider-tasks/a/fail"), None);
        for (query, shown) in [
            ("after=7&limit=10&identity=ann&runId=0192-3", "after=7&limit=10&runId=0192-3"),
            ("page=secret&reason=because&tag=a&type=t&workflowId=w&unknown=x", ""),
            ("status=a%20b&limit=1&after=11111111111111111111111111111111111111111", "limit=1"),
            ("watch&order", "watch&order"),
        ] {
            assert_eq!(shown_query(query), shown, "{query}");
        }
    }

    #[test]
    fn a_path_and_a_value_are_kept_up_to_their_limits() {
        let path = format!("/{}", "x".repeat(PATH_BYTES_MAX - 1));
        assert_eq!(shown_path("/{id}", &path), path);
        assert_eq!(shown_path("/{id}", &format!("{path}x")), path);
        let query = format!("limit={}", "1".repeat(QUERY_VALUE_BYTES_MAX));
        assert_eq!(shown_query(&query), query);
        assert_eq!(shown_query(&format!("{query}1")), "");
    }
}
