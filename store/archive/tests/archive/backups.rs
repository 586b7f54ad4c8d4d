//! Consecutive backups, and restores from them.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use baton_store_archive::{ArchiveError, BackupOptions, RestoreOptions, ShipTo, restore, verify};
use baton_store_embedded::Embedded;
use baton_store_embedded::faults::{FaultAction, Faults};
use store::Store;
use tempfile::TempDir;

use crate::place::{Kind, Place};
use crate::support::{self, check, key, small};
use crate::{back_up, in_both_places, instant, opened, quiet, restore_to, versions, work};

in_both_places! {
    a_backup_restores_the_store_as_it_was,
    a_restore_to_an_instant_returns_the_state_at_it,
    a_truncated_or_changed_archive_is_reported,
    a_full_disk_fails_only_the_current_backup,
    an_unfinished_base_is_taken_by_the_next_backup,
    an_interrupted_restore_leaves_no_usable_store,
    existing_chunks_are_kept_and_expired_data_is_removed,
}

async fn a_backup_restores_the_store_as_it_was(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    // With the default limits, no checkpoint removes log segments.
    let store = opened(baton_store_embedded::Options::new(&data)).await;
    work(&store, 500).await;
    let first = versions(&store).await;
    let report = back_up(&data, &archive).await.unwrap();
    assert!(report.base.is_some() && report.batch > 0, "{report:?}");
    let there = scratch.path().join("first");
    restore_to(&archive, &there, None).unwrap();
    let restored = opened(small(&there)).await;
    assert_eq!(versions(&restored).await, first);
    for (name, version) in &first {
        assert_eq!(check(&*restored, &key(name), *version).await, *version);
    }
    assert!(baton_store_archive::restored(&there).unwrap().is_some_and(|restored| !restored.is_all));
    // A restored store works like any other.
    work(&restored, 50).await;
    restored.close().await.unwrap();

    // Backs up only the log, then a directory that is not open.
    work(&store, 100).await;
    let report = back_up(&data, &archive).await.unwrap();
    assert_eq!((report.base, report.batches_new > 0), (None, true));
    work(&store, 100).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    back_up(&data, &archive).await.unwrap();
    let there = scratch.path().join("last");
    restore_to(&archive, &there, None).unwrap();
    assert_eq!(versions(&*opened(small(&there)).await).await, last);
    let held = verify(&archive, &mut |_| ()).unwrap();
    assert_eq!(held.first().map(|epoch| epoch.runs), Some(10));
}

async fn a_restore_to_an_instant_returns_the_state_at_it(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    work(&store, 20).await;
    let before = instant() - 60_000;
    back_up(&data, &archive).await.unwrap();
    // A restore to an early instant needs the log after the base. A restore to a later instant also needs segments that
    // checkpoints have removed from the store.
    let mut model = Vec::new();
    baton_store_archive::ship(&store, ShipTo::new(&archive)).await.unwrap();
    for round in 0..12 {
        work(&store, 7 + round * 30).await;
        model.push((instant(), versions(&store).await));
    }
    store.close().await.unwrap();
    for (at, expected) in &model {
        let there = scratch.path().join(format!("at-{at}"));
        let restored = restore_to(&archive, &there, Some(*at)).unwrap();
        assert!(restored.instant <= *at, "{restored:?}");
        assert_eq!(&versions(&*opened(small(&there)).await).await, expected, "at {at}");
    }
    // Damage after the wanted instant does not matter.
    let newest = archive.files().into_keys().rfind(|name| name.starts_with("0000000001/log/")).unwrap();
    archive.change(&newest, |bytes| bytes.truncate(bytes.len() / 2));
    let (at, expected) = &model[9];
    let there = scratch.path().join("before-the-damage");
    restore_to(&archive, &there, Some(*at)).unwrap();
    assert_eq!(&versions(&*opened(small(&there)).await).await, expected);
    assert!(restore_to(&archive, &scratch.path().join("damaged"), None).is_err());
    let said = restore_to(&archive, &scratch.path().join("before"), Some(before)).unwrap_err().to_string();
    assert!(said.contains("does not reach back that far"), "{said}");
}

async fn a_truncated_or_changed_archive_is_reported(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    work(&store, 300).await;
    store.close().await.unwrap();
    let store = opened(small(&data)).await;
    back_up(&data, &archive).await.unwrap();
    work(&store, 200).await;
    back_up(&data, &archive).await.unwrap();
    let last = versions(&store).await;
    drop(store);
    let mut refused = 0;
    for (name, bytes) in archive.files().into_iter().filter(|(name, _)| !name.ends_with("LOCK")) {
        let length = bytes.len() as u64;
        for at in [0, length / 2, length - 9, length - 1] {
            for is_cut in [true, false] {
                let (scratch, copy) = (TempDir::new().unwrap(), archive.copy());
                copy.change(&name, |bytes| {
                    let at = usize::try_from(at).unwrap();
                    if is_cut { bytes.truncate(at) } else { bytes[at] ^= 0x10 }
                });
                let checked = verify(&copy, &mut |_| ());
                // Damage can stay undetected only in the padding of the last frame, which may have any content.
                if let Ok(reports) = &checked {
                    let file = name.rsplit('/').next().unwrap();
                    assert!(!is_cut && at + 8 > length && file.contains('.'), "{name} at {at}: {reports:?}");
                    continue;
                }
                let said = checked.unwrap_err().to_string();
                let file = name.rsplit('/').next().unwrap();
                assert!(said.contains(file) || said.contains("is not an archive"), "{name} at {at}: {said}");
                // A restore reads only the data that it needs, so it may succeed despite the damage.
                let there = scratch.path().join("restored");
                if restore_to(&copy, &there, None).is_ok() {
                    assert_eq!(versions(&*opened(small(&there)).await).await, last, "{name:?} at {at}");
                } else if there.join("FORMAT").exists() {
                    let said = Embedded::open(small(&there)).await.unwrap_err().to_string();
                    assert!(said.contains("unfinished"), "{said}");
                }
                refused += 1;
            }
        }
    }
    assert!(refused >= 40, "{refused}");
    // Writes these files as a later version would.
    for name in ["MANIFEST", "NEWEST", "OWNER"] {
        let (scratch, copy) = (TempDir::new().unwrap(), archive.copy());
        copy.change(&format!("0000000001/{name}"), |bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replacen("format 1", "format 2", 1).into_bytes();
        });
        for said in [
            verify(&copy, &mut |_| ()).unwrap_err().to_string(),
            restore_to(&copy, &scratch.path().join("r"), None).unwrap_err().to_string(),
            quiet(&data, &copy).unwrap_err().to_string(),
        ] {
            assert!(said.contains("format 2") && said.contains("use the version that wrote it"), "{said}");
        }
    }
}

async fn a_full_disk_fails_only_the_current_backup(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    work(&store, 40).await;
    let first = versions(&store).await;
    store.close().await.unwrap();
    quiet(&data, &archive).unwrap();
    let store = opened(small(&data)).await;
    work(&store, 1_500).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    let (mut failed, mut space) = (0, 0);
    loop {
        let faults = Arc::new(Faults::default());
        faults.limit_space(space);
        let options = BackupOptions { faults, ..BackupOptions::new(&archive) };
        let done = baton_store_archive::back_up(&data, &options, &mut |_| ());
        verify(&archive, &mut |_| ()).unwrap();
        let there = scratch.path().join(format!("r{space}"));
        restore_to(&archive, &there, None).unwrap();
        let found = versions(&*opened(small(&there)).await).await;
        if let Err(error) = done {
            assert!(matches!(error, ArchiveError::Away { .. }), "{error:?}");
            assert!(
                error.to_string().contains("No space") || error.to_string().contains("no storage space"),
                "{error}"
            );
            assert!(found == first || found == last, "{found:?} with {space}");
            failed += 1;
        } else {
            assert_eq!(found, last);
            break;
        }
        space = space * 2 + 100;
    }
    assert!(failed >= 5, "{failed}");
    let renamed = (kind == Kind::Directory).then_some("renamed");
    for point in ["epoch", "chunk", "manifest", "newest", "base"].into_iter().chain(renamed) {
        let new = Place::new(kind, scratch.path(), point);
        let faults = Arc::new(Faults::default());
        faults.at(&format!("archive: {point}"), FaultAction::Fail);
        let options = BackupOptions { faults, ..BackupOptions::new(&new) };
        let said = baton_store_archive::back_up(&data, &options, &mut |_| ()).unwrap_err().to_string();
        assert!(said.contains("injected"), "{said}");
        // An incomplete archive cannot be restored. The next backup completes it.
        assert!(restore_to(&new, &scratch.path().join("never"), None).is_err());
        quiet(&data, &new).unwrap();
        let there = scratch.path().join(format!("after-{point}"));
        restore_to(&new, &there, None).unwrap();
        assert_eq!(versions(&*opened(small(&there)).await).await, last);
    }
}

async fn an_unfinished_base_is_taken_by_the_next_backup(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    work(&store, 40).await;
    store.close().await.unwrap();
    quiet(&data, &archive).unwrap();
    let store = opened(small(&data)).await;
    work(&store, 3_000).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    let faults = Arc::new(Faults::default());
    faults.at("archive: base", FaultAction::Fail);
    let options = BackupOptions { faults, ..BackupOptions::new(&archive) };
    let said = baton_store_archive::back_up(&data, &options, &mut |_| ()).unwrap_err().to_string();
    assert!(said.contains("injected"), "{said}");
    assert!(quiet(&data, &archive).unwrap().base.is_some());
    let there = scratch.path().join("there");
    restore_to(&archive, &there, None).unwrap();
    assert_eq!(versions(&*opened(small(&there)).await).await, last);
}

async fn an_interrupted_restore_leaves_no_usable_store(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    work(&store, 100).await;
    back_up(&data, &archive).await.unwrap();
    for point in ["copy: piece", "copy: finished"] {
        let there = scratch.path().join(point);
        let faults = Arc::new(Faults::default());
        faults.at(point, FaultAction::Fail);
        let (archive, directory) = ((&archive).into(), there.clone());
        let options = RestoreOptions { archive, directory, to: None, takes_over: false, faults };
        assert!(restore(&options, &mut |_| ()).is_err());
        let said = Embedded::open(small(&there)).await.unwrap_err().to_string();
        assert!(said.contains("an unfinished copy") && said.contains("can be removed"), "{said}");
        let said = restore_to(options.archive, &there, None).unwrap_err().to_string();
        assert!(said.contains("interrupted restore. Remove it"), "{said}");
    }
    // A restore does not overwrite directories with other content.
    let said = restore_to(&archive, &data, None).unwrap_err().to_string();
    assert!(said.contains("in use by process"), "{said}");
    store.close().await.unwrap();
    let said = restore_to(&archive, &data, None).unwrap_err().to_string();
    assert!(said.contains("contains a store, which is not overwritten"), "{said}");
    let other = scratch.path().join("letters");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter"), "").unwrap();
    let said = restore_to(&archive, &other, None).unwrap_err().to_string();
    assert!(said.contains("is not empty"), "{said}");
    let said = restore_to(&other, &scratch.path().join("n"), None).unwrap_err().to_string();
    assert!(said.contains("is not an archive"), "{said}");
    let said = restore_to(scratch.path().join("nowhere"), &scratch.path().join("n"), None).unwrap_err().to_string();
    assert!(said.contains("there is no archive"), "{said}");
    // A backup does not write to the archive of another store.
    let another = scratch.path().join("another");
    opened(small(&another)).await.close().await.unwrap();
    let said = quiet(&another, &archive).unwrap_err().to_string();
    assert!(said.contains("belongs to another store"), "{said}");
    assert!(quiet(&other, &archive).unwrap_err().to_string().contains("there is no store"));
}

async fn existing_chunks_are_kept_and_expired_data_is_removed(kind: Kind) {
    let scratch = TempDir::new().unwrap();
    let (data, archive) = (scratch.path().join("data"), Place::new(kind, scratch.path(), "archive"));
    let store = opened(small(&data)).await;
    // Creates much data that will not change and is sorted before the data that changes.
    let parts: Vec<_> = (0..64)
        .map(|op| (store::PartKey::Pack { op }, bytes::Bytes::from(vec![u8::try_from(op).unwrap(); 64 << 10])))
        .collect();
    let large = key("a large one");
    store.commit(&large, store::Expect::Absent, &support::head(&large, 1), &parts).await.unwrap();
    store.close().await.unwrap();
    quiet(&data, &archive).unwrap();
    // The store's log continues, and the segment that the archive would need next is dropped.
    let store = opened(small(&data)).await;
    work(&store, 3_000).await;
    let last = versions(&store).await;
    store.close().await.unwrap();
    let options = BackupOptions { keep: Some(Duration::ZERO), ..BackupOptions::new(&archive) };
    let report = baton_store_archive::back_up(&data, &options, &mut |_| ()).unwrap();
    let base = report.base.expect("the log was not kept");
    assert!(base.bytes_there > base.bytes / 4, "{base:?}");
    let held = verify(&archive, &mut |_| ()).unwrap();
    assert_eq!(held.first().map(|epoch| (epoch.bases, epoch.spans.len())), Some((1, 1)));
    let there = scratch.path().join("there");
    restore_to(&archive, &there, None).unwrap();
    let restored = opened(small(&there)).await;
    assert_eq!(versions(&restored).await, last);
    let found: Vec<_> = parts.iter().map(|(part, _)| *part).collect();
    let found = restored.parts(&large, support::RUN, &found).await.unwrap();
    assert!(found.into_iter().zip(&parts).all(|(found, (_, part))| found.as_ref() == Some(part)));
}
