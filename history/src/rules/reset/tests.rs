//! Runs that continue from an earlier event of another run.

use uuid::Uuid;

use crate::event::{ActivityTimeouts, EventKind, LaterSignals, OperatorAction, RequestKey, ResetPlan};
use crate::scene::{
    Scene, check, child, keyed_signal, request_cancel, scene, schedule, schedule_with, schedule_with_retry, signal,
    signal_external, summary, terminate, timer, updated,
};
use crate::scene::{failed, update};
use crate::{
    Branch, BranchReader, Branching, Command, CommandOutcome, Duration, EventId, Fault, KnownRequest, Links,
    PlannedReset, ResetPoints, ResetTo, RetryPolicy, Run, Transition, Verdict, limits,
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn read(given: &Scene, event_id: EventId, signals: LaterSignals) -> Result<Branch, Fault> {
    let mut reader = BranchReader::new(Branching { event_id, signals });
    for event in &given.events {
        reader.read(event.clone())?;
    }
    reader.finish()
}

fn ann() -> OperatorAction {
    OperatorAction { identity: Some("ann".to_owned()), reason: Some("it was wrong".to_owned()) }
}

/// Resets a run. Returns the new run that continues from the event, and the original run.
fn reset_with(given: &Scene, event_id: EventId, signals: LaterSignals) -> (Scene, Scene) {
    let branch = read(given, event_id, signals).unwrap();
    let run_id = given.run.started.run_id;
    let plan = ResetPlan { new_run_id: Uuid::from_u128(run_id.as_u128() + 8), run_id, event_id, signals };
    let mut old = Transition::linked(given.run.clone(), given.links.clone());
    old.plan_reset(plan, &ann(), Some(RequestKey(7)), None, given.now).unwrap();
    let planned = old.events().first().and_then(PlannedReset::of).or(old.links().reset.as_deref().cloned()).unwrap();
    let new = Transition::branch(branch, &planned);
    let as_scene = |transition: Transition, before: &[crate::Event]| {
        let (run, links, events) = transition.into_all();
        let events = [before, &events].concat();
        crate::check::history(&events).unwrap_or_else(|violation| panic!("{violation}\n{}", summary(&events)));
        assert_eq!(Run::replay(&events).map(Run::history_derived), Some(run.clone().history_derived()));
        Scene { run: *run, links, events, ..given.clone() }
    };
    (as_scene(new, &[]), as_scene(old, &given.events))
}

fn reset(given: &Scene, event_id: EventId) -> Scene {
    reset_with(given, event_id, LaterSignals::Reapply).0
}

/// Returns every event from which a new run can continue.
fn points(given: &Scene) -> Vec<EventId> {
    (1..=given.run.last_event_id).filter(|id| read(given, *id, LaterSignals::Drop).is_ok()).collect()
}

#[test]
fn reset_points_have_no_held_turn_and_end_a_commit() {
    let given = scene().decide([schedule("a"), timer("t", 60)]).takes("a").then(&signal("s")).succeeds("a");
    assert_eq!(
        summary(&given.events),
        "WorkflowStarted DeciderScheduled DeciderStarted DeciderCompleted ActivityScheduled(a) TimerScheduled(t) \
         ActivityStarted Signal(s) DeciderScheduled ActivitySuccess"
    );
    assert_eq!(points(&given), [2, 6, 9, 10]);
    let refused = |id, before, after| {
        let fault = read(&given, id, LaterSignals::Drop).unwrap_err();
        assert_eq!(fault, Fault::InvalidResetPoint { event_id: id, before, after });
        assert_eq!(fault.code(), "invalid-reset-point");
        fault.to_string()
    };
    let text = refused(4, Some(2), Some(6));
    assert_eq!(text, "no run can continue from event 4; the nearest possible events: 2 and 6");
    refused(0, None, Some(2));
    refused(1, None, Some(2));
    refused(7, Some(6), Some(9));
    refused(11, Some(10), None);
    // A new run cannot continue from an event at which a turn is held, nor from a closing event.
    let held = given.take();
    assert_eq!(points(&held), [2, 6, 9, 10]);
    assert_eq!(points(&held.then(&terminate())), [2, 6, 9, 10]);
    // A failed decision schedules a turn, so DeciderScheduled follows in the same commit.
    let failed = scene().decide([timer("t", 60), timer("t", 60)]);
    assert_eq!(
        summary(&failed.events[4..]),
        "TimerScheduled(t) TimerScheduleFailed(t, TimerIdAlreadyInUse) DeciderScheduled"
    );
    assert_eq!(points(&failed), [2, 7]);
    // A speculative turn is recorded at once, together with its update.
    let proposed = [update("u")];
    let given = scene().decide([]);
    let update = given.speculate(&proposed, &[("u", updated())], []);
    assert_eq!(points(&given.then(&update)), [2, 4, 9]);
}

#[test]
fn old_and_new_run_of_a_reset_refer_to_each_other() {
    let given = scene().decide([schedule("a")]).then(&keyed_signal("s", 3));
    let (new, old) = reset_with(&given, 5, LaterSignals::Reapply);
    assert_eq!(summary(&old.events[7..]), "WorkflowTerminated");
    let new_run_id = Uuid::from_u128(8);
    assert_eq!((old.run.retried_as, old.run.has_successor()), (Some(new_run_id), true));
    assert_eq!(summary(&new.events[5..]), "WorkflowReset DeciderScheduled Signal(s)");
    assert_eq!(new.run.started.run_id, new_run_id);
    let branched = new.run.branched.as_deref().unwrap();
    assert_eq!((branched.run_id, branched.base_event_id, branched.event_id), (Uuid::nil(), 5, 6));
    let EventKind::WorkflowReset(it) = &new.events[5].kind else { panic!() };
    assert_eq!((it.identity.as_deref(), it.reason.as_deref()), (Some("ann"), Some("it was wrong")));
    let (dropped, _) = reset_with(&given, 5, LaterSignals::Drop);
    assert_eq!(summary(&dropped.events[5..]), "WorkflowReset DeciderScheduled");
    // The new run knows the request for the reset, and all requests to the old run, whether they were reapplied or not.
    for new in [&new, &dropped] {
        let own = Some(KnownRequest { run_id: new_run_id, event_id: 6 });
        let (first, before) = (KnownRequest { run_id: Uuid::nil(), event_id: 6 }, given.run.clone());
        assert_eq!(new.run.request(RequestKey(7)), own);
        assert_eq!(new.run.known.len(), 1, "copied requests are known as those of the old run");
        let mut transition = Transition::of(new.run.clone());
        transition.take_over(&before, Links::default(), given.now, given.now);
        assert_eq!(transition.admit(&keyed_signal("s", 3), given.now), Ok(CommandOutcome::Repeated(first)));
        assert_eq!(transition.run().request(RequestKey(7)), own);
    }
    // The run is closed, so its history cannot record the reset.
    let (new, old) = reset_with(&given.then(&terminate()), 5, LaterSignals::Reapply);
    assert_eq!(summary(&old.events[7..]), "WorkflowTerminated");
    assert_eq!((old.run.has_successor(), old.links.reset.unwrap().plan.new_run_id), (false, new_run_id));
    assert!(new.run.is_open());
    // The new run can also be reset.
    let (third, _) = reset_with(&new.decide([]), 7, LaterSignals::Drop);
    assert_eq!(summary(&third.events[5..]), "WorkflowReset DeciderScheduled WorkflowReset");
}

#[test]
fn deadlines_keep_their_remaining_time_after_a_reset() {
    let timeouts = ActivityTimeouts { schedule_to_close: Some(seconds(100)), ..ActivityTimeouts::default() };
    let given = scene().after(10).decide([timer("t", 60), schedule_with("a", timeouts)]).after(30);
    let given = given.then(&signal("s")).after(1_000);
    let then = given.now;
    // The timer was set for 60 s. Event 8 was recorded 30 s later, so 30 s remain in the new run.
    let new = reset(&given, 8);
    assert_eq!(new.run.timers["t"].expires_at, then.plus(seconds(30)));
    check(&new.clone().after(29), &new.fire(), "");
    check(&new.clone().after(30), &new.fire(), "TimerExpired(t)");
    check(&new.clone().after(69), &new.fire(), "TimerExpired(t)");
    let summary = new.clone().after(70).then(&new.fire());
    assert!(summary.run.activity("a").is_none(), "thirty of its hundred seconds had passed when it was copied");
    let ends = new.run.deadlines(&[]).last().unwrap().at;
    assert_eq!(ends, new.run.started.at.plus(limits::EXECUTION_TIMEOUT_DEFAULT).plus(seconds(1_000)));
}

#[test]
fn a_reset_to_a_pause_keeps_the_run_paused() {
    let stop = Command::Pause { stop_clocks: true, operator: ann(), key: None };
    let resume = Command::Resume { operator: ann(), key: None };
    let given = scene().decide([timer("t", 60)]).after(20).then(&stop).after(100).then(&signal("s")).after(100);
    let new = reset(&given.clone().then(&resume).then(&signal("late")), 8);
    assert!(new.run.paused.is_some());
    check(&new, &new.start_turn(), "fault turn-not-waiting");
    let resumed = new.after(500).then(&resume);
    check(&resumed.clone().after(39), &resumed.fire(), "");
    check(&resumed.clone().after(40), &resumed.fire(), "TimerExpired(t)");
    // The run was not yet paused at event 5.
    assert!(reset(&given, 5).run.paused.is_none());
}

#[test]
fn open_activities_restart_after_a_reset() {
    let again = || schedule_with_retry("b", RetryPolicy::default(), ActivityTimeouts::default());
    let given = scene().decide([schedule("a"), again()]).takes("a").takes("b");
    let old_task = given.task("a");
    let given = {
        let fail = given.fail("b");
        given.then(&fail)
    }
    .after(60)
    .takes("b")
    .then(&signal("s"));
    let new = reset(&given, 9);
    let waiting: Vec<_> = new.run.activities.values().map(|it| (it.held_since(), it.attempt())).collect();
    assert_eq!(waiting, [(None, 1), (None, 1)]);
    check(&new, &crate::scene::succeed(old_task), "fault activity-closed");
    let taken = new.takes("a").takes("b");
    check(&taken, &taken.succeed("a"), "ActivitySuccess");
    check(&taken, &taken.succeed("b"), "ActivityStarted(try 1) ActivitySuccess");
}

#[test]
fn accepted_updates_stay_open_after_a_reset() {
    let proposed = [update("u")];
    let given = scene().take();
    let accept = given.judge(&proposed, &[("u", Verdict::Later)], []);
    let given = given.then(&accept).then(&signal("s"));
    let answer = given.clone().take();
    let answer = answer.clone().then(&answer.judge(&[], &[("u", failed())], []));
    let new = reset(&answer, 7);
    assert_eq!(new.run.updates.open().len(), 1);
    let turn = new.take();
    check(&turn, &turn.judge(&[], &[("u", updated())], []), "DeciderCompleted UpdateCompleted(u)");
}

#[test]
fn open_children_and_requests_prevent_a_reset() {
    let refused = |given: &Scene, event_id, name: &str| {
        let fault = read(given, event_id, LaterSignals::Drop).unwrap_err();
        assert_eq!(fault.code(), "reset-not-possible");
        assert!(fault.to_string().contains(name), "{fault}");
    };
    let given = scene().decide([child("child-1")]);
    refused(&given, 5, "child `child-1`");
    // A reset to an event before the child was requested is possible.
    assert_eq!(reset(&given, 2).run.children.len(), 0);
    refused(&scene().decide([signal_external("other")]), 5, "`other`");
}

#[test]
fn the_copied_history_is_limited() {
    let given = scene().then(&signal("s")).then(&signal("t"));
    let read = |max: usize, signals| {
        let mut reader = BranchReader::with_limit(Branching { event_id: 2, signals }, max);
        given.events.iter().try_for_each(|event| reader.read(event.clone()))
    };
    assert_eq!((read(128, LaterSignals::Drop), read(256, LaterSignals::Reapply)), (Ok(()), Ok(())));
    for (max, signals) in [(127, LaterSignals::Drop), (255, LaterSignals::Reapply)] {
        assert_eq!(read(max, signals).unwrap_err().code(), "reset-not-possible");
    }
}

#[test]
fn a_reset_respects_the_limit_of_clock_stops() {
    let mut given = scene().decide([]);
    for _ in given.run.clock.stops()..limits::CLOCK_STOPS_MAX {
        let at = given.run.last_event_id;
        given = reset(&given.after(1), at).decide([]);
    }
    let at = given.run.last_event_id;
    assert_eq!(read(&given, at, LaterSignals::Drop).unwrap_err().code(), "reset-not-possible");
}

#[test]
fn a_reset_reapplies_unanswered_cancel_requests() {
    let told_from = |given: &Scene, event_id: EventId, signals| {
        let events = reset_with(given, event_id, signals).0.events;
        summary(&events.into_iter().filter(|event| event.id > event_id).collect::<Vec<_>>())
    };
    let canceled_and_signaled = scene().decide([schedule("a")]).then(&request_cancel()).then(&signal("s"));
    for given in [
        canceled_and_signaled.clone(),
        canceled_and_signaled.clone().decide([crate::scene::failure()]),
        canceled_and_signaled.clone().then(&terminate()),
    ] {
        let again = "WorkflowReset DeciderScheduled WorkflowCancelRequested Signal(s)";
        assert_eq!(told_from(&given, 5, LaterSignals::Reapply), again);
        assert!(reset(&given, 5).run.cancel_requested);
        assert_eq!(told_from(&given, 5, LaterSignals::Drop), "WorkflowReset DeciderScheduled");
        // The cancel request was recorded before the chosen event, so it is part of the copied history.
        assert!(reset_with(&given, 7, LaterSignals::Drop).0.run.cancel_requested);
    }
    let canceled = canceled_and_signaled.decide([crate::scene::cancellation()]);
    assert_eq!(told_from(&canceled, 5, LaterSignals::Reapply), "WorkflowReset DeciderScheduled Signal(s)");
    assert!(!reset(&canceled, 5).run.cancel_requested);
    // The old run received the cancel request after its first turn. In the new run, the first turn is delayed, and the
    // request makes it available.
    let later = crate::Start { start_after: Some(seconds(100)), ..crate::scene::plain() };
    let given = Scene::of(&later).after(100).decide([]).then(&request_cancel());
    let given = Scene { now: given.now, ..given };
    let new = reset(&given, 2);
    assert_eq!(summary(&new.events[2..]), "WorkflowReset WorkflowCancelRequested");
    check(&new, &new.start_turn(), "DeciderStarted");
}

fn find(given: &Scene, to: ResetTo) -> Result<EventId, Fault> {
    let mut points = ResetPoints::default();
    given.events.iter().for_each(|event| points.read(event));
    points.find(to)
}

#[test]
fn described_reset_points_are_events_of_the_history() {
    let given = scene().decide([schedule("a")]).takes("a").succeeds("a").decide([timer("t", 60)]);
    assert_eq!(points(&given), [2, 5, 8, 11]);
    let failing = given.clone().then(&signal("s")).take();
    for given in [&given, &given.clone().then(&signal("s")), &failing, &given.clone().then(&terminate())] {
        assert_eq!(find(given, ResetTo::FirstEvent), Ok(2));
        assert_eq!(find(given, ResetTo::LastTurn), Ok(8), "{}", summary(&given.events));
    }
    let one = scene().decide([schedule("a")]);
    assert_eq!((find(&one, ResetTo::FirstEvent), find(&one, ResetTo::LastTurn)), (Ok(2), Ok(2)));
    assert_eq!(find(&scene(), ResetTo::FirstEvent), Ok(2));
    let refused = find(&scene().take(), ResetTo::LastTurn);
    assert!(matches!(refused, Err(Fault::ResetNotPossible { .. })), "{refused:?}");
}
