//! Updates with a start. The update is validated by the first turn of the run that the request starts, or by the next
//! turn of the open run. Repeated requests never start a second run.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, Refusal, RunRef, UpdateProgress, UpdateRequest};
use history::{ConflictPolicy, Decision, FailWorkflow, Fault, RequestKey, ReusePolicy, Start, Status, UpdateStatus};
use store::fault::{Chances, FaultStore};
use store::memory::Memory;
use uuid::Uuid;

use crate::updates::{code, done, ids, named, rejected, result, takes_updates};
use crate::{DOMAIN, Service, at, succeed};

const FIRST_TURN: [&str; 4] = ["WorkflowStarted", "DeciderScheduled", "DeciderStarted", "DeciderCompleted"];
const UPDATE: [&str; 2] = ["UpdateAccepted", "UpdateCompleted"];

fn start() -> Start {
    let (conflict_policy, reuse_policy) = (ConflictPolicy::UseExisting, ReusePolicy::AllowDuplicate);
    Start { conflict_policy, reuse_policy, ..Start::new("w", "test", "deciders") }
}

/// Returns the update with its start, which a caller sends unchanged in every attempt.
fn starting(update_id: &str, start: Start) -> UpdateRequest {
    let key = update_id.bytes().fold(0, |key, byte| key * 256 + u64::from(byte));
    UpdateRequest { start: Some(Box::new(Start { key: Some(RequestKey(key)), ..start })), ..named(update_id) }
}

type Asking = tokio::task::JoinHandle<Result<UpdateProgress, Refusal>>;

impl Service {
    async fn begin(&self, update_id: &str) -> Asking {
        self.update_of(at("w"), starting(update_id, start()), Duration::from_secs(600)).await
    }

    async fn first_turn(&self, answers: &[(&str, history::Verdict)], decisions: Vec<Decision>) {
        let task = self.judge().await;
        assert!(!task.task().speculative);
        assert_eq!(ids(&task), answers.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        let token = task.task().token.clone();
        task.delivered();
        self.say(&token, answers, decisions).await.unwrap();
    }

    async fn run_id(&self) -> Uuid {
        self.engine.views().describe(&at("w")).await.unwrap().run.started.run_id
    }
}

#[track_caller]
fn after_start(answered: Result<UpdateProgress, Refusal>) -> (Uuid, &'static str) {
    match answered.unwrap_err() {
        Refusal::AfterStart { run_id, then } => (run_id, then.code()),
        other => panic!("no run was started: {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_turn_of_a_started_run_judges_the_update() {
    let service = Service::open().await;
    let asking = service.begin("u").await;
    service.first_turn(&[("u", done("2"))], Vec::new()).await;
    let answered = asking.await.unwrap().unwrap();
    assert!(answered.started && answered.run_id == service.run_id().await);
    assert_eq!(result(Ok(answered)), ("2".to_owned(), 6, 6));
    assert_eq!(service.names("w").await, [&FIRST_TURN[..], &UPDATE].concat());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_decider_gets_start_and_update_in_one_commit() {
    let service = Service::open().await;
    let engine = Arc::clone(&service.engine);
    let poll = takes_updates(Duration::from_secs(60), 1);
    let polling =
        tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().unwrap() });
    while !service.engine.render_metrics().contains("pollers_waiting{domain") {
        tokio::task::yield_now().await;
    }
    let commits = service.store.stats().commits;
    let asking = service.begin("u").await;
    let task = polling.await.unwrap();
    assert_eq!((ids(&task), service.store.stats().commits), (vec!["u"], commits + 1));
    let token = task.task().token.clone();
    task.delivered();
    service.say(&token, &[("u", done("2"))], vec![succeed()]).await.unwrap();
    assert!(asking.await.unwrap().unwrap().started);
    assert_eq!(service.store.stats().commits, commits + 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_stays_when_its_first_turn_rejects_the_update() {
    let service = Service::open().await;
    let asking = service.begin("u").await;
    service.first_turn(&[("u", rejected())], Vec::new()).await;
    assert_eq!(after_start(asking.await.unwrap()), (service.run_id().await, "update-rejected"));
    assert_eq!(service.names("w").await, FIRST_TURN);
    // Starts a run without an update for comparison.
    let plain = Service::open().await;
    plain.engine.commands().start(DOMAIN, Start { key: Some(RequestKey(117)), ..start() }).await.unwrap();
    plain.first_turn(&[], Vec::new()).await;
    // Compares all events except the first, because it contains the run id.
    assert_eq!(service.events("w").await[1..], plain.events("w").await[1..]);
    assert!(service.engine.views().describe(&at("w")).await.unwrap().run.is_open());
    // A repetition gets the same error and starts no run.
    assert_eq!(code(service.begin("u").await.await.unwrap()), "update-rejected");
}

#[tokio::test(start_paused = true)]
async fn an_open_run_is_not_started_and_its_next_turn_judges() {
    let service = Service::open().await;
    service.idle("w").await;
    let run_id = service.run_id().await;
    let asking = service.begin("u").await;
    service.judged(&[("u", done("2"))], Vec::new()).await.unwrap();
    let answered = asking.await.unwrap().unwrap();
    assert_eq!((answered.started, answered.run_id), (false, run_id));
    // If a turn waits for a decider, this turn takes the update.
    service.signal("w", "go").await;
    let asking = service.begin("v").await;
    service.first_turn(&[("v", rejected())], Vec::new()).await;
    assert_eq!(code(asking.await.unwrap()), "update-rejected");
}

#[tokio::test(start_paused = true)]
async fn concurrent_updates_start_one_run_and_are_judged_once() {
    let service = Service::open().await;
    let mut asking = Vec::new();
    for number in 0..20 {
        asking.push(service.begin(&format!("u{number}")).await);
    }
    let names: Vec<String> = (0..20).map(|number| format!("u{number}")).collect();
    let answers: Vec<_> = names.iter().map(|name| (name.as_str(), done("2"))).collect();
    service.first_turn(&answers, Vec::new()).await;
    let mut started = 0;
    for asking in asking {
        started += usize::from(asking.await.unwrap().unwrap().started);
    }
    assert_eq!(started, 1);
    assert_eq!(service.names("w").await.len(), 4 + 20 * 2);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_gets_the_answer_of_a_closed_run() {
    let service = Service::open().await;
    let asking = service.begin("u").await;
    service.first_turn(&[("u", done("2"))], vec![succeed()]).await;
    let first = asking.await.unwrap().unwrap();
    for service in [&service, &service.again().await] {
        let again = service.begin("u").await.await.unwrap().unwrap();
        assert_eq!((again.started, &again.done, again.run_id), (false, &first.done, first.run_id));
    }
    // A repetition with a different start gets the same result, because the update id identifies the update.
    let other = UpdateRequest { start: Some(Box::new(start())), ..named("u") };
    let again = service.update_of(at("w"), other, Duration::ZERO).await.await.unwrap().unwrap();
    assert_eq!((again.started, again.run_id), (false, first.run_id));
    // A new update starts another run.
    let asking = service.begin("v").await;
    service.first_turn(&[("v", done("3"))], Vec::new()).await;
    let next = asking.await.unwrap().unwrap();
    assert!(next.started && next.run_id != first.run_id);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_starts_nothing_after_a_rejecting_close() {
    let service = Service::open().await;
    let asking = service.begin("u").await;
    let fail: Decision = FailWorkflow { reason: "no such order".to_owned(), ..FailWorkflow::default() }.into();
    service.first_turn(&[("u", rejected())], vec![fail]).await;
    let (run_id, then) = after_start(asking.await.unwrap());
    assert_eq!(then, "update-rejected");
    assert_eq!(code(service.begin("u").await.await.unwrap()), "update-rejected", "the rejection is kept for a while");
    // The rejection is no longer known, but the run still knows the request that started it.
    assert_eq!(code(service.again().await.begin("u").await.await.unwrap()), "run-closed");
    assert_eq!(service.run_id().await, run_id);
}

#[tokio::test(start_paused = true)]
async fn the_policies_of_the_start_apply() {
    let service = Service::open().await;
    let refused = |start: Start| service.update_of(at("w"), starting("x", start), Duration::ZERO);
    let asking = service.begin("u").await;
    let open = Start { conflict_policy: ConflictPolicy::Fail, ..start() };
    assert_eq!(code(refused(open).await.await.unwrap()), "workflow-already-open");
    service.first_turn(&[("u", done("2"))], Vec::new()).await;
    let first = asking.await.unwrap().unwrap().run_id;

    let instead = Start { conflict_policy: ConflictPolicy::TerminateExisting, ..start() };
    let asking = service.update_of(at("w"), starting("v", instead), Duration::from_secs(600)).await;
    service.first_turn(&[("v", done("3"))], vec![succeed()]).await;
    assert!(asking.await.unwrap().unwrap().started);
    let first = RunRef { run_id: Some(first), ..at("w") };
    assert_eq!(service.engine.views().describe(&first).await.unwrap().run.status, Status::Terminated);

    let never = Start { reuse_policy: ReusePolicy::RejectDuplicate, ..start() };
    assert_eq!(code(refused(never).await.await.unwrap()), "workflow-id-reuse-refused");
    assert_eq!(service.gauge("updates_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_update_unjudged_at_the_close_starts_another_run() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "go").await;
    let turn = service.judge().await;
    let token = turn.task().token.clone();
    turn.delivered();
    let asking = service.begin("u").await;
    service.say(&token, &[], vec![succeed()]).await.unwrap();
    service.first_turn(&[("u", done("2"))], Vec::new()).await;
    assert!(asking.await.unwrap().unwrap().started);
}

#[tokio::test(start_paused = true)]
async fn an_unjudged_run_stays_and_a_repetition_finds_it() {
    let service = Service::open().await;
    let asking = service.update_of(at("w"), starting("u", start()), Duration::from_secs(1)).await;
    let refused = asking.await.unwrap();
    assert_eq!(refused.as_ref().unwrap_err().recorded(), engine::MayBeRecorded::Unknown);
    assert_eq!(after_start(refused), (service.run_id().await, "update-timed-out"));
    let asking = service.begin("u").await;
    service.first_turn(&[("u", done("2"))], Vec::new()).await;
    assert!(!asking.await.unwrap().unwrap().started);
}

#[tokio::test(start_paused = true)]
async fn another_decider_judges_if_the_first_takes_no_updates() {
    let service = Service::open().await;
    let asking = service.begin("u").await;
    let turn = service.turn().await;
    assert!(ids(&turn).is_empty());
    service.complete(turn, Vec::new()).await.unwrap();
    service.judged(&[("u", done("2"))], Vec::new()).await.unwrap();
    assert!(asking.await.unwrap().unwrap().started);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_start_with_an_update_records_nothing() {
    let service = Service::open().await;
    let conditional = UpdateRequest { if_version: Some(1), ..starting("u", start()) };
    let later = Start { start_after: Some(history::Duration::from_secs(1)), ..start() };
    let nameless = Start { workflow_type: String::new(), ..start() };
    for (update, expected) in [
        (conditional, "start"),
        (starting("u", later), "start.startAfter"),
        (starting("u", nameless), "workflowType"),
        (starting("", start()), "updateId"),
    ] {
        match service.update_of(at("w"), update, Duration::ZERO).await.await.unwrap().unwrap_err() {
            Refusal::Fault(Fault::Invalid { field, .. }) => assert_eq!(field, expected),
            other => panic!("{other}"),
        }
    }
    let unknown = RunRef { domain: "nowhere".into(), ..at("w") };
    let refused = service.update_of(unknown, starting("u", start()), Duration::ZERO).await.await.unwrap();
    assert_eq!(code(refused), "unknown-domain");
    assert!(service.stored("w").await.is_none());
    assert_eq!(service.gauge("updates_waiting"), 0);
}

/// Aborts the caller and opens another service over the same store, as if the first process had been killed.
async fn killed(service: &Service, asking: Asking) -> Service {
    asking.abort();
    drop(asking.await);
    service.again().await
}

#[tokio::test(start_paused = true)]
async fn a_node_death_at_any_point_starts_and_updates_once() {
    for point in 0..4 {
        let service = Service::open().await;
        let asking = service.begin("u").await;
        // Point 0: the node is lost between the start and the first turn.
        let mut token = None;
        if point > 0 {
            // Point 1: the node is lost while a decider validates the update.
            let task = service.judge().await;
            token = Some(task.task().token.clone());
            task.delivered();
        }
        if point > 1 {
            // Point 2: the answer is recorded, but the caller has not received it. Point 3: in addition, the run has
            // closed.
            let decisions = if point == 3 { vec![succeed()] } else { Vec::new() };
            service.say(token.as_ref().unwrap(), &[("u", done("2"))], decisions).await.unwrap();
        }
        let run_id = service.run_id().await;
        let other = killed(&service, asking).await;
        let asking = other.begin("u").await;
        if point == 1 {
            // The decider of the lost node completes its turn. Another decider then validates the update again.
            other.say(token.as_ref().unwrap(), &[], Vec::new()).await.unwrap();
            other.judged(&[("u", done("2"))], Vec::new()).await.unwrap();
        } else if point == 0 {
            other.first_turn(&[("u", done("2"))], Vec::new()).await;
        }
        let answered = asking.await.unwrap().unwrap();
        assert_eq!(answered.run_id, run_id, "point {point}");
        assert_eq!(result(Ok(answered)).0, "2");
        let accepted = other.names("w").await.into_iter().filter(|name| *name == "UpdateAccepted").count();
        assert_eq!(accepted, 1, "point {point}");
    }
}

/// Runs a decider that accepts every update, until it is aborted.
async fn judge_all(engine: Arc<Engine>) {
    loop {
        let poll = takes_updates(Duration::from_secs(60), 8);
        let Ok(Some(task)) = engine.tasks().poll_decider(DOMAIN, "deciders", poll).await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let updates: Vec<String> = task.task().updates.iter().map(|it| it.update_id.clone()).collect();
        let token = engine.tasks().decider_token(&task.task().token).unwrap();
        task.delivered();
        let command = history::Command::complete(token.turn, Vec::new());
        let answers = updates.into_iter().map(|update_id| history::UpdateAnswer { update_id, verdict: done("2") });
        drop(engine.tasks().answer_turn_with(&token, command, Vec::new(), answers.collect()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_starts_and_updates_once_despite_repetitions() {
    for seed in 0..40 {
        let chances = Chances { unknown_before: 200, unknown_after: 200, not_applied: 200, late: 100, ..Chances::NONE };
        let store = Arc::new(FaultStore::new(Arc::new(Memory::new()), seed, Chances::NONE));
        let service = Service::over(Arc::clone(&store) as _).await;
        store.set_chances(chances);
        let judging = tokio::spawn(judge_all(Arc::clone(&service.engine)));
        let answered = loop {
            let asked = starting("u", start());
            match service.engine.request_reply().update(&at("w"), asked, Duration::from_secs(20)).await {
                Ok(answered) => break answered,
                Err(refusal) => assert!(refusal.is_retryable(), "seed {seed}: {refusal}"),
            }
            // Waits until a lost turn has timed out, so that another decider gets the next turn.
            service.clock.advance(history::Duration::from_secs(31));
        };
        judging.abort();
        store.set_on(false);
        let events = service.events("w").await;
        let accepted = events.iter().filter(|event| event.kind.name() == "UpdateAccepted").count();
        assert_eq!((accepted, service.run_id().await), (1, answered.run_id), "seed {seed}");
        let described = service.engine.views().describe(&at("w")).await.unwrap().run;
        assert!(matches!(described.update_status("u"), UpdateStatus::Ended { .. }));
        assert_eq!(described.started.continued_from, None);
        let listed = store::ListQuery { domain: DOMAIN.into(), limit: 10, ..store::ListQuery::default() };
        assert_eq!(service.engine.views().list(&listed, None).await.unwrap().rows.len(), 1, "seed {seed}: one run");
    }
}
