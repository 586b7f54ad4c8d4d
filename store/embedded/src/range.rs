//! Key ranges for queries, and the maximum number of rows that a page examines.

use store::ListQuery;
use store::listing::Position;

use crate::keys;

/// Maximum number of rows that one page examines, however many of them match. A page that reaches this number ends,
/// even if it is not full. The next page continues after the last examined row.
pub(crate) const ROWS_READ_MAX: usize = 4096;

/// Returns the tables that may contain rows for a query.
pub(crate) fn tables(query: &ListQuery) -> &'static [u8] {
    match (query.order.is_by_close(), query.open) {
        (true, Some(true)) => &[],
        (true, _) => &[keys::ENDED_ROW],
        (false, Some(true)) => &[keys::OPEN_ROW],
        (false, Some(false)) => &[keys::CLOSED_ROW],
        (false, None) => &[keys::OPEN_ROW, keys::CLOSED_ROW],
    }
}

/// Returns the key range of the rows in a table that are within the query's time range and after the previous page.
pub(crate) fn rows_between(table: u8, query: &ListQuery, after: Option<&Position>) -> (Vec<u8>, Vec<u8>) {
    let after = after.map(|after| keys::row(table, &query.domain, after));
    bounds(&keys::rows_of(table, &query.domain), query, after)
}

/// Returns the range of keys that consist of `prefix`, an instant and further fields. The range is limited to the
/// query's time range and to keys after `after`, the last key of the previous page.
pub(crate) fn bounds(prefix: &[u8], query: &ListQuery, after: Option<Vec<u8>>) -> (Vec<u8>, Vec<u8>) {
    let at = |instant: u64| {
        let mut key = prefix.to_vec();
        key.extend_from_slice(&(!instant).to_be_bytes());
        key
    };
    let (oldest, before) = query.instants();
    let to = oldest.map_or_else(|| keys::after_prefix(prefix), |oldest| keys::after_prefix(&at(oldest)));
    let from = before.map_or_else(|| prefix.to_vec(), |before| keys::after_prefix(&at(before)));
    match after {
        None => (from, to),
        Some(after) if query.order.is_oldest_first() => (from, to.min(after)),
        Some(after) => (from.max(keys::after(&after)), to),
    }
}
