//! Operations on runs: start, signal, cancel, terminate, describe; and the policies for children of a closed run.

use aws_sdk_swf::types::ChildPolicy;
use swf_sdk::decisions::{child_order, complete, fail, schedule, start_child, timer};
use swf_sdk::{BARE, ORDER, World, activity, events, execution, fault, list, names, workflow};

#[tokio::test(start_paused = true)]
async fn a_start_without_a_setting_names_the_first_that_is_missing() {
    let world = World::ready().await;
    let start = world.swf.start_workflow_execution().domain("default").workflow_id("w").workflow_type(workflow(BARE));
    assert_eq!(fault(start.clone().send().await), "DefaultUndefinedFault: executionStartToCloseTimeout");
    let start = start.execution_start_to_close_timeout("60");
    assert_eq!(fault(start.clone().send().await), "DefaultUndefinedFault: taskList");
    let start = start.task_list(list("deciders"));
    assert_eq!(fault(start.clone().send().await), "DefaultUndefinedFault: taskStartToCloseTimeout");
    let start = start.task_start_to_close_timeout("NONE");
    assert_eq!(fault(start.clone().send().await), "DefaultUndefinedFault: childPolicy");
    let start = start.child_policy(ChildPolicy::RequestCancel).task_priority("5").tag_list("t").lambda_role("role");
    let run_id = start.clone().input("in").send().await.unwrap().run_id.unwrap();
    let expected = "1 WorkflowExecutionStarted { input: \"in\", execution_start_to_close_timeout: \"60\", \
        task_start_to_close_timeout: \"NONE\", child_policy: RequestCancel, task_list: \"deciders\", task_priority: \"5\", \
        workflow_type: \"bare/1\", tag_list: [\"t\"], parent_initiated_event_id: 0, lambda_role: \"role\" }";
    assert_eq!(events(&world.history("w", &run_id).await[..1], &[]), expected);
    assert_eq!(fault(start.send().await), "WorkflowExecutionAlreadyStartedFault: ");
}

#[tokio::test(start_paused = true)]
async fn signals_that_come_before_the_first_poll_make_one_turn() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let signal = world.swf.signal_workflow_execution().domain("default").workflow_id("w").run_id(&run_id);
    for _ in 0..5 {
        signal.clone().signal_name("s").send().await.unwrap();
    }
    world.decide(vec![complete("")]).await;
    let expected = "Started DTScheduled Signaled Signaled Signaled Signaled Signaled DTStarted DTCompleted Completed";
    assert_eq!(names(&world.history("w", &run_id).await), expected);
    let gone = format!("UnknownResourceFault: Unknown execution: WorkflowExecution=[workflowId=w, runId={run_id}]");
    assert_eq!(fault(signal.signal_name("s").send().await), gone);
    let cancel = world.swf.request_cancel_workflow_execution().domain("default").workflow_id("w");
    assert_eq!(fault(cancel.send().await), "UnknownResourceFault: Unknown execution, workflowId = w");
    let terminate = world.swf.terminate_workflow_execution().domain("no").workflow_id("w");
    assert_eq!(fault(terminate.send().await), "UnknownResourceFault: Unknown domain: no");
}

#[tokio::test(start_paused = true)]
async fn the_context_of_a_turn_is_kept_until_another_is_given() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let describe =
        || world.swf.describe_workflow_execution().domain("default").execution(execution("w", &run_id)).send();
    let turn = world.turn().await;
    assert_eq!(describe().await.unwrap().latest_execution_context, None);
    let answer = world.swf.respond_decision_task_completed().task_token(turn.task_token).execution_context("");
    answer.decisions(schedule("a")).decisions(timer("t", 0)).send().await.unwrap();
    assert_eq!(describe().await.unwrap().latest_execution_context.as_deref(), Some(""));
    world.pass(1).await;
    world.decide(vec![]).await;
    let described = describe().await.unwrap();
    assert_eq!(described.latest_execution_context.as_deref(), Some(""), "not replaced by none");
    assert!(described.latest_activity_task_timestamp.is_some());
    let counts = described.open_counts.unwrap();
    assert_eq!((counts.open_activity_tasks, counts.open_decision_tasks, counts.open_timers), (1, 0, 0));
    let cancel = world.swf.request_cancel_workflow_execution().domain("default").workflow_id("w");
    cancel.run_id(&run_id).send().await.unwrap();
    let described = describe().await.unwrap();
    assert!(described.execution_info.unwrap().cancel_requested);
    assert_eq!(described.open_counts.unwrap().open_decision_tasks, 1);
    world.decide(vec![complete("")]).await;
    let counts = describe().await.unwrap().open_counts.unwrap();
    assert_eq!(counts.open_activity_tasks, 1, "what was open stays open");
    let configuration = describe().await.unwrap().execution_configuration.unwrap();
    assert_eq!(configuration.execution_start_to_close_timeout, "3600");
    assert_eq!(configuration.task_priority.as_deref(), Some("0"));
}

/// Starts a parent with this child policy, and its child, whose first turn is completed. Returns the run ids of both.
async fn family(world: &World, policy: ChildPolicy, seconds: &str) -> (String, String) {
    let start = world.swf.start_workflow_execution().domain("default").workflow_id("parent");
    let start = start.workflow_type(workflow(ORDER)).child_policy(policy).execution_start_to_close_timeout(seconds);
    let parent = start.send().await.unwrap().run_id.unwrap();
    world.decide(vec![start_child(child_order("child"))]).await;
    world.decide(vec![]).await;
    let turn = world.turn_of("children").await;
    world.answer(&turn, vec![]).await;
    (parent, turn.workflow_execution.unwrap().run_id)
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_children_is_the_policy_of_a_parent_that_is_terminated_or_times_out() {
    let world = World::ready().await;
    let cases = [
        (ChildPolicy::Terminate, None, "Started DTScheduled DTStarted DTCompleted Terminated"),
        (ChildPolicy::RequestCancel, None, "Started DTScheduled DTStarted DTCompleted CancelRequested DTScheduled"),
        (ChildPolicy::Abandon, None, "Started DTScheduled DTStarted DTCompleted"),
        (ChildPolicy::Abandon, Some(ChildPolicy::Terminate), "Started DTScheduled DTStarted DTCompleted Terminated"),
    ];
    for times_out in [false, true] {
        for (policy, other, expected) in cases.clone() {
            if times_out && other.is_some() {
                continue;
            }
            let (parent, child) = family(&world, policy.clone(), "30").await;
            let used = other.clone().unwrap_or(policy);
            let closed = if times_out {
                world.pass(31).await;
                format!("WorkflowExecutionTimedOut {{ timeout_type: StartToClose, child_policy: {used:?} }}")
            } else {
                let terminate = world.swf.terminate_workflow_execution().domain("default").workflow_id("parent");
                let terminate = terminate.reason("why").details("more").set_child_policy(other);
                terminate.send().await.unwrap();
                format!(
                    "WorkflowExecutionTerminated {{ reason: \"why\", details: \"more\", child_policy: {used:?}, cause: OperatorInitiated }}"
                )
            };
            world.pass(1).await;
            let history = world.history("parent", &parent).await;
            assert!(events(&history, &[]).ends_with(&closed), "{}", events(&history, &[]));
            let of_child = world.history("child", &child).await;
            assert_eq!(names(&of_child), expected, "{used:?}");
            if of_child.len() > 4 {
                assert!(events(&of_child[4..5], &[]).contains("cause: ChildPolicyApplied"));
            }
            let terminate = world.swf.terminate_workflow_execution().domain("default").workflow_id("child");
            let _ = terminate.send().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn children_go_on_when_their_parent_completes_fails_or_is_canceled() {
    let world = World::ready().await;
    for decision in [complete(""), fail("x"), swf_sdk::decisions::cancel()] {
        let (_, child) = family(&world, ChildPolicy::Terminate, "3600").await;
        let signal = world.swf.signal_workflow_execution().domain("default").workflow_id("parent").signal_name("end");
        signal.send().await.unwrap();
        world.decide(vec![decision]).await;
        world.pass(1).await;
        assert_eq!(names(&world.history("child", &child).await), "Started DTScheduled DTStarted DTCompleted");
        world.swf.terminate_workflow_execution().domain("default").workflow_id("child").send().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_run_of_a_domain_without_retention_is_soon_forgotten() {
    let world = World::open().await;
    for (name, days) in [("none", "NONE"), ("zero", "0"), ("one", "1")] {
        let register = world.swf.register_domain().name(name).workflow_execution_retention_period_in_days(days);
        register.send().await.unwrap();
        let kind = world.swf.register_workflow_type().domain(name).name(ORDER).version("1");
        let kind = kind.default_task_start_to_close_timeout("60").default_execution_start_to_close_timeout("60");
        let kind = kind.default_task_list(list("l")).default_child_policy(ChildPolicy::Terminate);
        kind.send().await.unwrap();
        let start = world.swf.start_workflow_execution().domain(name).workflow_id("w").workflow_type(workflow(ORDER));
        let run_id = start.send().await.unwrap().run_id.unwrap();
        let terminate = || world.swf.terminate_workflow_execution().domain(name).workflow_id("w").send();
        terminate().await.unwrap();
        let describe = || {
            let describe = world.swf.describe_workflow_execution().domain(name);
            describe.execution(execution("w", &run_id)).send()
        };
        let unknown =
            format!("UnknownResourceFault: Unknown execution: WorkflowExecution=[workflowId=w, runId={run_id}]");
        world.pass(3_600).await;
        if days == "1" {
            describe().await.unwrap();
            world.pass(24 * 3_600).await;
        }
        assert_eq!(fault(describe().await), unknown, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_poll_answers_after_a_minute_without_a_token() {
    let world = World::ready().await;
    let before = tokio::time::Instant::now();
    let turn = world.turn().await;
    assert_eq!((turn.task_token.as_str(), turn.started_event_id, turn.previous_started_event_id), ("", 0, 0));
    assert_eq!(before.elapsed().as_secs(), 60);
    let task = world.task().await;
    assert_eq!((task.task_token.as_str(), task.started_event_id), ("", 0));
    assert_eq!(before.elapsed().as_secs(), 120);
    let pending = world.swf.count_pending_decision_tasks().domain("default").task_list(list("deciders"));
    assert_eq!(pending.clone().send().await.unwrap().count, 0);
    world.start("w").await;
    assert_eq!(pending.send().await.unwrap().count, 1);
    let kind = world.swf.describe_activity_type().domain("default").activity_type(activity("no"));
    assert_eq!(fault(kind.send().await), "UnknownResourceFault: Unknown type: ActivityType=[name=no, version=1]");
}
