//! Rotation of the secret that signs task tokens.

use engine::{Limited, Refusal, SECRET_OVERLAP};

use crate::members::{clock, open, pass, slow_store};
use crate::{Service, succeed};

fn days(days: u64) -> history::Duration {
    history::Duration::from_days(days)
}

#[tokio::test]
async fn a_token_is_valid_until_the_overlap_of_a_rotation_ends() {
    let service = Service::open().await;
    service.start("a").await;
    let turn = service.turn().await;
    let (token, pass) = (turn.task().token.clone(), service.engine.node_pass());
    let rotated = service.engine.secrets().rotate(None).await.unwrap();
    assert_eq!(rotated.previous_until, rotated.from.plus(SECRET_OVERLAP));
    assert!(service.engine.is_node_pass(&pass), "signed with the previous secret");
    assert_ne!(service.engine.node_pass(), pass);
    service.complete(turn, vec![succeed()]).await.unwrap();
    service.start("b").await;
    let turn = service.turn().await;
    let newer = turn.task().token.clone();
    service.clock.advance(SECRET_OVERLAP);
    assert!(matches!(service.engine.tasks().decider_token(&token), Err(Refusal::BadToken)));
    assert!(!service.engine.is_node_pass(&pass));
    assert!(service.engine.tasks().decider_token(&newer).is_ok(), "signed with the current secret");
    drop(turn);
}

#[tokio::test]
async fn a_rotation_without_overlap_ends_earlier_tokens() {
    let service = Service::open().await;
    service.start("a").await;
    let turn = service.turn().await;
    let token = turn.task().token.clone();
    service.engine.secrets().rotate(None).await.unwrap();
    assert!(service.engine.tasks().decider_token(&token).is_ok());
    service.engine.secrets().rotate(Some(history::Duration::ZERO)).await.unwrap();
    assert!(matches!(service.engine.tasks().decider_token(&token), Err(Refusal::BadToken)));
    let again = Service::over(service.store.clone()).await;
    assert!(matches!(again.engine.tasks().decider_token(&token), Err(Refusal::BadToken)));
    assert_eq!(again.engine.node_pass(), service.engine.node_pass());
    drop(turn);
}

#[tokio::test]
async fn secrets_are_limited_except_with_a_zero_overlap() {
    let service = Service::open().await;
    let rotate = |overlap| service.engine.secrets().rotate(overlap);
    for _ in 1..8 {
        rotate(None).await.unwrap();
    }
    let refused = rotate(None).await.unwrap_err();
    assert!(matches!(refused, Refusal::LimitExceeded { what: Limited::Secrets, max: 8 }), "{refused}");
    assert!(refused.to_string().contains("without an overlap"), "{refused}");
    rotate(Some(history::Duration::ZERO)).await.unwrap();
    rotate(None).await.unwrap();
    assert!(matches!(rotate(Some(days(4_000))).await, Err(Refusal::Fault(_))), "longer than any task");
}

#[tokio::test(start_paused = true)]
async fn every_node_knows_a_secret_before_it_signs_a_token() {
    let (store, clock) = (slow_store().await, clock());
    let one = open(&store, &clock, Some("http://one".to_owned())).await;
    let two = open(&store, &clock, Some("http://two".to_owned())).await;
    let before = one.engine.node_pass();
    one.engine.secrets().rotate(Some(history::Duration::from_secs(60))).await.unwrap();
    let mut is_rotated = false;
    for _ in 0..40 {
        for (from, to) in [(&one, &two), (&two, &one)] {
            is_rotated |= from.engine.node_pass() != before;
            assert!(to.engine.is_node_pass(&from.engine.node_pass()), "a node that has rotated is understood");
        }
        pass(&one, 1).await;
    }
    assert!(is_rotated);
    assert_eq!(one.engine.node_pass(), two.engine.node_pass());
    assert!(two.engine.is_node_pass(&before));
    pass(&one, 40).await;
    assert!(!two.engine.is_node_pass(&before), "the overlap has ended at every node");
}

#[tokio::test]
async fn the_overlap_of_a_rotation_is_at_most_ten_years() {
    let service = Service::open().await;
    let most = engine::SECRET_OVERLAP_MAX;
    let more = history::Duration::from_millis(most.as_millis() + 1);
    let refused = service.engine.secrets().rotate(Some(more)).await.unwrap_err();
    assert_eq!(refused.code(), "invalid-field");
    let rotated = service.engine.secrets().rotate(Some(most)).await.unwrap();
    assert_eq!(rotated.previous_until, rotated.from.plus(most));
}
