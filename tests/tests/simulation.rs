//! Many seeds; the broken stores; nodes without a rule; and that a seed is a seed.

use simulation::broken::Break;
use simulation::rules::Rule;
use simulation::{Plan, crash_at, simulate};

/// Seeds that once failed. Always run.
///
/// * 149: a node that learned late that it had started a task handed it out, though it had gone to another poll by then.
/// * 323: a target forgot an effect that its source settled between the looks at what is owed and at what can be forgotten.
/// * 51, 1322, 1547, 2147: one node signaled a run that another had not found, and the sender was told that it failed.
const REGRESSIONS: &[u64] = &[51, 149, 323, 1322, 1547, 2147];

/// How many fresh seeds are run unless `BATON_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 300;

/// How many seeds a broken store may get through.
const SEEDS_TO_CATCH: u64 = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_seed_keeps_every_promise() {
    let seeds: Vec<u64> = match number("BATON_SIM_SEED") {
        Some(seed) => vec![seed],
        None => REGRESSIONS.iter().copied().chain(0..number("BATON_SIM_SEEDS").unwrap_or(SEEDS)).collect(),
    };
    let (mut runs, mut faults) = (0, 0);
    for seed in seeds {
        let plan = Plan { nodes: 1 + usize::try_from(seed % 3).unwrap_or_default(), ..Plan::default() };
        let outcome = simulate(seed, plan);
        runs += outcome.runs;
        faults += outcome.faults;
        assert!(
            outcome.violations.is_empty(),
            "{}\n\nseed {seed}:\n{}\n\nagain: BATON_SIM_SEED={seed} cargo test -p baton-tests every_seed",
            outcome.trace,
            outcome.violations.join("\n"),
        );
    }
    println!("{runs} runs, {faults} faults");
    assert!(faults > 0, "nothing went wrong, so nothing was tested");
}

#[test]
fn a_seed_always_makes_the_same_world() {
    let plan = Plan { steps: 150, ..Plan::default() };
    let (one, other) = (simulate(7, plan), simulate(7, plan));
    assert!(one.runs > 1 && one.faults > 10);
    assert_eq!(one.faults, other.faults);
    assert_eq!(one.trace, other.trace);
}

#[test]
fn a_node_may_die_at_any_write_before_or_after_it_has_landed() {
    for lands in [false, true] {
        let mut op = 0;
        while let Some(outcome) = crash_at(op, lands) {
            assert!(
                outcome.violations.is_empty(),
                "write {op}, lands: {lands}\n{}\n{:?}",
                outcome.trace,
                outcome.violations
            );
            assert_eq!(outcome.runs, 3, "write {op}, lands: {lands}\n{}", outcome.trace);
            assert!(outcome.trace.contains("WorkflowSuccess"), "write {op}, lands: {lands}\n{}", outcome.trace);
            op += 1;
        }
        // The secret, the domain, the start, and the commits of a run with two activities and a timer.
        assert!(op >= 8, "only {op} writes");
    }
}

fn is_caught(how: Break) {
    let caught = (0..SEEDS_TO_CATCH)
        .any(|seed| !simulate(seed, Plan { how, steps: 150, ..Plan::default() }).violations.is_empty());
    assert!(caught, "{how:?} went unnoticed for {SEEDS_TO_CATCH} seeds");
}

#[test]
fn a_store_that_ignores_versions_is_caught() {
    is_caught(Break::IgnoresVersions);
}

#[test]
fn a_store_that_forgets_what_it_acknowledged_is_caught() {
    is_caught(Break::ForgetsAcknowledged);
}

#[test]
fn a_store_that_says_that_unknown_is_won_is_caught() {
    is_caught(Break::SaysUnknownIsWon);
}

#[test]
fn a_store_that_loses_its_due_index_is_caught() {
    is_caught(Break::LosesDue);
}

#[test]
fn a_store_that_loses_chunks_is_caught() {
    is_caught(Break::LosesChunks);
}

/// How many seeds nodes may get through without a rule.
const SEEDS_WITHOUT: u64 = 60;

/// Some seed must find out that a rule is not kept, by a violation that says `says`.
fn is_missed(rule: Rule, says: &str) {
    let plan = Plan { without: Some(rule), ..Plan::default() };
    let is_found = |seed: &u64| simulate(*seed, plan).violations.iter().any(|violation| violation.contains(says));
    assert!((0..SEEDS_WITHOUT).any(|seed| is_found(&seed)), "nobody missed {rule:?} in {SEEDS_WITHOUT} seeds");
}

#[test]
fn saying_no_from_memory_is_caught() {
    is_missed(Rule::NeverNoFromCache, "a promise is broken");
}

#[test]
fn commits_without_operation_ids_are_caught() {
    is_missed(Rule::OperationIds, "is there twice");
}

#[test]
fn a_due_instant_that_is_never_lowered_is_caught() {
    is_missed(Rule::DueIsLowered, "do not come to an end");
}

#[test]
fn tasks_that_are_never_offered_again_are_caught() {
    is_missed(Rule::DispatchGrace, "do not come to an end");
}

#[test]
fn effects_of_others_that_are_not_remembered_are_caught() {
    is_missed(Rule::SeenEffects, "an effect of another run happens once");
}

#[test]
fn chunks_that_are_named_after_their_first_event_are_caught() {
    is_missed(Rule::ChunksByLastEvent, "without gaps");
}

#[test]
fn tasks_that_are_sent_to_all_who_ask_are_caught() {
    is_missed(Rule::SentToOne, "in two hands");
}
