//! Reads the events that are returned with a decider task: the window, or the first page of the whole history.

use history::event::DeciderCompleted;
use history::{Event, EventId, EventKind, Payload};

use crate::Refusal;
use crate::commit::read::{Room, RunEvents};
use crate::lists::polls::TaskEvents;
use crate::tasks::Tasks;

/// Events and context for a decider task.
pub(super) struct ReadEvents {
    pub(super) events: Vec<Event>,
    /// Size of the events as JSON, in bytes.
    pub(super) bytes: usize,
    /// Value of [`DeciderTask::next`](crate::DeciderTask::next).
    pub(super) next: Option<EventId>,
    /// Context that the decider of the last completed turn stored.
    pub(super) context: Option<Payload>,
}

impl Tasks {
    /// Reads the context and the events of a task up to event `last`. Appends the events in `shown`, which are not
    /// recorded yet.
    pub(super) async fn read_events(
        &self,
        source: &RunEvents<'_>,
        asked: TaskEvents,
        (previous, last): (EventId, EventId),
        shown: &[Event],
    ) -> Result<ReadEvents, Refusal> {
        let window = previous.max(1);
        let first = if asked.is_full { 1 } else { window };
        let shown_bytes: usize = shown.iter().map(|event| event.json_bytes() + 1).sum();
        let (events, bytes) =
            (asked.max.saturating_sub(shown.len()).max(1), asked.bytes_max.saturating_sub(shown_bytes));
        let (ids, room) = (first..last + 1, Room { events, bytes });
        let (mut events, mut bytes) = if asked.is_full {
            self.reader.read_first(source, ids, room).await?
        } else {
            self.reader.read_range(source, ids, room).await?
        };
        let next = events.last().map(|event| event.id).filter(|newest| *newest < last);
        if next.is_none() {
            events.extend_from_slice(shown);
            bytes += shown_bytes;
        }
        let context = match completed(&events, previous) {
            Some(completed) => completed.context.clone(),
            None if previous == 0 => None,
            None => {
                let read = if next.is_some() { last + 1 } else { events.first().map_or(window, |event| event.id) };
                self.read_context(source, window, read).await?
            }
        };
        if asked.names_activities {
            self.reader.name_activities(source, &mut events).await?;
        }
        Ok(ReadEvents { events, bytes, next, context })
    }

    /// Reads the context of the last completed turn. Needed if the event with the context is in the window but not
    /// among the events that are returned with the task.
    async fn read_context(
        &self,
        source: &RunEvents<'_>,
        first: EventId,
        before: EventId,
    ) -> Result<Option<Payload>, Refusal> {
        let is_its_end = |event: &Event| completed(std::slice::from_ref(event), first).is_some();
        let found = self.reader.find(source, first..before, is_its_end).await?;
        Ok(found.as_slice().iter().find_map(|event| completed(std::slice::from_ref(event), first)?.context.clone()))
    }
}

/// Returns the DeciderCompleted event of the turn with this DeciderStarted event, if it is among the events.
fn completed(events: &[Event], started_event_id: EventId) -> Option<&DeciderCompleted> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::DeciderCompleted(it) if it.started_event_id == started_event_id => Some(it),
        _ => None,
    })
}
