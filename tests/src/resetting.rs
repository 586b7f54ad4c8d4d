//! Operators that reset runs, and the invariants of branches: runs that were created by a reset.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::{EventRange, Refusal, Reset, RunRef};
use history::event::{LaterSignals, OperatorAction, WorkflowReset};
use history::{Branching, Event, EventKind, Fault, RequestKey};

use crate::actors::{REPEATS, answer, pause};
use crate::facts::{Facts, Histories, Promise};
use crate::world::{DOMAIN, World};

/// Resets runs of one workflow id, the newest or an earlier one, to any event.
pub(crate) async fn resetter(world: Arc<World>, workflow_id: String) {
    let newest = RunRef { domain: DOMAIN.into(), workflow_id: workflow_id.as_str().into(), run_id: None };
    let mut earlier = None;
    while !world.is_calm() {
        pause(&world, 6_000).await;
        let Ok(described) = answer(&world, world.node().views().describe(&newest)).await else { continue };
        let run_id = earlier.filter(|_| world.dice(4) == 0).unwrap_or(described.run.started.run_id);
        earlier = Some(run_id);
        reset(&world, &RunRef { run_id: Some(run_id), ..newest.clone() }).await;
    }
}

async fn reset(world: &World, at: &RunRef) {
    let page = EventRange { limit: 1, reverse: true, ..EventRange::default() };
    let Ok(page) = answer(world, world.node().views().history(at, &page)).await else { return };
    let last = page.events.first().map_or(1, |event| event.id);
    let mut event_id = 1 + world.dice(last);
    let key = RequestKey(world.dice(u64::MAX));
    let signals = if world.dice(3) == 0 { LaterSignals::Drop } else { LaterSignals::Reapply };
    for _ in 0..REPEATS {
        let reset = Reset {
            branching: Branching { event_id, signals },
            operator: OperatorAction::default(),
            key: Some(key),
            by: None,
        };
        match answer(world, world.node().commands().reset(at, reset)).await {
            Ok(reset) => {
                world.facts().promises.push(Promise::Reset { run_id: reset.run_id, key });
                // If the response is lost, the request is repeated.
                if !world.bad_luck(20) {
                    return;
                }
            }
            Err(Refusal::Fault(Fault::InvalidResetPoint { before, after, .. })) => match before.or(after) {
                Some(point) => event_id = point,
                None => return,
            },
            Err(refusal) if refusal.is_retryable() => pause(world, 200).await,
            Err(_) => return,
        }
    }
}

/// Returns the event that made a run a branch: its last `WorkflowReset`. Earlier ones were copied from its origin.
pub(crate) fn branched(events: &[Event]) -> Option<(&Event, &WorkflowReset)> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::WorkflowReset(it) => Some((event, it)),
        _ => None,
    })
}

/// Returns the events that a run recorded itself. Events copied from another run are left out.
pub(crate) fn own(events: &[Event]) -> &[Event] {
    let begin = branched(events).map_or(0, |(event, _)| event.id);
    events.get(usize::try_from(begin).unwrap_or_default()..).unwrap_or_default()
}

/// Returns the names of the signals in a history.
fn signals(events: &[Event]) -> BTreeSet<&str> {
    let names = events.iter().filter_map(|event| match &event.kind {
        EventKind::Signal(it) => Some(it.name.as_str()),
        _ => None,
    });
    names.collect()
}

impl Facts {
    /// Checks that a reset run is followed only by the branch that it names. Also checks that a branch begins with the
    /// events of its origin, and has the later signals if the reset requested them.
    pub(crate) fn branches_are_true(&mut self, histories: &Histories) {
        let mut keys = BTreeSet::new();
        for (run_id, events) in histories {
            if let Some(EventKind::WorkflowTerminated(it)) = events.last().map(|event| &event.kind)
                && let Some(reset) = it.reset
                && !histories.contains_key(&reset.new_run_id)
            {
                self.violations.push(format!("run {run_id} was reset, and no run {} goes on", reset.new_run_id));
            }
            let Some((event, reset)) = branched(events) else { continue };
            if !keys.insert(event.key) {
                self.violations.push(format!("run {run_id} is not the only one of its reset"));
            }
            let Some(base) = histories.get(&reset.run_id) else {
                self.violations.push(format!("run {run_id} branches off run {}, which there never was", reset.run_id));
                continue;
            };
            let copied = |events: &[Event]| -> Vec<Event> {
                events.iter().filter(|event| (2..=reset.event_id).contains(&event.id)).cloned().collect()
            };
            if event.id != reset.event_id + 1 || copied(events) != copied(base) {
                self.violations.push(format!("run {run_id} does not begin as run {}", reset.run_id));
            }
            let missing = signals(base).difference(&signals(events)).count();
            if reset.signals == LaterSignals::Reapply && missing > 0 {
                self.violations.push(format!("run {run_id} lacks {missing} signals of run {}", reset.run_id));
            }
        }
    }
}
