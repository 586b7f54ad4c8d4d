//! Backups, what is shipped all the time, and what is restored from it: compared with what was acknowledged.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not take for tests")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_store_embedded::archive::{
    ArchiveError, BackupOptions, BackupReport, RestoreOptions, Restored, ShipTo, backup, restore, verify,
};
use baton_store_embedded::{Embedded, Options};
use store::Store;
use support::{change, check, key, next, small};
use tempfile::TempDir;

fn quiet(directory: &Path, archive: &Path) -> Result<BackupReport, ArchiveError> {
    backup(directory, &BackupOptions::new(archive), &mut |_| ())
}

async fn back_up(directory: &Path, archive: &Path) -> Result<BackupReport, ArchiveError> {
    let (directory, archive) = (directory.to_owned(), archive.to_owned());
    tokio::task::spawn_blocking(move || quiet(&directory, &archive)).await.unwrap()
}

fn restore_to(archive: &Path, directory: &Path, to: Option<u64>) -> Result<Restored, ArchiveError> {
    let options = RestoreOptions {
        archive: archive.to_owned(),
        directory: directory.to_owned(),
        to,
        takes_over: false,
        faults: Arc::default(),
    };
    restore(&options, &mut |_| ())
}

/// The state of the test's keys.
async fn versions(store: &Embedded) -> BTreeMap<String, u64> {
    let mut versions = BTreeMap::new();
    for name in 0..10 {
        let key = key(&name.to_string());
        if let Some(head) = store.load(&key).await.unwrap() {
            versions.insert(name.to_string(), head.version);
        }
    }
    versions
}

async fn work(store: &Embedded, count: u64) {
    for number in 0..count {
        next(store, &key(&(number % 10).to_string())).await.unwrap();
    }
}

/// Milliseconds since 1970, after waiting for the next one.
fn instant() -> u64 {
    let now = || {
        #[expect(clippy::disallowed_methods, reason = "what a person at a clock would say")]
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    };
    let (said, before) = (now(), now());
    while now() <= before {
        std::hint::spin_loop();
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_stopped_and_of_a_running_store_restores_to_what_it_was() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), scratch.path().join("archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    work(&store, 500).await;
    let first = versions(&store).await;
    let report = back_up(&data, &archive).await.unwrap();
    assert!(report.base.is_some() && report.batch > 0, "{report:?}");
    let there = scratch.path().join("first");
    restore_to(&archive, &there, None).unwrap();
    let restored = Embedded::open(small(&there)).await.unwrap();
    assert_eq!(versions(&restored).await, first);
    for (name, version) in &first {
        assert_eq!(check(&*restored, &key(name), *version).await, *version);
    }
    assert!(restored.restored().unwrap().is_some_and(|restored| !restored.is_all));
    // It is a store like any other.
    work(&restored, 50).await;
    restored.close().await.unwrap();

    // Another backup, of the log alone; and one of the directory that nobody has open.
    work(&store, 100).await;
    let report = back_up(&data, &archive).await.unwrap();
    assert_eq!((report.base, report.batches_new > 0), (None, true));
    work(&store, 100).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    back_up(&data, &archive).await.unwrap();
    let there = scratch.path().join("last");
    restore_to(&archive, &there, None).unwrap();
    assert_eq!(versions(&*Embedded::open(small(&there)).await.unwrap()).await, last);
    let held = verify(&archive, &mut |_| ()).unwrap();
    assert_eq!(held.first().map(|epoch| epoch.runs), Some(10));
}
