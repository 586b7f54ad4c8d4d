//! Low disk space, over the SWF protocol.

use std::sync::Arc;

use engine::{Engine, Settings, SystemClock};
use serde_json::{Value, json};
use store_embedded::{Embedded, Options};

use crate::support::{Swf, kind, register};

const RESERVE: u64 = 512 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_start_below_the_disk_reserve_returns_503() {
    let directory = tempfile::TempDir::new().unwrap();
    let options = Options::new(directory.path());
    let faults = Arc::clone(&options.faults);
    let settings = Settings { disk_reserve: RESERVE, ..Settings::default() };
    let store = Embedded::open(options).await.unwrap();
    let engine = Engine::open(store, Arc::new(SystemClock), settings).await.unwrap();
    let swf = Swf { router: service::api::router(engine) };
    faults.set_disk_free(RESERVE - 1);
    // Types can still be registered.
    register(&swf).await;
    let start = json!({ "domain": "default", "workflowId": "w", "workflowType": kind() });
    let refused = swf.ask("StartWorkflowExecution", &start).await;
    refused.status_is(503);
    let fault: Value = serde_json::from_str(&refused.text).unwrap();
    assert_eq!(fault["__type"], "com.amazon.coral.service#ServiceUnavailableException");
    let message = fault["message"].as_str().unwrap();
    assert!(message.contains("511 MiB are free") && message.contains("512 MiB are reserved"), "{message}");
    faults.set_disk_free(RESERVE);
    swf.ask("StartWorkflowExecution", &start).await.json();
}
