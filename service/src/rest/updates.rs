//! Updates of runs, and reading the result of an update again if the response was lost.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use client::body;
use history::{ConflictPolicy, Fault, Start};

use super::extract::{
    EntityTag, IdempotencyKey, IfMatch, Params, Path, PreferWait, TraceHeaders, request_key, with_etag,
    with_wait_applied,
};
use super::workflows::{RunQuery, matching, run_ref};
use crate::access::Caller;
use crate::http::{Answer, AppState, Json, json};
use engine::{UpdateProgress, UpdateRequest};

/// Default time for which an update waits. Our choice: enough for the current turn, one lost turn, and the turn that
/// processes the update.
const UPDATE_WAIT_DEFAULT: Duration = Duration::from_secs(30);

#[expect(clippy::too_many_arguments, reason = "each is a part of the request")]
pub(super) async fn update(
    State(engine): AppState,
    Path([domain, id, name]): Path<3>,
    Params(query): Params<RunQuery>,
    key: IdempotencyKey,
    PreferWait(wait): PreferWait,
    IfMatch(matches): IfMatch,
    TraceHeaders(trace): TraceHeaders,
    caller: Caller,
    Json(update): Json<body::UpdateWorkflow>,
) -> Answer {
    let at = matching(&engine, run_ref(&domain, &id, query.run_id), matches).await?;
    let body::UpdateWorkflow { input, update_id, identity, start } = update;
    let update_id = update_id.or_else(|| key.text());
    let start = match start {
        Some(start) => {
            let invalid = |field: &str, problem: String| Fault::Invalid { field: field.to_owned(), problem };
            if query.run_id.is_some() {
                return Err(invalid("start", "cannot be combined with a `runId`".to_owned()).into());
            }
            if start.workflow_id != id {
                let problem = format!("is `{}`, expected `{id}` as in the path", start.workflow_id);
                return Err(invalid("start.workflowId", problem).into());
            }
            let use_existing = start.conflict_policy.or(Some(ConflictPolicy::UseExisting));
            let start = body::StartWorkflow { conflict_policy: use_existing, ..*start };
            // The update id also becomes the request key of the start, so that a repeated request does not start a
            // second run.
            let key = update_id.as_ref().map(|update_id| request_key("update-with-start", update_id.as_bytes()));
            let start = engine.commands().start_of(&domain, start, key).await?;
            Some(Box::new(Start { by: caller.by(), trace, ..start }))
        }
        None => None,
    };
    let if_version = matches.map(|tag| tag.version);
    let update = UpdateRequest { update_id, name, input, identity, by: caller.by(), if_version, start };
    let updated = engine.request_reply().update(&at, update, wait.unwrap_or(UPDATE_WAIT_DEFAULT)).await?;
    Ok(with_wait_applied(rendered(updated), wait))
}

fn rendered(updated: UpdateProgress) -> Response {
    let UpdateProgress { update_id, run_id, started, event_id, done } = updated;
    match done {
        Some((version, result)) => {
            let (done, version) = (true, Some(version));
            let tag = EntityTag { run_id, version: version.unwrap_or_default(), hash: None };
            let body = body::Updated { update_id, run_id, started, event_id, done, version, result };
            with_etag(json(StatusCode::OK, &body), tag)
        }
        None => {
            let body = body::Updated { update_id, run_id, started, event_id, done: false, version: None, result: None };
            json(StatusCode::ACCEPTED, &body)
        }
    }
}
