//! Holds requests to the shares of whoever sends them, has them worked on in turns, and counts the bytes that come and go.

use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::BoxFuture;
use hyper::body::Body as _;

use super::problem::Refused;
use super::through::{Piece, Through, length, piece_of, through};
use crate::fair::InTurn;
use engine::shares::UnderWay;

/// The segments of a path that say that a request is about tasks that were handed out, or may be.
const OF_TASKS: [&str; 2] = ["{token}", "exchange"];

/// Whether calls of this path name tasks that were handed out. An exchange that names none says so when its body was read.
pub(super) fn is_of_task(path: &str) -> bool {
    path.split('/').any(|segment| OF_TASKS.contains(&segment))
}

/// The same request, whose bytes count where somebody wants to know.
pub(super) fn counted(under_way: Option<&UnderWay>, request: Request) -> Request {
    match under_way.filter(|under_way| under_way.counts_bytes()) {
        Some(under_way) => request.map(|body| through(body, CountedBody(under_way.clone()))),
        None => request,
    }
}

/// Has a request answered that was admitted.
pub(super) async fn answer(under_way: UnderWay, work: BoxFuture<'static, Response>) -> Response {
    let response = under_way.during(work).await;
    answer_within(under_way, response)
}

/// The same answer, whose body is part of the request still: what it waits for and how many bytes it has counts.
pub(crate) fn answer_within(under_way: UnderWay, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() && !under_way.counts_bytes() {
        return response;
    }
    response.map(|body| through(body, CountedBody(under_way)))
}

/// The body is part of a request.
struct CountedBody(UnderWay);

impl Through for CountedBody {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<Piece> {
        let piece = ready!(self.0.within(|| piece_of(body, context)));
        self.0.add_bytes(length(&piece));
        Poll::Ready(piece)
    }
}

/// Has a request answered in its domain's turns.
pub(super) fn in_turn(in_turn: InTurn, work: BoxFuture<'static, Response>) -> BoxFuture<'static, Response> {
    Box::pin(async move {
        match in_turn.during(work).await {
            Ok(response) => in_turn_within(in_turn, response),
            Err(crowded) => Refused::from(crowded).into_response(),
        }
    })
}

/// The same answer, whose body is part of the request still, and comes in turns.
pub(crate) fn in_turn_within(in_turn: InTurn, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| through(body, Ordered(in_turn)))
}

/// The body comes in turns.
struct Ordered(InTurn);

impl Through for Ordered {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<Piece> {
        // What has begun is not refused.
        let piece = ready!(self.0.poll(context, |context| piece_of(body, context)));
        Poll::Ready(piece.unwrap_or_else(|crowded| Some(Err(axum::Error::new(crowded)))))
    }
}
