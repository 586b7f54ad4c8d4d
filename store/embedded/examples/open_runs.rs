//! The cost of many open runs. `start N DIRECTORY` starts `N` runs, each with a timer in 30 days. `open DIRECTORY`, in
//! a separate process, opens the store, queries the due index, reads some heads, and prints the durations. `compact
//! DIRECTORY` compacts the store.
//!
//! `cargo run --profile dist -p baton-store-embedded --example open_runs -- start 1000000 /tmp/runs`

use std::sync::Arc;
use std::time::Instant;

use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, Row, Store};

const START: u64 = 1_700_000_000_000;
const DAYS_30: u64 = 30 * 24 * 3600 * 1000;

fn key(number: u64) -> HeadKey {
    HeadKey { domain: Arc::from("bench"), workflow_id: Arc::from(format!("order-{number:08}")) }
}

fn head(number: u64) -> Head {
    Head {
        run: u128::from(number).to_be_bytes(),
        version: 1,
        body: Bytes::from(vec![7; 700]),
        due: Some(START + number + DAYS_30),
        row: Some(Row {
            workflow_type: Arc::from("order"),
            status: Arc::from("open"),
            flagged: false,
            started_at: START + number,
            closed_at: None,
            tags: Vec::new(),
            why: None,
        }),
        expires_at: None,
    }
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> Instant {
    Instant::now()
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM")).collect()
}

async fn start(store: &Arc<Embedded>, runs: u64) {
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..64 {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for number in (task..runs).step_by(64) {
                let answer = store.commit(&key(number), Expect::Absent, &head(number), &[]).await.expect("a commit");
                assert_eq!(answer, Cas::Won);
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let started = now();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["start", runs, directory] => {
            let store = Embedded::open(Options::new(directory)).await.expect("an open store");
            let runs = runs.parse().expect("a number");
            start(&store, runs).await;
            println!("{runs} runs started in {:?}; {}", started.elapsed(), memory());
            println!("{:?}, most memory {:?}", store.stats(), store.memory_bytes());
        }
        ["open", directory] => {
            let store = Embedded::open(Options::new(directory)).await.expect("an open store");
            println!("open after {:?}: {:?}; {}", started.elapsed(), store.recovery(), memory());
            let due = store.due(0, START + DAYS_30 + 999, None, 2000).await.expect("the due index");
            println!("{} due, found after {:?}", due.len(), started.elapsed());
            for (what, from, step) in
                [("near each other", 5000, 1), ("far from each other", 3, 97), ("absent", 1 << 40, 1)]
            {
                let reading = now();
                for number in 0..10_000 {
                    store.load(&key(from + number * step)).await.expect("a load");
                }
                println!("10,000 loads, {what}: {:?}; {}", reading.elapsed(), memory());
            }
        }
        ["compact", directory] => {
            Embedded::compact(directory).await.expect("a compaction");
            println!("compacted in {:?}; {}", started.elapsed(), memory());
        }
        _ => println!("start N DIRECTORY | open DIRECTORY | compact DIRECTORY"),
    }
}
