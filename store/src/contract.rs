//! The storage contract.

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Error;
use crate::head::{Cas, Due, Expect, Head, HeadKey, Mark, PartKey, RunId, UnixMs};
use crate::limits::{Limits, Stats};
use crate::listing::{Count, ListPage, ListQuery, PageToken};

/// Storage of runs.
///
/// Every engine fulfills these rules. The module `conformance`, enabled by a feature of this name, tests each of them:
///
/// * For each key, [`load`](Self::load) and [`commit`](Self::commit) are linearizable. `Won` means that the commit is
///   durable and survives a power failure. `load` never returns anything that a crash could still undo.
/// * A commit writes its head if and only if `expect` holds. Otherwise it returns `Lost` with the current head.
/// * `parts` are durable before the head of the same commit becomes visible. A commit that is not won may have written
///   its parts, or some of them. Therefore a part must contain only data that is valid even if its commit is lost, or
///   have a key that no other commit uses.
/// * Parts are immutable, and writing the same part twice has no further effect. `Heartbeat` is the exception: a new
///   heartbeat overwrites the previous heartbeat.
/// * Marks are durable when [`put_marks`](Self::put_marks) returns, and every later call of [`marks`](Self::marks)
///   returns them. Marks belong to the workflow id: deleting its runs does not delete them. A new mark replaces an
///   existing mark of the same name.
/// * Indexes ([`due`](Self::due), [`list`](Self::list), [`count`](Self::count)) may lag: they may contain heads that no
///   longer match, but they never miss a head that matches.
/// * `Lost`, and every error except `Unknown`, mean that the head was not written.
/// * [`Limits::is_shared`] is true if and only if the same store can be opened again while it is open, and both
///   instances see each other's commits.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the engine's limits.
    fn limits(&self) -> Limits;

    /// Returns the stored size of a head under this key, in bytes. It is compared with [`Limits::head_soft`].
    fn weight(&self, key: &HeadKey, head: &Head) -> usize {
        let _ = key;
        head.body.len()
    }

    /// Returns the current head of `key`.
    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error>;

    /// Returns the newest head of one run: the current head if it belongs to this run, otherwise the head that was kept
    /// when the run was replaced.
    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error>;

    /// Writes `parts`, which belong to the run `head.run`, and then the head if `expect` holds.
    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error>;

    /// Adds the head of an earlier run and its parts, without changing the current head of the key. The added head is
    /// read, listed, counted, expired and deleted like a [replaced](Expect::Replacing) head, and is never due. If the
    /// run already has a head, either the current one of the key or a replaced one, returns `Lost` with that head.
    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error>;

    /// Writes a single part, which is durable on return. Used for heartbeats. If the run has no head, neither a current
    /// nor a [replaced](Expect::Replacing) one, the part may be dropped: it could never be read or deleted.
    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error>;

    /// Returns the parts with the keys `want`, in this order, with `None` for missing ones.
    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error>;

    /// Returns the chunks whose last event is `from_event` or later, in order, each with the id of its last event. The
    /// result ends with the chunk whose size brings the total to `max_bytes` or more. It contains at least one chunk if
    /// there is one.
    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error>;

    /// Works like [`chunks`](Self::chunks), but backward: returns the chunks whose last event is before `before_event`,
    /// newest first.
    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error>;

    /// Deletes a run: its head (current or [replaced](Expect::Replacing)), its parts and its row. Idempotent.
    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error>;

    /// Writes marks, which are durable on return. A mark replaces an existing one of the same name. If the call fails,
    /// some of the marks may have been written.
    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error>;

    /// Returns the bytes of the marks in the order of `names`, with `None` for missing ones.
    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error>;

    /// Deletes expired data, that is, with `expires_at <= now`: up to `limit` runs (current and replaced heads, with
    /// their parts and rows) and up to `limit` marks. Returns the larger of the two numbers of deletions. The layer
    /// above calls this periodically and passes the time. Expired data can be read until it is deleted.
    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error>;

    /// Returns up to `limit` heads of a shard with `due <= until`, earliest first. `after` is the last entry of the
    /// previous page; the entries after it are returned, even if that entry no longer exists. The result is empty only
    /// if there are no more entries or `limit` is 0. Replaced heads are never due. A shard outside
    /// [`Limits::due_shards`] is empty.
    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error>;

    /// Returns the shard of the due index that contains this key's head.
    fn due_shard(&self, key: &HeadKey) -> u32 {
        let _ = key;
        0
    }

    /// Returns a page of a list of runs. If the query specifies a workflow id, the list does not lag behind the heads.
    ///
    /// Reading a page examines at most a few times as many rows as the page may contain, in every order. The rows to
    /// examine are selected by the domain, by open or closed, and by the time range of the instant that determines the
    /// order (start or close). If most of these rows fail other conditions of the query, the page is shorter than its
    /// limit. It reports how many rows were examined. An engine with more indexes, for example by type and tag,
    /// examines fewer rows.
    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error>;

    /// Counts all rows that match the query, ignoring its limit. Examines at most `at_most` rows, and reports if
    /// further rows were not examined. The cost depends on the number of rows examined, not on the number of rows that
    /// match. If the query wants only open rows, closed rows are not examined, and vice versa. An engine that knows the
    /// result may return it without examining rows.
    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error>;

    /// Returns the counters of the store.
    fn stats(&self) -> Stats;

    /// Returns the number of bytes that can still be written to the disk. Returns `None` if the store has no disk, or
    /// if the operating system does not report the number. Must be cheap, because every start of a run calls it.
    fn disk_free(&self) -> Option<u64>;

    /// Waits until the store fails with [`Error::Failed`], and returns this error. The process should then stop. If the
    /// store never fails, this call never returns.
    async fn failed(&self) -> Error;

    /// Finishes calls in progress and releases the files. Later calls return [`Error::Failed`].
    async fn close(&self) -> Result<(), Error>;
}
