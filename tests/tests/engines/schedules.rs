//! Schedules on a node that dies before or after each of its writes, and on two nodes at the same time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use std::time::Duration;

use client::body::{Schedule, StartWorkflow};
use engine::{Clock, Engine, ScheduleView, Settings};
use history::{Overlap, ScheduleSpec};
use simulation::broken::Dying;
use simulation::manual_clock::{BEGIN, ManualClock};
use simulation::steps::DOMAIN;
use store::memory::Memory;
use store::{ListQuery, Store};

async fn node(store: Arc<dyn Store>, clock: &Arc<ManualClock>) -> Arc<Engine> {
    Engine::open(store, Arc::clone(clock) as _, Settings::default()).await.unwrap()
}

async fn create(engine: &Arc<Engine>, overlap: Overlap) {
    let schedule = Schedule {
        spec: ScheduleSpec { cron: vec!["* * * * *".to_owned()], ..ScheduleSpec::default() },
        action: StartWorkflow {
            workflow_id: "w".to_owned(),
            workflow_type: "t".to_owned(),
            ..StartWorkflow::default()
        },
        overlap,
        ..Schedule::default()
    };
    engine.schedules().create(DOMAIN, "s", schedule, false, None).await.unwrap();
}

/// Waits until the schedule has started this number of runs and has no outstanding work. Returns the schedule.
async fn settled(engine: &Arc<Engine>, started: u64) -> ScheduleView {
    loop {
        let view = engine.schedules().describe(DOMAIN, "s").await.unwrap();
        let is_over = view.state.starting.is_empty() && view.state.undelivered_ends().next().is_none();
        if view.state.counts.started >= started && is_over {
            return view;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the workflow id and the status of every run in the store.
async fn runs(store: &Arc<dyn Store>) -> Vec<(String, String)> {
    let query = ListQuery { domain: DOMAIN.into(), limit: 100, ..ListQuery::default() };
    let found = store.list(&query, None).await.unwrap().rows;
    let mut runs: Vec<_> = found.iter().map(|it| (it.workflow_id.to_string(), it.row.status.to_string())).collect();
    runs.sort();
    runs
}

#[tokio::test]
async fn a_schedule_whose_node_dies_at_any_write_starts_a_run_for_each_time_and_no_other() {
    for lands in [false, true] {
        let mut at = 0;
        loop {
            let (store, time): (Arc<dyn Store>, _) = (Arc::new(Memory::new()), ManualClock::new());
            let calm = node(Arc::clone(&store), &time).await;
            create(&calm, Overlap::TerminateOther).await;
            calm.begin_shutdown();
            let dying = Arc::new(Dying::new(Arc::clone(&store), at, lands));
            let open = Engine::open(Arc::clone(&dying) as _, Arc::clone(&time) as _, Settings::default());
            let work = async {
                let engine = open.await.unwrap();
                for minute in 1..=2 {
                    time.advance(history::Duration::from_secs(60));
                    settled(&engine, minute).await;
                }
                engine
            };
            let survived = tokio::select! {
                biased;
                () = dying.died() => None,
                engine = work => Some(engine),
            };
            if let Some(engine) = &survived {
                engine.begin_shutdown();
            }
            // Another node takes over half a minute later.
            let now = time.now().as_millis();
            time.advance(history::Duration::from_secs((BEGIN + 120_000).saturating_sub(now) / 1_000 + 31));
            let other = node(Arc::clone(&store), &time).await;
            let wait = tokio::time::timeout(Duration::from_secs(120), settled(&other, 2));
            let view = wait.await.unwrap_or_else(|_| panic!("write {at}, lands {lands}: it does not go on"));
            let expected = [("w-2023-11-14T22:14:00Z", "terminated"), ("w-2023-11-14T22:15:00Z", "open")];
            let expected = expected.map(|(id, status)| (id.to_owned(), status.to_owned()));
            assert_eq!(runs(&store).await, expected, "write {at}, lands {lands}");
            let counts = view.state.counts;
            assert_eq!((counts.started, counts.refused, counts.skipped, counts.missed), (2, 0, 0, 0), "write {at}");
            other.begin_shutdown();
            if survived.is_some() {
                assert!(at > 5, "there are more writes than {at}");
                break;
            }
            at += 1;
        }
    }
}

#[tokio::test]
async fn two_nodes_that_look_at_once_start_one_run_for_each_time() {
    let (store, time): (Arc<dyn Store>, _) = (Arc::new(Memory::new()), ManualClock::new());
    let one = node(Arc::clone(&store), &time).await;
    create(&one, Overlap::AllowAll).await;
    let other = node(Arc::clone(&store), &time).await;
    for minute in 1..=20 {
        time.advance(history::Duration::from_secs(60));
        settled(&one, minute).await;
        settled(&other, minute).await;
    }
    let found = runs(&store).await;
    assert_eq!((found.len(), settled(&one, 20).await.state.counts.started), (20, 20), "{found:?}");
}
