//! Measures how long each call takes.

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use tokio::time::Instant;

use super::around::Around;
use crate::front::Front;

/// Stands for whatever is no call: paths that are not there, methods that a path does not take.
const NO_CALL: &str = "*";

/// Methods that calls have, and `HEAD`, which goes with `GET`.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// What an answer over SWF's wire was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SwfOperation(pub(crate) &'static str);

/// Measures each call.
#[derive(Clone)]
pub(super) struct MeasuredCall(Front);

/// What is known of a call before.
pub(super) struct Began {
    front: Front,
    route: Option<MatchedPath>,
    method: Method,
    at: Instant,
}

/// The measure of each call.
pub(crate) fn measure(front: Front) -> impl Around {
    MeasuredCall(front)
}

impl Around for MeasuredCall {
    type After = Began;

    fn before(&self, request: Request) -> Result<(Request, Began), Box<Response>> {
        let (route, method) = (request.extensions().get::<MatchedPath>().cloned(), request.method().clone());
        let began = Began { front: self.0.clone(), route, method, at: Instant::now() };
        Ok((request, began))
    }

    fn after(began: Began, response: Response) -> Response {
        let Began { front, route, method, at } = began;
        let status = response.status();
        // A method is whatever somebody has sent, and may be refused for something else before it is looked at.
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
