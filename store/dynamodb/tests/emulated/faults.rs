//! The errors returned for writes that were refused, lost or answered too late.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not take for tests")]

use std::sync::Arc;

use crate::support::{Emulator, Fault};
use baton_store_dynamodb::{Create, Dynamo};
use bytes::Bytes;
use store::{Cas, Error, Expect, Head, HeadKey, PartKey, Store};

fn key() -> HeadKey {
    HeadKey { domain: Arc::from("orders"), workflow_id: Arc::from("a") }
}

fn head(version: u64, op: &'static str) -> Head {
    Head { run: [7; 16], version, body: Bytes::from(op), due: Some(9), row: None, expires_at: None }
}

fn first() -> Expect<'static> {
    Expect::Exactly { run: [7; 16], version: 1 }
}

async fn started() -> (Emulator, Dynamo) {
    let emulator = Emulator::new();
    let store = emulator.store();
    store.create_table(Create::default()).await.unwrap();
    assert_eq!(store.commit(&key(), Expect::Absent, &head(1, "start"), &[]).await.unwrap(), Cas::Won);
    (emulator, store)
}

#[tokio::test]
async fn a_throttled_commit_is_neither_applied_nor_retried() {
    let (emulator, store) = started().await;
    emulator.inject([Some(Fault::Throttled)]);
    let error = store.commit(&key(), first(), &head(2, "op"), &[]).await.unwrap_err();
    assert!(matches!(&error, Error::NotApplied { why, .. } if why.contains("ThrottlingException")), "{error}");
    assert_eq!(store.load(&key()).await.unwrap(), Some(head(1, "start")));
}

/// DynamoDB refuses requests of a running service if credentials expire, the table is deleted, or a permission is lost.
/// The run stays unchanged.
#[tokio::test]
async fn a_refused_request_is_not_applied_and_names_the_reason() {
    let (emulator, store) = started().await;
    for code in ["ExpiredTokenException", "ResourceNotFoundException", "ValidationException", "AccessDeniedException"] {
        emulator.refuse(code);
        let parts = [(PartKey::Chunk { last: 1 }, Bytes::from("c"))];
        for parts in [&parts[..], &[]] {
            let error = store.commit(&key(), first(), &head(2, "op"), parts).await.unwrap_err();
            assert!(matches!(&error, Error::NotApplied { why, .. } if why.contains(code)), "{error}");
        }
        let error = store.load(&key()).await.unwrap_err();
        assert!(matches!(&error, Error::NotApplied { why, .. } if why.contains(code)), "{error}");
        emulator.accept();
        assert_eq!(store.load(&key()).await.unwrap(), Some(head(1, "start")), "{code}");
        assert_eq!(store.parts(&key(), [7; 16], &[PartKey::Chunk { last: 1 }]).await.unwrap(), [None]);
    }
    assert_eq!(store.commit(&key(), first(), &head(2, "op"), &[]).await.unwrap(), Cas::Won);
}

#[tokio::test]
async fn a_commit_with_a_lost_answer_is_unknown() {
    for fault in [Fault::AnswerLost, Fault::ServerError] {
        let (emulator, store) = started().await;
        emulator.inject([Some(fault)]);
        let mine = head(2, "op");
        let error = store.commit(&key(), first(), &mine, &[]).await.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }), "{fault:?}: {error}");
        assert_eq!(store.load(&key()).await.unwrap(), Some(mine.clone()));
        // The repeated commit loses to the first attempt. The response contains the head that the first attempt wrote.
        let again = store.commit(&key(), first(), &mine, &[]).await.unwrap();
        assert_eq!(again, Cas::Lost(Some(mine)));
    }
}

#[tokio::test]
async fn a_commit_lost_on_its_way_is_unknown_and_can_be_retried() {
    let (emulator, store) = started().await;
    emulator.inject([Some(Fault::RequestLost)]);
    let error = store.commit(&key(), first(), &head(2, "op"), &[]).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert_eq!(store.commit(&key(), first(), &head(2, "op"), &[]).await.unwrap(), Cas::Won);
}

#[tokio::test]
async fn a_commit_with_a_lost_part_is_not_applied() {
    let (emulator, store) = started().await;
    emulator.inject([Some(Fault::AnswerLost)]);
    let parts = [(PartKey::Chunk { last: 1 }, Bytes::from("c"))];
    let error = store.commit(&key(), first(), &head(2, "op"), &parts).await.unwrap_err();
    assert!(matches!(error, Error::NotApplied { .. }), "{error}");
    assert_eq!(store.load(&key()).await.unwrap(), Some(head(1, "start")));
}

#[tokio::test]
async fn a_race_of_two_nodes_has_one_winner_known_to_the_loser() {
    let (emulator, one) = started().await;
    let other = emulator.store();
    assert_eq!(one.commit(&key(), first(), &head(2, "one"), &[]).await.unwrap(), Cas::Won);
    let answer = other.commit(&key(), first(), &head(2, "other"), &[]).await.unwrap();
    assert_eq!(answer, Cas::Lost(Some(head(2, "one"))));
}

#[tokio::test]
async fn a_commit_on_a_key_taken_by_another_run_is_lost() {
    let (_, store) = started().await;
    store.drop_run(&key(), [7; 16]).await.unwrap();
    let stranger = Head { run: [9; 16], ..head(1, "stranger") };
    assert_eq!(store.commit(&key(), Expect::Absent, &stranger, &[]).await.unwrap(), Cas::Won);
    let answer = store.commit(&key(), first(), &head(2, "late"), &[]).await.unwrap();
    assert_eq!(answer, Cas::Lost(Some(stranger)));
}
