//! Quotas and turns of requests: admits them under the quotas of their sender, schedules them in turns, and counts
//! their bytes.

use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::BoxFuture;
use hyper::body::Body as _;

use super::problem::Refused;
use super::through::{Piece, Through, length, piece_of, through};
use crate::fair::InTurn;
use engine::admission::ChargedRequest;

/// Path segments of calls about tasks that were, or may be, handed out.
const OF_TASKS: [&str; 2] = ["{token}", "exchange"];

/// Returns whether calls of this path name tasks that were handed out. An exchange that names none reports so after its
/// body was read.
pub(super) fn is_of_task(path: &str) -> bool {
    path.split('/').any(|segment| OF_TASKS.contains(&segment))
}

/// Counts the bytes of the request, if a quota needs them.
pub(super) fn counted(under_way: Option<&ChargedRequest>, request: Request) -> Request {
    match under_way.filter(|under_way| under_way.counts_bytes()) {
        Some(under_way) => request.map(|body| through(body, CountedBody(under_way.clone()))),
        None => request,
    }
}

/// Answers an admitted request.
pub(super) async fn answer(under_way: ChargedRequest, work: BoxFuture<'static, Response>) -> Response {
    let response = under_way.during(work).await;
    answer_within(under_way, response)
}

/// Attaches the body to its request, so that its waiting time and its bytes count.
pub(crate) fn answer_within(under_way: ChargedRequest, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() && !under_way.counts_bytes() {
        return response;
    }
    response.map(|body| through(body, CountedBody(under_way)))
}

/// Body that belongs to a request.
struct CountedBody(ChargedRequest);

impl Through for CountedBody {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<Piece> {
        let piece = ready!(self.0.within(|| piece_of(body, context)));
        self.0.add_bytes(length(&piece));
        Poll::Ready(piece)
    }
}

/// Answers a request in its domain's turns.
pub(super) fn in_turn(in_turn: InTurn, work: BoxFuture<'static, Response>) -> BoxFuture<'static, Response> {
    Box::pin(async move {
        match in_turn.during(work).await {
            Ok(response) => in_turn_within(in_turn, response),
            Err(crowded) => Refused::from(crowded).into_response(),
        }
    })
}

/// Attaches the body to its request, so that its pieces are produced in turns.
pub(crate) fn in_turn_within(in_turn: InTurn, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| through(body, Ordered(in_turn)))
}

/// Body whose pieces are produced in turns.
struct Ordered(InTurn);

impl Through for Ordered {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<Piece> {
        // A response that has begun is not refused.
        let piece = ready!(self.0.poll(context, |context| piece_of(body, context)));
        Poll::Ready(piece.unwrap_or_else(|crowded| Some(Err(axum::Error::new(crowded)))))
    }
}
