//! Measures the duration of each call.

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use tokio::time::Instant;

use super::middleware::Middleware;
use crate::front::Front;

/// Metric label of requests whose path does not exist, or whose method the path does not accept.
const NO_CALL: &str = "*";

/// Methods that appear in metric labels: those of all calls, and `HEAD`, which `GET` calls answer.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// Response extension with the SWF operation of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SwfOperation(pub(crate) &'static str);

/// Middleware that measures the duration of calls.
#[derive(Clone)]
pub(super) struct MeasuredCall(Front);

/// Facts about a call that are recorded before it runs.
pub(super) struct Began {
    front: Front,
    route: Option<MatchedPath>,
    method: Method,
    at: Instant,
}

/// Returns the middleware that measures the duration of calls.
pub(crate) fn measure(front: Front) -> impl Middleware {
    MeasuredCall(front)
}

impl Middleware for MeasuredCall {
    type After = Began;

    fn before(&self, request: Request) -> Result<(Request, Began), Box<Response>> {
        let (route, method) = (request.extensions().get::<MatchedPath>().cloned(), request.method().clone());
        let began = Began { front: self.0.clone(), route, method, at: Instant::now() };
        Ok((request, began))
    }

    fn after(began: Began, response: Response) -> Response {
        let Began { front, route, method, at } = began;
        let status = response.status();
        // A client can send any method, and other middleware may refuse a request before its method is checked.
        // Arbitrary methods must not become metric labels.
        let route = route.filter(|_| status != StatusCode::METHOD_NOT_ALLOWED && METHODS.contains(&method.as_str()));
        let call = match (response.extensions().get::<SwfOperation>(), route) {
            (Some(SwfOperation(operation)), _) => (*operation).to_owned(),
            (None, Some(route)) => format!("{method} {}", route.as_str()),
            (None, None) => NO_CALL.to_owned(),
        };
        front.call_times().note(&call, status, at.elapsed());
        response
    }
}
