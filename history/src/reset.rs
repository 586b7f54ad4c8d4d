//! Resets: the events from which a new run can continue, and the data that the new run copies from the history of
//! another run.
//!
//! A new run can branch off after an event if no decider holds a turn at that event, and if the event is the last of
//! its commit. The copied history is then complete, and a decider that reads it sees a state that existed.

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventId, EventKind, LaterSignals, Level};
use crate::fault::Fault;
use crate::limits;
use crate::payload::Payload;
use crate::rules::workflow::is_cancel_request;
use crate::run::Run;

/// Event from which a run branches off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branching {
    /// Id of the last copied event.
    pub event_id: EventId,
    /// Treatment of signals and cancel requests that the other run received after the last copied event.
    pub signals: LaterSignals,
}

/// Event of a run's history from which a new run continues, described by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ResetTo {
    /// First possible event: the new run begins again with the same input.
    FirstEvent,
    /// Last possible event before the newest completed turn: the turn is decided again.
    LastTurn,
}

/// Data that a run takes over when it branches off another run.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Copied events of the other run, unchanged.
    pub(crate) events: Vec<Event>,
    /// Signals and cancel requests that the other run received after the last copied event, and that are reapplied.
    pub(crate) later: Vec<Event>,
    /// State of the other run after the last copied event.
    pub(crate) run: Run,
}

/// Builds a branch from the history of a run, whose events are read in order from the first.
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
    /// Creates a reader for a requested reset, with a limit on the size of the copied history.
    pub fn new(branching: Branching) -> Self {
        Self::with_limit(branching, limits::RESET_BYTES_MAX)
    }

    /// Creates a reader for a reset that has already been accepted. It has no limit, because signals that arrived after
    /// the acceptance can make the branch larger.
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

    /// Reads the next event. The event must contain its payload.
    ///
    /// # Errors
    ///
    /// [`Fault::ResetNotPossible`] if the copied history exceeds the limit.
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
        // Approximate stored size of the event.
        self.bytes += 64 + event.kind.payload().map_or(0, Payload::len);
        if self.bytes > self.bytes_max {
            let problem = format!("more than {} bytes of history would have to be copied", self.bytes_max);
            return Err(Fault::ResetNotPossible { problem });
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

    /// Returns the branch. Call it after the whole history has been read.
    ///
    /// # Errors
    ///
    /// [`Fault::InvalidResetPoint`], with the nearest possible events, if no run can continue from the event.
    /// [`Fault::ResetNotPossible`] if a child or a request to another run was open at the event.
    pub fn finish(mut self) -> Result<Branch, Fault> {
        let point = self.points.last();
        self.pass(point);
        let event_id = self.branching.event_id;
        let branch = self.branch.filter(|_| self.before == Some(event_id));
        let Some(Branch { run, .. }) = branch else {
            return Err(Fault::InvalidResetPoint { event_id, before: self.before, after: self.after });
        };
        if let Some(problem) = reset_obstacle(&run) {
            return Err(Fault::ResetNotPossible { problem });
        }
        let mut later = self.later;
        if self.is_canceled {
            // The decider has already answered the cancel requests by closing as canceled, and the operator wants the
            // run to continue.
            later.retain(|event| !is_cancel_request(event));
        }
        Ok(Branch { events: self.events, later, run })
    }
}

/// Returns the reason why no run can continue from `run`, a state in which no turn is held. Returns `None` if a run can
/// continue.
fn reset_obstacle(run: &Run) -> Option<String> {
    let children = run.children.values().map(|child| format!("child `{}`", child.workflow_id));
    let externals = run.externals.values().map(|it| format!("the request to `{}`", it.workflow_id));
    let unfinished: Vec<String> = children.chain(externals).take(3).collect();
    if !unfinished.is_empty() {
        let count = run.children.len() + run.externals.len();
        let what = unfinished.join(", ");
        return Some(format!(
            "{count} children or requests to other runs were open at that event and cannot be repeated: {what}"
        ));
    }
    if !run.has_space_to_branch() {
        return Some("the run has too many open items for the state of a new run".to_owned());
    }
    (run.clock.stops() >= limits::CLOCK_STOPS_MAX)
        .then(|| format!("the clock of the run has already been stopped {} times", limits::CLOCK_STOPS_MAX))
}

/// Finds the events of a history that [`ResetTo`] describes. The events are read in order from the first.
#[derive(Debug, Default)]
pub struct ResetPoints {
    points: Points,
    first: Option<EventId>,
    newest: Option<EventId>,
    /// Newest event before the start of the turn that a decider holds or held last.
    before_turn: Option<EventId>,
    last_turn: Option<EventId>,
}

impl ResetPoints {
    /// Reads the next event. Payloads are not needed.
    pub fn read(&mut self, event: &Event) {
        let point = self.points.read(event);
        self.first = self.first.or(point);
        self.newest = point.or(self.newest);
        match &event.kind {
            EventKind::DeciderStarted(_) => self.before_turn = self.newest,
            EventKind::DeciderCompleted(_) => self.last_turn = self.before_turn.or(self.last_turn),
            _ => {}
        }
    }

    /// Returns the event that `to` describes. Call it after the whole history has been read.
    ///
    /// # Errors
    ///
    /// [`Fault::ResetNotPossible`] if the history has no such event.
    pub fn find(mut self, to: ResetTo) -> Result<EventId, Fault> {
        let last = self.points.last();
        let (found, problem) = match to {
            ResetTo::FirstEvent => (self.first.or(last), "no event of the run can be the last that a new run keeps"),
            ResetTo::LastTurn => (self.last_turn, "the run has no completed turn to repeat"),
        };
        found.ok_or_else(|| Fault::ResetNotPossible { problem: problem.to_owned() })
    }
}

/// Finds the events after which a run can branch off.
#[derive(Debug, Default)]
struct Points {
    run: Option<Run>,
    /// True if an event needs a turn and none is scheduled yet, so that a DeciderScheduled event follows in the same
    /// commit.
    is_unanswered: bool,
    /// Newest event, if a run can branch off after it. This is certain only after the next event has shown that the
    /// event is the last of its commit.
    candidate: Option<EventId>,
}

impl Points {
    /// Reads the next event. Returns the id of the previous event if a run can branch off after the previous event.
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
        // A turn that no earlier event needed was recorded in one commit with its decisions. No run can branch off in
        // between.
        let is_speculative = matches!(event.kind, EventKind::DeciderScheduled(_)) && !self.is_unanswered;
        match &event.kind {
            EventKind::DeciderScheduled(_) => self.is_unanswered = false,
            kind if run.needs_decider(kind) && run.turn_task.is_none() => self.is_unanswered = true,
            _ => {}
        }
        // An ActivityStarted event may be followed by the close of the activity in the same commit.
        let is_start = matches!(event.kind, EventKind::ActivityStarted(_));
        // The service decides the turns of a run with a single activity in the commit that schedules them.
        let is_deciding = run.started.one_activity && run.turn_task.is_some();
        let is_at_rest = run.is_open() && run.turn.is_none() && !self.is_unanswered && !is_deciding;
        self.candidate = (is_at_rest && !is_speculative && !is_start).then_some(event.id);
        point
    }

    /// Returns the id of the last event of the history if a run can branch off after it.
    fn last(&mut self) -> Option<EventId> {
        self.candidate.take()
    }
}

/// Returns `true` if the event results from a decision, and therefore follows DeciderCompleted in the same commit.
fn is_decided(kind: &EventKind) -> bool {
    match kind {
        // An activity that has not started is canceled in the commit of the decision.
        EventKind::ActivityCanceled(it) => it.started_event_id.is_none(),
        kind => kind.level() == Level::Decider,
    }
}
