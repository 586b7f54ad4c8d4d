//! The store passes the conformance suite on an emulator in the same process.

use std::sync::Arc;

use crate::support::Emulator;
use baton_store_dynamodb::Create;
use store::Store;

#[tokio::test(flavor = "multi_thread")]
async fn the_store_passes_the_conformance_suite() {
    store::conformance::all(async || {
        let store = Emulator::new().store();
        store.create_table(Create::default()).await.unwrap();
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_shared() {
    let emulator = Emulator::new();
    emulator.store().create_table(Create::default()).await.unwrap();
    store::conformance::only_a_shared_store_is_open_twice(async || Ok(Arc::new(emulator.store()) as Arc<dyn Store>))
        .await;
}
