//! Backups, shipping and restores, compared with the acknowledged commits.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not recognize as tests")]
#![allow(clippy::indexing_slicing, reason = "a panic fails the test")]

mod backups;
mod buckets;
mod place;
mod shipping;
mod standbys;
#[path = "../../../embedded/tests/support/mod.rs"]
mod support;

extern crate store_embedded as baton_store_embedded;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_store_archive::{
    ArchiveAddress, ArchiveError, BackupOptions, BackupReport, RestoreOptions, Restored, Shipment, ShippingStatus,
    restore,
};
use baton_store_embedded::{Embedded, Options};
use store::Store;

use crate::support::{key, next};

/// Runs each test with its archive in a directory and in a bucket.
macro_rules! in_both_places {
    ($($name:ident),* $(,)?) => {
        mod in_a_directory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::place::Kind::Directory).await;
            })*
        }

        mod in_a_bucket {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::place::Kind::Bucket).await;
            })*
        }
    };
}
pub(crate) use in_both_places;

fn quiet(directory: &Path, archive: impl Into<ArchiveAddress>) -> Result<BackupReport, ArchiveError> {
    baton_store_archive::back_up(directory, &BackupOptions::new(archive), &mut |_| ())
}

async fn back_up(directory: &Path, archive: impl Into<ArchiveAddress>) -> Result<BackupReport, ArchiveError> {
    let (directory, archive) = (directory.to_owned(), archive.into());
    tokio::task::spawn_blocking(move || quiet(&directory, archive)).await.unwrap()
}

fn restore_to(archive: impl Into<ArchiveAddress>, directory: &Path, to: Option<u64>) -> Result<Restored, ArchiveError> {
    let options = RestoreOptions {
        archive: archive.into(),
        directory: directory.to_owned(),
        to,
        takes_over: false,
        faults: Arc::default(),
    };
    restore(&options, &mut |_| ())
}

/// Returns the versions of the test's keys.
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

/// Opens a store as the service does: it handles backup requests.
async fn opened(options: Options) -> Arc<Embedded> {
    let store = Embedded::open(options).await.unwrap();
    baton_store_archive::serve_backups(&store).unwrap();
    store
}

async fn work(store: &Embedded, count: u64) {
    for number in 0..count {
        next(store, &key(&(number % 10).to_string())).await.unwrap();
    }
}

/// Waits for the next millisecond and returns it, in milliseconds since 1970.
fn instant() -> u64 {
    let now = || {
        #[expect(clippy::disallowed_methods, reason = "wall-clock time, as a user would give it")]
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    };
    let (said, before) = (now(), now());
    while now() <= before {
        std::hint::spin_loop();
    }
    said
}

async fn until(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("in time");
}

async fn shipped(shipment: &Shipment) {
    let is_shipped = |ship: ShippingStatus| ship.error.is_none() && ship.lag.is_zero() && ship.shipped > 0;
    until(|| is_shipped(shipment.standing())).await;
}

/// Runs the process that a test kills. Does nothing unless the environment variable for that process is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hammer() {
    support::hammer().await;
}
