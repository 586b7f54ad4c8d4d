//! Middleware that keeps only a few facts about a request while the call runs. Unlike axum's `from_fn`, it reserves no
//! memory for the request while the call waits.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use axum::response::Response;
use tower::{Layer, Service};

/// Middleware with one step before the call and one step after the call.
pub(crate) trait Middleware: Clone + Send + Sync + 'static {
    /// Facts about the request that the first step passes to the second.
    type After: Send + Unpin + 'static;

    /// Step before the call: passes the request on, or returns a response instead.
    fn before(&self, request: Request) -> Result<(Request, Self::After), Box<Response>>;

    /// Step after the call: returns the response, which it may change.
    fn after(after: Self::After, response: Response) -> Response;
}

/// Combination of two middlewares. The first one is the outer one: its first step runs first, and its second step runs
/// last.
impl<A: Middleware, B: Middleware> Middleware for (A, B) {
    type After = (A::After, B::After);

    fn before(&self, request: Request) -> Result<(Request, Self::After), Box<Response>> {
        let (request, outer) = self.0.before(request)?;
        match self.1.before(request) {
            Ok((request, inner)) => Ok((request, (outer, inner))),
            Err(answer) => Err(Box::new(A::after(outer, *answer))),
        }
    }

    fn after((outer, inner): Self::After, response: Response) -> Response {
        A::after(outer, B::after(inner, response))
    }
}

/// Layer that applies a middleware to a service.
#[derive(Debug, Clone)]
pub(crate) struct MiddlewareLayer<A>(pub(crate) A);

impl<A: Clone, S> Layer<S> for MiddlewareLayer<A> {
    type Service = MiddlewareService<A, S>;

    fn layer(&self, inner: S) -> MiddlewareService<A, S> {
        MiddlewareService { what: self.0.clone(), inner }
    }
}

/// Service behind a middleware.
#[derive(Debug, Clone)]
pub(crate) struct MiddlewareService<A, S> {
    what: A,
    inner: S,
}

impl<A, S> Service<Request> for MiddlewareService<A, S>
where
    A: Middleware,
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Unpin,
{
    type Response = Response;
    type Error = Infallible;
    type Future = MiddlewareCall<A, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match self.what.before(request) {
            Ok((request, after)) => MiddlewareCall::Waits(self.inner.call(request), Some(after)),
            Err(answer) => MiddlewareCall::Answered(Some(answer)),
        }
    }
}

/// Future of a call that runs behind a middleware.
pub(crate) enum MiddlewareCall<A: Middleware, F> {
    Waits(F, Option<A::After>),
    Answered(Option<Box<Response>>),
}

impl<A: Middleware, F: Future<Output = Result<Response, Infallible>> + Unpin> Future for MiddlewareCall<A, F> {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut *self {
            Self::Waits(work, after) => {
                let Ok(answer) = ready!(Pin::new(work).poll(context));
                after.take().map(|after| A::after(after, answer))
            }
            Self::Answered(answer) => answer.take().map(|answer| *answer),
        };
        // The inner future has completed and must not be polled again.
        answer.map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)))
    }
}
