//! Stored numbers of rows, by domain, status, open or closed, and flagged or not. They are updated in the same batches
//! as the rows. A count with only these conditions examines no rows. A count with further conditions examines the rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use store::listing::CountBuilder;
use store::{Count, Error, HeadKey, ListQuery, Row};

use crate::keys;
use crate::listing::find_few_by_prefix;
use crate::range::{ROWS_READ_MAX, rows_between, tables};
use crate::read::Want;
use crate::record::{decode_head, decode_row};
use crate::shared::{Counts, Shared, State};
use crate::terms;
use crate::tree::Tree;

impl State {
    /// Updates the stored numbers of rows after a row was added, removed or changed.
    pub(crate) fn count(&mut self, domain: &str, old: Option<&Row>, new: Option<&Row>) {
        let key = |row: &Row| keys::count(domain, row);
        let (old, new) = (old.map(key), new.map(key));
        if old != new {
            for (key, by) in old.map(|key| (key, -1)).into_iter().chain(new.map(|key| (key, 1))) {
                self.move_count(key, by);
            }
        }
    }

    fn move_count(&mut self, key: Vec<u8>, by: i64) {
        let number = self.counts.get(&key).copied().unwrap_or_default().saturating_add_signed(by);
        if number == 0 {
            self.delete(&key);
            self.counts.remove(&key);
        } else {
            self.put(&key, Bytes::copy_from_slice(&number.to_be_bytes()), false);
            self.counts.insert(key, number);
        }
    }
}

/// Loads the stored numbers when the store is opened. If there are none, the rows are counted: the store has no rows,
/// or was written by an earlier version of Baton, which did not store numbers.
pub(crate) fn load(tree: &Tree, state: &mut State) -> Result<(), Error> {
    for (key, value) in newest(tree, state, keys::COUNT)? {
        state.counts.insert(key, read_number(&value)?);
    }
    if !state.counts.is_empty() {
        return Ok(());
    }
    let mut counts = Counts::new();
    for table in [keys::OPEN_ROW, keys::CLOSED_ROW] {
        for (key, value) in newest(tree, state, table)? {
            let row = decode_row(&value)?;
            *counts.entry(keys::count(&keys::read_row_domain(&key)?, &row)).or_default() += 1;
        }
    }
    for (key, number) in &counts {
        state.put(key, Bytes::copy_from_slice(&number.to_be_bytes()), false);
    }
    state.counts = counts;
    Ok(())
}

/// Returns the newest pairs of a table. Called before the store is shared with other threads.
fn newest(tree: &Tree, state: &State, table: u8) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
    let (from, to) = ([table], [table + 1]);
    let mut pairs = BTreeMap::new();
    for pair in tree.snapshot()?.range(&from, &to, false)? {
        let (key, value) = pair?;
        pairs.insert(key.to_vec(), value);
    }
    for (key, slot) in state.unwritten(&from, &to) {
        match &slot.value {
            Some(value) => drop(pairs.insert(key.to_vec(), value.clone())),
            None => drop(pairs.remove(key)),
        }
    }
    Ok(pairs)
}

fn read_number(value: &[u8]) -> Result<u64, Error> {
    let bytes = value
        .try_into()
        .map_err(|_| Error::Corrupt { what: format!("a stored number of rows cannot be read: {value:02x?}") })?;
    Ok(u64::from_be_bytes(bytes))
}

/// Computes a count from the stored numbers of rows. Returns `None` if the query has conditions for which no numbers
/// are stored.
async fn by_numbers(shared: &Arc<Shared>, query: &ListQuery) -> Result<Option<Count>, Error> {
    let ListQuery {
        domain,
        order,
        open,
        flagged,
        status,
        workflow_type: None,
        workflow_name: None,
        workflow_id: None,
        workflow_id_prefix: None,
        tag: None,
        reason: None,
        started_from: None,
        started_before: None,
        closed_from: None,
        closed_before: None,
        limit: _,
    } = query
    else {
        return Ok(None);
    };
    let from = keys::rows_of(keys::COUNT, domain);
    let want = Want { pairs: usize::MAX, bytes: usize::MAX, is_reverse: false };
    let mut count = Count::default();
    for (key, value) in shared.scan(from.clone(), keys::after_prefix(&from), want).await?.pairs {
        let counted = keys::read_count(&key)?;
        let is_wanted = (!order.is_by_close() || !counted.is_open)
            && open.is_none_or(|open| open == counted.is_open)
            && flagged.is_none_or(|flagged| flagged == counted.is_flagged)
            && status.as_deref().is_none_or(|status| *status == *counted.status);
        if is_wanted {
            *count.by_status.entry(counted.status).or_default() += read_number(&value)?;
        }
    }
    Ok(Some(count))
}

/// Computes a count from the stored numbers of rows if they suffice for the query, otherwise by examining the rows.
pub(crate) async fn count(shared: &Arc<Shared>, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
    match by_numbers(shared, query).await? {
        Some(count) => Ok(count),
        None => by_rows(shared, query, at_most).await,
    }
}

/// Counts the rows of the tables, one table after another. A run that closes in the meantime may be counted twice or
/// not at all.
async fn by_rows(shared: &Arc<Shared>, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
    let mut counting = CountBuilder::new(query, at_most);
    if let Some(id) = &query.workflow_id {
        let key = HeadKey { domain: Arc::clone(&query.domain), workflow_id: Arc::from(id.as_str()) };
        if let Some(newest) = shared.load(&key).await?.and_then(|head| head.row) {
            counting.examine(id, &newest);
        }
        let kept = keys::kept_of(&key);
        let row = |_: &[u8], value: &Bytes| Ok((Arc::clone(&key.workflow_id), decode_head(value)?.row));
        count_rows(shared, &mut counting, (kept.clone(), keys::after_prefix(&kept)), row).await?;
        return Ok(counting.count);
    }
    if let Some(few) = find_few_by_prefix(shared, query).await? {
        for listed in &few {
            counting.examine(&listed.workflow_id, &listed.row);
        }
        return Ok(counting.count);
    }
    if let Some(term) = terms::term_of(query) {
        terms::count(shared, term, &mut counting).await?;
        return Ok(counting.count);
    }
    for table in tables(query) {
        let row = |key: &[u8], value: &Bytes| Ok((keys::read_row(key)?.0, Some(decode_row(value)?)));
        count_rows(shared, &mut counting, rows_between(*table, query, None), row).await?;
    }
    Ok(counting.count)
}

/// Counts the rows between two keys, up to the limit.
async fn count_rows(
    shared: &Arc<Shared>,
    counting: &mut CountBuilder<'_>,
    (mut from, to): (Vec<u8>, Vec<u8>),
    read: impl Fn(&[u8], &Bytes) -> Result<(Arc<str>, Option<Row>), Error>,
) -> Result<(), Error> {
    while !counting.count.is_cut {
        let want = Want { pairs: ROWS_READ_MAX.min(counting.wanted()), bytes: 4 << 20, is_reverse: false };
        let scanned = shared.scan(from, to.clone(), want).await?;
        shared.rows_read.fetch_add(scanned.pairs.len() as u64, Ordering::Relaxed);
        for (key, value) in &scanned.pairs {
            let (workflow_id, row) = read(key, value)?;
            if let Some(row) = row {
                counting.examine(&workflow_id, &row);
            }
        }
        match scanned.pairs.last() {
            Some((last, _)) if !scanned.is_end => from = keys::after(last),
            _ => break,
        }
    }
    Ok(())
}
