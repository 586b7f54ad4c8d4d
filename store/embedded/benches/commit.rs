//! The cost of a commit that overwrites a head of 1.5 KB, changes its due instant, and is durable on return.
//!
//! `cargo bench -p baton-store-embedded`

use std::hint::black_box;
use std::sync::Arc;

use baton_store_embedded::{Embedded, Options};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use store::{Cas, Expect, Head, HeadKey, Row, Store};
use tokio::runtime::Runtime;

fn head(version: u64) -> Head {
    Head {
        run: [7; 16],
        version,
        body: Bytes::from(vec![u8::try_from(version % 251).unwrap_or(0); 1500]),
        due: Some(1_000_000 + version),
        row: Some(Row {
            workflow_type: Arc::from("order"),
            status: Arc::from("open"),
            flagged: false,
            started_at: 1,
            closed_at: None,
            tags: Vec::new(),
            why: None,
        }),
        expires_at: None,
    }
}

/// Writes one workflow id after another. Each gets eight commits.
async fn write(store: Arc<Embedded>, writer: u64, commits: u64) {
    for number in 0..commits {
        let key = HeadKey { domain: Arc::from("bench"), workflow_id: Arc::from(format!("{writer}-{}", number / 8)) };
        let version = number % 8 + 1;
        let expect = match store.load(&key).await.expect("a load") {
            None => Expect::Absent,
            Some(found) => Expect::Exactly { run: found.run, version: found.version },
        };
        let answer = store.commit(&key, expect, &head(version), &[]).await.expect("a commit");
        assert_eq!(answer, Cas::Won);
        black_box(answer);
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn commits(criterion: &mut Criterion) {
    let directory = tempfile::TempDir::new().expect("a directory");
    let runtime = Runtime::new().expect("a runtime");
    let store = runtime.block_on(Embedded::open(Options::new(directory.path()))).expect("an open store");
    let mut group = criterion.benchmark_group("commit");
    group.sample_size(10);
    for writers in [1_u64, 64] {
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("{writers} writers"), |bencher| {
            bencher.iter_custom(|iterations| {
                let first = store.stats().commits * writers;
                let started = std::time::Instant::now();
                runtime.block_on(async {
                    let mut tasks = tokio::task::JoinSet::new();
                    for writer in 0..writers {
                        let commits = iterations / writers + u64::from(writer < iterations % writers);
                        tasks.spawn(write(Arc::clone(&store), first + writer, commits));
                    }
                    tasks.join_all().await;
                });
                started.elapsed()
            });
        });
    }
    group.finish();
    runtime.block_on(store.close()).expect("a close");
}

criterion_group!(benches, commits);
criterion_main!(benches);
