//! A transition: commands admitted to one run, the events that they add, and the resulting state. All of it is
//! committed together.
//!
//! This module records events, keeps account of the space that they take, and applies effects of other runs only once.
//! The rules themselves are in `rules`.

use crate::author::Author;
use crate::caller::CallerName;
use crate::event::{Event, EventId, EventKind, Origin, RequestKey};
use crate::fault::Fault;
use crate::limits;
use crate::links::{Links, SeenOrigin, owed};
use crate::run::{Attempts, KnownRequest, Run, Spilled};
use crate::state_budget::ReservedSpace;
use crate::time::Timestamp;
use crate::warning::Warning;

/// Outcome of a command that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// The command was recorded, and this is the id of its first event. Some commands add no event, for example
    /// [`FireDeadlines`](crate::Command::FireDeadlines) if nothing is due, or the start of an attempt. For such
    /// commands, this is the id that the next event will have.
    Recorded(EventId),
    /// The command repeats this request. Nothing was recorded.
    Repeated(KnownRequest),
}

/// Commands admitted to one run, which are committed together.
#[derive(Debug, Clone)]
pub struct Transition {
    /// The state is boxed because it is moved often.
    pub(crate) run: Box<Run>,
    pub(crate) links: Links,
    events: Vec<Event>,
    /// Number of leading events that are copied from another run.
    pub(crate) copied: usize,
    pub(crate) has_unrecorded_changes: bool,
    /// Reserved space of the state. It is computed when a decision of the current command first needs it.
    pub(crate) space: Option<ReservedSpace>,
    /// Author of the current command.
    pub(crate) author: Author,
    /// Warnings about probable mistakes in the commands admitted since the last call of `take_warnings`.
    warnings: Vec<Warning>,
}

pub(crate) fn must_be_open(run: &Run) -> Result<(), Fault> {
    if run.is_open() { Ok(()) } else { Err(Fault::RunClosed { status: run.status }) }
}

pub(crate) fn must_be_at(run: &Run, expected: Option<EventId>) -> Result<(), Fault> {
    let found = run.version;
    match expected {
        Some(expected) if expected != found => Err(Fault::VersionMismatch { expected, found }),
        _ => Ok(()),
    }
}

impl Transition {
    /// Creates a transition of an existing run that has no links to other runs.
    pub fn of(run: impl Into<Box<Run>>) -> Self {
        Self::linked(run, Links::default())
    }

    /// Creates a transition of an existing run with these links to other runs.
    pub fn linked(run: impl Into<Box<Run>>, links: Links) -> Self {
        Self {
            run: run.into(),
            links,
            events: Vec::new(),
            copied: 0,
            has_unrecorded_changes: false,
            space: None,
            author: Author::default(),
            warnings: Vec::new(),
        }
    }

    /// Creates a transition of a new run that begins with these events, which have this author.
    pub(crate) fn beginning(run: Run, events: Vec<Event>, author: Author) -> Self {
        Self { events, author, ..Self::of(run) }
    }

    /// Returns the state after all commands admitted so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the events to commit.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the warnings since the last call, and removes them.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the number of leading events that are copied from another run.
    pub fn copied(&self) -> usize {
        self.copied
    }

    /// Returns `true` if there is anything to commit: events, changes without events (such as attempts of activities),
    /// or changed [links](Self::links).
    pub fn is_changed(&self) -> bool {
        self.has_unrecorded_changes || !self.events.is_empty()
    }

    /// Returns the links to other runs after all commands admitted so far. They can change without an event.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Returns the links for modification, for example to take over the links of a predecessor or to forget old
    /// effects.
    pub fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Takes over state of the predecessor `before`, which is kept until `kept_until`: its undelivered effects, the
    /// effects that it has accepted, and its known requests.
    pub fn take_over(&mut self, before: &Run, links: Links, kept_until: Timestamp, now: Timestamp) {
        self.links = links.handed_over(before.started.run_id);
        self.run.take_over(before, kept_until, now);
    }

    /// Returns the state for modification, for example to [recall](Run::recall) requests from the store.
    pub fn run_mut(&mut self) -> &mut Run {
        &mut self.run
    }

    /// Finishes the commit: if the state has too many known requests, moves old requests out of it. Only requests that
    /// were recorded up to the event `committed` are moved; see [`Run::spill`].
    pub fn spill(&mut self, committed: EventId, now: Timestamp, past: Timestamp) -> Spilled {
        self.run.forget_recalled();
        self.run.spill(committed, now, past)
    }

    /// Returns the state, the links and the events.
    pub fn into_all(self) -> (Box<Run>, Links, Vec<Event>) {
        (self.run, self.links, self.events)
    }

    /// Returns the state and the events.
    pub fn into_parts(self) -> (Run, Vec<Event>) {
        (*self.run, self.events)
    }

    pub(crate) fn push(&mut self, now: Timestamp, kind: EventKind) -> EventId {
        self.push_keyed(now, kind, None)
    }

    pub(crate) fn push_keyed(&mut self, now: Timestamp, kind: EventKind, key: Option<RequestKey>) -> EventId {
        self.push_by(now, kind, key, self.author.by.clone())
    }

    /// Records an event whose author is not the author of the command.
    pub(crate) fn push_by(
        &mut self,
        now: Timestamp,
        kind: EventKind,
        key: Option<RequestKey>,
        by: Option<CallerName>,
    ) -> EventId {
        // Timestamps never decrease within a history. If the clock is behind the last timestamp, the clock's time is
        // also recorded, because deadlines count from it.
        let timestamp = now.max(self.run.last_timestamp);
        let clock = (now < timestamp).then_some(now);
        let event = Event { id: self.run.last_event_id + 1, timestamp, kind, key, by, clock };
        for effect in owed(&self.run, &event) {
            self.links.outbox.add(effect, event.at());
        }
        if let Some(space) = &mut self.space {
            space.take_event(&event.kind);
        }
        let repeats = self.run.successes.times();
        self.run.evolve(&event);
        let id = event.id;
        if let EventKind::ActivityScheduled(it) = &event.kind
            && self.run.successes.times() > repeats
        {
            let activity_id = it.activity_id.clone();
            self.warnings.push(Warning::ActivityRepeated { activity_id, scheduled_event_id: id });
        }
        self.events.push(event);
        id
    }

    /// Records an effect of another run, at most once.
    pub(crate) fn take(&mut self, origin: &Origin, kind: EventKind, now: Timestamp) -> Result<CommandOutcome, Fault> {
        // This check comes first, because this run or a predecessor may have accepted the effect before the run closed.
        if let Some(seen) = self.links.seen.find(origin) {
            return Ok(CommandOutcome::Repeated(KnownRequest { run_id: seen.run_id, event_id: seen.event_id }));
        }
        must_be_open(&self.run)?;
        let event_id = self.push(now, kind);
        let run_id = self.run.started.run_id;
        self.links.seen.add(SeenOrigin { origin: origin.clone(), event_id, run_id });
        Ok(CommandOutcome::Recorded(event_id))
    }

    pub(crate) fn nothing_to_do(&self) -> CommandOutcome {
        let (run_id, event_id) = (self.run.started.run_id, self.run.last_event_id);
        CommandOutcome::Repeated(KnownRequest { run_id, event_id })
    }

    /// Changes the attempts of an activity with a retry policy. Attempts are part of the state and record no events.
    pub(crate) fn change_attempts(&mut self, scheduled_event_id: EventId, change: impl FnOnce(&mut Attempts)) {
        if let Some(attempts) = self.run.attempts_mut(scheduled_event_id) {
            change(attempts);
            self.has_unrecorded_changes = true;
        }
    }

    /// Returns `true` if the state has space for an item of this size.
    pub(crate) fn has_space(&mut self, bytes: impl Fn(&ReservedSpace) -> usize) -> bool {
        let space = self.space.get_or_insert_with(|| ReservedSpace::of(&self.run, &self.links));
        if space.has(bytes(space)) {
            return true;
        }
        // An item may have been closed by another decision of the same answer.
        if space.is_stale {
            *space = ReservedSpace::of(&self.run, &self.links);
        }
        space.has(bytes(space))
    }

    /// Checks that the state has space for the event of a manual change.
    pub(crate) fn must_have_space(&self, kind: &EventKind) -> Result<(), Fault> {
        self.must_have_space_for(std::slice::from_ref(kind))
    }

    /// Checks that the state has space for the events of a manual change.
    pub(crate) fn must_have_space_for(&self, kinds: &[EventKind]) -> Result<(), Fault> {
        let before = self.run.reserved_bytes(&self.links);
        let mut after = self.clone();
        for kind in kinds {
            after.push(self.run.last_timestamp, kind.clone());
        }
        let (found, max) = (after.run.reserved_bytes(&after.links), limits::STATE_BYTES_MAX);
        if found > max && found > before { Err(Fault::StateLimit { found, max }) } else { Ok(()) }
    }
}
