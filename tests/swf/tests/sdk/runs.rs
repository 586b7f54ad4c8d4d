//! Runs from outside: started, signaled, canceled, terminated, listed, described, and their children's ends.

use aws_sdk_swf::primitives::DateTime;
use aws_sdk_swf::types::{
    ChildPolicy, CloseStatus, CloseStatusFilter, ExecutionTimeFilter, TagFilter, WorkflowExecutionFilter,
    WorkflowTypeFilter,
};
use swf_sdk::decisions::{child_order, complete, fail, schedule, start_child, timer};
use swf_sdk::{BARE, ORDER, World, activity, events, execution, fault, list, names, workflow};

fn since(seconds: i64) -> ExecutionTimeFilter {
    ExecutionTimeFilter::builder().oldest_date(DateTime::from_secs(seconds)).build().unwrap()
}

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

/// A parent with this policy and its child, of which the first turn is over.
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
async fn runs_are_listed_and_counted_by_what_they_are() {
    let world = World::ready().await;
    for n in 0..5 {
        let start = world.swf.start_workflow_execution().domain("default").workflow_id(format!("w{n}"));
        let start = start.workflow_type(workflow(ORDER)).set_tag_list((n % 2 == 0).then(|| vec!["even".to_owned()]));
        start.send().await.unwrap();
        world.pass(10).await;
    }
    for decision in [complete(""), fail("x")] {
        world.decide(vec![decision]).await;
        world.pass(10).await;
    }
    let ids = |infos: Vec<aws_sdk_swf::types::WorkflowExecutionInfo>| {
        infos.into_iter().map(|info| info.execution.unwrap().workflow_id).collect::<Vec<_>>().join(" ")
    };
    let open = || world.swf.list_open_workflow_executions().domain("default").start_time_filter(since(0));
    assert_eq!(ids(open().send().await.unwrap().execution_infos), "w4 w3 w2");
    assert_eq!(ids(open().reverse_order(true).send().await.unwrap().execution_infos), "w2 w3 w4");
    let even = TagFilter::builder().tag("even").build().unwrap();
    assert_eq!(ids(open().tag_filter(even.clone()).send().await.unwrap().execution_infos), "w4 w2");
    let page = open().maximum_page_size(2).send().await.unwrap();
    assert_eq!(ids(page.execution_infos.clone()), "w4 w3");
    let page = open().maximum_page_size(2).next_page_token(page.next_page_token.unwrap()).send().await.unwrap();
    assert_eq!((ids(page.execution_infos), page.next_page_token), ("w2".to_owned(), None));
    let late = 1_700_000_000 + 31;
    let later = world.swf.list_open_workflow_executions().domain("default").start_time_filter(since(late));
    assert_eq!(ids(later.send().await.unwrap().execution_infos), "w4");
    let count = world.swf.count_open_workflow_executions().domain("default").start_time_filter(since(0));
    let counted = count.clone().send().await.unwrap();
    assert_eq!((counted.count, counted.truncated), (3, false));
    let one = WorkflowExecutionFilter::builder().workflow_id("w3").build().unwrap();
    assert_eq!(count.clone().execution_filter(one.clone()).send().await.unwrap().count, 1);
    let of_type = WorkflowTypeFilter::builder().name(ORDER).build().unwrap();
    assert_eq!(count.type_filter(of_type.clone()).send().await.unwrap().count, 3);
    let closed = || world.swf.list_closed_workflow_executions().domain("default").close_time_filter(since(0));
    let all = closed().send().await.unwrap().execution_infos;
    assert_eq!(all[0].close_status, Some(CloseStatus::Failed));
    assert!(all[0].close_timestamp.is_some());
    assert_eq!(ids(all), "w1 w0");
    let failed = CloseStatusFilter::builder().status(CloseStatus::Failed).build().unwrap();
    assert_eq!(ids(closed().close_status_filter(failed.clone()).send().await.unwrap().execution_infos), "w1");
    let count = world.swf.count_closed_workflow_executions().domain("default").start_time_filter(since(0));
    assert_eq!(count.clone().close_status_filter(failed.clone()).send().await.unwrap().count, 1);
    assert_eq!(count.clone().tag_filter(even).send().await.unwrap().count, 1);
    let two = count.clone().execution_filter(one).type_filter(of_type);
    assert!(fault(two.send().await).starts_with("ValidationException: "));
    assert!(fault(count.close_time_filter(since(0)).send().await).starts_with("ValidationException: "));
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
