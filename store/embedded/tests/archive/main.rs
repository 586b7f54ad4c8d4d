//! Backups, what is shipped all the time, and what is restored from it: compared with what was acknowledged.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not take for tests")]

mod backups;
mod shipping;
mod standbys;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_store_embedded::Embedded;
use baton_store_embedded::archive::{ArchiveError, BackupOptions, BackupReport, RestoreOptions, Restored, restore};
use store::Store;

use crate::support::{key, next};

fn quiet(directory: &Path, archive: &Path) -> Result<BackupReport, ArchiveError> {
    Embedded::backup(directory, &BackupOptions::new(archive), &mut |_| ())
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

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

async fn until(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("in time");
}

async fn shipped(store: &Embedded) {
    until(|| {
        store.ship_standing().is_some_and(|ship| ship.trouble.is_none() && ship.lag.is_zero() && ship.shipped > 0)
    })
    .await;
}

/// Not a test: the process to be killed, when the environment says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hammer() {
    support::hammer().await;
}
