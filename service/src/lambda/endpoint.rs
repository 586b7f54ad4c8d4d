//! Functions that are HTTP endpoints. The input is posted, and the response is read up to a maximum size. Redirects
//! are not followed.

use std::time::Duration;

use history::TraceContext;
use reqwest::redirect::Policy;
use reqwest::{Client, Response};

use super::failure::{CallFailure, RESULT_BYTES_MAX, too_large};

/// Timeout of connecting. Our choice: a reachable server responds within seconds.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// Creates the HTTP client. It does not follow redirects, because the operator has configured only this address.
pub(super) fn client() -> Client {
    let client = Client::builder().connect_timeout(CONNECT_WAIT).redirect(Policy::none()).build();
    client.expect("without TLS there is nothing to load")
}

/// Posts the input with the trace context of its run. The body of the response is the result.
pub(super) async fn post(
    http: &Client,
    url: &str,
    input: String,
    trace: Option<&TraceContext>,
) -> Result<String, CallFailure> {
    // The URL is omitted, because it may contain a secret.
    let unreachable = |error: reqwest::Error| CallFailure::new("ServiceException", error.without_url().to_string());
    let mut posted = http.post(url).header("content-type", "application/json").body(input);
    for (name, value) in trace.iter().flat_map(|trace| trace.headers()) {
        posted = posted.header(name, value);
    }
    let answer = posted.send().await.map_err(unreachable)?;
    let status = answer.status();
    if status.is_redirection() {
        return Err(CallFailure::new("UnhandledError", format!("{status}: redirects are not followed")));
    }
    let text = read(answer).await.map_err(unreachable)?;
    match text {
        Some(text) if status.is_success() => Ok(text),
        Some(text) => Err(CallFailure::new("UnhandledError", format!("{status}: {text}"))),
        None if status.is_success() => Err(too_large()),
        None => Err(CallFailure::new("UnhandledError", status.to_string())),
    }
}

/// Reads the whole body. Returns `None` as soon as it exceeds the maximum size of a result.
async fn read(mut answer: Response) -> Result<Option<String>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        body.extend_from_slice(&piece);
        if body.len() > RESULT_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use axum::body::Body;
    use axum::http::{HeaderMap, Uri};
    use axum::response::{IntoResponse as _, Redirect, Response};
    use futures_util::stream;
    use tokio::net::TcpListener;

    use super::{CallFailure, TraceContext, client};

    const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    async fn answer(uri: Uri, headers: HeaderMap, body: String) -> Response {
        let piece = || Ok::<_, std::io::Error>(vec![b'y'; 4096]);
        match uri.path() {
            "/echo" => body.into_response(),
            "/trace" => headers["traceparent"].to_str().unwrap().to_owned().into_response(),
            "/elsewhere" => Redirect::temporary("/echo").into_response(),
            _ => Body::from_stream(stream::repeat_with(piece)).into_response(),
        }
    }

    async fn call(path: &str) -> Result<String, CallFailure> {
        let router = Router::new().fallback(answer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}{path}", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, router).await });
        let trace = TraceContext::of_headers(TRACEPARENT, None);
        tokio::time::timeout(Duration::from_secs(60), super::post(&client(), &url, "in".to_owned(), trace.as_ref()))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn responses_are_bounded_and_redirects_not_followed() {
        assert_eq!(call("/echo").await.ok().unwrap(), "in");
        assert_eq!(call("/trace").await.ok().unwrap(), TRACEPARENT);
        let failure = call("/elsewhere").await.err().unwrap();
        assert_eq!((failure.reason, &failure.details[..4]), ("UnhandledError", "307 "));
        assert_eq!(call("/without-end").await.err().unwrap().reason, "ResultTooLarge");
    }
}
