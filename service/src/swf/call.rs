//! What every operation is given, and what it answers.

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

/// The account in the names of resources. Ours: there are no accounts, and this is what documentation and mocks use.
pub(super) const ACCOUNT: &str = "123456789012";

/// What every operation is given.
pub(super) struct SwfCall {
    pub(super) engine: Arc<Engine>,
    /// What answers may take of this process's memory.
    pub(super) budget: Arc<Budget>,
    /// Who asks.
    pub(super) caller: Caller,
    /// The region that the caller believes to be in.
    pub(super) region: String,
    /// The trace that the caller is in.
    pub(super) trace: Option<TraceContext>,
    /// Presence of the client.
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

/// What an operation answers: a body, or with `None` nothing at all, not even `{}`.
pub(super) type Answer = Result<Option<Response>, SwfFault>;

/// A request as a type, after it was held against its fields.
pub(super) fn take<T: DeserializeOwned>(input: Map<String, Value>) -> Result<T, SwfFault> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| SwfFault::new(FaultKind::Serialization, error.to_string()))
}

/// An answer with a body.
pub(super) fn body(body: &impl Serialize) -> Answer {
    let bytes = serde_json::to_vec(body).map_err(|error| SwfFault::new(FaultKind::Internal, error.to_string()))?;
    Ok(Some(json(bytes)))
}

/// An answer with a body that is JSON already.
pub(super) fn json(bytes: impl Into<Body>) -> Response {
    let mut response = Response::new(bytes.into());
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}
