//! Lists of runs. Three tables of rows are sorted like lists: open runs by start, closed runs by start, and closed runs
//! by close. Lists of one workflow id, of a rare prefix of workflow ids, and of a workflow type or tag (`terms.rs`) do
//! not examine all rows of a table.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::listing::{PageBuilder, Position};
use store::{Error, HeadKey, ListPage, ListQuery, Listed, PageToken};

use crate::keys;
use crate::range::{ROWS_READ_MAX, rows_between, tables};
use crate::read::Want;
use crate::record::{decode_head, decode_row};
use crate::shared::Shared;
use crate::terms;

/// Maximum number of current heads, and of heads of earlier runs, that are examined for a prefix of workflow ids. If
/// more match, the prefix is not rare, and the rows are examined in the order of the list instead.
const HEADS_READ_MAX: usize = 1_000;

pub(crate) async fn list(shared: &Arc<Shared>, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
    let mut gathered = PageBuilder::new(query, page)?;
    if let Some(workflow_id) = &query.workflow_id {
        list_one(shared, workflow_id, &mut gathered).await?;
    } else if let Some(few) = find_few_by_prefix(shared, query).await? {
        for listed in few {
            gathered.add(listed);
        }
    } else {
        let is_found = match terms::term_of(query) {
            Some(term) => terms::list(shared, term, &mut gathered).await?,
            None => false,
        };
        if !is_found {
            list_rows(shared, &mut gathered).await?;
        }
    }
    Ok(gathered.page())
}

/// Returns all runs whose workflow id starts with the prefix in the query. Other conditions are ignored. Returns `None`
/// if the query has no prefix or too many runs match.
///
/// Current heads are read before the kept heads of earlier runs. If a head is replaced in the meantime, it is then
/// found among the kept heads.
pub(crate) async fn find_few_by_prefix(shared: &Arc<Shared>, query: &ListQuery) -> Result<Option<Vec<Listed>>, Error> {
    let Some(prefix) = &query.workflow_id_prefix else { return Ok(None) };
    let mut few = Vec::new();
    for table in [keys::HEAD, keys::KEPT] {
        let from = keys::workflow_id_prefix_key(table, &query.domain, prefix);
        let want = Want { pairs: HEADS_READ_MAX, bytes: 4 << 20, is_reverse: false };
        let scanned = shared.scan(from.clone(), keys::after_prefix(&from), want).await?;
        shared.rows_read.fetch_add(scanned.pairs.len() as u64, Ordering::Relaxed);
        if !scanned.is_end {
            return Ok(None);
        }
        for (key, value) in &scanned.pairs {
            let head = decode_head(value)?;
            if let Some(row) = head.row {
                few.push(Listed { workflow_id: keys::read_workflow_id(key)?, run: head.run, row });
            }
        }
    }
    Ok(Some(few))
}

async fn list_rows(shared: &Arc<Shared>, gathered: &mut PageBuilder<'_>) -> Result<(), Error> {
    let query = gathered.query();
    let pairs = if query.is_filtered() { ROWS_READ_MAX } else { gathered.wanted().min(ROWS_READ_MAX) };
    let want = Want { pairs, bytes: 4 << 20, is_reverse: query.order.is_oldest_first() };
    for table in tables(query) {
        let (from, to) = rows_between(*table, query, gathered.after());
        let scanned = shared.scan(from, to, want).await?;
        shared.rows_read.fetch_add(scanned.pairs.len() as u64, Ordering::Relaxed);
        let mut last = None;
        for (key, value) in scanned.pairs {
            let ((workflow_id, run), row) = (keys::read_row(&key)?, decode_row(&value)?);
            last = Position::of(query.order, &workflow_id, run, &row);
            gathered.add(Listed { workflow_id, run, row });
        }
        if let Some(last) = last.filter(|_| !scanned.is_end) {
            gathered.set_horizon(last);
        }
    }
    Ok(())
}

async fn list_one(shared: &Arc<Shared>, workflow_id: &str, gathered: &mut PageBuilder<'_>) -> Result<(), Error> {
    let key = HeadKey { domain: Arc::clone(&gathered.query().domain), workflow_id: Arc::from(workflow_id) };
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
    for head in heads {
        if let Some(row) = head.row {
            gathered.add(Listed { workflow_id: Arc::clone(&key.workflow_id), run: head.run, row });
        }
    }
    Ok(())
}
