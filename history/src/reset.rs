//! Where a run may branch off the history of another, and what it takes along.
//!
//! It may where the decider is not at work and no commit is cut in two: then every event that is kept has all that belongs to
//! it, and a decider that folds them sees what one saw at the time.

use crate::event::{Event, EventId, EventKind, LaterSignals, Level};
use crate::fault::Fault;
use crate::limits;
use crate::payload::Payload;
use crate::rules::workflow::is_cancel_request;
use crate::run::Run;

/// From where a run branches off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branching {
    /// The last event that it has of the other run's.
    pub event_id: EventId,
    /// Whether the signals and cancel requests that came to that run later come again.
    pub signals: LaterSignals,
}

/// What a run begins with that branches off another.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// The events of the other run, as they are there.
    pub(crate) events: Vec<Event>,
    /// The signals and cancel requests that came to it later and are wanted.
    pub(crate) later: Vec<Event>,
    /// The other run, as it was then.
    pub(crate) run: Run,
}

/// Makes a branch of the history of a run, which it is shown from its beginning.
#[derive(Debug)]
pub struct BranchReader {
    branching: Branching,
    bytes_max: usize,
    points: Points,
    branch: Option<Branch>,
    events: Vec<Event>,
    later: Vec<Event>,
    is_canceled: bool,
    bytes: usize,
    before: Option<EventId>,
    after: Option<EventId>,
}

impl BranchReader {
    /// For a branch that somebody asks for: with as much as may be copied.
    pub fn new(branching: Branching) -> Self {
        Self::with_limit(branching, limits::RESET_BYTES_MAX)
    }

    /// For a branch that was found to be possible before. Signals that have come since may make it larger.
    pub fn planned(branching: Branching) -> Self {
        Self::with_limit(branching, usize::MAX)
    }

    pub(crate) fn with_limit(branching: Branching, bytes_max: usize) -> Self {
        Self {
            branching,
            bytes_max,
            points: Points::default(),
            branch: None,
            events: Vec::new(),
            later: Vec::new(),
            is_canceled: false,
            bytes: 0,
            before: None,
            after: None,
        }
    }

    /// Takes the next event, with its payload.
    ///
    /// # Errors
    ///
    /// [`Fault::ResetRefused`] when there is more to copy than may be.
    pub fn read(&mut self, event: Event) -> Result<(), Fault> {
        let wanted = self.branching.event_id;
        let point = self.points.read(&event);
        self.pass(point);
        let is_prefix = event.id <= wanted;
        let is_request = matches!(event.kind, EventKind::Signal(_) | EventKind::WorkflowCancelRequested(_));
        let is_late = is_request && self.branching.signals == LaterSignals::Reapply;
        self.is_canceled |= matches!(event.kind, EventKind::WorkflowCanceled(_));
        if !is_prefix && !is_late {
            return Ok(());
        }
        // About what it takes when it is stored.
        self.bytes += 64 + event.kind.payload().map_or(0, Payload::len);
        if self.bytes > self.bytes_max {
            let problem = format!("more than {} bytes of history would have to be copied", self.bytes_max);
            return Err(Fault::ResetRefused { problem });
        }
        if is_prefix {
            self.events.push(event);
        } else {
            self.later.push(event);
        }
        if let Some(run) = self.points.run.as_ref().filter(|run| run.last_event_id == wanted && is_prefix) {
            self.branch = Some(Branch { events: Vec::new(), later: Vec::new(), run: run.clone() });
        }
        Ok(())
    }

    fn pass(&mut self, point: Option<EventId>) {
        let Some(point) = point else { return };
        if point <= self.branching.event_id {
            self.before = Some(point);
        } else {
            self.after.get_or_insert(point);
        }
    }

    /// The branch, once the whole history was read.
    ///
    /// # Errors
    ///
    /// [`Fault::NotAResetPoint`] with the nearest events that are one; [`Fault::ResetRefused`] when something of the run was with
    /// others then.
    pub fn finish(mut self) -> Result<Branch, Fault> {
        let point = self.points.last();
        self.pass(point);
        let event_id = self.branching.event_id;
        let branch = self.branch.filter(|_| self.before == Some(event_id));
        let Some(Branch { run, .. }) = branch else {
            return Err(Fault::NotAResetPoint { event_id, before: self.before, after: self.after });
        };
        if let Some(problem) = in_the_way(&run) {
            return Err(Fault::ResetRefused { problem });
        }
        let mut later = self.later;
        if self.is_canceled {
            // The decider has answered the requests, and who resets the run wants it to go on.
            later.retain(|event| !is_cancel_request(event));
        }
        Ok(Branch { events: self.events, later, run })
    }
}

/// Why no run can go on from a state, although no decider is at work.
fn in_the_way(run: &Run) -> Option<String> {
    let children = run.children.values().map(|child| format!("child `{}`", child.workflow_id));
    let externals = run.externals.values().map(|it| format!("what was sent to `{}`", it.workflow_id));
    let with_others: Vec<String> = children.chain(externals).take(3).collect();
    if !with_others.is_empty() {
        let count = run.children.len() + run.externals.len();
        let what = with_others.join(", ");
        return Some(format!("{count} things of the run were with others at that event and cannot be again: {what}"));
    }
    if !run.has_room_to_branch() {
        return Some("so much was open in the run that its state has no room to go on".to_owned());
    }
    (run.clock.stops() >= limits::CLOCK_STOPS_MAX)
        .then(|| format!("the clock of the run has stood still {} times", limits::CLOCK_STOPS_MAX))
}

/// Finds the events after which a run may branch off.
#[derive(Debug, Default)]
struct Points {
    run: Option<Run>,
    /// There is news and no turn waits: a DeciderScheduled belongs to it.
    is_unanswered: bool,
    /// The newest event, where another run may begin after it unless more of its commit follows.
    candidate: Option<EventId>,
}

impl Points {
    /// Takes the next event; the one before it, if that is a point.
    fn read(&mut self, event: &Event) -> Option<EventId> {
        let point = self.candidate.take().filter(|_| !is_decided(&event.kind));
        let run = match (&mut self.run, &event.kind) {
            (Some(run), _) => {
                run.evolve(event);
                run
            }
            (none, EventKind::WorkflowStarted(started)) => none.insert(Run::begin(event.at(), started, event.key)),
            (None, _) => return None,
        };
        // A turn that nothing calls for was recorded as a whole.
        let is_speculative = matches!(event.kind, EventKind::DeciderScheduled(_)) && !self.is_unanswered;
        match &event.kind {
            EventKind::DeciderScheduled(_) => self.is_unanswered = false,
            kind if run.is_looked_at(kind) && run.turn_task.is_none() => self.is_unanswered = true,
            _ => {}
        }
        // The end of a last try belongs to its ActivityStarted, and no other try begins by the branch having it.
        let is_start = matches!(event.kind, EventKind::ActivityStarted(_));
        let is_at_rest = run.is_open() && run.turn.is_none() && !self.is_unanswered;
        self.candidate = (is_at_rest && !is_speculative && !is_start).then_some(event.id);
        point
    }

    /// The newest event, if it is a point.
    fn last(&mut self) -> Option<EventId> {
        self.candidate.take()
    }
}

/// Whether an event stands behind its DeciderCompleted, among what that turn decided.
fn is_decided(kind: &EventKind) -> bool {
    match kind {
        // Canceled as soon as that was decided.
        EventKind::ActivityCanceled(it) => it.started_event_id.is_none(),
        kind => kind.level() == Level::Decider,
    }
}
