//! Pages of lists read few more rows from the table than they return, for any number of matches and in every order.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::Emulator;
use baton_store_dynamodb::Create;
use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, ListQuery, Listed, Order, Row, Store, UnixMs};

/// Number of runs of a domain. One run is started each second.
const RUNS: u64 = 1_200;

/// Read units that the queries of a page cost in addition to the rows: one for each query. A page queries each of four
/// shards twice, for open and for closed runs or for two kinds of closed runs.
const QUERIES: u64 = 8;

async fn with_runs(life: impl Fn(u64) -> Option<UnixMs>) -> Arc<dyn Store> {
    let store = Emulator::new().store();
    store.create_table(Create::default()).await.expect("the emulator makes tables");
    for number in 0..RUNS {
        let key = HeadKey { domain: Arc::from("orders"), workflow_id: format!("w-{number}").into() };
        let started_at = 1_000_000_000 + number * 1_000;
        let row = Row {
            workflow_type: Arc::from("order"),
            status: Arc::from("success"),
            flagged: false,
            started_at,
            closed_at: life(number).map(|life| started_at + life),
            tags: Vec::new(),
            why: None,
        };
        let run = u128::from(number).to_be_bytes();
        let head = Head { run, version: 1, body: Bytes::new(), due: None, row: Some(row), expires_at: None };
        assert_eq!(store.commit(&key, Expect::Absent, &head, &[]).await.expect("a commit"), Cas::Won);
    }
    Arc::new(store)
}

/// Reads every page of a list. Returns the number of pages and of rows (each once and in order), and the maximum of
/// rows examined by one page.
async fn pages(store: &Arc<dyn Store>, order: Order, open: Option<bool>, limit: usize) -> (u64, usize, u64) {
    let query = ListQuery { domain: Arc::from("orders"), order, open, limit, ..ListQuery::default() };
    let (mut count, mut rows, mut most, mut next) = (0, Vec::new(), 0, None);
    loop {
        let before = store.stats();
        let page = store.list(&query, next.as_ref()).await.expect("a page");
        let after = store.stats();
        let (read, units) = (after.rows_read - before.rows_read, after.read_units - before.read_units);
        assert!(units <= QUERIES + read.div_ceil(40), "{units} units for {read} rows");
        count += 1;
        rows.extend(page.rows);
        most = most.max(read);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    let at = |listed: &Listed| if order.is_by_close() { listed.row.closed_at } else { Some(listed.row.started_at) };
    let is_sorted = rows.is_sorted_by(|a, b| if order.is_oldest_first() { at(a) <= at(b) } else { at(a) >= at(b) });
    assert!(is_sorted, "{order:?}");
    let ids: BTreeSet<_> = rows.iter().map(|listed| &listed.workflow_id).collect();
    assert_eq!(ids.len(), rows.len(), "{order:?}");
    (count, rows.len(), most)
}

#[tokio::test]
async fn a_page_examines_a_small_multiple_of_its_rows() {
    // Runs are open for half a second, a minute and an hour in turn.
    let life = |number| match number % 3 {
        0 => 500,
        1 => 60_000,
        _ => 3_600_000,
    };
    let store = with_runs(|number| Some(life(number))).await;
    for order in Order::ALL {
        let (count, rows, most) = pages(&store, order, Some(false), 50).await;
        assert_eq!(rows as u64, RUNS, "{order:?}");
        assert!(count <= RUNS / 50 + 2, "{count} pages, {order:?}");
        // A page reads the rows that it needs from each of four shards, twice. A page by close also reads the rows that
        // started within ten seconds.
        let budget = if order.is_by_close() { 4 * (2 * 52 + 200) } else { 4 * 52 };
        assert!(most <= budget, "{most} rows examined for 50, {order:?}");
    }
}

#[tokio::test]
async fn a_page_by_close_does_not_examine_open_runs() {
    let store = with_runs(|number: u64| number.is_multiple_of(400).then_some(60_000)).await;
    for order in [Order::NewestClose, Order::OldestClose] {
        assert_eq!(pages(&store, order, None, 50).await, (1, 3, 6), "the three, by close and by start");
    }
}

/// A list by a prefix of the workflow id examines rows in order of time, because the index is sorted by time. Each page
/// examines a limited number of rows of a partition.
#[tokio::test]
async fn a_page_by_prefix_examines_a_limited_number_of_rows() {
    let store = with_runs(|_| None).await;
    for (prefix, expected) in [("w-11", 111), ("w-1199", 1), ("x", 0)] {
        let domain = Arc::from("orders");
        let query =
            ListQuery { domain, workflow_id_prefix: Some(prefix.to_owned()), limit: 50, ..ListQuery::default() };
        let (mut found, mut next) = (0, None);
        loop {
            let before = store.stats().rows_read;
            let page = store.list(&query, next.as_ref()).await.expect("a page");
            let read = store.stats().rows_read - before;
            assert!(read <= 4 * 1_000, "{read} rows examined, {prefix}");
            found += page.rows.len();
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{prefix}");
    }
}
