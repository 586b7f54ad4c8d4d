//! The window: the part of the history that a turn has to process.

use baton_history::event::{activity_names, name_activities};
use baton_history::{Event, EventId, EventKind, Payload, Tally, Timestamp, TraceContext};
use uuid::Uuid;

/// Window of a turn: the events from the DeciderStarted of the last completed turn (or event 1) to this turn's own
/// DeciderStarted, both included. The window contains no events after this turn's DeciderStarted.
#[derive(Debug, Clone)]
pub struct Window {
    /// Workflow id.
    pub workflow_id: String,
    /// Run id.
    pub run_id: Uuid,
    /// Workflow type.
    pub workflow_type: String,
    /// Attempt number: 1, plus one for every preceding consecutive turn that failed or timed out.
    pub attempt: u32,
    /// Id of this turn's DeciderStarted event.
    pub started_event_id: EventId,
    /// Id of the DeciderStarted event of the last completed turn; 0 for the first turn.
    pub previous_started_event_id: EventId,
    /// Events, oldest first.
    pub events: Vec<Event>,
    /// Context that the last completed turn stored with [`Decisions::context`](crate::Decisions::context).
    pub context: Option<Payload>,
    /// Parent span for the decider in the run's trace, or `None` if the run is not traced. Do not base decisions on it,
    /// because it is not part of the history.
    pub trace: Option<TraceContext>,
}

/// Adds the names of activities to the events of a window, as the service does.
pub(crate) fn with_activity_names(history: &[Event], mut events: Vec<Event>) -> Vec<Event> {
    // Events before the window are searched only if an event of the window refers to them.
    let names = activity_names(&events);
    if !name_activities(&mut events, &names).is_empty() {
        name_activities(&mut events, &activity_names(history));
    }
    events
}

impl Window {
    /// Builds the window of the next turn of a history, as a decider would receive it if it polled at the end of this
    /// history. Use it in tests.
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

    /// Returns the time of this turn's DeciderStarted. This is a decider's only clock.
    pub fn now(&self) -> Timestamp {
        self.events.last().map(|event| event.timestamp).unwrap_or_default()
    }

    /// Returns whether no turn of this run has been completed yet.
    pub fn is_first_turn(&self) -> bool {
        self.previous_started_event_id == 0
    }

    /// Returns the events that no completed turn has seen: the window without the DeciderStarted at its beginning.
    pub fn new_events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.id > self.previous_started_event_id)
    }

    /// Returns the run's input if the window begins with event 1.
    pub fn input(&self) -> Option<&Payload> {
        self.events.iter().find_map(|event| match &event.kind {
            EventKind::WorkflowStarted(it) => it.input.as_ref(),
            _ => None,
        })
    }

    /// Returns the name and the input of each signal among the new events.
    pub fn signals(&self) -> impl Iterator<Item = (&str, Option<&Payload>)> {
        self.new_events().filter_map(|event| match &event.kind {
            EventKind::Signal(it) => Some((it.name.as_str(), it.input.as_ref())),
            _ => None,
        })
    }

    /// Returns whether the run's cancellation was requested since the last completed turn.
    pub fn is_cancel_requested(&self) -> bool {
        self.new_events().any(|event| matches!(event.kind, EventKind::WorkflowCancelRequested(_)))
    }

    /// Returns whether the window contains the scheduling of an activity with this id, e.g. by the previous turn, whose
    /// decisions are part of the window.
    pub fn has_scheduled(&self, activity_id: &str) -> bool {
        self.events.iter().any(|event| match &event.kind {
            EventKind::ActivityScheduled(it) => it.activity_id == activity_id,
            _ => false,
        })
    }

    /// Returns the activities scheduled in the window, and whether the window also contains their start and their
    /// close.
    pub fn tally(&self) -> Tally {
        Tally::of(&self.events)
    }
}
