//! The documentation as HTML pages, which `build/` renders from the Markdown files of the repository.

use std::sync::LazyLock;

use axum::http::header::HeaderMap;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::MethodFilter;

use super::asset::{Asset, HTML};
use super::routes::Routes;
use crate::access::{CallEffect, Level};

/// Path of the documentation's table of contents, and prefix of the paths of all its pages.
const ROOT: &str = "/docs/";

/// Paths and compressed pages, in the order of the table of contents.
type Embedded = &'static [(&'static str, &'static [u8])];

const EMBEDDED: Embedded = &include!(concat!(env!("OUT_DIR"), "/docs.rs"));

macro_rules! rendered {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

static PAGES: LazyLock<Vec<(&'static str, Asset)>> = LazyLock::new(|| {
    let pages = EMBEDDED.iter().map(|(path, page)| (*path, Asset::packed(HTML, page)));
    pages.chain([("/docs/search.json", Asset::packed("application/json", rendered!("search.json.gz")))]).collect()
});

static MISSING: LazyLock<Asset> = LazyLock::new(|| Asset::packed(HTML, rendered!("missing.html.gz")));

/// Returns the documentation's routes, which need no credential.
pub(crate) fn routes() -> Routes {
    let mut routes = Routes::none();
    for path in ["/docs", ROOT, "/docs/{*page}"] {
        routes.add(("GET", MethodFilter::GET), path, (Level::Nothing, CallEffect::Reads), false, show);
    }
    routes
}

async fn show(uri: Uri, headers: HeaderMap) -> Response {
    let path = if uri.path() == "/docs" { ROOT } else { uri.path() };
    match PAGES.iter().find(|(known, _)| *known == path) {
        Some((_, page)) => page.respond(&headers),
        None => MISSING.send(StatusCode::NOT_FOUND, &headers),
    }
}
