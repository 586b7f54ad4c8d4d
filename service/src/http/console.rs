//! The web console: its embedded files, and their response headers. The files contain no data. Pages load data through
//! the API, with the permissions of their reader.

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

/// Root path of the console; every path below it is a view.
pub(crate) const ROOT: &str = "/console/";

/// Availability of the web console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Console {
    /// It has, below `/console/`.
    On,
    /// There is no such path.
    Off,
}

/// Content security policy of the console: pages load and call only this service. No other site can show them in a
/// frame and capture clicks.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Embedded file.
struct Asset {
    content_type: &'static str,
    plain: Bytes,
    gzipped: Bytes,
    /// Weak, because both encodings share it.
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

/// Compresses a file. Writing to memory does not fail; if it did, the file would be served uncompressed.
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

/// The page that renders every view.
static PAGE: LazyLock<Asset> = LazyLock::new(|| Asset::new("text/html; charset=utf-8", dist!("index.html")));

/// Files that the page loads, by their names below the console's root.
static ASSETS: LazyLock<[(&str, Asset); 5]> = LazyLock::new(|| {
    [
        ("boot.js", Asset::new("text/javascript; charset=utf-8", dist!("boot.js"))),
        ("console.js", Asset::new("text/javascript; charset=utf-8", dist!("console.js"))),
        ("console.css", Asset::new("text/css; charset=utf-8", dist!("console.css"))),
        ("icon.svg", Asset::new("image/svg+xml", dist!("icon.svg"))),
        ("licenses.txt", Asset::new("text/plain; charset=utf-8", dist!("licenses.txt"))),
    ]
});

/// Returns the console's routes, which need no credential.
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
        // Cached, but revalidated on every use, because a newer binary has a newer console.
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

/// Returns whether a list of entity tags contains this one.
fn has(list: &HeaderValue, etag: &HeaderValue) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let (Ok(list), Ok(etag)) = (list.to_str(), etag.to_str()) else { return false };
    list.split(',').any(|tag| tag.trim() == "*" || weak(tag) == weak(etag))
}
