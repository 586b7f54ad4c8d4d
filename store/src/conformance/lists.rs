//! Rules about lists.

use std::collections::BTreeSet;

use super::{Arc, Error, Expect, LATER, RUN, Store, at, head, key, row, start, win};
use crate::{Head, HeadKey, ListQuery, Listed, Order, PageToken, Row, RowReason, UnixMs};

pub(super) fn query() -> ListQuery {
    ListQuery { domain: Arc::from("orders"), limit: 100, ..ListQuery::default() }
}

/// Reads all pages of a list, and returns their rows.
pub(super) async fn rows(store: &dyn Store, query: &ListQuery) -> Vec<Listed> {
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

/// Checks that a page reports the number of examined rows. The number includes rows that do not match, and is at most
/// the number of existing rows.
pub async fn a_page_reports_how_many_rows_it_examined(store: Arc<dyn Store>) {
    for index in 0..10_u8 {
        win(&*store, &key(&format!("w{index}")), Expect::Absent, &head([index; 16], 1)).await;
    }
    for (query, least, most) in [
        (query(), 10, 10),
        (ListQuery { workflow_name: Some("nobody's".to_owned()), ..query() }, 10, 10),
        (ListQuery { workflow_id: Some("w3".to_owned()), ..query() }, 1, 1),
        (ListQuery { limit: 3, ..query() }, 3, 10),
        // An engine with an index by tag examines only rows with this tag.
        (ListQuery { tag: Some("nobody's".to_owned()), ..query() }, 0, 10),
    ] {
        let looked_at = store.list(&query, None).await.unwrap().looked_at;
        assert!((least..=most).contains(&looked_at), "{looked_at} for {query:?}");
    }
}

/// Checks that lists begin with the newest start. Rows with the same start have an arbitrary but stable order.
pub async fn lists_return_the_newest_start_first(store: Arc<dyn Store>) {
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

/// Checks all conditions of a list, one by one and combined.
pub async fn every_condition_of_a_list_holds(store: Arc<dyn Store>) {
    let other = Row { workflow_type: Arc::from("refund/2/b"), tags: vec!["us".to_owned()], ..row(30, None) };
    let why = RowReason::of(Some("declined".to_owned()), Some("card 7".to_owned()));
    let declined = Row { why, ..row(20, Some(25)) };
    for (id, row) in [("a", row(10, None)), ("b", declined.clone()), ("c", other)] {
        win(&*store, &key(id), Expect::Absent, &Head { row: Some(row), ..head(RUN, 1) }).await;
    }
    let elsewhere = HeadKey { domain: Arc::from("other"), workflow_id: Arc::from("d") };
    win(&*store, &elsewhere, Expect::Absent, &head(RUN, 1)).await;
    let cases: [(&[&str], ListQuery); 28] = [
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
        (&["b"], ListQuery { reason: Some("declined".to_owned()), ..query() }),
        (&["b"], ListQuery { reason: Some("declined".to_owned()), tag: Some("vip".to_owned()), ..query() }),
        (&[], ListQuery { reason: Some("decline".to_owned()), ..query() }),
        (&[], ListQuery { reason: Some("declined".to_owned()), open: Some(true), ..query() }),
        (&["d"], ListQuery { domain: Arc::from("other"), ..query() }),
    ];
    for (expected, query) in cases {
        assert_eq!(ids(&*store, &query).await, expected, "{query:?}");
    }
    let by_reason = ListQuery { reason: Some("declined".to_owned()), ..query() };
    assert_eq!(rows(&*store, &by_reason).await.first().unwrap().row, declined);
    assert_eq!(store.count(&by_reason, u64::MAX).await.unwrap().total(), 1);
    let edges = ListQuery { started_from: Some(0), started_before: Some(u64::MAX), ..query() };
    assert_eq!(ids(&*store, &edges).await, ["c", "b", "a"]);
    assert_eq!(ids(&*store, &ListQuery { started_before: Some(0), ..query() }).await, Vec::<String>::new());
}

/// Creates runs that were open for a moment, for years, and for times in between. They closed in a different order than
/// they started, some at the same instant. Returns their ids with start and close.
async fn lives(store: &dyn Store) -> Vec<(String, UnixMs, Option<UnixMs>)> {
    let durations = [0, 1, 70, 9_999, 10_000, 10_001, 60_000, 5_000_000, 40_000_000_000];
    let mut lives = Vec::new();
    for index in 0..30_u8 {
        let started_at = u64::from(index / 3) * 4_000;
        let duration = durations.get(usize::from(index) % (durations.len() + 1));
        let closed_at = duration.map(|duration| started_at + duration);
        let id = format!("w{index:02}");
        let row = Row { tags: vec![format!("third {}", index % 3)], ..row(started_at, closed_at) };
        win(store, &key(&id), Expect::Absent, &Head { row: Some(row), ..head([index; 16], 1) }).await;
        lives.push((id, started_at, closed_at));
    }
    lives
}

/// Checks the lists ordered by start and by close, newest first and oldest first. Lists ordered by close contain only
/// closed runs. Each order is the reverse of another order.
pub async fn lists_support_every_order(store: Arc<dyn Store>) {
    let lives = lives(&*store).await;
    for order in Order::ALL {
        let listed = rows(&*store, &ListQuery { order, ..query() }).await;
        let instants: Vec<_> = listed
            .iter()
            .map(|listed| if order.is_by_close() { listed.row.closed_at.unwrap() } else { listed.row.started_at })
            .collect();
        assert!(
            instants.is_sorted_by(|a, b| if order.is_oldest_first() { a <= b } else { a >= b }),
            "{order:?} {instants:?}"
        );
        let found: BTreeSet<_> = listed.iter().map(|listed| listed.workflow_id.to_string()).collect();
        let there = lives.iter().filter(|(.., closed_at)| !order.is_by_close() || closed_at.is_some());
        assert_eq!(found, there.map(|(id, ..)| id.clone()).collect(), "{order:?}");
        assert_eq!(found.len(), listed.len(), "{order:?}");
    }
    for (one, other) in [(Order::NewestStart, Order::OldestStart), (Order::NewestClose, Order::OldestClose)] {
        let one = ids(&*store, &ListQuery { order: one, ..query() }).await;
        let mut other = ids(&*store, &ListQuery { order: other, ..query() }).await;
        other.reverse();
        assert_eq!(one, other);
    }
}

/// Checks all conditions of a list in every order and page by page.
pub async fn every_condition_of_a_list_holds_in_every_order(store: Arc<dyn Store>) {
    lives(&*store).await;
    let (tag, workflow_type) = (Some("third 1".to_owned()), Some("order".to_owned()));
    let queries = [
        ListQuery { open: Some(true), ..query() },
        ListQuery { open: Some(false), ..query() },
        ListQuery { tag: tag.clone(), ..query() },
        ListQuery { tag: tag.clone(), open: Some(false), ..query() },
        ListQuery { workflow_type: workflow_type.clone(), ..query() },
        ListQuery { workflow_type: workflow_type.clone(), tag, open: Some(true), ..query() },
        ListQuery { workflow_type, started_from: Some(8_000), started_before: Some(40_001), ..query() },
        ListQuery { status: Some("open".to_owned()), ..query() },
        ListQuery { started_from: Some(8_000), started_before: Some(40_001), ..query() },
        ListQuery { closed_from: Some(9_999), closed_before: Some(60_000), ..query() },
        ListQuery { closed_from: Some(18_000), tag: Some("third 2".to_owned()), ..query() },
        ListQuery { closed_before: Some(50_000), started_from: Some(20_000), ..query() },
        ListQuery { closed_before: Some(0), ..query() },
        ListQuery { started_before: Some(0), ..query() },
        ListQuery { closed_from: Some(u64::MAX), ..query() },
    ];
    let all = rows(&*store, &query()).await;
    for order in Order::ALL {
        for limit in [7, 100] {
            for query in &queries {
                let query = ListQuery { order, limit, ..query.clone() };
                let fits = |listed: &&Listed| {
                    let is_listed = !order.is_by_close() || listed.row.closed_at.is_some();
                    is_listed && crate::listing::matches(&query, &listed.workflow_id, &listed.row)
                };
                let expected: BTreeSet<_> = all.iter().filter(fits).map(|listed| listed.run).collect();
                let found = rows(&*store, &query).await;
                assert_eq!(found.iter().map(|listed| listed.run).collect::<BTreeSet<_>>(), expected, "{query:?}");
                assert_eq!(found.len(), expected.len(), "{query:?}");
            }
        }
    }
}

/// Checks the condition by a prefix of the workflow id: with few and many matches, with one or several runs of a
/// workflow id, with other conditions, in every order and with any page size.
pub async fn a_prefix_finds_the_workflow_ids_that_start_with_it(store: Arc<dyn Store>) {
    let ids_there = ["order", "order-1", "order-10", "order-2", "Order-3", "ord\0er", "ordé", "a", "z"];
    for (number, id) in (1_u8..).zip(ids_there) {
        let started_at = u64::from(number) * 10;
        let closed_at = number.is_multiple_of(2).then_some(1_000 - started_at);
        let head = Head { row: Some(row(started_at, closed_at)), ..head([number; 16], 1) };
        win(&*store, &key(id), Expect::Absent, &head).await;
        if id == "order-2" {
            let next = Head { row: Some(row(500, None)), ..super::head([100; 16], 2) };
            win(&*store, &key(id), Expect::Replacing(&head), &next).await;
        }
    }
    win(
        &*store,
        &HeadKey { domain: Arc::from("other"), workflow_id: Arc::from("order-1") },
        Expect::Absent,
        &head(RUN, 1),
    )
    .await;
    for prefix in
        ["", "o", "ord", "order", "order-", "order-1", "order-10", "order-100", "O", "ord\0", "ordé", "d", "%"]
    {
        for order in Order::ALL {
            for open in if order.is_by_close() { &[None][..] } else { &[None, Some(true), Some(false)] } {
                let of = ListQuery { order, open: *open, ..query() };
                let mut expected = ids(&*store, &of).await;
                expected.retain(|id| id.starts_with(prefix));
                for limit in [3, 100] {
                    let query = ListQuery { workflow_id_prefix: Some(prefix.to_owned()), limit, ..of.clone() };
                    assert_eq!(ids(&*store, &query).await, expected, "{query:?}");
                    let counted = store.count(&query, u64::MAX).await.unwrap();
                    assert_eq!(counted.total(), expected.len() as u64, "{query:?}");
                }
            }
        }
    }
    let both = ListQuery {
        workflow_id: Some("order-1".to_owned()),
        workflow_id_prefix: Some("order-2".to_owned()),
        ..query()
    };
    assert_eq!(ids(&*store, &both).await, Vec::<String>::new());
}

/// Checks that every row is on exactly one page, with any page size, and with many runs that start or close at the same
/// instant.
pub async fn pages_contain_every_row_once(store: Arc<dyn Store>) {
    lives(&*store).await;
    for order in Order::ALL {
        let opens = [None, Some(true), Some(false)];
        // Lists ordered by close contain no open runs, so the cases that differ only in the condition on open runs are
        // omitted.
        for open in opens.into_iter().take(if order.is_by_close() { 1 } else { 3 }) {
            let all = ids(&*store, &ListQuery { order, open, ..query() }).await;
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
            // The smallest page size is tested only once per order: on a remote store, each page is a request over the
            // network.
            let smallest = if open.is_none() { Some(usize::from(order.is_oldest_first())) } else { None };
            for limit in smallest.into_iter().chain([3, 29, 30, 31]) {
                let paged = ids(&*store, &ListQuery { order, open, limit, ..query() }).await;
                assert_eq!(paged, all, "pages of {limit}, open {open:?}, {order:?}");
            }
        }
    }
}

/// Checks paging in every order while runs start, close and are deleted between the pages. A run that matches all the
/// time is on exactly one page. No run is on two pages.
pub async fn pages_miss_and_repeat_no_run_while_runs_change(store: Arc<dyn Store>) {
    for (number, order) in Order::ALL.into_iter().enumerate() {
        let domain: Arc<str> = format!("orders {number}").into();
        let key = |id: String| HeadKey { domain: Arc::clone(&domain), workflow_id: id.into() };
        let life =
            |number: u64| (number * 3_000, (!number.is_multiple_of(3)).then_some(number * 3_000 + number * 1_700));
        let of = |run: u8, started_at, closed_at| {
            let row = Row { tags: Vec::new(), ..row(started_at, closed_at) };
            Head { row: Some(row), ..head([run; 16], 1) }
        };
        for number in 1..=24_u8 {
            let (started_at, closed_at) = life(u64::from(number));
            win(&*store, &key(format!("w{number:02}")), Expect::Absent, &of(number, started_at, closed_at)).await;
        }
        let query = ListQuery { domain: Arc::clone(&domain), order, limit: 3, ..query() };
        let (mut seen, mut page, mut changed) = (Vec::new(), None, 0_u8);
        let mut is_changed = BTreeSet::new();
        loop {
            let found = store.list(&query, page.as_ref()).await.unwrap();
            seen.extend(found.rows.iter().map(|listed| (listed.workflow_id.to_string(), listed.run)));
            changed += 1;
            // Between two pages, one run closes, one starts, and one is deleted.
            let closes = changed * 3;
            if closes <= 24 {
                let (started_at, _) = life(u64::from(closes));
                let closed = Head { version: 2, ..of(closes, started_at, Some(u64::from(closes) * 5_000)) };
                let open = of(closes, started_at, None);
                win(&*store, &key(format!("w{closes:02}")), at(&open), &closed).await;
                is_changed.insert(format!("w{closes:02}"));
            }
            let (started_at, run) = (u64::from(changed) * 9_000, 100 + changed);
            win(&*store, &key(format!("new {changed}")), Expect::Absent, &of(run, started_at, Some(started_at + 7)))
                .await;
            let gone = changed * 3 - 1;
            if gone <= 24 {
                store.drop_run(&key(format!("w{gone:02}")), [gone; 16]).await.unwrap();
                is_changed.insert(format!("w{gone:02}"));
            }
            page = found.next;
            if page.is_none() {
                break;
            }
        }
        assert!(changed > 4, "{changed} pages");
        let ids: BTreeSet<_> = seen.iter().map(|(id, _)| id.clone()).collect();
        // Every third run is open, so lists ordered by close do not contain it.
        let listed = (1..=24_u8).filter(|number| !order.is_by_close() || !number.is_multiple_of(3));
        for id in listed.map(|number| format!("w{number:02}")).filter(|id| !is_changed.contains(id)) {
            assert!(ids.contains(&id), "{id} is on no page, {order:?}");
        }
        // Runs that change between pages are on at most one page. When a run closes, its position in lists ordered by
        // start stays the same, and it gets its only position in lists ordered by close.
        assert_eq!(ids.len(), seen.len(), "{order:?}: {seen:?}");
    }
}

/// Checks that the list of a workflow id contains its newest run and its earlier runs, each on one page.
pub async fn pages_by_workflow_id_contain_every_run_once(store: Arc<dyn Store>) {
    let mut newest: Option<Head> = None;
    for index in 1..=7_u8 {
        // Runs that start later close earlier.
        let closed_at = (index < 7).then_some(1_000 - u64::from(index));
        let next = Head { row: Some(row(u64::from(index), closed_at)), ..head([index; 16], u64::from(index)) };
        let expect = newest.as_ref().map_or(Expect::Absent, Expect::Replacing);
        win(&*store, &key("a"), expect, &next).await;
        newest = Some(next);
    }
    start(&*store, &key("b")).await;
    for limit in [1, 3, 7, 8] {
        let query = ListQuery { workflow_id: Some("a".to_owned()), limit, ..query() };
        let runs = async |order| {
            let rows = rows(&*store, &ListQuery { order, ..query.clone() }).await;
            rows.iter().map(|listed| listed.run[0]).collect::<Vec<_>>()
        };
        assert_eq!(runs(Order::NewestStart).await, [7, 6, 5, 4, 3, 2, 1], "pages of {limit}");
        assert_eq!(runs(Order::OldestStart).await, [1, 2, 3, 4, 5, 6, 7], "pages of {limit}");
        assert_eq!(runs(Order::NewestClose).await, [1, 2, 3, 4, 5, 6], "pages of {limit}");
        assert_eq!(runs(Order::OldestClose).await, [6, 5, 4, 3, 2, 1], "pages of {limit}");
    }
}

/// Checks that the list of a workflow id is never outdated. The deletion of a workflow id relies on this.
pub async fn lists_by_workflow_id_do_not_lag(store: Arc<dyn Store>) {
    let mut newest = start(&*store, &key("a")).await;
    for index in 1..=20_u8 {
        let next = Head { row: Some(row(u64::from(index), None)), ..head([100 + index; 16], newest.version + 1) };
        win(&*store, &key("a"), Expect::Replacing(&newest), &next).await;
        let query = ListQuery { workflow_id: Some("a".to_owned()), ..query() };
        assert_eq!(rows(&*store, &query).await.len(), usize::from(index) + 1);
        newest = next;
    }
}

/// Checks that an invalid page token is refused. Tokens come from clients and can contain anything.
pub async fn a_foreign_page_token_is_refused(store: Arc<dyn Store>) {
    start(&*store, &key("a")).await;
    for token in [vec![], vec![1, 2, 3], vec![0xFF; 40]] {
        let answer = store.list(&query(), Some(&PageToken(token.clone()))).await;
        assert!(matches!(answer, Err(Error::InvalidPage)), "{token:?}: {answer:?}");
    }
}

/// Checks that a page token is refused in a list with another order, in which its position has no meaning.
pub async fn a_page_token_of_another_order_is_refused(store: Arc<dyn Store>) {
    lives(&*store).await;
    for order in Order::ALL {
        let token = store.list(&ListQuery { order, limit: 1, ..query() }, None).await.unwrap().next.unwrap();
        for other in Order::ALL.into_iter().filter(|other| *other != order) {
            let answer = store.list(&ListQuery { order: other, ..query() }, Some(&token)).await;
            assert!(matches!(answer, Err(Error::InvalidPage)), "of {order:?} in {other:?}: {answer:?}");
        }
    }
}

/// Checks that lists show changes of a row: of its status, tags and start, and its removal.
pub async fn a_row_follows_its_head(store: Arc<dyn Store>) {
    let mut newest = start(&*store, &key("a")).await;
    let tagged = Row { tags: vec!["new".to_owned()], ..row(100, None) };
    for row in [Some(tagged), Some(row(100, Some(120))), None, Some(row(90, None)), Some(row(95, None))] {
        let next = Head { row, ..head(RUN, newest.version + 1) };
        win(&*store, &key("a"), at(&newest), &next).await;
        let listed: Vec<_> = rows(&*store, &query()).await.into_iter().map(|listed| listed.row).collect();
        assert_eq!(listed, next.row.clone().into_iter().collect::<Vec<_>>());
        for tag in ["new", "vip"] {
            let of_tag = ListQuery { tag: Some(tag.to_owned()), ..query() };
            let is_tagged = next.row.as_ref().is_some_and(|row| row.tags.iter().any(|of| of == tag));
            assert_eq!(rows(&*store, &of_tag).await.len(), usize::from(is_tagged), "{tag} of {:?}", next.row);
        }
        newest = next;
    }
    let next = Head { row: None, ..head(LATER, newest.version + 1) };
    win(&*store, &key("a"), Expect::Replacing(&newest), &next).await;
    assert_eq!(rows(&*store, &query()).await.len(), 1, "the kept head's row");
}
