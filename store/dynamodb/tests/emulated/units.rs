//! Budget of write units for each kind of commit, indexes included, as billed by the emulator.

use std::sync::Arc;

use crate::support::Emulator;
use baton_store_dynamodb::Create;
use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, ListQuery, Row, Store};

#[tokio::test]
async fn each_kind_of_commit_stays_within_its_units() {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table(Create::default()).await.unwrap();
    let key = HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("order-1234567890") };
    let row = |status: &str, closed_at| Row {
        workflow_type: Arc::from("order"),
        status: Arc::from(status),
        flagged: !matches!(status, "open" | "success"),
        started_at: 1,
        closed_at,
        tags: Vec::new(),
        why: None,
    };
    let head = |version, status, due, closed_at, expires_at| Head {
        run: [7; 16],
        version,
        body: uneven(700),
        due,
        row: Some(row(status, closed_at)),
        expires_at,
    };
    let steps = [
        ("start: head, due, row", 3, head(1, "open", Some(30), None, None)),
        ("a commit that moves nothing, such as a signal", 1, head(2, "open", Some(30), None, None)),
        ("a commit that moves due, such as a timer fired", 3, head(3, "open", Some(60), None, None)),
        ("flagged: head, row moved", 3, head(4, "retrying", Some(60), None, None)),
        ("a commit of a run that stays flagged", 1, head(5, "retrying", Some(60), None, None)),
        ("flagged otherwise: head, row", 2, head(6, "blocked", Some(60), None, None)),
        ("flagged no longer: head, row moved", 3, head(7, "open", Some(60), None, None)),
        ("close: head, due removed, row moved", 4, head(8, "success", None, Some(10_001), Some(99))),
        (
            "close after more than ten seconds: additionally a row by close",
            1,
            head(9, "success", None, Some(10_001), Some(99)),
        ),
    ];
    for (what, budget, head) in steps {
        let version = head.version - 1;
        let expect = if version == 0 { Expect::Absent } else { Expect::Exactly { run: [7; 16], version } };
        let before = store.stats().write_units;
        assert_eq!(store.commit(&key, expect, &head, &[]).await.unwrap(), Cas::Won, "{what}");
        let units = store.stats().write_units - before;
        assert!(units > 0 && units <= budget, "{what}: {units} units, at most {budget} are allowed");
    }
}

/// Rows as the engine writes them.
#[tokio::test]
async fn counting_flagged_rows_does_not_pay_for_others() {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table(Create::default()).await.unwrap();
    let start = async |index: u16, status: &str| {
        let workflow_id = Arc::from(format!("order-12345678{index:04}"));
        let key = HeadKey { domain: Arc::from("default"), workflow_id };
        let row = Row {
            workflow_type: Arc::from("order"),
            status: Arc::from(status),
            flagged: status != "open",
            started_at: 1_700_000_000_000 + u64::from(index),
            closed_at: None,
            tags: Vec::new(),
            why: None,
        };
        let head = Head { run: [7; 16], version: 1, body: uneven(9), due: None, row: Some(row), expires_at: None };
        assert_eq!(store.commit(&key, Expect::Absent, &head, &[]).await.unwrap(), Cas::Won);
    };
    let count = async |flagged| {
        let query = ListQuery {
            domain: Arc::from("default"),
            open: Some(true),
            flagged: Some(flagged),
            ..ListQuery::default()
        };
        let before = store.stats().read_units;
        let count = store.count(&query, u64::MAX).await.unwrap();
        let billed = store.stats().read_units - before;
        assert!(count.read_units.abs_diff(billed) <= 1, "{count:?}, but {billed} were billed");
        (count.total(), count.read_units)
    };
    for index in 0..3 {
        start(index, "stuck").await;
    }
    for index in 100..700 {
        start(index, "open").await;
    }
    // A query of a shard costs half a unit for each 8 KB of data that it reads, and at least half a unit. There are
    // four shards.
    assert_eq!(count(true).await, (3, 2));
    let (open, units) = count(false).await;
    println!("{units} read units for {open} rows");
    assert_eq!(open, 600);
    assert!((8..=16).contains(&units), "{units} read units, but docs/dynamodb-costs.md says 21 per thousand");
}

/// Returns incompressible bytes.
fn uneven(count: usize) -> Bytes {
    let mut state = 7_u64;
    let mut byte = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        state.to_be_bytes()[0]
    };
    (0..count).map(|_| byte()).collect()
}

#[tokio::test]
async fn a_head_at_the_soft_limit_takes_one_unit() {
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
    let mut billed = store.stats().write_units;
    for (version, count, budget) in [(2, fits, 1), (3, fits + 1, 2)] {
        let expect = Expect::Exactly { run: [7; 16], version: version - 1 };
        assert_eq!(store.commit(&key, expect, &head(version, count), &[]).await.unwrap(), Cas::Won);
        let units = store.stats().write_units;
        assert_eq!(units - std::mem::replace(&mut billed, units), budget, "{count} bytes");
        assert_eq!(store.load(&key).await.unwrap(), Some(head(version, count)));
    }
}

#[tokio::test]
async fn a_compressible_body_takes_one_unit() {
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
async fn a_lost_commit_is_billed_by_the_existing_item() {
    let store = Emulator::new().store();
    store.create_table(Create::default()).await.unwrap();
    let key = HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("a") };
    let head = |body| Head { run: [7; 16], version: 1, body, due: None, row: None, expires_at: None };
    assert_eq!(store.commit(&key, Expect::Absent, &head(uneven(2_500)), &[]).await.unwrap(), Cas::Won);
    let billed = store.stats().write_units;
    let lost = store.commit(&key, Expect::Absent, &head(Bytes::new()), &[]).await.unwrap();
    assert_eq!(lost, Cas::Lost(Some(head(uneven(2_500)))));
    assert_eq!(store.stats().write_units - billed, 3);
}
