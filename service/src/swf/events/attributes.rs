//! Names and attributes of an event while it is rendered, including attributes from earlier events.

use std::collections::BTreeMap;

use history::event::ChildPolicy;
use history::{Event, EventId, EventKind, Origin, Payload};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::swf::types::shown;
use crate::swf::words::set;

/// Earlier events of the same run that an event is rendered with.
#[derive(Default)]
pub(in crate::swf) struct Related {
    /// Policy for the run's children.
    pub(in crate::swf) child_policy: ChildPolicy,
    /// Events by id.
    pub(in crate::swf) events: BTreeMap<EventId, Event>,
}

/// Returns the text of a payload: the characters of a string, otherwise its JSON.
pub(in crate::swf) fn text(payload: &Payload) -> String {
    payload.read().unwrap_or_else(|_| payload.text().unwrap_or_default().to_owned())
}

/// Renders a reference to a run.
pub(in crate::swf) fn execution(workflow_id: &str, run_id: Uuid) -> Value {
    json!({ "workflowId": workflow_id, "runId": run_id.to_string() })
}

/// Attributes that are being collected.
pub(super) struct Attributes(pub(super) Value);

impl Attributes {
    pub(super) fn with(mut self, name: &str, value: impl serde::Serialize) -> Self {
        set(&mut self.0, name, Some(value));
        self
    }

    pub(super) fn maybe(mut self, name: &str, value: Option<impl serde::Serialize>) -> Self {
        set(&mut self.0, name, value);
        self
    }

    pub(super) fn text(self, name: &str, payload: Option<&Payload>) -> Self {
        self.maybe(name, payload.map(text))
    }

    /// Adds the run and event of an origin, with event id 0 if there is none.
    pub(super) fn origin(self, origin: Option<&Origin>) -> Self {
        self.maybe("externalWorkflowExecution", origin.map(|it| execution(&it.workflow_id, it.run_id)))
            .with("externalInitiatedEventId", origin.map_or(0, |it| it.event_id))
    }

    /// Adds the child's run, type and events.
    pub(super) fn child(self, related: &Related, workflow_id: &str, run_id: Uuid, scheduled_event_id: EventId) -> Self {
        let scheduled = related.events.get(&scheduled_event_id).map(|event| &event.kind);
        let kind = match scheduled {
            Some(EventKind::ChildScheduled(it)) => it.workflow_type.as_str(),
            _ => "",
        };
        self.with("workflowExecution", execution(workflow_id, run_id))
            .with("workflowType", shown(kind))
            .with("initiatedEventId", scheduled_event_id)
    }
}

/// Name of an event, and its attributes.
pub(super) type Words = (&'static str, Attributes);

/// Returns empty attributes.
pub(super) fn none() -> Attributes {
    Attributes(json!({}))
}

/// Returns the attributes of an event that a turn decided.
pub(super) fn decided(id: EventId) -> Attributes {
    none().with("decisionTaskCompletedEventId", id)
}

/// Returns the attributes of a task's event: the events that scheduled and started it, or 0.
pub(super) fn of_task(scheduled: EventId, started: EventId) -> Attributes {
    none().with("scheduledEventId", scheduled).with("startedEventId", started)
}

/// Returns the reason of a failure, which may be empty or absent.
pub(super) fn reason(reason: &str, has_empty_reason: bool) -> Option<&str> {
    Some(reason).filter(|reason| has_empty_reason || !reason.is_empty())
}

/// Formats a priority.
pub(super) fn priority(priority: Option<i32>) -> Option<String> {
    priority.map(|priority| priority.to_string())
}
