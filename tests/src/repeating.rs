//! Clients that repeat requests late, for example after hundreds of other requests, or after the run that recorded the
//! request has continued as new. They also repeat requests at nodes that did not exist at first. Each client must get
//! the first outcome again.

use std::sync::Arc;

use engine::{RunRef, UpdateRequest};
use history::{Command, Payload, RequestKey, Start};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::actors::{REPEATS, answer, pause};
use crate::script::LIST;
use crate::world::{DOMAIN, World};

/// Number of concurrent signals. Our choice: a few such batches exceed the number of requests that a run's state keeps.
const AT_ONCE: u64 = 40;

/// Maximum wait of an update for its answer.
const WAIT: std::time::Duration = std::time::Duration::from_secs(3);

/// A request.
#[derive(Debug, Clone)]
enum Request {
    Start(Box<Start>),
    Tell(Command),
    Update(String),
}

/// A request and its outcome: the run, and the event if there is one.
#[derive(Debug, Clone)]
struct Completed {
    request: Request,
    run_id: Uuid,
    event_id: Option<u64>,
    /// Number of nodes that had died before the outcome was known.
    deaths: u64,
}

/// Outcome of a request.
enum Answered {
    /// The request was done. The flag is true if an earlier attempt had done it.
    Done(Completed, bool),
    /// The request was refused permanently or was not completed.
    Refused(String),
    /// There is no response yet.
    Nothing,
}

/// Counts of repeated requests that got the first outcome again, so that a test notices if there are none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// Starts.
    pub starts: Often,
    /// Signals.
    pub signals: Often,
    /// Updates.
    pub updates: Often,
}

/// Counts of repetitions, by circumstances.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Often {
    /// All repetitions.
    pub all: usize,
    /// Repetitions after the run that recorded the request had continued as new.
    pub after_successors: usize,
    /// Repetitions after the death of a node that existed when the request was first done.
    pub after_deaths: usize,
}

impl Repeats {
    /// Counts by kind.
    pub fn each(&self) -> [Often; 3] {
        [self.starts, self.signals, self.updates]
    }

    /// Adds the counts of another world.
    pub fn add(&mut self, other: &Self) {
        let each = [&mut self.starts, &mut self.signals, &mut self.updates];
        for (often, other) in each.into_iter().zip(other.each()) {
            often.all += other.all;
            often.after_successors += other.after_successors;
            often.after_deaths += other.after_deaths;
        }
    }
}

/// Starts runs of one workflow id, sends them requests, and repeats requests, most of them old.
pub(crate) async fn repeater(world: Arc<World>, workflow_id: String) {
    let at = RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.as_str().into(), run_id: None };
    let mut completed: Vec<Completed> = Vec::new();
    while !world.is_calm() {
        let requests = match world.dice(8) {
            0 | 1 => {
                let key = Some(RequestKey(world.dice(u64::MAX)));
                vec![Request::Start(Box::new(Start { key, ..Start::new(&workflow_id, "sim", LIST) }))]
            }
            2 | 3 => (0..AT_ONCE).map(|_| signal(&world)).collect(),
            4..=6 => vec![Request::Update(format!("u{:x}", world.dice(u64::MAX)))],
            _ => Vec::new(),
        };
        let mut pending = JoinSet::new();
        for request in requests {
            let (world, at) = (Arc::clone(&world), at.clone());
            pending.spawn(async move { Box::pin(send(&world, &at, request)).await });
        }
        while let Some(answered) = pending.join_next().await {
            match answered.expect("nobody panics") {
                Answered::Done(first, _) => completed.push(first),
                Answered::Refused(_) | Answered::Nothing => {}
            }
        }
        for _ in 0..4 {
            pause(&world, 1_500).await;
            if !completed.is_empty() {
                let which = usize::try_from(world.dice(completed.len() as u64)).unwrap_or_default();
                repeat(&world, &at, completed.get(which).expect("below its length")).await;
            }
        }
    }
    // Repeats all requests again when there are no more faults.
    for first in &completed {
        repeat(&world, &at, first).await;
    }
}

fn signal(world: &World) -> Request {
    let (name, key) = (format!("s{:x}", world.dice(u64::MAX)), Some(RequestKey(world.dice(u64::MAX))));
    Request::Tell(Command::Signal { name, input: None, identity: None, key, if_version: None })
}

/// Repeats a request. A request that was done is never refused, whatever happened to the run.
async fn repeat(world: &World, at: &RunRef, first: &Completed) {
    let (again, repeated) = match Box::pin(send(world, at, first.request.clone())).await {
        Answered::Done(again, repeated) => (again, repeated),
        Answered::Refused(why) => {
            world.facts().violations.push(format!("{:?} was told {first:?}, and then refused: {why}", first.request));
            return;
        }
        Answered::Nothing => return,
    };
    let is_same = match &first.request {
        // A repeated start may return a successor of the started run.
        Request::Start(_) => repeated,
        Request::Tell(_) | Request::Update(_) => {
            repeated && (again.run_id, again.event_id) == (first.run_id, first.event_id)
        }
    };
    let has_successor = world.has_gone_on(first.run_id);
    let mut facts = world.facts();
    if !is_same {
        facts.violations.push(format!("{:?} was told {first:?}, and then {again:?}", first.request));
    }
    let often = match &first.request {
        Request::Start(_) => &mut facts.repeats.starts,
        Request::Tell(_) => &mut facts.repeats.signals,
        Request::Update(_) => &mut facts.repeats.updates,
    };
    often.all += 1;
    often.after_successors += usize::from(has_successor);
    often.after_deaths += usize::from(again.deaths > first.deaths);
}

/// Repeats a request until there is a response.
async fn send(world: &World, at: &RunRef, request: Request) -> Answered {
    for _ in 0..REPEATS {
        let (node, deaths) = (world.node(), world.deaths());
        let answered = match &request {
            Request::Start(start) => {
                let started = answer(world, node.commands().start(DOMAIN, (**start).clone())).await;
                started.map(|started| (started.run_id, None, started.repeated))
            }
            Request::Tell(command) => {
                let outcome = answer(world, node.commands().submit(at, command.clone())).await;
                outcome.map(|outcome| (outcome.run_id, Some(outcome.event_id), outcome.repeated))
            }
            Request::Update(update_id) => {
                let input = Payload::from_json("1").ok();
                let (update_id, name) = (Some(update_id.clone()), "u".to_owned());
                let update =
                    UpdateRequest { update_id, name, input, identity: None, if_version: None, start: None, by: None };
                match Box::pin(answer(world, node.request_reply().update(at, update, WAIT))).await {
                    // The update is accepted but not completed.
                    Ok(updated) if updated.done.is_none() => return Answered::Refused("not done".to_owned()),
                    updated => updated.map(|updated| (updated.run_id, Some(updated.event_id), true)),
                }
            }
        };
        match answered {
            Ok((run_id, event_id, repeated)) => {
                return Answered::Done(Completed { request, run_id, event_id, deaths }, repeated);
            }
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            Err(refusal) => return Answered::Refused(refusal.to_string()),
        }
    }
    Answered::Nothing
}
