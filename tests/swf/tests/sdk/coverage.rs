//! Checks that the tests cover all of the SDK: every operation, decision, event and cause.

use std::path::PathBuf;

use aws_sdk_swf::types::{
    CancelTimerFailedCause, CancelWorkflowExecutionFailedCause, CompleteWorkflowExecutionFailedCause,
    ContinueAsNewWorkflowExecutionFailedCause, DecisionType, EventType, FailWorkflowExecutionFailedCause,
    RequestCancelActivityTaskFailedCause, RequestCancelExternalWorkflowExecutionFailedCause,
    ScheduleActivityTaskFailedCause, ScheduleLambdaFunctionFailedCause, SignalExternalWorkflowExecutionFailedCause,
    StartChildWorkflowExecutionFailedCause, StartLambdaFunctionFailedCause, StartTimerFailedCause,
    WorkflowExecutionCancelRequestedCause, WorkflowExecutionTerminatedCause,
};

/// Sources and expected results of the tests, in which the names must occur.
const TESTS: &[&str] = &[
    include_str!("activities.rs"),
    include_str!("causes.rs"),
    include_str!("decisions.rs"),
    include_str!("golden.rs"),
    include_str!("lambda.rs"),
    include_str!("limits.rs"),
    include_str!("operations.rs"),
    include_str!("runs.rs"),
    include_str!("visibility.rs"),
    include_str!("../../src/lib.rs"),
    include_str!("../../src/decisions.rs"),
    include_str!("../golden/child-in-its-parent.txt"),
    include_str!("../golden/continue-as-new.txt"),
    include_str!("../golden/decision-that-times-out.txt"),
    include_str!("../golden/one-activity.txt"),
];

/// Operations of SWF, as the SDK's client names them.
const OPERATIONS: &str = "count_closed_workflow_executions count_open_workflow_executions count_pending_activity_tasks \
    count_pending_decision_tasks delete_activity_type delete_workflow_type deprecate_activity_type deprecate_domain \
    deprecate_workflow_type describe_activity_type describe_domain describe_workflow_execution describe_workflow_type \
    get_workflow_execution_history list_activity_types list_closed_workflow_executions list_domains \
    list_open_workflow_executions list_tags_for_resource list_workflow_types poll_for_activity_task \
    poll_for_decision_task record_activity_task_heartbeat register_activity_type register_domain \
    register_workflow_type request_cancel_workflow_execution respond_activity_task_canceled \
    respond_activity_task_completed respond_activity_task_failed respond_decision_task_completed \
    signal_workflow_execution start_workflow_execution tag_resource terminate_workflow_execution \
    undeprecate_activity_type undeprecate_domain undeprecate_workflow_type untag_resource";

/// Causes that Baton never returns, because it has no rate limits of this kind.
const NEVER: [&str; 2] = ["CREATION_RATE_EXCEEDED", "CONTINUE_AS_NEW_WORKFLOW_EXECUTION_RATE_EXCEEDED"];

/// Names that occur only with credentials. Tests with raw requests cover them: `service/tests/swf/access.rs`.
const BY_CREDENTIALS: [&str; 2] = ["OPERATION_NOT_PERMITTED", "RecordMarkerFailed"];

fn is_named(name: &str) -> bool {
    TESTS.iter().any(|text| text.contains(name))
}

/// Returns a cause as it appears in the SDK's debug text, for example `TIMER_ID_UNKNOWN` in camel case.
fn camel(cause: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(1);
        format!("{first}{}", rest.to_lowercase())
    };
    cause.split('_').map(word).collect()
}

/// The tables of SWF's rules, with the tests of each rule.
const COVERAGE: &str = include_str!("../../coverage.md");

/// Areas of the rules. Each must have at least one row.
const AREAS: [&str; 14] = [
    "runs",
    "turns",
    "polls",
    "answers",
    "closes",
    "activities",
    "timers",
    "children",
    "continue as new",
    "signals",
    "markers and Lambda",
    "task lists",
    "terminate",
    "lists",
];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Folders with the tests that the tables may name.
const SOURCES: [&str; 7] = [
    "tests/swf/tests/sdk",
    "service/tests/swf",
    "service/tests/http",
    "service/src/swf",
    "history/src/admit",
    "history/src/rules",
    "history/src/run",
];

/// Returns the text of all Rust files in these folders.
fn sources() -> String {
    let mut left: Vec<_> = SOURCES.iter().map(|place| PathBuf::from(ROOT).join(place)).collect();
    let mut sources = String::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|it| it == "rs") {
            sources += &std::fs::read_to_string(path).unwrap();
        }
    }
    sources
}

/// Returns the rows of the tables: the rule, and its tests.
fn rows() -> Vec<(&'static str, &'static str)> {
    let rows = COVERAGE.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| tests |"));
    rows.map(|row| row.trim_matches(['|', ' ']).rsplit_once(" | ").unwrap()).collect()
}

#[test]
fn every_test_of_the_docs_is_there_and_a_row_without_one_says_so() {
    let sources = sources();
    for (what, tests) in rows() {
        let named: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        let missing: Vec<_> = named.iter().filter(|test| !sources.contains(&format!("fn {test}()"))).collect();
        assert!(missing.is_empty(), "{what}: {missing:?}");
        assert!(!named.is_empty() || tests.starts_with("not covered"), "{what}");
    }
}

#[test]
fn every_decision_event_and_section_has_a_row_of_the_docs() {
    let rows = rows();
    let words = |text: &'static str| text.split(|c: char| !c.is_alphanumeric());
    let known: std::collections::BTreeSet<_> = rows.iter().flat_map(|(what, _)| words(what)).collect();
    let decisions = DecisionType::values().iter();
    let missing: Vec<_> = decisions.chain(EventType::values()).filter(|name| !known.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for area in AREAS {
        let area = format!("{area}: ");
        assert!(rows.iter().any(|(what, _)| what.starts_with(&area)), "{area}");
    }
    for section in ["## Decisions\n", "## Events\n", "## Quotas\n", "## State rules\n", "## Histories\n"] {
        assert!(COVERAGE.contains(section), "{section}");
    }
}

/// Causes that never occur must be listed as not covered.
#[test]
fn every_cause_that_never_comes_is_said_to_in_the_docs() {
    for never in NEVER {
        let rows = rows();
        assert!(rows.iter().any(|(what, tests)| what.contains(never) && tests.starts_with("not covered")), "{never}");
    }
}

#[test]
fn every_operation_is_called() {
    let operations: Vec<&str> = OPERATIONS.split_whitespace().collect();
    assert_eq!(operations.len(), 39);
    let missing: Vec<_> = operations.into_iter().filter(|name| !is_named(&format!(".{name}()"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_decision_is_taken() {
    let missing: Vec<_> = DecisionType::values().iter().filter(|name| !is_named(name)).collect();
    assert_eq!(DecisionType::values().len(), 13);
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_event_is_expected() {
    // The tests compose the names of these events from parts, so that the full names do not occur in them.
    let is_there = |name: &str| is_named(name) || name.starts_with("ChildWorkflowExecution");
    let is_ever = |name: &str| !NEVER.contains(&name) && !BY_CREDENTIALS.contains(&name);
    let missing: Vec<_> = EventType::values().iter().filter(|name| is_ever(name) && !is_there(name)).collect();
    assert_eq!(EventType::values().len(), 54);
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_cause_is_expected() {
    let causes = [
        CancelTimerFailedCause::values(),
        CancelWorkflowExecutionFailedCause::values(),
        CompleteWorkflowExecutionFailedCause::values(),
        ContinueAsNewWorkflowExecutionFailedCause::values(),
        FailWorkflowExecutionFailedCause::values(),
        RequestCancelActivityTaskFailedCause::values(),
        RequestCancelExternalWorkflowExecutionFailedCause::values(),
        ScheduleActivityTaskFailedCause::values(),
        ScheduleLambdaFunctionFailedCause::values(),
        SignalExternalWorkflowExecutionFailedCause::values(),
        StartChildWorkflowExecutionFailedCause::values(),
        StartLambdaFunctionFailedCause::values(),
        StartTimerFailedCause::values(),
        WorkflowExecutionCancelRequestedCause::values(),
        WorkflowExecutionTerminatedCause::values(),
    ];
    let is_ever = |cause: &str| !NEVER.iter().chain(&BY_CREDENTIALS).any(|never| cause.ends_with(never));
    let causes = causes.into_iter().flatten().filter(|cause| is_ever(cause));
    let missing: Vec<_> = causes.filter(|cause| !is_named(&camel(cause))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
