//! Bodies that come bit by bit, for as long as whoever asked may have them.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::{Body as _, Frame, SizeHint};

use crate::access::Pass;

/// The body was cut off.
#[derive(Debug, thiserror::Error)]
#[error("the credential of whoever asked was revoked, or has expired")]
struct CutOff;

/// A body that is cut off when its pass is no longer good.
struct Held {
    body: Body,
    pass: Pass,
    revoked: BoxFuture<'static, ()>,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let held = &mut *self;
        if held.revoked.poll_unpin(context).is_ready() || !held.pass.is_good() {
            tracing::info!(who = held.pass.holder().name(), "an answer was cut off: its credential is no longer good");
            held.body = Body::empty();
            held.revoked = std::future::pending().boxed();
            return Poll::Ready(Some(Err(axum::Error::new(CutOff))));
        }
        Pin::new(&mut held.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Has the body end when the pass is no longer good. What is there already goes out as it is.
pub(crate) fn hold_body(pass: Pass, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        let revoked = {
            let pass = pass.clone();
            async move { pass.revoked().await }.boxed()
        };
        Body::new(Held { body, pass, revoked })
    })
}
