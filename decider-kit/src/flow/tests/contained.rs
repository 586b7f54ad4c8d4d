//! What goes wrong fails the turn, says what it was, and leaves the run open.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// What the decider says about the first turn of a run of this flow.
fn given_back(flow: Flow) -> String {
    let decisions = crate::testing::given(flow, "flow").decisions();
    decisions.given_back().expect("the turn is given back").to_owned()
}

#[test]
fn a_panic_gives_the_turn_back_with_its_message() {
    let said = given_back(flow::<(), _>(async |_, ()| panic!("no {}", "ink")));
    assert_eq!(said, "the flow panicked: no ink");
}

#[test]
fn a_flow_that_awaits_something_else_is_found_out() {
    let said = given_back(flow(async |ctx, ()| {
        let sleep = ctx.sleep(seconds(1)).start();
        std::future::pending::<()>().await;
        sleep.await
    }));
    assert!(said.contains("waits for nothing that a history could bring"), "{said}");
    assert!(said.contains("open, but not awaited: timer `sleep`"), "{said}");
}

#[test]
fn a_flow_that_awaits_something_else_later_is_found_out_then() {
    let mut service = service(flow(async |ctx, ()| {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let (slept, _) = futures::join!(ctx.sleep(seconds(1)), receiver);
        // The sender is still here, so that the receiver never ends.
        drop(sender);
        slept
    }));
    service.start("flow", "1", &());
    let ended = catch_unwind(AssertUnwindSafe(|| service.finish("1"))).unwrap_err();
    let said = baton_client::shutdown::panic_message(&*ended);
    assert!(said.contains("the decider gives the turn back: the flow waits for nothing"), "{said}");
}

#[test]
fn a_flow_that_runs_in_circles_is_stopped() {
    let said = given_back(flow::<(), _>(async |_, ()| {
        std::future::poll_fn(|task| {
            task.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await
    }));
    assert!(said.contains("it runs in circles"), "{said}");
}

/// Asks outside a runtime, and in a task of one, where hosts are.
fn everywhere(ask: fn()) {
    ask();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::spawn(async move { ask() }).await.unwrap() });
}

#[test]
fn channels_between_parts_of_a_flow_are_fine_and_have_no_budget() {
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
fn what_needs_a_runtime_panics_with_advice_inside_a_runtime_and_without_one() {
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
        // The thread is as good as before.
        let said = given_back(flow::<(), _>(async |_, ()| panic!("no ink")));
        assert_eq!(said, "the flow panicked: no ink");
    });
}

#[test]
fn an_input_or_a_result_of_another_type_waits_for_other_code() {
    let said = given_back(Flow::new(async |_: Context, input: u64| Ok(input)));
    assert!(said.starts_with("event 1: the input of the run is not what the flow reads"), "{said}");
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
    let said: String = failed.details.unwrap().read().unwrap();
    assert!(said.contains("event 7: the result of `a` is not what the flow reads"), "{said}");
    // Other code takes the run over where it is.
    service.deploy("flow", flow(async |ctx, ()| ctx.activity::<String>("a", &()).await));
    assert_eq!(service.finish("1").result::<String>(), "a");
}

#[test]
fn a_name_that_is_reserved_is_refused() {
    let said = given_back(flow(async |ctx, ()| Ok(ctx.side_effect("baton.id", || 1))));
    assert!(said.contains("the name `baton.id` is reserved"), "{said}");
}

/// A query may not do anything; not even take an id that the flow would have taken.
#[test]
fn a_query_that_asks_for_things_asks_in_vain() {
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
    assert_eq!(flow.trouble(&state), None);
}
