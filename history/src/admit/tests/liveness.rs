//! Whether anything will ever wake a run (N8).

use crate::event::{ActivityTimeouts, EventKind};
use crate::scene::{
    Scene, cancel_timer, check, child, request_cancel, scene, schedule, schedule_again, signal, signal_external,
    success, terminate, timer,
};
use crate::{Command, RetryPolicy, limits};

fn waits_for(scene: Scene, signals: &[&str]) -> Scene {
    let scene = if scene.run.turn.is_none() { scene.take() } else { scene };
    let awaiting = signals.iter().map(|name| (*name).to_owned()).collect();
    let command = Command::CompleteTurn { turn: scene.turn(), decisions: Vec::new(), context: None, awaiting };
    scene.then(&command)
}

#[test]
fn a_run_is_stuck_when_its_turn_leaves_nothing_that_could_wake_it() {
    for (scene, is_stuck) in vec![
        (scene(), false),
        (scene().take(), false),
        (scene().decide([]), true),
        (scene().decide([crate::scene::marker("m")]), true),
        (scene().decide([schedule("a")]), false),
        (scene().decide([schedule("a")]).takes("a"), false),
        (scene().decide([schedule("a")]).takes("a").succeeds("a"), false),
        (scene().decide([schedule("a")]).takes("a").succeeds("a").decide([]), true),
        (scene().decide([timer("t", 5)]), false),
        (scene().decide([timer("t", 5)]).then(&signal("go")).decide([cancel_timer("t")]), true),
        (scene().decide([child("c")]), false),
        (scene().decide([signal_external("o")]), false),
        (scene().decide([]).then(&signal("go")), false),
        (scene().decide([]).then(&request_cancel()), false),
        (scene().decide([]).then(&signal("go")).decide([]), true),
        (scene().decide([]).then(&terminate()), false),
        (scene().decide([success()]), false),
        // A failed decision schedules a turn.
        (scene().decide([cancel_timer("t")]), false),
    ] {
        assert_eq!(scene.run.is_stuck(), is_stuck, "{}", crate::scene::told(&scene.events));
    }
    let lost = scene().take();
    let lost = lost.clone().then(&lost.fail_turn());
    assert!(!lost.run.is_stuck(), "a turn that was given back comes again");
    let retries = scene().decide([schedule_again("a", RetryPolicy::default(), ActivityTimeouts::default())]).takes("a");
    let retries = retries.clone().then(&retries.fail("a"));
    assert!(!retries.run.is_stuck(), "an activity that waits for its next try");
}

#[test]
fn a_run_that_says_what_it_waits_for_is_not_stuck_until_a_turn_says_otherwise() {
    let waits = waits_for(scene(), &["approve", limits::AWAITING_CANCEL]);
    assert!(!waits.run.is_stuck());
    assert_eq!(waits.run.awaiting, ["approve", "baton.cancel"]);
    let EventKind::DeciderCompleted(completed) = &waits.events.last().unwrap().kind else { panic!() };
    assert_eq!(completed.awaiting, waits.run.awaiting, "the history says it, too");
    let heard = waits.then(&signal("other"));
    assert_eq!(heard.run.awaiting, ["approve", "baton.cancel"]);
    let lost = heard.take();
    let lost = lost.clone().then(&lost.fail_turn()).after(600);
    assert_eq!(lost.run.awaiting, ["approve", "baton.cancel"], "only a turn that is completed says something new");
    let silent = lost.decide([]);
    assert!(silent.run.is_stuck() && silent.run.awaiting.is_empty());
    let closed = waits_for(scene(), &["approve"]).then(&terminate());
    assert!(closed.run.awaiting.is_empty());
}

#[test]
fn what_a_turn_waits_for_has_its_limits() {
    let busy = scene().take();
    let awaiting = |names: Vec<String>| Command::CompleteTurn {
        turn: busy.turn(),
        decisions: Vec::new(),
        context: None,
        awaiting: names,
    };
    let longest = "x".repeat(limits::NAME_CHARS_MAX);
    check(&busy, &awaiting(vec![longest.clone(); limits::AWAITING_MAX]), "DeciderCompleted");
    check(&busy, &awaiting(vec!["a".to_owned(); limits::AWAITING_MAX + 1]), "fault invalid-field");
    check(&busy, &awaiting(vec![String::new()]), "fault invalid-field");
    check(&busy, &awaiting(vec![longest + "x"]), "fault too-large");
}
