//! Sentences about the indexes.

use std::collections::BTreeSet;

use super::{Arc, Error, Expect, LATER, RUN, Store, at, head, key, row, start, win};
use crate::{Head, HeadKey, ListQuery, Listed, PageToken, Row};

fn query() -> ListQuery {
    ListQuery { domain: Arc::from("orders"), limit: 100, ..ListQuery::default() }
}

/// All pages of a list.
async fn rows(store: &dyn Store, query: &ListQuery) -> Vec<Listed> {
    let mut rows = Vec::new();
    let mut page = None;
    loop {
        let found = store.list(query, page.as_ref()).await.unwrap();
        assert!(found.rows.len() <= query.limit.max(1), "a page of {} rows for {query:?}", found.rows.len());
        rows.extend(found.rows);
        match found.next {
            Some(next) => page = Some(next),
            None => return rows,
        }
    }
}

async fn ids(store: &dyn Store, query: &ListQuery) -> Vec<String> {
    rows(store, query).await.iter().map(|listed| listed.workflow_id.to_string()).collect()
}

/// And no later ones, and no more than asked for.
pub async fn due_heads_come_earliest_first(store: Arc<dyn Store>) {
    for (id, due) in [("c", Some(30)), ("a", Some(10)), ("never", None), ("b", Some(20)), ("b2", Some(20))] {
        win(&*store, &key(id), Expect::Absent, &Head { due, ..head(RUN, 1) }).await;
    }
    let due = async |until, limit| -> Vec<(u64, String)> {
        let due = store.due(0, until, None, limit).await.unwrap();
        due.iter().map(|due| (due.at, due.key.workflow_id.to_string())).collect()
    };
    assert_eq!(due(9, 10).await, []);
    assert_eq!(due(10, 10).await, [(10, "a".to_owned())]);
    assert_eq!(due(20, 2).await.len(), 2);
    let all = due(u64::MAX, 10).await;
    assert_eq!(all.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [10, 20, 20, 30]);
    assert_eq!(due(u64::MAX, 0).await, []);
}

/// Page by page, also when what stood at the end of a page has moved, and however many are due at one instant.
pub async fn due_heads_behind_one_are_the_rest(store: Arc<dyn Store>) {
    let mut newest = Vec::new();
    for (id, due) in [("a", 10), ("b", 20), ("c", 20), ("d", 20), ("e", 30), ("late", 41)] {
        let head = Head { due: Some(due), ..head(RUN, 1) };
        win(&*store, &key(id), Expect::Absent, &head).await;
        newest.push((key(id), head));
    }
    for (limit, moves) in [(1, false), (2, false), (5, false), (2, true)] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.due(0, 40, after.as_ref(), limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            let (_, head) = newest.iter().find(|(key, _)| *key == last.key).unwrap();
            if moves {
                let next = Head { due: None, ..self::head(RUN, head.version + 1) };
                win(&*store, &last.key, at(head), &next).await;
            }
            after = Some(last.clone());
            seen.extend(page);
        }
        let instants: Vec<_> = seen.iter().map(|due| due.at).collect();
        assert_eq!(instants, [10, 20, 20, 20, 30], "{limit} at once");
        let ids: BTreeSet<_> = seen.iter().map(|due| due.key.workflow_id.to_string()).collect();
        assert_eq!(ids.len(), 5, "{limit} at once: {ids:?}");
    }
    let beyond = store.due(0, 40, Some(&crate::Due { at: 40, key: key("zzz") }), 10).await.unwrap();
    assert_eq!(beyond, [], "not what is due later");
    let behind_the_end = store.due(0, 40, Some(&crate::Due { at: 50, key: key("a") }), 10).await.unwrap();
    assert_eq!(behind_the_end, []);
}

/// A head that is due is never missing, whatever moved before; once it is quiet, it is named at its instant only.
pub async fn due_follows_the_head(store: Arc<dyn Store>) {
    let mut newest = start(&*store, &key("a")).await;
    for due in [Some(50), Some(40), None, Some(50), Some(60), None, Some(60)] {
        let next = Head { due, ..head(RUN, newest.version + 1) };
        win(&*store, &key("a"), at(&newest), &next).await;
        newest = next;
        if let Some(at) = due {
            let named = store.due(0, at, None, 10).await.unwrap();
            assert!(named.iter().any(|named| named.at == at), "due at {at}, but the index has {named:?}");
        }
    }
}

/// So that nodes can share the shards among them.
pub async fn a_due_head_stands_in_the_shard_that_the_store_names(store: Arc<dyn Store>) {
    for id in ["a", "b", "c", "d#e", "f g"] {
        win(&*store, &key(id), Expect::Absent, &Head { due: Some(10), ..head(RUN, 1) }).await;
    }
    for id in ["a", "b", "c", "d#e", "f g"] {
        let shard = store.due_shard(&key(id));
        assert!(shard < store.limits().due_shards.max(1));
        let due = store.due(shard, 10, None, 10).await.unwrap();
        assert!(due.iter().any(|due| due.key == key(id)), "{id} is not in shard {shard}: {due:?}");
    }
}

/// Rather than an error: shards come and go with a configuration.
pub async fn a_due_shard_out_of_range_is_empty(store: Arc<dyn Store>) {
    start(&*store, &key("a")).await;
    let shards = store.limits().due_shards;
    assert_eq!(store.due(shards, u64::MAX, None, 10).await.unwrap(), []);
    assert_eq!(store.due(u32::MAX, u64::MAX, None, 10).await.unwrap(), []);
}

/// Rows with the same start stand in some order, always the same.
pub async fn lists_show_rows_newest_start_first(store: Arc<dyn Store>) {
    for (id, started_at, closed_at) in
        [("b", 20, None), ("a", 10, None), ("d", 40, Some(41)), ("c", 30, None), ("c2", 30, Some(31))]
    {
        win(&*store, &key(id), Expect::Absent, &Head { row: Some(row(started_at, closed_at)), ..head(RUN, 1) }).await;
    }
    win(&*store, &key("unlisted"), Expect::Absent, &Head { row: None, ..head(RUN, 1) }).await;
    assert_eq!(ids(&*store, &query()).await, ["d", "c", "c2", "b", "a"]);
    let listed = rows(&*store, &query()).await;
    assert_eq!(listed.first().unwrap().row, row(40, Some(41)));
}

/// One by one and together.
pub async fn every_condition_of_a_list_holds(store: Arc<dyn Store>) {
    let other = Row { workflow_type: Arc::from("refund/2/b"), tags: vec!["us".to_owned()], ..row(30, None) };
    for (id, row) in [("a", row(10, None)), ("b", row(20, Some(25))), ("c", other)] {
        win(&*store, &key(id), Expect::Absent, &Head { row: Some(row), ..head(RUN, 1) }).await;
    }
    let elsewhere = HeadKey { domain: Arc::from("other"), workflow_id: Arc::from("d") };
    win(&*store, &elsewhere, Expect::Absent, &head(RUN, 1)).await;
    let cases: [(&[&str], ListQuery); 24] = [
        (&["c", "b", "a"], query()),
        (&["c", "a"], ListQuery { open: Some(true), ..query() }),
        (&["b"], ListQuery { open: Some(false), ..query() }),
        (&["b"], ListQuery { status: Some("success".to_owned()), ..query() }),
        (&["b", "a"], ListQuery { workflow_type: Some("order".to_owned()), ..query() }),
        (&[], ListQuery { workflow_type: Some("orde".to_owned()), ..query() }),
        (&["b", "a"], ListQuery { workflow_name: Some("order".to_owned()), ..query() }),
        (&["c"], ListQuery { workflow_name: Some("refund".to_owned()), ..query() }),
        (&[], ListQuery { workflow_name: Some("refund/2".to_owned()), ..query() }),
        (&["b"], ListQuery { workflow_id: Some("b".to_owned()), ..query() }),
        (&[], ListQuery { workflow_id: Some("d".to_owned()), ..query() }),
        (&["c"], ListQuery { tag: Some("us".to_owned()), ..query() }),
        (&["b", "a"], ListQuery { tag: Some("vip".to_owned()), ..query() }),
        (&["c", "b"], ListQuery { started_from: Some(20), ..query() }),
        (&["a"], ListQuery { started_before: Some(20), ..query() }),
        (&["b"], ListQuery { started_from: Some(20), started_before: Some(30), ..query() }),
        (&[], ListQuery { started_from: Some(30), started_before: Some(20), ..query() }),
        (&["b"], ListQuery { closed_from: Some(25), ..query() }),
        (&[], ListQuery { closed_from: Some(26), ..query() }),
        (&["b"], ListQuery { closed_before: Some(26), ..query() }),
        (&[], ListQuery { closed_before: Some(25), ..query() }),
        (
            &["b"],
            ListQuery { closed_from: Some(25), closed_before: Some(26), workflow_id: Some("b".to_owned()), ..query() },
        ),
        (&["a"], ListQuery { open: Some(true), tag: Some("vip".to_owned()), ..query() }),
        (&["d"], ListQuery { domain: Arc::from("other"), ..query() }),
    ];
    for (expected, query) in cases {
        assert_eq!(ids(&*store, &query).await, expected, "{query:?}");
    }
    let edges = ListQuery { started_from: Some(0), started_before: Some(u64::MAX), ..query() };
    assert_eq!(ids(&*store, &edges).await, ["c", "b", "a"]);
    assert_eq!(ids(&*store, &ListQuery { started_before: Some(0), ..query() }).await, Vec::<String>::new());
}

/// Whatever the size of the page, and where many start together.
pub async fn pages_show_every_row_once(store: Arc<dyn Store>) {
    for index in 0..23_u8 {
        let started_at = u64::from(index / 5);
        let closed_at = if index % 3 == 0 { Some(99) } else { None };
        let listed = Head { row: Some(row(started_at, closed_at)), ..head([index; 16], 1) };
        win(&*store, &key(&format!("w{index:02}")), Expect::Absent, &listed).await;
    }
    for open in [None, Some(true), Some(false)] {
        let all = ids(&*store, &ListQuery { open, ..query() }).await;
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        for limit in [0, 1, 2, 5, 22, 23, 24] {
            assert_eq!(
                ids(&*store, &ListQuery { open, limit, ..query() }).await,
                all,
                "pages of {limit}, open {open:?}"
            );
        }
    }
}

/// The newest run and those before it.
pub async fn pages_by_workflow_id_show_every_run_once(store: Arc<dyn Store>) {
    let mut newest: Option<Head> = None;
    for index in 1..=7_u8 {
        let next = Head { row: Some(row(u64::from(index), None)), ..head([index; 16], u64::from(index)) };
        let expect = newest.as_ref().map_or(Expect::Absent, Expect::Replacing);
        win(&*store, &key("a"), expect, &next).await;
        newest = Some(next);
    }
    start(&*store, &key("b")).await;
    for limit in [1, 3, 7, 8] {
        let query = ListQuery { workflow_id: Some("a".to_owned()), limit, ..query() };
        let runs: Vec<_> = rows(&*store, &query).await.iter().map(|listed| listed.run[0]).collect();
        assert_eq!(runs, [7, 6, 5, 4, 3, 2, 1], "pages of {limit}");
    }
}

/// It may come from anywhere.
pub async fn a_foreign_page_token_is_refused(store: Arc<dyn Store>) {
    start(&*store, &key("a")).await;
    for token in [vec![], vec![1, 2, 3], vec![0xFF; 40]] {
        let answer = store.list(&query(), Some(&PageToken(token.clone()))).await;
        assert!(matches!(answer, Err(Error::InvalidPage)), "{token:?}: {answer:?}");
    }
}

/// Through status, tags, start, and out of lists again.
pub async fn a_row_follows_its_head(store: Arc<dyn Store>) {
    let mut newest = start(&*store, &key("a")).await;
    let tagged = Row { tags: vec!["new".to_owned()], ..row(100, None) };
    for row in [Some(tagged), Some(row(100, Some(120))), None, Some(row(90, None)), Some(row(95, None))] {
        let next = Head { row, ..head(RUN, newest.version + 1) };
        win(&*store, &key("a"), at(&newest), &next).await;
        let listed: Vec<_> = rows(&*store, &query()).await.into_iter().map(|listed| listed.row).collect();
        assert_eq!(listed, next.row.clone().into_iter().collect::<Vec<_>>());
        newest = next;
    }
    let next = Head { row: None, ..head(LATER, newest.version + 1) };
    win(&*store, &key("a"), Expect::Replacing(&newest), &next).await;
    assert_eq!(rows(&*store, &query()).await.len(), 1, "the kept head's row");
}
