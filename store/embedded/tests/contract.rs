//! The embedded store passes the conformance suite with all data in memory and with all data in redb.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

use std::sync::Arc;
use std::sync::Mutex;

use baton_store_embedded::{Embedded, Options};
use store::Store;
use tempfile::TempDir;

async fn keeps_the_contract(options: impl Fn(Options) -> Options) {
    let directories: Mutex<Vec<TempDir>> = Mutex::default();
    store::conformance::all(async || {
        let directory = TempDir::new().unwrap();
        let store = Embedded::open(options(Options::new(directory.path()))).await.unwrap();
        directories.lock().unwrap().push(directory);
        store as Arc<dyn Store>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds() {
    keeps_the_contract(|options| options).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_if_all_data_goes_to_redb_at_once() {
    keeps_the_contract(|options| Options { memory_bytes: 2, segment_bytes: 4096, ..options }).await;
}

#[tokio::test]
async fn the_contract_holds_on_one_thread() {
    keeps_the_contract(|options| options).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedded_store_is_not_shared() {
    let directory = TempDir::new().unwrap();
    store::conformance::only_a_shared_store_is_open_twice(async || {
        Embedded::open(Options::new(directory.path())).await.map(|store| store as Arc<dyn Store>)
    })
    .await;
}
