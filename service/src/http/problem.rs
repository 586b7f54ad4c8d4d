//! Refusals as problem documents (RFC 9457): their status, code, retry delay, and advice.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use client::body::Problem;
use history::{Fault, Timestamp};
use serde_json::{Map, Value, json};

use super::record::Code;
use crate::access::CredentialKind;
use crate::budget::Exhausted;
use crate::fair::Crowded;
use engine::admission::Throttled;
use engine::{MayBeRecorded, Refusal, RefusalRow, TurnWait};

/// Reason for refusing a request, either before it reached the engine or by the engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The engine has refused the request.
    #[error(transparent)]
    Engine(#[from] Refusal),
    /// The body is invalid.
    #[error("{0}")]
    BadJson(String),
    /// The body is too large.
    #[error("the body has more than {max} bytes")]
    BodyTooLarge { max: usize },
    /// The elements of the body's lists take too much memory.
    #[error("the lists in the body need more than {max} bytes of memory")]
    ListsTooLarge { max: usize },
    /// The request line and the headers are too large.
    #[error("the request line and the headers have more than {max} bytes together")]
    HeadersTooLarge { max: usize },
    /// Other requests in flight use so much memory that too little is left for this one.
    #[error("too many bytes of requests and responses are in flight")]
    Overloaded {
        /// True for `GET` and `HEAD`, which cannot have changed anything.
        changes_nothing: bool,
    },
    /// Too many requests are waiting for a concurrency slot. This request has changed nothing.
    #[error("{Crowded}")]
    Crowded,
    /// The body did not arrive in time.
    #[error("the body did not arrive in time")]
    RequestTimeout,
    /// The content type of the body is not JSON.
    #[error("expected application/json, found `{0}`")]
    ContentType(String),
    /// The body has a content encoding; the service decodes nothing.
    #[error("expected a body without Content-Encoding, found `{0}`")]
    ContentEncoding(String),
    /// A header is invalid.
    #[error("`{header}` {problem}")]
    BadHeader { header: HeaderName, problem: String },
    /// A query parameter is invalid.
    #[error("{0}")]
    BadQuery(String),
    /// A path segment is invalid.
    #[error("{0}")]
    BadPath(String),
    /// The path does not exist.
    #[error("{0}")]
    UnknownPath(String),
    /// The path does not accept this method.
    #[error("{detail}")]
    Method {
        /// Sentence with the methods of the path.
        detail: String,
        /// Value of the `Allow` header.
        allow: HeaderValue,
    },
    /// The `If-Match` header names a run that is not the newest run of the workflow id.
    #[error("`If-Match` has {expected}, which is the tag of another run")]
    Precondition { expected: String },
    /// The request has no credential, or an unknown one.
    #[error("the credential is missing or unknown")]
    Unauthorized,
    /// The session that the cookie names has ended or never existed.
    #[error("the session has expired or does not exist")]
    SessionExpired,
    /// The request has a session cookie and would change something, but lacks the CSRF token of the session.
    #[error("the header `baton-csrf` is missing, or does not have the CSRF token of this session")]
    CsrfTokenMissing,
    /// The secret or token is correct, but has expired.
    #[error("the {} expired at {since}{}", .what.name(), .what.leeway())]
    Expired { what: CredentialKind, since: Timestamp },
    /// The secret or token is correct, but not valid yet.
    #[error("the {} is not valid before {from}{}", .what.name(), .what.leeway())]
    NotYetValid { what: CredentialKind, from: Timestamp },
    /// The token is not trusted. The reason is logged, but not sent to the client.
    #[error("the token is not trusted")]
    Token { why: String },
    /// The token is trusted, but no rule grants it permissions.
    #[error("the token has no permissions: no rule of its issuer matches its claims")]
    NoRule,
    /// The credential was revoked, or expired, during the call.
    #[error("the credential was revoked, or its secret expired, during the request")]
    Revoked,
    /// The connection's certificate belongs to no credential, and the request authenticates in no other way.
    #[error("the certificate of this connection, `{shown}`, is not accepted: {why}")]
    Certificate { shown: String, why: String },
    /// The credential lacks the permission.
    #[error("the credential has no permission to {what}")]
    Forbidden { what: String },
    /// Too many requests with an unknown secret or a wrong signature arrived within a second.
    #[error("the credential is unknown, and there were too many failed attempts")]
    TooManyFailedAttempts,
    /// A web page of another site caused the request.
    #[error("a browser sent the request for a page of another site: {from}")]
    CrossSite { from: String },
    /// The request names a host that is not one of the service's host names.
    #[error("`{host}` is not a known host name of this service")]
    Misdirected { host: String },
    /// The audit log cannot be written, so nothing may be changed; or the audit log cannot be read.
    #[error("the audit log cannot be written or read; nothing was changed")]
    AuditLogUnavailable,
    /// The service has no audit log.
    #[error("this node has no audit log")]
    AuditLogDisabled,
    /// The request is not encrypted, but the service accepts only HTTPS on this port.
    #[error("the request is plain HTTP, but this port requires HTTPS")]
    TlsRequired,
    /// A handler panicked, which is a defect.
    #[error("internal error of the service")]
    Panicked,
}

impl CredentialKind {
    fn name(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Token => "token",
        }
    }

    /// Returns the tolerance for clock skew as a part of a message. It applies only to tokens, because token issuers
    /// have separate clocks.
    fn leeway(self) -> &'static str {
        match self {
            Self::Secret => "",
            Self::Token => ", with a minute of tolerance for clock skew",
        }
    }
}

impl From<Exhausted> for Refused {
    /// Creates the refusal of a request that has changed nothing. The budget is normally exhausted before a request
    /// changes anything.
    fn from(_: Exhausted) -> Self {
        Self::Overloaded { changes_nothing: true }
    }
}

impl From<Crowded> for Refused {
    fn from(_: Crowded) -> Self {
        Self::Crowded
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Engine(fault.into())
    }
}

/// Delay in seconds after which to retry a start that was refused for lack of disk space. Our choice: equals the
/// maximum retry delay of our client library.
const DISK_LOW_WAIT: u64 = 10;

fn fault_members(fault: &Fault) -> Value {
    match fault {
        Fault::RunClosed { status } => json!({ "runStatus": status }),
        Fault::AlreadyOpen { run_id } => json!({ "runId": run_id }),
        Fault::ReuseRefused { run_id, status } => json!({ "runId": run_id, "runStatus": status }),
        Fault::VersionMismatch { expected, found } => json!({ "expected": expected, "found": found }),
        Fault::UnknownUpdate { update_id } | Fault::UpdateAlreadyAccepted { update_id } => {
            json!({ "updateId": update_id })
        }
        Fault::OpenUpdatesLimit { max } => json!({ "max": max }),
        Fault::StateLimit { found, max } => json!({ "found": found, "max": max }),
        Fault::InvalidResetPoint { event_id, before, after } => {
            json!({ "eventId": event_id, "before": before, "after": after })
        }
        Fault::Invalid { field, .. } => json!({ "field": field }),
        Fault::TooLarge { field, found, max, .. } => json!({ "field": field, "found": found, "max": max }),
        Fault::TurnNotWaiting { scheduled_event_id } | Fault::ActivityNotWaiting { scheduled_event_id } => {
            json!({ "scheduledEventId": scheduled_event_id })
        }
        _ => json!({}),
    }
}

fn refusal_members(refusal: &Refusal) -> Value {
    match refusal {
        Refusal::Fault(fault) => fault_members(fault),
        Refusal::TurnLost { how } => match how.after() {
            None => json!({ "cause": how.word() }),
            Some(after) => json!({ "cause": how.word(), "after": after }),
        },
        Refusal::AfterStart { run_id, then } => match refusal_members(then) {
            Value::Object(mut members) => {
                members.insert("startedRunId".to_owned(), json!(run_id));
                Value::Object(members)
            }
            members => members,
        },
        Refusal::RunNotCurrent { current, .. } => json!({ "currentRunId": current }),
        Refusal::RunOpen { run_id } | Refusal::HistoryMismatch { run_id } => json!({ "runId": run_id }),
        Refusal::QuotaExceeded(Throttled { kind, max, whose, .. }) => {
            json!({ "limit": kind.word(), "max": max, "scope": whose.kind(), "name": &*whose.name() })
        }
        Refusal::DiskFull { free, least } => json!({ "free": free, "minimum": least }),
        Refusal::InsufficientStorage { room } => json!({ "free": room.free, "reserve": room.reserve }),
        Refusal::RunTooLarge { found, max } | Refusal::TooManyWaiting { found, max, .. } => {
            json!({ "found": found, "max": max })
        }
        Refusal::UpdateRejected { update_id, reason, details } => {
            json!({ "updateId": update_id, "reason": reason, "details": details })
        }
        Refusal::UpdateFailed { update_id, event_id, reason, details } => {
            json!({ "updateId": update_id, "eventId": event_id, "reason": reason, "details": details })
        }
        Refusal::UpdateTimedOut { update_id, waits_for, .. } => {
            let mut extra = waits_for.as_ref().map_or_else(|| json!({}), turn_wait);
            if let Some(members) = extra.as_object_mut() {
                members.insert("updateId".to_owned(), json!(update_id));
            }
            extra
        }
        Refusal::QueryTimedOut { waits_for: Some(it), .. } => turn_wait(it),
        Refusal::UnknownQuery { known, .. } => json!({ "known": known }),
        Refusal::QueryFailed { reason, message, .. } => json!({ "reason": reason, "message": message }),
        _ => json!({}),
    }
}

fn turn_wait(it: &TurnWait) -> Value {
    match it {
        TurnWait::Unpolled(it) => json!({ "taskList": it.task_list, "noPollersSince": it.since }),
        TurnWait::HeldBack { until, .. } => json!({ "turnNotBefore": until }),
    }
}

impl Refused {
    /// Returns the status, the code and the advice for this refusal.
    pub(crate) fn row(&self) -> RefusalRow {
        const OVERLOADED: RefusalRow =
            RefusalRow::new(503, "overloaded", "retry after a moment; send changes with an Idempotency-Key")
                .retryable();
        match self {
            Self::Engine(refusal) => refusal.row(),
            Self::BadJson(_) => RefusalRow::new(400, "bad-json", "correct the body as described in /openapi.json"),
            Self::BadHeader { .. } => RefusalRow::new(400, "bad-header", "correct the header"),
            Self::BadQuery(_) => RefusalRow::new(400, "bad-query", "correct the query as described in /openapi.json"),
            Self::BadPath(_) => RefusalRow::new(400, "bad-path", "percent-encode ids and names in the path as UTF-8"),
            Self::TlsRequired => RefusalRow::new(400, "tls-required", "use https://"),
            Self::Unauthorized => RefusalRow::new(401, "unauthorized", "send `Authorization: Bearer <secret>`"),
            Self::SessionExpired => RefusalRow::new(401, "session-expired", "sign in again"),
            Self::CsrfTokenMissing => RefusalRow::new(
                403,
                "csrf-token-missing",
                "send the `csrfToken` of `GET /v1/session` in the header `baton-csrf`",
            ),
            Self::Expired { what: CredentialKind::Secret, .. } => RefusalRow::new(
                401,
                "credential-expired",
                "use a newer secret of this credential; the operator can create one with `baton credential new`",
            ),
            Self::Expired { what: CredentialKind::Token, .. } => {
                RefusalRow::new(401, "credential-expired", "get a new token from its issuer")
            }
            Self::NotYetValid { what: CredentialKind::Secret, .. } => RefusalRow::new(
                401,
                "credential-not-yet-valid",
                "use the older secret of this credential until then; if the secret should be valid now, check the \
                 clocks",
            ),
            Self::NotYetValid { what: CredentialKind::Token, .. } => RefusalRow::new(
                401,
                "credential-not-yet-valid",
                "use it later; if the token should be valid now, check the clocks of the issuer and of the service",
            ),
            Self::Token { .. } => RefusalRow::new(
                401,
                "token-refused",
                "get a token for this service, with an expiry time, from an issuer in its configuration; the service's \
                 log has the reason",
            ),
            Self::Revoked => RefusalRow::new(
                401,
                "credential-revoked",
                "use another secret; a change may have been recorded: retry it with the same Idempotency-Key",
            )
            .perhaps_recorded(),
            Self::Certificate { .. } => RefusalRow::new(
                401,
                "certificate-refused",
                "use a certificate that a credential lists in `certificates`, or send `Authorization: Bearer <secret>`",
            ),
            Self::NoRule => RefusalRow::new(
                403,
                "forbidden",
                "get a token with claims that match a rule, or ask the operator to add a rule",
            ),
            Self::Forbidden { .. } => RefusalRow::new(
                403,
                "forbidden",
                "use a credential with this permission, or ask the operator to grant it",
            ),
            Self::CrossSite { .. } => {
                RefusalRow::new(403, "cross-site", "send it from a program, or from a page of the same host and port")
            }
            Self::UnknownPath(_) => RefusalRow::new(404, "unknown-path", "see /openapi.json"),
            Self::AuditLogDisabled => RefusalRow::new(404, "audit-log-disabled", "start the service with --audit-log"),
            Self::Method { .. } => RefusalRow::new(405, "method-not-allowed", "see the Allow header, or /openapi.json"),
            Self::RequestTimeout => {
                RefusalRow::new(408, "request-timeout", "send the whole body without long pauses").retryable()
            }
            Self::Precondition { .. } => {
                RefusalRow::new(412, "version-mismatch", "read the run again before you retry")
            }
            Self::BodyTooLarge { .. } | Self::ListsTooLarge { .. } => {
                RefusalRow::new(413, "too-large", "send smaller requests")
            }
            Self::ContentType(_) => {
                RefusalRow::new(415, "unsupported-media-type", "send JSON with Content-Type: application/json")
            }
            Self::ContentEncoding(_) => RefusalRow::new(
                415,
                "unsupported-media-type",
                "send the body uncompressed and without Content-Encoding",
            ),
            Self::Misdirected { .. } => RefusalRow::new(
                421,
                "misdirected-request",
                "use localhost, or start the service with this host in --allowed-hosts",
            ),
            Self::TooManyFailedAttempts => RefusalRow::new(
                429,
                "too-many-failed-attempts",
                "send `Authorization: Bearer <secret>` with a valid secret; valid credentials are never delayed",
            )
            .retryable(),
            Self::HeadersTooLarge { .. } => RefusalRow::new(431, "headers-too-large", "send fewer or shorter headers"),
            Self::Panicked => {
                RefusalRow::new(500, "internal", "report it as a bug, with the service's log").perhaps_recorded()
            }
            Self::Overloaded { changes_nothing: false } => OVERLOADED.perhaps_recorded(),
            Self::Overloaded { changes_nothing: true } | Self::Crowded => OVERLOADED,
            Self::AuditLogUnavailable => RefusalRow::new(
                503,
                "audit-log-unavailable",
                "retry after a moment; the service's log has the cause for the operator",
            )
            .retryable(),
        }
    }

    /// Returns the additional members of the problem document, which only some codes have. Programs can read them.
    fn members(&self) -> Value {
        match self {
            Self::Engine(refusal) => refusal_members(refusal),
            Self::BodyTooLarge { max } | Self::ListsTooLarge { max } | Self::HeadersTooLarge { max } => {
                json!({ "max": max })
            }
            // The message already contains all details.
            _ => json!({}),
        }
    }

    /// Returns the delay in seconds after which a retry may succeed; `None` if a retry is useless.
    fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Engine(Refusal::Unavailable { retry_after, .. }) => {
                Some(retry_after.map_or(1, |wait| wait.as_secs().max(1)))
            }
            Self::Engine(Refusal::QuotaExceeded(throttled)) => Some(throttled.retry_after()),
            Self::Engine(Refusal::InsufficientStorage { .. } | Refusal::DiskFull { .. }) => Some(DISK_LOW_WAIT),
            Self::TooManyFailedAttempts
            | Self::AuditLogUnavailable
            | Self::Overloaded { .. }
            | Self::Crowded
            | Self::Engine(Refusal::Stopping | Refusal::TooManyWaiting { .. }) => Some(1),
            _ => None,
        }
    }

    /// Returns the problem document.
    pub(crate) fn problem(&self) -> Problem {
        let row = self.row();
        Problem {
            kind: format!("https://baton.invalid/problems/{}", row.code),
            title: row.code.replace('-', " "),
            status: row.status,
            detail: self.to_string(),
            code: row.code.to_owned(),
            retryable: row.is_retryable,
            recorded: match row.recorded {
                MayBeRecorded::No => Value::Bool(false),
                MayBeRecorded::Unknown => json!("unknown"),
            },
            advice: row.advice.to_owned(),
            members: match self.members() {
                Value::Object(members) => members,
                _ => Map::new(),
            },
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (row, problem) = (self.row(), self.problem());
        let mut response = Response::new(Body::from(serde_json::to_vec(&problem).unwrap_or_default()));
        *response.status_mut() = StatusCode::from_u16(row.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(Code(row.code));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Self::Method { allow, .. } = &self {
            headers.insert(ALLOW, allow.clone());
        }
        if row.status == 401 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
