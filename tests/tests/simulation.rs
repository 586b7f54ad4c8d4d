//! Tests of the simulation: many seeds, stores with defects that it must detect, nodes without one of their rules, and
//! determinism.

use simulation::asking::ReplyCounts;
use simulation::broken::Break;
use simulation::corpus::{self, Corpus};
use simulation::hosts::Exchanged;
use simulation::repeating::{Often, Repeats};
use simulation::rules::Rule;
use simulation::{Outcome, Plan, Tale, Waits, crash_at, know_each_other, simulate};

/// Seeds that failed in the past and therefore always run.
///
/// * 149: a node learned late that it had started a task. It handed the task out, although another poll had got it in
///   the meantime.
/// * 323: a target forgot an effect that its source settled between reading the outbox and cleaning up `seen`.
/// * 51, 1322, 1547, 2147: one node signaled a run that another had not found, and the sender recorded a failure.
const REGRESSIONS: &[u64] = &[51, 149, 323, 728, 1322, 1547, 2147];

/// Like [`REGRESSIONS`], with short lives.
///
/// * 1: a run that was kept for longer than its successor could not be read.
/// * 8: a history whose events had all been deleted was shown as empty.
/// * 57: a run that continued as new and its child waited for each other.
const REGRESSIONS_OF_SHORT_LIVES: &[u64] = &[1, 8, 57];

/// Like [`REGRESSIONS`], with queries and updates.
///
/// * 17: an answer to a turn whose updates were lost with their node was refused as if it were about another run.
const REGRESSIONS_OF_ASKING: &[u64] = &[17];

/// Like [`REGRESSIONS`], with clocks that are set.
const REGRESSIONS_OF_CLOCKS: &[u64] = &[];

/// Default number of new seeds; `BATON_SIM_SEEDS` overrides it. Special worlds run a fraction of this number.
const SEEDS: u64 = 300;

/// Maximum number of seeds until a defect of the store must have been detected.
const SEEDS_TO_CATCH: u64 = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the seeds to run: the regressions and some new seeds, whose usual number is divided by `one_of`. If
/// `BATON_SIM_SEED` is set, returns only that seed.
fn seeds(regressions: &[u64], one_of: u64) -> Vec<u64> {
    match number("BATON_SIM_SEED") {
        Some(seed) => vec![seed],
        None => {
            let fresh = number("BATON_SIM_SEEDS").unwrap_or(SEEDS) / one_of;
            regressions.iter().copied().chain(0..fresh).collect()
        }
    }
}

/// Sums of the counts of several worlds.
#[derive(Default)]
struct Seen {
    single_activities: usize,
    branches: usize,
    replies: ReplyCounts,
    repeats: Repeats,
    exchanged: Exchanged,
    repaired: usize,
}

/// Runs seeds and expects each world to keep its promises. Compares the worlds with the corpus if it contains worlds of
/// this kind.
fn keep_every_promise(kind: Option<&'static str>, regressions: &[u64], one_of: u64, plan: Plan) -> Seen {
    let mut corpus = kind.map(Corpus::of);
    let (mut seen, mut runs, mut faults) = (Seen::default(), 0, 0);
    for seed in seeds(regressions, one_of) {
        let nodes = if plan.limits { plan.nodes } else { 1 + usize::try_from(seed % 3).unwrap_or_default() };
        let plan = Plan { nodes, ..plan };
        let outcome = simulate(seed, plan);
        runs += outcome.runs;
        faults += outcome.faults;
        seen.single_activities += outcome.single_activities;
        seen.branches += outcome.branches;
        seen.replies.answers += outcome.replies.answers;
        seen.replies.accepted += outcome.replies.accepted;
        seen.replies.rejected += outcome.replies.rejected;
        seen.repeats.add(&outcome.repeats);
        seen.exchanged.add(&outcome.exchanged);
        seen.repaired += outcome.repaired;
        assert!(
            outcome.violations.is_empty(),
            "{}\n\nseed {seed} of {plan:?}:\n{}\n\nagain: BATON_SIM_SEED={seed}, and the name of this test",
            outcome.trace,
            outcome.violations.join("\n"),
        );
        if let Some(corpus) = corpus.as_mut().filter(|_| !know_each_other(seed)) {
            corpus.hold(seed, &outcome.record);
        }
    }
    if let Some(corpus) = corpus {
        corpus.end();
    }
    println!(
        "{runs} runs, {} branched off others, {faults} faults, {:?}, {:?}, {:?}",
        seen.branches, seen.replies, seen.repeats, seen.exchanged
    );
    assert!(faults > 0, "nothing went wrong, so nothing was tested");
    seen
}

#[test]
fn every_seed_keeps_every_promise() {
    keep_every_promise(Some("plain"), REGRESSIONS, 1, Plan::default());
}

#[test]
fn every_seed_keeps_every_promise_where_lives_are_short() {
    keep_every_promise(
        Some("short-lives"),
        REGRESSIONS_OF_SHORT_LIVES,
        2,
        Plan { short_lives: true, ..Plan::default() },
    );
}

#[test]
fn every_seed_keeps_every_promise_where_runs_are_reset() {
    let seen = keep_every_promise(Some("resets"), &[], 3, Plan { resets: true, ..Plan::default() });
    assert!(seen.branches > 0, "nothing was reset");
}

#[test]
fn every_seed_keeps_every_promise_where_runs_are_single_activities() {
    let plan = Plan { single_activities: true, ..Plan::default() };
    for (one_of, plan) in [
        (6, plan),
        (12, Plan { resets: true, ..plan }),
        (12, Plan { hosts: true, ..plan }),
        (12, Plan { short_lives: true, ..plan }),
        (30, Plan { sets_clocks: true, ..plan }),
        (30, Plan { limits: true, ..plan }),
    ] {
        let seen = keep_every_promise(None, &[], one_of, plan);
        assert!(number("BATON_SIM_SEED").is_some() || seen.single_activities > 0, "no such run closed");
    }
}

#[test]
fn every_seed_keeps_what_it_says_to_who_asks_and_who_updates() {
    let replies = keep_every_promise(None, REGRESSIONS_OF_ASKING, 6, Plan { asks: true, ..Plan::default() }).replies;
    let is_one = number("BATON_SIM_SEED").is_some();
    assert!(is_one || (replies.answers > 0 && replies.accepted > 0 && replies.rejected > 0), "{replies:?}");
}

#[test]
fn every_seed_keeps_every_promise_where_hosts_exchange() {
    for asks in [false, true] {
        let exchanged = keep_every_promise(None, &[], 4, Plan { hosts: true, asks, ..Plan::default() }).exchanged;
        let is_one = number("BATON_SIM_SEED").is_some();
        assert!(is_one || (exchanged.lost > 0 && exchanged.came_again > 0), "{exchanged:?}");
    }
}

#[test]
fn every_task_that_was_taken_arrives_at_whatever_instant_its_poll_ends() {
    for (hosts, asks) in [(false, false), (true, false), (false, true)] {
        let plan = Plan { waits: Waits::Short, steps: 100, hosts, asks, ..Plan::default() };
        keep_every_promise(None, &[], 15, plan);
    }
}

#[test]
fn waits_whose_end_drops_what_is_on_its_way_are_caught() {
    let plan = Plan { waits: Waits::CutOff, steps: 100, ..Plan::default() };
    let is_found =
        |seed: &u64| simulate(*seed, plan).violations.iter().any(|violation| violation.contains("did not arrive"));
    assert!((0..3).any(|seed| is_found(&seed)), "no poll ended while a task was on its way to it");
}

#[test]
fn every_seed_keeps_every_promise_where_lists_have_limits() {
    for (hosts, one_of) in [(false, 3), (true, 6)] {
        keep_every_promise(None, &[], one_of, Plan { limits: true, nodes: 1, hosts, ..Plan::default() });
    }
}

#[test]
fn every_seed_keeps_every_promise_where_nodes_share_limits() {
    for (nodes, hosts, one_of) in [(2, false, 12), (3, false, 12), (3, true, 24)] {
        keep_every_promise(None, &[], one_of, Plan { limits: true, nodes, hosts, steps: 1_200, ..Plan::default() });
    }
}

#[test]
fn running_tasks_that_are_not_counted_after_a_restart_are_caught() {
    let plan = Plan { limits: true, nodes: 1, without: Some(Rule::RunningTasksAreCounted), ..Plan::default() };
    let says = |violation: &String| violation.contains("tasks run at once");
    let caught = (0..SEEDS_TO_CATCH).find(|seed| simulate(*seed, plan).violations.iter().any(says));
    println!("seed {caught:?}");
    assert!(caught.is_some(), "no limit was exceeded");
}

/// Minutes without pollers. After three hours, the wakes of a run are a day apart.
const DESERTED: u32 = 180;

#[test]
fn every_seed_keeps_every_promise_where_nobody_polls_for_hours() {
    keep_every_promise(Some("deserted"), &[], 6, Plan { deserted_minutes: DESERTED, ..Plan::default() });
}

#[test]
fn every_seed_keeps_every_promise_where_clocks_are_set() {
    for (one_of, plan) in [
        (5, Plan::default()),
        (15, Plan { hosts: true, ..Plan::default() }),
        (15, Plan { resets: true, ..Plan::default() }),
        (15, Plan { asks: true, ..Plan::default() }),
        (15, Plan { short_lives: true, ..Plan::default() }),
    ] {
        let seen = keep_every_promise(None, REGRESSIONS_OF_CLOCKS, one_of, Plan { sets_clocks: true, ..plan });
        println!("{} late deadlines were repaired", seen.repaired);
        assert!(number("BATON_SIM_SEED").is_some() || seen.repaired > 0, "no deadline was late");
    }
}

#[test]
fn every_request_that_is_repeated_late_hears_what_it_heard_first() {
    let repeats = keep_every_promise(None, &[], 6, Plan { repeats: true, ..Plan::default() }).repeats;
    let is_one = number("BATON_SIM_SEED").is_some();
    let is_seen = |often: Often| often.all > 0 && often.after_successors > 0 && often.after_deaths > 0;
    assert!(is_one || repeats.each().into_iter().all(is_seen), "{repeats:?}");
}

#[test]
fn a_few_small_worlds_are_what_they_were_line_by_line() {
    for (name, nodes, plan) in [
        ("plain", 2, Plan::default()),
        ("short-lives", 1, Plan { short_lives: true, ..Plan::default() }),
        ("resets", 1, Plan { resets: true, ..Plan::default() }),
    ] {
        let outcome = simulate(4, Plan { nodes, workflows: 1, steps: 20, ..plan });
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        corpus::hold_text(&format!("whole/{name}.txt"), &outcome.record.text());
    }
}

#[test]
fn a_seed_always_makes_the_same_world() {
    let plan = Plan { steps: 150, ..Plan::default() };
    let (one, other) = (simulate(7, plan), simulate(7, plan));
    assert!(one.runs > 1 && one.faults > 10);
    assert_eq!(one.faults, other.faults);
    assert_eq!(one.trace, other.trace);
}

/// Runs a tale once for every write, with a node that dies before or after that write. Each outcome must pass `check`.
fn dies_everywhere(tale: Tale, hosts: bool, check: impl Fn(&Outcome) -> bool) {
    for lands in [false, true] {
        let mut op = 0;
        while let Some(outcome) = crash_at(tale, op, lands, hosts) {
            let at = format!("{tale:?}, write {op}, lands: {lands}, hosts: {hosts}");
            assert!(outcome.violations.is_empty(), "{at}\n{}\n{:?}", outcome.trace, outcome.violations);
            assert!(check(&outcome), "{at}\n{} runs\n{}", outcome.runs, outcome.trace);
            op += 1;
        }
        // The run has at least these writes: the secret, the domain, the start, and the commits of its two activities
        // and its timer.
        assert!(op >= 8, "only {op} writes");
    }
}

#[test]
fn a_node_may_die_at_any_write_before_or_after_it_has_landed() {
    for hosts in [false, true] {
        dies_everywhere(Tale::Single, hosts, |outcome| outcome.runs == 3 && outcome.trace.contains("WorkflowSuccess"));
    }
}

#[test]
fn a_node_may_die_at_any_write_of_runs_that_go_on_as_new() {
    // There are at least four runs: the first run and its successor, their child, and the run that they signal.
    for hosts in [false, true] {
        dies_everywhere(Tale::GoesOn, hosts, |outcome| {
            outcome.runs >= 4 && outcome.trace.contains("WorkflowContinuedAsNew")
        });
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

#[test]
fn a_store_that_loses_marks_is_caught() {
    let plan = Plan { how: Break::LosesMarks, repeats: true, ..Plan::default() };
    let says = |violation: &String| violation.contains("and then");
    let caught = (0..SEEDS_TO_CATCH).find(|seed| simulate(*seed, plan).violations.iter().any(says));
    println!("seed {caught:?}");
    assert!(caught.is_some(), "a store that loses marks went unnoticed");
}

/// Maximum number of seeds until a violation must show that a rule is missing.
const SEEDS_WITHOUT: u64 = 60;

/// Like [`SEEDS_WITHOUT`], with short lives, where a rule is needed less often.
const SEEDS_WITHOUT_WHERE_LIVES_ARE_SHORT: u64 = 300;

/// Runs nodes without this rule until a seed has a violation that contains `says`. Fails if no seed has one.
fn is_missed(rule: Rule, says: &str) {
    let plan = Plan { without: Some(rule), ..Plan::default() };
    let is_found = |seed: &u64| simulate(*seed, plan).violations.iter().any(|violation| violation.contains(says));
    assert!((0..SEEDS_WITHOUT).any(|seed| is_found(&seed)), "nobody missed {rule:?} in {SEEDS_WITHOUT} seeds");
}

#[test]
fn late_deadlines_that_nobody_repairs_are_caught() {
    let plan = Plan { sets_clocks: true, without: Some(Rule::LateDeadlinesAreRepaired), ..Plan::default() };
    let says = |violation: &String| violation.contains("do not come to an end");
    let caught = (0..SEEDS_WITHOUT).find(|seed| simulate(*seed, plan).violations.iter().any(says));
    println!("seed {caught:?}");
    assert!(caught.is_some(), "no deadline was late");
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
fn runs_that_are_looked_at_late_without_being_written_down_are_caught() {
    let plan = Plan { without: Some(Rule::WrittenDown), deserted_minutes: DESERTED, ..Plan::default() };
    let is_found = |seed: &u64| {
        simulate(*seed, plan).violations.iter().any(|violation| violation.contains("do not come to an end"))
    };
    assert!((0..SEEDS_WITHOUT).any(|seed| is_found(&seed)), "nobody missed it in {SEEDS_WITHOUT} seeds");
}

/// Like [`is_missed`], with short lives.
fn is_missed_where_lives_are_short(rule: Rule, says: &str) {
    let plan = Plan { without: Some(rule), short_lives: true, ..Plan::default() };
    let is_found = |seed: &u64| simulate(*seed, plan).violations.iter().any(|violation| violation.contains(says));
    let found = (0..SEEDS_WITHOUT_WHERE_LIVES_ARE_SHORT).find(is_found);
    assert!(found.is_some(), "nobody missed {rule:?} in {SEEDS_WITHOUT_WHERE_LIVES_ARE_SHORT} seeds");
}

#[test]
fn runs_that_are_forgotten_before_others_have_done_with_them_are_caught() {
    is_missed_where_lives_are_short(Rule::KeptForOthers, "taken 2 times");
}

#[test]
fn chunks_that_are_named_after_their_first_event_are_caught() {
    is_missed(Rule::ChunksByLastEvent, "cannot be read");
}

#[test]
fn tasks_that_are_sent_to_all_who_ask_are_caught() {
    is_missed(Rule::SentToOne, "in two hands");
}
