//! The web console. Its files contain no data: pages load data through the API, with the permissions of the signed-in
//! user.

use std::sync::LazyLock;

use axum::http::Uri;
use axum::http::header::HeaderMap;
use axum::response::Response;
use axum::routing::MethodFilter;
use clap::ValueEnum;
use serde::Deserialize;

use super::asset::{Asset, CSS, HTML, JAVASCRIPT};
use super::routes::Routes;
use crate::access::{CallEffect, Level};

/// Root path of the console. Every path below it that is not a file is a view.
pub(crate) const ROOT: &str = "/console/";

/// Setting that enables the web console and the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Console {
    /// Served below `/console/` and `/docs/`.
    On,
    /// Not served: requests to these paths fail with 404.
    Off,
}

macro_rules! dist {
    ($name:literal) => {
        include_bytes!(concat!("../../console/dist/", $name))
    };
}

/// The HTML page that renders every view.
static PAGE: LazyLock<Asset> = LazyLock::new(|| Asset::new(HTML, dist!("index.html")));

/// Files that the pages of the console and of the documentation load, by their names below the console's root.
static ASSETS: LazyLock<[(&str, Asset); 7]> = LazyLock::new(|| {
    [
        ("boot.js", Asset::new(JAVASCRIPT, dist!("boot.js"))),
        ("console.js", Asset::new(JAVASCRIPT, dist!("console.js"))),
        ("console.css", Asset::new(CSS, dist!("console.css"))),
        ("docs.js", Asset::new(JAVASCRIPT, dist!("docs.js"))),
        ("docs.css", Asset::new(CSS, dist!("docs.css"))),
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
    asset.respond(&headers)
}
