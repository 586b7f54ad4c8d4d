//! The table of runs that consist of a single activity.

use crate::event::{ActivityTimeouts, OperatorAction};
use crate::reset::{BranchReader, Branching};
use crate::scene::{
    Scene, check, fires, keyed_signal, pause, request_cancel, signal, signal_of, summary, terminate, update,
};
use crate::{
    ActivityCommand, ActivityDefaults, Author, CallerName, Command, Duration, Event, EventKind, Fault, Links, Payload,
    Permissions, ResetTo, RetryPolicy, Start, StartActivity, Status, Timestamp, Transition, WhenExhausted, admit,
    limits,
};

const ID: &str = limits::ONE_ACTIVITY_ID;

const BEGIN: &str = "WorkflowStarted DeciderScheduled DeciderStarted DeciderCompleted ActivityScheduled(activity)";

/// Events with which the service answers the close of the activity, up to the close of the run.
const TURN: &str = "DeciderScheduled DeciderStarted DeciderCompleted";

const TIMEOUTS: ActivityTimeouts = ActivityTimeouts {
    schedule_to_start: Some(Duration::from_secs(10)),
    start_to_close: Some(Duration::from_secs(20)),
    schedule_to_close: Some(Duration::from_secs(40)),
    heartbeat: Some(Duration::from_secs(15)),
};

fn asked() -> StartActivity {
    StartActivity {
        activity_type: "charge".to_owned(),
        input: Some(Payload::from_json("7").unwrap()),
        timeouts: TIMEOUTS,
        ..StartActivity::default()
    }
}

fn start(asked: StartActivity) -> Start {
    let id = || "generated".to_owned();
    asked.with_defaults("cards", &ActivityDefaults::default(), limits::RETENTION_DEFAULT, id, None)
}

fn waits() -> Scene {
    Scene::of(&start(asked()))
}

fn retries(policy: RetryPolicy) -> Scene {
    Scene::of(&start(StartActivity { retry: Some(policy), ..asked() }))
}

fn manually(act: ActivityCommand) -> Command {
    Command::ActOnActivity { activity_id: ID.to_owned(), act, operator: OperatorAction::default(), key: None }
}

#[test]
fn a_start_schedules_the_activity_in_its_commit() {
    let given = waits();
    assert_eq!(summary(&given.events), BEGIN);
    crate::check::history(&given.events).unwrap();
    let (_, activity) = given.run.activity(ID).unwrap();
    assert_eq!((activity.activity_type.as_str(), activity.task_list.as_str()), ("charge", "cards"));
    assert_eq!(given.run.started.workflow_type, "charge");
    assert_eq!(given.run.waiting_tasks().count(), 1, "only the activity waits, never a turn");
    assert!(!given.run.is_stuck());
}

#[test]
fn the_outcome_of_the_activity_closes_the_run() {
    let held = waits().takes(ID);
    check(&held, &held.succeed(ID), &format!("ActivitySuccess {TURN} WorkflowSuccess"));
    check(&held, &held.fail(ID), &format!("ActivityFailed {TURN} WorkflowFailed(declined)"));
    let result = Payload::from_json("8").unwrap();
    let done = held.clone().then(&Command::SucceedActivity { task: held.task(ID), result: Some(result.clone()) });
    assert_eq!(done.run.status, Status::Success);
    let payloads: Vec<_> = done.events.iter().filter_map(|event| event.kind.payload().cloned()).collect();
    let input = asked().input.unwrap();
    assert_eq!(payloads, [input.clone(), input, result.clone(), result], "of the run and of its activity");
    check(&done, &held.succeed(ID), "fault run-closed");
    let operator = manually(ActivityCommand::Succeed { result: None });
    check(&waits(), &operator, &format!("ActivityStarted ActivitySuccess {TURN} WorkflowSuccess"));
}

#[test]
fn timeouts_close_the_run_with_the_name_of_the_timeout() {
    let ends = |event: &str, reason: &str| format!("{event} {TURN} WorkflowFailed({reason})");
    fires(&waits(), 10, &ends("ActivityScheduledTimeout", "schedule-to-start-timeout"));
    fires(&waits().takes(ID), 15, &ends("ActivityTimedOut(Heartbeat)", "heartbeat-timeout"));
    let with = |timeouts| Scene::of(&start(StartActivity { timeouts, ..asked() }));
    let timeouts = ActivityTimeouts { heartbeat: None, ..TIMEOUTS };
    fires(&with(timeouts).takes(ID), 20, &ends("ActivityTimedOut(StartToClose)", "start-to-close-timeout"));
    let timeouts = ActivityTimeouts { schedule_to_start: None, ..TIMEOUTS };
    fires(&with(timeouts), 40, &ends("ActivityTimedOut(ScheduleToClose)", "schedule-to-close-timeout"));
    let held = with(TIMEOUTS).takes(ID);
    let lost = Command::ReturnActivity { task: held.task(ID), poll: None };
    check(&held, &lost, &ends("ActivityTimedOut(StartToClose, DeliveryFailed)", "delivery-failed"));
}

#[test]
fn an_attempt_that_is_retried_leaves_the_run_open() {
    let policy = RetryPolicy { maximum_attempts: Some(2), ..RetryPolicy::default() };
    let once = retries(policy.clone()).takes(ID);
    check(&once, &once.fail(ID), "");
    let again = once.clone().then(&once.fail(ID)).after(2).takes(ID);
    check(
        &again,
        &again.succeed(ID),
        &format!("ActivityStarted(try 2 after declined) ActivitySuccess {TURN} WorkflowSuccess"),
    );
    let exhausted = format!("ActivityStarted(try 2 after declined) ActivityFailed {TURN} WorkflowFailed(declined)");
    check(&again, &again.fail(ID), &exhausted);
    let pauses = retries(RetryPolicy { maximum_attempts: Some(1), when_exhausted: WhenExhausted::Pause, ..policy });
    let blocked = pauses.clone().takes(ID);
    let blocked = blocked.clone().then(&blocked.fail(ID));
    assert!(blocked.run.is_blocked(), "an operator decides");
    let retried = blocked.then(&manually(ActivityCommand::Retry)).takes(ID).succeeds(ID);
    assert_eq!(retried.run.status, Status::Success);
}

#[test]
fn a_cancel_request_cancels_the_activity() {
    let canceled = "DeciderCompleted ActivityTaskCancel(activity) ActivityCanceled WorkflowCanceled";
    let begins = "WorkflowCancelRequested DeciderScheduled DeciderStarted";
    check(&waits(), &request_cancel(), &format!("{begins} {canceled}"));
    let held = waits().takes(ID);
    check(&held, &request_cancel(), &format!("{begins} DeciderCompleted ActivityTaskCancel(activity)"));
    let asked = held.then(&request_cancel());
    check(&asked, &asked.canceled(ID), &format!("ActivityCanceled {TURN} WorkflowCanceled"));
    check(&asked, &asked.succeed(ID), &format!("ActivitySuccess {TURN} WorkflowSuccess"));
    check(&asked, &request_cancel(), &format!("{begins} DeciderCompleted"));
    // An activity that waits for its next attempt is not held.
    let failed = retries(RetryPolicy::default()).takes(ID);
    let failed = failed.clone().then(&failed.fail(ID));
    check(&failed, &request_cancel(), &format!("{begins} {canceled}"));
    check(&waits().then(&pause()), &request_cancel(), &format!("{begins} {canceled}"));
}

#[test]
fn a_termination_and_the_execution_timeout_close_the_run() {
    check(&waits().takes(ID), &terminate(), "WorkflowTerminated");
    let timeouts = ActivityTimeouts::default();
    let given = Scene::of(&start(StartActivity { timeouts, ..asked() }));
    let year = limits::EXECUTION_TIMEOUT_DEFAULT;
    fires(&given, year.as_millis() / 1_000, "WorkflowTimedOut");
    let timeouts = ActivityTimeouts { schedule_to_close: Some(limits::SPAN_MAX), ..ActivityTimeouts::default() };
    assert_eq!(start(StartActivity { timeouts, ..asked() }).execution_timeout, limits::SPAN_MAX);
}

#[test]
fn a_run_without_decider_refuses_messages() {
    let given = waits();
    check(&given, &signal("go"), "fault no-decider");
    check(&given, &keyed_signal("go", 7), "fault no-decider");
    assert_eq!(admit::may_update(&given.run, &update("u")), Err(Fault::NoDecider));
    assert_eq!(admit::must_have_decider(&given.run), Err(Fault::NoDecider));
    // A signal from another run cannot be refused any more. It has no effect.
    check(&given, &signal_of(4, 9), &format!("Signal(go) {TURN}"));
    let closed = given.then(&terminate());
    check(&closed, &signal("go"), "fault run-closed");
}

#[test]
fn a_paused_run_closes_with_its_activity() {
    let held = waits().takes(ID).then(&pause());
    check(&held, &held.succeed(ID), &format!("ActivitySuccess {TURN} WorkflowSuccess"));
    let waiting = waits().then(&pause());
    check(&waiting, &waiting.start_activity(ID), "fault activity-not-waiting");
}

#[test]
fn the_turns_have_no_author() {
    let runner = Author::named(CallerName::new("runner").ok());
    let held = waits().takes(ID);
    let mut transition = Transition::linked(held.run.clone(), Links::default());
    transition.admit_as(&held.succeed(ID), &runner, held.now).unwrap();
    let by = |event: &Event| (event.kind.name(), event.by.is_some());
    let found: Vec<_> = transition.events().iter().map(by).collect();
    let decided = ["DeciderStarted", "DeciderCompleted", "WorkflowSuccess"].map(|name| (name, false));
    assert_eq!(found[..2], [("ActivitySuccess", true), ("DeciderScheduled", true)]);
    assert_eq!(found[2..], decided);
}

#[test]
fn permissions_of_the_caller_do_not_restrict_the_service() {
    let held = waits().takes(ID);
    let nothing = Permissions { decisions: Some(Vec::new()), ..Permissions::default() };
    let author = Author { may: Some([nothing].into()), ..Author::default() };
    let mut transition = Transition::linked(held.run.clone(), Links::default());
    transition.admit_as(&held.succeed(ID), &author, held.now).unwrap();
    assert_eq!(transition.run().status, Status::Success);
}

/// Branches off after the event that `to` describes, and checks the new run.
fn reset(given: &Scene, to: ResetTo) -> Scene {
    let mut points = crate::ResetPoints::default();
    given.events.iter().for_each(|event| points.read(event));
    let event_id = points.find(to).unwrap();
    let signals = crate::event::LaterSignals::Reapply;
    let mut reader = BranchReader::new(Branching { event_id, signals });
    given.events.iter().try_for_each(|event| reader.read(event.clone())).unwrap();
    let plan = crate::event::ResetPlan {
        new_run_id: uuid::Uuid::from_u128(1),
        run_id: given.run.started.run_id,
        event_id,
        signals,
    };
    let (operator, key, by) = (OperatorAction::default(), None, None);
    let planned = crate::PlannedReset { plan, operator, at: given.now, key, by };
    let transition = Transition::branch(reader.finish().unwrap(), &planned);
    crate::check::history(transition.events()).unwrap_or_else(|it| panic!("{it}\n{}", summary(transition.events())));
    let (run, events) = transition.into_parts();
    Scene { run, events, links: Links::default(), ..given.clone() }
}

#[test]
fn a_reset_runs_the_activity_again() {
    let failed = waits().takes(ID);
    let failed = failed.clone().then(&failed.fail(ID)).after(100);
    for to in [ResetTo::FirstEvent, ResetTo::LastTurn] {
        let again = reset(&failed, to);
        assert_eq!(summary(&again.events), format!("{BEGIN} WorkflowReset {TURN}"));
        let done = again.takes(ID).succeeds(ID);
        assert_eq!(done.run.status, Status::Success);
    }
}

#[test]
fn a_reset_reapplies_a_cancel_request() {
    let failed = waits().takes(ID).then(&request_cancel());
    let failed = failed.clone().then(&failed.fail(ID));
    let again = reset(&failed, ResetTo::FirstEvent);
    assert_eq!(again.run.status, Status::Canceled, "{}", summary(&again.events));
}

#[test]
fn absent_fields_have_the_defaults_of_the_type() {
    let registered = ActivityDefaults {
        task_list: Some("elsewhere".to_owned()),
        timeouts: ActivityTimeouts { heartbeat: Some(Duration::from_secs(3)), ..ActivityTimeouts::default() },
        task_priority: Some(4),
    };
    let asked = StartActivity { timeouts: ActivityTimeouts::default(), ..asked() };
    let id = || "generated".to_owned();
    let started = asked.clone().with_defaults("cards", &registered, limits::RETENTION_DEFAULT, id, None);
    let activity = started.activity.unwrap();
    assert_eq!(activity.task_list.as_deref(), Some("cards"), "the request names the list");
    let start_to_close = Some(limits::ACTIVITY_START_TO_CLOSE_DEFAULT);
    assert_eq!(activity.timeouts, ActivityTimeouts { start_to_close, ..registered.timeouts });
    assert_eq!((activity.task_priority, started.workflow_id.as_str()), (Some(4), "generated"));
    let workflow_id = Some("mine".to_owned());
    let asked = StartActivity { workflow_id, task_priority: Some(0), ..asked };
    let started = asked.with_defaults("cards", &registered, limits::RETENTION_DEFAULT, String::new, None);
    assert_eq!((started.activity.unwrap().task_priority, started.workflow_id.as_str()), (Some(0), "mine"));
}

#[test]
fn invalid_fields_are_named_as_the_caller_sends_them() {
    let refused = |asked: StartActivity| {
        let fault = Transition::start(&start(asked), uuid::Uuid::nil(), Timestamp::default()).unwrap_err();
        let (Fault::Invalid { field, .. } | Fault::TooLarge { field, .. }) = fault else { panic!("{fault}") };
        field
    };
    let long = |chars| "x".repeat(chars);
    let versioned = |chars| format!("{}/{}", long(limits::NAME_CHARS_MAX), long(chars));
    assert_eq!(refused(StartActivity { activity_type: versioned(65), ..asked() }), "activityType");
    assert!(Scene::of(&start(StartActivity { activity_type: versioned(64), ..asked() })).run.is_open());
    assert_eq!(refused(StartActivity { activity_type: String::new(), ..asked() }), "activityType");
    let workflow_id = Some(long(limits::NAME_CHARS_MAX + 1));
    assert_eq!(refused(StartActivity { workflow_id, ..asked() }), "workflowId");
    let timeouts = ActivityTimeouts { heartbeat: Some(Duration::ZERO), ..TIMEOUTS };
    assert_eq!(refused(StartActivity { timeouts, ..asked() }), "timeouts.heartbeat");
    let retry = Some(RetryPolicy { maximum_attempts: Some(0), ..RetryPolicy::default() });
    assert_eq!(refused(StartActivity { retry, ..asked() }), "retry.maximumAttempts");
    let concurrency_key = Some(String::new());
    assert_eq!(refused(StartActivity { concurrency_key, ..asked() }), "concurrencyKey");
    let tags = vec![long(1); limits::TAGS_MAX + 1];
    assert_eq!(refused(StartActivity { tags, ..asked() }), "tags");
}

#[test]
fn the_checker_knows_runs_of_a_single_activity() {
    let held = waits().takes(ID);
    let failed = held.clone().then(&held.fail(ID));
    let breaks = |events: &[Event]| match crate::check::history(events) {
        Err(violation) => violation.rule == crate::check::Rule::OneActivity,
        Ok(()) => false,
    };
    assert!(breaks(&failed.events[..2]), "a turn waits");
    assert!(breaks(&failed.events[..3]), "a turn is held");
    assert!(breaks(&failed.events[..4]), "the activity is not scheduled");
    crate::check::history(&failed.events[..6]).unwrap();
    assert!(breaks(&failed.events[..failed.events.len() - 1]), "the run does not close");
    let other = |kind: EventKind| {
        let mut events = failed.events.clone();
        events.last_mut().unwrap().kind = kind;
        events
    };
    let EventKind::WorkflowFailed(it) = failed.events.last().unwrap().kind.clone() else { panic!() };
    let decision_event_id = it.decision_event_id;
    let reason = "another".to_owned();
    assert!(breaks(&other(EventKind::WorkflowFailed(crate::event::WorkflowFailed { reason, ..it }))));
    let success = crate::event::WorkflowSuccess { result: None, decision_event_id };
    assert!(breaks(&other(EventKind::WorkflowSuccess(success))));
    let name = "m".to_owned();
    let marker = crate::event::Marker { name, details: None, decision_event_id };
    assert!(breaks(&other(EventKind::Marker(marker))));
}
