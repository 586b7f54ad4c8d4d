//! Standbys that take over, and stores that must not continue.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_store_archive::{ArchiveError, ShipTo, Standby, StandbyOptions, promote, verify};
use baton_store_embedded::Embedded;
use store::Store;
use tempfile::TempDir;

use crate::place::{Kind, Place};
use crate::support::{check, copy_directory, key, next, small};
use crate::{back_up, in_both_places, instant, opened, restore_to, shipped, versions, work};

in_both_places! {
    one_standby_takes_over_without_losing_anything,
    another_data_directory_than_the_shipped_one_is_refused,
    a_diverged_copy_ships_a_separate_line,
}

fn standby(archive: &Place, directory: &Path) -> Standby {
    let (archive, directory) = (archive.into(), directory.to_owned());
    Standby::open(&StandbyOptions { archive, directory, faults: Arc::default() }).unwrap()
}

async fn one_standby_takes_over_without_losing_anything(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let (data, archive) = (at("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    let store_shipment = baton_store_archive::ship(&store, ShipTo::new(&archive)).await.unwrap();
    work(&store, 100).await;
    shipped(&store_shipment).await;
    let mut first = standby(&archive, &at("first"));
    let mut second = standby(&archive, &at("second"));
    assert!(first.step(&mut |_| ()).unwrap().has_begun);
    second.step(&mut |_| ()).unwrap();
    work(&store, 700).await;
    shipped(&store_shipment).await;
    let followed = first.step(&mut |_| ()).unwrap();
    assert!(!followed.has_begun && followed.batches_new > 0, "{followed:?}");
    let said = Embedded::open(small(&at("first"))).await.unwrap_err().to_string();
    assert!(said.contains("in use"), "{said}");
    // The standby continues after a restart.
    drop(first);
    let said = Embedded::open(small(&at("first"))).await.unwrap_err().to_string();
    assert!(said.contains("standby promote"), "{said}");
    let mut first = standby(&archive, &at("first"));
    assert!(!first.step(&mut |_| ()).unwrap().has_begun);
    // Creates load, and counts acknowledged commits until the store refuses one.
    let busy = Arc::clone(&store);
    let load = tokio::spawn(async move {
        let mut acknowledged = BTreeMap::new();
        for number in 0_u64.. {
            let name = (number % 10).to_string();
            match next(&*busy, &key(&name)).await {
                Ok(version) => drop(acknowledged.insert(name, version)),
                Err(_) => break,
            }
        }
        acknowledged
    });
    let promotion = tokio::task::spawn_blocking(move || first.promote(Duration::from_secs(30)).unwrap()).await.unwrap();
    assert!(promotion.is_all && promotion.epoch == 2, "{promotion:?}");
    let acknowledged = load.await.unwrap();
    assert!(store.failed().await.to_string().contains("another store has taken over"));
    let new = opened(small(&at("first"))).await;
    assert!(baton_store_archive::restored(&at("first")).unwrap().is_some_and(|restored| restored.is_all));
    for (name, version) in acknowledged {
        assert!(check(&*new, &key(&name), version).await >= version);
    }
    // The old store cannot ship again, and no other standby believes that it has taken over.
    drop(store);
    let old = opened(small(&data)).await;
    let refused = baton_store_archive::ship(&old, ShipTo::new(&archive)).await.unwrap_err();
    assert!(matches!(refused, ArchiveError::TakenOver { .. }), "{refused}");
    let said = second.promote(Duration::ZERO).unwrap_err().to_string();
    assert!(said.contains("cannot take over"), "{said}");
    // The new store continues in the archive, and the other standby follows it.
    let new_shipment = baton_store_archive::ship(&new, ShipTo::new(&archive)).await.unwrap();
    work(&new, 20).await;
    shipped(&new_shipment).await;
    let mut second = standby(&archive, &at("second"));
    let followed = second.step(&mut |_| ()).unwrap();
    assert!(followed.has_begun && followed.epoch == 2, "{followed:?}");
    let last = versions(&new).await;
    drop(new);
    drop(second);
    // The machine is lost, so the store does not record that it has stopped.
    let promotion = promote(&at("second"), Duration::ZERO).unwrap().unwrap();
    assert!(!promotion.is_all && promotion.epoch == 3, "{promotion:?}");
    assert_eq!(versions(&*opened(small(&at("second"))).await).await, last);
    assert!(promote(&at("second"), Duration::ZERO).unwrap_err().to_string().contains("is not a standby"));
}

async fn another_data_directory_than_the_shipped_one_is_refused(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let (data, archive) = (at("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    work(&store, 30).await;
    store.close().await.unwrap();
    copy_directory(&data, &at("older"));
    copy_directory(&data, &at("other"));
    let store = opened(small(&data)).await;
    let store_shipment = baton_store_archive::ship(&store, ShipTo::new(&archive)).await.unwrap();
    work(&store, 30).await;
    shipped(&store_shipment).await;
    store.close().await.unwrap();
    let older = opened(small(&at("older"))).await;
    let said = baton_store_archive::ship(&older, ShipTo::new(&archive)).await.unwrap_err().to_string();
    assert!(said.contains("it is an older copy"), "{said}");
    let other = opened(baton_store_embedded::Options::new(at("other"))).await;
    work(&other, 60).await;
    let said = baton_store_archive::ship(&other, ShipTo::new(&archive)).await.unwrap_err().to_string();
    assert!(said.contains("has diverged"), "{said}");
    // Without the archive it is unknown whether another store has taken over.
    let store = opened(small(&data)).await;
    archive
        .without(|| async {
            let said = baton_store_archive::ship(&store, ShipTo::new(&archive)).await.unwrap_err().to_string();
            assert!(
                said.contains(if kind == Kind::Directory { "is it mounted?" } else { "was it removed?" }),
                "{said}"
            );
        })
        .await;
    baton_store_archive::ship(&store, ShipTo::new(&archive)).await.unwrap();
    let said = back_up(&data, &archive).await.unwrap_err().to_string();
    let by = if kind == Kind::Directory { "process" } else { "another process" };
    assert!(said.contains(&format!("is being written by {by}")), "{said}");
}

async fn a_diverged_copy_ships_a_separate_line(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let archive = Place::new(kind, scratch.path(), "archive");
    let store = opened(small(&at("data"))).await;
    work(&store, 30).await;
    store.close().await.unwrap();
    copy_directory(&at("data"), &at("copy"));
    let store = opened(small(&at("data"))).await;
    baton_store_archive::ship(&store, ShipTo::new(&archive)).await.unwrap();
    work(&store, 30).await;
    let (instant, first) = (instant(), versions(&store).await);
    store.close().await.unwrap();
    // The copy's log no longer contains the point of divergence. Each restart creates a segment, so the log begins with
    // the batch after the last batch of the original store.
    for _ in 0..4 {
        let copy = opened(small(&at("copy"))).await;
        work(&copy, 10).await;
        copy.close().await.unwrap();
    }
    let between = crate::instant();
    let copy = opened(small(&at("copy"))).await;
    let copy_shipment = baton_store_archive::ship(&copy, ShipTo::new(&archive)).await.unwrap();
    shipped(&copy_shipment).await;
    let second = versions(&copy).await;
    copy.close().await.unwrap();
    assert_eq!(verify(&archive, &mut |_| ()).unwrap().first().map(|epoch| epoch.spans.len()), Some(2));
    // The state at `between` no longer exists, so a restore to it returns the last state before it.
    let expected = [("first", Some(instant), &first), ("between", Some(between), &first), ("second", None, &second)];
    for (name, to, expected) in expected {
        restore_to(&archive, &at(name), to).unwrap();
        assert_eq!(&versions(&*opened(small(&at(name))).await).await, expected, "{name}");
    }
}
