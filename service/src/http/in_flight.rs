//! Charges requests and responses to the budget of bytes in flight. A request is charged until it is answered, and a
//! response until it is written.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Frame};

use super::body_filter::{BodyFilter, NextFrame, filter_body, next_frame};
use super::middleware::{Middleware, MiddlewareLayer};
use super::problem::Refused;
use crate::budget::{Budget, Exhausted, Purse, Share, Who};
use crate::front::Front;

/// Middleware that charges requests and their responses to the budget. The body of a request is read only after the
/// gate has admitted the caller, so its bytes count as those of a known sender.
#[derive(Clone)]
pub(super) struct Accounted(Arc<Budget>);

/// State between the two steps of the middleware. It holds the request's bytes until the response exists.
pub(super) struct Held {
    budget: Arc<Budget>,
    purse: Purse,
    changes_nothing: bool,
}

/// Returns the middleware that charges requests and responses to the budget.
pub(super) fn account(front: &Front) -> MiddlewareLayer<impl Middleware> {
    MiddlewareLayer(Accounted(Arc::clone(front.budget())))
}

impl Middleware for Accounted {
    type After = Held;

    fn before(&self, mut request: Request) -> Result<(Request, Held), Box<Response>> {
        // The buffers that contain the request exist until there is a response, so their bytes are charged until then.
        let purse = Purse::new(&self.0, Who::Known);
        request.extensions_mut().insert(purse.clone());
        let changes_nothing = matches!(*request.method(), Method::GET | Method::HEAD);
        Ok((request, Held { budget: Arc::clone(&self.0), purse, changes_nothing }))
    }

    fn after(Held { budget, purse, changes_nothing }: Held, response: Response) -> Response {
        let answered = hold(&budget, response);
        drop(purse);
        answered.unwrap_or_else(|Exhausted| Refused::Overloaded { changes_nothing }.into_response())
    }
}

/// Charges a response to the budget until its bytes are written or discarded.
pub(crate) fn hold(budget: &Arc<Budget>, response: Response) -> Result<Response, Exhausted> {
    let share = budget.answer(response.body().size_hint().exact().map_or(0, |bytes| {
        // A size that does not fit into `usize` exceeds the budget in any case.
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }))?;
    Ok(response.map(|body| if body.is_end_stream() { body } else { filter_body(body, Charged(share)) }))
}

/// Filter that charges every frame of a body.
struct Charged(Share);

impl BodyFilter for Charged {
    fn next(&mut self, body: &mut Body, context: &mut Context<'_>) -> Poll<NextFrame> {
        let frame = match ready!(next_frame(body, context)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        let frame = match frame.into_data() {
            // If a stream exceeds the budget, it ends with this error. Its client can reconnect, and continue after the
            // last event that it received.
            Ok(bytes) => self.0.hold(bytes).map(Frame::data).map_err(axum::Error::new),
            Err(frame) => Ok(frame),
        };
        Poll::Ready(Some(frame))
    }
}
