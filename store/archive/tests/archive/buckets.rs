//! Properties of buckets only: lost responses, two writers, pieces, and copies of an archive.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use baton_store_archive::{ArchiveAddress, ShipTo, verify};
use baton_store_embedded::faults::Faults;
use store::Store;
use tempfile::TempDir;

use crate::place::{Kind, Place};
use crate::support::{copy_directory, small};
use crate::{back_up, opened, quiet, restore_to, shipped, until, versions, work};

fn bucket(scratch: &TempDir) -> Place {
    Place::new(Kind::Bucket, scratch.path(), "")
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_responses_are_not_failures() {
    let scratch = TempDir::new().unwrap();
    for nth in [1, 2, 3] {
        let (data, archive) = (scratch.path().join(format!("d{nth}")), bucket(&scratch));
        archive.bucket().lose_answers(nth);
        let store = opened(small(&data)).await;
        let store_shipment = baton_store_archive::ship(&store, ShipTo::new(&archive)).await.unwrap();
        for _ in 0..10 {
            work(&store, 100).await;
            shipped(&store_shipment).await;
            assert_eq!(store_shipment.standing().error, None);
        }
        let last = versions(&store).await;
        store.close().await.unwrap();
        let there = scratch.path().join(format!("r{nth}"));
        restore_to(&archive, &there, None).unwrap();
        assert_eq!(versions(&*opened(small(&there)).await).await, last);
        assert_eq!(
            verify(&archive, &mut |_| ()).unwrap().first().map(|epoch| epoch.bases),
            Some(1),
            "it never started again"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_copies_of_a_store_writes_the_archive() {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let archive = bucket(&scratch);
    let store = opened(small(&at("data"))).await;
    work(&store, 30).await;
    store.close().await.unwrap();
    copy_directory(&at("data"), &at("copy"));
    let store = opened(small(&at("data"))).await;
    let faults = Arc::new(Faults::default());
    let store_shipment =
        baton_store_archive::ship(&store, ShipTo { faults: Arc::clone(&faults), ..ShipTo::new(&archive) })
            .await
            .unwrap();
    shipped(&store_shipment).await;
    // The first store writes at least its heartbeats to the archive, so the copy of the store is refused.
    let copy = opened(small(&at("copy"))).await;
    let said = baton_store_archive::ship(&copy, ShipTo::new(&archive)).await.unwrap_err().to_string();
    assert!(said.contains("is being written by another process"), "{said}");
    // The first store is cut off from the archive, and the copy starts shipping.
    faults.limit_space(0);
    work(&store, 10).await;
    until(|| store_shipment.standing().error.is_some()).await;
    work(&copy, 200).await;
    let copy_shipment = baton_store_archive::ship(&copy, ShipTo::new(&archive)).await.unwrap();
    shipped(&copy_shipment).await;
    faults.limit_space(u64::MAX);
    work(&store, 200).await;
    until(|| store_shipment.standing().error.is_some_and(|why| why.contains("is being written by another"))).await;
    // The first store still serves its callers, but ships nothing.
    work(&store, 200).await;
    work(&copy, 200).await;
    shipped(&copy_shipment).await;
    assert!(store_shipment.standing().error.is_some());
    let last = versions(&copy).await;
    // The first store ships nothing even after the copy has stopped, because the two logs have diverged.
    copy.close().await.unwrap();
    until(|| {
        store_shipment.standing().error.is_some_and(|why| why.contains("has diverged") || why.contains("older copy"))
    })
    .await;
    drop(store);
    restore_to(&archive, &at("there"), None).unwrap();
    assert_eq!(versions(&*opened(small(&at("there"))).await).await, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_put_of_a_replaced_writer_changes_nothing() {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let archive = bucket(&scratch);
    let store = opened(small(&at("data"))).await;
    work(&store, 30).await;
    store.close().await.unwrap();
    copy_directory(&at("data"), &at("copy"));
    let store = opened(small(&at("data"))).await;
    let slow = archive.bucket().other_handle("slow-way");
    let store_shipment = baton_store_archive::ship(&store, ShipTo::new("s3://slow-way/of/a-test")).await.unwrap();
    shipped(&store_shipment).await;
    slow.hold(true);
    work(&store, 10).await;
    let copy = opened(small(&at("copy"))).await;
    work(&copy, 200).await;
    let copy_shipment = baton_store_archive::ship(&copy, ShipTo::new(&archive)).await.unwrap();
    shipped(&copy_shipment).await;
    slow.hold(false);
    until(|| store_shipment.standing().error.is_some_and(|why| why.contains("is being written by another"))).await;
    work(&copy, 200).await;
    shipped(&copy_shipment).await;
    let last = versions(&copy).await;
    copy.close().await.unwrap();
    drop(store);
    restore_to(&archive, &at("there"), None).unwrap();
    assert_eq!(versions(&*opened(small(&at("there"))).await).await, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_cut_off_continues_if_no_other_has_started() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), bucket(&scratch));
    let store = opened(small(&data)).await;
    let faults = Arc::new(Faults::default());
    let store_shipment =
        baton_store_archive::ship(&store, ShipTo { faults: Arc::clone(&faults), ..ShipTo::new(&archive) })
            .await
            .unwrap();
    for round in 0..3_u64 {
        work(&store, 40).await;
        shipped(&store_shipment).await;
        // The put of a piece fails partway through.
        faults.limit_space(round * 1_000);
        work(&store, 40).await;
        until(|| store_shipment.standing().error.is_some()).await;
        faults.limit_space(u64::MAX);
    }
    shipped(&store_shipment).await;
    let last = versions(&store).await;
    // Drops the store without closing it, as if the machine had been lost.
    drop(store);
    restore_to(&archive, &scratch.path().join("there"), None).unwrap();
    assert_eq!(versions(&*opened(small(&scratch.path().join("there"))).await).await, last);
    let held = verify(&archive, &mut |_| ()).unwrap();
    assert_eq!(held.first().map(|epoch| (epoch.bases, epoch.spans.len())), Some((1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_ignores_pieces_of_another_writer() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), bucket(&scratch));
    let store = opened(baton_store_embedded::Options::new(&data)).await;
    let store_shipment = baton_store_archive::ship(&store, ShipTo::new(&archive)).await.unwrap();
    work(&store, 2_000).await;
    shipped(&store_shipment).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    let pieces: Vec<_> = archive.files().into_iter().filter(|(name, _)| name.contains("/log/")).collect();
    assert!(pieces.len() > 1, "{}", pieces.len());
    // Adds pieces of other writers, which are sorted before and after the pieces of this writer.
    for (name, bytes) in pieces {
        let (offset, _) = name.rsplit_once('.').unwrap();
        for writer in ["0000000000000001", "ffffffffffff0001"] {
            let mut other = bytes.clone();
            other.iter_mut().skip(64).for_each(|byte| *byte ^= 1);
            archive.bucket().insert(&format!("of/a-test/{offset}.{writer}"), other);
        }
    }
    verify(&archive, &mut |_| ()).unwrap();
    let there = scratch.path().join("there");
    restore_to(&archive, &there, None).unwrap();
    assert_eq!(versions(&*opened(small(&there)).await).await, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn shipping_costs_two_puts_and_a_backup_few() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), bucket(&scratch));
    let store = opened(baton_store_embedded::Options::new(&data)).await;
    work(&store, 500).await;
    back_up(&data, &archive).await.unwrap();
    let first = archive.bucket().puts();
    for _ in 0..20 {
        work(&store, 1).await;
        let before = archive.bucket().puts();
        back_up(&data, &archive).await.unwrap();
        // Puts of a backup: two at the start, `NEWEST` before and after the log is copied, a piece of the log, and the
        // end.
        assert!(archive.bucket().puts() - before <= 6, "{} after {first}", archive.bucket().puts() - before);
    }
    // The first piece of each writer replaced the last piece of the previous writer.
    verify(&archive, &mut |_| ()).unwrap();
    let held = archive.files().keys().filter(|name| name.contains("/log/")).count();
    assert!(held <= 22, "{held}");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_copied_to_another_kind_can_only_be_restored() {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let store = opened(small(&at("data"))).await;
    let (of_bucket, of_directory) = (bucket(&scratch), Place::new(Kind::Directory, scratch.path(), "archive"));
    work(&store, 300).await;
    for archive in [&of_bucket, &of_directory] {
        back_up(&at("data"), archive).await.unwrap();
        work(&store, 300).await;
        back_up(&at("data"), archive).await.unwrap();
    }
    let last = versions(&store).await;
    let copied = Place::new(Kind::Directory, scratch.path(), "copied");
    for (name, bytes) in of_bucket.files() {
        let path = at("copied").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let uploaded = bucket(&scratch);
    for (name, bytes) in of_directory.files() {
        uploaded.bucket().insert(&format!("of/a-test/{name}"), bytes);
    }
    for (name, archive) in [("copied", &copied), ("uploaded", &uploaded)] {
        verify(archive, &mut |_| ()).unwrap();
        let there = at(&format!("from-{name}"));
        restore_to(archive, &there, None).unwrap();
        let found = versions(&*opened(small(&there)).await).await;
        assert!(name == "copied" || found == last, "{found:?}");
        let said = back_up(&at("data"), archive).await.unwrap_err().to_string();
        assert!(said.contains("it can be restored but not continued"), "{said}");
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_data_is_removed_from_a_bucket() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), bucket(&scratch));
    for _ in 0..3 {
        let store = opened(small(&data)).await;
        work(&store, 3_000).await;
        store.close().await.unwrap();
        let options = baton_store_archive::BackupOptions {
            keep: Some(Duration::ZERO),
            ..baton_store_archive::BackupOptions::new(&archive)
        };
        baton_store_archive::back_up(&data, &options, &mut |_| ()).unwrap();
    }
    let held = verify(&archive, &mut |_| ()).unwrap();
    assert_eq!(held.first().map(|epoch| epoch.bases), Some(1));
    let segments = archive.files().keys().filter(|name| name.contains("/log/")).count();
    assert!(segments <= held.first().unwrap().segments * 2, "{segments} pieces of {held:?}");
}

#[test]
fn invalid_addresses_and_builds_without_s3_are_refused() {
    let scratch = TempDir::new().unwrap();
    let said = restore_to("s3://", &scratch.path().join("r"), None).unwrap_err().to_string();
    assert!(said.contains("expected `s3://BUCKET/PREFIX`"), "{said}");
    if cfg!(not(feature = "s3")) {
        let address = ArchiveAddress::from("s3://bucket-that-no-test-made/p");
        let said = restore_to(address, &scratch.path().join("r"), None).unwrap_err().to_string();
        assert!(said.contains("this build of Baton has no support for S3") && said.contains("--features s3"), "{said}");
    }
    assert!(quiet(scratch.path(), "s3://").unwrap_err().to_string().contains("there is no store"));
}
