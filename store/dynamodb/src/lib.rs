//! The store on Amazon DynamoDB: any number of nodes share one table, and correctness depends only on conditional
//! writes.
//!
//! A commit is one conditional `PutItem` of the head. Everything to which the head refers (parts, and the kept head of
//! an earlier run) is written before this put. The commit is won if and only if the put succeeds. This crate defines
//! the formats of keys and items. Credentials, regions and TLS come with the configuration that is passed in.

mod attributes;
mod error;
mod errors;
mod expiry;
pub mod forms;
mod item;
mod keys;
mod listing;
mod marks;
mod packed;
mod requests;
mod sweep;
mod table;
mod units;

pub use error::TableError;
pub use table::{CheckedTable, Create};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure};
use bytes::Bytes;
use store::{
    Cas, Count, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, Mark, PageToken, PartKey, RunId, Stats,
    Store, UnixMs,
};

use crate::attributes::{binary, number, read_number};
use crate::errors::of_commit;
use crate::item::{HEAD_HARD, Shards, read_bytes, read_head, read_key};
use crate::sweep::Sweep;
use crate::units::Meter;

/// Timeout of one attempt of a write. After the timeout, the outcome is unknown.
const WRITE_ATTEMPT: Duration = Duration::from_secs(1);

/// Timeout of one attempt of a read. It is longer than for a write, because a page can have a megabyte.
const READ_ATTEMPT: Duration = Duration::from_millis(1_500);

/// Timeout of one attempt to read a single item or a page of the due index, which are small. Chosen: a run makes no
/// progress while its head is read, so a lost attempt must be detected quickly. AWS promises single-digit milliseconds.
const SMALL_READ_ATTEMPT: Duration = Duration::from_millis(500);

/// Timeout of a read including all retries. The caller is still waiting at that time, and can repeat the read.
const READ_OPERATION: Duration = Duration::from_secs(4);

/// Timeout of a request about the table itself, including all retries. The first request of a process also loads the
/// credentials.
const CONTROL_OPERATION: Duration = Duration::from_secs(20);

/// Maximum size of an item that costs one write unit. A larger head costs a second unit in each commit.
const HEAD_SOFT: usize = units::WRITE_UNIT_BYTES;
/// Maximum size of a part: the 400 KB of an item, less space for its key.
pub(crate) const PART_MAX: usize = 380 << 10;
/// Payloads above this size go to a pack, so that they are not written again with each commit.
const PAYLOAD_INLINE_MAX: usize = 256;
/// Interval of the sweep for expired data. Chosen: with ten minutes, the sweep of an idle table costs seven cents a
/// month.
const SWEEP_EVERY_MS: u64 = 600_000;
/// Number of operation ids that a head remembers. Chosen: a commit can be recognized even after 15 later commits.
const OP_IDS: usize = 16;

/// Name and layout of the table. All nodes that share a table must have the same options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the table.
    pub table: String,
    /// Number of shards of the index `due`.
    pub due_shards: u32,
    /// Number of shards per domain of the index `vis`, which contains the rows of lists.
    pub row_shards: u32,
    /// True if DynamoDB's TTL deletes expired heads. Otherwise they are deleted by requests, which are billed.
    pub has_ttl: bool,
    /// Time between two steps of the sweep, in milliseconds.
    pub sweep_every_ms: u64,
    /// True if a table with provisioned capacity is accepted.
    pub allows_provisioned: bool,
}

impl Options {
    /// Returns options for this table. The number of shards suffices for about four thousand changes per second.
    pub fn new(table: impl Into<String>) -> Self {
        Self {
            table: table.into(),
            due_shards: 16,
            row_shards: 4,
            has_ttl: true,
            sweep_every_ms: SWEEP_EVERY_MS,
            allows_provisioned: false,
        }
    }
}

/// A store in a DynamoDB table.
#[derive(Debug)]
pub struct Dynamo {
    /// Client for reads, which retries as configured, within [`READ_OPERATION`].
    reads: Client,
    /// Client for small reads, with [`SMALL_READ_ATTEMPT`] per attempt.
    small_reads: Client,
    /// Client for writes. It never retries. If the first attempt succeeds but its response is lost, the condition of a
    /// retry fails.
    writes: Client,
    /// Client for requests about the table itself. No run waits for such requests.
    control: Client,
    /// Region or endpoint, for messages.
    place: String,
    options: Options,
    commits: AtomicU64,
    bytes_written: AtomicU64,
    new_items: AtomicU64,
    latest_time: AtomicU64,
    meter: Meter,
    sweep: tokio::sync::Mutex<Sweep>,
    is_closed: AtomicBool,
}

impl Dynamo {
    /// Creates a store in the table of `options`. `config` provides the region, the credentials and the HTTP client.
    /// Its retry settings are used only for reads. `place` is the region or endpoint, for messages.
    pub fn new(config: &aws_sdk_dynamodb::Config, place: impl Into<String>, options: Options) -> Self {
        let place = place.into();
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(WRITE_ATTEMPT).build();
        let writes = config.to_builder().retry_config(RetryConfig::disabled()).timeout_config(timeouts).build();
        let timeouts =
            TimeoutConfig::builder().operation_attempt_timeout(READ_ATTEMPT).operation_timeout(READ_OPERATION).build();
        let reads = config.to_builder().timeout_config(timeouts).build();
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(SMALL_READ_ATTEMPT)
            .operation_timeout(READ_OPERATION)
            .build();
        let small_reads = config.to_builder().timeout_config(timeouts).build();
        let timeouts = TimeoutConfig::builder().operation_timeout(CONTROL_OPERATION).build();
        let control = config.to_builder().timeout_config(timeouts).build();
        Self {
            reads: Client::from_conf(reads),
            small_reads: Client::from_conf(small_reads),
            writes: Client::from_conf(writes),
            control: Client::from_conf(control),
            place,
            options,
            commits: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            new_items: AtomicU64::new(0),
            latest_time: AtomicU64::new(0),
            meter: Meter::default(),
            sweep: tokio::sync::Mutex::new(Sweep::new()),
            is_closed: AtomicBool::new(false),
        }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::Failed { why: "the store was closed".to_owned() });
        }
        Ok(())
    }

    fn shards(&self) -> Shards {
        Shards { due: self.options.due_shards, rows: self.options.row_shards }
    }

    /// Returns the latest time that callers have passed to this store, which does not read a clock.
    fn latest_time(&self) -> Option<UnixMs> {
        Some(self.latest_time.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Counts an item that was written for the first time.
    fn count_new_item(&self) {
        self.new_items.fetch_add(1, Ordering::Relaxed);
    }

    fn new_items(&self) -> u64 {
        self.new_items.load(Ordering::Relaxed)
    }

    fn count_bytes(&self, bytes: usize) {
        self.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
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
            is_shared: true,
        }
    }

    fn due_shard(&self, key: &HeadKey) -> u32 {
        keys::shard_of(key, self.options.due_shards)
    }

    fn weight(&self, key: &HeadKey, head: &Head) -> usize {
        let written = item::write_head(key, keys::HEAD.to_owned(), head, self.shards());
        written.as_ref().map_or(head.body.len(), item::size)
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.check_open()?;
        self.get(&keys::partition(key), keys::HEAD).await?.as_ref().map(read_head).transpose()
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        self.check_open()?;
        self.find_run(key, run).await?.as_ref().map(read_head).transpose()
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
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let exactly = match &expect {
            Expect::Absent => None,
            Expect::Exactly { run, version } => Some((*run, *version)),
            Expect::Replacing(old) => {
                self.keep(key, old).await?;
                Some((old.run, old.version))
            }
        };
        // The condition includes the run, because the versions of a workflow id begin at 1 again after its head was
        // deleted.
        let request = match exactly {
            None => request.condition_expression("attribute_not_exists(k)"),
            Some((run, version)) => request
                .condition_expression("v = :v AND r = :r")
                .expression_attribute_values(":v", number(version))
                .expression_attribute_values(":r", binary(run)),
        };
        match request.send().await {
            Ok(answer) => {
                self.meter.wrote(answer.consumed_capacity());
                self.commits.fetch_add(1, Ordering::Relaxed);
                self.count_bytes(head.body.len());
                if !matches!(expect, Expect::Exactly { .. }) {
                    self.count_new_item();
                }
                Ok(Cas::Won)
            }
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(lost)) => {
                    self.meter.lost(lost.item().map_or(0, item::size));
                    let found = lost.item().map(read_head).transpose()?;
                    if let (Expect::Replacing(old), None) = (&expect, &found) {
                        // The head was deleted in the meantime, so its kept copy is deleted, too.
                        self.delete(&keys::partition(key), &keys::kept(old.run), None).await?;
                    }
                    Ok(Cas::Lost(found))
                }
                _ => Err(of_commit(&error)),
            },
        }
    }

    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error> {
        self.check_open()?;
        check_size(head.body.len(), HEAD_HARD)?;
        for (_, bytes) in parts {
            check_size(bytes.len(), PART_MAX)?;
        }
        if let Some(found) = self.find_run(key, head.run).await? {
            return Ok(Cas::Lost(Some(read_head(&found)?)));
        }
        for (part, bytes) in parts {
            self.put_part_item(key, head.run, *part, bytes).await?;
        }
        self.put_kept_item(key, head).await
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
            found.push(item.as_ref().map(|item| read_bytes(item, PART_MAX)).transpose()?);
        }
        Ok(found)
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        self.check_open()?;
        self.put_mark_items(key, marks).await
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        self.check_open()?;
        self.mark_items(key, names).await
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

    /// Deletes a run. Its parts are deleted before its head, so that an interrupted deletion can be repeated.
    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.check_open()?;
        let partition = keys::partition(key);
        self.drop_parts(key, run).await?;
        self.delete(&partition, &keys::kept(run), None).await?;
        self.delete(&partition, keys::HEAD, Some((run, None))).await
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        self.check_open()?;
        self.latest_time.fetch_max(now, Ordering::Relaxed);
        self.sweep_expired(now, limit).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.check_open()?;
        if shard >= self.options.due_shards {
            return Ok(Vec::new());
        }
        let rows = self.early(keys::due_shard(shard), until, after, limit).await?;
        rows.iter().map(|row| Ok(Due { at: read_number(row, "dt")?, key: read_key(row)? })).collect()
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.check_open()?;
        self.list_page(query, page).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        self.check_open()?;
        self.count_rows(query, at_most).await
    }

    fn stats(&self) -> Stats {
        Stats {
            commits: self.commits.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            write_units: self.meter.write_units(),
            read_units: self.meter.read_units(),
            rows_read: self.meter.rows_read(),
            ..Stats::default()
        }
    }

    fn disk_free(&self) -> Option<u64> {
        None
    }

    async fn failed(&self) -> Error {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
