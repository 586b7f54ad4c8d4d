//! Routes, each with the level that it needs: there is no way in that says nothing of it.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::auth::{self, Gate};
use crate::access::{Call, Level, Wire};
use crate::engine::Engine;

struct Route {
    method: &'static str,
    path: &'static str,
    level: Level,
    handler: MethodRouter<Arc<Engine>>,
}

/// Routes under way.
pub(crate) struct Routes(Vec<Route>);

impl Routes {
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a call. One for GET answers HEAD, too, and is judged alike.
    pub(crate) fn add<H, T>(
        &mut self,
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        level: Level,
        handler: H,
    ) where
        H: Handler<T, Arc<Engine>>,
        T: 'static,
    {
        self.0.push(Route { method, path, level, handler: on(filter, handler) });
    }

    /// Adds a call by POST.
    pub(crate) fn post<H, T>(mut self, path: &'static str, level: Level, handler: H) -> Self
    where
        H: Handler<T, Arc<Engine>>,
        T: 'static,
    {
        self.add(("POST", MethodFilter::POST), path, level, handler);
        self
    }

    /// The rows of the table.
    pub(crate) fn rows(&self, wire: Wire) -> Vec<Call> {
        let row = |route: &Route| Call { wire, method: route.method, name: route.path, level: route.level };
        self.0.iter().map(row).collect()
    }

    /// The router, in which no call is reached but by way of its level.
    pub(super) fn into_router(self, gate: &Gate) -> Router<Arc<Engine>> {
        self.0.into_iter().fold(Router::new(), |router, Route { path, level, handler, .. }| {
            let judged = handler.route_layer(from_fn_with_state((gate.clone(), level, path), auth::judge));
            #[expect(clippy::disallowed_methods, reason = "the one place where routes get their level")]
            router.route(path, judged)
        })
    }
}
