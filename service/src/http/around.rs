//! What is done before each call and after it, where both are done at once: a call that waits meanwhile has room for what is
//! needed afterwards, and for nothing of its request. axum's `from_fn` keeps room for the request as well, several times.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::extract::Request;
use axum::response::Response;
use futures_util::FutureExt as _;
use tower::{Layer, Service};

use super::later::{later, pending};

/// See the module.
pub(crate) trait Around: Clone + Send + Sync + 'static {
    /// What is needed afterwards.
    type After: Send + Unpin + 'static;

    /// Has the call go on with this request, or answers it.
    fn before(&self, request: Request) -> Result<(Request, Self::After), Box<Response>>;

    /// Has the answer go on.
    fn after(after: Self::After, response: Response) -> Response;
}

/// The first around the second.
impl<A: Around, B: Around> Around for (A, B) {
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

/// This around each call.
#[derive(Debug, Clone)]
pub(crate) struct With<A>(pub(crate) A);

impl<A: Clone, S> Layer<S> for With<A> {
    type Service = Surrounded<A, S>;

    fn layer(&self, inner: S) -> Surrounded<A, S> {
        Surrounded { what: self.0.clone(), inner }
    }
}

/// Calls with something around them.
#[derive(Debug, Clone)]
pub(crate) struct Surrounded<A, S> {
    what: A,
    inner: S,
}

impl<A, S> Service<Request> for Surrounded<A, S>
where
    A: Around,
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Unpin,
{
    type Response = Response;
    type Error = Infallible;
    type Future = SurroundedCall<A, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match self.what.before(request) {
            Ok((request, after)) => SurroundedCall::Waits(self.inner.call(request), Some(after)),
            Err(answer) => SurroundedCall::Answered(Some(answer)),
        }
    }
}

/// A call with something around it.
pub(crate) enum SurroundedCall<A: Around, F> {
    Waits(F, Option<A::After>),
    Answered(Option<Box<Response>>),
}

impl<A: Around, F: Future<Output = Result<Response, Infallible>> + Unpin> Future for SurroundedCall<A, F> {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut *self {
            Self::Waits(work, after) => {
                let Ok(answer) = ready!(Pin::new(work).poll(context));
                after.take().map(|after| match pending(answer) {
                    Ok(answer) => A::after(after, answer),
                    Err(answer) => later(answer.map(|answer| A::after(after, answer))),
                })
            }
            Self::Answered(answer) => answer.take().map(|answer| *answer),
        };
        // Nobody asks again.
        answer.map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer)))
    }
}
