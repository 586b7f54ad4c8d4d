//! Whether the fields of a request are acceptable, whatever the state of the run.

use crate::command::{ActivityAct, OptionsChange, Start};
use crate::decision::{Decision, StartChild};
use crate::dialect;
use crate::event::{ActivityTimeouts, ByHand};
use crate::factor::Factor;
use crate::fault::{Fault, Unit};
use crate::ids::{ConflictPolicy, ReusePolicy};
use crate::limits;
use crate::payload::Payload;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::retry::{RetryPolicy, WhenExhausted};
use crate::rules::{external, marker, signal, timer};
use crate::time::Duration;

pub(crate) fn start(start: &Start) -> Result<(), Fault> {
    name("workflowId", &start.workflow_id)?;
    type_name("workflowType", &start.workflow_type)?;
    name("taskList", &start.task_list)?;
    payload("input", start.input.as_ref())?;
    identity(start.identity.as_deref())?;
    timeout("executionTimeout", Some(start.execution_timeout))?;
    timeout("runTimeout", start.run_timeout)?;
    timeout("deciderStartToClose", Some(start.decider_start_to_close))?;
    timeout("deciderScheduleToStart", start.decider_schedule_to_start)?;
    timeouts("activityTimeouts", start.activity_timeouts)?;
    if let Some(role) = start.swf.as_ref().and_then(|swf| swf.lambda_role.as_ref()) {
        name_up_to("swf.lambdaRole", role, limits::LAMBDA_ROLE_CHARS_MAX)?;
    }
    span("retention", start.retention)?;
    span("startAfter", start.start_after.unwrap_or_default())?;
    retry_of_workflow("retry", start.retry.as_ref())?;
    start.signal.as_ref().map_or(Ok(()), signal::may_come_with_start)?;
    if start.conflict_policy == ConflictPolicy::TerminateExisting && start.reuse_policy == ReusePolicy::RejectDuplicate
    {
        return Err(Fault::Invalid {
            field: "conflictPolicy".to_owned(),
            problem: "terminates an open run, and the reusePolicy would refuse the one after it".to_owned(),
        });
    }
    tags("tags", &start.tags, start.swf.is_some())
}

/// SWF has tags that are empty.
fn tags(field: &str, tags: &[String], is_swf: bool) -> Result<(), Fault> {
    let (found, max) = (tags.len(), limits::TAGS_MAX);
    if found > max {
        let problem = format!("has {found} entries, at most {max} are allowed");
        return Err(Fault::Invalid { field: field.to_owned(), problem });
    }
    let mut tags = tags.iter().enumerate().filter(|(_, tag)| !(is_swf && tag.is_empty()));
    tags.try_for_each(|(index, tag)| name(&format!("{field}[{index}]"), tag))
}

fn child(field: &impl Fn(&str) -> String, it: &StartChild, is_swf: bool) -> Result<(), Fault> {
    control(field, it.control.as_deref())?;
    name(&field("workflowId"), &it.workflow_id)?;
    type_name(&field("workflowType"), &it.workflow_type)?;
    if let Some(list) = &it.task_list {
        name(&field("taskList"), list)?;
    }
    payload(&field("input"), it.input.as_ref())?;
    timeout(&field("executionTimeout"), it.execution_timeout)?;
    timeout(&field("deciderStartToClose"), it.decider_start_to_close)?;
    timeout(&field("deciderScheduleToStart"), it.decider_schedule_to_start)?;
    timeouts(&field("activityTimeouts"), it.activity_timeouts)?;
    if let Some(retention) = it.retention {
        span(&field("retention"), retention)?;
    }
    timeout(&field("runTimeout"), it.run_timeout)?;
    retry_of_workflow(&field("retry"), it.retry.as_ref())?;
    tags(&field("tags"), &it.tags, is_swf)
}

/// The whole batch, before anything of it is recorded.
pub(crate) fn decisions(decisions: &[Decision], is_swf: bool) -> Result<(), Fault> {
    if decisions.len() > limits::DECISIONS_MAX {
        return Err(Fault::Invalid {
            field: "decisions".to_owned(),
            problem: format!("has {} entries, at most {} are allowed", decisions.len(), limits::DECISIONS_MAX),
        });
    }
    for (index, decision) in decisions.iter().enumerate() {
        let field = |name: &str| format!("decisions[{index}].{name}");
        if decision.closes().is_some() && index + 1 != decisions.len() {
            return Err(Fault::Invalid {
                field: format!("decisions[{index}]"),
                problem: format!("closes the run ({}); a closing decision must be the last", decision.name()),
            });
        }
        match decision {
            Decision::ScheduleActivity(it) => {
                // A Lambda task's name has more than its id.
                let chars_max = if is_swf { dialect::SWF_ACTIVITY_ID_CHARS_MAX } else { limits::NAME_CHARS_MAX };
                name_up_to(&field("activityId"), &it.activity_id, chars_max)?;
                type_name(&field("activityType"), &it.activity_type)?;
                if let Some(list) = &it.task_list {
                    name(&field("taskList"), list)?;
                }
                payload(&field("input"), it.input.as_ref())?;
                // Zero is a timeout like any other in SWF.
                if is_swf {
                    spans(&field("timeouts"), it.timeouts)?;
                } else {
                    timeouts(&field("timeouts"), it.timeouts)?;
                }
                control(&field, it.control.as_deref())?;
                retry(&field("retry"), it.retry.as_ref())?;
            }
            Decision::CancelActivity(it) => name(&field("activityId"), &it.activity_id)?,
            Decision::StartTimer(it) => timer::may_start(&field, it)?,
            Decision::CancelTimer(it) => timer::may_cancel(&field, it)?,
            Decision::RecordMarker(it) => marker::may_record(&field, it)?,
            Decision::StartChild(it) => child(&field, it, is_swf)?,
            Decision::SignalExternal(it) => external::may_signal(&field, it)?,
            Decision::CancelExternal(it) => external::may_cancel(&field, it)?,
            Decision::SucceedWorkflow(it) => payload(&field("result"), it.result.as_ref())?,
            Decision::FailWorkflow(it) => {
                reason_of(&field("reason"), &it.reason, is_swf)?;
                payload(&field("details"), it.details.as_ref())?;
            }
            Decision::CancelWorkflow(it) => payload(&field("details"), it.details.as_ref())?,
            Decision::ContinueAsNew(it) => {
                payload(&field("input"), it.input.as_ref())?;
                if let Some(kind) = &it.workflow_type {
                    type_name(&field("workflowType"), kind)?;
                }
                if let Some(list) = &it.task_list {
                    name(&field("taskList"), list)?;
                }
                tags(&field("tags"), it.tags.as_deref().unwrap_or_default(), is_swf)?;
            }
        }
    }
    Ok(())
}

/// A reason that a failure must have; over SWF's wire it need not.
pub(crate) fn reason_of(field: &str, reason: &str, is_swf: bool) -> Result<(), Fault> {
    if is_swf && reason.is_empty() {
        return Ok(());
    }
    name_up_to(field, reason, limits::REASON_CHARS_MAX)
}

pub(crate) fn control(field: &impl Fn(&str) -> String, control: Option<&str>) -> Result<(), Fault> {
    let (found, max) = (control.map_or(0, str::len), limits::CONTROL_BYTES_MAX);
    if found > max {
        return Err(Fault::TooLarge { field: field("control"), found, max, unit: Unit::Bytes });
    }
    Ok(())
}

pub(crate) fn awaiting(names: &[String]) -> Result<(), Fault> {
    let (found, max) = (names.len(), limits::AWAITING_MAX);
    if found > max {
        let problem = format!("has {found} entries, at most {max} are allowed");
        return Err(Fault::Invalid { field: "awaiting".to_owned(), problem });
    }
    names.iter().enumerate().try_for_each(|(index, it)| name(&format!("awaiting[{index}]"), it))?;
    let (found, max) = (names.iter().map(String::len).sum(), limits::AWAITING_BYTES_MAX);
    if found > max {
        return Err(Fault::TooLarge { field: "awaiting".to_owned(), found, max, unit: Unit::Bytes });
    }
    Ok(())
}

pub(crate) fn name(field: &str, text: &str) -> Result<(), Fault> {
    name_up_to(field, text, limits::NAME_CHARS_MAX)?;
    bytes_up_to(field, text, limits::NAME_BYTES_MAX)
}

/// A type's name, with its version.
pub(crate) fn type_name(field: &str, text: &str) -> Result<(), Fault> {
    name_up_to(field, text, limits::TYPE_CHARS_MAX)?;
    bytes_up_to(field, text, limits::TYPE_BYTES_MAX)
}

fn bytes_up_to(field: &str, text: &str, max: usize) -> Result<(), Fault> {
    let found = text.len();
    if found > max {
        return Err(Fault::TooLarge { field: field.to_owned(), found, max, unit: Unit::Bytes });
    }
    Ok(())
}

pub(crate) fn workflow_defaults(defaults: &WorkflowDefaults) -> Result<(), Fault> {
    if let Some(list) = &defaults.task_list {
        name("defaults.taskList", list)?;
    }
    if let Some(role) = &defaults.lambda_role {
        name_up_to("defaults.lambdaRole", role, limits::LAMBDA_ROLE_CHARS_MAX)?;
    }
    span("defaults.executionTimeout", defaults.execution_timeout.unwrap_or_default())?;
    span("defaults.deciderStartToClose", defaults.decider_start_to_close.unwrap_or_default())
}

pub(crate) fn activity_defaults(defaults: &ActivityDefaults) -> Result<(), Fault> {
    if let Some(list) = &defaults.task_list {
        name("defaults.taskList", list)?;
    }
    spans("defaults.timeouts", defaults.timeouts)
}

/// Timeouts that may be zero.
fn spans(field: &str, timeouts: ActivityTimeouts) -> Result<(), Fault> {
    let ActivityTimeouts { schedule_to_start, start_to_close, schedule_to_close, heartbeat } = timeouts;
    span(&format!("{field}.scheduleToStart"), schedule_to_start.unwrap_or_default())?;
    span(&format!("{field}.startToClose"), start_to_close.unwrap_or_default())?;
    span(&format!("{field}.scheduleToClose"), schedule_to_close.unwrap_or_default())?;
    span(&format!("{field}.heartbeat"), heartbeat.unwrap_or_default())
}

/// A name of `max` characters at most.
pub(crate) fn name_up_to(field: &str, text: &str, max: usize) -> Result<(), Fault> {
    let invalid = |problem: &str| Err(Fault::Invalid { field: field.to_owned(), problem: problem.to_owned() });
    if text.is_empty() {
        return invalid("is empty");
    }
    let found = text.chars().count();
    if found > max {
        return Err(Fault::TooLarge { field: field.to_owned(), found, max, unit: Unit::Characters });
    }
    if text.chars().any(char::is_control) {
        return invalid("contains a control character");
    }
    Ok(())
}

pub(crate) fn identity(identity: Option<&str>) -> Result<(), Fault> {
    identity.map_or(Ok(()), |identity| name("identity", identity))
}

pub(crate) fn poll(poll_id: Option<&str>, attempt: Option<u32>) -> Result<(), Fault> {
    poll_id.map_or(Ok(()), |poll_id| name("pollId", poll_id))?;
    let max = limits::POLL_ATTEMPTS_MAX;
    let problem = match (poll_id, attempt.unwrap_or(1)) {
        (_, attempt) if !(1..=max).contains(&attempt) => format!("is {attempt}, must be 1 to {max}"),
        (None, 2..) => "needs a `pollId`: the same as before".to_owned(),
        _ => return Ok(()),
    };
    Err(Fault::Invalid { field: "attempt".to_owned(), problem })
}

pub(crate) fn reason(field: &str, reason: Option<&str>) -> Result<(), Fault> {
    reason.map_or(Ok(()), |reason| name_up_to(field, reason, limits::REASON_CHARS_MAX))
}

pub(crate) fn by_hand(by_hand: &ByHand) -> Result<(), Fault> {
    identity(by_hand.identity.as_deref())?;
    reason("reason", by_hand.reason.as_deref())
}

pub(crate) fn activity_act(act: &ActivityAct) -> Result<(), Fault> {
    match act {
        ActivityAct::Succeed { result } => payload("result", result.as_ref()),
        ActivityAct::Fail { reason, details } => {
            name_up_to("failureReason", reason, limits::REASON_CHARS_MAX)?;
            payload("details", details.as_ref())
        }
        ActivityAct::Retry | ActivityAct::Pause | ActivityAct::Resume => Ok(()),
        ActivityAct::Change(change) => {
            if **change == OptionsChange::default() {
                let problem = "none is given; give a task list, a timeout or a retry policy".to_owned();
                return Err(Fault::Invalid { field: "options".to_owned(), problem });
            }
            if let Some(list) = &change.task_list {
                name("taskList", list)?;
            }
            timeouts("timeouts", change.timeouts(ActivityTimeouts::default()))?;
            retry("retry", change.retry.as_ref())
        }
    }
}

pub(crate) fn payload(field: &str, payload: Option<&Payload>) -> Result<(), Fault> {
    size(field, payload, limits::PAYLOAD_BYTES_MAX)
}

pub(crate) fn size(field: &str, payload: Option<&Payload>, max: usize) -> Result<(), Fault> {
    match payload.map(Payload::len) {
        Some(found) if found > max => Err(Fault::TooLarge { field: field.to_owned(), found, max, unit: Unit::Bytes }),
        _ => Ok(()),
    }
}

pub(crate) fn span(field: &str, span: Duration) -> Result<(), Fault> {
    if span <= limits::SPAN_MAX {
        return Ok(());
    }
    let problem = format!("is {span}, at most {} is allowed", limits::SPAN_MAX);
    Err(Fault::Invalid { field: field.to_owned(), problem })
}

fn timeout(field: &str, timeout: Option<Duration>) -> Result<(), Fault> {
    match timeout {
        None => Ok(()),
        Some(Duration::ZERO) => Err(Fault::Invalid {
            field: field.to_owned(),
            problem: "is zero; give a longer one, or leave it out".to_owned(),
        }),
        Some(timeout) => span(field, timeout),
    }
}

fn timeouts(field: &str, timeouts: ActivityTimeouts) -> Result<(), Fault> {
    timeout(&format!("{field}.scheduleToStart"), timeouts.schedule_to_start)?;
    timeout(&format!("{field}.startToClose"), timeouts.start_to_close)?;
    timeout(&format!("{field}.scheduleToClose"), timeouts.schedule_to_close)?;
    timeout(&format!("{field}.heartbeat"), timeouts.heartbeat)
}

/// A workflow that has no more tries has failed: unlike an activity there is nothing that could wait for somebody.
fn retry_of_workflow(field: &str, policy: Option<&RetryPolicy>) -> Result<(), Fault> {
    if policy.is_some_and(|policy| policy.when_exhausted == WhenExhausted::Pause) {
        return Err(Fault::Invalid {
            field: format!("{field}.whenExhausted"),
            problem: "is `pause`, which is for activities; a workflow fails when its tries run out".to_owned(),
        });
    }
    retry(field, policy)
}

fn retry(field: &str, policy: Option<&RetryPolicy>) -> Result<(), Fault> {
    let Some(policy) = policy else { return Ok(()) };
    let invalid = |part: &str, problem: &str| {
        Err(Fault::Invalid { field: format!("{field}.{part}"), problem: problem.to_owned() })
    };
    timeout(&format!("{field}.initialInterval"), Some(policy.initial_interval))?;
    timeout(&format!("{field}.maximumInterval"), policy.maximum_interval)?;
    if policy.backoff_coefficient < Factor::ONE {
        return invalid("backoffCoefficient", "is less than 1, so that waits would get shorter; give 1 or more");
    }
    if policy.maximum_attempts == Some(0) {
        return invalid("maximumAttempts", "is zero; give 1 or more, or leave it out for no limit");
    }
    if policy.jitter > Factor::ONE {
        return invalid("jitter", "is more than 1, the whole wait; give a share from 0 to 1");
    }
    let (found, max) = (policy.non_retryable_reasons.len(), limits::NON_RETRYABLE_REASONS_MAX);
    if found > max {
        return invalid("nonRetryableReasons", &format!("has {found} entries, at most {max} are allowed"));
    }
    for (index, reason) in policy.non_retryable_reasons.iter().enumerate() {
        name_up_to(&format!("{field}.nonRetryableReasons[{index}]"), reason, limits::REASON_CHARS_MAX)?;
    }
    Ok(())
}
