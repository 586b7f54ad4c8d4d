//! Children, and messages to other runs.

use baton_history::event::{ChildPolicy, ChildScheduleFailedCause, ExternalFailedCause};
use futures::future::{Either, join_all, select};

use super::*;
use crate::ReusePolicy;
use crate::flow::{Cause, ChildEnd};

/// Creates a service with these child types: `greets` says hello after a second, `fails` fails, `waits` waits for its
/// cancellation.
fn family(parent: Flow) -> TestService {
    let mut service = service(parent);
    service.decider(
        "greets",
        Flow::new(async |ctx: Context, name: String| {
            ctx.sleep(seconds(1)).await?;
            Ok(format!("hello {name}"))
        }),
    );
    service.decider("fails", Flow::new(async |_: Context, (): ()| Err::<(), _>(Failure::new("declined").details(&7))));
    service.decider(
        "waits",
        Flow::new(async |ctx: Context, (): ()| {
            ctx.canceled().await;
            Err::<(), _>(Failure::canceled(&"so be it"))
        }),
    );
    service
}

#[test]
fn concurrent_children_return_their_results() {
    let mut service = family(flow(async |ctx, ()| {
        let names = ["ann", "bob", "cid"];
        let children = names.map(|name| ctx.child::<String>("greets", format!("child-{name}"), name));
        let greetings: Result<Vec<_>, _> = join_all(children).await.into_iter().collect();
        Ok(greetings?.join(", "))
    }));
    assert_eq!(result_of(&mut service), "hello ann, hello bob, hello cid");
    let parent = service.run("child-bob").started.parent.clone().unwrap();
    assert_eq!((parent.workflow_id.as_str(), parent.event_id), ("1", 6));
    service.assert_count("1", "ChildStarted", 3);
    service.assert_count("1", "ChildSuccess", 3);
}

#[test]
fn a_failed_or_refused_child_is_a_failure_with_its_cause() {
    let mut service = family(flow(async |ctx, ()| {
        let failed = ctx.child::<()>("fails", "child", &()).await.unwrap_err();
        assert_eq!((failed.reason(), failed.read_details()), ("declined", Some(7)));
        assert_eq!(*failed.cause(), Cause::Child { workflow_id: "child".to_owned(), end: ChildEnd::Failed });
        let done: String = ctx.child("greets", "twice", "ann").await?;
        let refused = ctx.child::<String>("greets", "twice", "ann").await.unwrap_err();
        let end = ChildEnd::NotStarted(ChildScheduleFailedCause::WorkflowIdReuseRefused);
        assert_eq!(*refused.cause(), Cause::Child { workflow_id: "twice".to_owned(), end });
        let again: String = ctx.child("greets", "twice", "ann").reuse(ReusePolicy::AllowDuplicate).await?;
        // A child with the id of an open run is refused immediately.
        let open = ctx.child::<String>("greets", "open", "bob").start();
        let refused = ctx.child::<String>("greets", "open", "bob").await.unwrap_err();
        let end = ChildEnd::NotStarted(ChildScheduleFailedCause::WorkflowAlreadyOpen);
        assert_eq!(*refused.cause(), Cause::Child { workflow_id: "open".to_owned(), end });
        Ok([done, again, open.await?].join(", "))
    }));
    assert_eq!(result_of(&mut service), "hello ann, hello ann, hello bob");
}

#[test]
fn a_dropped_child_is_asked_to_cancel() {
    let mut service = family(flow(async |ctx, ()| {
        match select(ctx.child::<()>("waits", "child", &()), ctx.sleep(seconds(5))).await {
            Either::Left(_) => panic!("it waits"),
            Either::Right((slept, child)) => {
                drop(child);
                slept?;
            }
        }
        ctx.sleep(seconds(5)).await?;
        Ok("parted".to_owned())
    }));
    assert_eq!(result_of(&mut service), "parted");
    assert_eq!(service.run("child").status, Status::Canceled);
    service.assert_count("1", "ChildCanceled", 1);
}

#[test]
fn a_child_outlives_its_parent_only_if_detached() {
    let mut service = family(flow(async |ctx, ()| {
        ctx.child::<()>("waits", "killed", &()).detach();
        ctx.child::<()>("waits", "asked", &()).policy(ChildPolicy::RequestCancel).detach();
        ctx.child::<String>("greets", "left", "dan").policy(ChildPolicy::Abandon).detach();
        ctx.sleep(Duration::from_millis(1)).await?;
        Ok("gone".to_owned())
    }));
    assert_eq!(result_of(&mut service), "gone");
    service.run_until_idle();
    let statuses = ["killed", "asked", "left"].map(|id| service.run(id).status);
    assert_eq!(statuses, [Status::Terminated, Status::Canceled, Status::Success]);
}

#[test]
fn parent_and_child_signal_each_other() {
    let mut service = family(flow(async |ctx, ()| {
        let child = ctx.child::<String>("talks", "child", &()).start();
        ctx.signal_external("child", "question", "how are you").await?;
        let answer = ctx.signals::<String>("answer").next().await?;
        Ok(answer + " " + &child.await?)
    }));
    service.decider(
        "talks",
        Flow::new(async |ctx: Context, (): ()| {
            let question = ctx.signals::<String>("question").next().await?;
            let parent = ctx.parent().unwrap();
            ctx.signal_external(parent.workflow_id, "answer", &format!("{question}? fine")).await?;
            Ok("bye")
        }),
    );
    assert_eq!(result_of(&mut service), "how are you? fine bye");
}

#[test]
fn an_undeliverable_message_is_a_failure_with_its_cause() {
    let mut service = family(flow(async |ctx, ()| {
        let unknown = ctx.signal_external("nobody", "s", &()).await.unwrap_err();
        let cause = ExternalFailedCause::WorkflowUnknown;
        assert_eq!(*unknown.cause(), Cause::External { workflow_id: "nobody".to_owned(), cause });
        let _: String = ctx.child("greets", "child", "ann").await?;
        let closed = ctx.cancel_external("child").await.unwrap_err();
        Ok(closed.to_string())
    }));
    assert_eq!(result_of(&mut service), "`child` could not be reached (WorkflowClosed)");
}

/// Fails until its third attempt.
struct Flaky;

impl crate::Decider for Flaky {
    type State = u32;

    fn evolve(&self, attempt: &mut u32, event: &crate::Event) {
        if let crate::EventKind::WorkflowStarted(it) = &event.kind {
            *attempt = it.attempt.unwrap_or(1);
        }
    }

    fn decide(&self, attempt: &u32, _: &crate::Window) -> crate::Decisions {
        if *attempt < 3 {
            crate::Decisions::new().fail("busy", attempt)
        } else {
            crate::Decisions::new().succeed(attempt)
        }
    }
}

#[test]
fn a_retried_child_is_a_single_child_to_its_parent() {
    const TEN_MINUTES: u64 = 600;
    let policy = |attempts| baton_history::RetryPolicy {
        initial_interval: seconds(TEN_MINUTES),
        maximum_attempts: Some(attempts),
        ..baton_history::RetryPolicy::default()
    };
    // The policy is passed as input, because a flow must not depend on other values.
    for (attempts, result, waited) in [(3, "try 3", 3 * TEN_MINUTES), (2, "busy", TEN_MINUTES)] {
        let mut service = TestService::new();
        service.decider(
            "flow",
            Flow::new(async |ctx: Context, policy: baton_history::RetryPolicy| {
                let child = ctx.child::<u32>("flaky", "child", &()).retry(policy).run_timeout(seconds(60));
                match child.await {
                    Ok(attempt) => Ok(format!("try {attempt}")),
                    Err(failure) => Ok(failure.reason().to_owned()),
                }
            }),
        );
        service.decider("flaky", Flaky);
        let began = service.now();
        service.start("flow", "1", &policy(attempts));
        assert_eq!(service.finish("1").result::<String>(), result);
        assert_eq!(service.now().since(began), seconds(waited));
        assert_eq!(service.run("child").started.attempt, Some(attempts));
        service.assert_count("1", "ChildStarted", 1);
    }
}
