//! Cost of the engine without HTTP, which includes the cost of the rules and the store. Measures the commit of a
//! signal, and a workflow of three activities in eight commits, over the memory store and over the embedded store.
//!
//! `cargo bench -p baton-engine`

extern crate baton_engine as engine;

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use engine::{ActivityTask, DeciderTask, Delivery, Engine, Poll, RunRef, Settings, SystemClock};
use history::{Command, Decision, ScheduleActivity, Start, SucceedWorkflow};
use store::Store;
use store::memory::Memory;
use store_embedded::{Embedded, Options};
use tokio::runtime::Runtime;

const DOMAIN: &str = "default";

const LIST: &str = "bench";

fn poll() -> Poll {
    Poll { wait: Duration::from_secs(10), ..Poll::default() }
}

async fn decide(engine: &Arc<Engine>, turn: Delivery<DeciderTask>, decision: Decision) {
    let token = engine.tasks().decider_token(&turn.task().token).expect("a token of ours");
    turn.delivered();
    let command = Command::complete(token.turn, vec![decision]);
    engine.tasks().answer_turn(&token, command).await.expect("an answer that is recorded");
}

async fn succeed(engine: &Arc<Engine>, task: Delivery<ActivityTask>) {
    let token = engine.tasks().activity_token(&task.task().token).expect("a token of ours");
    task.delivered();
    let command = Command::SucceedActivity { task: token.task, result: None };
    engine.tasks().answer_activity(&token, command).await.expect("an answer that is recorded");
}

/// Runs a workflow with three activities in sequence. Each task is polled for before it is created.
async fn canonical(engine: &Arc<Engine>, id: &str) {
    let turn = engine.tasks().poll_decider(DOMAIN, LIST, poll());
    let start = engine.commands().start(DOMAIN, Start::new(id, "bench", LIST));
    let (turn, started) = tokio::join!(turn, start);
    started.expect("a start");
    let mut turn = turn.expect("a poll").expect("a turn");
    for number in 0..3 {
        let schedule = ScheduleActivity {
            activity_id: format!("step-{number}"),
            activity_type: "step".to_owned(),
            task_list: Some(LIST.to_owned()),
            ..ScheduleActivity::default()
        };
        let task = engine.tasks().poll_activity(DOMAIN, LIST, poll());
        let (task, ()) = tokio::join!(task, decide(engine, turn, schedule.into()));
        let next = engine.tasks().poll_decider(DOMAIN, LIST, poll());
        let (next, ()) = tokio::join!(next, succeed(engine, task.expect("a poll").expect("an activity")));
        turn = next.expect("a poll").expect("a turn");
    }
    decide(engine, turn, SucceedWorkflow::default().into()).await;
}

fn engines(criterion: &mut Criterion) {
    let directory = tempfile::TempDir::new().expect("a directory");
    let runtime = Runtime::new().expect("a runtime");
    let embedded = runtime.block_on(Embedded::open(Options::new(directory.path()))).expect("an open store");
    let stores: [(&str, Arc<dyn Store>); 2] = [("memory", Arc::new(Memory::new())), ("embedded", embedded)];
    for (name, store) in stores {
        let settings = Settings::default();
        let engine = Engine::open(Arc::clone(&store), Arc::new(SystemClock), settings);
        let engine = runtime.block_on(engine).expect("an open engine");
        let mut number = 0_u64;
        criterion.bench_function(&format!("canonical workflow, {name}"), |bencher| {
            bencher.iter(|| {
                number += 1;
                runtime.block_on(canonical(&engine, &format!("w-{number}")));
            });
        });
        runtime.block_on(engine.commands().start(DOMAIN, Start::new("signaled", "bench", "nobody"))).expect("a start");
        let at = RunRef { domain: DOMAIN.into(), workflow_id: "signaled".into(), run_id: None };
        criterion.bench_function(&format!("signal, {name}"), |bencher| {
            bencher.iter(|| {
                let signal =
                    Command::Signal { name: "s".to_owned(), input: None, identity: None, key: None, if_version: None };
                runtime.block_on(engine.commands().submit(&at, signal)).expect("a signal that is recorded");
            });
        });
        runtime.block_on(engine.shutdown()).expect("a clean end");
    }
}

criterion_group!(benches, engines);
criterion_main!(benches);
