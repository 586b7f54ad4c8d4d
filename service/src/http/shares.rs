//! Holds requests to the shares of whoever sends them, and counts the bytes that come and go.

use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Body as _;

use super::through::{Piece, Through, length, piece_of, through};
use crate::access::Need;
use crate::shares::UnderWay;

/// The segment of a path that says that a request is about a task that was handed out.
const TOKEN: &str = "{token}";

/// Whether calls of this path name a task that was handed out.
pub(super) fn is_of_task(path: &str) -> bool {
    path.split('/').any(|segment| segment == TOKEN)
}

/// The domain that a request is about.
pub(crate) fn domain_of(need: &Need) -> Option<&str> {
    match need {
        Need::Nothing | Need::Known | Need::Metrics | Need::Operator | Need::Node => None,
        Need::Related(domain)
        | Need::Reader(domain)
        | Need::Application(domain)
        | Need::DomainOperator(domain)
        | Need::Decider(domain, _)
        | Need::Runner(domain, _) => Some(domain),
    }
}

/// The same request, whose bytes count where somebody wants to know.
pub(super) fn counted(under_way: Option<&UnderWay>, request: Request) -> Request {
    match under_way.filter(|under_way| under_way.counts_bytes()) {
        Some(under_way) => request.map(|body| through(body, Counted(under_way.clone()))),
        None => request,
    }
}

/// Has a request answered that was admitted.
pub(super) async fn answer(under_way: Option<UnderWay>, work: impl Future<Output = Response>) -> Response {
    let Some(under_way) = under_way else { return work.await };
    let response = under_way.during(work).await;
    answer_within(under_way, response)
}

/// The same answer, whose body is part of the request still: what it waits for and how many bytes it has counts.
pub(crate) fn answer_within(under_way: UnderWay, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() && !under_way.counts_bytes() {
        return response;
    }
    response.map(|body| through(body, Counted(under_way)))
}

/// The body is part of a request.
struct Counted(UnderWay);

impl Through for Counted {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<Piece> {
        let piece = ready!(self.0.within(|| piece_of(body, context)));
        self.0.add_bytes(length(&piece));
        Poll::Ready(piece)
    }
}
