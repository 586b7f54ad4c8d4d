//! The memory store passes the conformance suite, both directly and inside a fault store that is switched off.

use std::sync::Arc;

use baton_store::Store;
use baton_store::fault::{Chances, FaultStore};
use baton_store::memory::Memory;

#[tokio::test]
async fn memory_keeps_the_contract() {
    baton_store::conformance::all(async || Arc::new(Memory::new()) as Arc<dyn Store>).await;
}

#[tokio::test]
async fn a_memory_store_is_not_shared() {
    baton_store::conformance::only_a_shared_store_is_open_twice(async || Ok(Arc::new(Memory::new()) as Arc<dyn Store>))
        .await;
}

#[tokio::test]
async fn a_fault_store_keeps_the_contract_while_it_is_switched_off() {
    baton_store::conformance::all(async || {
        let faulty = FaultStore::new(Arc::new(Memory::new()), 1, Chances::frequent());
        faulty.set_on(false);
        Arc::new(faulty) as Arc<dyn Store>
    })
    .await;
}
