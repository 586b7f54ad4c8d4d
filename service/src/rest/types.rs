//! Registered workflow and activity types.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use client::body;
use schemars::JsonSchema;
use serde::Deserialize;

use super::extract::{NoQuery, OnNamed, Params, Path};
use crate::http::{Answer, AppState, Json, json};
use engine::{TypeKind, TypeRecord, split_type_name};

/// Default and maximum number of types on a page.
const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 1_000;

fn render<D: TypeKind>(registered: TypeRecord<D>) -> body::RegisteredType<D> {
    let r#type = registered.full_name();
    let TypeRecord { name, version, description, created_at, deprecated_at, defaults } = registered;
    body::RegisteredType { r#type, name, version, description, created_at, deprecated_at, defaults }
}

pub(super) async fn register<D: TypeKind>(
    State(engine): AppState,
    Path([domain]): Path<1>,
    _: NoQuery,
    Json(register): Json<body::RegisterType<D>>,
) -> Answer {
    let body::RegisterType { name, version, description, defaults } = register;
    let (created_at, deprecated_at) = (engine.clock().now(), None);
    let registered = TypeRecord { name, version, description, created_at, deprecated_at, defaults };
    let registered = engine.registry().register_type(&domain, registered).await?;
    Ok(json(StatusCode::CREATED, &render(registered)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TypeListParams {
    /// True to list only deprecated types, false to list only types that are not deprecated; all types by default.
    deprecated: Option<bool>,
    /// Name after which the page begins: `next` of the previous page.
    after: Option<String>,
    /// Maximum number of types on a page, 1 to 1,000; 100 by default.
    limit: Option<usize>,
}

pub(super) async fn list<D: TypeKind>(
    State(engine): AppState,
    Path([domain]): Path<1>,
    Params(params): Params<TypeListParams>,
) -> Answer {
    let mut names = engine.registry().type_names::<D>(&domain).await?;
    names.retain(|(full, deprecated)| {
        params.deprecated.is_none_or(|wanted| wanted == *deprecated)
            && params.after.as_deref().is_none_or(|after| **full > *after)
    });
    let limit = params.limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX);
    let has_more = names.len() > limit;
    names.truncate(limit);
    let next = names.last().filter(|_| has_more).map(|(full, _)| full.to_string());
    let types = names.into_iter().map(|(full, deprecated)| {
        let (name, version) = split_type_name(&full);
        let (name, version) = (name.to_owned(), version.map(str::to_owned));
        body::ListedType { r#type: full.to_string(), name, version, deprecated }
    });
    Ok(json(StatusCode::OK, &body::Types { types: types.collect(), next }))
}

pub(super) async fn show<D: TypeKind>((State(engine), Path([domain, full]), _): OnNamed) -> Answer {
    Ok(json(StatusCode::OK, &render(engine.registry().registered_type::<D>(&domain, &full).await?)))
}

pub(super) async fn deprecate<D: TypeKind>((State(engine), Path([domain, full]), _): OnNamed) -> Answer {
    Ok(json(StatusCode::OK, &render(engine.registry().deprecate_type::<D>(&domain, &full).await?)))
}

pub(super) async fn undeprecate<D: TypeKind>((State(engine), Path([domain, full]), _): OnNamed) -> Answer {
    Ok(json(StatusCode::OK, &render(engine.registry().undeprecate_type::<D>(&domain, &full).await?)))
}

pub(super) async fn delete<D: TypeKind>((State(engine), Path([domain, full]), _): OnNamed) -> Answer {
    engine.registry().delete_type::<D>(&domain, &full).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
