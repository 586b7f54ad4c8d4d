//! A disk without room: what is there can be read and deleted, nothing else is taken, and it goes on when there is room.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

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

/// How much room is kept for deleting: a segment, twice the memory, and the least that deleting needs.
const SPARE: u64 = (64 << 10) + 2 * (256 << 10) + DELETING_MIN;

/// The least that must be free to delete.
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
        Ok(_) => panic!("it was taken"),
    }
}

/// Everything that is kept is refused with as much room.
async fn refuses_all(store: &Embedded, version: u64, free: u64) {
    let a = key("a");
    is_full(next(store, &a).await, free);
    is_full(store.put_part(&a, RUN, PartKey::Pack { op: 9 }, Bytes::from_static(b"late")).await, free);
    let kept = Head { run: [8; 16], ..head(&a, 1) };
    is_full(store.put_kept(&a, &kept, &[]).await, free);
    let mark = Mark { name: 1, expires_at: u64::MAX, bytes: Bytes::from_static(b"asked") };
    is_full(store.put_marks(&a, &[mark]).await, free);
    // Nothing of it is there, and the rest is read as ever.
    assert_eq!(check(store, &a, version).await, version);
    assert_eq!(store.parts(&a, RUN, &[PartKey::Pack { op: 9 }]).await.unwrap(), [None]);
    assert_eq!(store.load_run(&a, [8; 16]).await.unwrap(), None);
    assert_eq!(store.marks(&a, &[1]).await.unwrap(), [None]);
    let query = ListQuery { domain: Arc::clone(&a.domain), limit: 10, ..ListQuery::default() };
    assert!(!store.list(&query, None).await.unwrap().rows.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_read_and_deleted_from_and_takes_nothing_else_until_it_has_room() {
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
    assert_eq!(spare(directory.path()), Some(SPARE), "nothing was written, so that it is not needed");
    store.drop_run(&key("b"), RUN).await.unwrap();
    assert_eq!(store.load(&key("b")).await.unwrap(), None);
    assert_eq!(spare(directory.path()), None, "this is what it is kept for");
    // As much as is needed, and not a byte more.
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
async fn a_store_opens_on_a_full_disk_and_what_was_left_of_the_log_is_there() {
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
        // Others have used up what was kept for deleting.
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
        assert_eq!(store.load(&key("b")).await.unwrap(), None, "it stays deleted");
        check(&*store, &key("a"), 300).await;
        drop((store, faults));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn room_that_was_kept_by_a_start_with_more_memory_is_given_back() {
    let directory = TempDir::new().unwrap();
    let more = Options { memory_bytes: 2 * small(directory.path()).memory_bytes, ..small(directory.path()) };
    drop(Embedded::open(more).await.unwrap());
    assert!(spare(directory.path()).is_some_and(|bytes| bytes > SPARE));
    let (store, _faults) = open(directory.path(), u64::MAX).await;
    assert_eq!(spare(directory.path()), Some(SPARE), "as much as this start needs");
    drop(store);
    // The other way round on a full disk: what is there is not what is needed, and would stay for ever.
    let more = Options { memory_bytes: 2 * small(directory.path()).memory_bytes, ..small(directory.path()) };
    more.faults.set_disk_free(0);
    drop(Embedded::open(more).await.unwrap());
    assert_eq!(spare(directory.path()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_goes_on_on_a_full_disk() {
    let directory = TempDir::new().unwrap();
    let (store, faults) = open(directory.path(), u64::MAX).await;
    let closed = Head { due: None, expires_at: Some(5), ..head(&key("a"), 1) };
    store.commit(&key("a"), store::Expect::Absent, &closed, &[]).await.unwrap();
    faults.set_disk_free(DELETING_MIN);
    assert_eq!(store.expire(10, 100).await.unwrap(), 1);
    assert_eq!(store.load(&key("a")).await.unwrap(), None);
}
