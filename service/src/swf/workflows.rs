//! Runs: starting, signaling, canceling, terminating and reading them.

use std::sync::Arc;

use history::event::ActivityTimeouts;
use history::{Command, Event, EventKind, Fault, Payload, ReusePolicy, Run, Start, Status, SwfRun, WorkflowDefaults};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::call::{Answer, SwfCall, body, take};
use super::decisions::payload;
use super::events::{self, Related, execution, text};
use super::fault::{FaultKind, SwfFault};
use super::fields;
use super::page::{PageKind, Paging, invalid_token, with_next};
use super::types::{TypeRef, shown, type_fault};
use super::words::{self, List, instant, list, policy, seconds, set};
use engine::{EventRange, PAGE_BYTES_MAX, Refusal, RunRef};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartExecution {
    domain: String,
    workflow_id: String,
    workflow_type: TypeRef,
    task_list: Option<List>,
    task_priority: Option<String>,
    input: Option<String>,
    execution_start_to_close_timeout: Option<String>,
    tag_list: Option<Vec<String>>,
    task_start_to_close_timeout: Option<String>,
    child_policy: Option<String>,
    lambda_role: Option<String>,
}

fn undefined(setting: &str) -> SwfFault {
    SwfFault::new(FaultKind::DefaultUndefined, setting)
}

pub(super) async fn start(call: SwfCall, input: Map<String, Value>) -> Answer {
    let it: StartExecution = take(input)?;
    let domain = call.engine.registry().domain_in_use(&it.domain).await?;
    let full = it.workflow_type.full();
    let known = call.engine.registry().registration::<WorkflowDefaults>(&it.domain, &full).await?.defaults().cloned();
    let defaults = match known {
        Some(defaults) => defaults,
        // The cached registration may be outdated, so the store is read before the request is refused.
        None => {
            let registered = call.engine.registry().registered_type::<WorkflowDefaults>(&it.domain, &full).await;
            let registered = registered.map_err(type_fault::<WorkflowDefaults>)?;
            if registered.deprecated_at.is_some() {
                let refusal = Refusal::TypeDeprecated { kind: "workflow", name: full };
                return Err(type_fault::<WorkflowDefaults>(refusal));
            }
            registered.defaults
        }
    };
    let execution_timeout = words::span(it.execution_start_to_close_timeout.as_deref())
        .or(defaults.execution_timeout)
        .ok_or_else(|| undefined("executionStartToCloseTimeout"))?;
    let task_list = it.task_list.map(|list| list.name).or(defaults.task_list).ok_or_else(|| undefined("taskList"))?;
    let decider_start_to_close = words::span(it.task_start_to_close_timeout.as_deref())
        .or(defaults.decider_start_to_close)
        .ok_or_else(|| undefined("taskStartToCloseTimeout"))?;
    let child_policy = words::child_policy(it.child_policy.as_deref())
        .or(defaults.child_policy)
        .ok_or_else(|| undefined("childPolicy"))?;
    let start = Start {
        input: payload(it.input)?,
        execution_timeout,
        decider_start_to_close,
        activity_timeouts: ActivityTimeouts::default(),
        tags: it.tag_list.unwrap_or_default(),
        retention: domain.retention,
        reuse_policy: ReusePolicy::AllowDuplicate,
        swf: Some(SwfRun {
            child_policy,
            task_priority: words::priority(it.task_priority.as_deref()).or(defaults.task_priority),
            lambda_role: it.lambda_role.or(defaults.lambda_role),
            limits: call.engine.swf_quotas().map(|quotas| quotas.run),
        }),
        by: call.caller.by(),
        trace: call.trace,
        ..Start::new(&it.workflow_id, &full, &task_list)
    };
    match call.engine.commands().start(&it.domain, start).await {
        Ok(started) => body(&json!({ "runId": started.run_id.to_string() })),
        Err(Refusal::Fault(Fault::AlreadyOpen { .. } | Fault::ReuseRefused { .. })) => {
            Err(SwfFault::new(FaultKind::WorkflowExecutionAlreadyStarted, ""))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tell {
    domain: String,
    workflow_id: String,
    run_id: Option<String>,
    signal_name: Option<String>,
    input: Option<String>,
    reason: Option<String>,
    details: Option<String>,
    child_policy: Option<String>,
}

/// Returns the fault for a run that does not exist or is already closed.
pub(super) fn unknown_execution(workflow_id: &str, run_id: Option<&str>) -> SwfFault {
    let message = match run_id {
        Some(run_id) => {
            format!("Unknown execution: WorkflowExecution=[workflowId={workflow_id}, runId={run_id}]")
        }
        None => format!("Unknown execution, workflowId = {workflow_id}"),
    };
    SwfFault::new(FaultKind::UnknownResource, message)
}

async fn tell(call: &SwfCall, it: &Tell, command: Command) -> Answer {
    let named = it.run_id.as_deref().filter(|run_id| !run_id.is_empty());
    let unknown = || unknown_execution(&it.workflow_id, named);
    let run_id: Option<Uuid> = named.map(str::parse).transpose().map_err(|_| unknown())?;
    let at = RunRef { domain: it.domain.as_str().into(), workflow_id: it.workflow_id.as_str().into(), run_id };
    let author = call.caller.author().traced(call.trace.as_ref().map(|trace| trace.traceparent));
    let is_signal = matches!(command, Command::Signal { .. });
    match call.engine.commands().submit_as(&at, command, author).await {
        Ok(_) => Ok(None),
        Err(
            Refusal::Fault(Fault::RunClosed { .. })
            | Refusal::UnknownWorkflow { .. }
            | Refusal::UnknownRun { .. }
            | Refusal::RunNotCurrent { .. },
        ) => Err(unknown()),
        Err(refusal) if is_signal => Err(match fields::of_signal(&refusal) {
            Some(message) => SwfFault::new(FaultKind::Validation, message),
            None => refusal.into(),
        }),
        Err(refusal) => Err(refusal.into()),
    }
}

pub(super) async fn signal(call: SwfCall, input: Map<String, Value>) -> Answer {
    let mut it: Tell = take(input)?;
    let (name, input) = (it.signal_name.take().unwrap_or_default(), payload(it.input.take())?);
    tell(&call, &it, Command::Signal { name, input, identity: None, key: None, if_version: None }).await
}

pub(super) async fn request_cancel(call: SwfCall, input: Map<String, Value>) -> Answer {
    let it: Tell = take(input)?;
    tell(&call, &it, Command::RequestCancel { reason: None, identity: None, key: None }).await
}

pub(super) async fn terminate(call: SwfCall, input: Map<String, Value>) -> Answer {
    let mut it: Tell = take(input)?;
    let (reason, details) = (it.reason.take(), payload(it.details.take())?);
    let child_policy = words::child_policy(it.child_policy.as_deref());
    tell(&call, &it, Command::Terminate { reason, details, child_policy, identity: None, key: None }).await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Execution {
    workflow_id: String,
    run_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    domain: String,
    execution: Execution,
    #[serde(flatten)]
    paging: Paging,
}

impl Read {
    fn at(&self) -> Result<RunRef, SwfFault> {
        let Execution { workflow_id, run_id } = &self.execution;
        let run_id = run_id.parse().map_err(|_| unknown_execution(workflow_id, Some(run_id)))?;
        Ok(RunRef {
            domain: self.domain.as_str().into(),
            workflow_id: workflow_id.as_str().into(),
            run_id: Some(run_id),
        })
    }

    fn refused(&self, refusal: Refusal) -> SwfFault {
        match refusal {
            Refusal::UnknownWorkflow { .. } | Refusal::UnknownRun { .. } => {
                unknown_execution(&self.execution.workflow_id, Some(&self.execution.run_id))
            }
            other => other.into(),
        }
    }
}

/// Returns whether any of these events may belong to a Lambda task. Only runs with a Lambda role can have Lambda tasks.
async fn has_lambda(call: &SwfCall, at: &RunRef, events: &[Event]) -> Result<bool, SwfFault> {
    if !events.iter().any(|event| events::activity_of(&event.kind).is_some()) {
        return Ok(false);
    }
    let role = match events.iter().find(|event| event.id == 1).map(|event| &event.kind) {
        Some(EventKind::WorkflowStarted(it)) => it.swf.as_ref().and_then(|swf| swf.lambda_role.clone()),
        _ => call.engine.views().describe(at).await?.run.started.swf.clone().and_then(|swf| swf.lambda_role),
    };
    Ok(role.is_some())
}

/// Maximum number of bytes of earlier events that are read at once. Our choice: about the size that the store reads at
/// a time.
const RELATED_BYTES: usize = 64 * 1024;

/// Reads the facts about the run and its earlier events that are needed to render these events.
pub(super) async fn related(call: &SwfCall, at: &RunRef, events: &[Event]) -> Result<Related, SwfFault> {
    let mut related = Related::default();
    let needs_policy =
        |event: &Event| matches!(event.kind, EventKind::WorkflowTerminated(_) | EventKind::WorkflowTimedOut(_));
    if events.iter().any(needs_policy) {
        let started = call.engine.views().describe(at).await?.run.started;
        related.child_policy = started.swf.as_ref().map(|swf| swf.child_policy).unwrap_or_default();
    }
    let wanted = events::wanted(events, has_lambda(call, at, events).await?);
    let of_page = events.iter().filter(|event| wanted.contains(&event.id)).cloned().map(without_payload);
    related.events = of_page.map(|event| (event.id, event)).collect();
    for id in &wanted {
        if !related.events.contains_key(id) {
            // Further needed events often follow closely. They are read together with this one.
            let page = EventRange { after: id.saturating_sub(1), bytes_max: RELATED_BYTES, ..EventRange::default() };
            let found = call.engine.views().history(at, &page).await?.events.into_iter();
            let found = found.filter(|event| wanted.contains(&event.id)).map(without_payload);
            related.events.extend(found.map(|event| (event.id, event)));
        }
    }
    if !call.caller.sees_payloads(&at.domain) {
        for event in related.events.values_mut() {
            event.kind.redact_payloads();
        }
    }
    Ok(related)
}

/// Removes the payload of an earlier event, because the payload is not rendered.
fn without_payload(mut event: Event) -> Event {
    if let Some(payload) = event.kind.payload_mut() {
        *payload = Payload::from_trusted("null");
    }
    event
}

/// Renders the events of a page. Returns them with the position where the next page begins. Rendering makes payloads
/// larger, because they become strings with additional escapes. If not all events fit on the page, the remaining ones
/// are left to the next page. A page has at least one event.
pub(super) async fn render_events(
    call: &SwfCall,
    at: &RunRef,
    events: &[Event],
    next: Option<u64>,
) -> Result<(Vec<Value>, Option<u64>), SwfFault> {
    let related = related(call, at, events).await?;
    let (mut rendered, mut bytes) = (Vec::new(), 0);
    let mut last = None;
    for event in events {
        let value = events::event(event, &related);
        bytes += history::event::json_length(&value) + 1;
        if bytes > PAGE_BYTES_MAX && last.is_some() {
            return Ok((rendered, last));
        }
        rendered.push(value);
        last = Some(event.id);
    }
    Ok((rendered, next))
}

pub(super) async fn history(call: SwfCall, input: Map<String, Value>) -> Answer {
    let it: Read = take(input)?;
    let at = it.at()?;
    let (reverse, limit) = (it.paging.is_reverse(), it.paging.size());
    let leaves_payloads_out = !call.caller.sees_payloads(&it.domain);
    let mut page = EventRange { reverse, limit, leaves_payloads_out, ..EventRange::default() };
    let scope = [&*it.domain, &it.execution.workflow_id, &it.execution.run_id];
    if let Some(place) = it.paging.place(PageKind::History, &call.engine, &scope)? {
        let cursor = place.parse().map_err(|_| invalid_token())?;
        if page.reverse { page.before = Some(cursor) } else { page.after = cursor }
    }
    let _making = call.budget.page().await?;
    let mut found = call.engine.views().history(&at, &page).await.map_err(|refusal| it.refused(refusal))?;
    call.caller.shown(&at.domain, &mut found.events);
    let (events, next) = render_events(&call, &at, &found.events, found.next).await?;
    let next = next.map(|next| PageKind::History.token(&call.engine, &scope, next));
    body(&with_next(json!({ "events": events }), next))
}

/// Returns SWF's word for the close status of a run; `None` for an open run.
pub(super) fn close_status(status: Status) -> Option<&'static str> {
    match status {
        Status::Open => None,
        Status::Success => Some("COMPLETED"),
        Status::Failed => Some("FAILED"),
        Status::Canceled => Some("CANCELED"),
        Status::TimedOut => Some("TIMED_OUT"),
        Status::Terminated => Some("TERMINATED"),
        Status::ContinuedAsNew => Some("CONTINUED_AS_NEW"),
    }
}

/// Renders the information about a run that lists and descriptions contain.
pub(super) fn info(run: &Run) -> Value {
    let started = &run.started;
    let mut info = json!({
        "execution": execution(&started.workflow_id, started.run_id),
        "workflowType": shown(&started.workflow_type),
        "startTimestamp": instant(started.at),
        "executionStatus": if run.is_open() { "OPEN" } else { "CLOSED" },
        // For a canceled run, AWS SWF reports false.
        "cancelRequested": run.cancel_requested && run.status != Status::Canceled,
    });
    set(&mut info, "closeTimestamp", run.closed_at.map(instant));
    set(&mut info, "closeStatus", close_status(run.status));
    set(&mut info, "parent", started.parent.as_ref().map(|parent| execution(&parent.workflow_id, parent.run_id)));
    set(&mut info, "tagList", Some(&started.tags).filter(|tags| !tags.is_empty()));
    info
}

/// Returns the newest execution context of a run, from the event that contains it. No other event is read.
async fn latest_context(call: &SwfCall, at: &RunRef, run: &Run) -> Result<Option<String>, SwfFault> {
    let Some(id) = run.context_event_id else { return Ok(None) };
    let page = EventRange { after: id.saturating_sub(1), limit: 1, ..EventRange::default() };
    let found = call.engine.views().history(at, &page).await?;
    Ok(found.events.iter().find_map(|event| match &event.kind {
        EventKind::DeciderCompleted(it) => it.context.as_ref().map(text),
        _ => None,
    }))
}

pub(super) async fn describe(call: SwfCall, input: Map<String, Value>) -> Answer {
    let it: Read = take(input)?;
    let at = it.at()?;
    let run = call.engine.views().describe(&at).await.map_err(|refusal| it.refused(refusal))?.run;
    let latest_context = call.caller.payload(&at.domain, latest_context(&call, &at, &run).await?);
    let counts = run.open_counts();
    let (started, swf) = (&run.started, run.started.swf.clone().unwrap_or_default());
    let mut configuration = json!({
        "taskStartToCloseTimeout": seconds(started.decider_start_to_close),
        "executionStartToCloseTimeout": seconds(started.execution_timeout),
        "taskList": list(&started.task_list),
        "taskPriority": swf.task_priority.unwrap_or_default().to_string(),
        "childPolicy": policy(swf.child_policy),
    });
    set(&mut configuration, "lambdaRole", swf.lambda_role);
    let has_turn = run.turn.is_some() || run.turn_task.is_some();
    let mut described = json!({
        "executionInfo": info(&run),
        "executionConfiguration": configuration,
        "openCounts": {
            "openActivityTasks": counts.activities,
            "openDecisionTasks": u8::from(has_turn),
            "openTimers": counts.timers,
            "openChildWorkflowExecutions": counts.children,
            "openLambdaFunctions": counts.functions,
        },
    });
    set(&mut described, "latestActivityTaskTimestamp", run.last_activity_at.map(instant));
    set(&mut described, "latestExecutionContext", latest_context);
    body(&described)
}

/// Returns a reference to the run that a task token belongs to.
pub(super) fn run_ref(domain: &Arc<str>, workflow_id: &Arc<str>, run_id: Uuid) -> RunRef {
    RunRef { domain: Arc::clone(domain), workflow_id: Arc::clone(workflow_id), run_id: Some(run_id) }
}
