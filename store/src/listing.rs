//! Lists of runs: queries and results, and the matching, sorting and paging that all engines share. This module stores
//! nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::head::{Row, RunId, UnixMs};

/// Order of a list. Runs that start or close at the same instant have an arbitrary but stable order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By start, newest first.
    #[default]
    NewestStart,
    /// By start, oldest first.
    OldestStart,
    /// By close, newest first. Only closed runs are listed.
    NewestClose,
    /// By close, oldest first. Only closed runs are listed.
    OldestClose,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::NewestStart, Self::OldestStart, Self::NewestClose, Self::OldestClose];

    /// Returns whether the order is by close rather than by start.
    pub fn is_by_close(self) -> bool {
        matches!(self, Self::NewestClose | Self::OldestClose)
    }

    /// Returns whether the oldest run comes first.
    pub fn is_oldest_first(self) -> bool {
        matches!(self, Self::OldestStart | Self::OldestClose)
    }
}

/// Query of a list. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Domain of the listed runs.
    pub domain: Arc<str>,
    /// Order of the result.
    pub order: Order,
    /// `Some(true)`: only open runs; `Some(false)`: only closed runs.
    pub open: Option<bool>,
    /// `Some(true)`: only flagged rows; `Some(false)`: only rows that are not flagged.
    pub flagged: Option<bool>,
    /// Exact status.
    pub status: Option<String>,
    /// Exact workflow type.
    pub workflow_type: Option<String>,
    /// Name of the workflow type: the part before the first slash, or the whole type if it has none.
    pub workflow_name: Option<String>,
    /// Exact workflow id.
    pub workflow_id: Option<String>,
    /// Prefix of the workflow id, compared byte by byte.
    pub workflow_id_prefix: Option<String>,
    /// Tag that the run must have.
    pub tag: Option<String>,
    /// Exact reason.
    pub reason: Option<String>,
    /// Earliest start, inclusive.
    pub started_from: Option<UnixMs>,
    /// Latest start, exclusive.
    pub started_before: Option<UnixMs>,
    /// Earliest close, inclusive.
    pub closed_from: Option<UnixMs>,
    /// Latest close, exclusive.
    pub closed_before: Option<UnixMs>,
    /// Maximum number of rows on a page; 0 counts as 1.
    pub limit: usize,
}

impl ListQuery {
    /// Returns whether the query has conditions that do not select the rows to examine. Rows in the time range of the
    /// order can then fail these conditions, so that more rows must be examined than the page contains.
    pub fn is_filtered(&self) -> bool {
        let by_other = if self.order.is_by_close() {
            self.started_from.is_some() || self.started_before.is_some()
        } else {
            self.closed_from.is_some() || self.closed_before.is_some()
        };
        by_other
            || self.flagged.is_some()
            || self.status.is_some()
            || self.workflow_type.is_some()
            || self.workflow_name.is_some()
            || self.workflow_id_prefix.is_some()
            || self.tag.is_some()
            || self.reason.is_some()
    }

    /// Returns the time range of the instant that determines the order (start or close): from (inclusive) and before
    /// (exclusive).
    pub fn instants(&self) -> (Option<UnixMs>, Option<UnixMs>) {
        if self.order.is_by_close() {
            (self.closed_from, self.closed_before)
        } else {
            (self.started_from, self.started_before)
        }
    }
}

/// Position where the next page begins. Opaque, and valid only for the query for which it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken(pub Vec<u8>);

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Workflow id.
    pub workflow_id: Arc<str>,
    /// Run id.
    pub run: RunId,
    /// Row of the run.
    pub row: Row,
}

/// A page of a list. A page can be short or even empty although further pages follow. The list ends only when `next` is
/// `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// Rows in the requested order.
    pub rows: Vec<Listed>,
    /// Position where the next page begins; `None` on the last page.
    pub next: Option<PageToken>,
    /// Number of rows examined, including rows that did not match.
    pub looked_at: u64,
}

/// Result of a count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Count {
    /// Number of runs by status, without zeros.
    pub by_status: BTreeMap<Arc<str>, u64>,
    /// True if some rows were not examined, so that there may be more runs.
    pub is_cut: bool,
    /// Read units billed for the count, if the database bills any, rounded up.
    pub read_units: u64,
}

impl Count {
    /// Returns the number of runs in all statuses.
    pub fn total(&self) -> u64 {
        self.by_status.values().sum()
    }

    /// Adds one run with this status.
    pub fn add(&mut self, status: &Arc<str>) {
        match self.by_status.get_mut(status) {
            Some(count) => *count += 1,
            None => drop(self.by_status.insert(Arc::clone(status), 1)),
        }
    }
}

/// A count in progress: tests each row against a query.
#[derive(Debug)]
pub struct CountBuilder<'a> {
    query: &'a ListQuery,
    left: u64,
    /// Result so far.
    pub count: Count,
}

impl<'a> CountBuilder<'a> {
    /// Creates a count that examines at most `at_most` rows.
    pub fn new(query: &'a ListQuery, at_most: u64) -> Self {
        Self { query, left: at_most, count: Count::default() }
    }

    /// Returns the query.
    pub fn query(&self) -> &'a ListQuery {
        self.query
    }

    /// Returns the number of rows to read. This is one more than may be examined, which shows whether further rows
    /// exist.
    pub fn wanted(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// Examines a row and counts it if it matches. If the limit is reached, only sets `is_cut`.
    pub fn examine(&mut self, workflow_id: &str, row: &Row) {
        match self.left.checked_sub(1) {
            None => self.count.is_cut = true,
            Some(left) => {
                self.left = left;
                if matches(self.query, workflow_id, row) {
                    self.count.add(&row.status);
                }
            }
        }
    }
}

/// Returns whether a row meets all conditions of the query. The row must belong to the query's domain.
pub fn matches(query: &ListQuery, workflow_id: &str, row: &Row) -> bool {
    (!query.order.is_by_close() || row.closed_at.is_some())
        && query.open.is_none_or(|open| open == row.closed_at.is_none())
        && query.flagged.is_none_or(|flagged| flagged == row.flagged)
        && query.status.as_deref().is_none_or(|status| *status == *row.status)
        && query.workflow_type.as_deref().is_none_or(|name| *name == *row.workflow_type)
        && query.workflow_name.as_deref().is_none_or(|name| row.workflow_type.split('/').next() == Some(name))
        && query.workflow_id.as_deref().is_none_or(|id| id == workflow_id)
        && query.workflow_id_prefix.as_deref().is_none_or(|prefix| workflow_id.starts_with(prefix))
        && query.tag.as_deref().is_none_or(|tag| row.tags.iter().any(|found| found == tag))
        && query.reason.as_deref().is_none_or(|reason| row.reason() == Some(reason))
        && query.started_from.is_none_or(|from| row.started_at >= from)
        && query.started_before.is_none_or(|before| row.started_at < before)
        && query.closed_from.is_none_or(|from| row.closed_at.is_some_and(|at| at >= from))
        && query.closed_before.is_none_or(|before| row.closed_at.is_some_and(|at| at < before))
}

/// Position of a run in a list. In lists ordered by close, positions are compared by close, start, workflow id and run.
/// In lists ordered by start, they are compared by start, workflow id and run. Later instants come first. Lists with
/// the oldest run first use the same positions in reverse.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    at: Reverse<UnixMs>,
    started_at: Reverse<UnixMs>,
    workflow_id: Arc<str>,
    run: RunId,
}

impl Position {
    /// Creates the position of a run. `at` is the instant by which the list is ordered: the close or the start of the
    /// run.
    pub fn new(at: UnixMs, started_at: UnixMs, workflow_id: Arc<str>, run: RunId) -> Self {
        Self { at: Reverse(at), started_at: Reverse(started_at), workflow_id, run }
    }

    /// Returns the position of a row in lists with this order, or `None` if such lists do not contain the row.
    pub fn of(order: Order, workflow_id: &Arc<str>, run: RunId, row: &Row) -> Option<Self> {
        let at = if order.is_by_close() { row.closed_at? } else { row.started_at };
        Some(Self::new(at, row.started_at, Arc::clone(workflow_id), run))
    }

    /// Returns a position before all runs of an instant and after all runs of any later instant.
    pub fn before_instant(at: UnixMs) -> Self {
        Self::new(at, UnixMs::MAX, Arc::from(""), RunId::default())
    }

    /// Returns the start or close by which the list is ordered.
    pub fn at(&self) -> UnixMs {
        self.at.0
    }

    /// Returns the instant at which the run started.
    pub fn started_at(&self) -> UnixMs {
        self.started_at.0
    }

    /// Returns the workflow id.
    pub fn workflow_id(&self) -> &Arc<str> {
        &self.workflow_id
    }

    /// Returns the run id.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns whether this position comes after `other` in lists with this order.
    pub fn is_behind(&self, other: &Self, order: Order) -> bool {
        if order.is_oldest_first() { self < other } else { self > other }
    }

    /// Returns the token of the page that begins after this position, in a list with this order.
    pub fn token(&self, order: Order) -> PageToken {
        let mut bytes = Vec::with_capacity(33 + self.workflow_id.len());
        bytes.push(order.number());
        bytes.extend_from_slice(&self.at.0.to_be_bytes());
        bytes.extend_from_slice(&self.started_at.0.to_be_bytes());
        bytes.extend_from_slice(&self.run);
        bytes.extend_from_slice(self.workflow_id.as_bytes());
        PageToken(bytes)
    }

    /// Returns the position in a token.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPage`] if the token was not created by [`token`](Self::token) for a list with this order.
    pub fn from_token(token: &PageToken, order: Order) -> Result<Self, Error> {
        let rest = token.0.strip_prefix(&[order.number()]).ok_or(Error::InvalidPage)?;
        let (at, rest) = rest.split_first_chunk::<8>().ok_or(Error::InvalidPage)?;
        let (started_at, rest) = rest.split_first_chunk::<8>().ok_or(Error::InvalidPage)?;
        let (run, id) = rest.split_first_chunk::<16>().ok_or(Error::InvalidPage)?;
        let id = std::str::from_utf8(id).map_err(|_| Error::InvalidPage)?;
        Ok(Self::new(u64::from_be_bytes(*at), u64::from_be_bytes(*started_at), Arc::from(id), *run))
    }
}

impl Order {
    fn number(self) -> u8 {
        match self {
            Self::NewestStart => 0,
            Self::OldestStart => 1,
            Self::NewestClose => 2,
            Self::OldestClose => 3,
        }
    }
}

/// A page under construction. It collects rows from several sources, such as indexes of a store, and records the
/// position up to which all sources have been read.
#[derive(Debug)]
pub struct PageBuilder<'a> {
    query: &'a ListQuery,
    after: Option<Position>,
    rows: BTreeMap<Position, Listed>,
    looked_at: u64,
    /// Position up to which all sources have been read; `None` if they have been read completely.
    horizon: Option<Position>,
}

impl<'a> PageBuilder<'a> {
    /// Creates an empty page. `page` is its token, which the previous page returned; `None` for the first page.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPage`] if the token is invalid or belongs to another order.
    pub fn new(query: &'a ListQuery, page: Option<&PageToken>) -> Result<Self, Error> {
        let after = page.map(|page| Position::from_token(page, query.order)).transpose()?;
        Ok(Self { query, after, rows: BTreeMap::new(), looked_at: 0, horizon: None })
    }

    /// Returns the query.
    pub fn query(&self) -> &'a ListQuery {
        self.query
    }

    /// Returns the last position of the previous page.
    pub fn after(&self) -> Option<&Position> {
        self.after.as_ref()
    }

    /// Returns the number of rows to read from a source in which all rows match: the rows of the page, and one more to
    /// find out whether there is a next page.
    pub fn wanted(&self) -> usize {
        self.query.limit.max(1).saturating_add(1)
    }

    /// Adds a row if it matches. If a row of the same run was added before, it is replaced, or removed if the new row
    /// does not match.
    pub fn add(&mut self, listed: Listed) {
        self.looked_at += 1;
        if let Some(position) = Position::of(self.query.order, &listed.workflow_id, listed.run, &listed.row) {
            if matches(self.query, &listed.workflow_id, &listed.row) {
                self.rows.insert(position, listed);
            } else {
                self.rows.remove(&position);
            }
        }
    }

    /// Records that a source was read only up to this position.
    pub fn set_horizon(&mut self, position: Position) {
        if self.horizon.as_ref().is_none_or(|horizon| horizon.is_behind(&position, self.query.order)) {
            self.horizon = Some(position);
        }
    }

    /// Returns whether the rows up to `horizon` fill the page, with at least one more row for the next page.
    pub fn is_full_before(&self, horizon: &Position) -> bool {
        self.fitting(Some(horizon)).nth(self.query.limit.max(1)).is_some()
    }

    /// Returns the rows of this and later pages in order, up to `horizon`.
    fn fitting<'b>(&'b self, horizon: Option<&'b Position>) -> impl Iterator<Item = (&'b Position, &'b Listed)> + 'b {
        let order = self.query.order;
        let (forward, backward) =
            if order.is_oldest_first() { (None, Some(self.rows.iter().rev())) } else { (Some(self.rows.iter()), None) };
        let rows = forward.into_iter().flatten().chain(backward.into_iter().flatten());
        rows.filter(move |(position, _)| {
            self.after.as_ref().is_none_or(|after| position.is_behind(after, order))
                && horizon.is_none_or(|horizon| !position.is_behind(horizon, order))
        })
    }

    /// Returns the finished page.
    pub fn page(self) -> ListPage {
        let (order, limit) = (self.query.order, self.query.limit.max(1));
        let mut fitting = self.fitting(self.horizon.as_ref());
        let (places, rows): (Vec<_>, Vec<_>) =
            fitting.by_ref().take(limit).map(|(position, listed)| (position, listed.clone())).unzip();
        let next = match (fitting.next(), places.last()) {
            (Some(_), Some(last)) => Some(last.token(order)),
            _ => self.horizon.as_ref().map(|horizon| horizon.token(order)),
        };
        ListPage { rows, next, looked_at: self.looked_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_position_in_its_order() {
        let position = Position::new(9, 7, Arc::from("order-1"), [9; 16]);
        for order in Order::ALL {
            let token = position.token(order);
            assert_eq!(Position::from_token(&token, order).unwrap(), position);
            for other in Order::ALL.into_iter().filter(|other| *other != order) {
                assert!(matches!(Position::from_token(&token, other), Err(Error::InvalidPage)), "{order:?} {other:?}");
            }
        }
        assert!(matches!(Position::from_token(&PageToken(vec![0, 2]), Order::NewestStart), Err(Error::InvalidPage)));
    }

    #[test]
    fn the_position_before_an_instant_has_no_run_next_to_it() {
        let earliest = Position::new(5, u64::MAX - 1, Arc::from(""), [0; 16]);
        let latest_of_next = Position::new(6, 0, Arc::from("\u{10FFFF}"), [255; 16]);
        let between = Position::before_instant(5);
        assert!(latest_of_next < between && between < earliest);
    }
}
