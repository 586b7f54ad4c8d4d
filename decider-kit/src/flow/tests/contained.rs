//! Errors of flows: each gives the turn back with a message and leaves the run open.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// Returns the message with which the first turn of this flow is given back.
fn given_back(flow: Flow) -> String {
    let decisions = crate::testing::given(flow, "flow").decisions();
    decisions.given_back().expect("the turn is given back").to_owned()
}

#[test]
fn a_panic_gives_the_turn_back_with_its_message() {
    let message = given_back(flow::<(), _>(async |_, ()| panic!("no {}", "ink")));
    assert_eq!(message, "the flow panicked: no ink");
}

#[test]
fn awaiting_a_foreign_future_is_a_deadlock() {
    let message = given_back(flow(async |ctx, ()| {
        let sleep = ctx.sleep(seconds(1)).start();
        std::future::pending::<()>().await;
        sleep.await
    }));
    assert!(message.contains("it does not wait for an activity"), "{message}");
    assert!(message.contains("open, but not awaited: timer `sleep`"), "{message}");
}

#[test]
fn a_later_deadlock_is_detected_when_it_happens() {
    let mut service = service(flow(async |ctx, ()| {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let (slept, _) = futures::join!(ctx.sleep(seconds(1)), receiver);
        // The sender is still alive, so the receiver never resolves.
        drop(sender);
        slept
    }));
    service.start("flow", "1", &());
    let ended = catch_unwind(AssertUnwindSafe(|| service.finish("1"))).unwrap_err();
    let message = baton_client::shutdown::panic_message(&*ended);
    assert!(message.contains("the decider returned the turn: the flow is deadlocked"), "{message}");
}

#[test]
fn a_flow_that_loops_is_stopped() {
    let message = given_back(flow::<(), _>(async |_, ()| {
        std::future::poll_fn(|task| {
            task.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await
    }));
    assert!(message.contains("in an endless loop"), "{message}");
}

/// Runs the check outside any runtime and inside a task, as hosts do.
fn everywhere(check: fn()) {
    check();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(async move { check() }).await.unwrap() });
}

#[test]
fn channels_within_a_flow_work_and_have_no_budget() {
    everywhere(|| {
        let mut service = service(flow(async |_, ()| {
            let (sender, mut receiver) = tokio::sync::mpsc::channel::<u32>(1);
            let send = async move {
                for number in 0..1_000 {
                    sender.send(number).await.unwrap();
                }
            };
            let receive = async {
                let mut sum = 0;
                while let Some(number) = receiver.recv().await {
                    sum += number;
                }
                sum
            };
            Ok(futures::join!(send, receive).1.to_string())
        }));
        assert_eq!(result_of(&mut service), "499500");
    });
}

#[test]
fn calls_that_need_a_runtime_fail_with_advice() {
    everywhere(|| {
        let slept = given_back(flow(async |_, ()| {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            Ok(())
        }));
        assert!(slept.contains("use `ctx.sleep` for time and an activity for work"), "{slept}");
        let spawned = given_back(flow(async |ctx, ()| {
            tokio::spawn(async {});
            ctx.sleep(seconds(1)).await
        }));
        assert!(spawned.contains("the flow spawned a task"), "{spawned}");
        // The thread is still usable.
        let message = given_back(flow::<(), _>(async |_, ()| panic!("no ink")));
        assert_eq!(message, "the flow panicked: no ink");
    });
}

#[test]
fn a_value_of_another_type_waits_for_other_code() {
    let message = given_back(Flow::new(async |_: Context, input: u64| Ok(input)));
    assert!(message.starts_with("event 1: cannot read the run's input: "), "{message}");
    let mut service = service(flow(async |ctx, ()| ctx.activity::<u64>("a", &()).await));
    service.records_given_back();
    service.start("flow", "1", &());
    service.advance(seconds(60));
    assert!(service.run("1").is_open());
    let failed = service.history("1").iter().find_map(|event| match &event.kind {
        EventKind::DeciderFailed(it) => Some(it.clone()),
        _ => None,
    });
    let failed = failed.unwrap();
    assert_eq!(failed.reason.as_deref(), Some("flow-unreadable"));
    let message: String = failed.details.unwrap().read().unwrap();
    assert!(message.contains("event 7: cannot read the result of `a`: "), "{message}");
    // Other code continues the run.
    service.deploy("flow", flow(async |ctx, ()| ctx.activity::<String>("a", &()).await));
    assert_eq!(service.finish("1").result::<String>(), "a");
}

#[test]
fn a_reserved_marker_name_is_refused() {
    let message = given_back(flow(async |ctx, ()| Ok(ctx.side_effect("baton.id", || 1))));
    assert!(message.contains("the name `baton.id` is reserved"), "{message}");
}

/// A query must not affect the run; it cannot even use up an id that the flow would get.
#[test]
fn requests_made_by_a_query_are_ignored() {
    let flow = flow(async |ctx, ()| {
        let inner = ctx.clone();
        ctx.query("bad", move |(): ()| drop(inner.sleep(seconds(1)).start()));
        ctx.sleep(seconds(1)).await?;
        ctx.sleep(seconds(1)).await
    });
    let mut service = service(flow.clone());
    service.start("flow", "1", &());
    service.finish("1");
    let mut state = FlowState::default();
    for event in service.history("1") {
        flow.evolve(&mut state, event);
        let _ = flow.answer(&state, "bad", None);
    }
    assert_eq!(flow.error(&state), None);
}
