//! Audit entries of requests. An entry is written when the caller and the affected item are known, and before anything
//! changes. It contains names, but no payload, secret or token.
//!
//! A *ticket* tracks the entry of one change: it announces the change and later records the outcome. The change of a
//! call with a body is announced after the body was read and parsed (`body.rs`). The entry therefore contains the names
//! in the body. The change of a call without a body is announced at the gate (`auth.rs`). A request that is refused
//! before the announcement changes nothing and has no entry.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use history::CallerName;
use serde_json::value::RawValue;
use tower::Service;

use super::middleware::{Middleware, MiddlewareLayer};
use super::problem::Refused;
use super::record::{Code, PeerAddress, REQUEST_ID, RequestId, SWF_REQUEST_ID};
use crate::access::{CallEffect, Level};
use crate::audit::{Announced, AuditLog, Change, Names};
use crate::openapi::{Operation, OperationInput};
use engine::Engine;

/// Adds an audit entry to every call that changes something. The entry is written to this log before the call runs.
pub fn with_audit_log(router: Router, log: Arc<AuditLog>) -> Router {
    router.layer(MiddlewareLayer(NamedChange(log)))
}

/// Middleware that passes the audit log on to the handlers. It also gives the request an id, unless the access log has
/// already done so.
#[derive(Clone)]
struct NamedChange(Arc<AuditLog>);

impl Middleware for NamedChange {
    type After = RequestId;

    fn before(&self, mut request: Request) -> Result<(Request, RequestId), Box<Response>> {
        let id = request.extensions().get::<RequestId>().cloned();
        let id = id.unwrap_or_else(RequestId::new);
        request.extensions_mut().insert(id.clone());
        request.extensions_mut().insert(Arc::clone(&self.0));
        Ok((request, id))
    }

    fn after(id: RequestId, mut response: Response) -> Response {
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&id.0)
            && !headers.contains_key(SWF_REQUEST_ID)
        {
            headers.insert(REQUEST_ID, id);
        }
        response
    }
}

/// Facts for an audit entry that are known as soon as a request arrives: the log, the peer's address and the request
/// id.
#[derive(Clone)]
pub(crate) struct Audited {
    log: Arc<AuditLog>,
    peer: Option<SocketAddr>,
    request_id: String,
}

impl Audited {
    /// Returns the facts about a request that its audit entry needs; `None` if there is no audit log.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        Self::among(request.extensions())
    }

    fn among(found: &Extensions) -> Option<Self> {
        Some(Self {
            log: Arc::clone(found.get::<Arc<AuditLog>>()?),
            peer: found.get::<PeerAddress>().map(|peer| peer.0),
            request_id: found.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default(),
        })
    }

    /// Returns a ticket for the audit entries of one change, if a request makes several changes. The change concerns
    /// the task that `token` identifies.
    pub(crate) fn change_of_task(
        &self,
        engine: &Engine,
        level: Level,
        by: Option<CallerName>,
        (call, token): (&str, &str),
    ) -> Ticket {
        let mut names = Names::default();
        of_token(engine, level, token, &mut names);
        self.clone().change(by, call.to_owned(), names)
    }

    /// Returns a ticket for the audit entries of a change that this caller is about to make.
    pub(crate) fn change(self, by: Option<CallerName>, call: String, names: Names) -> Ticket {
        let Self { log, peer, request_id } = self;
        Ticket {
            log,
            state: Arc::new(Mutex::new(AuditState::Asked(Box::new(Change { by, peer, call, names, request_id })))),
        }
    }
}

/// Extractor for a call that makes several changes and announces each one separately. Contains `None` if there is no
/// audit log.
pub(crate) struct AuditEach(pub(crate) Option<Audited>);

impl<S: Send + Sync> FromRequestParts<S> for AuditEach {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        Ok(Self(Audited::among(&parts.extensions)))
    }
}

impl OperationInput for AuditEach {
    fn describe(_: &mut Operation<'_>) {}
}

/// Member of a request body whose value the audit entry contains.
#[derive(Debug)]
pub(super) struct NamedMember {
    member: String,
    name: String,
}

/// Returns the members of a request body whose values the audit entry contains.
pub(super) fn named_members(body: &[u8]) -> Vec<NamedMember> {
    let members: BTreeMap<String, &RawValue> = history::read_json(body).unwrap_or_default();
    let named = members.into_iter().filter(|(member, _)| Names::has_member(member)).filter_map(|(member, value)| {
        let name = serde_json::from_str(value.get()).ok()?;
        Some(NamedMember { member, name })
    });
    named.collect()
}

#[derive(Debug)]
enum AuditState {
    /// The change is not announced yet.
    Asked(Box<Change>),
    /// The change is announced and has no outcome yet.
    Announced(Announced),
    /// The change has an outcome, or is being announced at this moment.
    Over,
}

/// Audit log entries of one change, while it is in progress. Clones refer to the same change.
#[derive(Clone)]
pub(crate) struct Ticket {
    log: Arc<AuditLog>,
    state: Arc<Mutex<AuditState>>,
}

impl Ticket {
    fn lock(&self) -> MutexGuard<'_, AuditState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> AuditState {
        std::mem::replace(&mut *self.lock(), AuditState::Over)
    }

    /// Writes the entry and waits until it is durable. If this fails, the change must not be made.
    pub(crate) async fn announce(&self) -> Result<(), Refused> {
        self.announce_with(Vec::new()).await
    }

    /// Announces the change like [`announce`](Self::announce), with an entry that also contains these members of the
    /// body.
    pub(super) async fn announce_with(&self, members: Vec<NamedMember>) -> Result<(), Refused> {
        let AuditState::Asked(mut change) = self.take() else { return Err(Refused::Panicked) };
        for NamedMember { member, name } in members {
            change.names.put(&member, &name);
        }
        let announced = self.log.announce(*change).await.map_err(|_| Refused::AuditLogUnavailable)?;
        *self.lock() = AuditState::Announced(announced);
        Ok(())
    }

    /// Records the outcome of an announced change.
    pub(crate) fn tell(&self, status: StatusCode, code: Option<&str>) {
        if let AuditState::Announced(announced) = self.take() {
            announced.tell(status.as_u16(), code);
        }
    }
}

/// Route of a REST call, with the facts that the gate needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) level: Level,
    pub(super) effect: CallEffect,
    /// True if the call has a body. Then the change is announced when the handler extracts the body.
    pub(super) has_body: bool,
}

impl Route {
    /// Placeholder for requests to paths that do not exist.
    pub(crate) const UNKNOWN: Self =
        Self { method: "", path: "nothing", level: Level::Known, effect: CallEffect::Reads, has_body: false };

    /// Returns the route of `OPTIONS` at a path.
    pub(super) const fn options(path: &'static str, level: Level) -> Self {
        Self { method: "OPTIONS", path, level, effect: CallEffect::Reads, has_body: false }
    }

    /// Returns a ticket for the audit entries of the change that a request to this route makes. Returns `None` if the
    /// route changes nothing, or if there is no audit log.
    pub(super) fn change<'a>(
        &self,
        engine: &Engine,
        request: &Request,
        by: Option<CallerName>,
        params: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<Ticket> {
        if self.effect != CallEffect::Changes {
            return None;
        }
        let asked = Audited::of(request)?;
        let mut names = Names::default();
        let query = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(request.uri());
        for (member, name) in query.map(|query| query.0).unwrap_or_default() {
            names.put(&member, &name);
        }
        for (param, name) in params {
            match param {
                "token" => of_token(engine, self.level, name, &mut names),
                param => names.put(self.member(param), name),
            }
        }
        Some(asked.change(by, format!("{} {}", self.method, self.path), names))
    }

    /// Returns the name under which the audit log records a path parameter. Members of request bodies for the same item
    /// have this name.
    fn member<'a>(&self, param: &'a str) -> &'a str {
        let before = self.path.split('/').zip(self.path.split('/').skip(1));
        let before = before.into_iter().find(|(_, segment)| segment.trim_matches(['{', '}']) == param);
        match (before.map(|(before, _)| before), param) {
            (Some("workflows"), "id") => "workflowId",
            (Some("schedules"), "id") => "scheduleId",
            (Some("batches"), "id") => "batchId",
            (Some("workflow-types"), "type") => "workflowType",
            (Some("activity-types"), "type") => "activityType",
            (_, "activity") => "activityId",
            (_, "list") => "taskList",
            (_, param) => param,
        }
    }

    /// Runs the handler, with an audit entry before it and an entry with the outcome after it.
    pub(super) fn run<S>(
        self,
        ticket: Option<Ticket>,
        mut request: Request,
        mut handler: S,
    ) -> BoxFuture<'static, Response>
    where
        S: Service<Request, Response = Response, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let Some(ticket) = ticket else { return Box::pin(handler.call(request).map(|Ok(response)| response)) };
        Box::pin(async move {
            if self.has_body {
                request.extensions_mut().insert(ticket.clone());
            } else if let Err(refused) = ticket.announce().await {
                return refused.into_response();
            }
            let Ok(response) = handler.call(request).await;
            ticket.tell(response.status(), response.extensions().get::<Code>().map(|code| code.0));
            response
        })
    }
}

/// Adds the domain, workflow id, run id and task list that a token contains. An invalid token adds nothing.
pub(crate) fn of_token(engine: &Engine, level: Level, token: &str, names: &mut Names) {
    let found = if level == Level::Decider {
        engine.tasks().decider_token(token).map(|it| (it.domain, it.workflow_id, it.run_id, it.task_list))
    } else {
        engine.tasks().activity_token(token).map(|it| (it.domain, it.workflow_id, it.run_id, it.task_list))
    };
    if let Ok((domain, workflow_id, run_id, task_list)) = found {
        names.put("domain", &domain);
        names.put("workflowId", &workflow_id);
        names.put("runId", &run_id.to_string());
        names.put("taskList", &task_list);
    }
}
