//! A process under load is killed at any instant and between any two steps. No acknowledged commit is lost.

mod support;

use std::time::Duration;

use support::{Acknowledged, Dice, Hammer};
use tempfile::TempDir;

/// Runs the process that a test kills. Does nothing unless the environment variable for that process is set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hammer() {
    support::hammer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_by_two_hundred_kills() {
    const SEED: u64 = 20_260_707;
    let mut dice = Dice(SEED);
    let mut acknowledged = Acknowledged::default();
    let (mut directory, mut count) = (TempDir::new().unwrap(), 0);
    for kill in 0..200 {
        if kill % 25 == 0 {
            // Histories grow with each kill. Starting with a new store from time to time keeps the checks short.
            directory = TempDir::new().unwrap();
            acknowledged = Acknowledged::default();
        }
        let mut hammer = Hammer::start(directory.path(), None);
        // The process has made at least some progress; how far the next commits get is random.
        count += hammer.read_acknowledged(10 + dice.roll(200), &mut acknowledged);
        std::thread::sleep(Duration::from_micros(dice.roll(3_000)));
        hammer.kill();
        count += hammer.acknowledged(&mut acknowledged);
        println!("kill {kill} of seed {SEED}");
        drop(acknowledged.check(directory.path()).await);
    }
    println!("{count} acknowledged commits checked");
    assert!(count > 1000, "only {count} commits were acknowledged between the kills");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_between_checkpoint_steps() {
    for point in [
        "checkpoint: piece",
        "checkpoint: position",
        "checkpoint: thaw",
        "checkpoint: segment dropped",
        "segment: named",
        "segment: directory synced",
        "values: segment kept",
        "values: segment dropped",
        "values: piece",
    ] {
        let directory = TempDir::new().unwrap();
        let mut acknowledged = Acknowledged::default();
        for round in 0..4 {
            println!("{point}, round {round}");
            let hammer = Hammer::start(directory.path(), Some(point));
            let count = hammer.acknowledged(&mut acknowledged);
            println!("{count} acknowledged");
            // The data replayed after a kill may fill the memory or a segment, so that the first commit reaches the
            // step.
            assert!(round > 0 || count > 0, "nothing was acknowledged before the end at {point}");
            drop(acknowledged.check(directory.path()).await);
        }
    }
}
