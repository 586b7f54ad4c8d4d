//! How many rows there are, by domain, status and whether they are open and flagged: kept with the rows, in the batches that change
//! them, so that counting looks at no row.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use store::{Count, Error, ListQuery, Row};

use crate::keys;
use crate::read::Want;
use crate::record::decode_row;
use crate::shared::{Counts, Shared, State};
use crate::tree::Tree;

impl State {
    /// Counts a row that comes, goes or changes.
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

/// Takes the numbers up at the start. Where there are none, the rows are counted: the store was written before there were
/// numbers, or has no row.
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

/// The pairs of a table, before anybody else has the store.
fn newest(tree: &Tree, state: &State, table: u8) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
    let (from, to) = ([table], [table + 1]);
    let mut pairs = BTreeMap::new();
    for pair in tree.snapshot()?.range(&from, &to, false)? {
        let (key, value) = pair?;
        pairs.insert(key.to_vec(), value);
    }
    for (key, slot) in state.active.range(&from, &to) {
        match &slot.value {
            Some(value) => drop(pairs.insert(key.to_vec(), value.clone())),
            None => drop(pairs.remove(key)),
        }
    }
    Ok(pairs)
}

fn read_number(value: &[u8]) -> Result<u64, Error> {
    let bytes = value.try_into().map_err(|_| Error::Corrupt { what: format!("a number of rows: {value:02x?}") })?;
    Ok(u64::from_be_bytes(bytes))
}

/// What a query asks for, from the numbers; `None` where it asks for what they do not tell.
pub(crate) async fn count(shared: &Arc<Shared>, query: &ListQuery) -> Result<Option<Count>, Error> {
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
