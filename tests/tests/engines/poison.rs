//! Effects on other runs that cannot be delivered, either permanently or until an operator repairs the store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use engine::{Engine, EventRange};
use history::event::{ChildScheduleFailed, ChildScheduleFailedCause};
use history::{Decision, EffectKind, EventKind, SignalExternal, Start, StartChild};
use simulation::poison::{Poison, Trouble};
use simulation::steps::{DOMAIN, at, decide};
use simulation::still::open;
use store::Store;
use store::memory::Memory;

/// Starts a run whose decision has an effect on the workflow id `poison`, on a store that fails for this id.
async fn wants(trouble: Trouble, decision: Decision) -> (Arc<dyn Store>, Arc<Engine>) {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let engine = open(Poison::over(Arc::clone(&store), trouble), 7).await;
    engine.commands().start(DOMAIN, Start::new("w", "t", "l")).await.unwrap();
    decide(&engine, "l", vec![decision]).await;
    (store, engine)
}

fn child() -> Decision {
    let (workflow_id, workflow_type) = ("poison".to_owned(), "t".to_owned());
    StartChild { workflow_id, workflow_type, ..StartChild::default() }.into()
}

fn signal() -> Decision {
    SignalExternal { workflow_id: "poison".to_owned(), name: "s".to_owned(), ..SignalExternal::default() }.into()
}

async fn newest(engine: &Engine) -> EventKind {
    let page = EventRange { after: 5, ..EventRange::default() };
    engine.views().history(&at("w"), &page).await.unwrap().events.swap_remove(0).kind
}

#[tokio::test]
async fn a_child_that_can_never_begin_is_said_to_have_failed() {
    let (_, engine) = wants(Trouble::TooLarge, child()).await;
    while engine.views().describe(&at("w")).await.unwrap().run.last_event_id < 6 {
        tokio::task::yield_now().await;
    }
    let EventKind::ChildScheduleFailed(ChildScheduleFailed { cause, scheduled_event_id, .. }) = newest(&engine).await
    else {
        panic!()
    };
    assert_eq!((cause, scheduled_event_id), (ChildScheduleFailedCause::StartRefused, Some(5)));
    assert!(engine.views().describe(&at("w")).await.unwrap().owed.is_empty());
    let report = engine.views().fsck(DOMAIN, |_| {}).await.unwrap();
    assert_eq!(report.findings, vec![]);
}

#[tokio::test]
async fn what_somebody_may_still_mend_stays_owed_and_is_seen_to_be() {
    for (trouble, decision, kind) in
        [(Trouble::Corrupt, child(), EffectKind::StartChild), (Trouble::Corrupt, signal(), EffectKind::Signal)]
    {
        let (_, engine) = wants(trouble, decision).await;
        let has_failed =
            |engine: &Engine| engine.render_metrics().contains("baton_effects_deferred_total{code=\"corrupt\"}");
        while !has_failed(&engine) {
            tokio::task::yield_now().await;
        }
        let owed = engine.views().describe(&at("w")).await.unwrap().owed;
        assert_eq!(owed.iter().map(|effect| (effect.kind, effect.event_id)).collect::<Vec<_>>(), [(kind, 5)]);
        let report = engine.views().fsck(DOMAIN, |_| {}).await.unwrap();
        assert_eq!(report.findings, vec![]);
    }
}

#[tokio::test]
async fn a_signal_to_a_run_that_is_full_waits_until_that_has_room() {
    let (store, engine) = wants(Trouble::TooLarge, signal()).await;
    // The signal fails because there is no run with this id.
    while engine.views().describe(&at("w")).await.unwrap().run.last_event_id < 6 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(newest(&engine).await, EventKind::ExternalSignalFailed(_)));
    open(Arc::clone(&store), 8).await.commands().start(DOMAIN, Start::new("poison", "t", "other")).await.unwrap();
    drop(engine);
    let engine = open(Poison::over(store, Trouble::TooLarge), 9).await;
    decide(&engine, "l", vec![signal()]).await;
    while !engine.render_metrics().contains("baton_effects_deferred_total{code=\"run-too-large\"}") {
        tokio::task::yield_now().await;
    }
    assert_eq!(engine.views().describe(&at("w")).await.unwrap().owed.iter().len(), 1);
}
