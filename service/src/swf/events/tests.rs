//! Checks that the table of events in `docs/swf-reference.md` matches the code.

use std::collections::BTreeSet;

use super::*;

/// All 54 SWF events. Source: SWF's API reference.
const SWF: &str = "WorkflowExecutionStarted WorkflowExecutionCancelRequested WorkflowExecutionCompleted \
    CompleteWorkflowExecutionFailed WorkflowExecutionFailed FailWorkflowExecutionFailed WorkflowExecutionTimedOut \
    WorkflowExecutionCanceled CancelWorkflowExecutionFailed WorkflowExecutionContinuedAsNew \
    ContinueAsNewWorkflowExecutionFailed WorkflowExecutionTerminated DecisionTaskScheduled DecisionTaskStarted \
    DecisionTaskCompleted DecisionTaskTimedOut ActivityTaskScheduled ScheduleActivityTaskFailed ActivityTaskStarted \
    ActivityTaskCompleted ActivityTaskFailed ActivityTaskTimedOut ActivityTaskCanceled ActivityTaskCancelRequested \
    RequestCancelActivityTaskFailed WorkflowExecutionSignaled MarkerRecorded RecordMarkerFailed TimerStarted \
    StartTimerFailed TimerFired TimerCanceled CancelTimerFailed StartChildWorkflowExecutionInitiated \
    StartChildWorkflowExecutionFailed ChildWorkflowExecutionStarted ChildWorkflowExecutionCompleted \
    ChildWorkflowExecutionFailed ChildWorkflowExecutionTimedOut ChildWorkflowExecutionCanceled \
    ChildWorkflowExecutionTerminated SignalExternalWorkflowExecutionInitiated SignalExternalWorkflowExecutionFailed \
    ExternalWorkflowExecutionSignaled RequestCancelExternalWorkflowExecutionInitiated \
    RequestCancelExternalWorkflowExecutionFailed ExternalWorkflowExecutionCancelRequested LambdaFunctionScheduled \
    LambdaFunctionStarted LambdaFunctionCompleted LambdaFunctionFailed LambdaFunctionTimedOut \
    ScheduleLambdaFunctionFailed StartLambdaFunctionFailed";

/// Returns the names in a table cell. A name may begin with an ellipsis, which stands for the beginning of the previous
/// name.
fn names(cell: &str, known: &BTreeSet<&'static str>) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    for word in cell.split(|c: char| !c.is_alphanumeric() && c != '…').filter(|word| !word.is_empty()) {
        let name = match (word.strip_prefix('…'), found.last()) {
            (Some(end), Some(before)) => {
                let beginnings = (1..before.len()).rev().filter_map(|at| before.get(..at));
                let mut names = beginnings.map(|beginning| format!("{beginning}{end}"));
                names.find_map(|name| known.get(name.as_str()).copied())
            }
            _ => known.get(word).copied(),
        };
        found.extend(name);
    }
    found
}

#[test]
fn the_table_of_the_docs_is_what_the_code_says() {
    let here = env!("CARGO_MANIFEST_DIR");
    let docs = std::fs::read_to_string(format!("{here}/../docs/swf-reference.md")).unwrap();
    let (baton, swf) = (EventKind::NAMES.iter().copied().collect(), SWF.split_whitespace().collect::<BTreeSet<_>>());
    assert_eq!(swf.len(), 54);
    let mut said = BTreeSet::new();
    let table = docs.lines().skip_while(|line| *line != "| Baton | SWF |").take_while(|line| line.starts_with('|'));
    for line in table.skip(2) {
        let mut cells = line.trim_matches('|').split('|');
        let (ours, theirs) = (names(cells.next().unwrap(), &baton), names(cells.next().unwrap(), &swf));
        said.extend(ours.iter().flat_map(|ours| theirs.iter().map(|theirs| (*ours, *theirs))));
    }
    let rendered: BTreeSet<_> = said.iter().map(|(_, theirs)| *theirs).collect();
    assert_eq!(rendered, swf, "every event of SWF's is in the table");
    let mut seen = BTreeSet::new();
    for file in std::fs::read_dir(format!("{here}/../history/tests/golden/json")).unwrap() {
        let path = file.unwrap().path();
        let Ok(event) = Event::from_json(&std::fs::read_to_string(&path).unwrap()) else { continue };
        let (theirs, attributes) = lambda::words_of(&event.kind, &Related::default())
            .unwrap_or_else(|| words_of(&event.kind, &Related::default()));
        let ours = event.kind.name();
        seen.insert(ours);
        let is_other = attributes.0.get("markerName").and_then(Value::as_str) == Some(format!("baton.{ours}").as_str());
        let is_said =
            if is_other { !said.iter().any(|(known, _)| *known == ours) } else { said.contains(&(ours, theirs)) };
        assert!(is_said, "{}: {ours} is {theirs}", path.display());
    }
    assert_eq!(seen, baton, "there is a sample of every kind");
}

#[test]
fn a_full_state_becomes_the_open_limit_cause_of_swf() {
    let here = env!("CARGO_MANIFEST_DIR");
    for (sample, cause) in [
        ("ActivityScheduleFailed", "OPEN_ACTIVITIES_LIMIT_EXCEEDED"),
        ("ActivityScheduleFailed-lambda", "OPEN_LAMBDA_FUNCTIONS_LIMIT_EXCEEDED"),
        ("TimerScheduleFailed", "OPEN_TIMERS_LIMIT_EXCEEDED"),
        ("ChildScheduleFailed", "OPEN_CHILDREN_LIMIT_EXCEEDED"),
        ("ExternalSignalFailed", "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_RATE_EXCEEDED"),
        ("ExternalCancelFailed", "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_RATE_EXCEEDED"),
    ] {
        let text = std::fs::read_to_string(format!("{here}/../history/tests/golden/json/{sample}.json")).unwrap();
        let mut event: Value = serde_json::from_str(&text).unwrap();
        event["cause"] = "StateLimit".into();
        let event = Event::from_json(&event.to_string()).unwrap();
        let (_, attributes) = lambda::words_of(&event.kind, &Related::default())
            .unwrap_or_else(|| words_of(&event.kind, &Related::default()));
        assert_eq!(attributes.0.get("cause").and_then(Value::as_str), Some(cause), "{sample}");
    }
}
