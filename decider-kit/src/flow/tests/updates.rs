//! Updates of flows: accepted, validated, answered in the same turn or a later turn, and replayed.

use std::sync::{Arc, Mutex};

use baton_history::EventKind;

use crate::flow::{AcceptedUpdate, Context, Failure, Flow};
use crate::testing::{Recorded, TestService, UpdateOutcome, Work, replay};
use crate::{Duration, Rejection, Status};

/// Accepts pages one after the other. The second page needs an activity.
async fn pages(ctx: Context, (): ()) -> Result<Vec<String>, Failure> {
    let mut seen = Vec::new();
    let mut pages =
        ctx.updates::<String>("page").validate(|page| if page.is_empty() { Err("empty".into()) } else { Ok(()) });
    let first = pages.next().await?;
    seen.push(first.input.clone());
    first.done(&"address");
    let AcceptedUpdate { input, reply } = pages.next().await?;
    match ctx.activity::<String>("check", &input).await {
        Ok(checked) => {
            seen.push(checked);
            reply.done(&"pay");
        }
        Err(failure) => reply.failed(&failure),
    }
    let last = pages.next().await?;
    seen.push(last.input.clone());
    last.done(&"thanks");
    Ok(seen)
}

fn service() -> TestService {
    let mut service = TestService::new();
    service.decider("pages", Flow::new(pages));
    service.activity("check", |call| {
        let text: String = call.input();
        if text == "nowhere" {
            Work::failure("unknown-address", &())
        } else {
            Work::success(&text.to_uppercase()).takes(Duration::from_secs(2))
        }
    });
    service.start("pages", "p", &());
    service.run_until_idle();
    service
}

fn names(service: &TestService) -> Vec<&'static str> {
    service.history("p").iter().map(|event| event.kind.name()).collect()
}

#[test]
fn an_update_is_taken_and_answered_in_one_turn() {
    let mut service = service();
    let before = names(&service).len();
    assert_eq!(service.update("p", "page", "cart").result::<String>(), "address");
    let turn = ["DeciderScheduled", "DeciderStarted", "DeciderCompleted", "UpdateAccepted", "UpdateCompleted"];
    assert_eq!(names(&service)[before..], turn);
    let completed = service.history("p").iter().rev().find_map(|event| match &event.kind {
        EventKind::DeciderCompleted(it) => Some(it.awaiting.clone()),
        _ => None,
    });
    assert_eq!(completed.unwrap(), ["page"], "the run declares that it awaits the next page");
}

#[test]
fn an_update_rejected_by_a_validator_leaves_no_trace() {
    let mut service = service();
    let before = service.history("p").to_vec();
    for _ in 0..10 {
        assert_eq!(service.update("p", "page", "").rejected(), "empty");
        assert_eq!(service.update("p", "page", &7).rejected(), "bad-input");
        let UpdateOutcome::Rejected { reason, details } = service.update("p", "pgae", "cart") else { panic!() };
        assert_eq!((reason.as_str(), details.unwrap().text()), ("unknown-update", Some(r#"["page"]"#)));
    }
    assert_eq!(service.history("p"), before);
    assert_eq!(service.update("p", "page", "cart").result::<String>(), "address");
}

#[test]
fn a_handler_that_awaits_an_activity_answers_in_a_later_turn() {
    let mut service = service();
    service.update("p", "page", "cart");
    assert_eq!(service.update("p", "page", "here").result::<String>(), "pay");
    assert_eq!(service.update("p", "page", "card").result::<String>(), "thanks");
    assert_eq!(service.finish("p").result::<Vec<String>>(), ["cart", "HERE", "card"]);
    assert_eq!(service.update("p", "page", "more"), UpdateOutcome::Closed(Status::Success));
    // The whole history can be replayed.
    let recorded = serde_json::to_string(service.history("p")).unwrap();
    replay(&Flow::new(pages), &recorded).unwrap();
    Recorded::from_json(&recorded).unwrap().assert_same(Flow::new(pages));
}

#[test]
fn an_accepted_update_that_cannot_be_done_fails() {
    let mut service = service();
    service.update("p", "page", "cart");
    let UpdateOutcome::Failed { reason, .. } = service.update("p", "page", "nowhere") else { panic!() };
    assert_eq!(reason, "unknown-address");
    assert!(service.history("p").iter().any(|event| matches!(event.kind, EventKind::UpdateFailed(_))));
    let recorded = serde_json::to_string(service.history("p")).unwrap();
    replay(&Flow::new(pages), &recorded).unwrap();
}

#[test]
fn an_unanswered_update_fails_and_a_lost_turn_changes_nothing() {
    let careless = |ctx: Context, (): ()| async move {
        let mut updates = ctx.updates::<u32>("add");
        drop(updates.next().await?);
        let second = updates.next().await?;
        ctx.sleep(Duration::from_secs(5)).await?;
        // No code takes updates that arrive during this sleep.
        drop(updates);
        second.done(&2);
        ctx.activity::<()>("wait", &()).await
    };
    let mut service = TestService::new();
    service.decider("careless", Flow::new(careless));
    service.start("careless", "p", &());
    service.lose_turns(1);
    service.advance(Duration::from_secs(60));
    let UpdateOutcome::Failed { reason, .. } = service.update("p", "add", &1) else { panic!() };
    assert_eq!(reason, "unanswered");
    assert_eq!(service.update("p", "add", &2).result::<u32>(), 2);
    assert_eq!(service.update("p", "add", &3).rejected(), "unknown-update");
    let recorded = serde_json::to_string(service.history("p")).unwrap();
    replay(&Flow::new(careless), &recorded).unwrap();
}

#[test]
fn a_validator_sees_the_shared_state_after_new_events() {
    let seats = |ctx: Context, (): ()| async move {
        let left = Arc::new(Mutex::new(0_u32));
        let shared = Arc::clone(&left);
        let mut takes = ctx.updates::<u32>("take").validate(move |wanted| {
            if *wanted > *shared.lock().unwrap() {
                Err(Rejection::of("too-few", &*shared.lock().unwrap()))
            } else {
                Ok(())
            }
        });
        let mut seats = ctx.signals::<u32>("seats");
        loop {
            futures::select_biased! {
                more = futures::FutureExt::fuse(seats.next()) => *left.lock().unwrap() += more?,
                taken = futures::FutureExt::fuse(takes.next()) => {
                    let taken = taken?;
                    let now = {
                        let mut left = left.lock().unwrap();
                        *left -= taken.input;
                        *left
                    };
                    taken.done(&now);
                    if now == 0 {
                        return Ok::<_, Failure>("full");
                    }
                }
            }
        }
    };
    let mut service = TestService::new();
    service.decider("seats", Flow::new(seats));
    service.start("seats", "p", &());
    service.run_until_idle();
    assert_eq!(service.update("p", "take", &1).rejected(), "too-few");
    service.signal("p", "seats", &3).unwrap();
    // The update is judged in the turn of the signal, after the signal.
    assert_eq!(service.update("p", "take", &2).result::<u32>(), 1);
    assert_eq!(service.update("p", "take", &2).rejected(), "too-few");
    assert_eq!(service.update("p", "take", &1).result::<u32>(), 0);
    assert_eq!(service.finish("p").result::<String>(), "full");
    let recorded = serde_json::to_string(service.history("p")).unwrap();
    replay(&Flow::new(seats), &recorded).unwrap();
}

#[test]
fn a_different_answer_to_a_recorded_update_is_detected() {
    let mut service = service();
    service.update("p", "page", "cart");
    let recorded = serde_json::to_string(service.history("p")).unwrap();
    let silent = |ctx: Context, (): ()| async move {
        let mut pages = ctx.updates::<String>("page");
        let first = pages.next().await?;
        ctx.activity::<()>("other", &()).await?;
        first.done(&());
        Ok::<_, Failure>(())
    };
    let error = replay(&Flow::new(silent), &recorded).unwrap_err().to_string();
    assert!(error.contains("UpdateCompleted `update-"), "{error}");
    let failing = |ctx: Context, (): ()| async move {
        drop(ctx.updates::<String>("page").next().await?);
        ctx.sleep(Duration::from_secs(1)).await
    };
    let error = replay(&Flow::new(failing), &recorded).unwrap_err().to_string();
    assert!(error.contains("UpdateFailed"), "{error}");
}

#[test]
fn a_panicking_validator_rejects_the_update_only() {
    let touchy = |ctx: Context, (): ()| async move {
        let mut updates = ctx.updates::<u32>("add").validate(|number| {
            assert!(*number < 10, "too much");
            Ok(())
        });
        updates.next().await?.done(&());
        Ok::<_, Failure>(())
    };
    let mut service = TestService::new();
    service.decider("touchy", Flow::new(touchy));
    service.start("touchy", "p", &());
    service.run_until_idle();
    assert_eq!(service.update("p", "add", &10).rejected(), "validator-panicked");
    service.update("p", "add", &9).result::<()>();
}
