//! Listing and counting of runs, open and closed.
//!
//! Source: SWF's API reference.

use futures_util::{StreamExt, stream};
use history::Status;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::{ListQuery, Listed, Order, PageToken, UnixMs};
use uuid::Uuid;

use super::call::{Answer, SwfCall, body, take};
use super::fault::{FaultKind, SwfFault};
use super::page::{self, PageKind, Paged, Paging, with_next};
use super::workflows::{close_status, info};
use engine::{Refusal, RunRef, type_name};

/// Number of rows that are read from the store at once.
const ROWS: usize = 1_000;

/// Maximum number that a count returns; a larger number of runs is reported as truncated. Our choice: SWF's limit on
/// open runs in a domain. AWS SWF truncates counts after an undocumented number of bytes.
const COUNTED_MAX: usize = 100_000;

/// Maximum number of reads from the store for one count or page. If more were needed, the result is truncated. The
/// limit is needed because a read may examine thousands of rows and return none, if few runs match a filter. Our
/// choice.
const ASKED_MAX: usize = 100;

/// Number of runs on a page whose details are read concurrently.
const DESCRIBED_AT_ONCE: usize = 32;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TimeRange {
    oldest_date: f64,
    latest_date: Option<f64>,
}

/// Converts a timestamp in seconds to milliseconds. Times before 1970 are treated as 1970.
fn millis(seconds: f64) -> UnixMs {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what does not fit becomes an end")]
    let millis = (seconds * 1_000.0).round() as UnixMs;
    millis
}

impl TimeRange {
    /// Returns the time range in milliseconds: the start, which is included, and the end, which is excluded.
    fn range(&self) -> (UnixMs, Option<UnixMs>) {
        (millis(self.oldest_date), self.latest_date.map(|latest| millis(latest).saturating_add(1)))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ById {
    workflow_id: String,
}

#[derive(Deserialize)]
struct ByType {
    name: String,
    version: Option<String>,
}

#[derive(Deserialize)]
struct ByTag {
    tag: String,
}

#[derive(Deserialize)]
struct ByStatus {
    status: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filters {
    domain: String,
    start_time_filter: Option<TimeRange>,
    close_time_filter: Option<TimeRange>,
    execution_filter: Option<ById>,
    type_filter: Option<ByType>,
    tag_filter: Option<ByTag>,
    close_status_filter: Option<ByStatus>,
    #[serde(flatten)]
    paging: Paging,
}

impl Filters {
    fn check(&self, is_open: bool) -> Result<(), SwfFault> {
        let invalid = |message: &str| Err(SwfFault::new(FaultKind::Validation, message));
        if !is_open && self.start_time_filter.is_some() == self.close_time_filter.is_some() {
            return invalid("Must specify exactly one of start time filter and close time filter");
        }
        let filters = [
            self.execution_filter.is_some(),
            self.type_filter.is_some(),
            self.tag_filter.is_some(),
            self.close_status_filter.is_some(),
        ];
        if filters.into_iter().filter(|is_there| *is_there).count() > 1 {
            return invalid("Cannot specify more than one exclusive filters in the same query");
        }
        Ok(())
    }

    /// Returns the query for the store. It contains all filters, so that every returned row matches.
    fn query(&self, is_open: bool) -> ListQuery {
        let mut query = ListQuery {
            domain: self.domain.as_str().into(),
            open: Some(is_open),
            workflow_id: self.execution_filter.as_ref().map(|filter| filter.workflow_id.clone()),
            tag: self.tag_filter.as_ref().map(|filter| filter.tag.clone()),
            limit: ROWS,
            ..ListQuery::default()
        };
        if let Some(ByType { name, version }) = &self.type_filter {
            match version.as_deref().filter(|version| !version.is_empty()) {
                Some(version) => query.workflow_type = Some(type_name(name, Some(version))),
                None => query.workflow_name = Some(name.clone()),
            }
        }
        if let Some(filter) = &self.close_status_filter {
            let status = Status::ALL.into_iter().find(|status| close_status(*status) == Some(filter.status.as_str()));
            query.status = status.map(|status| status.word().to_owned());
        }
        if let Some((from, before)) = self.start_time_filter.as_ref().map(TimeRange::range) {
            (query.started_from, query.started_before) = (Some(from), before);
        }
        if let Some((from, before)) = self.close_time_filter.as_ref().map(TimeRange::range) {
            (query.closed_from, query.closed_before) = (Some(from), before);
        }
        query.order = match (self.close_time_filter.is_some(), self.paging.is_reverse()) {
            (false, false) => Order::NewestStart,
            (false, true) => Order::OldestStart,
            (true, false) => Order::NewestClose,
            (true, true) => Order::OldestClose,
        };
        query
    }

    /// Returns the page that begins at this position; `None` means the first page. The cost is proportional to the size
    /// of the page.
    async fn page(&self, call: &SwfCall, is_open: bool, place: Option<&str>) -> Result<Paged<Listed>, SwfFault> {
        let mut query = self.query(is_open);
        let (size, mut rows) = (self.paging.size(), Vec::new());
        let mut next = place.map(page::bytes).transpose()?.map(PageToken);
        for _ in 0..ASKED_MAX {
            query.limit = size - rows.len();
            let found = call.engine.views().list(&query, next.as_ref()).await?;
            rows.extend(found.rows);
            next = found.next;
            if next.is_none() || rows.len() >= size {
                break;
            }
        }
        Ok(Paged { rows, next: next.map(|next| page::text(&next.0)) })
    }
}

pub(super) async fn list(call: SwfCall, input: Map<String, Value>, is_open: bool) -> Answer {
    let filters: Filters = take(input)?;
    filters.check(is_open)?;
    let (of, scope) = (if is_open { PageKind::OpenRuns } else { PageKind::ClosedRuns }, [filters.domain.as_str()]);
    let place = filters.paging.place(of, &call.engine, &scope)?;
    let Paged { rows, next } = filters.page(&call, is_open, place).await?;
    // The state of each run is read, because the run's list row contains neither the parent nor whether cancellation
    // was requested.
    let describe = async |listed: &Listed| {
        let (domain, run_id) = (filters.domain.as_str().into(), Some(Uuid::from_bytes(listed.run)));
        let at = RunRef { domain, workflow_id: listed.workflow_id.clone(), run_id };
        call.engine.views().describe(&at).await.map(|described| info(&described.run))
    };
    let described: Vec<_> = stream::iter(rows.iter().map(describe)).buffered(DESCRIBED_AT_ONCE).collect().await;
    let mut infos: Vec<Value> = Vec::with_capacity(described.len());
    for described in described {
        match described {
            Ok(info) => infos.push(info),
            // The run was deleted after the rows were read.
            Err(Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    body(&with_next(json!({ "executionInfos": infos }), next.map(|next| of.token(&call.engine, &scope, next))))
}

pub(super) async fn count(call: SwfCall, input: Map<String, Value>, is_open: bool) -> Answer {
    let filters: Filters = take(input)?;
    filters.check(is_open)?;
    let (mut query, mut count, mut next) = (filters.query(is_open), 0, None);
    for _ in 0..ASKED_MAX {
        query.limit = ROWS.min(COUNTED_MAX - count);
        let found = call.engine.views().list(&query, next.as_ref()).await?;
        count += found.rows.len();
        next = found.next;
        if next.is_none() || count >= COUNTED_MAX {
            break;
        }
    }
    body(&json!({ "count": count, "truncated": next.is_some() }))
}
