//! The store passes the conformance suite on a real engine: Amazon's DynamoDB Local, or the endpoint in
//! `BATON_TEST_DYNAMODB`.
//!
//! This is not part of the default tests. Run it with `cargo test -p baton-store-dynamodb --features engine --test
//! engine`.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use baton_store_dynamodb::{Create, Dynamo, Options};
use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, Store};

/// Returns the endpoint of the engine.
fn endpoint() -> String {
    std::env::var("BATON_TEST_DYNAMODB").expect(
        "set BATON_TEST_DYNAMODB to an endpoint; `.ci/dynamodb-local 8000` runs Amazon's (it needs Java 17 and \
         Maven), then BATON_TEST_DYNAMODB=http://127.0.0.1:8000",
    )
}

fn config() -> Config {
    let credentials = Credentials::builder().access_key_id("local").secret_access_key("local").provider_name("test");
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("local"))
        .endpoint_url(endpoint())
        .credentials_provider(credentials.build())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}

/// Tables of this test, which are deleted at its end.
#[derive(Default)]
struct Tables {
    made: Mutex<Vec<String>>,
    count: AtomicU32,
}

impl Tables {
    async fn make(&self, name: &str) -> Dynamo {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let table = format!("baton-test-{name}-{}-{count}", std::process::id());
        self.made.lock().unwrap().push(table.clone());
        let options = Options { due_shards: 1, has_ttl: false, sweep_every_ms: 0, ..Options::new(table) };
        let store = Dynamo::new(&config(), endpoint(), options);
        assert!(store.create_table(Create::default()).await.unwrap(), "it has TTL");
        store
    }

    async fn delete(self) {
        let client = Client::from_conf(config());
        for table in self.made.into_inner().unwrap() {
            client.delete_table().table_name(table).send().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_on_a_real_engine() {
    let tables = Tables::default();
    store::conformance::all(async || Arc::new(tables.make("contract").await) as Arc<dyn Store>).await;
    tables.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_can_be_created_and_counts_its_units() {
    let tables = Tables::default();
    let made = tables.make("units").await;
    let checked = made.check().await.unwrap();
    assert!(checked.has_ttl && !checked.is_protected, "{checked:?}");
    let (store, _) = made.open().await.unwrap();
    let key = HeadKey { domain: "orders".into(), workflow_id: "a".into() };
    let head =
        |version| Head { run: [7; 16], version, body: Bytes::from("b"), due: Some(9), row: None, expires_at: None };
    assert_eq!(store.commit(&key, Expect::Absent, &head(1), &[]).await.unwrap(), Cas::Won);
    assert_eq!(store.stats().write_units, 2, "the head and its row of `due`");
    let first = Expect::Exactly { run: [7; 16], version: 1 };
    assert_eq!(store.commit(&key, first.clone(), &head(2), &[]).await.unwrap(), Cas::Won);
    assert_eq!(store.stats().write_units, 3, "its row of `due` is unchanged");
    assert_eq!(store.commit(&key, first, &head(2), &[]).await.unwrap(), Cas::Lost(Some(head(2))));
    assert_eq!(store.stats().write_units, 4, "a lost commit is billed as well");
    tables.delete().await;
}
