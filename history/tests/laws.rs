//! Invariants of every history that commands can produce, and of arbitrary invalid input.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::BTreeMap;

use baton_history::event::{
    ActivityTimeouts, ChildPolicy, LaterSignals, OperatorAction, ResetPlan, WorkflowCanceled, WorkflowFailed,
    WorkflowSuccess, WorkflowTerminated, WorkflowTimedOut, WorkflowTimeout,
};
use baton_history::{
    Activities, ActivityCommand, AnsweredTurn, BranchReader, Branching, CancelActivity, CancelExternal, CancelTimer,
    CancelWorkflow, Command, CommandOutcome, ContinueAsNew, DeadlineKind, Decision, Duration, EffectResult, Event,
    EventKind, Factor, FailWorkflow, Fault, Heartbeat, Links, OpenUpdates, OptionsChange, Origin, PackRef, Payload,
    PlannedReset, PollId, ProposedUpdate, RecordMarker, RequestKey, RetryPolicy, Run, ScheduleActivity, SignalExternal,
    Start, StartChild, StartTimer, SucceedWorkflow, TaskId, Timestamp, Transition, TurnAnswer, TurnId, UpdateAnswer,
    Verdict, WhenExhausted, check, codec, limits,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use uuid::Uuid;

/// Runs the same cases every time, unless `BATON_SEED` selects others. A failure prints the seed and the smallest
/// failing steps.
fn config(cases: u32) -> ProptestConfig {
    let seed = std::env::var("BATON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(0xBA70);
    eprintln!("BATON_SEED={seed}");
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..ProptestConfig::default()
    }
}

/// A step in the life of a run. Numbers select from the items of the run, or name missing items.
#[derive(Debug, Clone)]
enum Step {
    Signal {
        key: Option<u8>,
        version: Option<i8>,
    },
    RequestCancel {
        key: Option<u8>,
    },
    Terminate,
    TakeTurn,
    Complete(Vec<Choice>, bool),
    /// Answers updates in a held turn, or in a speculative turn based on the state this many events ago.
    Judge {
        answers: Vec<(u8, u8)>,
        choices: Vec<Choice>,
        condition: Option<i8>,
        ago: u64,
    },
    FailTurn,
    ReturnTurn,
    TakeActivity(u8),
    /// Pauses the run, with its clock running or stopped.
    Pause(bool, Option<u8>),
    Resume,
    Repair,
    /// Changes an activity manually.
    Act(u8, u8, Option<u8>),
    Answer(u8, Answer),
    Heartbeat(u8),
    Fire,
    /// Delivers a signal or cancel request of another run.
    Take(u8, u8, bool),
    /// Reports the outcome of a pending effect.
    Settle(u8, u8),
    /// Reports the close of a child.
    ChildCloses(u8, u8),
    /// Reports the close of the parent.
    ParentCloses(bool),
    /// Lets another run continue from one of the events, with or without the later signals.
    Reset(prop::sample::Index, bool),
    /// Repeats the newest command.
    Repeat,
    /// Sends a command with arbitrary event ids.
    Junk(u8, u64, u64),
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Success,
    Failure,
    Canceled,
    Return,
}

#[derive(Debug, Clone)]
enum Choice {
    Schedule(u8, [Option<u8>; 4], Option<(u8, u8)>),
    Cancel(u8),
    Timer(u8, u8),
    CancelTimer(u8),
    Marker(bool),
    /// Sends a signal or cancel request to another run.
    External(u8, bool),
    Child(u8, u8),
    Close(u8, bool),
}

fn choice() -> impl Strategy<Value = Choice> {
    let seconds = || option::weighted(0.4, 1..90_u8);
    prop_oneof![
        6 => (0..4_u8, [seconds(), seconds(), seconds(), seconds()], option::weighted(0.5, (0..20_u8, 0..4_u8)))
            .prop_map(|(id, limits, retry)| Choice::Schedule(id, limits, retry)),
        2 => (0..4_u8).prop_map(Choice::Cancel),
        3 => (0..3_u8, 0..90_u8).prop_map(|(id, seconds)| Choice::Timer(id, seconds)),
        2 => (0..3_u8).prop_map(Choice::CancelTimer),
        1 => prop::bool::weighted(0.2).prop_map(Choice::Marker),
        3 => (0..3_u8, any::<bool>()).prop_map(|(to, is_signal)| Choice::External(to, is_signal)),
        3 => (0..3_u8, 0..3_u8).prop_map(|(id, policy)| Choice::Child(id, policy)),
    ]
}

/// Generates the choices of a turn: usually one to three, sometimes followed and rarely preceded by a close.
fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let close = (0..4_u8, prop::bool::weighted(0.3)).prop_map(|(kind, is_forced)| Choice::Close(kind, is_forced));
    (vec(choice(), 0..4), option::weighted(0.12, close), prop::bool::weighted(0.1)).prop_map(
        |(mut choices, close, is_first)| {
            if let Some(close) = close {
                let at = if is_first { 0 } else { choices.len() };
                choices.insert(at, close);
            }
            choices
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let key = || option::weighted(0.3, 0..90_u8);
    let answer = prop_oneof![
        4 => Just(Answer::Success),
        2 => Just(Answer::Failure),
        2 => Just(Answer::Canceled),
        1 => Just(Answer::Return),
    ];
    prop_oneof![
        4 => (key(), option::weighted(0.3, -2..3_i8)).prop_map(|(key, version)| Step::Signal { key, version }),
        1 => key().prop_map(|key| Step::RequestCancel { key }),
        9 => Just(Step::TakeTurn),
        9 => (choices(), prop::bool::weighted(0.2)).prop_map(|(choices, waits)| Step::Complete(choices, waits)),
        7 => (
            vec((0..6_u8, 0..8_u8), 0..4), choices(), option::weighted(0.2, -1..2_i8), option::weighted(0.1, 1..4_u64),
        )
            .prop_map(|(answers, choices, condition, ago)| {
                Step::Judge { answers, choices, condition, ago: ago.unwrap_or(0) }
            }),
        1 => Just(Step::FailTurn),
        1 => Just(Step::ReturnTurn),
        6 => any::<u8>().prop_map(Step::TakeActivity),
        6 => (any::<u8>(), answer).prop_map(|(pick, answer)| Step::Answer(pick, answer)),
        3 => (any::<u8>(), 0..10_u8, key()).prop_map(|(pick, act, key)| Step::Act(pick, act, key)),
        1 => (any::<bool>(), key()).prop_map(|(stops, key)| Step::Pause(stops, key)),
        2 => Just(Step::Resume),
        2 => Just(Step::Repair),
        2 => any::<u8>().prop_map(Step::Heartbeat),
        5 => Just(Step::Fire),
        2 => (0..2_u8, 0..5_u8, any::<bool>()).prop_map(|(from, event, is_signal)| Step::Take(from, event, is_signal)),
        5 => (any::<u8>(), 0..6_u8).prop_map(|(pick, result)| Step::Settle(pick, result)),
        5 => (any::<u8>(), 0..6_u8).prop_map(|(pick, close)| Step::ChildCloses(pick, close)),
        1 => prop::bool::weighted(0.2).prop_map(Step::ParentCloses),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(at, drops)| Step::Reset(at, drops)),
        1 => Just(Step::Repeat),
        1 => (0..9_u8, 0..60_u64, 0..60_u64)
            .prop_map(|(kind, scheduled, started)| Step::Junk(kind, scheduled, started)),
        1 => (0..9_u8, any::<u64>(), any::<u64>())
            .prop_map(|(kind, scheduled, started)| Step::Junk(kind, scheduled, started)),
    ]
}

/// Generates steps. Each step has a number of milliseconds by which the clock moves before it, sometimes backwards. The
/// flag is `true` if the step is the last of its commit.
fn steps() -> impl Strategy<Value = Vec<(i64, Step, bool)>> {
    let pause = prop_oneof![
        4 => Just(0_i64),
        4 => 0..3_000_i64,
        3 => 3_000..40_000_i64,
        1 => 40_000..4_000_000_i64,
        1 => -5_000..0_i64,
        // The clock was adjusted manually, or after a restart of the machine.
        1 => -200_000_000..200_000_000_i64,
    ];
    let steps = vec((pause, step(), prop::bool::weighted(0.7)), 1..130);
    // A termination is rare, and further steps follow it.
    (steps, option::weighted(0.1, any::<prop::sample::Index>())).prop_map(|(mut steps, end): (Vec<_>, _)| {
        if let Some(end) = end {
            let at = end.index(steps.len());
            steps.insert(at, (0, Step::Terminate, true));
        }
        steps
    })
}

fn start() -> Start {
    Start {
        execution_timeout: Duration::from_secs(6_000),
        decider_start_to_close: Duration::from_secs(30),
        decider_schedule_to_start: Some(Duration::from_secs(60)),
        activity_timeouts: ActivityTimeouts::default(),
        retry: Some(RetryPolicy { maximum_attempts: Some(3), ..RetryPolicy::default() }),
        key: Some(RequestKey(0)),
        ..Start::new("w", "t", "l")
    }
}

/// Returns the start of a run that consists of a single activity.
fn start_of_activity(limits: [Option<u8>; 4], retry: Option<(u8, u8)>) -> Start {
    let seconds = |limit: Option<u8>| limit.map(|limit| Duration::from_secs(limit.into()));
    let activity = ScheduleActivity {
        activity_id: limits::ONE_ACTIVITY_ID.to_owned(),
        activity_type: "t".to_owned(),
        timeouts: ActivityTimeouts {
            schedule_to_start: seconds(limits[0]),
            start_to_close: seconds(limits[1]),
            schedule_to_close: seconds(limits[2]),
            heartbeat: seconds(limits[3]),
        },
        retry: retry.map(|(interval, attempts)| policy(interval, attempts)),
        ..ScheduleActivity::default()
    };
    Start { retry: None, activity: Some(Box::new(activity)), ..start() }
}

fn policy(interval: u8, attempts: u8) -> RetryPolicy {
    RetryPolicy {
        initial_interval: Duration::from_millis(u64::from(interval) * 50 + 1),
        maximum_attempts: (attempts > 0).then_some(attempts.into()),
        non_retryable_reasons: vec!["hopeless".to_owned()],
        jitter: Factor::from_thousandths(u32::from(interval % 3) * 500),
        when_exhausted: if interval.is_multiple_of(2) { WhenExhausted::Pause } else { WhenExhausted::Fail },
        ..RetryPolicy::default()
    }
}

fn decision(choice: &Choice) -> Decision {
    let payload = || Some(Payload::from_json(r#"{"n": 1.0}"#).unwrap());
    match *choice {
        Choice::Schedule(id, [a, b, c, d], retry) => {
            let seconds = |seconds: Option<u8>| seconds.map(|seconds| Duration::from_secs(seconds.into()));
            ScheduleActivity {
                activity_id: format!("a{id}"),
                activity_type: "A".to_owned(),
                task_list: None,
                input: payload(),
                timeouts: ActivityTimeouts {
                    schedule_to_start: seconds(a),
                    start_to_close: seconds(b),
                    schedule_to_close: seconds(c),
                    heartbeat: seconds(d),
                },
                retry: retry.map(|(interval, attempts)| policy(interval, attempts)),
                ..ScheduleActivity::default()
            }
            .into()
        }
        Choice::Cancel(id) => CancelActivity { activity_id: format!("a{id}") }.into(),
        Choice::Timer(id, seconds) => {
            StartTimer { timer_id: format!("t{id}"), after: Duration::from_secs(seconds.into()), control: None }.into()
        }
        Choice::CancelTimer(id) => CancelTimer { timer_id: format!("t{id}") }.into(),
        Choice::Marker(is_reserved) => {
            let name = if is_reserved { "baton.m" } else { "m" };
            RecordMarker { name: name.to_owned(), details: payload() }.into()
        }
        Choice::External(to, true) => SignalExternal {
            workflow_id: format!("o{to}"),
            name: "s".to_owned(),
            input: payload(),
            run_id: None,
            control: None,
        }
        .into(),
        Choice::External(to, false) => {
            CancelExternal { workflow_id: format!("o{to}"), ..CancelExternal::default() }.into()
        }
        Choice::Child(id, policy) => StartChild {
            workflow_id: format!("c{id}"),
            workflow_type: "child".to_owned(),
            input: payload(),
            child_policy: match policy {
                0 => ChildPolicy::Terminate,
                1 => ChildPolicy::RequestCancel,
                _ => ChildPolicy::Abandon,
            },
            ..StartChild::default()
        }
        .into(),
        Choice::Close(kind, force) => match kind {
            0 => SucceedWorkflow { result: payload(), force }.into(),
            1 => FailWorkflow { reason: "r".to_owned(), details: payload(), force, ..FailWorkflow::default() }.into(),
            2 => CancelWorkflow { details: payload(), force }.into(),
            _ => ContinueAsNew { input: payload(), force, ..ContinueAsNew::default() }.into(),
        },
    }
}

fn proposed(id: u8, if_version: Option<u64>) -> ProposedUpdate {
    let input = Some(Payload::from_json("[1]").unwrap());
    ProposedUpdate { update_id: format!("u{id}"), name: "u".to_owned(), input, identity: None, if_version, by: None }
}

fn answer(id: u8, verdict: u8) -> UpdateAnswer {
    let verdict = match verdict {
        0 | 1 => Verdict::Later,
        2 | 3 => Verdict::Rejected { reason: "r".to_owned(), details: None },
        4 => Verdict::Failed { reason: "r".to_owned(), details: None },
        _ => Verdict::Done { result: Some(Payload::from_json("2").unwrap()) },
    };
    UpdateAnswer { update_id: format!("u{id}"), verdict }
}

/// Returns the command of a step for this run, or `None` if it does not apply.
fn command(
    step: &Step,
    transition: &Transition,
    heartbeats: &mut Vec<Heartbeat>,
    now: Timestamp,
    newest: Option<&Command>,
) -> Option<Command> {
    let (run, links) = (transition.run(), transition.links());
    let held = run
        .turn
        .as_ref()
        .map(|turn| TurnId { scheduled_event_id: turn.scheduled_event_id, started_event_id: turn.started_event_id });
    let pick = |pick: u8, is_started: bool| {
        let mut open = run.activities.iter().filter(|(_, it)| it.held_since().is_some() == is_started);
        let count = open.clone().count();
        (count > 0)
            .then(|| open.nth(usize::from(pick) % count))
            .flatten()
            .map(|(id, it)| it.task(*id).unwrap_or(TaskId { scheduled_event_id: *id, started_event_id: 0, start: 0 }))
    };
    let key = |key: &Option<u8>| key.map(|key| RequestKey(key.into()));
    Some(match step {
        Step::Signal { key: with, version } => Command::Signal {
            name: "s".to_owned(),
            input: Some(Payload::from_json("[1]").unwrap()),
            identity: None,
            key: key(with),
            if_version: version.map(|off| run.version.saturating_add_signed(if off < 0 { 0 } else { off.into() })),
        },
        Step::RequestCancel { key: with } => Command::RequestCancel { reason: None, identity: None, key: key(with) },
        Step::Terminate => {
            Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None }
        }
        Step::TakeTurn => {
            let scheduled_event_id = run.turn_task.as_ref()?.scheduled_event_id;
            Command::StartTurn { scheduled_event_id, identity: None, poll: None }
        }
        Step::Complete(choices, waits) => Command::complete(
            held?,
            TurnAnswer {
                decisions: choices.iter().map(decision).collect(),
                awaiting: waits.then(|| "s".to_owned()).into_iter().collect(),
                ..TurnAnswer::default()
            },
        ),
        Step::Judge { answers, choices, condition, ago } => Command::AnswerUpdates {
            turn: match held {
                Some(turn) => AnsweredTurn::Held(turn),
                None => {
                    let last_event_id = run.last_event_id.saturating_sub(*ago);
                    // The turn was taken in time, or at another time because the clock was different.
                    let started_at = Timestamp::from_millis(now.as_millis() - 1_500 + 1_000 * ago);
                    AnsweredTurn::Speculative { last_event_id, started_at, identity: None, by: None }
                }
            },
            // The answers can also name an update that was not proposed.
            proposed: (0..5_u8)
                .map(|id| proposed(id, condition.map(|off| run.version.saturating_add_signed(off.into()))))
                .collect(),
            answers: answers.iter().map(|(id, verdict)| answer(*id, *verdict)).collect(),
            rest: Box::new(choices.iter().map(decision).collect::<Vec<_>>().into()),
        },
        Step::FailTurn => Command::FailTurn { turn: held?, reason: None, details: None },
        Step::ReturnTurn => Command::ReturnTurn { turn: held?, poll: None },
        Step::TakeActivity(any) => {
            let scheduled_event_id = pick(*any, false)?.scheduled_event_id;
            let identity = Some("runner ".repeat(usize::from(any % 9) + 1));
            let poll = (any % 3 > 0).then_some(PollId(u64::MAX - u64::from(*any)));
            Command::StartActivity { scheduled_event_id, identity, poll }
        }
        Step::Pause(stop_clocks, with) => {
            Command::Pause { stop_clocks: *stop_clocks, operator: OperatorAction::default(), key: key(with) }
        }
        Step::Resume => Command::Resume { operator: OperatorAction::default(), key: None },
        Step::Repair => {
            let (heartbeats, timers, operator) = (heartbeats.clone(), BTreeMap::new(), OperatorAction::default());
            Command::RepairDeadlines { heartbeats, timers, operator, key: None }
        }
        Step::Act(_, 9, with) => {
            let operator = OperatorAction { identity: None, reason: Some("the server is back".to_owned()) };
            Command::RetryActivities { failure_reason: None, operator, key: key(with) }
        }
        Step::Act(any, act, with) => {
            let mut activities: Vec<_> = run.activities.values().collect();
            if (4..7).contains(act) && activities.iter().any(|activity| activity.paused.is_some()) {
                activities.retain(|activity| activity.paused.is_some());
            }
            let activity = activities.get(usize::from(*any) % activities.len().max(1))?;
            let seconds = Some(Some(Duration::from_secs(u64::from(*any) + 1)));
            let act = match act {
                0 => ActivityCommand::Succeed { result: None },
                1 => ActivityCommand::Fail { reason: "r".to_owned(), details: None },
                2 | 3 => ActivityCommand::Retry,
                4..7 if activity.paused.is_some() && any % 5 > 0 => ActivityCommand::Resume,
                4..6 => ActivityCommand::Pause,
                6 => ActivityCommand::Resume,
                7 => ActivityCommand::Change(Box::new(OptionsChange {
                    task_list: Some(format!("l{}", any % 2)),
                    retry: (any % 3 == 0).then(|| policy(any % 20, any % 4)),
                    ..OptionsChange::default()
                })),
                _ => ActivityCommand::Change(Box::new(OptionsChange {
                    schedule_to_start: (any % 2 == 0).then_some(None),
                    start_to_close: seconds,
                    schedule_to_close: seconds.filter(|_| any % 3 == 0),
                    ..OptionsChange::default()
                })),
            };
            let operator = OperatorAction { identity: Some("ann".to_owned()), reason: None };
            Command::ActOnActivity { activity_id: activity.activity_id.clone(), act, operator, key: key(with) }
        }
        Step::Answer(any, answer) => {
            let task = pick(*any, true)?;
            match answer {
                Answer::Success => Command::SucceedActivity { task, result: None },
                Answer::Failure => {
                    let reason =
                        if any % 7 == 0 { "hopeless".to_owned() } else { "r".repeat(usize::from(any % 23) + 1) };
                    let details = (any % 2 == 0).then(|| Payload::of(&"d".repeat(usize::from(*any))).unwrap());
                    let retry_after = (any % 5 == 0).then(|| Duration::from_secs(u64::from(any % 4)));
                    Command::FailActivity {
                        task,
                        reason: Some(reason),
                        details,
                        non_retryable: any % 3 == 0,
                        retry_after,
                    }
                }
                Answer::Canceled => Command::CancelActivity { task, details: None },
                Answer::Return => {
                    let poll = links.sent.poll_of(task.scheduled_event_id);
                    Command::ReturnActivity { task, poll }
                }
            }
        }
        Step::Heartbeat(any) => {
            let scheduled_event_id = pick(*any, true)?.scheduled_event_id;
            heartbeats.retain(|heartbeat| heartbeat.scheduled_event_id != scheduled_event_id);
            heartbeats.push(Heartbeat { scheduled_event_id, at: now, details: Some(Payload::from_json("7").unwrap()) });
            return None;
        }
        Step::Fire => Command::FireDeadlines { heartbeats: heartbeats.clone(), stopped: std::sync::Arc::default() },
        Step::Take(from, event_id, is_signal) => {
            let run_id = Uuid::from_u128((*from).into());
            let origin = Origin { workflow_id: format!("o{from}"), run_id, event_id: (*event_id).into() };
            if *is_signal {
                Command::TakeSignal { origin, name: "o".to_owned(), input: None }
            } else {
                Command::TakeCancelRequest { origin, reason: None }
            }
        }
        Step::Settle(pick, result) => {
            let owed: Vec<_> = links.outbox.ready().collect();
            let effect = owed.get(usize::from(*pick) % owed.len().max(1))?;
            let result = match result {
                0 => EffectResult::Unknown,
                1 => EffectResult::Closed,
                2 => EffectResult::AlreadyOpen,
                3 => EffectResult::ReuseRefused,
                _ => EffectResult::Done { run_id: Uuid::from_u128(7) },
            };
            let owner = effect.of.unwrap_or(run.started.run_id);
            let (event_id, kind) = (effect.event_id, effect.kind);
            Command::SettleEffect { owner, event_id, kind, round: links.outbox.round(), result }
        }
        Step::ChildCloses(pick, close) => {
            let count = run.children.len().max(1);
            let scheduled_event_id = *run.children.keys().nth(usize::from(*pick) % count)?;
            let decision_event_id = 4;
            let close = match close {
                0 => EventKind::WorkflowFailed(WorkflowFailed {
                    has_empty_reason: false,
                    reason: "r".to_owned(),
                    details: None,
                    decision_event_id,
                    new_run_id: None,
                    next_attempt_at: None,
                }),
                1 => EventKind::WorkflowTimedOut(WorkflowTimedOut {
                    timeout: WorkflowTimeout::Execution,
                    new_run_id: None,
                    next_attempt_at: None,
                }),
                2 => EventKind::WorkflowCanceled(WorkflowCanceled { details: None, decision_event_id }),
                3 => EventKind::WorkflowTerminated(WorkflowTerminated {
                    cause: None,
                    reset: None,
                    reason: None,
                    details: None,
                    identity: None,
                    origin: None,
                    child_policy: None,
                }),
                _ => EventKind::WorkflowSuccess(WorkflowSuccess { result: None, decision_event_id }),
            };
            Command::TakeChildClose { scheduled_event_id, run_id: Uuid::from_u128(7), close: Box::new(close) }
        }
        Step::ParentCloses(terminates) => {
            let origin = Origin { workflow_id: "p".to_owned(), run_id: Uuid::from_u128(99), event_id: 5 };
            let policy = if *terminates { ChildPolicy::Terminate } else { ChildPolicy::RequestCancel };
            Command::TakeParentClose { origin, policy }
        }
        Step::Reset(..) => return None,
        Step::Repeat => newest?.clone(),
        Step::Junk(kind, scheduled_event_id, started_event_id) => {
            junk(*kind, *scheduled_event_id, *started_event_id, heartbeats.clone())
        }
    })
}

fn junk(kind: u8, scheduled_event_id: u64, started_event_id: u64, heartbeats: Vec<Heartbeat>) -> Command {
    let turn = TurnId { scheduled_event_id, started_event_id };
    let task = TaskId { scheduled_event_id, started_event_id, start: 0 };
    match kind {
        0 => Command::StartTurn { scheduled_event_id, identity: None, poll: None },
        1 => Command::complete(turn, vec![SucceedWorkflow::default().into()]),
        2 => Command::FailTurn { turn, reason: Some(String::new()), details: None },
        3 => Command::ReturnTurn { turn, poll: None },
        4 => Command::StartActivity { scheduled_event_id, identity: Some("\n".to_owned()), poll: None },
        5 => Command::SucceedActivity { task, result: None },
        6 => Command::FailActivity {
            task,
            reason: Some("x".repeat(300)),
            details: None,
            non_retryable: false,
            retry_after: None,
        },
        7 => Command::CancelActivity { task, details: None },
        _ => {
            let heartbeat =
                Heartbeat { scheduled_event_id, at: Timestamp::from_millis(started_event_id), details: None };
            Command::FireDeadlines {
                heartbeats: heartbeats.into_iter().chain([heartbeat]).collect(),
                stopped: std::sync::Arc::default(),
            }
        }
    }
}

/// The resulting history, and the end of each of its commits.
struct Story {
    run: Run,
    events: Vec<Event>,
    commits: Vec<usize>,
}

/// Applies the steps to a new run, and checks the invariants after each step.
fn run_steps(steps: &[(i64, Step, bool)]) -> Result<Story, TestCaseError> {
    run_steps_of(&start(), steps)
}

fn run_steps_of(start: &Start, steps: &[(i64, Step, bool)]) -> Result<Story, TestCaseError> {
    let mut now = Timestamp::from_millis(1_700_000_000_000);
    let mut transition = Transition::start(start, Uuid::nil(), now).unwrap();
    let mut events: Vec<Event> = Vec::new();
    let mut heartbeats: Vec<Heartbeat> = Vec::new();
    let mut commits = Vec::new();
    let mut newest = None;
    for (pause, step, is_commit) in steps {
        now = Timestamp::from_millis(now.as_millis().saturating_add_signed(*pause));
        if let Some(command) = command(step, &transition, &mut heartbeats, now, newest.as_ref()) {
            one(&mut transition, &command, now)?;
            newest = Some(command);
        }
        if let Step::Reset(at, drops) = step {
            commit(&mut transition, &mut events, &mut commits)?;
            if reset(&mut transition, &mut events, *at, *drops, now)? {
                (newest, heartbeats) = (None, Vec::new());
                commits.clear();
                commit(&mut transition, &mut events, &mut commits)?;
            }
        }
        if *is_commit {
            commit(&mut transition, &mut events, &mut commits)?;
        }
    }
    commit(&mut transition, &mut events, &mut commits)?;
    Ok(Story { run: transition.run().clone(), events, commits })
}

/// Admits one command and checks its effects.
fn one(transition: &mut Transition, command: &Command, now: Timestamp) -> Result<(), TestCaseError> {
    let before = transition.clone();
    let outcome = transition.admit(command, now);
    let added: Vec<_> = transition.events().iter().skip(before.events().len()).collect();
    match outcome {
        Err(fault) => {
            prop_assert_eq!(
                transition.run(),
                before.run(),
                "{:?} was refused with {} and changed the run",
                command,
                fault
            );
            prop_assert_eq!(transition.links(), before.links());
            prop_assert!(added.is_empty(), "{:?} was refused with {} and left {:?}", command, fault, added);
            if !before.run().is_open() {
                let expected = [Fault::TurnCompleted, Fault::RunClosed { status: before.run().status }];
                let is_field =
                    matches!(fault, Fault::Invalid { .. } | Fault::TooLarge { .. } | Fault::UnknownUpdate { .. });
                prop_assert!(is_field || expected.contains(&fault), "{:?}: {}", command, fault);
            }
            return Ok(());
        }
        Ok(CommandOutcome::Repeated(request)) => {
            // An effect of another run may have been accepted by the previous run.
            let is_taken = matches!(
                command,
                Command::TakeSignal { .. } | Command::TakeCancelRequest { .. } | Command::TakeParentClose { .. }
            );
            prop_assert!(request.event_id <= before.run().last_event_id || is_taken);
            prop_assert_eq!(transition.run(), before.run());
            prop_assert!(added.is_empty());
            return Ok(());
        }
        Ok(CommandOutcome::Recorded(event_id)) => prop_assert_eq!(event_id, before.run().last_event_id + 1),
    }
    // A run can only become stuck by a turn that opens nothing, or by the close of its last open item.
    let run = transition.run();
    let waits = run.turn_task.is_some() || run.waiting_tasks().next().is_some() || run.turn.is_some();
    let ends = run.deadlines(&[]).into_iter().any(|deadline| deadline.what != DeadlineKind::Execution);
    prop_assert!(!(run.is_stuck() && (waits || ends)), "{:?} left the run stuck, and {:?}", command, run);
    let is_idle =
        run.activities.is_empty() && run.timers.is_empty() && run.externals.is_empty() && run.children.is_empty();
    let has_work = !is_idle || !run.awaiting.is_empty();
    prop_assert_eq!(run.is_stuck(), run.is_open() && !waits && !has_work);
    if let Command::AnswerUpdates { proposed, answers, rest, .. } = command {
        let accepted = |event: &&Event| matches!(event.kind, EventKind::UpdateAccepted(_));
        let is_conditional = proposed.iter().any(|proposed| proposed.if_version.is_some());
        let count = added.iter().copied().filter(accepted).count();
        prop_assert!(count <= if is_conditional { 1 } else { answers.len() }, "{:?} accepted {}", command, count);
        // A rejection leaves the run unchanged, byte for byte.
        let rejects = answers.iter().all(|answer| {
            let is_new = before.run().updates.open().values().all(|open| open.update_id != answer.update_id);
            is_new && matches!(answer.verdict, Verdict::Rejected { .. })
        });
        if rejects && rest.decisions.is_empty() && before.run().turn.is_none() {
            prop_assert!(added.is_empty());
            prop_assert_eq!(transition.run(), before.run());
            prop_assert!(transition.is_changed() == before.is_changed());
        }
    }
    stays_within_budget(&before, transition, command)?;
    // The first future change is the time at which the run is checked next.
    let (outbox, at) = (&transition.links().outbox, now);
    let future = run.future(&[], outbox, baton_history::StoppedLists::NONE, at);
    prop_assert_eq!(
        future.first().map(|coming| coming.at),
        run.next_change(&[], outbox, baton_history::StoppedLists::NONE, at)
    );
    prop_assert!(future.is_sorted_by_key(|coming| coming.at));
    let all = run.deadlines(&[]).len() + usize::from(outbox.next_at().is_some());
    prop_assert!((all..=all + 1).contains(&future.len()), "{:?} of {:?}", future, run);
    // A close is final.
    prop_assert!(before.run().is_open() || added.is_empty(), "{:?} after the close: {:?}", command, added);
    let turns = added.iter().filter(|event| matches!(event.kind, EventKind::DeciderScheduled(_))).count();
    // A command schedules at most one turn. The answer to a speculative turn also records that turn.
    let most =
        1 + usize::from(matches!(command, Command::AnswerUpdates { turn: AnsweredTurn::Speculative { .. }, .. }));
    prop_assert!(turns <= most, "{:?} scheduled {} turns", command, turns);
    let version = added.iter().filter(|event| event.kind.is_news()).map(|event| event.id).next_back();
    prop_assert_eq!(transition.run().version, version.unwrap_or(before.run().version));
    if let Command::RepairDeadlines { heartbeats, .. } = command {
        let expected = heartbeats
            .iter()
            .map(|heartbeat| Heartbeat { at: heartbeat.at.min(now), ..heartbeat.clone() })
            .collect::<Vec<_>>();
        prop_assert_eq!(run.late_deadlines(&expected, outbox, now), []);
        prop_assert_eq!(run.paused.is_some(), before.run().paused.is_some());
        // A repaired deadline counts its whole duration from now. The checker verifies that no deadline fires early.
        prop_assert!(run.timers.keys().eq(before.run().timers.keys()));
    }
    if let Command::FireDeadlines { heartbeats, .. } = command {
        let next = transition.run().next_deadline(heartbeats);
        prop_assert!(next.is_none_or(|next| next > now), "at {}, a deadline of {:?} is left", now, next);
        let is_due = before.run().next_deadline(heartbeats).is_some_and(|next| next <= now);
        prop_assert_eq!(is_due, transition.run() != before.run());
    }
    Ok(())
}

/// Checks that the stored size stays within the reserved size.
fn stays_within_budget(before: &Transition, after: &Transition, command: &Command) -> Result<(), TestCaseError> {
    let (run, links) = (after.run(), after.links());
    let opens = matches!(
        command,
        Command::CompleteTurn { .. }
            | Command::AnswerUpdates { .. }
            | Command::Pause { .. }
            | Command::RepairDeadlines { .. }
            | Command::RetryActivities { .. }
            | Command::ActOnActivity {
                act: ActivityCommand::Retry | ActivityCommand::Pause | ActivityCommand::Change(_),
                ..
            }
    );
    let (reserved, earlier) = (run.reserved_bytes(links), before.run().reserved_bytes(before.links()));
    prop_assert!(opens || reserved <= earlier, "{:?} takes from {} to {} bytes", command, earlier, reserved);
    if !run.is_open() {
        return Ok(());
    }
    // Move notes to packs, where references take their largest size.
    let mut stored = run.clone();
    stored.keep_notes(|_| PackRef { op: u64::MAX, offset: u32::MAX, len: u32::MAX });
    let empty = Run { activities: Activities::default(), ..bare(run) };
    let reserved = reserved - empty.reserved_bytes(&Links::default());
    let size = |bytes: Vec<u8>| bytes.len();
    let open = size(minicbor::to_vec(&stored.activities).unwrap())
        + size(minicbor::to_vec(&stored.timers).unwrap())
        + size(minicbor::to_vec(&stored.children).unwrap())
        + size(minicbor::to_vec(&stored.externals).unwrap())
        + size(minicbor::to_vec(stored.updates.open()).unwrap())
        + size(minicbor::to_vec(links.outbox.iter().collect::<Vec<_>>()).unwrap())
        + size(minicbor::to_vec(&links.sent).unwrap());
    // Headers of these fields, and the poll that received the held turn.
    let rest = 40;
    prop_assert!(open <= reserved + rest, "{} bytes, {} reserved: {:?}", open, reserved, run);
    let mut all = minicbor::to_vec(&stored).unwrap();
    minicbor::encode(links, &mut all).unwrap();
    prop_assert!(all.len() <= run.reserved_bytes(links));
    Ok(())
}

/// Returns the same run without open items.
fn bare(run: &Run) -> Run {
    let started = run.started.clone();
    let mut bare = run.clone();
    (bare.timers, bare.children, bare.externals) = Default::default();
    (bare.updates, bare.started) = (OpenUpdates::default(), started);
    bare
}

/// Resets the run to an event, or to the nearest possible earlier event. Returns `false` if the reset is refused.
fn reset(
    transition: &mut Transition,
    events: &mut Vec<Event>,
    at: prop::sample::Index,
    drops: bool,
    now: Timestamp,
) -> Result<bool, TestCaseError> {
    if transition.run().has_successor() {
        return Ok(false);
    }
    let mut event_id = at.get(events).id;
    let signals = if drops { LaterSignals::Drop } else { LaterSignals::Reapply };
    let branch = loop {
        let mut reader = BranchReader::new(Branching { event_id, signals });
        events.iter().try_for_each(|event| reader.read(event.clone())).unwrap();
        match reader.finish() {
            Ok(branch) => break branch,
            Err(Fault::InvalidResetPoint { event_id: refused, before, after }) => {
                prop_assert_eq!(refused, event_id);
                prop_assert!(
                    before.is_none_or(|before| before < event_id) && after.is_none_or(|after| after > event_id)
                );
                // The first turn waits after event 2, so there is always a possible event.
                event_id = before.or(after).unwrap();
            }
            Err(fault) => {
                prop_assert!(matches!(fault, Fault::ResetNotPossible { .. }), "{}", fault);
                return Ok(false);
            }
        }
    };
    let run_id = transition.run().started.run_id;
    let new_run_id = Uuid::from_u128(run_id.as_u128() + 1);
    let plan = ResetPlan { new_run_id, run_id, event_id, signals };
    let was_open = transition.run().is_open();
    transition.plan_reset(plan, &OperatorAction::default(), None, None, now).unwrap();
    let planned = match transition.events() {
        [closing] => PlannedReset::of(closing).unwrap(),
        _ => transition.links().reset.as_deref().unwrap().clone(),
    };
    prop_assert_eq!((was_open, planned.plan), (transition.links().reset.is_none(), plan));
    let mut old = events.clone();
    old.extend_from_slice(transition.events());
    prop_assert!(check::history(&old).is_ok());
    prop_assert_eq!(Run::replay(&old).unwrap().history_derived(), transition.run().clone().history_derived());
    prop_assert!(transition.run().has_successor() == was_open && !transition.run().is_open());
    let links = transition.links().clone().handed_over(run_id);
    *transition = Transition::branch(branch, &planned);
    *transition.links_mut() = links;
    let kept = usize::try_from(event_id).unwrap();
    prop_assert_eq!(transition.copied(), transition.events().len());
    prop_assert_eq!(transition.events().get(1..kept).unwrap(), events.get(1..kept).unwrap());
    let late = |event: &&Event| matches!(event.kind, EventKind::Signal(_));
    let signals: Vec<_> = events.iter().skip(kept).filter(late).filter(|_| !drops).map(|event| &event.kind).collect();
    let again: Vec<_> = transition.events().iter().skip(kept).filter(late).map(|event| &event.kind).collect();
    prop_assert_eq!(again, signals);
    // No task of the new run is held, and no deadline has come closer.
    let run = transition.run();
    prop_assert!(run.turn.is_none() && (run.turn_task.is_some() || run.started.one_activity));
    prop_assert!(run.activities.values().all(|activity| activity.held_since().is_none()));
    let then = Run::replay(events.iter().take(kept)).unwrap();
    let since = then.last_at();
    for (name, timer) in &then.timers {
        let left = |run: &Run, now: Timestamp| {
            let now = run.clock.stopped_at().unwrap_or(now);
            run.timers.get(name).map(|timer| timer.expires_at.since(now))
        };
        prop_assert_eq!(left(run, run.last_at()), left(&then, since), "{:?}", timer);
    }
    events.clear();
    Ok(true)
}

/// Finishes the commit: adds the admitted events to the history.
fn commit(transition: &mut Transition, events: &mut Vec<Event>, commits: &mut Vec<usize>) -> Result<(), TestCaseError> {
    let links = transition.links().clone();
    let (run, added) = transition.clone().into_parts();
    events.extend(added);
    if let Err(violation) = check::history(events) {
        let names: Vec<_> = events.iter().map(|event| event.kind.name()).collect();
        return Err(TestCaseError::fail(format!("{violation} in {names:?}")));
    }
    commits.push(events.len());
    *transition = Transition::linked(run, links);
    Ok(())
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn every_history_follows_the_invariants(steps in steps()) {
        let story = run_steps(&steps)?;
        // Ids have no gaps. The checker also verifies this.
        for (id, event) in (1..).zip(&story.events) {
            prop_assert_eq!(event.id, id);
        }
        // The state is the fold of all events, also if a prefix is folded first.
        let derived = story.run.history_derived();
        prop_assert_eq!(&Run::replay(&story.events).unwrap().history_derived(), &derived);
        for commit in story.commits {
            let (prefix, rest) = story.events.split_at(commit);
            let mut run = Run::replay(prefix).unwrap();
            for event in rest {
                run.evolve(event);
            }
            prop_assert_eq!(&run.history_derived(), &derived);
        }
    }

    #[test]
    fn every_history_of_a_single_activity_follows_the_invariants(
        limits in [option::weighted(0.4, 1..90_u8), option::weighted(0.4, 1..90_u8), option::weighted(0.4, 1..90_u8),
            option::weighted(0.4, 1..90_u8)],
        retry in option::weighted(0.5, (0..20_u8, 0..4_u8)),
        steps in steps(),
    ) {
        let story = run_steps_of(&start_of_activity(limits, retry), &steps)?;
        let derived = story.run.history_derived();
        prop_assert_eq!(&Run::replay(&story.events).unwrap().history_derived(), &derived);
        // No turn ever waits for a decider, and the run is open exactly as long as its activity.
        prop_assert!(derived.turn.is_none() && derived.turn_task.is_none());
        prop_assert_eq!(derived.is_open(), !derived.activities.is_empty());
    }

    #[test]
    fn stored_and_json_forms_can_be_read_back(steps in steps()) {
        let story = run_steps(&steps)?;
        let mut bytes = Vec::new();
        for event in &story.events {
            codec::put_event(&mut bytes, event);
        }
        let stored: Vec<_> = codec::events(&bytes).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(&stored, &story.events);
        let shown: Vec<Event> = serde_json::from_str(&serde_json::to_string(&story.events).unwrap()).unwrap();
        prop_assert_eq!(&shown, &story.events);
        let mut bytes = Vec::new();
        codec::put_run(&mut bytes, &story.run);
        prop_assert_eq!(codec::run(&bytes).unwrap(), story.run);
    }

    #[test]
    fn an_activity_is_always_found_by_its_id(
        steps in steps(),
        order in vec((any::<prop::sample::Index>(), option::weighted(0.4, 0..60_u64)), 0..90),
    ) {
        let story = run_steps(&steps)?;
        let mut run = story.run;
        prop_assert_eq!(misnamed(&run), None);
        // Also search invalid histories: an id that is open twice, a repeated event, an event that replaces another
        // event.
        for (at, id) in order {
            let mut event = at.get(&story.events).clone();
            event.id = id.unwrap_or(event.id);
            run.evolve(&event);
            prop_assert_eq!(misnamed(&run), None);
        }
        let mut bytes = Vec::new();
        codec::put_run(&mut bytes, &run);
        prop_assert_eq!(codec::run(&bytes).unwrap(), run);
    }

    #[test]
    fn invalid_events_cause_no_panic(
        steps in steps(),
        order in vec((any::<prop::sample::Index>(), option::weighted(0.2, 0..1_u64 << 60)), 0..90),
        more in vec(step(), 0..20),
    ) {
        let story = run_steps(&steps)?;
        // The input consists of events of a valid history in any order and number, some with different ids.
        let events: Vec<_> = order
            .into_iter()
            .map(|(at, id)| {
                let mut event = at.get(&story.events).clone();
                event.id = id.unwrap_or(event.id);
                event
            })
            .collect();
        let mut run = story.run;
        for event in &events {
            run.evolve(event);
        }
        let _ = Run::replay(&events);
        let _ = check::history(&events);
        let now = Timestamp::from_millis(1_700_000_100_000);
        let _ = (run.deadlines(&[]), run.expires_at(), run.waiting_tasks().count());
        let mut transition = Transition::of(run);
        for step in more {
            if let Some(command) = command(&step, &transition, &mut Vec::new(), now, None) {
                let before = transition.clone();
                if transition.admit(&command, now).is_err() {
                    prop_assert_eq!(transition.events(), before.events());
                }
            }
        }
    }

    #[test]
    fn corrupted_bytes_are_refused(
        bytes in vec(any::<u8>(), 0..300),
        steps in steps(),
        at in any::<prop::sample::Index>(),
        flip in any::<u8>(),
    ) {
        let _ = codec::run(&bytes);
        let _ = codec::events(&bytes).count();
        let story = run_steps(&steps)?;
        let mut stored = Vec::new();
        codec::put_run(&mut stored, &story.run);
        let at_run = at.index(stored.len());
        stored.iter_mut().skip(at_run).take(1).for_each(|byte| *byte ^= flip);
        let _ = codec::run(&stored);
        let mut stored = Vec::new();
        story.events.iter().for_each(|event| codec::put_event(&mut stored, event));
        let at_event = at.index(stored.len());
        stored.iter_mut().skip(at_event).take(1).for_each(|byte| *byte ^= flip);
        let _ = codec::events(&stored).count();
    }
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn a_duration_reads_what_it_writes(
        millis in 0..=2 * limits::SPAN_MAX.as_millis(),
        unit in prop_oneof![Just(1_u64), Just(1_000), Just(3_600_000), Just(86_400_000)],
    ) {
        let span = Duration::from_millis(millis / unit * unit);
        let text = span.to_string();
        prop_assert_eq!(text.parse(), Ok(span), "{}", text);
        let json = serde_json::to_string(&span).unwrap();
        prop_assert_eq!(serde_json::from_str::<Duration>(&json).unwrap(), span);
    }
}

/// Returns an activity id for which [`Run::activity`] and a linear search find different activities.
fn misnamed(run: &Run) -> Option<String> {
    let names = (0..4).map(|id| format!("a{id}"));
    names.into_iter().find(|name| {
        let looked_for = run.activities.iter().find(|(_, activity)| activity.activity_id == *name);
        run.activity(name) != looked_for.map(|(id, activity)| (*id, &**activity))
    })
}

/// The generator is only useful if it covers the rules.
#[test]
fn the_generator_reaches_every_kind_of_event_and_fault() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::new(config(1));
    let mut kinds = std::collections::BTreeMap::<_, usize>::new();
    let (mut longest, mut most_tries, mut check_retry) = (0, 0, 0);
    for _ in 0..400 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        let story = run_steps(&steps).unwrap();
        longest = longest.max(story.events.len());
        for event in &story.events {
            *kinds.entry(event.kind.name()).or_default() += 1;
            check_retry += usize::from(matches!(&event.kind, EventKind::WorkflowFailed(it) if it.new_run_id.is_some()));
            if let EventKind::ActivityStarted(it) = &event.kind {
                most_tries = most_tries.max(it.attempt.unwrap_or(0));
            }
        }
    }
    let missing: Vec<_> = EventKind::NAMES.iter().filter(|name| !kinds.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {kinds:?}");
    assert!(longest > 60, "{longest}");
    assert!(most_tries > 1 && check_retry > 1, "{most_tries} and {check_retry}");
}
