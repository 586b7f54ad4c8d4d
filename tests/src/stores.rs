//! The store of a test: in memory, or with the feature `dynamodb` a separate table of the DynamoDB that
//! `BATON_TEST_DYNAMODB` names. Tests must pass with both.

use std::sync::Arc;

use store::memory::Memory;
use store::{Limits, Store};

/// Creates an empty store.
pub async fn fresh() -> Arc<dyn Store> {
    with_due_shards(Memory::new().limits().due_shards).await
}

/// Creates an empty store whose due index has this number of shards.
#[cfg_attr(not(feature = "dynamodb"), expect(clippy::unused_async, reason = "a table is not there at once"))]
pub async fn with_due_shards(due_shards: u32) -> Arc<dyn Store> {
    #[cfg(feature = "dynamodb")]
    if let Ok(endpoint) = std::env::var("BATON_TEST_DYNAMODB") {
        return Arc::new(dynamo::AtRest(dynamo::table(&endpoint, due_shards).await.0));
    }
    Arc::new(Memory::with_limits(Limits { due_shards, ..Memory::new().limits() }))
}

/// Creates an empty table and returns its name.
#[cfg(feature = "dynamodb")]
pub async fn new_table(endpoint: &str) -> String {
    dynamo::table(endpoint, 16).await.1
}

/// Opens the store on an existing table.
///
/// # Errors
///
/// If the table cannot be used.
#[cfg(feature = "dynamodb")]
pub async fn over_table(endpoint: &str, table: &str) -> Result<Arc<dyn Store>, String> {
    match dynamo::over(endpoint, table, 16).open().await {
        Ok((store, _)) => Ok(Arc::new(store)),
        Err(trouble) => Err(trouble.to_string()),
    }
}

/// Returns the number of repetitions of a test: `count` in memory, and over a network a tenth of it, but at least one.
/// Intended for repetitions that take more than a few seconds over a network.
pub fn many(count: u64) -> u64 {
    if is_memory() { count } else { (count / 10).max(1) }
}

/// Returns whether stores are in memory.
pub fn is_memory() -> bool {
    !cfg!(feature = "dynamodb") || std::env::var_os("BATON_TEST_DYNAMODB").is_none()
}

#[cfg(feature = "dynamodb")]
mod dynamo {
    use std::future::Future;
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
    use bytes::Bytes;
    use store::{
        Cas, Count, Due, Error, Expect, Head, HeadKey, Limits, ListPage, ListQuery, Mark, PageToken, PartKey, RunId,
        Stats, Store, UnixMs,
    };
    use store_dynamodb::{Create, Dynamo, Options};

    /// Creates a table for one test. It is not deleted: DynamoDB Local keeps tables in memory until it stops.
    pub(super) async fn table(endpoint: &str, due_shards: u32) -> (Dynamo, String) {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("baton-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let store = AtRest(over(endpoint, &name, due_shards));
        at_rest(store.0.create_table(Create::default())).await.expect("an engine that makes tables");
        (store.0, name)
    }

    /// Returns a store over a table that was not read yet.
    pub(super) fn over(endpoint: &str, table: &str, due_shards: u32) -> Dynamo {
        let credentials =
            Credentials::builder().access_key_id("local").secret_access_key("local").provider_name("test");
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("local"))
            .endpoint_url(endpoint)
            .credentials_provider(credentials.build())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        let options = Options { due_shards, has_ttl: false, sweep_every_ms: 0, ..Options::new(table) };
        Dynamo::new(&config, endpoint, options)
    }

    /// Waits for a response from the network. A paused clock would advance while the test is idle, so it is stopped
    /// during the wait.
    async fn at_rest<T>(call: impl Future<Output = T>) -> T {
        let (_until_then, over) = std::sync::mpsc::channel::<()>();
        drop(tokio::task::spawn_blocking(move || over.recv()));
        call.await
    }

    /// A store whose calls take no time on the paused clock of a test.
    pub(super) struct AtRest(pub(super) Dynamo);

    #[async_trait]
    impl Store for AtRest {
        fn limits(&self) -> Limits {
            self.0.limits()
        }

        fn weight(&self, key: &HeadKey, head: &Head) -> usize {
            self.0.weight(key, head)
        }

        fn due_shard(&self, key: &HeadKey) -> u32 {
            self.0.due_shard(key)
        }

        async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
            at_rest(self.0.load(key)).await
        }

        async fn load_run(&self, key: &HeadKey, run: RunId) -> Result<Option<Head>, Error> {
            at_rest(self.0.load_run(key, run)).await
        }

        async fn commit(
            &self,
            key: &HeadKey,
            expect: Expect<'_>,
            head: &Head,
            parts: &[(PartKey, Bytes)],
        ) -> Result<Cas, Error> {
            at_rest(self.0.commit(key, expect, head, parts)).await
        }

        async fn put_kept(&self, key: &HeadKey, head: &Head, parts: &[(PartKey, Bytes)]) -> Result<Cas, Error> {
            at_rest(self.0.put_kept(key, head, parts)).await
        }

        async fn put_part(&self, key: &HeadKey, run: RunId, part: PartKey, bytes: Bytes) -> Result<(), Error> {
            at_rest(self.0.put_part(key, run, part, bytes)).await
        }

        async fn parts(&self, key: &HeadKey, run: RunId, want: &[PartKey]) -> Result<Vec<Option<Bytes>>, Error> {
            at_rest(self.0.parts(key, run, want)).await
        }

        async fn put_marks(&self, key: &HeadKey, marks: &[Mark]) -> Result<(), Error> {
            at_rest(self.0.put_marks(key, marks)).await
        }

        async fn marks(&self, key: &HeadKey, names: &[u64]) -> Result<Vec<Option<Bytes>>, Error> {
            at_rest(self.0.marks(key, names)).await
        }

        async fn chunks(
            &self,
            key: &HeadKey,
            run: RunId,
            from_event: u64,
            max_bytes: usize,
        ) -> Result<Vec<(u64, Bytes)>, Error> {
            at_rest(self.0.chunks(key, run, from_event, max_bytes)).await
        }

        async fn chunks_back(
            &self,
            key: &HeadKey,
            run: RunId,
            before_event: u64,
            max_bytes: usize,
        ) -> Result<Vec<(u64, Bytes)>, Error> {
            at_rest(self.0.chunks_back(key, run, before_event, max_bytes)).await
        }

        async fn drop_run(&self, key: &HeadKey, run: RunId) -> Result<(), Error> {
            at_rest(self.0.drop_run(key, run)).await
        }

        async fn expire(&self, now: UnixMs, limit: usize) -> Result<usize, Error> {
            at_rest(self.0.expire(now, limit)).await
        }

        async fn due(&self, shard: u32, until: UnixMs, after: Option<&Due>, limit: usize) -> Result<Vec<Due>, Error> {
            at_rest(self.0.due(shard, until, after, limit)).await
        }

        async fn list(&self, query: &ListQuery, page: Option<&PageToken>) -> Result<ListPage, Error> {
            at_rest(self.0.list(query, page)).await
        }

        async fn count(&self, query: &ListQuery, at_most: u64) -> Result<Count, Error> {
            at_rest(self.0.count(query, at_most)).await
        }

        fn stats(&self) -> Stats {
            self.0.stats()
        }

        fn disk_free(&self) -> Option<u64> {
            self.0.disk_free()
        }

        async fn failed(&self) -> Error {
            self.0.failed().await
        }

        async fn close(&self) -> Result<(), Error> {
            self.0.close().await
        }
    }
}
