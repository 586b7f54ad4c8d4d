//! Lists: the partitions of the indexes that a query needs are read and merged in order. If a partition was not read
//! completely, the page ends at the last row that was read from this partition. Otherwise a later page could return a
//! row that belongs before rows of this page.
//!
//! The index `vis` is sorted by start. The index `end` is sorted by close, but contains only runs that were open for
//! some time. All other closed runs are found by their start, which was at most [`SHORT_MS`] before their close.

use std::ops::RangeInclusive;
use std::sync::Arc;

use aws_sdk_dynamodb::operation::query::QueryOutput;
use store::listing::{CountBuilder, PageBuilder, Position};
use store::{Count, Error, ListPage, ListQuery, Listed, Order, PageToken, UnixMs};

use crate::Dynamo;
use crate::attributes::{Item, binary, text};
use crate::errors::not_applied;
use crate::item::{SHORT_MS, is_short, read_key, read_row, read_run};
use crate::keys::{self, Rows};
use crate::units::halves;

/// Maximum number of rows read from a partition for one page.
const ROWS_READ_MAX: usize = 1000;

/// Minimum number of rows read at once if the needed number is unknown. Chosen: this costs five read units.
const ROWS_AT_ONCE_MIN: usize = 200;

/// A range of one partition of an index, from the newest row to the oldest.
struct RowRange {
    index: &'static str,
    condition: &'static str,
    partition: String,
    newest: Vec<u8>,
    oldest: Vec<u8>,
}

impl RowRange {
    /// Creates the range of the rows whose start is within `instants`. In the index `end`, their close is within
    /// `instants` instead.
    fn new(of: Rows, domain: &str, shard: u32, instants: RangeInclusive<UnixMs>) -> Self {
        let mut oldest = (!instants.start()).to_be_bytes().to_vec();
        // The range ends after all rows of the oldest instant.
        oldest.push(0xFF);
        oldest.resize(9 + 8, 0xFF);
        let (index, condition) = match of {
            Rows::Open | Rows::Flagged | Rows::Closed => ("vis", "g = :g AND gs BETWEEN :a AND :z"),
            Rows::Ended => ("end", "e = :g AND es BETWEEN :a AND :z"),
        };
        Self {
            index,
            condition,
            partition: keys::rows_shard(of, domain, shard),
            newest: (!instants.end()).to_be_bytes().to_vec(),
            oldest,
        }
    }
}

/// Returns the time range of the rows that may still follow the previous page, or `None` if no rows can follow.
fn instants(query: &ListQuery, after: Option<&Position>) -> Option<RangeInclusive<UnixMs>> {
    let (from, before) = query.instants();
    let (mut first, mut last) = (from.unwrap_or(0), before.unwrap_or(UnixMs::MAX));
    if before.is_some() {
        last = last.checked_sub(1)?;
    }
    match after {
        Some(after) if query.order.is_oldest_first() => first = first.max(after.at()),
        Some(after) => last = last.min(after.at()),
        None => {}
    }
    (first <= last).then_some(first..=last)
}

impl Dynamo {
    pub(crate) async fn list_page(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        let mut gathered = PageBuilder::new(query, page)?;
        if let Some(id) = &query.workflow_id {
            let key = store::HeadKey { domain: query.domain.clone(), workflow_id: id.as_str().into() };
            self.rows_of_id(&key, &mut gathered).await?;
        } else if let Some(instants) = instants(query, gathered.after()) {
            for shard in 0..self.options.row_shards {
                if !query.order.is_by_close() {
                    for of in Rows::of_query(query) {
                        self.rows_in_order(of, shard, &instants, &mut gathered).await?;
                    }
                } else if query.open != Some(true) {
                    self.rows_in_order(Rows::Ended, shard, &instants, &mut gathered).await?;
                    self.short_rows(shard, &instants, &mut gathered).await?;
                }
            }
        }
        Ok(gathered.page())
    }

    /// Counts the rows, one partition after another, so that no row is read twice. For lists in every order, the
    /// partitions of the index by start are read.
    pub(crate) async fn count_rows(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        let mut counting = CountBuilder::new(query, at_most);
        if query.workflow_id.is_some() {
            let of_one = ListQuery { limit: counting.wanted(), ..query.clone() };
            let page = self.list_page(&of_one, None).await?;
            page.rows.iter().for_each(|listed| counting.examine(&listed.workflow_id, &listed.row));
            return Ok(counting.count);
        }
        let by_start = ListQuery { order: Order::NewestStart, ..query.clone() };
        let Some(instants) = instants(&by_start, None) else { return Ok(counting.count) };
        let mut read_halves = 0;
        for of in Rows::of_query(query) {
            for shard in 0..self.options.row_shards {
                let range = RowRange::new(of, &query.domain, shard, instants.clone());
                let (mut next, mut last) = (None, None);
                while !counting.count.is_cut {
                    let answer = self.rows(&range, &by_start, next, counting.wanted()).await?;
                    read_halves += halves(answer.consumed_capacity());
                    for item in answer.items() {
                        let Some(listed) = self.read_listed(item)? else { continue };
                        // A head and its kept copy have the same position in the index. They count once.
                        let is_again = last.replace((Arc::clone(&listed.workflow_id), listed.run))
                            == Some((Arc::clone(&listed.workflow_id), listed.run));
                        if !is_again {
                            counting.examine(&listed.workflow_id, &listed.row);
                        }
                    }
                    next = answer.last_evaluated_key;
                    if next.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(Count { read_units: read_halves.div_ceil(2), ..counting.count })
    }

    /// Reads the current head and all kept heads of one workflow id with consistent reads.
    async fn rows_of_id(&self, key: &store::HeadKey, gathered: &mut PageBuilder<'_>) -> Result<(), Error> {
        let partition = keys::partition(key);
        let query = self
            .query()
            .key_condition_expression("k = :k AND begins_with(s, :p)")
            .expression_attribute_values(":k", text(&partition))
            .expression_attribute_values(":p", text(keys::KEPT))
            .consistent_read(true);
        for item in self.query_all(query, None).await? {
            self.read_listed(&item)?.into_iter().for_each(|listed| gathered.add(listed));
        }
        // The current head is read last, because its row must replace the row of a kept head of the same run.
        if let Some(item) = self.get(&partition, keys::HEAD).await? {
            self.read_listed(&item)?.into_iter().for_each(|listed| gathered.add(listed));
        }
        Ok(())
    }

    /// Returns the row of an item, and counts the row as examined.
    fn read_listed(&self, item: &Item) -> Result<Option<Listed>, Error> {
        self.meter.count_row();
        let Some(row) = read_row(item)? else { return Ok(None) };
        Ok(Some(Listed { workflow_id: read_key(item)?.workflow_id, run: read_run(item)?, row }))
    }

    /// Reads one page of one partition, in the order of the index.
    async fn rows_in_order(
        &self,
        of: Rows,
        shard: u32,
        instants: &RangeInclusive<UnixMs>,
        gathered: &mut PageBuilder<'_>,
    ) -> Result<(), Error> {
        let query = gathered.query();
        let mut range = RowRange::new(of, &query.domain, shard, instants.clone());
        match gathered.after().map(|after| keys::row(of, after)) {
            Some(after) if query.order.is_oldest_first() => range.oldest = range.oldest.min(after),
            Some(after) => range.newest = range.newest.max(after),
            None => {}
        }
        // The previous page may end between the rows of a head and of its kept copy, so one more row is read than
        // needed.
        let wanted = gathered.wanted().saturating_add(1).min(ROWS_READ_MAX);
        let limit = if query.is_filtered() { ROWS_READ_MAX } else { wanted };
        let answer = self.rows(&range, query, None, limit).await?;
        let mut last = None;
        for item in answer.items() {
            if let Some(listed) = self.read_listed(item)? {
                last = Position::of(query.order, &listed.workflow_id, listed.run, &listed.row);
                gathered.add(listed);
            }
        }
        if let Some(last) = last.filter(|_| answer.last_evaluated_key().is_some()) {
            gathered.set_horizon(last);
        }
        Ok(())
    }

    /// Adds the short runs of a list ordered by close, which have no row in the index by close. They are read in the
    /// order of their start, until all unread short runs certainly belong on later pages.
    async fn short_rows(
        &self,
        shard: u32,
        instants: &RangeInclusive<UnixMs>,
        gathered: &mut PageBuilder<'_>,
    ) -> Result<(), Error> {
        let query = gathered.query();
        let (first, last) = (*instants.start(), *instants.end());
        let started_from = first.saturating_sub(SHORT_MS).max(query.started_from.unwrap_or(0));
        let started_to = last.min(query.started_before.map_or(UnixMs::MAX, |before| before.saturating_sub(1)));
        let range = RowRange::new(Rows::Closed, &query.domain, shard, started_from..=started_to);
        let at_once = gathered.wanted().clamp(ROWS_AT_ONCE_MIN, ROWS_READ_MAX);
        let (mut read, mut next) = (0, None);
        loop {
            let answer = self.rows(&range, query, next, at_once).await?;
            let mut last_start = None;
            for item in answer.items() {
                if let Some(listed) = self.read_listed(item)? {
                    last_start = Some(listed.row.started_at);
                    if is_short(&listed.row) {
                        gathered.add(listed);
                    }
                }
            }
            read += answer.items().len();
            next = answer.last_evaluated_key;
            let (Some(last_start), true) = (last_start, next.is_some()) else { return Ok(()) };
            // Bounds the time at which unread short runs closed. If the list begins with the oldest run, they closed at
            // `last_start` or later. Otherwise they closed at most [`SHORT_MS`] after `last_start`.
            let (horizon, is_progress) = if query.order.is_oldest_first() {
                (last_start.saturating_sub(1), last_start > first.saturating_add(1))
            } else {
                let latest = last_start.saturating_add(SHORT_MS);
                (latest, latest < last)
            };
            let horizon = Position::before_instant(horizon);
            if is_progress && (read >= ROWS_READ_MAX || gathered.is_full_before(&horizon)) {
                gathered.set_horizon(horizon);
                return Ok(());
            }
        }
    }

    async fn rows(
        &self,
        range: &RowRange,
        query: &ListQuery,
        after: Option<Item>,
        limit: usize,
    ) -> Result<QueryOutput, Error> {
        if range.newest > range.oldest {
            return Ok(QueryOutput::builder().build());
        }
        let answer = self
            .query()
            .index_name(range.index)
            .key_condition_expression(range.condition)
            .expression_attribute_values(":g", text(range.partition.as_str()))
            .expression_attribute_values(":a", binary(range.newest.as_slice()))
            .expression_attribute_values(":z", binary(range.oldest.as_slice()))
            .scan_index_forward(!query.order.is_oldest_first())
            .set_exclusive_start_key(after)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .send()
            .await
            .map_err(|error| not_applied(&error))?;
        self.meter.read(answer.consumed_capacity());
        Ok(answer)
    }
}
