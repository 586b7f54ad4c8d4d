//! Memory, start-up time and disk usage are limited by the options and do not depend on the size of the store.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_store_embedded::faults::{FaultAction, Faults};
use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, ListQuery, Order, PartKey, Row, Store};
use support::{head, key, small};
use tempfile::TempDir;

/// Commits the first head of many runs, 64 at a time.
async fn start_runs(store: &Arc<Embedded>, runs: u64, shape: impl Fn(u64) -> Head + Send + Sync + 'static) {
    let shape = Arc::new(shape);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..64 {
        let (store, shape) = (Arc::clone(store), Arc::clone(&shape));
        tasks.spawn(async move {
            for number in (task..runs).step_by(64) {
                let head = shape(number);
                let chunk = [(PartKey::Chunk { last: 9 }, Bytes::from(vec![5; 500]))];
                let answer = store.commit(&key(&format!("run-{number:07}")), Expect::Absent, &head, &chunk).await;
                assert_eq!(answer.unwrap(), Cas::Won);
            }
        });
    }
    tasks.join_all().await;
}

fn of_one_kb(number: u64) -> Head {
    Head { body: Bytes::from(vec![3; 1000]), ..head(&key(&number.to_string()), 1) }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_stays_below_its_limit_for_any_number_of_runs() {
    let directory = TempDir::new().unwrap();
    let options = Options { memory_bytes: 2 << 20, log_bytes: 8 << 20, ..small(directory.path()) };
    let store = Embedded::open(options.clone()).await.unwrap();
    start_runs(&store, 10_000, of_one_kb).await;
    let (_, most) = store.memory_bytes();
    // Up to 64 commits can pass the limit together.
    let most_allowed = options.memory_bytes + 64 * 2500;
    assert!(
        most > options.memory_bytes / 2 && most <= most_allowed,
        "{most} bytes, at most {most_allowed} are allowed"
    );
    // A checkpoint may remove a segment between the listing of segments and the reading of its size.
    let log: u64 =
        support::segments(directory.path()).iter().filter_map(|path| path.metadata().ok()).map(|of| of.len()).sum();
    assert!(log > 0, "no segment at all");
    assert!(log <= options.log_bytes + 4 * options.segment_bytes, "{log} bytes of log");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_store_writes_its_memory_to_redb_except_a_little() {
    let (much, little) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = Embedded::open(Options::new(much.path())).await.unwrap();
    let other = Embedded::open(Options::new(little.path())).await.unwrap();
    start_runs(&other, 10, of_one_kb).await;
    start_runs(&store, 2_000, of_one_kb).await;
    assert!(store.memory_bytes().0 > 2 << 20);
    let is_done = (0..1_500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        store.memory_bytes().0 == 0
    });
    assert!(is_done, "{:?} bytes are still in memory", store.memory_bytes());
    // The store with little data was idle for longer than the store with much data.
    assert!(other.memory_bytes().0 > 10_000);
    store.close().await.unwrap();
    other.close().await.unwrap();
}

async fn work_of_a_start(directory: &Path, runs: u64) -> baton_store_embedded::Recovery {
    let store = Embedded::open(small(directory)).await.unwrap();
    start_runs(&store, runs, of_one_kb).await;
    store.close().await.unwrap();
    drop(store);
    let store = Embedded::open(small(directory)).await.unwrap();
    assert_eq!(store.due(0, u64::MAX, None, usize::try_from(runs).unwrap() + 1).await.unwrap().len() as u64, runs);
    store.recovery()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_start_does_not_grow_with_the_open_runs() {
    let (few, many) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let few = work_of_a_start(few.path(), 200).await;
    let many = work_of_a_start(many.path(), 10_000).await;
    assert_eq!((few.batches_replayed, many.batches_replayed), (0, 0));
    // A start reads at most the newest segment and the spares.
    let segments = 4 * small(Path::new("")).segment_bytes;
    let read = [few.bytes_read, many.bytes_read];
    assert!(read.iter().all(|read| (1..=segments).contains(read)), "{read:?} bytes read");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_of_a_start_after_a_crash_is_limited() {
    let directory = TempDir::new().unwrap();
    let options = small(directory.path());
    let store = Embedded::open(options.clone()).await.unwrap();
    start_runs(&store, 10_000, of_one_kb).await;
    drop(store);
    let store = Embedded::open(options.clone()).await.unwrap();
    let read = store.recovery().bytes_read;
    let most = options.log_bytes * 2;
    assert!((options.segment_bytes..=most).contains(&read), "{read} bytes read, at most {most}");
    assert_eq!(store.due(0, u64::MAX, None, 20_000).await.unwrap().len(), 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_replayed_layer_does_not_delay_a_start() {
    const RUNS: u64 = 4_000;
    let directory = TempDir::new().unwrap();
    let roomy = Options { memory_bytes: 64 << 20, ..Options::new(directory.path()) };
    drop(left_in_the_log(roomy.clone(), RUNS).await);
    // About 9 MiB are replayed. Depending on the limit, they fit into one layer, fit into a frozen and an active layer,
    // or need more layers than memory can hold.
    for (memory_bytes, written) in [(64 << 20, 0..=0), (12 << 20, 0..=0), (1 << 20, 5..=30)] {
        let faults = Arc::new(Faults::default());
        // Checkpoints fail early, so that each start finds the same log.
        faults.at("checkpoint: piece", FaultAction::Fail);
        let store = Embedded::open(Options { memory_bytes, faults, ..roomy.clone() }).await.unwrap();
        let recovery = store.recovery();
        assert!(written.contains(&recovery.layers_written), "{memory_bytes}: {recovery:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_reads_the_layers_it_has_frozen() {
    const RUNS: u64 = 4_000;
    for memory_bytes in [64 << 20, 12 << 20, 1 << 20] {
        let directory = TempDir::new().unwrap();
        let roomy = Options { memory_bytes: 64 << 20, ..Options::new(directory.path()) };
        drop(left_in_the_log(roomy.clone(), RUNS).await);
        let store = Embedded::open(Options { memory_bytes, ..roomy }).await.unwrap();
        // Commits continue with the replayed versions.
        let another = HeadKey { workflow_id: Arc::from("another"), ..early() };
        assert_eq!(store.commit(&another, Expect::Absent, &head(&another, 1), &[]).await.unwrap(), Cas::Won);
        let (late, early) = (key("any").domain, early().domain);
        for (domain, flagged, expected) in
            [(&late, None, RUNS), (&late, Some(true), AGAIN), (&late, Some(false), RUNS - AGAIN), (&early, None, 2)]
        {
            let query = ListQuery { domain: Arc::clone(domain), flagged, limit: 10, ..ListQuery::default() };
            assert_eq!(
                store.count(&query, 20_000).await.unwrap().by_status.values().sum::<u64>(),
                expected,
                "{flagged:?} of {memory_bytes}"
            );
        }
        assert_eq!(store.due(0, u64::MAX, None, 20_000).await.unwrap().len() as u64, RUNS + 2);
        for number in [0, AGAIN - 1, AGAIN, RUNS - 1] {
            let found = store.load(&key(&format!("run-{number:07}"))).await.unwrap().unwrap();
            assert_eq!(found.version, if number < AGAIN { 3 } else { 1 });
        }
    }
}

/// Number of runs that are committed to again after all were started.
const AGAIN: u64 = 100;

fn early() -> HeadKey {
    HeadKey { domain: Arc::from("early"), ..key("early") }
}

/// Creates a store with all its data in the log, and with several versions of some rows.
async fn left_in_the_log(options: Options, runs: u64) -> Arc<Embedded> {
    let store = Embedded::open(options).await.unwrap();
    // This domain gets no further writes, so its numbers are in the oldest part of the log.
    let early = early();
    assert_eq!(store.commit(&early, Expect::Absent, &head(&early, 1), &[]).await.unwrap(), Cas::Won);
    start_runs(&store, runs, of_one_kb).await;
    for key in (0..AGAIN).map(|number| key(&format!("run-{number:07}"))) {
        // The third version of a row is flagged.
        assert_eq!(support::next(&*store, &key).await.unwrap(), 2);
        assert_eq!(support::next(&*store, &key).await.unwrap(), 3);
    }
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_events_are_readable_by_range() {
    const CHUNKS: u64 = 1000;
    const EVENTS: u64 = 1000;
    let directory = TempDir::new().unwrap();
    let options = Options { memory_bytes: 1 << 20, ..Options::new(directory.path()) };
    let store = Embedded::open(options.clone()).await.unwrap();
    let key = key("long");
    let chunk = |last: u64| Bytes::from(format!("{last:010}").repeat(500));
    for number in 1..=CHUNKS {
        let expect =
            if number == 1 { Expect::Absent } else { Expect::Exactly { run: support::RUN, version: number - 1 } };
        let part = (PartKey::Chunk { last: number * EVENTS }, chunk(number * EVENTS));
        assert_eq!(store.commit(&key, expect, &head(&key, number), &[part]).await.unwrap(), Cas::Won);
    }
    for is_reopened in [false, true] {
        let store = if is_reopened {
            store.close().await.unwrap();
            Embedded::open(options.clone()).await.unwrap()
        } else {
            Arc::clone(&store)
        };
        for from in [1, 999, 1000, 1001, 500_500, 777_777, 999_001, 1_000_000] {
            let found = store.chunks(&key, support::RUN, from, 12_000).await.unwrap();
            let first = from.div_ceil(EVENTS) * EVENTS;
            let expected: Vec<_> =
                (0..3).map(|next| first + next * EVENTS).filter(|last| *last <= CHUNKS * EVENTS).collect();
            assert_eq!(found.iter().map(|(last, _)| *last).collect::<Vec<_>>(), expected, "from {from}");
            assert!(found.iter().all(|(last, bytes)| *bytes == chunk(*last)));
        }
        let back = store.chunks_back(&key, support::RUN, 500_001, 12_000).await.unwrap();
        assert_eq!(back.iter().map(|(last, _)| *last).collect::<Vec<_>>(), [500_000, 499_000, 498_000]);
        let all = store.chunks(&key, support::RUN, 0, usize::MAX).await.unwrap();
        assert_eq!(all.len() as u64, CHUNKS);
    }
}

fn tree_bytes(directory: &Path) -> u64 {
    directory.join("tree.redb").metadata().unwrap().len()
}

const GENERATIONS: u8 = 8;
const RUNS_OF_A_GENERATION: u64 = 2_000;

#[tokio::test(flavor = "multi_thread")]
async fn retention_frees_space_and_compaction_returns_it() {
    let directory = TempDir::new().unwrap();
    let options = Options { memory_bytes: 4 << 20, log_bytes: 16 << 20, ..small(directory.path()) };
    // The size of the file depends on the timing of the checkpoint thread, which determines how much of a generation
    // reaches the file before it is deleted. It also depends on the last page in use, because the file cannot be
    // truncated before this page. The file is therefore measured when it contains exactly one complete generation.
    let mut sizes = Vec::new();
    for generation in 1..=GENERATIONS {
        let store = Embedded::open(options.clone()).await.unwrap();
        start_runs(&store, RUNS_OF_A_GENERATION, move |number| Head {
            run: [generation; 16],
            expires_at: Some(u64::from(generation)),
            ..of_one_kb(number)
        })
        .await;
        store.close().await.unwrap();
        sizes.push(tree_bytes(directory.path()));
        drop(store);
        let store = Embedded::open(options.clone()).await.unwrap();
        while store.expire(u64::from(generation), 1000).await.unwrap() > 0 {}
        assert_eq!(store.due(0, u64::MAX, None, 10).await.unwrap(), []);
        store.close().await.unwrap();
    }
    println!("tree.redb with each generation: {sizes:?}");
    // Total size of the bodies and chunks of all generations.
    let all = u64::from(GENERATIONS) * RUNS_OF_A_GENERATION * 1_500;
    assert!(sizes.iter().all(|size| *size < all), "the file grows with each generation: {sizes:?} of {all}");
    Embedded::compact(directory.path()).await.unwrap();
    let compacted = tree_bytes(directory.path());
    assert!(compacted < 1 << 20, "{compacted} bytes for an empty store, of {sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_many_parts_is_deleted_even_across_a_crash() {
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    let parts: Vec<_> = (1..=5000).map(|last| (PartKey::Chunk { last }, Bytes::from_static(b"chunk"))).collect();
    let first = Head { expires_at: Some(5), ..head(&key("a"), 1) };
    assert_eq!(store.commit(&key("a"), Expect::Absent, &first, &parts).await.unwrap(), Cas::Won);
    // The deletion is interrupted in the middle: the head is deleted first, and the parts follow in pieces.
    {
        let forgetting = store.expire(5, 10);
        tokio::pin!(forgetting);
        while store.load(&key("a")).await.unwrap().is_some() {
            let pending = std::future::poll_fn(|ctx| {
                std::task::Poll::Ready(std::future::Future::poll(forgetting.as_mut(), ctx).is_pending())
            });
            if !pending.await {
                break;
            }
        }
    }
    drop(store);
    let store = Embedded::open(small(directory.path())).await.unwrap();
    // The same run started again does not see its earlier data.
    assert_eq!(store.commit(&key("a"), Expect::Absent, &head(&key("a"), 1), &[]).await.unwrap(), Cas::Won);
    assert_eq!(store.chunks(&key("a"), support::RUN, 0, 100).await.unwrap(), []);
}

/// The test varies the number of matches, the order, and the location of the rows: in the log, in memory or in redb.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_examines_little_more_than_its_rows() {
    const RUNS: u64 = 3_000;
    const LIMIT: usize = 20;
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    let row = |number: u64| Row {
        workflow_type: "order".into(),
        status: "success".into(),
        flagged: false,
        started_at: number,
        // Runs that start late close early, and one in four is open.
        closed_at: (!number.is_multiple_of(4)).then_some(10_000 - number),
        tags: Vec::new(),
        why: None,
    };
    start_runs(&store, RUNS, move |number| Head { row: Some(row(number)), ..of_one_kb(number) }).await;
    let domain = key("a").domain;
    for order in Order::ALL {
        for open in [None, Some(true), Some(false)] {
            let query = ListQuery { domain: Arc::clone(&domain), order, open, limit: LIMIT, ..ListQuery::default() };
            let (mut rows, mut next) = (0, None);
            loop {
                let before = store.stats().rows_read;
                let page = store.list(&query, next.as_ref()).await.unwrap();
                let read = store.stats().rows_read - before;
                assert!(read <= 2 * (LIMIT as u64 + 1), "{read} rows for {}, {query:?}", page.rows.len());
                rows += page.rows.len() as u64;
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
            let expected = match (open, order.is_by_close()) {
                (Some(true), true) => 0,
                (None, false) => RUNS,
                (Some(true), false) => RUNS / 4,
                (Some(false), _) | (None, true) => RUNS - RUNS / 4,
            };
            assert_eq!(rows, expected, "{query:?}");
        }
    }
}

/// The test varies the number of other runs and the time at which the matching runs were started.
#[tokio::test]
async fn a_rare_prefix_is_found_without_examining_other_runs() {
    const RUNS: u64 = 3_000;
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    let row = |number: u64| Row {
        workflow_type: "order".into(),
        status: "open".into(),
        flagged: false,
        started_at: number,
        closed_at: None,
        tags: Vec::new(),
        why: None,
    };
    start_runs(&store, RUNS, move |number| Head { row: Some(row(number)), ..of_one_kb(number) }).await;
    // A frequent prefix is searched among the newest runs, after too many workflow ids have matched.
    for (prefix, expected, most) in
        [("run-00017", 100, 100), ("run-0001700", 1, 1), ("x", 0, 0), ("run-", RUNS, 1_000 + 4_096)]
    {
        let domain = key("a").domain;
        let query =
            ListQuery { domain, workflow_id_prefix: Some(prefix.to_owned()), limit: 20, ..ListQuery::default() };
        let before = store.stats().rows_read;
        let (mut found, mut next, mut pages) = (0, None, 0);
        loop {
            let page = store.list(&query, next.as_ref()).await.unwrap();
            (found, pages) = (found + page.rows.len() as u64, pages + 1);
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        let read = store.stats().rows_read - before;
        assert_eq!(found, expected, "{prefix}");
        assert!(read <= most * pages, "{read} rows for {found} in {pages} pages, {prefix}");
    }
}

/// The test varies the number of other runs and the time at which the matching runs were started. It includes lists of
/// more than two pages and lists with additional conditions.
#[tokio::test(flavor = "multi_thread")]
async fn a_type_or_tag_is_found_without_examining_other_runs() {
    const RUNS: u64 = 3_000;
    const LIMIT: usize = 20;
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    // The first fifty have another type, the 17th has a tag; one in four is open.
    let row = |number: u64| Row {
        workflow_type: if number < 50 { "refund".into() } else { "order".into() },
        status: if number.is_multiple_of(4) { "open" } else { "success" }.into(),
        flagged: false,
        started_at: number,
        closed_at: (!number.is_multiple_of(4)).then_some(10_000 - number),
        tags: if number == 16 { vec!["rare".to_owned()] } else { Vec::new() },
        why: None,
    };
    start_runs(&store, RUNS, move |number| Head { row: Some(row(number)), ..of_one_kb(number) }).await;
    let query = ListQuery { domain: key("a").domain, limit: LIMIT, ..ListQuery::default() };
    let refunds = ListQuery { workflow_type: Some("refund".to_owned()), ..query.clone() };
    let rare = ListQuery { tag: Some("rare".to_owned()), ..query.clone() };
    let none = ListQuery { tag: Some("none".to_owned()), ..query.clone() };
    let a_page = LIMIT as u64 + 1;
    for (query, expected, most) in [
        (refunds.clone(), 50, 2 * a_page),
        (ListQuery { open: Some(true), ..refunds.clone() }, 13, 13),
        (ListQuery { open: Some(false), ..refunds.clone() }, 37, a_page),
        (ListQuery { order: Order::OldestStart, ..refunds.clone() }, 50, 2 * a_page),
        // A term with few rows is sorted as a whole for each page.
        (ListQuery { order: Order::NewestClose, ..refunds.clone() }, 37, 37),
        (ListQuery { status: Some("success".to_owned()), ..refunds.clone() }, 37, 50),
        (rare.clone(), 1, 1),
        (ListQuery { workflow_type: Some("refund".to_owned()), ..rare.clone() }, 1, 1),
        (ListQuery { workflow_type: Some("order".to_owned()), ..rare.clone() }, 0, 1),
        (none.clone(), 0, 0),
        (ListQuery { workflow_type: Some("order".to_owned()), ..query.clone() }, RUNS - 50, 2 * a_page),
    ] {
        let (mut found, mut next, mut looked_at) = (0, None, 0);
        loop {
            let before = store.stats().rows_read;
            let page = store.list(&query, next.as_ref()).await.unwrap();
            let read = store.stats().rows_read - before;
            assert!(read <= most, "{read} rows for {}, {query:?}", page.rows.len());
            looked_at += page.looked_at;
            found += page.rows.len() as u64;
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{query:?}");
        assert!(looked_at >= found, "{looked_at}");
        let before = store.stats().rows_read;
        let count = store.count(&ListQuery { order: Order::NewestStart, ..query.clone() }, u64::MAX).await.unwrap();
        let read = store.stats().rows_read - before;
        if query.workflow_type.as_deref() != Some("order") {
            assert!(read <= 50, "{read} rows to count {count:?}, {query:?}");
        }
    }
}

/// An entry of a term moves and disappears with the row, so lists never examine stale entries.
#[tokio::test]
async fn the_terms_of_a_run_are_removed_with_it() {
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    let key = key("a");
    let open = head(&key, 1);
    let row = open.row.clone().unwrap();
    let tag = |tag: &str| vec![tag.to_owned()];
    let heads = [
        Head { row: Some(Row { tags: tag("one"), ..row.clone() }), ..open.clone() },
        Head { row: Some(Row { tags: tag("two"), ..row.clone() }), version: 2, ..open.clone() },
        Head { row: Some(Row { tags: tag("two"), closed_at: Some(9_000), ..row }), version: 3, ..open },
    ];
    let looked_at = async |tag: Option<&str>, open| {
        let workflow_type = tag.is_none().then(|| "crash".to_owned());
        let tag = tag.map(str::to_owned);
        let query =
            ListQuery { domain: Arc::clone(&key.domain), workflow_type, tag, open, limit: 9, ..ListQuery::default() };
        let before = store.stats().rows_read;
        store.list(&query, None).await.unwrap();
        store.stats().rows_read - before
    };
    for (index, head) in heads.iter().enumerate() {
        let expect = match index.checked_sub(1).and_then(|before| heads.get(before)) {
            None => Expect::Absent,
            Some(before) => Expect::Exactly { run: before.run, version: before.version },
        };
        assert_eq!(store.commit(&key, expect, head, &[]).await.unwrap(), Cas::Won);
        let is_open = head.row.as_ref().is_some_and(|row| row.closed_at.is_none());
        for open in [None, Some(true), Some(false)] {
            let is_there = u64::from(open.is_none_or(|open| open == is_open));
            assert_eq!(looked_at(None, open).await, is_there, "{index}");
            assert_eq!(looked_at(Some("one"), open).await, is_there * u64::from(index == 0), "{index}");
            assert_eq!(looked_at(Some("two"), open).await, is_there * u64::from(index > 0), "{index}");
        }
    }
    store.drop_run(&key, support::RUN).await.unwrap();
    assert_eq!(looked_at(None, None).await + looked_at(Some("two"), None).await, 0);
}
