//! Queries to runs in every state, with every outcome.
//!
//! The cells of the table in tests/README.md name these tests.

use std::sync::Arc;
use std::time::Duration;

use engine::{DeciderTask, Delivery, Poll, QueryOutcome, QueryReply, QueryRequest, Refusal, RunRef};
use history::{Command, Decision, Fault, Payload};

use crate::{DOMAIN, Service, at, succeed};

pub(crate) type Asking = tokio::task::JoinHandle<Result<QueryReply, Refusal>>;

pub(crate) fn json(text: &str) -> Payload {
    Payload::from_json(text).unwrap()
}

impl Service {
    /// Sends a query without waiting for the answer. When this function returns, the query is registered.
    pub(crate) async fn ask_of(&self, at: RunRef, ask: QueryRequest, wait: Duration) -> Asking {
        let before = self.gauge("queries_waiting");
        let engine = Arc::clone(&self.engine);
        let asking = tokio::spawn(async move { engine.request_reply().query(&at, ask, wait).await });
        while self.gauge("queries_waiting") == before && !asking.is_finished() {
            tokio::task::yield_now().await;
        }
        asking
    }

    pub(crate) async fn ask(&self, id: &str, name: &str) -> Asking {
        let ask = QueryRequest { name: name.to_owned(), input: None, seen: None };
        self.ask_of(at(id), ask, Duration::from_secs(60)).await
    }

    pub(crate) fn gauge(&self, name: &str) -> u64 {
        let metrics = self.engine.render_metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("baton_{name} ")));
        line.unwrap_or_else(|| panic!("no `{name}` in {metrics}")).parse().unwrap()
    }

    /// Takes the next task for a decider that answers queries.
    pub(crate) async fn task(&self) -> Delivery<DeciderTask> {
        let poll = Poll { wait: Duration::from_secs(60), queries: true, ..Poll::default() };
        self.engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().expect("a task waits")
    }

    pub(crate) async fn no_task(&self) {
        let poll = Poll { queries: true, ..Poll::default() };
        assert!(self.engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().is_none(), "no task waits");
    }

    /// Completes a task with the same outcome for every query.
    pub(crate) async fn answer(
        &self,
        task: Delivery<DeciderTask>,
        decisions: Vec<Decision>,
        outcome: &QueryOutcome,
    ) -> Result<(), Refusal> {
        let results = task.task().queries.iter().map(|query| (query.id.clone(), outcome.clone())).collect();
        let token = task.task().token.clone();
        task.delivered();
        self.complete_with(&token, decisions, results).await
    }

    pub(crate) async fn complete_with(
        &self,
        token: &str,
        decisions: Vec<Decision>,
        results: Vec<(String, QueryOutcome)>,
    ) -> Result<(), Refusal> {
        let token = self.engine.tasks().decider_token(token).unwrap();
        let command = Command::complete(token.turn, decisions);
        self.engine.tasks().answer_turn_with(&token, command, results, Vec::new()).await
    }

    pub(crate) async fn signal(&self, id: &str, name: &str) {
        let (name, key) = (name.to_owned(), None);
        let signal = Command::Signal { name, input: None, identity: None, key, if_version: None };
        self.engine.commands().submit(&at(id), signal).await.unwrap();
    }

    /// Starts a run and completes its first turn. Afterwards the run is idle.
    pub(crate) async fn idle(&self, id: &str) {
        self.start(id).await;
        let task = self.task().await;
        let wait =
            history::StartTimer { timer_id: "wait".to_owned(), after: history::Duration::from_days(9), control: None };
        self.answer(task, vec![wait.into()], &said("too early")).await.unwrap();
    }
}

pub(crate) fn said(what: &str) -> QueryOutcome {
    QueryOutcome::Result(Some(Payload::of(what).unwrap()))
}

#[track_caller]
pub(crate) fn result(answered: Result<QueryReply, Refusal>) -> (String, u64) {
    match answered.unwrap() {
        QueryReply::Result { result, version, .. } => (result.unwrap().read().unwrap(), version),
        unchanged @ QueryReply::Unchanged { .. } => panic!("{unchanged:?}"),
    }
}

fn names(task: &Delivery<DeciderTask>) -> Vec<&str> {
    task.task().queries.iter().map(|query| query.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn idle_and_asked_a_query_task_is_made_without_a_write() {
    let service = Service::open().await;
    service.idle("w").await;
    let (before, commits) = (service.events("w").await, service.store.stats().commits);
    for _ in 0..10 {
        let asking = service.ask("w", "total").await;
        let task = service.task().await;
        assert!(task.task().query_only);
        assert_eq!(names(&task), ["total"]);
        assert_eq!(task.task().events.last().unwrap().id, before.last().unwrap().id, "it has all events");
        service.answer(task, Vec::new(), &said("7")).await.unwrap();
        assert_eq!(result(asking.await.unwrap()), ("7".to_owned(), 5));
    }
    assert_eq!(service.store.stats().commits, commits, "no write");
    assert_eq!(service.events("w").await, before, "no event");
    assert_eq!(service.gauge("queries_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn idle_and_asked_a_waiting_decider_gets_the_query_at_once() {
    let service = Service::open().await;
    service.idle("w").await;
    let engine = Arc::clone(&service.engine);
    let poll = Poll { wait: Duration::from_secs(60), queries: true, ..Poll::default() };
    let polling =
        tokio::spawn(async move { engine.tasks().poll_decider(DOMAIN, "deciders", poll).await.unwrap().unwrap() });
    while !service.engine.render_metrics().contains("pollers_waiting{domain") {
        tokio::task::yield_now().await;
    }
    let asking = service.ask("w", "total").await;
    let task = polling.await.unwrap();
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn turn_waits_and_asked_the_turn_answers_after_its_decisions() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let asking = service.ask("w", "total").await;
    let task = service.task().await;
    assert!(!task.task().query_only, "the turn takes the query");
    assert_eq!(names(&task), ["total"]);
    let mark = history::RecordMarker { name: "seen".to_owned(), details: None };
    service.answer(task, vec![mark.into()], &said("7")).await.unwrap();
    let (total, version) = result(asking.await.unwrap());
    let marker = service.events("w").await.iter().find(|event| event.kind.name() == "Marker").unwrap().id;
    assert_eq!((total.as_str(), version), ("7", marker), "the answer reflects the turn's decisions");
    service.no_task().await;
}

#[tokio::test(start_paused = true)]
async fn first_turn_waits_and_asked_it_is_answered_by_the_first_turn() {
    let service = Service::open().await;
    service.start("w").await;
    let asking = service.ask("w", "total").await;
    let task = service.task().await;
    assert!(!task.task().query_only, "the first turn takes the query");
    service.answer(task, Vec::new(), &said("0")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "0");
}

#[tokio::test(start_paused = true)]
async fn turn_started_and_asked_it_waits_for_the_next_task() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let turn = service.task().await;
    let asking = service.ask("w", "total").await;
    service.no_task().await;
    service.answer(turn, Vec::new(), &said("nobody asked")).await.unwrap();
    let task = service.task().await;
    assert!(task.task().query_only, "the turn has ended, so there is a query task");
    service.answer(task, Vec::new(), &said("1")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "1");
}

#[tokio::test(start_paused = true)]
async fn turn_started_and_asked_the_next_turn_takes_the_query() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let turn = service.task().await;
    let asking = service.ask("w", "total").await;
    service.signal("w", "s").await;
    service.answer(turn, Vec::new(), &said("nobody asked")).await.unwrap();
    let turn = service.task().await;
    assert!(!turn.task().query_only);
    service.answer(turn, Vec::new(), &said("2")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "2");
}

#[tokio::test(start_paused = true)]
async fn query_waits_and_an_event_comes_its_task_becomes_the_turn() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    service.signal("w", "s").await;
    let one = "baton_tasks_waiting{domain=\"default\",kind=\"decider\",list=\"deciders\"} 1\n";
    assert!(service.engine.render_metrics().contains(one), "a single task waits");
    let turn = service.task().await;
    assert!(!turn.task().query_only, "the query task became the turn");
    assert_eq!(names(&turn), ["total"]);
    service.no_task().await;
    service.answer(turn, Vec::new(), &said("1")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "1");
    service.no_task().await;
}

#[tokio::test(start_paused = true)]
async fn query_out_and_an_event_comes_only_the_old_query_is_answered() {
    let service = Service::open().await;
    service.idle("w").await;
    let old = service.ask("w", "total").await;
    let asked = service.task().await;
    service.signal("w", "s").await;
    let new = service.ask("w", "total").await;
    let turn = service.task().await;
    assert!(
        !turn.task().query_only,
        "only DeciderScheduled and DeciderStarted are written, without waiting for the answer"
    );
    assert_eq!(names(&turn), ["total"], "a query sent after the acknowledged signal must reflect it");
    service.no_task().await;
    service.answer(asked, Vec::new(), &said("before")).await.unwrap();
    assert_eq!(result(old.await.unwrap()), ("before".to_owned(), 5), "it was sent before the signal");
    assert!(!new.is_finished());
    service.answer(turn, Vec::new(), &said("after")).await.unwrap();
    assert_eq!(result(new.await.unwrap()).0, "after");
}

#[tokio::test(start_paused = true)]
async fn query_out_and_lost_it_is_put_again_without_the_late_answer() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    let lost = service.task().await;
    let (late, id) = (lost.task().token.clone(), lost.task().queries[0].id.clone());
    lost.delivered();
    // The decider has crashed with the task. After the timeout, another poll gets the query.
    let again = service.task().await;
    assert_eq!(again.task().queries[0].id, id);
    service.answer(again, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
    let before = service.events("w").await;
    let refusal = service.complete_with(&late, Vec::new(), vec![(id, said("late"))]).await.unwrap_err();
    assert!(matches!(refusal, Refusal::QueryTaskLost), "{refusal}");
    assert_eq!(service.events("w").await, before, "no event");
}

#[tokio::test(start_paused = true)]
async fn query_out_and_late_its_answer_counts_while_a_caller_waits() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    let slow = service.task().await;
    let (token, id) = (slow.task().token.clone(), slow.task().queries[0].id.clone());
    slow.delivered();
    let again = service.task().await;
    // The first task showed all events that the answer must reflect, so its late answer is valid.
    drop(service.complete_with(&token, Vec::new(), vec![(id, said("slow"))]).await);
    assert_eq!(result(asking.await.unwrap()).0, "slow");
    assert!(service.answer(again, Vec::new(), &said("again")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn query_out_and_its_taker_gone_it_goes_to_the_next_at_once() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    let began = tokio::time::Instant::now();
    drop(service.task().await);
    let task = service.task().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn query_out_and_given_back_it_has_failed_and_nothing_else_has() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    let before = service.events("w").await;
    let task = service.task().await;
    let token = service.engine.tasks().decider_token(&task.task().token).unwrap();
    task.delivered();
    let (reason, details) = (Some("panic".to_owned()), Some(json("\"out of range\"")));
    service.engine.tasks().answer_turn(&token, Command::FailTurn { turn: token.turn, reason, details }).await.unwrap();
    match asking.await.unwrap().unwrap_err() {
        Refusal::QueryFailed { reason, message, .. } => {
            assert_eq!((reason.as_str(), message.as_deref()), ("panic", Some("out of range")));
        }
        other => panic!("{other}"),
    }
    assert_eq!(service.events("w").await, before, "no event");
}

#[tokio::test(start_paused = true)]
async fn query_rides_and_its_turn_fails_the_next_turn_takes_it() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let asking = service.ask("w", "total").await;
    // The poller has disconnected before it received the task.
    drop(service.task().await);
    service.until("w", "DeciderFailed").await;
    // The decider fails the turn.
    let task = service.task().await;
    assert_eq!(names(&task), ["total"]);
    let token = service.engine.tasks().decider_token(&task.task().token).unwrap();
    task.delivered();
    let fail = Command::FailTurn { turn: token.turn, reason: None, details: None };
    service.engine.tasks().answer_turn(&token, fail).await.unwrap();
    service.clock.advance(history::Duration::from_secs(2));
    // The decider crashes, and its turn times out.
    let task = service.task().await;
    assert_eq!(names(&task), ["total"]);
    task.delivered();
    service.clock.advance(history::Duration::from_secs(31));
    let task = service.task().await;
    assert_eq!(names(&task), ["total"]);
    assert!(service.names("w").await.contains(&"DeciderTimedOut"));
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn query_rides_and_its_turn_closes_the_run_it_is_answered() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let asking = service.ask("w", "total").await;
    let task = service.task().await;
    service.answer(task, vec![succeed()], &said("closed")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "closed");
}

#[tokio::test(start_paused = true)]
async fn query_rides_and_its_run_is_terminated_the_closed_run_answers() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let asking = service.ask("w", "total").await;
    let turn = service.task().await;
    turn.delivered();
    let terminate = Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None };
    service.engine.commands().submit(&at("w"), terminate).await.unwrap();
    let task = service.task().await;
    assert!(task.task().query_only);
    assert_eq!(task.task().events.last().unwrap().kind.name(), "WorkflowTerminated");
    service.answer(task, Vec::new(), &said("ended")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "ended");
}

#[tokio::test(start_paused = true)]
async fn closed_and_asked_a_query_task_shows_the_whole_run() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let task = service.task().await;
    let fail = history::FailWorkflow { reason: "no".to_owned(), ..history::FailWorkflow::default() };
    let run_id = task.task().run_id;
    service.answer(task, vec![fail.into()], &said("")).await.unwrap();
    for starts in 0..2 {
        let commits = service.store.stats().commits;
        let earlier = RunRef { run_id: Some(run_id), ..at("w") };
        let ask = QueryRequest { name: "total".to_owned(), input: Some(json("[1]")), seen: None };
        let asking = service.ask_of(earlier, ask, Duration::from_secs(60)).await;
        let task = service.task().await;
        assert!(task.task().query_only);
        assert_eq!(task.task().run_id, run_id);
        assert_eq!(task.task().events.last().unwrap().kind.name(), "WorkflowFailed");
        assert_eq!(task.task().queries[0].input, Some(json("[1]")));
        // The history of a query task can be read like that of any other task.
        let token = service.engine.tasks().decider_token(&task.task().token).unwrap();
        let page = engine::EventRange::default();
        assert_eq!(
            service.engine.tasks().turn_history(&token, &page).await.unwrap().events.len() as u64,
            task.task().started_event_id
        );
        service.answer(task, Vec::new(), &said("7")).await.unwrap();
        assert_eq!(result(asking.await.unwrap()).0, "7");
        assert_eq!(service.store.stats().commits, commits);
        if starts == 0 {
            service.start("w").await;
            let task = service.task().await;
            service.answer(task, Vec::new(), &said("")).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_decider_without_query_support_gets_no_queries() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    assert!(service.engine.tasks().poll_decider(DOMAIN, "deciders", Poll::default()).await.unwrap().is_none());
    service.signal("w", "s").await;
    let turn = service.turn().await;
    assert_eq!(names(&turn), [""; 0]);
    service.complete(turn, Vec::new()).await.unwrap();
    assert!(service.engine.tasks().poll_decider(DOMAIN, "deciders", Poll::default()).await.unwrap().is_none());
    let task = service.task().await;
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_query_fails_only_the_query() {
    let service = Service::open().await;
    service.idle("w").await;
    let failed = |reason: &str| QueryOutcome::Failed { reason: reason.to_owned(), message: None };
    let large = QueryOutcome::Result(Some(Payload::of(&"x".repeat(300_000)).unwrap()));
    for (outcome, code) in [
        (QueryOutcome::Unknown { known: vec!["sum".to_owned()] }, "unknown-query"),
        (failed("overflow"), "query-failed"),
        (large, "query-failed"),
    ] {
        // Tests the query both with a turn and with a separate task.
        for signals in [true, false] {
            if signals {
                service.signal("w", "s").await;
            }
            let asking = service.ask("w", "total").await;
            let task = service.task().await;
            assert_eq!(task.task().query_only, !signals);
            service.answer(task, Vec::new(), &outcome).await.unwrap();
            assert_eq!(asking.await.unwrap().unwrap_err().code(), code);
        }
    }
    for signals in [true, false] {
        if signals {
            service.signal("w", "s").await;
        }
        let asking = service.ask("w", "total").await;
        let task = service.task().await;
        let token = task.task().token.clone();
        task.delivered();
        service.complete_with(&token, Vec::new(), Vec::new()).await.unwrap();
        let refusal = asking.await.unwrap().unwrap_err();
        assert!(refusal.to_string().contains("unanswered"), "{refusal}");
    }
    service.events("w").await;
}

#[tokio::test(start_paused = true)]
async fn unknown_and_second_answers_are_faults_and_change_nothing() {
    let service = Service::open().await;
    service.idle("v").await;
    let other = service.ask("v", "total").await;
    let task = service.task().await;
    let elsewhere = task.task().queries[0].id.clone();
    // A decider has the query, so no other decider gets it.
    task.delivered();
    service.idle("w").await;
    service.signal("w", "s").await;
    let asking = service.ask("w", "total").await;
    let task = service.task().await;
    let (token, id) = (task.task().token.clone(), task.task().queries[0].id.clone());
    task.delivered();
    let before = service.events("w").await;
    let strange = [
        vec![("nobody-asked".to_owned(), said("7"))],
        vec![(elsewhere, said("7"))],
        vec![(id.clone(), said("7")), (id.clone(), said("8"))],
    ];
    for results in strange {
        let refusal = service.complete_with(&token, Vec::new(), results).await.unwrap_err();
        assert!(
            matches!(&refusal, Refusal::Fault(Fault::Invalid { field, .. }) if field == "queryResults"),
            "{refusal}"
        );
        assert_eq!(service.events("w").await, before);
        assert!(!asking.is_finished());
    }
    service.complete_with(&token, Vec::new(), vec![(id, said("7"))]).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn a_query_task_takes_no_decisions() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    let before = service.events("w").await;
    let task = service.task().await;
    let (token, id) = (task.task().token.clone(), task.task().queries[0].id.clone());
    task.delivered();
    let refusal = service.complete_with(&token, vec![succeed()], vec![(id.clone(), said("7"))]).await.unwrap_err();
    assert!(matches!(&refusal, Refusal::Fault(Fault::Invalid { field, .. }) if field == "decisions"), "{refusal}");
    assert_eq!(service.events("w").await, before);
    service.complete_with(&token, Vec::new(), vec![(id, said("7"))]).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_ignored_and_its_turn_is_recorded() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let ask = QueryRequest { name: "total".to_owned(), input: None, seen: None };
    let asking = service.ask_of(at("w"), ask, Duration::from_secs(3)).await;
    let task = service.task().await;
    let refusal = asking.await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::QueryTimedOut { .. }) && refusal.is_retryable(), "{refusal}");
    assert!(refusal.to_string().contains("has not completed the current turn"), "{refusal}");
    assert_eq!(service.gauge("queries_waiting"), 0);
    service.answer(task, Vec::new(), &said("late")).await.unwrap();
    assert_eq!(service.names("w").await.last(), Some(&"DeciderCompleted"));
}

#[tokio::test(start_paused = true)]
async fn equal_concurrent_queries_share_one_query() {
    let service = Service::open().await;
    service.idle("w").await;
    let mut asking = Vec::new();
    for _ in 0..5 {
        asking.push(service.ask("w", "total").await);
    }
    let other = service.ask("w", "name").await;
    let task = service.task().await;
    assert_eq!(names(&task), ["total", "name"]);
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    for asking in asking.into_iter().chain([other]) {
        assert_eq!(result(asking.await.unwrap()).0, "7");
    }
    service.no_task().await;
}

#[tokio::test(start_paused = true)]
async fn queries_of_a_run_are_limited() {
    let service = Service::open().await;
    service.idle("w").await;
    let mut asking = Vec::new();
    for number in 0..1_000 {
        asking.push(service.ask("w", &format!("q{number}")).await);
    }
    let refusal = service.ask("w", "one too many").await.await.unwrap().unwrap_err();
    assert!(matches!(refusal, Refusal::TooManyWaiting { found: 1_000, max: 1_000, .. }), "{refusal}");
    assert!(refusal.is_retryable());
    // More callers can join an existing query.
    asking.push(service.ask("w", "q0").await);
    let task = service.task().await;
    assert_eq!(task.task().queries.len(), 1_000);
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    for asking in asking {
        assert_eq!(result(asking.await.unwrap()).0, "7");
    }
}

#[tokio::test(start_paused = true)]
async fn large_inputs_are_spread_over_several_tasks() {
    let service = Service::open().await;
    service.idle("w").await;
    let mut asking = Vec::new();
    let input = Payload::of(&"x".repeat(250_000)).unwrap();
    for number in 0..6 {
        let ask = QueryRequest { name: format!("q{number}"), input: Some(input.clone()), seen: None };
        asking.push(service.ask_of(at("w"), ask, Duration::from_secs(60)).await);
    }
    for expected in [4, 2] {
        let task = service.task().await;
        assert_eq!(task.task().queries.len(), expected);
        service.answer(task, Vec::new(), &said("7")).await.unwrap();
    }
    for asking in asking {
        assert_eq!(result(asking.await.unwrap()).0, "7");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_run_cannot_be_queried() {
    let service = Service::open().await;
    service.idle("w").await;
    let ask = |name: &str| QueryRequest { name: name.to_owned(), input: None, seen: None };
    let wait = Duration::from_secs(1);
    let nobody = service.engine.request_reply().query(&at("nobody"), ask("q"), wait).await.unwrap_err();
    assert_eq!(nobody.code(), "unknown-workflow");
    let no_run = RunRef { run_id: Some(uuid::Uuid::nil()), ..at("w") };
    assert_eq!(service.engine.request_reply().query(&no_run, ask("q"), wait).await.unwrap_err().code(), "unknown-run");
    assert_eq!(
        service.engine.request_reply().query(&at("w"), ask(""), wait).await.unwrap_err().code(),
        "invalid-field"
    );
    assert_eq!(
        service.engine.request_reply().query(&at("w"), ask("q"), wait).await.unwrap_err().code(),
        "query-timed-out"
    );
    assert_eq!(service.gauge("queries_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_the_latest_events_has_an_old_version() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "first").await;
    let asking = service.ask("w", "total").await;
    let turn = service.task().await;
    service.signal("w", "second").await;
    service.answer(turn, Vec::new(), &said("1")).await.unwrap();
    let (_, version) = result(asking.await.unwrap());
    let if_version = Some(version);
    let signal = Command::Signal { name: "s".to_owned(), input: None, identity: None, key: None, if_version };
    let refusal = service.engine.commands().submit(&at("w"), signal).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Fault(Fault::VersionMismatch { .. })), "{refusal}");
}

fn operator() -> history::event::OperatorAction {
    history::event::OperatorAction { identity: None, reason: None }
}

impl Service {
    async fn pause(&self, id: &str) {
        let pause = Command::Pause { stop_clocks: false, operator: operator(), key: None };
        self.engine.commands().submit(&at(id), pause).await.unwrap();
    }

    async fn resume(&self, id: &str) {
        self.engine.commands().submit(&at(id), Command::Resume { operator: operator(), key: None }).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn paused_and_asked_a_query_task_shows_the_run() {
    let service = Service::open().await;
    service.idle("w").await;
    service.pause("w").await;
    for signals in 0..2 {
        let (asking, commits) = (service.ask("w", "total").await, service.store.stats().commits);
        let task = service.task().await;
        assert!(task.task().query_only);
        let names: Vec<_> = task.task().events.iter().map(|event| event.kind.name()).collect();
        assert_eq!(names.iter().filter(|name| **name == "Signal").count(), signals, "it has the acknowledged signals");
        service.answer(task, Vec::new(), &said("7")).await.unwrap();
        assert_eq!(result(asking.await.unwrap()).0, "7");
        assert_eq!(service.store.stats().commits, commits);
        service.signal("w", "s").await;
        service.no_task().await;
    }
    // If a query waits when the run is resumed, the waiting turn takes the query.
    let asking = service.ask("w", "total").await;
    service.resume("w").await;
    let task = service.task().await;
    assert!(!task.task().query_only && task.task().queries.len() == 1);
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn a_turn_held_at_the_pause_answers_its_queries() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let (first, task) = (service.ask("w", "total").await, service.task().await);
    service.pause("w").await;
    let second = service.ask("w", "total").await;
    service.no_task().await;
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(first.await.unwrap()).0, "7");
    let task = service.task().await;
    assert!(task.task().query_only);
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    assert_eq!(result(second.await.unwrap()).0, "8");
}
