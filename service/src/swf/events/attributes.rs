//! What an event says, while it is gathered: names of the wire, and what it has to say of other events.

use std::collections::BTreeMap;

use history::event::ChildPolicy;
use history::{Event, EventId, EventKind, Origin, Payload};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::swf::types::shown;
use crate::swf::words::set;

/// Earlier events of the same run that an event is told with.
#[derive(Default)]
pub(in crate::swf) struct Related {
    /// What becomes of the run's children.
    pub(in crate::swf) child_policy: ChildPolicy,
    /// By their ids.
    pub(in crate::swf) events: BTreeMap<EventId, Event>,
}

/// The text of a payload: a string's own characters, anything else as JSON.
pub(in crate::swf) fn text(payload: &Payload) -> String {
    payload.read().unwrap_or_else(|_| payload.text().unwrap_or_default().to_owned())
}

/// A run as the wire names it.
pub(in crate::swf) fn execution(workflow_id: &str, run_id: Uuid) -> Value {
    json!({ "workflowId": workflow_id, "runId": run_id.to_string() })
}

/// Attributes while they are gathered.
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

    /// Where it came from; 0 when it came from no run.
    pub(super) fn origin(self, origin: Option<&Origin>) -> Self {
        self.maybe("externalWorkflowExecution", origin.map(|it| execution(&it.workflow_id, it.run_id)))
            .with("externalInitiatedEventId", origin.map_or(0, |it| it.event_id))
    }

    /// The child's run, type and events.
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

/// An event's name, and what it says.
pub(super) type Words = (&'static str, Attributes);

/// No attributes yet.
pub(super) fn none() -> Attributes {
    Attributes(json!({}))
}

/// Of an event that a turn decided.
pub(super) fn decided(id: EventId) -> Attributes {
    none().with("decisionTaskCompletedEventId", id)
}

/// Of an event of a task: where it was scheduled and started, 0 where it never was.
pub(super) fn of_task(scheduled: EventId, started: EventId) -> Attributes {
    none().with("scheduledEventId", scheduled).with("startedEventId", started)
}

/// The reason of a failure. An empty one may have been given, or none.
pub(super) fn reason(reason: &str, has_empty_reason: bool) -> Option<&str> {
    Some(reason).filter(|reason| has_empty_reason || !reason.is_empty())
}

/// A priority, as the wire has it.
pub(super) fn priority(priority: Option<i32>) -> Option<String> {
    priority.map(|priority| priority.to_string())
}
