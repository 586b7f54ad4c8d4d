//! The SWF name and attributes of an event that is being rendered. Some attributes come from earlier events.

use std::collections::BTreeMap;

use history::event::ChildPolicy;
use history::{Event, EventId, EventKind, Origin, Payload};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::swf::types::shown;
use crate::swf::words::set;

/// Facts about the run and its earlier events, which are needed to render further events.
#[derive(Default)]
pub(in crate::swf) struct Related {
    /// Child policy of the run.
    pub(in crate::swf) child_policy: ChildPolicy,
    /// Earlier events by id.
    pub(in crate::swf) events: BTreeMap<EventId, Event>,
}

/// Returns the text of a payload. If the payload is a JSON string, its content is the text; otherwise its JSON form is
/// the text.
pub(in crate::swf) fn text(payload: &Payload) -> String {
    payload.read().unwrap_or_else(|_| payload.text().unwrap_or_default().to_owned())
}

/// Renders a reference to a run in SWF's format.
pub(in crate::swf) fn execution(workflow_id: &str, run_id: Uuid) -> Value {
    json!({ "workflowId": workflow_id, "runId": run_id.to_string() })
}

/// SWF attributes of an event, while they are collected.
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

    /// Adds the run that caused the event, and the id of the causing event in that run. The id is 0 if no run caused
    /// the event.
    pub(super) fn origin(self, origin: Option<&Origin>) -> Self {
        self.maybe("externalWorkflowExecution", origin.map(|it| execution(&it.workflow_id, it.run_id)))
            .with("externalInitiatedEventId", origin.map_or(0, |it| it.event_id))
    }

    /// Adds the run of a child, its workflow type, and the id of the event that scheduled the child.
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

/// SWF name of an event, and its attributes.
pub(super) type Words = (&'static str, Attributes);

/// Returns empty attributes.
pub(super) fn none() -> Attributes {
    Attributes(json!({}))
}

/// Returns attributes with the id of the DeciderCompleted event of the turn in which the decision was made.
pub(super) fn decided(id: EventId) -> Attributes {
    none().with("decisionTaskCompletedEventId", id)
}

/// Returns attributes with the ids of the events that scheduled and started a task. The id of an event that does not
/// exist is 0.
pub(super) fn of_task(scheduled: EventId, started: EventId) -> Attributes {
    none().with("scheduledEventId", scheduled).with("startedEventId", started)
}

/// Returns the reason of a failure. An empty reason usually means that there is none, and `None` is returned. If
/// `has_empty_reason` is true, an empty reason is returned as such.
pub(super) fn reason(reason: &str, has_empty_reason: bool) -> Option<&str> {
    Some(reason).filter(|reason| has_empty_reason || !reason.is_empty())
}

/// Formats a task priority.
pub(super) fn priority(priority: Option<i32>) -> Option<String> {
    priority.map(|priority| priority.to_string())
}
