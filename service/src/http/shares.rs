//! Holds requests to the shares of whoever sends them, and counts the bytes that come and go.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};

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
        Some(under_way) => request.map(|body| Body::new(Counted { body, under_way: under_way.clone() })),
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
    response.map(|body| Body::new(Counted { body, under_way }))
}

/// A body that is part of a request.
struct Counted {
    body: Body,
    under_way: UnderWay,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Self { body, under_way } = &mut *self;
        let frame = ready!(under_way.within(|| Pin::new(body).poll_frame(context)));
        if let Some(bytes) = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref) {
            under_way.add_bytes(bytes.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
