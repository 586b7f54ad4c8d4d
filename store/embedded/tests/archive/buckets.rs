//! What holds of buckets alone: answers that are lost, two that write, pieces, and what a copy of an archive is good for.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use baton_store_embedded::Embedded;
use baton_store_embedded::archive::{ArchiveAddress, ShipTo, verify};
use baton_store_embedded::faults::Faults;
use store::Store;
use tempfile::TempDir;

use crate::place::{Kind, Place};
use crate::support::{copy_directory, small};
use crate::{back_up, quiet, restore_to, shipped, until, versions, work};

fn bucket(scratch: &TempDir) -> Place {
    Place::new(Kind::Bucket, scratch.path(), "")
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_are_no_failures() {
    let scratch = TempDir::new().unwrap();
    for nth in [1, 2, 3] {
        let (data, archive) = (scratch.path().join(format!("d{nth}")), bucket(&scratch));
        archive.bucket().lose_answers(nth);
        let store = Embedded::open(small(&data)).await.unwrap();
        store.ship(ShipTo::new(&archive)).await.unwrap();
        for _ in 0..10 {
            work(&store, 100).await;
            shipped(&store).await;
            assert_eq!(store.ship_standing().unwrap().trouble, None);
        }
        let last = versions(&store).await;
        store.close().await.unwrap();
        let there = scratch.path().join(format!("r{nth}"));
        restore_to(&archive, &there, None).unwrap();
        assert_eq!(versions(&Embedded::open(small(&there)).await.unwrap()).await, last);
        assert_eq!(
            verify(&archive, &mut |_| ()).unwrap().first().map(|epoch| epoch.bases),
            Some(1),
            "it never began anew"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_have_the_same_store_one_writes_and_the_other_is_told() {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let archive = bucket(&scratch);
    let store = Embedded::open(small(&at("data"))).await.unwrap();
    work(&store, 30).await;
    store.close().await.unwrap();
    copy_directory(&at("data"), &at("copy"));
    let store = Embedded::open(small(&at("data"))).await.unwrap();
    let faults = Arc::new(Faults::default());
    store.ship(ShipTo { faults: Arc::clone(&faults), ..ShipTo::new(&archive) }).await.unwrap();
    shipped(&store).await;
    // The first writes, if only that nothing is new.
    let copy = Embedded::open(small(&at("copy"))).await.unwrap();
    let said = copy.ship(ShipTo::new(&archive)).await.unwrap_err().to_string();
    assert!(said.contains("is being written by another process"), "{said}");
    // It is cut off, and the second begins.
    faults.limit_space(0);
    work(&store, 10).await;
    until(|| store.ship_standing().unwrap().trouble.is_some()).await;
    work(&copy, 200).await;
    copy.ship(ShipTo::new(&archive)).await.unwrap();
    shipped(&copy).await;
    faults.limit_space(u64::MAX);
    work(&store, 200).await;
    until(|| store.ship_standing().unwrap().trouble.is_some_and(|why| why.contains("is being written by another")))
        .await;
    // It goes on for those who call it, and ships nothing.
    work(&store, 200).await;
    work(&copy, 200).await;
    shipped(&copy).await;
    assert!(store.ship_standing().unwrap().trouble.is_some());
    let last = versions(&copy).await;
    // Nor does it when the other has ended: it has gone another way.
    copy.close().await.unwrap();
    until(|| {
        store
            .ship_standing()
            .unwrap()
            .trouble
            .is_some_and(|why| why.contains("another way") || why.contains("older copy"))
    })
    .await;
    drop(store);
    restore_to(&archive, &at("there"), None).unwrap();
    assert_eq!(versions(&Embedded::open(small(&at("there"))).await.unwrap()).await, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_that_arrives_when_another_has_begun_changes_nothing_and_is_told_to_its_writer() {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let archive = bucket(&scratch);
    let store = Embedded::open(small(&at("data"))).await.unwrap();
    work(&store, 30).await;
    store.close().await.unwrap();
    copy_directory(&at("data"), &at("copy"));
    let store = Embedded::open(small(&at("data"))).await.unwrap();
    let slow = archive.bucket().make_another_way("slow-way");
    store.ship(ShipTo::new("s3://slow-way/of/a-test")).await.unwrap();
    shipped(&store).await;
    slow.hold(true);
    work(&store, 10).await;
    let copy = Embedded::open(small(&at("copy"))).await.unwrap();
    work(&copy, 200).await;
    copy.ship(ShipTo::new(&archive)).await.unwrap();
    shipped(&copy).await;
    slow.hold(false);
    until(|| store.ship_standing().unwrap().trouble.is_some_and(|why| why.contains("is being written by another")))
        .await;
    work(&copy, 200).await;
    shipped(&copy).await;
    let last = versions(&copy).await;
    copy.close().await.unwrap();
    drop(store);
    restore_to(&archive, &at("there"), None).unwrap();
    assert_eq!(versions(&Embedded::open(small(&at("there"))).await.unwrap()).await, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_cut_off_goes_on_when_nobody_else_has_begun() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), bucket(&scratch));
    let store = Embedded::open(small(&data)).await.unwrap();
    let faults = Arc::new(Faults::default());
    store.ship(ShipTo { faults: Arc::clone(&faults), ..ShipTo::new(&archive) }).await.unwrap();
    for round in 0..3_u64 {
        work(&store, 40).await;
        shipped(&store).await;
        // Within a piece.
        faults.limit_space(round * 1_000);
        work(&store, 40).await;
        until(|| store.ship_standing().unwrap().trouble.is_some()).await;
        faults.limit_space(u64::MAX);
    }
    shipped(&store).await;
    let last = versions(&store).await;
    // As if the machine were lost.
    drop(store);
    restore_to(&archive, &scratch.path().join("there"), None).unwrap();
    assert_eq!(versions(&Embedded::open(small(&scratch.path().join("there"))).await.unwrap()).await, last);
    let held = verify(&archive, &mut |_| ()).unwrap();
    assert_eq!(held.first().map(|epoch| (epoch.bases, epoch.spans.len())), Some((1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_of_another_writer_is_not_taken_for_the_writer_s_own() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), bucket(&scratch));
    let store = Embedded::open(baton_store_embedded::Options::new(&data)).await.unwrap();
    store.ship(ShipTo::new(&archive)).await.unwrap();
    work(&store, 2_000).await;
    shipped(&store).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    let pieces: Vec<_> = archive.files().into_iter().filter(|(name, _)| name.contains("/log/")).collect();
    assert!(pieces.len() > 1, "{}", pieces.len());
    // Before and behind its own, in order of the names.
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
    assert_eq!(versions(&Embedded::open(small(&there)).await.unwrap()).await, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_shipped_costs_a_piece_and_a_small_file_each_time_and_a_backup_few_puts() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), bucket(&scratch));
    let store = Embedded::open(baton_store_embedded::Options::new(&data)).await.unwrap();
    work(&store, 500).await;
    back_up(&data, &archive).await.unwrap();
    let first = archive.bucket().puts();
    for _ in 0..20 {
        work(&store, 1).await;
        let before = archive.bucket().puts();
        back_up(&data, &archive).await.unwrap();
        // That it begins (two), how far it is before and behind, a piece, and that it ends.
        assert!(archive.bucket().puts() - before <= 6, "{} after {first}", archive.bucket().puts() - before);
    }
    // What each began with was put in the place of what the one before had ended with.
    verify(&archive, &mut |_| ()).unwrap();
    let held = archive.files().keys().filter(|name| name.contains("/log/")).count();
    assert!(held <= 22, "{held}");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_an_archive_in_the_other_kind_of_place_restores_and_is_not_gone_on_with() {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let store = Embedded::open(small(&at("data"))).await.unwrap();
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
        let found = versions(&Embedded::open(small(&there)).await.unwrap()).await;
        assert!(name == "copied" || found == last, "{found:?}");
        let said = back_up(&at("data"), archive).await.unwrap_err().to_string();
        assert!(said.contains("it can be restored from, and not gone on with"), "{said}");
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_goes_from_a_bucket_too() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), bucket(&scratch));
    for _ in 0..3 {
        let store = Embedded::open(small(&data)).await.unwrap();
        work(&store, 3_000).await;
        store.close().await.unwrap();
        let options = baton_store_embedded::archive::BackupOptions {
            keep: Some(Duration::ZERO),
            ..baton_store_embedded::archive::BackupOptions::new(&archive)
        };
        Embedded::backup(&data, &options, &mut |_| ()).unwrap();
    }
    let held = verify(&archive, &mut |_| ()).unwrap();
    assert_eq!(held.first().map(|epoch| epoch.bases), Some(1));
    let segments = archive.files().keys().filter(|name| name.contains("/log/")).count();
    assert!(segments <= held.first().unwrap().segments * 2, "{segments} pieces of {held:?}");
}

#[test]
fn an_address_without_a_bucket_and_a_build_without_s3_are_refused() {
    let scratch = TempDir::new().unwrap();
    let said = restore_to("s3://", &scratch.path().join("r"), None).unwrap_err().to_string();
    assert!(said.contains("expected `s3://BUCKET/PREFIX`"), "{said}");
    if cfg!(not(feature = "s3")) {
        let address = ArchiveAddress::from("s3://bucket-that-no-test-made/p");
        let said = restore_to(address, &scratch.path().join("r"), None).unwrap_err().to_string();
        assert!(said.contains("this build of Baton cannot reach S3") && said.contains("--features s3"), "{said}");
    }
    assert!(quiet(scratch.path(), "s3://").unwrap_err().to_string().contains("there is no store"));
}
