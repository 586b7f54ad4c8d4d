//! Lambda tasks: executed by functions that the operator registered, or failed as documented.

use std::collections::BTreeMap;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use swf_sdk::decisions::{complete, lambda, schedule_lambda};
use swf_sdk::{World, events, execution};

/// Returns the events of a run after its first decision, without the events of turns.
async fn since(world: &World, run_id: &str) -> String {
    let text = events(&world.history("w", run_id).await[4..], &[]);
    text.lines().filter(|line| !line.contains(" DecisionTask")).collect::<Vec<_>>().join("\n")
}

fn functions<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, service::lambda::Function> {
    given.into_iter().map(|(name, what)| (name.to_owned(), what.parse().unwrap())).collect()
}

fn scheduled(name: &str, seconds: u32) -> String {
    format!(
        "5 LambdaFunctionScheduled {{ id: \"1\", name: \"{name}\", control: \"note\", input: \"in\", \
         start_to_close_timeout: \"{seconds}\", decision_task_completed_event_id: 4 }}"
    )
}

const STARTED: &str = "6 LambdaFunctionStarted { scheduled_event_id: 5 }";

#[tokio::test(start_paused = true)]
async fn without_functions_the_service_is_not_available() {
    let world = World::ready().await;
    let run_id = world.start_with_role("w").await;
    world.decide(vec![lambda("1", "echo")]).await;
    let expected = "5 ScheduleLambdaFunctionFailed { id: \"1\", name: \"echo\", \
                    cause: LambdaServiceNotAvailableInRegion, decision_task_completed_event_id: 4 }";
    assert_eq!(since(&world, &run_id).await, expected);
    world.decide(vec![complete("")]).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_role_it_is_scheduled_and_never_started() {
    let world = World::ready().await;
    service::lambda::serve(&world.engine, functions([("echo", "cat")]));
    let run_id = world.start("w").await;
    world.decide(vec![lambda("1", "echo")]).await;
    let expected = format!(
        "{}\n6 StartLambdaFunctionFailed {{ scheduled_event_id: 5, cause: AssumeRoleFailed, \
         message: \"The run has no Lambda role\" }}",
        scheduled("echo", 900)
    );
    assert_eq!(since(&world, &run_id).await, expected);
    world.decide(vec![complete("")]).await;
}

#[tokio::test(start_paused = true)]
async fn an_id_is_used_once_and_there_are_a_thousand_at_most() {
    let world = World::ready().await;
    // Functions are registered, but their tasks are never executed.
    let _tasks = world.engine.lists().lambda_tasks();
    let run_id = world.start_with_role("w").await;
    world.decide(vec![lambda("1", "echo"), lambda("1", "echo")]).await;
    let expected = format!(
        "{}\n6 ScheduleLambdaFunctionFailed {{ id: \"1\", name: \"echo\", cause: IdAlreadyInUse, \
         decision_task_completed_event_id: 4 }}",
        scheduled("echo", 900)
    );
    assert_eq!(since(&world, &run_id).await, expected);
    let described = world.swf.describe_workflow_execution().domain("default").execution(execution("w", &run_id));
    let counts = described.send().await.unwrap().open_counts.unwrap();
    assert_eq!((counts.open_lambda_functions, counts.open_activity_tasks), (1, 0));
    // The failed decision schedules the next turn. An activity may have the same id as a function.
    world.decide((2..=1_001).map(|n| lambda(&n.to_string(), "echo")).collect()).await;
    let failed = "ScheduleLambdaFunctionFailed { id: \"1001\", name: \"echo\", cause: OpenLambdaFunctionsLimitExceeded";
    assert_eq!(since(&world, &run_id).await.matches(failed).count(), 1);
}

#[tokio::test]
async fn a_command_has_the_input_and_says_the_result() {
    let world = World::ready().await;
    service::lambda::serve(
        &world.engine,
        functions([("echo", "cat; printf ' done'"), ("fails", "echo no >&2; exit 3")]),
    );
    let run_id = world.start_with_role("w").await;
    world.decide(vec![lambda("1", "echo")]).await;
    let turn = world.turn().await;
    let expected = format!(
        "{}\n{STARTED}\n7 LambdaFunctionCompleted {{ scheduled_event_id: 5, started_event_id: 6, result: \"in done\" }}",
        scheduled("echo", 900)
    );
    assert_eq!(since(&world, &run_id).await, expected);
    let without_input = aws_sdk_swf::types::ScheduleLambdaFunctionDecisionAttributes::builder().id("1").name("echo");
    world.answer(&turn, vec![schedule_lambda(without_input)]).await;
    world.decide(vec![lambda("2", "fails")]).await;
    world.decide(vec![lambda("3", "none")]).await;
    // This poll requests only the events since the last turn. The service looks up the earlier events of the function.
    let poll = world.swf.poll_for_decision_task().domain("default").task_list(swf_sdk::list("deciders"));
    let turn = poll.start_at_previous_started_event(true).send().await.unwrap();
    let history = since(&world, &run_id).await;
    for expected in [
        "result: \"{} done\" }",
        "started_event_id: 18, reason: \"UnhandledError\", details: \"exit status: 3: no\\n\" }",
        "reason: \"ResourceNotFoundException\", details: \"Function not found: none\" }",
    ] {
        assert_eq!(history.matches(expected).count(), 1, "{expected}: {history}");
    }
    assert!(
        swf_sdk::names(turn.events()).ends_with("LambdaFunctionStarted LambdaFunctionFailed DTScheduled DTStarted")
    );
    world.answer(&turn, vec![complete("")]).await;
}

#[tokio::test]
async fn an_endpoint_is_posted_the_input_and_answers_the_result() {
    #[expect(clippy::disallowed_methods, reason = "a service of others, which has no levels")]
    let router = Router::new()
        .route("/echo", post(|body: String| async move { format!("{body} done") }))
        .route("/fails", post(|| async { (StatusCode::BAD_GATEWAY, "no") }))
        .route("/long", post(|| async { "x".repeat(32_769) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let world = World::ready().await;
    let urls = ["echo", "fails", "long"].map(|name| (name, format!("http://{address}/{name}")));
    service::lambda::serve(&world.engine, functions(urls.iter().map(|(name, url)| (*name, url.as_str()))));
    let cases = [
        ("echo", "LambdaFunctionCompleted { scheduled_event_id: 5, started_event_id: 6, result: \"in done\" }"),
        (
            "fails",
            "LambdaFunctionFailed { scheduled_event_id: 5, started_event_id: 6, reason: \"UnhandledError\", \
             details: \"502 Bad Gateway: no\" }",
        ),
        (
            "long",
            "LambdaFunctionFailed { scheduled_event_id: 5, started_event_id: 6, reason: \"ResultTooLarge\", \
             details: \"the result has 32769 characters, at most 32768 are allowed\" }",
        ),
    ];
    for (name, closed) in cases {
        let run_id = world.start_with_role("w").await;
        world.decide(vec![lambda("1", name)]).await;
        world.decide(vec![complete("")]).await;
        let history = since(&world, &run_id).await;
        assert!(history.starts_with(&format!("{}\n{STARTED}\n7 {closed}", scheduled(name, 900))), "{history}");
    }
}

#[tokio::test]
async fn a_service_that_stops_waits_for_the_calls_that_are_under_way() {
    let world = World::ready().await;
    let calls = service::lambda::serve(&world.engine, functions([("slow", "sleep 0.5; echo done")]));
    let run_id = world.start_with_role("w").await;
    world.decide(vec![lambda("1", "slow")]).await;
    while !since(&world, &run_id).await.contains(STARTED) {
        tokio::task::yield_now().await;
    }
    world.engine.begin_shutdown();
    calls.finish(std::time::Duration::from_secs(60)).await;
    let history = since(&world, &run_id).await;
    assert!(history.contains("7 LambdaFunctionCompleted"), "{history}");
}

#[tokio::test(start_paused = true)]
async fn a_function_that_takes_too_long_times_out() {
    let world = World::ready().await;
    service::lambda::serve(&world.engine, functions([("sleeps", "exec sleep 1000")]));
    let run_id = world.start_with_role("w").await;
    let sleeps = aws_sdk_swf::types::ScheduleLambdaFunctionDecisionAttributes::builder().id("1").name("sleeps");
    world.decide(vec![schedule_lambda(sleeps.input("in").control("note").start_to_close_timeout("7"))]).await;
    let before = tokio::time::Instant::now();
    world.decide(vec![complete("")]).await;
    assert_eq!(before.elapsed().as_secs(), 7);
    let timed_out =
        "7 LambdaFunctionTimedOut { scheduled_event_id: 5, started_event_id: 6, timeout_type: StartToClose }";
    let history = since(&world, &run_id).await;
    assert!(history.starts_with(&format!("{}\n{STARTED}\n{timed_out}", scheduled("sleeps", 7))), "{history}");
}
