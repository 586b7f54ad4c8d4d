//! Test fixture: a run that is changed by one commit at a time. The independent checker of histories checks each state.

use std::sync::Arc;

use uuid::Uuid;

use crate::decision::{
    CancelActivity, CancelExternal, CancelTimer, CancelWorkflow, FailWorkflow, RecordMarker, ScheduleActivity,
    SignalExternal, StartChild, StartTimer, SucceedWorkflow,
};
use crate::event::{ActivityStarted, ActivityTimeouts, ChildPolicy, EventKind, OperatorAction, RequestKey};
use crate::{
    ActivityDefaults, AnsweredTurn, Author, Command, CommandOutcome, Decision, DecisionContext, DomainCapacity,
    Duration, EffectKind, EffectResult, Event, EventId, Fault, Heartbeat, Links, Origin, Payload, Permissions,
    ProposedUpdate, Registration, RetryPolicy, Run, Start, TaskId, Timestamp, Transition, TurnAnswer, TurnId,
    UpdateAnswer, Verdict, WorkflowDefaults, check,
};

#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) run: Run,
    pub(crate) links: Links,
    pub(crate) events: Vec<Event>,
    pub(crate) now: Timestamp,
    pub(crate) heartbeats: Vec<Heartbeat>,
    pub(crate) decision_context: DecisionContext,
}

/// Returns a new run whose activities have no default timeouts.
pub(crate) fn scene() -> Scene {
    Scene::of(&plain())
}

/// Returns a start without default timeouts for activities.
pub(crate) fn plain() -> Start {
    Start { activity_timeouts: ActivityTimeouts::default(), ..Start::new("order-1", "order", "orders") }
}

impl Scene {
    pub(crate) fn of(start: &Start) -> Self {
        Self::of_run(start, Uuid::nil())
    }

    pub(crate) fn of_run(start: &Start, run_id: Uuid) -> Self {
        let now = Timestamp::from_millis(1_000_000);
        let (run, events) = Transition::start(start, run_id, now).unwrap().into_parts();
        Self {
            run,
            links: Links::default(),
            events,
            now,
            heartbeats: Vec::new(),
            decision_context: DecisionContext::default(),
        }
    }

    /// Admits a command as one commit, and checks all invariants.
    pub(crate) fn admit(&mut self, command: &Command) -> Result<(CommandOutcome, Vec<Event>), Fault> {
        self.admit_within(command, None)
    }

    /// Admits a command from a decider with restricted permissions.
    pub(crate) fn admit_within(
        &mut self,
        command: &Command,
        may: Option<&Arc<Permissions>>,
    ) -> Result<(CommandOutcome, Vec<Event>), Fault> {
        let mut transition = Transition::linked(self.run.clone(), self.links.clone());
        let outcome = match may {
            Some(may) => {
                let author = Author { may: Some([may.as_ref().clone()].into()), ..Author::default() };
                transition.admit_as(command, &author, self.now)
            }
            None => transition.admit(command, self.now),
        };
        if let Err(fault) = outcome {
            assert_eq!(transition.links(), &self.links, "a refused command changed the links: {command:?}");
            assert_eq!(transition.run(), &self.run, "a refused command changed the run: {command:?}");
            assert!(transition.events().is_empty(), "a refused command left events: {command:?}");
            return Err(fault);
        }
        self.links = transition.links().clone();
        let (run, events) = transition.into_parts();
        self.run = run;
        self.events.extend(events.iter().cloned());
        check::history(&self.events).unwrap_or_else(|violation| panic!("{violation}\n{}", summary(&self.events)));
        let replayed = Run::replay(&self.events).expect("a history");
        assert_eq!(replayed.successes, self.run.successes, "this version knows of all successes of the run");
        assert_eq!(replayed.history_derived(), self.run.clone().history_derived());
        outcome.map(|outcome| (outcome, events))
    }

    pub(crate) fn then(mut self, command: &Command) -> Self {
        self.admit(command)
            .unwrap_or_else(|fault| panic!("{command:?} was refused: {fault}\n{}", summary(&self.events)));
        self
    }

    pub(crate) fn after(mut self, seconds: u64) -> Self {
        self.now = self.now.plus(Duration::from_secs(seconds));
        self
    }

    /// Puts the clock back by a number of seconds.
    pub(crate) fn put_back(mut self, seconds: u64) -> Self {
        self.now = self.now.minus(Duration::from_secs(seconds));
        self
    }

    /// Lets a decider take the waiting turn.
    pub(crate) fn take(self) -> Self {
        let command = self.start_turn();
        self.then(&command)
    }

    /// Lets a decider answer its turn with these decisions. If no turn is held, the decider first takes the waiting
    /// turn.
    pub(crate) fn decide<const N: usize>(self, decisions: [Decision; N]) -> Self {
        let scene = if self.run.turn.is_none() { self.take() } else { self };
        let command = scene.complete(decisions);
        scene.then(&command)
    }

    /// Lets a runner take the activity.
    pub(crate) fn takes(self, activity_id: &str) -> Self {
        let command = self.start_activity(activity_id);
        self.then(&command)
    }

    pub(crate) fn succeeds(self, activity_id: &str) -> Self {
        let command = self.succeed(activity_id);
        self.then(&command)
    }

    pub(crate) fn heartbeat(mut self, activity_id: &str, details: &str) -> Self {
        let heartbeat = Heartbeat {
            scheduled_event_id: self.scheduled(activity_id),
            at: self.now,
            details: Some(Payload::from_json(details).unwrap()),
        };
        self.heartbeats = vec![heartbeat];
        self
    }

    pub(crate) fn scheduled(&self, activity_id: &str) -> EventId {
        self.run.activity(activity_id).expect("open").0
    }

    pub(crate) fn task(&self, activity_id: &str) -> TaskId {
        let (scheduled_event_id, activity) = self.run.activity(activity_id).expect("open");
        activity.task(scheduled_event_id).expect("started")
    }

    pub(crate) fn turn(&self) -> TurnId {
        let turn = self.run.turn.as_ref().expect("a started turn");
        TurnId { scheduled_event_id: turn.scheduled_event_id, started_event_id: turn.started_event_id }
    }

    pub(crate) fn start_turn(&self) -> Command {
        Command::StartTurn {
            scheduled_event_id: self.run.turn_task.as_ref().expect("a waiting turn").scheduled_event_id,
            identity: None,
            poll: None,
        }
    }

    pub(crate) fn complete<const N: usize>(&self, decisions: [Decision; N]) -> Command {
        self.complete_all(decisions.into())
    }

    pub(crate) fn complete_all(&self, decisions: Vec<Decision>) -> Command {
        let decision_context = self.decision_context.clone();
        Command::complete(self.turn(), TurnAnswer { decisions, decision_context, ..TurnAnswer::default() })
    }

    /// Registers an activity type.
    pub(crate) fn with_activity(mut self, name: &str, registration: Registration<ActivityDefaults>) -> Self {
        self.decision_context.activity_types.insert(name.to_owned(), registration);
        self
    }

    /// Registers a workflow type.
    pub(crate) fn with_workflow(mut self, name: &str, registration: Registration<WorkflowDefaults>) -> Self {
        self.decision_context.workflow_types.insert(name.to_owned(), registration);
        self
    }

    /// Sets the domain's capacity for each of the next children.
    pub(crate) fn with_capacity(mut self, capacity: DomainCapacity) -> Self {
        self.decision_context.child_capacities = vec![capacity; 4];
        self
    }

    /// Lets the service offer Lambda tasks.
    pub(crate) fn with_functions(mut self) -> Self {
        self.decision_context.has_functions = true;
        self
    }

    pub(crate) fn fail_turn(&self) -> Command {
        Command::FailTurn { turn: self.turn(), reason: Some("confused".to_owned()), details: None }
    }

    pub(crate) fn start_activity(&self, activity_id: &str) -> Command {
        Command::StartActivity { scheduled_event_id: self.scheduled(activity_id), identity: None, poll: None }
    }

    pub(crate) fn succeed(&self, activity_id: &str) -> Command {
        succeed(self.task(activity_id))
    }

    pub(crate) fn fail(&self, activity_id: &str) -> Command {
        fail(self.task(activity_id))
    }

    pub(crate) fn canceled(&self, activity_id: &str) -> Command {
        Command::CancelActivity { task: self.task(activity_id), details: None }
    }

    /// Returns the command that completes a turn created only for updates.
    pub(crate) fn speculate<const N: usize>(
        &self,
        proposed: &[ProposedUpdate],
        answers: &[(&str, Verdict)],
        decisions: [Decision; N],
    ) -> Command {
        let turn = AnsweredTurn::Speculative {
            last_event_id: self.run.last_event_id,
            started_at: self.now,
            identity: None,
            by: None,
        };
        answer_updates(turn, proposed, answers, decisions.into())
    }

    /// Returns the command that completes the held turn and answers updates.
    pub(crate) fn judge<const N: usize>(
        &self,
        proposed: &[ProposedUpdate],
        answers: &[(&str, Verdict)],
        decisions: [Decision; N],
    ) -> Command {
        answer_updates(AnsweredTurn::Held(self.turn()), proposed, answers, decisions.into())
    }

    pub(crate) fn fire(&self) -> Command {
        Command::FireDeadlines { heartbeats: self.heartbeats.clone(), stopped: Arc::default() }
    }
}

/// Checks that nothing happens before `seconds` have passed, and that `then` happens at that time.
#[track_caller]
pub(crate) fn fires(given: &Scene, seconds: u64, then: &str) {
    let mut before = given.clone().after(seconds);
    let due = before.clone();
    before.now = Timestamp::from_millis(due.now.as_millis() - 1);
    check(&before, &before.fire(), "");
    assert_eq!(given.run.next_deadline(&given.heartbeats), Some(due.now));
    check(&due, &due.fire(), then);
}

/// Checks that `when` adds the events `then` to `given`, or that it is refused with the code `then`.
#[track_caller]
pub(crate) fn check(given: &Scene, when: &Command, then: &str) {
    check_within(given, None, when, then);
}

/// Checks a command from a decider with restricted permissions, like [`check`].
#[track_caller]
pub(crate) fn check_within(given: &Scene, may: Option<&Arc<Permissions>>, when: &Command, then: &str) {
    let found = match given.clone().admit_within(when, may) {
        Ok((CommandOutcome::Recorded(_), events)) => summary(&events),
        Ok((CommandOutcome::Repeated(request), events)) => {
            assert!(events.is_empty());
            format!("repeats {}", request.event_id)
        }
        Err(fault) => {
            assert_eq!(fault.depends_on_state(), !matches!(fault, Fault::Invalid { .. } | Fault::TooLarge { .. }));
            format!("fault {}", fault.code())
        }
    };
    assert_eq!(found, then, "{when:?}");
}

pub(crate) fn complete(turn: TurnId, decisions: Vec<Decision>) -> Command {
    Command::complete(turn, decisions)
}

/// Returns an update with this id.
pub(crate) fn update(update_id: &str) -> ProposedUpdate {
    ProposedUpdate {
        update_id: update_id.to_owned(),
        name: "match".to_owned(),
        input: Some(Payload::from_json("1").unwrap()),
        identity: None,
        if_version: None,
        by: None,
    }
}

pub(crate) fn update_at(update_id: &str, version: EventId) -> ProposedUpdate {
    ProposedUpdate { if_version: Some(version), ..update(update_id) }
}

pub(crate) fn updated() -> Verdict {
    Verdict::Done { result: Some(Payload::from_json("2").unwrap()) }
}

pub(crate) fn failed() -> Verdict {
    Verdict::Failed { reason: "no stock".to_owned(), details: None }
}

pub(crate) fn rejected() -> Verdict {
    Verdict::Rejected { reason: "closed".to_owned(), details: None }
}

pub(crate) fn answer_updates(
    turn: AnsweredTurn,
    proposed: &[ProposedUpdate],
    answers: &[(&str, Verdict)],
    decisions: Vec<Decision>,
) -> Command {
    let answers = answers
        .iter()
        .map(|(update_id, verdict)| UpdateAnswer { update_id: (*update_id).to_owned(), verdict: verdict.clone() });
    let (proposed, answers) = (proposed.to_vec(), answers.collect());
    Command::AnswerUpdates { turn, proposed, answers, rest: Box::new(decisions.into()) }
}

pub(crate) fn succeed(task: TaskId) -> Command {
    Command::SucceedActivity { task, result: None }
}

pub(crate) fn fail(task: TaskId) -> Command {
    fail_with(task, "declined", None)
}

pub(crate) fn fail_with(task: TaskId, reason: &str, retry_after: Option<Duration>) -> Command {
    Command::FailActivity { task, reason: Some(reason.to_owned()), details: None, non_retryable: false, retry_after }
}

pub(crate) fn signal(name: &str) -> Command {
    Command::Signal { name: name.to_owned(), input: None, identity: None, key: None, if_version: None }
}

pub(crate) fn keyed_signal(name: &str, key: u64) -> Command {
    Command::Signal { name: name.to_owned(), input: None, identity: None, key: Some(RequestKey(key)), if_version: None }
}

pub(crate) fn signal_at(version: EventId) -> Command {
    Command::Signal { name: "go".to_owned(), input: None, identity: None, key: None, if_version: Some(version) }
}

pub(crate) fn request_cancel() -> Command {
    Command::RequestCancel { reason: None, identity: None, key: None }
}

pub(crate) fn terminate() -> Command {
    Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None }
}

pub(crate) fn operator() -> OperatorAction {
    OperatorAction { identity: Some("ann".to_owned()), reason: Some("the bank is down".to_owned()) }
}

pub(crate) fn pause() -> Command {
    Command::Pause { stop_clocks: false, operator: operator(), key: None }
}

/// Returns a pause that stops the clock.
pub(crate) fn stop() -> Command {
    Command::Pause { stop_clocks: true, operator: operator(), key: None }
}

pub(crate) fn resume() -> Command {
    Command::Resume { operator: operator(), key: None }
}

pub(crate) fn schedule(activity_id: &str) -> Decision {
    schedule_with(activity_id, ActivityTimeouts::default())
}

pub(crate) fn schedule_with(activity_id: &str, timeouts: ActivityTimeouts) -> Decision {
    Decision::from(ScheduleActivity {
        activity_id: activity_id.to_owned(),
        activity_type: activity_id.to_uppercase(),
        timeouts,
        ..ScheduleActivity::default()
    })
}

pub(crate) fn schedule_with_retry(activity_id: &str, retry: RetryPolicy, timeouts: ActivityTimeouts) -> Decision {
    Decision::from(ScheduleActivity {
        activity_id: activity_id.to_owned(),
        activity_type: activity_id.to_uppercase(),
        timeouts,
        retry: Some(retry),
        ..ScheduleActivity::default()
    })
}

pub(crate) fn cancel(activity_id: &str) -> Decision {
    Decision::from(CancelActivity { activity_id: activity_id.to_owned() })
}

pub(crate) fn timer(timer_id: &str, seconds: u64) -> Decision {
    Decision::from(StartTimer { timer_id: timer_id.to_owned(), after: Duration::from_secs(seconds), control: None })
}

pub(crate) fn cancel_timer(timer_id: &str) -> Decision {
    Decision::from(CancelTimer { timer_id: timer_id.to_owned() })
}

pub(crate) fn marker(name: &str) -> Decision {
    Decision::from(RecordMarker { name: name.to_owned(), details: None })
}

/// Returns the decision to start a child with this child policy.
pub(crate) fn start_child(workflow_id: &str, child_policy: ChildPolicy) -> Decision {
    let (workflow_id, workflow_type) = (workflow_id.to_owned(), "child".to_owned());
    Decision::from(StartChild { workflow_id, workflow_type, child_policy, ..StartChild::default() })
}

pub(crate) fn child(workflow_id: &str) -> Decision {
    start_child(workflow_id, ChildPolicy::Terminate)
}

/// Returns the command with which a child reports its close.
pub(crate) fn child_closes(scheduled_event_id: EventId, close: EventKind) -> Command {
    Command::TakeChildClose { scheduled_event_id, run_id: Uuid::from_u128(9), close: Box::new(close) }
}

pub(crate) fn signal_external(workflow_id: &str) -> Decision {
    let (workflow_id, name) = (workflow_id.to_owned(), "go".to_owned());
    Decision::from(SignalExternal { workflow_id, name, ..SignalExternal::default() })
}

pub(crate) fn cancel_external(workflow_id: &str) -> Decision {
    Decision::from(CancelExternal { workflow_id: workflow_id.to_owned(), ..CancelExternal::default() })
}

/// Returns the origin of a request from another run: an event of the run with this number.
pub(crate) fn origin(run: u128, event_id: EventId) -> Origin {
    Origin { workflow_id: format!("w{run}"), run_id: Uuid::from_u128(run), event_id }
}

pub(crate) fn signal_of(run: u128, event_id: EventId) -> Command {
    Command::TakeSignal { origin: origin(run, event_id), name: "go".to_owned(), input: None }
}

pub(crate) fn cancel_of(run: u128, event_id: EventId) -> Command {
    Command::TakeCancelRequest { origin: origin(run, event_id), reason: None }
}

pub(crate) fn settle(event_id: EventId, kind: EffectKind, result: EffectResult) -> Command {
    Command::SettleEffect { owner: Uuid::nil(), event_id, kind, round: 0, result }
}

pub(crate) fn done() -> EffectResult {
    EffectResult::Done { run_id: Uuid::from_u128(9) }
}

pub(crate) fn success() -> Decision {
    Decision::from(SucceedWorkflow::default())
}

pub(crate) fn success_by_force() -> Decision {
    Decision::from(SucceedWorkflow { result: None, force: true })
}

pub(crate) fn failure() -> Decision {
    Decision::from(FailWorkflow { reason: "no stock".to_owned(), ..FailWorkflow::default() })
}

pub(crate) fn cancellation() -> Decision {
    Decision::from(CancelWorkflow::default())
}

/// Lists events in one line, each with its most important attributes.
pub(crate) fn summary(events: &[Event]) -> String {
    let words = events.iter().map(|event| {
        let name = event.kind.name();
        match &event.kind {
            EventKind::WorkflowFailed(it) => format!("{name}({})", it.reason),
            EventKind::WorkflowCloseFailed(it) => format!("{name}({:?})", it.decision),
            EventKind::DeciderScheduled(it) => match it.not_before {
                Some(at) => format!("{name}(+{})", at.since(event.timestamp)),
                None => name.to_owned(),
            },
            EventKind::DeciderTimedOut(it) => format!("{name}({:?})", it.timeout),
            EventKind::DeciderFailed(it) => format!("{name}({:?})", it.cause),
            EventKind::ActivityScheduled(it) => format!("{name}({})", it.activity_id),
            EventKind::ActivityScheduleFailed(it) => format!("{name}({}, {:?})", it.activity_id, it.cause),
            EventKind::ActivityStarted(ActivityStarted { attempt: Some(attempt), last_failure, .. }) => {
                let after = last_failure.as_ref().map_or(String::new(), |failure| {
                    let reason = failure.reason.clone();
                    format!(" after {}", reason.unwrap_or_else(|| format!("{:?}", failure.timeout)))
                });
                format!("{name}(try {attempt}{after})")
            }
            EventKind::ActivityTimedOut(it) => {
                let details = it.details.as_ref().map_or(String::new(), |details| format!(", {details}"));
                let cause = it.cause.map_or(String::new(), |cause| format!(", {cause:?}"));
                format!("{name}({:?}{details}{cause})", it.timeout)
            }
            EventKind::ActivityTaskCancel(it) => format!("{name}({})", it.activity_id),
            EventKind::ActivityTaskCancelFailed(it) => format!("{name}({}, {:?})", it.activity_id, it.cause),
            EventKind::TimerScheduled(it) => format!("{name}({})", it.timer_id),
            EventKind::TimerScheduleFailed(it) => format!("{name}({}, {:?})", it.timer_id, it.cause),
            EventKind::TimerExpired(it) => format!("{name}({})", it.timer_id),
            EventKind::TimerCanceled(it) => format!("{name}({})", it.timer_id),
            EventKind::TimerCancelFailed(it) => format!("{name}({}, {:?})", it.timer_id, it.cause),
            EventKind::Signal(it) => format!("{name}({})", it.name),
            EventKind::Marker(it) => format!("{name}({})", it.name),
            EventKind::MarkerFailed(it) => format!("{name}({}, {:?})", it.name, it.cause),
            EventKind::ChildScheduled(it) => format!("{name}({})", it.workflow_id),
            EventKind::ChildScheduleFailed(it) => format!("{name}({}, {:?})", it.workflow_id, it.cause),
            EventKind::ChildStarted(it) => format!("{name}({})", it.workflow_id),
            EventKind::ChildFailed(it) => format!("{name}({})", it.reason),
            EventKind::ExternalSignalScheduled(it) => format!("{name}({})", it.workflow_id),
            EventKind::ExternalSignalFailed(it) => format!("{name}({}, {:?})", it.workflow_id, it.cause),
            EventKind::ExternalCancelScheduled(it) => format!("{name}({})", it.workflow_id),
            EventKind::ExternalCancelFailed(it) => format!("{name}({}, {:?})", it.workflow_id, it.cause),
            EventKind::UpdateAccepted(it) => format!("{name}({})", it.update_id),
            EventKind::UpdateCompleted(it) => format!("{name}({})", it.update_id),
            EventKind::UpdateFailed(it) => format!("{name}({}, {})", it.update_id, it.reason),
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderCompleted(_)
            | EventKind::ActivityStarted(_)
            | EventKind::ActivitySuccess(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ActivityCanceled(_)
            | EventKind::ActivityScheduledTimeout(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ActivityPaused(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => name.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
