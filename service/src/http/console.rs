//! The web console: its files, which are part of the binary, and the headers that they are sent with. They hold no data: a
//! page asks the API for that, with what its reader may do there.

use std::io::Write as _;
use std::sync::LazyLock;

use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodFilter;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use clap::ValueEnum;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::accept;
use super::routes::Routes;
use crate::access::{CallEffect, Level};

/// Where the console is; every path below is a view of it.
pub(crate) const ROOT: &str = "/console/";

/// Whether the service has its console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Console {
    /// It has, below `/console/`.
    On,
    /// There is no such path.
    Off,
}

/// What a page of the console may load and do: files and calls of this service, and nothing else. No page of another site
/// shows it in a frame, where clicks could be stolen.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file, as it is sent.
struct Asset {
    content_type: &'static str,
    plain: Bytes,
    gzipped: Bytes,
    /// Weak: both forms have it.
    etag: HeaderValue,
}

impl Asset {
    fn new(content_type: &'static str, bytes: &'static [u8]) -> Self {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        let etag = HeaderValue::try_from(format!("W/\"{digest}\""));
        Self {
            content_type,
            plain: Bytes::from_static(bytes),
            gzipped: gzip(bytes),
            etag: etag.unwrap_or_else(|_| HeaderValue::from_static("W/\"\"")),
        }
    }
}

/// Writing to memory does not fail; what could not be packed would be sent as it is.
fn gzip(bytes: &'static [u8]) -> Bytes {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packed.write_all(bytes).and_then(|()| packed.finish());
    packed.map_or(Bytes::from_static(bytes), Bytes::from)
}

macro_rules! dist {
    ($name:literal) => {
        include_bytes!(concat!("../../console/dist/", $name))
    };
}

/// The page that shows every view.
static PAGE: LazyLock<Asset> = LazyLock::new(|| Asset::new("text/html; charset=utf-8", dist!("index.html")));

/// What it loads, by names below the console's root.
static ASSETS: LazyLock<[(&str, Asset); 5]> = LazyLock::new(|| {
    [
        ("boot.js", Asset::new("text/javascript; charset=utf-8", dist!("boot.js"))),
        ("console.js", Asset::new("text/javascript; charset=utf-8", dist!("console.js"))),
        ("console.css", Asset::new("text/css; charset=utf-8", dist!("console.css"))),
        ("icon.svg", Asset::new("image/svg+xml", dist!("icon.svg"))),
        ("licenses.txt", Asset::new("text/plain; charset=utf-8", dist!("licenses.txt"))),
    ]
});

/// The console's routes. Anybody may load it.
pub(crate) fn routes() -> Routes {
    let mut routes = Routes::none();
    for path in ["/console", ROOT, "/console/{*view}"] {
        routes.add(("GET", MethodFilter::GET), path, (Level::Nothing, CallEffect::Reads), false, show);
    }
    routes
}

async fn show(uri: Uri, headers: HeaderMap) -> Response {
    let name = uri.path().strip_prefix(ROOT).unwrap_or_default();
    let asset = ASSETS.iter().find(|(known, _)| *known == name).map_or(&*PAGE, |(_, asset)| asset);
    let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|known| has(known, &asset.etag));
    let own: [(HeaderName, HeaderValue); 6] = [
        (ETAG, asset.etag.clone()),
        // Kept, and asked for again each time: a newer binary has a newer console.
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (VARY, HeaderValue::from_static("accept-encoding")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, own).into_response();
    }
    let content_type = [(CONTENT_TYPE, HeaderValue::from_static(asset.content_type))];
    if accept::names(&headers, &ACCEPT_ENCODING, "gzip") {
        let encoding = [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        (own, content_type, encoding, asset.gzipped.clone()).into_response()
    } else {
        (own, content_type, asset.plain.clone()).into_response()
    }
}

/// Whether a list of entity tags has this one.
fn has(list: &HeaderValue, etag: &HeaderValue) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let (Ok(list), Ok(etag)) = (list.to_str(), etag.to_str()) else { return false };
    list.split(',').any(|tag| tag.trim() == "*" || weak(tag) == weak(etag))
}
