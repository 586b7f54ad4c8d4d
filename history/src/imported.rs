//! Runs that another service has recorded: what must hold of a history before it is taken over as it is.

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

/// What an event takes beside its payload, about, where the size of a history is counted. Source: [`limits::RESET_BYTES_MAX`].
const EVENT_BYTES: usize = 64;

/// A closed run of another service, whose history keeps the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    run: Run,
    events: Vec<Event>,
}

/// Why a history is not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportFault {
    /// There are no events.
    #[error("there are no events; a history begins with WorkflowStarted")]
    Empty,
    /// An event cannot be read.
    #[error("event {position} cannot be read: {problem}")]
    Unreadable {
        /// Where it stands, from 1 on.
        position: usize,
        /// What is wrong.
        problem: String,
    },
    /// An event has something that this version would lose, or write otherwise.
    #[error(
        "event {position} would not be kept as it is: this version does not know its `{member}`, or writes it otherwise"
    )]
    Unknown {
        /// Where it stands, from 1 on.
        position: usize,
        /// Of which member that is so.
        member: String,
    },
    /// It is not what the rules record.
    #[error(transparent)]
    Broken(#[from] Violation),
    /// The run has not closed.
    #[error("the run is open: its last event, {event_id}, closes nothing; only closed runs are taken over")]
    Open {
        /// The last event.
        event_id: EventId,
    },
    /// It has events of a time to come.
    #[error("event {event_id} is of {at}, and the clock of this service says {now}")]
    Future {
        /// The last event.
        event_id: EventId,
        /// When it was recorded.
        at: Timestamp,
        /// What the clock says.
        now: Timestamp,
    },
    /// It is larger than a run may be that is taken over.
    #[error("the history has about {found} bytes, at most {max} are taken over")]
    TooLarge {
        /// How many it has.
        found: usize,
        /// How many it may have.
        max: usize,
    },
    /// A field of an event is not acceptable.
    #[error("event {event_id}: {fault}")]
    Field {
        /// The event.
        event_id: EventId,
        /// What is wrong.
        fault: Fault,
    },
}

impl ImportedRun {
    /// The same, of the JSON of its events. What is read is what would be written again, whatever stands between its members.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read); [`ImportFault::Unreadable`] and [`ImportFault::Unknown`].
    pub fn from_json<'a>(texts: impl IntoIterator<Item = &'a str>, now: Timestamp) -> Result<Self, ImportFault> {
        let events = texts.into_iter().zip(1..).map(|(text, position)| read_event(text, position));
        Self::read(events.collect::<Result<_, _>>()?, now)
    }

    /// The run with this whole history, which was recorded before `now`.
    ///
    /// # Errors
    ///
    /// [`ImportFault`]: it could not have come from the rules, is of an open run, or is more than is taken over.
    pub fn read(mut events: Vec<Event>, now: Timestamp) -> Result<Self, ImportFault> {
        let bytes_of = |event: &Event| EVENT_BYTES + event.kind.payload().map_or(0, Payload::len);
        let (found, max) = (events.iter().map(bytes_of).sum(), limits::IMPORTED_BYTES_MAX);
        if found > max {
            return Err(ImportFault::TooLarge { found, max });
        }
        check::history(&events)?;
        take_activity_names(&mut events)?;
        // Of requests only that of the start is known on: the others are known for a day, and where they were made.
        let run = Run::replay(&events).ok_or(ImportFault::Empty)?;
        let run = Run { successes: run.successes.clone(), ..run.told() };
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

    /// The state that the history means.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Its workflow id.
    pub fn workflow_id(&self) -> &str {
        &self.run.started.workflow_id
    }

    /// Its run id.
    pub fn run_id(&self) -> Uuid {
        self.run.started.run_id
    }

    /// The whole history.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether these are its events from this place on: what they say, in whatever way payloads are written.
    pub fn has_events_at(&self, place: usize, events: &[Event]) -> bool {
        let own = self.events.get(place..).and_then(|rest| rest.get(..events.len()));
        own.is_some_and(|own| own.iter().zip(events).all(|(own, other)| says_the_same(own, other)))
    }

    /// Until when it is kept where it is taken over at `now`: its retention counts from its close, as in the service that it comes
    /// from, and it is there for [`limits::IMPORTED_KEPT_MIN`] at least, so that nobody takes over what is gone at once.
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

/// Takes out the names that events have which are read from the REST API. They are not stored, so a wrong one would
/// be lost unseen.
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
    // The comparison below takes many times as much memory as a text that is full of small values.
    let (found, max) = (text.len(), limits::IMPORTED_EVENT_BYTES_MAX);
    if found > max {
        let problem = format!("it has {found} bytes, at most {max} are allowed");
        return Err(ImportFault::Unreadable { position, problem });
    }
    let unreadable = |error: serde_json::Error| ImportFault::Unreadable { position, problem: error.to_string() };
    let event = Event::from_json(text).map_err(unreadable)?;
    let written = serde_json::to_string(&event).map_err(unreadable)?;
    if written != text {
        let not_an_object = || ImportFault::Unreadable { position, problem: "it is no object".to_owned() };
        let given = members(text).ok_or_else(not_an_object)?;
        let written = members(&written).ok_or_else(not_an_object)?;
        if let Some(name) = odd_member(&given, &written) {
            let member = String::from_utf8_lossy(name).into_owned();
            return Err(ImportFault::Unknown { position, member });
        }
    }
    Ok(event)
}

/// A member that is in one of these and not in the other, or says something else there. Both are in the order of their names.
fn odd_member<'a>(given: &'a [Member<'_>], written: &'a [Member<'_>]) -> Option<&'a [u8]> {
    let pairs = given.iter().zip(written);
    let differs = |((name, one), (of, other)): &(&Member<'_>, &Member<'_>)| name != of || !same_json(one, other);
    let odd = pairs.clone().find(differs).map(|((name, _), (of, _))| name.min(of));
    let beyond = || given.get(written.len()).or_else(|| written.get(given.len())).map(|(name, _)| name);
    odd.or_else(beyond).map(Vec::as_slice)
}

/// What a store keys and counts by, and what pages show, has the bounds that it has where it is recorded here.
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
