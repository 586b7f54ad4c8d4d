//! Authentication and authorization of operations. `operations.rs` defines the level of each operation. If no
//! credentials are configured, callers are not authenticated.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::Uri;
use axum::http::header::AUTHORIZATION;
use serde_json::{Map, Value};

use super::domains::domain_of;
use super::fault::{FaultKind, SwfFault};
use super::operations::Operation;
use super::signature::Signature;
use super::tasks::turn_of_page;
use crate::access::{AuthenticationError, Credentials, Holder, Need, Principal, Subject};
use crate::tls::Peer;
use engine::Engine;

/// Identity that a request claims in its headers.
pub(super) struct Claim<'a> {
    admitted: Principal,
    /// Signature, with the secret of its key. Present if the signature must still be verified with the body.
    signature: Option<(Signature<'a>, String)>,
}

/// Reads the claimed identity of a request: a signature, or a bearer secret or certificate as in the REST API.
///
/// # Errors
///
/// If the signature is invalid for any body. The body is then not read.
pub(super) fn claim<'a>(
    credentials: &Credentials,
    engine: &Engine,
    headers: &'a HeaderMap,
    peer: Option<&Arc<Peer>>,
) -> Result<Claim<'a>, SwfFault> {
    match credentials.admit(headers, peer, engine.clock().now()) {
        Ok(admitted) => Ok(Claim { admitted, signature: None }),
        Err(AuthenticationError::Unknown) => {
            signer(credentials, engine, headers).map_err(|fault| slowed(fault, credentials, headers))
        }
        Err(no) => Err(no.into()),
    }
}

impl From<AuthenticationError> for SwfFault {
    fn from(no: AuthenticationError) -> Self {
        match no {
            // The SWF protocol accepts neither tokens of issuers nor session cookies.
            AuthenticationError::Unknown
            | AuthenticationError::SessionExpired
            | AuthenticationError::Token { .. }
            | AuthenticationError::NoRule { .. } => unrecognized(),
            AuthenticationError::Expired { since, .. } => {
                let message = format!("The security token included in the request is expired: it expired at {since}");
                Self::new(FaultKind::ExpiredToken, message)
            }
            AuthenticationError::NotYetValid { from, .. } => {
                let message = format!("The security token included in the request is not valid before {from}");
                Self::new(FaultKind::UnrecognizedClient, message)
            }
            AuthenticationError::Certificate { shown, why } => {
                let message = format!("The certificate of the connection, {shown}, is not accepted: {why}");
                Self::new(FaultKind::UnrecognizedClient, message)
            }
        }
    }
}

fn unrecognized() -> SwfFault {
    SwfFault::new(FaultKind::UnrecognizedClient, "The security token included in the request is invalid.")
}

fn signer<'a>(credentials: &Credentials, engine: &Engine, headers: &'a HeaderMap) -> Result<Claim<'a>, SwfFault> {
    let signature = Signature::read(headers)?;
    let (admitted, secret) = credentials.signer(signature.access_key_id).ok_or_else(unrecognized)?;
    signature.check_headers(headers, engine.clock().now())?;
    Ok(Claim { admitted, signature: Some((signature, secret)) })
}

/// Returns a throttling fault instead of `fault` if too many secrets or signatures have failed. Requests without
/// credentials do not count as failed.
fn slowed(fault: SwfFault, credentials: &Credentials, headers: &HeaderMap) -> SwfFault {
    if headers.contains_key(AUTHORIZATION) && credentials.denials().has_guessed_too_often() {
        SwfFault::new(FaultKind::TooManyFailedAttempts, "Rate exceeded")
    } else {
        fault
    }
}

impl Claim<'_> {
    /// Returns true if the caller is already authenticated. Otherwise, the signature must be verified with the body.
    pub(super) fn is_proven(&self) -> bool {
        self.signature.is_none()
    }

    /// Returns the authenticated caller. If there is a signature, verifies it with this body first.
    ///
    /// # Errors
    ///
    /// If the signature belongs to a different request or was made with a different secret, or if the credential is not
    /// valid at this time.
    pub(super) fn prove(
        self,
        credentials: &Credentials,
        engine: &Engine,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Principal, SwfFault> {
        if let Some((signature, secret)) = self.signature {
            let checked = signature.check(&secret, uri, headers, body);
            checked.map_err(|fault| slowed(fault, credentials, headers))?;
        }
        self.admitted.check_validity(engine.clock().now())?;
        Ok(self.admitted)
    }
}

fn text(input: &Map<String, Value>, name: &str) -> String {
    input.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Subject of a request, which determines the needed permission. It is read from the members of the request.
struct RequestSubject<'a> {
    engine: &'a Engine,
    input: &'a Map<String, Value>,
}

impl RequestSubject<'_> {
    fn text(&self, name: &str) -> String {
        text(self.input, name)
    }

    fn list(&self) -> String {
        let list = self.input.get("taskList").and_then(Value::as_object);
        list.map(|list| text(list, "name")).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        self.input.contains_key(name)
    }
}

impl Subject for RequestSubject<'_> {
    type Refusal = SwfFault;

    /// Returns the domain that the request names. Operations about a domain itself have it in a member other than
    /// `domain`.
    fn domain(&self) -> Result<String, SwfFault> {
        if self.has("domain") {
            Ok(self.text("domain"))
        } else if self.has("resourceArn") {
            domain_of(&self.text("resourceArn")).map(str::to_owned)
        } else {
            Ok(self.text("name"))
        }
    }

    /// Returns the task list of the turn. If the request contains a token, the token determines the task list, even if
    /// the request names a different list.
    fn of_decider(&self) -> Result<(String, String), SwfFault> {
        let page_token = self.text("nextPageToken");
        let token = if self.has("taskToken") {
            self.engine.tasks().decider_token(&self.text("taskToken"))?
        } else if page_token.is_empty() {
            return Ok((self.text("domain"), self.list()));
        } else {
            turn_of_page(self.engine, &page_token)?
        };
        Ok((token.domain.to_string(), token.task_list))
    }

    fn of_runner(&self) -> Result<(String, String), SwfFault> {
        if !self.has("taskToken") {
            return Ok((self.text("domain"), self.list()));
        }
        let token = self.engine.tasks().activity_token(&self.text("taskToken"))?;
        Ok((token.domain.to_string(), token.task_list))
    }
}

/// Returns the permission that a request needs. `input` contains only members that the operation has, so that no other
/// member can affect the result.
///
/// # Errors
///
/// If the request contains an invalid token or resource name.
pub(super) fn need(operation: Operation, engine: &Engine, input: &Map<String, Value>) -> Result<Need, SwfFault> {
    operation.level().need(&RequestSubject { engine, input })
}

/// Returns this permission if the holder has it.
///
/// # Errors
///
/// `OperationNotPermittedFault` if the holder lacks the permission.
pub(super) fn check(holder: &Holder, need: Need) -> Result<Need, SwfFault> {
    if need.is_met_by(holder) {
        return Ok(need);
    }
    Err(SwfFault::new(
        FaultKind::OperationNotPermitted,
        format!("The credential has no permission to {}", need.words()),
    ))
}
