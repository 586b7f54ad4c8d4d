//! Index of rows by *terms*: their workflow type and their tags. A row has one index entry for each of its terms. The
//! key of an entry contains a number that is computed from the term, and the position of the row in the list ordered by
//! start. Entries of open and closed rows are in separate tables.
//!
//! The entries of a row change only when its run closes: they then move to the table of closed rows. If two terms have
//! the same number, rows that do not match are examined and skipped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::listing::{CountBuilder, PageBuilder, Position};
use store::{Error, ListQuery, Listed, Row};

use crate::keys;
use crate::range::{ROWS_READ_MAX, bounds};
use crate::read::{COPY, Scanned, Want};
use crate::record::decode_row;
use crate::shared::{Shared, State};
use crate::tree::Tree;

/// Number of rows per transaction when index entries are created for a store that has none.
const MADE_AT_ONCE: usize = 10_000;

/// Returns the number of a term: the 64-bit FNV-1a hash of its kind and its text. The function must never change,
/// because these numbers are stored.
///
/// Source: <http://www.isthe.com/chongo/tech/comp/fnv/>
fn number(kind: u8, text: &str) -> u64 {
    std::iter::once(kind)
        .chain(text.bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

const TYPE: u8 = b't';
const TAG: u8 = b'g';

/// Returns the numbers of the terms of a row.
fn terms(row: &Row) -> BTreeSet<u64> {
    let tags = row.tags.iter().map(|tag| number(TAG, tag));
    std::iter::once(number(TYPE, &row.workflow_type)).chain(tags).collect()
}

/// Returns the keys of all index entries of a row.
pub(crate) fn term_keys(domain: &str, position: &Position, row: &Row) -> Vec<Vec<u8>> {
    let table = if row.closed_at.is_none() { keys::OPEN_TERM } else { keys::CLOSED_TERM };
    terms(row).into_iter().map(|term| keys::term(table, domain, term, position)).collect()
}

/// Returns the number of the tag or workflow type by which the rows of a query can be found. Returns `None` if the
/// query names neither. A tag is preferred, because it usually has fewer rows than a type.
pub(crate) fn term_of(query: &ListQuery) -> Option<u64> {
    let tag = query.tag.as_deref().map(|tag| number(TAG, tag));
    tag.or_else(|| query.workflow_type.as_deref().map(|name| number(TYPE, name)))
}

/// Returns whether a query has conditions in addition to the term that [`term_of`] returns.
fn asks_for_more(query: &ListQuery) -> bool {
    let rest = match &query.tag {
        Some(_) => ListQuery { tag: None, ..query.clone() },
        None => ListQuery { workflow_type: None, ..query.clone() },
    };
    rest.is_filtered()
}

/// Returns the tables that may contain index entries for a query, each with the table that contains their rows.
fn entry_tables(query: &ListQuery) -> &'static [(u8, u8)] {
    const OPEN: (u8, u8) = (keys::OPEN_TERM, keys::OPEN_ROW);
    const CLOSED: (u8, u8) = (keys::CLOSED_TERM, keys::CLOSED_ROW);
    match (query.order.is_by_close(), query.open) {
        (true, Some(true)) => &[],
        (true, _) | (false, Some(false)) => &[CLOSED],
        (false, Some(true)) => &[OPEN],
        (false, None) => &[OPEN, CLOSED],
    }
}

/// Returns the key range of a term's index entries in a table. Entries are sorted by start, so for a list ordered by
/// close, the range contains all of them.
fn range(table: u8, term: u64, query: &ListQuery, after: Option<&Position>) -> (Vec<u8>, Vec<u8>) {
    let prefix = keys::terms_of(table, &query.domain, term);
    if query.order.is_by_close() {
        let to = keys::after_prefix(&prefix);
        return (prefix, to);
    }
    bounds(&prefix, query, after.map(|after| keys::term(table, &query.domain, term, after)))
}

/// Returns the rows to which some index entries belong. A row is omitted if its run has closed in the meantime.
async fn rows_of(shared: &Arc<Shared>, table: u8, domain: &str, entries: &Scanned) -> Result<Vec<Listed>, Error> {
    let places = entries.pairs.iter().map(|(key, _)| keys::read_term(key)).collect::<Result<Vec<_>, _>>()?;
    let mut listed = Vec::with_capacity(places.len());
    for places in places.chunks(COPY) {
        let values = shared.large_values(places.iter().map(|place| keys::row(table, domain, place)).collect()).await?;
        shared.rows_read.fetch_add(places.len() as u64, Ordering::Relaxed);
        for (place, value) in places.iter().zip(values) {
            if let Some(value) = value {
                let row = decode_row(&value)?;
                listed.push(Listed { workflow_id: Arc::clone(place.workflow_id()), run: place.run(), row });
            }
        }
    }
    Ok(listed)
}

/// Reads a page of a list by means of the index entries of a term. Returns `false` if this is not possible: the list is
/// ordered by close, and the term has too many rows.
pub(crate) async fn list(shared: &Arc<Shared>, term: u64, gathered: &mut PageBuilder<'_>) -> Result<bool, Error> {
    let query = gathered.query();
    let is_by_close = query.order.is_by_close();
    let pairs = if is_by_close || asks_for_more(query) { ROWS_READ_MAX } else { gathered.wanted().min(ROWS_READ_MAX) };
    let want = Want { pairs, bytes: usize::MAX, is_reverse: query.order.is_oldest_first() };
    for (table, rows) in entry_tables(query) {
        let (from, to) = range(*table, term, query, gathered.after());
        let entries = shared.scan(from, to, want).await?;
        if is_by_close && !entries.is_end {
            return Ok(false);
        }
        for listed in rows_of(shared, *rows, &query.domain, &entries).await? {
            gathered.add(listed);
        }
        if let Some((last, _)) = entries.pairs.last().filter(|_| !entries.is_end) {
            gathered.set_horizon(keys::read_term(last)?);
        }
    }
    Ok(true)
}

/// Counts the rows of a term that match, up to the limit of rows examined.
pub(crate) async fn count(shared: &Arc<Shared>, term: u64, counting: &mut CountBuilder<'_>) -> Result<(), Error> {
    let query = counting.query();
    for (table, rows) in entry_tables(query) {
        let (mut from, to) = range(*table, term, query, None);
        while !counting.count.is_cut {
            let want = Want { pairs: ROWS_READ_MAX.min(counting.wanted()), bytes: usize::MAX, is_reverse: false };
            let entries = shared.scan(from, to.clone(), want).await?;
            for listed in rows_of(shared, *rows, &query.domain, &entries).await? {
                counting.examine(&listed.workflow_id, &listed.row);
            }
            match entries.pairs.last() {
                Some((last, _)) if !entries.is_end => from = keys::after(last),
                _ => break,
            }
        }
    }
    Ok(())
}

/// Creates the index entries of all rows of a store without index entries, which an earlier version of Baton wrote.
/// Must be called before the store is shared with other threads. The entries are written directly to redb. If the
/// process ends before this is complete, the next start begins again.
pub(crate) fn make(tree: &Tree, state: &State) -> Result<(), Error> {
    let mut made = Vec::new();
    for rows in [keys::OPEN_ROW, keys::CLOSED_ROW] {
        let (from, to) = ([rows], [rows + 1]);
        for pair in tree.snapshot()?.range(&from, &to, false)? {
            let (key, value) = pair?;
            // If the key is in memory, its value in redb is outdated. The loop below creates the entries for the newest
            // value.
            if state.slot(&key).is_none() {
                made.extend(entries(&key, &value)?);
            }
            if made.len() >= MADE_AT_ONCE {
                write(tree, &mut made)?;
            }
        }
        for (key, slot) in state.unwritten(&from, &to) {
            if let Some(value) = &slot.value {
                made.extend(entries(key, value)?);
            }
        }
    }
    write(tree, &mut made)?;
    tree.record_has_terms()
}

/// Returns the keys of all index entries of a stored row.
fn entries(key: &[u8], value: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let ((workflow_id, run), row) = (keys::read_row(key)?, decode_row(value)?);
    let position = Position::new(row.started_at, row.started_at, workflow_id, run);
    Ok(term_keys(&keys::read_row_domain(key)?, &position, &row))
}

fn write(tree: &Tree, made: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    tree.write(made.iter().map(|key| (key.as_slice(), Some(&[][..]))), None)?;
    made.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workflow_type: &str, tags: &[&str]) -> Row {
        Row {
            workflow_type: Arc::from(workflow_type),
            status: Arc::from("open"),
            flagged: false,
            started_at: 7,
            closed_at: None,
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            why: None,
        }
    }

    #[test]
    fn the_number_of_a_term_never_changes() {
        assert_eq!(number(b'a', ""), 0xaf63_dc4c_8601_ec8c, "the published FNV-1a hash of `a`");
        assert_eq!(number(b'f', "oobar"), 0x8594_4171_f739_67e8, "the published FNV-1a hash of `foobar`");
        assert_ne!(number(TYPE, "order"), number(TAG, "order"));
    }

    #[test]
    fn an_entry_contains_the_position_of_its_row() {
        let position = Position::new(7, 7, Arc::from("a\0ü"), [3; 16]);
        for key in term_keys("d\0", &position, &row("order", &["eu", "eu", ""])) {
            assert_eq!(keys::read_term(&key).unwrap(), position);
        }
        assert_eq!(term_keys("d", &position, &row("order", &["eu", "eu", ""])).len(), 3, "duplicates count once");
    }
}
