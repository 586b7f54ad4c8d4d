//! Clients that query and update runs, and the deciders' answers. Answers must be as new as everything that was
//! acknowledged, and accepted updates must be in the history exactly once.

use std::sync::Arc;
use std::time::Duration;

use engine::{DeciderTask, QueryOutcome, QueryReply, QueryRequest, Refusal, RunRef, UpdateRequest};
use history::{Command, Event, EventKind, Payload, UpdateAnswer, Verdict};

use crate::actors::{REPEATS, answer, pause};
use crate::facts::Promise;
use crate::world::{DOMAIN, World};

/// Maximum wait of one call.
const WAIT: Duration = Duration::from_secs(3);

/// Counts of responses to queries and updates, so that a test notices if there are none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReplyCounts {
    /// Answers to queries.
    pub answers: usize,
    /// Updates that were accepted and answered.
    pub accepted: usize,
    /// Updates that were rejected.
    pub rejected: usize,
}

/// Verdict of a decider on an update. Another decider may give another verdict, and only one verdict may count.
fn verdict(world: &World) -> Verdict {
    match world.dice(4) {
        0 => Verdict::Rejected { reason: "no".to_owned(), details: None },
        1 => Verdict::Later,
        _ => done(),
    }
}

fn done() -> Verdict {
    Verdict::Done { result: None }
}

/// Returns the verdicts on the updates of a task, and on updates that were accepted but not answered yet.
pub(crate) fn judge(world: &World, task: &DeciderTask, events: &[Event]) -> Vec<UpdateAnswer> {
    let mut answers: Vec<UpdateAnswer> = Vec::new();
    let mut say = |update_id: &str, verdict| {
        if !answers.iter().any(|answer| answer.update_id == update_id) {
            answers.push(UpdateAnswer { update_id: update_id.to_owned(), verdict });
        }
    };
    let ended = |update_id: &str| {
        events.iter().any(|event| matches!(&event.kind, EventKind::UpdateCompleted(it) if it.update_id == update_id))
    };
    for event in events {
        if let EventKind::UpdateAccepted(it) = &event.kind
            && !ended(&it.update_id)
        {
            say(&it.update_id, done());
        }
    }
    for asked in &task.updates {
        say(&asked.update_id, verdict(world));
    }
    answers
}

/// Returns the answer to a query: the newest event that the decider has seen.
pub(crate) fn results(task: &DeciderTask, events: &[Event]) -> Vec<(String, QueryOutcome)> {
    let seen = events.last().map_or(0, |event| event.id);
    let result = || QueryOutcome::Result(Payload::from_json(&seen.to_string()).ok());
    task.queries.iter().map(|query| (query.id.clone(), result())).collect()
}

/// Signals, queries and updates the runs of one workflow id.
pub(crate) async fn asker(world: Arc<World>, workflow_id: String) {
    let at = RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.as_str().into(), run_id: None };
    while !world.is_calm() {
        pause(&world, 2_000).await;
        match world.dice(3) {
            0 => {
                signal(&world, &at).await;
                send_query(&world, &at).await;
            }
            1 => send_query(&world, &at).await,
            _ => Box::pin(update(&world, &at)).await,
        }
    }
}

async fn signal(world: &World, at: &RunRef) {
    let name = format!("s{}", world.dice(u64::MAX));
    let command = Command::Signal { name: name.clone(), input: None, identity: None, key: None, if_version: None };
    if let Ok(admitted) = answer(world, world.node().commands().submit(at, command)).await {
        let mut facts = world.facts();
        facts.promises.push(Promise::Signal { run_id: admitted.run_id, name });
        facts.acknowledge(admitted.run_id, admitted.event_id);
    }
}

/// Checks that the answer to a query shows everything that was acknowledged, to any caller, before the query began.
async fn send_query(world: &World, at: &RunRef) {
    let acknowledged = world.facts().acknowledged.clone();
    let request = QueryRequest { name: "seen".to_owned(), input: None, seen: None };
    let answered = answer(world, world.node().request_reply().query(at, request, WAIT)).await;
    let Ok(QueryReply::Result { run_id, result, .. }) = answered else { return };
    let seen: u64 = result.as_ref().and_then(Payload::text).and_then(|text| text.parse().ok()).unwrap_or_default();
    let floor = acknowledged.get(&run_id).copied().unwrap_or_default();
    let mut facts = world.facts();
    facts.replies.answers += 1;
    if seen < floor {
        facts.violations.push(format!("an answer of run {run_id} shows event {seen}; {floor} was acknowledged before"));
    }
}

/// Sends one update to one run until its outcome is known.
async fn update(world: &World, at: &RunRef) {
    let Ok(described) = answer(world, world.node().views().describe(at)).await else { return };
    let run_id = described.run.started.run_id;
    let update_id = format!("u{:x}", world.dice(u64::MAX));
    let if_version = (world.dice(3) == 0).then_some(described.run.version);
    let at = RunRef { run_id: Some(run_id), ..at.clone() };
    for _ in 0..REPEATS {
        let update = UpdateRequest {
            update_id: Some(update_id.clone()),
            name: "u".to_owned(),
            input: None,
            identity: None,
            if_version,
            start: None,
            by: None,
        };
        match Box::pin(answer(world, world.node().request_reply().update(&at, update, WAIT))).await {
            Ok(updated) => {
                if updated.done.is_some() {
                    let event_id = updated.event_id;
                    let mut facts = world.facts();
                    facts.replies.accepted += 1;
                    facts.promises.push(Promise::Updated { run_id, update_id, event_id, if_version });
                    facts.acknowledge(run_id, event_id);
                    return;
                }
                pause(world, 500).await;
            }
            Err(Refusal::UpdateRejected { reason, .. }) => {
                let mut facts = world.facts();
                facts.replies.rejected += 1;
                if reason != "no" {
                    facts.violations.push(format!("update {update_id} is rejected: {reason}"));
                }
                facts.promises.push(Promise::NotUpdated { update_id });
                return;
            }
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            Err(_) => return,
        }
    }
}
