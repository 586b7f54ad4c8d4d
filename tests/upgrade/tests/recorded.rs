//! Tests that this version can read the data directories and archives of earlier versions, that all recorded data is
//! there, and that the runs continue to their ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::Path;
use std::sync::Arc;

use store_archive::{RestoreOptions, restore, verify};
use store_embedded::{Embedded, Options};
use upgrade::packed::unpack;
use upgrade::record::Recorded;
use upgrade::recorded;

async fn hold(directory: &Path, recorded: &Recorded, what: &str) {
    let store = Embedded::open(Options::new(directory)).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    support::hold(store, recorded, what).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_of_an_earlier_version_is_opened_and_all_that_is_open_in_it_goes_on() {
    for of in recorded().unwrap() {
        let recorded = Recorded::read(&of.join("embedded.json.gz")).unwrap();
        for which in ["killed", "stopped"] {
            let scratch = tempfile::tempdir().unwrap();
            let directory = scratch.path().join("data");
            unpack(&of.join(format!("{which}.tar.gz")), &directory).unwrap();
            hold(&directory, &recorded, &format!("{} {which}", of.display())).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_an_earlier_version_is_verified_and_restored_and_all_that_is_open_in_it_goes_on() {
    for of in recorded().unwrap() {
        let recorded = Recorded::read(&of.join("embedded.json.gz")).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let (archive, directory) = (scratch.path().join("archive"), scratch.path().join("data"));
        unpack(&of.join("archive.tar.gz"), &archive).unwrap();
        let restored = tokio::task::spawn_blocking({
            let (archive, directory) = (archive.clone(), directory.clone());
            let faults = Arc::default();
            move || {
                verify(&archive, &mut |_| {}).unwrap();
                restore(
                    &RestoreOptions { archive: archive.into(), directory, to: None, takes_over: false, faults },
                    &mut |_| {},
                )
            }
        });
        assert!(restored.await.unwrap().unwrap().batch > 0);
        hold(&directory, &recorded, &format!("{} archive", of.display())).await;
    }
}
