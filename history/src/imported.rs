//! Import of runs recorded by another service: validation of a history before it is stored unchanged.

use uuid::Uuid;

use crate::check::{self, Violation};
use crate::event::{Event, EventId, EventKind, WorkflowStarted, activity_names, take_activity_name};
use crate::fault::Fault;
use crate::limits;
use crate::payload::Payload;
use crate::run::Run;
use crate::same_json::{Member, members, same_json};
use crate::time::{Duration, Timestamp};
use crate::validate;

/// Approximate size of an event without its payload, in bytes. The sum over all events limits the size of a history.
/// Source: the size counted for [`limits::RESET_BYTES_MAX`].
const EVENT_BYTES: usize = 64;

/// A closed run of another service whose history has been validated.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    run: Run,
    events: Vec<Event>,
}

/// Reason why a history cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportFault {
    /// There are no events.
    #[error("there are no events; a history begins with WorkflowStarted")]
    Empty,
    /// An event cannot be read.
    #[error("event {position} cannot be read: {problem}")]
    Unreadable {
        /// Position of the event, counted from 1.
        position: usize,
        /// Description of the error.
        problem: String,
    },
    /// Storing the event would lose or change a part of it.
    #[error(
        "event {position} would be changed by the import: \
         this version does not know its `{member}`, or writes it differently"
    )]
    Unknown {
        /// Position of the event, counted from 1.
        position: usize,
        /// Name of the affected field.
        member: String,
    },
    /// The history violates a rule.
    #[error(transparent)]
    Broken(#[from] Violation),
    /// The run is open. Only closed runs can be imported.
    #[error("the run is open: its last event, {event_id}, does not close it; only closed runs can be imported")]
    Open {
        /// Id of the last event.
        event_id: EventId,
    },
    /// The last event has a time in the future.
    #[error("event {event_id} has the time {at}, but the clock of this service shows {now}")]
    Future {
        /// Id of the last event.
        event_id: EventId,
        /// Timestamp of the last event.
        at: Timestamp,
        /// Time of this service's clock.
        now: Timestamp,
    },
    /// The history is too large.
    #[error("the history has about {found} bytes, at most {max} can be imported")]
    TooLarge {
        /// Approximate size of the history in bytes.
        found: usize,
        /// Value of the limit.
        max: usize,
    },
    /// A field of an event is invalid.
    #[error("event {event_id}: {fault}")]
    Field {
        /// Id of the event.
        event_id: EventId,
        /// Description of the error.
        fault: Fault,
    },
}

impl ImportedRun {
    /// Reads a run from the JSON of its events, and checks that writing the events again would yield the same JSON.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read), [`ImportFault::Unreadable`] and [`ImportFault::Unknown`].
    pub fn from_json<'a>(texts: impl IntoIterator<Item = &'a str>, now: Timestamp) -> Result<Self, ImportFault> {
        let events = texts.into_iter().zip(1..).map(|(text, position)| read_event(text, position));
        Self::read(events.collect::<Result<_, _>>()?, now)
    }

    /// Validates a whole history that was recorded before `now`.
    ///
    /// # Errors
    ///
    /// Returns an [`ImportFault`] if the history violates a rule, the run is open, or a limit is exceeded.
    pub fn read(mut events: Vec<Event>, now: Timestamp) -> Result<Self, ImportFault> {
        let bytes_of = |event: &Event| EVENT_BYTES + event.kind.payload().map_or(0, Payload::len);
        let (found, max) = (events.iter().map(bytes_of).sum(), limits::IMPORTED_BYTES_MAX);
        if found > max {
            return Err(ImportFault::TooLarge { found, max });
        }
        check::history(&events)?;
        take_activity_names(&mut events)?;
        // Forget the requests of the run, except the request that started the run. Requests are remembered for a day,
        // and only by the service that recorded them.
        let run = Run::replay(&events).ok_or(ImportFault::Empty)?;
        let run = Run { successes: run.successes.clone(), ..run.history_derived() };
        for event in &events {
            acceptable(event).map_err(|fault| ImportFault::Field { event_id: event.id, fault })?;
        }
        let (event_id, at) = (run.last_event_id, run.last_timestamp);
        if run.is_open() {
            return Err(ImportFault::Open { event_id });
        }
        if at > now.plus(limits::IMPORTED_AHEAD_MAX) {
            return Err(ImportFault::Future { event_id, at, now });
        }
        Ok(Self { run, events })
    }

    /// Returns the state of the run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the workflow id.
    pub fn workflow_id(&self) -> &str {
        &self.run.started.workflow_id
    }

    /// Returns the run id.
    pub fn run_id(&self) -> Uuid {
        self.run.started.run_id
    }

    /// Returns the whole history.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns `true` if the run's history has these events at this position, ignoring the formatting of payloads.
    pub fn has_events_at(&self, place: usize, events: &[Event]) -> bool {
        let own = self.events.get(place..).and_then(|rest| rest.get(..events.len()));
        own.is_some_and(|own| own.iter().zip(events).all(|(own, other)| says_the_same(own, other)))
    }

    /// Returns the time until which the run is kept if it is imported at `now`. Retention counts from the close of the
    /// run. The run is nevertheless kept for at least [`limits::IMPORTED_KEPT_MIN`], so that it does not expire at
    /// once.
    pub fn kept_until(&self, now: Timestamp) -> Timestamp {
        let kept: Duration = limits::IMPORTED_KEPT_MIN;
        self.run.expires_at().map_or(now, |at| at.max(now.plus(kept)))
    }
}

fn says_the_same(one: &Event, other: &Event) -> bool {
    let same_texts = || {
        let [one, other] = [one, other].map(|event| serde_json::to_string(event).ok());
        one.zip(other).is_some_and(|(one, other)| same_json(&one, &other))
    };
    one == other || same_texts()
}

/// Removes the activity ids that the REST API adds to events. Each id is checked before it is removed. Stored events do
/// not contain the id, so a wrong id would otherwise be lost unnoticed.
fn take_activity_names(events: &mut [Event]) -> Result<(), ImportFault> {
    let names = activity_names(&*events);
    for event in events {
        if let Some((scheduled_event_id, found)) = take_activity_name(event) {
            let expected = names.get(&scheduled_event_id).map(String::as_str).unwrap_or_default();
            if *found != *expected {
                let problem = format!("is `{found}`, event {scheduled_event_id} has `{expected}`");
                let fault = Fault::Invalid { field: "activityId".to_owned(), problem };
                return Err(ImportFault::Field { event_id: event.id, fault });
            }
        }
    }
    Ok(())
}

fn read_event(text: &str, position: usize) -> Result<Event, ImportFault> {
    // The comparison below needs many times the memory of the text if the text consists of many small values.
    let (found, max) = (text.len(), limits::IMPORTED_EVENT_BYTES_MAX);
    if found > max {
        let problem = format!("it has {found} bytes, at most {max} are allowed");
        return Err(ImportFault::Unreadable { position, problem });
    }
    let unreadable = |error: serde_json::Error| ImportFault::Unreadable { position, problem: error.to_string() };
    let event = Event::from_json(text).map_err(unreadable)?;
    let written = serde_json::to_string(&event).map_err(unreadable)?;
    if written != text {
        let not_an_object = || ImportFault::Unreadable { position, problem: "it is not an object".to_owned() };
        let given = members(text).ok_or_else(not_an_object)?;
        let written = members(&written).ok_or_else(not_an_object)?;
        if let Some(name) = odd_member(&given, &written) {
            let member = String::from_utf8_lossy(name).into_owned();
            return Err(ImportFault::Unknown { position, member });
        }
    }
    Ok(event)
}

/// Returns the name of a field that is in only one of the lists, or that has different values in the two lists. Both
/// lists are sorted by name.
fn odd_member<'a>(given: &'a [Member<'_>], written: &'a [Member<'_>]) -> Option<&'a [u8]> {
    let pairs = given.iter().zip(written);
    let differs = |((name, one), (of, other)): &(&Member<'_>, &Member<'_>)| name != of || !same_json(one, other);
    let odd = pairs.clone().find(differs).map(|((name, _), (of, _))| name.min(of));
    let beyond = || given.get(written.len()).or_else(|| written.get(given.len())).map(|(name, _)| name);
    odd.or_else(beyond).map(Vec::as_slice)
}

/// Checks the fields that stores use as keys or that lists of runs show, and the size of the payload. The limits are
/// the same as for new runs.
fn acceptable(event: &Event) -> Result<(), Fault> {
    if let EventKind::WorkflowStarted(started) = &event.kind {
        let WorkflowStarted { workflow_id, workflow_type, task_list, tags, retention, swf, .. } = &**started;
        validate::name("workflowId", workflow_id)?;
        validate::type_name("workflowType", workflow_type)?;
        validate::name("taskList", task_list)?;
        validate::tags("tags", tags, swf.is_some())?;
        validate::span("retention", *retention)?;
    }
    validate::payload("payload", event.kind.payload())
}

#[cfg(test)]
mod tests;
