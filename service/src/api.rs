//! The router of all HTTP endpoints: the REST API, the SWF protocol, and the calls between nodes. This module also
//! builds the access table of these calls.

use std::sync::Arc;

use axum::extract::MatchedPath;
use axum::handler::Handler;
use axum::http::header::ALLOW;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};

use crate::access::{CallAccess, Credentials, Level, Wire};
use crate::front::Front;
use crate::http::{
    Console, Gate, GateLayer, Hosts, MiddlewareLayer, Paths, Refused, Route, Routes, check_host, console_routes,
    docs_routes, measure, with_options,
};
use crate::{nodes, rest, swf};

pub use crate::rest::{document, recorded_document};

/// Version of the REST API, and first segment of its paths.
pub const REST_VERSION: &str = "v1";

/// Version of the SWF API. Source: the Amazon SWF API reference, "API Version 2012-01-25".
pub const SWF_VERSION: &str = "2012-01-25";

/// Target of `OPTIONS *`, a request about the service as a whole. Source: RFC 9110, section 9.3.7.
const ALL_PATHS: &str = "*";

/// Returns the router of all endpoints, with the console, for requests to any host name. If no credentials are
/// configured, callers are not authenticated.
pub fn router_for(front: impl Into<Front>, credentials: Credentials) -> Router {
    router_at(front, credentials, Hosts::any(), Console::On)
}

/// Returns the router of all endpoints for requests to these host names, with or without the console.
pub fn router_at(front: impl Into<Front>, credentials: Credentials, hosts: Hosts, console: Console) -> Router {
    let front = front.into();
    let measured = front.clone();
    let gate = Gate::new(front.clone(), credentials.clone());
    let known = || GateLayer::new(gate.clone(), Route::UNKNOWN);
    let mut routes = vec![(Wire::Rest, rest::routes(console))];
    if console == Console::On {
        routes.extend([(Wire::Rest, console_routes()), (Wire::Rest, docs_routes())]);
    }
    // Calls between nodes exist only if several nodes can share the store.
    if front.engine().nodes().is_shared() {
        routes.push((Wire::Nodes, nodes::routes()));
    }
    let mut paths = Paths::of(routes.iter().flat_map(|(wire, routes)| routes.rows(*wire)));
    paths.add(swf::PATH, "POST", Level::Known);
    let paths = Arc::new(paths);
    let ours = routes.into_iter().fold(Router::new(), |router, (_, routes)| router.merge(routes.into_router(&gate)));
    // The SWF protocol enforces the budget of bytes in flight itself, because its errors have a different format.
    with_options(ours, &paths, &gate)
        .with_state(front.clone())
        .merge(swf::router(front, credentials))
        .fallback(no_such_path.layer(known()).layer(Extension(Arc::clone(&paths))))
        .method_not_allowed_fallback(wrong_method.layer(known()).layer(Extension(paths)))
        .layer(MiddlewareLayer((measure(measured), check_host(hosts))))
}

/// Returns the router of all endpoints without authentication.
pub fn router(front: impl Into<Front>) -> Router {
    router_for(front, Credentials::default())
}

/// Returns the access table: all calls of all protocols with their levels.
pub fn table() -> Vec<CallAccess> {
    let rows = |routes: Routes, wire| routes.rows(wire);
    let rest = rows(rest::routes(Console::On), Wire::Rest).into_iter();
    let rest = rest.chain(rows(console_routes(), Wire::Rest)).chain(rows(docs_routes(), Wire::Rest));
    rest.chain(swf::rows()).chain(rows(nodes::routes(), Wire::Nodes)).collect()
}

async fn no_such_path(Extension(paths): Extension<Arc<Paths>>, method: Method, uri: Uri) -> Response {
    if method == Method::CONNECT && uri.path().is_empty() {
        return paths.no_proxy().into_response();
    }
    if method == Method::OPTIONS && uri.path() == ALL_PATHS {
        return (StatusCode::NO_CONTENT, [(ALLOW, paths.allow_anywhere())]).into_response();
    }
    paths.no_such_path(uri.path()).into_response()
}

async fn wrong_method(Extension(paths): Extension<Arc<Paths>>, path: MatchedPath, method: Method) -> Refused {
    paths.wrong_method(path.as_str(), &method)
}
