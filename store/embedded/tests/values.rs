//! Large values are kept in the log: they are written once, can be read like all others, and a segment is released when
//! its values are no longer needed.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_store_archive::{BackupOptions, RestoreOptions, restore};
use baton_store_embedded::Embedded;
use bytes::Bytes;
use store::{Cas, Error, Expect, Head, PartKey, Store};
use support::{Dice, RUN, change, head, key, small};
use tempfile::TempDir;

/// Size of a large value in bytes. Several such values fill a segment of 64 KiB, which `small` sets.
const LARGE: usize = 10_000;
const RUNS: u64 = 100;

fn id(number: u64) -> String {
    format!("run-{number:03}")
}

fn part(number: u64) -> PartKey {
    if number.is_multiple_of(2) { PartKey::Pack { op: number } } else { PartKey::Chunk { last: number } }
}

fn value(number: u64) -> Bytes {
    let mut dice = Dice(number);
    (0..LARGE).map(|_| u8::try_from(dice.roll(256)).unwrap()).collect()
}

/// Starts runs with one large value each. The number of a run is also the instant at which it expires.
async fn start(store: &Embedded, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let key = key(&id(number));
        let head = Head { expires_at: Some(number), due: None, ..head(&key, 1) };
        let answer = store.commit(&key, Expect::Absent, &head, &[(part(number), value(number))]).await;
        assert_eq!(answer.unwrap(), Cas::Won);
    }
}

async fn read(store: &Embedded, number: u64) -> Result<Option<Bytes>, Error> {
    Ok(store.parts(&key(&id(number)), RUN, &[part(number)]).await?.remove(0))
}

async fn check(store: &Embedded, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        assert!(read(store, number).await.unwrap() == Some(value(number)), "{number}");
        if let PartKey::Chunk { last } = part(number) {
            let key = key(&id(number));
            for chunks in [store.chunks(&key, RUN, 0, 1), store.chunks_back(&key, RUN, u64::MAX, 1)] {
                assert!(chunks.await.unwrap() == [(last, value(number))], "{number}");
            }
        }
    }
}

/// Creates a store with all values in redb or with locations in it.
async fn all_checkpointed(directory: &Path) -> Arc<Embedded> {
    let store = Embedded::open(small(directory)).await.unwrap();
    start(&store, 1..=RUNS).await;
    store.close().await.unwrap();
    drop(store);
    Embedded::open(small(directory)).await.unwrap()
}

fn files(directory: &Path, suffix: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(directory.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = all.filter(|path| path.extension().is_some_and(|found| found == suffix)).collect();
    found.sort();
    found
}

fn bytes_of(directory: &Path) -> u64 {
    let log = fs::read_dir(directory.join("log")).unwrap().map(|entry| entry.unwrap().path());
    log.chain([directory.join("tree.redb")]).map(|path| path.metadata().unwrap().len()).sum()
}

/// Writes small data until checkpoints have passed everything before it.
async fn move_on(store: &Embedded, commits: u64) {
    for version in 1..=commits {
        let key = key("mover");
        let expect = if version == 1 { Expect::Absent } else { Expect::Exactly { run: RUN, version: version - 1 } };
        let body = Bytes::from(vec![3; 3000]);
        let answer = store.commit(&key, expect, &Head { body, ..head(&key, version) }, &[]).await;
        assert_eq!(answer.unwrap(), Cas::Won);
    }
    store.drop_run(&key("mover"), RUN).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_value_is_written_once() {
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    start(&store, 1..=RUNS).await;
    store.close().await.unwrap();
    let (written, values) = (store.stats().bytes_written, RUNS * LARGE as u64);
    assert!(written < values * 11 / 10, "{written} bytes written for {values} of values");
    assert!(files(directory.path(), "values").len() > 5, "{:?}", files(directory.path(), "values"));
    let on_disk = store.stats().bytes_on_disk;
    assert!(on_disk >= values && on_disk <= bytes_of(directory.path()) + (128 << 10), "{on_disk} bytes on disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_in_a_mostly_small_segment_are_moved_to_redb() {
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    for number in 1..=RUNS {
        let key = key(&id(number));
        let head = Head { body: Bytes::from(vec![1; 9_000]), ..head(&key, 1) };
        let answer = store.commit(&key, Expect::Absent, &head, &[(part(number), value(number))]).await;
        assert_eq!(answer.unwrap(), Cas::Won);
    }
    store.close().await.unwrap();
    assert_eq!(files(directory.path(), "values"), [] as [PathBuf; 0]);
    drop(store);
    check(&Embedded::open(small(directory.path())).await.unwrap(), 1..=RUNS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_read_from_memory_log_and_kept_segments() {
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    start(&store, 1..=RUNS).await;
    check(&store, 1..=RUNS).await;
    drop(store);
    let store = Embedded::open(small(directory.path())).await.unwrap();
    check(&store, 1..=RUNS).await;
    store.close().await.unwrap();
    drop(store);
    let store = Embedded::open(small(directory.path())).await.unwrap();
    check(&store, 1..=RUNS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_released_with_their_values_and_reused() {
    let directory = TempDir::new().unwrap();
    let mut sizes = Vec::new();
    let mut store = all_checkpointed(directory.path()).await;
    for _ in 0..3 {
        sizes.push(bytes_of(directory.path()));
        while store.expire(RUNS, 1000).await.unwrap() > 0 {}
        move_on(&store, 1000).await;
        store.close().await.unwrap();
        drop(store);
        store = Embedded::open(small(directory.path())).await.unwrap();
        assert_eq!(files(directory.path(), "values"), [] as [PathBuf; 0]);
        start(&store, 1..=RUNS).await;
        store.close().await.unwrap();
        drop(store);
        store = Embedded::open(small(directory.path())).await.unwrap();
        check(&store, 1..=RUNS).await;
    }
    assert!(sizes.iter().all(|size| *size < sizes[0] * 2), "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_with_few_needed_values_is_emptied() {
    let directory = TempDir::new().unwrap();
    let store = all_checkpointed(directory.path()).await;
    assert!(files(directory.path(), "values").len() > 5);
    // One run in ten is kept.
    for number in (1..=RUNS).filter(|number| !number.is_multiple_of(10)) {
        store.drop_run(&key(&id(number)), RUN).await.unwrap();
    }
    move_on(&store, 300).await;
    // When the checkpoint thread is idle, it empties one kept segment after another.
    let mut rounds = 0;
    while !files(directory.path(), "values").is_empty() {
        move_on(&store, 10).await;
        rounds += 1;
        assert!(rounds < 1000, "{:?}", files(directory.path(), "values"));
    }
    check(&store, (10..=RUNS).step_by(10)).await;
    drop(store);
    let store = Embedded::open(small(directory.path())).await.unwrap();
    check(&store, (10..=RUNS).step_by(10)).await;
    assert_eq!(read(&store, 1).await.unwrap(), None);
}

/// A reader sees the data as of the moment when it started, even while segments are emptied, released and reused.
#[tokio::test(flavor = "multi_thread")]
async fn readers_are_not_disturbed_by_released_segments() {
    let directory = TempDir::new().unwrap();
    let store = all_checkpointed(directory.path()).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..4 {
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        readers.spawn(async move {
            let mut reads = 0;
            while !is_over.load(Ordering::Relaxed) {
                for number in (1..=RUNS).skip(reader * 7 % 25).step_by(3) {
                    let found = read(&store, number).await.unwrap();
                    assert!(found.is_none_or(|found| found == value(number)), "{number}");
                    reads += 1;
                }
            }
            reads
        });
    }
    for generation in 0..3 {
        for number in (1..=RUNS).filter(|number| generation == 2 || !number.is_multiple_of(7)) {
            store.drop_run(&key(&id(number)), RUN).await.unwrap();
            if number.is_multiple_of(5) {
                move_on(&store, 20).await;
            }
        }
        start(&store, (1..=RUNS).filter(|number| generation == 2 || !number.is_multiple_of(7))).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let reads: u64 = readers.join_all().await.into_iter().sum();
    assert!(reads > RUNS, "{reads} reads");
    check(&store, 1..=RUNS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_segment_of_values_is_reported() {
    let directory = TempDir::new().unwrap();
    drop(all_checkpointed(directory.path()).await);
    let missing = files(directory.path(), "values").remove(1);
    let kept = fs::read(&missing).unwrap();
    fs::remove_file(&missing).unwrap();
    let error = Embedded::open(small(directory.path())).await.unwrap_err();
    let name = missing.file_name().unwrap().to_str().unwrap();
    assert!(
        matches!(&error, Error::Corrupt { what } if what.contains(name) && what.contains("put the missing")),
        "{error}"
    );
    fs::write(&missing, kept).unwrap();
    check(&Embedded::open(small(directory.path())).await.unwrap(), 1..=RUNS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_value_is_reported_and_others_are_read() {
    let directory = TempDir::new().unwrap();
    drop(all_checkpointed(directory.path()).await);
    let original = TempDir::new().unwrap();
    support::copy_directory(directory.path(), original.path());
    let path = files(directory.path(), "values").remove(1);
    let whole = fs::read(&path).unwrap();
    let at =
        whole.windows(64).position(|window| *window == value(10)[..64]).expect("the tenth is in the second segment");
    for cut in [false, true] {
        change(&path, |bytes| if cut { bytes.truncate(at + 5) } else { bytes[at + 5] ^= 1 });
        let store = Embedded::open(small(directory.path())).await.unwrap();
        let error = read(&store, 10).await.map(|found| found.is_some()).unwrap_err();
        assert!(
            matches!(&error, Error::Corrupt { what } if what.contains("segment 2") && what.contains("backup")),
            "{error}"
        );
        check(&store, 20..=RUNS).await;
        // Neither retention nor the deletion of the run by an operator fails because of the damaged value.
        if cut {
            while store.expire(10, 1000).await.unwrap() > 0 {}
        } else {
            store.drop_run(&key(&id(10)), RUN).await.unwrap();
        }
        assert!(read(&store, 10).await.unwrap().is_none());
        drop(store);
        fs::remove_dir_all(directory.path().join("log")).unwrap();
        fs::remove_file(directory.path().join("tree.redb")).unwrap();
        support::copy_directory(original.path(), directory.path());
    }
    check(&Embedded::open(small(directory.path())).await.unwrap(), 1..=RUNS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unneeded_segment_is_removed_at_the_next_start() {
    let directory = TempDir::new().unwrap();
    drop(all_checkpointed(directory.path()).await);
    let left = directory.path().join("log/00000000000000999999.values");
    fs::write(&left, "left behind").unwrap();
    let store = Embedded::open(small(directory.path())).await.unwrap();
    assert!(!left.exists());
    check(&store, 1..=RUNS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_readable_after_a_lack_of_descriptors() {
    let directory = TempDir::new().unwrap();
    drop(all_checkpointed(directory.path()).await);
    let options = small(directory.path());
    let faults = Arc::clone(&options.faults);
    let store = Embedded::open(options).await.unwrap();
    faults.refuse_opens(3);
    check(&store, 1..=RUNS).await;
    assert_eq!(faults.opens_refused(), 0);
    assert_eq!(store.stats().opens_put_off, 3);
}

/// The archive contains all values, and a restored store does not depend on the old directory.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_contains_the_values() {
    let directory = TempDir::new().unwrap();
    let archive = directory.path().join("archive");
    let (data, again) = (directory.path().join("data"), directory.path().join("again"));
    let store = Embedded::open(small(&data)).await.unwrap();
    start(&store, 1..=RUNS / 2).await;
    store.close().await.unwrap();
    drop(store);
    let options = BackupOptions::new(archive.as_path());
    baton_store_archive::back_up(&data, &options, &mut |_| {}).unwrap();
    let store = Embedded::open(small(&data)).await.unwrap();
    start(&store, RUNS / 2 + 1..=RUNS).await;
    store.close().await.unwrap();
    drop(store);
    baton_store_archive::back_up(&data, &options, &mut |_| {}).unwrap();
    fs::remove_dir_all(&data).unwrap();
    let options = RestoreOptions {
        archive: archive.as_path().into(),
        directory: again.clone(),
        to: None,
        takes_over: false,
        faults: Arc::default(),
    };
    restore(&options, &mut |_| {}).unwrap();
    let store = Embedded::open(small(&again)).await.unwrap();
    check(&store, 1..=RUNS).await;
}
