//! Manually built histories. For each rule, some histories break this rule first.

use uuid::Uuid;

use super::*;
use crate::Duration;
use crate::event::LastFailure;
use crate::event::{
    ActivityCanceled, ActivityScheduledTimeout, ActivityStarted, ActivitySuccess, ActivityTaskCancel, ActivityTimedOut,
    ActivityTimeout, ActivityTimeouts, ChildPolicy, ChildScheduleFailed, ChildScheduleFailedCause, ChildScheduled,
    ChildStarted, ChildSuccess, CloseDecision, CloseFailedCause, DeciderCompleted, DeciderFailed, DeciderFailedCause,
    DeciderStarted, DeciderTimedOut, DeciderTimeout, ExternalCancelFailed, ExternalFailedCause,
    ExternalSignalDelivered, ExternalSignalScheduled, Marker, Origin, Signal, TimerCanceled, TimerExpired,
    TimerScheduled, UpdateAccepted, UpdateCompleted, UpdateFailed, WorkflowCloseFailed, WorkflowSuccess,
    WorkflowTerminated, WorkflowTimedOut, WorkflowTimeout,
};
use crate::ids::ReusePolicy;
use crate::retry::RetryPolicy;

const SECOND: Duration = Duration::from_secs(1);

fn begun() -> EventKind {
    EventKind::WorkflowStarted(Box::new(WorkflowStarted {
        workflow_id: "w".to_owned(),
        run_id: Uuid::nil(),
        workflow_type: "t".to_owned(),
        task_list: "l".to_owned(),
        input: None,
        execution_timeout: Duration::from_secs(1_000),
        decider_start_to_close: Duration::from_secs(30),
        decider_schedule_to_start: Some(Duration::from_secs(60)),
        activity_timeouts: ActivityTimeouts::default(),
        tags: Vec::new(),
        retention: SECOND,
        identity: None,
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
    }))
}

fn waits() -> EventKind {
    held_until(None)
}

fn held_until(not_before: Option<Timestamp>) -> EventKind {
    EventKind::DeciderScheduled(DeciderScheduled {
        task_list: "l".to_owned(),
        start_to_close: Duration::from_secs(30),
        schedule_to_start: Some(Duration::from_secs(60)),
        attempt: 1,
        not_before,
        task_priority: None,
    })
}

fn starts(scheduled_event_id: EventId) -> EventKind {
    EventKind::DeciderStarted(DeciderStarted { scheduled_event_id, identity: None })
}

fn completes(scheduled_event_id: EventId, started_event_id: EventId) -> EventKind {
    EventKind::DeciderCompleted(DeciderCompleted {
        scheduled_event_id,
        started_event_id,
        context: None,
        awaiting: Vec::new(),
        next_task_list: None,
    })
}

fn fails(scheduled_event_id: EventId, started_event_id: EventId) -> EventKind {
    EventKind::DeciderFailed(DeciderFailed {
        scheduled_event_id,
        started_event_id,
        cause: DeciderFailedCause::Reported,
        reason: None,
        details: None,
        next_not_before: None,
    })
}

fn times_out(scheduled_event_id: EventId, started_event_id: Option<EventId>) -> EventKind {
    EventKind::DeciderTimedOut(DeciderTimedOut {
        scheduled_event_id,
        started_event_id,
        timeout: match started_event_id {
            Some(_) => DeciderTimeout::StartToClose,
            None => DeciderTimeout::ScheduleToStart,
        },
    })
}

fn signal() -> EventKind {
    EventKind::Signal(Signal { name: "s".to_owned(), input: None, identity: None, origin: None, traceparent: None })
}

fn activity(activity_id: &str, decision_event_id: EventId) -> EventKind {
    EventKind::ActivityScheduled(Box::new(ActivityScheduled {
        activity_id: activity_id.to_owned(),
        activity_type: "A".to_owned(),
        task_list: "l".to_owned(),
        input: None,
        timeouts: ActivityTimeouts {
            schedule_to_start: Some(Duration::from_secs(10)),
            start_to_close: Some(Duration::from_secs(20)),
            schedule_to_close: Some(Duration::from_secs(40)),
            heartbeat: None,
        },
        decision_event_id,
        retry: None,
        control: None,
        task_priority: None,
        concurrency_key: None,
    }))
}

fn retried(decision_event_id: EventId) -> EventKind {
    let EventKind::ActivityScheduled(it) = activity("a", decision_event_id) else { unreachable!() };
    let retry = Some(RetryPolicy { maximum_attempts: Some(3), ..RetryPolicy::default() });
    EventKind::ActivityScheduled(Box::new(ActivityScheduled { retry, ..*it }))
}

/// Returns an ActivityStarted event for the last attempt of an activity with a retry policy. Times are in seconds;
/// `last_failed_at` is the end of the previous attempt.
fn tried(attempt: u32, started_at: u64, last_failed_at: Option<u64>) -> EventKind {
    let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
    EventKind::ActivityStarted(ActivityStarted {
        scheduled_event_id: 5,
        activity_id: None,
        identity: None,
        attempt: Some(attempt),
        started_at: Some(at(started_at)),
        last_failure: last_failed_at.map(|seconds| LastFailure {
            at: at(seconds),
            reason: Some("busy".to_owned()),
            timeout: None,
            details: None,
            identity: None,
            kept: None,
        }),
        kept: None,
    })
}

fn taken(scheduled_event_id: EventId) -> EventKind {
    EventKind::ActivityStarted(ActivityStarted {
        scheduled_event_id,
        activity_id: None,
        identity: None,
        attempt: None,
        started_at: None,
        last_failure: None,
        kept: None,
    })
}

fn done(scheduled_event_id: EventId, started_event_id: EventId) -> EventKind {
    EventKind::ActivitySuccess(ActivitySuccess {
        scheduled_event_id,
        activity_id: None,
        started_event_id,
        result: None,
        operator: None,
    })
}

fn too_slow(scheduled_event_id: EventId, started_event_id: Option<EventId>, timeout: ActivityTimeout) -> EventKind {
    EventKind::ActivityTimedOut(ActivityTimedOut {
        scheduled_event_id,
        activity_id: None,
        started_event_id,
        timeout,
        details: None,
        cause: None,
        last_failure: None,
    })
}

fn never_taken(scheduled_event_id: EventId) -> EventKind {
    EventKind::ActivityScheduledTimeout(ActivityScheduledTimeout {
        scheduled_event_id,
        activity_id: None,
        last_failure: None,
        cause: None,
    })
}

fn to_cancel(activity_id: &str, scheduled_event_id: EventId, decision_event_id: EventId) -> EventKind {
    EventKind::ActivityTaskCancel(ActivityTaskCancel {
        activity_id: activity_id.to_owned(),
        scheduled_event_id,
        decision_event_id,
    })
}

fn canceled(scheduled_event_id: EventId, started_event_id: Option<EventId>, cancel_event_id: EventId) -> EventKind {
    EventKind::ActivityCanceled(ActivityCanceled {
        scheduled_event_id,
        activity_id: None,
        started_event_id,
        cancel_event_id,
        details: None,
    })
}

fn timer(timer_id: &str, seconds: u64, decision_event_id: EventId) -> EventKind {
    EventKind::TimerScheduled(TimerScheduled {
        timer_id: timer_id.to_owned(),
        after: Duration::from_secs(seconds),
        decision_event_id,
        control: None,
    })
}

fn expires(timer_id: &str, scheduled_event_id: EventId) -> EventKind {
    EventKind::TimerExpired(TimerExpired { timer_id: timer_id.to_owned(), scheduled_event_id })
}

fn taken_back(timer_id: &str, scheduled_event_id: EventId, decision_event_id: EventId) -> EventKind {
    EventKind::TimerCanceled(TimerCanceled { timer_id: timer_id.to_owned(), scheduled_event_id, decision_event_id })
}

fn marker(decision_event_id: EventId) -> EventKind {
    EventKind::Marker(Marker { name: "m".to_owned(), details: None, decision_event_id })
}

fn close_failed(decision_event_id: EventId) -> EventKind {
    EventKind::WorkflowCloseFailed(WorkflowCloseFailed {
        decision: CloseDecision::SucceedWorkflow,
        cause: CloseFailedCause::UnhandledEvents,
        decision_event_id,
    })
}

fn success(decision_event_id: EventId) -> EventKind {
    EventKind::WorkflowSuccess(WorkflowSuccess { result: None, decision_event_id })
}

fn terminated() -> EventKind {
    EventKind::WorkflowTerminated(WorkflowTerminated {
        cause: None,
        reset: None,
        reason: None,
        details: None,
        identity: None,
        origin: None,
        child_policy: None,
    })
}

fn ran_out() -> EventKind {
    EventKind::WorkflowTimedOut(WorkflowTimedOut {
        timeout: WorkflowTimeout::Execution,
        new_run_id: None,
        next_attempt_at: None,
    })
}

/// Returns the events as a history, numbered from 1, with their times in seconds.
fn numbered<const N: usize>(kinds: [(u64, EventKind); N]) -> Vec<Event> {
    let ids = 1..;
    ids.zip(kinds)
        .map(|(id, (seconds, kind))| Event {
            id,
            timestamp: Timestamp::from_millis(seconds * 1_000),
            kind,
            key: None,
            by: None,
            clock: None,
        })
        .collect()
}

/// Returns the events as a history, all at the same time.
fn at_once<const N: usize>(kinds: [EventKind; N]) -> Vec<Event> {
    numbered(kinds.map(|kind| (0, kind)))
}

#[track_caller]
fn sound(events: &[Event]) {
    assert_eq!(history(events), Ok(()));
}

#[track_caller]
fn breaks(rule: Rule, event_id: EventId, events: &[Event]) {
    let violation = history(events).expect_err("a violation");
    assert_eq!((violation.rule, violation.event_id), (rule, event_id), "{violation}");
}

/// Returns a history of WorkflowStarted, DeciderScheduled, DeciderStarted and DeciderCompleted (event 4), followed by
/// `rest`.
fn decided<const N: usize>(rest: [(u64, EventKind); N]) -> Vec<Event> {
    let mut events = numbered([(0, begun()), (0, waits()), (0, starts(2)), (0, completes(2, 3))]);
    for (seconds, kind) in rest {
        let id = events.len() as EventId + 1;
        let timestamp = Timestamp::from_millis(seconds * 1_000);
        events.push(Event { id, timestamp, kind, key: None, by: None, clock: None });
    }
    events
}

#[test]
fn sound_histories_are_accepted() {
    sound(&at_once([begun(), waits()]));
    sound(&at_once([begun(), waits(), starts(2), completes(2, 3), success(4)]));
    sound(&at_once([begun(), waits(), starts(2), completes(2, 3)]));
    sound(&at_once([begun(), waits(), terminated()]));
    sound(&numbered([(0, begun()), (0, waits()), (1_000, ran_out())]));
    sound(&decided([(0, activity("a", 4)), (1, taken(5)), (2, done(5, 6)), (2, waits())]));
    sound(&decided([(0, activity("a", 4)), (10, never_taken(5)), (10, waits())]));
    let timed_out = too_slow(5, None, ActivityTimeout::ScheduleToClose);
    sound(&decided([(0, activity("a", 4)), (40, timed_out), (40, waits())]));
    sound(&decided([
        (0, activity("a", 4)),
        (0, to_cancel("a", 5, 4)),
        (0, canceled(5, None, 6)),
        (0, marker(4)),
        (0, waits()),
    ]));
    // Two timers are due at the same time, and one turn follows both. Then a timer id is used again after its first
    // timer was canceled.
    sound(&decided([
        (0, timer("t", 5, 4)),
        (0, timer("u", 5, 4)),
        (5, expires("t", 5)),
        (5, expires("u", 6)),
        (5, waits()),
    ]));
    sound(&decided([(0, timer("t", 5, 4)), (0, taken_back("t", 5, 4)), (0, timer("t", 5, 4))]));
    // A signal schedules a turn while another turn is held. The end of the held turn then schedules no further turn.
    sound(&at_once([begun(), waits(), starts(2), signal(), waits(), fails(2, 3), starts(5), completes(5, 7)]));
    sound(&at_once([begun(), waits(), starts(2), signal(), waits(), completes(2, 3), close_failed(6)]));
    // A turn times out if no decider takes it, and if its decider does not answer.
    sound(&numbered([
        (0, begun()),
        (0, waits()),
        (60, times_out(2, None)),
        (60, waits()),
        (60, starts(4)),
        (90, times_out(4, Some(5))),
        (90, waits()),
    ]));
    // A history does not show whether a close was forced.
    sound(&at_once([begun(), waits(), starts(2), signal(), waits(), completes(2, 3), success(6)]));
}

#[test]
fn gaps_in_ids_are_caught() {
    let mut events = at_once([begun(), waits(), signal()]);
    events[2].id = 4;
    breaks(Rule::Ids, 4, &events);
    events[2].id = 2;
    breaks(Rule::Ids, 2, &events);
    breaks(Rule::Ids, 2, &events[1..]);
}

#[test]
fn time_that_goes_back_is_caught() {
    breaks(Rule::Time, 3, &numbered([(5, begun()), (5, waits()), (4, signal())]));
}

#[test]
fn a_wrong_first_event_is_caught() {
    breaks(Rule::Beginning, 1, &at_once([waits()]));
    breaks(Rule::Beginning, 2, &at_once([begun(), signal(), waits()]));
    breaks(Rule::Beginning, 3, &at_once([begun(), waits(), begun()]));
    breaks(Rule::NewsIsAnswered, 1, &at_once([begun()]));
}

#[test]
fn an_event_after_the_close_is_caught() {
    breaks(Rule::NothingAfterClose, 4, &at_once([begun(), waits(), terminated(), signal()]));
    breaks(Rule::NothingAfterClose, 6, &decided([(0, success(4)), (0, waits())]));
    breaks(Rule::NothingAfterClose, 6, &decided([(0, success(4)), (0, marker(4))]));
    breaks(
        Rule::NothingAfterClose,
        4,
        &numbered([(0, begun()), (0, waits()), (1_000, ran_out()), (1_000, terminated())]),
    );
}

#[test]
fn a_second_waiting_turn_is_caught() {
    breaks(Rule::OneTurnWaits, 3, &at_once([begun(), waits(), waits()]));
    breaks(Rule::OneTurnWaits, 4, &at_once([begun(), waits(), signal(), waits()]));
    // The rule counts from the last DeciderStarted event, not from the last DeciderCompleted event.
    breaks(Rule::OneTurnWaits, 7, &at_once([begun(), waits(), starts(2), signal(), waits(), signal(), waits()]));
    breaks(Rule::OneTurnWaits, 7, &at_once([begun(), waits(), starts(2), signal(), waits(), fails(2, 3), waits()]));
}

#[test]
fn a_second_active_decider_is_caught() {
    breaks(Rule::OneTurnStarted, 6, &at_once([begun(), waits(), starts(2), signal(), waits(), starts(5)]));
}

#[test]
fn a_turn_without_cause_is_caught() {
    breaks(Rule::TurnHasCause, 5, &decided([(0, waits())]));
    breaks(Rule::TurnHasCause, 6, &decided([(0, activity("a", 4)), (0, waits())]));
    breaks(Rule::TurnHasCause, 7, &decided([(0, activity("a", 4)), (1, taken(5)), (1, waits())]));
    // A canceled timer schedules no turn, and neither does a marker.
    breaks(Rule::TurnHasCause, 7, &decided([(0, timer("t", 5, 4)), (0, taken_back("t", 5, 4)), (0, waits())]));
    breaks(Rule::TurnHasCause, 6, &decided([(0, marker(4)), (0, waits())]));
}

#[test]
fn news_without_a_turn_is_caught() {
    breaks(Rule::NewsIsAnswered, 5, &decided([(0, signal())]));
    breaks(Rule::NewsIsAnswered, 5, &decided([(0, signal()), (0, signal()), (0, waits())]));
    breaks(Rule::NewsIsAnswered, 7, &decided([(0, activity("a", 4)), (1, taken(5)), (2, done(5, 6))]));
    breaks(Rule::NewsIsAnswered, 6, &decided([(0, timer("t", 5, 4)), (5, expires("t", 5))]));
    breaks(Rule::NewsIsAnswered, 4, &at_once([begun(), waits(), starts(2), signal(), completes(2, 3)]));
    // A failed decision needs a turn.
    breaks(Rule::NewsIsAnswered, 5, &decided([(0, close_failed(4))]));
    // A lost turn is scheduled again.
    breaks(Rule::NewsIsAnswered, 4, &at_once([begun(), waits(), starts(2), fails(2, 3)]));
    breaks(
        Rule::NewsIsAnswered,
        4,
        &numbered([(0, begun()), (0, waits()), (0, starts(2)), (30, times_out(2, Some(3)))]),
    );
    breaks(Rule::NewsIsAnswered, 3, &numbered([(0, begun()), (0, waits()), (60, times_out(2, None))]));
}

#[test]
fn links_to_the_wrong_event_are_caught() {
    breaks(Rule::Link, 3, &at_once([begun(), waits(), starts(1)]));
    breaks(Rule::Link, 5, &decided([(0, starts(2))]));
    breaks(Rule::Link, 4, &at_once([begun(), waits(), starts(2), completes(2, 2)]));
    breaks(Rule::Link, 4, &at_once([begun(), waits(), starts(2), fails(1, 3)]));
    breaks(Rule::Link, 5, &decided([(0, completes(2, 3))]));
    breaks(Rule::Link, 4, &numbered([(0, begun()), (0, waits()), (0, starts(2)), (60, times_out(2, None))]));
    breaks(Rule::Link, 3, &numbered([(0, begun()), (0, waits()), (60, times_out(2, Some(3)))]));
    breaks(Rule::Link, 6, &decided([(0, activity("a", 4)), (0, taken(4))]));
    breaks(Rule::Link, 6, &decided([(0, activity("a", 4)), (0, taken(9))]));
    breaks(Rule::Link, 7, &decided([(0, activity("a", 4)), (0, taken(5)), (0, done(5, 5))]));
    breaks(Rule::Link, 7, &decided([(0, activity("a", 4)), (0, taken(5)), (0, done(4, 6))]));
    breaks(Rule::Link, 6, &decided([(0, activity("a", 4)), (0, to_cancel("b", 5, 4))]));
    breaks(Rule::Link, 6, &decided([(0, activity("a", 4)), (0, to_cancel("a", 4, 4))]));
    breaks(Rule::Link, 7, &decided([(0, activity("a", 4)), (0, taken(5)), (0, canceled(5, Some(6), 4))]));
    breaks(Rule::Link, 7, &decided([(0, activity("a", 4)), (0, to_cancel("a", 5, 4)), (0, canceled(5, Some(6), 6))]));
    let unstarted = too_slow(5, None, ActivityTimeout::ScheduleToClose);
    breaks(Rule::Link, 7, &decided([(0, activity("a", 4)), (0, taken(5)), (40, unstarted)]));
    breaks(Rule::Link, 6, &decided([(0, timer("t", 5, 4)), (5, expires("u", 5))]));
    breaks(Rule::Link, 6, &decided([(0, timer("t", 5, 4)), (0, taken_back("t", 4, 4))]));
}

#[test]
fn activities_started_or_closed_twice_are_caught() {
    breaks(Rule::ActivityLife, 7, &decided([(0, activity("a", 4)), (0, taken(5)), (0, taken(5))]));
    breaks(Rule::ActivityLife, 6, &decided([(0, activity("a", 4)), (0, done(5, 6))]));
    let answered = [(0, activity("a", 4)), (0, taken(5)), (0, done(5, 6)), (0, waits()), (0, done(5, 6))];
    breaks(Rule::ActivityLife, 9, &decided(answered));
    breaks(
        Rule::ActivityLife,
        8,
        &decided([(0, activity("a", 4)), (10, never_taken(5)), (10, waits()), (10, taken(5))]),
    );
    breaks(Rule::ActivityLife, 7, &decided([(0, activity("a", 4)), (0, taken(5)), (10, never_taken(5))]));
    let unstarted = too_slow(5, None, ActivityTimeout::StartToClose);
    breaks(Rule::ActivityLife, 6, &decided([(0, activity("a", 4)), (40, unstarted)]));
}

#[test]
fn the_last_attempt_directly_precedes_the_close() {
    sound(&decided([(0, retried(4)), (9, tried(2, 6, Some(3))), (9, done(5, 6)), (9, waits())]));
    sound(&decided([(0, retried(4)), (9, tried(1, 0, None)), (9, done(5, 6)), (9, waits())]));
    let late = too_slow(5, Some(6), ActivityTimeout::StartToClose);
    sound(&decided([(0, retried(4)), (26, tried(2, 6, Some(3))), (26, late.clone()), (26, waits())]));
    breaks(Rule::ActivityLife, 7, &decided([(0, retried(4)), (9, tried(1, 0, None)), (9, signal())]));
    breaks(Rule::ActivityLife, 6, &decided([(0, retried(4)), (9, tried(1, 0, None))]));
    breaks(Rule::ActivityLife, 6, &decided([(0, retried(4)), (9, taken(5)), (9, done(5, 6))]));
    breaks(Rule::ActivityLife, 6, &decided([(0, activity("a", 4)), (9, tried(1, 0, None)), (9, done(5, 6))]));
    for (attempt, last) in [(0, None), (4, Some(3)), (1, Some(3)), (2, None)] {
        breaks(Rule::ActivityLife, 6, &decided([(0, retried(4)), (9, tried(attempt, 6, last)), (9, done(5, 6))]));
    }
    for (started_at, last) in [(10, 3), (2, 3)] {
        let early = tried(2, started_at, Some(last));
        breaks(Rule::NotBeforeTime, 6, &decided([(0, retried(4)), (9, early), (9, done(5, 6))]));
    }
    breaks(Rule::NotBeforeTime, 7, &decided([(0, retried(4)), (25, tried(2, 6, Some(3))), (25, late)]));
}

#[test]
fn timers_that_end_twice_are_caught() {
    breaks(Rule::TimerLife, 7, &decided([(0, timer("t", 5, 4)), (5, expires("t", 5)), (5, expires("t", 5))]));
    breaks(Rule::TimerLife, 7, &decided([(0, timer("t", 5, 4)), (0, taken_back("t", 5, 4)), (5, expires("t", 5))]));
}

#[test]
fn ids_used_twice_are_caught() {
    breaks(Rule::IdInUse, 6, &decided([(0, activity("a", 4)), (0, activity("a", 4))]));
    breaks(Rule::IdInUse, 6, &decided([(0, timer("t", 5, 4)), (0, timer("t", 6, 4))]));
}

fn told_to(workflow_id: &str) -> EventKind {
    let (workflow_id, name) = (workflow_id.to_owned(), "s".to_owned());
    EventKind::ExternalSignalScheduled(ExternalSignalScheduled {
        workflow_id,
        run_id: None,
        name,
        input: None,
        decision_event_id: 4,
        control: None,
    })
}

fn delivered_to(workflow_id: &str, scheduled_event_id: EventId) -> EventKind {
    let (workflow_id, run_id) = (workflow_id.to_owned(), Uuid::nil());
    EventKind::ExternalSignalDelivered(ExternalSignalDelivered { workflow_id, run_id, scheduled_event_id })
}

fn not_canceled(workflow_id: &str, scheduled_event_id: Option<EventId>) -> EventKind {
    let (workflow_id, cause) = (workflow_id.to_owned(), ExternalFailedCause::WorkflowClosed);
    EventKind::ExternalCancelFailed(ExternalCancelFailed {
        workflow_id,
        cause,
        scheduled_event_id,
        decision_event_id: 4,
        run_id: None,
        control: None,
    })
}

fn came_from(event_id: EventId) -> EventKind {
    let origin = Some(Origin { workflow_id: "o".to_owned(), run_id: Uuid::nil(), event_id });
    EventKind::Signal(Signal { name: "s".to_owned(), input: None, identity: None, origin, traceparent: None })
}

#[test]
fn effects_with_two_or_foreign_outcomes_are_caught() {
    sound(&decided([(0, told_to("o")), (0, delivered_to("o", 5)), (0, waits())]));
    let twice = [(0, told_to("o")), (0, delivered_to("o", 5)), (0, waits()), (0, delivered_to("o", 5))];
    breaks(Rule::EffectOnce, 8, &decided(twice));
    breaks(Rule::Link, 6, &decided([(0, told_to("o")), (0, delivered_to("p", 5))]));
    breaks(Rule::Link, 6, &decided([(0, told_to("o")), (0, delivered_to("o", 4))]));
    breaks(Rule::Link, 6, &decided([(0, told_to("o")), (0, not_canceled("o", Some(5)))]));
    sound(&decided([(0, not_canceled("o", None)), (0, waits())]));
    breaks(Rule::DecisionsTogether, 7, &decided([(0, signal()), (0, waits()), (0, not_canceled("o", None))]));
}

fn child(workflow_id: &str) -> EventKind {
    EventKind::ChildScheduled(Box::new(ChildScheduled {
        workflow_id: workflow_id.to_owned(),
        workflow_type: "t".to_owned(),
        task_list: "l".to_owned(),
        input: None,
        execution_timeout: SECOND,
        decider_start_to_close: SECOND,
        decider_schedule_to_start: None,
        activity_timeouts: ActivityTimeouts::default(),
        tags: Vec::new(),
        retention: SECOND,
        reuse_policy: ReusePolicy::AllowDuplicate,
        child_policy: ChildPolicy::Terminate,
        decision_event_id: 4,
        run_timeout: None,
        retry: None,
        control: None,
        swf: None,
        concurrency_key: None,
    }))
}

fn born(workflow_id: &str, scheduled_event_id: EventId) -> EventKind {
    let workflow_id = workflow_id.to_owned();
    EventKind::ChildStarted(ChildStarted { workflow_id, run_id: Uuid::nil(), scheduled_event_id })
}

fn unborn(workflow_id: &str, scheduled_event_id: EventId) -> EventKind {
    EventKind::ChildScheduleFailed(ChildScheduleFailed {
        workflow_id: workflow_id.to_owned(),
        cause: ChildScheduleFailedCause::WorkflowAlreadyOpen,
        scheduled_event_id: Some(scheduled_event_id),
        decision_event_id: 4,
        workflow_type: None,
        control: None,
    })
}

fn grown(workflow_id: &str, scheduled_event_id: EventId, started_event_id: EventId) -> EventKind {
    let workflow_id = workflow_id.to_owned();
    let run_id = Uuid::nil();
    let success = ChildSuccess { workflow_id, run_id, scheduled_event_id, started_event_id, result: None };
    EventKind::ChildSuccess(success)
}

#[test]
fn children_started_twice_or_closed_unstarted_are_caught() {
    sound(&decided([(0, child("c")), (0, born("c", 5)), (0, grown("c", 5, 6)), (0, waits())]));
    sound(&decided([(0, child("c")), (0, unborn("c", 5)), (0, waits())]));
    breaks(Rule::ChildLife, 7, &decided([(0, child("c")), (0, born("c", 5)), (0, born("c", 5))]));
    breaks(Rule::ChildLife, 7, &decided([(0, child("c")), (0, born("c", 5)), (0, unborn("c", 5))]));
    breaks(Rule::ChildLife, 6, &decided([(0, child("c")), (0, grown("c", 5, 5))]));
    let twice = [(0, child("c")), (0, born("c", 5)), (0, grown("c", 5, 6)), (0, waits()), (0, grown("c", 5, 6))];
    breaks(Rule::ChildLife, 9, &decided(twice));
    breaks(Rule::Link, 7, &decided([(0, child("c")), (0, born("c", 5)), (0, grown("c", 5, 5))]));
    breaks(Rule::Link, 6, &decided([(0, child("c")), (0, born("d", 5))]));
    breaks(Rule::Link, 6, &decided([(0, child("c")), (0, born("c", 4))]));
    breaks(Rule::IdInUse, 6, &decided([(0, child("c")), (0, child("c"))]));
}

#[test]
fn effects_of_others_recorded_twice_are_caught() {
    sound(&decided([(0, came_from(7)), (0, waits()), (0, came_from(8))]));
    breaks(Rule::OriginOnce, 7, &decided([(0, came_from(7)), (0, waits()), (0, came_from(7))]));
}

#[test]
fn decisions_separated_from_their_turn_are_caught() {
    breaks(Rule::DecisionsTogether, 3, &at_once([begun(), waits(), marker(2)]));
    breaks(Rule::DecisionsTogether, 5, &decided([(0, marker(3))]));
    breaks(Rule::DecisionsTogether, 7, &decided([(0, signal()), (0, waits()), (0, marker(4))]));
    breaks(Rule::DecisionsTogether, 7, &decided([(0, close_failed(4)), (0, waits()), (0, success(4))]));
    breaks(Rule::DecisionsTogether, 7, &decided([(0, activity("a", 4)), (0, taken(5)), (0, marker(4))]));
    // If no runner holds the activity, its cancellation directly follows the request to stop.
    let late = [(0, activity("a", 4)), (0, to_cancel("a", 5, 4)), (0, marker(4)), (0, canceled(5, None, 6))];
    breaks(Rule::DecisionsTogether, 8, &decided(late));
}

fn accepted(update_id: &str, decision_event_id: EventId) -> EventKind {
    let (update_id, name) = (update_id.to_owned(), "n".to_owned());
    EventKind::UpdateAccepted(UpdateAccepted { update_id, name, input: None, identity: None, decision_event_id })
}

fn answered(update_id: &str, accepted_event_id: EventId, decision_event_id: EventId) -> EventKind {
    let update_id = update_id.to_owned();
    EventKind::UpdateCompleted(UpdateCompleted { update_id, accepted_event_id, result: None, decision_event_id })
}

fn not_done(update_id: &str, accepted_event_id: EventId, decision_event_id: EventId) -> EventKind {
    let (update_id, reason) = (update_id.to_owned(), "r".to_owned());
    EventKind::UpdateFailed(UpdateFailed { update_id, accepted_event_id, reason, details: None, decision_event_id })
}

/// Returns a history with a complete turn (events 5 to 7) that no event needed, as if it was recorded only for an
/// update, followed by `rest`.
fn for_an_update<const N: usize>(rest: [EventKind; N]) -> Vec<Event> {
    let turn = [waits(), starts(5), completes(5, 6)];
    let mut events = decided([]);
    for (id, kind) in (5..).zip(turn.into_iter().chain(rest)) {
        events.push(Event { id, timestamp: Timestamp::from_millis(0), kind, key: None, by: None, clock: None });
    }
    events
}

#[test]
fn a_turn_for_an_update_must_be_recorded_completely() {
    sound(&for_an_update([accepted("u", 7), answered("u", 8, 7)]));
    sound(&for_an_update([accepted("u", 7)]));
    sound(&for_an_update([marker(7)]));
    sound(&for_an_update([accepted("u", 7), answered("u", 8, 7), accepted("u", 7), signal(), waits()]));
    breaks(Rule::TurnHasCause, 5, &decided([(0, waits())]));
    breaks(Rule::TurnHasCause, 5, &decided([(0, waits()), (0, signal()), (0, waits())]));
    breaks(Rule::TurnHasCause, 6, &decided([(0, waits()), (0, starts(5))]));
    breaks(Rule::TurnHasCause, 6, &decided([(0, waits()), (0, starts(5)), (0, fails(5, 6)), (0, waits())]));
    breaks(Rule::TurnHasCause, 6, &decided([(0, waits()), (0, starts(5)), (0, signal()), (0, waits())]));
    breaks(Rule::TurnHasCause, 7, &for_an_update([]));
    breaks(Rule::TurnHasCause, 7, &for_an_update([signal(), waits()]));
    breaks(Rule::TurnHasCause, 7, &for_an_update([waits()]));
}

#[test]
fn updates_answered_twice_or_not_accepted_are_caught() {
    let later =
        |kind| [(0, accepted("u", 4)), (0, signal()), (0, waits()), (0, starts(7)), (0, completes(7, 8)), (0, kind)];
    sound(&decided(later(answered("u", 5, 9))));
    sound(&decided(later(not_done("u", 5, 9))));
    breaks(Rule::Link, 10, &decided(later(answered("v", 5, 9))));
    breaks(Rule::Link, 10, &decided(later(not_done("u", 4, 9))));
    breaks(Rule::UpdateLife, 10, &decided(later(accepted("u", 9))));
    breaks(Rule::DecisionsTogether, 10, &decided(later(answered("u", 5, 4))));
    breaks(Rule::UpdateLife, 7, &decided([(0, accepted("u", 4)), (0, answered("u", 5, 4)), (0, answered("u", 5, 4))]));
    breaks(Rule::UpdateLife, 7, &decided([(0, accepted("u", 4)), (0, not_done("u", 5, 4)), (0, answered("u", 5, 4))]));
    sound(&decided([(0, accepted("u", 4)), (0, not_done("u", 5, 4))]));
    breaks(Rule::DecisionsTogether, 6, &decided([(0, accepted("u", 4)), (0, answered("u", 5, 3))]));
}

#[test]
fn deadlines_applied_early_are_caught() {
    breaks(Rule::NotBeforeTime, 3, &numbered([(0, begun()), (0, waits()), (999, ran_out())]));
    breaks(Rule::NotBeforeTime, 3, &numbered([(0, begun()), (0, waits()), (59, times_out(2, None))]));
    breaks(
        Rule::NotBeforeTime,
        4,
        &numbered([(0, begun()), (0, waits()), (9, starts(2)), (38, times_out(2, Some(3)))]),
    );
    breaks(Rule::NotBeforeTime, 6, &decided([(0, timer("t", 5, 4)), (4, expires("t", 5))]));
    breaks(Rule::NotBeforeTime, 6, &decided([(0, activity("a", 4)), (9, never_taken(5))]));
    for (timeout, seconds) in
        [(ActivityTimeout::StartToClose, 28), (ActivityTimeout::ScheduleToClose, 39), (ActivityTimeout::Heartbeat, 999)]
    {
        let early = [(0, activity("a", 4)), (9, taken(5)), (seconds, too_slow(5, Some(6), timeout))];
        breaks(Rule::NotBeforeTime, 7, &decided(early));
    }
    let held = held_until(Some(Timestamp::from_millis(5_000)));
    breaks(
        Rule::NotBeforeTime,
        6,
        &numbered([(0, begun()), (0, waits()), (0, starts(2)), (0, fails(2, 3)), (0, held), (4, starts(5))]),
    );
}

#[test]
fn a_delayed_first_turn_taken_early_is_caught() {
    let EventKind::WorkflowStarted(started) = begun() else { unreachable!() };
    let late =
        EventKind::WorkflowStarted(Box::new(WorkflowStarted { start_after: Some(Duration::from_secs(5)), ..*started }));
    let held = |seconds: u64| held_until(Some(Timestamp::from_millis(seconds * 1_000)));
    sound(&numbered([(0, late.clone()), (0, held(5)), (5, starts(2))]));
    sound(&numbered([(0, late.clone()), (0, held(5)), (1_005, ran_out())]));
    breaks(Rule::NotBeforeTime, 2, &numbered([(0, late.clone()), (0, waits()), (5, starts(2))]));
    breaks(Rule::NotBeforeTime, 2, &numbered([(0, late.clone()), (0, held(4)), (5, starts(2))]));
    breaks(Rule::NotBeforeTime, 3, &numbered([(0, late.clone()), (0, held(5)), (4, starts(2))]));
    breaks(Rule::NotBeforeTime, 3, &numbered([(0, late), (0, held(5)), (1_004, ran_out())]));
}

#[test]
fn a_wrong_window_is_caught() {
    let events = at_once([
        begun(),
        waits(),
        starts(2),
        completes(2, 3),
        marker(4),
        signal(),
        waits(),
        starts(7),
        signal(),
        waits(),
        fails(7, 8),
        starts(10),
    ]);
    sound(&events);
    let cut = |first: usize, last: usize| &events[first - 1..last];
    assert_eq!(window(&events, 0, 3, cut(1, 3)), Ok(()));
    assert_eq!(window(&events, 3, 8, cut(3, 8)), Ok(()));
    // The turn that started with event 8 was lost. The next turn therefore contains the events of the lost turn again.
    assert_eq!(window(&events, 3, 12, cut(3, 12)), Ok(()));
    for (previous, started, shown) in [
        (8, 12, cut(8, 12)),
        (0, 8, cut(1, 8)),
        (3, 8, cut(4, 8)),
        (3, 8, cut(3, 7)),
        (3, 8, cut(3, 9)),
        (3, 8, cut(2, 7)),
        (3, 7, cut(3, 7)),
        (3, 99, cut(3, 12)),
    ] {
        let violation = window(&events, previous, started, shown).expect_err("a violation");
        assert_eq!(violation.rule, Rule::Window, "{previous}–{started}");
    }
}
