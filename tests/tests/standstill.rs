//! The time during which runs make no progress when nodes die, in virtual time.

use std::time::Duration;

use simulation::drill::{Drilled, drill};

/// Limits of the standstill. Source: docs/dynamodb.md, "Drill".
const ALWAYS: Duration = Duration::from_secs(8);
const NEARLY_ALWAYS: Duration = Duration::from_secs(6);

/// Seeds with about eight deaths each. With the last seed, a node returned immediately. It found a turn that its
/// earlier process had lost, but could not know that the turn was lost.
const SEEDS: [u64; 3] = [0, 7, 10];

fn of(sorted: &[Duration], thousandths: usize) -> Duration {
    let place = (sorted.len() * thousandths).div_ceil(1_000).saturating_sub(1);
    sorted.get(place).copied().expect("runs stood still")
}

#[test]
fn a_run_goes_on_within_six_seconds_of_a_death_nearly_always_and_within_eight_always() {
    let mut all = Vec::new();
    for seed in SEEDS {
        let Drilled { standstills, longest, runs, open } = drill(seed);
        println!("seed {seed}: {runs} runs, {} standstills, the longest {longest}", standstills.len());
        assert_eq!(open, 0, "seed {seed}: some runs do not come to their end");
        all.extend(standstills);
    }
    all.sort();
    let percentiles = [500, 900, 990, 999, 1_000].map(|at| of(&all, at));
    println!("{} standstills: 50 %, 90 %, 99 %, 99.9 %, all: {percentiles:?}", all.len());
    let [.., nearly_all, longest] = percentiles;
    assert!(nearly_all <= NEARLY_ALWAYS && longest <= ALWAYS, "{percentiles:?}");
}
