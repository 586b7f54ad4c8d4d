//! Selection of the runs of a batch: pages of the list of runs that its filter describes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::{Batch, BatchCursor, BatchPage, RunCondition, SelectedRun, Timestamp};
use store::{ListPage, ListQuery, PageToken, Store};
use uuid::Uuid;

use crate::Refusal;

/// Maximum number of pages that one step of a batch reads. Our choice: with a list of workflow ids, each is a page.
const READS_MAX: usize = 100;

/// Returns the query for runs with a status that callers use: `open`, `closed`, a condition of open runs, or an outcome
/// of closed runs. Returns `None` if there is no such status.
pub fn status_query(word: &str) -> Option<ListQuery> {
    let (open, flagged, status) = match word {
        "closed" => (false, None, None),
        word => match RunCondition::from_word(word)? {
            RunCondition::Open => (true, None, None),
            condition => (condition.is_open(), condition.is_flagged().then_some(true), Some(word.to_owned())),
        },
    };
    Some(ListQuery { open: Some(open), flagged, status, ..ListQuery::default() })
}

/// Returns the query for the runs that a batch selects, with this number of runs on a page. Runs that started at
/// `until` or later do not match.
pub(super) fn query(domain: &str, batch: &Batch, until: Option<Timestamp>, limit: usize) -> ListQuery {
    let filter = &batch.filter;
    let of_status = match &filter.status {
        // The status was validated before it was stored.
        Some(word) => status_query(word).unwrap_or_default(),
        None => ListQuery { open: batch.operation.r#type.needs_open(), ..ListQuery::default() },
    };
    let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
    ListQuery {
        domain: domain.into(),
        workflow_type: filter.r#type.clone(),
        workflow_id: filter.workflow_id.clone(),
        workflow_id_prefix: filter.workflow_id_prefix.clone(),
        tag: filter.tag.clone(),
        reason: filter.reason.clone(),
        started_from: millis(filter.started_from),
        started_before: millis(filter.started_before.into_iter().chain(until).min()),
        closed_from: millis(filter.closed_from),
        closed_before: millis(filter.closed_before),
        limit,
        ..of_status
    }
}

/// A page of selected runs, with their rows.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) rows: Vec<store::Listed>,
    missing: Vec<String>,
    pub(super) next: BatchCursor,
}

impl Selection {
    pub(super) fn into_page(self) -> BatchPage {
        let Self { rows, missing, next } = self;
        let selected = |row: store::Listed| {
            let (workflow_id, run_id) = (row.workflow_id.to_string(), Uuid::from_bytes(row.run));
            SelectedRun { workflow_id, run_id }
        };
        BatchPage { runs: rows.into_iter().map(selected).collect(), missing, next }
    }
}

/// Reads the next page of selected runs.
pub(super) async fn read(
    store: &dyn Store,
    query: &ListQuery,
    ids: &[String],
    cursor: &BatchCursor,
) -> Result<Selection, Refusal> {
    let mut selection = Selection { next: cursor.clone(), ..Selection::default() };
    if ids.is_empty() {
        let found = list(store, query, cursor).await?;
        selection.next.is_at_end = found.next.is_none();
        selection.next.page = found.next.map(|page| URL_SAFE_NO_PAD.encode(page.0));
        selection.rows = found.rows;
        return Ok(selection);
    }
    for _ in 0..READS_MAX {
        let next = &mut selection.next;
        let Some(id) = ids.get(next.ids) else { break };
        let limit = query.limit.saturating_sub(selection.rows.len());
        if limit == 0 {
            break;
        }
        let of_id = ListQuery { workflow_id: Some(id.clone()), limit, ..query.clone() };
        let found = list(store, &of_id, next).await?;
        let is_first = next.page.is_none();
        next.page = found.next.map(|page| URL_SAFE_NO_PAD.encode(page.0));
        if next.page.is_none() {
            next.ids += 1;
            if is_first && found.rows.is_empty() {
                selection.missing.push(id.clone());
            }
        }
        selection.rows.extend(found.rows);
    }
    selection.next.is_at_end = selection.next.ids >= ids.len();
    Ok(selection)
}

async fn list(store: &dyn Store, query: &ListQuery, cursor: &BatchCursor) -> Result<ListPage, Refusal> {
    let garbled = |_| Refusal::Corrupt { what: "a batch: the position in its list".to_owned() };
    let decode = |page: &String| URL_SAFE_NO_PAD.decode(page).map(PageToken).map_err(garbled);
    let page = cursor.page.as_ref().map(decode).transpose()?;
    Ok(store.list(query, page.as_ref()).await?)
}
