//! What is shipped all the time: under load, with machines that are lost and archives that are away.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use baton_store_embedded::archive::{ShipTo, verify};
use baton_store_embedded::faults::Faults;
use baton_store_embedded::{Embedded, Options};
use store::{Cas, Error, Expect, Store};
use tempfile::TempDir;

use crate::place::{Kind, Place};
use crate::support::{self, Hammer, WRITERS, check, head, key, next, small};
use crate::{in_both_places, restore_to, shipped, until, versions, work};

in_both_places! {
    a_service_with_a_lease_stops_by_itself_when_the_archive_is_away,
    an_archive_that_is_away_holds_nothing_up_and_is_brought_up_to_date_later,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_lost_under_load_loses_less_than_a_second() {
    let scratch = TempDir::new().unwrap();
    for round in 0..4 {
        let (data, archive) = (scratch.path().join(format!("d{round}")), scratch.path().join(format!("a{round}")));
        let mut hammer = Hammer::shipping(&data, None, Some(&archive));
        let mut acknowledged: Vec<(tokio::time::Instant, BTreeMap<u64, u64>)> = Vec::new();
        let began = tokio::time::Instant::now();
        let mut newest = support::Acknowledged::default();
        while began.elapsed() < Duration::from_millis(1_500 + 200 * round) {
            hammer.hear(20, &mut newest);
            acknowledged.push((tokio::time::Instant::now(), newest.0.clone()));
        }
        let end = tokio::time::Instant::now();
        hammer.kill();
        drop(hammer);
        fs::remove_dir_all(&data).unwrap();
        let there = scratch.path().join(format!("r{round}"));
        restore_to(&archive, &there, None).unwrap();
        let store = Embedded::open(small(&there)).await.unwrap();
        let (_, must) = acknowledged.iter().rfind(|(at, _)| *at <= end - Duration::from_secs(1)).unwrap();
        let mut found = BTreeMap::new();
        for writer in 0..WRITERS {
            let least = must.get(&writer).copied().unwrap_or_default();
            found.insert(writer, check(&*store, &key(&writer.to_string()), least).await);
        }
        // How much it really was.
        let lost = acknowledged.iter().find(|(_, told)| told.iter().any(|(writer, version)| found[writer] < *version));
        println!("lost {:?} of {} commits", lost.map(|(at, _)| end - *at), found.values().sum::<u64>());
    }
}

async fn an_archive_that_is_away_holds_nothing_up_and_is_brought_up_to_date_later(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    // Once with room for the log that is not shipped, and once without.
    for held_bytes in [64 << 20, 0] {
        let store = Embedded::open(Options { held_bytes, ..small(&data) }).await.unwrap();
        let faults = Arc::new(Faults::default());
        store.ship(ShipTo { faults: Arc::clone(&faults), ..ShipTo::new(&archive) }).await.unwrap();
        work(&store, 50).await;
        shipped(&store).await;
        faults.limit_space(0);
        work(&store, 3_000).await;
        until(|| store.ship_standing().unwrap().trouble.is_some()).await;
        assert!(store.ship_standing().unwrap().lag > Duration::ZERO);
        faults.limit_space(u64::MAX);
        shipped(&store).await;
        work(&store, 50).await;
        let last = versions(&store).await;
        store.close().await.unwrap();
        verify(&archive, &mut |_| ()).unwrap();
        let there = scratch.path().join(format!("r{held_bytes}"));
        restore_to(&archive, &there, None).unwrap();
        assert_eq!(versions(&Embedded::open(small(&there)).await.unwrap()).await, last);
    }
    assert_eq!(verify(&archive, &mut |_| ()).unwrap().first().map(|epoch| epoch.spans.len()), Some(2), "a gap");
}

async fn a_service_with_a_lease_stops_by_itself_when_the_archive_is_away(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    let faults = Arc::new(Faults::default());
    let to = ShipTo { lease: Duration::from_millis(300), faults: Arc::clone(&faults), ..ShipTo::new(&archive) };
    store.ship(to).await.unwrap();
    work(&store, 10).await;
    shipped(&store).await;
    faults.fail_syncs();
    assert!(store.failed().await.to_string().contains("--ship-lease"));
    assert!(next(&*store, &key("0")).await.is_err());
}

/// What is under way when a machine goes to sleep is told when it wakes, unless the lease is looked at then.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_wakes_after_its_lease_acknowledges_nothing() {
    for (slept, is_acknowledged) in [(50, true), (61, false)] {
        let scratch = TempDir::new().unwrap();
        let store = Embedded::open(small(&scratch.path().join("data"))).await.unwrap();
        let faults = Arc::new(Faults::default());
        let archive = scratch.path().join("archive");
        let lease = Duration::from_secs(60);
        store.ship(ShipTo { lease, faults: Arc::clone(&faults), ..ShipTo::new(archive.as_path()) }).await.unwrap();
        assert_eq!(store.commit(&key("a"), Expect::Absent, &head(&key("a"), 1), &[]).await.unwrap(), Cas::Won);
        faults.sleep(Duration::from_secs(slept));
        let answer = store.commit(&key("b"), Expect::Absent, &head(&key("b"), 1), &[]).await;
        if is_acknowledged {
            assert_eq!(answer.unwrap(), Cas::Won);
        } else {
            assert!(matches!(&answer, Err(Error::Failed { why }) if why.contains("--ship-lease")), "{answer:?}");
            assert!(store.load(&key("a")).await.is_err(), "what it has may be old");
            assert!(matches!(store.failed().await, Error::Failed { .. }));
        }
    }
}
