//! The test service: the service's rules in process, with a virtual clock.

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
use super::subject::{Subject, SubjectFactory, subjects};
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

/// Start of virtual time: 2024-01-01T00:00:00Z.
pub(super) const EPOCH: Timestamp = Timestamp::from_millis(1_704_067_200_000);

/// Default maximum number of events of one run. A run that exceeds it is considered to loop.
const EVENTS_MAX: usize = 100_000;

/// An in-process service: any number of runs, deciders and activities, and a virtual clock.
///
/// Time passes only while one of the following methods runs. [`finish`](Self::finish) runs until a run has closed,
/// [`run_until_idle`](Self::run_until_idle) until nothing more happens, and [`advance`](Self::advance) for a span of
/// time. The clock skips ahead to the next event. The same test always produces the same history.
///
/// At one instant, external actions (signals, answers) come before timers and timeouts. An activity that takes exactly
/// as long as its timeout is therefore in time.
#[derive(Default)]
pub struct TestService {
    now: Timestamp,
    deciders: HashMap<String, SubjectFactory>,
    runners: Vec<TestRunner>,
    runs: Vec<TestRun>,
    newest: BTreeMap<String, usize>,
    agenda: BTreeMap<(Timestamp, u64), Item>,
    items: u64,
    /// Times at which runs wake next, in ascending order. `wake_of` has the same times by run.
    wakes: BTreeSet<(Timestamp, usize)>,
    wake_of: Vec<Option<Timestamp>>,
    turns_take: Duration,
    turns_to_lose: usize,
    events_max: Option<usize>,
    records_given_back: bool,
    refused: Vec<(String, Fault)>,
}

struct TestRunner {
    /// Task list, or `None` for every task list.
    list: Option<String>,
    activity_type: String,
    works: Box<dyn FnMut(&Call) -> Work>,
}

struct TestRun {
    run: Run,
    /// Messages to other runs that are not delivered yet, and messages received from other runs.
    links: Links,
    events: Vec<Event>,
    subject: Box<dyn Subject>,
    /// True if some of the run's turns were decided by an earlier decider.
    had_another_decider: bool,
    heartbeats: Vec<Heartbeat>,
    calls: HashMap<String, usize>,
    /// Number of items on the agenda that belong to this run.
    expected: usize,
    /// Updates that no turn has judged yet.
    proposed: Vec<ProposedUpdate>,
    /// Answers to rejected updates.
    rejected: Vec<UpdateAnswer>,
    /// Length of the history when it was last checked against the rules.
    checked: usize,
}

/// An external action planned for an instant.
enum Item {
    Start(Box<Start>),
    /// A command, with the index of the run that was the newest of the workflow id when the command was planned.
    Command(String, Command, Option<usize>),
    Complete(usize, TurnId, Vec<ProposedUpdate>, Decisions),
    Answer(usize, TaskId, WorkResult),
    Heartbeat(usize, TaskId, Box<Work>),
}

/// Setup of deciders, activities and limits.
impl TestService {
    /// Creates a service without deciders, activities and runs.
    pub fn new() -> Self {
        Self { now: EPOCH, ..Self::default() }
    }

    /// Registers the decider for runs of this type.
    pub fn decider(&mut self, workflow_type: &str, decider: impl TakesTurns) -> &mut Self {
        self.deciders.insert(workflow_type.to_owned(), subjects(decider));
        self
    }

    /// Replaces the decider for runs of this type, including open runs. As after a deployment, the states of open runs
    /// are rebuilt from event 1.
    pub fn deploy(&mut self, workflow_type: &str, decider: impl TakesTurns) -> &mut Self {
        let subjects = subjects(decider);
        for run in self.runs.iter_mut().filter(|run| run.run.started.workflow_type == workflow_type) {
            run.subject = subjects();
            run.had_another_decider = true;
        }
        self.deciders.insert(workflow_type.to_owned(), subjects);
        self
    }

    /// Registers runners that do activities of this type on every task list. An activity without a runner waits for its
    /// schedule-to-start timeout, or forever.
    pub fn activity(&mut self, activity_type: &str, works: impl FnMut(&Call) -> Work + 'static) -> &mut Self {
        self.runner(None, activity_type, Box::new(works))
    }

    /// Registers runners that do activities of this type on this task list only.
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
        // The new runner can now take waiting activities.
        for index in 0..self.runs.len() {
            self.schedule_wake(index, Some(self.now));
        }
        self
    }

    /// Sets how long a decider takes for a turn. Other things can happen during that time. Default: zero.
    pub fn turns_take(&mut self, span: impl Into<Duration>) -> &mut Self {
        self.turns_take = span.into();
        self
    }

    /// Loses the next `count` turns: they are taken but never answered, as if their decider had died.
    pub fn lose_turns(&mut self, count: usize) -> &mut Self {
        self.turns_to_lose = count;
        self
    }

    /// Records a turn that is given back ([`Decisions::give_back`]), and hands it out again after a delay. By default a
    /// turn given back fails the test.
    pub fn records_given_back(&mut self) -> &mut Self {
        self.records_given_back = true;
        self
    }

    /// Sets the maximum number of events of a run. A run that exceeds it is considered to loop. Default: 100,000.
    pub fn events_max(&mut self, events: usize) -> &mut Self {
        self.events_max = Some(events);
        self
    }
}

/// Requests of applications.
impl TestService {
    /// Starts a run with default options on the task list `default`. Its decider must be registered.
    #[track_caller]
    pub fn start<T: Serialize + ?Sized>(&mut self, workflow_type: &str, workflow_id: &str, input: &T) {
        self.start_with(&start(workflow_type, workflow_id, input));
    }

    /// Starts a run with these options.
    #[track_caller]
    pub fn start_with(&mut self, start: &Start) {
        if let Err(fault) = self.try_start(start) {
            panic!("`{}` cannot be started: {fault}", start.workflow_id);
        }
    }

    /// Starts a run with these options.
    ///
    /// # Errors
    ///
    /// A refusal of the service: the id is in use, its reuse is refused, or a field is invalid.
    #[track_caller]
    pub fn try_start(&mut self, start: &Start) -> Result<(), Fault> {
        let Some(subjects) = self.deciders.get(&start.workflow_type) else {
            panic!("no decider for `{}`; add one with `decider`", start.workflow_type);
        };
        let subject = subjects();
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
        self.begin(start, Uuid::from_u128(self.runs.len() as u128 + 1), subject)
    }

    fn begin(&mut self, start: &Start, run_id: Uuid, subject: Box<dyn Subject>) -> Result<(), Fault> {
        let (run, events) = Transition::start(start, run_id, self.now)?.into_parts();
        self.add(run, Links::default(), events, subject);
        Ok(())
    }

    fn add(&mut self, run: Run, links: Links, events: Vec<Event>, subject: Box<dyn Subject>) {
        let (heartbeats, calls) = (Vec::new(), HashMap::new());
        let index = self.runs.len();
        let workflow_id = run.started.workflow_id.clone();
        let had_another_decider = false;
        self.runs.push(TestRun {
            run,
            links,
            events,
            subject,
            had_another_decider,
            heartbeats,
            calls,
            expected: 0,
            proposed: Vec::new(),
            rejected: Vec::new(),
            checked: 0,
        });
        self.wake_of.push(None);
        self.newest.insert(workflow_id, index);
        self.schedule_wake(index, Some(self.now));
    }

    /// Signals a run.
    ///
    /// # Errors
    ///
    /// A refusal of the service, e.g. because the run has closed.
    #[track_caller]
    pub fn signal<T: Serialize + ?Sized>(
        &mut self,
        workflow_id: &str,
        name: &str,
        input: &T,
    ) -> Result<CommandOutcome, Fault> {
        self.command(workflow_id, &signal(name, input))
    }

    /// Queries the decider of a run after all pending turns. The answer is deserialized as a `T`.
    ///
    /// # Errors
    ///
    /// The errors of the decider. [`QueryError::Unreadable`] is also returned if the answer is not a `T`.
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
        let answer = run.subject.query(&run.events, &Query::new(name, Some(&input)))?;
        answer.read().map_err(|error| QueryError::Unreadable(error.to_string()))
    }

    /// Requests the cancellation of a run.
    ///
    /// # Errors
    ///
    /// A refusal of the service, e.g. because the run has closed.
    #[track_caller]
    pub fn cancel(&mut self, workflow_id: &str) -> Result<CommandOutcome, Fault> {
        self.command(workflow_id, &request_cancel())
    }

    /// Terminates a run.
    ///
    /// # Errors
    ///
    /// A refusal of the service, e.g. because the run has closed.
    #[track_caller]
    pub fn terminate(&mut self, workflow_id: &str) -> Result<CommandOutcome, Fault> {
        self.command(workflow_id, &terminate())
    }

    /// Applies any external command to a run.
    ///
    /// # Errors
    ///
    /// A refusal of the service.
    #[track_caller]
    pub fn command(&mut self, workflow_id: &str, command: &Command) -> Result<CommandOutcome, Fault> {
        let index = self.index(workflow_id);
        self.admit(index, command)
    }
}

/// Control of the clock.
impl TestService {
    /// Runs until nothing more happens, because each run has closed or is [stuck](Self::stuck).
    #[track_caller]
    pub fn run_until_idle(&mut self) {
        while self.step(None, true) {}
        self.check_all_runs();
    }

    /// Runs for this span of time, including execution timeouts.
    #[track_caller]
    pub fn advance(&mut self, span: impl Into<Duration>) {
        let until = self.now.plus(span.into());
        // Stuck runs are no longer scheduled, but their execution timeouts still apply.
        for index in 0..self.runs.len() {
            self.reschedule(index);
        }
        while self.step(Some(until), false) {}
        self.now = until;
        self.check_all_runs();
    }

    /// Runs until this run has closed, and returns its outcome. Fails the test if only the execution timeout would ever
    /// close the run.
    #[track_caller]
    pub fn finish(&mut self, workflow_id: &str) -> Closed {
        // Looks up the newest run in each iteration, because the run may continue as new.
        while self.at(self.index(workflow_id)).run.is_open() && self.step(None, true) {}
        let index = self.index(workflow_id);
        self.check_run(index);
        let run = self.at(index);
        match self.closed(workflow_id) {
            Some(closed) => closed,
            None => fail(format_args!("`{workflow_id}` is stuck: {}", self.why_stuck(index)), &run.events),
        }
    }

    /// Returns the open runs that will never wake before their execution timeout, each with the reason.
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

    /// Admits a command that must not be refused.
    #[track_caller]
    fn admit_or_fail(&mut self, index: usize, command: &Command) {
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
        self.apply_transition(index, transition);
        let run = self.at_mut(index);
        let open = &run.run.activities;
        run.heartbeats.retain(|heartbeat| open.contains_key(&heartbeat.scheduled_event_id));
        if run.events.len() > events_max {
            let newest = run.events.len().saturating_sub(60);
            let newest = run.events.get(newest..).unwrap_or_default();
            fail(format_args!("more than {events_max} events: the run may loop; its newest events are"), newest);
        }
        self.schedule_wake(index, Some(now));
        self.deliver(index);
        self.start_successor(index);
        Ok(outcome)
    }

    fn apply_transition(&mut self, index: usize, transition: Transition) {
        let run = self.at_mut(index);
        let (state, links, events) = transition.into_all();
        (run.run, run.links) = (*state, links);
        run.events.extend(events);
    }
}
