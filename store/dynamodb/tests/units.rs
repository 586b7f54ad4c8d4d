//! Write units are a budget: what each kind of commit consumes, indexes included, as the emulator bills it.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, Row, Store};
use store_dynamodb::Create;
use support::Emulator;

#[tokio::test]
async fn each_kind_of_commit_stays_within_its_units() {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table(Create::default()).await.unwrap();
    let key = HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("order-1234567890") };
    let row = |closed_at| Row {
        workflow_type: Arc::from("order"),
        status: Arc::from("open"),
        started_at: 1,
        closed_at,
        tags: Vec::new(),
    };
    let head = |version, due, closed_at, expires_at| Head {
        run: [7; 16],
        version,
        body: uneven(700),
        due,
        row: Some(row(closed_at)),
        expires_at,
    };
    let steps = [
        ("start: head, due, row", 3, head(1, Some(30), None, None)),
        ("a commit that moves nothing, such as a signal", 1, head(2, Some(30), None, None)),
        ("a commit that moves due, such as a timer fired", 3, head(3, Some(60), None, None)),
        ("close: head, due removed, row moved", 4, head(4, None, Some(10_001), Some(99))),
        (
            "close of what was open for more than ten seconds: a row by close, too",
            1,
            head(5, None, Some(10_001), Some(99)),
        ),
    ];
    for (what, budget, head) in steps {
        let version = head.version - 1;
        let expect = if version == 0 { Expect::Absent } else { Expect::Exactly { run: [7; 16], version } };
        let before = store.stats().write_units;
        assert_eq!(store.commit(&key, expect, &head, &[]).await.unwrap(), Cas::Won, "{what}");
        let units = store.stats().write_units - before;
        assert!(units > 0 && units <= budget, "{what}: {units} units where {budget} are allowed");
    }
}

/// Bytes that cannot be made smaller.
fn uneven(count: usize) -> Bytes {
    let mut state = 7_u64;
    let mut byte = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| byte()).collect()
}

#[tokio::test]
async fn a_head_whose_weight_is_the_soft_limit_takes_one_unit_and_one_byte_more_two() {
    let store = Emulator::new().store();
    store.create_table(Create::default()).await.unwrap();
    let key = HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("order-1234567890") };
    let head = |version, count| Head {
        run: [7; 16],
        version,
        body: uneven(count),
        due: Some(1_700_000_000_000),
        row: None,
        expires_at: None,
    };
    let soft = store.limits().head_soft;
    let fits = soft - store.weight(&key, &head(2, 0));
    assert_eq!(store.weight(&key, &head(2, fits)), soft);
    store.commit(&key, Expect::Absent, &head(1, 0), &[]).await.unwrap();
    let mut told = store.stats().write_units;
    for (version, count, budget) in [(2, fits, 1), (3, fits + 1, 2)] {
        let expect = Expect::Exactly { run: [7; 16], version: version - 1 };
        assert_eq!(store.commit(&key, expect, &head(version, count), &[]).await.unwrap(), Cas::Won);
        let units = store.stats().write_units;
        assert_eq!(units - std::mem::replace(&mut told, units), budget, "{count} bytes");
        assert_eq!(store.load(&key).await.unwrap(), Some(head(version, count)));
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_for_a_unit_as_it_is_takes_one_when_it_can_be_made_smaller() {
    let store = Emulator::new().store();
    store.create_table(Create::default()).await.unwrap();
    let key = HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("a") };
    let body = Bytes::from("the same words again and again; ".repeat(200));
    let head = Head { run: [7; 16], version: 1, body, due: None, row: None, expires_at: None };
    assert_eq!(store.commit(&key, Expect::Absent, &head, &[]).await.unwrap(), Cas::Won);
    assert_eq!(store.stats().write_units, 1);
    assert_eq!(store.load(&key).await.unwrap(), Some(head));
}

#[tokio::test]
async fn a_lost_commit_takes_the_units_of_what_it_met() {
    let store = Emulator::new().store();
    store.create_table(Create::default()).await.unwrap();
    let key = HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("a") };
    let head = |body| Head { run: [7; 16], version: 1, body, due: None, row: None, expires_at: None };
    assert_eq!(store.commit(&key, Expect::Absent, &head(uneven(2_500)), &[]).await.unwrap(), Cas::Won);
    let told = store.stats().write_units;
    let lost = store.commit(&key, Expect::Absent, &head(Bytes::new()), &[]).await.unwrap();
    assert_eq!(lost, Cas::Lost(Some(head(uneven(2_500)))));
    assert_eq!(store.stats().write_units - told, 3);
}
