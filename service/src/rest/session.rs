//! Calls about the caller and its permissions, sign-in and sign-out, the credentials, and the nodes.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::Response;
use client::body;

use super::extract::NoQuery;
use crate::access::{HolderLevels, Session};
use crate::http::{Answer, AppState, Refused, SignIn, json};

fn rendered(levels: HolderLevels) -> body::CredentialLevels {
    let HolderLevels { name, operator, metrics, readers, readers_without_payloads, .. } = levels;
    let HolderLevels { applications, operators, deciders, runners, .. } = levels;
    body::CredentialLevels {
        name: Some(name),
        operator,
        metrics,
        readers,
        readers_without_payloads,
        applications,
        operators,
        deciders,
        runners,
    }
}

/// Returns the permissions that every caller has if callers are not authenticated.
fn anonymous() -> body::CredentialLevels {
    let all = HolderLevels { operator: true, metrics: true, ..HolderLevels::default() };
    body::CredentialLevels { name: None, ..rendered(all) }
}

fn info(sign_in: &SignIn, session: Option<&Session>) -> body::SessionInfo {
    body::SessionInfo {
        permissions: sign_in.admitted.as_ref().map_or_else(anonymous, |admitted| rendered(admitted.holder().levels())),
        csrf_token: session.map(|session| session.csrf().to_owned()),
        expires_at: session.map(Session::until),
    }
}

pub(super) async fn show(_: NoQuery, sign_in: SignIn) -> Answer {
    Ok(json(StatusCode::OK, &info(&sign_in, sign_in.session())))
}

pub(super) async fn begin(State(engine): AppState, _: NoQuery, sign_in: SignIn) -> Answer {
    let Some(admitted) = &sign_in.admitted else { return Ok(json(StatusCode::CREATED, &info(&sign_in, None))) };
    let now = engine.clock().now();
    let begun = sign_in.credentials.begin_session(admitted, now).ok_or(Refused::Unauthorized)?;
    let mut response = json(StatusCode::CREATED, &info(&sign_in, Some(&begun.session)));
    response.headers_mut().insert(SET_COOKIE, sign_in.set_cookie(Some(&begun.secret)));
    Ok(response)
}

pub(super) async fn end(_: NoQuery, sign_in: SignIn) -> Answer {
    let mut response = Response::new(Body::empty());
    sign_in.sign_out(&mut response);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(SET_COOKIE, sign_in.set_cookie(None));
    Ok(response)
}

pub(super) async fn credentials(_: NoQuery, sign_in: SignIn) -> Answer {
    let credentials = sign_in.credentials.levels().into_iter().map(rendered).collect();
    Ok(json(StatusCode::OK, &body::CredentialList { credentials }))
}

pub(super) async fn nodes(State(engine): AppState, _: NoQuery) -> Answer {
    let own = engine.nodes().address().map(str::to_owned);
    let (homes, due_shards) = engine.views().due_shards_by_node();
    let mut versions = engine.nodes().versions();
    let nodes = homes.into_iter().map(|(address, due_shards)| {
        let responding = own.as_deref() == Some(address.as_str());
        let version = versions.remove(&address).flatten();
        body::ListedNode { address, responding, version, due_shards }
    });
    Ok(json(StatusCode::OK, &body::NodeList { nodes: nodes.collect(), due_shards }))
}
