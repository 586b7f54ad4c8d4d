//! The client: its connections, and the sending of requests. The submodules have one typed method for each call of the
//! REST API.

mod batches;
mod domains;
mod moved;
mod operate;
mod output;
mod schedules;
mod task_lists;
mod types;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::body::{Problem, Readiness};
use crate::retry::{Patience, Waits};
use crate::tls::{self, ClientCertificate};
use crate::trace::{current, headers_of};
use crate::unpolled::UnpolledLists;
use crate::{Error, TraceContext};

pub use operate::ActivityOperation;
pub use output::OutputPosition;
pub use task_lists::TaskListKind;
pub use types::{RegisteredKind, TypeDefaults};
pub(crate) use workflows::push_page;
pub use workflows::{Filter, Order, Page};

/// Timeout of connecting to the service.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// Time for which an idle connection is kept. Our choice: less than the 15 seconds after which the service closes it,
/// so that no request is sent on a connection that is being closed.
const IDLE_WAIT: Duration = Duration::from_secs(10);

/// Longest time that a single request may ask the service to wait. Source: docs/limits.md.
pub(crate) const WAIT_AT_ONCE: Duration = Duration::from_mins(1);

/// Timeout of a response, not counting the time for which the request asks the service to wait.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// A client for one domain of a service. Cloning is cheap, and clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Arc<str>,
    /// The parsed `base`.
    root: Arc<Url>,
    domain: Arc<str>,
    pub(crate) patience: Patience,
    pub(crate) unpolled: UnpolledLists,
    /// Headers with the trace context of calls.
    trace: HeaderMap,
}

/// Credentials of the client, and authorities that it trusts.
#[derive(Clone, Copy, Default)]
pub struct Access<'a> {
    /// Secret of a credential.
    pub secret: Option<&'a str>,
    /// Certificates of authorities to trust in addition to those of the system, as PEM. Needed if the service's
    /// certificate is signed by a private authority.
    pub ca: Option<&'a [u8]>,
    /// Client certificate. Needed if the service requires a certificate, or accepts one instead of a secret.
    pub certificate: Option<ClientCertificate<'a>>,
}

impl std::fmt::Debug for Access<'_> {
    /// Omits the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

/// A response of the service, before its body is read.
pub(crate) struct RawResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// Creates a client for the domain `default` of the service at `url`, for example `http://127.0.0.1:7420`. The
    /// short forms `localhost:7420` and `:7420` (this machine) are accepted. `https` requires the feature `tls`. While
    /// the service is unavailable, the client retries calls for up to 30 seconds.
    ///
    /// # Errors
    ///
    /// [`Error::Setup`] for an invalid URL.
    pub fn new(url: &str) -> Result<Self, Error> {
        Self::with_access(url, Access::default())
    }

    /// Creates a client like [`new`](Self::new), with the secret of a credential.
    ///
    /// # Errors
    ///
    /// [`Error::Setup`] for an invalid URL or secret.
    pub fn with_secret(url: &str, secret: &str) -> Result<Self, Error> {
        Self::with_access(url, Access { secret: Some(secret), ..Access::default() })
    }

    /// Creates a client like [`new`](Self::new), with credentials.
    ///
    /// # Errors
    ///
    /// [`Error::Setup`] for an invalid URL, secret or certificate.
    pub fn with_access(url: &str, access: Access<'_>) -> Result<Self, Error> {
        let setup = |what: String| Error::Setup { what };
        let url = &whole(url);
        let root = Url::parse(url).map_err(|error| setup(format!("`{url}` is not a URL: {error}")))?;
        match root.scheme() {
            "http" => {}
            "https" if cfg!(feature = "tls") => {}
            "https" => {
                return Err(setup(format!(
                    "`{url}`: this program was built without TLS; enable the feature `tls` of baton-client or of the \
                        kit"
                )));
            }
            other => return Err(setup(format!("`{url}`: expected http or https, found `{other}`"))),
        }
        let Access { secret, ca, certificate } = access;
        let mut headers = HeaderMap::new();
        if let Some(secret) = secret {
            let mut value = HeaderValue::try_from(format!("Bearer {secret}"))
                .map_err(|_| setup("the secret contains invalid characters".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_WAIT)
            .pool_max_idle_per_host(1_024)
            .pool_idle_timeout(IDLE_WAIT)
            .tcp_nodelay(true)
            // Retries are decided in this module and must not depend on the HTTP library.
            .retry(reqwest::retry::never())
            // A redirect from https to http must not send the secret in clear text.
            .https_only(root.scheme() == "https")
            .no_proxy();
        let http = tls::equipped(http, &root, ca, certificate)?.build().map_err(|error| setup(error.to_string()))?;
        let patience = Patience::For(Duration::from_secs(30));
        Ok(Self {
            http,
            base: url.trim_end_matches('/').into(),
            root: Arc::new(root),
            domain: "default".into(),
            patience,
            unpolled: UnpolledLists::default(),
            trace: HeaderMap::new(),
        })
    }

    /// Sets the domain for the calls of this client.
    #[must_use]
    pub fn domain(mut self, domain: &str) -> Self {
        self.domain = domain.into();
        self
    }

    /// Sets the time limit for retries.
    #[must_use]
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the trace context, for example the context of a request that this program is answering. Runs that the
    /// client starts then belong to this trace, and signals that it sends are linked to the trace. With the feature
    /// `opentelemetry`, the default is the current span.
    ///
    /// [`TraceContext::of_headers`] parses the text of a header.
    #[must_use]
    pub fn within(mut self, trace: Option<&TraceContext>) -> Self {
        self.trace = trace.map(headers_of).unwrap_or_default();
        self
    }

    /// Returns the URL of the service.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Returns the name of the domain.
    pub fn domain_name(&self) -> &str {
        &self.domain
    }

    pub(crate) fn domain_url(&self, path: &str) -> String {
        format!("{}/v1/domains/{}/{path}", self.base, encode(&self.domain))
    }

    pub(crate) fn service_url(&self, path: &str) -> String {
        format!("{}/v1/{path}", self.base)
    }

    fn located(&self, url: &str) -> Url {
        let rest = url.strip_prefix(&*self.base).unwrap_or(url);
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let mut located = Url::clone(&self.root);
        located.set_path(&format!("{}{path}", self.root.path().trim_end_matches('/')));
        located.set_query(query);
        located
    }

    /// Sends one request without retries. Returns the status and the body.
    pub(crate) async fn send_once(
        &self,
        method: Method,
        url: &str,
        body: Option<Bytes>,
        wait: Option<Duration>,
        key: Option<&str>,
    ) -> Result<(StatusCode, Bytes), Error> {
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            let bad = |_| Error::Setup {
                what: format!(
                    "the idempotency key `{key}` cannot be sent as an HTTP header; use visible ASCII characters only"
                ),
            };
            headers.insert("idempotency-key", HeaderValue::try_from(key).map_err(bad)?);
        }
        let response = self.call_once(method, url, body, wait, headers).await?;
        Ok((response.status, response.body))
    }

    /// Sends one request with these headers, without retries.
    pub(crate) async fn call_once(
        &self,
        method: Method,
        url: &str,
        body: Option<Bytes>,
        wait: Option<Duration>,
        headers: HeaderMap,
    ) -> Result<RawResponse, Error> {
        let mut response = self.begin(method, url, body, wait, headers).await?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = response.bytes().await.map_err(|error| self.lost(error))?;
        Ok(RawResponse { status, headers, body })
    }

    /// Sends a POST request without retries. Passes on each line of the response as soon as the line has arrived.
    pub(crate) async fn lines<T: DeserializeOwned>(
        &self,
        url: &str,
        body: Bytes,
        wait: Duration,
        mut on_line: impl FnMut(T),
    ) -> Result<(), Error> {
        let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/x-ndjson"))]);
        let mut response = self.begin(Method::POST, url, Some(body), Some(wait), accept).await?;
        let mut rest = Vec::new();
        // At this point, part of the response has arrived, so the request may have had an effect.
        let broke = |source| Error::Lost { url: self.base.to_string(), source: Arc::new(source) };
        while let Some(chunk) = response.chunk().await.map_err(broke)? {
            let mut chunk = &chunk[..];
            while let Some(end) = memchr::memchr(b'\n', chunk) {
                let (line, tail) = chunk.split_at(end);
                if rest.is_empty() {
                    on_line(self.read(line)?);
                } else {
                    rest.extend_from_slice(line);
                    on_line(self.read(&std::mem::take(&mut rest))?);
                }
                chunk = tail.get(1..).unwrap_or_default();
            }
            rest.extend_from_slice(chunk);
        }
        if rest.is_empty() { Ok(()) } else { self.read(&rest).map(on_line) }
    }

    fn lost(&self, source: reqwest::Error) -> Error {
        let (url, problem) = (self.base.to_string(), tls::problem(&source));
        let (is_connect, source) = (source.is_connect(), Arc::new(source));
        match problem {
            Some(problem) => Error::Insecure { url, problem, source },
            None if is_connect => Error::Unreachable { url, source },
            None => Error::Lost { url, source },
        }
    }

    /// Sends one request without retries and returns the response. A refusal is returned as an error.
    async fn begin(
        &self,
        method: Method,
        url: &str,
        body: Option<Bytes>,
        wait: Option<Duration>,
        mut headers: HeaderMap,
    ) -> Result<reqwest::Response, Error> {
        let timeout = wait.unwrap_or_default() + ANSWER_WAIT;
        if self.trace.is_empty() {
            headers.extend(current().as_ref().map(headers_of).unwrap_or_default());
        } else {
            headers.extend(self.trace.clone());
        }
        let mut request = self.http.request(method, self.located(url)).timeout(timeout).headers(headers);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(body);
        }
        if let Some(wait) = wait {
            request = request.header("prefer", format!("wait={}", wait.as_secs_f64()));
        }
        let response = request.send().await.map_err(|error| self.lost(error))?;
        let status = response.status();
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = response.bytes().await.map_err(|error| self.lost(error))?;
        let Ok(problem) = history::read_json::<Problem>(&bytes) else {
            let text: String = String::from_utf8_lossy(&bytes).chars().take(200).collect();
            return Err(Error::Unexpected { url: url.to_owned(), what: format!("{status}: {text}") });
        };
        Err(Error::Refused { problem: Box::new(problem), retry_after: retry_after.map(Duration::from_secs) })
    }

    /// Sends a request that is safe to repeat, and retries it while the service is unavailable.
    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<Bytes>,
        wait: Option<Duration>,
        key: Option<&str>,
    ) -> Result<(StatusCode, Bytes), Error> {
        self.repeat(method, url, body, wait, key, |_| true).await
    }

    /// Sends a request. While the service is unavailable, retries the request if `may` returns true for the error.
    async fn repeat(
        &self,
        method: Method,
        url: &str,
        body: Option<Bytes>,
        wait: Option<Duration>,
        key: Option<&str>,
        may: fn(&Error) -> bool,
    ) -> Result<(StatusCode, Bytes), Error> {
        let mut waits = Waits::new(self.patience);
        loop {
            match self.send_once(method.clone(), url, body.clone(), wait, key).await {
                Err(error) if may(&error) => match waits.after(&error) {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(error),
                },
                answer => return answer,
            }
        }
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Error> {
        history::read_json(bytes)
            .map_err(|error| Error::Unexpected { url: self.base.to_string(), what: error.to_string() })
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, url: &str, wait: Option<Duration>) -> Result<T, Error> {
        let (_, bytes) = self.send(Method::GET, url, None, wait, None).await?;
        self.read(&bytes)
    }

    /// Sends a request that changes something. If the request has no idempotency key, it is retried only after a failed
    /// attempt that certainly had no effect.
    async fn write<T: DeserializeOwned>(
        &self,
        url: &str,
        body: &impl Serialize,
        key: Option<&str>,
    ) -> Result<T, Error> {
        self.write_and_wait(url, body, key, None).await
    }

    async fn write_and_wait<T: DeserializeOwned>(
        &self,
        url: &str,
        body: &impl Serialize,
        key: Option<&str>,
        wait: Option<Duration>,
    ) -> Result<T, Error> {
        let may = if key.is_some() { |_: &Error| true } else { Error::had_no_side_effect };
        let (_, bytes) = self.repeat(Method::POST, url, Some(to_bytes(body)?), wait, key, may).await?;
        self.read(&bytes)
    }

    /// Waits until the service is ready, but no longer than this client retries. Returns the service's warnings.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn ready(&self) -> Result<Readiness, Error> {
        let (_, bytes) = self.send(Method::GET, &format!("{}/readyz", self.base), None, None, None).await?;
        self.read(&bytes)
    }

    /// Returns the text of `GET /metrics`.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn metrics(&self) -> Result<String, Error> {
        let (_, bytes) = self.send(Method::GET, &format!("{}/metrics", self.base), None, None, None).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Completes an address: `http` is the default scheme, and the local machine is the default host, as in `:7420`.
fn whole(address: &str) -> String {
    match address {
        address if address.contains("://") => address.to_owned(),
        address if address.starts_with(':') => format!("http://127.0.0.1{address}"),
        address => format!("http://{address}"),
    }
}

pub(crate) fn to_bytes(body: &impl Serialize) -> Result<Bytes, Error> {
    to_bytes_in(body, 128)
}

/// Serializes a body whose size is approximately known.
pub(crate) fn to_bytes_in(body: &impl Serialize, bytes: usize) -> Result<Bytes, Error> {
    let mut json = Vec::with_capacity(bytes);
    let written = serde_json::to_writer(&mut json, body);
    written.map_err(|error| Error::Setup { what: format!("the request cannot be written as JSON: {error}") })?;
    Ok(json.into())
}

/// Set of the characters that are escaped in a path segment.
const ESCAPED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a path segment. HTTP libraries interpret the segments `.` and `..` even in encoded form. Therefore a `~` is
/// appended to these two segments. A `~` is also appended to segments that consist of `.` or `..` and trailing `~`. The
/// service removes one trailing `~` from such segments.
pub(crate) fn encode(text: &str) -> String {
    let is_dots = matches!(text.trim_end_matches('~'), "." | "..");
    percent_encoded(text) + if is_dots { "~" } else { "" }
}

fn percent_encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, ESCAPED).to_string()
}

pub(crate) fn push_query(query: &mut String, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(name);
        query.push('=');
        query.push_str(&percent_encoded(value));
    }
}

pub(crate) fn run_query(run_id: Option<Uuid>) -> String {
    let mut query = String::new();
    push_query(&mut query, "runId", run_id.map(|run_id| run_id.to_string()).as_deref());
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_whole_without_what_people_leave_out() {
        for (given, whole) in [
            ("http://127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("https://baton.example/behind", "https://baton.example/behind"),
            ("localhost:7420", "http://localhost:7420"),
            ("10.0.0.7:7420", "http://10.0.0.7:7420"),
            ("baton.example", "http://baton.example"),
            ("[::1]:7420", "http://[::1]:7420"),
            (":7420", "http://127.0.0.1:7420"),
        ] {
            assert_eq!(super::whole(given), whole);
        }
        let client = Client::new("localhost:7420").unwrap();
        assert_eq!(
            client.located(&client.domain_url("workflows")).as_str(),
            "http://localhost:7420/v1/domains/default/workflows"
        );
        for given in ["", "ftp://host", "http://"] {
            assert!(Client::new(given).is_err(), "{given}");
        }
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn a_program_without_tls_says_so_for_an_address_that_needs_it() {
        let error = Client::new("https://baton.example").unwrap_err().to_string();
        assert!(error.contains("`https://baton.example`: this program was built without TLS"), "{error}");
        assert!(error.contains("the feature `tls`"), "{error}");
    }

    #[test]
    #[cfg(feature = "tls")]
    fn invalid_certificates_are_refused() {
        for ca in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let access = Access { ca: Some(ca.as_bytes()), ..Access::default() };
            let error = Client::with_access("https://baton.example", access).unwrap_err();
            assert!(matches!(error, Error::Setup { .. }), "{error}");
            assert!(Client::with_access("http://baton.example", access).is_ok());
        }
        assert!(Client::new("https://baton.example").is_ok());
    }

    #[test]
    fn a_segment_is_never_one_that_a_library_takes_out_of_the_path() {
        for (text, segment) in [
            (".", ".~"),
            ("..", "..~"),
            (".~", ".~~"),
            ("..~~", "..~~~"),
            ("...", "..."),
            ("~", "~"),
            ("a/..", "a%2F.."),
        ] {
            assert_eq!(encode(text), segment);
        }
    }

    #[test]
    fn a_call_goes_where_its_text_says() {
        for base in
            ["http://127.0.0.1:7420", "http://127.0.0.1:7420/", "http://host.example/behind/a/proxy/", "http://[::1]:1"]
        {
            let client = Client::new(base).unwrap();
            let urls = [
                client.domain_url("workflows"),
                client.workflow_url("count", "/history?after=7&reverse=true"),
                client.workflow_url("a b/c?d#e%", &run_query(Some(Uuid::nil()))),
                client.workflow_url("..", ""),
                client.clone().domain("ä").service_url("domains"),
            ];
            for url in urls {
                assert_eq!(client.located(&url), Url::parse(&url).unwrap());
            }
        }
    }
}
