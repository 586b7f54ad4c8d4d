//! Session cookies of browsers. No page can read the cookie, and browsers do not send it with requests of other sites.
//! Requests that change something also require a CSRF token, which only pages of the console know.

use axum::extract::FromRequestParts;
use axum::http::header::{COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{Method, Uri};
use axum::response::Response;

use super::guard::is_of_own_page;
use super::problem::Refused;
use crate::access::{Credentials, Principal, SESSION_AGE_MAX, Session};
use crate::openapi::{Operation, OperationInput};

/// Header with the CSRF token.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("baton-csrf");

/// Name of the session cookie, without prefix and port.
const COOKIE_NAME: &str = "baton-session";

/// Name prefix of a cookie that only this host can set, only over TLS, and for all paths. Browsers enforce this, so
/// neither a sibling subdomain nor an unencrypted response can replace the cookie. Source: RFC 6265bis, section
/// 4.1.3.2.
const OF_HOST: &str = "__Host-";

/// Returns the possible names of the session cookie, the preferred name first. If a proxy terminates TLS, the service
/// learns only from an `Origin` header that the browser uses HTTPS. A request without this header may therefore have a
/// cookie with either name.
fn cookie_names(headers: &HeaderMap, is_encrypted: bool) -> impl Iterator<Item = String> {
    let name = cookie_name(headers);
    [Some(format!("{OF_HOST}{name}")), (!is_encrypted).then_some(name)].into_iter().flatten()
}

/// Returns the cookie name for this host. The name contains the port, because browsers send a host's cookies to all
/// its ports.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    host.and_then(|host| host.port_u16()).map_or_else(|| COOKIE_NAME.to_owned(), |port| format!("{COOKIE_NAME}-{port}"))
}

/// Returns the value of the session cookie; `None` if the request is cross-site or has no such cookie. `is_encrypted`
/// is true if the service itself terminates TLS.
pub(super) fn cookie(headers: &HeaderMap, uri: &Uri, is_encrypted: bool) -> Option<String> {
    if !is_of_own_page(headers, uri) {
        return None;
    }
    cookie_names(headers, is_encrypted).find_map(|name| {
        let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|all| all.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(found, _)| *found == name).map(|(_, secret)| secret.to_owned())
    })
}

/// Refuses a change that was requested with a session cookie but without the session's CSRF token. Another site may
/// have caused such a request.
pub(super) fn must_be_meant(session: Option<&Session>, method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
    let Some(session) = session.filter(|_| !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)) else {
        return Ok(());
    };
    let is_meant = headers.get(CSRF).is_some_and(|shown| is_same(shown.as_bytes(), session.csrf().as_bytes()));
    if is_meant { Ok(()) } else { Err(Refused::CsrfTokenMissing) }
}

/// Compares in constant time, so that the response time reveals nothing about the secret.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

/// Response extension that makes the service end a session. Contains the value of the session's cookie.
#[derive(Clone)]
pub(super) struct EndsSession(pub(super) String);

/// Extractor with the caller's authentication, for the calls with which users sign in and out.
#[derive(Clone)]
pub(crate) struct SignIn {
    /// Credentials in force.
    pub(crate) credentials: Credentials,
    /// Authenticated caller; `None` if callers are not authenticated.
    pub(crate) admitted: Option<Principal>,
    cookie_name: String,
    cookie: Option<String>,
    is_secure: bool,
}

impl SignIn {
    pub(super) fn new(
        credentials: &Credentials,
        admitted: Option<&Principal>,
        (headers, uri): (&HeaderMap, &Uri),
        is_encrypted: bool,
    ) -> Self {
        // If a proxy terminates TLS, only the `Origin` header shows that the browser uses HTTPS.
        let is_https = |origin: &HeaderValue| origin.as_bytes().starts_with(b"https://");
        let is_secure = is_encrypted || headers.get_all(ORIGIN).iter().any(is_https);
        let name = cookie_name(headers);
        Self {
            credentials: credentials.clone(),
            admitted: admitted.cloned(),
            cookie_name: if is_secure { format!("{OF_HOST}{name}") } else { name },
            cookie: cookie(headers, uri, is_encrypted),
            is_secure,
        }
    }

    /// Returns the header that sets the cookie for the lifetime of a session. Without a secret, the header removes
    /// the cookie.
    pub(crate) fn set_cookie(&self, secret: Option<&str>) -> HeaderValue {
        let age = secret.map_or(0, |_| SESSION_AGE_MAX.as_millis() / 1_000);
        let (name, secret) = (&self.cookie_name, secret.unwrap_or_default());
        let secure = if self.is_secure { "; Secure" } else { "" };
        let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
        HeaderValue::try_from(cookie).unwrap_or(HeaderValue::from_static(""))
    }

    /// Marks the response so that the caller's session ends after it.
    pub(crate) fn sign_out(&self, answer: &mut Response) {
        if let Some(secret) = self.cookie.clone().filter(|_| self.session().is_some()) {
            answer.extensions_mut().insert(EndsSession(secret));
        }
    }

    /// Returns the caller's session, if there is one.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.admitted.as_ref()?.session()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SignIn {
    type Rejection = Refused;

    /// Returns the authentication that the gate has stored in the request.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        parts.extensions.get::<Self>().cloned().ok_or(Refused::Unauthorized)
    }
}

impl OperationInput for SignIn {
    fn describe(_: &mut Operation<'_>) {}
}
