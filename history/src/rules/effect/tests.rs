//! Signals and cancel requests between runs: pending effects, effects applied once, and outcomes.

use crate::command::EffectResult;
use crate::decision::{CancelExternal, SignalExternal};
use crate::event::EventKind;
use crate::scene::{
    Scene, cancel_external, cancel_of, check, child, done, origin, plain, scene, settle, signal, signal_external,
    signal_of, success, terminate,
};
use crate::{
    Command, CommandOutcome, Decision, EffectKind, KnownRequest, Links, OutboundAction, OutboundEffect, Payload,
    Timestamp, Transition, limits,
};
use uuid::Uuid;

fn owed(scene: &Scene) -> Vec<(u64, EffectKind)> {
    scene.links.outbox.ready().map(|effect| (effect.event_id, effect.kind)).collect()
}

#[test]
fn a_signal_is_pending_until_its_outcome_is_known() {
    let sent = scene().decide([signal_external("o"), cancel_external("p")]);
    assert_eq!(owed(&sent), [(5, EffectKind::Signal), (6, EffectKind::RequestCancel)]);
    assert_eq!(sent.links.outbox.next_at(), Some(sent.now.plus(limits::EFFECT_WAIT_FIRST)));
    for (result, signal, cancel) in [
        (done(), "ExternalSignalDelivered", "ExternalCancelDelivered"),
        (EffectResult::Unknown, "ExternalSignalFailed(o, WorkflowUnknown)", "ExternalCancelFailed(p, WorkflowUnknown)"),
        (EffectResult::Closed, "ExternalSignalFailed(o, WorkflowClosed)", "ExternalCancelFailed(p, WorkflowClosed)"),
    ] {
        check(&sent, &settle(5, EffectKind::Signal, result), &format!("{signal} DeciderScheduled"));
        check(&sent, &settle(6, EffectKind::RequestCancel, result), &format!("{cancel} DeciderScheduled"));
    }
    let settled = sent.then(&settle(5, EffectKind::Signal, done()));
    assert_eq!(owed(&settled), [(6, EffectKind::RequestCancel)]);
    check(&settled, &settle(5, EffectKind::Signal, EffectResult::Closed), "");
    check(&settled, &settle(6, EffectKind::Signal, done()), "");
    let settled = settled.then(&settle(6, EffectKind::RequestCancel, done()));
    assert_eq!(settled.links, Links::default());
}

#[test]
fn a_repeated_effect_is_applied_once() {
    let taken = scene().take().then(&signal_of(1, 5));
    assert!(matches!(&taken.events[3].kind, EventKind::Signal(it) if it.origin == Some(origin(1, 5))));
    check(&taken, &signal_of(1, 5), "repeats 4");
    check(&taken, &signal_of(1, 6), "Signal(go)");
    check(&taken, &signal_of(2, 5), "Signal(go)");
    check(&taken, &cancel_of(1, 7), "WorkflowCancelRequested");
    let requested = taken.then(&cancel_of(1, 7));
    check(&requested, &cancel_of(1, 7), "repeats 6");
    assert!(requested.run.cancel_requested);
    // The effect was accepted before the run closed, so it must not be reported as failed.
    let closed = requested.then(&terminate());
    check(&closed, &signal_of(1, 5), "repeats 4");
    check(&closed, &signal_of(1, 9), "fault run-closed");
}

#[test]
fn accepted_effects_are_identified_by_origin_only() {
    let mut taken = scene().take().then(&signal_of(1, 5)).then(&signal_of(1, 6));
    taken.links.seen.retain(|seen| seen.origin.event_id != 5);
    check(&taken, &signal_of(1, 6), "repeats 6");
    assert!(taken.links.seen.find(&origin(1, 5)).is_none());
}

#[test]
fn refusals_of_earlier_rounds_do_not_count() {
    let again = scene().decide([signal_external("o")]).then(&Command::RetryEffects);
    let settles = |round, result| Command::SettleEffect {
        owner: Uuid::nil(),
        event_id: 5,
        kind: EffectKind::Signal,
        round,
        result,
    };
    for refused in [EffectResult::Closed, EffectResult::Unknown] {
        check(&again, &settles(0, refused), "");
        assert!(!again.clone().then(&settles(0, refused)).links.is_empty(), "it is still pending");
    }
    check(&again, &settles(1, EffectResult::Closed), "ExternalSignalFailed(o, WorkflowClosed) DeciderScheduled");
    check(&again, &settles(0, done()), "ExternalSignalDelivered DeciderScheduled");
}

#[test]
fn overdue_effects_are_delivered_again_without_an_event() {
    let sent = scene().decide([signal_external("o")]);
    check(&sent, &Command::RetryEffects, "");
    let before = sent.links.outbox.next_at();
    let early = sent.clone().then(&Command::RetryEffects);
    assert_eq!(early.links.outbox.next_at(), before);
    let late = sent.after(30).then(&Command::RetryEffects);
    assert_eq!(late.links.outbox.next_at(), Some(late.now.plus(limits::EFFECT_WAIT_FIRST)));
}

#[test]
fn pending_effects_are_limited() {
    let many: Vec<Decision> =
        (0..limits::OPEN_EXTERNALS_MAX - 1).map(|to| signal_external(&format!("o{to}"))).collect();
    let scene = scene().take();
    let full = Command::complete(scene.turn(), many);
    let full = scene.then(&full).then(&signal("go")).take();
    check(
        &full,
        &full.complete([cancel_external("a"), signal_external("b"), cancel_external("c")]),
        "DeciderCompleted ExternalCancelScheduled(a) ExternalSignalFailed(b, OpenExternalsLimit) \
         ExternalCancelFailed(c, OpenExternalsLimit) DeciderScheduled",
    );
}

#[test]
fn fields_of_effects_are_limited() {
    let busy = scene().take();
    let large = Payload::from_json(&format!("\"{}\"", "x".repeat(limits::PAYLOAD_BYTES_MAX))).unwrap();
    let named = |workflow_id: &str, name: &str| SignalExternal {
        workflow_id: workflow_id.to_owned(),
        name: name.to_owned(),
        ..SignalExternal::default()
    };
    let long = "x".repeat(limits::NAME_CHARS_MAX + 1);
    for (decision, fault) in [
        (Decision::from(named("", "s")), "invalid-field"),
        (named("o", "").into(), "invalid-field"),
        (named(&long, "s").into(), "too-large"),
        (named("o", &long).into(), "too-large"),
        (SignalExternal { input: Some(large), ..named("o", "s") }.into(), "too-large"),
        (cancel_external(""), "invalid-field"),
        (
            CancelExternal { workflow_id: "o".to_owned(), reason: Some(long.clone()), run_id: None, control: None }
                .into(),
            "too-large",
        ),
    ] {
        check(&busy, &busy.complete([decision]), &format!("fault {fault}"));
    }
}

#[test]
fn a_repeated_effect_returns_its_event() {
    let taken = scene().take().then(&signal_of(1, 5));
    let first = KnownRequest { run_id: taken.run.started.run_id, event_id: 4 };
    assert_eq!(taken.clone().admit(&signal_of(1, 5)), Ok((CommandOutcome::Repeated(first), Vec::new())));
}

#[test]
fn a_successor_does_not_accept_an_effect_again() {
    let taken = scene().take().then(&signal_of(1, 5));
    let outbound = OutboundEffect {
        workflow_id: "order-1".to_owned(),
        run_id: None,
        task: OutboundAction::Admit(signal_of(1, 5)),
        by: None,
        trace: None,
    };
    let fresh = || Transition::linked(Scene::of(&plain()).run, taken.links.clone());
    let run_id = taken.run.started.run_id;
    // A new run of the workflow id takes over the accepted effects. It recognizes a repeated effect, even if the effect
    // names its predecessor.
    for outbound in [outbound.clone(), OutboundEffect { run_id: Some(Uuid::from_u128(77)), ..outbound.clone() }] {
        let mut next = fresh();
        assert_eq!(next.apply_effect(&outbound, taken.now), EffectResult::Done { run_id });
        assert!(next.events().is_empty());
    }
    let other = OutboundEffect { task: OutboundAction::Admit(signal_of(1, 6)), ..outbound };
    let to_another = OutboundEffect { run_id: Some(Uuid::from_u128(77)), ..other.clone() };
    assert_eq!(fresh().apply_effect(&to_another, taken.now), EffectResult::Unknown);
    assert!(matches!(fresh().apply_effect(&other, taken.now), EffectResult::Done { .. }));
    let closed = taken.then(&terminate());
    let mut closed = Transition::linked(closed.run, closed.links);
    assert_eq!(closed.apply_effect(&other, Timestamp::from_millis(0)), EffectResult::Closed);
}

/// Returns a new run of the workflow id that has taken over the pending effects of this closed run.
fn followed(by: &Scene) -> Scene {
    let run_id = by.run.started.run_id;
    Scene { links: by.links.clone().handed_over(run_id), ..Scene::of_run(&plain(), Uuid::from_u128(50)) }
}

#[test]
fn a_successor_settles_inherited_effects_without_an_event() {
    let closed = scene().decide([signal_external("o"), success()]);
    let next = followed(&closed);
    let effect = next.links.outbox.ready().next().unwrap();
    assert_eq!((effect.of, effect.event_id), (Some(closed.run.started.run_id), 5));
    assert!(next.links.outbox.round() > closed.links.outbox.round(), "a delivery for the closed run is late");
    // The outcome names the new run as the owner of the effect, but a predecessor owns it. The effect therefore stays
    // pending.
    let own = Command::SettleEffect {
        owner: next.run.started.run_id,
        event_id: 5,
        kind: EffectKind::Signal,
        round: 1,
        result: done(),
    };
    assert!(!next.clone().then(&own).links.is_empty());
    let of_before = Command::SettleEffect {
        owner: closed.run.started.run_id,
        event_id: 5,
        kind: EffectKind::Signal,
        round: 1,
        result: done(),
    };
    check(&next, &of_before, "");
    assert!(next.clone().then(&of_before).links.is_empty());
    // The next successor inherits the effect unchanged.
    assert_eq!(followed(&next).links.outbox.ready().next(), Some(effect));
}

#[test]
fn inherited_effects_count_as_pending() {
    let many = (0..limits::OPEN_EXTERNALS_MAX).map(|to| signal_external(&format!("o{to}")));
    let decisions: Vec<_> = many.chain([success()]).collect();
    let scene = scene().take();
    let turn = scene.turn();
    let next = followed(&scene.then(&Command::complete(turn, decisions))).take();
    check(
        &next,
        &next.complete([signal_external("a"), child("b")]),
        "DeciderCompleted ExternalSignalFailed(a, OpenExternalsLimit) ChildScheduleFailed(b, OpenChildrenLimit) \
         DeciderScheduled",
    );
}
