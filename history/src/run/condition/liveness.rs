//! Tests of the condition of a run, and of the rule that a run is stuck if nothing will schedule another turn.

use crate::event::OperatorAction;
use crate::event::{ActivityTimeouts, EventKind};
use crate::scene::{
    Scene, cancel_timer, check, child, request_cancel, scene, schedule, schedule_with_retry, signal, signal_external,
    success, terminate, timer,
};
use crate::{Command, RetryPolicy, RunCondition, TurnAnswer, limits};

fn waits_for(scene: Scene, signals: &[&str]) -> Scene {
    let scene = if scene.run.turn.is_none() { scene.take() } else { scene };
    let awaiting = signals.iter().map(|name| (*name).to_owned()).collect();
    let command = Command::complete(scene.turn(), TurnAnswer { awaiting, ..TurnAnswer::default() });
    scene.then(&command)
}

#[test]
fn a_run_that_nothing_can_wake_is_stuck() {
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
        // The failed decision schedules a turn, so the run is not stuck.
        (scene().decide([cancel_timer("t")]), false),
    ] {
        assert_eq!(scene.run.is_stuck(), is_stuck, "{}", crate::scene::summary(&scene.events));
    }
    let lost = scene().take();
    let lost = lost.clone().then(&lost.fail_turn());
    assert!(!lost.run.is_stuck(), "a turn that was given back comes again");
    let retries =
        scene().decide([schedule_with_retry("a", RetryPolicy::default(), ActivityTimeouts::default())]).takes("a");
    let retries = retries.clone().then(&retries.fail("a"));
    assert!(!retries.run.is_stuck(), "an activity that waits for its next try");
}

#[test]
fn a_run_that_awaits_a_signal_is_not_stuck() {
    let waits = waits_for(scene(), &["approve", limits::AWAITING_CANCEL]);
    assert!(!waits.run.is_stuck());
    assert_eq!(waits.run.awaiting, ["approve", "baton.cancel"]);
    let EventKind::DeciderCompleted(completed) = &waits.events.last().unwrap().kind else { panic!() };
    assert_eq!(completed.awaiting, waits.run.awaiting, "the history says it, too");
    let signaled = waits.then(&signal("other"));
    assert_eq!(signaled.run.awaiting, ["approve", "baton.cancel"]);
    let lost = signaled.take();
    let lost = lost.clone().then(&lost.fail_turn()).after(600);
    assert_eq!(lost.run.awaiting, ["approve", "baton.cancel"], "only a turn that is completed says something new");
    let silent = lost.decide([]);
    assert!(silent.run.is_stuck() && silent.run.awaiting.is_empty());
    let closed = waits_for(scene(), &["approve"]).then(&terminate());
    assert!(closed.run.awaiting.is_empty());
}

#[test]
fn awaited_signals_are_limited() {
    let busy = scene().take();
    let awaiting =
        |names: Vec<String>| Command::complete(busy.turn(), TurnAnswer { awaiting: names, ..TurnAnswer::default() });
    let longest = "x".repeat(limits::NAME_CHARS_MAX);
    check(&busy, &awaiting(vec![longest.clone(); limits::AWAITING_MAX]), "DeciderCompleted");
    check(&busy, &awaiting(vec!["a".to_owned(); limits::AWAITING_MAX + 1]), "fault invalid-field");
    check(&busy, &awaiting(vec![String::new()]), "fault invalid-field");
    check(&busy, &awaiting(vec![longest + "x"]), "fault too-large");
}

#[test]
fn a_run_is_failing_after_two_lost_turns_in_a_row() {
    let lose = |scene: Scene| {
        let taken = scene.take();
        let given_back = taken.fail_turn();
        taken.then(&given_back).after(600)
    };
    let once = lose(scene());
    assert_eq!((once.run.condition(), once.run.is_failing()), (RunCondition::Open, false));
    let newest_loss = |scene: &Scene| {
        let losses = scene.events.iter().rev().find(|event| matches!(event.kind, EventKind::DeciderFailed(_)));
        losses.map(|event| (event.timestamp, event.id)).unwrap()
    };
    let (first, _) = newest_loss(&once);
    let twice = lose(once);
    assert_eq!(twice.run.condition(), RunCondition::Failing);
    let lost = twice.run.lost_turns.unwrap();
    assert_eq!((lost.since, lost.event_id), (first, newest_loss(&twice).1), "since the first, by the newest");
    // The run stays flagged while a decider holds the next attempt.
    assert_eq!(twice.clone().take().run.condition(), RunCondition::Failing);
    let completed = twice.clone().decide([timer("t", 5)]);
    assert_eq!((completed.run.condition(), completed.run.lost_turns), (RunCondition::Open, None));
    assert_eq!(twice.then(&terminate()).run.condition(), RunCondition::Closed(crate::Status::Terminated));
    // A completed turn comes between the two lost turns, so they are not consecutive.
    let again = lose(completed.then(&signal("go")));
    assert_eq!(again.run.condition(), RunCondition::Open);
    // Turns that time out count like turns that fail.
    let mut given = scene();
    for condition in [RunCondition::Open, RunCondition::Failing] {
        let taken = given.take().after(30);
        let fires = taken.fire();
        given = taken.then(&fires).after(600);
        assert_eq!(given.run.condition(), condition, "{}", crate::scene::summary(&given.events));
    }
}

#[test]
fn a_run_is_retrying_after_the_first_attempt() {
    let given =
        scene().decide([schedule_with_retry("a", RetryPolicy::default(), ActivityTimeouts::default()), schedule("b")]);
    let first = given.takes("a");
    assert_eq!(first.run.condition(), RunCondition::Open);
    let failed = first.clone().then(&first.fail("a"));
    assert_eq!(failed.run.condition(), RunCondition::Retrying, "it waits for its second try");
    let second = failed.after(1).takes("a");
    assert_eq!(second.run.condition(), RunCondition::Retrying, "it is in its second try");
    let done = second.succeeds("a");
    assert_eq!(done.run.condition(), RunCondition::Open, "other open items do not matter");
}

#[test]
fn the_first_of_several_conditions_counts() {
    let pause = Command::Pause { stop_clocks: false, operator: OperatorAction::default(), key: None };
    let resume = Command::Resume { operator: OperatorAction::default(), key: None };
    let given = scene().decide([schedule_with_retry("a", RetryPolicy::default(), ActivityTimeouts::default())]);
    let taken = given.takes("a");
    let retrying = taken.clone().then(&taken.fail("a"));
    let mut failing = retrying.then(&signal("go"));
    for _ in 0..2 {
        let taken = failing.take();
        failing = taken.clone().then(&taken.fail_turn()).after(600);
    }
    assert!(failing.run.is_retrying() && failing.run.is_failing());
    assert_eq!(failing.run.condition(), RunCondition::Failing);
    let paused = failing.then(&pause);
    assert_eq!(paused.run.condition(), RunCondition::Paused);
    assert_eq!(paused.then(&resume).run.condition(), RunCondition::Failing);
    let stuck = scene().decide([]).then(&pause);
    assert!(stuck.run.is_stuck());
    assert_eq!(stuck.run.condition(), RunCondition::Paused);
}
