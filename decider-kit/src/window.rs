//! What a turn must look at.

use baton_history::event::{activity_names, name_activities};
use baton_history::{Event, EventId, EventKind, Payload, Tally, Timestamp, TraceContext};
use uuid::Uuid;

/// The window of a turn: from the DeciderStarted of the last completed turn (or event 1) to this turn's own, both
/// included. Nothing in it is later than the turn.
#[derive(Debug, Clone)]
pub struct Window {
    /// The workflow id.
    pub workflow_id: String,
    /// The run.
    pub run_id: Uuid,
    /// The workflow type.
    pub workflow_type: String,
    /// 1, and one more for every turn in a row that failed or timed out before this one.
    pub attempt: u32,
    /// The turn's DeciderStarted.
    pub started_event_id: EventId,
    /// The DeciderStarted of the last completed turn; 0 when this is the first.
    pub previous_started_event_id: EventId,
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// What the last completed turn left with [`Decisions::context`](crate::Decisions::context).
    pub context: Option<Payload>,
    /// What the decider is below, in the trace of the run; `None` where the run belongs to none. Nothing to decide by: it is not in
    /// the history.
    pub trace: Option<TraceContext>,
}

/// The events of a window as the service gives them: with the names of activities.
pub(crate) fn with_activity_names(history: &[Event], mut events: Vec<Event>) -> Vec<Event> {
    // What is older than the window is looked up only if an event of the window refers to it.
    let names = activity_names(&events);
    if !name_activities(&mut events, &names).is_empty() {
        name_activities(&mut events, &activity_names(history));
    }
    events
}

impl Window {
    /// The window of the next turn of a history: what a decider would be given if it polled now. For tests.
    pub fn of_history(events: &[Event]) -> Self {
        let started_event_id = events.last().map_or(0, |event| event.id);
        let completed = events.iter().rev().find_map(|event| match &event.kind {
            EventKind::DeciderCompleted(it) => Some(it.clone()),
            _ => None,
        });
        let previous = completed.as_ref().map_or(0, |it| it.started_event_id);
        let started = events.first().and_then(|event| match &event.kind {
            EventKind::WorkflowStarted(it) => Some(it.clone()),
            _ => None,
        });
        Self {
            workflow_id: started.as_ref().map(|it| it.workflow_id.clone()).unwrap_or_default(),
            run_id: started.as_ref().map(|it| it.run_id).unwrap_or_default(),
            workflow_type: started.map(|it| it.workflow_type).unwrap_or_default(),
            attempt: 1,
            started_event_id,
            previous_started_event_id: previous,
            events: with_activity_names(events, events.iter().filter(|event| event.id >= previous).cloned().collect()),
            context: completed.and_then(|it| it.context),
            trace: None,
        }
    }

    /// The time of this turn: that of its DeciderStarted. The only clock that a decider has.
    pub fn now(&self) -> Timestamp {
        self.events.last().map(|event| event.timestamp).unwrap_or_default()
    }

    /// Whether no turn of this run has been completed yet.
    pub fn is_first_turn(&self) -> bool {
        self.previous_started_event_id == 0
    }

    /// The events that no completed turn has seen: the window without the DeciderStarted that it begins with.
    pub fn new_events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.id > self.previous_started_event_id)
    }

    /// The run's input, where the window begins with event 1.
    pub fn input(&self) -> Option<&Payload> {
        self.events.iter().find_map(|event| match &event.kind {
            EventKind::WorkflowStarted(it) => it.input.as_ref(),
            _ => None,
        })
    }

    /// The signals among the new events: name and input.
    pub fn signals(&self) -> impl Iterator<Item = (&str, Option<&Payload>)> {
        self.new_events().filter_map(|event| match &event.kind {
            EventKind::Signal(it) => Some((it.name.as_str(), it.input.as_ref())),
            _ => None,
        })
    }

    /// Whether somebody asked for the run to be canceled since the last completed turn.
    pub fn is_cancel_requested(&self) -> bool {
        self.new_events().any(|event| matches!(event.kind, EventKind::WorkflowCancelRequested(_)))
    }

    /// Whether an activity with this id was scheduled within the window, e.g. by the turn before this one, whose
    /// decisions the window holds.
    pub fn has_scheduled(&self, activity_id: &str) -> bool {
        self.events.iter().any(|event| match &event.kind {
            EventKind::ActivityScheduled(it) => it.activity_id == activity_id,
            _ => false,
        })
    }

    /// The activities that the window schedules, counted: scheduled, started, closed.
    pub fn tally(&self) -> Tally {
        Tally::of(&self.events)
    }
}
