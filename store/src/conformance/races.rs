//! Rules about concurrency and lost responses.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Arc, Bytes, Cas, Error, Expect, Head, RUN, Store, at, head, key, start};
use crate::fault::{Chances, FaultStore};

const TASKS: u8 = 16;

/// Checks that exactly one of many concurrent commits on the same version is won.
pub async fn one_of_many_commits_on_a_version_wins(store: Arc<dyn Store>) {
    let first = start(&*store, &key("a")).await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let (store, expect) = (Arc::clone(&store), at(&first));
        let mine = Head { body: Bytes::from(vec![task]), ..head(RUN, 2) };
        tasks.spawn(async move { (store.commit(&key("a"), expect, &mine, &[]).await.unwrap(), mine) });
    }
    let (won, lost): (Vec<_>, Vec<_>) = tasks.join_all().await.into_iter().partition(|(answer, _)| *answer == Cas::Won);
    assert_eq!(won.len(), 1);
    let winner = won.into_iter().next().map(|(_, head)| head);
    for (answer, _) in lost {
        assert_eq!(answer, Cas::Lost(winner.clone()));
    }
    assert_eq!(store.load(&key("a")).await.unwrap(), winner);
}

/// Checks concurrent increments of a counter. Each task reads the counter, adds one, and retries until its commit is
/// won. No addition is lost, and none counts twice.
pub async fn concurrent_increments_are_all_counted(store: Arc<dyn Store>) {
    const EACH: u64 = 10;
    start(&*store, &key("a")).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut newest = store.load(&key("a")).await.unwrap().unwrap();
            let mut won = 0;
            while won < EACH {
                let next = head(RUN, newest.version + 1);
                match store.commit(&key("a"), at(&newest), &next, &[]).await.unwrap() {
                    Cas::Won => {
                        won += 1;
                        newest = next;
                    }
                    Cas::Lost(found) => newest = found.unwrap(),
                }
            }
        });
    }
    tasks.join_all().await;
    let expected = 1 + EACH * u64::from(TASKS);
    assert_eq!(store.load(&key("a")).await.unwrap().unwrap().version, expected);
}

/// Checks that exactly one of many concurrent first commits of a workflow id is won.
pub async fn one_of_many_first_commits_wins(store: Arc<dyn Store>) {
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let store = Arc::clone(&store);
        tasks.spawn(async move { store.commit(&key("a"), Expect::Absent, &head([task; 16], 1), &[]).await.unwrap() });
    }
    let won = tasks.join_all().await.iter().filter(|answer| **answer == Cas::Won).count();
    assert_eq!(won, 1);
}

/// Checks that a reader reads only growing versions, and none older than a version whose commit was already
/// acknowledged.
pub async fn loads_during_commits_never_go_back(store: Arc<dyn Store>) {
    let mut newest = start(&*store, &key("a")).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (store, is_done) = (Arc::clone(&store), Arc::clone(&is_done));
        async move {
            let mut seen = 0;
            while !is_done.load(Ordering::SeqCst) {
                let version = store.load(&key("a")).await.unwrap().unwrap().version;
                assert!(version >= seen, "version {version} after {seen}");
                seen = version;
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..100 {
        let next = head(RUN, newest.version + 1);
        assert_eq!(store.commit(&key("a"), at(&newest), &next, &[]).await.unwrap(), Cas::Won);
        assert_eq!(store.load(&key("a")).await.unwrap().unwrap().version, next.version);
        newest = next;
    }
    is_done.store(true, Ordering::SeqCst);
    reader.await.unwrap();
}

/// Checks that a caller can find out after an error whether its commit was written. Each commit has a different body,
/// which identifies it. After `NotApplied`, the commit was not written. After `Unknown`, it may have been written.
pub async fn loading_resolves_an_unknown_outcome(store: Arc<dyn Store>) {
    let faulty = FaultStore::new(Arc::clone(&store), 42, Chances::frequent());
    let mut newest = start(&*store, &key("a")).await;
    for mark in 0..200_u8 {
        let next = Head { body: Bytes::from(vec![mark]), ..head(RUN, newest.version + 1) };
        loop {
            let answer = faulty.commit(&key("a"), at(&newest), &next, &[]).await;
            let found = store.load(&key("a")).await.unwrap().unwrap();
            match answer {
                Ok(Cas::Won) => assert_eq!(found, next),
                // The commit was executed twice, and the second execution lost against the first.
                Ok(Cas::Lost(lost)) => assert_eq!(lost, Some(found.clone())),
                Err(Error::NotApplied { .. }) => assert_eq!(found, newest),
                Err(Error::Unknown { .. }) => assert!(found == newest || found == next),
                Err(error) => panic!("{error}"),
            }
            if found == next {
                break;
            }
        }
        newest = next;
    }
}
