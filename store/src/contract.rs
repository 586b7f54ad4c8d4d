//! The contract.

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Error;
use crate::head::{Cas, Due, Expect, Head, HeadKey, Mark, PartKey, RunId, UnixMs};
use crate::limits::{Limits, Stats};
use crate::listing::{Count, ListPage, ListQuery, PageToken};

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

    /// Writes `parts` and then `head` beside the head of its key, whatever that is, and leaves that as it is: a run of before, which
    /// is kept, read, listed, counted, expired and dropped as one that was [replaced](Expect::Replacing). It does not become due.
    /// Answers `Lost` with what is there where there is a head or a kept head of this run already.
    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error>;

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
    /// instants of the order keep most rows out; then it ends early, and says at how many it has looked. An engine that has rows by
    /// more than that, such as by type and tag, looks at fewer.
    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error>;

    /// How many rows a list would have in all, whatever its limit. Looks at no more rows than `at_most` to find out, and says so where
    /// there is one more: counting costs what is looked at, however little of it matches. Where a query wants open rows, or closed
    /// ones, the others are not looked at. An engine that knows the number without looking may say it.
    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error>;

    /// Counters.
    fn stats(&self) -> Stats;

    /// Bytes that may still be written to the disk; `None` where the store has none of its own, or the system does not tell. Cheap:
    /// starts of runs ask each time.
    fn disk_free(&self) -> Option<u64>;

    /// Resolves when the store has failed (see [`Error::Failed`]) and the process should stop; otherwise never.
    async fn failed(&self) -> Error;

    /// Finishes what is under way and releases the files. Later calls answer [`Error::Failed`].
    async fn close(&self) -> Result<(), Error>;
}
