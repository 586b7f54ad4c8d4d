//! Extractors for headers, query strings and paths. Invalid values are refused with a message.

use std::time::Duration;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header::{HeaderMap, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderName, Method, Uri};
use axum::response::Response;
use history::{RequestKey, Run, TraceContext};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::http::{AppState, Refused, named, other_segments, trace_of};
use crate::openapi::{Operation, OperationInput};

/// Maximum time for which a request can wait. Source: SWF's 60 seconds.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Maximum length of an `Idempotency-Key` in characters. Our choice.
const KEY_CHARS_MAX: usize = 255;

/// Percent-decoded path parameters, in the order in which they occur in the path.
pub(super) struct Path<const N: usize>(pub(super) [String; N]);

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for Path<N> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|error| Refused::BadPath(error.to_string()))?;
        let segments: Vec<String> = params.iter().map(|(_, value)| named(value).to_owned()).collect();
        segments.try_into().map(Path).map_err(|_| other_segments())
    }
}

impl<const N: usize> OperationInput for Path<N> {
    /// Adds nothing, because the `OpenAPI` document describes path parameters by their names.
    fn describe(_: &mut Operation<'_>) {}
}

/// Inputs of a call about a named item of a domain, such as a type or a schedule.
pub(super) type OnNamed = (AppState, Path<2>, NoQuery);

/// Parameters of the query string. `T` must be declared so that unknown parameters are refused.
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        query(&parts.uri).map(Params)
    }
}

impl<T: JsonSchema> OperationInput for Params<T> {
    fn describe(call: &mut Operation<'_>) {
        call.query::<T>();
    }
}

/// Extractor for calls without query parameters. Refuses a query string with any parameter.
pub(super) struct NoQuery;

impl<S: Send + Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let Some(query) = parts.uri.query().filter(|query| !query.is_empty()) else {
            return Ok(Self);
        };
        let name = query.split(['=', '&']).next().unwrap_or_default();
        Err(Refused::BadQuery(format!("unknown field `{name}`, expected no query")))
    }
}

impl OperationInput for NoQuery {
    fn describe(_: &mut Operation<'_>) {}
}

fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refused> {
    let query = axum::extract::Query::<T>::try_from_uri(uri);
    query.map(|query| query.0).map_err(|error| Refused::BadQuery(error.to_string()))
}

/// Parses `Prefer: wait=N`. `N` is a number of seconds; more than a minute counts as a minute.
fn wait(headers: &HeaderMap) -> Result<Option<Duration>, Refused> {
    let bad =
        |problem: &str| Refused::BadHeader { header: HeaderName::from_static("prefer"), problem: problem.to_owned() };
    for value in headers.get_all("prefer") {
        let text = value.to_str().map_err(|_| bad("has characters that are not ASCII"))?;
        for preference in text.split([',', ';']) {
            let Some((name, seconds)) = preference.split_once('=') else {
                continue;
            };
            if name.trim().eq_ignore_ascii_case("wait") {
                return seconds_to_wait(seconds.trim().trim_matches('"').parse().ok())
                    .map(Some)
                    .ok_or_else(|| bad("has a `wait` that is not a non-negative number of seconds"));
            }
        }
    }
    Ok(None)
}

/// Value of `Prefer: wait=N`. It is extracted before the handler runs, so that a waiting request keeps neither its
/// headers nor their buffer in memory.
pub(super) struct PreferWait(pub(super) Option<Duration>);

impl<S: Send + Sync> FromRequestParts<S> for PreferWait {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let wait = wait(&parts.headers)?;
        // `HEAD` is answered immediately, because waiting would only occupy the connection.
        Ok(Self(if parts.method == Method::HEAD { wait.map(|_| Duration::ZERO) } else { wait }))
    }
}

impl OperationInput for PreferWait {
    fn describe(call: &mut Operation<'_>) {
        call.header("Prefer", "`wait=N`: maximum number of seconds to wait, 0 to 60 (RFC 7240). `HEAD` does not wait.");
        call.answer_header("Preference-Applied", "Applied wait, if the request had one.");
    }
}

/// Adds a header with the wait that was applied (RFC 7240), which may be shorter than the requested one.
pub(super) fn with_wait_applied(mut response: Response, wait: Option<Duration>) -> Response {
    let applied = wait.and_then(|wait| HeaderValue::try_from(format!("wait={}", wait.as_secs_f64())).ok());
    if let Some(applied) = applied {
        response.headers_mut().insert(HeaderName::from_static("preference-applied"), applied);
    }
    response
}

/// Converts a number of seconds to a duration of at most a minute.
fn seconds_to_wait(seconds: Option<f64>) -> Option<Duration> {
    let seconds = seconds.filter(|seconds| *seconds >= 0.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(WAIT_MAX).min(WAIT_MAX))
}

/// Value of `Idempotency-Key`.
pub(super) struct IdempotencyKey(Option<HeaderValue>);

impl IdempotencyKey {
    /// Returns the key as the client sent it.
    pub(super) fn text(&self) -> Option<String> {
        self.0.as_ref().and_then(|value| value.to_str().ok()).map(str::to_owned)
    }

    /// Returns a hash of the key and the operation. A client can therefore use the same key once for each kind of
    /// operation, such as a start and a signal.
    pub(super) fn of(&self, operation: &str) -> Option<RequestKey> {
        Some(request_key(operation, self.0.as_ref()?.as_bytes()))
    }
}

/// Hashes a client's key together with the operation.
pub(super) fn request_key(operation: &str, key: &[u8]) -> RequestKey {
    let digest = Sha256::new().chain_update(operation).chain_update([0]).chain_update(key).finalize();
    let first = digest.first_chunk::<8>().copied().unwrap_or_default();
    RequestKey(u64::from_be_bytes(first))
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let header = HeaderName::from_static("idempotency-key");
        let Some(value) = parts.headers.get(&header) else {
            return Ok(Self(None));
        };
        let key = value.as_bytes();
        if key.is_empty() || key.len() > KEY_CHARS_MAX || !key.iter().all(u8::is_ascii_graphic) {
            let problem = format!("must have 1 to {KEY_CHARS_MAX} visible ASCII characters");
            return Err(Refused::BadHeader { header, problem });
        }
        Ok(Self(Some(value.clone())))
    }
}

impl OperationInput for IdempotencyKey {
    fn describe(call: &mut Operation<'_>) {
        call.header(
            "Idempotency-Key",
            "1 to 255 visible ASCII characters. A request that is repeated with the same key within a day is recorded \
             only once. A repeated start is recognized as long as its run is kept.",
        );
    }
}

/// Trace context of the caller, from `traceparent` and `tracestate`.
pub(super) struct TraceHeaders(pub(super) Option<TraceContext>);

impl<S: Send + Sync> FromRequestParts<S> for TraceHeaders {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        Ok(Self(trace_of(&parts.headers)))
    }
}

impl OperationInput for TraceHeaders {
    fn describe(call: &mut Operation<'_>) {
        call.header("traceparent", "Trace context of the caller (W3C Trace Context). Malformed values are ignored.");
        call.header("tracestate", "Vendor data of that trace. Values of more than 512 bytes are ignored.");
    }
}

/// Entity tag: a run and its version; for a query result, also a hash of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntityTag {
    pub(super) run_id: Uuid,
    pub(super) version: u64,
    pub(super) hash: Option<u64>,
}

impl std::fmt::Display for EntityTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { run_id, version, hash } = self;
        match hash {
            None => write!(f, "\"{run_id}-{version}\""),
            Some(hash) => write!(f, "\"{run_id}-{version}-{hash:016x}\""),
        }
    }
}

impl EntityTag {
    fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        let (run_id, rest) = text.split_at_checked(uuid::fmt::Hyphenated::LENGTH)?;
        let rest = rest.strip_prefix('-')?;
        let (version, hash) = rest.split_once('-').map_or((rest, None), |(version, hash)| (version, Some(hash)));
        let hash = hash.map(|hash| u64::from_str_radix(hash, 16)).transpose().ok()?;
        let tag = Self { run_id: run_id.parse().ok()?, version: version.parse().ok()?, hash };
        // Only the exact text of the tag is accepted. Other spellings, such as uppercase letters, are refused.
        (tag.to_string().get(1..=text.len()) == Some(text)).then_some(tag)
    }

    pub(super) fn of(run: &Run) -> Self {
        Self { run_id: run.started.run_id, version: run.version, hash: None }
    }

    /// Returns whether both tags name the same version of the same run; hashes of results are ignored.
    pub(super) fn names(self, tag: Self) -> bool {
        (self.run_id, self.version) == (tag.run_id, tag.version)
    }
}

/// Returns a response with status 304, which means that the caller already has the current version.
pub(super) fn not_modified(tag: EntityTag) -> Response {
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = axum::http::StatusCode::NOT_MODIFIED;
    with_etag(response, tag)
}

/// Adds the entity tag of a run.
pub(super) fn with_etag(mut response: Response, tag: EntityTag) -> Response {
    if let Ok(value) = HeaderValue::try_from(tag.to_string()) {
        response.headers_mut().insert(axum::http::header::ETAG, value);
    }
    response
}

/// Value of `If-Match`: the version of a run that the caller expects.
pub(super) struct IfMatch(pub(super) Option<EntityTag>);

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let header = axum::http::header::IF_MATCH;
        match parts.headers.get(&header) {
            Some(value) if value.as_bytes().trim_ascii() == b"*" => Ok(Self(None)),
            Some(value) => read_tag(header, value.as_bytes()).map(|tag| Self(Some(tag))),
            None => Ok(Self(None)),
        }
    }
}

impl OperationInput for IfMatch {
    fn describe(call: &mut Operation<'_>) {
        call.header("If-Match", "Entity tag of the run: the call fails if the run has changed since.");
    }
}

/// Value of `If-None-Match`: the version that the caller already has.
pub(super) struct IfNoneMatch(pub(super) Option<EntityTag>);

impl<S: Send + Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let header = axum::http::header::IF_NONE_MATCH;
        let value = parts.headers.get(&header);
        value.map(|value| read_tag(header.clone(), strong(value.as_bytes()))).transpose().map(Self)
    }
}

impl OperationInput for IfNoneMatch {
    fn describe(call: &mut Operation<'_>) {
        call.header(
            "If-None-Match",
            "Entity tag of the run. The call waits until the run differs from it, and responds with 304 if it does not \
             differ within the wait.",
        );
    }
}

/// Removes the prefix of weak tags, which proxies may add. The comparison for `If-None-Match` ignores this prefix.
fn strong(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    value.strip_prefix(b"W/").unwrap_or(value)
}

fn read_tag(header: HeaderName, value: &[u8]) -> Result<EntityTag, Refused> {
    std::str::from_utf8(value.trim_ascii()).ok().and_then(EntityTag::read).ok_or_else(|| Refused::BadHeader {
        header,
        problem: "is not an entity tag of this service; send an `ETag` of an earlier response".to_owned(),
    })
}
