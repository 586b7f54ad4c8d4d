//! A load for measurements: throughput and latency of commits over time, including checkpoints.
//!
//! `cargo run --profile dist -p baton-store-embedded --example load -- WRITERS SECONDS [COMMITS_PER_SECOND]
//! [DIRECTORY]`
//!
//! Each writer processes one workflow after another, with 16 commits each. Each commit writes a head of 1.5 KB, and the
//! last commit closes the run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use store::{Cas, Expect, Head, HeadKey, Row, Store};

fn head(version: u64, number: u64) -> Head {
    let is_closed = version == 16;
    // Bodies are incompressible and differ in each version.
    let mut state = number * 16 + version;
    let body: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()
    })
    .take(188)
    .flatten()
    .collect();
    Head {
        run: [7; 16],
        version,
        body: Bytes::from(body),
        due: if is_closed { None } else { Some(1_000_000 + number * 16 + version) },
        row: Some(Row {
            workflow_type: Arc::from("order"),
            status: Arc::from(if is_closed { "success" } else { "open" }),
            flagged: false,
            started_at: number,
            closed_at: is_closed.then_some(number + 1),
            tags: Vec::new(),
            why: None,
        }),
        expires_at: is_closed.then_some(number + 1),
    }
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> Instant {
    Instant::now()
}

async fn write(store: Arc<Embedded>, writer: u64, until: Instant, pause: Duration) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let mut next = now() + pause.mul_f64(f64::from(u32::try_from(writer % 64).unwrap_or(0)) / 64.0);
    for workflow in 0.. {
        let key =
            HeadKey { domain: Arc::from("bench"), workflow_id: Arc::from(format!("order-{workflow:08}-{writer}")) };
        for version in 1..=16 {
            if now() >= until {
                return latencies;
            }
            if !pause.is_zero() {
                tokio::time::sleep_until(next.into()).await;
                next += pause;
            }
            let expect =
                if version == 1 { Expect::Absent } else { Expect::Exactly { run: [7; 16], version: version - 1 } };
            let head = head(version, workflow * 64 + writer);
            let started = now();
            let answer = store.commit(&key, expect, &head, &[]).await.expect("a commit");
            assert_eq!(answer, Cas::Won);
            latencies.push(started.elapsed());
        }
    }
    latencies
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize, default: u64| -> u64 {
        arguments.get(index).map_or(default, |argument| argument.parse().expect("a number"))
    };
    let (writers, seconds, rate) = (number(1, 64), number(2, 10), number(3, 0));
    let temporary = tempfile::TempDir::new().expect("a directory");
    let directory = arguments.get(4).map_or_else(|| temporary.path().into(), std::path::PathBuf::from);
    let opening = now();
    let store = Embedded::open(Options::new(&directory)).await.expect("an open store");
    println!("opened in {:?}: {:?}", opening.elapsed(), store.recovery());
    let started = now();
    let until = started + Duration::from_secs(seconds);
    let pause =
        if rate == 0 { Duration::ZERO } else { Duration::from_secs(writers) / u32::try_from(rate).expect("a rate") };
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        tasks.spawn(write(Arc::clone(&store), writer, until, pause));
    }
    let mut latencies: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    let elapsed = started.elapsed();
    latencies.sort_unstable();
    let at = |part: usize| latencies.get((latencies.len() * part / 10_000).min(latencies.len().saturating_sub(1)));
    let count = u32::try_from(latencies.len()).unwrap_or(u32::MAX);
    println!("{count} commits, {:.0} per second", f64::from(count) / elapsed.as_secs_f64());
    println!("p50 {:?}  p99 {:?}  p99.9 {:?}  worst {:?}", at(5000), at(9900), at(9990), latencies.last());
    println!("{:?}, most memory {:?}", store.stats(), store.memory_bytes());
    let closing = now();
    store.close().await.expect("a close");
    println!("closed in {:?}; {} bytes on disk", closing.elapsed(), store.stats().bytes_on_disk);
}
