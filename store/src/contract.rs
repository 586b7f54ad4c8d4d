//! The storage contract.

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Error;
use crate::head::{Cas, Due, Expect, Head, HeadKey, Mark, PartKey, RunId, UnixMs};
use crate::limits::{Limits, Stats};
use crate::listing::{Count, ListPage, ListQuery, PageToken};

/// Storage of runs.
///
/// The contract. Each rule is tested by `conformance` (behind the feature of that name):
///
/// * Per key, [`load`](Self::load) and [`commit`](Self::commit) are linearizable. `Won` means durable: the commit
///   survives a power failure. `load` never returns anything that a crash could still take away.
/// * A commit writes its head if and only if `expect` holds. Otherwise it returns `Lost` with the current head.
/// * `parts` are durable before the head of the same commit becomes visible. If a commit is not won, its parts may or
///   may not exist. A part must therefore hold only data that is valid, or has a unique key, regardless of the outcome.
/// * Parts are immutable, and putting one is idempotent. The exception is `Heartbeat`, where the newest wins.
/// * Marks are durable when [`put_marks`](Self::put_marks) returns, and every later call of [`marks`](Self::marks)
///   returns them. They belong to the workflow id: deleting its runs does not delete them. The newest mark of a name
///   wins.
/// * Indexes ([`due`](Self::due), [`list`](Self::list), [`count`](Self::count)) may lag and may contain heads that no
///   longer qualify, but never miss one that does.
/// * `Lost`, and every error except `Unknown`, mean that the head was not written.
/// * [`Limits::is_shared`] is true if and only if the same store can be opened again while it is open, and both see each
///   other's commits.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the engine's limits.
    fn limits(&self) -> Limits;

    /// Returns how many bytes of [`Limits::head_soft`] this head uses under this key.
    fn weight(&self, key: &HeadKey, head: &Head) -> usize {
        let _ = key;
        head.body.len()
    }

    /// Returns the head under `key`.
    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error>;

    /// Returns the last head of one run: the current head if it belongs to the run, otherwise the head that was kept
    /// when it was replaced.
    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error>;

    /// Writes `parts` (of the run `head.run`) and then, if `expect` holds, the head.
    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error>;

    /// Writes `parts` and `head` as an earlier run, next to the current head of the key, which does not change. The
    /// head is read, listed, counted, expired and deleted like a [replaced](Expect::Replacing) one, and never becomes
    /// due. Returns `Lost` with the existing head if this run has a head or a kept head already.
    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error>;

    /// Writes a single part, which is durable on return. Used for heartbeats. If the run has neither a head nor a kept
    /// head, the part may be dropped: it could not be read, and would never be deleted.
    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error>;

    /// Returns the requested parts in the order of `want`, with `None` for missing ones.
    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error>;

    /// Returns the chunks whose last event is `from_event` or later, in order, each with the id of its last event.
    /// Stops after the chunk that brings the sum to `max_bytes`, but returns at least one chunk if there is one.
    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error>;

    /// Like [`chunks`](Self::chunks), but backward: returns the chunks whose last event is before `before_event`,
    /// newest first.
    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error>;

    /// Deletes a run: its head or kept head, its parts and its row. Idempotent.
    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error>;

    /// Writes marks, which are durable on return. A mark replaces an existing one of the same name. After an error some
    /// of the marks may have been written.
    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error>;

    /// Returns the bytes of the marks in the order of `names`, with `None` for missing ones.
    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error>;

    /// Deletes up to `limit` runs (heads and kept heads, with their parts and rows) and up to `limit` marks whose
    /// `expires_at <= now`. Returns the larger of the two numbers of deletions. The layer above calls it periodically,
    /// because it owns the clock. Expired data can be read until it is deleted.
    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error>;

    /// Returns the heads of a shard with `due <= until`, earliest first, at most `limit`. With `after`, the last entry
    /// of a page, it returns the entries after it, even if that entry no longer exists. The result is empty only if
    /// there are no more entries or `limit` is 0. Kept heads are never due, and a shard outside [`Limits::due_shards`]
    /// is empty.
    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error>;

    /// Returns the shard of the due index that contains this key's head.
    fn due_shard(&self, key: &HeadKey) -> u32 {
        let _ = key;
        0
    }

    /// Returns a page of runs. A query for a workflow id does not lag. A page examines at most a few times its limit of
    /// rows, regardless of how many match and of the order. If conditions other than the domain, open or closed, and
    /// the instants of the order exclude most rows, it ends early and reports how many rows it examined. An engine with
    /// more indexes, such as by type and tag, examines fewer rows.
    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error>;

    /// Counts the rows that a list would have in all, ignoring its limit. Examines at most `at_most` rows, and reports
    /// if there are more: the cost of counting depends on the rows examined, not on the rows that match. If the query
    /// wants only open or only closed rows, the others are not examined. An engine that knows the number may return it
    /// without examining rows.
    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error>;

    /// Returns the counters.
    fn stats(&self) -> Stats;

    /// Returns the number of bytes that can still be written to the disk, or `None` if the store has no disk or the
    /// system does not report it. Must be cheap: every start of a run calls it.
    fn disk_free(&self) -> Option<u64>;

    /// Waits until the store fails (see [`Error::Failed`]) and the process should stop. Never returns otherwise.
    async fn failed(&self) -> Error;

    /// Finishes calls in progress and releases the files. Later calls return [`Error::Failed`].
    async fn close(&self) -> Result<(), Error>;
}
