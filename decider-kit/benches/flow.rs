//! Cost of a flow's turn, with a cached state and with a state rebuilt from event 1.

use std::hint::black_box;

use baton_decider_kit::flow::{Context, Failure, Flow, FlowState};
use baton_decider_kit::testing::{TestService, Work};
use baton_decider_kit::{Event, EventKind};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Runs this many activities in sequence, with six events each.
async fn sequence(ctx: Context, activities: u64) -> Result<u64, Failure> {
    let mut sum = 0;
    for number in 0..activities {
        sum += ctx.activity::<u64>("add", &number).await?;
    }
    Ok(sum)
}

fn history(activities: u64) -> Vec<Event> {
    let mut service = TestService::new();
    service.decider("sequence", Flow::new(sequence));
    service.activity("add", |call| Work::success(&call.input::<u64>()));
    service.start("sequence", "1", &activities);
    service.finish("1");
    service.history("1").to_vec()
}

fn turns(c: &mut Criterion) {
    let flow = Flow::new(sequence);
    for activities in [166, 1_666] {
        let events = history(activities);
        let count = events.len();
        // The last turn is the turn to decide.
        let last = events.iter().rposition(|event| matches!(event.kind, EventKind::DeciderStarted(_))).unwrap_or(0);
        let events = events.get(..=last).unwrap_or_default();
        let mut group = c.benchmark_group(format!("flow, {count} events"));
        group.bench_function("a turn without cached state", |b| {
            b.iter(|| {
                let mut state = FlowState::default();
                for event in events {
                    flow.evolve(&mut state, event);
                }
                black_box(flow.decide(&state))
            });
        });
        group.throughput(Throughput::Elements(activities + 1));
        group.bench_function("every turn with cached state", |b| {
            b.iter(|| {
                let mut state = FlowState::default();
                for event in events {
                    flow.evolve(&mut state, event);
                    if matches!(event.kind, EventKind::DeciderStarted(_)) {
                        drop(black_box(flow.decide(&state)));
                    }
                }
            });
        });
        group.finish();
    }
}

criterion_group!(benches, turns);
criterion_main!(benches);
