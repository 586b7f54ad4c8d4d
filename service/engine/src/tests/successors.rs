//! Tests of a run's successor if a node has stopped after it closed the run and before it started the successor.

use std::sync::Arc;

use history::{
    Command, ConflictPolicy, ContinueAsNew, FailWorkflow, Payload, RetryPolicy, Start, StartSignal, Transition, TurnId,
};
use store::{Expect, HeadKey, Store};

use crate::commit::{self, Draft, StoredRun};
use crate::{Engine, EventRange, RunRef, Settings, SystemClock};

async fn node(store: &Arc<dyn Store>) -> Arc<Engine> {
    let engine = Engine::open_for_reading(Arc::clone(store), Arc::new(SystemClock), Settings::default());
    let engine = engine.await.unwrap();
    engine.registry.ensure_default_domain().await.unwrap();
    engine
}

/// Returns two decisions. Each of them closes a run and continues it in a new run.
fn closes() -> [history::Decision; 2] {
    let input = Some(Payload::from_json("1").unwrap());
    [
        ContinueAsNew { input, ..ContinueAsNew::default() }.into(),
        FailWorkflow { reason: "busy".to_owned(), ..FailWorkflow::default() }.into(),
    ]
}

/// Closes a run with this decision on a node, which then stops before it starts the successor. Returns the store and
/// the run's id.
async fn died_between(close: history::Decision) -> (Arc<dyn Store>, uuid::Uuid) {
    let store: Arc<dyn Store> = Arc::new(store::memory::Memory::new());
    let engine = node(&store).await;
    let start = Start {
        retention: history::Duration::ZERO,
        input: Some(Payload::from_json("1").unwrap()),
        retry: Some(RetryPolicy::default()),
        ..Start::new("w", "t", "l")
    };
    let first = engine.commands().start("default", start).await.unwrap().run_id;
    let key = HeadKey::new("default", "w");
    let base = StoredRun::decode(store.load(&key).await.unwrap().unwrap()).unwrap();
    let now = engine.clock().now();
    let mut transition = Transition::of(base.run().clone());
    transition.admit(&Command::StartTurn { scheduled_event_id: 2, identity: None, poll: None }, now).unwrap();
    let command = Command::complete(TurnId { scheduled_event_id: 2, started_event_id: 3 }, vec![close]);
    transition.admit(&command, now).unwrap();
    let (run, links, events) = transition.into_all();
    let due = commit::due(&run, &links, &[], 0, history::StoppedLists::NONE, now);
    assert!(due.is_some_and(|due| due <= now.plus(history::Duration::from_secs(30))), "somebody must look again");
    let draft = Draft { base: Some(&base), run, links, events, copied: 0, offers: 0, op: 1, due };
    let prepared = commit::prepare(draft, &store.limits(), |head| store.weight(&key, head));
    let kept = prepared.next.head.expires_at.unwrap();
    assert!(kept > now.plus(history::Duration::from_days(6)).as_millis(), "it must not be forgotten before");
    let expect = Expect::Exactly { run: base.head.run, version: base.head.version };
    assert_eq!(store.commit(&key, expect, &prepared.next.head, &prepared.parts).await.unwrap(), store::Cas::Won);
    (store, first)
}

/// Checks that the newest run continues the run `first`, and returns the names of the newest run's events.
async fn names(engine: &Arc<Engine>, first: uuid::Uuid) -> Vec<&'static str> {
    let at = RunRef { domain: "default".into(), workflow_id: "w".into(), run_id: None };
    let run = engine.views().describe(&at).await.unwrap().run;
    assert_eq!(run.started.continued_from, Some(first));
    let events = engine.views().history(&at, &EventRange::default()).await.unwrap().events;
    assert_eq!(events.first().unwrap().kind.payload().unwrap().text(), Some("1"));
    events.iter().map(|event| event.kind.name()).collect()
}

#[tokio::test]
async fn any_node_starts_the_successor_of_a_dead_node_s_run() {
    for close in closes() {
        let begun = ["WorkflowStarted", "DeciderScheduled"];
        let at = RunRef { domain: "default".into(), workflow_id: "w".into(), run_id: None };
        let signal =
            Command::Signal { name: "go".to_owned(), input: None, identity: None, key: None, if_version: None };

        let (store, first) = died_between(close.clone()).await;
        let engine = node(&store).await;
        engine.runs.wake(&HeadKey::new("default", "w")).await.unwrap();
        assert_eq!(names(&engine, first).await, begun);

        let (store, first) = died_between(close.clone()).await;
        let engine = node(&store).await;
        engine.commands().submit(&at, signal.clone()).await.unwrap();
        assert_eq!(names(&engine, first).await, [&begun[..], &["Signal"]].concat());

        // The workflow id counts as in use, so a start fails. A start that may use an existing open run gets the
        // successor.
        let (store, first) = died_between(close.clone()).await;
        let engine = node(&store).await;
        let refused = engine.commands().start("default", Start::new("w", "t", "l")).await.unwrap_err();
        assert_eq!(refused.code(), "workflow-already-open");
        let signal = Some(StartSignal { name: "go".to_owned(), input: None });
        let start = Start { conflict_policy: ConflictPolicy::UseExisting, signal, ..Start::new("w", "t", "l") };
        assert!(engine.commands().start("default", start).await.unwrap().existing);
        assert_eq!(names(&engine, first).await, [&begun[..], &["Signal"]].concat());

        // Two nodes that act concurrently start only one successor.
        let (store, first) = died_between(close.clone()).await;
        let (one, other) = (node(&store).await, node(&store).await);
        let key = HeadKey::new("default", "w");
        let (a, b) = tokio::join!(one.runs.wake(&key), other.runs.wake(&key));
        a.and(b).unwrap();
        assert_eq!(names(&one, first).await, begun);
    }
}
