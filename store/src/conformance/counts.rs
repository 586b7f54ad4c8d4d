//! Rules about counting.

use std::collections::BTreeMap;

use super::lists::{query, rows};
use super::{Arc, Expect, LATER, RUN, Store, at, head, key, row, start, win};
use crate::{Head, HeadKey, ListQuery, Row};

/// Checks the counts by status after every kind of change of a row: a change of its status, flag or close, its
/// replacement by another run's row, and its deletion.
pub async fn counts_match_lists(store: Arc<dyn Store>) {
    let named = |status: &str, flagged| Row { status: Arc::from(status), flagged, ..row(100, None) };
    let other = HeadKey { domain: Arc::from("order"), workflow_id: Arc::from("a") };
    win(&*store, &other, Expect::Absent, &head(RUN, 1)).await;
    check_counts(&*store).await;
    for id in ["a", "b", "c"] {
        let mut newest = start(&*store, &key(id)).await;
        let rows = [
            Some(named("open", false)),
            Some(named("stuck", true)),
            Some(named("stuck", true)),
            Some(Row { tags: Vec::new(), ..named("stuck", true) }),
            Some(named("failing", true)),
            None,
            Some(named("failing", true)),
            Some(named("open", false)),
            Some(named("stuck", true)),
        ];
        for row in rows {
            let next = Head { row, ..head(RUN, newest.version + 1) };
            win(&*store, &key(id), at(&newest), &next).await;
            newest = next;
            if id == "a" {
                check_counts(&*store).await;
            }
        }
    }
    check_counts(&*store).await;
    let stuck = ListQuery { open: Some(true), flagged: Some(true), status: Some("stuck".to_owned()), ..query() };
    assert_eq!(store.count(&stuck, u64::MAX).await.unwrap().total(), 3);
    let version = store.load(&key("a")).await.unwrap().unwrap().version;
    let closed = Head { row: Some(row(100, Some(120))), expires_at: Some(500), ..head(RUN, version + 1) };
    win(&*store, &key("a"), Expect::Exactly { run: RUN, version }, &closed).await;
    check_counts(&*store).await;
    let next = head(LATER, closed.version + 1);
    win(&*store, &key("a"), Expect::Replacing(&closed), &next).await;
    check_counts(&*store).await;
    assert_eq!(store.count(&query(), u64::MAX).await.unwrap().total(), 4, "including the kept head's row");
    assert_eq!(store.count(&stuck, u64::MAX).await.unwrap().total(), 2);
    store.drop_run(&key("b"), RUN).await.unwrap();
    check_counts(&*store).await;
    store.drop_run(&key("b"), RUN).await.unwrap();
    check_counts(&*store).await;
    store.drop_run(&key("a"), RUN).await.unwrap();
    check_counts(&*store).await;
    assert_eq!(store.count(&query(), u64::MAX).await.unwrap().total(), 2);
    assert_eq!(store.count(&stuck, u64::MAX).await.unwrap().total(), 1);
}

/// Compares counts with lists, for queries with all kinds of conditions.
pub(super) async fn check_counts(store: &dyn Store) {
    for query in [
        query(),
        ListQuery { domain: Arc::from("order"), ..query() },
        ListQuery { domain: Arc::from("nobody"), ..query() },
        ListQuery { open: Some(true), ..query() },
        ListQuery { open: Some(false), ..query() },
        ListQuery { flagged: Some(true), ..query() },
        ListQuery { open: Some(true), flagged: Some(false), ..query() },
        ListQuery { open: Some(false), flagged: Some(true), ..query() },
        ListQuery { open: Some(true), flagged: Some(true), status: Some("stuck".to_owned()), ..query() },
        ListQuery { status: Some("failing".to_owned()), ..query() },
        ListQuery { tag: Some("vip".to_owned()), ..query() },
        ListQuery { tag: Some("vip".to_owned()), open: Some(true), flagged: Some(true), ..query() },
        ListQuery { workflow_type: Some("order".to_owned()), ..query() },
        ListQuery { workflow_type: Some("order".to_owned()), open: Some(false), ..query() },
        ListQuery { workflow_type: Some("order".to_owned()), started_from: Some(100), ..query() },
        ListQuery { workflow_id: Some("a".to_owned()), ..query() },
        ListQuery { started_before: Some(100), ..query() },
        ListQuery { started_from: Some(100), open: Some(true), ..query() },
    ] {
        let mut listed = BTreeMap::new();
        for found in rows(store, &query).await {
            *listed.entry(found.row.status).or_insert(0) += 1;
        }
        let count = store.count(&query, u64::MAX).await.unwrap();
        assert_eq!((count.by_status, count.is_cut), (listed, false), "{query:?}");
    }
}

/// Checks that a count that stops at its limit says so. The limit counts all examined rows, including rows that do not
/// match.
pub async fn counting_respects_its_limit(store: Arc<dyn Store>) {
    for index in 0..30_u8 {
        win(&*store, &key(&format!("w{index:02}")), Expect::Absent, &head([index; 16], 1)).await;
    }
    let of_nothing = ListQuery { workflow_name: Some("nobody's".to_owned()), ..query() };
    for at_most in [0, 1, 29, 30, 31] {
        // An engine may know without examining rows that no row has this tag.
        let count = store.count(&ListQuery { tag: Some("nobody's".to_owned()), ..query() }, at_most).await.unwrap();
        assert!(count.total() == 0 && (!count.is_cut || at_most < 30), "{count:?} of none, for {at_most}");
        let of_all = ListQuery { tag: Some("vip".to_owned()), workflow_type: Some("order".to_owned()), ..query() };
        let count = store.count(&of_all, at_most).await.unwrap();
        assert_eq!((count.total(), count.is_cut), (at_most.min(30), at_most < 30), "{count:?} of 30, for {at_most}");
        let count = store.count(&of_nothing, at_most).await.unwrap();
        assert_eq!((count.total(), count.is_cut), (0, at_most < 30), "{count:?} of 30, for {at_most}");
        // An engine may know the number of all rows without examining them.
        let count = store.count(&query(), at_most).await.unwrap();
        let seen = if count.is_cut { at_most.min(29) } else { 30 };
        assert_eq!(count.total(), seen, "{count:?} of 30, for {at_most}");
        let of_one = ListQuery { workflow_id: Some("w07".to_owned()), ..query() };
        let count = store.count(&of_one, at_most).await.unwrap();
        assert_eq!((count.total(), count.is_cut), (at_most.min(1), at_most < 1), "{count:?} of one, for {at_most}");
    }
    // If the query wants only open rows, closed rows are not examined, and vice versa.
    for index in 0..10_u8 {
        let key = key(&format!("w{index:02}"));
        let newest = store.load(&key).await.unwrap().unwrap();
        let closed = Head { row: Some(row(100, Some(200))), ..head(newest.run, newest.version + 1) };
        win(&*store, &key, at(&newest), &closed).await;
    }
    for (open, there) in [(true, 20), (false, 10)] {
        let count = store.count(&ListQuery { open: Some(open), ..query() }, there).await.unwrap();
        assert_eq!((count.total(), count.is_cut), (there, false), "{count:?} with open: {open}");
    }
}
