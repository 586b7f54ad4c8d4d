//! A service that enforces SWF's limits, compared with one that does not.

use engine::SwfQuotas;
use history::{Duration, SwfLimits};
use swf_sdk::decisions::{child_order, complete, marker, start_child};
use swf_sdk::{ORDER, World, events, fault, list, names, workflow};

async fn signal(world: &World, id: &str) {
    let signal = world.swf.signal_workflow_execution().domain("default").workflow_id(id).signal_name("s");
    signal.send().await.unwrap();
}

#[test]
fn the_limits_are_those_of_aws() {
    let run = SwfLimits { events: 25_000, time: Duration::from_days(365) };
    let expected = SwfQuotas { run, open_runs: 100_000, domains: 100, pollers: 1_000 };
    assert_eq!(SwfQuotas::default(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_run_with_too_many_events_is_terminated() {
    let run = SwfLimits { events: 5, ..SwfLimits::default() };
    let world = World::limited(SwfQuotas { run, ..SwfQuotas::default() }).await;
    let run_id = world.start("w").await;
    world.decide(vec![marker("m")]).await;
    assert_eq!(names(&world.history("w", &run_id).await), "Started DTScheduled DTStarted DTCompleted MarkerRecorded");
    signal(&world, "w").await;
    let history = world.history("w", &run_id).await;
    let ended = "8 WorkflowExecutionTerminated { child_policy: Terminate, cause: EventLimitExceeded }";
    assert_eq!(events(&history[7..], &[]), ended);
}

/// The test uses a limit of an hour. SWF's limit of a year would take long even in simulated time.
#[tokio::test(start_paused = true)]
async fn a_run_is_open_for_as_long_as_may_be_whatever_its_start_says() {
    let run = SwfLimits { time: Duration::from_secs(3_600), ..SwfLimits::default() };
    let limited = World::limited(SwfQuotas { run, ..SwfQuotas::default() }).await;
    for (world, is_open, told) in [(limited, false, "3600"), (World::ready().await, true, "7200")] {
        let start =
            world.swf.start_workflow_execution().domain("default").workflow_id("w").workflow_type(workflow(ORDER));
        let run_id = start.execution_start_to_close_timeout("7200").send().await.unwrap().run_id.unwrap();
        world.decide(vec![]).await;
        world.pass(3_599).await;
        let history = world.history("w", &run_id).await;
        assert_eq!(history.len(), 4);
        assert!(events(&history[..1], &[]).contains(&format!("execution_start_to_close_timeout: \"{told}\"")));
        world.pass(1).await;
        let last = if is_open { "DTCompleted" } else { "TimedOut" };
        assert!(names(&world.history("w", &run_id).await).ends_with(last), "{is_open}");
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_runs_are_open_in_a_domain_as_may_be_children_included() {
    let world = World::limited(SwfQuotas { open_runs: 3, ..SwfQuotas::default() }).await;
    let start = |id: &str| {
        let start = world.swf.start_workflow_execution().domain("default").workflow_id(id);
        start.workflow_type(workflow(ORDER)).send()
    };
    let parent = world.start("parent").await;
    start("a").await.unwrap();
    world.decide(vec![start_child(child_order("child"))]).await;
    world.pass(1).await;
    assert!(fault(start("b").await).starts_with("LimitExceededFault: "));
    assert!(fault(start("b").await).starts_with("LimitExceededFault: "), "and again");
    let before = world.history("parent", &parent).await.len();
    loop {
        let turn = world.turn().await;
        if turn.workflow_execution.as_ref().unwrap().workflow_id == "parent" {
            world.answer(&turn, vec![start_child(child_order("another"))]).await;
            break;
        }
        world.answer(&turn, vec![]).await;
    }
    let history = world.history("parent", &parent).await;
    let failed = events(&history[before..], &[]);
    assert!(
        failed.contains("cause: OpenWorkflowsLimitExceeded, workflow_id: \"another\", initiated_event_id: 0"),
        "{failed}"
    );
    // After a run has closed, another one can be started within a second.
    world.swf.terminate_workflow_execution().domain("default").workflow_id("a").send().await.unwrap();
    world.pass(1).await;
    start("b").await.unwrap();
    assert!(fault(start("c").await).starts_with("LimitExceededFault: "));
    // Each domain has a separate limit.
    let register = world.swf.register_domain().name("d").workflow_execution_retention_period_in_days("1");
    register.send().await.unwrap();
    let elsewhere = world.swf.register_workflow_type().domain("d").name(ORDER).version("1");
    let elsewhere = elsewhere.default_task_start_to_close_timeout("60").default_execution_start_to_close_timeout("60");
    let elsewhere =
        elsewhere.default_task_list(list("l")).default_child_policy(aws_sdk_swf::types::ChildPolicy::Abandon);
    elsewhere.send().await.unwrap();
    let start = world.swf.start_workflow_execution().domain("d").workflow_id("a").workflow_type(workflow(ORDER));
    start.send().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn there_are_as_many_domains_as_may_be_deprecated_ones_included() {
    let world = World::limited(SwfQuotas { domains: 2, ..SwfQuotas::default() }).await;
    let register =
        |name: &str| world.swf.register_domain().name(name).workflow_execution_retention_period_in_days("1").send();
    register("second").await.unwrap();
    world.swf.deprecate_domain().name("second").send().await.unwrap();
    assert!(fault(register("third").await).starts_with("LimitExceededFault: "));
}

#[tokio::test(start_paused = true)]
async fn as_many_polls_wait_on_a_list_as_may_be() {
    let world = World::limited(SwfQuotas { pollers: 2, ..SwfQuotas::default() }).await;
    let polls: Vec<_> = (0..2)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move { world.turn().await })
        })
        .collect();
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    let poll = |name: &str| world.swf.poll_for_decision_task().domain("default").task_list(list(name)).send();
    assert!(fault(poll("deciders").await).starts_with("LimitExceededFault: "));
    assert_eq!(poll("others").await.unwrap().started_event_id, 0, "another list");
    for poll in polls {
        assert_eq!(poll.await.unwrap().started_event_id, 0);
    }
    world.start("w").await;
    let turn = world.turn().await;
    world.answer(&turn, vec![complete("")]).await;
}
