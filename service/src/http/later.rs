//! Answers that come later: a handler that waits for long says so and is over, and what it has taken apart is gone while what
//! waits, waits. Nobody else sees it: the answer is awaited right where the handler was called.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tower::{Layer, Service};

/// What an answer waits for, in the place of one.
#[derive(Clone)]
struct LateAnswer(Arc<Mutex<Option<BoxFuture<'static, Response>>>>);

/// An answer that comes when this has been waited for.
pub(crate) fn later<T: IntoResponse + 'static>(answer: impl Future<Output = T> + Send + 'static) -> Response {
    let answer: BoxFuture<'static, Response> = Box::pin(answer.map(IntoResponse::into_response));
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(LateAnswer(Arc::new(Mutex::new(Some(answer)))));
    response
}

/// What is to be waited for, if there is no answer yet.
fn pending(mut response: Response) -> Result<Response, BoxFuture<'static, Response>> {
    let later = response.extensions_mut().remove::<LateAnswer>();
    match later.and_then(|later| later.0.lock().unwrap_or_else(PoisonError::into_inner).take()) {
        Some(answer) => Err(answer),
        None => Ok(response),
    }
}

/// Calls a handler, and waits for its answer.
pub(super) fn call<S>(handler: &mut S, request: Request) -> BoxFuture<'static, Response>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    // In a box, of which nothing is left while the answer is waited for; nor is there room for another answer then.
    let called = Box::pin(handler.call(request));
    Box::pin(async move {
        let Ok(response) = called.await;
        let answer = match pending(response) {
            Ok(response) => return response,
            Err(answer) => answer,
        };
        answer.await
    })
}

/// Handlers whose answers may come later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswersLater;

impl<S> Layer<S> for AnswersLater {
    type Service = LateHandler<S>;

    fn layer(&self, handler: S) -> LateHandler<S> {
        LateHandler(handler)
    }
}

/// A handler whose answers may come later.
#[derive(Debug, Clone)]
pub(crate) struct LateHandler<S>(S);

impl<S> Service<Request> for LateHandler<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let answer = call(&mut self.0, request);
        Box::pin(answer.map(Ok))
    }
}
