//! Bytes written by earlier versions stay readable: one golden file per stored form.
//!
//! Each kind of event has a sample in `golden/json` that uses every attribute, and samples that omit some attributes.
//! The stored form of a sample is generated from it (`BATON_GOLDEN=write cargo test -p baton-history`). An existing
//! file is never overwritten. If its test fails, the code is wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
#![expect(clippy::unnecessary_wraps, reason = "every field that takes a payload or a text is optional")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use baton_history::event::{
    ActivityPausedCause, ActivityScheduled, ActivitySuccess, ActivityTimeouts, ChildPolicy, LaterSignals,
    OperatorAction, ResetPlan, Signal, TurnList, UpdateAccepted, UpdateCompleted, WorkflowPaused, WorkflowResumed,
    WorkflowStarted,
};
use baton_history::{
    Attempts, Branched, CancelExternal, Command, Duration, Event, EventKind, Factor, HeldAttempt, LastFailure, Links,
    LostTurns, OpenCounts, Origin, PackRef, PausedActivity, Payload, PendingActivity, PendingChild, PendingExternal,
    PendingTimer, PollId, Released, RequestKey, RetryPolicy, Run, Scheduled, SignalExternal, Start, Status, SwfRun,
    Timestamp, Transition, Turn, TurnId, TurnLists, TurnTask, WhenExhausted, codec,
};
use uuid::Uuid;

mod support;
use support::golden;

fn payload() -> Option<Payload> {
    Some(Payload::from_json(r#"{"b": 1.50, "a": [1e2, "é"]}"#).unwrap())
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn timeouts() -> ActivityTimeouts {
    ActivityTimeouts {
        schedule_to_start: Some(Duration::from_secs(60)),
        start_to_close: Some(Duration::from_secs(300)),
        schedule_to_close: Some(Duration::from_millis(86_400_001)),
        heartbeat: Some(Duration::from_millis(500)),
    }
}

fn retry() -> RetryPolicy {
    RetryPolicy {
        initial_interval: Duration::from_millis(1_500),
        backoff_coefficient: Factor::from_thousandths(1_750),
        maximum_interval: Some(Duration::from_secs(60)),
        maximum_attempts: Some(5),
        non_retryable_reasons: vec!["declined".to_owned()],
        jitter: Factor::from_thousandths(200),
        when_exhausted: WhenExhausted::Fail,
    }
}

fn last_failure() -> LastFailure {
    LastFailure {
        at: Timestamp::from_millis(1_700_000_000_000),
        reason: text("busy"),
        timeout: None,
        details: payload(),
        identity: text("runner-2"),
        kept: None,
    }
}

fn started() -> WorkflowStarted {
    WorkflowStarted {
        workflow_id: "order-42".to_owned(),
        run_id: Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abc),
        workflow_type: "order".to_owned(),
        task_list: "orders".to_owned(),
        input: payload(),
        execution_timeout: Duration::from_days(30),
        decider_start_to_close: Duration::from_secs(30),
        decider_schedule_to_start: Some(Duration::from_secs(3_600)),
        activity_timeouts: timeouts(),
        tags: vec!["eu".to_owned(), "blue".to_owned()],
        retention: Duration::from_days(7),
        identity: text("shop-1"),
        start_after: None,
        parent: None,
        run_timeout: None,
        continued_from: None,
        execution_from: None,
        retry: None,
        attempt: None,
        schedule: None,
        swf: None,
        task_priority: None,
        concurrency_key: None,
        one_activity: false,
        traceparent: None,
        tracestate: None,
    }
}

fn scheduled() -> Scheduled {
    let nominal_time = Timestamp::from_millis(1_700_000_000_000);
    Scheduled { schedule_id: "nightly".to_owned(), action: 365, nominal_time }
}

fn swf() -> SwfRun {
    SwfRun { child_policy: ChildPolicy::RequestCancel, task_priority: Some(3), lambda_role: text("role"), limits: None }
}

fn reset_plan() -> ResetPlan {
    let (new_run_id, run_id) = (Uuid::from_u128(8), Uuid::from_u128(7));
    ResetPlan { new_run_id, run_id, event_id: 41, signals: LaterSignals::Reapply }
}

fn operator() -> Option<OperatorAction> {
    Some(OperatorAction { identity: text("ann"), reason: text("the bank called") })
}

fn other_run() -> Uuid {
    Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abd)
}

fn origin() -> Option<Origin> {
    Some(Origin { workflow_id: "order-43".to_owned(), run_id: other_run(), event_id: 77 })
}

fn event(kind: EventKind) -> Event {
    Event { id: 300, timestamp: Timestamp::from_millis(1_700_000_000_042), kind, key: None, by: None, clock: None }
}

/// Returns the texts in `golden/json` by file name.
fn texts() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/json")).unwrap();
    let named = |file: PathBuf| {
        (file.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(file).unwrap())
    };
    files.map(|file| named(file.unwrap().path())).collect()
}

/// Returns the events in `golden/json` by file name.
fn samples() -> BTreeMap<String, Event> {
    texts().into_iter().map(|(name, text)| (name, Event::from_json(&text).unwrap())).collect()
}

fn cbor(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::put_event(&mut bytes, event);
    bytes
}

fn read(bytes: &[u8]) -> Event {
    let events: Vec<_> = codec::events(bytes).collect::<Result<_, _>>().unwrap();
    assert_eq!(events.len(), 1);
    events.into_iter().next().unwrap()
}

#[test]
fn every_kind_of_event_has_its_sample() {
    for name in EventKind::NAMES {
        let sample = samples().remove(*name).unwrap_or_else(|| panic!("golden/json/{name}.json is missing"));
        assert_eq!(sample.kind.name(), *name);
    }
}

#[test]
fn redacted_events_contain_no_payloads_and_notes() {
    let payload_bytes = payload().unwrap();
    for (name, mut event) in samples() {
        let before = event.clone();
        event.kind.redact_payloads();
        let json = serde_json::to_string(&event).unwrap();
        assert!(!json.contains(payload_bytes.text().unwrap()) && !json.contains("\"control\""), "{name}: {json}");
        assert_eq!((event.kind.payload(), event.kind.name()), (None, before.kind.name()), "{name}");
    }
}

#[test]
fn stored_events_of_every_kind_can_still_be_read() {
    for (name, sample) in samples() {
        let current = cbor(&sample);
        assert_eq!(read(&current), sample, "{name}");
        assert_eq!(read(&golden(&format!("cbor/{name}.cbor"), &current)), sample, "{name}");
    }
}

#[test]
fn json_events_of_every_kind_are_written_as_they_were_read() {
    for (name, text) in texts() {
        // The API may add fields, but never renames or reorders existing fields.
        assert_eq!(serde_json::to_string(&Event::from_json(&text).unwrap()).unwrap() + "\n", text, "{name}");
    }
}

#[test]
fn a_stored_claim_check_can_still_be_read() {
    let sample = event(EventKind::Signal(Signal {
        name: "s".to_owned(),
        input: Some(Payload::stored(PackRef { op: 70_000, offset: 3, len: 262_144 })),
        identity: None,
        origin: None,
        traceparent: None,
    }));
    assert_eq!(read(&golden("cbor/Signal-claim.cbor", &cbor(&sample))), sample);
}

#[test]
fn attributes_of_a_later_version_are_ignored() {
    let text = r#"{"id":1,"timestamp":"2023-11-14T22:13:20.042Z","type":"Signal","name":"s","mood":{"a":1}}"#;
    assert_eq!(Event::from_json(text).unwrap().kind.name(), "Signal");
}

/// Returns a run in which every field is set.
fn run() -> Run {
    let mut run = Run::begin(Timestamp::from_millis(1_700_000_000_000), &started(), Some(RequestKey(1)));
    let (name, input, identity, origin) = ("go".to_owned(), None, None, None);
    let signal = event(EventKind::Signal(Signal { name, input, identity, origin, traceparent: None }));
    run.evolve(&Event { id: 69_997, key: Some(RequestKey(u64::MAX)), ..signal });
    run.last_event_id = 70_000;
    run.last_timestamp = Timestamp::from_millis(1_700_000_900_000);
    run.version = 69_999;
    run.turn_task = Some(TurnTask {
        scheduled_event_id: 69_998,
        waits_since: Timestamp::from_millis(1_700_000_800_000),
        attempt: 4,
        not_before: Some(Timestamp::from_millis(1_700_000_950_000)),
        task_list: None,
        schedule_to_start: None,
    });
    run.turn = Some(Turn {
        scheduled_event_id: 69_000,
        started_event_id: 69_001,
        started_at: Timestamp::from_millis(1_700_000_700_000),
        attempt: 2,
        task_list: None,
    });
    run.previous_started_event_id = 68_000;
    run.turns_lost = 3;
    let activity = PendingActivity {
        activity_id: "charge".to_owned(),
        activity_type: "ChargeCard".to_owned(),
        task_list: "PCI".to_owned(),
        scheduled_at: Timestamp::from_millis(1_700_000_100_000),
        timeouts: timeouts(),
        started_event_id: Some(60_001),
        started_at: Some(Timestamp::from_millis(1_700_000_200_000)),
        cancel_event_id: Some(60_500),
        retry: None,
        attempts: None,
        paused: None,
        released: None,
        task_priority: None,
        concurrency_key: None,
        fingerprint: None,
    };
    let waiting = PendingActivity {
        activity_id: "ship".to_owned(),
        timeouts: ActivityTimeouts::default(),
        started_event_id: None,
        started_at: None,
        cancel_event_id: None,
        ..activity.clone()
    };
    run.activities = BTreeMap::from([(60_000, Arc::new(activity)), (60_002, Arc::new(waiting))]).into();
    let expires_at = Timestamp::from_millis(1_702_592_000_000);
    run.timers.insert(
        "patience".to_owned(),
        PendingTimer { scheduled_event_id: 60_003, expires_at, set_at: None, after: None },
    );
    run.cancel_requested = true;
    run
}

/// Returns a run with attempts of activities in every state.
fn run_with_attempts() -> Run {
    let mut run = run();
    let at = Timestamp::from_millis;
    let mut activities: BTreeMap<_, _> = (*run.activities).clone();
    let held = Some(HeldAttempt { at: at(1_700_000_200_000), identity: text("runner-1"), kept: None, by: None });
    let attempts = [
        None,
        Some(Attempts { starts: 1, held: held.clone(), ..Attempts::default() }),
        Some(Attempts {
            starts: 4,
            failures: 3,
            held,
            not_before: Some(at(1_700_000_300_000)),
            waits_since: Some(at(1_700_000_300_001)),
            last_failure: Some(last_failure()),
        }),
    ];
    for (id, attempts) in (60_010..).zip(attempts) {
        let activity = PendingActivity {
            activity_id: format!("retry-{id}"),
            started_event_id: None,
            started_at: None,
            retry: Some(retry()),
            attempts: attempts.map(Box::new),
            ..PendingActivity::clone(activities.get(&60_000).unwrap())
        };
        activities.insert(id, Arc::new(activity));
    }
    run.activities = activities.into();
    run
}

/// Returns a run with an update that waits for its answer, and an answered update.
fn run_with_updates() -> Run {
    let mut run = run();
    for (id, update_id) in [(70_001, "match-6"), (70_002, "match-7")] {
        let (update_id, name) = (update_id.to_owned(), "match".to_owned());
        let (input, identity, decision_event_id) = (None, None, 70_000);
        let accepted = UpdateAccepted { update_id, name, input, identity, decision_event_id };
        run.evolve(&Event { id, ..event(EventKind::UpdateAccepted(accepted)) });
    }
    let (update_id, accepted_event_id, result) = ("match-7".to_owned(), 70_002, payload());
    let completed = UpdateCompleted { update_id, accepted_event_id, result, decision_event_id: 70_000 };
    run.evolve(&Event { id: 70_003, ..event(EventKind::UpdateCompleted(completed)) });
    run
}

/// Returns a run that knows requests of earlier runs, and requests that have marks in the store.
fn run_with_requests() -> Run {
    let at = |hours: u64| Timestamp::from_millis(1_700_000_000_000 + hours * 3_600_000);
    let mut run = run();
    let (name, input, identity, origin) = ("go".to_owned(), None, None, None);
    let signal = event(EventKind::Signal(Signal { name, input, identity, origin, traceparent: None }));
    for id in 70_001..70_100 {
        run.evolve(&Event { id, timestamp: at(30), key: Some(RequestKey(id)), ..signal.clone() });
    }
    assert_eq!(run.spill(70_100, at(31), at(31)).marks.len(), 51, "of a hundred, one is forgotten");
    let started = WorkflowStarted { run_id: Uuid::from_u128(8), ..started() };
    let mut transition = Transition::of(Run::begin(at(31), &started, Some(RequestKey(2))));
    transition.take_over(&run, Links::default(), at(1_000), at(31));
    transition.into_parts().0
}

/// Returns a run that was paused with its clock stopped, and is paused again.
fn paused_run() -> Run {
    let mut run = run();
    let at = |millis| Timestamp::from_millis(1_700_000_900_000 + millis);
    let paused = || WorkflowPaused { stop_clocks: true, identity: text("ann"), reason: text("the bank is down") };
    let resumed = WorkflowResumed::default();
    let events =
        [EventKind::WorkflowPaused(paused()), EventKind::WorkflowResumed(resumed), EventKind::WorkflowPaused(paused())];
    for (id, kind) in (70_001..).zip(events) {
        run.evolve(&Event { id, timestamp: at(id), ..event(kind) });
    }
    run
}

/// Returns a run with activities that an operator paused or resumed.
fn run_with_activities_of_operator() -> Run {
    let mut run = run();
    let mut activities: BTreeMap<_, _> = (*run.activities).clone();
    let at = Timestamp::from_millis(1_700_000_300_000);
    let cause = ActivityPausedCause::AttemptsExhausted;
    for activity in activities.values_mut().map(Arc::make_mut) {
        let operator = operator().unwrap();
        activity.paused = Some(Box::new(PausedActivity { event_id: 60_020, at, cause, operator }));
        activity.released = Some(Released { event_id: 60_010, at });
    }
    run.activities = activities.into();
    run
}

/// Returns a run whose turns have moved to other lists, with an activity that has a priority.
fn moved_run() -> Run {
    let mut run = run();
    let for_now = TurnList { task_list: "debug".to_owned(), schedule_to_start: Some(Duration::from_secs(5)) };
    run.turn_lists = Some(Box::new(TurnLists { for_good: text("others"), for_now: Some(for_now) }));
    if let Some(task) = &mut run.turn_task {
        (task.task_list, task.schedule_to_start) = (text("debug"), Some(Duration::from_secs(5)));
    }
    if let Some(turn) = &mut run.turn {
        turn.task_list = text("others");
    }
    let mut activities: BTreeMap<_, _> = (*run.activities).clone();
    if let Some(waiting) = activities.get_mut(&60_002) {
        Arc::make_mut(waiting).task_priority = Some(-5);
    }
    run.activities = activities.into();
    run
}

/// Returns a run with an activity that succeeded and was scheduled again.
fn repeating_run() -> Run {
    let mut run = run();
    let schedule = |id| {
        let scheduled = ActivityScheduled {
            activity_id: "notify".to_owned(),
            activity_type: "Notify".to_owned(),
            task_list: "mail".to_owned(),
            input: payload(),
            timeouts: ActivityTimeouts::default(),
            decision_event_id: 70_001,
            retry: None,
            control: None,
            task_priority: None,
            concurrency_key: None,
        };
        Event { id, ..event(EventKind::ActivityScheduled(Box::new(scheduled))) }
    };
    let success = ActivitySuccess {
        scheduled_event_id: 70_002,
        activity_id: None,
        started_event_id: 70_003,
        result: None,
        operator: None,
    };
    for it in [schedule(70_002), Event { id: 70_004, ..event(EventKind::ActivitySuccess(success)) }, schedule(70_005)] {
        run.evolve(&it);
    }
    run
}

#[test]
fn a_stored_run_with_everything_in_it_can_still_be_read() {
    let mut closed = Run::begin(Timestamp::from_millis(1_700_000_000_000), &started(), None);
    closed.status = Status::TimedOut;
    closed.closed_at = Some(Timestamp::from_millis(1_700_000_900_000));
    let mut others = run();
    let pending = PendingExternal { workflow_id: "order-43".to_owned(), decision_event_id: 60_004 };
    others.externals.insert(60_005, pending);
    let mut children = run();
    children.started.parent = origin();
    let child = PendingChild {
        workflow_id: "order-43".to_owned(),
        decision_event_id: 60_006,
        policy: ChildPolicy::RequestCancel,
        started_event_id: None,
    };
    children.children.insert(60_008, PendingChild { started_event_id: Some(60_009), ..child.clone() });
    children.children.insert(60_007, child);
    let mut samples = vec![
        ("open".to_owned(), run()),
        ("open-tries".to_owned(), run_with_attempts()),
        ("open-continued".to_owned(), {
            let mut run = run();
            run.started.run_timeout = Some(Duration::from_days(1));
            run.started.continued_from = Some(Uuid::from_u128(7));
            run.started.execution_from = Some(Timestamp::from_millis(1_600_000_000_000));
            run
        }),
        ("open-retry".to_owned(), {
            let mut run = run();
            (run.started.retry, run.started.attempt) = (Some(retry()), Some(2));
            run
        }),
        ("open-key".to_owned(), {
            let mut run = run();
            run.started.concurrency_key = text("customer-7");
            let mut activities: BTreeMap<_, _> = (*run.activities).clone();
            for activity in activities.values_mut().take(1) {
                Arc::make_mut(activity).concurrency_key = text("visa");
            }
            run.activities = activities.into();
            run
        }),
        ("open-scheduled".to_owned(), {
            let mut run = run();
            run.started.schedule = Some(scheduled());
            run
        }),
        ("closed-retried".to_owned(), Run { retried_as: Some(Uuid::from_u128(8)), ..closed.clone() }),
        ("open-later".to_owned(), {
            let mut run = run();
            run.started.start_after = Some(Duration::from_days(2));
            run
        }),
        ("open-failing".to_owned(), {
            let since = Timestamp::from_millis(1_700_000_100_000);
            Run { lost_turns: Some(LostTurns { since, event_id: 69_990 }), ..run() }
        }),
        ("open-awaiting".to_owned(), Run { awaiting: vec!["approve".to_owned()], ..run() }),
        ("open-by-hand".to_owned(), run_with_activities_of_operator()),
        ("open-paused".to_owned(), paused_run()),
        ("open-branched".to_owned(), {
            let mut run = run();
            let (run_id, workflow_id) = (Uuid::from_u128(7), text("order-41"));
            run.branched = Some(Box::new(Branched { event_id: 42, run_id, base_event_id: 41, workflow_id }));
            run
        }),
        ("open-moved".to_owned(), moved_run()),
        ("open-seen".to_owned(), {
            let at = Some(Timestamp::from_millis(1_700_000_100_000));
            Run { last_activity_at: at, context_event_id: Some(68_002), ..run() }
        }),
        ("closed-left-open".to_owned(), {
            let left_open = OpenCounts { activities: 2, functions: 3, timers: 4, children: 5 };
            Run { left_open, ..closed.clone() }
        }),
        ("open-swf".to_owned(), {
            let mut run = run();
            run.started.swf = Some(swf());
            run
        }),
        ("closed".to_owned(), closed.clone()),
        ("others".to_owned(), others),
        ("child-and-parent".to_owned(), children),
        ("updates".to_owned(), run_with_updates()),
        ("open-requests".to_owned(), run_with_requests()),
        ("open-repeating".to_owned(), repeating_run()),
    ];
    for status in Status::ALL {
        samples.push((format!("status-{status}"), Run { status, ..closed.clone() }));
    }
    for (name, sample) in samples {
        let mut current = Vec::new();
        codec::put_run(&mut current, &sample);
        assert_eq!(codec::run(&current).unwrap(), sample, "{name}");
        let stored = golden(&format!("run/{name}.cbor"), &current);
        assert_eq!(codec::run(&stored).unwrap(), sample, "{name}");
        // An unused feature takes no space in the state.
        assert_eq!(stored, current, "{name}");
    }
}

fn terminate() -> Command {
    Command::Terminate { reason: None, details: None, identity: None, key: None, child_policy: None }
}

#[test]
fn stored_links_to_other_runs_can_still_be_read() {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let mut transition = Transition::start(&Start::new("w", "t", "l"), Uuid::nil(), now).unwrap();
    let origin = origin().unwrap();
    let decisions = vec![
        SignalExternal { workflow_id: "order-43".to_owned(), name: "s".to_owned(), ..SignalExternal::default() }.into(),
        CancelExternal { workflow_id: "order-44".to_owned(), ..CancelExternal::default() }.into(),
    ];
    let turn = TurnId { scheduled_event_id: 2, started_event_id: 3 };
    for command in [
        Command::StartTurn { scheduled_event_id: 2, identity: None, poll: None },
        Command::TakeSignal { origin, name: "s".to_owned(), input: None },
        Command::complete(turn, decisions),
    ] {
        transition.admit(&command, now.plus(Duration::from_secs(40))).unwrap();
    }
    let sample = transition.links().clone();
    assert!(sample.outbox.ready().count() == 2 && sample.seen.iter().len() == 1);
    let current = minicbor::to_vec(&sample).unwrap();
    assert_eq!(minicbor::decode::<Links>(&golden("links/full.cbor", &current)).unwrap(), sample);
    transition.admit(&Command::RetryEffects, now.plus(Duration::from_secs(40))).unwrap();
    let sample = transition.links().clone();
    let current = minicbor::to_vec(&sample).unwrap();
    assert_eq!(minicbor::decode::<Links>(&golden("links/second-round.cbor", &current)).unwrap(), sample);
    let sample = sample.handed_over(Uuid::from_u128(77));
    let current = minicbor::to_vec(&sample).unwrap();
    assert_eq!(minicbor::decode::<Links>(&golden("links/handed-over.cbor", &current)).unwrap(), sample);
    let mut transition = Transition::start(&Start::new("w", "t", "l"), Uuid::nil(), now).unwrap();
    let mut closed = transition.clone();
    closed.admit(&terminate(), now).unwrap();
    closed.plan_reset(reset_plan(), &operator().unwrap(), Some(RequestKey(0xBA70)), None, now).unwrap();
    let sample = closed.links().clone();
    assert!(sample.reset.is_some());
    let current = minicbor::to_vec(&sample).unwrap();
    assert_eq!(minicbor::decode::<Links>(&golden("links/reset.cbor", &current)).unwrap(), sample);
    let poll = Some(PollId(0xBA70));
    transition.admit(&Command::StartTurn { scheduled_event_id: 2, identity: None, poll }, now).unwrap();
    let sample = transition.links().clone();
    let current = minicbor::to_vec(&sample).unwrap();
    assert_eq!(minicbor::decode::<Links>(&golden("links/sent.cbor", &current)).unwrap(), sample);
}

#[test]
fn invalid_bytes_are_refused() {
    let mut bytes = Vec::new();
    codec::put_run(&mut bytes, &run());
    for cut in 0..bytes.len() {
        assert!(matches!(codec::run(&bytes[..cut]), Err(codec::Error::Garbled { .. })), "{cut}");
    }
    bytes[0] = codec::FORMAT + 1;
    assert!(matches!(codec::run(&bytes), Err(codec::Error::Format { found: 2 })));

    let [first, second] = ["ActivityScheduled", "Marker"].map(|name| samples().remove(name).unwrap());
    let mut events = cbor(&first);
    let whole = events.len();
    codec::put_event(&mut events, &second);
    for cut in whole + 1..events.len() {
        let read: Vec<_> = codec::events(&events[..cut]).collect();
        assert!(read.len() == 2 && read[0].is_ok() && read[1].is_err(), "{cut}");
    }
    assert_eq!(codec::events(&[]).count(), 0);
}
