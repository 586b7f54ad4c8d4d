//! Those who repeat requests late: after hundreds of others, when the run that recorded it has gone on as another, at nodes that were not there
//! then. Each must hear what it heard first.

use std::sync::Arc;

use engine::{RunRef, UpdateRequest};
use history::{Command, Payload, RequestKey, Start};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::actors::{REPEATS, answer, pause};
use crate::script::LIST;
use crate::world::{DOMAIN, World};

/// Signals that come at the same time: with some of them there are more than a run's state has room for.
const AT_ONCE: u64 = 40;

/// How long an update waits for its answer.
const WAIT: std::time::Duration = std::time::Duration::from_secs(3);

/// What was asked.
#[derive(Debug, Clone)]
enum Asked {
    Start(Box<Start>),
    Tell(Command),
    Update(String),
}

/// What was asked, and what came of it: the run, and the event where it has one.
#[derive(Debug, Clone)]
struct Heard {
    asked: Asked,
    run_id: Uuid,
    event_id: Option<u64>,
    /// How many nodes had died by then.
    deaths: u64,
}

/// What came of asking.
enum Answered {
    /// It was done, and whether at an earlier time.
    Done(Heard, bool),
    /// It was refused for good, or is not done.
    Refused(String),
    /// There is no answer yet.
    Nothing,
}

/// How often somebody was told what it was told before, so that nobody takes silence for health.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// Starts.
    pub starts: Often,
    /// Signals.
    pub signals: Often,
    /// Updates.
    pub updates: Often,
}

/// How often, and after what.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Often {
    /// In all.
    pub all: usize,
    /// When the run that recorded it had gone on as another.
    pub after_successors: usize,
    /// When a node had died that was there at first.
    pub after_deaths: usize,
}

impl Repeats {
    /// Of each kind.
    pub fn each(&self) -> [Often; 3] {
        [self.starts, self.signals, self.updates]
    }

    /// Adds what another world has seen.
    pub fn add(&mut self, other: &Self) {
        let each = [&mut self.starts, &mut self.signals, &mut self.updates];
        for (often, other) in each.into_iter().zip(other.each()) {
            often.all += other.all;
            often.after_successors += other.after_successors;
            often.after_deaths += other.after_deaths;
        }
    }
}

/// Starts runs of one workflow id, talks to them, and repeats what it said, most of it long ago.
pub(crate) async fn repeater(world: Arc<World>, workflow_id: String) {
    let at = RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.as_str().into(), run_id: None };
    let mut heard: Vec<Heard> = Vec::new();
    while !world.is_calm() {
        let asked = match world.dice(8) {
            0 | 1 => {
                let key = Some(RequestKey(world.dice(u64::MAX)));
                vec![Asked::Start(Box::new(Start { key, ..Start::new(&workflow_id, "sim", LIST) }))]
            }
            2 | 3 => (0..AT_ONCE).map(|_| signal(&world)).collect(),
            4..=6 => vec![Asked::Update(format!("u{:x}", world.dice(u64::MAX)))],
            _ => Vec::new(),
        };
        let mut asking = JoinSet::new();
        for asked in asked {
            let (world, at) = (Arc::clone(&world), at.clone());
            asking.spawn(async move { Box::pin(ask(&world, &at, asked)).await });
        }
        while let Some(answered) = asking.join_next().await {
            match answered.expect("nobody panics") {
                Answered::Done(first, _) => heard.push(first),
                Answered::Refused(_) | Answered::Nothing => {}
            }
        }
        for _ in 0..4 {
            pause(&world, 1_500).await;
            if !heard.is_empty() {
                let which = usize::try_from(world.dice(heard.len() as u64)).unwrap_or_default();
                repeat(&world, &at, heard.get(which).expect("below its length")).await;
            }
        }
    }
    // Once more when nothing goes wrong any more.
    for first in &heard {
        repeat(&world, &at, first).await;
    }
}

fn signal(world: &World) -> Asked {
    let (name, key) = (format!("s{:x}", world.dice(u64::MAX)), Some(RequestKey(world.dice(u64::MAX))));
    Asked::Tell(Command::Signal { name, input: None, identity: None, key, if_version: None })
}

/// Asks again. What was done is never refused, whatever has become of the run.
async fn repeat(world: &World, at: &RunRef, first: &Heard) {
    let (again, repeated) = match Box::pin(ask(world, at, first.asked.clone())).await {
        Answered::Done(again, repeated) => (again, repeated),
        Answered::Refused(why) => {
            world.facts().violations.push(format!("{:?} was told {first:?}, and then refused: {why}", first.asked));
            return;
        }
        Answered::Nothing => return,
    };
    let is_same = match &first.asked {
        // The run that goes on for the one that was started is what its caller wants.
        Asked::Start(_) => repeated,
        Asked::Tell(_) | Asked::Update(_) => {
            repeated && (again.run_id, again.event_id) == (first.run_id, first.event_id)
        }
    };
    let has_successor = world.has_gone_on(first.run_id);
    let mut facts = world.facts();
    if !is_same {
        facts.violations.push(format!("{:?} was told {first:?}, and then {again:?}", first.asked));
    }
    let often = match &first.asked {
        Asked::Start(_) => &mut facts.repeats.starts,
        Asked::Tell(_) => &mut facts.repeats.signals,
        Asked::Update(_) => &mut facts.repeats.updates,
    };
    often.all += 1;
    often.after_successors += usize::from(has_successor);
    often.after_deaths += usize::from(again.deaths > first.deaths);
}

/// Asks until there is an answer.
async fn ask(world: &World, at: &RunRef, asked: Asked) -> Answered {
    for _ in 0..REPEATS {
        let (node, deaths) = (world.node(), world.deaths());
        let answered = match &asked {
            Asked::Start(start) => {
                let started = answer(world, node.commands().start(DOMAIN, (**start).clone())).await;
                started.map(|started| (started.run_id, None, started.repeated))
            }
            Asked::Tell(command) => {
                let told = answer(world, node.commands().submit(at, command.clone())).await;
                told.map(|told| (told.run_id, Some(told.event_id), told.repeated))
            }
            Asked::Update(update_id) => {
                let input = Payload::from_json("1").ok();
                let (update_id, name) = (Some(update_id.clone()), "u".to_owned());
                let update =
                    UpdateRequest { update_id, name, input, identity: None, if_version: None, start: None, by: None };
                match Box::pin(answer(world, node.request_reply().update(at, update, WAIT))).await {
                    // Accepted, which is not yet all that its caller wants.
                    Ok(updated) if updated.done.is_none() => return Answered::Refused("not done".to_owned()),
                    updated => updated.map(|updated| (updated.run_id, Some(updated.event_id), true)),
                }
            }
        };
        match answered {
            Ok((run_id, event_id, repeated)) => {
                return Answered::Done(Heard { asked, run_id, event_id, deaths }, repeated);
            }
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            Err(refusal) => return Answered::Refused(refusal.to_string()),
        }
    }
    Answered::Nothing
}
