//! All riders at this node. They exist only in memory and may be lost: their callers wait and put them again, and
//! the id of an update prevents it from being applied twice.
//!
//! A rider waits until a task takes it: a turn that starts, or if no turn is outstanding, a separate task, which
//! causes no write and no event. It never joins a task that was already handed out. Callers that ask the same query
//! of the same run at the same time share it, and so do callers that send an update with the same id. The worker of
//! a run puts riders and gives them to tasks, so that the answer to a query reflects every event that was recorded
//! before it was put.
//!
//! Updates given to a decider are kept until the task is over, even if no caller waits any more, so that its answer
//! finds them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use history::{EventId, ProposedUpdate, Run, Timestamp, TurnId};
use store::HeadKey;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::lists::Taker;
use crate::lists::grant::{Query, RiderKind, TakenAlong};
use crate::riders::carrier::{Carrier, WithTask, take};
use crate::riders::outcome::{DeciderAnswer, UpdateTurnOutcome};
use crate::riders::place::{self, By, RiderEvent, RiderPlace};
use crate::riders::rejections::Rejections;
use crate::riders::rider::{CountGuard, QueryCaller, Rider, RiderContent, UpdateCaller};
use crate::{QueryOutcome, Refusal, SeenVersion};

/// Maximum number of different queries of a run at the same time, and the same for updates. Our choice: one task takes
/// this many queries; each update costs a turn or a part of one.
const RIDERS_PER_RUN_MAX: usize = history::limits::QUERY_RESULTS_MAX;

/// Maximum total size in bytes of the queries of a run, and the same for its updates: ids, names and inputs. Ours:
/// 32 inputs of the maximum size.
const RIDER_BYTES_PER_RUN_MAX: usize = 8 * 1024 * 1024;

/// Maximum number of callers at a node that wait for answers to queries. Our choice: about half a kilobyte each, in
/// addition to their connections.
const ASKERS_MAX: usize = 100_000;

/// A query to be put to a run.
pub(crate) struct NewQuery {
    pub(crate) query: Arc<Query>,
    /// The version that its caller has seen.
    pub(crate) seen: Option<SeenVersion>,
    pub(crate) caller: u64,
    pub(crate) reply: oneshot::Sender<DeciderAnswer>,
}

/// An update to be put to a run.
pub(crate) struct NewUpdate {
    pub(crate) asked: ProposedUpdate,
    /// Whether its caller chose the id.
    pub(crate) is_named: bool,
    pub(crate) caller: u64,
    pub(crate) reply: oneshot::Sender<UpdateTurnOutcome>,
}

/// All riders at this node.
#[derive(Default)]
pub(crate) struct Riders {
    runs: Mutex<HashMap<HeadKey, VecDeque<Rider>>>,
    query_callers: Arc<AtomicUsize>,
    updates: Arc<AtomicUsize>,
    rejections: Rejections,
}

/// A caller of a rider, which is removed when it stops waiting for any reason.
pub(crate) struct WaitingCaller<'a> {
    riders: &'a Riders,
    key: &'a HeadKey,
    caller: u64,
}

impl WaitingCaller<'_> {
    /// Removes the caller and returns the rider's state; `None` if the rider is gone and its answer is on the way.
    pub(crate) fn leave(self) -> Option<RiderPlace> {
        self.riders.leave(self.key, self.caller, |_| true)
    }

    /// Removes the caller unless a task has the rider. Returns whether it did.
    pub(crate) fn leave_if_waiting(&self) -> bool {
        self.riders.leave(self.key, self.caller, |place| place == RiderPlace::Waits).is_some()
    }
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        self.riders.leave(self.key, self.caller, |_| true);
    }
}

impl Riders {
    /// Returns the guard of a caller whose rider was put.
    pub(crate) fn part<'a>(&'a self, key: &'a HeadKey, caller: u64) -> WaitingCaller<'a> {
        WaitingCaller { riders: self, key, caller }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HeadKey, VecDeque<Rider>>> {
        self.runs.lock().expect("no code panics while it holds this lock")
    }

    /// Number of callers that wait for answers to queries.
    pub(crate) fn query_callers(&self) -> usize {
        self.query_callers.load(Ordering::SeqCst)
    }

    /// Number of updates.
    pub(crate) fn updates(&self) -> usize {
        self.updates.load(Ordering::SeqCst)
    }

    /// Runs a function on the riders of a workflow id, if there are any. Then removes riders that are no longer
    /// needed.
    fn with<T: Default>(&self, key: &HeadKey, act: impl FnOnce(&mut VecDeque<Rider>) -> T) -> T {
        if self.query_callers() == 0 && self.updates() == 0 {
            return T::default();
        }
        let mut runs = self.lock();
        let done = runs.get_mut(key).map(act).unwrap_or_default();
        tidy(&mut runs, key);
        done
    }

    /// Puts a query to a run, or joins an equal one. It is [held](RiderPlace::Held) if its caller has seen the
    /// current version, unless a turn is outstanding, whose answer also serves callers that watch.
    pub(crate) fn put_query(&self, key: &HeadKey, run: &Run, new: NewQuery) -> Result<(), Refusal> {
        let NewQuery { query, seen, caller: id, reply } = new;
        let query_callers = self.query_callers();
        if query_callers >= ASKERS_MAX {
            let what = "callers wait for answers on this node";
            return Err(Refusal::TooManyWaiting { found: query_callers, max: ASKERS_MAX, what });
        }
        let (run_id, version) = (run.started.run_id, run.version);
        let is_seen = seen.is_some_and(|seen| seen.run_id == run_id && seen.version == version);
        let is_held = is_seen && place::has_no_turn_to_come(run);
        let place = if is_held { RiderPlace::Held { version } } else { RiderPlace::Waits };
        let callers = vec![QueryCaller { id, seen, reply, _counted: CountGuard::new(&self.query_callers) }];
        let what = RiderContent::Query { query, callers };
        put(&mut self.lock(), key, Rider { id, run_id, since: run.last_event_id, what, place, own: None })
    }

    /// Puts an update to a run, or joins one with the same id. If it was recently rejected, it is not put, and its
    /// outcome is returned.
    pub(crate) fn put_update(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        new: NewUpdate,
        now: Timestamp,
    ) -> Result<Option<UpdateTurnOutcome>, Refusal> {
        let NewUpdate { asked, is_named, caller: id, reply } = new;
        let mut runs = self.lock();
        if let Some(heard) = self.rejections.find(run_id, &asked.update_id, now) {
            return Ok(Some(heard));
        }
        let (callers, counted) = (vec![UpdateCaller { id, reply }], CountGuard::new(&self.updates));
        let what = RiderContent::Update { asked, callers, is_named, _counted: counted };
        put(&mut runs, key, Rider { id, run_id, since: 0, what, place: RiderPlace::Waits, own: None })?;
        Ok(None)
    }

    /// Takes back an update that no decider has. Returns the channel for its outcome.
    pub(crate) fn take_back(&self, key: &HeadKey, caller: u64) -> Option<oneshot::Sender<UpdateTurnOutcome>> {
        self.with(key, |riders| riders.iter_mut().find_map(|rider| rider.take_back(caller)))
    }

    /// Removes a caller if the state of its rider permits it. Returns the state.
    fn leave(&self, key: &HeadKey, caller: u64, may: impl Fn(RiderPlace) -> bool) -> Option<RiderPlace> {
        self.with(key, |riders| {
            let rider = riders.iter_mut().find(|rider| rider.has_caller(caller) && may(rider.place))?;
            rider.leave(caller);
            Some(rider.place)
        })
    }

    /// Gives a turn the riders that it may take. A turn that is handed out again because it did not arrive takes
    /// its earlier riders, too.
    pub(crate) fn take_with_turn(&self, key: &HeadKey, run: &Run, turn: TurnId, taker: &Taker) -> TakenAlong {
        self.lose(key, By::Turn(turn));
        self.take(key, run, &Carrier::Turn(turn, taker))
    }

    /// Gives a task the riders that it may take.
    pub(crate) fn take(&self, key: &HeadKey, run: &Run, takes: &Carrier<'_>) -> TakenAlong {
        self.with(key, |riders| take(riders, run, takes))
    }

    /// Returns the riders that a task has taken.
    pub(crate) fn with_task(&self, key: &HeadKey, by: By) -> WithTask {
        self.with(key, |riders| WithTask::of(riders.iter().filter(|rider| rider.place == RiderPlace::Out(by))))
    }

    /// Marks the riders of a task while its answer is being recorded. Updates are marked only if the task `judges`;
    /// otherwise another delivery of the task has taken them.
    pub(crate) fn begin_answering(&self, key: &HeadKey, by: By, judges: bool) -> WithTask {
        self.with(key, |riders| {
            let may = riders.iter_mut().filter(|rider| judges || rider.kind() == RiderKind::Query);
            let begun = may.filter_map(|rider| rider.apply_event(RiderEvent::AnswerComes(by)).then_some(&*rider));
            WithTask::of(begun)
        })
    }

    /// Handles an answer that was not recorded: the task may be answered again, or is lost. Returns whether it had
    /// any riders.
    pub(crate) fn end_answering(&self, key: &HeadKey, by: By, is_lost: bool) -> bool {
        self.happen(key, RiderEvent::AnswerFails { by, is_lost }, |_| true)
    }

    /// Handles a task that is lost or did not reach its poller: its riders wait again. Returns whether it had any.
    pub(crate) fn lose(&self, key: &HeadKey, by: By) -> bool {
        self.happen(key, RiderEvent::TaskLost(by), |_| true)
    }

    /// Takes a waiting update to lend it to another node.
    pub(crate) fn lend(&self, key: &HeadKey, run_id: Uuid, update_id: &str) -> Option<ProposedUpdate> {
        self.with(key, |riders| {
            let rider = riders.iter_mut().find(|rider| rider.is_update(run_id, update_id))?;
            if rider.apply_event(RiderEvent::Lent) { rider.asked().cloned() } else { None }
        })
    }

    /// Puts back a lent update that returned without a verdict: the next turn takes it.
    pub(crate) fn end_lending(&self, key: &HeadKey, run_id: Uuid, update_id: &str) {
        self.happen(key, RiderEvent::Returned, |rider| rider.is_update(run_id, update_id));
    }

    /// Applies an event to riders. Returns whether the state of any has changed.
    fn happen(&self, key: &HeadKey, happens: RiderEvent, to: impl Fn(&Rider) -> bool) -> bool {
        self.with(key, |riders| {
            // Every rider must be changed, so that `any` would end too early.
            let moved = riders.iter_mut().filter(|rider| to(rider)).map(|rider| rider.apply_event(happens));
            moved.filter(|moved| *moved).count() > 0
        })
    }

    /// Sends answers to queries to their callers, if the task showed the run up to `shown`, which must be at least
    /// what they may expect. Answers without callers are ignored. Returns whether any caller still watches.
    pub(crate) fn answer(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        shown: EventId,
        version: EventId,
        outcomes: Vec<(u64, QueryOutcome)>,
    ) -> bool {
        self.with(key, |riders| {
            let mut goes_on = false;
            for (number, outcome) in outcomes {
                let mut asked = riders.iter_mut().filter(|rider| rider.id == number && rider.run_id == run_id);
                if let Some(rider) = asked.find(|rider| rider.since <= shown) {
                    goes_on |= rider.answer(&DeciderAnswer { version, outcome });
                    rider.apply_event(RiderEvent::Answered { version });
                }
            }
            goes_on
        })
    }

    /// Sends the outcome of an update to its callers, and remembers a rejection.
    pub(crate) fn send_outcome(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        update_id: &str,
        heard: &UpdateTurnOutcome,
        now: Timestamp,
    ) {
        let Some(rider) = self.with(key, |riders| take_out(riders, run_id, update_id)) else { return };
        if rider.is_named() {
            self.rejections.remember(run_id, update_id, heard, now);
        }
        rider.send_outcome(heard);
    }

    /// Handles the rejection of an update at another node. Unless a decider that got it from here has it, it is
    /// rejected here, too, also if it is repeated. Returns whether it is.
    pub(crate) fn give_up(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        update_id: &str,
        heard: &UpdateTurnOutcome,
        now: Timestamp,
    ) -> bool {
        let mut runs = self.lock();
        let mut given_up = None;
        if let Some(riders) = runs.get_mut(key) {
            let mut same = riders.iter().filter(|rider| rider.is_update(run_id, update_id));
            if same.any(|rider| rider.place != RiderPlace::Waits) {
                return false;
            }
            given_up = take_out(riders, run_id, update_id);
        }
        // Remembered before the update can be put again.
        self.rejections.remember(run_id, update_id, heard, now);
        tidy(&mut runs, key);
        drop(runs);
        if let Some(rider) = given_up {
            rider.send_outcome(heard);
        }
        true
    }

    /// Returns the verdict on an update that was recently rejected.
    pub(crate) fn rejection(&self, run_id: Uuid, update_id: &str, now: Timestamp) -> Option<UpdateTurnOutcome> {
        self.rejections.find(run_id, update_id, now)
    }

    /// Updates the riders after a commit, or after a rider was put to the newest run of a workflow id. Riders of a
    /// turn that is over wait again, and callers of riders that can no longer be answered get their outcome.
    /// Returns the kinds that need a separate task.
    pub(crate) fn settle(&self, key: &HeadKey, run: &Run) -> Vec<RiderKind> {
        let run_id = run.started.run_id;
        self.happen(key, place::seen(run), |rider| rider.run_id == run_id);
        let ended = self.with(key, |riders| {
            let (mut ended, mut at) = (Vec::new(), 0);
            while let Some(rider) = riders.get(at) {
                let ends = |asked| place::ends_unjudged(rider.place, rider.run_id, asked, run);
                match rider.asked().and_then(ends).and_then(|heard| Some((riders.remove(at)?, heard))) {
                    Some(it) => ended.push(it),
                    None => at += 1,
                }
            }
            ended
        });
        for (rider, heard) in ended {
            rider.send_outcome(&heard);
        }
        self.with(key, |riders| {
            let waits = |kind: &RiderKind| riders.iter().any(|rider| rider.waits(run_id, *kind));
            // One speculative turn at a time.
            let is_out = riders.iter().any(|it| it.kind() == RiderKind::Update && it.place != RiderPlace::Waits);
            let query = Some(RiderKind::Query).filter(|_| place::has_no_turn_to_come(run));
            let update = Some(RiderKind::Update).filter(|_| run.is_open() && place::is_idle(run) && !is_out);
            query.into_iter().chain(update).filter(waits).collect()
        })
    }

    /// Updates the queries of a closed run, which may be the newest or not. Returns whether any needs a task.
    pub(crate) fn settle_closed(&self, key: &HeadKey, run: &Run) -> bool {
        let run_id = run.started.run_id;
        self.happen(key, place::seen(run), |rider| rider.run_id == run_id && rider.kind() == RiderKind::Query);
        place::has_no_turn_to_come(run) && self.is_waiting(key, run_id, RiderKind::Query)
    }

    /// Whether a rider of this kind waits for a task.
    pub(crate) fn is_waiting(&self, key: &HeadKey, run_id: Uuid, kind: RiderKind) -> bool {
        self.with(key, |riders| riders.iter().any(|rider| rider.waits(run_id, kind)))
    }
}

/// Adds a rider, or adds its callers to an equal one.
fn put(runs: &mut HashMap<HeadKey, VecDeque<Rider>>, key: &HeadKey, new: Rider) -> Result<(), Refusal> {
    let riders = runs.entry(key.clone()).or_default();
    if let Some(same) = riders.iter_mut().find(|rider| rider.is_same(&new)) {
        same.join(new);
        return Ok(());
    }
    let kind = new.kind();
    let others = riders.iter().filter(|rider| rider.kind() == kind).map(Rider::bytes);
    let (count, bytes) = others.fold((0, new.bytes()), |(count, all), bytes| (count + 1, all + bytes));
    let (too_many, too_long) = match kind {
        RiderKind::Query => ("queries wait on this run", "bytes of queries wait on this run"),
        RiderKind::Update => ("updates wait on this run", "bytes of updates wait on this run"),
    };
    let refused = if count >= RIDERS_PER_RUN_MAX {
        Some((count, RIDERS_PER_RUN_MAX, too_many))
    } else if bytes > RIDER_BYTES_PER_RUN_MAX {
        Some((bytes, RIDER_BYTES_PER_RUN_MAX, too_long))
    } else {
        None
    };
    if let Some((found, max, what)) = refused {
        tidy(runs, key);
        return Err(Refusal::TooManyWaiting { found, max, what });
    }
    riders.push_back(new);
    Ok(())
}

/// Removes an update in any state.
fn take_out(riders: &mut VecDeque<Rider>, run_id: Uuid, update_id: &str) -> Option<Rider> {
    let at = riders.iter().position(|rider| rider.is_update(run_id, update_id))?;
    riders.remove(at)
}

fn tidy(runs: &mut HashMap<HeadKey, VecDeque<Rider>>, key: &HeadKey) {
    let Some(riders) = runs.get_mut(key) else { return };
    riders.retain_mut(|rider| !rider.is_forgotten());
    if riders.is_empty() {
        runs.remove(key);
    }
}

#[cfg(test)]
mod tests;
