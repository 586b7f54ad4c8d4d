//! Tests of the log with a disk sync that tests can replace.

use std::io::Error;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::audit::chain::Names;
use crate::audit::verify::verify;
use engine::SystemClock;

fn change(id: &str) -> Change {
    let names = Names { workflow_id: Some(id.to_owned()), ..Names::default() };
    Change { by: None, peer: None, call: "POST /v1".to_owned(), names, request_id: "r".to_owned() }
}

fn open(directory: &Path) -> Arc<AuditLog> {
    AuditLog::open(directory, Arc::new(SystemClock)).unwrap()
}

fn text(directory: &Path) -> String {
    let files = crate::audit::files::all(directory).unwrap();
    files.iter().map(|file| std::fs::read_to_string(&file.path).unwrap()).collect()
}

#[tokio::test]
async fn a_change_has_an_entry_before_and_an_outcome_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path());
    let first = log.announce(change("w")).await.unwrap();
    assert!(text(directory.path()).contains("\"workflowId\":\"w\""));
    assert_eq!((first.seq(), log.last(), log.counts().syncs()), (1, 1, 1));
    first.tell(409, Some("run-closed"));
    drop(log.announce(change("v")).await.unwrap());
    log.flush().await;
    let text = text(directory.path());
    assert!(text.contains("\"requestSeq\":1,\"status\":409,\"code\":\"run-closed\""), "{text}");
    assert!(text.contains("\"requestSeq\":3,\"previous\""), "{text}");
    assert_eq!((log.counts().entries(), log.counts().failures(), log.last()), (4, 0, 4));
    drop(log);
    // A reopened log continues the sequence numbers.
    let log = open(directory.path());
    assert_eq!(log.announce(change("w")).await.unwrap().seq(), 5);
    assert!(AuditLog::open(directory.path(), Arc::new(SystemClock)).is_err(), "it is somebody's");
    drop(log);
    assert_eq!(verify(directory.path(), None).unwrap().entries, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_changes_at_once_share_two_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let first = AtomicBool::new(true);
    let sync = move |file: &std::fs::File| {
        if first.swap(false, Ordering::SeqCst) {
            wait.lock().unwrap().recv().unwrap();
        }
        file.sync_data()
    };
    let log = AuditLog::open_with(directory.path(), Arc::new(SystemClock), Box::new(sync)).unwrap();
    let mut all = tokio::task::JoinSet::new();
    let announce = |number: usize| {
        let log = Arc::clone(&log);
        async move { log.announce(change(&number.to_string())).await.unwrap() }
    };
    all.spawn(announce(0));
    while log.counts().syncs() == 0 {
        tokio::task::yield_now().await;
    }
    for number in 1..100 {
        all.spawn(announce(number));
    }
    while log.shared.lock().changes.len() < 99 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    let announced = all.join_all().await;
    assert_eq!((announced.len(), log.counts().syncs()), (100, 2));
    drop((announced, log));
    assert_eq!(verify(directory.path(), None).unwrap().entries, 200);
}

#[tokio::test]
async fn a_failed_sync_refuses_changes_and_outcomes_follow_later() {
    let directory = tempfile::tempdir().unwrap();
    let is_full = Arc::new(AtomicBool::new(false));
    let full = Arc::clone(&is_full);
    let sync = move |file: &std::fs::File| {
        if full.load(Ordering::SeqCst) { Err(Error::other("full")) } else { file.sync_data() }
    };
    let log = AuditLog::open_with(directory.path(), Arc::new(SystemClock), Box::new(sync)).unwrap();
    let first = log.announce(change("first")).await.unwrap();
    first.tell(201, None);
    let second = log.announce(change("second")).await.unwrap();
    is_full.store(true, Ordering::SeqCst);
    second.tell(202, None);
    for _ in 0..3 {
        assert_eq!(log.announce(change("refused")).await.unwrap_err(), Unwritten);
    }
    assert!(!text(directory.path()).contains("refused"));
    assert_eq!(log.counts().failures(), 3);
    assert_eq!(verify(directory.path(), None).unwrap().entries, 3, "nothing that was durable is lost");
    is_full.store(false, Ordering::SeqCst);
    drop(log.announce(change("third")).await.unwrap());
    drop(log);
    let text = text(directory.path());
    assert!(text.contains("\"status\":202") && !text.contains("refused"), "{text}");
    assert_eq!(verify(directory.path(), None).unwrap().entries, 6);
}

#[tokio::test]
async fn a_missing_directory_refuses_changes_until_it_is_back() {
    let scratch = tempfile::tempdir().unwrap();
    let (directory, elsewhere) = (scratch.path().join("audit"), scratch.path().join("elsewhere"));
    let log = open(&directory);
    drop(log.announce(change("first")).await.unwrap());
    std::fs::rename(&directory, &elsewhere).unwrap();
    assert_eq!(log.announce(change("refused")).await.unwrap_err(), Unwritten);
    assert!(!directory.exists());
    std::fs::rename(&elsewhere, &directory).unwrap();
    drop(log.announce(change("second")).await.unwrap());
    // After the file was moved away, the next entry begins a new file.
    let file = crate::audit::files::named(&directory, 1).path;
    let moved = scratch.path().join("moved");
    log.flush().await;
    std::fs::rename(&file, &moved).unwrap();
    drop(log.announce(change("third")).await.unwrap());
    drop(log);
    assert_eq!(verify(&directory, None).unwrap().first, 5);
    std::fs::rename(&moved, &file).unwrap();
    assert_eq!(verify(&directory, None).unwrap().entries, 6);
}

#[tokio::test]
async fn a_torn_last_line_is_repaired_and_other_damage_refused() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path());
    drop(log.announce(change("first")).await.unwrap());
    drop(log);
    let file = crate::audit::files::named(directory.path(), 1).path;
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{whole}{{\"seq\":3,\"at")).unwrap();
    let log = open(directory.path());
    assert_eq!(log.announce(change("second")).await.unwrap().seq(), 3);
    drop(log);
    assert_eq!(std::fs::read_to_string(file.with_extension("torn")).unwrap(), "{\"seq\":3,\"at\n");
    assert_eq!(verify(directory.path(), None).unwrap().entries, 4);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("second", "sec0nd")).unwrap();
    let refused = AuditLog::open(directory.path(), Arc::new(SystemClock)).unwrap_err();
    assert!(refused.contains(&format!("{}, line 3: was changed", file.display())), "{refused}");
}

#[test]
fn a_full_file_is_followed_by_another_of_the_same_chain() {
    let directory = tempfile::tempdir().unwrap();
    let sync = || Box::new(std::fs::File::sync_data);
    let open = || Writer::open(directory.path().to_owned(), Arc::new(SystemClock), sync()).unwrap();
    let mut writer = open().with_file_bytes_max(1_000);
    for number in 0..10_u64 {
        let mut outcomes = vec![ChangeOutcome { request_seq: number, status: None, code: None }];
        assert_eq!(writer.write(&mut outcomes, vec![change("w")]).unwrap(), [2 * number + 2]);
    }
    drop(writer);
    assert!(crate::audit::files::all(directory.path()).unwrap().len() > 3);
    let checked = verify(directory.path(), None).unwrap();
    assert_eq!(checked.entries, 20);
    assert_eq!(open().head().hash, checked.head);
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_changes_wait_as_may_and_one_more_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let first = AtomicBool::new(true);
    let sync = move |file: &std::fs::File| {
        if first.swap(false, Ordering::SeqCst) {
            wait.lock().unwrap().recv().unwrap();
        }
        file.sync_data()
    };
    let log = AuditLog::open_with(directory.path(), Arc::new(SystemClock), Box::new(sync)).unwrap();
    let mut all = tokio::task::JoinSet::new();
    let announce = |number: usize| {
        let log = Arc::clone(&log);
        async move { log.announce(change(&number.to_string())).await }
    };
    all.spawn(announce(0));
    while log.counts().syncs() == 0 {
        tokio::task::yield_now().await;
    }
    for number in 1..=CHANGES_MAX {
        all.spawn(announce(number));
    }
    while log.shared.lock().changes.len() < CHANGES_MAX {
        tokio::task::yield_now().await;
    }
    assert!(announce(CHANGES_MAX + 1).await.is_err());
    assert_eq!(log.counts().failures(), 1);
    go.send(()).unwrap();
    assert!(all.join_all().await.iter().all(Result::is_ok));
}
