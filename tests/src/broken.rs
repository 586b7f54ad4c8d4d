//! Stores that each break their contract in one way. The simulation must detect each defect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Cas, Count, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, Mark, PageToken, PartKey, RunId, Stats,
    Store, UnixMs,
};
use tokio::sync::Notify;

use crate::intercepted::{Commit, Intercepted, Interceptor};

/// Defect of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// No defect.
    Nothing,
    /// A commit whose condition does not hold is written anyway, over the commit that won.
    IgnoresVersions,
    /// Some commits are acknowledged but not written, as by a store that responds before data is durable and then
    /// crashes.
    ForgetsAcknowledged,
    /// Some commits with an unknown outcome are reported as won, although nothing was written.
    SaysUnknownIsWon,
    /// The due index is empty.
    LosesDue,
    /// Event chunks are not written.
    LosesChunks,
    /// Marks disappear immediately.
    LosesMarks,
}

/// A store with a defect.
pub struct Broken {
    store: Arc<dyn Store>,
    how: Break,
    commits: AtomicU64,
}

impl Broken {
    /// Creates a store with a defect over another store.
    pub fn over(store: Arc<dyn Store>, how: Break) -> Intercepted<Self> {
        Intercepted(Self { store, how, commits: AtomicU64::new(0) })
    }

    fn every(&self, nth: u64) -> bool {
        self.commits.fetch_add(1, Ordering::SeqCst) % nth == nth - 1
    }
}

#[async_trait]
impl Interceptor for Broken {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn limits(&self) -> Limits {
        // Heads are small, so that chunks are written, too.
        Limits { head_soft: 600, ..self.store.limits() }
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        match self.how {
            Break::ForgetsAcknowledged if self.every(60) => return Ok(Cas::Won),
            Break::SaysUnknownIsWon if self.every(20) => return Ok(Cas::Won),
            Break::LosesChunks => {
                let kept: Vec<_> =
                    parts.iter().filter(|(key, _)| !matches!(key, PartKey::Chunk { .. })).cloned().collect();
                return self.store.commit(key, expect, head, &kept).await;
            }
            Break::IgnoresVersions => {
                let answer = self.store.commit(key, expect, head, parts).await?;
                let Cas::Lost(Some(there)) = &answer else { return Ok(answer) };
                let expect = if there.run == head.run {
                    Expect::Exactly { run: there.run, version: there.version }
                } else {
                    Expect::Replacing(there)
                };
                let over = Head { version: there.version + 1, ..head.clone() };
                return self.store.commit(key, expect, &over, parts).await;
            }
            _ => {}
        }
        self.store.commit(key, expect, head, parts).await
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        if self.how == Break::LosesMarks {
            return Ok(());
        }
        self.store.put_marks(key, marks).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        if self.how == Break::LosesDue {
            return Ok(Vec::new());
        }
        self.store.due(shard, until, after, limit).await
    }
}

/// Store of a node that dies permanently at one write: no call returns after that write.
pub struct Dying {
    store: Arc<dyn Store>,
    at: u64,
    lands: bool,
    writes: AtomicU64,
    is_dead: AtomicBool,
    dies: Notify,
}

impl Dying {
    /// Creates the store. The node dies at the `at`th write, counted from 0: after the write if it `lands`, otherwise
    /// before it.
    pub fn new(store: Arc<dyn Store>, at: u64, lands: bool) -> Self {
        let (writes, is_dead, dies) = (AtomicU64::new(0), AtomicBool::new(false), Notify::new());
        Self { store, at, lands, writes, is_dead, dies }
    }

    /// Makes the node die now.
    pub fn kill(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.dies.notify_one();
    }

    /// Returns whether the node is dead.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    /// Resolves when the node dies.
    pub async fn died(&self) {
        while !self.is_dead() {
            self.dies.notified().await;
        }
    }

    fn reaches_its_end(&self) -> bool {
        self.writes.fetch_add(1, Ordering::SeqCst) == self.at
    }

    async fn die<T>(&self) -> T {
        self.is_dead.store(true, Ordering::SeqCst);
        self.dies.notify_one();
        std::future::pending().await
    }

    async fn alive<T>(&self, call: impl Future<Output = T>) -> T {
        if self.is_dead() {
            return std::future::pending().await;
        }
        let answer = call.await;
        // The node died while the call was under way.
        if self.is_dead() { std::future::pending().await } else { answer }
    }
}

#[async_trait]
impl Store for Dying {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.alive(self.store.load(key)).await
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        self.alive(self.store.load_run(key, run)).await
    }

    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        if self.reaches_its_end() {
            if self.lands {
                drop(self.store.commit(key, expect, head, parts).await);
            }
            return self.die().await;
        }
        self.alive(self.store.commit(key, expect, head, parts)).await
    }

    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error> {
        if self.reaches_its_end() {
            if self.lands {
                drop(self.store.put_kept(key, head, parts).await);
            }
            return self.die().await;
        }
        self.alive(self.store.put_kept(key, head, parts)).await
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        if self.reaches_its_end() {
            if self.lands {
                drop(self.store.put_part(key, run, part, bytes).await);
            }
            return self.die().await;
        }
        self.alive(self.store.put_part(key, run, part, bytes)).await
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        self.alive(self.store.parts(key, run, want)).await
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        if self.reaches_its_end() {
            if self.lands {
                drop(self.store.put_marks(key, marks).await);
            }
            return self.die().await;
        }
        self.alive(self.store.put_marks(key, marks)).await
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        self.alive(self.store.marks(key, names)).await
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.alive(self.store.chunks(key, run, from_event, max_bytes)).await
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.alive(self.store.chunks_back(key, run, before_event, max_bytes)).await
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.alive(self.store.drop_run(key, run)).await
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        self.alive(self.store.expire(now, limit)).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.alive(self.store.due(shard, until, after, limit)).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.alive(self.store.list(query, page)).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        self.alive(self.store.count(query, at_most)).await
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn disk_free(&self) -> Option<u64> {
        self.store.disk_free()
    }

    async fn failed(&self) -> Error {
        self.store.failed().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.store.close().await
    }
}
