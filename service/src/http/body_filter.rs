//! Bodies that wrap another body and process each of its frames.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};

/// Next frame of a body; `None` at its end.
pub(super) type NextFrame = Option<Result<Frame<Bytes>, axum::Error>>;

/// Filter through which the frames of a body pass.
pub(super) trait BodyFilter: Send + Unpin + 'static {
    /// Returns the next frame of `body`, after processing it.
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame>;
}

/// Returns the number of data bytes in a frame.
pub(super) fn length(piece: &NextFrame) -> u64 {
    let data = piece.as_ref().and_then(|piece| piece.as_ref().ok()).and_then(Frame::data_ref);
    data.map_or(0, |bytes| bytes.len() as u64)
}

/// Returns the next frame of a body, unprocessed.
pub(super) fn next_frame(body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame> {
    Pin::new(body).poll_frame(context)
}

/// Returns a body whose frames are those of `body`, processed by the filter `what`.
pub(super) fn filter_body(body: Body, what: impl BodyFilter) -> Body {
    Body::new(FilteredBody { body, what })
}

struct FilteredBody<T> {
    body: Body,
    what: T,
}

impl<T: BodyFilter> hyper::body::Body for FilteredBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NextFrame> {
        let Self { body, what } = &mut *self;
        what.next(body, context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
