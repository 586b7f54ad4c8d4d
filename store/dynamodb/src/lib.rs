//! Baton's store on Amazon DynamoDB: any number of nodes over one table, correct by conditional writes alone.
//!
//! A commit is one conditional `PutItem` of the head. Whatever it refers to (parts, the kept head of an earlier run) is
//! put before it; nothing but that one put decides. Owns the shapes of keys and items; knows nothing of credentials,
//! regions and TLS, which come with the configuration handed in.

mod errors;
mod item;
mod keys;
mod listing;
mod table;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use bytes::Bytes;
use store::{
    Cas, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, PageToken, PartKey, RunId, Stats, Store,
    UnixMs,
};

use crate::errors::{not_applied, of_commit};
use crate::item::{Item, Shards, binary, number, read_binary, read_head, read_key, read_number, read_text, text};

/// How long one attempt of a write may take. A write that outlives it has an unknown outcome.
const WRITE_ATTEMPT: Duration = Duration::from_secs(1);

/// How long one attempt of a read may take: longer than a write's, for a page may have a megabyte.
const READ_ATTEMPT: Duration = Duration::from_millis(1_500);

/// How long a read may take with all its retries. Whoever asked is still waiting, and can ask again.
const READ_OPERATION: Duration = Duration::from_secs(4);

/// A head beyond one kilobyte costs a second write unit in each commit; the rest of it is keys and index attributes.
const HEAD_SOFT: usize = 700;
/// Far below the 400 KB that an item may have: 64 write units for a commit are too many already.
const HEAD_HARD: usize = 64 << 10;
/// Below the 400 KB that an item may have, with room for its key.
const PART_MAX: usize = 380 << 10;
/// Larger payloads go to a pack, so that they are not written again with each commit.
const PAYLOAD_INLINE_MAX: usize = 256;
/// Enough to recognize a commit after this many later ones.
const OP_IDS: usize = 16;

/// Which table, and how it is divided. Every node over a table must be given the same.
#[derive(Debug, Clone)]
pub struct Options {
    /// The table's name.
    pub table: String,
    /// Shards of the indexes `due` and `exp`.
    pub due_shards: u32,
    /// Shards of the index `vis`, for each domain.
    pub row_shards: u32,
}

impl Options {
    /// This table, with shards for about four thousand moves a second.
    pub fn new(table: impl Into<String>) -> Self {
        Self { table: table.into(), due_shards: 16, row_shards: 4 }
    }
}

/// A store on one DynamoDB table.
#[derive(Debug)]
pub struct Dynamo {
    /// Retries as its configuration says, within [`READ_OPERATION`].
    reads: Client,
    /// Never retries: a retry after a lost answer would lose to itself.
    writes: Client,
    options: Options,
    commits: AtomicU64,
    bytes_written: AtomicU64,
    is_closed: AtomicBool,
}

impl Dynamo {
    /// A store over the table of `options`. `config` brings the region, credentials and HTTP client; its retries are
    /// used for reads only.
    pub fn new(config: &aws_sdk_dynamodb::Config, options: Options) -> Self {
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(WRITE_ATTEMPT).build();
        let writes = config.to_builder().retry_config(RetryConfig::disabled()).timeout_config(timeouts).build();
        let timeouts =
            TimeoutConfig::builder().operation_attempt_timeout(READ_ATTEMPT).operation_timeout(READ_OPERATION).build();
        let reads = config.to_builder().timeout_config(timeouts).build();
        Self {
            reads: Client::from_conf(reads),
            writes: Client::from_conf(writes),
            options,
            commits: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::Failed { why: "it was closed".to_owned() });
        }
        Ok(())
    }

    fn shards(&self) -> Shards {
        Shards { due: self.options.due_shards, rows: self.options.row_shards }
    }

    async fn get(&self, partition: &str, sort: &str) -> Result<Option<Item>, Error> {
        let answer = self
            .reads
            .get_item()
            .table_name(&self.options.table)
            .key("k", text(partition))
            .key("s", text(sort))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| not_applied(&error))?;
        Ok(answer.item)
    }

    /// Outside a commit, and before the head of one, an unknown outcome does no harm: what is put is idempotent.
    async fn put_part_item(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: &Bytes) -> Result<(), Error> {
        self.writes
            .put_item()
            .table_name(&self.options.table)
            .item("k", text(keys::partition(key)))
            .item("s", text(keys::part(run, part)))
            .item("b", binary(bytes.clone()))
            .send()
            .await
            .map_err(|error| not_applied(&error))?;
        self.bytes_written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps an earlier run's head. An older version of it, put late, does not replace a newer one.
    async fn keep(&self, key: &HeadKey, old: &Head) -> Result<(), Error> {
        let item = item::write_head(key, keys::kept(old.run), old, self.shards())?;
        let answer = self
            .writes
            .put_item()
            .table_name(&self.options.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(k) OR v < :v")
            .expression_attribute_values(":v", number(old.version))
            .send()
            .await;
        match answer {
            Err(error)
                if !error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) =>
            {
                Err(not_applied(&error))
            }
            _ => Ok(()),
        }
    }

    async fn delete(&self, partition: &str, sort: &str, run: Option<RunId>) -> Result<(), Error> {
        let mut request =
            self.writes.delete_item().table_name(&self.options.table).key("k", text(partition)).key("s", text(sort));
        if let Some(run) = run {
            request = request.condition_expression("r = :r").expression_attribute_values(":r", binary(run));
        }
        match request.send().await {
            Err(error)
                if !error.as_service_error().is_some_and(DeleteItemError::is_conditional_check_failed_exception) =>
            {
                Err(not_applied(&error))
            }
            _ => Ok(()),
        }
    }

    /// Chunks with `first <= s <= last`, in either order.
    async fn read_chunks(
        &self,
        key: &HeadKey,
        first: String,
        last: String,
        forward: bool,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        let mut pages = self
            .reads
            .query()
            .table_name(&self.options.table)
            .key_condition_expression("k = :k AND s BETWEEN :a AND :z")
            .expression_attribute_values(":k", text(keys::partition(key)))
            .expression_attribute_values(":a", text(first))
            .expression_attribute_values(":z", text(last))
            .consistent_read(true)
            .scan_index_forward(forward)
            .into_paginator()
            .send();
        let (mut sum, mut taken) = (0, Vec::new());
        while let Some(page) = pages.next().await {
            for item in page.map_err(|error| not_applied(&error))?.items() {
                let last = keys::read_part_number(read_text(item, "s")?)
                    .ok_or_else(|| Error::Corrupt { what: "the key of a chunk has no number".to_owned() })?;
                let bytes = read_binary(item, "b")?;
                sum += bytes.len();
                taken.push((last, bytes));
                if sum >= max_bytes {
                    return Ok(taken);
                }
            }
        }
        Ok(taken)
    }

    /// The rows of one partition of `due` or `exp` up to an instant, earliest first.
    async fn early(
        &self,
        index: &str,
        condition: &str,
        partition: String,
        until: UnixMs,
        limit: usize,
    ) -> Result<Vec<Item>, Error> {
        let mut found = Vec::new();
        if limit == 0 {
            return Ok(found);
        }
        let mut pages = self
            .reads
            .query()
            .table_name(&self.options.table)
            .index_name(index)
            .key_condition_expression(condition)
            .expression_attribute_values(":p", text(partition))
            .expression_attribute_values(":u", number(until))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .into_paginator()
            .send();
        while let Some(page) = pages.next().await {
            found.extend(page.map_err(|error| not_applied(&error))?.items.unwrap_or_default());
            if found.len() >= limit {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }
}

fn check_size(found: usize, max: usize) -> Result<(), Error> {
    if found > max { Err(Error::TooLarge { max, found }) } else { Ok(()) }
}

#[async_trait]
impl Store for Dynamo {
    fn limits(&self) -> Limits {
        Limits {
            head_soft: HEAD_SOFT,
            head_hard: HEAD_HARD,
            part_max: PART_MAX,
            payload_inline_max: PAYLOAD_INLINE_MAX,
            due_shards: self.options.due_shards,
            op_ids: OP_IDS,
            due_moves_are_cheap: false,
        }
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.check_open()?;
        self.get(&keys::partition(key), keys::HEAD).await?.as_ref().map(read_head).transpose()
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        if let Some(head) = self.load(key).await?.filter(|head| head.run == run) {
            return Ok(Some(head));
        }
        self.get(&keys::partition(key), &keys::kept(run)).await?.as_ref().map(read_head).transpose()
    }

    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        self.check_open()?;
        check_size(head.body.len(), HEAD_HARD)?;
        for (_, bytes) in parts {
            check_size(bytes.len(), PART_MAX)?;
        }
        for (part, bytes) in parts {
            self.put_part_item(key, head.run, *part, bytes).await?;
        }
        let request = self
            .writes
            .put_item()
            .table_name(&self.options.table)
            .set_item(Some(item::write_head(key, keys::HEAD.to_owned(), head, self.shards())?))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let exactly = match &expect {
            Expect::Absent => None,
            Expect::Exactly { run, version } => Some((*run, *version)),
            Expect::Replacing(old) => {
                self.keep(key, old).await?;
                Some((old.run, old.version))
            }
        };
        // The run is part of the condition because versions begin anew once a head is forgotten.
        let request = match exactly {
            None => request.condition_expression("attribute_not_exists(k)"),
            Some((run, version)) => request
                .condition_expression("v = :v AND r = :r")
                .expression_attribute_values(":v", number(version))
                .expression_attribute_values(":r", binary(run)),
        };
        match request.send().await {
            Ok(_) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.bytes_written.fetch_add(head.body.len() as u64, Ordering::Relaxed);
                Ok(Cas::Won)
            }
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(lost)) => {
                    let found = lost.item().map(read_head).transpose()?;
                    if let (Expect::Replacing(old), None) = (&expect, &found) {
                        // Forgotten meanwhile: what was kept of it must not outlive it.
                        self.delete(&keys::partition(key), &keys::kept(old.run), None).await?;
                    }
                    Ok(Cas::Lost(found))
                }
                _ => Err(of_commit(&error)),
            },
        }
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        self.check_open()?;
        check_size(bytes.len(), PART_MAX)?;
        self.put_part_item(key, run, part, &bytes).await
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        self.check_open()?;
        let partition = keys::partition(key);
        let mut found = Vec::with_capacity(want.len());
        for part in want {
            let item = self.get(&partition, &keys::part(run, *part)).await?;
            found.push(item.as_ref().map(|item| read_binary(item, "b")).transpose()?);
        }
        Ok(found)
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.check_open()?;
        let first = keys::part(run, PartKey::Chunk { last: from_event });
        let last = keys::part(run, PartKey::Chunk { last: u64::MAX });
        self.read_chunks(key, first, last, true, max_bytes).await
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.check_open()?;
        let Some(newest) = before_event.checked_sub(1) else { return Ok(Vec::new()) };
        let first = keys::part(run, PartKey::Chunk { last: 0 });
        let last = keys::part(run, PartKey::Chunk { last: newest });
        self.read_chunks(key, first, last, false, max_bytes).await
    }

    /// Parts first, so that a forgetting cut short can be found and done again.
    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.check_open()?;
        let partition = keys::partition(key);
        let mut pages = self
            .reads
            .query()
            .table_name(&self.options.table)
            .key_condition_expression("k = :k AND begins_with(s, :p)")
            .expression_attribute_values(":k", text(&partition))
            .expression_attribute_values(":p", text(keys::parts_of(run)))
            .projection_expression("s")
            .consistent_read(true)
            .into_paginator()
            .send();
        while let Some(page) = pages.next().await {
            for item in page.map_err(|error| not_applied(&error))?.items() {
                self.delete(&partition, read_text(item, "s")?, None).await?;
            }
        }
        self.delete(&partition, &keys::kept(run), None).await?;
        self.delete(&partition, keys::HEAD, Some(run)).await
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        self.check_open()?;
        let mut forgotten = 0;
        for shard in 0..self.options.due_shards {
            let rows =
                self.early("exp", "e = :p AND et <= :u", keys::expiry_shard(shard), now, limit - forgotten).await?;
            for row in rows {
                let (partition, sort) = (read_text(&row, "k")?, read_text(&row, "s")?);
                // The index may lag: the item itself decides.
                let Some(mut head) = self.get(partition, sort).await?.as_ref().map(read_head).transpose()? else {
                    continue;
                };
                let key = read_key(&row)?;
                if sort != keys::HEAD
                    && let Some(newest) = self.load(&key).await?.filter(|newest| newest.run == head.run)
                {
                    // Kept for a commit that was then lost: the run is still in the head, and only that is current.
                    head = newest;
                }
                if head.expires_at.is_some_and(|at| at <= now) {
                    self.drop_run(&key, head.run).await?;
                    forgotten += 1;
                }
            }
        }
        Ok(forgotten)
    }

    async fn due(&self, shard: u32, until: UnixMs, limit: usize) -> Result<Vec<Due>, Error> {
        self.check_open()?;
        if shard >= self.options.due_shards {
            return Ok(Vec::new());
        }
        let rows = self.early("due", "d = :p AND dt <= :u", keys::due_shard(shard), until, limit).await?;
        rows.iter().map(|row| Ok(Due { at: read_number(row, "dt")?, key: read_key(row)? })).collect()
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.check_open()?;
        self.list_page(query, page).await
    }

    fn stats(&self) -> Stats {
        Stats {
            commits: self.commits.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            ..Stats::default()
        }
    }

    async fn failed(&self) -> Error {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
