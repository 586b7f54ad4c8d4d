//! Side effects, patches, queries, and histories that do not match the code.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::flow::QueryError;

#[test]
fn a_side_effect_runs_once_and_is_read_back() {
    let done = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&done);
    let code = move |ctx: Context, ()| {
        let counter = Arc::clone(&counter);
        async move {
            let first = ctx.side_effect("number", || counter.fetch_add(1, Ordering::Relaxed));
            let _: String = ctx.activity("a", &first).await?;
            let second = ctx.side_effect("number", || counter.fetch_add(1, Ordering::Relaxed));
            ctx.marker("note", &"for people");
            ctx.sleep(seconds(1)).await?;
            Ok(format!("{first} {second}"))
        }
    };
    let flow = Flow::new(code);
    let mut service = service(flow.clone());
    // The effects run only twice, although tests decide every turn twice and replay the whole history at the end.
    assert_eq!(result_of(&mut service), "0 1");
    assert_eq!(done.load(Ordering::Relaxed), 2);
    service.assert_count("1", "Marker", 3);
    replay(&flow, &json(service.history("1"))).unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 2);
}

#[test]
fn a_side_effect_of_a_lost_turn_runs_again() {
    let done = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&done);
    let flow = Flow::new(move |ctx: Context, ()| {
        let counter = Arc::clone(&counter);
        async move {
            let number = ctx.side_effect("number", || counter.fetch_add(1, Ordering::Relaxed));
            ctx.activity::<String>("a", &number).await?;
            Ok(number.to_string())
        }
    });
    let mut service = service(flow.clone());
    // The first answer comes too late, so the decided turn is lost.
    service.turns_take(seconds(31));
    service.start("flow", "1", &());
    service.advance(seconds(29));
    service.turns_take(seconds(0));
    assert_eq!(service.finish("1").result::<String>(), "1");
    service.assert_count("1", "DeciderTimedOut", 1);
    replay(&flow, &json(service.history("1"))).unwrap();
}

/// Returns the history of `sleep`, then `a`.
fn recorded() -> String {
    let mut service = service(flow(async |ctx, ()| {
        ctx.sleep(seconds(1)).await?;
        ctx.activity::<String>("a", &()).await
    }));
    result_of(&mut service);
    json(service.history("1"))
}

fn mismatch<O: Serialize, Fut>(code: impl Code<Fut>) -> (u64, String, String)
where
    Fut: Future<Output = Result<O, Failure>> + Send + 'static,
{
    match error(replay(&flow(code), &recorded())) {
        FlowError::Mismatch { event_id, expected, found } => (event_id, expected, found),
        other => panic!("{other:?}"),
    }
}

#[test]
fn different_code_is_a_mismatch_naming_event_and_both_sides() {
    let (event_id, expected, found) = mismatch(async |ctx: Context, ()| {
        ctx.sleep(seconds(1)).await?;
        ctx.activity::<String>("b", &()).await
    });
    assert_eq!((event_id, expected.as_str(), found.as_str()), (10, "ActivityScheduled `a`", "ScheduleActivity `b`"));
    let (event_id, expected, found) = mismatch(async |ctx: Context, ()| ctx.activity::<String>("a", &()).await);
    assert_eq!((event_id, expected.as_str(), found.as_str()), (5, "TimerScheduled `sleep`", "ScheduleActivity `a`"));
}

#[test]
fn missing_or_additional_decisions_are_a_mismatch() {
    let (event_id, expected, found) = mismatch(async |ctx: Context, ()| {
        ctx.sleep(seconds(1)).await?;
        ctx.signals::<String>("a").next().await
    });
    let nothing = "no further decision in this turn";
    assert_eq!((event_id, expected.as_str(), found.as_str()), (10, "ActivityScheduled `a`", nothing));
    let (event_id, expected, found) = mismatch(async |ctx: Context, ()| {
        let both = futures::join!(ctx.sleep(seconds(1)), ctx.activity::<String>("b", &()));
        both.0
    });
    let expected_here = "TimerScheduled `sleep`, the last decision of its turn";
    assert_eq!((event_id, expected.as_str(), found.as_str()), (5, expected_here, "ScheduleActivity `b`"));
    let (event_id, expected, found) = mismatch(async |ctx: Context, ()| {
        ctx.sleep(seconds(1)).await?;
        ctx.activity::<String>("a", &()).await?;
        ctx.sleep(seconds(1)).await
    });
    assert_eq!((event_id, expected.as_str(), found.as_str()), (16, "WorkflowSuccess", "StartTimer `sleep#2`"));
    let side_effect = mismatch(async |ctx: Context, ()| {
        ctx.side_effect("id", || 1);
        ctx.sleep(seconds(1)).await
    });
    assert_eq!(side_effect.2, "RecordMarker `id`");
}

#[test]
fn inputs_lists_and_timeouts_may_change_with_the_code() {
    let code = async |ctx: Context, ()| {
        ctx.sleep(seconds(7)).await?;
        ctx.activity::<String>("a", &"other").list("other").heartbeat(seconds(1)).await
    };
    replay(&flow(code), &recorded()).unwrap();
}

#[test]
fn a_mismatch_fails_the_turn_but_not_the_run() {
    let code = async |ctx: Context, ()| ctx.sleep(seconds(10)).await;
    let mut service = service(flow(code));
    service.records_given_back();
    service.start("flow", "1", &());
    service.advance(seconds(1));
    service.deploy("flow", flow(async |ctx, ()| ctx.activity::<String>("a", &()).await));
    service.advance(seconds(10));
    let failed = service.history("1").iter().find_map(|event| match &event.kind {
        EventKind::DeciderFailed(it) => Some(it.clone()),
        _ => None,
    });
    let failed = failed.unwrap();
    assert_eq!(failed.reason.as_deref(), Some("flow-mismatch"));
    let message: String = failed.details.unwrap().read().unwrap();
    let expected = "event 5 is TimerScheduled `sleep`, but the code issued ScheduleActivity `a`";
    assert!(message.contains(expected), "{message}");
    assert!(service.run("1").is_open());
    // With the right code the run continues.
    service.deploy("flow", flow(code));
    assert_eq!(service.finish("1").status, Status::Success);
}

/// The code before the change requests only `a`. The code after the change sleeps first, except in runs that have
/// already passed that point.
async fn before(ctx: Context, (): ()) -> Result<String, Failure> {
    ctx.signals::<()>("go").next().await?;
    ctx.activity::<String>("a", &()).await?;
    ctx.activity("b", &()).await
}

async fn after(ctx: Context, (): ()) -> Result<String, Failure> {
    ctx.signals::<()>("go").next().await?;
    if ctx.patched("sleep first") {
        ctx.sleep(seconds(1)).await?;
    }
    ctx.activity::<String>("a", &()).await?;
    // The second call returns the same result for the run, even before a marker is recorded.
    if ctx.patched("sleep first") { ctx.activity("c", &()).await } else { ctx.activity("b", &()).await }
}

async fn long_after(ctx: Context, (): ()) -> Result<String, Failure> {
    ctx.signals::<()>("go").next().await?;
    ctx.deprecate_patch("sleep first");
    ctx.sleep(seconds(1)).await?;
    ctx.activity::<String>("a", &()).await?;
    ctx.activity("c", &()).await
}

fn run_of(flow: Flow) -> (String, Vec<Event>) {
    let mut service = service(flow);
    service.start("flow", "1", &());
    service.after(seconds(1)).signal("1", "go", &());
    let result = service.finish("1").result();
    (result, service.history("1").to_vec())
}

#[test]
fn a_patch_keeps_old_runs_on_the_old_branch() {
    let (before_events, after_events) = (run_of(Flow::new(before)).1, run_of(Flow::new(after)));
    assert_eq!(after_events.0, "c");
    assert!(names(&after_events.1).contains(&"Marker"));
    replay(&Flow::new(after), &json(&before_events)).unwrap();
    // A run that waits for `b` when the new code is deployed ends on the old branch.
    let waits = before_events.iter().position(|event| event.kind.name() == "ActivitySuccess").unwrap();
    let given = crate::testing::Given::history(Flow::new(after), before_events[..waits].to_vec());
    let decisions = given.when(crate::testing::activity_succeeded("a", &"a")).decisions();
    assert!(matches!(&decisions.as_slice(), [Decision::ScheduleActivity(it)] if it.activity_type == "b"));
    // Code without the old branch cannot replay old runs.
    error(replay(&Flow::new(long_after), &json(&before_events)));
    // The code without the old branch can replay new runs, with and without the marker.
    replay(&Flow::new(long_after), &json(&after_events.1)).unwrap();
    replay(&Flow::new(long_after), &json(&run_of(Flow::new(long_after)).1)).unwrap();
    // The old code cannot replay new runs.
    error(replay(&Flow::new(before), &json(&after_events.1)));
}

#[test]
fn queries_read_shared_state_and_change_nothing() {
    let flow = flow(async |ctx, ()| {
        let stage = Arc::new(Mutex::new("new"));
        let seen = Arc::clone(&stage);
        ctx.query("stage", move |(): ()| *seen.lock().unwrap());
        ctx.query("twice", |number: u64| number * 2);
        ctx.query("broken", |(): ()| -> () { panic!("no ink") });
        ctx.sleep(seconds(1)).await?;
        *stage.lock().unwrap() = "slept";
        ctx.sleep(seconds(1)).await
    });
    let mut service = service(flow.clone());
    service.start("flow", "1", &());
    service.finish("1");
    let events = service.history("1");
    let mut state = FlowState::default();
    let query_state = |state: &FlowState, name: &str, input: &str| {
        let input = baton_history::Payload::from_json(input).unwrap();
        flow.answer(state, name, Some(&input)).map(|answer| answer.to_string())
    };
    assert_eq!(query_state(&state, "stage", "null"), Err(QueryError::NotReady));
    let mut stages = Vec::new();
    for event in events {
        flow.evolve(&mut state, event);
        stages.extend(query_state(&state, "stage", "null"));
    }
    stages.dedup();
    assert_eq!(stages, ["\"new\"", "\"slept\""]);
    assert_eq!(query_state(&state, "twice", "21").as_deref(), Ok("42"));
    assert!(matches!(query_state(&state, "twice", "\"x\""), Err(QueryError::Unreadable(_))));
    assert!(matches!(query_state(&state, "broken", "null"), Err(QueryError::Panicked(it)) if it.contains("no ink")));
    let Err(QueryError::Unknown { known, .. }) = query_state(&state, "other", "null") else { panic!() };
    assert_eq!(known, ["broken", "stage", "twice"]);
    assert_eq!(flow.error(&state), None);
}

#[test]
fn a_directory_of_histories_is_replayed() {
    let directory = std::env::temp_dir().join(format!("baton-replay-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    write("1-good.json", &recorded());
    write("2-bad.json", &json(&run_of(Flow::new(before)).1));
    write("3-broken.json", "{");
    write("4-other.json", &recorded().replace("\"flow\"", "\"other\""));
    write("notes.txt", "no history");
    let flow = |workflow_type: &str| {
        (workflow_type == "flow").then(|| {
            flow(async |ctx, ()| {
                ctx.sleep(seconds(1)).await?;
                ctx.activity::<String>("a", &()).await
            })
        })
    };
    let replayed = crate::testing::replay_directory(&directory, flow).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let results: Vec<_> = replayed.iter().map(|(_, replayed)| replayed.as_ref().map_err(ToString::to_string)).collect();
    assert_eq!(results.len(), 4);
    assert_eq!(results[0], Ok(&()));
    assert!(results[1].as_ref().unwrap_err().contains("does not match the history"), "{:?}", results[1]);
    assert!(results[2].as_ref().unwrap_err().starts_with("not a history"), "{:?}", results[2]);
    assert_eq!(results[3].as_ref().unwrap_err(), "no flow for `other`");
}
