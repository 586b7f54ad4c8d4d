//! Write units are a budget: what each kind of commit consumes, indexes included, as the emulator bills it.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, Row, Store};
use support::Emulator;

#[tokio::test]
async fn each_kind_of_commit_stays_within_its_units() {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table().await.unwrap();
    let key = HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("order-1234567890") };
    let row = |closed_at| Row {
        workflow_type: Arc::from("order"),
        status: Arc::from("open"),
        started_at: 1,
        closed_at,
        tags: Vec::new(),
    };
    let size = store.limits().head_soft;
    let head = |version, due, closed_at, expires_at| Head {
        run: [7; 16],
        version,
        body: Bytes::from(vec![1; size]),
        due,
        row: Some(row(closed_at)),
        expires_at,
    };
    let steps = [
        ("start: head, due, row", 3.0, head(1, Some(30), None, None)),
        ("a commit that moves nothing, such as a signal", 1.0, head(2, Some(30), None, None)),
        ("a commit that moves due, such as a timer fired", 3.0, head(3, Some(60), None, None)),
        ("close: head, due removed, row moved, expiry added", 5.0, head(4, None, Some(50), Some(99))),
    ];
    for (what, budget, head) in steps {
        let version = head.version - 1;
        let expect = if version == 0 { Expect::Absent } else { Expect::Exactly { run: [7; 16], version } };
        assert_eq!(store.commit(&key, expect, &head, &[]).await.unwrap(), Cas::Won, "{what}");
        let units = emulator.units();
        assert!(units > 0.0 && units <= budget, "{what}: {units} units where {budget} are allowed");
    }
}
