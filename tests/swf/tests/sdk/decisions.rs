//! Every decision that succeeds, with all events that it causes in its own run and in other runs.

use aws_sdk_swf::types::{
    CancelTimerDecisionAttributes, ChildPolicy, ContinueAsNewWorkflowExecutionDecisionAttributes,
    FailWorkflowExecutionDecisionAttributes, RecordMarkerDecisionAttributes,
    RequestCancelExternalWorkflowExecutionDecisionAttributes, SignalExternalWorkflowExecutionDecisionAttributes,
    StartTimerDecisionAttributes,
};
use swf_sdk::decisions::{
    cancel, cancel_external, cancel_timer, child_order, complete, continue_with, fail, fail_with, record_marker,
    signal_external, start_child, start_timer, timer,
};
use swf_sdk::{ORDER, World, events, list, names};

#[tokio::test(start_paused = true)]
async fn a_timer_fires() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let note = StartTimerDecisionAttributes::builder().timer_id("t").start_to_fire_timeout("7").control("note");
    world.decide(vec![start_timer(note), timer("at once", 0)]).await;
    world.pass(1).await;
    let expected = "5 TimerStarted { timer_id: \"t\", control: \"note\", start_to_fire_timeout: \"7\", \
     decision_task_completed_event_id: 4 }\n\
        6 TimerStarted { timer_id: \"at once\", start_to_fire_timeout: \"0\", decision_task_completed_event_id: 4 }\n\
        7 TimerFired { timer_id: \"at once\", started_event_id: 6 }\n\
        8 DecisionTaskScheduled { task_list: \"deciders\", start_to_close_timeout: \"60\", \
        schedule_to_start_timeout: \"NONE\" }";
    assert_eq!(events(&world.history("w", &run_id).await[4..], &[]), expected);
    world.decide(vec![]).await;
    world.pass(7).await;
    let history = world.history("w", &run_id).await;
    assert_eq!(events(&history[10..11], &[]), "11 TimerFired { timer_id: \"t\", started_event_id: 5 }");
    let waited = history[10].event_timestamp.secs() - history[4].event_timestamp.secs();
    assert_eq!(waited, 7);
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_canceled_and_its_id_is_free() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let cancel = cancel_timer(CancelTimerDecisionAttributes::builder().timer_id("t"));
    world.decide(vec![timer("t", 7), cancel, timer("t", 9)]).await;
    let expected = "5 TimerStarted { timer_id: \"t\", start_to_fire_timeout: \"7\", \
     decision_task_completed_event_id: 4 }\n\
        6 TimerCanceled { timer_id: \"t\", started_event_id: 5, decision_task_completed_event_id: 4 }\n\
        7 TimerStarted { timer_id: \"t\", start_to_fire_timeout: \"9\", decision_task_completed_event_id: 4 }";
    assert_eq!(events(&world.history("w", &run_id).await[4..], &[]), expected);
}

#[tokio::test(start_paused = true)]
async fn a_marker_and_a_failure() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let marker = record_marker(RecordMarkerDecisionAttributes::builder().marker_name("baton.m").details(""));
    let failure = FailWorkflowExecutionDecisionAttributes::builder().reason("why").details("more").build();
    world.decide(vec![marker, fail_with(failure)]).await;
    let expected = "5 MarkerRecorded { marker_name: \"baton.m\", details: \"\", decision_task_completed_event_id: 4 }\n\
        6 WorkflowExecutionFailed { reason: \"why\", details: \"more\", decision_task_completed_event_id: 4 }";
    let history = world.history("w", &run_id).await;
    assert_eq!(events(&history[4..], &[]), expected);
    assert!(history[4..].iter().all(|event| event.event_timestamp == history[3].event_timestamp));
}

#[tokio::test(start_paused = true)]
async fn a_signal_reaches_another_run_and_itself() {
    let world = World::ready().await;
    let target = world.start("target").await;
    world.decide(vec![]).await;
    let source = world.start("source").await;
    let signal = |id: &str, run_id: &str| {
        let attributes = SignalExternalWorkflowExecutionDecisionAttributes::builder().workflow_id(id).run_id(run_id);
        signal_external(attributes.signal_name("s").input("in").control("note"))
    };
    world.decide(vec![signal("target", &target), signal("source", &source)]).await;
    world.pass(1).await;
    let named = [(target.as_str(), "TARGET"), (source.as_str(), "SOURCE")];
    let expected = "5 WorkflowExecutionSignaled { signal_name: \"s\", input: \"in\", external_workflow_execution: \
        WorkflowExecution { workflow_id: \"source\", run_id: \"SOURCE\" }, external_initiated_event_id: 5 }\n\
        6 DecisionTaskScheduled { task_list: \"deciders\", start_to_close_timeout: \"60\", \
        schedule_to_start_timeout: \"NONE\" }";
    assert_eq!(events(&world.history("target", &target).await[4..], &named), expected);
    let history = events(&world.history("source", &source).await[4..], &named);
    let expected = [
        "5 SignalExternalWorkflowExecutionInitiated { workflow_id: \"target\", run_id: \"TARGET\", signal_name: \"s\", \
         input: \"in\", decision_task_completed_event_id: 4, control: \"note\" }",
        "6 SignalExternalWorkflowExecutionInitiated { workflow_id: \"source\", run_id: \"SOURCE\", signal_name: \"s\", \
         input: \"in\", decision_task_completed_event_id: 4, control: \"note\" }",
    ];
    assert!(history.starts_with(&expected.join("\n")), "{history}");
    for (what, event) in [
        (
            "itself",
            "ExternalWorkflowExecutionSignaled { workflow_execution: WorkflowExecution { workflow_id: \"source\", \
             run_id: \"SOURCE\" }, initiated_event_id: 6 }",
        ),
        (
            "the other",
            "ExternalWorkflowExecutionSignaled { workflow_execution: WorkflowExecution { workflow_id: \"target\", \
             run_id: \"TARGET\" }, initiated_event_id: 5 }",
        ),
    ] {
        assert_eq!(history.matches(event).count(), 1, "{what}: {history}");
    }
    assert_eq!(history.matches("WorkflowExecutionSignaled { signal_name").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_reaches_another_run() {
    let world = World::ready().await;
    let target = world.start("target").await;
    world.decide(vec![]).await;
    let source = world.start("source").await;
    let attributes = RequestCancelExternalWorkflowExecutionDecisionAttributes::builder().workflow_id("target");
    world.decide(vec![cancel_external(attributes.control("note"))]).await;
    world.pass(1).await;
    let named = [(target.as_str(), "TARGET"), (source.as_str(), "SOURCE")];
    let expected = "5 WorkflowExecutionCancelRequested { external_workflow_execution: \
        WorkflowExecution { workflow_id: \"source\", run_id: \"SOURCE\" }, external_initiated_event_id: 5 }";
    assert_eq!(events(&world.history("target", &target).await[4..5], &named), expected);
    let expected = "5 RequestCancelExternalWorkflowExecutionInitiated { workflow_id: \"target\", \
        decision_task_completed_event_id: 4, control: \"note\" }\n\
        6 ExternalWorkflowExecutionCancelRequested { workflow_execution: WorkflowExecution { workflow_id: \"target\", run_id: \"TARGET\" }, initiated_event_id: 5 }\n\
        7 DecisionTaskScheduled { task_list: \"deciders\", start_to_close_timeout: \"60\", \
        schedule_to_start_timeout: \"NONE\" }";
    assert_eq!(events(&world.history("source", &source).await[4..], &named), expected);
    world.decide(vec![cancel()]).await;
    let expected = "9 WorkflowExecutionCanceled { details: \"cleared\", decision_task_completed_event_id: 8 }";
    assert_eq!(events(&world.history("target", &target).await[8..], &named), expected);
}

#[tokio::test(start_paused = true)]
async fn a_child_closes_in_every_way_and_its_parent_hears_of_it() {
    let world = World::ready().await;
    let closes = ["Completed", "Failed", "Canceled", "TimedOut", "Terminated"];
    for close in closes {
        let run_id = world.start("parent").await;
        let child = child_order("child").input("in").execution_start_to_close_timeout("30").task_priority("3");
        world.decide(vec![start_child(child.tag_list("t").lambda_role("role"))]).await;
        world.decide(vec![]).await;
        let turn = world.turn_of("children").await;
        let child = turn.workflow_execution.as_ref().unwrap().run_id.clone();
        let started = "1 WorkflowExecutionStarted { input: \"in\", execution_start_to_close_timeout: \"30\", \
            task_start_to_close_timeout: \"60\", child_policy: Terminate, task_list: \"children\", task_priority: \"3\", \
            workflow_type: \"order/1\", tag_list: [\"t\"], parent_workflow_execution: WorkflowExecution { workflow_id: \"parent\", run_id: \"PARENT\" }, \
            parent_initiated_event_id: 5, lambda_role: \"role\" }";
        assert_eq!(events(&turn.events()[..1], &[(&run_id, "PARENT")]), started);
        let more = match close {
            "Completed" => {
                world.answer(&turn, vec![complete("r")]).await;
                "result: \"r\", "
            }
            "Failed" => {
                world.answer(&turn, vec![fail("why")]).await;
                "reason: \"why\", "
            }
            "Canceled" => {
                world.answer(&turn, vec![cancel()]).await;
                "details: \"cleared\", "
            }
            "TimedOut" => {
                world.pass(31).await;
                "timeout_type: StartToClose, "
            }
            _ => {
                let terminate = world.swf.terminate_workflow_execution().domain("default").workflow_id("child");
                terminate.run_id(&child).send().await.unwrap();
                ""
            }
        };
        world.pass(1).await;
        let expected = format!(
            "10 ChildWorkflowExecution{close} {{ workflow_execution: WorkflowExecution {{ workflow_id: \"child\", \
             run_id: \"CHILD\" }}, \
             workflow_type: \"order/1\", {more}initiated_event_id: 5, started_event_id: 6 }}"
        );
        let history = world.history("parent", &run_id).await;
        assert_eq!(events(&history[9..10], &[(&child, "CHILD")]), expected);
        assert_eq!(names(&history[10..]), "DTScheduled");
        world.decide(vec![complete("")]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_goes_on_as_new_reports_when_its_successor_closes() {
    let world = World::ready().await;
    let run_id = world.start("parent").await;
    world.decide(vec![start_child(child_order("child"))]).await;
    world.decide(vec![]).await;
    let turn = world.turn_of("children").await;
    let go_on = ContinueAsNewWorkflowExecutionDecisionAttributes::builder().task_list(list("children")).build();
    world.answer(&turn, vec![continue_with(go_on)]).await;
    world.pass(1).await;
    assert_eq!(world.history("parent", &run_id).await.len(), 9, "silent");
    let next = world.turn_of("children").await;
    assert!(events(&next.events()[..1], &[]).contains("parent_workflow_execution"), "the link is kept");
    world.answer(&next, vec![complete("r")]).await;
    world.pass(1).await;
    assert_eq!(names(&world.history("parent", &run_id).await[9..]), "ChildCompleted DTScheduled");
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_with_what_is_said_and_its_type() {
    let world = World::ready().await;
    let second = world.swf.register_workflow_type().domain("default").name(ORDER).version("2");
    second.send().await.unwrap();
    let run_id = world.start("w").await;
    let attributes = ContinueAsNewWorkflowExecutionDecisionAttributes::builder()
        .workflow_type_version("2")
        .execution_start_to_close_timeout("99")
        .task_start_to_close_timeout("NONE")
        .task_list(list("others"))
        .task_priority("7")
        .child_policy(ChildPolicy::Abandon)
        .tag_list("t")
        .lambda_role("role");
    world.decide(vec![continue_with(attributes.build())]).await;
    let turn = world.turn_of("others").await;
    let next = turn.workflow_execution.as_ref().unwrap().run_id.clone();
    let settings = "execution_start_to_close_timeout: \"99\", ";
    let expected = format!(
        "1 WorkflowExecutionStarted {{ {settings}task_start_to_close_timeout: \"NONE\", child_policy: Abandon, \
         task_list: \"others\", task_priority: \"7\", workflow_type: \"order/2\", tag_list: [\"t\"], \
         continued_execution_run_id: \"FIRST\", parent_initiated_event_id: 0, lambda_role: \"role\" }}"
    );
    assert_eq!(events(&turn.events()[..1], &[(&run_id, "FIRST")]), expected);
    let expected = format!(
        "5 WorkflowExecutionContinuedAsNew {{ decision_task_completed_event_id: 4, new_execution_run_id: \"NEXT\", \
         {settings}task_list: \"others\", task_priority: \"7\", task_start_to_close_timeout: \"NONE\", child_policy: Abandon, \
         tag_list: [\"t\"], workflow_type: \"order/2\", lambda_role: \"role\" }}"
    );
    assert_eq!(events(&world.history("w", &run_id).await[4..], &[(&next, "NEXT")]), expected);
}
