//! Lists: the rows of a domain by start, open and closed in ranges of their own, or those of one workflow id.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use store::listing::{Position, matches};
use store::{Error, HeadKey, ListPage, ListQuery, Listed, PageToken};

use crate::keys;
use crate::read::Want;
use crate::record::{decode_head, decode_row};
use crate::shared::Shared;

/// How many rows one page looks at, whatever their number that match. A page that has not found its rows by then is
/// short, and the next one goes on.
const LOOKED_AT: usize = 4096;

pub(crate) async fn list(shared: &Arc<Shared>, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
    let after = page.map(Position::from_token).transpose()?;
    match &query.workflow_id {
        Some(workflow_id) => list_one(shared, query, workflow_id, after).await,
        None => list_rows(shared, query, after).await,
    }
}

async fn list_rows(shared: &Arc<Shared>, query: &ListQuery, after: Option<Position>) -> Result<ListPage, Error> {
    let tables: &[u8] = match query.open {
        Some(true) => &[keys::OPEN_ROW],
        Some(false) => &[keys::CLOSED_ROW],
        None => &[keys::OPEN_ROW, keys::CLOSED_ROW],
    };
    let limit = query.limit.max(1);
    let mut seen: BTreeMap<Position, Bytes> = BTreeMap::new();
    // How far all ranges have been looked at; `None`: to their ends.
    let mut covered: Option<Position> = None;
    for table in tables {
        let (from, to) = bounds(*table, query, after.as_ref());
        let pairs = if query.is_filtered() { LOOKED_AT } else { limit.saturating_add(1).min(LOOKED_AT) };
        let scanned = shared.scan(from, to, Want { pairs, bytes: 4 << 20, is_reverse: false }).await?;
        let mut last = None;
        for (key, value) in scanned.pairs {
            let position = keys::read_row(&key)?;
            last = Some(position.clone());
            seen.insert(position, value);
        }
        if !scanned.is_end
            && let Some(last) = last
        {
            covered = Some(covered.map_or(last.clone(), |covered| covered.min(last)));
        }
    }
    let mut rows = Vec::new();
    for (position, value) in seen {
        if covered.as_ref().is_some_and(|covered| position > *covered) {
            break;
        }
        let row = decode_row(&value)?;
        if matches(query, position.workflow_id(), &row) {
            if rows.len() == limit {
                return Ok(ListPage { next: rows.last().map(|last| Position::of(last).token()), rows });
            }
            rows.push(Listed { workflow_id: Arc::clone(position.workflow_id()), run: position.run(), row });
        }
    }
    Ok(ListPage { rows, next: covered.map(|covered| covered.token()) })
}

/// The keys of a table between the query's instants and behind the page before.
fn bounds(table: u8, query: &ListQuery, after: Option<&Position>) -> (Vec<u8>, Vec<u8>) {
    let prefix = keys::rows_of(table, &query.domain);
    let at = |start: u64| {
        let mut key = prefix.clone();
        key.extend_from_slice(&(!start).to_be_bytes());
        key
    };
    let to = query.started_from.map_or_else(|| keys::after_prefix(&prefix), |from| keys::after_prefix(&at(from)));
    let from = query.started_before.map_or_else(|| prefix.clone(), |before| keys::after_prefix(&at(before)));
    let behind = after.map(|after| {
        keys::after(&keys::row_at(table, &query.domain, after.started_at(), after.workflow_id(), after.run()))
    });
    (behind.map_or(from.clone(), |behind| behind.max(from)), to)
}

async fn list_one(
    shared: &Arc<Shared>,
    query: &ListQuery,
    workflow_id: &str,
    after: Option<Position>,
) -> Result<ListPage, Error> {
    let key = HeadKey { domain: Arc::clone(&query.domain), workflow_id: Arc::from(workflow_id) };
    let mut heads: Vec<_> = shared.load(&key).await?.into_iter().collect();
    let kept = keys::kept_of(&key);
    let mut from = kept.clone();
    loop {
        let want = Want { pairs: 256, bytes: 4 << 20, is_reverse: false };
        let scanned = shared.scan(from, keys::after_prefix(&kept), want).await?;
        for (_, value) in &scanned.pairs {
            heads.push(decode_head(value)?);
        }
        match scanned.pairs.last() {
            Some((last, _)) if !scanned.is_end => from = keys::after(last),
            _ => break,
        }
    }
    let mut rows = BTreeMap::new();
    for head in heads {
        let Some(row) = head.row.filter(|row| matches(query, workflow_id, row)) else {
            continue;
        };
        let listed = Listed { workflow_id: Arc::clone(&key.workflow_id), run: head.run, row };
        let position = Position::of(&listed);
        if after.as_ref().is_none_or(|after| position > *after) {
            rows.insert(position, listed);
        }
    }
    let limit = query.limit.max(1);
    let next = if rows.len() > limit { rows.keys().nth(limit - 1).map(Position::token) } else { None };
    Ok(ListPage { rows: rows.into_values().take(limit).collect(), next })
}
