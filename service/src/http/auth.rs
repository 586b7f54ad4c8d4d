//! The gate before every call: who asks, and whether they may.

use std::sync::Arc;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Refused;
use crate::access::{Caller, Credentials, Denied, Level, Subject};
use crate::engine::Engine;
use crate::openapi::{Operation, Takes};

/// How a node says who it is.
pub(super) const NODE_SCHEME: &str = "Baton-Node ";

/// What the gate needs to know.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(super) engine: Arc<Engine>,
    pub(super) credentials: Arc<Credentials>,
}

/// What a path is about.
struct InPath<'a> {
    engine: &'a Engine,
    params: Result<RawPathParams, RawPathParamsRejection>,
}

impl InPath<'_> {
    fn segment(&self, name: &str) -> Result<Option<String>, Refused> {
        let params = self.params.as_ref().map_err(|error| Refused::BadPath(error.to_string()))?;
        Ok(params.iter().find(|(found, _)| *found == name).map(|(_, value)| value.to_owned()))
    }

    fn must(&self, name: &str) -> Result<String, Refused> {
        self.segment(name)?.ok_or(Refused::NoSuchPath)
    }
}

impl Subject for InPath<'_> {
    type Refusal = Refused;

    fn domain(&self) -> Result<String, Refused> {
        self.must("domain")
    }

    fn of_decider(&self) -> Result<(String, String), Refused> {
        let Some(token) = self.segment("token")? else { return Ok((self.must("domain")?, self.must("list")?)) };
        let token = self.engine.decider_token(&token)?;
        Ok((token.domain.to_string(), token.task_list))
    }

    fn of_runner(&self) -> Result<(String, String), Refused> {
        let Some(token) = self.segment("token")? else { return Ok((self.must("domain")?, self.must("list")?)) };
        let token = self.engine.activity_token(&token)?;
        Ok((token.domain.to_string(), token.task_list))
    }
}

/// Lets a request pass, or says why not.
pub(super) async fn judge(
    State((gate, level, path)): State<(Gate, Level, &'static str)>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = {
        let subject = InPath { engine: &gate.engine, params };
        gate.caller(level, &subject, &request)
    };
    match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err((denied, who)) => {
            if let Some(denied) = denied.denied() {
                let what = format!("{} {path}", request.method());
                gate.credentials.denials().note(&gate.engine, denied, who.as_deref(), &what);
            }
            denied.into_response()
        }
    }
}

impl Refused {
    /// Whether somebody was not let in.
    fn denied(&self) -> Option<Denied> {
        match self {
            Self::Unauthorized => Some(Denied::Unauthorized),
            Self::Forbidden { .. } => Some(Denied::Forbidden),
            Self::TooManyGuesses => Some(Denied::TooManyGuesses),
            _ => None,
        }
    }
}

impl Gate {
    /// Who asks; or why not, and whose credential it was.
    fn caller(
        &self,
        level: Level,
        subject: &InPath<'_>,
        request: &Request,
    ) -> Result<Caller, (Refused, Option<String>)> {
        if level == Level::Node {
            let value = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            let pass = value.and_then(|value| value.strip_prefix(NODE_SCHEME));
            let is_node = pass.is_some_and(|pass| self.engine.is_node_pass(pass));
            return if is_node { Ok(Caller::anybody()) } else { Err((Refused::Unauthorized, None)) };
        }
        if level == Level::Nothing || self.credentials.is_empty() {
            return Ok(Caller::anybody());
        }
        let Some(holder) = self.credentials.bearer(request.headers()) else {
            let is_guess = request.headers().contains_key(AUTHORIZATION);
            let is_one_too_many = is_guess && self.credentials.denials().has_guessed_too_often();
            return Err((if is_one_too_many { Refused::TooManyGuesses } else { Refused::Unauthorized }, None));
        };
        let of = |refused| (refused, Some(holder.name().to_owned()));
        let need = level.need(subject).map_err(of)?;
        if need.is_met_by(holder) {
            Ok(Caller::holding(Arc::clone(holder)))
        } else {
            Err(of(Refused::Forbidden { what: need.words() }))
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refused;

    /// No call is reached but by way of the gate; if one were, nobody would be anybody.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        parts.extensions.get::<Self>().cloned().ok_or(Refused::Unauthorized)
    }
}

impl Takes for Caller {
    fn describe(_: &mut Operation<'_>) {}
}
