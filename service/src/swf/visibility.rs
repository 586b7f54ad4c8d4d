//! Lists and counts of runs, open and closed.
//!
//! Source: SWF.md §8.14.

use history::{Status, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use store::{ListQuery, Listed};
use uuid::Uuid;

use super::domains::with_next;
use super::fault::{Fault, FaultKind};
use super::page::{Paging, invalid_token};
use super::workflows::{close_status, info};
use super::{Answer, Call, body, take};
use crate::engine::{RunRef, split_type_name};

/// Rows that are read at once.
const ROWS: usize = 1_000;

/// The most runs that a list or a count looks at. Ours: beyond it a count is truncated, and a list ends.
const LOOKED_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    oldest_date: f64,
    latest_date: Option<f64>,
}

impl Times {
    fn has(&self, at: Timestamp) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "exact for the next 285,000 years")]
        let seconds = at.as_millis() as f64 / 1_000.0;
        seconds >= self.oldest_date && self.latest_date.is_none_or(|latest| seconds <= latest)
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
    start_time_filter: Option<Times>,
    close_time_filter: Option<Times>,
    execution_filter: Option<ById>,
    type_filter: Option<ByType>,
    tag_filter: Option<ByTag>,
    close_status_filter: Option<ByStatus>,
    #[serde(flatten)]
    paging: Paging,
}

impl Filters {
    fn check(&self, is_open: bool) -> Result<(), Fault> {
        let invalid = |message: &str| Err(Fault::new(FaultKind::Validation, message));
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

    /// Those that match, newest first; whether there are more than are looked at.
    async fn find(&self, call: &Call, is_open: bool) -> Result<(Vec<Listed>, bool), Fault> {
        self.check(is_open)?;
        let query = ListQuery {
            domain: self.domain.as_str().into(),
            open: Some(is_open),
            workflow_id: self.execution_filter.as_ref().map(|filter| filter.workflow_id.clone()),
            tag: self.tag_filter.as_ref().map(|filter| filter.tag.clone()),
            limit: ROWS,
            ..ListQuery::default()
        };
        let (mut found, mut looked, mut page) = (Vec::new(), 0, None);
        loop {
            let rows = call.engine.list(&query, page.as_ref()).await?;
            looked += rows.rows.len();
            found.extend(rows.rows.into_iter().filter(|listed| self.has(listed)));
            page = rows.next;
            if page.is_none() || looked >= LOOKED_MAX {
                break;
            }
        }
        if self.close_time_filter.is_some() {
            found.sort_by_key(|listed| std::cmp::Reverse(listed.row.closed_at));
        }
        Ok((found, page.is_some()))
    }

    fn has(&self, listed: &Listed) -> bool {
        let row = &listed.row;
        let status = Status::from_word(&row.status).unwrap_or_default();
        self.start_time_filter.as_ref().is_none_or(|times| times.has(Timestamp::from_millis(row.started_at)))
            && self
                .close_time_filter
                .as_ref()
                .is_none_or(|times| row.closed_at.is_some_and(|closed_at| times.has(Timestamp::from_millis(closed_at))))
            && self.type_filter.as_ref().is_none_or(|filter| {
                let (name, version) = split_type_name(&row.workflow_type);
                let wanted = filter.version.as_deref().filter(|version| !version.is_empty());
                name == filter.name && wanted.is_none_or(|wanted| version == Some(wanted))
            })
            && self.close_status_filter.as_ref().is_none_or(|filter| close_status(status) == Some(&filter.status))
    }
}

/// What a token of a list has in front.
const TOKEN: &str = "l-";

pub(super) async fn list(call: Call, input: Map<String, Value>, is_open: bool) -> Answer {
    let filters: Filters = take(input)?;
    let (mut found, _) = filters.find(&call, is_open).await?;
    if filters.paging.is_reverse() {
        found.reverse();
    }
    let token = filters.paging.next_page_token.as_deref().filter(|token| !token.is_empty());
    let from: usize = match token {
        Some(token) => token.strip_prefix(TOKEN).and_then(|from| from.parse().ok()).ok_or_else(invalid_token)?,
        None => 0,
    };
    let size = filters.paging.size();
    let next = (found.len() > from.saturating_add(size)).then(|| format!("{TOKEN}{}", from + size));
    let rows: Vec<Listed> = found.into_iter().skip(from).take(size).collect();
    let describe = async |listed: &Listed| {
        let (domain, run_id) = (filters.domain.as_str().into(), Some(Uuid::from_bytes(listed.run)));
        let at = RunRef { domain, workflow_id: listed.workflow_id.clone(), run_id };
        call.engine.describe(&at).await.map(|described| info(&described.run))
    };
    let described = futures_util::future::join_all(rows.iter().map(describe)).await;
    // One that cannot be described was forgotten a moment ago.
    let infos: Vec<Value> = described.into_iter().flatten().collect();
    body(&with_next(json!({ "executionInfos": infos }), next))
}

pub(super) async fn count(call: Call, input: Map<String, Value>, is_open: bool) -> Answer {
    let filters: Filters = take(input)?;
    let (found, truncated) = filters.find(&call, is_open).await?;
    body(&json!({ "count": found.len(), "truncated": truncated }))
}
