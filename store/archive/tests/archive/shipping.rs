//! Continuous shipping under load, with lost machines and unreachable archives.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use baton_store_archive::{ShipTo, verify};
use baton_store_embedded::Options;
use baton_store_embedded::faults::Faults;
use store::{Cas, Error, Expect, Store};
use tempfile::TempDir;

use crate::place::{Kind, Place};
use crate::support::{self, Hammer, WRITERS, check, head, key, next, small};
use crate::{in_both_places, opened, restore_to, shipped, until, versions, work};

in_both_places! {
    a_leased_service_stops_without_its_archive,
    an_unreachable_archive_delays_nothing_and_catches_up,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_lost_under_load_loses_less_than_a_second() {
    let scratch = TempDir::new().unwrap();
    for round in 0..4 {
        let (data, archive) = (scratch.path().join(format!("d{round}")), scratch.path().join(format!("a{round}")));
        let mut hammer = Hammer::shipping(&data, None, Some(&archive));
        let mut acknowledged: Vec<(tokio::time::Instant, BTreeMap<u64, u64>)> = Vec::new();
        let began = tokio::time::Instant::now();
        let mut newest = support::Acknowledged::default();
        while began.elapsed() < Duration::from_millis(1_500 + 200 * round) {
            hammer.read_acknowledged(20, &mut newest);
            acknowledged.push((tokio::time::Instant::now(), newest.0.clone()));
        }
        let end = tokio::time::Instant::now();
        hammer.kill();
        drop(hammer);
        fs::remove_dir_all(&data).unwrap();
        let there = scratch.path().join(format!("r{round}"));
        restore_to(&archive, &there, None).unwrap();
        let store = opened(small(&there)).await;
        let (_, must) = acknowledged.iter().rfind(|(at, _)| *at <= end - Duration::from_secs(1)).unwrap();
        let mut found = BTreeMap::new();
        for writer in 0..WRITERS {
            let least = must.get(&writer).copied().unwrap_or_default();
            found.insert(writer, check(&*store, &key(&writer.to_string()), least).await);
        }
        // Prints the actual loss.
        let lost =
            acknowledged.iter().find(|(_, versions)| versions.iter().any(|(writer, version)| found[writer] < *version));
        println!("lost {:?} of {} commits", lost.map(|(at, _)| end - *at), found.values().sum::<u64>());
    }
}

async fn an_unreachable_archive_delays_nothing_and_catches_up(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    // Runs with and without space for log that has not been shipped.
    for held_bytes in [64 << 20, 0] {
        let store = opened(Options { held_bytes, ..small(&data) }).await;
        let faults = Arc::new(Faults::default());
        let store_shipment =
            baton_store_archive::ship(&store, ShipTo { faults: Arc::clone(&faults), ..ShipTo::new(&archive) })
                .await
                .unwrap();
        work(&store, 50).await;
        shipped(&store_shipment).await;
        faults.limit_space(0);
        work(&store, 3_000).await;
        until(|| store_shipment.standing().error.is_some()).await;
        assert!(store_shipment.standing().lag > Duration::ZERO);
        faults.limit_space(u64::MAX);
        shipped(&store_shipment).await;
        work(&store, 50).await;
        let last = versions(&store).await;
        store.close().await.unwrap();
        verify(&archive, &mut |_| ()).unwrap();
        let there = scratch.path().join(format!("r{held_bytes}"));
        restore_to(&archive, &there, None).unwrap();
        assert_eq!(versions(&*opened(small(&there)).await).await, last);
    }
    assert_eq!(verify(&archive, &mut |_| ()).unwrap().first().map(|epoch| epoch.spans.len()), Some(2), "a gap");
}

async fn a_leased_service_stops_without_its_archive(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    let faults = Arc::new(Faults::default());
    let to = ShipTo { lease: Duration::from_millis(300), faults: Arc::clone(&faults), ..ShipTo::new(&archive) };
    let store_shipment = baton_store_archive::ship(&store, to).await.unwrap();
    work(&store, 10).await;
    shipped(&store_shipment).await;
    faults.fail_syncs();
    assert!(store.failed().await.to_string().contains("--ship-lease"));
    assert!(next(&*store, &key("0")).await.is_err());
}

/// Without a check of the lease after waking up, a commit in progress when the machine goes to sleep would be
/// acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_wakes_after_its_lease_acknowledges_nothing() {
    for (slept, is_acknowledged) in [(50, true), (61, false)] {
        let scratch = TempDir::new().unwrap();
        let store = opened(small(&scratch.path().join("data"))).await;
        let faults = Arc::new(Faults::default());
        let archive = scratch.path().join("archive");
        let lease = Duration::from_secs(60);
        baton_store_archive::ship(
            &store,
            ShipTo { lease, faults: Arc::clone(&faults), ..ShipTo::new(archive.as_path()) },
        )
        .await
        .unwrap();
        assert_eq!(store.commit(&key("a"), Expect::Absent, &head(&key("a"), 1), &[]).await.unwrap(), Cas::Won);
        faults.sleep(Duration::from_secs(slept));
        let answer = store.commit(&key("b"), Expect::Absent, &head(&key("b"), 1), &[]).await;
        if is_acknowledged {
            assert_eq!(answer.unwrap(), Cas::Won);
        } else {
            assert!(matches!(&answer, Err(Error::Failed { why }) if why.contains("--ship-lease")), "{answer:?}");
            assert!(store.load(&key("a")).await.is_err(), "its data may be outdated");
            assert!(matches!(store.failed().await, Error::Failed { .. }));
        }
    }
}
