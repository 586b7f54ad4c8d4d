//! Routes of the service. Adding a route requires its access level and its effect.

use std::future::ready;

use axum::Router;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::http::header::ALLOW;
use axum::routing::{MethodFilter, MethodRouter, on, options};

use super::audit;
use super::auth::{Gate, GateLayer};
use super::in_flight::account;
use super::paths::Paths;
use crate::access::{CallAccess, CallEffect, Level, Wire};
use crate::front::Front;

struct RouteRow {
    is: audit::Route,
    handler: MethodRouter<Front>,
}

/// List of routes that is being built.
pub(crate) struct Routes(Vec<RouteRow>);

impl Routes {
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a call. `has_body` is true if its handler reads a body. A `GET` call also answers `HEAD`, with the same
    /// level.
    pub(crate) fn add<H, T>(
        &mut self,
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        (level, effect): (Level, CallEffect),
        has_body: bool,
        handler: H,
    ) where
        H: Handler<T, Front>,
        T: 'static,
    {
        let is = audit::Route { method, path, level, effect, has_body };
        self.0.push(RouteRow { is, handler: on(filter, handler) });
    }

    /// Adds a `POST` call between nodes.
    pub(crate) fn post<H, T>(mut self, path: &'static str, level: Level, handler: H) -> Self
    where
        H: Handler<T, Front>,
        T: 'static,
    {
        self.add(("POST", MethodFilter::POST), path, (level, CallEffect::Relays), true, handler);
        self
    }

    /// Returns the rows of the access table.
    pub(crate) fn rows(&self, wire: Wire) -> Vec<CallAccess> {
        let row = |RouteRow { is, .. }: &RouteRow| {
            let audit::Route { method, path: name, level, effect, .. } = *is;
            CallAccess { wire, method, name, level, effect }
        };
        self.0.iter().map(row).collect()
    }

    /// Returns the router. Requests reach a handler only through the gate, which enforces the call's level. Each
    /// request is also charged to the budget of bytes in flight.
    pub(crate) fn into_router(self, gate: &Gate) -> Router<Front> {
        self.0.into_iter().fold(Router::new(), |router, RouteRow { is, handler }| {
            // Both layers are combined into one, because each layer adds a box to the memory of a waiting call.
            let gate_layer = handler.route_layer((account(&gate.front), GateLayer::new(gate.clone(), is)));
            #[expect(clippy::disallowed_methods, reason = "the one place where routes get their level")]
            router.route(is.path, gate_layer)
        })
    }
}

/// Answers `OPTIONS` at each path with the methods of the path. CORS headers are not sent, because no other site may
/// use the service.
pub(crate) fn with_options(router: Router<Front>, paths: &Paths, gate: &Gate) -> Router<Front> {
    paths.levels().fold(router, |router, (path, level)| {
        let allow = paths.allow(path);
        let answer = move || ready((StatusCode::NO_CONTENT, [(ALLOW, allow.clone())]));
        let gate_layer = options(answer).route_layer(GateLayer::new(gate.clone(), audit::Route::options(path, level)));
        #[expect(clippy::disallowed_methods, reason = "it needs the level that its path has")]
        router.route(path, gate_layer)
    })
}
