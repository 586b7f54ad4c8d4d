//! Admission of a call. An admitted call holds up to three resources until its response has been sent:
//!
//! * The *quotas* of its domain and credential. A request counts while it is processed and while its body is sent.
//! * Its *concurrency slot* (`fair.rs`). Under load, domains take turns in getting slots.
//! * Its *pass*, the permission of the caller. When the caller's credential is revoked, waiting work is dropped and a
//!   streamed body ends.
//!
//! In both protocols, [`Admission::run`] runs all calls: calls that respond at once, waiting polls, streams and
//! exchanges. They differ only in when their work and their bodies make progress.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::Body as _;

use super::body_filter::{BodyFilter, NextFrame, filter_body, length, next_frame};
use crate::access::{Holder, Pass};
use crate::fair::{Crowded, InTurn};
use crate::front::Front;
use engine::admission::{ChargedRequest, RequestOrigin, Throttled};

/// Path segments that show that a call is about dispatched tasks. An exchange is such a call if its body names
/// dispatched tasks.
const OF_TASKS: [&str; 2] = ["{token}", "exchange"];

/// Returns whether calls of this path name tasks that have been dispatched. Whether an exchange names tasks is only
/// known after its body has been read. An exchange that names none is then counted under the quotas like a poll.
pub(super) fn is_of_task(path: &str) -> bool {
    path.split('/').any(|segment| OF_TASKS.contains(&segment))
}

/// Quotas, concurrency slot and pass of an admitted call.
pub(crate) struct Admission {
    under_way: Option<ChargedRequest>,
    /// Handle with which the call gets concurrency slots. `None` for calls without a domain (liveness, metrics, calls
    /// between nodes), which never wait for a slot.
    in_turn: Option<InTurn>,
    /// Pass of the caller (credential and permission). `None` if callers are not authenticated.
    pass: Option<Pass>,
}

/// Reason why the work of a call was not completed.
pub(crate) enum Interrupted {
    /// Too many requests are waiting for a concurrency slot. The work has not begun.
    Crowded(Crowded),
    /// This credential, with which the caller was authenticated, was revoked.
    Revoked(Arc<Holder>),
}

impl Admission {
    /// Admits a call if its quotas permit it.
    pub(crate) fn new(front: &Front, asking: RequestOrigin<'_>) -> Result<Self, Throttled> {
        let RequestOrigin { domain, is_of_task, .. } = asking;
        let under_way = front.engine().quotas().admit(asking)?;
        let in_turn = domain.map(|domain| front.places().claim(domain, is_of_task));
        Ok(Self { under_way, in_turn, pass: None })
    }

    /// Adds the pass (credential and permission) of an authenticated caller.
    pub(crate) fn with_pass(self, pass: Option<Pass>) -> Self {
        Self { pass, ..self }
    }

    /// Wraps a request so that the bytes of its body are counted, if a quota limits bytes.
    pub(super) fn count_body(&self, request: Request) -> Request {
        match self.under_way.as_ref().filter(|under_way| under_way.counts_bytes()) {
            Some(under_way) => request.map(|body| filter_body(body, CountedBody(under_way.clone()))),
            None => request,
        }
    }

    /// Counts these bytes of the request, if a quota limits bytes.
    pub(crate) fn count_bytes(&self, bytes: u64) {
        if let Some(under_way) = &self.under_way {
            under_way.add_bytes(bytes);
        }
    }

    /// Runs the work of the call under its quotas, concurrency slot and pass, if it has them. For each of the three
    /// that the call has, a boxed future wraps the work. A waiting call therefore uses no memory for those that it
    /// lacks.
    pub(crate) fn run(self, work: BoxFuture<'static, Response>) -> BoxFuture<'static, Result<Response, Interrupted>> {
        let Self { under_way, in_turn, pass } = self;
        let work = match under_way {
            Some(under_way) => count_during(under_way, work),
            None => work,
        };
        let work = match in_turn {
            Some(in_turn) => take_turns(in_turn, work),
            None => Box::pin(work.map(Ok)),
        };
        match pass {
            Some(pass) => hold_pass(pass, work),
            None => work,
        }
    }
}

/// Counts a request as in progress while its work runs. If the body is streamed or a quota limits bytes, the request
/// also counts while the body is sent.
fn count_during(under_way: ChargedRequest, work: BoxFuture<'static, Response>) -> BoxFuture<'static, Response> {
    Box::pin(async move {
        let response = under_way.during(work).await;
        if is_complete(&response) && !under_way.counts_bytes() {
            return response;
        }
        response.map(|body| filter_body(body, CountedBody(under_way)))
    })
}

/// Runs each step of the work while the request has a concurrency slot. The pieces of a streamed body are such steps,
/// too.
fn take_turns(
    in_turn: InTurn,
    work: BoxFuture<'static, Response>,
) -> BoxFuture<'static, Result<Response, Interrupted>> {
    Box::pin(async move {
        match in_turn.during(work).await {
            Ok(response) if is_complete(&response) => Ok(response),
            Ok(response) => Ok(response.map(|body| filter_body(body, OrderedBody(in_turn)))),
            Err(crowded) => Err(Interrupted::Crowded(crowded)),
        }
    })
}

/// Drops the work, or ends a streamed body, soon after the caller's credential is revoked.
fn hold_pass(
    pass: Pass,
    work: BoxFuture<'static, Result<Response, Interrupted>>,
) -> BoxFuture<'static, Result<Response, Interrupted>> {
    Box::pin(async move {
        match pass.hold(work).await {
            Some(Ok(response)) if is_complete(&response) => Ok(response),
            Some(Ok(response)) => Ok(response.map(|body| {
                let holder = pass.clone();
                let revoked = async move { holder.revoked().await }.boxed();
                filter_body(body, RevocableBody { pass, revoked })
            })),
            Some(Err(interrupted)) => Err(interrupted),
            None => Err(Interrupted::Revoked(Arc::clone(pass.holder()))),
        }
    })
}

/// Returns whether the whole body exists already. The body of a stream has no known length, because it is produced
/// while it is sent.
fn is_complete(response: &Response) -> bool {
    response.body().size_hint().exact().is_some()
}

/// Body that counts under the quotas of its request: its bytes, and the time while it is sent.
struct CountedBody(ChargedRequest);

impl BodyFilter for CountedBody {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame> {
        let piece = ready!(self.0.within(|| next_frame(body, context)));
        self.0.add_bytes(length(&piece));
        Poll::Ready(piece)
    }
}

/// Body of which each piece is produced while the request has a concurrency slot.
struct OrderedBody(InTurn);

impl BodyFilter for OrderedBody {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame> {
        // Only a request that has not begun can be refused. The request of this body has begun, so the error does not
        // occur.
        let piece = ready!(self.0.poll(context, |context| next_frame(body, context)));
        Poll::Ready(piece.unwrap_or_else(|crowded| Some(Err(axum::Error::new(crowded)))))
    }
}

/// Body that ends soon after the caller's credential is revoked.
struct RevocableBody {
    pass: Pass,
    revoked: BoxFuture<'static, ()>,
}

/// Error that ends a body because the caller's credential was revoked.
#[derive(Debug, thiserror::Error)]
#[error("the caller's credential was revoked or has expired")]
struct CutOff;

impl BodyFilter for RevocableBody {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame> {
        if self.revoked.poll_unpin(context).is_ready() || !self.pass.is_valid() {
            let credential = self.pass.holder().name();
            tracing::info!(credential, "response cut off: the credential was revoked or has expired");
            *body = Body::empty();
            self.revoked = std::future::pending().boxed();
            return Poll::Ready(Some(Err(axum::Error::new(CutOff))));
        }
        next_frame(body, context)
    }
}
