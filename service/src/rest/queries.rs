//! Queries to deciders, and watching a query for a changed result.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use client::body;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::extract::{
    EntityTag, IfNoneMatch, Params, Path, PreferWait, WAIT_MAX, not_modified, with_etag, with_wait_applied,
};
use super::workflows::run_ref;
use crate::access::Caller;
use crate::http::{Answer, AppState, Json, Refused, json};
use engine::{QueryReply, QueryRequest, Refusal, SeenVersion};

/// Default time for which a query waits. Our choice: twice the timeout of a task that only delivers queries.
const QUERY_WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// Change for which a query with `If-None-Match` waits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Watch")]
pub(super) enum WatchTarget {
    /// Any change of the run.
    #[default]
    Version,
    /// A different result of the query.
    Result,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QueryParams {
    /// Run id; the newest run by default.
    run_id: Option<Uuid>,
    /// With `If-None-Match`: change to wait for, either of the run (`version`, the default) or of the result
    /// (`result`).
    #[serde(default)]
    watch: WatchTarget,
}

pub(super) async fn query(
    State(engine): AppState,
    Path([domain, id, name]): Path<3>,
    Params(params): Params<QueryParams>,
    PreferWait(wait): PreferWait,
    IfNoneMatch(tag): IfNoneMatch,
    caller: Caller,
    Json(query): Json<body::QueryWorkflow>,
) -> Answer {
    let seen = tag.map(|tag| seen(tag, params.watch)).transpose()?;
    let patience = wait.unwrap_or(if seen.is_some() { WAIT_MAX } else { QUERY_WAIT_DEFAULT });
    let ask = QueryRequest { name, input: query.input, seen };
    let answered = engine.request_reply().query(&run_ref(&domain, &id, params.run_id), ask, patience).await;
    let answered = answered.map_err(|refusal| match refusal {
        // The message comes from a decider and may contain parts of payloads.
        Refusal::QueryFailed { name, reason, message } => {
            Refusal::QueryFailed { name, reason, message: message.filter(|_| caller.sees_payloads(&domain)) }
        }
        refusal => refusal,
    })?;
    let response = match answered {
        QueryReply::Result { run_id, version, result, hash } => {
            let answer = body::QueryAnswer { run_id, version, result: caller.payload(&domain, result) };
            with_etag(json(StatusCode::OK, &answer), EntityTag { run_id, version, hash: Some(hash) })
        }
        QueryReply::Unchanged { run_id, version, hash } => {
            // If the caller watches for any change of the run, there is no new answer to the query. The hash of the
            // query's result is then taken from the caller's tag.
            not_modified(EntityTag { run_id, version, hash: hash.or(tag.and_then(|tag| tag.hash)) })
        }
    };
    Ok(with_wait_applied(response, wait))
}

fn seen(tag: EntityTag, watch: WatchTarget) -> Result<SeenVersion, Refused> {
    let EntityTag { run_id, version, hash } = tag;
    let hash = match watch {
        WatchTarget::Version => None,
        WatchTarget::Result if hash.is_none() => {
            let problem =
                "is the entity tag of a run; `watch=result` needs the entity tag of a query result".to_owned();
            return Err(Refused::BadHeader { header: axum::http::header::IF_NONE_MATCH, problem });
        }
        WatchTarget::Result => hash,
    };
    Ok(SeenVersion { run_id, version, hash })
}
