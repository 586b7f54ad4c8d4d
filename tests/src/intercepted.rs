//! A store with intercepted calls. An interceptor implements only the calls that it changes. All other calls go to the
//! store below.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Cas, Count, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, Mark, PageToken, PartKey, RunId, Stats,
    Store, UnixMs,
};

/// Arguments of [`Store::commit`].
pub struct Commit<'a> {
    /// Key of the head: domain and workflow id.
    pub key: &'a HeadKey,
    /// Condition of the commit.
    pub expect: Expect<'a>,
    /// Head to write.
    pub head: &'a Head,
    /// Parts to write together with the head.
    pub parts: &'a [(PartKey, Bytes)],
}

/// Calls of a [`Store`], each of which goes to the store below by default.
#[async_trait]
#[expect(missing_docs, reason = "documented at `Store`")]
pub trait Interceptor: Send + Sync + 'static {
    /// Returns the store below.
    fn store(&self) -> &Arc<dyn Store>;

    fn limits(&self) -> Limits {
        self.store().limits()
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.store().load(key).await
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        self.store().load_run(key, run).await
    }

    async fn commit(&self, commit: Commit<'_>) -> Result<Cas, Error> {
        let Commit { key, expect, head, parts } = commit;
        self.store().commit(key, expect, head, parts).await
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        self.store().put_part(key, run, part, bytes).await
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        self.store().parts(key, run, want).await
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        self.store().put_marks(key, marks).await
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        self.store().marks(key, names).await
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.store().chunks(key, run, from_event, max_bytes).await
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.store().chunks_back(key, run, before_event, max_bytes).await
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.store().drop_run(key, run).await
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        self.store().expire(now, limit).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.store().due(shard, until, after, limit).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.store().list(query, page).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        self.store().count(query, at_most).await
    }
}

/// A store whose calls go through an interceptor.
pub struct Intercepted<M>(pub M);

#[async_trait]
impl<M: Interceptor> Store for Intercepted<M> {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn weight(&self, key: &HeadKey, head: &Head) -> usize {
        self.0.store().weight(key, head)
    }

    fn due_shard(&self, key: &HeadKey) -> u32 {
        self.0.store().due_shard(key)
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        self.0.load(key).await
    }

    async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
        self.0.load_run(key, run).await
    }

    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        self.0.commit(Commit { key, expect, head, parts }).await
    }

    async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error> {
        self.0.store().put_kept(key, head, parts).await
    }

    async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
        self.0.put_part(key, run, part, bytes).await
    }

    async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
        self.0.parts(key, run, want).await
    }

    async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
        self.0.put_marks(key, marks).await
    }

    async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
        self.0.marks(key, names).await
    }

    async fn chunks(
        &self,
        key: &HeadKey,
        run: RunId,
        from_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.0.chunks(key, run, from_event, max_bytes).await
    }

    async fn chunks_back(
        &self,
        key: &HeadKey,
        run: RunId,
        before_event: u64,
        max_bytes: usize,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        self.0.chunks_back(key, run, before_event, max_bytes).await
    }

    async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
        self.0.drop_run(key, run).await
    }

    async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
        self.0.expire(now, limit).await
    }

    async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
        self.0.due(shard, until, after, limit).await
    }

    async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
        self.0.list(query, page).await
    }

    async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
        self.0.count(query, at_most).await
    }

    fn stats(&self) -> Stats {
        self.0.store().stats()
    }

    fn disk_free(&self) -> Option<u64> {
        self.0.store().disk_free()
    }

    async fn failed(&self) -> Error {
        self.0.store().failed().await
    }

    async fn close(&self) -> Result<(), Error> {
        self.0.store().close().await
    }
}
