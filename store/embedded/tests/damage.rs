//! Damaged files and failing devices: a torn end is cut off, damage is reported, and a failing device stops the store.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use store::{Cas, Error, Expect, Head, PartKey, Store};
use support::{change, check, chunk, copy_directory, data_end, head, key, newest_segment, next, segments, small};
use tempfile::TempDir;

const SECTOR: usize = 512;

/// Creates a store with `count` versions of one key, one batch each, and leaves it as after a crash. Returns the offset
/// of the last frame.
async fn left_behind(directory: &Path, options: Options, count: u64) -> usize {
    let store = Embedded::open(options).await.unwrap();
    let mut last = 0;
    for _ in 0..count {
        last = newest_segment(directory).map_or(0, |path| data_end(&path));
        next(&*store, &key("a")).await.unwrap();
    }
    drop(store);
    last
}

#[tokio::test]
async fn a_torn_sector_of_the_last_batch_costs_only_that_batch() {
    let original = TempDir::new().unwrap();
    left_behind(original.path(), small(original.path()), 30).await;
    // Writes one more batch, which spans many sectors. The simulated crash happens before this batch is acknowledged.
    {
        let store = Embedded::open(small(original.path())).await.unwrap();
        let parts = [chunk(&key("a"), 31), (PartKey::Pack { op: 1 }, Bytes::from(vec![0xEE; 20 * SECTOR]))];
        let expect = Expect::Exactly { run: support::RUN, version: 30 };
        assert_eq!(store.commit(&key("a"), expect, &head(&key("a"), 31), &parts).await.unwrap(), Cas::Won);
    }
    let name = segments(original.path()).last().unwrap().file_name().unwrap().to_owned();
    let end = data_end(&original.path().join("log").join(&name));
    let sectors: Vec<usize> = (0..end.div_ceil(SECTOR)).collect();
    assert!(sectors.len() >= 20, "{} sectors", sectors.len());
    let mut lost = 0;
    for sector in sectors {
        for with in [0x00, 0xA5] {
            let copy = TempDir::new().unwrap();
            copy_directory(original.path(), copy.path());
            change(&copy.path().join("log").join(&name), |bytes| {
                let from = sector * SECTOR;
                let to = ((sector + 1) * SECTOR).min(end);
                bytes[from..to].fill(with);
            });
            println!("sector {sector} filled with {with:#x}");
            let store = Embedded::open(small(copy.path())).await.unwrap();
            let version = check(&*store, &key("a"), 30).await;
            lost += u64::from(version == 30);
            // Further commits are not affected by the data that was cut off.
            for _ in 0..3 {
                next(&*store, &key("a")).await.unwrap();
            }
            drop(store);
            let store = Embedded::open(small(copy.path())).await.unwrap();
            check(&*store, &key("a"), version + 3).await;
        }
    }
    assert!(lost >= 40, "only {lost} torn batches were detected");
}

#[tokio::test]
async fn a_hole_before_a_later_batch_is_reported() {
    let original = TempDir::new().unwrap();
    let last = left_behind(original.path(), small(original.path()), 30).await;
    let name = segments(original.path()).last().unwrap().file_name().unwrap().to_owned();
    for position in (40..last).step_by(last / 25) {
        for with in [0x00, 0xA5] {
            let copy = TempDir::new().unwrap();
            copy_directory(original.path(), copy.path());
            let path = copy.path().join("log").join(&name);
            change(&path, |bytes| bytes[position..(position + 64).min(last)].fill(with));
            if fs::read(&path).unwrap() == fs::read(original.path().join("log").join(&name)).unwrap() {
                continue;
            }
            match Embedded::open(small(copy.path())).await {
                Err(Error::Corrupt { what }) => {
                    assert!(what.contains(name.to_str().unwrap()) && what.contains("offset"), "{what}");
                }
                other => panic!("a hole at {position} was not refused: {other:?}"),
            }
            assert_ne!(fs::read(&path).unwrap().len(), 0, "nothing is repaired");
        }
    }
}

/// Creates a store with several segments and no checkpoint.
async fn several_segments(directory: &Path) {
    let options = Options { segment_bytes: 4096, ..Options::new(directory) };
    left_behind(directory, options, 60).await;
    assert!(segments(directory).len() > 4, "{:?}", segments(directory));
}

#[tokio::test]
async fn a_missing_segment_is_reported() {
    for missing in [0, 1, 3] {
        let directory = TempDir::new().unwrap();
        several_segments(directory.path()).await;
        fs::remove_file(&segments(directory.path())[missing]).unwrap();
        let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
        assert!(matches!(&error, Error::Corrupt { what } if what.contains("missing")), "{error}");
    }
}

#[tokio::test]
async fn a_lost_end_of_an_earlier_segment_is_reported() {
    let directory = TempDir::new().unwrap();
    several_segments(directory.path()).await;
    let path = &segments(directory.path())[1];
    let end = data_end(path);
    change(path, |bytes| bytes[end - 200..].fill(0));
    let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("should continue with batch")), "{error}");
}

#[tokio::test]
async fn a_log_that_ends_before_the_checkpoint_is_reported() {
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(Options::new(directory.path())).await.unwrap();
    next(&*store, &key("a")).await.unwrap();
    let first = data_end(&segments(directory.path())[0]);
    next(&*store, &key("a")).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    change(&segments(directory.path())[0], |bytes| bytes[first..].fill(0));
    let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("log ends")), "{error}");
    for path in segments(directory.path()) {
        fs::remove_file(path).unwrap();
    }
    let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("no segment")), "{error}");
}

#[tokio::test]
async fn a_missing_log_of_acknowledged_commits_is_reported() {
    for count in [1, 5] {
        let directory = TempDir::new().unwrap();
        left_behind(directory.path(), Options::new(directory.path()), count).await;
        for path in segments(directory.path()) {
            fs::remove_file(path).unwrap();
        }
        for _ in 0..2 {
            let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
            let Error::Corrupt { what } = error else { panic!("{error}") };
            assert!(what.contains("no segment") && what.contains("from a backup"), "{what}");
        }
    }
    // A store that was never written to counts as new, however often it is opened.
    let directory = TempDir::new().unwrap();
    for _ in 0..2 {
        drop(Embedded::open(Options::new(directory.path())).await.unwrap());
    }
    for path in segments(directory.path()) {
        fs::remove_file(path).unwrap();
    }
    drop(Embedded::open(Options::new(directory.path())).await.unwrap());
}

#[tokio::test]
async fn a_log_shorter_than_at_the_last_start_is_reported() {
    let directory = TempDir::new().unwrap();
    left_behind(directory.path(), Options::new(directory.path()), 5).await;
    let path = segments(directory.path()).remove(0);
    let fifth = data_end(&path);
    // This start records the end of the log.
    left_behind(directory.path(), Options::new(directory.path()), 0).await;
    change(&path, |bytes| bytes.truncate(fifth - 8));
    let cut = fs::read(&path).unwrap();
    let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
    let expected = "continue with batch 5, but the log ends with batch 4";
    assert!(matches!(&error, Error::Corrupt { what } if what.contains(expected)), "{error}");
    assert_eq!(fs::read(&path).unwrap(), cut);
    fs::write(directory.path().join("KNOWN"), "5\n").unwrap();
    let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("KNOWN")), "{error}");
}

#[tokio::test]
async fn a_changed_segment_header_or_form_is_reported() {
    let directory = TempDir::new().unwrap();
    left_behind(directory.path(), Options::new(directory.path()), 3).await;
    let path = segments(directory.path()).pop().unwrap();
    change(&path, |bytes| bytes[8] = 2);
    let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("format 2")), "{error}");
    change(&path, |bytes| bytes[8] = 1);
    fs::write(directory.path().join("FORMAT"), "baton embedded store, format 5, id 0\n").unwrap();
    let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("format 5")), "{error}");
}

#[tokio::test]
async fn a_directory_in_use_is_refused_with_its_owner() {
    let directory = TempDir::new().unwrap();
    let store = Embedded::open(Options::new(directory.path())).await.unwrap();
    let error = Embedded::open(Options::new(directory.path())).await.unwrap_err();
    assert!(matches!(&error, Error::InUse { .. }), "{error:?}");
    let expected = format!("in use by process {}; stop that process first", std::process::id());
    assert!(error.to_string().starts_with(&expected), "{error}");
    store.close().await.unwrap();
    Embedded::open(Options::new(directory.path())).await.unwrap();
}

/// Commits from many tasks while the device begins to fail. Returns the newest acknowledged version of each key.
async fn commit_until_it_fails(store: &Arc<Embedded>, fail: impl FnOnce()) -> Vec<u64> {
    let mut tasks = tokio::task::JoinSet::new();
    let warm = Arc::new(tokio::sync::Barrier::new(9));
    for writer in 0..8 {
        let (store, warm) = (Arc::clone(store), Arc::clone(&warm));
        tasks.spawn(async move {
            let mut acknowledged = 0;
            loop {
                match next(&*store, &key(&writer.to_string())).await {
                    Ok(version) => acknowledged = version,
                    Err(Error::Failed { .. }) => return (writer, acknowledged),
                    Err(error) => panic!("{error}"),
                }
                if acknowledged == 10 {
                    warm.wait().await;
                }
            }
        });
    }
    warm.wait().await;
    fail();
    let mut acknowledged = tasks.join_all().await;
    acknowledged.sort_unstable();
    assert!(matches!(store.failed().await, Error::Failed { .. }));
    let later = store.load(&key("0")).await.unwrap_err();
    assert!(matches!(later, Error::Failed { .. }), "{later}");
    assert!(matches!(store.close().await, Err(Error::Failed { .. })));
    acknowledged.into_iter().map(|(_, version)| version).collect()
}

async fn check_all(directory: &Path, acknowledged: &[u64]) {
    let store = Embedded::open(Options::new(directory)).await.unwrap();
    for (writer, version) in acknowledged.iter().enumerate() {
        assert!(*version > 0);
        check(&*store, &key(&writer.to_string()), *version).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_sync_stops_the_store_without_acknowledging() {
    let directory = TempDir::new().unwrap();
    let options = Options::new(directory.path());
    let faults = Arc::clone(&options.faults);
    let store = Embedded::open(options).await.unwrap();
    let acknowledged = commit_until_it_fails(&store, || faults.fail_syncs()).await;
    drop(store);
    let segment = newest_segment(directory.path()).unwrap();
    // The last frame never reached the disk: remove it, as a power failure would.
    let synced = usize::try_from(faults.synced_bytes()).unwrap();
    assert!(data_end(&segment) > synced, "a frame was written but not synced");
    change(&segment, |bytes| bytes[synced..].fill(0));
    check_all(directory.path(), &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_write_stops_the_store() {
    let directory = TempDir::new().unwrap();
    let options = Options::new(directory.path());
    let faults = Arc::clone(&options.faults);
    let store = Embedded::open(options).await.unwrap();
    let acknowledged = commit_until_it_fails(&store, || faults.fail_writes()).await;
    drop(store);
    check_all(directory.path(), &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_under_a_write_stops_the_store() {
    let directory = TempDir::new().unwrap();
    let options = Options::new(directory.path());
    let faults = Arc::clone(&options.faults);
    let store = Embedded::open(options).await.unwrap();
    let acknowledged = commit_until_it_fails(&store, || faults.limit_space(10_000)).await;
    drop(store);
    check_all(directory.path(), &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_wait_for_a_missing_descriptor() {
    let directory = TempDir::new().unwrap();
    let options = small(directory.path());
    let faults = Arc::clone(&options.faults);
    let store = Embedded::open(options).await.unwrap();
    next(&*store, &key("a")).await.unwrap();
    assert_eq!(store.stats().opens_put_off, 0);
    let refused = 8;
    faults.refuse_opens(refused);
    let mut version = 1;
    // Commits fill many segments: prepared segments, reused segments, and segments created by commits.
    while faults.opens_refused() > 0 || version < 2_000 {
        version = next(&*store, &key("a")).await.unwrap();
    }
    assert_eq!(store.stats().opens_put_off, refused);
    drop(store);
    let store = Embedded::open(small(directory.path())).await.unwrap();
    check(&*store, &key("a"), version).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_waiting_for_a_descriptor_can_be_stopped() {
    let directory = TempDir::new().unwrap();
    let options = small(directory.path());
    let faults = Arc::clone(&options.faults);
    let store = Embedded::open(options).await.unwrap();
    faults.refuse_opens(u64::MAX);
    let acknowledged = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (committing, durable) = (Arc::clone(&store), Arc::clone(&acknowledged));
    let commits = tokio::spawn(async move {
        loop {
            let version = next(&*committing, &key("a")).await.unwrap();
            durable.store(version, std::sync::atomic::Ordering::SeqCst);
        }
    });
    // Waits until three attempts to open a file have failed, while the commits wait.
    while store.stats().opens_put_off < 3 {
        tokio::task::yield_now().await;
    }
    commits.abort();
    drop(commits.await);
    drop(store);
    let store = Embedded::open(small(directory.path())).await.unwrap();
    check(&*store, &key("a"), acknowledged.load(std::sync::atomic::Ordering::SeqCst)).await;
}

#[tokio::test]
async fn a_load_waits_for_the_sync_of_its_result() {
    let directory = TempDir::new().unwrap();
    let options = Options::new(directory.path());
    let faults = Arc::clone(&options.faults);
    let store = Embedded::open(options).await.unwrap();
    next(&*store, &key("a")).await.unwrap();
    faults.fail_syncs();
    let second = head(&key("a"), 2);
    let expect = Expect::Exactly { run: support::RUN, version: 1 };
    let key = key("a");
    let (commit, load, lost) = tokio::join!(
        biased;
        store.commit(&key, expect, &second, &[]),
        store.load(&key),
        store.commit(&key, Expect::Absent, &second, &[]),
    );
    assert!(matches!(commit, Err(Error::Failed { .. })), "{commit:?}");
    // The version that never became durable was visible neither to `load` nor in `Lost`.
    let is_new = |head: &Option<Head>| head.as_ref().is_some_and(|head| head.version == 2);
    assert!(!load.as_ref().is_ok_and(is_new), "{load:?}");
    assert!(!matches!(&lost, Ok(Cas::Lost(head)) if is_new(head)), "{lost:?}");
}
