//! Handlers for domains.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use client::body;
use history::limits::RETENTION_DEFAULT;

use super::extract::{NoQuery, Path};
use crate::access::Caller;
use crate::http::{Answer, AppState, Json, json};
use engine::Domain;

fn render(domain: Domain) -> body::Domain {
    let Domain { name, description, retention, created_at, deprecated_at, tags, has_types: _ } = domain;
    body::Domain { name, description, retention, created_at, deprecated_at, tags }
}

pub(super) async fn create(State(engine): AppState, _: NoQuery, Json(create): Json<body::CreateDomain>) -> Answer {
    let body::CreateDomain { name, description, retention, tags } = create;
    let retention = retention.unwrap_or(RETENTION_DEFAULT);
    let created_at = engine.clock().now();
    let domain = Domain { description, tags, ..Domain::new(&name, retention, created_at) };
    let domain = engine.lists().create_domain(domain).await?;
    Ok(json(StatusCode::CREATED, &render(domain)))
}

pub(super) async fn list(State(engine): AppState, _: NoQuery, caller: Caller) -> Answer {
    let domains = engine.registry().domains().await?.into_iter().filter(|domain| caller.knows(&domain.name));
    let domains = domains.map(render).collect();
    Ok(json(StatusCode::OK, &body::Domains { domains }))
}

pub(super) async fn show(State(engine): AppState, Path([name]): Path<1>, _: NoQuery) -> Answer {
    Ok(json(StatusCode::OK, &render(engine.registry().domain(&name).await?)))
}

pub(super) async fn change(
    State(engine): AppState,
    Path([name]): Path<1>,
    _: NoQuery,
    Json(change): Json<body::ChangeDomain>,
) -> Answer {
    let body::ChangeDomain { description, retention } = change;
    Ok(json(StatusCode::OK, &render(engine.registry().set_domain(&name, description, retention).await?)))
}

pub(super) async fn delete(State(engine): AppState, Path([name]): Path<1>, _: NoQuery) -> Answer {
    engine.lists().delete_domain(&name).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

pub(super) async fn deprecate(State(engine): AppState, Path([name]): Path<1>, _: NoQuery) -> Answer {
    Ok(json(StatusCode::OK, &render(engine.registry().deprecate_domain(&name).await?)))
}

pub(super) async fn undeprecate(State(engine): AppState, Path([name]): Path<1>, _: NoQuery) -> Answer {
    Ok(json(StatusCode::OK, &render(engine.registry().undeprecate_domain(&name).await?)))
}

pub(super) async fn tag(
    State(engine): AppState,
    Path([name]): Path<1>,
    _: NoQuery,
    Json(tag): Json<body::TagDomain>,
) -> Answer {
    Ok(json(StatusCode::OK, &render(engine.registry().tag_domain(&name, &tag.add, &tag.remove).await?)))
}
