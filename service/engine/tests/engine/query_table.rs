//! Tests for the remaining cells of the table in tests/README.md, and a check that each cell names an existing test.

use std::time::Duration;

use engine::{DeciderTask, Delivery, QueryRequest};
use history::Command;

use crate::queries::{Asking, result, said};
use crate::{Service, at};

fn names(task: &Delivery<DeciderTask>) -> Vec<&str> {
    task.task().queries.iter().map(|query| query.name.as_str()).collect()
}

impl Service {
    async fn terminate(&self, id: &str) {
        let (reason, details, identity, key, child_policy) = (None, None, None, None, None);
        let terminate = Command::Terminate { reason, details, identity, key, child_policy };
        self.engine.commands().submit(&at(id), terminate).await.unwrap();
    }

    async fn ask_for(&self, id: &str, wait: Duration) -> Asking {
        self.ask_of(at(id), QueryRequest { name: "total".to_owned(), input: None, seen: None }, wait).await
    }
}

#[tokio::test(start_paused = true)]
async fn query_waits_and_its_run_is_terminated_the_closed_run_answers() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    service.terminate("w").await;
    let task = service.task().await;
    assert!(task.task().query_only && names(&task) == ["total"]);
    assert_eq!(task.task().events.last().unwrap().kind.name(), "WorkflowTerminated");
    service.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn query_waits_and_its_caller_leaves_no_task_is_left() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask_for("w", Duration::from_secs(1)).await;
    assert_eq!(asking.await.unwrap().unwrap_err().code(), "query-timed-out");
    service.no_task().await;
    assert_eq!(service.gauge("queries_waiting"), 0);
}

#[tokio::test(start_paused = true)]
async fn query_waits_and_its_node_dies_it_is_asked_again_and_answered() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    let before = service.events("w").await;
    service.engine.begin_shutdown();
    assert!(asking.await.unwrap().unwrap_err().is_retryable(), "the caller may retry");
    let other = service.again().await;
    let asking = other.ask("w", "total").await;
    let task = other.task().await;
    other.answer(task, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7", "the retry is answered");
    assert_eq!(other.events("w").await, before);
}

#[tokio::test(start_paused = true)]
async fn query_out_and_asked_another_task_is_made() {
    let service = Service::open().await;
    service.idle("w").await;
    let first = service.ask("w", "total").await;
    let out = service.task().await;
    let second = service.ask("w", "total").await;
    let task = service.task().await;
    assert!(task.task().query_only && names(&task) == ["total"]);
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    assert_eq!(result(second.await.unwrap()).0, "8");
    assert!(!first.is_finished(), "its own task is still out");
    service.answer(out, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(first.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn query_out_and_its_run_closes_its_answer_still_counts() {
    let service = Service::open().await;
    service.idle("w").await;
    let asking = service.ask("w", "total").await;
    let out = service.task().await;
    service.terminate("w").await;
    let before = service.events("w").await;
    service.answer(out, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7", "it has all events from before the query");
    assert_eq!(service.events("w").await, before);
}

#[tokio::test(start_paused = true)]
async fn query_out_and_its_caller_leaves_the_answer_is_ignored() {
    let service = Service::open().await;
    service.idle("w").await;
    let before = service.events("w").await;
    let asking = service.ask_for("w", Duration::from_secs(1)).await;
    let out = service.task().await;
    assert_eq!(asking.await.unwrap().unwrap_err().code(), "query-timed-out");
    let refusal = service.answer(out, Vec::new(), &said("7")).await.unwrap_err();
    assert_eq!(refusal.code(), "query-task-lost");
    assert_eq!(service.events("w").await, before);
}

#[tokio::test(start_paused = true)]
async fn query_rides_and_asked_the_new_one_waits_for_the_next_task() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let first = service.ask("w", "total").await;
    let turn = service.task().await;
    assert_eq!(names(&turn), ["total"]);
    let second = service.ask("w", "total").await;
    service.no_task().await;
    service.answer(turn, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(first.await.unwrap()).0, "7");
    assert!(!second.is_finished(), "it may expect more events than the turn has");
    let task = service.task().await;
    assert!(task.task().query_only && names(&task) == ["total"]);
    service.answer(task, Vec::new(), &said("8")).await.unwrap();
    assert_eq!(result(second.await.unwrap()).0, "8");
}

#[tokio::test(start_paused = true)]
async fn query_rides_and_an_event_comes_its_turn_answers_stale() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let asking = service.ask("w", "total").await;
    let turn = service.task().await;
    service.signal("w", "late").await;
    service.answer(turn, Vec::new(), &said("7")).await.unwrap();
    let (answer, version) = result(asking.await.unwrap());
    assert_eq!(answer, "7");
    assert_ne!(version, service.engine.views().describe(&at("w")).await.unwrap().run.version);
    let next = service.task().await;
    assert!(!next.task().query_only && names(&next).is_empty(), "the event's turn is waiting");
    next.delivered();
}

#[tokio::test(start_paused = true)]
async fn query_rides_and_its_caller_leaves_the_turn_is_recorded() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let asking = service.ask_for("w", Duration::from_secs(1)).await;
    let turn = service.task().await;
    assert_eq!(asking.await.unwrap().unwrap_err().code(), "query-timed-out");
    service.answer(turn, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(service.names("w").await.last(), Some(&"DeciderCompleted"));
    service.no_task().await;
}

#[tokio::test(start_paused = true)]
async fn turn_started_and_its_decider_dies_the_query_waits_for_it() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    service.task().await.delivered();
    let asking = service.ask("w", "total").await;
    let timeout = service.engine.views().describe(&at("w")).await.unwrap().run.started.decider_start_to_close;
    service.clock.advance(history::Duration::from_millis(timeout.as_millis() - 1));
    service.no_task().await;
    service.clock.advance(history::Duration::from_millis(1));
    let turn = service.task().await;
    assert_eq!((turn.task().attempt, names(&turn)), (2, vec!["total"]), "the next turn takes the query");
    service.answer(turn, Vec::new(), &said("7")).await.unwrap();
    assert_eq!(result(asking.await.unwrap()).0, "7");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_queries_leave_the_store_unchanged() {
    let service = Service::open().await;
    service.idle("w").await;
    service.signal("w", "s").await;
    let turn = service.task().await;
    service.answer(turn, vec![crate::activity("a", "runners")], &said("7")).await.unwrap();
    let (stored, events) = (service.stored("w").await, service.events("w").await);
    let commits = service.store.stats().commits;
    let run = service.engine.views().describe(&at("w")).await.unwrap().run;
    assert!(run.activities.len() == 1 && run.timers.len() == 1);
    for _ in 0..1_000 {
        let asking = service.ask("w", "total").await;
        let task = service.task().await;
        service.answer(task, Vec::new(), &said("7")).await.unwrap();
        assert_eq!(result(asking.await.unwrap()).0, "7");
    }
    assert_eq!(service.stored("w").await, stored, "nothing is stored");
    assert_eq!((service.events("w").await, service.store.stats().commits), (events, commits), "no event and no write");
}

/// Sources of the tests that the table names.
const SOURCES: [&str; 3] =
    [include_str!("queries.rs"), include_str!("query_table.rs"), include_str!("queries_elsewhere.rs")];

/// Prefixes of the names of tests that belong to a cell of the table.
const ROWS: [&str; 9] = [
    "idle_",
    "first_turn_",
    "turn_waits_",
    "turn_started_",
    "paused_",
    "closed_",
    "query_waits_",
    "query_out_",
    "query_rides_",
];

#[test]
fn the_table_and_the_tests_name_each_other() {
    let docs = include_str!("../../../../tests/README.md");
    let table = docs.split("\n### ").find(|section| section.starts_with("Lifecycle of a query")).unwrap();
    let named: Vec<&str> = table.split('`').skip(1).step_by(2).filter(|name| name.contains('_')).collect();
    let declared =
        |source: &'static str| source.lines().filter_map(|line| line.strip_prefix("async fn ")?.split_once('('));
    let tests: Vec<&str> = SOURCES.into_iter().flat_map(declared).map(|(name, _)| name).collect();
    for name in &named {
        assert!(tests.contains(name), "no test `{name}`");
    }
    let of_cells = tests.iter().filter(|name| ROWS.iter().any(|row| name.starts_with(row)));
    for name in of_cells {
        assert!(named.contains(name), "`{name}` is not in the table");
    }
    // A cell that names no test must be marked as impossible.
    let lines: Vec<&str> = table.lines().collect();
    let is_header = |pair: &[&str]| pair.get(1).is_some_and(|below| below.starts_with("|---"));
    let rows = lines.windows(2).filter(|pair| pair[0].starts_with("| ") && !is_header(pair)).map(|pair| pair[0]);
    for row in rows {
        for cell in row.trim_matches('|').split('|').skip(1).map(str::trim) {
            assert!(cell == "–" || cell.contains('`'), "a cell names no test: {cell}");
        }
    }
    assert!(named.len() > 20, "the table was found");
}
