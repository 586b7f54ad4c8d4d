//! How a browser shows who has signed in: a cookie that no page can read and that is sent to no other site, and with it, where something
//! is to be changed, a token that only a page of ours can know.

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

/// Where a page shows its token.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("baton-csrf");

/// Begins the name of the cookie.
const COOKIE_NAME: &str = "baton-session";

/// Begins the name of a cookie that browsers accept from this host alone, encrypted, for all paths: no neighboring subdomain and no
/// unencrypted answer can put another in its place. Source: RFC 6265bis, section 4.1.3.2.
const OF_HOST: &str = "__Host-";

/// The names under which the cookie of a session may come, the better one first. Behind a proxy that encrypts, the service
/// cannot tell from a request without an `Origin` which one its browser was given.
fn cookie_names(headers: &HeaderMap, is_encrypted: bool) -> impl Iterator<Item = String> {
    let name = cookie_name(headers);
    [Some(format!("{OF_HOST}{name}")), (!is_encrypted).then_some(name)].into_iter().flatten()
}

/// The name of the cookie of the service at this host. Browsers send cookies to all ports of a host.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    host.and_then(|host| host.port_u16()).map_or_else(|| COOKIE_NAME.to_owned(), |port| format!("{COOKIE_NAME}-{port}"))
}

/// What the cookie of a session holds, where a page of ours had it sent. `is_encrypted` says that the service itself encrypts.
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

/// Whether a request may do what it asks for: with a cookie alone nothing is changed, as another site may have had it sent.
pub(super) fn must_be_meant(session: Option<&Session>, method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
    let Some(session) = session.filter(|_| !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)) else {
        return Ok(());
    };
    let is_meant = headers.get(CSRF).is_some_and(|shown| is_same(shown.as_bytes(), session.csrf().as_bytes()));
    if is_meant { Ok(()) } else { Err(Refused::NoCsrfToken) }
}

/// Looks at every byte, wherever they differ, so that the time it takes tells nothing.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

/// The session of which the cookie holds this ends with the answer.
#[derive(Clone)]
pub(super) struct EndsSession(pub(super) String);

/// Who asks, for calls that are about just that.
#[derive(Clone)]
pub(crate) struct SignIn {
    /// The credentials in force.
    pub(crate) credentials: Credentials,
    /// What they have shown; `None` where nobody is asked.
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
        // What encrypts may stand before the service.
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

    /// Has a browser keep this for as long as a session is good; nothing, where it is to forget it.
    pub(crate) fn set_cookie(&self, secret: Option<&str>) -> HeaderValue {
        let age = secret.map_or(0, |_| SESSION_AGE_MAX.as_millis() / 1_000);
        let (name, secret) = (&self.cookie_name, secret.unwrap_or_default());
        let secure = if self.is_secure { "; Secure" } else { "" };
        let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
        HeaderValue::try_from(cookie).unwrap_or(HeaderValue::from_static(""))
    }

    /// Has the session of whoever asks end once they have this answer.
    pub(crate) fn sign_out(&self, answer: &mut Response) {
        if let Some(secret) = self.cookie.clone().filter(|_| self.session().is_some()) {
            answer.extensions_mut().insert(EndsSession(secret));
        }
    }

    /// The session of whoever asks, if they have signed in.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.admitted.as_ref()?.session()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SignIn {
    type Rejection = Refused;

    /// The gate says who asks, where the call is one of these.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        parts.extensions.get::<Self>().cloned().ok_or(Refused::Unauthorized)
    }
}

impl OperationInput for SignIn {
    fn describe(_: &mut Operation<'_>) {}
}
