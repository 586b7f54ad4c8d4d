//! Which keys a query may want, and how many of them are looked at. Owns no reading.

use store::ListQuery;
use store::listing::Position;

use crate::keys;

/// How many rows one page looks at, whatever their number that match. A page that has not found its rows by then is
/// short, and the next one goes on.
pub(crate) const LOOKED_AT: usize = 4096;

/// Where the rows are that a query may want.
pub(crate) fn tables(query: &ListQuery) -> &'static [u8] {
    match (query.order.is_by_close(), query.open) {
        (true, Some(true)) => &[],
        (true, _) => &[keys::ENDED_ROW],
        (false, Some(true)) => &[keys::OPEN_ROW],
        (false, Some(false)) => &[keys::CLOSED_ROW],
        (false, None) => &[keys::OPEN_ROW, keys::CLOSED_ROW],
    }
}

/// The rows of a table between the query's instants and behind the page before.
pub(crate) fn rows_between(table: u8, query: &ListQuery, after: Option<&Position>) -> (Vec<u8>, Vec<u8>) {
    let after = after.map(|after| keys::row(table, &query.domain, after));
    bounds(&keys::rows_of(table, &query.domain), query, after)
}

/// The keys that begin so between the query's instants, which follow, and behind the last one of the page before.
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
