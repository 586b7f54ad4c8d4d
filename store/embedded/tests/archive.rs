//! Backups, what is shipped all the time, and what is restored from it: compared with what was acknowledged.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which the lint does not take for tests")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_store_embedded::archive::{
    ArchiveError, BackupOptions, BackupReport, RestoreOptions, Restored, ShipTo, Standby, StandbyOptions, backup,
    promote, restore, verify,
};
use baton_store_embedded::faults::{Faults, Then};
use baton_store_embedded::{Embedded, Options};
use store::Store;
use support::{Hammer, WRITERS, change, check, copy_directory, key, next, small};
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_restored_to_an_instant_is_what_was_there_then() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), scratch.path().join("archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    work(&store, 20).await;
    let before = instant() - 60_000;
    back_up(&data, &archive).await.unwrap();
    // The first instants come from the log behind the base; later ones from segments that checkpoints have removed since.
    let mut model = Vec::new();
    store.ship(ShipTo::new(&archive)).await.unwrap();
    for round in 0..12 {
        work(&store, 7 + round * 30).await;
        model.push((instant(), versions(&store).await));
    }
    store.close().await.unwrap();
    for (at, expected) in &model {
        let there = scratch.path().join(format!("at-{at}"));
        let restored = restore_to(&archive, &there, Some(*at)).unwrap();
        assert!(restored.instant <= *at, "{restored:?}");
        assert_eq!(&versions(&*Embedded::open(small(&there)).await.unwrap()).await, expected, "at {at}");
    }
    // What is damaged later is in nobody's way.
    let newest = files(&archive.join("0000000001/log")).pop().unwrap();
    change(&newest, |bytes| bytes.truncate(bytes.len() / 2));
    let (at, expected) = &model[9];
    let there = scratch.path().join("before-the-damage");
    restore_to(&archive, &there, Some(*at)).unwrap();
    assert_eq!(&versions(&*Embedded::open(small(&there)).await.unwrap()).await, expected);
    assert!(restore_to(&archive, &scratch.path().join("damaged"), None).is_err());
    let said = restore_to(&archive, &scratch.path().join("before"), Some(before)).unwrap_err().to_string();
    assert!(said.contains("does not go back so far"), "{said}");
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

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_cut_short_or_was_changed_anywhere_is_refused_and_named() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), scratch.path().join("archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    work(&store, 300).await;
    store.close().await.unwrap();
    let store = Embedded::open(small(&data)).await.unwrap();
    back_up(&data, &archive).await.unwrap();
    work(&store, 200).await;
    back_up(&data, &archive).await.unwrap();
    let last = versions(&store).await;
    drop(store);
    let mut refused = 0;
    for path in files(&archive).into_iter().filter(|path| !path.ends_with("LOCK")) {
        let name = path.strip_prefix(&archive).unwrap().to_owned();
        let length = fs::metadata(&path).unwrap().len();
        for at in [0, length / 2, length - 9, length - 1] {
            for is_cut in [true, false] {
                let copy = TempDir::new().unwrap();
                copy_directory(&archive, copy.path());
                change(&copy.path().join(&name), |bytes| {
                    let at = usize::try_from(at).unwrap();
                    if is_cut { bytes.truncate(at) } else { bytes[at] ^= 0x10 }
                });
                let checked = verify(copy.path(), &mut |_| ());
                // Only what fills the last frame up to eight bytes may be anything.
                if let Ok(reports) = &checked {
                    assert!(!is_cut && at + 8 > length && name.extension().is_some(), "{name:?} at {at}: {reports:?}");
                    continue;
                }
                let said = checked.unwrap_err().to_string();
                let file = name.file_name().unwrap().to_str().unwrap();
                assert!(said.contains(file) || said.contains("is no archive"), "{name:?} at {at}: {said}");
                // A restore reads what it needs.
                let there = copy.path().join("restored");
                if restore_to(copy.path(), &there, None).is_ok() {
                    assert_eq!(
                        versions(&*Embedded::open(small(&there)).await.unwrap()).await,
                        last,
                        "{name:?} at {at}"
                    );
                } else if there.join("FORMAT").exists() {
                    let said = Embedded::open(small(&there)).await.unwrap_err().to_string();
                    assert!(said.contains("not finished"), "{said}");
                }
                refused += 1;
            }
        }
    }
    assert!(refused >= 40, "{refused}");
    // A later version's.
    for name in ["MANIFEST", "NEWEST", "OWNER"] {
        let copy = TempDir::new().unwrap();
        copy_directory(&archive, copy.path());
        change(&copy.path().join("0000000001").join(name), |bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replacen("format 1", "format 2", 1).into_bytes();
        });
        for said in [
            verify(copy.path(), &mut |_| ()).unwrap_err().to_string(),
            restore_to(copy.path(), &copy.path().join("r"), None).unwrap_err().to_string(),
            quiet(&data, copy.path()).unwrap_err().to_string(),
        ] {
            assert!(said.contains("format 2") && said.contains("use the version that wrote it"), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_at_any_step_of_a_backup_costs_that_backup_alone() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), scratch.path().join("archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    work(&store, 40).await;
    let first = versions(&store).await;
    store.close().await.unwrap();
    quiet(&data, &archive).unwrap();
    let store = Embedded::open(small(&data)).await.unwrap();
    work(&store, 1_500).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    let (mut failed, mut room) = (0, 0);
    loop {
        let faults = Arc::new(Faults::default());
        faults.limit_space(room);
        let options = BackupOptions { faults, ..BackupOptions::new(&archive) };
        let done = backup(&data, &options, &mut |_| ());
        verify(&archive, &mut |_| ()).unwrap();
        let there = scratch.path().join(format!("r{room}"));
        restore_to(&archive, &there, None).unwrap();
        let found = versions(&*Embedded::open(small(&there)).await.unwrap()).await;
        if let Err(error) = done {
            assert!(matches!(error, ArchiveError::Away { .. }), "{error:?}");
            assert!(
                error.to_string().contains("No space") || error.to_string().contains("no storage space"),
                "{error}"
            );
            assert!(found == first || found == last, "{found:?} with {room}");
            failed += 1;
        } else {
            assert_eq!(found, last);
            break;
        }
        room = room * 2 + 100;
    }
    assert!(failed >= 5, "{failed}");
    for point in ["epoch", "renamed", "chunk", "manifest", "newest", "base"] {
        let new = scratch.path().join(point);
        let faults = Arc::new(Faults::default());
        faults.at(&format!("archive: {point}"), Then::Fail);
        let options = BackupOptions { faults, ..BackupOptions::new(&new) };
        let said = backup(&data, &options, &mut |_| ()).unwrap_err().to_string();
        assert!(said.contains("injected"), "{said}");
        // What is half there is no archive to restore from, and the next backup makes it one.
        assert!(restore_to(&new, &scratch.path().join("never"), None).is_err());
        quiet(&data, &new).unwrap();
        let there = scratch.path().join(format!("after-{point}"));
        restore_to(&new, &there, None).unwrap();
        assert_eq!(versions(&*Embedded::open(small(&there)).await.unwrap()).await, last);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_cut_short_leaves_nothing_that_passes_for_a_store() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), scratch.path().join("archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    work(&store, 100).await;
    back_up(&data, &archive).await.unwrap();
    for point in ["copy: piece", "copy: finished"] {
        let there = scratch.path().join(point);
        let faults = Arc::new(Faults::default());
        faults.at(point, Then::Fail);
        let (archive, directory) = (archive.clone(), there.clone());
        let options = RestoreOptions { archive, directory, to: None, takes_over: false, faults };
        assert!(restore(&options, &mut |_| ()).is_err());
        let said = Embedded::open(small(&there)).await.unwrap_err().to_string();
        assert!(said.contains("not finished") && said.contains("can be removed"), "{said}");
        let said = restore_to(&options.archive, &there, None).unwrap_err().to_string();
        assert!(said.contains("cut short. Remove it"), "{said}");
    }
    // Directories that are something else.
    let said = restore_to(&archive, &data, None).unwrap_err().to_string();
    assert!(said.contains("in use by process"), "{said}");
    store.close().await.unwrap();
    let said = restore_to(&archive, &data, None).unwrap_err().to_string();
    assert!(said.contains("holds a store, which is not written over"), "{said}");
    let other = scratch.path().join("letters");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter"), "").unwrap();
    let said = restore_to(&archive, &other, None).unwrap_err().to_string();
    assert!(said.contains("is not empty"), "{said}");
    let said = restore_to(&other, &scratch.path().join("n"), None).unwrap_err().to_string();
    assert!(said.contains("is no archive"), "{said}");
    let said = restore_to(&scratch.path().join("nowhere"), &scratch.path().join("n"), None).unwrap_err().to_string();
    assert!(said.contains("there is no archive"), "{said}");
    // Another store's archive is not written.
    let another = scratch.path().join("another");
    Embedded::open(small(&another)).await.unwrap().close().await.unwrap();
    let said = quiet(&another, &archive).unwrap_err().to_string();
    assert!(said.contains("is another store's"), "{said}");
    assert!(quiet(&other, &archive).unwrap_err().to_string().contains("there is no store"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_base_has_already_is_not_written_again_and_what_is_too_old_goes() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), scratch.path().join("archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    // Much that stays as it is, in the order of the keys before what changes.
    let parts: Vec<_> =
        (0..64).map(|op| (store::PartKey::Pack { op }, bytes::Bytes::from(vec![op as u8; 64 << 10]))).collect();
    let large = key("a large one");
    store.commit(&large, store::Expect::Absent, &support::head(&large, 1), &parts).await.unwrap();
    store.close().await.unwrap();
    quiet(&data, &archive).unwrap();
    // The log goes on, and what the archive would need next of it goes.
    let store = Embedded::open(small(&data)).await.unwrap();
    work(&store, 3_000).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    let options = BackupOptions { keep: Some(Duration::ZERO), ..BackupOptions::new(&archive) };
    let report = backup(&data, &options, &mut |_| ()).unwrap();
    let base = report.base.expect("the log was not kept");
    assert!(base.bytes_there > base.bytes / 4, "{base:?}");
    let held = verify(&archive, &mut |_| ()).unwrap();
    assert_eq!(held.first().map(|epoch| (epoch.bases, epoch.spans.len())), Some((1, 1)));
    let there = scratch.path().join("there");
    restore_to(&archive, &there, None).unwrap();
    let restored = Embedded::open(small(&there)).await.unwrap();
    assert_eq!(versions(&restored).await, last);
    let found: Vec<_> = parts.iter().map(|(part, _)| *part).collect();
    let found = restored.parts(&large, support::RUN, &found).await.unwrap();
    assert!(found.into_iter().zip(&parts).all(|(found, (_, part))| found.as_ref() == Some(part)));
}

/// Not a test: the process to be killed, when the environment says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hammer() {
    support::hammer().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_away_holds_nothing_up_and_is_brought_up_to_date_later() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), scratch.path().join("archive"));
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
        assert_eq!(versions(&*Embedded::open(small(&there)).await.unwrap()).await, last);
    }
    assert_eq!(verify(&archive, &mut |_| ()).unwrap().first().map(|epoch| epoch.spans.len()), Some(2), "a gap");
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

fn standby(archive: &Path, directory: &Path) -> Standby {
    let (archive, directory) = (archive.to_owned(), directory.to_owned());
    Standby::open(&StandbyOptions { archive, directory, faults: Arc::default() }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_over_from_a_service_that_runs_without_losing_anything_and_only_one_can() {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let (data, archive) = (at("data"), at("archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    store.ship(ShipTo::new(&archive)).await.unwrap();
    work(&store, 100).await;
    shipped(&store).await;
    let mut first = standby(&archive, &at("first"));
    let mut second = standby(&archive, &at("second"));
    assert!(first.step(&mut |_| ()).unwrap().has_begun);
    second.step(&mut |_| ()).unwrap();
    work(&store, 700).await;
    shipped(&store).await;
    let followed = first.step(&mut |_| ()).unwrap();
    assert!(!followed.has_begun && followed.batches_new > 0, "{followed:?}");
    let said = Embedded::open(small(&at("first"))).await.unwrap_err().to_string();
    assert!(said.contains("in use"), "{said}");
    // It goes on after a restart.
    drop(first);
    let said = Embedded::open(small(&at("first"))).await.unwrap_err().to_string();
    assert!(said.contains("standby promote"), "{said}");
    let mut first = standby(&archive, &at("first"));
    assert!(!first.step(&mut |_| ()).unwrap().has_begun);
    // Under load: what is acknowledged is counted until the store says no.
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
    let new = Embedded::open(small(&at("first"))).await.unwrap();
    assert!(new.restored().unwrap().is_some_and(|restored| restored.is_all));
    for (name, version) in acknowledged {
        assert!(check(&*new, &key(&name), version).await >= version);
    }
    // The old one does not come back, nor does another standby believe that it leads.
    drop(store);
    let old = Embedded::open(small(&data)).await.unwrap();
    let refused = old.ship(ShipTo::new(&archive)).await.unwrap_err();
    assert!(matches!(refused, ArchiveError::TakenOver { .. }), "{refused}");
    let said = second.promote(Duration::ZERO).unwrap_err().to_string();
    assert!(said.contains("cannot take over"), "{said}");
    // The new one goes on in the archive, and the other standby with it.
    new.ship(ShipTo::new(&archive)).await.unwrap();
    work(&new, 20).await;
    shipped(&new).await;
    let mut second = standby(&archive, &at("second"));
    let followed = second.step(&mut |_| ()).unwrap();
    assert!(followed.has_begun && followed.epoch == 2, "{followed:?}");
    let last = versions(&new).await;
    drop(new);
    drop(second);
    // The machine is gone: nobody says that it has stopped.
    let promotion = promote(&at("second"), Duration::ZERO).unwrap().unwrap();
    assert!(!promotion.is_all && promotion.epoch == 3, "{promotion:?}");
    assert_eq!(versions(&*Embedded::open(small(&at("second"))).await.unwrap()).await, last);
    assert!(promote(&at("second"), Duration::ZERO).unwrap_err().to_string().contains("is no standby"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_that_is_not_the_one_that_was_shipped_is_refused() {
    let scratch = TempDir::new().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let (data, archive) = (at("data"), at("archive"));
    let store = Embedded::open(small(&data)).await.unwrap();
    work(&store, 30).await;
    store.close().await.unwrap();
    copy_directory(&data, &at("older"));
    copy_directory(&data, &at("other"));
    let store = Embedded::open(small(&data)).await.unwrap();
    store.ship(ShipTo::new(&archive)).await.unwrap();
    work(&store, 30).await;
    shipped(&store).await;
    store.close().await.unwrap();
    let older = Embedded::open(small(&at("older"))).await.unwrap();
    let said = older.ship(ShipTo::new(&archive)).await.unwrap_err().to_string();
    assert!(said.contains("it is an older copy"), "{said}");
    let other = Embedded::open(small(&at("other"))).await.unwrap();
    work(&other, 60).await;
    let said = other.ship(ShipTo::new(&archive)).await.unwrap_err().to_string();
    assert!(said.contains("gone another way"), "{said}");
    // It is not there: whether somebody has taken over cannot be told.
    fs::rename(&archive, at("elsewhere")).unwrap();
    let store = Embedded::open(small(&data)).await.unwrap();
    let said = store.ship(ShipTo::new(&archive)).await.unwrap_err().to_string();
    assert!(said.contains("is it mounted?"), "{said}");
    fs::rename(at("elsewhere"), &archive).unwrap();
    store.ship(ShipTo::new(&archive)).await.unwrap();
    let said = back_up(&data, &archive).await.unwrap_err().to_string();
    assert!(said.contains("is being written by process"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_a_lease_stops_by_itself_when_the_archive_is_away() {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), scratch.path().join("archive"));
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
