//! Cost of the rules: admitting commands, evolving and storing runs, and reading windows.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot continue has failed")]

use std::hint::black_box;

use baton_history::{
    Command, Decision, Duration, Event, Heartbeat, Payload, Run, ScheduleActivity, Start, StartTimer, TaskId,
    Timestamp, Transition, TurnId, codec,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

#[expect(clippy::unnecessary_wraps, reason = "every field that takes one is optional")]
fn payload() -> Option<Payload> {
    let text = format!(r#"{{"card":"{}","amount":1250}}"#, "4".repeat(200));
    Some(Payload::from_json(&text).unwrap())
}

fn schedule(activity_id: &str) -> Decision {
    Decision::from(ScheduleActivity {
        activity_id: activity_id.to_owned(),
        activity_type: "ChargeCard".to_owned(),
        task_list: Some("PCI".to_owned()),
        input: payload(),
        ..ScheduleActivity::default()
    })
}

fn started() -> (Run, Vec<Event>) {
    Transition::start(&Start::new("order-42", "order", "orders"), Uuid::nil(), NOW).unwrap().into_parts()
}

fn admit(run: Run, command: &Command) -> (Run, Vec<Event>) {
    let mut transition = Transition::of(run);
    transition.admit(command, NOW).unwrap();
    transition.into_parts()
}

fn take(run: &Run) -> Command {
    Command::StartTurn {
        scheduled_event_id: run.turn_task.as_ref().unwrap().scheduled_event_id,
        identity: None,
        poll: None,
    }
}

fn complete(run: &Run, decisions: Vec<Decision>) -> Command {
    let turn = run.turn.as_ref().unwrap();
    let (scheduled_event_id, started_event_id) = (turn.scheduled_event_id, turn.started_event_id);
    Command::complete(TurnId { scheduled_event_id, started_event_id }, decisions)
}

/// Returns a run of this many sequential activities, with its events.
fn sequence(activities: usize) -> (Run, Vec<Event>) {
    let (mut run, mut events) = started();
    for index in 0..activities {
        let mut step = |command: &Command, run: Run| {
            let (run, added) = admit(run, command);
            events.extend(added);
            run
        };
        run = step(&take(&run), run);
        run = step(&complete(&run, vec![schedule(&format!("a{index}"))]), run);
        let scheduled_event_id = run.last_event_id;
        run = step(&Command::StartActivity { scheduled_event_id, identity: None, poll: None }, run);
        let task = TaskId { scheduled_event_id, started_event_id: run.last_event_id, start: 0 };
        run = step(&Command::SucceedActivity { task, result: payload() }, run);
    }
    (run, events)
}

/// Returns `wide` with every activity started, and a heartbeat of each.
fn beating(wide: &Run) -> (Run, Vec<Heartbeat>) {
    let waiting: Vec<_> =
        wide.activities.iter().filter(|(_, it)| it.held_since().is_none()).map(|(id, _)| *id).collect();
    let beating = waiting.into_iter().fold(wide.clone(), |run, scheduled_event_id| {
        admit(run, &Command::StartActivity { scheduled_event_id, identity: None, poll: None }).0
    });
    let heartbeats = beating.activities.keys().map(|id| Heartbeat { scheduled_event_id: *id, at: NOW, details: None });
    let heartbeats = heartbeats.collect();
    (beating, heartbeats)
}

fn admitting(c: &mut Criterion) {
    let mut group = c.benchmark_group("admit");
    let idle = sequence(3).0;
    group.bench_function("start_turn", |b| {
        let command = take(&idle);
        b.iter_batched(|| idle.clone(), |run| admit(run, black_box(&command)), BatchSize::SmallInput);
    });
    let busy = admit(idle.clone(), &take(&idle)).0;
    group.bench_function("complete_turn_with_one_activity", |b| {
        let command = complete(&busy, vec![schedule("next")]);
        b.iter_batched(|| busy.clone(), |run| admit(run, black_box(&command)), BatchSize::SmallInput);
    });
    // The cost of an answer in a run with the maximum number of open activities.
    let ids = (0..baton_history::limits::OPEN_ACTIVITIES_MAX).map(|index| schedule(&format!("wide{index}")));
    let wide = admit(busy.clone(), &complete(&busy, ids.collect())).0;
    let scheduled_event_id = wide.last_event_id;
    let wide = admit(wide, &Command::StartActivity { scheduled_event_id, identity: None, poll: None }).0;
    let task = TaskId { scheduled_event_id, started_event_id: wide.last_event_id, start: 0 };
    group.bench_function("succeed_one_of_1000_open_activities", |b| {
        let command = Command::SucceedActivity { task, result: payload() };
        b.iter_batched(|| wide.clone(), |run| admit(run, black_box(&command)), BatchSize::SmallInput);
    });
    group.bench_function("schedule_1000_activities", |b| {
        let ids = (0..baton_history::limits::OPEN_ACTIVITIES_MAX).map(|index| schedule(&format!("wide{index}")));
        let command = complete(&busy, ids.collect());
        b.iter_batched(|| busy.clone(), |run| admit(run, black_box(&command)), BatchSize::SmallInput);
    });
    let timers = (0..baton_history::limits::OPEN_TIMERS_MAX)
        // The ids of the timers sort in the reverse order of the expiry of the timers.
        .map(|index| {
            StartTimer {
                timer_id: format!("t{:03}", baton_history::limits::OPEN_TIMERS_MAX - 1 - index),
                ..StartTimer::default()
            }
            .into()
        });
    let timers = admit(busy.clone(), &complete(&busy, timers.collect())).0;
    group.bench_function("fire_1000_timers", |b| {
        let command = Command::FireDeadlines { heartbeats: vec![], stopped: std::sync::Arc::default() };
        b.iter_batched(|| timers.clone(), |run| admit(run, black_box(&command)), BatchSize::SmallInput);
    });
    group.bench_function("next_deadline_of_1000_activities", |b| {
        b.iter(|| black_box(&wide).next_deadline(&[]));
    });
    let (beating, heartbeats) = beating(&wide);
    group.bench_function("time_out_1000_beating_activities", |b| {
        let command = Command::FireDeadlines { heartbeats: heartbeats.clone(), stopped: std::sync::Arc::default() };
        b.iter_batched(
            || Transition::of(beating.clone()),
            |mut transition| transition.admit(black_box(&command), NOW.plus(Duration::from_secs(301))).unwrap(),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn folding(c: &mut Criterion) {
    let (run, events) = sequence(300);
    let count = u64::try_from(events.len()).unwrap();
    let mut group = c.benchmark_group("events");
    group.throughput(Throughput::Elements(count));
    group.bench_function("evolve", |b| b.iter(|| Run::replay(black_box(&events))));
    group.bench_function("check", |b| b.iter(|| baton_history::check::history(black_box(&events))));
    let mut stored = Vec::new();
    group.bench_function("encode", |b| {
        b.iter(|| {
            stored.clear();
            for event in &events {
                codec::put_event(&mut stored, black_box(event));
            }
        });
    });
    group.bench_function("decode", |b| {
        b.iter(|| codec::events(black_box(&stored)).map(Result::unwrap).count());
    });
    group.finish();

    let mut group = c.benchmark_group("run");
    let mut bytes = Vec::new();
    group.bench_function("encode", |b| {
        b.iter(|| {
            bytes.clear();
            codec::put_run(&mut bytes, black_box(&run));
        });
    });
    group.bench_function("decode", |b| b.iter(|| codec::run(black_box(&bytes)).unwrap()));
    group.finish();
}

fn showing(c: &mut Criterion) {
    let (_, events) = sequence(3);
    let window = events.get(8..14).unwrap();
    let text = serde_json::to_vec(window).unwrap();
    let mut group = c.benchmark_group("window_of_six_events");
    group.throughput(Throughput::Bytes(u64::try_from(text.len()).unwrap()));
    group.bench_function("to_json", |b| b.iter(|| serde_json::to_vec(black_box(window)).unwrap()));
    group.bench_function("from_json", |b| {
        b.iter(|| serde_json::from_slice::<Vec<Event>>(black_box(&text)).unwrap());
    });
    group.finish();
}

criterion_group!(benches, admitting, folding, showing);
criterion_main!(benches);
