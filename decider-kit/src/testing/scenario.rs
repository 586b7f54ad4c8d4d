//! Tests of single turns: given, when, then.

mod updates;

use std::sync::Arc;

use baton_history::event::ActivityTimeout;
use baton_history::{
    Command, Deadline, DeadlineKind, Duration, Event, EventId, Payload, ProposedUpdate, Run, Start, TaskId, Timestamp,
    Transition, TurnId,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::commands::{answer, judged, payload, refused};
use super::subject::{Subject, describe, fresh};
use super::{assert_consistent, fail, window_of};
use crate::{Decisions, Query, QueryError, TakesTurns};

/// Number of attempts after which an activity is considered to be retried forever.
const TRIES_MAX: usize = 10_000;

/// An event from outside the decider, such as a signal or an activity result.
#[derive(Debug, Clone)]
pub struct News(NewsKind);

#[derive(Debug, Clone)]
enum NewsKind {
    Succeeded { activity_id: String, result: Payload },
    Failed { activity_id: String, reason: String, details: Payload },
    Canceled { activity_id: String, details: Payload },
    TimedOut { activity_id: String, timeout: ActivityTimeout },
    NotTaken { activity_id: String },
    Expired { timer_id: String },
    Signal { name: String, input: Payload },
    CancelRequested,
    Update { name: String, input: Payload },
}

/// A runner completes the activity.
pub fn activity_succeeded<T: Serialize + ?Sized>(activity_id: &str, result: &T) -> News {
    News(NewsKind::Succeeded { activity_id: activity_id.to_owned(), result: payload(result) })
}

/// A runner reports that the activity failed.
pub fn activity_failed<T: Serialize + ?Sized>(activity_id: &str, reason: &str, details: &T) -> News {
    let (activity_id, reason) = (activity_id.to_owned(), reason.to_owned());
    News(NewsKind::Failed { activity_id, reason, details: payload(details) })
}

/// A runner stops the activity as requested.
pub fn activity_canceled<T: Serialize + ?Sized>(activity_id: &str, details: &T) -> News {
    News(NewsKind::Canceled { activity_id: activity_id.to_owned(), details: payload(details) })
}

/// The activity times out after a runner took it. Time advances until the timeout, and everything that is due earlier
/// happens first.
pub fn activity_timed_out(activity_id: &str, timeout: ActivityTimeout) -> News {
    News(NewsKind::TimedOut { activity_id: activity_id.to_owned(), timeout })
}

/// No runner takes the activity in time. Time advances until the schedule-to-start timeout.
pub fn activity_not_taken(activity_id: &str) -> News {
    News(NewsKind::NotTaken { activity_id: activity_id.to_owned() })
}

/// The timer expires. Time advances until the timer is due.
pub fn timer_expired(timer_id: &str) -> News {
    News(NewsKind::Expired { timer_id: timer_id.to_owned() })
}

/// A signal arrives.
pub fn signal<T: Serialize + ?Sized>(name: &str, input: &T) -> News {
    News(NewsKind::Signal { name: name.to_owned(), input: payload(input) })
}

/// The run's cancellation is requested.
pub fn cancel_requested() -> News {
    News(NewsKind::CancelRequested)
}

/// An update is requested. The updates of a test get the ids `update-1`, `update-2`, and so on. Call
/// [`Given::then_judges`] after it.
pub fn update<T: Serialize + ?Sized>(name: &str, input: &T) -> News {
    News(NewsKind::Update { name: name.to_owned(), input: payload(input) })
}

/// A run with its past, and the decider under test.
pub struct Given<D: TakesTurns> {
    decider: Arc<D>,
    run: Run,
    events: Vec<Event>,
    now: Timestamp,
    /// Update to judge in the next turn.
    proposed: Option<ProposedUpdate>,
    /// Number of updates so far.
    updates: usize,
}

/// Starts a run of this workflow type with the input `null`.
pub fn given<D: TakesTurns>(decider: D, workflow_type: &str) -> Given<D> {
    Given::start(decider, &Start { input: Some(payload(&())), ..Start::new("test", workflow_type, "default") })
}

impl<D: TakesTurns> Given<D> {
    /// Starts a run with these options.
    pub fn start(decider: D, start: &Start) -> Self {
        let now = super::service::EPOCH;
        let transition = Transition::start(start, Uuid::nil(), now)
            .unwrap_or_else(|fault| panic!("the run cannot be started: {fault}"));
        let (run, events) = transition.into_parts();
        Self { decider: Arc::new(decider), run, events, now, proposed: None, updates: 0 }
    }

    /// Creates a run with this history, e.g. of a [`Recorded`](super::Recorded). The run must be open.
    pub fn history(decider: D, events: Vec<Event>) -> Self {
        let Some(run) = Run::replay(&events) else { fail("the history does not begin with WorkflowStarted", &events) };
        assert_consistent(&events, &run);
        let now = run.last_timestamp;
        Self { decider: Arc::new(decider), run, events, now, proposed: None, updates: 0 }
    }

    /// Sets the input. Call it before all other methods.
    #[must_use]
    pub fn input<T: Serialize + ?Sized>(self, input: &T) -> Self {
        if self.events.len() != 2 {
            fail("set the input before any other step", &self.events);
        }
        let started = &self.run.started;
        let start = Start {
            input: Some(payload(input)),
            ..Start::new(&started.workflow_id, &started.workflow_type, &started.task_list)
        };
        let transition = Transition::start(&start, started.run_id, self.now)
            .unwrap_or_else(|fault| panic!("the run cannot be started: {fault}"));
        let (run, events) = transition.into_parts();
        Self { run, events, ..self }
    }

    /// Records a past turn with these decisions, without calling the decider.
    #[must_use]
    pub fn decided(mut self, decisions: Decisions) -> Self {
        let turn = self.take();
        self.complete(turn, decisions);
        self
    }

    /// Applies an event from outside. Several events can be applied before the decider is called.
    #[must_use]
    pub fn when(mut self, news: News) -> Self {
        match news.0 {
            NewsKind::Succeeded { activity_id, result } => {
                let task = self.started(&activity_id);
                self.admit(&Command::SucceedActivity { task, result: Some(result) });
            }
            NewsKind::Failed { activity_id, reason, details } => {
                self.fail_for_good(&activity_id, &reason, &details);
            }
            NewsKind::Canceled { activity_id, details } => {
                let task = self.started(&activity_id);
                self.admit(&Command::CancelActivity { task, details: Some(details) });
            }
            NewsKind::TimedOut { activity_id, timeout } => {
                let scheduled_event_id = self.scheduled(&activity_id);
                let what = match timeout {
                    ActivityTimeout::StartToClose => DeadlineKind::ActivityStartToClose { scheduled_event_id },
                    ActivityTimeout::ScheduleToClose => DeadlineKind::ActivityScheduleToClose { scheduled_event_id },
                    ActivityTimeout::Heartbeat => DeadlineKind::ActivityHeartbeat { scheduled_event_id },
                };
                let absent = format!("activity `{activity_id}` has no {timeout:?} timeout");
                if timeout == ActivityTimeout::ScheduleToClose {
                    self.fire(what, &absent);
                    return self;
                }
                for _ in 0..TRIES_MAX {
                    self.started(&activity_id);
                    self.fire(what, &absent);
                    if !self.run.activities.contains_key(&scheduled_event_id) {
                        return self;
                    }
                }
                let circles =
                    "is retried forever: its retry policy has no limit, and it has no ScheduleToClose timeout";
                fail(format_args!("activity `{activity_id}` {circles}"), &self.events);
            }
            NewsKind::NotTaken { activity_id } => {
                let scheduled_event_id = self.scheduled(&activity_id);
                let what = DeadlineKind::ActivityScheduleToStart { scheduled_event_id };
                self.fire(
                    what,
                    &format!("activity `{activity_id}` was taken by a runner, or has no schedule-to-start timeout"),
                );
            }
            NewsKind::Expired { timer_id } => {
                let Some(timer) = self.run.timers.get(&timer_id) else {
                    fail(format_args!("no timer `{timer_id}` is open"), &self.events);
                };
                let scheduled_event_id = timer.scheduled_event_id;
                self.fire(DeadlineKind::Timer { scheduled_event_id }, "the timer has no deadline");
            }
            NewsKind::Signal { name, input } => {
                let input = Some(input);
                self.admit(&Command::Signal { name, input, identity: None, key: None, if_version: None });
            }
            NewsKind::CancelRequested => {
                self.admit(&Command::RequestCancel { reason: None, identity: None, key: None });
            }
            NewsKind::Update { name, input } => self.put(name, input),
        }
        self
    }

    /// Fails all remaining attempts of an activity. If it has a retry policy, only the last attempt is recorded.
    fn fail_for_good(&mut self, activity_id: &str, reason: &str, details: &Payload) {
        let TaskId { scheduled_event_id, .. } = self.started(activity_id);
        let activity = self.run.activities.get(&scheduled_event_id);
        let retry = activity.and_then(|activity| activity.retry.as_ref());
        // With a policy that allows any number of attempts, only a non-retryable failure ends the activity.
        let non_retryable = retry.is_some_and(|retry| retry.maximum_attempts.is_none());
        while self.run.activities.contains_key(&scheduled_event_id) {
            let task = self.started(activity_id);
            let (reason, details) = (Some(reason.to_owned()), Some(details.clone()));
            self.admit(&Command::FailActivity { task, reason, details, non_retryable, retry_after: None });
        }
    }

    /// Calls the decider and expects these decisions, which then take effect. The awaited signals are compared only if
    /// `expected` has any.
    #[expect(clippy::return_self_not_must_use, reason = "most tests end here")]
    #[track_caller]
    pub fn then(mut self, mut expected: Decisions) -> Self {
        let (turn, decisions) = self.decide_turn();
        if expected.awaiting.is_empty() {
            expected.awaiting.clone_from(&decisions.awaiting);
        }
        if decisions != expected {
            let (expected, found) = (describe(&expected), describe(&decisions));
            fail(format_args!("expected decisions\n{expected}\nfound\n{found}"), &self.events);
        }
        self.complete(turn, decisions);
        self
    }

    /// Calls the decider and returns its decisions.
    #[track_caller]
    pub fn decisions(mut self) -> Decisions {
        self.decide_turn().1
    }

    /// Queries the decider about the run in its current state. The answer is deserialized as a `T`.
    ///
    /// # Errors
    ///
    /// The errors of the decider. [`QueryError::Unreadable`] is also returned if the answer is not a `T`.
    pub fn query<T: DeserializeOwned>(&self, name: &str, input: &(impl Serialize + ?Sized)) -> Result<T, QueryError> {
        let input = payload(input);
        let answer = fresh(Arc::clone(&self.decider)).query(&self.events, &Query::new(name, Some(&input)))?;
        answer.read().map_err(|error| QueryError::Unreadable(error.to_string()))
    }

    /// Returns the history so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    #[track_caller]
    fn decide_turn(&mut self) -> (TurnId, Decisions) {
        let turn = self.take();
        let attempt = self.run.turn.as_ref().map_or(1, |turn| turn.attempt);
        let window = window_of(&self.events, &self.run, turn.started_event_id, attempt);
        match fresh(Arc::clone(&self.decider)).decide(&self.events, &window, None) {
            Ok(decisions) => (turn, decisions),
            Err(difference) => fail(difference, &self.events),
        }
    }

    #[track_caller]
    fn take(&mut self) -> TurnId {
        if let Some(proposed) = &self.proposed {
            let next = "must get its verdict in the next turn: use `then_judges`";
            fail(format_args!("update `{}` {next}", proposed.name), &self.events);
        }
        let Some(task) = &self.run.turn_task else {
            fail("no turn is waiting: no event has been recorded since the last turn", &self.events);
        };
        let scheduled_event_id = task.scheduled_event_id;
        self.now = task.not_before.map_or(self.now, |at| at.max(self.now));
        self.admit(&Command::StartTurn { scheduled_event_id, identity: None, poll: None });
        TurnId { scheduled_event_id, started_event_id: self.run.last_event_id }
    }

    #[track_caller]
    fn complete(&mut self, turn: TurnId, decisions: Decisions) {
        self.admit(&answer(turn, decisions));
    }

    #[track_caller]
    fn scheduled(&self, activity_id: &str) -> EventId {
        match self.run.activity(activity_id) {
            Some((scheduled_event_id, _)) => scheduled_event_id,
            None => fail(format_args!("no activity `{activity_id}` is open"), &self.events),
        }
    }

    /// Returns the activity's task. If no runner has taken the activity yet, a runner takes it now.
    #[track_caller]
    fn started(&mut self, activity_id: &str) -> TaskId {
        let scheduled_event_id = self.scheduled(activity_id);
        let task = |run: &Run| run.activities.get(&scheduled_event_id)?.task(scheduled_event_id);
        if task(&self.run).is_none() {
            let held_until = self.run.activities.get(&scheduled_event_id).and_then(|activity| activity.not_before());
            self.now = held_until.map_or(self.now, |at| at.max(self.now));
            self.admit(&Command::StartActivity { scheduled_event_id, identity: None, poll: None });
        }
        match task(&self.run) {
            Some(task) => task,
            None => fail(format_args!("no runner can take activity `{activity_id}`"), &self.events),
        }
    }

    /// Advances time to this deadline, and fires it together with all earlier deadlines.
    #[track_caller]
    fn fire(&mut self, what: DeadlineKind, absent: &str) {
        let deadlines = self.run.deadlines(&[]);
        let Some(Deadline { at, .. }) = deadlines.into_iter().find(|deadline| deadline.what == what) else {
            fail(absent, &self.events);
        };
        self.now = at.max(self.now);
        self.admit(&Command::FireDeadlines { heartbeats: Vec::new(), stopped: Arc::default() });
    }

    #[track_caller]
    fn admit(&mut self, command: &Command) {
        let mut transition = Transition::of(self.run.clone());
        if let Err(fault) = transition.admit(command, self.now) {
            refused(&fault, command, &self.events);
        }
        let (run, events) = transition.into_parts();
        self.run = run;
        self.events.extend(events);
        assert_consistent(&self.events, &self.run);
        self.now = self.now.plus(Duration::from_millis(1));
    }
}
