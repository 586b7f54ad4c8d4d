//! Measures how long each call takes.

use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use crate::front::Front;

/// Stands for whatever is no call: paths that are not there, methods that a path does not take.
const NO_CALL: &str = "*";

/// Methods that calls have, and `HEAD`, which goes with `GET`.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// What an answer over SWF's wire was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SwfOperation(pub(crate) &'static str);

/// Measures each call.
pub(crate) async fn measure(State(front): State<Front>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let began = Instant::now();
    let response = next.run(request).await;
    let status = response.status();
    // A method is whatever somebody has sent, and may be refused for something else before it is looked at.
    let route = route.filter(|_| status != StatusCode::METHOD_NOT_ALLOWED && METHODS.contains(&method.as_str()));
    let call = match (response.extensions().get::<SwfOperation>(), route) {
        (Some(SwfOperation(operation)), _) => (*operation).to_owned(),
        (None, Some(route)) => format!("{method} {}", route.as_str()),
        (None, None) => NO_CALL.to_owned(),
    };
    front.call_times().note(&call, status, began.elapsed());
    response
}
