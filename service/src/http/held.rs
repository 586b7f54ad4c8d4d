//! Streamed bodies that end when the caller's credential is no longer valid.

use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::Body as _;

use super::through::{Piece, Through, piece_of, through};
use crate::access::Pass;

/// Error of a body that was cut off.
#[derive(Debug, thiserror::Error)]
#[error("the credential of whoever asked was revoked, or has expired")]
struct CutOff;

/// Cuts a body off when its pass is no longer valid.
struct RevocableBody {
    pass: Pass,
    revoked: BoxFuture<'static, ()>,
}

impl Through for RevocableBody {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<Piece> {
        if self.revoked.poll_unpin(context).is_ready() || !self.pass.is_good() {
            tracing::info!(
                caller = self.pass.holder().name(),
                "a response was cut off because its credential is no longer valid"
            );
            *body = Body::empty();
            self.revoked = std::future::pending().boxed();
            return Poll::Ready(Some(Err(axum::Error::new(CutOff))));
        }
        piece_of(body, context)
    }
}

/// Ends a streamed body when the pass is no longer valid. A body of known length is returned unchanged.
pub(crate) fn hold_body(pass: Pass, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        let revoked = {
            let pass = pass.clone();
            async move { pass.revoked().await }.boxed()
        };
        through(body, RevocableBody { pass, revoked })
    })
}
