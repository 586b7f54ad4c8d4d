//! Stores and archives of earlier versions can be read. The files in `golden` are never changed; each new form gets
//! another directory.
//!
//! The files were written once by `BATON_WRITE_GOLDEN=DIRECTORY cargo test -p baton-store-embedded --test golden`:
//!
//! * `log` is a store with all its data in the log.
//! * `tree` is a store that was closed and compacted, so that redb contains everything.
//! * `values`, from form 3 on, is a store that was closed with large values kept in segments of the log.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

mod support;

use std::path::Path;
use std::sync::Arc;

use baton_store_archive::{BackupOptions, RestoreOptions, restore, verify};
use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use store::{Cas, Due, Expect, Head, HeadKey, ListQuery, Order, PartKey, Row, Store};
use support::{copy_directory, key};
use tempfile::TempDir;

const FIRST: [u8; 16] = *b"first run's 16 b";
const SECOND: [u8; 16] = *b"second run's 16 ";

fn closed() -> Head {
    Head {
        run: FIRST,
        version: 2,
        body: Bytes::from_static(b"closed body"),
        due: None,
        row: Some(Row {
            workflow_type: Arc::from("order"),
            status: Arc::from("success"),
            flagged: false,
            started_at: 1_700_000_000_000,
            closed_at: Some(1_700_000_000_500),
            tags: vec!["eu".to_owned(), "größe".to_owned()],
            why: None,
        }),
        expires_at: Some(1_800_000_000_000),
    }
}

fn open() -> Head {
    Head {
        run: SECOND,
        version: 3,
        body: Bytes::from_static(b"\x00\xFFbody"),
        due: Some(1_700_000_100_000),
        row: Some(Row {
            workflow_type: Arc::from("order"),
            status: Arc::from("open"),
            flagged: false,
            started_at: 1_700_000_001_000,
            closed_at: None,
            tags: Vec::new(),
            why: None,
        }),
        expires_at: None,
    }
}

fn bare() -> Head {
    Head { run: FIRST, version: 1, body: Bytes::new(), due: None, row: None, expires_at: None }
}

const PARTS: [(PartKey, Bytes); 3] = [
    (PartKey::Chunk { last: 12 }, Bytes::from_static(b"twelve events")),
    (PartKey::Pack { op: u64::MAX }, Bytes::from_static(b"payloads")),
    (PartKey::Heartbeat { scheduled: 7 }, Bytes::from_static(b"beat")),
];

async fn write(store: &dyn Store) {
    let earlier = Head { version: 1, due: Some(5), row: None, expires_at: None, ..closed() };
    let at = |head: &Head| Expect::Exactly { run: head.run, version: head.version };
    let (closed, open) = (closed(), open());
    let (none, all): (&[_], &[_]) = (&[], &PARTS);
    for (id, expect, head, parts) in [
        ("a\0ü", Expect::Absent, &earlier, all),
        ("a\0ü", at(&earlier), &closed, none),
        ("a\0ü", Expect::Replacing(&closed), &open, none),
        ("bare", Expect::Absent, &bare(), none),
        ("gone", Expect::Absent, &bare(), all),
    ] {
        assert_eq!(store.commit(&key(id), expect, head, parts).await.unwrap(), Cas::Won);
    }
    store.drop_run(&key("gone"), FIRST).await.unwrap();
}

async fn check(store: &dyn Store) {
    let a = key("a\0ü");
    assert_eq!(store.load(&a).await.unwrap(), Some(open()));
    assert_eq!(store.load_run(&a, FIRST).await.unwrap(), Some(closed()));
    assert_eq!(store.load(&key("bare")).await.unwrap(), Some(bare()));
    assert_eq!(store.load(&key("gone")).await.unwrap(), None);
    let want = PARTS.map(|(part, _)| part);
    assert_eq!(store.parts(&a, FIRST, &want).await.unwrap(), PARTS.map(|(_, bytes)| Some(bytes)));
    assert_eq!(store.parts(&key("gone"), FIRST, &want).await.unwrap(), [None, None, None]);
    assert_eq!(store.due(0, u64::MAX, None, 9).await.unwrap(), [Due { at: open().due.unwrap(), key: a.clone() }]);
    let query = ListQuery { domain: Arc::from("crash"), limit: 9, ..ListQuery::default() };
    let rows: Vec<_> = store.list(&query, None).await.unwrap().rows.into_iter().map(|listed| listed.row).collect();
    assert_eq!(rows, [open().row.unwrap(), closed().row.unwrap()]);
    let by_close = ListQuery { order: Order::NewestClose, ..query.clone() };
    let rows: Vec<_> = store.list(&by_close, None).await.unwrap().rows.into_iter().map(|listed| listed.row).collect();
    assert_eq!(rows, [closed().row.unwrap()]);
    let counted = store.count(&query, u64::MAX).await.unwrap().by_status;
    assert_eq!(counted, [("open".into(), 1), ("success".into(), 1)].into(), "even if no numbers were stored");
    // Lists by types and tags work, too, although the version that wrote this store did not index them.
    let (tag, workflow_type) = (Some("größe".to_owned()), Some("order".to_owned()));
    for (query, expected) in [
        (ListQuery { workflow_type, ..query.clone() }, vec![open().row.unwrap(), closed().row.unwrap()]),
        (ListQuery { tag, ..query.clone() }, vec![closed().row.unwrap()]),
    ] {
        let rows: Vec<_> = store.list(&query, None).await.unwrap().rows.into_iter().map(|listed| listed.row).collect();
        assert_eq!(rows, expected);
    }
    assert_eq!(store.expire(1_800_000_000_000, 9).await.unwrap(), 1);
    assert_eq!(store.load_run(&a, FIRST).await.unwrap(), None);
    assert_eq!(store.count(&query, u64::MAX).await.unwrap().by_status, [("open".into(), 1)].into());
}

async fn write_golden(directory: &Path) {
    let log = TempDir::new().unwrap();
    let store = Embedded::open(Options::new(log.path())).await.unwrap();
    write(&*store).await;
    drop(store);
    copy_directory(log.path(), &directory.join("log"));
    std::fs::remove_file(directory.join("log/tree.redb")).unwrap();
    let segment = support::newest_segment(&directory.join("log")).unwrap();
    let end = support::data_end(&segment);
    support::change(&segment, |bytes| bytes.truncate(end));
    let tree = directory.join("tree");
    let store = Embedded::open(Options::new(&tree)).await.unwrap();
    write(&*store).await;
    store.close().await.unwrap();
    drop(store);
    Embedded::compact(&tree).await.unwrap();
    let values = directory.join("values");
    let small = || Options { segment_bytes: 8 << 10, ..Options::new(&values) };
    let store = Embedded::open(small()).await.unwrap();
    write(&*store).await;
    for (version, (part, bytes)) in (1..).zip(large()) {
        let expect = if version == 1 { Expect::Absent } else { Expect::Exactly { run: FIRST, version: version - 1 } };
        let answer = store.commit(&key("large"), expect, &Head { version, ..bare() }, &[(part, bytes)]).await;
        assert_eq!(answer.unwrap(), Cas::Won);
    }
    store.close().await.unwrap();
    drop(store);
    Embedded::compact(&values).await.unwrap();
}

/// Parts that each fill a segment of the golden store.
fn large() -> [(PartKey, Bytes); 3] {
    let bytes = |byte: u8| Bytes::from(vec![byte; 6 << 10]);
    [
        (PartKey::Chunk { last: 3 }, bytes(3)),
        (PartKey::Pack { op: 4 }, bytes(4)),
        (PartKey::Heartbeat { scheduled: 5 }, bytes(5)),
    ]
}

#[tokio::test]
async fn stores_of_formats_2_to_4_can_be_read() {
    if let Ok(directory) = std::env::var("BATON_WRITE_GOLDEN") {
        write_golden(Path::new(&directory)).await;
    }
    for form in [
        "format-2/log",
        "format-2/tree",
        "format-3/log",
        "format-3/tree",
        "format-3/values",
        "format-4/log",
        "format-4/tree",
        "format-4/values",
    ] {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(form);
        let copy = TempDir::new().unwrap();
        copy_directory(&golden, copy.path());
        let store = Embedded::open(Options::new(copy.path())).await.unwrap();
        assert_eq!(store.recovery().batches_replayed > 0, form.ends_with("log"));
        drop(store);
        let format = std::fs::read_to_string(copy.path().join("FORMAT")).unwrap();
        assert!(format.contains("format 4,"), "{format}");
        // The second start finds the checksums that the first one has added.
        let store = Embedded::open(Options::new(copy.path())).await.unwrap();
        if form.ends_with("values") {
            let found = store.parts(&key("large"), FIRST, &large().map(|(part, _)| part)).await.unwrap();
            assert!(found == large().map(|(_, bytes)| Some(bytes)));
            store.drop_run(&key("large"), FIRST).await.unwrap();
        }
        check(&*store).await;
        store.close().await.unwrap();
        drop(store);
        drop(Embedded::open(Options { verify_all: true, ..Options::new(copy.path()) }).await.unwrap());
    }
}

/// Key of the data after the base of the golden archive.
fn later() -> HeadKey {
    HeadKey { domain: Arc::from("later"), workflow_id: Arc::from("later") }
}

async fn write_golden_archive(archive: &Path) {
    let data = TempDir::new().unwrap();
    let store = Embedded::open(Options::new(data.path())).await.unwrap();
    write(&*store).await;
    store.close().await.unwrap();
    // The store is opened again, so that redb contains the earlier data and the log contains the later data.
    let store = Embedded::open(Options::new(data.path())).await.unwrap();
    baton_store_archive::serve_backups(&store).unwrap();
    for number in 0..2 {
        let (data, options) = (data.path().to_owned(), BackupOptions::new(archive));
        let done = tokio::task::spawn_blocking(move || baton_store_archive::back_up(&data, &options, &mut |_| ()))
            .await
            .unwrap();
        assert_eq!(done.unwrap().base.is_some(), number == 0);
        if number == 0 {
            store.commit(&later(), Expect::Absent, &bare(), &[]).await.unwrap();
        }
    }
    std::fs::remove_file(archive.join("0000000001/LOCK")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_of_format_1_can_be_verified_and_restored() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/archive-1");
    if std::env::var("BATON_WRITE_GOLDEN_ARCHIVE").is_ok() {
        write_golden_archive(&golden).await;
    }
    let reports = verify(&golden, &mut |_| ()).unwrap();
    assert_eq!(reports.iter().map(|epoch| (epoch.bases, epoch.runs)).collect::<Vec<_>>(), [(1, 2)]);
    let scratch = TempDir::new().unwrap();
    let directory = scratch.path().join("restored");
    let faults = Arc::default();
    let options =
        RestoreOptions { archive: golden.into(), directory: directory.clone(), to: None, takes_over: false, faults };
    restore(&options, &mut |_| ()).unwrap();
    let store = Embedded::open(Options::new(directory)).await.unwrap();
    check(&*store).await;
    assert_eq!(store.load(&later()).await.unwrap(), Some(bare()));
}
