//! Deletion of expired data without an index for it.
//!
//! The attribute `ttl` of a head tells DynamoDB when to delete it, which is free. Its parts have no such attribute,
//! because they were written while the run was open. Therefore the table is swept gradually, in proportion to the
//! writes: items whose head no longer exists are deleted, and, if the table has no TTL, heads and marks as well. An
//! index would cost one or two more write units per run; reading all items once costs a twentieth of that.

use store::{Error, HeadKey, RunId, UnixMs};

use crate::Dynamo;
use crate::attributes::{Item, read_optional_number, read_text, text};
use crate::errors::not_applied;
use crate::item::{read_head, read_run};
use crate::keys;
use crate::sweep::{SEGMENTS, Sweep};

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;

/// Minimum number of items read by one sweep step: about ten read units.
const ITEMS_MIN: u64 = 100;

/// Number of items read for each new item, so that the whole table is swept while half of it is newly written.
const ITEMS_PER_NEW_ITEM: u64 = 2;

/// Number of items on a page. Source: a page ends at a megabyte, and most items are about a kilobyte.
const PAGE_ITEMS: u64 = 500;

/// Time that an expired head is left to TTL. Source: the developer guide, "typically within two days".
const TTL_LAG_MS: u64 = 3 * 24 * 3_600_000;

/// Minimum age of a part without a head before it is deleted, because the head of a younger one may still be written.
/// Ours: a start gives up within a minute; the rest allows for differing clocks.
const ORPHAN_AGE_MS: u64 = 24 * 3_600_000;

/// State of the sweep within the current partition.
#[derive(Default)]
struct PartitionScan {
    partition: String,
    /// Run of the head, which sorts before the parts.
    run: Option<RunId>,
    /// Run whose parts were examined last.
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

    /// Deletes expired data that this item belongs to. Returns whether it did.
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

    /// Deletes an expired head. Reads the item again, because the page may be outdated.
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
        // If the run is still in the head, this was kept for a commit that was then lost. Only the copy is deleted.
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

    /// Returns the item of a run's head or kept head. The head is read first, because it is kept before it is replaced.
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
