//! Faults, with the messages that AWS SWF uses. This module does not decide whether a request fails.
//!
//! Source: SWF's API reference.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::json;

use super::fields;
use crate::access::Denied;
use crate::budget::Exhausted;
use crate::http::{Code, Refused};
use engine::admission::{LimitKind, Throttled};
use engine::{Refusal, TokenKind};

/// Content type of all responses that have a body.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");

macro_rules! kinds {
    ($( $name:ident $status:ident $kind:literal; )+) => {
        /// Kinds of faults.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum FaultKind { $( $name, )+ }

        impl FaultKind {
            fn status(self) -> StatusCode {
                match self { $( Self::$name => StatusCode::$status, )+ }
            }

            fn kind(self) -> &'static str {
                match self { $( Self::$name => $kind, )+ }
            }
        }
    };
}

kinds! {
    DefaultUndefined BAD_REQUEST "com.amazonaws.swf.base.model#DefaultUndefinedFault";
    DomainAlreadyExists BAD_REQUEST "com.amazonaws.swf.base.model#DomainAlreadyExistsFault";
    DomainDeprecated BAD_REQUEST "com.amazonaws.swf.base.model#DomainDeprecatedFault";
    LimitExceeded BAD_REQUEST "com.amazonaws.swf.base.model#LimitExceededFault";
    OperationNotPermitted BAD_REQUEST "com.amazonaws.swf.base.model#OperationNotPermittedFault";
    TooManyTags BAD_REQUEST "com.amazonaws.swf.base.model#TooManyTagsFault";
    TypeAlreadyExists BAD_REQUEST "com.amazonaws.swf.base.model#TypeAlreadyExistsFault";
    TypeDeprecated BAD_REQUEST "com.amazonaws.swf.base.model#TypeDeprecatedFault";
    TypeNotDeprecated BAD_REQUEST "com.amazonaws.swf.base.model#TypeNotDeprecatedFault";
    UnknownResource BAD_REQUEST "com.amazonaws.swf.base.model#UnknownResourceFault";
    WorkflowExecutionAlreadyStarted BAD_REQUEST "com.amazonaws.swf.base.model#WorkflowExecutionAlreadyStartedFault";
    Validation BAD_REQUEST "com.amazon.coral.validate#ValidationException";
    IncompleteSignature BAD_REQUEST "com.amazon.coral.service#IncompleteSignatureException";
    InvalidSignature BAD_REQUEST "com.amazon.coral.service#InvalidSignatureException";
    MissingAuthenticationToken BAD_REQUEST "com.amazon.coral.service#MissingAuthenticationTokenException";
    UnrecognizedClient BAD_REQUEST "com.amazon.coral.service#UnrecognizedClientException";
    ExpiredToken BAD_REQUEST "com.amazon.coral.service#ExpiredTokenException";
    Serialization BAD_REQUEST "com.amazon.coral.service#SerializationException";
    UnknownOperation BAD_REQUEST "com.amazon.coral.service#UnknownOperationException";
    TooLarge PAYLOAD_TOO_LARGE "com.amazon.coral.service#RequestEntityTooLargeException";
    UnsupportedMediaType UNSUPPORTED_MEDIA_TYPE "com.amazon.coral.service#UnsupportedMediaTypeException";
    TooManyFailedAttempts TOO_MANY_REQUESTS "com.amazon.coral.availability#ThrottlingException";
    Throttling TOO_MANY_REQUESTS "com.amazon.coral.availability#ThrottlingException";
    TooSlow REQUEST_TIMEOUT "com.amazon.coral.service#RequestTimeoutException";
    Unavailable SERVICE_UNAVAILABLE "com.amazon.coral.service#ServiceUnavailableException";
    Internal INTERNAL_SERVER_ERROR "com.amazon.coral.service#InternalFailure";
}

/// Reason for refusing a request.
#[derive(Debug)]
pub(super) struct SwfFault {
    kind: FaultKind,
    message: String,
    /// Delay in seconds before a retry, if the kind of fault permits retries.
    wait: u64,
}

impl std::fmt::Display for SwfFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl SwfFault {
    pub(super) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), wait: 1 }
    }

    pub(super) fn kind(&self) -> FaultKind {
        self.kind
    }

    pub(super) fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// Returns the name of the fault without its namespace.
    pub(super) fn code(&self) -> &'static str {
        let kind = self.kind.kind();
        kind.rsplit('#').next().unwrap_or(kind)
    }

    #[cfg(test)]
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Returns whether the reason for the fault is overload or a service that cannot write, rather than the request.
    pub(super) fn is_overload(&self) -> bool {
        matches!(self.kind, FaultKind::Unavailable | FaultKind::Throttling)
    }

    /// Returns the fault for a request that exceeds the budget of bytes in flight.
    pub(super) fn overloaded() -> Self {
        Self::new(
            FaultKind::Unavailable,
            "Too many bytes of requests and responses are in flight; retry after a moment",
        )
    }

    /// Returns the fault for a request that was refused because too many other requests are waiting.
    pub(super) fn crowded() -> Self {
        Self::new(FaultKind::Unavailable, "Too many requests are waiting; retry after a moment")
    }

    /// Returns the fault for a request whose credential was revoked while it was processed.
    pub(super) fn revoked() -> Self {
        let what = "The security token included in the request is invalid: it was revoked during the request.";
        Self::new(FaultKind::UnrecognizedClient, what)
    }

    pub(super) fn unknown_domain(name: &str) -> Self {
        Self::new(FaultKind::UnknownResource, format!("Unknown domain: {name}"))
    }

    pub(super) fn into_response(self) -> Response {
        let body = json!({ "__type": self.kind.kind(), "message": self.message });
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.kind.status();
        response.extensions_mut().insert(Code(self.code()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if matches!(self.kind, FaultKind::TooManyFailedAttempts | FaultKind::Throttling | FaultKind::Unavailable) {
            headers.insert(RETRY_AFTER, HeaderValue::from(self.wait));
        }
        response
    }

    /// Returns the kind of denial for the metrics; `None` if the fault does not deny access.
    pub(super) fn denied(&self) -> Option<Denied> {
        match self.kind {
            FaultKind::OperationNotPermitted => Some(Denied::Forbidden),
            FaultKind::ExpiredToken => Some(Denied::Expired),
            FaultKind::TooManyFailedAttempts => Some(Denied::TooManyFailedAttempts),
            FaultKind::IncompleteSignature
            | FaultKind::InvalidSignature
            | FaultKind::MissingAuthenticationToken
            | FaultKind::UnrecognizedClient => Some(Denied::Unauthorized),
            _ => None,
        }
    }
}

impl From<Refusal> for SwfFault {
    /// Converts refusals that become the same fault in all operations. Each operation converts its special refusals
    /// first.
    fn from(refusal: Refusal) -> Self {
        if let Some(message) = fields::of_request(&refusal) {
            return Self::new(FaultKind::Validation, message);
        }
        let kind = match &refusal {
            Refusal::UnknownDomain { domain } => return Self::unknown_domain(domain),
            Refusal::DomainExists { domain } => return Self::new(FaultKind::DomainAlreadyExists, domain),
            Refusal::DomainDeprecated { domain } => return Self::new(FaultKind::DomainDeprecated, domain),
            Refusal::LimitExceeded { .. } => FaultKind::LimitExceeded,
            Refusal::QuotaExceeded(throttled) => return throttled.into(),
            Refusal::TypeExists { .. } => FaultKind::TypeAlreadyExists,
            Refusal::TypeDeprecated { .. } => FaultKind::TypeDeprecated,
            Refusal::TypeInUse { .. } => FaultKind::TypeNotDeprecated,
            Refusal::RunNotCurrent { .. } | Refusal::RunOpen { .. } => FaultKind::UnknownResource,
            Refusal::BadToken | Refusal::BadPage { .. } => {
                return Self::new(FaultKind::Validation, "Invalid token");
            }
            Refusal::WrongTokenKind { found: TokenKind::Decider } => {
                let text = "Invalid token: it belongs to a decision task; respond with RespondDecisionTaskCompleted";
                return Self::new(FaultKind::Validation, text);
            }
            Refusal::WrongTokenKind { found: TokenKind::Activity } => {
                let text = "Invalid token: it belongs to an activity task; respond with RespondActivityTaskCompleted, \
                            RespondActivityTaskFailed or RespondActivityTaskCanceled";
                return Self::new(FaultKind::Validation, text);
            }
            // The fault for every other refusal depends on the refusal's status. Refusals of queries, updates and the
            // deletion of domains do not occur in this protocol.
            other => match other.row().status {
                404 => FaultKind::UnknownResource,
                500 => FaultKind::Internal,
                // AWS has no fault for a full disk. After `ServiceUnavailable`, clients retry.
                503 | 507 => FaultKind::Unavailable,
                _ => FaultKind::Validation,
            },
        };
        Self::new(kind, refusal.to_string())
    }
}

impl From<&Throttled> for SwfFault {
    /// Converts a refusal under a quota. An exceeded rate becomes AWS's throttling fault, and an exceeded number
    /// becomes AWS's fault for an exceeded limit.
    fn from(throttled: &Throttled) -> Self {
        let kind = match throttled.kind {
            LimitKind::Requests | LimitKind::Bytes | LimitKind::Watchers => FaultKind::Throttling,
            LimitKind::OpenRuns | LimitKind::TaskLists => FaultKind::LimitExceeded,
        };
        Self { wait: throttled.retry_after(), ..Self::new(kind, format!("Rate exceeded: {throttled}")) }
    }
}

impl From<Exhausted> for SwfFault {
    fn from(_: Exhausted) -> Self {
        Self::overloaded()
    }
}

impl From<Refused> for SwfFault {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Engine(refusal) => refusal.into(),
            Refused::BodyTooLarge { max } => {
                Self::new(FaultKind::TooLarge, format!("The request has more than {max} bytes"))
            }
            Refused::ListsTooLarge { max } => Self::new(
                FaultKind::TooLarge,
                format!("The members of the request need more than {max} bytes of memory"),
            ),
            Refused::Overloaded { .. } => Self::overloaded(),
            Refused::Crowded => Self::crowded(),
            Refused::AuditLogUnavailable => {
                Self::new(FaultKind::Unavailable, "The audit log cannot be written; nothing was changed")
            }
            Refused::RequestTimeout => Self::new(FaultKind::TooSlow, "The request did not arrive in time"),
            Refused::ContentEncoding(found) => Self::new(
                FaultKind::UnsupportedMediaType,
                format!("Content-Encoding '{found}' is not supported; send the body uncompressed"),
            ),
            Refused::BadJson(what) => Self::new(FaultKind::Serialization, what),
            other => Self::new(FaultKind::Validation, other.to_string()),
        }
    }
}
