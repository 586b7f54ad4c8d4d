//! The gate that every call passes first. It authenticates the caller, checks its permission, and admits the request
//! under its quotas.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use tower::{Layer, Service};

use history::CallerName;

use super::admission::{Admission, Interrupted, is_of_task};
use super::audit::{Route, Ticket};
use super::paths::{empty_segment, other_segments};
use super::problem::Refused;
use super::record::RequestNotes;
use super::segment::named;
use super::session::{self, EndsSession, SignIn};
use crate::access::{AuthenticationError, Caller, Credentials, Denied, Level, Need, Pass, Principal, Subject};
use crate::front::Front;
use crate::openapi::{Operation, OperationInput};
use crate::tls::Peer;
use engine::admission::{RequestOrigin, Throttled};
use engine::{Engine, Refusal};

/// Authorization scheme of calls between nodes.
pub(crate) const NODE_SCHEME: &str = "Baton-Node ";

/// Dependencies of the gate, which authenticates callers and checks their permissions.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(super) front: Front,
    credentials: Credentials,
}

impl Gate {
    pub(crate) fn new(front: Front, credentials: Credentials) -> Self {
        Self { front, credentials }
    }
}

/// Subject of a request, which determines the needed permission. It is read from the path.
struct PathSubject<'a> {
    engine: &'a Engine,
    params: Result<RawPathParams, RawPathParamsRejection>,
}

impl PathSubject<'_> {
    fn segment(&self, name: &str) -> Result<Option<String>, Refused> {
        let params = self.params.as_ref().map_err(|error| Refused::BadPath(error.to_string()))?;
        Ok(params.iter().find(|(found, _)| *found == name).map(|(_, value)| named(value).to_owned()))
    }

    /// Returns all path parameters by name.
    fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.params.iter().flat_map(|params| params.iter()).map(|(name, value)| (name, named(value)))
    }

    /// Returns whether a path parameter is empty. axum accepts an empty segment for a parameter everywhere except at
    /// the end of the path.
    fn has_empty_name(&self) -> bool {
        self.names().any(|(_, name)| name.is_empty())
    }

    fn must(&self, name: &str) -> Result<String, Refused> {
        self.segment(name)?.ok_or_else(other_segments)
    }
}

impl Subject for PathSubject<'_> {
    type Refusal = Refused;

    fn domain(&self) -> Result<String, Refused> {
        self.must("domain")
    }

    fn of_decider(&self) -> Result<(String, String), Refused> {
        let Some(token) = self.segment("token")? else { return Ok((self.must("domain")?, self.must("list")?)) };
        let token = self.engine.tasks().decider_token(&token)?;
        Ok((token.domain.to_string(), token.task_list))
    }

    fn of_runner(&self) -> Result<(String, String), Refused> {
        let Some(token) = self.segment("token")? else { return Ok((self.must("domain")?, self.must("list")?)) };
        let token = self.engine.tasks().activity_token(&token)?;
        Ok((token.domain.to_string(), token.task_list))
    }
}

/// Layer that puts the gate (authentication and permission check) before the calls of one route.
#[derive(Clone)]
pub(crate) struct GateLayer {
    gate: Gate,
    route: Route,
}

impl GateLayer {
    pub(crate) fn new(gate: Gate, route: Route) -> Self {
        Self { gate, route }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = GatedHandler<S>;

    fn layer(&self, handler: S) -> GatedHandler<S> {
        GatedHandler { gate_layer: self.clone(), handler }
    }
}

/// Service that passes requests to the handler only after authentication and permission checks.
#[derive(Clone)]
pub(crate) struct GatedHandler<S> {
    gate_layer: GateLayer,
    handler: S,
}

impl<S> Service<Request> for GatedHandler<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.handler.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The future is boxed, so that its memory is freed before the call waits.
        let judging = Box::pin(self.gate_layer.clone().judge(request));
        let handler = self.handler.clone();
        Box::pin(async move {
            Ok(match judging.await {
                Ok(admitted) => admitted.run(handler).await,
                Err(refused) => refused,
            })
        })
    }
}

/// Request that the gate has admitted.
struct AdmittedRequest {
    request: Request,
    ticket: Option<Ticket>,
    admission: Admission,
    /// Method and path of the request, for the log.
    what: String,
    gate_layer: GateLayer,
}

impl AdmittedRequest {
    /// Runs the handler. This is not an `async` function, because its future would keep memory reserved for the
    /// request while the call waits.
    fn run<S>(self, handler: S) -> BoxFuture<'static, Response>
    where
        S: Service<Request, Response = Response, Error = Infallible> + Send + 'static,
        S::Future: Send + 'static,
    {
        let Self { request, ticket, admission, what, gate_layer: GateLayer { gate, route } } = self;
        let work = admission.run(route.run(ticket, request, handler));
        Box::pin(async move {
            match work.await {
                Ok(response) => {
                    if let Some(EndsSession(secret)) = response.extensions().get::<EndsSession>() {
                        gate.credentials.end_session(secret);
                    }
                    response
                }
                Err(Interrupted::Crowded(crowded)) => Refused::from(crowded).into_response(),
                Err(Interrupted::Revoked(holder)) => gate.deny(Refused::Revoked, Some(holder.name()), &what),
            }
        })
    }
}

impl GateLayer {
    /// Checks a request. Returns the request if it is admitted, otherwise the response that refuses it.
    async fn judge(self, request: Request) -> Result<AdmittedRequest, Response> {
        let Self { gate, route } = self;
        let path = route.path;
        let (mut parts, body) = request.into_parts();
        let params = RawPathParams::from_request_parts(&mut parts, &()).await;
        let request = Request::from_parts(parts, body);
        let what = format!("{} {path}", request.method());
        let log = request.extensions().get::<RequestNotes>().cloned();
        let peer = request.extensions().get::<Arc<Peer>>();
        let subject = PathSubject { engine: gate.front.engine(), params };
        // A path with an empty name is refused like an unknown path, and also needs the level of an unknown path.
        let is_unknown = subject.has_empty_name();
        let level = if is_unknown { Route::UNKNOWN.level } else { route.level };
        let admitted = gate.admit(level, (request.method(), request.uri(), request.headers()), peer).await;
        if let Some(log) = &log {
            let is_of_turns = level == Level::Decider;
            let list = is_of_turns.then(|| subject.of_decider());
            let list = list.or_else(|| (level == Level::Runner).then(|| subject.of_runner()));
            if let Some(Ok((domain, _))) = list {
                log.domain(&domain);
            }
        }
        let pass =
            admitted.and_then(|admitted| admitted.map(|admitted| gate.pass(level, &subject, admitted)).transpose());
        let by = match &pass {
            Ok(pass) => pass.as_ref().and_then(|pass| Caller::holding(Arc::clone(pass.holder())).by()),
            Err((_, who)) => who.as_deref().and_then(|who| CallerName::new(who).ok()),
        };
        if let Some(log) = log {
            log.by(by.clone());
        }
        let pass = pass.map_err(|(refused, who)| gate.deny(refused, who.as_deref(), &what))?;
        let admission = gate.admit_under_quotas(pass.as_ref(), level, &subject, path);
        let admission = admission.map_err(|throttled| Refused::from(Refusal::from(throttled)).into_response())?;
        if is_unknown {
            return Err(empty_segment(request.uri().path()).into_response());
        }
        let ticket = route.change(gate.front.engine(), &request, by, subject.names());
        drop(subject);
        let mut request = admission.count_body(request);
        // Only a few calls use this extension, and all of them need one of these levels.
        if matches!(level, Level::Known | Level::Operator) {
            let (admitted, from) = (pass.as_ref().map(Pass::admitted), (request.headers(), request.uri()));
            let sign_in = SignIn::new(&gate.credentials, admitted, from, gate.front.has_tls());
            request.extensions_mut().insert(sign_in);
        }
        let caller = pass.as_ref().map(|pass| Caller::holding(Arc::clone(pass.holder())));
        request.extensions_mut().insert(caller.unwrap_or_else(Caller::anonymous));
        let admission = admission.with_pass(pass);
        Ok(AdmittedRequest { request, ticket, admission, what, gate_layer: Self { gate, route } })
    }
}

impl Refused {
    /// Returns the kind of denial for the metrics; `None` if this refusal does not deny access.
    fn denied(&self) -> Option<Denied> {
        match self {
            Self::Unauthorized | Self::SessionExpired => Some(Denied::Unauthorized),
            Self::Expired { .. } => Some(Denied::Expired),
            Self::NotYetValid { .. } => Some(Denied::NotYetValid),
            Self::Token { .. } => Some(Denied::Token),
            Self::Revoked => Some(Denied::Revoked),
            Self::Certificate { .. } => Some(Denied::Certificate),
            Self::Forbidden { .. } | Self::NoRule | Self::CsrfTokenMissing => Some(Denied::Forbidden),
            Self::TooManyFailedAttempts => Some(Denied::TooManyFailedAttempts),
            _ => None,
        }
    }
}

impl From<AuthenticationError> for Refused {
    fn from(no: AuthenticationError) -> Self {
        match no {
            AuthenticationError::Unknown => Self::Unauthorized,
            AuthenticationError::SessionExpired => Self::SessionExpired,
            AuthenticationError::Expired { what, since, .. } => Self::Expired { what, since },
            AuthenticationError::NotYetValid { what, from, .. } => Self::NotYetValid { what, from },
            AuthenticationError::Token { why } => Self::Token { why },
            AuthenticationError::NoRule { .. } => Self::NoRule,
            AuthenticationError::Certificate { shown, why } => Self::Certificate { shown, why },
        }
    }
}

impl Gate {
    /// Authenticates the caller. Returns `None` if the call needs no authentication. On failure, returns the refusal,
    /// and the name of the credential if it is known.
    async fn admit(
        &self,
        level: Level,
        (method, uri, headers): (&Method, &Uri, &HeaderMap),
        peer: Option<&Arc<Peer>>,
    ) -> Result<Option<Principal>, (Refused, Option<String>)> {
        if level == Level::Node {
            let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            let pass = value.and_then(|value| value.strip_prefix(NODE_SCHEME));
            let is_node = pass.is_some_and(|pass| self.front.engine().is_node_pass(pass));
            return if is_node { Ok(None) } else { Err((Refused::Unauthorized, None)) };
        }
        if level == Level::Nothing || self.credentials.is_empty() {
            return Ok(None);
        }
        let cookie =
            session::cookie(headers, uri, self.front.has_tls()).filter(|_| !headers.contains_key(AUTHORIZATION));
        if let Some(secret) = cookie {
            match self.credentials.admit_session(&secret, self.front.engine().clock().now()) {
                Ok(admitted) => {
                    let who = || Some(admitted.holder().name().to_owned());
                    let is_meant = session::must_be_meant(admitted.session(), method, headers);
                    return is_meant.map_err(|refused| (refused, who())).map(|()| Some(admitted));
                }
                // The cookie may be outdated. If the client has a certificate, the certificate authenticates it
                // instead.
                Err(no) if peer.is_none() => return Err((no.into(), None)),
                Err(_) => {}
            }
        }
        let admitted = self.credentials.admit_with_token(headers, peer, self.front.engine()).await;
        admitted.map(Some).map_err(|no| {
            let is_unknown = matches!(no, AuthenticationError::Unknown | AuthenticationError::Token { .. });
            let is_guess = is_unknown && headers.contains_key(AUTHORIZATION);
            let is_one_too_many = is_guess && self.credentials.denials().has_guessed_too_often();
            let who = no.who().map(str::to_owned);
            (if is_one_too_many { Refused::TooManyFailedAttempts } else { no.into() }, who)
        })
    }

    /// Returns the pass (credential and permission) of the caller for this call. On failure, returns the refusal and
    /// the name of the credential.
    fn pass(
        &self,
        level: Level,
        subject: &PathSubject<'_>,
        admitted: Principal,
    ) -> Result<Pass, (Refused, Option<String>)> {
        let of = |refused| (refused, Some(admitted.holder().name().to_owned()));
        let need = level.need(subject).map_err(of)?;
        if need.is_met_by(admitted.holder()) {
            Ok(Pass::new(&self.credentials, self.front.engine().clock(), admitted, need))
        } else {
            Err(of(Refused::Forbidden { what: need.words() }))
        }
    }

    /// Admits a request under its quotas.
    fn admit_under_quotas(
        &self,
        pass: Option<&Pass>,
        level: Level,
        subject: &PathSubject<'_>,
        path: &str,
    ) -> Result<Admission, Throttled> {
        // An invalid task token is ignored at this point, because the handler of the call reports it.
        let need = if pass.is_none() { level.need(subject).ok() } else { None };
        let domain = pass.map(Pass::need).or(need.as_ref()).and_then(Need::domain);
        let credential = pass.map(|pass| pass.holder().name());
        Admission::new(&self.front, RequestOrigin { credential, domain, is_of_task: is_of_task(path) })
    }

    /// Counts and logs a denied request, and returns the response to it.
    fn deny(&self, refused: Refused, who: Option<&str>, what: &str) -> Response {
        if let Some(denied) = refused.denied() {
            // The detailed reason appears only in the log, not in the response.
            let what = match &refused {
                Refused::Token { why } => &format!("{what}: {why}"),
                _ => what,
            };
            self.credentials.denials().note(self.front.engine(), denied, who, what);
        }
        refused.into_response()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refused;

    /// Returns the caller that the gate has stored in the request. Fails if the request has not passed the gate.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        parts.extensions.get::<Self>().cloned().ok_or(Refused::Unauthorized)
    }
}

impl OperationInput for Caller {
    fn describe(_: &mut Operation<'_>) {}
}
