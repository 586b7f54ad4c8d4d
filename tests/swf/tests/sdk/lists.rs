//! Task lists: turns that move to another list, and priorities.

use swf_sdk::decisions::{cancel_activity, charge, complete, schedule_activity};
use swf_sdk::{ORDER, World, events, list, workflow};

async fn signal(world: &World) {
    signal_to(world, "w").await;
}

async fn signal_to(world: &World, id: &str) {
    let signal = world.swf.signal_workflow_execution().domain("default").workflow_id(id).signal_name("s");
    signal.send().await.unwrap();
}

fn scheduled(id: u32, name: &str, wait: &str) -> String {
    format!(
        "{id} DecisionTaskScheduled {{ task_list: \"{name}\", start_to_close_timeout: \"60\", schedule_to_start_timeout: \"{wait}\" }}"
    )
}

#[tokio::test(start_paused = true)]
async fn turns_move_to_another_list_for_good() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let turn = world.turn().await;
    // A turn that is already scheduled stays in its list.
    signal(&world).await;
    let answer = world.swf.respond_decision_task_completed().task_token(turn.task_token).task_list(list("others"));
    answer.send().await.unwrap();
    let turn = world.turn().await;
    assert_eq!(turn.started_event_id, 7);
    world.answer(&turn, vec![]).await;
    signal(&world).await;
    assert_eq!(world.turn().await.started_event_id, 0);
    let late = world.turn_of("others").await;
    world.pass(60).await;
    let turn = world.turn_of("others").await;
    assert_eq!((late.started_event_id, turn.started_event_id), (11, 14), "a timeout changes nothing");
    let history = world.history("w", &run_id).await;
    let moved = "6 DecisionTaskCompleted { scheduled_event_id: 2, started_event_id: 3, task_list: \"others\" }";
    assert_eq!(events(&history[5..6], &[]), moved);
    assert_eq!(events(&history[9..10], &[]), scheduled(10, "others", "NONE"));
    world.answer(&turn, vec![complete("")]).await;
}

#[tokio::test(start_paused = true)]
async fn turns_move_to_another_list_until_nobody_takes_them_there() {
    let world = World::ready().await;
    let run_id = world.start("w").await;
    let answer = async |token: String| {
        let answer = world.swf.respond_decision_task_completed().task_token(token).task_list(list("others"));
        answer.task_list_schedule_to_start_timeout("5").send().await.unwrap();
    };
    answer(world.turn().await.task_token).await;
    signal(&world).await;
    world.pass(5).await;
    let expected = [
        "4 DecisionTaskCompleted { scheduled_event_id: 2, started_event_id: 3, task_list: \"others\", \
         task_list_schedule_to_start_timeout: \"5\" }",
        "5 WorkflowExecutionSignaled { signal_name: \"s\", external_initiated_event_id: 0 }",
        &scheduled(6, "others", "5"),
        "7 DecisionTaskTimedOut { timeout_type: ScheduleToStart, scheduled_event_id: 6, started_event_id: 0 }",
        &scheduled(8, "deciders", "NONE"),
    ];
    assert_eq!(events(&world.history("w", &run_id).await[3..], &[]), expected.join("\n"));
    // If a turn is taken from the other list but not answered, later turns return to the old list, too.
    answer(world.turn().await.task_token).await;
    signal(&world).await;
    assert_ne!(world.turn_of("others").await.started_event_id, 0);
    world.pass(60).await;
    world.decide(vec![complete("")]).await;
}

#[tokio::test(start_paused = true)]
async fn what_has_come_to_its_end_on_its_list_is_not_counted_any_more() {
    let world = World::ready().await;
    let turns = async || {
        let count = world.swf.count_pending_decision_tasks().domain("default").task_list(list("deciders"));
        count.send().await.unwrap().count
    };
    let tasks = async || {
        let count = world.swf.count_pending_activity_tasks().domain("default").task_list(list("runners"));
        count.send().await.unwrap().count
    };
    let terminate = async |id: &str| {
        world.swf.terminate_workflow_execution().domain("default").workflow_id(id).send().await.unwrap();
    };
    world.start("a").await;
    world.start("b").await;
    assert_eq!(turns().await, 2);
    terminate("a").await;
    assert_eq!(turns().await, 1);
    let turn = world.turn().await;
    assert_eq!((turn.workflow_execution.as_ref().unwrap().workflow_id.as_str(), turns().await), ("b", 0));
    let decisions = ["1", "2", "3"].map(|id| schedule_activity(charge(id)));
    world.answer(&turn, decisions.into()).await;
    assert_eq!(tasks().await, 3);
    // The first activity is taken, the second is canceled, and the third ends with its run.
    assert_eq!(world.task().await.activity_id, "1");
    assert_eq!(tasks().await, 2);
    signal_to(&world, "b").await;
    let cancel = aws_sdk_swf::types::RequestCancelActivityTaskDecisionAttributes::builder().activity_id("2");
    world.decide(vec![cancel_activity(cancel)]).await;
    assert_eq!(tasks().await, 1);
    terminate("b").await;
    assert_eq!((tasks().await, turns().await), (0, 0));
    world.start("c").await;
    assert_eq!(world.turn().await.workflow_execution.unwrap().workflow_id, "c");
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_higher_priority_come_first_and_of_equals_the_oldest() {
    let world = World::ready().await;
    for (id, priority) in
        [("a", None), ("b", Some("-1")), ("c", Some("2147483647")), ("d", Some("0")), ("e", Some("5"))]
    {
        let start =
            world.swf.start_workflow_execution().domain("default").workflow_id(id).workflow_type(workflow(ORDER));
        start.set_task_priority(priority.map(str::to_owned)).send().await.unwrap();
    }
    let mut order = Vec::new();
    for id in 0..5 {
        let turn = world.turn().await;
        order.push(turn.workflow_execution.as_ref().unwrap().workflow_id.clone());
        let attributes = charge(&id.to_string()).task_priority((id % 3).to_string());
        world.answer(&turn, vec![schedule_activity(attributes)]).await;
    }
    assert_eq!(order, ["c", "e", "a", "d", "b"]);
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(world.task().await.activity_id);
    }
    assert_eq!(order, ["2", "1", "4", "0", "3"]);
}
