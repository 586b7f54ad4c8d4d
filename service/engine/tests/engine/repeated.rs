//! Requests that are repeated late: after hundreds of other requests, when another run has continued the run that
//! recorded them, and at another node.

use std::time::Duration;

use engine::{Admitted, Refusal, Reset, RunRef, Started};
use history::event::{LaterSignals, OperatorAction};
use history::{Branching, Command, ContinueAsNew, EventKind, RequestKey, ReusePolicy, Start, Verdict, limits};
use uuid::Uuid;

use crate::updates::{done, ids, named, result};
use crate::{DOMAIN, Service, at, succeed};

/// Number of requests that is several times the number of keys in the state of a run.
pub(crate) const MANY: u64 = 5 * limits::REQUESTS_IN_STATE_MAX as u64;

pub(crate) fn keyed(key: u64) -> Command {
    let name = format!("s{key}");
    Command::Signal { name, input: None, identity: None, key: Some(RequestKey(key)), if_version: None }
}

pub(crate) fn of(id: &str, run_id: Uuid) -> RunRef {
    RunRef { run_id: Some(run_id), ..at(id) }
}

impl Service {
    pub(crate) async fn tell(&self, id: &str, key: u64) -> Admitted {
        self.engine.commands().submit(&at(id), keyed(key)).await.unwrap()
    }

    /// Repeats a command. Checks that the response is the first result and that no event is recorded.
    pub(crate) async fn tell_again(&self, id: &str, key: u64, first: &Admitted) {
        let before = self.events(id).await.len();
        let again = self.tell(id, key).await;
        assert_eq!((again.run_id, again.event_id, again.repeated), (first.run_id, first.event_id, true), "{key}");
        assert_eq!(self.events(id).await.len(), before, "{key}");
    }

    pub(crate) async fn start_with(&self, id: &str, key: u64) -> Started {
        let reuse_policy = ReusePolicy::AllowDuplicate;
        let start = Start { key: Some(RequestKey(key)), reuse_policy, ..Start::new(id, "test", "deciders") };
        self.engine.commands().start(DOMAIN, start).await.unwrap()
    }

    pub(crate) async fn tell_many(&self, id: &str, keys: std::ops::Range<u64>) -> Vec<Admitted> {
        let mut told = Vec::new();
        for key in keys {
            told.push(self.tell(id, key).await);
        }
        told
    }

    pub(crate) async fn go_on_as_new(&self, id: &str) -> Uuid {
        let turn = self.turn().await;
        self.complete(turn, vec![ContinueAsNew::default().into()]).await.unwrap();
        self.current(id).await
    }

    pub(crate) async fn current(&self, id: &str) -> Uuid {
        self.engine.views().describe(&at(id)).await.unwrap().run.started.run_id
    }
}

#[tokio::test(start_paused = true)]
async fn each_update_of_a_full_turn_is_known_when_repeated() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "go").await;
    let all: Vec<String> = (0..limits::UPDATES_PER_TURN_MAX).map(|number| format!("u{number}")).collect();
    let mut asking = Vec::new();
    for id in &all {
        asking.push(service.update("w", id).await);
    }
    let task = service.judge().await;
    assert_eq!(ids(&task).len(), all.len());
    let token = task.task().token.clone();
    task.delivered();
    let answers: Vec<_> = all.iter().map(|id| (id.as_str(), done("1"))).collect();
    service.say(&token, &answers, Vec::new()).await.unwrap();
    let mut first = Vec::new();
    for asking in asking {
        first.push(result(asking.await.unwrap()));
    }
    let before = service.names("w").await;
    for node in [&service, &service.again().await] {
        for (id, first) in all.iter().zip(&first) {
            let again = node.engine.request_reply().update(&at("w"), named(id), Duration::from_secs(5)).await;
            assert_eq!(result(again), *first, "{id}");
        }
    }
    assert_eq!(service.names("w").await, before);
    assert_eq!(before.iter().filter(|name| **name == "UpdateAccepted").count(), all.len());
}

#[tokio::test(start_paused = true)]
async fn a_starts_key_is_known_as_long_as_its_run_is_kept() {
    let service = Service::open().await;
    let first = service.start_with("w", 900_001).await;
    service.tell_many("w", 0..MANY).await;
    let again = Started { repeated: true, ..first };
    for node in [&service, &service.again().await] {
        assert_eq!(node.start_with("w", 900_001).await, again, "while the run is open");
    }
    let turn = service.turn().await;
    service.complete(turn, vec![succeed()]).await.unwrap();
    assert_eq!(service.start_with("w", 900_001).await, again, "after it has closed");
    // Other runs replace the run. They have more requests than fit into the state of a run.
    let mut others = Vec::new();
    for number in 1..=10 {
        service.clock.advance(history::Duration::from_days(2));
        others.push(service.start_with("w", 900_001 + number).await);
        let turn = service.turn().await;
        service.complete(turn, vec![succeed()]).await.unwrap();
    }
    for node in [&service, &service.again().await] {
        assert_eq!(node.start_with("w", 900_001).await, again, "after others have replaced it");
        assert_eq!(node.start_with("w", 900_004).await, Started { repeated: true, ..others[2] });
    }
    let newest = others.last().unwrap().run_id;
    assert_eq!(service.current("w").await, newest, "no run was started twice");
    // After the run is deleted, the service no longer knows its key, which then starts a new run.
    service.engine.commands().delete(&of("w", first.run_id), &engine::Deletion::default()).await.unwrap();
    assert!(!service.start_with("w", 900_001).await.repeated);
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_known_in_every_successor_and_at_every_node() {
    let service = Service::open().await;
    service.start("w").await;
    let first = service.tell_many("w", 0..MANY).await;
    for key in [0, 1, MANY / 2, MANY - 1] {
        service.tell_again("w", key, &first[usize::try_from(key).unwrap()]).await;
    }
    let second = service.go_on_as_new("w").await;
    assert_ne!(second, first[0].run_id);
    let later = service.tell_many("w", MANY..2 * MANY).await;
    let node = service.again().await;
    for service in [&service, &node] {
        for (key, first) in [(0, &first[0]), (MANY - 1, first.last().unwrap()), (MANY, &later[0])] {
            service.tell_again("w", key, first).await;
        }
    }
    // A repetition that names the original run is recognized, although that run is not the newest. A repetition that
    // names another run is a new request.
    let told = service.engine.commands().submit(&of("w", first[0].run_id), keyed(3)).await.unwrap();
    assert_eq!((told.event_id, told.repeated), (first[3].event_id, true));
    assert!(!service.engine.commands().submit(&of("w", second), keyed(3)).await.unwrap().repeated);
    let refused = service.engine.commands().submit(&of("w", first[0].run_id), keyed(999_999)).await.unwrap_err();
    assert!(matches!(refused, Refusal::RunNotCurrent { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_run_reads_marks_only_if_it_has_many_keys_and_only_once() {
    let service = Service::open().await;
    service.start_with("few", 900_001).await;
    service.tell_many("few", 0..limits::REQUESTS_IN_STATE_MAX as u64).await;
    service.update("few", "u").await;
    let read = || service.gauge("request_keys_read_total");
    assert_eq!((read(), service.gauge("request_keys_offloaded_total")), (0, 0));
    service.start("many").await;
    service.tell_many("many", 0..MANY).await;
    assert!(service.gauge("request_keys_offloaded_total") >= MANY - limits::REQUESTS_IN_STATE_MAX as u64);
    let before = read();
    service.tell("many", 3).await;
    assert_eq!(read(), before + 1, "the key is not in the state");
    service.tell("many", MANY).await;
    assert_eq!(read(), before + 2, "the key is new");
    service.tell("many", MANY).await;
    assert_eq!(read(), before + 2, "the key is in the state");
    service.signal("many", "without a key").await;
    assert_eq!(read(), before + 2);
}

#[tokio::test(start_paused = true)]
async fn an_updates_marks_are_read_once() {
    let service = Service::open().await;
    service.start("w").await;
    service.tell_many("w", 0..MANY).await;
    let before = service.gauge("request_keys_read_total");
    let asking = service.update("w", "u").await;
    let task = service.judge().await;
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u", done("1"))], Vec::new()).await.unwrap();
    let first = result(asking.await.unwrap());
    assert_eq!(result(service.update("w", "u").await.await.unwrap()), first);
    assert_eq!(service.gauge("request_keys_read_total"), before + 1);
}

#[tokio::test(start_paused = true)]
async fn an_update_is_known_in_the_successors_of_its_run() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.update("w", "a").await;
    service.judged(&[("a", done("7"))], Vec::new()).await.unwrap();
    let answered = asking.await.unwrap().unwrap();
    let waits = service.update_of(at("w"), named("b"), Duration::from_secs(1)).await;
    service.judged(&[("b", Verdict::Later)], Vec::new()).await.unwrap();
    assert!(waits.await.unwrap().unwrap().done.is_none());
    service.signal("w", "go").await;
    service.go_on_as_new("w").await;
    service.tell_many("w", 0..MANY).await;
    let again = service.again().await;
    for node in [&service, &again] {
        let update =
            async |id: &str| node.engine.request_reply().update(&at("w"), named(id), Duration::from_secs(5)).await;
        assert_eq!(update("a").await.unwrap(), answered);
        assert_eq!(
            update("b").await.unwrap_err().code(),
            "run-closed",
            "a run that did not complete it has accepted it"
        );
    }
    let accepted = |kind: &EventKind| matches!(kind, EventKind::UpdateAccepted(_));
    assert!(!service.events("w").await.iter().any(|event| accepted(&event.kind)));
    // If a request names the successor by its run id, its update id belongs to a new update.
    let turn = service.turn().await;
    service.complete(turn, Vec::new()).await.unwrap();
    let current = service.current("w").await;
    let asking = service.update_of(of("w", current), named("a"), Duration::from_secs(60)).await;
    service.judged(&[("a", done("8"))], Vec::new()).await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap().run_id, current);
}

#[tokio::test(start_paused = true)]
async fn requests_before_a_reset_and_the_reset_itself_stay_known() {
    let service = Service::open().await;
    service.idle("w").await;
    let branch_at = service.events("w").await.last().unwrap().id;
    let first = service.tell_many("w", 0..MANY).await;
    let branching = Branching { event_id: branch_at, signals: LaterSignals::Drop };
    let reset = Reset { branching, operator: OperatorAction::default(), key: Some(RequestKey(700_000)), by: None };
    let done = service.engine.commands().reset(&at("w"), reset.clone()).await.unwrap();
    for key in [0, MANY - 1] {
        service.tell_again("w", key, &first[usize::try_from(key).unwrap()]).await;
    }
    service.tell_many("w", MANY..2 * MANY).await;
    service.go_on_as_new("w").await;
    let again = service.engine.commands().reset(&at("w"), reset).await.unwrap();
    assert_eq!((again.run_id, again.base_run_id, again.repeated), (done.run_id, done.base_run_id, true));
    for node in [&service, &service.again().await] {
        node.tell_again("w", 0, &first[0]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_retention_is_kept_for_its_known_requests() {
    let service = Service::open().await;
    let (retention, reuse_policy) = (history::Duration::ZERO, ReusePolicy::AllowDuplicate);
    let start = |id: &str| Start { retention, reuse_policy, ..Start::new(id, "test", "deciders") };
    for id in ["keyed", "plain"] {
        let key = (id == "plain").then_some(RequestKey(1));
        service.engine.commands().start(DOMAIN, Start { key, ..start(id) }).await.unwrap();
        if id == "keyed" {
            service.tell(id, 5).await;
        }
        let turn = service.turn().await;
        service.complete(turn, vec![succeed()]).await.unwrap();
    }
    let expires_at = |head: store::Head| history::Timestamp::from_millis(head.expires_at.unwrap());
    let now = service.engine.clock().now();
    assert_eq!(expires_at(service.stored("plain").await.unwrap()), now, "a start is known while its run exists");
    let kept = expires_at(service.stored("keyed").await.unwrap()).since(now);
    assert!(kept >= limits::REQUESTS_KEPT && kept <= history::Duration::from_secs(26 * 3_600), "{kept}");
    // The keys are still known after another run has replaced this run.
    let told = service.engine.commands().submit(&at("keyed"), keyed(5)).await.unwrap();
    assert!(told.repeated);
    service.engine.commands().start(DOMAIN, start("keyed")).await.unwrap();
    service.tell_again("keyed", 5, &told).await;
    let turn = service.turn().await;
    service.complete(turn, vec![succeed()]).await.unwrap();
    let kept = expires_at(service.stored("keyed").await.unwrap()).since(service.engine.clock().now());
    assert!(kept >= limits::REQUESTS_KEPT, "{kept}");
}
