//! Bodies that know whether they were taken: a task whose poller has gone goes back at once.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::answer::bytes_of_json;
use engine::Receipt;

/// A task as a body, delivered once the connection takes it.
struct Delivered {
    bytes: Option<(Bytes, Receipt)>,
}

impl hyper::body::Body for Delivered {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = self.bytes.take().map(|(bytes, receipt)| {
            receipt.delivered();
            Ok(Frame::data(bytes))
        });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |(bytes, _)| bytes.len() as u64))
    }
}

/// Answers with a task.
pub(crate) fn task(bytes: Vec<u8>, receipt: Receipt) -> Response {
    let body = Delivered { bytes: Some((bytes.into(), receipt)) };
    bytes_of_json(StatusCode::OK, Body::new(body))
}

/// Lets the connection see whether its peer has hung up while a task came: a yield goes by way of the reactor, and a
/// connection that has ended drops its call, which gives the task back.
pub(crate) async fn look_at_connection() {
    tokio::task::yield_now().await;
}
