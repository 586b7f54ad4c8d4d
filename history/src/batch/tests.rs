//! Steps of a batch, and the validation of its definition.

use uuid::Uuid;

use super::*;
use crate::Fault;
use crate::limits::{BATCH_ATTEMPTS_MAX, BATCH_IDS_MAX, BATCH_PACE_MAX, BATCH_PAGE_MAX, BATCH_REFUSALS_MAX};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn runs(count: usize) -> Vec<SelectedRun> {
    (0..count).map(|n| SelectedRun { workflow_id: format!("w{n}"), run_id: Uuid::nil() }).collect()
}

fn page(count: usize, is_last: bool) -> BatchPage {
    let next = BatchCursor { page: Some("next".to_owned()), is_at_end: is_last, ..BatchCursor::default() };
    BatchPage { runs: runs(count), missing: Vec::new(), next }
}

/// Returns the state of a batch with a plan of this number of runs.
fn planned(pace: u32, count: usize, is_last: bool) -> BatchState {
    let mut state = BatchState::begin(pace, at(1_000));
    state.plan(page(count, is_last), at(1_000));
    state
}

fn outcomes(state: &BatchState, outcome: &BatchOutcome) -> Vec<(SelectedRun, BatchOutcome)> {
    state.plan.iter().flat_map(|plan| &plan.runs).map(|run| (run.clone(), outcome.clone())).collect()
}

fn apply(state: &mut BatchState, outcome: &BatchOutcome, now: Timestamp) -> bool {
    let (number, outcomes) = (state.plan.as_ref().unwrap().number, outcomes(state, outcome));
    state.apply(number, outcomes, now)
}

fn refused(code: &str) -> BatchOutcome {
    BatchOutcome::Refused { code: code.to_owned(), reason: "why".to_owned() }
}

fn retry() -> BatchOutcome {
    BatchOutcome::Retry { code: "unavailable".to_owned(), reason: "why".to_owned() }
}

#[test]
fn the_next_step_follows_from_the_state() {
    let begun = |pace| BatchState::begin(pace, at(1_000));
    let with = |change: fn(&mut BatchState), mut state: BatchState| {
        change(&mut state);
        state
    };
    let applied = |pace, count, is_last| {
        let mut state = planned(pace, count, is_last);
        assert!(apply(&mut state, &BatchOutcome::Done, at(1_000)));
        state
    };
    let cases = [
        ("new", begun(50), BatchStep::Read { limit: 50 }),
        ("slowest", begun(1), BatchStep::Read { limit: 1 }),
        ("fastest", begun(BATCH_PACE_MAX), BatchStep::Read { limit: BATCH_PAGE_MAX }),
        ("stopped", with(BatchState::stop, begun(50)), BatchStep::Rest),
        ("planned", planned(50, 2, false), BatchStep::Operate),
        ("planned last page", planned(50, 2, true), BatchStep::Operate),
        ("planned and stopped", with(BatchState::stop, planned(50, 2, false)), BatchStep::Rest),
        ("empty page", planned(50, 0, false), BatchStep::Read { limit: 50 }),
        ("empty last page", planned(50, 0, true), BatchStep::Rest),
        ("applied", applied(50, 50, false), BatchStep::Wait(at(2_000))),
        ("applied at a fast pace", applied(1_000, 100, false), BatchStep::Wait(at(1_100))),
        ("applied half a page", applied(50, 25, false), BatchStep::Wait(at(1_500))),
        ("applied last page", applied(50, 2, true), BatchStep::Rest),
        ("clock set back", with(|state| state.next_at = at(1_000_000), begun(50)), BatchStep::Read { limit: 50 }),
    ];
    for (name, state, expected) in cases {
        assert_eq!(state.step(at(1_000)), expected, "{name}");
        assert_eq!(state.due().is_some(), expected != BatchStep::Rest, "{name}");
    }
}

#[test]
fn a_slow_step_delays_the_next_one_only_by_its_own_time() {
    let mut state = planned(50, 50, false);
    assert!(apply(&mut state, &BatchOutcome::Done, at(9_000)));
    assert_eq!(state.step(at(9_000)), BatchStep::Read { limit: 50 });
}

#[test]
fn outcomes_of_a_plan_are_counted_once() {
    let mut state = planned(50, 2, false);
    let again = outcomes(&state, &BatchOutcome::Done);
    assert!(apply(&mut state, &BatchOutcome::Done, at(1_000)));
    assert!(!state.apply(1, again.clone(), at(1_000)), "another node has applied it");
    state.plan(page(3, true), at(2_000));
    assert!(!state.apply(1, again, at(2_000)), "the plan is another one");
    assert!(apply(&mut state, &refused("run-closed"), at(2_000)));
    assert_eq!((state.counts.examined, state.counts.done, state.counts.refused["run-closed"]), (5, 2, 3));
    assert_eq!((state.phase, state.completed_at), (BatchPhase::Completed, Some(at(2_000))));
}

#[test]
fn refusals_beyond_the_limit_are_only_counted() {
    let mut state = planned(1_000, BATCH_PAGE_MAX - 1, false);
    assert!(apply(&mut state, &refused("run-closed"), at(1_000)));
    assert_eq!(state.refusals.len(), BATCH_REFUSALS_MAX - 1);
    state.plan(page(2, true), at(2_000));
    assert!(apply(&mut state, &refused("run-closed"), at(2_000)));
    assert_eq!((state.refusals.len(), state.counts.refused["run-closed"]), (BATCH_REFUSALS_MAX, 101));
}

#[test]
fn the_text_of_a_refusal_is_cut_at_its_limit() {
    for (length, kept) in [(limits::BATCH_REFUSAL_BYTES_MAX, 256), (limits::BATCH_REFUSAL_BYTES_MAX + 1, 256)] {
        let mut state = planned(50, 1, true);
        let outcome = BatchOutcome::Refused { code: "c".to_owned(), reason: "x".repeat(length) };
        assert!(apply(&mut state, &outcome, at(1_000)));
        assert_eq!(state.refusals[0].reason.len(), kept);
    }
}

#[test]
fn an_unavailable_run_is_tried_again_up_to_the_limit() {
    let mut state = planned(50, 1, true);
    let mut now = at(1_000);
    for attempt in 1..BATCH_ATTEMPTS_MAX {
        assert!(apply(&mut state, &retry(), now));
        let BatchStep::Wait(next) = state.step(now) else { panic!("attempt {attempt}") };
        assert!(next > now && next <= now.plus(limits::BATCH_WAIT_MAX));
        now = next;
        assert_eq!(state.step(now), BatchStep::Operate);
    }
    assert!(apply(&mut state, &retry(), now));
    assert_eq!((state.phase, state.counts.refused["unavailable"]), (BatchPhase::Completed, 1));
}

#[test]
fn only_runs_without_an_outcome_are_tried_again() {
    let mut state = planned(50, 2, true);
    let outcomes = runs(2).into_iter().zip([BatchOutcome::Done, retry()]).collect();
    assert!(state.apply(1, outcomes, at(1_000)));
    assert_eq!(state.plan.as_ref().unwrap().runs, runs(2)[1..]);
    assert_eq!(state.counts.done, 1);
}

#[test]
fn a_resumed_batch_continues_with_its_plan() {
    let mut state = planned(50, 2, true);
    state.stop();
    state.resume(at(5_000));
    assert_eq!(state.step(at(5_000)), BatchStep::Operate);
    assert!(apply(&mut state, &BatchOutcome::Done, at(5_000)));
    assert_eq!(state.phase, BatchPhase::Completed);
    state.stop();
    state.resume(at(6_000));
    assert_eq!(state.phase, BatchPhase::Completed, "a completed batch stays completed");
}

#[test]
fn a_resumed_batch_keeps_its_pace() {
    let mut state = planned(50, 50, false);
    assert!(apply(&mut state, &BatchOutcome::Done, at(1_000)));
    state.stop();
    state.resume(at(1_500));
    assert_eq!(state.step(at(1_500)), BatchStep::Wait(at(2_000)));
}

#[test]
fn the_outcomes_of_a_step_are_stored_after_a_stop() {
    let mut state = planned(50, 2, false);
    state.stop();
    assert!(apply(&mut state, &BatchOutcome::Done, at(1_000)));
    assert_eq!((state.phase, state.counts.done), (BatchPhase::Stopped, 2));
}

#[test]
fn a_batch_stopped_in_its_last_step_completes_on_resume() {
    let mut state = planned(50, 2, true);
    state.stop();
    assert!(apply(&mut state, &BatchOutcome::Done, at(1_000)));
    state.resume(at(2_000));
    assert_eq!(state.step(at(2_000)), BatchStep::Rest);
}

#[test]
fn a_missing_workflow_id_counts_as_refused() {
    let mut state = BatchState::begin(50, at(1_000));
    state.plan(BatchPage { missing: vec!["lost".to_owned()], ..page(0, true) }, at(1_000));
    assert_eq!(state.counts.refused["unknown-workflow"], 1);
    assert_eq!((state.refusals[0].workflow_id.as_str(), state.phase), ("lost", BatchPhase::Completed));
}

fn batch(operation: BatchedOperation, filter: BatchFilter) -> Batch {
    Batch { operation, filter, reason: None, identity: None }
}

fn status(word: &str) -> BatchFilter {
    BatchFilter { status: Some(word.to_owned()), ..BatchFilter::default() }
}

fn ids(count: usize) -> BatchFilter {
    BatchFilter { workflow_ids: (0..count).map(|n| format!("w{n}")).collect(), ..BatchFilter::default() }
}

#[test]
fn an_invalid_definition_is_refused_with_its_field() {
    let of = BatchedOperation::of;
    let reset = BatchedOperation { to: Some(crate::ResetTo::LastTurn), ..of(BatchAction::Reset) };
    let twice = BatchFilter { workflow_ids: vec!["w".to_owned(); 2], ..BatchFilter::default() };
    let both = BatchFilter { workflow_id: Some("w".to_owned()), ..ids(1) };
    let named = |action| BatchedOperation { name: Some("approve".to_owned()), ..of(action) };
    let cases = [
        (of(BatchAction::Cancel), status("open"), None),
        (of(BatchAction::RetryActivities), status("blocked"), None),
        (of(BatchAction::RetryActivities), status("failed"), Some("filter.status")),
        (of(BatchAction::Cancel), status("asleep"), Some("filter.status")),
        (of(BatchAction::Delete), status("closed"), None),
        (of(BatchAction::Delete), status("blocked"), Some("filter.status")),
        (of(BatchAction::Signal), BatchFilter::default(), Some("operation.name")),
        (named(BatchAction::Signal), BatchFilter::default(), None),
        (named(BatchAction::Cancel), BatchFilter::default(), Some("operation.name")),
        (
            BatchedOperation { stop_clocks: true, ..of(BatchAction::Resume) },
            status("paused"),
            Some("operation.stopClocks"),
        ),
        (of(BatchAction::Reset), status("failed"), Some("operation.to")),
        (reset.clone(), status("failed"), None),
        (reset.clone(), BatchFilter::default(), Some("filter.status")),
        (BatchedOperation { event_id: Some(3), ..reset }, status("failed"), Some("operation.to")),
        (BatchedOperation { event_id: Some(0), ..of(BatchAction::Reset) }, status("failed"), Some("operation.eventId")),
        (of(BatchAction::Cancel), ids(BATCH_IDS_MAX), None),
        (of(BatchAction::Cancel), ids(BATCH_IDS_MAX + 1), Some("filter.workflowIds")),
        (of(BatchAction::Cancel), twice, Some("filter.workflowIds")),
        (of(BatchAction::Cancel), both, Some("filter.workflowId")),
    ];
    for (operation, filter, expected) in cases {
        let found = match batch(operation.clone(), filter.clone()).check() {
            Ok(()) => None,
            Err(Fault::Invalid { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(found.as_deref(), expected, "{operation:?} {filter:?}");
    }
}

#[test]
fn a_definition_over_its_size_is_refused() {
    let with = |length: usize| {
        let operation = BatchedOperation { name: Some("s".to_owned()), ..BatchedOperation::of(BatchAction::Signal) };
        let input = crate::Payload::from_json(&format!("\"{}\"", "x".repeat(length)));
        batch(BatchedOperation { input: Some(input.unwrap()), ..operation }, BatchFilter::default())
    };
    let rest = serde_json::to_vec(&with(0)).unwrap().len();
    assert!(with(limits::BATCH_BYTES_MAX - rest).check().is_ok());
    let refused = with(limits::BATCH_BYTES_MAX - rest + 1).check();
    assert!(matches!(refused, Err(Fault::TooLarge { max: limits::BATCH_BYTES_MAX, .. })), "{refused:?}");
}

#[test]
fn a_pace_outside_its_limits_is_refused() {
    for (pace, is_valid) in [(0, false), (1, true), (BATCH_PACE_MAX, true), (BATCH_PACE_MAX + 1, false)] {
        assert_eq!(check_pace(pace).is_ok(), is_valid, "{pace}");
    }
}

#[test]
fn every_kind_of_operation_has_its_own_word() {
    for action in BatchAction::ALL {
        assert_eq!(BatchAction::from_word(action.word()), Some(action));
        assert_eq!(serde_json::to_value(action).unwrap(), action.word());
    }
    assert_eq!(BatchAction::from_word("restart"), None);
}
