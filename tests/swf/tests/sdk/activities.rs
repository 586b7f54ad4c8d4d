//! Activities: timeouts, cancellation, failures, and the responses that runners get.

use aws_sdk_swf::types::RequestCancelActivityTaskDecisionAttributes;
use swf_sdk::decisions::{cancel_activity, charge, complete, schedule, schedule_activity};
use swf_sdk::{World, events, fault, list, names};

/// Returns the events of the run after the first `after` events.
async fn since(world: &World, run_id: &str, after: usize) -> String {
    let history = world.history("w", run_id).await;
    events(&history[after..], &[])
}

const TURN: &str = "DecisionTaskScheduled { task_list: \"deciders\", start_to_close_timeout: \"60\", \
 schedule_to_start_timeout: \"NONE\" }";

#[tokio::test(start_paused = true)]
async fn each_timeout_closes_an_activity_and_asks_for_a_turn() {
    let world = World::ready().await;
    let never = |id| {
        let attributes = charge(id).schedule_to_start_timeout("NONE").schedule_to_close_timeout("NONE");
        attributes.start_to_close_timeout("NONE")
    };
    let cases = [
        (never("a").schedule_to_start_timeout("5"), false, "ScheduleToStart", 0),
        (never("a").schedule_to_close_timeout("5"), false, "ScheduleToClose", 0),
        (never("a").schedule_to_close_timeout("5"), true, "ScheduleToClose", 6),
        (never("a").start_to_close_timeout("5"), true, "StartToClose", 6),
        (never("a").heartbeat_timeout("5"), true, "Heartbeat", 6),
    ];
    for (attributes, is_started, timeout, started) in cases {
        let run_id = world.start("w").await;
        world.decide(vec![schedule_activity(attributes)]).await;
        let token = if is_started { Some(world.task().await.task_token) } else { None };
        if let Some(token) = &token {
            let beat = world.swf.record_activity_task_heartbeat().task_token(token).details("half");
            assert!(!beat.send().await.unwrap().cancel_requested);
        }
        world.pass(5).await;
        let details = if is_started { ", details: \"half\"" } else { "" };
        let closed = format!(
            "ActivityTaskTimedOut {{ timeout_type: {timeout}, scheduled_event_id: 5, started_event_id: \
             {started}{details} }}"
        );
        let expected = if is_started { format!("7 {closed}\n8 {TURN}") } else { format!("6 {closed}\n7 {TURN}") };
        assert_eq!(since(&world, &run_id, if is_started { 6 } else { 5 }).await, expected);
        if let Some(token) = &token {
            let gone = "UnknownResourceFault: Unknown activity, scheduledEventId = 5";
            let late = world.swf.respond_activity_task_completed().task_token(token);
            assert_eq!(fault(late.send().await), gone);
            assert_eq!(fault(world.swf.record_activity_task_heartbeat().task_token(token).send().await), gone);
        } else {
            let task = world.task().await;
            assert_eq!(
                (task.task_token.as_str(), task.started_event_id),
                ("", 0),
                "what timed out is never handed out"
            );
        }
        world.decide(vec![complete("")]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_begins_the_timeout_again() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![schedule_activity(charge("a").heartbeat_timeout("5"))]).await;
    let token = world.task().await.task_token;
    for _ in 0..3 {
        world.pass(4).await;
        world.swf.record_activity_task_heartbeat().task_token(&token).send().await.unwrap();
    }
    assert_eq!(world.history("w", &run_id).await.len(), 6, "a heartbeat is no event");
    world.pass(5).await;
    let timed_out = "7 ActivityTaskTimedOut { timeout_type: Heartbeat, scheduled_event_id: 5, started_event_id: 6 }";
    assert!(since(&world, &run_id, 6).await.starts_with(timed_out));
}

#[tokio::test(start_paused = true)]
async fn a_failure_has_its_reason_and_details() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![schedule("a")]).await;
    let failed = world.swf.respond_activity_task_failed().task_token(world.task().await.task_token);
    failed.reason("declined").details("").send().await.unwrap();
    let expected = format!(
        "7 ActivityTaskFailed {{ reason: \"declined\", details: \"\", scheduled_event_id: 5, started_event_id: 6 \
         }}\n8 {TURN}"
    );
    assert_eq!(since(&world, &run_id, 6).await, expected);
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_was_never_started_is_canceled_at_once() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![schedule("a")]).await;
    let signal = world.swf.signal_workflow_execution().domain("default").workflow_id("w").signal_name("s");
    signal.send().await.unwrap();
    let cancel = cancel_activity(RequestCancelActivityTaskDecisionAttributes::builder().activity_id("a"));
    world.decide(vec![cancel]).await;
    let expected = format!(
        "10 ActivityTaskCancelRequested {{ decision_task_completed_event_id: 9, activity_id: \"a\" }}\n\
         11 ActivityTaskCanceled {{ scheduled_event_id: 5, started_event_id: 0, latest_cancel_requested_event_id: 10 }}\n\
         12 {TURN}"
    );
    assert_eq!(since(&world, &run_id, 9).await, expected);
    assert_eq!(world.task().await.task_token, "");
}

#[tokio::test(start_paused = true)]
async fn a_runner_hears_of_a_cancel_request_in_its_heartbeat() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![schedule("a")]).await;
    let token = world.task().await.task_token;
    let signal = world.swf.signal_workflow_execution().domain("default").workflow_id("w").signal_name("s");
    signal.send().await.unwrap();
    let cancel = cancel_activity(RequestCancelActivityTaskDecisionAttributes::builder().activity_id("a"));
    world.decide(vec![cancel]).await;
    let beat = world.swf.record_activity_task_heartbeat().task_token(&token).send().await.unwrap();
    assert!(beat.cancel_requested);
    world.swf.respond_activity_task_canceled().task_token(&token).details("undone").send().await.unwrap();
    let expected = format!(
        "11 ActivityTaskCancelRequested {{ decision_task_completed_event_id: 10, activity_id: \"a\" }}\n\
         12 ActivityTaskCanceled {{ details: \"undone\", scheduled_event_id: 5, started_event_id: 6, \
         latest_cancel_requested_event_id: 11 }}\n13 {TURN}"
    );
    assert_eq!(since(&world, &run_id, 10).await, expected);
}

#[tokio::test(start_paused = true)]
async fn results_that_come_before_a_poll_make_one_turn() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![schedule("a"), schedule("b")]).await;
    for _ in 0..2 {
        let token = world.task().await.task_token;
        world.swf.respond_activity_task_completed().task_token(token).send().await.unwrap();
    }
    let expected = "ActScheduled ActScheduled ActStarted ActCompleted DTScheduled ActStarted ActCompleted";
    assert_eq!(names(&world.history("w", &run_id).await[4..]), expected);
}

#[tokio::test(start_paused = true)]
async fn what_a_decision_says_comes_before_what_its_type_says() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let attributes = charge("a")
        .schedule_to_start_timeout("1")
        .schedule_to_close_timeout("2")
        .start_to_close_timeout("3")
        .heartbeat_timeout("4")
        .task_priority("-5")
        .task_list(list("special"));
    world.decide(vec![schedule_activity(attributes)]).await;
    let expected = "5 ActivityTaskScheduled { activity_type: \"charge/1\", activity_id: \"a\", \
        schedule_to_start_timeout: \"1\", schedule_to_close_timeout: \"2\", start_to_close_timeout: \"3\", \
        task_list: \"special\", task_priority: \"-5\", decision_task_completed_event_id: 4, heartbeat_timeout: \"4\" }";
    assert_eq!(since(&world, &run_id, 4).await, expected);
    let count = |name| world.swf.count_pending_activity_tasks().domain("default").task_list(list(name)).send();
    assert_eq!(count("special").await.unwrap().count, 1);
    assert_eq!(count("runners").await.unwrap().count, 0);
}
