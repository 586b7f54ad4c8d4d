//! Lists: what is asked of them and what they answer; how they match, sort and page, said once for every engine. Owns no storage.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::head::{Row, RunId, UnixMs};

/// In which order runs are listed. Runs of one instant stand in some order, always the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By start, the newest first.
    #[default]
    NewestStart,
    /// By start, the oldest first.
    OldestStart,
    /// By close, the newest first. Only closed runs are listed.
    NewestClose,
    /// By close, the oldest first. Only closed runs are listed.
    OldestClose,
}

impl Order {
    /// Every order.
    pub const ALL: [Self; 4] = [Self::NewestStart, Self::OldestStart, Self::NewestClose, Self::OldestClose];

    /// Whether it goes by close rather than by start.
    pub fn is_by_close(self) -> bool {
        matches!(self, Self::NewestClose | Self::OldestClose)
    }

    /// Whether the oldest comes first.
    pub fn is_oldest_first(self) -> bool {
        matches!(self, Self::OldestStart | Self::OldestClose)
    }
}

/// Which runs to list: all conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Of this domain.
    pub domain: Arc<str>,
    /// In this order.
    pub order: Order,
    /// `Some(true)`: only open runs; `Some(false)`: only closed ones.
    pub open: Option<bool>,
    /// `Some(true)`: only rows that are flagged; `Some(false)`: only others.
    pub flagged: Option<bool>,
    /// With exactly this status word.
    pub status: Option<String>,
    /// Of exactly this workflow type.
    pub workflow_type: Option<String>,
    /// Of a workflow type with this name before its first slash, or without one.
    pub workflow_name: Option<String>,
    /// Of exactly this workflow id.
    pub workflow_id: Option<String>,
    /// Of a workflow id that begins with this, byte for byte.
    pub workflow_id_prefix: Option<String>,
    /// Carrying this tag.
    pub tag: Option<String>,
    /// With exactly this reason.
    pub reason: Option<String>,
    /// Started at or after.
    pub started_from: Option<UnixMs>,
    /// Started before.
    pub started_before: Option<UnixMs>,
    /// Closed at or after.
    pub closed_from: Option<UnixMs>,
    /// Closed before.
    pub closed_before: Option<UnixMs>,
    /// At most this many rows a page; 0 is taken as 1.
    pub limit: usize,
}

impl ListQuery {
    /// Whether rows between the two instants of what the list goes by may fail to match for what else is asked of them, so that
    /// more of them are to be looked at than are wanted.
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

    /// From which instant to before which the list goes by what it is in order of.
    pub fn instants(&self) -> (Option<UnixMs>, Option<UnixMs>) {
        if self.order.is_by_close() {
            (self.closed_from, self.closed_before)
        } else {
            (self.started_from, self.started_before)
        }
    }
}

/// Where the next page begins. Opaque; valid only with the query that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken(pub Vec<u8>);

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The workflow id.
    pub workflow_id: Arc<str>,
    /// The run.
    pub run: RunId,
    /// Its row.
    pub row: Row,
}

/// A page of a list. A page may be short, or empty, and still not be the last: only `next == None` ends the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// The rows, in the order asked for.
    pub rows: Vec<Listed>,
    /// Where to go on.
    pub next: Option<PageToken>,
    /// How many rows were looked at for it, those that do not match, too.
    pub looked_at: u64,
}

/// How many rows there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Count {
    /// By status word, those that there are any of.
    pub by_status: BTreeMap<Arc<str>, u64>,
    /// Whether there may be more of them: there were rows at which it was not looked.
    pub is_cut: bool,
    /// Read units that counting was billed for, where a database bills; rounded up.
    pub read_units: u64,
}

impl Count {
    /// How many there are together.
    pub fn total(&self) -> u64 {
        self.by_status.values().sum()
    }

    /// Counts one more.
    pub fn add(&mut self, status: &Arc<str>) {
        match self.by_status.get_mut(status) {
            Some(count) => *count += 1,
            None => drop(self.by_status.insert(Arc::clone(status), 1)),
        }
    }
}

/// A count under way, of what a query wants among the rows that are looked at.
#[derive(Debug)]
pub struct Looking<'a> {
    query: &'a ListQuery,
    left: u64,
    /// What was found.
    pub count: Count,
}

impl<'a> Looking<'a> {
    /// Looks at no more rows than `at_most`.
    pub fn new(query: &'a ListQuery, at_most: u64) -> Self {
        Self { query, left: at_most, count: Count::default() }
    }

    /// What is counted.
    pub fn query(&self) -> &'a ListQuery {
        self.query
    }

    /// How many rows there are to read, one more than may be looked at: the one that says that there is more.
    pub fn wanted(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// Looks at a row, if one more may be looked at.
    pub fn at(&mut self, workflow_id: &str, row: &Row) {
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

/// Whether a row of the query's domain meets every condition of the query.
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

/// A place in a list. Sorts by the instant that the list goes by, newest first, then by start, newest first, then by workflow
/// id, then by run. A list that begins with the oldest has the same places, the other way round.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    at: Reverse<UnixMs>,
    started_at: Reverse<UnixMs>,
    workflow_id: Arc<str>,
    run: RunId,
}

impl Position {
    /// Where a run stands: in a list by start, `at` is its start, too.
    pub fn new(at: UnixMs, started_at: UnixMs, workflow_id: Arc<str>, run: RunId) -> Self {
        Self { at: Reverse(at), started_at: Reverse(started_at), workflow_id, run }
    }

    /// Where a row stands in lists in this order; `None` where it is in none of them.
    pub fn of(order: Order, workflow_id: &Arc<str>, run: RunId, row: &Row) -> Option<Self> {
        let at = if order.is_by_close() { row.closed_at? } else { row.started_at };
        Some(Self::new(at, row.started_at, Arc::clone(workflow_id), run))
    }

    /// The place before every run of an instant, and behind every run of the next one.
    pub fn before_all_of(at: UnixMs) -> Self {
        Self::new(at, UnixMs::MAX, Arc::from(""), RunId::default())
    }

    /// The instant that the list goes by.
    pub fn at(&self) -> UnixMs {
        self.at.0
    }

    /// When the run at this place started.
    pub fn started_at(&self) -> UnixMs {
        self.started_at.0
    }

    /// The workflow id at this place.
    pub fn workflow_id(&self) -> &Arc<str> {
        &self.workflow_id
    }

    /// The run at this place.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Whether a list in this order comes to this place after the other one.
    pub fn is_behind(&self, other: &Self, order: Order) -> bool {
        if order.is_oldest_first() { self < other } else { self > other }
    }

    /// The token of the page that begins after this place, in a list in this order.
    pub fn token(&self, order: Order) -> PageToken {
        let mut bytes = Vec::with_capacity(33 + self.workflow_id.len());
        bytes.push(order.number());
        bytes.extend_from_slice(&self.at.0.to_be_bytes());
        bytes.extend_from_slice(&self.started_at.0.to_be_bytes());
        bytes.extend_from_slice(&self.run);
        bytes.extend_from_slice(self.workflow_id.as_bytes());
        PageToken(bytes)
    }

    /// The place that a token was made from.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPage`] when the token was not made by [`token`](Self::token), for a list in this order.
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

/// A page in the making: rows of several places of a store, and how far all of those were read.
#[derive(Debug)]
pub struct PageBuilder<'a> {
    query: &'a ListQuery,
    after: Option<Position>,
    rows: BTreeMap<Position, Listed>,
    looked_at: u64,
    /// Rows behind this place are not all known; `None`: all are.
    horizon: Option<Position>,
}

impl<'a> PageBuilder<'a> {
    /// Nothing yet of the page that begins at `page`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPage`].
    pub fn new(query: &'a ListQuery, page: Option<&PageToken>) -> Result<Self, Error> {
        let after = page.map(|page| Position::from_token(page, query.order)).transpose()?;
        Ok(Self { query, after, rows: BTreeMap::new(), looked_at: 0, horizon: None })
    }

    /// What the page is of.
    pub fn query(&self) -> &'a ListQuery {
        self.query
    }

    /// The last place of the page before.
    pub fn after(&self) -> Option<&Position> {
        self.after.as_ref()
    }

    /// How many rows are to be read of a place where all match: those of the page, and one that says that there is another page.
    pub fn wanted(&self) -> usize {
        self.query.limit.max(1).saturating_add(1)
    }

    /// Adds a row, if it matches. What is added later of the same run takes its place, and leaves none if it does not match.
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

    /// Says that one place of the store was not read further than this.
    pub fn ends_at(&mut self, position: Position) {
        if self.horizon.as_ref().is_none_or(|horizon| horizon.is_behind(&position, self.query.order)) {
            self.horizon = Some(position);
        }
    }

    /// Whether the page is full even if nothing is known behind this place.
    pub fn is_full_before(&self, horizon: &Position) -> bool {
        self.fitting(Some(horizon)).nth(self.query.limit.max(1)).is_some()
    }

    /// The rows of the page and of those after it, in order, as far as all are known.
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

    /// The page.
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
    fn a_token_leads_back_to_its_place_in_lists_of_its_order() {
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
    fn nothing_stands_between_the_runs_of_an_instant_and_the_place_before_them() {
        let earliest = Position::new(5, u64::MAX - 1, Arc::from(""), [0; 16]);
        let latest_of_next = Position::new(6, 0, Arc::from("\u{10FFFF}"), [255; 16]);
        let between = Position::before_all_of(5);
        assert!(latest_of_next < between && between < earliest);
    }
}
