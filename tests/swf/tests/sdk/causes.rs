//! Every cause for which a decision can fail.

use aws_sdk_swf::types::{
    CancelTimerDecisionAttributes, ChildPolicy, ContinueAsNewWorkflowExecutionDecisionAttributes, Decision,
    RequestCancelActivityTaskDecisionAttributes, RequestCancelExternalWorkflowExecutionDecisionAttributes,
    ScheduleActivityTaskDecisionAttributes, SignalExternalWorkflowExecutionDecisionAttributes,
    StartChildWorkflowExecutionDecisionAttributes,
};
use swf_sdk::decisions::{
    cancel, cancel_activity, cancel_external, cancel_timer, charge, child_order, complete, continue_with, fail, go_on,
    schedule, schedule_activity, signal_external, start_child, start_timer, timer,
};
use swf_sdk::{BARE, ORDER, World, activity, events, list, workflow};

/// Returns the failure events of these decisions in a new run, without their ids. Checks that each failure schedules a
/// turn.
async fn failures(world: &World, decisions: Vec<Decision>) -> Vec<String> {
    let run_id = world.start("w").await;
    world.decide(decisions).await;
    // Decisions about other runs fail only after the turn is completed.
    world.pass(1).await;
    let history = world.history("w", &run_id).await;
    let failed: Vec<_> = history.iter().filter(|event| event.event_type().as_str().ends_with("Failed")).collect();
    for event in &failed {
        let next = history
            .iter()
            .find(|other| other.event_id > event.event_id && other.event_type().as_str() == "DecisionTaskScheduled");
        let first_of_batch = history.iter().rfind(|other| other.event_type().as_str() == "DecisionTaskScheduled");
        assert!(next.or(first_of_batch).is_some_and(|turn| turn.event_id > 4), "{history:?}");
    }
    let failed: Vec<_> = failed.into_iter().cloned().collect();
    let terminate = world.swf.terminate_workflow_execution().domain("default").workflow_id("w");
    terminate.send().await.unwrap();
    let text = events(&failed, &[]);
    text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

async fn deprecate(world: &World) {
    let type_of_runs = world.swf.register_workflow_type().domain("default").name("old").version("1");
    type_of_runs.send().await.unwrap();
    let type_of_runs = world.swf.deprecate_workflow_type().domain("default").workflow_type(workflow("old"));
    type_of_runs.send().await.unwrap();
    world.swf.register_activity_type().domain("default").name("old").version("1").send().await.unwrap();
    world.swf.deprecate_activity_type().domain("default").activity_type(activity("old")).send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_scheduling_an_activity() {
    let world = World::ready().await;
    deprecate(&world).await;
    let of = |name| ScheduleActivityTaskDecisionAttributes::builder().activity_id("a").activity_type(activity(name));
    let failed = |name: &str, cause: &str| {
        let event = format!(
            "ScheduleActivityTaskFailed {{ activity_type: \"{name}/1\", activity_id: \"a\", cause: {cause}, \
             decision_task_completed_event_id: 4 }}"
        );
        vec![event]
    };
    assert_eq!(failures(&world, vec![schedule_activity(of("no"))]).await, failed("no", "ActivityTypeDoesNotExist"));
    assert_eq!(failures(&world, vec![schedule_activity(of("old"))]).await, failed("old", "ActivityTypeDeprecated"));
    assert_eq!(failures(&world, vec![schedule("a"), schedule("a")]).await, failed("charge", "ActivityIdAlreadyInUse"));
    let mut attributes = of(BARE);
    let mut found = Vec::new();
    for step in 0..6 {
        found.extend(failures(&world, vec![schedule_activity(attributes.clone())]).await);
        attributes = match step {
            0 => attributes.schedule_to_close_timeout("NONE"),
            1 => attributes.task_list(list("runners")),
            2 => attributes.schedule_to_start_timeout("NONE"),
            3 => attributes.start_to_close_timeout("NONE"),
            _ => attributes.heartbeat_timeout("NONE"),
        };
    }
    let expected = [
        "DefaultScheduleToCloseTimeoutUndefined",
        "DefaultTaskListUndefined",
        "DefaultScheduleToStartTimeoutUndefined",
        "DefaultStartToCloseTimeoutUndefined",
        "DefaultHeartbeatTimeoutUndefined",
    ];
    assert_eq!(found, expected.map(|cause| failed(BARE, cause).remove(0)));
    let mut too_many: Vec<Decision> = (0..1_000).map(|n| schedule(&format!("n{n}"))).collect();
    assert_eq!(failures(&world, too_many.clone()).await, Vec::<String>::new());
    too_many.push(schedule("a"));
    assert_eq!(failures(&world, too_many).await, failed("charge", "OpenActivitiesLimitExceeded"));
}

#[tokio::test(start_paused = true)]
async fn of_canceling_an_activity() {
    let world = World::ready().await;
    let attributes = RequestCancelActivityTaskDecisionAttributes::builder().activity_id("no");
    let failed = failures(&world, vec![cancel_activity(attributes)]).await;
    let expected = "RequestCancelActivityTaskFailed { activity_id: \"no\", cause: ActivityIdUnknown, \
                    decision_task_completed_event_id: 4 }";
    assert_eq!(failed, [expected]);
}

#[tokio::test(start_paused = true)]
async fn of_timers() {
    let world = World::ready().await;
    let failed = |cause: &str| {
        vec![format!("StartTimerFailed {{ timer_id: \"t\", cause: {cause}, decision_task_completed_event_id: 4 }}")]
    };
    assert_eq!(failures(&world, vec![timer("t", 9), timer("t", 9)]).await, failed("TimerIdAlreadyInUse"));
    let mut too_many: Vec<Decision> = (0..1_000).map(|n| timer(&format!("n{n}"), 9)).collect();
    assert_eq!(failures(&world, too_many.clone()).await, Vec::<String>::new());
    too_many.push(timer("t", 9));
    assert_eq!(failures(&world, too_many).await, failed("OpenTimersLimitExceeded"));
    let no = cancel_timer(CancelTimerDecisionAttributes::builder().timer_id("no"));
    let expected = "CancelTimerFailed { timer_id: \"no\", cause: TimerIdUnknown, decision_task_completed_event_id: 4 }";
    assert_eq!(failures(&world, vec![no]).await, [expected]);
    let without = aws_sdk_swf::types::StartTimerDecisionAttributes::builder().timer_id("t");
    assert!(failures(&world, vec![start_timer(without.start_to_fire_timeout("0"))]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_closing_while_there_is_news() {
    let world = World::ready().await;
    let cases = [
        (complete("x"), "CompleteWorkflowExecutionFailed"),
        (fail("x"), "FailWorkflowExecutionFailed"),
        (cancel(), "CancelWorkflowExecutionFailed"),
        (go_on(), "ContinueAsNewWorkflowExecutionFailed"),
    ];
    for (decision, name) in cases {
        let run_id = world.start("w").await;
        let turn = world.turn().await;
        let signal = world.swf.signal_workflow_execution().domain("default").workflow_id("w").signal_name("s");
        signal.send().await.unwrap();
        world.answer(&turn, vec![timer("stands", 9), decision.clone()]).await;
        let expected = format!(
            "6 DecisionTaskCompleted {{ scheduled_event_id: 2, started_event_id: 3 }}\n\
             7 TimerStarted {{ timer_id: \"stands\", start_to_fire_timeout: \"9\", decision_task_completed_event_id: 6 }}\n\
             8 {name} {{ cause: UnhandledDecision, decision_task_completed_event_id: 6 }}"
        );
        assert_eq!(events(&world.history("w", &run_id).await[5..], &[]), expected);
        // The turn that the signal scheduled is dispatched, and its decider can close the run.
        world.decide(vec![complete("")]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_closing_behind_a_decision_that_asks_for_a_turn() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![schedule("a")]).await;
    let signal = world.swf.signal_workflow_execution().domain("default").workflow_id("w").signal_name("s");
    signal.send().await.unwrap();
    let cancel = RequestCancelActivityTaskDecisionAttributes::builder().activity_id("a");
    world.decide(vec![cancel_activity(cancel), swf_sdk::decisions::cancel()]).await;
    let names = swf_sdk::names(&world.history("w", &run_id).await[8..]);
    assert_eq!(names, "DTCompleted ActCancelRequested ActCanceled CancelFailed DTScheduled");
    world.decide(vec![complete("")]).await;
}

#[tokio::test(start_paused = true)]
async fn of_canceling_a_timer_that_has_fired() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![timer("t", 0)]).await;
    world.pass(1).await;
    world.decide(vec![cancel_timer(CancelTimerDecisionAttributes::builder().timer_id("t"))]).await;
    let history = world.history("w", &run_id).await;
    let expected =
        "10 CancelTimerFailed { timer_id: \"t\", cause: TimerIdUnknown, decision_task_completed_event_id: 9 }";
    assert_eq!(events(&history[9..10], &[]), expected);
    assert_eq!(swf_sdk::names(&history[10..]), "DTScheduled");
}

#[tokio::test(start_paused = true)]
async fn of_going_on_as_new() {
    let world = World::ready().await;
    deprecate(&world).await;
    let failed = |cause: &str| {
        vec![format!("ContinueAsNewWorkflowExecutionFailed {{ cause: {cause}, decision_task_completed_event_id: 4 }}")]
    };
    let with_version = |version| {
        continue_with(
            ContinueAsNewWorkflowExecutionDecisionAttributes::builder().workflow_type_version(version).build(),
        )
    };
    assert_eq!(failures(&world, vec![with_version("no")]).await, failed("WorkflowTypeDoesNotExist"));
    let second = world.swf.register_workflow_type().domain("default").name(ORDER).version("2");
    second.send().await.unwrap();
    let mut attributes = ContinueAsNewWorkflowExecutionDecisionAttributes::builder().workflow_type_version("2");
    let mut found = Vec::new();
    for step in 0..4 {
        found.extend(failures(&world, vec![continue_with(attributes.clone().build())]).await);
        attributes = match step {
            0 => attributes.execution_start_to_close_timeout("9"),
            1 => attributes.task_list(list("deciders")),
            _ => attributes.task_start_to_close_timeout("9"),
        };
    }
    let expected = [
        "DefaultExecutionStartToCloseTimeoutUndefined",
        "DefaultTaskListUndefined",
        "DefaultTaskStartToCloseTimeoutUndefined",
        "DefaultChildPolicyUndefined",
    ];
    assert_eq!(found, expected.map(|cause| failed(cause).remove(0)));
    let kind = aws_sdk_swf::types::WorkflowType::builder().name(ORDER).version("2").build().unwrap();
    world.swf.deprecate_workflow_type().domain("default").workflow_type(kind).send().await.unwrap();
    assert_eq!(failures(&world, vec![with_version("2")]).await, failed("WorkflowTypeDeprecated"));
}

#[tokio::test(start_paused = true)]
async fn of_others() {
    let world = World::ready().await;
    let signal = |id: &str| {
        let attributes = SignalExternalWorkflowExecutionDecisionAttributes::builder().workflow_id(id);
        signal_external(attributes.signal_name("s").control("note"))
    };
    let expected = "SignalExternalWorkflowExecutionFailed { workflow_id: \"no\", \
                    cause: UnknownExternalWorkflowExecution, initiated_event_id: 5, decision_task_completed_event_id: 4, \
                    control: \"note\" }";
    assert_eq!(failures(&world, vec![signal("no")]).await, [expected]);
    let attributes = RequestCancelExternalWorkflowExecutionDecisionAttributes::builder().workflow_id("no");
    let expected = "RequestCancelExternalWorkflowExecutionFailed { workflow_id: \"no\", \
                    cause: UnknownExternalWorkflowExecution, initiated_event_id: 5, decision_task_completed_event_id: 4, \
                    control: \"note\" }";
    let no = cancel_external(attributes.clone().control("note"));
    assert_eq!(failures(&world, vec![no]).await, [expected]);
    // Closed and nonexistent runs cause the same failure, with and without a run id.
    let closed = world.start("closed").await;
    world.decide(vec![complete("")]).await;
    for run_id in [None, Some(closed.as_str()), Some("00000000-0000-0000-0000-000000000001"), Some("no uuid")] {
        let attributes = SignalExternalWorkflowExecutionDecisionAttributes::builder().workflow_id("closed");
        let attributes = attributes.signal_name("s").set_run_id(run_id.map(str::to_owned));
        let failed = failures(&world, vec![signal_external(attributes)]).await;
        assert!(failed.len() == 1 && failed[0].contains("cause: UnknownExternalWorkflowExecution"), "{failed:?}");
        let attributes = RequestCancelExternalWorkflowExecutionDecisionAttributes::builder().workflow_id("closed");
        let failed = failures(&world, vec![cancel_external(attributes.set_run_id(run_id.map(str::to_owned)))]).await;
        assert!(failed.len() == 1 && failed[0].contains("cause: UnknownExternalWorkflowExecution"), "{failed:?}");
    }
    // Signals and cancel requests to other runs that are still in progress have a common limit.
    let mut too_many: Vec<Decision> = (0..1_000).map(|n| signal(&format!("n{n}"))).collect();
    too_many.extend([signal("no"), cancel_external(attributes.control("note").run_id("fake"))]);
    let failed = failures(&world, too_many).await;
    let limited: Vec<_> = failed.iter().filter(|it| it.contains("RateExceeded")).collect();
    assert_eq!(limited.len(), 2, "{limited:?}");
    let expected = [
        "SignalExternalWorkflowExecutionFailed { workflow_id: \"no\", \
         cause: SignalExternalWorkflowExecutionRateExceeded, initiated_event_id: 0, decision_task_completed_event_id: 4, \
         control: \"note\" }",
        "RequestCancelExternalWorkflowExecutionFailed { workflow_id: \"no\", run_id: \"fake\", \
         cause: RequestCancelExternalWorkflowExecutionRateExceeded, initiated_event_id: 0, \
         decision_task_completed_event_id: 4, control: \"note\" }",
    ];
    assert_eq!(limited, expected.each_ref());
}

#[tokio::test(start_paused = true)]
async fn of_starting_a_child() {
    let world = World::ready().await;
    deprecate(&world).await;
    let of = |name| {
        let attributes = StartChildWorkflowExecutionDecisionAttributes::builder().workflow_id("c");
        attributes.workflow_type(workflow(name)).control("note")
    };
    let failed = |name: &str, cause: &str, initiated: u64| {
        format!(
            "StartChildWorkflowExecutionFailed {{ workflow_type: \"{name}/1\", cause: {cause}, workflow_id: \"c\", \
             initiated_event_id: {initiated}, decision_task_completed_event_id: 4, control: \"note\" }}"
        )
    };
    let no = failures(&world, vec![start_child(of("no"))]).await;
    assert_eq!(no, [failed("no", "WorkflowTypeDoesNotExist", 0)]);
    let old = failures(&world, vec![start_child(of("old"))]).await;
    assert_eq!(old, [failed("old", "WorkflowTypeDeprecated", 0)]);
    let mut attributes = of(BARE);
    let mut found = Vec::new();
    for step in 0..4 {
        found.extend(failures(&world, vec![start_child(attributes.clone())]).await);
        attributes = match step {
            0 => attributes.execution_start_to_close_timeout("9"),
            1 => attributes.task_list(list("children")),
            _ => attributes.task_start_to_close_timeout("9"),
        };
    }
    let expected = [
        "DefaultExecutionStartToCloseTimeoutUndefined",
        "DefaultTaskListUndefined",
        "DefaultTaskStartToCloseTimeoutUndefined",
        "DefaultChildPolicyUndefined",
    ];
    assert_eq!(found, expected.map(|cause| failed(BARE, cause, 0)));
    world.start("c").await;
    world.decide(vec![]).await;
    let running = failures(&world, vec![start_child(of(ORDER))]).await;
    assert_eq!(running, [failed(ORDER, "WorkflowAlreadyRunning", 5)]);
    let abandoned = |id: &str| start_child(child_order(id).child_policy(ChildPolicy::Abandon).control("note"));
    let mut too_many: Vec<Decision> = (0..1_000).map(|n| abandoned(&format!("n{n}"))).collect();
    too_many.push(abandoned("c"));
    assert_eq!(failures(&world, too_many).await, [failed(ORDER, "OpenChildrenLimitExceeded", 0)]);
}

#[tokio::test(start_paused = true)]
async fn what_follows_in_the_batch_of_a_decision_that_failed_is_applied() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![timer("t", 9), timer("t", 9), schedule_activity(charge("a"))]).await;
    let names = swf_sdk::names(&world.history("w", &run_id).await);
    assert!(names.contains("TimerStarted StartTimerFailed"), "{names}");
    assert!(names.contains("ActScheduled"), "{names}");
}
