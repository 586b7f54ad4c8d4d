//! Lifetime of known requests: one day, for at most a hundred thousand requests per workflow id, even if the store is
//! restarted.

use std::sync::Arc;
use std::time::Duration;

use engine::{Admitted, Engine, Refusal, Settings, Started};
use history::event::OperatorAction;
use history::{Command, RequestKey, ReusePolicy, Start, limits};
use simulation::stored::with_marks;
use store::{Cas, Expect, HeadKey};
use store_embedded::{Embedded, Options};

use crate::repeated::{MANY, keyed};
use crate::updates::{done, named, result};
use crate::{DOMAIN, Service, at, succeed};

const HOUR: history::Duration = history::Duration::from_secs(3_600);
const MINUTE: history::Duration = history::Duration::from_secs(60);

/// Key of the first of the commands that [`others`] returns.
const OTHERS: u64 = 800_000;

/// Returns commands to an open run that are not signals. Each has a key. They all succeed in this order.
fn others() -> Vec<Command> {
    let key = |number: u64| Some(RequestKey(OTHERS + number));
    vec![
        Command::Pause { stop_clocks: false, operator: OperatorAction::default(), key: key(0) },
        Command::Resume { operator: OperatorAction::default(), key: key(1) },
        Command::RequestCancel { reason: None, identity: None, key: key(2) },
    ]
}

fn terminate() -> Command {
    let key = Some(RequestKey(OTHERS + 3));
    Command::Terminate { reason: None, details: None, child_policy: None, identity: None, key }
}

impl Service {
    /// Starts a run without a retention period. When it has closed, only its known requests prevent its deletion.
    async fn start_and_forget(&self, id: &str) {
        let start = Start {
            retention: history::Duration::ZERO,
            reuse_policy: ReusePolicy::AllowDuplicate,
            ..Start::new(id, "test", "deciders")
        };
        self.engine.commands().start(DOMAIN, start).await.unwrap();
        let turn = self.turn().await;
        self.complete(turn, Vec::new()).await.unwrap();
    }

    /// Advances the clock by this duration, this many times. Each time, lets the store delete expired runs.
    async fn wait(&self, times: u64, span: history::Duration) {
        for _ in 0..times {
            self.clock.advance(span);
            while self.store.expire(self.clock_now().as_millis(), 100).await.unwrap() > 0 {}
        }
    }

    fn clock_now(&self) -> history::Timestamp {
        self.engine.clock().now()
    }

    async fn updated(&self, id: &str, update_id: &str) -> (String, u64, u64) {
        let asking = self.update(id, update_id).await;
        self.judged(&[(update_id, done("7"))], Vec::new()).await.unwrap();
        result(asking.await.unwrap())
    }

    /// Repeats all requests. Checks that each returns its first result.
    async fn repeat_all(&self, id: &str, first: &[(Command, Admitted)], updated: &(String, u64, u64)) {
        for (command, first) in first {
            let again = self.engine.commands().submit(&at(id), command.clone()).await.unwrap();
            let heard = (again.run_id, again.event_id, again.repeated);
            assert_eq!(heard, (first.run_id, first.event_id, true), "{command:?}");
        }
        let again = self.engine.request_reply().update(&at(id), named("u"), Duration::from_secs(5)).await;
        assert_eq!(result(again), *updated);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_known_for_a_day_although_the_store_expires_runs() {
    let service = Service::open().await;
    for id in ["few", "many", "plain"] {
        service.start_and_forget(id).await;
    }
    let mut heard = Vec::new();
    for (id, signals) in [("few", 1), ("many", MANY)] {
        let updated = service.updated(id, "u").await;
        let mut first = Vec::new();
        for command in others().into_iter().chain([keyed(0)]) {
            let told = service.engine.commands().submit(&at(id), command.clone()).await.unwrap();
            assert!(!told.repeated);
            first.push((command, told));
        }
        service.tell_many(id, 1..signals).await;
        let told = service.engine.commands().submit(&at(id), terminate()).await.unwrap();
        first.push((terminate(), told));
        heard.push((id, first, updated));
    }
    let end = Command::Terminate { reason: None, details: None, child_policy: None, identity: None, key: None };
    service.engine.commands().submit(&at("plain"), end).await.unwrap();
    service.wait(23, HOUR).await;
    service.wait(1, history::Duration::from_millis(59 * MINUTE.as_millis())).await;
    let gone = service.engine.views().describe(&at("plain")).await.unwrap_err();
    assert_eq!(gone.code(), "unknown-workflow", "it has no known requests, so it was deleted");
    for node in [&service, &service.again().await] {
        for (id, first, updated) in &heard {
            node.repeat_all(id, first, updated).await;
        }
    }
    // Keys are known for a day. Up to an hour is added because ages are counted in hours, and another hour because
    // clocks may differ.
    service.wait(3, HOUR).await;
    for (id, ..) in &heard {
        let refused = service.engine.commands().submit(&at(id), keyed(0)).await.unwrap_err();
        assert_eq!(refused.code(), "unknown-workflow", "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_requests_are_known_and_the_rest_counted() {
    let service = Service::open().await;
    service.start("w").await;
    let first = service.tell_many("w", 0..MANY).await;
    let key = HeadKey { domain: DOMAIN.into(), workflow_id: "w".into() };
    let head = service.stored("w").await.unwrap();
    let full = with_marks(&head, limits::REQUESTS_MAX).expect("it has marks");
    let expect = Expect::Exactly { run: head.run, version: head.version };
    assert!(matches!(service.store.commit(&key, expect, &full, &[]).await.unwrap(), Cas::Won));
    // Continues at a node that has not seen these requests.
    let node = service.again().await;
    let counted = || (node.gauge("request_keys_offloaded_total"), node.gauge("request_keys_evicted_total"));
    node.tell_again("w", 0, &first[0]).await;
    assert_eq!(counted(), (0, 0));
    let more = limits::REQUESTS_IN_STATE_MAX as u64;
    node.tell_many("w", MANY..MANY + more).await;
    let (written, forgotten) = counted();
    assert!(written >= limits::REQUESTS_SPILLED_MIN as u64 && forgotten == written, "{written}, {forgotten}");
    // Only the oldest requests are forgotten.
    let place = usize::try_from(forgotten).unwrap();
    node.tell_again("w", forgotten, &first[place]).await;
    let again = node.tell("w", forgotten - 1).await;
    assert!(!again.repeated && again.event_id > first[place].event_id, "{again:?}");
}

#[tokio::test]
async fn the_embedded_store_knows_requests_after_it_is_reopened() {
    let directory = tempfile::TempDir::new().unwrap();
    let clock = simulation::manual_clock::ManualClock::new();
    let open = async || {
        let store = Embedded::open(Options::new(directory.path())).await.unwrap();
        let clock = Arc::clone(&clock);
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let engine = Engine::open(Arc::clone(&store) as _, Arc::clone(&clock) as _, settings).await.unwrap();
        Service { engine, clock, store }
    };
    let service = open().await;
    let started = service.start_with("w", 900_001).await;
    let turn = service.turn().await;
    service.complete(turn, Vec::new()).await.unwrap();
    let updated = service.updated("w", "u").await;
    let mut first = Vec::new();
    for command in others() {
        let told = service.engine.commands().submit(&at("w"), command.clone()).await.unwrap();
        first.push((command, told));
    }
    let signals = service.tell_many("w", 0..MANY).await;
    service.engine.shutdown().await.unwrap();
    drop(service);

    let service = open().await;
    assert_eq!(service.start_with("w", 900_001).await, Started { repeated: true, ..started });
    service.repeat_all("w", &first, &updated).await;
    for key in [0, MANY / 2, MANY - 1] {
        service.tell_again("w", key, &signals[usize::try_from(key).unwrap()]).await;
    }
    let turn = service.turn().await;
    service.complete(turn, vec![succeed()]).await.unwrap();
    service.engine.shutdown().await.unwrap();
    drop(service);

    let service = open().await;
    assert_eq!(
        service.start_with("w", 900_001).await,
        Started { repeated: true, ..started },
        "also after it has closed"
    );
    service.repeat_all("w", &first, &updated).await;
    let refused = service.engine.commands().submit(&at("w"), keyed(999_999)).await.unwrap_err();
    assert!(matches!(refused, Refusal::Fault(history::Fault::RunClosed { .. })), "{refused}");
    service.engine.shutdown().await.unwrap();
}
