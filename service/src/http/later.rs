//! Answers that come later: a handler that waits for long says so and is over, and what it has taken apart is gone while what
//! waits, waits. The answer is awaited right where the handler was called; or, of a request that [may be late](MayBeLate), where
//! the router was, so that nothing is left of the router's futures either: each has room for a request.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tower::Service;

/// A request whose sender takes an answer that comes later for what it is: whoever has one before him passes it on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MayBeLate;

impl MayBeLate {
    pub(crate) fn is(request: &Request) -> bool {
        request.extensions().get::<Self>().is_some()
    }
}

/// The answer; or that it comes later, to whoever takes that.
pub(crate) async fn answered(answer: BoxFuture<'static, Response>, may_be_late: bool) -> Response {
    if may_be_late { later(answer) } else { answer.await }
}

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
pub(super) fn pending(mut response: Response) -> Result<Response, BoxFuture<'static, Response>> {
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

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use engine::{Engine, Settings, SystemClock};
    use http_body_util::BodyExt as _;
    use store::memory::Memory;
    use tower::ServiceExt as _;

    use super::*;
    use crate::access::Credentials;
    use crate::api::router_for;

    /// A poll that does not wait, by its path, its headers and its body.
    type Asked = (&'static str, [(&'static str, &'static str); 2], &'static str);

    async fn open() -> Router {
        let engine = Engine::open(Arc::new(Memory::new()), Arc::new(SystemClock), Settings::default()).await.unwrap();
        router_for(engine, Credentials::default())
    }

    async fn ask(router: &Router, (path, headers, body): Asked, may_be_late: bool) -> Response {
        let request =
            headers.into_iter().fold(Request::post(path), |request, (name, value)| request.header(name, value));
        let mut request = request.body(Body::from(body)).unwrap();
        if may_be_late {
            request.extensions_mut().insert(MayBeLate);
        }
        router.clone().oneshot(request).await.unwrap()
    }

    /// How many calls were answered, as the metrics have it.
    async fn measured(router: &Router, call: &str) -> usize {
        let page = router.clone().oneshot(Request::get("/metrics").body(Body::empty()).unwrap()).await.unwrap();
        let page = String::from_utf8(page.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let name = format!("baton_http_request_seconds_count{{call=\"{call}\",");
        page.lines()
            .find(|line| line.starts_with(&name))
            .map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    #[tokio::test]
    async fn polls_of_whoever_takes_late_answers_are_waited_for_outside_the_router_and_those_of_others_within() {
        let poll = "/v1/domains/default/task-lists/l/activity/poll";
        let rest: Asked = (poll, [("content-type", "application/json"), ("prefer", "wait=0")], "{}");
        let target = ("x-amz-target", "SimpleWorkflowService.CountPendingActivityTasks");
        let body = r#"{"domain":"default","taskList":{"name":"l"}}"#;
        let swf: Asked = ("/", [("content-type", "application/x-amz-json-1.0"), target], body);
        let path = "POST /v1/domains/{domain}/task-lists/{list}/activity/poll";
        for (asked, call) in [(rest, path), (swf, "CountPendingActivityTasks")] {
            let router = open().await;
            let within = ask(&router, asked, false).await;
            assert!(pending(within).is_ok_and(|answer| answer.status().is_success()), "{call}");
            assert_eq!(measured(&router, call).await, 1, "{call}");
            let outside = pending(ask(&router, asked, true).await).expect_err("it comes later");
            assert_eq!(measured(&router, call).await, 1, "{call} is under way");
            assert!(outside.await.status().is_success(), "{call}");
            assert_eq!(measured(&router, call).await, 2, "{call}");
        }
    }
}
