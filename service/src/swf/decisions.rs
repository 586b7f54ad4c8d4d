//! Converts decisions of the SWF protocol to those of the crate `history`.
//!
//! Source: SWF's API reference.

use history::event::ActivityTimeouts;
use history::{
    CancelActivity, CancelExternal, CancelTimer, CancelWorkflow, ContinueAsNew, Decision, FailWorkflow, LAMBDA_LIST,
    NamedRun, Payload, RecordMarker, ReusePolicy, ScheduleActivity, SignalExternal, StartChild, StartTimer,
    SucceedWorkflow, SwfSettings, lambda_activity_id,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::call::take;
use super::fault::{FaultKind, SwfFault};
use super::shape::{FUNCTION_SECONDS_MAX, is_attributes_of};
use super::types::TypeRef;
use super::words::{self, List};

/// Attributes of all types of decisions together. In a decision, only the attributes of its type are present.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DecisionAttributes {
    activity_type: Option<TypeRef>,
    workflow_type: Option<TypeRef>,
    activity_id: String,
    timer_id: String,
    workflow_id: String,
    run_id: Option<String>,
    signal_name: String,
    marker_name: String,
    control: Option<String>,
    input: Option<String>,
    result: Option<String>,
    details: Option<String>,
    reason: Option<String>,
    task_list: Option<List>,
    task_priority: Option<String>,
    start_to_fire_timeout: Option<String>,
    schedule_to_close_timeout: Option<String>,
    schedule_to_start_timeout: Option<String>,
    start_to_close_timeout: Option<String>,
    heartbeat_timeout: Option<String>,
    execution_start_to_close_timeout: Option<String>,
    task_start_to_close_timeout: Option<String>,
    child_policy: Option<String>,
    tag_list: Option<Vec<String>>,
    workflow_type_version: Option<String>,
    lambda_role: Option<String>,
    id: String,
    name: String,
}

/// Converts a text to a payload that is a JSON string. An empty text becomes an empty string.
pub(super) fn payload(text: Option<String>) -> Result<Option<Payload>, SwfFault> {
    let payload = text.map(|text| Payload::of(&text)).transpose();
    payload.map_err(|error| SwfFault::new(FaultKind::Serialization, error.to_string()))
}

impl DecisionAttributes {
    fn settings(&self) -> SwfSettings {
        SwfSettings {
            execution_timeout: words::span(self.execution_start_to_close_timeout.as_deref()),
            decider_start_to_close: words::span(self.task_start_to_close_timeout.as_deref()),
            child_policy: words::child_policy(self.child_policy.as_deref()),
            task_priority: words::priority(self.task_priority.as_deref()),
            lambda_role: self.lambda_role.clone(),
        }
    }

    /// Converts the attributes to a decision of this type. `workflow_type` is the workflow type of the deciding run.
    fn decision(self, kind: &str, workflow_type: Option<&str>) -> Result<Decision, SwfFault> {
        let swf = self.settings();
        let full = |kind: Option<TypeRef>| kind.map(|kind| kind.full()).unwrap_or_default();
        Ok(match kind {
            "ScheduleActivityTask" => ScheduleActivity {
                activity_id: self.activity_id,
                activity_type: full(self.activity_type),
                task_list: self.task_list.map(|list| list.name),
                input: payload(self.input)?,
                timeouts: ActivityTimeouts {
                    schedule_to_start: words::span(self.schedule_to_start_timeout.as_deref()),
                    start_to_close: words::span(self.start_to_close_timeout.as_deref()),
                    schedule_to_close: words::span(self.schedule_to_close_timeout.as_deref()),
                    heartbeat: words::span(self.heartbeat_timeout.as_deref()),
                },
                control: self.control,
                task_priority: swf.task_priority,
                ..ScheduleActivity::default()
            }
            .into(),
            "RequestCancelActivityTask" => CancelActivity { activity_id: self.activity_id }.into(),
            "CompleteWorkflowExecution" => SucceedWorkflow { result: payload(self.result)?, force: false }.into(),
            "FailWorkflowExecution" => {
                let has_empty_reason = self.reason.as_deref() == Some("");
                let (reason, details) = (self.reason.unwrap_or_default(), payload(self.details)?);
                FailWorkflow { reason, has_empty_reason, details, force: false }.into()
            }
            "CancelWorkflowExecution" => CancelWorkflow { details: payload(self.details)?, force: false }.into(),
            "ContinueAsNewWorkflowExecution" => ContinueAsNew {
                input: payload(self.input)?,
                workflow_type: match (&self.workflow_type_version, workflow_type) {
                    (Some(version), Some(own)) => {
                        Some(engine::type_name(engine::split_type_name(own).0, Some(version)))
                    }
                    _ => None,
                },
                task_list: self.task_list.map(|list| list.name),
                tags: self.tag_list,
                swf,
                ..ContinueAsNew::default()
            }
            .into(),
            "RecordMarker" => RecordMarker { name: self.marker_name, details: payload(self.details)? }.into(),
            "StartTimer" => StartTimer {
                timer_id: self.timer_id,
                after: words::span(self.start_to_fire_timeout.as_deref()).unwrap_or_default(),
                control: self.control,
            }
            .into(),
            "CancelTimer" => CancelTimer { timer_id: self.timer_id }.into(),
            "SignalExternalWorkflowExecution" => SignalExternal {
                run_id: self.run_id.map(NamedRun::from),
                workflow_id: self.workflow_id,
                name: self.signal_name,
                input: payload(self.input)?,
                control: self.control,
            }
            .into(),
            "RequestCancelExternalWorkflowExecution" => CancelExternal {
                run_id: self.run_id.map(NamedRun::from),
                workflow_id: self.workflow_id,
                reason: None,
                control: self.control,
            }
            .into(),
            "StartChildWorkflowExecution" => StartChild {
                workflow_id: self.workflow_id,
                workflow_type: full(self.workflow_type),
                task_list: self.task_list.map(|list| list.name),
                input: payload(self.input)?,
                execution_timeout: swf.execution_timeout,
                decider_start_to_close: swf.decider_start_to_close,
                tags: self.tag_list.unwrap_or_default(),
                reuse_policy: ReusePolicy::AllowDuplicate,
                control: self.control,
                swf,
                ..StartChild::default()
            }
            .into(),
            "ScheduleLambdaFunction" => {
                let most = history::Duration::from_secs(FUNCTION_SECONDS_MAX);
                let start_to_close = words::span(self.start_to_close_timeout.as_deref()).or(Some(most));
                ScheduleActivity {
                    activity_id: lambda_activity_id(&self.id),
                    activity_type: self.name,
                    task_list: Some(LAMBDA_LIST.to_owned()),
                    input: payload(self.input)?,
                    timeouts: ActivityTimeouts { start_to_close, ..ActivityTimeouts::default() },
                    control: self.control,
                    ..ScheduleActivity::default()
                }
                .into()
            }
            // Requests with unknown types of decisions were already refused, so this does not happen.
            other => return Err(SwfFault::new(FaultKind::Internal, format!("no decision {other}"))),
        })
    }
}

/// Returns the type of a decision.
pub(super) fn kind_of(decision: &Map<String, Value>) -> &str {
    decision.get("decisionType").and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether converting any of the decisions requires the workflow type of the deciding run.
pub(super) fn needs_own_type(decisions: &[Map<String, Value>]) -> bool {
    decisions.iter().any(|decision| kind_of(decision) == "ContinueAsNewWorkflowExecution")
}

/// Converts decisions that have already been checked.
///
/// # Errors
///
/// If a decision that closes the run is not the last one. In this case, none of the decisions is applied.
pub(super) fn read(decisions: Vec<Map<String, Value>>, workflow_type: Option<&str>) -> Result<Vec<Decision>, SwfFault> {
    let mut read = Vec::with_capacity(decisions.len());
    for mut decision in decisions {
        let kind = kind_of(&decision).to_owned();
        let member = decision.keys().find(|member| is_attributes_of(member, &kind)).cloned();
        let attributes = match member.and_then(|member| decision.remove(&member)) {
            Some(Value::Object(attributes)) => attributes,
            _ => Map::new(),
        };
        let attributes: DecisionAttributes = take(attributes)?;
        read.push(attributes.decision(&kind, workflow_type)?);
    }
    if read.iter().rev().skip(1).any(|decision| decision.closes().is_some()) {
        return Err(SwfFault::new(FaultKind::Validation, "Close must be last decision in list"));
    }
    Ok(read)
}
