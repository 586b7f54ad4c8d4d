//! Resets of open and closed runs by a node that dies before or after each of its writes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{Engine, Reset, RunRef};
use history::event::{LaterSignals, OperatorAction};
use history::{Branching, Command, RequestKey, Start};
use simulation::broken::Dying;
use simulation::steps::{DOMAIN, at, names};
use simulation::still;
use store::Store;
use store::memory::Memory;
use uuid::Uuid;

fn run(run_id: Uuid) -> RunRef {
    RunRef { run_id: Some(run_id), ..at("w") }
}

async fn node(store: Arc<dyn Store>) -> Arc<Engine> {
    static SEED: AtomicU64 = AtomicU64::new(0);
    still::open(store, SEED.fetch_add(1, Ordering::SeqCst)).await
}

/// Starts a run with a signal and closes it if `is_closed`. Returns the run id.
async fn begin(store: &Arc<dyn Store>, is_closed: bool) -> Uuid {
    let engine = node(Arc::clone(store)).await;
    let run_id = engine.commands().start(DOMAIN, Start::new("w", "t", "l")).await.unwrap().run_id;
    let (name, key) = ("s".to_owned(), Some(RequestKey(1)));
    let signal = Command::Signal { name, input: None, identity: None, key, if_version: None };
    engine.commands().submit(&at("w"), signal).await.unwrap();
    if is_closed {
        let (reason, details, identity, key, child_policy) = (None, None, None, None, None);
        engine
            .commands()
            .submit(&at("w"), Command::Terminate { reason, details, identity, key, child_policy })
            .await
            .unwrap();
    }
    run_id
}

fn reset() -> Reset {
    let branching = Branching { event_id: 2, signals: LaterSignals::Reapply };
    Reset { branching, operator: OperatorAction::default(), key: Some(RequestKey(7)), by: None }
}

#[tokio::test]
async fn a_reset_whose_node_dies_at_any_write_has_happened_or_not_and_happens_once() {
    for (is_closed, lands) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut died = 0;
        loop {
            let store: Arc<dyn Store> = Arc::new(Memory::new());
            let old = begin(&store, is_closed).await;
            let dying = Arc::new(Dying::new(Arc::clone(&store), died, lands));
            let engine = node(Arc::clone(&dying) as _).await;
            let place = at("w");
            let is_over = tokio::select! {
                done = engine.commands().reset(&place, reset()) => done.map(|_| true).unwrap(),
                () = dying.died() => false,
            };
            engine.begin_shutdown();
            if is_over && !dying.is_dead() {
                // A reset has two writes: the old run is terminated or marked as reset, and then the new run is
                // started.
                assert_eq!(died, 2, "closed: {is_closed}, landed: {lands}");
                break;
            }
            let engine = node(Arc::clone(&store)).await;
            let decided = died > 0 || lands;
            // If the reset was recorded, any later request to the workflow id first starts the new run.
            let (name, key) = ("t".to_owned(), Some(RequestKey(2)));
            let signal = Command::Signal { name, input: None, identity: None, key, if_version: None };
            let told = engine.commands().submit(&at("w"), signal).await;
            assert_eq!(told.is_ok(), decided || !is_closed, "write {died}, {lands}: {told:?}");
            // A repeated reset request starts the new run if that has not been done, and otherwise changes nothing.
            let again = engine.commands().reset(&at("w"), reset()).await.unwrap();
            assert_eq!((again.repeated, again.base_run_id), (decided, old), "write {died}, landed: {lands}");
            assert_eq!(engine.views().describe(&run(old)).await.unwrap().reset_as, Some(again.run_id));
            let mut expected = vec!["WorkflowStarted", "DeciderScheduled", "WorkflowReset", "Signal"];
            expected.extend(told.is_ok().then_some("Signal"));
            assert_eq!(names(&engine, &run(again.run_id)).await, expected, "write {died}, landed: {lands}");
            names(&engine, &run(old)).await;
            let report = engine.views().fsck(DOMAIN, |_| {}).await.unwrap();
            assert_eq!((report.runs, report.findings), (2, vec![]));
            died += 1;
        }
    }
}

#[tokio::test]
async fn two_nodes_that_go_on_for_a_reset_run_begin_the_same_one() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let old = begin(&store, false).await;
    let dying = Arc::new(Dying::new(Arc::clone(&store), 1, false));
    let engine = node(Arc::clone(&dying) as _).await;
    let place = at("w");
    tokio::select! {
        _ = engine.commands().reset(&place, reset()) => panic!("it dies before"),
        () = dying.died() => {}
    }
    let (one, other) = (node(Arc::clone(&store)).await, node(Arc::clone(&store)).await);
    let (a, b) = tokio::join!(one.commands().reset(&place, reset()), other.commands().reset(&place, reset()));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!((a.run_id, a.repeated, b.repeated), (b.run_id, true, true));
    assert_eq!(one.views().describe(&run(old)).await.unwrap().reset_as, Some(a.run_id));
}
