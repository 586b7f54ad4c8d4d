//! A stand-in for the service, in process: its rules, on a clock of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use baton_history::admit::{Starting, starting};
use baton_history::{
    Command, CommandOutcome, Duration, Event, Fault, Heartbeat, Links, ProposedUpdate, Run, Start, StartSignal, TaskId,
    Timestamp, Transition, TurnId, UpdateAnswer,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::commands::{payload, refused, request_cancel, signal, start, terminate};
use super::fail;
use super::mind::{Mind, Minds, minds};
use super::work::{Call, Work, WorkResult};
use crate::{Decisions, Query, QueryError, TakesTurns};

mod activities;
mod agenda;
mod checks;
mod closed;
mod effects;
mod later;
mod outcome;
mod turns;
mod updates;

pub use closed::Closed;
pub use later::Later;
pub use updates::UpdateOutcome;

/// Where virtual time begins: 2024-01-01T00:00:00Z.
pub(super) const EPOCH: Timestamp = Timestamp::from_millis(1_704_067_200_000);

/// Events of one run, unless set otherwise: a run that gets there is taken for one that runs in circles.
const EVENTS_MAX: usize = 100_000;

/// The service in process: any number of runs, deciders, activities, and a virtual clock.
///
/// Nothing happens until it is driven: [`finish`](Self::finish) until a run has closed,
/// [`run_until_idle`](Self::run_until_idle) until nothing more happens by itself, [`advance`](Self::advance) for so
/// long. The clock jumps to whatever comes next. The same test always makes the same history.
///
/// What it does at one instant has an order: what others do (signals, answers) comes before what time does (timers,
/// timeouts); an activity that takes exactly as long as it may is in time.
#[derive(Default)]
pub struct TestService {
    now: Timestamp,
    deciders: HashMap<String, Minds>,
    runners: Vec<TestRunner>,
    runs: Vec<TestRun>,
    newest: BTreeMap<String, usize>,
    agenda: BTreeMap<(Timestamp, u64), Item>,
    items: u64,
    /// When each run wants to be looked at, and the same by run.
    wakes: BTreeSet<(Timestamp, usize)>,
    wake_of: Vec<Option<Timestamp>>,
    turns_take: Duration,
    turns_to_lose: usize,
    events_max: Option<usize>,
    records_given_back: bool,
    refused: Vec<(String, Fault)>,
}

struct TestRunner {
    /// Any when absent.
    list: Option<String>,
    activity_type: String,
    works: Box<dyn FnMut(&Call) -> Work>,
}

struct TestRun {
    run: Run,
    /// What it owes to other runs, and has of theirs.
    links: Links,
    events: Vec<Event>,
    mind: Box<dyn Mind>,
    /// Not all of its turns were decided by the decider that it has now.
    had_another_decider: bool,
    beats: Vec<Heartbeat>,
    calls: HashMap<String, usize>,
    /// Of the agenda's items, how many are this run's.
    expected: usize,
    /// Updates that no turn has judged yet.
    asked: Vec<ProposedUpdate>,
    /// What was said to those that were rejected.
    rejected: Vec<UpdateAnswer>,
    /// Its history was held against the rules when it had so many events.
    checked: usize,
}

/// Something that somebody does at an instant.
enum Item {
    Start(Box<Start>),
    /// With the run that expects it, if there was one when it was planned.
    Ask(String, Command, Option<usize>),
    Complete(usize, TurnId, Vec<ProposedUpdate>, Decisions),
    Answer(usize, TaskId, WorkResult),
    Beat(usize, TaskId, Box<Work>),
}

/// Who and what there is.
impl TestService {
    /// A service without deciders, activities and runs.
    pub fn new() -> Self {
        Self { now: EPOCH, ..Self::default() }
    }

    /// Runs of this type are decided by this decider.
    pub fn decider(&mut self, workflow_type: &str, decider: impl TakesTurns) -> &mut Self {
        self.deciders.insert(workflow_type.to_owned(), minds(decider));
        self
    }

    /// Runs of this type are decided by this decider from now on, also those that are open: as after a deploy, their states
    /// are made again from event 1.
    pub fn deploy(&mut self, workflow_type: &str, decider: impl TakesTurns) -> &mut Self {
        let minds = minds(decider);
        for run in self.runs.iter_mut().filter(|run| run.run.started.workflow_type == workflow_type) {
            run.mind = minds();
            run.had_another_decider = true;
        }
        self.deciders.insert(workflow_type.to_owned(), minds);
        self
    }

    /// Runners on every task list do activities of this type like this. What nobody does waits, for its
    /// schedule-to-start timeout or for ever.
    pub fn activity(&mut self, activity_type: &str, works: impl FnMut(&Call) -> Work + 'static) -> &mut Self {
        self.runner(None, activity_type, Box::new(works))
    }

    /// Runners on this task list, and on no other, do activities of this type like this.
    pub fn activity_on(
        &mut self,
        list: &str,
        activity_type: &str,
        works: impl FnMut(&Call) -> Work + 'static,
    ) -> &mut Self {
        self.runner(Some(list.to_owned()), activity_type, Box::new(works))
    }

    fn runner(&mut self, list: Option<String>, activity_type: &str, works: Box<dyn FnMut(&Call) -> Work>) -> &mut Self {
        self.runners.push(TestRunner { list, activity_type: activity_type.to_owned(), works });
        // What waited for such a runner is taken now.
        for index in 0..self.runs.len() {
            self.wake(index, Some(self.now));
        }
        self
    }

    /// From now on a decider takes so long for a turn, and news may come meanwhile; no time unless set.
    pub fn turns_take(&mut self, span: Duration) -> &mut Self {
        self.turns_take = span;
        self
    }

    /// The next so many turns that are taken are never answered, as if their decider had died.
    pub fn lose_turns(&mut self, count: usize) -> &mut Self {
        self.turns_to_lose = count;
        self
    }

    /// A turn that is given back ([`Decisions::give_back`]) is recorded as such, and handed out again after a while; without
    /// this it ends the test.
    pub fn records_given_back(&mut self) -> &mut Self {
        self.records_given_back = true;
        self
    }

    /// How long a history may become before it is taken for one that runs in circles; 100,000 events unless set.
    pub fn events_max(&mut self, events: usize) -> &mut Self {
        self.events_max = Some(events);
        self
    }
}

/// What applications do.
impl TestService {
    /// Starts a run with every default, on the task list `default`. Its decider must be known.
    #[track_caller]
    pub fn start<T: Serialize + ?Sized>(&mut self, workflow_type: &str, workflow_id: &str, input: &T) {
        self.start_with(&start(workflow_type, workflow_id, input));
    }

    /// Starts a run with everything that a start may say.
    #[track_caller]
    pub fn start_with(&mut self, start: &Start) {
        if let Err(fault) = self.try_start(start) {
            panic!("`{}` cannot be started: {fault}", start.workflow_id);
        }
    }

    /// Starts a run, or says why not.
    ///
    /// # Errors
    ///
    /// Those of the service: the id is in use, its reuse is refused, a field is not acceptable.
    #[track_caller]
    pub fn try_start(&mut self, start: &Start) -> Result<(), Fault> {
        let Some(minds) = self.deciders.get(&start.workflow_type) else {
            panic!("no decider for `{}`; give one with `decider`", start.workflow_type);
        };
        let mind = minds();
        let newest = self.newest.get(&start.workflow_id).copied();
        let existing = newest.and_then(|index| self.runs.get(index));
        match (starting(existing.map(|existing| &existing.run), start)?, newest) {
            (Starting::New, _) | (_, None) => {}
            (Starting::Repeated { .. }, _) => return Ok(()),
            (Starting::Existing { .. }, Some(index)) => {
                let Some(StartSignal { name, input }) = start.signal.clone() else { return Ok(()) };
                let (identity, key) = (start.identity.clone(), start.key);
                return self.admit(index, &Command::Signal { name, input, identity, key, if_version: None }).map(drop);
            }
            (Starting::TerminateFirst, Some(index)) => drop(self.admit(index, &terminate())?),
        }
        self.begin(start, Uuid::from_u128(self.runs.len() as u128 + 1), mind)
    }

    fn begin(&mut self, start: &Start, run_id: Uuid, mind: Box<dyn Mind>) -> Result<(), Fault> {
        let (run, events) = Transition::start(start, run_id, self.now)?.into_parts();
        self.add(run, Links::default(), events, mind);
        Ok(())
    }

    fn add(&mut self, run: Run, links: Links, events: Vec<Event>, mind: Box<dyn Mind>) {
        let (beats, calls) = (Vec::new(), HashMap::new());
        let index = self.runs.len();
        let workflow_id = run.started.workflow_id.clone();
        let had_another_decider = false;
        self.runs.push(TestRun {
            run,
            links,
            events,
            mind,
            had_another_decider,
            beats,
            calls,
            expected: 0,
            asked: Vec::new(),
            rejected: Vec::new(),
            checked: 0,
        });
        self.wake_of.push(None);
        self.newest.insert(workflow_id, index);
        self.wake(index, Some(self.now));
    }

    /// Signals a run.
    ///
    /// # Errors
    ///
    /// Those of the service, e.g. that the run has closed.
    #[track_caller]
    pub fn signal<T: Serialize + ?Sized>(
        &mut self,
        workflow_id: &str,
        name: &str,
        input: &T,
    ) -> Result<CommandOutcome, Fault> {
        self.ask(workflow_id, &signal(name, input))
    }

    /// Asks the decider of a run something, after every turn that waits now; `T` is what the answer is read as.
    ///
    /// # Errors
    ///
    /// The decider's; [`QueryError::Unreadable`] also for an answer that is no `T`.
    #[track_caller]
    pub fn query<T: DeserializeOwned>(
        &mut self,
        workflow_id: &str,
        name: &str,
        input: &(impl Serialize + ?Sized),
    ) -> Result<T, QueryError> {
        self.run_until_idle();
        let run = self.newest.get(workflow_id).and_then(|index| self.runs.get(*index));
        let Some(run) = run else { panic!("no workflow `{workflow_id}`") };
        let input = payload(input);
        let answer = run.mind.query(&run.events, &Query::new(name, Some(&input)))?;
        answer.read().map_err(|error| QueryError::Unreadable(error.to_string()))
    }

    /// Asks for a run to be canceled.
    ///
    /// # Errors
    ///
    /// Those of the service, e.g. that the run has closed.
    #[track_caller]
    pub fn cancel(&mut self, workflow_id: &str) -> Result<CommandOutcome, Fault> {
        self.ask(workflow_id, &request_cancel())
    }

    /// Terminates a run.
    ///
    /// # Errors
    ///
    /// Those of the service, e.g. that the run has closed.
    #[track_caller]
    pub fn terminate(&mut self, workflow_id: &str) -> Result<CommandOutcome, Fault> {
        self.ask(workflow_id, &terminate())
    }

    /// Does anything to a run that somebody outside may do.
    ///
    /// # Errors
    ///
    /// Those of the service.
    #[track_caller]
    pub fn ask(&mut self, workflow_id: &str, command: &Command) -> Result<CommandOutcome, Fault> {
        let index = self.index(workflow_id);
        self.admit(index, command)
    }
}

/// Letting things happen.
impl TestService {
    /// Lets everything happen until no run does anything more by itself: each has closed or is [stuck](Self::stuck).
    #[track_caller]
    pub fn run_until_idle(&mut self) {
        while self.step(None, true) {}
        self.hold_everything();
    }

    /// Lets everything happen within this span of time, execution timeouts included.
    #[track_caller]
    pub fn advance(&mut self, span: Duration) {
        let until = self.now.plus(span);
        // Runs that were found stuck have an execution timeout all the same.
        for index in 0..self.runs.len() {
            self.reschedule(index);
        }
        while self.step(Some(until), false) {}
        self.now = until;
        self.hold_everything();
    }

    /// Lets everything happen until this run has closed, and says how. Ends the test when it never will but by its
    /// execution timeout.
    #[track_caller]
    pub fn finish(&mut self, workflow_id: &str) -> Closed {
        // The newest run, also when it goes on as new meanwhile.
        while self.at(self.index(workflow_id)).run.is_open() && self.step(None, true) {}
        let index = self.index(workflow_id);
        self.hold(index);
        let run = self.at(index);
        match self.closed(workflow_id) {
            Some(closed) => closed,
            None => fail(format_args!("`{workflow_id}` is stuck: {}", self.why_stuck(index)), &run.events),
        }
    }

    /// The open runs that nothing will ever wake but their execution timeout, and why, as things stand.
    pub fn stuck(&self) -> Vec<(&str, String)> {
        let stuck = self.newest.iter().filter(|(_, index)| self.at(**index).run.is_open() && self.is_stuck(**index));
        stuck.map(|(workflow_id, index)| (workflow_id.as_str(), self.why_stuck(*index))).collect()
    }
}

impl TestService {
    #[track_caller]
    fn index(&self, workflow_id: &str) -> usize {
        match self.newest.get(workflow_id) {
            Some(index) => *index,
            None => panic!("no run of `{workflow_id}` was started"),
        }
    }

    fn at(&self, index: usize) -> &TestRun {
        self.runs.get(index).expect("runs are only added")
    }

    fn at_mut(&mut self, index: usize) -> &mut TestRun {
        self.runs.get_mut(index).expect("runs are only added")
    }

    /// Admits what cannot be refused.
    #[track_caller]
    fn must(&mut self, index: usize, command: &Command) {
        if let Err(fault) = self.admit(index, command) {
            refused(&fault, command, &self.at(index).events);
        }
    }

    /// Admits one command as one commit.
    #[track_caller]
    fn admit(&mut self, index: usize, command: &Command) -> Result<CommandOutcome, Fault> {
        let (now, events_max) = (self.now, self.events_max.unwrap_or(EVENTS_MAX));
        let run = self.at_mut(index);
        let mut transition = Transition::linked(run.run.clone(), run.links.clone());
        let outcome = transition.admit(command, now)?;
        self.take_in(index, transition);
        let run = self.at_mut(index);
        let open = &run.run.activities;
        run.beats.retain(|beat| open.contains_key(&beat.scheduled_event_id));
        if run.events.len() > events_max {
            let newest = run.events.len().saturating_sub(60);
            let newest = run.events.get(newest..).unwrap_or_default();
            fail(format_args!("more than {events_max} events: does it run in circles? The newest are"), newest);
        }
        self.wake(index, Some(now));
        self.deliver(index);
        self.go_on(index);
        Ok(outcome)
    }

    fn take_in(&mut self, index: usize, transition: Transition) {
        let run = self.at_mut(index);
        let (state, links, events) = transition.into_all();
        (run.run, run.links) = (*state, links);
        run.events.extend(events);
    }
}
