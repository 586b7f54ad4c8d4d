//! Validation of request fields that does not depend on the state of the run.

use std::fmt::Display;

use crate::event::{ActivityTimeouts, OperatorAction};
use crate::factor::Factor;
use crate::fault::{Fault, Unit};
use crate::limits;
use crate::payload::Payload;
use crate::registered::{ActivityDefaults, WorkflowDefaults};
use crate::retry::{RetryPolicy, WhenExhausted};
use crate::time::Duration;

/// Validates tags. SWF allows empty tags.
pub(crate) fn tags(field: &str, tags: &[String], is_swf: bool) -> Result<(), Fault> {
    let (found, max) = (tags.len(), limits::TAGS_MAX);
    if found > max {
        let problem = format!("has {found} entries, at most {max} are allowed");
        return Err(Fault::Invalid { field: field.to_owned(), problem });
    }
    let mut tags = tags.iter().enumerate().filter(|(_, tag)| !(is_swf && tag.is_empty()));
    tags.try_for_each(|(index, tag)| name(&format!("{field}[{index}]"), tag))
}

/// Validates a failure code, which is required. Only SWF's protocol allows it to be absent or empty.
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

/// Validates a name in a request.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`] with the name of the field.
pub fn name(field: &str, text: &str) -> Result<(), Fault> {
    name_up_to(field, text, limits::NAME_CHARS_MAX)?;
    no_dots(field, text)?;
    bytes_up_to(field, text, limits::NAME_BYTES_MAX)
}

/// Validates a concurrency key.
pub(crate) fn concurrency_key(field: impl Display, key: Option<&str>) -> Result<(), Fault> {
    key.map_or(Ok(()), |key| name(&field.to_string(), key))
}

/// Validates the name of a type with its version.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`] with the name of the field.
pub fn type_name(field: &str, text: &str) -> Result<(), Fault> {
    name_up_to(field, text, limits::TYPE_CHARS_MAX)?;
    no_dots(field, text)?;
    bytes_up_to(field, text, limits::TYPE_BYTES_MAX)
}

/// Rejects the names `.` and `..`. Clients and proxies remove such segments from URL paths, so the request would reach
/// another target. Source: RFC 3986, section 5.2.4.
pub(crate) fn no_dots(field: &str, text: &str) -> Result<(), Fault> {
    match text {
        "." | ".." => Err(Fault::Invalid { field: field.to_owned(), problem: format!("must not be `{text}`") }),
        _ => Ok(()),
    }
}

fn bytes_up_to(field: &str, text: &str, max: usize) -> Result<(), Fault> {
    let found = text.len();
    if found > max {
        return Err(Fault::TooLarge { field: field.to_owned(), found, max, unit: Unit::Bytes });
    }
    Ok(())
}

/// Validates the defaults of a workflow type.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`] with the name of the field.
pub fn workflow_defaults(defaults: &WorkflowDefaults) -> Result<(), Fault> {
    if let Some(list) = &defaults.task_list {
        name("defaults.taskList", list)?;
    }
    lambda_role("defaults.lambdaRole", defaults.lambda_role.as_deref())?;
    timeout("defaults.executionTimeout", defaults.execution_timeout)?;
    timeout("defaults.deciderStartToClose", defaults.decider_start_to_close)
}

/// Validates the defaults of an activity type.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`] with the name of the field.
pub fn activity_defaults(defaults: &ActivityDefaults) -> Result<(), Fault> {
    if let Some(list) = &defaults.task_list {
        name("defaults.taskList", list)?;
    }
    spans("defaults.timeouts", defaults.timeouts)
}

/// Validates timeouts that may be zero.
pub(crate) fn spans(field: &str, timeouts: ActivityTimeouts) -> Result<(), Fault> {
    each(timeouts).into_iter().try_for_each(|(name, it)| span(format_args!("{field}.{name}"), it.unwrap_or_default()))
}

fn each(timeouts: ActivityTimeouts) -> [(&'static str, Option<Duration>); 4] {
    let ActivityTimeouts { schedule_to_start, start_to_close, schedule_to_close, heartbeat } = timeouts;
    [
        ("scheduleToStart", schedule_to_start),
        ("startToClose", start_to_close),
        ("scheduleToClose", schedule_to_close),
        ("heartbeat", heartbeat),
    ]
}

/// Validates a name with a maximum length of `max` characters.
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

pub(crate) fn lambda_role(field: impl Display, role: Option<&str>) -> Result<(), Fault> {
    role.map_or(Ok(()), |role| name_up_to(&field.to_string(), role, limits::LAMBDA_ROLE_CHARS_MAX))
}

pub(crate) fn identity(identity: Option<&str>) -> Result<(), Fault> {
    identity.map_or(Ok(()), |identity| name("identity", identity))
}

/// Validates the identity of a decider or runner that takes a task. SWF's protocol allows an empty identity.
pub(crate) fn taker_identity(identity: Option<&str>, is_swf: bool) -> Result<(), Fault> {
    self::identity(identity.filter(|identity| !(is_swf && identity.is_empty())))
}

/// Validates a poll's id and attempt number.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`] for `pollId` or `attempt`.
pub fn poll(poll_id: Option<&str>, attempt: Option<u32>) -> Result<(), Fault> {
    poll_id.map_or(Ok(()), |poll_id| name("pollId", poll_id))?;
    let max = limits::POLL_ATTEMPTS_MAX;
    let problem = match (poll_id, attempt.unwrap_or(1)) {
        (_, attempt) if !(1..=max).contains(&attempt) => format!("is {attempt}, must be 1 to {max}"),
        (None, 2..) => "needs the `pollId` of the first attempt".to_owned(),
        _ => return Ok(()),
    };
    Err(Fault::Invalid { field: "attempt".to_owned(), problem })
}

pub(crate) fn reason(field: &str, reason: Option<&str>) -> Result<(), Fault> {
    reason.map_or(Ok(()), |reason| name_up_to(field, reason, limits::REASON_CHARS_MAX))
}

/// Validates the identity and the reason of a manual change.
///
/// # Errors
///
/// [`Fault::Invalid`] or [`Fault::TooLarge`] for `identity` or `reason`.
pub fn operator(operator: &OperatorAction) -> Result<(), Fault> {
    identity(operator.identity.as_deref())?;
    reason("reason", operator.reason.as_deref())
}

/// Validates the size of a payload.
///
/// # Errors
///
/// [`Fault::TooLarge`] with the name of the field.
pub fn payload(field: &str, payload: Option<&Payload>) -> Result<(), Fault> {
    size(field, payload, limits::PAYLOAD_BYTES_MAX)
}

/// Checks the size of a chunk of an activity's output. `index` is its position in the request.
///
/// # Errors
///
/// [`Fault::TooLarge`].
pub fn output_chunk(index: usize, chunk: &Payload) -> Result<(), Fault> {
    size(&format!("chunks[{index}]"), Some(chunk), limits::OUTPUT_CHUNK_BYTES_MAX)
}

pub(crate) fn size(field: &str, payload: Option<&Payload>, max: usize) -> Result<(), Fault> {
    match payload.map(Payload::len) {
        Some(found) if found > max => Err(Fault::TooLarge { field: field.to_owned(), found, max, unit: Unit::Bytes }),
        _ => Ok(()),
    }
}

pub(crate) fn span(field: impl Display, span: Duration) -> Result<(), Fault> {
    if span <= limits::SPAN_MAX {
        return Ok(());
    }
    let problem = format!("is {span}, at most {} is allowed", limits::SPAN_MAX);
    Err(Fault::Invalid { field: field.to_string(), problem })
}

pub(crate) fn timeout(field: impl Display, timeout: Option<Duration>) -> Result<(), Fault> {
    match timeout {
        None => Ok(()),
        Some(Duration::ZERO) => Err(Fault::Invalid {
            field: field.to_string(),
            problem: "is zero; expected a longer duration, or omit the field".to_owned(),
        }),
        Some(timeout) => span(field, timeout),
    }
}

pub(crate) fn timeouts(field: &str, timeouts: ActivityTimeouts) -> Result<(), Fault> {
    each(timeouts).into_iter().try_for_each(|(name, it)| timeout(format_args!("{field}.{name}"), it))
}

/// Validates the retry policy of a workflow. A workflow cannot pause when its attempts are exhausted.
pub(crate) fn retry_of_workflow(field: &str, policy: Option<&RetryPolicy>) -> Result<(), Fault> {
    if policy.is_some_and(|policy| policy.when_exhausted == WhenExhausted::Pause) {
        return Err(Fault::Invalid {
            field: format!("{field}.whenExhausted"),
            problem: "is `pause`, which only activities support; a workflow fails when its attempts are exhausted"
                .to_owned(),
        });
    }
    retry(field, policy)
}

pub(crate) fn retry(field: &str, policy: Option<&RetryPolicy>) -> Result<(), Fault> {
    let Some(policy) = policy else { return Ok(()) };
    let invalid = |part: &str, problem: &str| {
        Err(Fault::Invalid { field: format!("{field}.{part}"), problem: problem.to_owned() })
    };
    timeout(format_args!("{field}.initialInterval"), Some(policy.initial_interval))?;
    timeout(format_args!("{field}.maximumInterval"), policy.maximum_interval)?;
    if policy.backoff_coefficient < Factor::ONE {
        return invalid("backoffCoefficient", "is less than 1, which would shorten the delays; expected 1 or more");
    }
    if policy.maximum_attempts == Some(0) {
        return invalid("maximumAttempts", "is zero; expected 1 or more, or omit the field for no limit");
    }
    if policy.jitter > Factor::ONE {
        return invalid("jitter", "is more than 1; expected a fraction from 0 to 1");
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
