//! Leftovers of lost commits and lost responses are harmless.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Emulator, Fault};
use baton_store_dynamodb::{Create, Dynamo, Options};
use bytes::Bytes;
use store::{Cas, Error, Expect, Head, HeadKey, ListQuery, PartKey, Row, Store};

fn key() -> HeadKey {
    HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("a") }
}

fn head(run: u8, version: u64, expires_at: Option<u64>) -> Head {
    let row = Row {
        workflow_type: "order".into(),
        status: "success".into(),
        flagged: false,
        started_at: 1,
        closed_at: Some(2),
        tags: Vec::new(),
        why: None,
    };
    Head { run: [run; 16], version, body: Bytes::from("b"), due: None, row: Some(row), expires_at }
}

/// Creates a table with a run at version 2, which expires at 99, and a kept copy of the run's version 1, which expires
/// at 10. Such a copy remains if a new run's commit loses against version 2.
async fn with_copy_of_an_older_version() -> Emulator {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table(Create::default()).await.unwrap();
    let (one, two) = (head(7, 1, Some(10)), head(7, 2, Some(99)));
    let chunk = [(PartKey::Chunk { last: 1 }, Bytes::from("c"))];
    assert_eq!(store.commit(&key(), Expect::Absent, &one, &chunk).await.unwrap(), Cas::Won);
    let first = Expect::Exactly { run: [7; 16], version: 1 };
    assert_eq!(store.commit(&key(), first, &two, &[]).await.unwrap(), Cas::Won);
    let lost = store.commit(&key(), Expect::Replacing(&one), &head(8, 2, None), &[]).await.unwrap();
    assert_eq!(lost, Cas::Lost(Some(two)));
    emulator
}

#[tokio::test]
async fn a_stale_copy_does_not_expire_the_current_run() {
    let store = with_copy_of_an_older_version().await.store();
    assert_eq!(store.expire(50, 10).await.unwrap(), 0);
    assert_eq!(store.load(&key()).await.unwrap(), Some(head(7, 2, Some(99))));
    assert_eq!(chunks(&store).await, 1);
    assert_eq!(store.expire(99, 10).await.unwrap(), 1);
    assert_eq!(store.load_run(&key(), [7; 16]).await.unwrap(), None, "its copy is deleted as well");
}

#[tokio::test]
async fn pages_of_limit_zero_end_despite_a_kept_copy() {
    let store = with_copy_of_an_older_version().await.store();
    let query = ListQuery { domain: "orders".into(), limit: 0, ..ListQuery::default() };
    let (mut page, mut rows) = (None, 0);
    for _ in 0..5 {
        let found = store.list(&query, page.as_ref()).await.unwrap();
        rows += found.rows.len();
        page = found.next;
        if page.is_none() {
            break;
        }
    }
    assert_eq!((rows, page), (1, None));
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_write_is_unknown_within_a_second() {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table(Create::default()).await.unwrap();
    emulator.inject([Some(Fault::Hangs)]);
    let since = tokio::time::Instant::now();
    let error = store.commit(&key(), Expect::Absent, &head(7, 1, None), &[]).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert!(since.elapsed() < Duration::from_millis(1_100), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_read_fails_within_four_seconds() {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table(Create::default()).await.unwrap();
    emulator.hang_reads();
    let since = tokio::time::Instant::now();
    let error = store.load(&key()).await.unwrap_err();
    assert!(matches!(error, Error::NotApplied { .. }), "{error}");
    assert!(since.elapsed() < Duration::from_millis(4_100), "{:?}", since.elapsed());
}

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

async fn with_chunk(options: Options) -> (Emulator, Dynamo) {
    let emulator = Emulator::new();
    let store = emulator.store_with(options);
    store.create_table(Create::default()).await.unwrap();
    assert_eq!(store.expire(HOUR, 10).await.unwrap(), 0, "passes the current time");
    let chunk = [(PartKey::Chunk { last: 1 }, Bytes::from("c"))];
    assert_eq!(store.commit(&key(), Expect::Absent, &head(7, 1, Some(DAY)), &chunk).await.unwrap(), Cas::Won);
    (emulator, store)
}

async fn chunks(store: &Dynamo) -> usize {
    store.chunks(&key(), [7; 16], 0, 1_000).await.unwrap().len()
}

#[tokio::test]
async fn orphaned_parts_are_deleted_after_a_day() {
    let options = Options { sweep_every_ms: 0, ..Options::new("baton") };
    let (emulator, store) = with_chunk(options).await;
    emulator.delete_item("W#orders#a", "H");
    assert_eq!(store.expire(HOUR + DAY - 1, 10).await.unwrap(), 0);
    assert_eq!(chunks(&store).await, 1, "a start may still be in progress");
    assert_eq!(store.expire(HOUR + DAY, 10).await.unwrap(), 1);
    assert_eq!(chunks(&store).await, 0);
}

#[tokio::test]
async fn parts_of_current_and_kept_heads_are_not_deleted() {
    let options = Options { sweep_every_ms: 0, ..Options::new("baton") };
    let (_, store) = with_chunk(options).await;
    let old = store.load(&key()).await.unwrap().unwrap();
    let newer = head(8, 2, None);
    let chunk = [(PartKey::Chunk { last: 1 }, Bytes::from("c"))];
    assert_eq!(store.commit(&key(), Expect::Replacing(&old), &newer, &chunk).await.unwrap(), Cas::Won);
    assert_eq!(store.expire(HOUR + 2 * DAY, 10).await.unwrap(), 0);
    assert_eq!(chunks(&store).await, 1);
    assert_eq!(store.chunks(&key(), [8; 16], 0, 1_000).await.unwrap().len(), 1);
}

#[tokio::test]
async fn ttl_never_precedes_the_expiry() {
    let (emulator, store) = with_chunk(Options::new("baton")).await;
    let first = Expect::Exactly { run: [7; 16], version: 1 };
    assert_eq!(store.commit(&key(), first, &head(7, 2, Some(1_001)), &[]).await.unwrap(), Cas::Won);
    let at = serde_json::json!({"TableName": "baton", "Key": {"k": {"S": "W#orders#a"}, "s": {"S": "H"}}});
    assert_eq!(emulator.send("GetItem", &at)["Item"]["ttl"]["N"], "2");
}

#[tokio::test]
async fn heads_are_left_to_ttl_for_three_days() {
    let options = Options { sweep_every_ms: 0, ..Options::new("baton") };
    let (_, store) = with_chunk(options).await;
    assert_eq!(store.expire(4 * DAY - 1, 10).await.unwrap(), 0);
    assert_eq!(store.expire(4 * DAY, 10).await.unwrap(), 1);
    assert_eq!((store.load(&key()).await.unwrap(), chunks(&store).await), (None, 0));
}

#[tokio::test]
async fn a_sweep_waits_for_its_interval() {
    let (_, store) = with_chunk(Options { has_ttl: false, sweep_every_ms: HOUR, ..Options::new("baton") }).await;
    let before = store.stats();
    assert_eq!(store.expire(2 * HOUR - 1, 10).await.unwrap(), 0);
    assert_eq!(store.stats(), before);
    assert_eq!(store.expire(2 * HOUR, 10).await.unwrap(), 0);
    assert!(store.stats().read_units > before.read_units);
    assert_eq!(store.expire(3 * HOUR, 10).await.unwrap(), 0);
    assert_eq!(store.expire(DAY, 10).await.unwrap(), 1);
}

#[tokio::test]
async fn a_large_table_is_swept_in_segments() {
    let (_, store) = with_chunk(Options { has_ttl: false, sweep_every_ms: HOUR, ..Options::new("baton") }).await;
    for number in 0..400_u16 {
        let key = HeadKey { domain: Arc::from("orders"), workflow_id: format!("w-{number}").into() };
        assert_eq!(store.commit(&key, Expect::Absent, &head(9, 1, Some(DAY)), &[]).await.unwrap(), Cas::Won);
    }
    let (mut forgotten, mut calls) = (0, 0);
    while forgotten < 401 && calls < 20 {
        calls += 1;
        forgotten += store.expire(DAY + calls * HOUR, 50).await.unwrap();
    }
    assert_eq!(forgotten, 401);
    assert!(calls > 8, "at most 50 per call: {calls}");
}
