//! One call: what is asked of the router, and what is answered where that cannot be, or where it panics.

use std::any::Any;
use std::future::ready;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, EXPECT, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::Body;
use tower::Service;

use super::drain::DrainedBody;
use super::later::{MayBeLate, pending};
use super::problem::Refused;

/// Bytes of the request line and all headers, each line with its end and without needless spaces. Ours: a session cookie or
/// two beside what browsers send. What is larger is refused with 431, by the reader where it does not fit its buffer.
pub(super) const HEADER_BYTES_MAX: usize = 64 * 1024;

/// What [`STRICT_TRANSPORT_SECURITY`] says: browsers encrypt for a year, whatever a link says. Ours: the year that browsers
/// themselves ask for at the least. Subdomains are others' and are left alone.
const ENCRYPT_FOR_A_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Whether a connection is encrypted, which its answers say to browsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    Plain,
    Tls,
}

/// The answer to a call. A handler that panics, which none should, is answered for.
pub(super) fn answer<B>(
    mut router: Router,
    encryption: Encryption,
    mut request: Request<B>,
) -> BoxFuture<'static, Response>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError> + Send,
{
    let with_own_headers = move |answer| with_own_headers(answer, encryption);
    if head_bytes(&request) > HEADER_BYTES_MAX {
        let refused = Refused::HeadersTooLarge { max: HEADER_BYTES_MAX }.into_response();
        return Box::pin(ready(with_own_headers(refused)));
    }
    request.extensions_mut().insert(MayBeLate);
    let is_awaited = request.headers().contains_key(EXPECT);
    let request = request.map(|body| DrainedBody::new(body, is_awaited));
    // In a box, of which nothing is left while an answer that comes later is waited for.
    let called = Box::pin(AssertUnwindSafe(router.call(request)).catch_unwind());
    Box::pin(async move {
        let comes_later = match called.await.map(|Ok(answer)| pending(answer)) {
            Ok(Ok(answer)) => return with_own_headers(answer),
            Ok(Err(comes_later)) => comes_later,
            Err(panic) => return with_own_headers(panicked(panic.as_ref())),
        };
        let answer = AssertUnwindSafe(comes_later).catch_unwind().await;
        with_own_headers(answer.unwrap_or_else(|panic| panicked(panic.as_ref())))
    })
}

fn panicked(panic: &(dyn Any + Send)) -> Response {
    tracing::error!(panic = words(panic), "a handler panicked; this is a defect of the service");
    Refused::Panicked.into_response()
}

/// The same answer, with the headers that each has.
pub(super) fn with_own_headers(mut answer: Response, encryption: Encryption) -> Response {
    let headers = answer.headers_mut();
    // Nothing here is what it does not say that it is.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Answers hold what their reader alone may see. Files of the console and streams say themselves how they are kept.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if encryption == Encryption::Tls {
        headers.insert(STRICT_TRANSPORT_SECURITY, ENCRYPT_FOR_A_YEAR);
    }
    answer
}

/// The bytes of a request's head, each line with its end.
fn head_bytes<B>(request: &Request<B>) -> usize {
    const LINE_END: usize = "\r\n".len();
    let uri = request.uri();
    let host = uri.authority().map_or(0, |it| it.as_str().len() + uri.scheme_str().map_or(0, str::len) + "://".len());
    let target = host + uri.path_and_query().map_or(0, |it| it.as_str().len());
    let line = request.method().as_str().len() + target + "  HTTP/1.1".len() + LINE_END;
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + ": ".len() + value.len() + LINE_END);
    line + headers.sum::<usize>() + LINE_END
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&'static str>().copied()).unwrap_or("no words")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use axum::body::Body;
    use tokio::sync::oneshot;
    use tower::service_fn;

    use super::*;
    use crate::http::later;

    /// Asks a handler that says that its answer comes later.
    fn ask(answer: impl Future<Output = &'static str> + Send + 'static) -> BoxFuture<'static, Response> {
        let answer = Arc::new(Mutex::new(Some(later(answer))));
        let handler = service_fn(move |_| ready(Ok::<_, Infallible>(answer.lock().unwrap().take().unwrap())));
        super::answer(Router::new().fallback_service(handler), Encryption::Plain, Request::new(Body::empty()))
    }

    #[tokio::test]
    async fn an_answer_that_comes_later_has_the_headers_of_each() {
        let (tell, told) = oneshot::channel();
        let mut answer = ask(async { told.await.unwrap() });
        assert!((&mut answer).now_or_never().is_none());
        tell.send("it has come").unwrap();
        let answer = answer.await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-store");
    }

    #[tokio::test]
    async fn a_handler_that_panics_later_is_answered_for() {
        let answer = ask(async { panic!("a defect") });
        assert_eq!(answer.await.status(), 500);
    }

    #[test]
    fn a_call_that_waits_takes_little_room() {
        let room = size_of_val(&*ask(async { "it has come" }));
        assert!(room <= 128, "{room} bytes are taken for each call; what the router needs goes into a box");
    }
}
