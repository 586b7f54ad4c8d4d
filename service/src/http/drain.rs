//! Draining of unread request bodies. If a request is refused early, the rest of its body remains unread on the
//! connection. Closing a connection with unread bytes resets it. Many clients then lose the response, because they
//! send the whole body before they read. The rest is therefore read and discarded, within limits, while the response
//! is sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};

/// Maximum number of bytes to discard per body. Our choice: the maximum size of a decider's answer, so that a body
/// sent to the wrong path is drained completely. Discarded bytes are not kept in memory.
const DRAIN_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Maximum time for draining a body. Our choice: longer than clients pause while sending. Clients that read while they
/// send have received the response within this time.
const DRAIN_WAIT: Duration = Duration::from_secs(1);

/// Body whose unread rest is drained when this value is dropped.
pub(super) struct DrainedBody<B: Body<Data = Bytes> + Send + Unpin + 'static> {
    /// The body; `None` after its end.
    body: Option<B>,
    /// True if the client waits for `100 Continue` before it sends the body. Such a body is not drained, because
    /// reading would make the client send it.
    is_awaited: bool,
}

impl<B: Body<Data = Bytes> + Send + Unpin + 'static> DrainedBody<B> {
    pub(super) fn new(body: B, is_awaited: bool) -> Self {
        Self { body: Some(body).filter(|body| !body.is_end_stream()), is_awaited }
    }
}

impl<B: Body<Data = Bytes> + Send + Unpin + 'static> Body for DrainedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.is_awaited = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B: Body<Data = Bytes> + Send + Unpin + 'static> Drop for DrainedBody<B> {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !self.is_awaited && !body.is_end_stream());
        // Without a runtime, the connection no longer exists, so nothing needs to be drained.
        if let (Some(rest), Ok(runtime)) = (rest, tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(DRAIN_WAIT, drain(rest)));
        }
    }
}

/// Discards the rest of a body, within the limit.
async fn drain(mut body: impl Body<Data = Bytes> + Unpin) {
    let mut left = DRAIN_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use futures_util::{StreamExt as _, stream};
    use http_body_util::StreamBody;

    use super::*;

    #[tokio::test]
    async fn a_body_is_drained_up_to_8_mib() {
        let mib = Bytes::from(vec![0; 1 << 20]);
        for (sent, expected) in [(8, 8), (9, 9), (12, 9)] {
            let mut read = 0;
            let frames = stream::iter(0..sent).map(|_| {
                read += 1;
                Ok::<_, Infallible>(Frame::data(mib.clone()))
            });
            drain(StreamBody::new(frames)).await;
            assert_eq!(read, expected, "of {sent} MiB: the frame that passes the bound is the last");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_drained_for_one_second() {
        let held = Arc::new(());
        let holder = Arc::clone(&held);
        let frames = stream::pending::<Result<Frame<Bytes>, Infallible>>().inspect(move |_| {
            let _ = &holder;
        });
        drop(DrainedBody::new(StreamBody::new(frames), false));
        tokio::time::sleep(DRAIN_WAIT.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(Arc::strong_count(&held), 2, "it is read");
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(Arc::strong_count(&held), 1, "it is given up");
    }
}
