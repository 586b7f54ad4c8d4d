//! Every field at its limit, and at one more than its limit.

use uuid::Uuid;

use crate::event::ActivityTimeouts;
use crate::scene::{
    check, complete, marker, plain, scene, schedule, schedule_with, schedule_with_retry, signal, success, timer,
};
use crate::{
    CancelWorkflow, Command, Decision, Duration, Factor, FailWorkflow, Fault, Payload, RecordMarker, RetryPolicy,
    ScheduleActivity, Start, StartChild, StartTimer, SucceedWorkflow, Timestamp, Transition, TurnAnswer, WhenExhausted,
    WorkflowDefaults, limits,
};

const TOO_LARGE: &str = "fault too-large";
const INVALID: &str = "fault invalid-field";

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// Returns a JSON string of this many bytes.
#[expect(clippy::unnecessary_wraps, reason = "every field that takes one is optional")]
fn payload(bytes: usize) -> Option<Payload> {
    Some(Payload::from_json(&format!("\"{}\"", text(bytes - 2))).unwrap())
}

#[track_caller]
fn start(start: &Start, then: &str) {
    let found = match Transition::start(start, Uuid::nil(), Timestamp::default()) {
        Ok(_) => "ok".to_owned(),
        Err(fault) => {
            assert!(!fault.depends_on_state());
            format!("{} {fault}", fault.code())
        }
    };
    assert!(found.starts_with(then) && !then.is_empty(), "{found} instead of {then}");
}

#[test]
fn names_of_a_start_have_their_limits() {
    type Set = fn(&mut Start, String);
    let fields: [(&str, Set); 5] = [
        ("workflowId", |it, name| it.workflow_id = name),
        ("workflowType", |it, name| it.workflow_type = name),
        ("taskList", |it, name| it.task_list = name),
        ("identity", |it, name| it.identity = Some(name)),
        ("tags[1]", |it, name| it.tags = vec!["tag".to_owned(), name]),
    ];
    for (field, set) in fields {
        let max = if field == "workflowType" { limits::TYPE_CHARS_MAX } else { limits::NAME_CHARS_MAX };
        let (longer, thrice, four) = (max + 1, 3 * max, 4 * max);
        for (name, then) in [
            (text(1), "ok".to_owned()),
            (text(max), "ok".to_owned()),
            (text(longer), format!("too-large `{field}` has {longer} characters, at most {max} are allowed")),
            // The limit counts characters. A text of `max` characters with three bytes each is still allowed.
            ("漢".repeat(max), "ok".to_owned()),
            ("漢".repeat(longer), format!("too-large `{field}` has {longer} characters")),
            ("🚚".repeat(max), format!("too-large `{field}` has {four} bytes, at most {thrice} are allowed")),
            (String::new(), format!("invalid-field `{field}` is empty")),
            ("a\nb".to_owned(), format!("invalid-field `{field}` contains a control character")),
            ("a\u{7f}".to_owned(), format!("invalid-field `{field}` contains a control character")),
        ] {
            let mut it = plain();
            set(&mut it, name);
            start(&it, &then);
        }
    }
}

#[test]
fn a_start_has_at_most_five_tags() {
    let tags = |count| Start { tags: vec!["tag".to_owned(); count], ..plain() };
    start(&tags(limits::TAGS_MAX), "ok");
    start(&tags(limits::TAGS_MAX + 1), "invalid-field `tags` has 6 entries, at most 5 are allowed");
}

#[test]
fn the_input_of_a_start_has_its_limit() {
    start(&Start { input: payload(limits::PAYLOAD_BYTES_MAX), ..plain() }, "ok");
    start(&Start { input: payload(limits::PAYLOAD_BYTES_MAX + 1), ..plain() }, "too-large `input` has 262145 bytes");
}

#[test]
fn timeouts_of_a_start_are_positive_and_bounded() {
    type Set = fn(&mut Start, Duration);
    let fields: [(&str, Set); 7] = [
        ("executionTimeout", |it, span| it.execution_timeout = span),
        ("deciderStartToClose", |it, span| it.decider_start_to_close = span),
        ("deciderScheduleToStart", |it, span| {
            it.decider_schedule_to_start = Some(span);
        }),
        ("activityTimeouts.scheduleToStart", |it, span| {
            it.activity_timeouts.schedule_to_start = Some(span);
        }),
        ("activityTimeouts.startToClose", |it, span| {
            it.activity_timeouts.start_to_close = Some(span);
        }),
        ("activityTimeouts.scheduleToClose", |it, span| {
            it.activity_timeouts.schedule_to_close = Some(span);
        }),
        ("activityTimeouts.heartbeat", |it, span| {
            it.activity_timeouts.heartbeat = Some(span);
        }),
    ];
    let millisecond = Duration::from_millis(1);
    let beyond = Duration::from_millis(limits::SPAN_MAX.as_millis() + 1);
    for (field, set) in fields {
        for (span, then) in [
            (millisecond, "ok".to_owned()),
            (limits::SPAN_MAX, "ok".to_owned()),
            (beyond, format!("invalid-field `{field}` is ")),
            (Duration::ZERO, format!("invalid-field `{field}` is zero")),
        ] {
            let mut it = plain();
            set(&mut it, span);
            start(&it, &then);
        }
    }
    // Retention may be zero: the run expires as soon as it closes.
    start(&Start { retention: Duration::ZERO, ..plain() }, "ok");
    start(&Start { retention: limits::SPAN_MAX, ..plain() }, "ok");
    start(&Start { retention: beyond, ..plain() }, "invalid-field `retention` is ");
}

#[test]
fn retry_policies_of_starts_and_children_are_validated() {
    let none = RetryPolicy { maximum_attempts: Some(0), ..RetryPolicy::default() };
    let one = RetryPolicy { maximum_attempts: Some(1), ..RetryPolicy::default() };
    start(&Start { retry: Some(none.clone()), ..plain() }, "invalid-field `retry.maximumAttempts` is zero");
    start(&Start { retry: Some(one.clone()), ..plain() }, "ok");
    let pauses = RetryPolicy { when_exhausted: WhenExhausted::Pause, ..one.clone() };
    start(&Start { retry: Some(pauses), ..plain() }, "invalid-field `retry.whenExhausted` is `pause`");
    start(&Start { run_timeout: Some(Duration::ZERO), ..plain() }, "invalid-field `runTimeout` is zero");
    let child = |retry, run_timeout| StartChild {
        workflow_id: "c".to_owned(),
        workflow_type: "t".to_owned(),
        retry: Some(retry),
        run_timeout,
        ..StartChild::default()
    };
    let turn = scene().take();
    check(&turn, &turn.complete([child(none, None).into()]), INVALID);
    check(&turn, &turn.complete([child(one.clone(), Some(Duration::ZERO)).into()]), INVALID);
    check(&turn, &turn.complete([child(one, None).into()]), "DeciderCompleted ChildScheduled(c)");
}

#[test]
fn the_fields_of_requests_have_their_limits() {
    let open = scene();
    let (name, too_long) = (text(limits::NAME_CHARS_MAX), text(limits::NAME_CHARS_MAX + 1));
    let (reason, long_reason) = (text(limits::REASON_CHARS_MAX), text(limits::REASON_CHARS_MAX + 1));
    let (most, too_much) = (payload(limits::PAYLOAD_BYTES_MAX), payload(limits::PAYLOAD_BYTES_MAX + 1));

    let sent = |name: &str, input: &Option<Payload>, identity: Option<&str>| Command::Signal {
        name: name.to_owned(),
        input: input.clone(),
        identity: identity.map(str::to_owned),
        key: None,
        if_version: None,
    };
    check(&open, &sent(&name, &most, Some(&name)), &format!("Signal({name})"));
    check(&open, &sent(&too_long, &None, None), TOO_LARGE);
    check(&open, &sent("", &None, None), INVALID);
    check(&open, &sent("a\u{0}", &None, None), INVALID);
    check(&open, &sent("s", &too_much, None), TOO_LARGE);
    check(&open, &sent("s", &None, Some(&too_long)), TOO_LARGE);
    check(&open, &sent("s", &None, Some("")), INVALID);

    let to_cancel = |reason: &str, identity: &str| Command::RequestCancel {
        reason: Some(reason.to_owned()),
        identity: Some(identity.to_owned()),
        key: None,
    };
    check(&open, &to_cancel(&reason, &name), "WorkflowCancelRequested");
    check(&open, &to_cancel(&long_reason, "i"), TOO_LARGE);
    check(&open, &to_cancel("r", &too_long), TOO_LARGE);

    let end = |reason: &str, details: &Option<Payload>, identity: &str| Command::Terminate {
        reason: Some(reason.to_owned()),
        details: details.clone(),
        identity: Some(identity.to_owned()),
        key: None,
        child_policy: None,
    };
    check(&open, &end(&reason, &most, &name), "WorkflowTerminated");
    check(&open, &end(&long_reason, &None, "i"), TOO_LARGE);
    check(&open, &end("r", &too_much, "i"), TOO_LARGE);
    check(&open, &end("r", &None, &too_long), TOO_LARGE);

    // The identity that a poller sends has the same limit.
    let poll =
        |identity: &str| Command::StartTurn { scheduled_event_id: 2, identity: Some(identity.to_owned()), poll: None };
    check(&open, &poll(&name), "DeciderStarted");
    check(&open, &poll(&too_long), TOO_LARGE);
    check(&open, &poll(""), INVALID);
}

#[test]
fn the_fields_of_answers_have_their_limits() {
    let given = scene().decide([schedule("a"), schedule("b")]).takes("a").then(&signal("go")).take();
    let (turn, task) = (given.turn(), given.task("a"));
    let (reason, long_reason) = (text(limits::REASON_CHARS_MAX), text(limits::REASON_CHARS_MAX + 1));
    let (most, too_much) = (payload(limits::PAYLOAD_BYTES_MAX), payload(limits::PAYLOAD_BYTES_MAX + 1));

    let poll = |identity: String| Command::StartActivity {
        scheduled_event_id: given.scheduled("b"),
        identity: Some(identity),
        poll: None,
    };
    check(&given, &poll(text(limits::NAME_CHARS_MAX)), "ActivityStarted");
    check(&given, &poll(text(limits::NAME_CHARS_MAX + 1)), TOO_LARGE);
    check(&given, &poll(String::new()), INVALID);

    let context = |context| Command::complete(turn, TurnAnswer { context, ..TurnAnswer::default() });
    check(&given, &context(payload(limits::CONTEXT_BYTES_MAX)), "DeciderCompleted");
    check(&given, &context(payload(limits::CONTEXT_BYTES_MAX + 1)), TOO_LARGE);

    let give_back = |reason: &str, details: &Option<Payload>| Command::FailTurn {
        turn,
        reason: Some(reason.to_owned()),
        details: details.clone(),
    };
    check(&given, &give_back(&reason, &most), "DeciderFailed(Reported) DeciderScheduled(+PT1S)");
    check(&given, &give_back(&long_reason, &None), TOO_LARGE);
    check(&given, &give_back("r", &too_much), TOO_LARGE);

    let succeed = |result: &Option<Payload>| Command::SucceedActivity { task, result: result.clone() };
    check(&given, &succeed(&most), "ActivitySuccess DeciderScheduled");
    check(&given, &succeed(&too_much), TOO_LARGE);

    let fail = |reason: &str, details: &Option<Payload>| Command::FailActivity {
        task,
        reason: Some(reason.to_owned()),
        details: details.clone(),
        non_retryable: true,
        retry_after: None,
    };
    check(&given, &fail(&reason, &most), "ActivityFailed DeciderScheduled");
    check(&given, &fail(&long_reason, &None), TOO_LARGE);
    check(&given, &fail("", &None), INVALID);
    check(&given, &fail("r", &too_much), TOO_LARGE);

    let canceled = |details: &Option<Payload>| Command::CancelActivity { task, details: details.clone() };
    check(&given, &canceled(&too_much), TOO_LARGE);
    check(&given, &canceled(&most), "fault cancel-not-requested");
}

#[test]
#[expect(clippy::large_stack_arrays, reason = "a table of cases")]
fn the_fields_of_decisions_have_their_limits() {
    let busy = scene().take();
    let (name, too_long) = (text(limits::NAME_CHARS_MAX), text(limits::NAME_CHARS_MAX + 1));
    let (most, too_much) = (payload(limits::PAYLOAD_BYTES_MAX), payload(limits::PAYLOAD_BYTES_MAX + 1));
    let beyond = Duration::from_millis(limits::SPAN_MAX.as_millis() + 1);
    let activity = |id: &str, kind: &str, list: Option<&str>, input: &Option<Payload>| {
        Decision::from(ScheduleActivity {
            activity_id: id.to_owned(),
            activity_type: kind.to_owned(),
            task_list: list.map(str::to_owned),
            input: input.clone(),
            ..ScheduleActivity::default()
        })
    };
    let retried = |retry: RetryPolicy| schedule_with_retry("a", retry, ActivityTimeouts::default());
    let reasons = |count, reason: &str| vec![reason.to_owned(); count];
    let wait = |after| Decision::from(StartTimer { timer_id: "t".to_owned(), after, control: None });
    let note =
        |details: &Option<Payload>| Decision::from(RecordMarker { name: "m".to_owned(), details: details.clone() });
    let succeed = |result: &Option<Payload>| Decision::from(SucceedWorkflow { result: result.clone(), force: false });
    let fail = |reason: String, details: &Option<Payload>| {
        Decision::from(FailWorkflow { reason, details: details.clone(), ..FailWorkflow::default() })
    };
    let stop = |details: &Option<Payload>| Decision::from(CancelWorkflow { details: details.clone(), force: false });
    let longest = text(limits::REASON_CHARS_MAX);
    for (decision, field) in [
        (activity(&name, &name, Some(&name), &most), Ok("ActivityScheduled")),
        (activity(&too_long, "A", None, &None), Err("activityId")),
        (activity("", "A", None, &None), Err("activityId")),
        (activity("a", &text(limits::TYPE_CHARS_MAX), None, &None), Ok("ActivityScheduled")),
        (activity("a", &text(limits::TYPE_CHARS_MAX + 1), None, &None), Err("activityType")),
        (activity("a", "", None, &None), Err("activityType")),
        (activity("a", "A", Some(&too_long), &None), Err("taskList")),
        (activity("a", "A", Some(""), &None), Err("taskList")),
        (activity("a", "A", None, &too_much), Err("input")),
        (
            schedule_with("a", ActivityTimeouts { heartbeat: Some(Duration::ZERO), ..ActivityTimeouts::default() }),
            Err("timeouts.heartbeat"),
        ),
        (
            schedule_with("a", ActivityTimeouts { start_to_close: Some(beyond), ..ActivityTimeouts::default() }),
            Err("timeouts.startToClose"),
        ),
        (retried(RetryPolicy::default()), Ok("ActivityScheduled")),
        (
            retried(RetryPolicy { initial_interval: Duration::ZERO, ..RetryPolicy::default() }),
            Err("retry.initialInterval"),
        ),
        (retried(RetryPolicy { initial_interval: beyond, ..RetryPolicy::default() }), Err("retry.initialInterval")),
        (
            retried(RetryPolicy { maximum_interval: Some(beyond), ..RetryPolicy::default() }),
            Err("retry.maximumInterval"),
        ),
        (
            retried(RetryPolicy { maximum_interval: Some(Duration::ZERO), ..RetryPolicy::default() }),
            Err("retry.maximumInterval"),
        ),
        (retried(RetryPolicy { backoff_coefficient: Factor::ONE, ..RetryPolicy::default() }), Ok("ActivityScheduled")),
        (
            retried(RetryPolicy { backoff_coefficient: Factor::from_thousandths(999), ..RetryPolicy::default() }),
            Err("retry.backoffCoefficient"),
        ),
        (retried(RetryPolicy { maximum_attempts: Some(1), ..RetryPolicy::default() }), Ok("ActivityScheduled")),
        (retried(RetryPolicy { maximum_attempts: Some(0), ..RetryPolicy::default() }), Err("retry.maximumAttempts")),
        (retried(RetryPolicy { jitter: Factor::ONE, ..RetryPolicy::default() }), Ok("ActivityScheduled")),
        (
            retried(RetryPolicy { jitter: Factor::from_thousandths(1_001), ..RetryPolicy::default() }),
            Err("retry.jitter"),
        ),
        (
            retried(RetryPolicy {
                non_retryable_reasons: reasons(limits::NON_RETRYABLE_REASONS_MAX, &longest),
                ..RetryPolicy::default()
            }),
            Ok("ActivityScheduled"),
        ),
        (
            retried(RetryPolicy {
                non_retryable_reasons: reasons(limits::NON_RETRYABLE_REASONS_MAX + 1, "r"),
                ..RetryPolicy::default()
            }),
            Err("retry.nonRetryableReasons"),
        ),
        (
            retried(RetryPolicy {
                non_retryable_reasons: reasons(1, &(longest.clone() + "x")),
                ..RetryPolicy::default()
            }),
            Err("retry.nonRetryableReasons[0]"),
        ),
        (crate::scene::cancel(&too_long), Err("activityId")),
        (timer(&name, 1), Ok("TimerScheduled")),
        (timer(&too_long, 1), Err("timerId")),
        (timer("", 1), Err("timerId")),
        (wait(Duration::ZERO), Ok("TimerScheduled")),
        (wait(limits::SPAN_MAX), Ok("TimerScheduled")),
        (wait(beyond), Err("after")),
        (crate::scene::cancel_timer(&too_long), Err("timerId")),
        (marker(&name), Ok("Marker")),
        (marker(&too_long), Err("name")),
        (note(&most), Ok("Marker")),
        (note(&too_much), Err("details")),
        (succeed(&most), Ok("WorkflowSuccess")),
        (succeed(&too_much), Err("result")),
        (fail(longest.clone(), &most), Ok("WorkflowFailed")),
        (fail(longest + "x", &None), Err("reason")),
        (fail(String::new(), &None), Err("reason")),
        (fail("r".to_owned(), &too_much), Err("details")),
        (stop(&most), Ok("WorkflowCanceled")),
        (stop(&too_much), Err("details")),
    ] {
        // The answer is refused as a whole, so a valid decision before the invalid decision is not recorded.
        let command = complete(busy.turn(), vec![marker("fine"), decision]);
        match (busy.clone().admit(&command), field) {
            (Ok((_, events)), Ok(expected)) => assert_eq!(events[2].kind.name(), expected),
            (Err(Fault::Invalid { field, .. } | Fault::TooLarge { field, .. }), Err(expected)) => {
                assert_eq!(field, format!("decisions[1].{expected}"));
            }
            (found, _) => panic!("{field:?}: {found:?}"),
        }
    }
}

#[test]
fn decisions_of_an_answer_are_limited() {
    let busy = scene().take();
    let notes = |count| complete(busy.turn(), vec![marker("m"); count]);
    let (_, events) = busy.clone().admit(&notes(limits::DECISIONS_MAX)).unwrap();
    assert_eq!(events.len(), 1 + limits::DECISIONS_MAX);
    check(&busy, &notes(limits::DECISIONS_MAX + 1), INVALID);
}

#[test]
fn a_turn_awaits_at_most_32_signals_with_8_kib_of_names() {
    let busy = scene().take();
    let awaits =
        |awaiting: Vec<String>| Command::complete(busy.turn(), TurnAnswer { awaiting, ..TurnAnswer::default() });
    let most = limits::AWAITING_MAX;
    let long = limits::AWAITING_BYTES_MAX / most;
    check(&busy, &awaits(vec![text(long); most]), "DeciderCompleted");
    check(&busy, &awaits(vec![text(1); most + 1]), INVALID);
    let mut names = vec![text(long); most];
    names[0].replace_range(..1, "é");
    check(&busy, &awaits(names), TOO_LARGE);
}

#[test]
fn a_poll_has_at_most_32_attempts() {
    let poll = |id: Option<&str>, attempt| crate::validate::poll(id, Some(attempt)).map_err(|fault| fault.code());
    assert_eq!(poll(Some("p"), limits::POLL_ATTEMPTS_MAX), Ok(()));
    for attempt in [0, limits::POLL_ATTEMPTS_MAX + 1] {
        assert_eq!(poll(Some("p"), attempt), Err("invalid-field"), "{attempt}");
    }
    assert_eq!(poll(Some(&text(limits::NAME_CHARS_MAX)), 1), Ok(()));
    assert_eq!(poll(Some(&text(limits::NAME_CHARS_MAX + 1)), 1), Err("too-large"));
}

#[test]
fn the_lambda_role_of_a_type_has_its_limit() {
    let check = |chars| {
        let defaults = WorkflowDefaults { lambda_role: Some("漢".repeat(chars)), ..WorkflowDefaults::default() };
        crate::validate::workflow_defaults(&defaults).map_err(|fault| fault.code())
    };
    assert_eq!(check(limits::LAMBDA_ROLE_CHARS_MAX), Ok(()));
    assert_eq!(check(limits::LAMBDA_ROLE_CHARS_MAX + 1), Err("too-large"));
}

#[test]
fn a_late_answer_is_reported_as_late_before_other_errors() {
    let busy = scene().take();
    let turn = busy.turn();
    let answered = busy.decide([]);
    check(&answered, &complete(turn, vec![success(), success()]), "fault turn-completed");
}

#[test]
fn every_fault_has_its_own_code() {
    let faults = [
        Fault::RunClosed { status: crate::Status::Failed },
        Fault::AlreadyOpen { run_id: Uuid::nil() },
        Fault::ReuseRefused { run_id: Uuid::nil(), status: crate::Status::Success },
        Fault::TurnCompleted,
        Fault::TurnLost,
        Fault::TurnNotWaiting { scheduled_event_id: 1 },
        Fault::ActivityClosed,
        Fault::ActivityNotWaiting { scheduled_event_id: 1 },
        Fault::CancelNotRequested,
        Fault::VersionMismatch { expected: 1, found: 2 },
        Fault::Invalid { field: "f".to_owned(), problem: "is empty".to_owned() },
        Fault::TooLarge { field: "f".to_owned(), found: 2, max: 1, unit: crate::Unit::Bytes },
    ];
    let codes: std::collections::BTreeSet<_> = faults.iter().map(Fault::code).collect();
    assert_eq!(codes.len(), faults.len());
    for fault in &faults {
        let text = fault.to_string();
        assert!(!text.ends_with('.') && !text.starts_with(char::is_uppercase), "{text}");
    }
}
