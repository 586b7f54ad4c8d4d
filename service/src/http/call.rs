//! The processing of one call. This module passes the request to the router. It responds itself if headers are too
//! large or a handler panics.

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
use super::problem::Refused;

/// Maximum size of the request line and all headers in bytes, including line ends. Larger requests fail with 431. If a
/// request does not even fit into hyper's buffer, hyper sends the 431. Source: Node.js, whose default is 16 KiB
/// (`--max-http-header-size`).
pub(super) const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Value of [`STRICT_TRANSPORT_SECURITY`], which tells browsers to use only HTTPS for a year. Our choice: the minimum
/// that the preload lists of browsers require. Subdomains are not included, because they may belong to other services.
const ENCRYPT_FOR_A_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Encryption of a connection. Only responses over TLS tell browsers to use only HTTPS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    Plain,
    Tls,
}

/// Returns the response to a request. If a handler panics, the response is a 500.
pub(super) fn answer<B>(mut router: Router, encryption: Encryption, request: Request<B>) -> BoxFuture<'static, Response>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError> + Send,
{
    let with_own_headers = move |answer| with_own_headers(answer, encryption);
    if head_bytes(&request) > HEADER_BYTES_MAX {
        let refused = Refused::HeadersTooLarge { max: HEADER_BYTES_MAX }.into_response();
        return Box::pin(ready(with_own_headers(refused)));
    }
    let is_awaited = request.headers().contains_key(EXPECT);
    let request = request.map(|body| DrainedBody::new(body, is_awaited));
    let called = AssertUnwindSafe(router.call(request)).catch_unwind();
    Box::pin(async move {
        let answer = called.await.map(|Ok(answer)| answer);
        with_own_headers(answer.unwrap_or_else(|panic| panicked(panic.as_ref())))
    })
}

fn panicked(panic: &(dyn Any + Send)) -> Response {
    tracing::error!(panic = words(panic), "a handler panicked; this is a bug in the service");
    Refused::Panicked.into_response()
}

/// Adds the headers that all responses have.
pub(super) fn with_own_headers(mut answer: Response, encryption: Encryption) -> Response {
    let headers = answer.headers_mut();
    // Prevents browsers from guessing a content type.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Responses are for one caller only and must not be cached. Handlers for console files and streams have already set
    // this header.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if encryption == Encryption::Tls {
        headers.insert(STRICT_TRANSPORT_SECURITY, ENCRYPT_FOR_A_YEAR);
    }
    answer
}

/// Returns the size in bytes of the request line and all headers, including line ends.
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
    text.or_else(|| panic.downcast_ref::<&'static str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use tower::service_fn;

    use super::*;

    async fn ask(handler: fn() -> Response) -> Response {
        let handler = service_fn(move |_| async move { Ok::<_, Infallible>(handler()) });
        answer(Router::new().fallback_service(handler), Encryption::Plain, Request::new(Body::empty())).await
    }

    #[tokio::test]
    async fn every_response_has_the_common_headers() {
        let response = ask(|| "done".into_response()).await;
        assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    }

    #[tokio::test]
    async fn a_handler_that_panics_answers_500() {
        assert_eq!(ask(|| panic!("a defect")).await.status(), 500);
    }
}
