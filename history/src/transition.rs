//! Commands admitted to one run, to be committed together: the state that they lead to, and the events that lead there.
//!
//! Knows how an event gets into a run, what it takes of the room that there is, and what of other runs was seen. What may be recorded,
//! the subjects in `rules` say, each for itself; none of them is known here.

use crate::author::Author;
use crate::caller::CallerName;
use crate::event::{Event, EventId, EventKind, Origin, RequestKey};
use crate::fault::Fault;
use crate::limits;
use crate::links::{Links, SeenOrigin, owed};
use crate::room::ReservedRoom;
use crate::run::{KnownRequest, Run, Spilled, Tries};
use crate::time::Timestamp;
use crate::warning::Warning;

/// What became of a command that was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// It was recorded; the first of its events. For a command without events, such as
    /// [`FireDeadlines`](crate::Command::FireDeadlines) with nothing due or the start of a try that is not yet the last: the event
    /// that would come next.
    Recorded(EventId),
    /// The same request was recorded before, there; nothing was added.
    Repeated(KnownRequest),
}

/// Commands admitted to one run, to be committed together.
#[derive(Debug, Clone)]
pub struct Transition {
    /// In a box, as it is handed on often.
    pub(crate) run: Box<Run>,
    pub(crate) links: Links,
    events: Vec<Event>,
    /// How many of them are those of another run.
    pub(crate) copied: usize,
    pub(crate) has_changed_beside: bool,
    /// What is reserved, once a decision of this command has asked.
    pub(crate) room: Option<ReservedRoom>,
    /// Who gives the command that is admitted.
    pub(crate) author: Author,
    /// What was admitted and is probably not meant, since these were last taken.
    warnings: Vec<Warning>,
}

pub(crate) fn must_be_open(run: &Run) -> Result<(), Fault> {
    if run.is_open() { Ok(()) } else { Err(Fault::RunClosed { status: run.status }) }
}

pub(crate) fn must_be_at(run: &Run, expected: Option<EventId>) -> Result<(), Fault> {
    let found = run.version;
    match expected {
        Some(expected) if expected != found => Err(Fault::VersionMoved { expected, found }),
        _ => Ok(()),
    }
}

impl Transition {
    /// A transition of a run that exists and has nothing to do with others.
    pub fn of(run: impl Into<Box<Run>>) -> Self {
        Self::linked(run, Links::default())
    }

    /// A transition of a run that exists.
    pub fn linked(run: impl Into<Box<Run>>, links: Links) -> Self {
        Self {
            run: run.into(),
            links,
            events: Vec::new(),
            copied: 0,
            has_changed_beside: false,
            room: None,
            author: Author::default(),
            warnings: Vec::new(),
        }
    }

    /// A transition of a run that begins with these events, by this author.
    pub(crate) fn beginning(run: Run, events: Vec<Event>, author: Author) -> Self {
        Self { events, author, ..Self::of(run) }
    }

    /// The state after everything admitted so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The events to be committed.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Takes the warnings about what was admitted since they were last taken.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// How many of its first events are the same whoever admits them: those of a run that branches off another.
    pub fn copied(&self) -> usize {
        self.copied
    }

    /// Whether there is anything to commit: events, or what the state has beside them (the tries of activities), or
    /// its [links](Self::links).
    pub fn is_changed(&self) -> bool {
        self.has_changed_beside || !self.events.is_empty()
    }

    /// What the run keeps of its dealings with others, after everything admitted so far. May change without an event.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The same, to have a new run go on with what the one before it has seen, or to forget what nobody asks for again.
    pub fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Takes over from the run `before`, which this one takes the place of and which is kept until `kept_until`: what that owes and
    /// has seen, and the requests that are known by it.
    pub fn take_over(&mut self, before: &Run, links: Links, kept_until: Timestamp, now: Timestamp) {
        self.links = links.handed_over(before.started.run_id);
        self.run.take_over(before, kept_until, now);
    }

    /// The same, to have it [recall](Run::recall) what the store has of requests.
    pub fn run_mut(&mut self) -> &mut Run {
        &mut self.run
    }

    /// Ends the commit: takes the requests out of the state that are too many for it, of those that were recorded up to
    /// the event `committed`; see [`Run::spill`].
    pub fn spill(&mut self, committed: EventId, now: Timestamp, past: Timestamp) -> Spilled {
        self.run.forget_recalled();
        self.run.spill(committed, now, past)
    }

    /// The state, what the run keeps of its dealings with others, and the events.
    pub fn into_all(self) -> (Box<Run>, Links, Vec<Event>) {
        (self.run, self.links, self.events)
    }

    /// The state and the events.
    pub fn into_parts(self) -> (Run, Vec<Event>) {
        (*self.run, self.events)
    }

    pub(crate) fn push(&mut self, now: Timestamp, kind: EventKind) -> EventId {
        self.push_keyed(now, kind, None)
    }

    pub(crate) fn push_keyed(&mut self, now: Timestamp, kind: EventKind, key: Option<RequestKey>) -> EventId {
        self.push_by(now, kind, key, self.author.by.clone())
    }

    /// Records what another caused than whoever gives the command.
    pub(crate) fn push_by(
        &mut self,
        now: Timestamp,
        kind: EventKind,
        key: Option<RequestKey>,
        by: Option<CallerName>,
    ) -> EventId {
        // Timestamps of a history never go back, whatever the clock does; deadlines count from what the clock says.
        let timestamp = now.max(self.run.last_timestamp);
        let clock = (now < timestamp).then_some(now);
        let event = Event { id: self.run.last_event_id + 1, timestamp, kind, key, by, clock };
        for effect in owed(&self.run, &event) {
            self.links.outbox.add(effect, event.at());
        }
        if let Some(room) = &mut self.room {
            room.take_event(&event.kind);
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

    /// Takes an effect of another run, once.
    pub(crate) fn take(&mut self, origin: &Origin, kind: EventKind, now: Timestamp) -> Result<CommandOutcome, Fault> {
        // Before anything else: it may have been taken by a run that has closed since, or by the one before this.
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

    /// Changes what has been tried of an activity with a retry policy: state without an event.
    pub(crate) fn change_tries(&mut self, scheduled_event_id: EventId, change: impl FnOnce(&mut Tries)) {
        if let Some(tries) = self.run.tries_mut(scheduled_event_id) {
            change(tries);
            self.has_changed_beside = true;
        }
    }

    /// Whether there is room for what takes so much.
    pub(crate) fn has_room(&mut self, bytes: impl Fn(&ReservedRoom) -> usize) -> bool {
        let room = self.room.get_or_insert_with(|| ReservedRoom::of(&self.run, &self.links));
        if room.has(bytes(room)) {
            return true;
        }
        // Something of this very answer may have given room back.
        if room.is_stale {
            *room = ReservedRoom::of(&self.run, &self.links);
        }
        room.has(bytes(room))
    }

    /// Whether what somebody does by hand has room, which this event would record.
    pub(crate) fn must_have_room(&self, kind: &EventKind) -> Result<(), Fault> {
        let before = self.run.reserved_bytes(&self.links);
        let mut after = self.clone();
        after.push(self.run.last_timestamp, kind.clone());
        let (found, max) = (after.run.reserved_bytes(&after.links), limits::STATE_BYTES_MAX);
        if found > max && found > before { Err(Fault::StateLimit { found, max }) } else { Ok(()) }
    }
}
