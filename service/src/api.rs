//! All ways in as one router: the REST API, SWF's wire, and the wire between nodes; and the table of all their calls.

use axum::Router;
use axum::handler::Handler;

use crate::access::{CallAccess, Credentials, Wire};
use crate::front::Front;
use crate::http::{Console, Gate, Hosts, Judged, Refused, Route, Routes, With, check_host, console_routes, measure};
use crate::{nodes, rest, swf};

pub use crate::rest::{document, recorded_document};

/// The version of the REST API, with which its paths begin.
pub const REST_VERSION: &str = "v1";

/// The version of SWF's API that its wire speaks. Source: the Amazon SWF API reference, "API Version 2012-01-25".
pub const SWF_VERSION: &str = "2012-01-25";

/// The routes of the API, for holders of credentials; for everybody when there are none. Under whatever name it is asked.
pub fn router_for(front: impl Into<Front>, credentials: Credentials) -> Router {
    router_at(front, credentials, Hosts::any(), Console::On)
}

/// The same, under these names, with the console or without it.
pub fn router_at(front: impl Into<Front>, credentials: Credentials, hosts: Hosts, console: Console) -> Router {
    let front = front.into();
    let measured = front.clone();
    let gate = Gate::new(front.clone(), credentials.clone());
    let known = || Judged::new(gate.clone(), Route::UNKNOWN);
    let ours = rest::routes(console).into_router(&gate);
    let ours = match console {
        Console::On => ours.merge(console_routes().into_router(&gate)),
        Console::Off => ours,
    };
    // Nodes show each other something else.
    let ours = if front.engine().nodes().is_shared() { ours.merge(nodes::routes().into_router(&gate)) } else { ours };
    // SWF's wire holds itself to the budget of bytes in flight, in its own words.
    ours.with_state(front.clone())
        .merge(swf::router(front, credentials))
        .fallback(no_such_path.layer(known()))
        .method_not_allowed_fallback(wrong_method.layer(known()))
        .layer(With((measure(measured), check_host(hosts))))
}

/// The routes of the API, open to whoever can reach them.
pub fn router(front: impl Into<Front>) -> Router {
    router_for(front, Credentials::default())
}

/// Every call.
pub fn table() -> Vec<CallAccess> {
    let rows = |routes: Routes, wire| routes.rows(wire);
    let rest = rows(rest::routes(Console::On), Wire::Rest).into_iter();
    let rest = rest.chain(rows(console_routes(), Wire::Rest));
    rest.chain(swf::rows()).chain(rows(nodes::routes(), Wire::Nodes)).collect()
}

async fn no_such_path() -> Refused {
    Refused::NoSuchPath
}

/// axum adds the Allow header: it knows the path's methods.
async fn wrong_method() -> Refused {
    Refused::Method
}
