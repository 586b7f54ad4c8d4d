//! Yesterday's bytes can still be read: one golden file per stored form.
//!
//! A new kind of event gets a sample here and new files (`BATON_GOLDEN=write cargo test -p baton-history`). A file that
//! exists is never written again: when its test fails, the code is wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::unnecessary_wraps, reason = "every field that takes a payload or a text is optional")]

use std::collections::{BTreeMap, BTreeSet};

use history::event::{
    ActivityCanceled, ActivityFailed, ActivityNotStartedCause, ActivityOptionsChanged, ActivityPaused,
    ActivityPausedCause, ActivityResumed, ActivityRetried, ActivityScheduleFailed, ActivityScheduleFailedCause,
    ActivityScheduled, ActivityScheduledTimeout, ActivityStarted, ActivitySuccess, ActivityTaskCancel,
    ActivityTaskCancelFailed, ActivityTaskCancelFailedCause, ActivityTimedOut, ActivityTimedOutCause, ActivityTimeout,
    ActivityTimeouts, ByHand, ChildCanceled, ChildFailed, ChildPolicy, ChildScheduleFailed, ChildScheduleFailedCause,
    ChildScheduled, ChildStarted, ChildSuccess, ChildTerminated, ChildTimedOut, CloseDecision, CloseFailedCause,
    DeciderCompleted, DeciderFailed, DeciderFailedCause, DeciderScheduled, DeciderStarted, DeciderTimedOut,
    DeciderTimeout, ExternalCancelDelivered, ExternalCancelFailed, ExternalCancelScheduled, ExternalFailedCause,
    ExternalSignalDelivered, ExternalSignalFailed, ExternalSignalScheduled, LaterSignals, Marker, MarkerFailed,
    MarkerFailedCause, ResetPlan, Signal, TerminatedCause, TimerCancelFailed, TimerCancelFailedCause, TimerCanceled,
    TimerExpired, TimerScheduleFailed, TimerScheduleFailedCause, TimerScheduled, TurnList, UpdateAccepted,
    UpdateCompleted, UpdateFailed, WorkflowCancelRequested, WorkflowCanceled, WorkflowCloseFailed,
    WorkflowContinuedAsNew, WorkflowFailed, WorkflowPaused, WorkflowReset, WorkflowResumed, WorkflowStarted,
    WorkflowSuccess, WorkflowTerminated, WorkflowTimedOut, WorkflowTimeout,
};
use history::{
    Branched, CallerName, CancelExternal, Command, Duration, Event, EventKind, Factor, HeldTry, LastFailure, Links,
    LostTurns, OpenCounts, Origin, PackRef, PausedActivity, Payload, PendingActivity, PendingChild, PendingExternal,
    PendingTimer, PollId, Released, RequestKey, RetryPolicy, ReusePolicy, Run, Scheduled, SignalExternal, Start,
    Status, SwfLimits, SwfRun, SwfSuccessor, Timestamp, Transition, Tries, Turn, TurnId, TurnLists, TurnTask,
    WhenExhausted, codec,
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

fn activity_started(identity: Option<String>) -> ActivityStarted {
    ActivityStarted { scheduled_event_id: 5, identity, attempt: None, started_at: None, last_failure: None, kept: None }
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
    }
}

fn scheduled() -> Scheduled {
    let nominal_time = Timestamp::from_millis(1_700_000_000_000);
    Scheduled { schedule_id: "nightly".to_owned(), action: 365, nominal_time }
}

fn timed_out(timeout: WorkflowTimeout) -> WorkflowTimedOut {
    WorkflowTimedOut { timeout, new_run_id: None, next_try_at: None }
}

fn swf() -> SwfRun {
    SwfRun { child_policy: ChildPolicy::RequestCancel, task_priority: Some(3), lambda_role: text("role"), limits: None }
}

/// One of each kind, with every attribute.
fn full() -> Vec<EventKind> {
    vec![
        EventKind::WorkflowStarted(Box::new(started())),
        EventKind::WorkflowSuccess(WorkflowSuccess { result: payload(), decision_event_id: 4 }),
        EventKind::WorkflowFailed(WorkflowFailed {
            reason: "no stock".to_owned(),
            details: payload(),
            decision_event_id: 4,
            new_run_id: None,
            next_try_at: None,
        }),
        EventKind::WorkflowCanceled(WorkflowCanceled { details: payload(), decision_event_id: 4 }),
        EventKind::WorkflowContinuedAsNew(WorkflowContinuedAsNew {
            new_run_id: Uuid::from_u128(8),
            input: payload(),
            workflow_type: "order".to_owned(),
            task_list: "orders".to_owned(),
            tags: vec!["eu".to_owned()],
            decision_event_id: 4,
            swf: None,
        }),
        EventKind::WorkflowTimedOut(timed_out(WorkflowTimeout::Execution)),
        EventKind::WorkflowTerminated(WorkflowTerminated {
            cause: None,
            reset: None,
            reason: text("cleanup"),
            details: payload(),
            identity: text("ann"),
            origin: None,
            child_policy: None,
        }),
        EventKind::WorkflowCloseFailed(WorkflowCloseFailed {
            decision: CloseDecision::FailWorkflow,
            cause: CloseFailedCause::UnhandledEvents,
            decision_event_id: 300,
        }),
        EventKind::WorkflowCancelRequested(WorkflowCancelRequested {
            reason: text("changed my mind"),
            identity: text("ann"),
            origin: None,
        }),
        EventKind::DeciderScheduled(DeciderScheduled {
            task_list: "orders".to_owned(),
            start_to_close: Duration::from_secs(30),
            schedule_to_start: Some(Duration::from_secs(3_600)),
            attempt: 3,
            not_before: Some(Timestamp::from_millis(1_700_000_004_000)),
            task_priority: None,
        }),
        EventKind::DeciderStarted(DeciderStarted { scheduled_event_id: 2, identity: text("decider-1") }),
        EventKind::DeciderCompleted(DeciderCompleted {
            scheduled_event_id: 2,
            started_event_id: 3,
            context: payload(),
            awaiting: Vec::new(),
            moves_to: None,
        }),
        EventKind::DeciderTimedOut(DeciderTimedOut {
            scheduled_event_id: 2,
            started_event_id: Some(3),
            timeout: DeciderTimeout::StartToClose,
        }),
        EventKind::DeciderFailed(DeciderFailed {
            scheduled_event_id: 2,
            started_event_id: 3,
            cause: DeciderFailedCause::DeliveryFailed,
            reason: text("panicked"),
            details: payload(),
            next_not_before: None,
        }),
        EventKind::ActivityScheduled(Box::new(ActivityScheduled {
            activity_id: "charge".to_owned(),
            activity_type: "ChargeCard".to_owned(),
            task_list: "PCI".to_owned(),
            input: payload(),
            timeouts: timeouts(),
            decision_event_id: 4,
            retry: None,
            control: None,
            task_priority: None,
        })),
        EventKind::ActivityScheduleFailed(ActivityScheduleFailed {
            activity_id: "charge".to_owned(),
            activity_type: "ChargeCard".to_owned(),
            cause: ActivityScheduleFailedCause::OpenActivitiesLimit,
            decision_event_id: 4,
        }),
        EventKind::ActivityStarted(activity_started(text("runner-1"))),
        EventKind::ActivitySuccess(ActivitySuccess {
            scheduled_event_id: 5,
            started_event_id: 6,
            result: payload(),
            by_hand: None,
        }),
        EventKind::ActivityFailed(ActivityFailed {
            scheduled_event_id: 5,
            started_event_id: 6,
            reason: "declined".to_owned(),
            details: payload(),
            non_retryable: true,
            by_hand: None,
        }),
        EventKind::ActivityCanceled(ActivityCanceled {
            scheduled_event_id: 5,
            started_event_id: Some(6),
            cancel_event_id: 11,
            details: payload(),
        }),
        EventKind::ActivityTimedOut(ActivityTimedOut {
            scheduled_event_id: 5,
            started_event_id: Some(6),
            timeout: ActivityTimeout::Heartbeat,
            details: payload(),
            cause: Some(ActivityTimedOutCause::DeliveryFailed),
            last_failure: None,
        }),
        EventKind::ActivityScheduledTimeout(ActivityScheduledTimeout {
            scheduled_event_id: 5,
            last_failure: None,
            cause: None,
        }),
        EventKind::ActivityTaskCancel(ActivityTaskCancel {
            activity_id: "charge".to_owned(),
            scheduled_event_id: 5,
            decision_event_id: 10,
        }),
        EventKind::ActivityTaskCancelFailed(ActivityTaskCancelFailed {
            activity_id: "charge".to_owned(),
            cause: ActivityTaskCancelFailedCause::ActivityIdUnknown,
            decision_event_id: 10,
        }),
        EventKind::TimerScheduled(TimerScheduled {
            timer_id: "patience".to_owned(),
            after: Duration::from_days(30),
            decision_event_id: 4,
            control: None,
        }),
        EventKind::TimerScheduleFailed(TimerScheduleFailed {
            timer_id: "patience".to_owned(),
            cause: TimerScheduleFailedCause::OpenTimersLimit,
            decision_event_id: 4,
        }),
        EventKind::TimerExpired(TimerExpired { timer_id: "patience".to_owned(), scheduled_event_id: 7 }),
        EventKind::TimerCanceled(TimerCanceled {
            timer_id: "patience".to_owned(),
            scheduled_event_id: 7,
            decision_event_id: 10,
        }),
        EventKind::TimerCancelFailed(TimerCancelFailed {
            timer_id: "patience".to_owned(),
            cause: TimerCancelFailedCause::TimerIdUnknown,
            decision_event_id: 10,
        }),
        EventKind::Signal(Signal { name: "approve".to_owned(), input: payload(), identity: text("ann"), origin: None }),
        EventKind::Marker(Marker { name: "note".to_owned(), details: payload(), decision_event_id: 4 }),
        EventKind::MarkerFailed(MarkerFailed {
            name: "baton.note".to_owned(),
            cause: MarkerFailedCause::NameReserved,
            decision_event_id: 4,
        }),
        EventKind::ChildScheduled(Box::new(child())),
        EventKind::ChildScheduleFailed(ChildScheduleFailed {
            workflow_id: "order-43".to_owned(),
            cause: ChildScheduleFailedCause::WorkflowIdReuseRefused,
            scheduled_event_id: Some(5),
            decision_event_id: 4,
            workflow_type: None,
            control: None,
        }),
        EventKind::ChildStarted(ChildStarted {
            workflow_id: "order-43".to_owned(),
            run_id: other_run(),
            scheduled_event_id: 5,
        }),
        EventKind::ChildSuccess(ChildSuccess {
            workflow_id: "order-43".to_owned(),
            run_id: other_run(),
            scheduled_event_id: 5,
            started_event_id: 8,
            result: payload(),
        }),
        EventKind::ChildFailed(ChildFailed {
            workflow_id: "order-43".to_owned(),
            run_id: other_run(),
            scheduled_event_id: 5,
            started_event_id: 8,
            reason: "no stock".to_owned(),
            details: payload(),
        }),
        EventKind::ChildTimedOut(ChildTimedOut {
            workflow_id: "order-43".to_owned(),
            run_id: other_run(),
            scheduled_event_id: 5,
            started_event_id: 8,
            timeout: WorkflowTimeout::Execution,
        }),
        EventKind::ChildCanceled(ChildCanceled {
            workflow_id: "order-43".to_owned(),
            run_id: other_run(),
            scheduled_event_id: 5,
            started_event_id: 8,
            details: payload(),
        }),
        EventKind::ChildTerminated(ChildTerminated {
            workflow_id: "order-43".to_owned(),
            run_id: other_run(),
            scheduled_event_id: 5,
            started_event_id: 8,
            reason: text("cleanup"),
        }),
        EventKind::ExternalSignalScheduled(ExternalSignalScheduled {
            workflow_id: "order-43".to_owned(),
            run_id: Some(other_run().into()),
            name: "approve".to_owned(),
            input: payload(),
            decision_event_id: 4,
            control: None,
        }),
        EventKind::ExternalSignalDelivered(ExternalSignalDelivered {
            workflow_id: "order-43".to_owned(),
            run_id: other_run(),
            scheduled_event_id: 5,
        }),
        EventKind::ExternalSignalFailed(ExternalSignalFailed {
            workflow_id: "order-43".to_owned(),
            cause: ExternalFailedCause::WorkflowUnknown,
            scheduled_event_id: Some(5),
            decision_event_id: 4,
            run_id: None,
            control: None,
        }),
        EventKind::ExternalCancelScheduled(ExternalCancelScheduled {
            workflow_id: "order-43".to_owned(),
            run_id: Some(other_run().into()),
            reason: text("changed my mind"),
            decision_event_id: 4,
            control: None,
        }),
        EventKind::ExternalCancelDelivered(ExternalCancelDelivered {
            workflow_id: "order-43".to_owned(),
            run_id: other_run(),
            scheduled_event_id: 5,
        }),
        EventKind::ExternalCancelFailed(ExternalCancelFailed {
            workflow_id: "order-43".to_owned(),
            cause: ExternalFailedCause::WorkflowClosed,
            scheduled_event_id: Some(5),
            decision_event_id: 4,
            run_id: None,
            control: None,
        }),
        EventKind::UpdateAccepted(UpdateAccepted {
            update_id: "match-7".to_owned(),
            name: "match".to_owned(),
            input: payload(),
            identity: text("ann"),
            decision_event_id: 4,
        }),
        EventKind::UpdateCompleted(UpdateCompleted {
            update_id: "match-7".to_owned(),
            accepted_event_id: 5,
            result: payload(),
            decision_event_id: 4,
        }),
        EventKind::UpdateFailed(UpdateFailed {
            update_id: "match-7".to_owned(),
            accepted_event_id: 5,
            reason: "no stock".to_owned(),
            details: payload(),
            decision_event_id: 10,
        }),
        EventKind::ActivityPaused(ActivityPaused {
            scheduled_event_id: 5,
            cause: ActivityPausedCause::TriesExhausted,
            identity: text("ann"),
            reason: text("let me look"),
            last_failure: Some(last_failure()),
        }),
        EventKind::ActivityResumed(ActivityResumed {
            scheduled_event_id: 5,
            identity: text("ann"),
            reason: text("the bank is back"),
        }),
        EventKind::ActivityRetried(ActivityRetried {
            scheduled_event_id: 5,
            identity: text("ann"),
            reason: text("the bank is back"),
        }),
        EventKind::ActivityOptionsChanged(Box::new(ActivityOptionsChanged {
            scheduled_event_id: 5,
            task_list: "GPU".to_owned(),
            timeouts: timeouts(),
            retry: Some(retry()),
            identity: text("ann"),
            reason: text("slow today"),
        })),
        EventKind::WorkflowPaused(WorkflowPaused {
            stop_clocks: true,
            identity: text("ann"),
            reason: text("the bank is down"),
        }),
        EventKind::WorkflowResumed(WorkflowResumed { identity: text("ann"), reason: text("the bank is back") }),
        EventKind::WorkflowReset(WorkflowReset {
            run_id: Uuid::from_u128(7),
            event_id: 41,
            workflow_id: text("order-41"),
            signals: LaterSignals::Drop,
            identity: text("ann"),
            reason: text("the decider was wrong"),
        }),
    ]
}

fn reset_plan() -> ResetPlan {
    let (new_run_id, run_id) = (Uuid::from_u128(8), Uuid::from_u128(7));
    ResetPlan { new_run_id, run_id, event_id: 41, signals: LaterSignals::Reapply }
}

fn by_hand() -> Option<ByHand> {
    Some(ByHand { identity: text("ann"), reason: text("the bank called") })
}

fn child() -> ChildScheduled {
    ChildScheduled {
        workflow_id: "order-43".to_owned(),
        workflow_type: "order".to_owned(),
        task_list: "orders".to_owned(),
        input: payload(),
        execution_timeout: Duration::from_days(30),
        decider_start_to_close: Duration::from_secs(30),
        decider_schedule_to_start: Some(Duration::from_secs(3_600)),
        activity_timeouts: timeouts(),
        tags: vec!["eu".to_owned()],
        retention: Duration::from_days(7),
        reuse_policy: ReusePolicy::RejectDuplicate,
        child_policy: ChildPolicy::Abandon,
        decision_event_id: 4,
        run_timeout: None,
        retry: None,
        control: None,
        swf: None,
    }
}

fn other_run() -> Uuid {
    Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abd)
}

fn origin() -> Option<Origin> {
    Some(Origin { workflow_id: "order-43".to_owned(), run_id: other_run(), event_id: 77 })
}

/// Those of which something may be absent, with nothing that may be; and the values of enums that `full` has not.
fn bare() -> Vec<(&'static str, EventKind)> {
    vec![
        (
            "WorkflowStarted-swf",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted { swf: Some(swf()), ..started() })),
        ),
        (
            "WorkflowStarted-swf-limits",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted {
                swf: Some(SwfRun { limits: Some(SwfLimits::default()), ..swf() }),
                ..started()
            })),
        ),
        (
            "WorkflowTerminated-limit",
            EventKind::WorkflowTerminated(WorkflowTerminated {
                reset: None,
                reason: None,
                details: None,
                identity: None,
                origin: None,
                child_policy: None,
                cause: Some(TerminatedCause::EventLimit),
            }),
        ),
        (
            "ChildScheduleFailed-full",
            EventKind::ChildScheduleFailed(ChildScheduleFailed {
                workflow_id: "order-43".to_owned(),
                cause: ChildScheduleFailedCause::OpenRunsLimit,
                scheduled_event_id: None,
                decision_event_id: 4,
                workflow_type: text("order/1"),
                control: None,
            }),
        ),
        (
            "WorkflowContinuedAsNew-swf",
            EventKind::WorkflowContinuedAsNew(WorkflowContinuedAsNew {
                new_run_id: Uuid::from_u128(8),
                input: None,
                workflow_type: "order/1".to_owned(),
                task_list: "orders".to_owned(),
                tags: vec![],
                decision_event_id: 4,
                swf: Some(SwfSuccessor {
                    execution_timeout: Duration::from_secs(3_600),
                    decider_start_to_close: Duration::from_secs(60),
                    run: SwfRun {
                        child_policy: ChildPolicy::Abandon,
                        task_priority: None,
                        lambda_role: None,
                        limits: None,
                    },
                }),
            }),
        ),
        (
            "WorkflowTerminated-swf",
            EventKind::WorkflowTerminated(WorkflowTerminated {
                cause: None,
                reset: None,
                reason: None,
                details: None,
                identity: None,
                origin: None,
                child_policy: Some(ChildPolicy::RequestCancel),
            }),
        ),
        (
            "ActivityScheduled-swf",
            EventKind::ActivityScheduled(Box::new(ActivityScheduled {
                activity_id: "charge".to_owned(),
                activity_type: "Charge/1".to_owned(),
                task_list: "PCI".to_owned(),
                input: None,
                timeouts: ActivityTimeouts::default(),
                decision_event_id: 4,
                retry: None,
                control: text("note"),
                task_priority: Some(-7),
            })),
        ),
        (
            "TimerScheduled-swf",
            EventKind::TimerScheduled(TimerScheduled {
                timer_id: "t".to_owned(),
                after: Duration::ZERO,
                decision_event_id: 4,
                control: text(""),
            }),
        ),
        (
            "ChildScheduled-swf",
            EventKind::ChildScheduled(Box::new(ChildScheduled { control: text("note"), swf: Some(swf()), ..child() })),
        ),
        (
            "ExternalSignalScheduled-swf",
            EventKind::ExternalSignalScheduled(ExternalSignalScheduled {
                workflow_id: "w".to_owned(),
                run_id: None,
                name: "s".to_owned(),
                input: None,
                decision_event_id: 4,
                control: text("note"),
            }),
        ),
        (
            "ExternalCancelScheduled-swf",
            EventKind::ExternalCancelScheduled(ExternalCancelScheduled {
                workflow_id: "w".to_owned(),
                run_id: None,
                reason: None,
                decision_event_id: 4,
                control: text("note"),
            }),
        ),
        (
            "WorkflowStarted-bare",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted {
                input: None,
                decider_schedule_to_start: None,
                activity_timeouts: ActivityTimeouts::default(),
                tags: vec![],
                identity: None,
                ..started()
            })),
        ),
        (
            "WorkflowStarted-later",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted {
                start_after: Some(Duration::from_days(2)),
                ..started()
            })),
        ),
        (
            "WorkflowStarted-continued",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted {
                run_timeout: Some(Duration::from_days(1)),
                continued_from: Some(Uuid::from_u128(7)),
                execution_from: Some(Timestamp::from_millis(1_600_000_000_000)),
                ..started()
            })),
        ),
        ("WorkflowTimedOut-run", EventKind::WorkflowTimedOut(timed_out(WorkflowTimeout::Run))),
        (
            "WorkflowCloseFailed-continue",
            EventKind::WorkflowCloseFailed(WorkflowCloseFailed {
                decision: CloseDecision::ContinueAsNew,
                cause: CloseFailedCause::UnhandledEvents,
                decision_event_id: 4,
            }),
        ),
        (
            "WorkflowContinuedAsNew-bare",
            EventKind::WorkflowContinuedAsNew(WorkflowContinuedAsNew {
                new_run_id: Uuid::from_u128(8),
                input: None,
                workflow_type: "order".to_owned(),
                task_list: "orders".to_owned(),
                tags: Vec::new(),
                decision_event_id: 4,
                swf: None,
            }),
        ),
        ("WorkflowSuccess-bare", EventKind::WorkflowSuccess(WorkflowSuccess { result: None, decision_event_id: 4 })),
        (
            "WorkflowFailed-bare",
            EventKind::WorkflowFailed(WorkflowFailed {
                reason: "r".to_owned(),
                details: None,
                decision_event_id: 4,
                new_run_id: None,
                next_try_at: None,
            }),
        ),
        (
            "WorkflowStarted-retried",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted {
                continued_from: Some(Uuid::from_u128(7)),
                execution_from: Some(Timestamp::from_millis(1_600_000_000_000)),
                retry: Some(retry()),
                attempt: Some(3),
                ..started()
            })),
        ),
        (
            "WorkflowStarted-scheduled",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted { schedule: Some(scheduled()), ..started() })),
        ),
        (
            "WorkflowFailed-retried",
            EventKind::WorkflowFailed(WorkflowFailed {
                reason: "r".to_owned(),
                details: None,
                decision_event_id: 4,
                new_run_id: Some(Uuid::from_u128(8)),
                next_try_at: Some(Timestamp::from_millis(1_700_000_000_000)),
            }),
        ),
        (
            "WorkflowTimedOut-retried",
            EventKind::WorkflowTimedOut(WorkflowTimedOut {
                timeout: WorkflowTimeout::Run,
                new_run_id: Some(Uuid::from_u128(8)),
                next_try_at: Some(Timestamp::from_millis(1_700_000_000_000)),
            }),
        ),
        (
            "ChildScheduled-retry",
            EventKind::ChildScheduled(Box::new(ChildScheduled {
                run_timeout: Some(Duration::from_secs(3_600)),
                retry: Some(retry()),
                ..child()
            })),
        ),
        (
            "WorkflowCanceled-bare",
            EventKind::WorkflowCanceled(WorkflowCanceled { details: None, decision_event_id: 4 }),
        ),
        (
            "WorkflowTerminated-bare",
            EventKind::WorkflowTerminated(WorkflowTerminated {
                cause: None,
                reset: None,
                reason: None,
                details: None,
                identity: None,
                origin: None,
                child_policy: None,
            }),
        ),
        (
            "WorkflowCloseFailed-succeed",
            EventKind::WorkflowCloseFailed(WorkflowCloseFailed {
                decision: CloseDecision::SucceedWorkflow,
                cause: CloseFailedCause::UnhandledEvents,
                decision_event_id: 4,
            }),
        ),
        (
            "WorkflowCloseFailed-cancel",
            EventKind::WorkflowCloseFailed(WorkflowCloseFailed {
                decision: CloseDecision::CancelWorkflow,
                cause: CloseFailedCause::UnhandledEvents,
                decision_event_id: 4,
            }),
        ),
        (
            "WorkflowCancelRequested-bare",
            EventKind::WorkflowCancelRequested(WorkflowCancelRequested { reason: None, identity: None, origin: None }),
        ),
        (
            "DeciderScheduled-bare",
            EventKind::DeciderScheduled(DeciderScheduled {
                task_list: "orders".to_owned(),
                start_to_close: Duration::from_secs(30),
                schedule_to_start: None,
                attempt: 1,
                not_before: None,
                task_priority: None,
            }),
        ),
        ("DeciderStarted-bare", EventKind::DeciderStarted(DeciderStarted { scheduled_event_id: 2, identity: None })),
        (
            "DeciderCompleted-bare",
            EventKind::DeciderCompleted(DeciderCompleted {
                scheduled_event_id: 2,
                started_event_id: 3,
                context: None,
                awaiting: Vec::new(),
                moves_to: None,
            }),
        ),
        (
            "DeciderCompleted-awaiting",
            EventKind::DeciderCompleted(DeciderCompleted {
                scheduled_event_id: 2,
                started_event_id: 3,
                context: None,
                awaiting: vec!["approve".to_owned(), "baton.cancel".to_owned()],
                moves_to: None,
            }),
        ),
        (
            "DeciderTimedOut-bare",
            EventKind::DeciderTimedOut(DeciderTimedOut {
                scheduled_event_id: 2,
                started_event_id: None,
                timeout: DeciderTimeout::ScheduleToStart,
            }),
        ),
        (
            "DeciderFailed-bare",
            EventKind::DeciderFailed(DeciderFailed {
                scheduled_event_id: 2,
                started_event_id: 3,
                cause: DeciderFailedCause::Reported,
                reason: None,
                details: None,
                next_not_before: None,
            }),
        ),
        (
            "ActivityScheduled-bare",
            EventKind::ActivityScheduled(Box::new(ActivityScheduled {
                activity_id: "a".to_owned(),
                activity_type: "A".to_owned(),
                task_list: "l".to_owned(),
                input: None,
                timeouts: ActivityTimeouts::default(),
                decision_event_id: 4,
                retry: None,
                control: None,
                task_priority: None,
            })),
        ),
        (
            "ActivityScheduled-retry",
            EventKind::ActivityScheduled(Box::new(ActivityScheduled {
                activity_id: "a".to_owned(),
                activity_type: "A".to_owned(),
                task_list: "l".to_owned(),
                input: None,
                timeouts: ActivityTimeouts::default(),
                decision_event_id: 4,
                retry: Some(retry()),
                control: None,
                task_priority: None,
            })),
        ),
        (
            "ActivityScheduled-retry-bare",
            EventKind::ActivityScheduled(Box::new(ActivityScheduled {
                activity_id: "a".to_owned(),
                activity_type: "A".to_owned(),
                task_list: "l".to_owned(),
                input: None,
                timeouts: ActivityTimeouts::default(),
                decision_event_id: 4,
                retry: Some(RetryPolicy::default()),
                control: None,
                task_priority: None,
            })),
        ),
        (
            "ActivityScheduleFailed-in-use",
            EventKind::ActivityScheduleFailed(ActivityScheduleFailed {
                activity_id: "a".to_owned(),
                activity_type: "A".to_owned(),
                cause: ActivityScheduleFailedCause::ActivityIdAlreadyInUse,
                decision_event_id: 4,
            }),
        ),
        ("ActivityStarted-bare", EventKind::ActivityStarted(activity_started(None))),
        (
            "ActivityStarted-retried",
            EventKind::ActivityStarted(ActivityStarted {
                attempt: Some(3),
                started_at: Some(Timestamp::from_millis(1_700_000_000_001)),
                last_failure: Some(last_failure()),
                ..activity_started(text("runner-1"))
            }),
        ),
        (
            "ActivityTimedOut-retried",
            EventKind::ActivityTimedOut(ActivityTimedOut {
                scheduled_event_id: 5,
                started_event_id: None,
                timeout: ActivityTimeout::ScheduleToClose,
                details: None,
                cause: None,
                last_failure: Some(LastFailure {
                    at: Timestamp::from_millis(1_700_000_000_000),
                    reason: None,
                    timeout: Some(ActivityTimeout::Heartbeat),
                    details: None,
                    identity: None,
                    kept: None,
                }),
            }),
        ),
        (
            "ActivityScheduledTimeout-retried",
            EventKind::ActivityScheduledTimeout(ActivityScheduledTimeout {
                scheduled_event_id: 5,
                last_failure: Some(last_failure()),
                cause: None,
            }),
        ),
        (
            "DeciderCompleted-moves",
            EventKind::DeciderCompleted(DeciderCompleted {
                scheduled_event_id: 2,
                started_event_id: 3,
                context: None,
                awaiting: vec![],
                moves_to: Some(TurnList {
                    task_list: "others".to_owned(),
                    schedule_to_start: Some(Duration::from_secs(5)),
                }),
            }),
        ),
        (
            "DeciderScheduled-priority",
            EventKind::DeciderScheduled(DeciderScheduled {
                task_list: "deciders".to_owned(),
                start_to_close: Duration::from_secs(60),
                schedule_to_start: None,
                attempt: 1,
                not_before: None,
                task_priority: Some(-5),
            }),
        ),
        (
            "WorkflowStarted-priority",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted { task_priority: Some(5), ..started() })),
        ),
        (
            "ActivityScheduledTimeout-role",
            EventKind::ActivityScheduledTimeout(ActivityScheduledTimeout {
                scheduled_event_id: 5,
                last_failure: None,
                cause: Some(ActivityNotStartedCause::LambdaRoleUndefined),
            }),
        ),
        (
            "ActivityScheduleFailed-lambda",
            EventKind::ActivityScheduleFailed(ActivityScheduleFailed {
                activity_id: "lambda:1".to_owned(),
                activity_type: "resize".to_owned(),
                cause: ActivityScheduleFailedCause::LambdaUnavailable,
                decision_event_id: 4,
            }),
        ),
        (
            "ActivitySuccess-bare",
            EventKind::ActivitySuccess(ActivitySuccess {
                scheduled_event_id: 5,
                started_event_id: 6,
                result: None,
                by_hand: None,
            }),
        ),
        (
            "ActivitySuccess-by-hand",
            EventKind::ActivitySuccess(ActivitySuccess {
                scheduled_event_id: 5,
                started_event_id: 6,
                result: None,
                by_hand: by_hand(),
            }),
        ),
        (
            "ActivityFailed-by-hand",
            EventKind::ActivityFailed(ActivityFailed {
                scheduled_event_id: 5,
                started_event_id: 6,
                reason: "r".to_owned(),
                details: None,
                non_retryable: false,
                by_hand: by_hand(),
            }),
        ),
        (
            "WorkflowPaused-bare",
            EventKind::WorkflowPaused(WorkflowPaused { stop_clocks: false, identity: None, reason: None }),
        ),
        (
            "WorkflowReset-bare",
            EventKind::WorkflowReset(WorkflowReset {
                run_id: Uuid::from_u128(7),
                event_id: 41,
                workflow_id: None,
                signals: LaterSignals::Reapply,
                identity: None,
                reason: None,
            }),
        ),
        (
            "WorkflowTerminated-reset",
            EventKind::WorkflowTerminated(WorkflowTerminated {
                cause: None,
                reset: Some(reset_plan()),
                reason: None,
                details: None,
                identity: text("ann"),
                origin: None,
                child_policy: None,
            }),
        ),
        ("WorkflowResumed-bare", EventKind::WorkflowResumed(WorkflowResumed { identity: None, reason: None })),
        (
            "ActivityPaused-bare",
            EventKind::ActivityPaused(ActivityPaused {
                scheduled_event_id: 5,
                cause: ActivityPausedCause::ByHand,
                identity: None,
                reason: None,
                last_failure: None,
            }),
        ),
        (
            "ActivityOptionsChanged-pause",
            EventKind::ActivityOptionsChanged(Box::new(ActivityOptionsChanged {
                scheduled_event_id: 5,
                task_list: "GPU".to_owned(),
                timeouts: ActivityTimeouts::default(),
                retry: Some(RetryPolicy { when_exhausted: WhenExhausted::Pause, ..RetryPolicy::default() }),
                identity: None,
                reason: None,
            })),
        ),
        (
            "ActivityFailed-bare",
            EventKind::ActivityFailed(ActivityFailed {
                scheduled_event_id: 5,
                started_event_id: 6,
                reason: "r".to_owned(),
                details: None,
                non_retryable: false,
                by_hand: None,
            }),
        ),
        (
            "ActivityCanceled-bare",
            EventKind::ActivityCanceled(ActivityCanceled {
                scheduled_event_id: 5,
                started_event_id: None,
                cancel_event_id: 6,
                details: None,
            }),
        ),
        (
            "ActivityTimedOut-bare",
            EventKind::ActivityTimedOut(ActivityTimedOut {
                scheduled_event_id: 5,
                started_event_id: None,
                timeout: ActivityTimeout::ScheduleToClose,
                details: None,
                cause: None,
                last_failure: None,
            }),
        ),
        (
            "ActivityTimedOut-start-to-close",
            EventKind::ActivityTimedOut(ActivityTimedOut {
                scheduled_event_id: 5,
                started_event_id: Some(6),
                timeout: ActivityTimeout::StartToClose,
                details: None,
                cause: None,
                last_failure: None,
            }),
        ),
        (
            "TimerScheduleFailed-in-use",
            EventKind::TimerScheduleFailed(TimerScheduleFailed {
                timer_id: "t".to_owned(),
                cause: TimerScheduleFailedCause::TimerIdAlreadyInUse,
                decision_event_id: 4,
            }),
        ),
        ("Signal-bare", EventKind::Signal(Signal { name: "s".to_owned(), input: None, identity: None, origin: None })),
        (
            "Signal-null",
            EventKind::Signal(Signal {
                name: "s".to_owned(),
                input: Some(Payload::from_json("null").unwrap()),
                identity: None,
                origin: None,
            }),
        ),
        ("Marker-bare", EventKind::Marker(Marker { name: "m".to_owned(), details: None, decision_event_id: 4 })),
        (
            "ChildScheduled-bare",
            EventKind::ChildScheduled(Box::new(ChildScheduled {
                input: None,
                decider_schedule_to_start: None,
                activity_timeouts: ActivityTimeouts::default(),
                tags: vec![],
                reuse_policy: ReusePolicy::AllowDuplicateFailedOnly,
                child_policy: ChildPolicy::Terminate,
                ..child()
            })),
        ),
        (
            "ChildScheduled-policies",
            EventKind::ChildScheduled(Box::new(ChildScheduled {
                reuse_policy: ReusePolicy::AllowDuplicate,
                child_policy: ChildPolicy::RequestCancel,
                ..child()
            })),
        ),
        (
            "ChildScheduleFailed-open",
            EventKind::ChildScheduleFailed(ChildScheduleFailed {
                workflow_id: "w".to_owned(),
                cause: ChildScheduleFailedCause::WorkflowAlreadyOpen,
                scheduled_event_id: None,
                decision_event_id: 4,
                workflow_type: None,
                control: None,
            }),
        ),
        (
            "ChildScheduleFailed-limit",
            EventKind::ChildScheduleFailed(ChildScheduleFailed {
                workflow_id: "w".to_owned(),
                cause: ChildScheduleFailedCause::OpenChildrenLimit,
                scheduled_event_id: None,
                decision_event_id: 4,
                workflow_type: None,
                control: None,
            }),
        ),
        (
            "ChildScheduleFailed-not-tried",
            EventKind::ChildScheduleFailed(ChildScheduleFailed {
                workflow_id: "w".to_owned(),
                cause: ChildScheduleFailedCause::WorkflowTypeUnknown,
                scheduled_event_id: None,
                decision_event_id: 4,
                workflow_type: text("order/1"),
                control: text("note"),
            }),
        ),
        (
            "ChildSuccess-bare",
            EventKind::ChildSuccess(ChildSuccess {
                workflow_id: "order-43".to_owned(),
                run_id: other_run(),
                scheduled_event_id: 5,
                started_event_id: 8,
                result: None,
            }),
        ),
        (
            "ChildFailed-bare",
            EventKind::ChildFailed(ChildFailed {
                workflow_id: "order-43".to_owned(),
                run_id: other_run(),
                scheduled_event_id: 5,
                started_event_id: 8,
                reason: "r".to_owned(),
                details: None,
            }),
        ),
        (
            "ChildCanceled-bare",
            EventKind::ChildCanceled(ChildCanceled {
                workflow_id: "order-43".to_owned(),
                run_id: other_run(),
                scheduled_event_id: 5,
                started_event_id: 8,
                details: None,
            }),
        ),
        (
            "ChildTerminated-bare",
            EventKind::ChildTerminated(ChildTerminated {
                workflow_id: "order-43".to_owned(),
                run_id: other_run(),
                scheduled_event_id: 5,
                started_event_id: 8,
                reason: None,
            }),
        ),
        (
            "WorkflowStarted-child",
            EventKind::WorkflowStarted(Box::new(WorkflowStarted { parent: origin(), ..started() })),
        ),
        (
            "WorkflowTerminated-origin",
            EventKind::WorkflowTerminated(WorkflowTerminated {
                cause: None,
                reset: None,
                reason: None,
                details: None,
                identity: None,
                origin: origin(),
                child_policy: None,
            }),
        ),
        (
            "Signal-origin",
            EventKind::Signal(Signal { name: "s".to_owned(), input: None, identity: None, origin: origin() }),
        ),
        (
            "WorkflowCancelRequested-origin",
            EventKind::WorkflowCancelRequested(WorkflowCancelRequested {
                reason: None,
                identity: None,
                origin: origin(),
            }),
        ),
        (
            "ExternalSignalScheduled-text",
            EventKind::ExternalSignalScheduled(ExternalSignalScheduled {
                workflow_id: "w".to_owned(),
                run_id: Some("fake".to_owned().into()),
                name: "s".to_owned(),
                input: None,
                decision_event_id: 4,
                control: None,
            }),
        ),
        (
            "ExternalSignalFailed-named",
            EventKind::ExternalSignalFailed(ExternalSignalFailed {
                workflow_id: "w".to_owned(),
                cause: ExternalFailedCause::OpenExternalsLimit,
                scheduled_event_id: None,
                decision_event_id: 4,
                run_id: Some(other_run().into()),
                control: text("note"),
            }),
        ),
        (
            "ExternalCancelScheduled-text",
            EventKind::ExternalCancelScheduled(ExternalCancelScheduled {
                workflow_id: "w".to_owned(),
                run_id: Some(String::new().into()),
                reason: None,
                decision_event_id: 4,
                control: None,
            }),
        ),
        (
            "ExternalCancelFailed-named",
            EventKind::ExternalCancelFailed(ExternalCancelFailed {
                workflow_id: "w".to_owned(),
                cause: ExternalFailedCause::OpenExternalsLimit,
                scheduled_event_id: None,
                decision_event_id: 4,
                run_id: Some("fake".to_owned().into()),
                control: None,
            }),
        ),
        (
            "ExternalSignalScheduled-bare",
            EventKind::ExternalSignalScheduled(ExternalSignalScheduled {
                workflow_id: "w".to_owned(),
                run_id: None,
                name: "s".to_owned(),
                input: None,
                decision_event_id: 4,
                control: None,
            }),
        ),
        (
            "ExternalSignalFailed-limit",
            EventKind::ExternalSignalFailed(ExternalSignalFailed {
                workflow_id: "w".to_owned(),
                cause: ExternalFailedCause::OpenExternalsLimit,
                scheduled_event_id: None,
                decision_event_id: 4,
                run_id: None,
                control: None,
            }),
        ),
        (
            "ExternalCancelScheduled-bare",
            EventKind::ExternalCancelScheduled(ExternalCancelScheduled {
                workflow_id: "w".to_owned(),
                run_id: None,
                reason: None,
                decision_event_id: 4,
                control: None,
            }),
        ),
        (
            "ExternalCancelFailed-limit",
            EventKind::ExternalCancelFailed(ExternalCancelFailed {
                workflow_id: "w".to_owned(),
                cause: ExternalFailedCause::OpenExternalsLimit,
                scheduled_event_id: None,
                decision_event_id: 4,
                run_id: None,
                control: None,
            }),
        ),
        (
            "UpdateAccepted-bare",
            EventKind::UpdateAccepted(UpdateAccepted {
                update_id: "u".to_owned(),
                name: "n".to_owned(),
                input: None,
                identity: None,
                decision_event_id: 4,
            }),
        ),
        (
            "UpdateCompleted-bare",
            EventKind::UpdateCompleted(UpdateCompleted {
                update_id: "u".to_owned(),
                accepted_event_id: 5,
                result: None,
                decision_event_id: 4,
            }),
        ),
        (
            "UpdateFailed-bare",
            EventKind::UpdateFailed(UpdateFailed {
                update_id: "u".to_owned(),
                accepted_event_id: 5,
                reason: "r".to_owned(),
                details: None,
                decision_event_id: 10,
            }),
        ),
    ]
}

fn event(kind: EventKind) -> Event {
    Event { id: 300, timestamp: Timestamp::from_millis(1_700_000_000_042), kind, key: None, by: None }
}

fn samples() -> Vec<(String, Event)> {
    let full = full().into_iter().map(|kind| {
        let name = kind.name().to_owned();
        let key = Some(RequestKey(u64::MAX));
        (name, Event { key, ..event(kind) })
    });
    let bare = bare().into_iter().map(|(name, kind)| (name.to_owned(), event(kind)));
    let by = Some(CallerName::new("ops@corp").unwrap());
    let of_whom = ["Signal", "DeciderScheduled"].map(|name| {
        let kind = self::full().into_iter().find(|kind| kind.name() == name).unwrap();
        (format!("{name}-by"), Event { by: by.clone(), ..event(kind) })
    });
    full.chain(bare).chain(of_whom).collect()
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
    let found: BTreeSet<_> = full().iter().map(EventKind::name).collect();
    let expected: BTreeSet<_> = EventKind::NAMES.iter().copied().collect();
    assert_eq!(found, expected);
}

#[test]
fn no_kind_of_event_shows_a_payload_or_a_note_to_those_who_may_not_see_them() {
    let told = payload().unwrap();
    for (name, mut event) in samples() {
        let before = event.clone();
        event.kind.leave_payloads_out();
        let json = serde_json::to_string(&event).unwrap();
        assert!(!json.contains(told.text().unwrap()) && !json.contains("\"control\""), "{name}: {json}");
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
fn json_events_of_every_kind_can_still_be_read() {
    for (name, sample) in samples() {
        let current = serde_json::to_string(&sample).unwrap() + "\n";
        let text = String::from_utf8(golden(&format!("json/{name}.json"), current.as_bytes())).unwrap();
        assert_eq!(Event::from_json(&text).unwrap(), sample, "{name}");
        // The API adds fields, and renames and reorders none.
        assert_eq!(current, text, "{name}");
    }
}

#[test]
fn a_stored_claim_check_can_still_be_read() {
    let sample = event(EventKind::Signal(Signal {
        name: "s".to_owned(),
        input: Some(Payload::stored(PackRef { op: 70_000, offset: 3, len: 262_144 })),
        identity: None,
        origin: None,
    }));
    assert_eq!(read(&golden("cbor/Signal-claim.cbor", &cbor(&sample))), sample);
}

#[test]
fn attributes_that_a_later_version_adds_are_passed_over() {
    let text = r#"{"id":1,"timestamp":"2023-11-14T22:13:20.042Z","type":"Signal","name":"s","mood":{"a":1}}"#;
    assert_eq!(Event::from_json(text).unwrap().kind.name(), "Signal");
}

/// A run with everything in it.
fn run() -> Run {
    let mut run = Run::begin(Timestamp::from_millis(1_700_000_000_000), &started(), Some(RequestKey(1)));
    let (name, input, identity, origin) = ("go".to_owned(), None, None, None);
    let signal = event(EventKind::Signal(Signal { name, input, identity, origin }));
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
        tries: None,
        paused: None,
        released: None,
        task_priority: None,
    };
    let waiting = PendingActivity {
        activity_id: "ship".to_owned(),
        timeouts: ActivityTimeouts::default(),
        started_event_id: None,
        started_at: None,
        cancel_event_id: None,
        ..activity.clone()
    };
    run.activities = BTreeMap::from([(60_000, activity), (60_002, waiting)]).into();
    let expires_at = Timestamp::from_millis(1_702_592_000_000);
    run.timers.insert("patience".to_owned(), PendingTimer { scheduled_event_id: 60_003, expires_at });
    run.cancel_requested = true;
    run
}

/// A run with tries of activities in every state.
fn run_with_tries() -> Run {
    let mut run = run();
    let at = Timestamp::from_millis;
    let mut activities: BTreeMap<_, _> = (*run.activities).clone();
    let held = Some(HeldTry { at: at(1_700_000_200_000), identity: text("runner-1"), kept: None, by: None });
    let tries = [
        None,
        Some(Tries { starts: 1, held: held.clone(), ..Tries::default() }),
        Some(Tries {
            starts: 4,
            failures: 3,
            held,
            not_before: Some(at(1_700_000_300_000)),
            waits_since: Some(at(1_700_000_300_001)),
            last_failure: Some(last_failure()),
        }),
    ];
    for (id, tries) in (60_010..).zip(tries) {
        let activity = PendingActivity {
            activity_id: format!("retry-{id}"),
            started_event_id: None,
            started_at: None,
            retry: Some(retry()),
            tries: tries.map(Box::new),
            ..activities.get(&60_000).unwrap().clone()
        };
        activities.insert(id, activity);
    }
    run.activities = activities.into();
    run
}

/// A run with an update that waits for its answer, and one that has it.
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

/// A run that knows requests of runs before it, and others for which the store keeps marks.
fn run_with_requests() -> Run {
    let at = |hours: u64| Timestamp::from_millis(1_700_000_000_000 + hours * 3_600_000);
    let mut run = run();
    let (name, input, identity, origin) = ("go".to_owned(), None, None, None);
    let signal = event(EventKind::Signal(Signal { name, input, identity, origin }));
    for id in 70_001..70_100 {
        run.evolve(&Event { id, timestamp: at(30), key: Some(RequestKey(id)), ..signal.clone() });
    }
    assert_eq!(run.spill(70_100, at(31)).marks.len(), 51, "of a hundred, one is forgotten");
    let started = WorkflowStarted { run_id: Uuid::from_u128(8), ..started() };
    let mut transition = Transition::of(Run::begin(at(31), &started, Some(RequestKey(2))));
    transition.take_over(&run, Links::default(), at(1_000), at(31));
    transition.into_parts().0
}

/// A run that was paused with its clock standing still, and is again.
fn paused_run() -> Run {
    let mut run = run();
    let at = |millis| Timestamp::from_millis(1_700_000_900_000 + millis);
    let paused = || WorkflowPaused { stop_clocks: true, identity: text("ann"), reason: text("the bank is down") };
    let resumed = WorkflowResumed { identity: None, reason: None };
    let events =
        [EventKind::WorkflowPaused(paused()), EventKind::WorkflowResumed(resumed), EventKind::WorkflowPaused(paused())];
    for (id, kind) in (70_001..).zip(events) {
        run.evolve(&Event { id, timestamp: at(id), ..event(kind) });
    }
    run
}

/// A run with activities that somebody has paused or let go on.
fn run_with_activities_by_hand() -> Run {
    let mut run = run();
    let mut activities: BTreeMap<_, _> = (*run.activities).clone();
    let at = Timestamp::from_millis(1_700_000_300_000);
    let cause = ActivityPausedCause::TriesExhausted;
    for activity in activities.values_mut() {
        let by_hand = by_hand().unwrap();
        activity.paused = Some(Box::new(PausedActivity { event_id: 60_020, at, cause, by_hand }));
        activity.released = Some(Released { event_id: 60_010, at });
    }
    run.activities = activities.into();
    run
}

/// A run whose turns have moved to other lists, with an activity that has a priority.
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
        waiting.task_priority = Some(-5);
    }
    run.activities = activities.into();
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
        ("open-tries".to_owned(), run_with_tries()),
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
        ("open-by-hand".to_owned(), run_with_activities_by_hand()),
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
        // What a run does not use takes no byte of its state.
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
        Command::CompleteTurn { turn, decisions, context: None, awaiting: Vec::new() },
    ] {
        transition.admit(&command, now.plus(Duration::from_secs(40))).unwrap();
    }
    let sample = transition.links().clone();
    assert!(sample.outbox.ready().count() == 2 && sample.seen.iter().len() == 1);
    let current = minicbor::to_vec(&sample).unwrap();
    assert_eq!(minicbor::decode::<Links>(&golden("links/full.cbor", &current)).unwrap(), sample);
    transition.admit(&Command::SeeToEffects, now.plus(Duration::from_secs(40))).unwrap();
    let sample = transition.links().clone();
    let current = minicbor::to_vec(&sample).unwrap();
    assert_eq!(minicbor::decode::<Links>(&golden("links/second-round.cbor", &current)).unwrap(), sample);
    let sample = sample.handed_over(Uuid::from_u128(77));
    let current = minicbor::to_vec(&sample).unwrap();
    assert_eq!(minicbor::decode::<Links>(&golden("links/handed-over.cbor", &current)).unwrap(), sample);
    let mut transition = Transition::start(&Start::new("w", "t", "l"), Uuid::nil(), now).unwrap();
    let mut closed = transition.clone();
    closed.admit(&terminate(), now).unwrap();
    closed.plan_reset(reset_plan(), &by_hand().unwrap(), (Some(RequestKey(0xBA70)), None), now).unwrap();
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
fn bytes_that_are_no_run_or_event_are_refused() {
    let mut bytes = Vec::new();
    codec::put_run(&mut bytes, &run());
    for cut in 0..bytes.len() {
        assert!(matches!(codec::run(&bytes[..cut]), Err(codec::Error::Garbled { .. })), "{cut}");
    }
    bytes[0] = codec::FORMAT + 1;
    assert!(matches!(codec::run(&bytes), Err(codec::Error::Format { found: 2 })));

    let mut events = cbor(&event(full().swap_remove(0)));
    let whole = events.len();
    codec::put_event(&mut events, &event(full().swap_remove(1)));
    for cut in whole + 1..events.len() {
        let read: Vec<_> = codec::events(&events[..cut]).collect();
        assert!(read.len() == 2 && read[0].is_ok() && read[1].is_err(), "{cut}");
    }
    assert_eq!(codec::events(&[]).count(), 0);
}
