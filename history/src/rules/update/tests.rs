//! Updates: accepted or rejected in one turn. They are recorded together with the turn's decisions, or not at all.

use crate::admit::{Starting, may_update, speculative_turn, starting_for};
use crate::event::{EventKind, TurnList};
use crate::scene::{
    Scene, answer_updates, check, failed, marker, pause, plain, rejected, scene, schedule, signal, success, terminate,
    update, update_at, updated,
};
use crate::{
    AnsweredTurn, Command, ConflictPolicy, Duration, Fault, Payload, ProposedUpdate, Start, UpdateStatus, Verdict,
    limits,
};
use uuid::Uuid;

/// Returns a run with no turn waiting or held.
fn idle() -> Scene {
    scene().decide([])
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("u{index}")).collect()
}

/// Returns the status of update `u`, or the code of its refusal.
fn proposed(given: &Scene) -> Result<UpdateStatus, &'static str> {
    may_update(&given.run, &update("u")).map_err(|fault| fault.code())
}

const TURN: &str = "DeciderScheduled DeciderStarted DeciderCompleted";

#[test]
fn table_of_a_new_update() {
    let given = idle();
    assert_eq!(proposed(&given), Ok(UpdateStatus::New));
    for (verdict, then) in [
        (updated(), " UpdateAccepted(u) UpdateCompleted(u)"),
        (failed(), " UpdateAccepted(u) UpdateFailed(u, no stock)"),
        (Verdict::Later, " UpdateAccepted(u)"),
    ] {
        check(&given, &given.speculate(&[update("u")], &[("u", verdict)], []), &format!("{TURN}{then}"));
    }
    check(&given, &given.speculate(&[update("u")], &[("u", rejected())], []), "");
    assert_eq!(proposed(&given.clone().then(&pause())), Err("run-paused"));
    assert_eq!(proposed(&given.then(&terminate())), Err("run-closed"));
}

#[test]
fn table_of_an_accepted_update() {
    let given = idle().then(&idle().speculate(&[update("u")], &[("u", Verdict::Later)], []));
    assert!(matches!(proposed(&given), Ok(UpdateStatus::Accepted { .. })));
    let given = given.then(&signal("go")).take();
    for (verdict, then) in [
        (updated(), " UpdateCompleted(u)"),
        (failed(), " UpdateFailed(u, no stock)"),
        (Verdict::Later, ""),
        (rejected(), " UpdateFailed(u, closed)"),
    ] {
        check(&given, &given.judge(&[], &[("u", verdict)], []), &format!("DeciderCompleted{then}"));
    }
    assert!(matches!(proposed(&given.then(&terminate())), Ok(UpdateStatus::Ended { .. })));
}

#[test]
fn table_of_an_answered_update() {
    let given = idle().then(&idle().speculate(&[update("u")], &[("u", updated())], []));
    assert!(matches!(proposed(&given), Ok(UpdateStatus::Ended { .. })));
    for verdict in [updated(), failed(), Verdict::Later] {
        check(&given, &given.speculate(&[update("u")], &[("u", verdict)], []), "fault update-already-accepted");
    }
    check(&given, &given.speculate(&[update("u")], &[("u", rejected())], []), "");
    assert!(matches!(proposed(&given.then(&terminate())), Ok(UpdateStatus::Ended { .. })));
}

#[test]
fn a_start_with_a_known_update_does_nothing() {
    let use_existing = Start { conflict_policy: ConflictPolicy::UseExisting, ..plain() };
    let accepted = idle().then(&idle().speculate(&[update("u")], &[("u", Verdict::Later)], []));
    let ended = idle().then(&idle().speculate(&[update("u")], &[("u", updated())], [success()]));
    let run_id = idle().run.started.run_id;
    let conditional = ProposedUpdate { if_version: Some(5), ..update("u") };
    let later = Start { start_after: Some(Duration::from_secs(1)), ..use_existing.clone() };
    let at_once = Start { start_after: Some(Duration::ZERO), ..use_existing.clone() };
    let repeated = Ok(Starting::Repeated { run_id });
    let reuse = Err("workflow-id-reuse-refused");
    for (run, start, proposed, expected) in [
        (None, &use_existing, update("u"), Ok(Starting::New)),
        (None, &at_once, update("u"), Ok(Starting::New)),
        (None, &later, update("u"), Err("invalid-field")),
        (None, &use_existing, conditional, Err("invalid-field")),
        (None, &use_existing, update(""), Err("invalid-field")),
        (Some(idle()), &use_existing, update("u"), Ok(Starting::Existing { run_id })),
        (Some(idle()), &plain(), update("u"), Err("workflow-already-open")),
        (Some(accepted.clone()), &use_existing, update("u"), repeated),
        // A known update is found under all policies of the start.
        (Some(accepted), &plain(), update("u"), repeated),
        (Some(ended.clone()), &use_existing, update("u"), repeated),
        (Some(ended), &use_existing, update("v"), reuse),
    ] {
        let starting = starting_for(run.as_ref().map(|scene| &scene.run), start, &proposed);
        assert_eq!(starting.map_err(|fault| fault.code()), expected, "{start:?} {proposed:?}");
    }
}

#[test]
fn update_decisions_and_answer_are_one_commit() {
    let proposed = [update("u")];
    let one_turn = "DeciderScheduled DeciderStarted DeciderCompleted";
    let accepted = "UpdateAccepted(u) UpdateCompleted(u)";
    for (scene, command, then) in [
        (idle(), idle().speculate(&proposed, &[("u", updated())], []), format!("{one_turn} {accepted}")),
        (
            idle(),
            idle().speculate(&proposed, &[("u", updated())], [marker("m"), schedule("a")]),
            format!("{one_turn} {accepted} Marker(m) ActivityScheduled(a)"),
        ),
        (
            idle(),
            idle().speculate(&proposed, &[("u", updated())], [success()]),
            format!("{one_turn} {accepted} WorkflowSuccess"),
        ),
        (idle(), idle().speculate(&proposed, &[("u", Verdict::Later)], []), format!("{one_turn} UpdateAccepted(u)")),
        (
            idle(),
            idle().speculate(&proposed, &[("u", failed())], []),
            format!("{one_turn} UpdateAccepted(u) UpdateFailed(u, no stock)"),
        ),
        // A turn that is held for another reason can also answer the update.
        (
            scene().take(),
            scene().take().judge(&proposed, &[("u", updated())], [marker("m")]),
            format!("DeciderCompleted {accepted} Marker(m)"),
        ),
        (
            scene().take(),
            scene().take().judge(&proposed, &[("u", Verdict::Later)], []),
            "DeciderCompleted UpdateAccepted(u)".to_owned(),
        ),
        // Several updates are recorded in the order of the answers.
        (
            idle(),
            idle().speculate(&[update("u"), update("v")], &[("v", Verdict::Later), ("u", updated())], []),
            format!("{one_turn} UpdateAccepted(v) {accepted}"),
        ),
    ] {
        check(&scene, &command, &then);
    }
}

#[test]
fn a_rejected_update_leaves_the_run_unchanged() {
    let proposed = [update("u"), update("v")];
    let scene = idle();
    let (before, events) = (scene.run.clone(), scene.events.clone());
    let both = scene.speculate(&proposed, &[("u", rejected()), ("v", rejected())], []);
    // A rejection leaves no trace in the run, even if it is repeated many times.
    let one = scene.speculate(&proposed, &[("u", rejected())], []);
    let after = (0..100).fold(scene, |scene, _| scene.then(&both).then(&one));
    assert_eq!((after.run, after.events), (before, events));
    // If a regular turn is held, it is completed, and the rejection adds no event.
    let busy = idle().then(&signal("go")).take();
    check(&busy, &busy.judge(&proposed, &[("u", rejected()), ("v", rejected())], []), "DeciderCompleted");
    // Of the two updates, only the accepted one is recorded, together with the decisions.
    let scene = idle();
    let one_turn = "DeciderScheduled DeciderStarted DeciderCompleted";
    let command = scene.speculate(&proposed, &[("u", rejected()), ("v", updated())], []);
    check(&scene, &command, &format!("{one_turn} UpdateAccepted(v) UpdateCompleted(v)"));
    let command = scene.speculate(&proposed, &[("u", rejected())], [marker("m")]);
    check(&scene, &command, &format!("{one_turn} Marker(m)"));
}

#[test]
fn a_speculative_turn_fails_after_any_new_event() {
    let proposed = [update("u")];
    let scene = idle();
    let (yes, no) =
        (scene.speculate(&proposed, &[("u", updated())], []), scene.speculate(&proposed, &[("u", rejected())], []));
    let signaled = scene.clone().then(&signal("go"));
    check(&signaled, &yes, "fault turn-lost");
    check(&signaled, &no, "");
    check(&signaled.clone().take(), &yes, "fault turn-lost");
    check(&signaled.decide([]), &yes, "fault turn-lost");
    // Any event counts, even one that does not change the version, because the decider has not seen it.
    let busy = idle().then(&signal("go")).decide([schedule("a")]);
    let command = busy.speculate(&proposed, &[("u", updated())], []);
    check(&busy.clone().takes("a"), &command, "fault turn-lost");
    check(&scene.clone().then(&terminate()), &yes, "fault run-closed");
    // If the answer was recorded, repeating it fails with turn-completed.
    check(&scene.clone().then(&yes), &yes, "fault turn-completed");
    check(&scene.clone().then(&yes), &no, "");
    check(&scene.then(&yes).then(&terminate()), &yes, "fault turn-completed");
}

#[test]
fn a_lost_turn_records_no_update() {
    let scene = scene().take();
    let command = scene.judge(&[update("u")], &[("u", updated())], []);
    check(&scene.clone().then(&scene.fail_turn()), &command, "fault turn-lost");
    check(&scene.clone().after(30).then(&scene.fire()), &command, "fault turn-lost");
    check(&scene.clone().then(&command), &command, "fault turn-completed");
    check(&scene.then(&terminate()), &command, "fault run-closed");
}

#[test]
fn a_later_turn_can_answer_an_accepted_update() {
    let proposed = [update("u")];
    let scene = idle();
    let accepted = scene.clone().then(&scene.speculate(&proposed, &[("u", Verdict::Later)], [schedule("a")]));
    assert_eq!(accepted.run.update_status("u"), UpdateStatus::Accepted { event_id: 8 });
    let turn = accepted.takes("a").succeeds("a").take();
    let still = turn.clone().then(&turn.judge(&[], &[("u", Verdict::Later)], []));
    assert_eq!(still.run.update_status("u"), UpdateStatus::Accepted { event_id: 8 });
    check(&turn, &turn.judge(&[], &[("u", updated())], []), "DeciderCompleted UpdateCompleted(u)");
    check(&turn, &turn.judge(&[], &[("u", rejected())], []), "DeciderCompleted UpdateFailed(u, closed)");
    check(&turn, &turn.judge(&[], &[("u", failed())], []), "DeciderCompleted UpdateFailed(u, no stock)");
    let done = turn.clone().then(&turn.judge(&[], &[("u", updated())], []));
    assert_eq!(
        done.run.update_status("u"),
        UpdateStatus::Ended { run_id: Uuid::nil(), event_id: done.run.last_event_id }
    );
    assert_eq!(done.run.version, done.run.last_event_id, "watchers of the run are notified");
    // A turn for another update can also answer this update. An answer that changes nothing records nothing.
    let one_turn = "DeciderScheduled DeciderStarted DeciderCompleted";
    check(&still, &still.speculate(&[], &[("u", updated())], []), &format!("{one_turn} UpdateCompleted(u)"));
    check(&still, &still.speculate(&[update("v")], &[("u", Verdict::Later), ("v", rejected())], []), "");
}

#[test]
fn a_run_with_an_unanswered_update_can_be_stuck() {
    let scene = idle();
    let stuck = scene.clone().then(&scene.speculate(&[update("u")], &[("u", Verdict::Later)], []));
    assert!(stuck.run.is_stuck());
    let alive = scene.clone().then(&scene.speculate(&[update("u")], &[("u", Verdict::Later)], [schedule("a")]));
    assert!(!alive.run.is_stuck());
    let closed = alive.then(&terminate());
    assert!(closed.run.updates.open().is_empty(), "a closed run answers no update");
}

#[test]
fn unknown_or_duplicate_answers_refuse_the_whole_turn() {
    let scene = idle();
    let proposed = [update("u")];
    for verdict in [updated(), rejected(), Verdict::Later] {
        let both = [("u", updated()), ("v", verdict.clone())];
        let expected = "fault unknown-update";
        check(&scene, &scene.speculate(&proposed, &both, [marker("m")]), expected);
        let busy = crate::scene::scene().take();
        check(&busy, &busy.judge(&proposed, &both, [marker("m")]), expected);
        let twice = [("u", updated()), ("u", verdict)];
        check(&scene, &scene.speculate(&proposed, &twice, []), "fault invalid-field");
    }
    let done = scene.clone().then(&scene.speculate(&proposed, &[("u", updated())], []));
    check(&done, &done.speculate(&[], &[("u", updated())], []), "fault unknown-update");
    // Two turns were asked about the same update, and the second has not seen the result of the first.
    check(&done, &done.speculate(&proposed, &[("u", updated())], []), "fault update-already-accepted");
    check(&done, &done.speculate(&proposed, &[("u", Verdict::Later)], []), "fault update-already-accepted");
    check(&done, &done.speculate(&proposed, &[("u", rejected())], []), "");
}

#[test]
fn a_conditional_update_is_accepted_at_its_version_only() {
    let scene = idle();
    let version = scene.run.version;
    let proposed = [update_at("u", version), update_at("v", version)];
    let stale = [update_at("u", version + 1)];
    check(&scene, &scene.speculate(&stale, &[("u", updated())], []), "fault version-mismatch");
    let one = scene.speculate(&proposed, &[("u", updated())], []);
    assert_eq!(scene.clone().then(&one).run.version, 9);
    // The first update changes the version that the second requires.
    check(&scene, &scene.speculate(&proposed, &[("u", updated()), ("v", updated())], []), "fault version-mismatch");
    check(
        &scene,
        &scene.speculate(&proposed, &[("u", updated()), ("v", rejected())], []),
        "DeciderScheduled DeciderStarted DeciderCompleted UpdateAccepted(u) UpdateCompleted(u)",
    );
    let busy = scene.then(&signal("go")).take();
    check(&busy, &busy.judge(&[update_at("u", version)], &[("u", updated())], []), "fault version-mismatch");
    check(
        &busy,
        &busy.judge(&[update_at("u", busy.run.version)], &[("u", updated())], []),
        "DeciderCompleted UpdateAccepted(u) UpdateCompleted(u)",
    );
}

#[test]
fn known_updates_are_answered_without_a_decider() {
    let scene = idle();
    let version = scene.run.version;
    assert_eq!(may_update(&scene.run, &update("u")), Ok(UpdateStatus::New));
    assert_eq!(may_update(&scene.run, &update_at("u", version)), Ok(UpdateStatus::New));
    let moved = Fault::VersionMismatch { expected: version + 1, found: version };
    assert_eq!(may_update(&scene.run, &update_at("u", version + 1)), Err(moved));
    let done = scene.clone().then(&scene.speculate(&[update("u")], &[("u", updated())], []));
    let ended = Ok(UpdateStatus::Ended { run_id: Uuid::nil(), event_id: done.run.last_event_id });
    assert_eq!(may_update(&done.run, &update("u")), ended);
    // A repeated request gets the original answer, although the run no longer has the required version.
    assert_eq!(may_update(&done.run, &update_at("u", version)), ended);
    let closed = done.then(&terminate());
    assert_eq!(
        may_update(&closed.run, &update("u")),
        ended,
        "a repeated request returns the answer also after the close"
    );
    assert_eq!(may_update(&closed.run, &update("v")).unwrap_err().code(), "run-closed");
    let later = scene.clone().then(&scene.speculate(&[update("u")], &[("u", Verdict::Later)], []));
    assert_eq!(may_update(&later.run, &update("u")), Ok(UpdateStatus::Accepted { event_id: 8 }));
    let unanswered = Ok(UpdateStatus::Ended { run_id: Uuid::nil(), event_id: 8 });
    assert_eq!(
        may_update(&later.then(&terminate()).run, &update("u")),
        unanswered,
        "it was accepted before the run closed"
    );
}

#[test]
fn fields_of_updates_are_limited() {
    let scene = idle();
    let longest = "x".repeat(limits::NAME_CHARS_MAX);
    for (proposed, code) in [
        (ProposedUpdate { update_id: longest.clone(), ..update("u") }, None),
        (ProposedUpdate { update_id: longest.clone() + "x", ..update("u") }, Some("too-large")),
        (ProposedUpdate { update_id: String::new(), ..update("u") }, Some("invalid-field")),
        (ProposedUpdate { name: longest.clone() + "x", ..update("u") }, Some("too-large")),
        (ProposedUpdate { identity: Some(longest + "x"), ..update("u") }, Some("too-large")),
    ] {
        assert_eq!(may_update(&scene.run, &proposed).err().map(|fault| fault.code()), code);
    }
    let text = |bytes: usize| Payload::from_json(&format!("\"{}\"", "x".repeat(bytes - 2))).unwrap();
    let reason = |bytes: usize| Verdict::Rejected { reason: "x".repeat(bytes), details: None };
    let details = |bytes| Verdict::Rejected { reason: "r".to_owned(), details: Some(text(bytes)) };
    let result = |bytes| Verdict::Done { result: Some(text(bytes)) };
    for (verdict, code) in [
        (reason(0), Some("invalid-field")),
        (reason(limits::REASON_CHARS_MAX), None),
        (reason(limits::REASON_CHARS_MAX + 1), Some("too-large")),
        (details(limits::PAYLOAD_BYTES_MAX), None),
        (details(limits::PAYLOAD_BYTES_MAX + 1), Some("too-large")),
        (result(limits::PAYLOAD_BYTES_MAX), None),
        (result(limits::PAYLOAD_BYTES_MAX + 1), Some("too-large")),
    ] {
        let command = scene.speculate(&[update("u")], &[("u", verdict)], []);
        assert_eq!(scene.clone().admit(&command).err().map(|fault| fault.code()), code);
    }
}

#[test]
fn accepted_updates_without_an_answer_are_limited() {
    let full = |count: usize| {
        let ids = ids(count);
        let proposed: Vec<ProposedUpdate> = ids.iter().map(|id| update(id)).collect();
        let answers: Vec<(&str, Verdict)> = ids.iter().map(|id| (id.as_str(), Verdict::Later)).collect();
        let scene = idle();
        scene.clone().then(&scene.speculate(&proposed, &answers, []))
    };
    assert!(may_update(&full(limits::OPEN_UPDATES_MAX - 1).run, &update("more")).is_ok());
    let refused = may_update(&full(limits::OPEN_UPDATES_MAX).run, &update("more"));
    assert_eq!(refused, Err(Fault::OpenUpdatesLimit { max: limits::OPEN_UPDATES_MAX }));
}

#[test]
fn an_update_is_kept_when_the_close_fails() {
    let scene = scene().take().then(&signal("go"));
    let command = scene.judge(&[update("u")], &[("u", updated())], [success()]);
    check(
        &scene,
        &command,
        "DeciderCompleted UpdateAccepted(u) UpdateCompleted(u) WorkflowCloseFailed(SucceedWorkflow)",
    );
}

#[test]
fn the_history_has_input_and_answer_of_an_update() {
    let scene = idle();
    let proposed = ProposedUpdate { identity: Some("ann".to_owned()), ..update("u") };
    let (last_event_id, started_at) = (scene.run.last_event_id, scene.now.plus(Duration::from_secs(3)));
    let turn = AnsweredTurn::Speculative { last_event_id, started_at, identity: Some("d".to_owned()), by: None };
    let shown = speculative_turn(&scene.run, Some("d"), None, started_at);
    let scene = scene.after(5);
    let mut command = answer_updates(turn, &[proposed], &[("u", updated())], Vec::new());
    let Command::AnswerUpdates { rest, .. } = &mut command else { unreachable!() };
    rest.context = Some(Payload::from_json("3").unwrap());
    rest.awaiting = vec!["match".to_owned()];
    let scene = scene.then(&command);
    let [.., scheduled, started, completed, accepted, done] = scene.events.as_slice() else { panic!() };
    assert_eq!(shown, [scheduled.clone(), started.clone()], "the decider got the events that were recorded later");
    assert_eq!(started.timestamp, started_at, "the decider's clock");
    assert_eq!(completed.timestamp, scene.now);
    let EventKind::DeciderStarted(started) = &started.kind else { panic!() };
    assert_eq!(started.identity.as_deref(), Some("d"));
    let EventKind::DeciderCompleted(completed) = &completed.kind else { panic!() };
    assert_eq!(completed.context.as_ref().unwrap().text(), Some("3"));
    assert_eq!(scene.run.awaiting, ["match"]);
    let EventKind::UpdateAccepted(accepted) = &accepted.kind else { panic!() };
    assert_eq!((accepted.name.as_str(), accepted.identity.as_deref()), ("match", Some("ann")));
    assert_eq!(accepted.input.as_ref().unwrap().text(), Some("1"));
    let EventKind::UpdateCompleted(done) = &done.kind else { panic!() };
    assert_eq!(done.result.as_ref().unwrap().text(), Some("2"));
    assert_eq!(scene.run.previous_started_event_id, completed.started_event_id);
}

#[test]
fn a_rejection_does_not_move_the_turns() {
    let scene = idle();
    let last_event_id = scene.run.last_event_id;
    let turn = AnsweredTurn::Speculative { last_event_id, started_at: scene.now, identity: None, by: None };
    let moved = |verdict: Verdict| {
        let mut command = answer_updates(turn.clone(), &[update("u")], &[("u", verdict)], Vec::new());
        let Command::AnswerUpdates { rest, .. } = &mut command else { unreachable!() };
        rest.next_task_list = Some(TurnList { task_list: "here".to_owned(), schedule_to_start: None });
        scene.clone().then(&command).run.next_turn_list().to_owned()
    };
    assert_eq!(moved(Verdict::Rejected { reason: "no".to_owned(), details: None }), "orders");
    assert_eq!(moved(updated()), "here");
}
