//! Watching a query: the response is delayed until the run, or the query's result, has changed.

use std::time::Duration;

use engine::{QueryReply, QueryRequest, Refusal, RunRef, SeenVersion};
use history::{Command, RecordMarker, ReusePolicy, Start};

use crate::queries::{Asking, result, said};
use crate::{Service, at};

/// Maximum time for which the watchers wait.
const WAIT: Duration = Duration::from_secs(60);

impl Service {
    async fn watch(&self, seen: SeenVersion) -> Asking {
        let ask = QueryRequest { name: "total".to_owned(), input: None, seen: Some(seen) };
        self.ask_of(at("w"), ask, WAIT).await
    }

    /// Queries the run and returns the version that the answer reflects.
    async fn see(&self, says: &str) -> SeenVersion {
        let asking = self.ask("w", "total").await;
        let task = self.task().await;
        self.answer(task, Vec::new(), &said(says)).await.unwrap();
        match asking.await.unwrap().unwrap() {
            QueryReply::Result { run_id, version, hash, .. } => SeenVersion { run_id, version, hash: Some(hash) },
            unchanged @ QueryReply::Unchanged { .. } => panic!("{unchanged:?}"),
        }
    }

    /// Completes another turn, which a signal has caused. Returns the number of the turn's queries.
    async fn news(&self, says: &str) -> usize {
        self.signal("w", "s").await;
        let task = self.task().await;
        let queries = task.task().queries.len();
        self.answer(task, Vec::new(), &said(says)).await.unwrap();
        queries
    }
}

async fn open() -> Service {
    let service = Service::open().await;
    service.idle("w").await;
    service
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_a_version_waits_until_it_changes() {
    let service = open().await;
    let seen = SeenVersion { hash: None, ..service.see("7").await };
    let commits = service.store.stats().commits;
    let watching = service.watch(seen).await;
    service.no_task().await;
    tokio::time::sleep(WAIT / 2).await;
    assert!(!watching.is_finished());
    assert_eq!(service.store.stats().commits, commits, "watchers alone cause no turn");
    assert_eq!(service.news("7").await, 1, "the turn carries the watching query");
    assert_eq!(result(watching.await.unwrap()).0, "7", "the run has changed, although the result is the same");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_an_old_version_gets_an_answer_at_once() {
    let service = open().await;
    let seen = SeenVersion { hash: None, ..service.see("7").await };
    service.news("8").await;
    let watching = service.watch(seen).await;
    let task = service.task().await;
    assert!(task.task().query_only, "a watcher of an older version gets a query task");
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn without_changes_the_wait_ends_as_unchanged() {
    let service = open().await;
    let seen = service.see("7").await;
    let commits = service.store.stats().commits;
    for seen in [seen, SeenVersion { hash: None, ..seen }] {
        let watching = service.watch(seen).await;
        let SeenVersion { run_id, version, .. } = seen;
        assert_eq!(
            watching.await.unwrap().unwrap(),
            QueryReply::Unchanged { run_id, version, hash: seen.hash },
            "the result is the same"
        );
    }
    service.no_task().await;
    assert_eq!(service.store.stats().commits, commits);
    assert_eq!(service.gauge("queries_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_a_result_is_not_woken_by_an_equal_result() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    for _ in 0..3 {
        assert_eq!(service.news("7").await, 1, "one evaluation for each turn");
        assert!(!watching.is_finished(), "the watcher waits for another result");
    }
    service.news("8").await;
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_a_result_gets_its_latest_version() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    service.news("7").await;
    let QueryReply::Unchanged { version, hash, .. } = watching.await.unwrap().unwrap() else {
        panic!("it was the same")
    };
    assert!(hash.is_some() && hash != seen.hash, "the hash is keyed with the version");
    assert!(version > seen.version);
    // If the watcher sends the new version, no decider evaluates the query.
    let watching = service.watch(SeenVersion { version, hash, ..seen }).await;
    service.no_task().await;
    watching.abort();
    assert!(watching.await.unwrap_err().is_cancelled());
    // If the watcher sends an older version, a decider evaluates the query again.
    let watching = service.watch(seen).await;
    let task = service.task().await;
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    tokio::time::sleep(WAIT / 2).await;
    assert!(!watching.is_finished(), "then it waits");
    service.news("8").await;
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watchers_cost_one_evaluation_per_change() {
    let service = open().await;
    let seen = service.see("7").await;
    let mut watching = Vec::new();
    for number in 0..1_000 {
        let hash = seen.hash.filter(|_| number % 2 == 0);
        watching.push(service.watch(SeenVersion { hash, ..seen }).await);
    }
    assert_eq!(service.gauge("queries_waiting"), 1_000);
    let commits = service.store.stats().commits;
    tokio::time::sleep(WAIT / 2).await;
    assert_eq!(service.store.stats().commits, commits, "idle watchers cost zero writes");
    service.no_task().await;
    service.signal("w", "s").await;
    let task = service.task().await;
    assert_eq!(task.task().queries.len(), 1, "one evaluation");
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    for watching in watching {
        assert_eq!(result(watching.await.unwrap()).0, "8", "and 1,000 replies");
    }
    assert_eq!(service.gauge("queries_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn watchers_learn_of_a_close_without_a_turn() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    let terminate = Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
    service.engine.commands().submit(&at("w"), terminate).await.unwrap();
    let task = service.task().await;
    assert!(task.task().query_only);
    service.answer(task, Vec::new(), &said("ended")).await.unwrap();
    assert_eq!(result(watching.await.unwrap()).0, "ended");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_during_a_turn_is_answered_after_it() {
    let service = open().await;
    service.see("7").await;
    service.signal("w", "s").await;
    let turn = service.task().await;
    // The description already includes the signal, but no decider has processed it yet.
    let run = service.engine.views().describe(&at("w")).await.unwrap().run;
    let watching = service.watch(SeenVersion { run_id: run.started.run_id, version: run.version, hash: None }).await;
    service.answer(turn, Vec::new(), &said("8")).await.unwrap();
    let task = service.task().await;
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn a_lost_turn_keeps_its_watchers_and_the_next_answers_them() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    service.signal("w", "s").await;
    drop(service.task().await);
    service.until("w", "DeciderFailed").await;
    let task = service.task().await;
    assert_eq!(task.task().queries.len(), 1);
    let mark = RecordMarker { name: "m".to_owned(), details: None };
    service.answer(task, vec![mark.into()], &said("8")).await.unwrap();
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn a_change_without_an_answer_is_not_reported_as_unchanged() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    service.signal("w", "s").await;
    let refusal = watching.await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::QueryTimedOut { .. }), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_a_closed_run_id_ignores_its_successor() {
    let service = Service::open().await;
    service.start("w").await;
    let turn = service.turn().await;
    service.complete(turn, vec![crate::succeed()]).await.unwrap();
    let run = service.engine.views().describe(&at("w")).await.unwrap().run;
    let seen = SeenVersion { run_id: run.started.run_id, version: run.version, hash: None };
    let (engine, named) = (std::sync::Arc::clone(&service.engine), RunRef { run_id: Some(seen.run_id), ..at("w") });
    let began = tokio::time::Instant::now();
    let watching = tokio::spawn(async move { engine.views().describe_unlike(&named, seen, WAIT).await });
    tokio::task::yield_now().await;
    let again = Start { reuse_policy: ReusePolicy::AllowDuplicate, ..Start::new("w", "test", "deciders") };
    service.engine.commands().start(crate::DOMAIN, again).await.unwrap();
    let described = watching.await.unwrap().unwrap();
    assert_eq!(described.run.started.run_id, seen.run_id);
    assert!(began.elapsed() >= WAIT, "{:?}", began.elapsed());
}
