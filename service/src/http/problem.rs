//! Refusals as problem documents (RFC 9457): which status, whether a retry can help, what to do.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use client::body::Problem;
use history::{Fault, Timestamp, TurnLoss};
use serde_json::{Map, Value, json};

use super::record::Code;
use crate::access::What;
use crate::budget::Exhausted;
use crate::engine::{Recorded, Refusal};
use crate::fair::Crowded;
use crate::shares::Throttled;

/// Why a request was refused before it reached the engine, or by it.
#[derive(Debug)]
pub(crate) enum Refused {
    /// By the engine.
    Engine(Refusal),
    /// The body or the query is not what it should be.
    BadJson(String),
    /// The body is larger than it may be.
    BodyTooLarge { max: usize },
    /// The request line and the headers are larger than they may be.
    HeadersTooLarge { max: usize },
    /// Too many bytes of others are in flight.
    Overloaded {
        /// Whether nothing can have been done.
        changes_nothing: bool,
    },
    /// As many requests wait for their turn as may. Nothing was done.
    Crowded,
    /// The body did not come in time.
    BodyTooSlow,
    /// The body is not JSON by its own account.
    ContentType(String),
    /// A header is not what it should be.
    BadHeader { header: HeaderName, problem: String },
    /// A query parameter is not what it should be.
    BadQuery(String),
    /// A path segment is not what it should be.
    BadPath(String),
    /// There is nothing at this path.
    NoSuchPath,
    /// The path takes other methods.
    Method,
    /// `If-Match` names something else than what is.
    Precondition { expected: String },
    /// No credential, or one that is not known.
    Unauthorized,
    /// A secret or a token that is right, and no longer good.
    Expired { what: What, since: Timestamp },
    /// A secret or a token that is right, and not yet good.
    Early { what: What, from: Timestamp },
    /// A token that is not believed. Why is for the log alone.
    Token { why: String },
    /// A token that is believed, and may do nothing.
    NoRule,
    /// A credential that was revoked, or that expired, meanwhile.
    Revoked,
    /// The certificate of the connection, beside which nothing was shown, lets nobody in.
    Certificate { shown: String, why: String },
    /// A credential that may not do this.
    Forbidden { what: String },
    /// Too many wrong secrets within a second.
    TooManyGuesses,
    /// A page of another site had a browser send it.
    CrossSite { from: String },
    /// It names a host that this service is not.
    Misdirected { host: String },
    /// The audit log cannot be written, so that nothing may be changed; or it cannot be read.
    AuditLogUnavailable,
    /// There is no audit log.
    NoAuditLog,
    /// It is not encrypted, and nothing else is answered here.
    NotEncrypted,
    /// A handler gave up; a defect.
    Panicked,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal)
    }
}

impl From<Exhausted> for Refused {
    /// Before anything was done.
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

fn fault_status(fault: &Fault) -> StatusCode {
    match fault {
        Fault::RunClosed { .. }
        | Fault::AlreadyOpen { .. }
        | Fault::ReuseRefused { .. }
        | Fault::TurnCompleted
        | Fault::TurnLost
        | Fault::TurnNotWaiting { .. }
        | Fault::ActivityClosed
        | Fault::ActivityNotWaiting { .. }
        | Fault::CancelNotRequested
        | Fault::RunPaused
        | Fault::AlreadyPaused
        | Fault::NotPaused
        | Fault::ActivityNotRetryable { .. }
        | Fault::NotAResetPoint { .. }
        | Fault::ResetRefused { .. }
        | Fault::StateLimit { .. }
        | Fault::UpdateUnknown { .. }
        | Fault::UpdateKnown { .. } => StatusCode::CONFLICT,
        Fault::OpenUpdatesLimit { .. } => StatusCode::TOO_MANY_REQUESTS,
        Fault::VersionMoved { .. } => StatusCode::PRECONDITION_FAILED,
        Fault::Invalid { .. } => StatusCode::BAD_REQUEST,
        Fault::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
    }
}

fn refusal_status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Fault(fault) => fault_status(fault),
        Refusal::TurnLost { .. } => fault_status(&Fault::TurnLost),
        Refusal::AfterStart { then, .. } => refusal_status(then),
        Refusal::UnknownDomain { .. }
        | Refusal::UnknownWorkflow { .. }
        | Refusal::UnknownRun { .. }
        | Refusal::UnknownType { .. }
        | Refusal::UnknownSchedule { .. }
        | Refusal::UnknownQuery { .. } => StatusCode::NOT_FOUND,
        Refusal::QueryFailed { .. } | Refusal::UpdateRejected { .. } | Refusal::UpdateFailed { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Refusal::NotAnswered { .. } | Refusal::UpdateNotAnswered { .. } => StatusCode::GATEWAY_TIMEOUT,
        Refusal::TooManyQuestions { .. } | Refusal::QuotaExceeded(_) => StatusCode::TOO_MANY_REQUESTS,
        Refusal::DomainExists { .. }
        | Refusal::DomainDeprecated { .. }
        | Refusal::DomainInUse { .. }
        | Refusal::LimitExceeded { .. }
        | Refusal::TypeExists { .. }
        | Refusal::ScheduleExists { .. }
        | Refusal::TypeDeprecated { .. }
        | Refusal::TypeInUse { .. }
        | Refusal::RunNotCurrent { .. }
        | Refusal::RunOpen { .. }
        | Refusal::QuestionsLost => StatusCode::CONFLICT,
        Refusal::BadToken | Refusal::BadPage { .. } => StatusCode::BAD_REQUEST,
        Refusal::RunTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Refusal::Unavailable { .. } | Refusal::OutcomeUnknown { .. } | Refusal::Stopping => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Refusal::Corrupt { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn fault_advice(fault: &Fault) -> &'static str {
    match fault {
        Fault::RunClosed { .. } => "nothing more can happen to this run; start another one",
        Fault::AlreadyOpen { .. } => "use the open run, or choose another workflow id",
        Fault::ReuseRefused { .. } => "choose another workflow id, or start with another reusePolicy",
        Fault::TurnLost => "drop your answer and poll again; the turn is given to a decider again",
        Fault::TurnNotWaiting { .. } | Fault::ActivityNotWaiting { .. } => "poll again",
        Fault::TurnCompleted | Fault::ActivityClosed => {
            "if you repeated your answer, the first one was recorded; otherwise drop it"
        }
        Fault::RunPaused => "resume the run first, or wait until somebody does",
        Fault::AlreadyPaused => "nothing is left to do; resume it to have it go on",
        Fault::NotPaused => "nothing is left to do: it goes on",
        Fault::ActivityNotRetryable { .. } => "read the run again: its open activities say how they stand",
        Fault::NotAResetPoint { .. } => "choose one of the events that `before` and `after` name",
        Fault::ResetRefused { .. } => "choose another event",
        Fault::CancelNotRequested => {
            "answer with success or failure; canceled is for activities that were asked to stop"
        }
        Fault::VersionMoved { .. } => "read the run again and decide anew",
        Fault::UpdateUnknown { .. } => {
            "answer what the task asks, each once; what nobody waits for any more is not asked again"
        }
        Fault::UpdateKnown { .. } => "drop your answer and poll again",
        Fault::OpenUpdatesLimit { .. } => "wait until the run has answered some of them",
        Fault::StateLimit { .. } => "wait until some of what is open in the run is over, then ask again",
        Fault::Invalid { .. } => "correct the field",
        Fault::TooLarge { .. } => "make it smaller, or keep the content elsewhere and pass where it is",
    }
}

fn refusal_advice(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Fault(fault) => fault_advice(fault),
        Refusal::TurnLost { how: TurnLoss::TimedOut { .. } } => {
            "drop your answer and poll again; the turn is given to a decider again. `deciderStartToClose` at the start \
             of a run says how long a turn may take"
        }
        Refusal::TurnLost { how: TurnLoss::Answered { .. } } => "drop your answer; the history has the first one",
        Refusal::TurnLost { .. } => fault_advice(&Fault::TurnLost),
        Refusal::AfterStart { then, .. } => refusal_advice(then),
        Refusal::UnknownDomain { .. } => "create it with POST /v1/domains, or correct the name",
        Refusal::DomainExists { .. } => "use it",
        Refusal::DomainDeprecated { .. } => "use another domain, or bring this one back with undeprecate",
        Refusal::DomainInUse { .. } => {
            "deprecate it, delete its runs and schedules or wait for their retention, and ask again"
        }
        Refusal::UnknownType { .. } => "register it, or correct the name and the version",
        Refusal::TypeExists { .. } => "use it, or register another version",
        Refusal::UnknownSchedule { .. } => "correct the id, or create the schedule",
        Refusal::ScheduleExists { .. } => "change it with PUT, or choose another id",
        Refusal::TypeDeprecated { .. } => "use another version, or bring this one back with undeprecate",
        Refusal::TypeInUse { .. } => "deprecate it first",
        Refusal::LimitExceeded { .. } => "use or change one of those that there are",
        Refusal::QuotaExceeded(_) => {
            "ask again after as many seconds as Retry-After says; whoever looks after the service may raise the limit"
        }
        Refusal::UnknownWorkflow { .. } => "correct the workflow id; runs are forgotten after their retention",
        Refusal::UnknownRun { .. } => "correct the run id, or leave it out for the newest run",
        Refusal::RunOpen { .. } => "terminate it first, or with the same call: `terminate=true`",
        Refusal::RunNotCurrent { .. } => "leave the run id out to reach the current run",
        Refusal::UnknownQuery { .. } => "correct the name; `known` has those that the decider knows",
        Refusal::QueryFailed { .. } => "read the reason; the run goes on as if nothing had been asked",
        Refusal::NotAnswered { .. } => {
            "ask again; see to it that a decider polls the run's task list and answers queries"
        }
        Refusal::TooManyQuestions { .. } => "ask again after a moment; ask the same of many callers by the same input",
        Refusal::UpdateRejected { .. } => "read the reason; nothing of it is recorded",
        Refusal::UpdateFailed { .. } => "read the reason; the history has the update",
        Refusal::UpdateNotAnswered { .. } => {
            "ask again with the same updateId; see to it that a decider polls the run's task list and takes updates"
        }
        Refusal::QuestionsLost => "drop your answer and poll again",
        Refusal::BadToken => "pass on the token exactly as the poll gave it",
        Refusal::BadPage { .. } => "pass on nextPage exactly as it came, with the same filters",
        Refusal::RunTooLarge { .. } => {
            "have fewer activities and timers open at once, or shorter names; of a schedule, fewer times that wait"
        }
        Refusal::Unavailable { .. } | Refusal::Stopping => "ask again after a moment",
        Refusal::OutcomeUnknown { .. } => "ask again; with an Idempotency-Key that is always safe",
        Refusal::Corrupt { .. } => "tell the operator; `baton fsck` says more",
    }
}

fn fault_members(fault: &Fault) -> Value {
    match fault {
        Fault::RunClosed { status } => json!({ "runStatus": status }),
        Fault::AlreadyOpen { run_id } => json!({ "runId": run_id }),
        Fault::ReuseRefused { run_id, status } => json!({ "runId": run_id, "runStatus": status }),
        Fault::VersionMoved { expected, found } => json!({ "expected": expected, "found": found }),
        Fault::UpdateUnknown { update_id } | Fault::UpdateKnown { update_id } => json!({ "updateId": update_id }),
        Fault::OpenUpdatesLimit { max } => json!({ "max": max }),
        Fault::StateLimit { found, max } => json!({ "found": found, "max": max }),
        Fault::NotAResetPoint { event_id, before, after } => {
            json!({ "eventId": event_id, "before": before, "after": after })
        }
        Fault::Invalid { field, .. } => json!({ "field": field }),
        Fault::TooLarge { field, found, max, .. } => json!({ "field": field, "found": found, "max": max }),
        Fault::TurnNotWaiting { scheduled_event_id } | Fault::ActivityNotWaiting { scheduled_event_id } => {
            json!({ "scheduledEventId": scheduled_event_id })
        }
        Fault::TurnCompleted
        | Fault::TurnLost
        | Fault::ActivityClosed
        | Fault::RunPaused
        | Fault::AlreadyPaused
        | Fault::NotPaused
        | Fault::ActivityNotRetryable { .. }
        | Fault::ResetRefused { .. }
        | Fault::CancelNotRequested => json!({}),
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
        Refusal::RunNotCurrent { current, .. } => json!({ "current": current }),
        Refusal::RunOpen { run_id } => json!({ "runId": run_id }),
        Refusal::QuotaExceeded(Throttled { kind, max, whose, .. }) => {
            json!({ "limit": kind.word(), "max": max, "of": whose.kind(), "name": &*whose.name() })
        }
        Refusal::RunTooLarge { found, max } | Refusal::TooManyQuestions { found, max, .. } => {
            json!({ "found": found, "max": max })
        }
        Refusal::UpdateRejected { update_id, reason, details } => {
            json!({ "updateId": update_id, "reason": reason, "details": details })
        }
        Refusal::UpdateFailed { update_id, event_id, reason, details } => {
            json!({ "updateId": update_id, "eventId": event_id, "reason": reason, "details": details })
        }
        Refusal::UpdateNotAnswered { update_id, unpolled, .. } => match unpolled {
            None => json!({ "updateId": update_id }),
            Some(it) => json!({ "updateId": update_id, "taskList": it.task_list, "unpolledSince": it.since }),
        },
        Refusal::NotAnswered { unpolled: Some(it), .. } => {
            json!({ "taskList": it.task_list, "unpolledSince": it.since })
        }
        Refusal::UnknownQuery { known, .. } => json!({ "known": known }),
        Refusal::QueryFailed { reason, message, .. } => json!({ "reason": reason, "message": message }),
        Refusal::UnknownDomain { .. }
        | Refusal::DomainExists { .. }
        | Refusal::DomainDeprecated { .. }
        | Refusal::DomainInUse { .. }
        | Refusal::LimitExceeded { .. }
        | Refusal::UnknownType { .. }
        | Refusal::UnknownSchedule { .. }
        | Refusal::ScheduleExists { .. }
        | Refusal::TypeExists { .. }
        | Refusal::TypeDeprecated { .. }
        | Refusal::TypeInUse { .. }
        | Refusal::UnknownWorkflow { .. }
        | Refusal::UnknownRun { .. }
        | Refusal::NotAnswered { unpolled: None, .. }
        | Refusal::QuestionsLost
        | Refusal::BadToken
        | Refusal::BadPage { .. }
        | Refusal::Unavailable { .. }
        | Refusal::OutcomeUnknown { .. }
        | Refusal::Stopping
        | Refusal::Corrupt { .. } => json!({}),
    }
}

struct Parts {
    status: StatusCode,
    code: &'static str,
    detail: String,
    advice: &'static str,
    retryable: bool,
    recorded: Value,
    members: Value,
}

impl Parts {
    /// There is more to do than can be done.
    fn put_off(changes_nothing: bool, why: &str) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "overloaded",
            detail: why.to_owned(),
            advice: "ask again after a moment; what changes something, with an Idempotency-Key",
            retryable: true,
            recorded: if changes_nothing { Value::Bool(false) } else { json!("unknown") },
            members: json!({}),
        }
    }

    fn of(refused: &Refused) -> Self {
        let plain = |status, code, detail: String, advice| Self {
            status,
            code,
            detail,
            advice,
            retryable: false,
            recorded: Value::Bool(false),
            members: json!({}),
        };
        match refused {
            Refused::Engine(refusal) => Self {
                status: refusal_status(refusal),
                code: refusal.code(),
                detail: refusal.to_string(),
                advice: refusal_advice(refusal),
                retryable: refusal.is_retryable(),
                recorded: match refusal.recorded() {
                    Recorded::No => Value::Bool(false),
                    Recorded::Unknown => json!("unknown"),
                },
                members: refusal_members(refusal),
            },
            Refused::BadJson(what) => {
                plain(StatusCode::BAD_REQUEST, "bad-json", what.clone(), "correct the body; /openapi.json describes it")
            }
            Refused::BodyTooLarge { max } => Self {
                members: json!({ "max": max }),
                ..plain(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "too-large",
                    format!("the body has more than {max} bytes"),
                    "send less at once",
                )
            },
            Refused::BodyTooSlow => Self {
                retryable: true,
                ..plain(
                    StatusCode::REQUEST_TIMEOUT,
                    "body-too-slow",
                    "the body did not come in time".to_owned(),
                    "send the whole body without long pauses",
                )
            },
            Refused::HeadersTooLarge { max } => Self {
                members: json!({ "max": max }),
                ..plain(
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    "headers-too-large",
                    format!("the request line and the headers have more than {max} bytes"),
                    "send fewer or shorter headers",
                )
            },
            Refused::Overloaded { changes_nothing } => {
                Self::put_off(*changes_nothing, "too many bytes of requests and answers are in flight")
            }
            Refused::Crowded => Self::put_off(true, &Crowded.to_string()),
            Refused::ContentType(found) => plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-media-type",
                format!("expected application/json, found `{found}`"),
                "send JSON, and say so in Content-Type",
            ),
            Refused::BadHeader { header, problem } => {
                plain(StatusCode::BAD_REQUEST, "bad-header", format!("`{header}` {problem}"), "correct the header")
            }
            Refused::BadQuery(what) => plain(
                StatusCode::BAD_REQUEST,
                "bad-query",
                what.clone(),
                "correct the query; /openapi.json describes it",
            ),
            Refused::BadPath(what) => plain(
                StatusCode::BAD_REQUEST,
                "bad-path",
                what.clone(),
                "percent-encode ids and names as UTF-8 in the path",
            ),
            Refused::NoSuchPath => {
                plain(StatusCode::NOT_FOUND, "no-such-path", "nothing is here".to_owned(), "see /openapi.json")
            }
            Refused::Method => plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "this path takes other methods".to_owned(),
                "see the Allow header, or /openapi.json",
            ),
            Refused::Precondition { expected } => plain(
                StatusCode::PRECONDITION_FAILED,
                "version-moved",
                format!("`If-Match` names {expected}, which is of another run"),
                "read the run again and decide anew",
            ),
            Refused::Unauthorized => plain(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "no credential, or one that is not known here".to_owned(),
                "send `Authorization: Bearer <secret>`",
            ),
            Refused::Expired { what: What::Secret, since } => plain(
                StatusCode::UNAUTHORIZED,
                "expired-secret",
                format!("this secret was good until {since}"),
                "use the newer secret of this credential; who looks after the service makes one with `baton credential new`",
            ),
            Refused::Expired { what: What::Token, since } => plain(
                StatusCode::UNAUTHORIZED,
                "expired-token",
                format!("this token was good until {since}, with a minute that clocks may differ"),
                "get another one from its issuer",
            ),
            Refused::Early { what: What::Token, from } => plain(
                StatusCode::UNAUTHORIZED,
                "early-token",
                format!("this token is good from {from} on, with a minute that clocks may differ"),
                "send it then; check the clocks of the issuer and of the service if it should be good by now",
            ),
            Refused::Token { .. } => plain(
                StatusCode::UNAUTHORIZED,
                "token-refused",
                "this token is not one that is believed here".to_owned(),
                "get one from an issuer that the service knows, made for this service and with a time when it ends; \
                 the service's log says what is wrong with this one",
            ),
            Refused::NoRule => plain(
                StatusCode::FORBIDDEN,
                "forbidden",
                "this token may do nothing here: no rule of its issuer is for what it has in its claims".to_owned(),
                "have its issuer put into it what a rule is for, or have the operator add a rule",
            ),
            Refused::Early { what: What::Secret, from } => plain(
                StatusCode::UNAUTHORIZED,
                "early-secret",
                format!("this secret is good from {from} on"),
                "use the older secret of this credential until then; check the clocks if it should be good by now",
            ),
            Refused::Revoked => Self {
                recorded: json!("unknown"),
                ..plain(
                    StatusCode::UNAUTHORIZED,
                    "revoked-secret",
                    "the credential was revoked, or its secret expired, while this was under way".to_owned(),
                    "use another secret; what changes something may have been done: ask again with its Idempotency-Key",
                )
            },
            Refused::Certificate { shown, why } => plain(
                StatusCode::UNAUTHORIZED,
                "certificate-refused",
                format!("the certificate of this connection, `{shown}`, lets nobody in: {why}"),
                "show one that a credential names as one of its `certificates`, or send `Authorization: Bearer <secret>`",
            ),
            Refused::Forbidden { what } => plain(
                StatusCode::FORBIDDEN,
                "forbidden",
                format!("this credential may not {what}"),
                "use a credential that may; the operator's configuration says which",
            ),
            Refused::TooManyGuesses => Self {
                retryable: true,
                ..plain(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too-many-guesses",
                    "a credential that is not known here, after too many others that are not".to_owned(),
                    "send `Authorization: Bearer <secret>` with a secret that is known; it is never made to wait",
                )
            },
            Refused::CrossSite { from } => plain(
                StatusCode::FORBIDDEN,
                "cross-site",
                format!("a browser sent this for a page of another site: {from}"),
                "send it from a program, or from a page that is served under the same host and port",
            ),
            Refused::Misdirected { host } => plain(
                StatusCode::MISDIRECTED_REQUEST,
                "misdirected",
                format!("`{host}` is no name of this machine that the service knows"),
                "ask for it as localhost, or name the host with --allowed-hosts where the service is started",
            ),
            Refused::AuditLogUnavailable => Self {
                retryable: true,
                ..plain(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "audit-log-unavailable",
                    "the audit log cannot be written or read now; nothing is changed without an entry in it".to_owned(),
                    "ask again after a moment; the operator sees the cause in the service's log",
                )
            },
            Refused::NoAuditLog => plain(
                StatusCode::NOT_FOUND,
                "no-audit-log",
                "this node writes no audit log".to_owned(),
                "start the service with --audit-log to have one",
            ),
            Refused::NotEncrypted => plain(
                StatusCode::BAD_REQUEST,
                "not-encrypted",
                "this port speaks HTTPS, and this request is plain HTTP".to_owned(),
                "ask with https://",
            ),
            Refused::Panicked => Self {
                recorded: json!("unknown"),
                ..plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "internal",
                    "the service made a mistake".to_owned(),
                    "report it, with the service's log",
                )
            },
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let parts = Parts::of(&self);
        let problem = Problem {
            kind: format!("https://baton.invalid/problems/{}", parts.code),
            title: parts.code.replace('-', " "),
            status: parts.status.as_u16(),
            detail: parts.detail,
            code: parts.code.to_owned(),
            retryable: parts.retryable,
            recorded: parts.recorded,
            advice: parts.advice.to_owned(),
            members: match parts.members {
                Value::Object(members) => members,
                _ => Map::new(),
            },
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = parts.status;
        response.extensions_mut().insert(Code(parts.code));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self {
            Self::Engine(Refusal::Unavailable { retry_after, .. }) => {
                let seconds = retry_after.map_or(1, |wait| wait.as_secs().max(1));
                headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            }
            Self::Engine(Refusal::QuotaExceeded(throttled)) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(throttled.retry_after()));
            }
            Self::TooManyGuesses
            | Self::AuditLogUnavailable
            | Self::Overloaded { .. }
            | Self::Crowded
            | Self::Engine(Refusal::Stopping | Refusal::TooManyQuestions { .. }) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(1));
            }
            Self::Unauthorized
            | Self::Expired { .. }
            | Self::Early { .. }
            | Self::Token { .. }
            | Self::Revoked
            | Self::Certificate { .. } => {
                headers.insert(axum::http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}
