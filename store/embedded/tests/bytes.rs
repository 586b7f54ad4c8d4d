//! A changed byte of `tree.redb` is never read as data: the store either reports corruption or returns the original
//! data.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

mod support;

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use baton_store_archive::{ArchiveError, BackupOptions};
use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use store::{Cas, Due, Error, Expect, Head, ListQuery, Listed, Order, PartKey, Store};
use support::{Dice, RUN, chunk, copy_directory, head, key};
use tempfile::TempDir;

const WORKFLOWS: u64 = 8;
const VERSIONS: u64 = 3;

fn id(number: u64) -> String {
    format!("workflow-{number}")
}

/// Creates a payload. Every second payload is long enough to stay in the log.
fn pack(number: u64) -> (PartKey, Bytes) {
    let times = if number.is_multiple_of(2) { 40 } else { 800 };
    (PartKey::Pack { op: 1 }, Bytes::from(format!("payload of {number};").repeat(times)))
}

fn options(directory: &Path) -> Options {
    Options { segment_bytes: 8 << 10, cache_bytes: 0, ..Options::new(directory) }
}

/// Writes a store whose data is all in `tree.redb` and in segments kept for their values.
async fn write(directory: &Path) {
    let store = Embedded::open(options(directory)).await.unwrap();
    for number in 1..=WORKFLOWS {
        let key = key(&id(number));
        for version in 1..=VERSIONS {
            let expect = if version == 1 { Expect::Absent } else { Expect::Exactly { run: RUN, version: version - 1 } };
            let mut parts = vec![chunk(&key, version)];
            parts.extend((version == 1).then(|| pack(number)));
            let answer = store.commit(&key, expect, &head(&key, version), &parts).await.unwrap();
            assert_eq!(answer, Cas::Won);
        }
    }
    store.close().await.unwrap();
    drop(store);
    Embedded::compact(directory).await.unwrap();
}

/// All data that can be read.
#[derive(Debug, PartialEq)]
struct Content {
    heads: Vec<Option<Head>>,
    chunks: Vec<Vec<(u64, Bytes)>>,
    packs: Vec<Vec<Option<Bytes>>>,
    due: Vec<Due>,
    lists: Vec<Vec<Listed>>,
    counts: String,
}

async fn read(store: &Embedded) -> Result<Content, Error> {
    let (mut heads, mut chunks, mut packs) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=WORKFLOWS {
        let key = key(&id(number));
        heads.push(store.load(&key).await?);
        chunks.push(store.chunks(&key, RUN, 0, usize::MAX).await?);
        packs.push(store.parts(&key, RUN, &[pack(number).0]).await?);
    }
    let query = ListQuery { domain: key("").domain, limit: 100, ..ListQuery::default() };
    let mut lists = Vec::new();
    for query in [
        query.clone(),
        ListQuery { order: Order::OldestStart, ..query.clone() },
        ListQuery { workflow_type: Some("crash".to_owned()), ..query.clone() },
        ListQuery { tag: Some("v3".to_owned()), ..query.clone() },
    ] {
        lists.push(store.list(&query, None).await?.rows);
    }
    let due = store.due(0, u64::MAX, None, 100).await?;
    let counts = format!("{:?}", store.count(&query, u64::MAX).await?);
    Ok(Content { heads, chunks, packs, due, lists, counts })
}

/// Opens a store and reads all of its data.
async fn open_and_read(directory: &Path) -> Result<Content, Error> {
    let store = Embedded::open(options(directory)).await?;
    read(&store).await
}

fn backed_up(directory: &Path, archive: &Path) -> Result<(), ArchiveError> {
    baton_store_archive::back_up(directory, &BackupOptions::new(archive), &mut |_| {}).map(|_| ())
}

/// Restores an archive and reads all of its data.
async fn restored(archive: &Path) -> Content {
    let scratch = TempDir::new().unwrap();
    let directory = scratch.path().join("restored");
    let options = baton_store_archive::RestoreOptions {
        archive: archive.into(),
        directory: directory.clone(),
        to: None,
        takes_over: false,
        faults: Arc::default(),
    };
    baton_store_archive::restore(&options, &mut |_| {}).unwrap();
    open_and_read(&directory).await.unwrap()
}

/// Returns the offsets of a text in a file.
fn find(bytes: &[u8], text: &str) -> Vec<usize> {
    let starts = bytes.windows(text.len()).enumerate();
    starts.filter(|(_, window)| *window == text.as_bytes()).map(|(at, _)| at).collect()
}

/// Number of bytes that are changed. A seed chooses their positions. Chosen: not more, because the store is opened once
/// per byte, which takes a sync.
const SAMPLE: u64 = 120;

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_byte_of_the_tree_is_refused_or_changes_nothing() {
    let original = TempDir::new().unwrap();
    write(original.path()).await;
    let truth = open_and_read(original.path()).await.unwrap();
    assert!(truth.packs.iter().flatten().all(Option::is_some) && truth.due.len() == 8, "{truth:?}");
    let bytes = fs::read(original.path().join("tree.redb")).unwrap();
    // Bytes that are not zero are changed, because they are more often in use. Some are in free pages with old data.
    let used: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let copy = TempDir::new().unwrap();
    let tree = copy.path().join("tree.redb");
    let (mut dice, mut refused) = (Dice(1), 0);
    for turn in 0..SAMPLE {
        let at = used[usize::try_from(dice.roll(used.len() as u64)).unwrap()];
        let flipped = 1 << dice.roll(8);
        let mut changed = bytes.clone();
        changed[at] ^= flipped;
        copy_directory(original.path(), copy.path());
        fs::write(&tree, &changed).unwrap();
        let found = open_and_read(copy.path()).await;
        let is_backed_up_too = turn % 4 == 0;
        let archive = TempDir::new().unwrap();
        if is_backed_up_too {
            copy_directory(original.path(), copy.path());
            fs::write(&tree, &changed).unwrap();
        }
        match found {
            Err(Error::Corrupt { what }) => {
                refused += 1;
                assert!(what.contains("from a backup"), "byte {at}: {what}");
                if is_backed_up_too {
                    let error = backed_up(copy.path(), archive.path()).unwrap_err();
                    assert!(matches!(error, ArchiveError::Damaged { .. }), "byte {at}: {error:?}");
                }
            }
            Err(error) => panic!("byte {at} ^ {flipped:#x}: {error}"),
            Ok(found) => {
                assert_eq!(found, truth, "byte {at} ^ {flipped:#x}");
                if is_backed_up_too {
                    backed_up(copy.path(), archive.path()).unwrap();
                    assert_eq!(restored(archive.path()).await, truth, "byte {at} ^ {flipped:#x}");
                }
            }
        }
    }
    assert!(refused >= SAMPLE / 20, "{refused} of {SAMPLE} refused");
}

/// On a store that is too large to be verified when it is opened, damage of the disk has the same effect as this
/// change.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_under_an_open_store_is_reported_by_key() {
    let original = TempDir::new().unwrap();
    write(original.path()).await;
    let truth = open_and_read(original.path()).await.unwrap();
    let bytes = fs::read(original.path().join("tree.redb")).unwrap();
    let store = Embedded::open(options(original.path())).await.unwrap();
    let file = fs::File::options().write(true).open(original.path().join("tree.redb")).unwrap();
    let mut noticed = 0;
    for (text, named) in [
        ("payload of 2;", "payloads (pack 1) of run 07070707-0707-0707-0707-070707070707 of workflow `workflow-2`"),
        ("events of workflow-3 up to 2", "the events up to 2 of run 07070707-0707-0707-0707-070707070707 of workflow"),
        ("workflow-5 at 3;", "the state of workflow `workflow-5`"),
    ] {
        for at in find(&bytes, text) {
            file.write_all_at(&[bytes[at] ^ 0x20], at as u64).unwrap();
            match read(&store).await {
                Err(Error::Corrupt { what }) => {
                    noticed += 1;
                    assert!(what.contains(named) && what.contains("in domain `crash`"), "{what}");
                    let other = store.load(&key(&id(1))).await.unwrap();
                    assert_eq!(other, truth.heads[0], "other data is read as before");
                }
                // The text is an old copy in an unused page.
                found => assert_eq!(found.unwrap(), truth),
            }
            file.write_all_at(&[bytes[at]], at as u64).unwrap();
        }
    }
    assert!(noticed >= 3, "{noticed} noticed");
    assert_eq!(read(&store).await.unwrap(), truth);
}
