//! Watching a query: held until the run has news, or the result is another.

use std::time::Duration;

use engine::{QueryReply, QueryRequest, Refusal, RunRef, SeenVersion};
use history::{Command, RecordMarker, ReusePolicy, Start};

use crate::queries::{Asking, result, said};
use crate::{Service, at};

/// How long watchers wait here.
const WAIT: Duration = Duration::from_secs(60);

impl Service {
    async fn watch(&self, seen: SeenVersion) -> Asking {
        let ask = QueryRequest { name: "total".to_owned(), input: None, seen: Some(seen) };
        self.ask_of(at("w"), ask, WAIT).await
    }

    /// What a caller sees who asks now.
    async fn see(&self, says: &str) -> SeenVersion {
        let asking = self.ask("w", "total").await;
        let task = self.task().await;
        self.answer(task, Vec::new(), &said(says)).await.unwrap();
        match asking.await.unwrap().unwrap() {
            QueryReply::Result { run_id, version, hash, .. } => SeenVersion { run_id, version, hash: Some(hash) },
            unchanged @ QueryReply::Unchanged { .. } => panic!("{unchanged:?}"),
        }
    }

    /// One more turn, which a signal brings.
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
async fn who_watches_a_version_is_held_until_it_moves() {
    let service = open().await;
    let seen = SeenVersion { hash: None, ..service.see("7").await };
    let commits = service.store.stats().commits;
    let watching = service.watch(seen).await;
    service.no_task().await;
    tokio::time::sleep(WAIT / 2).await;
    assert!(!watching.is_finished());
    assert_eq!(service.store.stats().commits, commits, "no turn is made just for watchers (S1.30)");
    assert_eq!(service.news("7").await, 1, "the turn takes the watcher along (S1.29)");
    assert_eq!(result(watching.await.unwrap()).0, "7", "the run has news, though the result is the same");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_has_moved_already_is_asked_for_at_once() {
    let service = open().await;
    let seen = SeenVersion { hash: None, ..service.see("7").await };
    service.news("8").await;
    let watching = service.watch(seen).await;
    let task = service.task().await;
    assert!(task.task().only_asks, "S1.28");
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn without_news_the_wait_ends_with_nothing_new() {
    let service = open().await;
    let seen = service.see("7").await;
    let commits = service.store.stats().commits;
    for seen in [seen, SeenVersion { hash: None, ..seen }] {
        let watching = service.watch(seen).await;
        let SeenVersion { run_id, version, .. } = seen;
        assert_eq!(
            watching.await.unwrap().unwrap(),
            QueryReply::Unchanged { run_id, version, hash: seen.hash },
            "S1.27"
        );
    }
    service.no_task().await;
    assert_eq!(service.store.stats().commits, commits);
    assert_eq!(service.gauge("queries_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn who_watches_a_result_is_not_woken_by_news_that_leave_it_as_it_is() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    for _ in 0..3 {
        assert_eq!(service.news("7").await, 1, "one evaluation for each turn");
        assert!(!watching.is_finished(), "S1.31");
    }
    service.news("8").await;
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn who_watches_a_result_learns_of_the_version_up_to_which_it_is_the_same() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    service.news("7").await;
    let QueryReply::Unchanged { version, hash, .. } = watching.await.unwrap().unwrap() else {
        panic!("it was the same")
    };
    assert!(hash.is_some() && hash != seen.hash, "it is sealed with the version");
    assert!(version > seen.version);
    // So that asking again costs no evaluation.
    let watching = service.watch(SeenVersion { version, hash, ..seen }).await;
    service.no_task().await;
    watching.abort();
    assert!(watching.await.unwrap_err().is_cancelled());
    // From the older version it costs one.
    let watching = service.watch(seen).await;
    let task = service.task().await;
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    tokio::time::sleep(WAIT / 2).await;
    assert!(!watching.is_finished(), "and then it is held");
    service.news("8").await;
    assert_eq!(result(watching.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watchers_of_a_run_cost_one_evaluation_for_each_change_and_no_write() {
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
    assert_eq!(service.store.stats().commits, commits, "idle watchers cost zero writes (S1.9)");
    service.no_task().await;
    service.signal("w", "s").await;
    let task = service.task().await;
    assert_eq!(task.task().queries.len(), 1, "one evaluation (S1.9)");
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    for watching in watching {
        assert_eq!(result(watching.await.unwrap()).0, "8", "and 1,000 replies");
    }
    assert_eq!(service.gauge("queries_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn watchers_learn_of_an_end_that_no_turn_has_brought() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    let terminate = Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
    service.engine.commands().tell(&at("w"), terminate).await.unwrap();
    let task = service.task().await;
    assert!(task.task().only_asks);
    service.answer(task, Vec::new(), &said("ended")).await.unwrap();
    assert_eq!(result(watching.await.unwrap()).0, "ended");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_a_turn_under_way_is_answered_after_it() {
    let service = open().await;
    service.see("7").await;
    service.signal("w", "s").await;
    let turn = service.task().await;
    // As a description has it: the signal is news, and not yet seen by any decider.
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
async fn news_without_an_answer_is_not_passed_off_as_no_news() {
    let service = open().await;
    let seen = service.see("7").await;
    let watching = service.watch(seen).await;
    service.signal("w", "s").await;
    let refusal = watching.await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::NotAnswered { .. }), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn who_watches_a_run_by_its_id_that_has_closed_sleeps_until_the_wait_is_over_also_when_another_follows() {
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
