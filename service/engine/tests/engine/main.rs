//! The engine without HTTP, over the memory store or the store that `simulation::stores` selects. Tests whole
//! workflows, sync match, returned tasks, races and faults.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

extern crate baton_engine as engine;

mod batches;
mod bounds;
mod elsewhere;
mod ends;
mod limits_configured;
mod limits_elsewhere;
mod measured;
mod members;
mod nodes;
mod notices;
mod others;
mod polls;
mod queries;
mod queries_elsewhere;
mod query_table;
mod repeated;
mod repeated_for_a_day;
mod room;
mod secrets;
mod updates;
mod updates_elsewhere;
mod updates_with_start;
mod waiting;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use engine::{DeciderTask, Delivery, Engine, EventRange, Poll, Refusal, Settings};
use history::{
    Command, Decision, Event, EventKind, Fault, Payload, ScheduleActivity, Start, StartTimer, SucceedWorkflow, check,
};
use simulation::manual_clock::ManualClock;
use simulation::steps::{self, DOMAIN, at};
use simulation::stores::fresh;
use store::Store;
use store::fault::{Chances, FaultStore};
use store::memory::Memory;

struct Service {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
}

impl Service {
    async fn open() -> Self {
        Self::over(fresh().await).await
    }

    async fn over(store: Arc<dyn Store>) -> Self {
        let clock = ManualClock::new();
        let settings = Settings { seed: Some(7), ..Settings::default() };
        let engine = Engine::open(Arc::clone(&store), Arc::clone(&clock) as _, settings).await.unwrap();
        Self { engine, clock, store }
    }

    async fn start(&self, id: &str) {
        self.engine.commands().start(DOMAIN, Start::new(id, "test", "deciders")).await.unwrap();
    }

    async fn turn(&self) -> Delivery<DeciderTask> {
        steps::turn(&self.engine, "deciders").await
    }

    async fn complete(&self, turn: Delivery<DeciderTask>, decisions: Vec<Decision>) -> Result<(), Refusal> {
        steps::complete(&self.engine, turn, decisions).await
    }

    async fn events(&self, id: &str) -> Vec<Event> {
        steps::events(&self.engine, &at(id)).await
    }

    async fn names(&self, id: &str) -> Vec<&'static str> {
        steps::names(&self.engine, &at(id)).await
    }

    /// Waits until the newest event of the run has this name.
    async fn until(&self, id: &str, name: &str) {
        let wait = async {
            loop {
                let run_id = self.engine.views().describe(&at(id)).await.unwrap().run.started.run_id;
                let events = self.events(id).await;
                let last = events.last().unwrap();
                if events.iter().any(|event| event.kind.name() == name) {
                    return;
                }
                self.engine.views().wait_beyond(&at(id), run_id, last.id, Duration::from_secs(1)).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(120), wait).await.expect("the event comes");
    }
}

fn activity(id: &str, list: &str) -> Decision {
    ScheduleActivity {
        activity_id: id.to_owned(),
        activity_type: "do".to_owned(),
        task_list: Some(list.to_owned()),
        ..ScheduleActivity::default()
    }
    .into()
}

fn succeed() -> Decision {
    SucceedWorkflow::default().into()
}

#[tokio::test]
async fn an_empty_execution_has_five_events() {
    let service = Service::open().await;
    service.start("empty").await;
    let turn = service.turn().await;
    service.complete(turn, vec![succeed()]).await.unwrap();
    let expected = ["WorkflowStarted", "DeciderScheduled", "DeciderStarted", "DeciderCompleted", "WorkflowSuccess"];
    assert_eq!(service.names("empty").await, expected);
}

#[tokio::test]
async fn a_waiting_poller_gets_its_task_in_the_commit_that_creates_it() {
    let service = Service::open().await;
    let engine = Arc::clone(&service.engine);
    let poll = Poll { wait: Duration::from_secs(5), ..Poll::default() };
    let poller = tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await });
    while !service.engine.render_metrics().contains("baton_pollers_waiting{domain=\"default\"") {
        tokio::task::yield_now().await;
    }
    let before = service.store.stats().commits;
    service.start("sync").await;
    let turn = poller.await.unwrap().unwrap().unwrap();
    assert_eq!(service.store.stats().commits, before + 1, "started and dispatched in one commit");
    assert_eq!(turn.task().started_event_id, 3);
    assert_eq!(turn.task().events.len(), 3);
    turn.delivered();
}

#[tokio::test]
async fn an_activity_goes_only_to_its_own_list() {
    let service = Service::open().await;
    service.start("pci").await;
    let turn = service.turn().await;
    service.complete(turn, vec![activity("charge", "PCI")]).await.unwrap();
    let now = Poll::default();
    assert!(service.engine.tasks().poll_activity(DOMAIN, "deciders", now.clone()).await.unwrap().is_none());
    let task = service.engine.tasks().poll_activity(DOMAIN, "PCI", now).await.unwrap().expect("it waits on PCI");
    let token = service.engine.tasks().activity_token(&task.task().token).unwrap();
    task.delivered();
    let result = Some(Payload::from_json("{\"ok\": true}").unwrap());
    service
        .engine
        .tasks()
        .answer_activity(&token, Command::SucceedActivity { task: token.task, result })
        .await
        .unwrap();
    let turn = service.turn().await;
    assert_eq!(turn.task().previous_started_event_id, 3);
    let names: Vec<_> = turn.task().events.iter().map(|event| event.kind.name()).collect();
    let window = [
        "DeciderStarted",
        "DeciderCompleted",
        "ActivityScheduled",
        "ActivityStarted",
        "ActivitySuccess",
        "DeciderScheduled",
        "DeciderStarted",
    ];
    assert_eq!(names, window);
    service.complete(turn, vec![succeed()]).await.unwrap();
    let answer = Command::SucceedActivity { task: token.task, result: None };
    let late = service.engine.tasks().answer_activity(&token, answer).await.unwrap_err();
    assert!(matches!(late, Refusal::Fault(Fault::RunClosed { .. })), "{late}");
}

#[tokio::test]
async fn an_undelivered_task_is_returned_at_once() {
    let service = Service::open().await;
    service.start("lost").await;
    drop(service.turn().await);
    let turn = service.turn().await;
    assert_eq!(turn.task().attempt, 1, "a failed delivery is not the decider's failure");
    service.complete(turn, vec![succeed()]).await.unwrap();
    assert!(service.names("lost").await.contains(&"DeciderFailed"));
}

#[tokio::test]
async fn a_thirty_day_timer_expires_on_time() {
    let service = Service::open().await;
    service.start("sleeper").await;
    let turn = service.turn().await;
    let timer = StartTimer { timer_id: "month".to_owned(), after: history::Duration::from_days(30), control: None };
    service.complete(turn, vec![timer.into()]).await.unwrap();
    service.clock.advance(history::Duration::from_days(30));
    service.until("sleeper", "TimerExpired").await;
    let turn = service.turn().await;
    service.complete(turn, vec![succeed()]).await.unwrap();
}

#[tokio::test]
async fn a_late_answer_after_the_turn_timed_out_changes_nothing() {
    let service = Service::open().await;
    service.start("slow").await;
    let slow = service.turn().await;
    service.clock.advance(history::Duration::from_secs(31));
    service.until("slow", "DeciderTimedOut").await;
    let before = service.names("slow").await;
    let late = service.complete(slow, vec![succeed()]).await.unwrap_err();
    assert!(matches!(late, Refusal::Fault(Fault::TurnLost)), "{late}");
    assert_eq!(service.names("slow").await, before);
    let turn = service.turn().await;
    assert_eq!(turn.task().attempt, 2);
    assert_eq!(turn.task().events.first().unwrap().id, 1, "the next turn has the window of the lost one");
    service.complete(turn, vec![succeed()]).await.unwrap();
}

#[tokio::test]
async fn a_restart_loses_nothing_and_offers_waiting_tasks() {
    let store = fresh().await;
    let first = Service::over(Arc::clone(&store)).await;
    first.start("survivor").await;
    let turn = first.turn().await;
    first.complete(turn, vec![activity("a", "acts")]).await.unwrap();
    first.engine.begin_shutdown();
    let second = Service::over(store).await;
    let poll = Poll { wait: Duration::from_secs(5), ..Poll::default() };
    let task = second.engine.tasks().poll_activity(DOMAIN, "acts", poll).await.unwrap().expect("it is offered again");
    assert_eq!(task.task().activity_id, "a");
    task.delivered();
}

#[tokio::test]
async fn many_signals_and_large_payloads_are_all_read_back_both_ways() {
    let service = Service::open().await;
    service.start("busy").await;
    let big = format!("\"{}\"", "x".repeat(history::limits::PAYLOAD_BYTES_MAX - 2));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..300_u64 {
        let engine = Arc::clone(&service.engine);
        let text = if number % 100 == 0 { big.clone() } else { number.to_string() };
        tasks.spawn(async move {
            let input = Some(Payload::from_json(&text).unwrap());
            let name = format!("n{number}");
            let signal = Command::Signal { name, input, identity: None, key: None, if_version: None };
            engine.commands().submit(&at("busy"), signal).await.unwrap()
        });
    }
    while let Some(told) = tasks.join_next().await {
        assert!(!told.unwrap().repeated);
    }
    let mut on = Vec::new();
    let mut after = 0;
    loop {
        let page = EventRange { after, limit: 17, ..EventRange::default() };
        let page = service.engine.views().history(&at("busy"), &page).await.unwrap();
        on.extend(page.events);
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    check::history(&on).unwrap();
    assert_eq!(on.len(), 302);
    let sizes: usize = on.iter().filter_map(|event| event.kind.payload()).filter(|it| it.len() == big.len()).count();
    assert_eq!(sizes, 3);
    let mut back = Vec::new();
    let mut before = None;
    loop {
        let page = EventRange { before, limit: 23, reverse: true, ..EventRange::default() };
        let page = service.engine.views().history(&at("busy"), &page).await.unwrap();
        back.extend(page.events);
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    back.reverse();
    assert_eq!(on, back);
    let turn = service.turn().await;
    let seen = turn.task().events.iter().filter(|event| matches!(event.kind, EventKind::Signal(_))).count();
    assert_eq!(seen, 300);
    let report = service.engine.views().fsck(DOMAIN, |_| {}).await.unwrap();
    assert_eq!((report.runs, report.events), (1, 303));
    assert_eq!(report.findings, []);
}

#[tokio::test]
async fn of_racing_starts_with_one_id_exactly_one_wins() {
    let service = Service::open().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let engine = Arc::clone(&service.engine);
        let start = Start::new("one", if number % 2 == 0 { "a" } else { "b" }, "deciders");
        tasks.spawn(async move { engine.commands().start(DOMAIN, start).await });
    }
    let outcomes = tasks.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let open = |outcome: &Result<_, Refusal>| matches!(outcome, Err(Refusal::Fault(Fault::AlreadyOpen { .. })));
    assert_eq!(outcomes.iter().filter(|outcome| open(outcome)).count(), 49);
}

#[tokio::test]
async fn a_waiting_task_is_woken_once_when_the_service_starts() {
    let service = Service::open().await;
    service.start("w").await;
    let again = Service::over(Arc::clone(&service.store)).await;
    let looks = || {
        let metrics = again.engine.render_metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix("baton_wakes_total ")).unwrap();
        line.parse::<u64>().unwrap()
    };
    while looks() == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(looks(), 1);
}

/// Sends signals while the store fails in one way. Returns the service and the number of acknowledged signals.
async fn signals_under(chances: Chances) -> (Service, usize) {
    let store = Arc::new(FaultStore::new(Arc::new(Memory::new()), 11, Chances::NONE));
    let service = Service::over(Arc::clone(&store) as _).await;
    service.start("w").await;
    store.set_chances(chances);
    let mut acknowledged = 0;
    for number in 0..40 {
        let name = format!("s{number}");
        let signal = Command::Signal { name, input: None, identity: None, key: None, if_version: None };
        match service.engine.commands().submit(&at("w"), signal).await {
            Ok(_) => acknowledged += 1,
            Err(refusal) => assert_eq!(refusal.code(), "outcome-unknown"),
        }
    }
    store.set_on(false);
    assert!(store.injected() > 5, "{} faults", store.injected());
    (service, acknowledged)
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_unknown_outcome_is_recorded_once() {
    for chances in [
        Chances { late: 400, ..Chances::NONE },
        Chances { twice: 400, ..Chances::NONE },
        Chances { unknown_before: 300, unknown_after: 300, ..Chances::NONE },
    ] {
        let (service, acknowledged) = signals_under(chances).await;
        let events = service.events("w").await;
        let mut names: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Signal(signal) => Some(signal.name.clone()),
                _ => None,
            })
            .collect();
        assert!(names.len() >= acknowledged, "{chances:?}: {} of {acknowledged}", names.len());
        names.sort();
        let recorded = names.len();
        names.dedup();
        assert_eq!(names.len(), recorded, "{chances:?}: some were recorded twice");
    }
}
