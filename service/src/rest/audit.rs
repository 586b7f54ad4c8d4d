//! Listing of the audit log's entries.

use std::sync::Arc;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;

use super::extract::Params;
use crate::audit::{AuditLog, read_after};
use crate::http::{Answer, Refused, json};
use crate::openapi::{Operation, OperationInput};
use engine::Refusal;

/// Default number of entries per page. Our choice: a screen or two.
const PAGE_DEFAULT: usize = 100;

/// Maximum number of entries per page. Our choice: a few hundred kilobytes.
const PAGE_MAX: usize = 1_000;

/// Extractor of this process's audit log. Fails if there is none.
pub(super) struct Log(Arc<AuditLog>);

impl<S: Send + Sync> FromRequestParts<S> for Log {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let log = Extension::<Arc<AuditLog>>::from_request_parts(parts, state).await;
        log.map(|Extension(log)| Self(log)).map_err(|_| Refused::AuditLogDisabled)
    }
}

impl OperationInput for Log {
    fn describe(_: &mut Operation<'_>) {}
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditListParams {
    /// Number of the entry after which the page begins. By default, the page begins with the first entry.
    #[serde(default)]
    after: u64,
    /// Maximum number of entries on a page, 1 to 1,000; 100 by default. A page has at most about 1 MiB.
    limit: Option<usize>,
}

/// Page of entries, exactly as stored in the files.
#[skip_serializing_none]
#[derive(Serialize)]
struct ListedEntries {
    entries: Vec<Box<RawValue>>,
    next: Option<u64>,
    last: u64,
}

/// Returns a page of entries. The files are read on a blocking thread, so that neither the thread that writes the log
/// nor other requests have to wait.
pub(super) async fn list(Params(query): Params<AuditListParams>, Log(log): Log) -> Answer {
    let limit = query.limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Refused::BadQuery(format!("`limit` must be from 1 to {PAGE_MAX}, found {limit}")));
    }
    let (last, directory) = (log.last(), log.directory().to_owned());
    let read = move || read_after(&directory, query.after, last, limit);
    let read = tokio::task::spawn_blocking(read).await.map_err(|_| Refusal::Stopping)?;
    let page = read.map_err(|misfit| {
        tracing::error!(%misfit, "the audit log cannot be read");
        Refused::AuditLogUnavailable
    })?;
    let next = (page.last < last && !page.entries.is_empty()).then_some(page.last);
    Ok(json(StatusCode::OK, &ListedEntries { entries: page.entries, next, last }))
}
