//! A full disk: existing data can be read and deleted, but nothing else is written until there is space.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_store_embedded::faults::Faults;
use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use store::{Error, Head, ListQuery, Mark, PartKey, Store};
use support::{RUN, check, head, key, next, small};
use tempfile::TempDir;

/// Disk space reserved for deletions: a segment, twice the memory, and the minimum for a deletion.
const SPARE: u64 = (64 << 10) + 2 * (256 << 10) + DELETING_MIN;

/// Minimum free space for a deletion.
const DELETING_MIN: u64 = 4 << 20;

fn spare(directory: &Path) -> Option<u64> {
    directory.join("SPARE").metadata().ok().map(|file| file.len())
}

async fn open(directory: &Path, free: u64) -> (Arc<Embedded>, Arc<Faults>) {
    let options = small(directory);
    let faults = Arc::clone(&options.faults);
    faults.set_disk_free(free);
    (Embedded::open(options).await.unwrap(), faults)
}

#[track_caller]
fn is_full<T>(outcome: Result<T, Error>, said: u64) {
    match outcome {
        Err(Error::Full { free, least }) => assert_eq!((free, least), (said, 2 * SPARE)),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was accepted"),
    }
}

/// Checks that every write of new data fails with this free space.
async fn refuses_all(store: &Embedded, version: u64, free: u64) {
    let a = key("a");
    is_full(next(store, &a).await, free);
    is_full(store.put_part(&a, RUN, PartKey::Pack { op: 9 }, Bytes::from_static(b"late")).await, free);
    let kept = Head { run: [8; 16], ..head(&a, 1) };
    is_full(store.put_kept(&a, &kept, &[]).await, free);
    let mark = Mark { name: 1, expires_at: u64::MAX, bytes: Bytes::from_static(b"asked") };
    is_full(store.put_marks(&a, &[mark]).await, free);
    // Nothing was written, and other data can still be read.
    assert_eq!(check(store, &a, version).await, version);
    assert_eq!(store.parts(&a, RUN, &[PartKey::Pack { op: 9 }]).await.unwrap(), [None]);
    assert_eq!(store.load_run(&a, [8; 16]).await.unwrap(), None);
    assert_eq!(store.marks(&a, &[1]).await.unwrap(), [None]);
    let query = ListQuery { domain: Arc::clone(&a.domain), limit: 10, ..ListQuery::default() };
    assert!(!store.list(&query, None).await.unwrap().rows.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_allows_only_reads_and_deletions() {
    let directory = TempDir::new().unwrap();
    let (store, faults) = open(directory.path(), u64::MAX).await;
    for name in ["a", "b"] {
        for _ in 0..20 {
            next(&*store, &key(name)).await.unwrap();
        }
    }
    assert_eq!((spare(directory.path()), store.stats().disk_least), (Some(SPARE), 2 * SPARE));
    let free = 2 * SPARE - 1;
    faults.set_disk_free(free);
    refuses_all(&store, 20, free).await;
    assert_eq!(spare(directory.path()), Some(SPARE), "nothing was written, so the reserve is not needed");
    store.drop_run(&key("b"), RUN).await.unwrap();
    assert_eq!(store.load(&key("b")).await.unwrap(), None);
    assert_eq!(spare(directory.path()), None, "the reserve is used");
    // Exactly the required space suffices.
    faults.set_disk_free(2 * SPARE);
    assert_eq!(next(&*store, &key("a")).await.unwrap(), 21);
    faults.set_disk_free(u64::MAX);
    let taken_again = async {
        while spare(directory.path()) != Some(SPARE) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), taken_again).await.unwrap();
    assert_eq!(next(&*store, &key("a")).await.unwrap(), 22);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_opens_on_a_full_disk_with_its_log() {
    for closes in [true, false] {
        let directory = TempDir::new().unwrap();
        let (store, _faults) = open(directory.path(), u64::MAX).await;
        for _ in 0..300 {
            next(&*store, &key("a")).await.unwrap();
        }
        next(&*store, &key("b")).await.unwrap();
        if closes {
            store.close().await.unwrap();
        }
        drop(store);
        let (store, faults) = open(directory.path(), 0).await;
        assert_eq!(spare(directory.path()), None, "a start may have to write");
        refuses_all(&store, 300, 0).await;
        // Other processes have used up the reserved space.
        faults.set_disk_free(DELETING_MIN - 1);
        match store.drop_run(&key("b"), RUN).await {
            Err(Error::Full { free, least }) => assert_eq!((free, least), (DELETING_MIN - 1, DELETING_MIN)),
            other => panic!("{other:?}"),
        }
        faults.set_disk_free(DELETING_MIN);
        store.drop_run(&key("b"), RUN).await.unwrap();
        assert_eq!(store.load(&key("b")).await.unwrap(), None);
        drop(store);
        let (store, _) = open(directory.path(), 0).await;
        assert_eq!(store.load(&key("b")).await.unwrap(), None, "the run stays deleted");
        check(&*store, &key("a"), 300).await;
        drop((store, faults));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reserve_is_resized_by_a_start_with_other_options() {
    let directory = TempDir::new().unwrap();
    let more = Options { memory_bytes: 2 * small(directory.path()).memory_bytes, ..small(directory.path()) };
    drop(Embedded::open(more).await.unwrap());
    assert!(spare(directory.path()).is_some_and(|bytes| bytes > SPARE));
    let (store, _faults) = open(directory.path(), u64::MAX).await;
    assert_eq!(spare(directory.path()), Some(SPARE), "the size that this start needs");
    drop(store);
    // On a full disk, a reserve of the wrong size is removed and not replaced. Otherwise it would stay forever.
    let more = Options { memory_bytes: 2 * small(directory.path()).memory_bytes, ..small(directory.path()) };
    more.faults.set_disk_free(0);
    drop(Embedded::open(more).await.unwrap());
    assert_eq!(spare(directory.path()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_continues_on_a_full_disk() {
    let directory = TempDir::new().unwrap();
    let (store, faults) = open(directory.path(), u64::MAX).await;
    let closed = Head { due: None, expires_at: Some(5), ..head(&key("a"), 1) };
    store.commit(&key("a"), store::Expect::Absent, &closed, &[]).await.unwrap();
    faults.set_disk_free(DELETING_MIN);
    assert_eq!(store.expire(10, 100).await.unwrap(), 1);
    assert_eq!(store.load(&key("a")).await.unwrap(), None);
}
