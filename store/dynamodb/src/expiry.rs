//! Deletion of expired data without an index.
//!
//! The attribute `ttl` of a head tells DynamoDB when to delete the head. This deletion is free. The parts of a run have
//! no such attribute, because the time of expiry is not known until the run closes. Therefore this module gradually
//! reads the whole table (the sweep) and deletes the parts of heads that no longer exist. If the table has no TTL, it
//! also deletes expired heads and marks. The speed of the sweep is proportional to the number of writes.
//!
//! An index by expiry would cost one or two additional write units per run. Reading all items once costs a twentieth of
//! this.

use store::{Error, HeadKey, RunId, UnixMs};

use crate::Dynamo;
use crate::attributes::{Item, read_optional_number, read_text, text};
use crate::errors::not_applied;
use crate::item::{read_head, read_run};
use crate::keys;
use crate::sweep::{SEGMENTS, Sweep};

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;

/// Minimum number of items read by one step of the sweep. Chosen: this costs about ten read units.
const ITEMS_MIN: u64 = 100;

/// Number of items that the sweep reads for each new item. Chosen: the sweep has read the whole table once when the
/// number of new items is half the number of all items.
const ITEMS_PER_NEW_ITEM: u64 = 2;

/// Maximum number of items requested per page. Source: DynamoDB ends a page at a megabyte, and most items have about a
/// kilobyte.
const PAGE_ITEMS: u64 = 500;

/// Time after a head's expiry during which its deletion is left to DynamoDB's TTL. Source: the developer guide,
/// "typically within two days".
const TTL_LAG_MS: u64 = 3 * 24 * 3_600_000;

/// Age at which a part without a head is deleted. The head of a younger part may still be written. Chosen: the service
/// retries the first commit of a run for less than a minute, and the remaining time allows for differences between
/// clocks.
const ORPHAN_AGE_MS: u64 = 24 * 3_600_000;

/// State of the sweep in the current partition, which contains all items of one workflow id.
#[derive(Default)]
struct PartitionScan {
    partition: String,
    /// Run of the current head. The head is read before the parts, because its sort key is smaller.
    run: Option<RunId>,
    /// Run to which the last examined part belonged.
    judged: Option<RunId>,
}

impl Dynamo {
    pub(crate) async fn sweep_expired(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        let mut sweep = self.sweep.lock().await;
        if limit == 0 || now < sweep.next_at {
            return Ok(0);
        }
        let new_items = self.new_items();
        let mut budget = ITEMS_MIN.max(new_items.saturating_sub(sweep.new_items) * ITEMS_PER_NEW_ITEM);
        let (mut forgotten, mut ended) = (0, 0);
        let mut seen = PartitionScan::default();
        while budget > 0 && ended < SEGMENTS {
            let page = self.page(&sweep, budget.min(PAGE_ITEMS)).await?;
            budget = budget.saturating_sub(page.items().len().max(1) as u64);
            for item in page.items() {
                if self.judge(item, now, &mut seen).await? {
                    forgotten += 1;
                }
                if forgotten >= limit {
                    sweep.after = Some(keys::of_item(item)?);
                    return Ok(forgotten);
                }
            }
            sweep.after = page.last_evaluated_key;
            if sweep.after.is_none() {
                sweep.segment = (sweep.segment + 1) % SEGMENTS;
                ended += 1;
            }
        }
        sweep.new_items = new_items;
        sweep.next_at = now.saturating_add(self.options.sweep_every_ms);
        Ok(forgotten)
    }

    async fn page(&self, sweep: &Sweep, items: u64) -> Result<aws_sdk_dynamodb::operation::scan::ScanOutput, Error> {
        let page = self
            .reads
            .scan()
            .table_name(&self.options.table)
            .segment(sweep.segment)
            .total_segments(SEGMENTS)
            .set_exclusive_start_key(sweep.after.clone())
            .projection_expression("k, s, r, v, et, t")
            .limit(i32::try_from(items).unwrap_or(i32::MAX))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await
            .map_err(|error| not_applied(&error))?;
        self.meter.read(page.consumed_capacity());
        Ok(page)
    }

    /// Deletes the run or the mark of this item if it has expired, or the run's parts if the run has no head. Returns
    /// whether anything was deleted.
    async fn judge(&self, item: &Item, now: UnixMs, seen: &mut PartitionScan) -> Result<bool, Error> {
        let (partition, sort) = (read_text(item, "k")?, read_text(item, "s")?);
        let Some(key) = keys::read_partition(partition) else { return Ok(false) };
        if seen.partition != partition {
            *seen = PartitionScan { partition: partition.to_owned(), ..PartitionScan::default() };
        }
        if sort == keys::HEAD || sort.starts_with(keys::KEPT) {
            if sort == keys::HEAD {
                seen.run = Some(read_run(item)?);
            }
            let lag = if self.options.has_ttl { TTL_LAG_MS } else { 0 };
            let is_over = read_optional_number(item, "et")?.is_some_and(|at| at.saturating_add(lag) <= now);
            return if is_over { self.forget_head(&key, sort, now, lag).await } else { Ok(false) };
        }
        if sort.starts_with(keys::MARK) {
            let lag = if self.options.has_ttl { TTL_LAG_MS } else { 0 };
            let expired = read_optional_number(item, "et")?.filter(|at| at.saturating_add(lag) <= now);
            return match expired {
                Some(expired_at) => self.forget_mark(&key, sort, expired_at).await,
                None => Ok(false),
            };
        }
        let Some(run) = keys::read_part_run(sort) else { return Ok(false) };
        let is_old = read_optional_number(item, "t")?.is_some_and(|at| at.saturating_add(ORPHAN_AGE_MS) <= now);
        if !is_old || seen.run == Some(run) || seen.judged == Some(run) {
            return Ok(false);
        }
        seen.judged = Some(run);
        self.forget_orphans(&key, run).await
    }

    /// Deletes a head if it has expired. The item is read again, because the page may be outdated.
    async fn forget_head(&self, key: &HeadKey, sort: &str, now: UnixMs, lag: u64) -> Result<bool, Error> {
        let is_over = |at: Option<UnixMs>| at.is_some_and(|at| at.saturating_add(lag) <= now);
        let partition = keys::partition(key);
        let Some(item) = self.get(&partition, sort).await? else { return Ok(false) };
        let found = read_head(&item)?;
        if !is_over(found.expires_at) {
            return Ok(false);
        }
        if sort == keys::HEAD {
            self.drop_parts(key, found.run).await?;
            self.delete(&partition, sort, Some((found.run, Some(found.version)))).await?;
            return Ok(true);
        }
        let newest = self.get(&partition, keys::HEAD).await?.as_ref().map(read_head).transpose()?;
        let is_current = newest.is_some_and(|newest| newest.run == found.run);
        if !is_current {
            self.drop_parts(key, found.run).await?;
        }
        // If the run is the current one, its kept copy was written for a commit that then failed. Only the copy is
        // deleted.
        self.delete(&partition, sort, Some((found.run, Some(found.version)))).await?;
        Ok(!is_current)
    }

    async fn forget_orphans(&self, key: &HeadKey, run: RunId) -> Result<bool, Error> {
        if self.find_run(key, run).await?.is_some() {
            return Ok(false);
        }
        self.drop_parts(key, run).await?;
        Ok(true)
    }

    /// Returns the item of a run's head: the current head of the workflow id, or the kept copy of an earlier head. The
    /// current head is read first. A copy is written before the head is replaced. If the head is replaced between the
    /// two reads, the second read therefore finds the copy.
    pub(crate) async fn find_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Item>, Error> {
        let partition = keys::partition(key);
        if let Some(item) = self.get(&partition, keys::HEAD).await?
            && read_run(&item)? == run
        {
            return Ok(Some(item));
        }
        self.get(&partition, &keys::kept(run)).await
    }

    pub(crate) async fn drop_parts(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        let partition = keys::partition(key);
        let query = self
            .query()
            .key_condition_expression("k = :k AND begins_with(s, :p)")
            .expression_attribute_values(":k", text(&partition))
            .expression_attribute_values(":p", text(keys::parts_of(run)))
            .projection_expression("s")
            .consistent_read(true);
        for item in self.query_all(query, None).await? {
            self.delete(&partition, read_text(&item, "s")?, None).await?;
        }
        Ok(())
    }
}
