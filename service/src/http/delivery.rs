//! Response bodies that report when they are delivered. If a poller has disconnected before its task was delivered, the
//! task is offered to other pollers immediately.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Frame, SizeHint};

use super::answer::bytes_of_json;
use engine::Receipt;

/// Body of several tasks. Each piece is reported as delivered when the connection takes it.
struct DeliveredPieces<S>(S);

impl<S: Stream<Item = (Bytes, Vec<Receipt>)> + Unpin> hyper::body::Body for DeliveredPieces<S> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let piece = ready!(Pin::new(&mut self.0).poll_next(context));
        Poll::Ready(piece.map(|(bytes, receipts)| {
            receipts.into_iter().for_each(Receipt::delivered);
            Ok(Frame::data(bytes))
        }))
    }
}

/// Body of one task, which is reported as delivered when the connection takes it.
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

/// Returns a response with one task, whose delivery is reported to `receipt`.
pub(crate) fn task(bytes: Vec<u8>, receipt: Receipt) -> Response {
    let body = Delivered { bytes: Some((bytes.into(), receipt)) };
    bytes_of_json(StatusCode::OK, Body::new(body))
}

/// Returns a body that consists of pieces. Each piece has receipts, to which the delivery of the piece's tasks is
/// reported.
pub(crate) fn tasks(pieces: impl Stream<Item = (Bytes, Vec<Receipt>)> + Send + Unpin + 'static) -> Body {
    Body::new(DeliveredPieces(pieces))
}
