//! Rules about heads: compare-and-swap, replacement and deletion.

use super::{Arc, Bytes, Cas, Error, Expect, LATER, PartKey, RUN, Store, at, head, key, row, start, win, win_with};
use crate::{Head, HeadKey, ListQuery, Row};

/// Checks that an empty store returns no data and no errors.
pub async fn an_empty_store_has_no_data(store: Arc<dyn Store>) {
    assert_eq!(store.load(&key("a")).await.unwrap(), None);
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), None);
    assert!(store.chunks(&key("a"), RUN, 0, 1000).await.unwrap().is_empty());
    assert!(store.due(0, u64::MAX, None, 10).await.unwrap().is_empty());
    store.drop_run(&key("a"), RUN).await.unwrap();
    assert_eq!(store.expire(u64::MAX, 10).await.unwrap(), 0);
}

/// Checks that a committed head is loaded with all its fields.
pub async fn load_returns_a_won_head(store: Arc<dyn Store>) {
    let full = Head { due: Some(5), expires_at: Some(9), row: Some(row(3, Some(4))), ..head(RUN, 1) };
    win(&*store, &key("a"), Expect::Absent, &full).await;
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(full.clone()));
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), Some(full.clone()));
    let bare = Head { due: None, expires_at: None, row: None, body: Bytes::new(), ..head(RUN, 2) };
    win(&*store, &key("a"), at(&full), &bare).await;
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(bare));
    assert!(store.stats().commits >= 2);
}

/// Checks that a commit that expects no head is lost if there is one.
pub async fn absent_holds_only_without_a_head(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    let answer = store.commit(&key("a"), Expect::Absent, &head(LATER, 1), &[]).await.unwrap();
    assert_eq!(answer, Cas::Lost(Some(first)));
}

/// Checks that a commit is lost if the head has a different run or version than expected.
pub async fn exactly_holds_only_for_that_run_and_version(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    let wrong = [(RUN, 0), (RUN, 2), (LATER, 1)];
    for (run, version) in wrong {
        let answer = store.commit(&key("a"), Expect::Exactly { run, version }, &head(RUN, 2), &[]).await.unwrap();
        assert_eq!(answer, Cas::Lost(Some(first.clone())), "expected version {version}");
    }
    let answer = store.commit(&key("b"), at(&first), &head(RUN, 2), &[]).await.unwrap();
    assert_eq!(answer, Cas::Lost(None));
}

/// Checks that a lost commit changes neither the head nor the indexes, and returns the current head.
pub async fn a_lost_commit_changes_nothing_and_returns_the_head(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    let other = Head { due: Some(1), expires_at: Some(1), row: Some(row(9, Some(9))), ..head(LATER, 5) };
    let answer = store.commit(&key("a"), Expect::Absent, &other, &[]).await.unwrap();
    assert_eq!(answer, Cas::Lost(Some(first.clone())));
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(first));
    assert_eq!(store.load_run(&key("a"), LATER).await.unwrap(), None);
    assert!(store.due(0, 1, None, 10).await.unwrap().is_empty());
    assert_eq!(store.expire(1, 10).await.unwrap(), 0);
    let query = ListQuery { domain: Arc::from("orders"), limit: 10, ..Default::default() };
    assert_eq!(store.list(&query, None).await.unwrap().rows.len(), 1);
}

async fn replace(store: &dyn Store, key: &HeadKey) -> (Head, Head) {
    let first = Head { row: Some(row(100, Some(150))), expires_at: Some(500), ..head(RUN, 1) };
    win_with(store, key, Expect::Absent, &first, &[(PartKey::Chunk { last: 3 }, Bytes::from("one"))]).await;
    let second = Head { row: Some(row(200, None)), ..head(LATER, 2) };
    win_with(store, key, Expect::Replacing(&first), &second, &[(PartKey::Chunk { last: 3 }, Bytes::from("two"))]).await;
    (first, second)
}

/// Checks that a replaced head can be read by its run id, together with its parts and its row, and is no longer due.
pub async fn a_replaced_head_is_kept_for_its_run(store: Arc<dyn Store>) {
    let (first, second) = replace(&*store, &key("a")).await;
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(second.clone()));
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), Some(first));
    assert_eq!(store.load_run(&key("a"), LATER).await.unwrap(), Some(second.clone()));
    assert_eq!(store.chunks(&key("a"), RUN, 0, 100).await.unwrap(), [(3, Bytes::from("one"))]);
    assert_eq!(store.chunks(&key("a"), LATER, 0, 100).await.unwrap(), [(3, Bytes::from("two"))]);
    let query = ListQuery { domain: Arc::from("orders"), limit: 10, ..Default::default() };
    let runs: Vec<_> = store.list(&query, None).await.unwrap().rows.iter().map(|listed| listed.run).collect();
    assert_eq!(runs, [LATER, RUN]);
    let due = store.due(0, u64::MAX, None, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.at).collect::<Vec<_>>(), [second.due.unwrap()]);
}

/// Checks that the expiry of a replaced head is the one given in the commit that replaces it.
pub async fn the_replacing_commit_sets_the_kept_heads_expiry(store: Arc<dyn Store>) {
    let run = |run: u8| head([run; 16], u64::from(run));
    let key = key("a");
    let mut newest = Head { expires_at: None, row: Some(row(100, Some(150))), ..run(1) };
    win(&*store, &key, Expect::Absent, &newest).await;
    // The commits set a later expiry, an earlier expiry, and an expiry for a head that had none.
    for (next, expires_at, kept_until) in [(2, Some(40_000), 20_000), (3, Some(30_000), 60_000), (4, None, 10_000)] {
        let next = Head { expires_at, row: Some(row(200, Some(250))), ..run(next) };
        let kept = Head { expires_at: Some(kept_until), ..newest };
        win(&*store, &key, Expect::Replacing(&kept), &next).await;
        assert_eq!(store.load_run(&key, kept.run).await.unwrap(), Some(kept));
        newest = next;
    }
    for (now, left) in [(9_999, 4), (10_000, 3), (20_000, 2), (59_999, 2), (60_000, 1), (u64::from(u32::MAX), 1)] {
        while store.expire(now, 10).await.unwrap() > 0 {}
        let query = ListQuery { domain: Arc::from("orders"), limit: 10, ..Default::default() };
        assert_eq!(store.list(&query, None).await.unwrap().rows.len(), left, "at {now}");
    }
}

/// Checks that only the newest head can be replaced, and that a commit that is lost does not keep a replaced head.
pub async fn replacing_holds_only_for_the_newest_head(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    let second = head(RUN, 2);
    win(&*store, &key("a"), at(&first), &second).await;
    let answer = store.commit(&key("a"), Expect::Replacing(&first), &head(LATER, 3), &[]).await.unwrap();
    assert_eq!(answer, Cas::Lost(Some(second.clone())));
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), Some(second));
    let answer = store.commit(&key("b"), Expect::Replacing(&first), &head(LATER, 3), &[]).await.unwrap();
    assert_eq!(answer, Cas::Lost(None));
}

/// Checks that the head of an earlier run can be added, with its parts, row and expiry. The current head of the key
/// keeps its state and its due time.
pub async fn an_earlier_run_is_put_next_to_the_newest(store: Arc<dyn Store>) {
    let (_, newest) = replace(&*store, &key("a")).await;
    let before = Head { due: Some(1), row: Some(row(50, Some(60))), expires_at: Some(900), ..head([9; 16], 1) };
    let parts = [(PartKey::Chunk { last: 3 }, Bytes::from("nine"))];
    assert_eq!(store.put_kept(&key("a"), &before, &parts).await.unwrap(), Cas::Won);
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(newest.clone()));
    assert_eq!(store.load_run(&key("a"), before.run).await.unwrap().map(|found| found.body), Some(before.body.clone()));
    assert_eq!(store.chunks(&key("a"), before.run, 0, 100).await.unwrap(), [(3, Bytes::from("nine"))]);
    assert_eq!(store.chunks(&key("a"), LATER, 0, 100).await.unwrap(), [(3, Bytes::from("two"))]);
    let query = ListQuery { domain: Arc::from("orders"), limit: 10, ..Default::default() };
    let runs = async || -> Vec<crate::RunId> {
        store.list(&query, None).await.unwrap().rows.iter().map(|listed| listed.run).collect()
    };
    assert_eq!(runs().await, [LATER, RUN, before.run]);
    super::counts::check_counts(&*store).await;
    let due = store.due(0, u64::MAX, None, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.at).collect::<Vec<_>>(), [newest.due.unwrap()]);
    // The newest run continues. The earlier run is deleted when the expiry of its head has passed.
    let next = Head { version: 3, ..newest.clone() };
    win(&*store, &key("a"), at(&newest), &next).await;
    while store.expire(899, 10).await.unwrap() > 0 {}
    assert_eq!(runs().await, [LATER, before.run]);
    while store.expire(900, 10).await.unwrap() > 0 {}
    assert_eq!(runs().await, [LATER]);
    assert_eq!(store.load_run(&key("a"), before.run).await.unwrap(), None);
    assert_eq!(store.chunks(&key("a"), before.run, 0, 100).await.unwrap(), []);
    super::counts::check_counts(&*store).await;
}

/// Checks that the head of an earlier run can be added for a workflow id without a current head. The workflow id stays
/// free, and the run can be deleted by its run id.
pub async fn an_earlier_run_is_put_without_a_head(store: Arc<dyn Store>) {
    let before = Head { due: None, row: Some(row(50, Some(60))), expires_at: Some(900), ..head(RUN, 1) };
    assert_eq!(store.put_kept(&key("a"), &before, &[]).await.unwrap(), Cas::Won);
    assert_eq!(store.load(&key("a")).await.unwrap(), None);
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), Some(before));
    win(&*store, &key("a"), Expect::Absent, &head(LATER, 1)).await;
    store.drop_run(&key("a"), RUN).await.unwrap();
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), None);
    assert!(store.load(&key("a")).await.unwrap().is_some());
    super::counts::check_counts(&*store).await;
}

/// Checks that the head of an earlier run is not added if the run exists, as the current run or as a kept run. Nothing
/// is changed.
pub async fn an_existing_run_is_not_put_again(store: Arc<dyn Store>) {
    let (first, second) = replace(&*store, &key("a")).await;
    for there in [first, second] {
        let other = Head { body: Bytes::from("other"), ..there.clone() };
        let parts = [(PartKey::Chunk { last: 9 }, Bytes::from("other"))];
        assert_eq!(store.put_kept(&key("a"), &other, &parts).await.unwrap(), Cas::Lost(Some(there.clone())));
        assert_eq!(store.load_run(&key("a"), there.run).await.unwrap(), Some(there.clone()));
        assert_eq!(store.chunks(&key("a"), there.run, 4, 100).await.unwrap(), []);
    }
    super::counts::check_counts(&*store).await;
}

/// Checks that the data of different keys are separate. Domains and workflow ids may contain any characters.
pub async fn keys_are_separate(store: Arc<dyn Store>) {
    let names = [("a", "bc"), ("ab", "c"), ("a", "b"), ("a", "b\0c"), ("a\0b", "c"), ("", ""), ("ü", "/#%\u{10FFFF}")];
    let keys = names.map(|(domain, id)| HeadKey { domain: Arc::from(domain), workflow_id: Arc::from(id) });
    for (index, key) in keys.iter().enumerate() {
        let body = Bytes::from(format!("body of {index}"));
        win(&*store, key, Expect::Absent, &Head { body, ..head(RUN, 1) }).await;
    }
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(store.load(key).await.unwrap().unwrap().body, format!("body of {index}"), "{key:?}");
    }
    assert_eq!(store.due(0, u64::MAX, None, 100).await.unwrap().len(), keys.len());
}

/// Checks that the store accepts the largest run that the rules allow, with names of the maximum length and with
/// incompressible bytes.
pub async fn heads_and_parts_can_hold_the_largest_run(store: Arc<dyn Store>) {
    let limits = store.limits();
    assert!(limits.head_hard >= crate::HEAD_HARD_MIN && limits.part_max >= crate::PART_MAX_MIN, "{limits:?}");
    let name = "漢".repeat(256);
    let long = HeadKey { domain: Arc::from(name.as_str()), workflow_id: Arc::from(name.as_str()) };
    let noise = |len: usize| {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        };
        (0..len).map(|_| next()).collect::<Bytes>()
    };
    let row = Row {
        workflow_type: "漢".repeat(321).into(),
        tags: vec![name; 5],
        ..row(u64::MAX >> 20, Some(u64::MAX >> 20))
    };
    let full = Head { body: noise(crate::HEAD_HARD_MIN), row: Some(row), ..head(RUN, 1) };
    let part = (PartKey::Pack { op: 1 }, noise(crate::PART_MAX_MIN));
    win_with(&*store, &long, Expect::Absent, &full, std::slice::from_ref(&part)).await;
    assert_eq!(store.load(&long).await.unwrap(), Some(full));
    assert_eq!(store.parts(&long, RUN, &[part.0]).await.unwrap(), [Some(part.1)]);
}

/// Checks that a body of the maximum size is accepted, and that a body with one more byte is refused and not written.
pub async fn a_body_above_the_limit_is_refused(store: Arc<dyn Store>) {
    let max = store.limits().head_hard;
    let largest = Head { body: Bytes::from(vec![7; max]), ..head(RUN, 1) };
    win(&*store, &key("a"), Expect::Absent, &largest).await;
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(largest.clone()));
    let larger = Head { body: Bytes::from(vec![7; max + 1]), ..head(RUN, 2) };
    let error = store.commit(&key("a"), at(&largest), &larger, &[]).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { max: limit, found } if limit == max && found == max + 1), "{error}");
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(largest));
}

/// Checks that the head, parts and row of a deleted run are gone, and that deleting it again has no effect. Only the
/// due index may lag.
pub async fn a_deleted_run_is_gone_and_deletion_is_idempotent(store: Arc<dyn Store>) {
    let parts = [(PartKey::Chunk { last: 3 }, Bytes::from("c")), (PartKey::Pack { op: 1 }, Bytes::from("p"))];
    win_with(&*store, &key("a"), Expect::Absent, &head(RUN, 1), &parts).await;
    for _ in 0..2 {
        store.drop_run(&key("a"), RUN).await.unwrap();
        assert_eq!(store.load(&key("a")).await.unwrap(), None);
        assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), None);
        let left = store.parts(&key("a"), RUN, &[parts[0].0, parts[1].0]).await.unwrap();
        assert_eq!(left, [None, None]);
        let query = ListQuery { domain: Arc::from("orders"), limit: 10, ..Default::default() };
        assert!(store.list(&query, None).await.unwrap().rows.is_empty());
    }
}

/// Checks that deleting a kept run does not affect the newest run.
pub async fn deleting_an_earlier_run_keeps_the_newest(store: Arc<dyn Store>) {
    let (_, second) = replace(&*store, &key("a")).await;
    store.drop_run(&key("a"), RUN).await.unwrap();
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), None);
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(second));
    assert_eq!(store.chunks(&key("a"), RUN, 0, 100).await.unwrap(), []);
    assert_eq!(store.chunks(&key("a"), LATER, 0, 100).await.unwrap(), [(3, Bytes::from("two"))]);
}

/// Checks that a workflow id can be used again after a deletion, even by the same run, which then finds none of its
/// earlier data.
pub async fn a_deleted_key_can_be_used_again(store: Arc<dyn Store>) {
    let parts = [(PartKey::Chunk { last: 3 }, Bytes::from("c"))];
    win_with(&*store, &key("a"), Expect::Absent, &head(RUN, 1), &parts).await;
    store.drop_run(&key("a"), RUN).await.unwrap();
    let again = start(&*store, &key("a")).await;
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(again));
    assert_eq!(store.chunks(&key("a"), RUN, 0, 100).await.unwrap(), []);
}

/// Checks that newest and kept heads are not deleted before their expiry, and that expired data can be read until it is
/// deleted.
pub async fn runs_never_expire_early(store: Arc<dyn Store>) {
    let (first, second) = replace(&*store, &key("a")).await;
    let closed = Head { expires_at: Some(800), ..head(LATER, 3) };
    win(&*store, &key("a"), at(&second), &closed).await;
    assert_eq!(store.expire(499, 10).await.unwrap(), 0);
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), Some(first));
    assert_eq!(store.expire(500, 10).await.unwrap(), 1);
    assert_eq!(store.load_run(&key("a"), RUN).await.unwrap(), None);
    assert_eq!(store.chunks(&key("a"), RUN, 0, 100).await.unwrap(), []);
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(closed));
    assert_eq!(store.expire(u64::MAX, 10).await.unwrap(), 1);
    assert_eq!(store.load(&key("a")).await.unwrap(), None);
    assert_eq!(store.chunks(&key("a"), LATER, 0, 100).await.unwrap(), []);
    assert_eq!(store.expire(u64::MAX, 10).await.unwrap(), 0);
}

/// Checks that expiry deletes at most the given number of runs. The next call deletes the others.
pub async fn expiry_respects_its_limit(store: Arc<dyn Store>) {
    for index in 0..5_u8 {
        let expiring = Head { expires_at: Some(10), ..head([index; 16], 1) };
        win(&*store, &key(&format!("w{index}")), Expect::Absent, &expiring).await;
    }
    assert_eq!(store.expire(10, 0).await.unwrap(), 0);
    assert_eq!(store.expire(10, 3).await.unwrap(), 3);
    assert_eq!(store.expire(10, 3).await.unwrap(), 2);
    assert_eq!(store.expire(10, 3).await.unwrap(), 0);
}

/// Checks that the newest expiry of a head is the one that applies. It may be later than the previous one, or absent.
pub async fn a_changed_expiry_of_a_head_counts(store: Arc<dyn Store>) {
    let first = Head { expires_at: Some(10), ..head(RUN, 1) };
    win(&*store, &key("a"), Expect::Absent, &first).await;
    let second = Head { expires_at: Some(20), ..head(RUN, 2) };
    win(&*store, &key("a"), at(&first), &second).await;
    assert_eq!(store.expire(19, 10).await.unwrap(), 0);
    let third = Head { expires_at: None, ..head(RUN, 3) };
    win(&*store, &key("a"), at(&second), &third).await;
    assert_eq!(store.expire(u64::MAX, 10).await.unwrap(), 0);
    assert_eq!(store.load(&key("a")).await.unwrap(), Some(third));
}

/// Checks that every call fails after `close`.
pub async fn a_closed_store_fails_every_call(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    store.close().await.unwrap();
    let commit = store.commit(&key("a"), at(&first), &head(RUN, 2), &[]).await.unwrap_err();
    assert!(matches!(commit, Error::Failed { .. }), "{commit}");
    assert!(matches!(store.load(&key("a")).await, Err(Error::Failed { .. })));
    assert!(matches!(store.due(0, 0, None, 1).await, Err(Error::Failed { .. })));
}
