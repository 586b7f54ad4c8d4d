//! A process under load is killed, at any instant and between any two steps; nothing that it acknowledged is lost.

mod support;

use std::time::Duration;

use support::{Acknowledged, Dice, Hammer};
use tempfile::TempDir;

/// Not a test: the process to be killed, when the environment says so.
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
            // Histories grow with each kill; now and then a new store keeps the check short.
            directory = TempDir::new().unwrap();
            acknowledged = Acknowledged::default();
        }
        let mut hammer = Hammer::start(directory.path(), None);
        // However slow it is, it has come somewhere; how far it is with the next commits is up to the dice.
        count += hammer.hear(10 + dice.roll(200), &mut acknowledged);
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
async fn nothing_acknowledged_is_lost_by_an_end_between_two_steps_of_a_checkpoint() {
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
            // What is found again after an end may fill memory or a segment to the brim, so that the first commit gets there.
            assert!(round > 0 || count > 0, "nothing was acknowledged before the end at {point}");
            drop(acknowledged.check(directory.path()).await);
        }
    }
}
