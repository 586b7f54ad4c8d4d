//! What Baton needs from a database, as one narrow trait, and what every engine behind it promises.
//!
//! The store owns bytes, versions and indexes. It owns no workflow rule and never parses a body. For each workflow id
//! there is one small *head*, replaced by compare-and-swap; everything else is an immutable *part* that a head refers
//! to, or an index that may lag.
//!
//! Engines: [`memory::Memory`] is the reference; `store-embedded` is production on one machine, `store-dynamodb` on many.
//! All of them pass `conformance`. [`fault::FaultStore`] wraps any of them and injects what real stores do on bad days.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod fault;
pub mod listing;
pub mod memory;

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type UnixMs = u64;

/// A run id: the 16 bytes of its UUID.
pub type RunId = [u8; 16];

/// Names a head: one per workflow id of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadKey {
    /// The domain's name.
    pub domain: Arc<str>,
    /// The workflow id, chosen by the caller.
    pub workflow_id: Arc<str>,
}

/// The whole transactional state of the newest run of a workflow id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The run now in the head.
    pub run: RunId,
    /// Grows by one with every commit to this key, and is never reset while the key lives: a new run continues it.
    pub version: u64,
    /// Opaque to the store.
    pub body: Bytes,
    /// A lower bound of the next instant at which somebody must look at this run; `None` when nobody has to.
    pub due: Option<UnixMs>,
    /// How the run shows in lists; `None` keeps it out of them.
    pub row: Option<Row>,
    /// The store forgets the head, its parts and its row by itself some time after this instant and never before;
    /// `None` keeps them for ever.
    pub expires_at: Option<UnixMs>,
}

/// A run as lists show it. Set by the engine above, matched and ordered by the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The workflow type.
    pub workflow_type: Arc<str>,
    /// The status word, e.g. `open` or `success`; compared, never interpreted.
    pub status: Arc<str>,
    /// Whether it is one of few that somebody looks for: an engine finds those without a look at the others.
    pub flagged: bool,
    /// When the run started.
    pub started_at: UnixMs,
    /// When it closed; `None` while it is open.
    pub closed_at: Option<UnixMs>,
    /// Its tags.
    pub tags: Vec<String>,
}

/// What a commit expects to find.
#[derive(Debug, Clone)]
pub enum Expect<'a> {
    /// No head under this key (never written, or expired and forgotten).
    Absent,
    /// Exactly this run at exactly this version.
    Exactly {
        /// The run read.
        run: RunId,
        /// The version read.
        version: u64,
    },
    /// Exactly this head, of an earlier run, which the commit replaces with a new run's. The store keeps the earlier
    /// head readable by [`Store::load_run`], and its row in lists, until the `expires_at` that it has here, which may differ
    /// from the one it was committed with.
    Replacing(&'a Head),
}

/// How a commit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cas {
    /// Applied, and durable.
    Won,
    /// Not applied: something else is there, namely this head (`None`: nothing).
    Lost(Option<Head>),
}

/// Names an immutable piece of a run that does not live in its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartKey {
    /// Committed events, ending with the event `last`.
    Chunk {
        /// The id of the chunk's last event.
        last: u64,
    },
    /// The large payloads of one commit attempt.
    Pack {
        /// The attempt's operation id.
        op: u64,
    },
    /// The newest heartbeat of an activity: the one kind of part that is overwritten.
    Beat {
        /// The activity's `ActivityScheduled` event id.
        scheduled: u64,
    },
}

/// A small record of a workflow id, whichever of its runs is in the head, and whether one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Its name. Chosen by the layer above, evenly spread.
    pub name: u64,
    /// Opaque to the store; at most [`MARK_BYTES_MAX`].
    pub bytes: Bytes,
    /// The store forgets it by itself some time after this instant and never before.
    pub expires_at: UnixMs,
}

/// Most bytes of a mark. Ours: with its key it takes less than a kilobyte, which is what DynamoDB bills as one.
pub const MARK_BYTES_MAX: usize = 256;

/// One run among those that must be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The head's `due`, as the index has it.
    pub at: UnixMs,
    /// Whose.
    pub key: HeadKey,
}

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
    /// Carrying this tag.
    pub tag: Option<String>,
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
            || self.tag.is_some()
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
}

/// How many rows there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Count {
    /// By status word, those that there are any of.
    pub by_status: BTreeMap<Arc<str>, u64>,
    /// Whether there may be more of them: counting stopped.
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

/// The least that [`Limits::head_hard`] may be: what the rules let the state of a run grow to, and room for what the service keeps
/// with it. Ours: as much as fits into an item of DynamoDB under the longest names.
pub const HEAD_HARD_MIN: usize = 388 * 1024;

/// The least that [`Limits::part_max`] may be: the largest payload, or an event with the longest of all names.
pub const PART_MAX_MIN: usize = 288 * 1024;

/// What an engine can take, and how the layer above should shape what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Events move from the head to a chunk when the head's [`weight`](Store::weight) would pass this many bytes.
    pub head_soft: usize,
    /// A body above this is refused with [`Error::TooLarge`]. At least [`HEAD_HARD_MIN`].
    pub head_hard: usize,
    /// A part above this is refused with [`Error::TooLarge`]. At least [`PART_MAX_MIN`].
    pub part_max: usize,
    /// A payload above this many bytes goes to a pack rather than into an event.
    pub payload_inline_max: usize,
    /// How many shards the due index has.
    pub due_shards: u32,
    /// How many operation ids a head must remember, so that a commit of unknown outcome can be recognized. 0 for an
    /// engine that never answers [`Error::Unknown`].
    pub op_ids: usize,
    /// Whether moving `due` costs next to nothing; where it does not, it is moved lazily.
    pub due_moves_are_cheap: bool,
}

/// Counters since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Commits that were won.
    pub commits: u64,
    /// Times that a device was asked to make data durable (fsync, or its like).
    pub syncs: u64,
    /// Bytes handed to the device.
    pub bytes_written: u64,
    /// Bytes that the store occupies now.
    pub bytes_on_disk: u64,
    /// Write units that the database bills for, where it does.
    pub write_units: u64,
    /// Read units that the database bills for, where it does; rounded up.
    pub read_units: u64,
    /// Rows that lists have looked at, whether they matched or not.
    pub rows_read: u64,
    /// Times that a file could not be opened because the system was short of descriptors or memory.
    pub opens_put_off: u64,
}

/// Why a call did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was written. Asking again can help.
    #[error("not applied: {why}")]
    NotApplied {
        /// What stood in the way.
        why: String,
        /// How long to wait first, where the engine knows.
        retry_after: Option<Duration>,
    },
    /// It may have been written, or not, or may still be.
    #[error("outcome unknown: {why}")]
    Unknown {
        /// What was lost.
        why: String,
    },
    /// A body or part is larger than the engine can take. Nothing was written.
    #[error("{found} bytes where at most {max} are allowed")]
    TooLarge {
        /// The limit.
        max: usize,
        /// The size given.
        found: usize,
    },
    /// The page token is not one that this store gave. Nothing was read.
    #[error("the page token is not one of this store's")]
    InvalidPage,
    /// Stored bytes are not what they should be. Nothing was written, and nothing was repaired.
    #[error("corrupt: {what}")]
    Corrupt {
        /// What is wrong, and where.
        what: String,
    },
    /// Another process has the store open, which only one may. It was not opened.
    #[error("in use by {by}; stop that process first, or use another directory")]
    InUse {
        /// Who has it.
        by: String,
    },
    /// The store can no longer keep its promise and takes no more work; the process should stop.
    #[error("the store has failed and must be reopened: {why}")]
    Failed {
        /// The first cause.
        why: String,
    },
}

/// Storage for runs. See the crate's first lines for what it is not.
///
/// The contract, each sentence of which is a test of `conformance` (behind the feature of that name):
///
/// * Per key, [`load`](Self::load) and [`commit`](Self::commit) are linearizable. `Won` means durable: it survives a
///   power cut. `load` never shows what a crash could still take away.
/// * A commit applies its head exactly when `expect` holds, else it answers `Lost` with what is there.
/// * `parts` are durable before the head that comes with them can be seen. When a commit is not won they may or may
///   not be there, so a part holds only what is true or unique whatever becomes of the commit.
/// * Parts are immutable and idempotent to put, but for `Beat`, where the newest wins.
/// * Marks are durable when [`put_marks`](Self::put_marks) has answered, and seen by every [`marks`](Self::marks) that begins
///   then. They belong to the workflow id: forgetting its runs leaves them. The newest of a name wins.
/// * Indexes ([`due`](Self::due), [`list`](Self::list), [`count`](Self::count)) may lag and may name heads that no longer
///   qualify; they never forget one that does.
/// * `Lost` and every error but `Unknown` mean that the head was not written.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The engine's limits.
    fn limits(&self) -> Limits;

    /// How many bytes of [`Limits::head_soft`] this head takes under this key.
    fn weight(&self, key: &HeadKey, head: &Head) -> usize {
        let _ = key;
        head.body.len()
    }

    /// The head under `key`.
    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error>;

    /// The last head of one run: the current head when it is of that run, else the one kept when it was replaced.
    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error>;

    /// Writes `parts` (of the run `head.run`) and then, if `expect` holds, the head.
    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error>;

    /// Writes one part by itself; durable on return. Used for beats. A part of a run that has neither a head nor a kept
    /// head may be left unwritten: nobody could ask for it, and nothing would ever remove it.
    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error>;

    /// The parts asked for, in that order; `None` for one that is not there.
    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error>;

    /// Chunks whose last event is `from_event` or later, in order, each with its last event's id; stops after the chunk
    /// that brings the sum to `max_bytes`. Always at least one chunk, if there is one.
    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error>;

    /// Like [`chunks`](Self::chunks), going back: chunks whose last event is before `before_event`, newest first.
    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error>;

    /// Forgets a run: its head or kept head, parts and row. Idempotent.
    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error>;

    /// Writes marks; durable on return. One that has the name of another takes its place. After an error some may have been
    /// written.
    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error>;

    /// The bytes of the marks with these names, in that order; `None` for one that is not there.
    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error>;

    /// Forgets at most `limit` runs (heads and kept heads, with their parts and rows) and at most `limit` marks whose
    /// `expires_at <= now`, and answers how many of which it forgot more. Called from time to time by the layer above, which has the
    /// clock. What has expired and is not yet forgotten can still be read.
    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error>;

    /// Heads of a shard with `due <= until`, earliest first, at most `limit`; with `after`, the last of a page, those that
    /// stand behind it, whether it is still there or not. Answers none when there are no more of them, and only then or when
    /// `limit` is 0. Kept heads are not looked at, and a shard outside [`Limits::due_shards`] is empty.
    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error>;

    /// In which shard of the due index this key's head stands.
    fn due_shard(&self, key: &HeadKey) -> u32 {
        let _ = key;
        0
    }

    /// A page of runs. Where the query names a workflow id it does not lag. A page looks at no more rows than a few times its
    /// limit, however many match and whatever the order, unless conditions other than the domain, whether runs are open and the
    /// instants of the order keep most rows out.
    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error>;

    /// How many rows a list would have in all; stops counting when there are `at_most`, or some more.
    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        listing::count(self, query, at_most).await
    }

    /// Counters.
    fn stats(&self) -> Stats;

    /// Resolves when the store has failed (see [`Error::Failed`]) and the process should stop; otherwise never.
    async fn failed(&self) -> Error;

    /// Finishes what is under way and releases the files. Later calls answer [`Error::Failed`].
    async fn close(&self) -> Result<(), Error>;
}

#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn weight(&self, key: &HeadKey, head: &Head) -> usize {
        (**self).weight(key, head)
    }

    fn due_shard(&self, key: &HeadKey) -> u32 {
        (**self).due_shard(key)
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        (**self).load(key).await
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        (**self).load_run(key, run).await
    }

    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        (**self).commit(key, expect, head, parts).await
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        (**self).put_part(key, run, part, bytes).await
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        (**self).parts(key, run, want).await
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        (**self).put_marks(key, marks).await
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        (**self).marks(key, names).await
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        (**self).chunks(key, run, from_event, max_bytes).await
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        (**self).chunks_back(key, run, before_event, max_bytes).await
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        (**self).drop_run(key, run).await
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        (**self).expire(now, limit).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        (**self).due(shard, until, after, limit).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        (**self).list(query, page).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        (**self).count(query, at_most).await
    }

    fn stats(&self) -> Stats {
        (**self).stats()
    }

    async fn failed(&self) -> Error {
        (**self).failed().await
    }

    async fn close(&self) -> Result<(), Error> {
        (**self).close().await
    }
}
