//! Inputs and results of operations.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use history::TraceContext;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fault::{FaultKind, JSON, SwfFault};
use crate::access::Caller;
use crate::budget::Budget;
use crate::front::Front;
use crate::http::PeerPresence;
use engine::Engine;

/// AWS account in the names of resources. The service has no accounts. Our choice: the account that AWS's documentation
/// and mock servers use.
pub(super) const ACCOUNT: &str = "123456789012";

/// Context in which an operation runs.
pub(super) struct SwfCall {
    pub(super) engine: Arc<Engine>,
    /// Budget of bytes in flight, to which pages are charged while they are built.
    pub(super) budget: Arc<Budget>,
    /// Authenticated caller.
    pub(super) caller: Caller,
    /// AWS region from the signature of the request, otherwise the default region.
    pub(super) region: String,
    /// Trace context of the caller.
    pub(super) trace: Option<TraceContext>,
    /// Handle for detecting whether the client has left.
    pub(super) peer: PeerPresence,
}

impl SwfCall {
    pub(super) fn new(
        front: &Front,
        caller: Caller,
        region: String,
        trace: Option<TraceContext>,
        peer: PeerPresence,
    ) -> Self {
        Self { engine: Arc::clone(front.engine()), budget: Arc::clone(front.budget()), caller, region, trace, peer }
    }
}

/// Result of an operation. `None` stands for a response whose body is empty, without even `{}`.
pub(super) type Answer = Result<Option<Response>, SwfFault>;

/// Deserializes the members of a request, which have already been checked.
pub(super) fn take<T: DeserializeOwned>(input: Map<String, Value>) -> Result<T, SwfFault> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| SwfFault::new(FaultKind::Serialization, error.to_string()))
}

/// Returns a response with this value as its JSON body.
pub(super) fn body(body: &impl Serialize) -> Answer {
    let bytes = serde_json::to_vec(body).map_err(|error| SwfFault::new(FaultKind::Internal, error.to_string()))?;
    Ok(Some(json(bytes)))
}

/// Returns a response whose body is already serialized as JSON.
pub(super) fn json(bytes: impl Into<Body>) -> Response {
    let mut response = Response::new(bytes.into());
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
