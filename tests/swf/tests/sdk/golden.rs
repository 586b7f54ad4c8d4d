//! Complete histories, compared event by event with recorded files.

use aws_sdk_swf::types::HistoryEvent;
use swf_sdk::decisions::{child_order, complete, go_on, schedule, start_child};
use swf_sdk::{World, events};

/// Compares a history with the recorded file, in which run ids are replaced by names.
#[track_caller]
fn check(name: &str, history: &[HistoryEvent], named: &[(&str, &str)]) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(events(history, named), expected.trim_end(), "{path}");
}

#[tokio::test(start_paused = true)]
async fn no_activity() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let turn = world.decide(vec![complete("")]).await;
    assert_eq!((turn.started_event_id, turn.previous_started_event_id), (3, 0));
    let history = world.history("w", &run_id).await;
    assert_eq!(turn.events(), &history[..3]);
    check("no-activity", &history, &[]);
}

#[tokio::test(start_paused = true)]
async fn one_activity() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![schedule("a")]).await;
    let task = world.task().await;
    assert_eq!((task.activity_id(), task.started_event_id, task.input()), ("a", 6, Some("in")));
    let done = world.swf.respond_activity_task_completed().task_token(task.task_token).result("ok");
    done.send().await.unwrap();
    let turn = world.decide(vec![complete("done")]).await;
    assert_eq!((turn.started_event_id, turn.previous_started_event_id), (9, 3));
    check("one-activity", &world.history("w", &run_id).await, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_while_a_decision_runs() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![schedule("a")]).await;
    let task = world.task().await;
    let signal = world.swf.signal_workflow_execution().domain("default").workflow_id("w").signal_name("go");
    signal.input("now").send().await.unwrap();
    let turn = world.turn().await;
    let done = world.swf.respond_activity_task_completed().task_token(task.task_token).result("ok");
    done.send().await.unwrap();
    world.answer(&turn, vec![]).await;
    world.decide(vec![complete("done")]).await;
    check("result-while-a-decision-runs", &world.history("w", &run_id).await, &[]);
}

#[tokio::test(start_paused = true)]
async fn a_child() {
    let world = World::ready().await;
    let run_id = world.start("parent").await;
    world.decide(vec![start_child(child_order("child").control("note"))]).await;
    world.decide(vec![]).await;
    let turn = world.turn_of("children").await;
    let child = turn.workflow_execution().unwrap().run_id.clone();
    world.answer(&turn, vec![complete("of child")]).await;
    world.decide(vec![complete("done")]).await;
    let named = [(child.as_str(), "CHILD"), (run_id.as_str(), "PARENT")];
    check("child-in-its-parent", &world.history("parent", &run_id).await, &named);
    check("child", &world.history("child", &child).await, &named);
}

#[tokio::test(start_paused = true)]
async fn continue_as_new() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    world.decide(vec![go_on()]).await;
    let next = world.decide(vec![complete("done")]).await.workflow_execution.unwrap().run_id;
    let named = [(next.as_str(), "NEXT"), (run_id.as_str(), "FIRST")];
    check("continue-as-new", &world.history("w", &run_id).await, &named);
    check("continue-as-new-successor", &world.history("w", &next).await, &named);
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_times_out() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let late = world.turn().await;
    world.pass(60).await;
    let turn = world.turn().await;
    assert_eq!((turn.started_event_id, turn.previous_started_event_id), (6, 0), "no decider has processed it");
    let answer = world.swf.respond_decision_task_completed().task_token(late.task_token).send().await;
    assert_eq!(swf_sdk::fault(answer), "UnknownResourceFault: Unknown decision task, scheduledEventId = 2");
    check("decision-that-times-out", &world.history("w", &run_id).await, &[]);
}
