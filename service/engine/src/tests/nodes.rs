//! Tests with nodes that join and leave.

use std::sync::Arc;

use crate::{Engine, Node, Settings, SystemClock};

#[tokio::test]
async fn a_node_that_stops_is_struck_off_at_once() {
    let store = Arc::new(store::memory::Memory::new());
    let mut engines = Vec::new();
    for address in ["a", "b"] {
        let settings = Settings { node: Some(Node { address: address.to_owned() }), ..Settings::default() };
        let clock = Arc::new(SystemClock);
        engines.push(Engine::open(Arc::clone(&store) as _, clock, settings).await.unwrap());
    }
    assert_eq!(engines[1].nodes().alive(), ["a", "b"]);
    engines[0].nodes.leave().await.unwrap();
    assert!(engines[1].nodes.beat().await.unwrap());
    assert_eq!(engines[1].nodes().alive(), ["b"]);
}
