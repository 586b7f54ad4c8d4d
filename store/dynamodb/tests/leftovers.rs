//! What a commit that was lost, or an answer that never came, leaves behind does no harm.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not take for tests")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{Cas, Error, Expect, Head, HeadKey, ListQuery, Row, Store};
use support::{Emulator, Fault};

fn key() -> HeadKey {
    HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("a") }
}

fn head(run: u8, version: u64, expires_at: Option<u64>) -> Head {
    let row = Row {
        workflow_type: "order".into(),
        status: "success".into(),
        started_at: 1,
        closed_at: Some(2),
        tags: Vec::new(),
    };
    Head { run: [run; 16], version, body: Bytes::from("b"), due: None, row: Some(row), expires_at }
}

/// A run in the head at version 2, which expires at 99, and beside it a copy of its version 1, which expires at 10: what
/// a new run's commit leaves that lost to version 2.
async fn with_copy_of_an_older_version() -> Emulator {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table().await.unwrap();
    let (one, two) = (head(7, 1, Some(10)), head(7, 2, Some(99)));
    assert_eq!(store.commit(&key(), Expect::Absent, &one, &[]).await.unwrap(), Cas::Won);
    let first = Expect::Exactly { run: [7; 16], version: 1 };
    assert_eq!(store.commit(&key(), first, &two, &[]).await.unwrap(), Cas::Won);
    let lost = store.commit(&key(), Expect::Replacing(&one), &head(8, 2, None), &[]).await.unwrap();
    assert_eq!(lost, Cas::Lost(Some(two)));
    emulator
}

#[tokio::test]
async fn a_copy_left_by_a_lost_commit_does_not_make_the_current_run_expire() {
    let store = with_copy_of_an_older_version().await.store();
    assert_eq!(store.expire(50, 10).await.unwrap(), 0);
    assert_eq!(store.load(&key()).await.unwrap(), Some(head(7, 2, Some(99))));
    assert_eq!(store.expire(99, 10).await.unwrap(), 1);
    assert_eq!(store.load_run(&key(), [7; 16]).await.unwrap(), None, "its copy is gone with it");
}

#[tokio::test]
async fn pages_of_limit_zero_end_though_a_copy_stands_beside_the_head() {
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
async fn a_write_that_is_never_answered_is_unknown_within_a_second() {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table().await.unwrap();
    emulator.inject([Some(Fault::Hangs)]);
    let since = tokio::time::Instant::now();
    let error = store.commit(&key(), Expect::Absent, &head(7, 1, None), &[]).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert!(since.elapsed() < Duration::from_millis(1_100), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_never_answered_ends_within_four_seconds() {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table().await.unwrap();
    emulator.hang_reads();
    let since = tokio::time::Instant::now();
    let error = store.load(&key()).await.unwrap_err();
    assert!(matches!(error, Error::NotApplied { .. }), "{error}");
    assert!(since.elapsed() < Duration::from_millis(4_100), "{:?}", since.elapsed());
}
