use baton_history::event::{ActivityScheduleFailedCause, ActivityTimeout};
use baton_history::{RetryPolicy, Timestamp};
use serde_json::json;

use super::*;
use crate::testing::{TestService, Work};
use crate::{Activity, ActivityEnd, Child, Decider, Duration, Status};

/// Folds events given as JSON without their common fields.
fn steps(events: &[serde_json::Value]) -> Steps {
    let mut steps = Steps::default();
    for (index, event) in events.iter().enumerate() {
        let mut event = event.clone();
        event["id"] = json!(index + 1);
        event["timestamp"] = json!(Timestamp::from_millis(1_000));
        steps.evolve(&serde_json::from_value(event).unwrap());
    }
    steps
}

fn scheduled(id: &str) -> serde_json::Value {
    json!({
        "type": "ActivityScheduled", "activityId": id, "activityType": "work", "taskList": "l", "decisionEventId": 4,
    })
}

fn started(scheduled: u64) -> serde_json::Value {
    json!({"type": "ActivityStarted", "scheduledEventId": scheduled})
}

fn succeeded(scheduled: u64, result: &serde_json::Value) -> serde_json::Value {
    json!({"type": "ActivitySuccess", "scheduledEventId": scheduled, "startedEventId": scheduled + 1, "result": result})
}

fn failed(scheduled: u64, reason: &str) -> serde_json::Value {
    json!({
        "type": "ActivityFailed", "scheduledEventId": scheduled, "startedEventId": scheduled + 1, "reason": reason,
        "details": 7,
    })
}

#[test]
fn an_activity_goes_from_new_to_open_to_done() {
    let history = [scheduled("a"), started(1), succeeded(1, &json!([1, 2]))];
    assert!(steps(&[]).activity("a").is_new());
    let open = steps(&history[..1]);
    assert!(open.activity("a").is_open() && open.done::<Vec<u8>>("a").is_none());
    assert_eq!(open.open_activities().map(|(id, _)| id).collect::<Vec<_>>(), ["a"]);
    let done = steps(&history);
    let a = done.activity("a");
    assert!(a.is_done() && a.has_ended() && !a.is_open() && !a.is_new());
    assert_eq!(done.done::<Vec<u8>>("a"), Some(vec![1, 2]));
    assert_eq!(a.payload().and_then(Payload::text), Some("[1,2]"));
    assert_eq!((a.scheduled_event_id(), a.started_event_id(), a.ended_event_id()), (Some(1), Some(2), Some(3)));
    assert_eq!(done.open_activities().count(), 0);
    assert!(done.activity("b").is_new());
}

#[test]
fn a_failure_has_a_reason_and_an_origin() {
    let failed = steps(&[scheduled("a"), started(1), failed(1, "busy")]);
    let failure = failed.activity("a").failure().unwrap();
    assert_eq!((failure.reason(), failure.read_details::<u8>()), ("busy", Some(7)));
    assert!(failure.may_retry());
    assert_eq!(failed.activity("a").progress(), Progress::Failed(failure));
    let cause = Cause::Activity {
        activity_id: "a".to_owned(),
        activity_type: "work".to_owned(),
        end: ActivityEnd::Failed { non_retryable: false },
    };
    assert_eq!(*failure.cause(), cause);
    assert_eq!(failed.activity("a").result::<u8>(), None);
}

#[test]
fn timeouts_cancellations_and_refusals_are_failures() {
    let timed_out = json!({
        "type": "ActivityTimedOut", "scheduledEventId": 1, "startedEventId": 2, "timeout": ActivityTimeout::Heartbeat,
    });
    assert!(steps(&[scheduled("a"), started(1), timed_out]).activity("a").failure().unwrap().is_timeout());
    let not_taken = json!({"type": "ActivityScheduledTimeout", "scheduledEventId": 1});
    assert!(steps(&[scheduled("a"), not_taken]).activity("a").failure().unwrap().is_timeout());
    let cancel_requested =
        json!({"type": "ActivityTaskCancel", "activityId": "a", "scheduledEventId": 1, "decisionEventId": 4});
    let canceled = json!({"type": "ActivityCanceled", "scheduledEventId": 1, "cancelEventId": 2});
    let history = [scheduled("a"), cancel_requested, canceled];
    assert!(steps(&history[..2]).activity("a").is_cancel_requested() && steps(&history[..2]).activity("a").is_open());
    assert!(steps(&history).activity("a").failure().unwrap().is_canceled());
    let refused = json!({"type": "ActivityScheduleFailed", "activityId": "b", "activityType": "work",
        "cause": ActivityScheduleFailedCause::OpenActivitiesLimit, "decisionEventId": 4});
    let refused = steps(&[refused]);
    assert!(!refused.activity("b").failure().unwrap().may_retry());
    assert_eq!((refused.activity("b").attempts(), refused.activity("b").ended_event_id()), (0, Some(1)));
}

#[test]
fn a_refused_duplicate_id_leaves_the_open_step_unchanged() {
    let refused = json!({"type": "ActivityScheduleFailed", "activityId": "a", "activityType": "work",
        "cause": ActivityScheduleFailedCause::ActivityIdAlreadyInUse, "decisionEventId": 4});
    let history = [scheduled("a"), refused, started(1), succeeded(1, &json!(3))];
    assert!(steps(&history[..2]).activity("a").is_open());
    assert_eq!(steps(&history).done::<u8>("a"), Some(3));
}

#[test]
fn a_reused_id_shows_the_newest_step_and_counts_all_attempts() {
    let retried = json!({"type": "ActivityStarted", "scheduledEventId": 4, "attempt": 3});
    let history = [scheduled("a"), started(1), failed(1, "busy"), scheduled("a"), retried, succeeded(4, &json!(3))];
    let again = steps(&history[..4]);
    assert!(again.activity("a").is_open() && again.activity("a").failure().is_none());
    assert_eq!(again.activity("a").attempts(), 2);
    assert_eq!((steps(&history).activity("a").attempts(), steps(&history).done::<u8>("a")), (4, Some(3)));
    let late = [scheduled("a"), started(1), failed(1, "busy"), scheduled("a"), failed(1, "again")];
    assert!(steps(&late).activity("a").is_open(), "a late event of the first step is ignored");
    let refused = json!({"type": "ActivityScheduleFailed", "activityId": "a", "activityType": "work",
        "cause": ActivityScheduleFailedCause::OpenActivitiesLimit, "decisionEventId": 4});
    let refused = steps(&[scheduled("a"), started(1), failed(1, "busy"), refused]);
    let a = refused.activity("a");
    assert_eq!(
        (a.attempts(), a.ended_event_id(), a.scheduled_event_id()),
        (1, Some(4), None),
        "a refusal is no attempt"
    );
}

#[test]
fn a_child_goes_from_new_to_open_to_done() {
    let scheduled = json!({"type": "ChildScheduled", "workflowId": "c", "workflowType": "t", "taskList": "l",
        "executionTimeout": "P30D", "deciderStartToClose": "PT30S", "activityTimeouts": {}, "retention": "P7D",
        "reusePolicy": "reject-duplicate", "childPolicy": "abandon", "decisionEventId": 4});
    let run_id = uuid::Uuid::from_u128(7);
    let started = json!({"type": "ChildStarted", "workflowId": "c", "runId": run_id, "scheduledEventId": 1});
    let all = steps(std::slice::from_ref(&scheduled));
    assert_eq!((all.child("c").is_open(), all.child("c").started_event_id()), (true, None));
    let all = steps(&[scheduled, started]);
    assert_eq!((all.child("c").is_open(), all.child("c").started_event_id()), (true, Some(2)));
}

#[test]
fn timers_expire_or_are_canceled() {
    let set = json!({"type": "TimerScheduled", "timerId": "t", "after": "PT1S", "decisionEventId": 4});
    let expired = json!({"type": "TimerExpired", "timerId": "t", "scheduledEventId": 1});
    let taken_back = json!({"type": "TimerCanceled", "timerId": "t", "scheduledEventId": 1, "decisionEventId": 4});
    assert!(steps(std::slice::from_ref(&set)).timer("t").is_open());
    assert!(steps(&[set.clone(), expired]).timer("t").is_done());
    let taken_back = steps(&[set, taken_back]);
    assert!(taken_back.timer("t").has_ended() && taken_back.timer("t").failure().unwrap().is_canceled());
    assert!(taken_back.activity("t").is_new(), "an activity with the same id is a different step");
}

#[test]
fn signals_keep_their_order_and_the_first_cancel_request_counts() {
    let approve = |input| json!({"type": "Signal", "name": "approve", "input": input});
    let cancel = json!({"type": "WorkflowCancelRequested"});
    let all = steps(&[
        approve(json!(1)),
        cancel.clone(),
        approve(json!(2)),
        cancel,
        json!({"type": "Signal", "name": "hurry"}),
    ]);
    assert_eq!(all.signals("approve").iter().map(Received::read::<u8>).collect::<Vec<_>>(), [1, 2]);
    assert!(all.is_signaled("hurry") && !all.is_signaled("wait"));
    all.signals("hurry")[0].read::<()>();
    assert_eq!((all.is_cancel_requested(), all.cancel_requested_event_id()), (true, Some(2)));
}

#[test]
fn a_value_of_another_type_gives_the_turn_back() {
    let all = steps(&[scheduled("a"), started(1), succeeded(1, &json!("three"))]);
    let panic = std::panic::catch_unwind(|| all.done::<u8>("a")).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("cannot read the result of event 3: "), "{message}");
}

/// The run has three activities, one of which the service retries, a timer and a child.
#[test]
fn steps_suffice_to_decide_a_whole_run() {
    fn parent(steps: &Steps, _: &Window) -> Decisions {
        let [a, b] = ["a", "b"].map(|id| steps.activity(id));
        if a.is_new() {
            let policy = RetryPolicy { maximum_attempts: Some(3), ..RetryPolicy::default() };
            return Decisions::new()
                .schedule(Activity::new("a", "double").input(&steps.input::<u64>()))
                .schedule(Activity::new("b", "flaky").retry(policy))
                .timer("t", Duration::from_days(1))
                .child(Child::new("c", "child").input(&1));
        }
        let all = [a, b, steps.timer("t"), steps.child("c")];
        if all.iter().any(|step| step.is_open()) {
            return Decisions::new();
        }
        Decisions::new().succeed(&(a.result::<u64>(), b.attempts(), steps.child("c").result::<u64>()))
    }
    fn child(steps: &Steps, _: &Window) -> Decisions {
        Decisions::new().succeed(&(steps.input::<u64>() + 1))
    }
    let mut service = TestService::new();
    service.decider("parent", decide(parent)).decider("child", decide(child));
    service.activity("double", |call| Work::success(&(2 * call.input::<u64>())));
    let mut tries = 0;
    service.activity("flaky", move |_| {
        tries += 1;
        if tries < 3 { Work::failure("busy", &()) } else { Work::success(&()) }
    });
    service.start("parent", "p", &21);
    let closed = service.finish("p");
    assert_eq!(closed.status, Status::Success);
    assert_eq!(closed.result::<(Option<u64>, u32, Option<u64>)>(), (Some(42), 3, Some(2)));
}

/// Steps used as one field of a larger state.
#[test]
fn steps_can_be_part_of_a_larger_state() {
    struct Counts;
    impl Decider for Counts {
        type State = (Steps, u32);
        fn evolve(&self, (steps, events): &mut (Steps, u32), event: &Event) {
            steps.evolve(event);
            *events += 1;
        }
        fn decide(&self, (steps, events): &(Steps, u32), _: &Window) -> Decisions {
            if steps.is_signaled("stop") {
                Decisions::new().succeed(events)
            } else {
                Decisions::new().awaiting(["stop"])
            }
        }
    }
    let mut service = TestService::new();
    service.decider("counts", Counts);
    service.start("counts", "c", &());
    service.after(Duration::from_secs(1)).signal("c", "stop", &());
    assert_eq!(service.finish("c").result::<u32>(), 7);
}
