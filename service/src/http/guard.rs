//! Cross-site protection, applied before authentication. It refuses requests that were caused by web pages of other
//! sites.
//!
//! A page of another site can make a browser send requests to this service without the user's knowledge. If the DNS
//! name of such a page is changed to point to this machine, browsers even consider the page and this service the same
//! origin. Browsers report the origin of a request in headers that pages cannot change. Programs do not send these
//! headers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};

use super::middleware::Middleware;
use super::problem::Refused;

/// Header in which browsers report whether the page that caused the request belongs to the requested site.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers that browsers send and other programs do not.
const OF_BROWSERS: [HeaderName; 4] =
    [ORIGIN, SITE, HeaderName::from_static("sec-fetch-mode"), HeaderName::from_static("sec-fetch-dest")];

/// Content types that a page can send to another site only after a preflight request, which the service does not
/// permit.
const ASKED_FOR: [&str; 3] = ["application/json", "application/x-amz-json-1.0", "application/x-amz-json-1.1"];

/// Host names under which the service accepts requests.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// Accepted names; `None` if every name is accepted.
    known: Option<Vec<String>>,
}

impl Hosts {
    /// Accepts any host name. This is safe if every caller needs a credential.
    pub fn any() -> Self {
        Self::default()
    }

    /// Accepts the loopback names and addresses, and the given names. Used if callers are not authenticated. A request
    /// is then refused if it uses the DNS name of another site, even if that name points to this machine.
    pub fn loopback_and(names: Vec<String>) -> Self {
        Self { known: Some(names) }
    }

    fn has(&self, host: &str) -> bool {
        let Some(known) = &self.known else { return true };
        // A host name may end with a dot, which denotes the DNS root.
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_name = || host.eq_ignore_ascii_case("localhost") || ends_with_ignoring_case(host, ".localhost");
        let is_loopback = address(host).map_or_else(is_name, |address| address.to_canonical().is_loopback());
        is_loopback || known.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

fn ends_with_ignoring_case(text: &str, end: &str) -> bool {
    let at = text.len().checked_sub(end.len());
    at.and_then(|at| text.get(at..)).is_some_and(|found| found.eq_ignore_ascii_case(end))
}

/// Parses the IP address of an authority. IPv6 addresses in it must be in brackets.
fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

/// Returns whether an authority consists of a host and an optional port. This check is needed because the parser of
/// [`Authority`] also accepts user information, text after a bracket, and ports that are not numbers.
fn is_host_and_port(authority: &Authority) -> bool {
    let host = authority.host();
    let Some(rest) = authority.as_str().strip_prefix(host) else { return false };
    let is_host = if host.starts_with('[') { address(host).is_some() } else { !host.is_empty() && !host.contains('%') };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_host && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

/// Returns the middleware that refuses cross-site requests.
pub(crate) fn check(hosts: Hosts) -> impl Middleware {
    HostGuard(Arc::new(hosts))
}

#[derive(Clone)]
struct HostGuard(Arc<Hosts>);

impl Middleware for HostGuard {
    type After = ();

    fn before(&self, request: Request) -> Result<(Request, ()), Box<Response>> {
        match judge(&self.0, request.method(), request.uri(), request.headers()) {
            Ok(()) => Ok((request, ())),
            Err(refused) => Err(Box::new(refused.into_response())),
        }
    }

    fn after((): (), response: Response) -> Response {
        response
    }
}

fn judge(hosts: &Hosts, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
    for header in [HOST, AUTHORIZATION] {
        if headers.get_all(&header).iter().nth(1).is_some() {
            let problem = "was sent more than once; send it once".to_owned();
            return Err(Refused::BadHeader { header, problem });
        }
    }
    let no_host = || Refused::BadHeader {
        header: HOST,
        problem: "is not a host name or address with an optional port".to_owned(),
    };
    let host = headers.get(HOST).map(|value| authority(value).ok_or_else(no_host)).transpose()?;
    if uri.authority().is_some_and(|authority| !is_host_and_port(authority)) {
        return Err(no_host());
    }
    for host in host.iter().chain(uri.authority()) {
        if !hosts.has(host.host()) {
            return Err(Refused::Misdirected { host: host.host().to_owned() });
        }
    }
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE) {
        return Ok(());
    }
    if headers.get_all(SITE).iter().any(|value| !is_own_site(value)) {
        return Err(Refused::CrossSite { from: "another site, according to Sec-Fetch-Site".to_owned() });
    }
    let host = host.as_ref().or(uri.authority());
    if let Some(origin) = headers.get_all(ORIGIN).iter().find(|origin| !is_origin_of(origin, host)) {
        return Err(Refused::CrossSite { from: format!("`{}`", String::from_utf8_lossy(origin.as_bytes())) });
    }
    // A page of another site can send only two kinds of requests without a preflight request. The first kind is form
    // submissions, whose content types are not in `ASKED_FOR`. The second kind is requests without a body, which have
    // no content type. `DELETE` always requires a preflight request.
    let may_be_a_page_s = OF_BROWSERS.iter().any(|name| headers.contains_key(name));
    if may_be_a_page_s && *method != Method::DELETE {
        let found = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let found = found.unwrap_or_else(|| "nothing".to_owned());
        let essence = found.split(';').next().unwrap_or_default().trim();
        if !ASKED_FOR.iter().any(|known| essence.eq_ignore_ascii_case(known)) {
            return Err(Refused::ContentType(found));
        }
    }
    Ok(())
}

/// Returns false if a header shows that a page of another site caused this request, otherwise true.
pub(super) fn is_of_own_page(headers: &HeaderMap, uri: &Uri) -> bool {
    let host = headers.get(HOST).and_then(authority);
    let host = host.as_ref().or(uri.authority());
    headers.get_all(SITE).iter().all(is_own_site) && headers.get_all(ORIGIN).iter().all(|it| is_origin_of(it, host))
}

fn is_own_site(value: &HeaderValue) -> bool {
    matches!(value.as_bytes(), b"same-origin" | b"none")
}

fn authority(value: &HeaderValue) -> Option<Authority> {
    let authority: Authority = value.to_str().ok()?.parse().ok()?;
    is_host_and_port(&authority).then_some(authority)
}

/// Returns whether an origin has this host and port. The scheme may differ, because a proxy in front of the service
/// may terminate TLS.
fn is_origin_of(origin: &HeaderValue, host: Option<&Authority>) -> bool {
    let origin: Option<Uri> = origin.to_str().ok().and_then(|origin| origin.parse().ok());
    let Some((origin, host)) = origin.zip(host) else { return false };
    let default = match origin.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return false,
    };
    origin.authority().is_some_and(|origin| {
        origin.host().eq_ignore_ascii_case(host.host())
            && origin.port_u16().unwrap_or(default) == host.port_u16().unwrap_or(default)
    })
}
