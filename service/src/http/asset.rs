//! Files that are embedded in the binary (the web console and the documentation), with their response headers.

use std::io::{Read as _, Write as _};

use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use super::accept;

/// Content security policy of pages. A page can load files only from this service, and can call only this service. To
/// protect users from clickjacking, no other site can show the page in a frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
pub(super) const CSS: &str = "text/css; charset=utf-8";

/// Embedded file.
pub(super) struct Asset {
    content_type: &'static str,
    /// Uncompressed file; absent if only the compressed file is embedded.
    plain: Option<Bytes>,
    gzipped: Bytes,
    /// Entity tag of the file. It is weak, because the compressed and the uncompressed file share it.
    etag: HeaderValue,
}

impl Asset {
    /// Creates an asset from a file that is embedded uncompressed.
    pub(super) fn new(content_type: &'static str, bytes: &'static [u8]) -> Self {
        Self { content_type, plain: Some(Bytes::from_static(bytes)), gzipped: gzip(bytes), etag: etag(bytes) }
    }

    /// Creates an asset from a file that is embedded in compressed form.
    pub(super) fn packed(content_type: &'static str, gzipped: &'static [u8]) -> Self {
        Self { content_type, plain: None, gzipped: Bytes::from_static(gzipped), etag: etag(gzipped) }
    }

    /// Returns the response to a request for this file.
    pub(super) fn respond(&self, headers: &HeaderMap) -> Response {
        let is_known = headers.get_all(IF_NONE_MATCH).iter().any(|known| has(known, &self.etag));
        if is_known {
            let cached = [(ETAG, self.etag.clone())];
            return (StatusCode::NOT_MODIFIED, common_headers(), cached).into_response();
        }
        self.send(StatusCode::OK, headers)
    }

    /// Returns a response with the file and this status, even if the client has the file in its cache.
    pub(super) fn send(&self, status: StatusCode, headers: &HeaderMap) -> Response {
        let own = [(ETAG, self.etag.clone()), (CONTENT_TYPE, HeaderValue::from_static(self.content_type))];
        if accept::names(headers, &ACCEPT_ENCODING, "gzip") {
            let encoding = [(CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
            return (status, common_headers(), own, encoding, self.gzipped.clone()).into_response();
        }
        (status, common_headers(), own, self.plain()).into_response()
    }

    fn plain(&self) -> Bytes {
        self.plain.clone().unwrap_or_else(|| gunzip(&self.gzipped))
    }
}

fn common_headers() -> [(HeaderName, HeaderValue); 5] {
    [
        // Browsers cache the file but must revalidate it for every use, because a newer binary may contain a different
        // file.
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (VARY, HeaderValue::from_static("accept-encoding")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]
}

fn etag(bytes: &[u8]) -> HeaderValue {
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
    HeaderValue::try_from(format!("W/\"{digest}\"")).unwrap_or_else(|_| HeaderValue::from_static("W/\"\""))
}

/// Compresses a file. Writing to memory does not fail, so the uncompressed bytes are never returned.
fn gzip(bytes: &'static [u8]) -> Bytes {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packed.write_all(bytes).and_then(|()| packed.finish());
    packed.map_or(Bytes::from_static(bytes), Bytes::from)
}

/// Decompresses a file that was compressed during the build.
fn gunzip(bytes: &[u8]) -> Bytes {
    let mut plain = Vec::new();
    // The build has produced valid data, so decompression does not fail.
    let _ = GzDecoder::new(bytes).read_to_end(&mut plain);
    plain.into()
}

/// Returns whether a list of entity tags contains this one.
fn has(list: &HeaderValue, etag: &HeaderValue) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let (Ok(list), Ok(etag)) = (list.to_str(), etag.to_str()) else { return false };
    list.split(',').any(|tag| tag.trim() == "*" || weak(tag) == weak(etag))
}
