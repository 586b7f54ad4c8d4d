//! All riders (queries and updates) at this node. They are only in memory and may be lost. If a rider is lost, its
//! waiting callers send it again. The id of an update prevents the update from being applied twice.
//!
//! A rider waits until a task takes it. This task is the next turn that starts or, if no turn is outstanding, a
//! separate task. A separate task causes no write and no event. A rider is never added to a task that was already
//! handed out. Concurrent callers that send the same query to the same run share one rider. Callers that send updates
//! with the same id share one rider, too. The worker of a run adds the run's riders and assigns them to tasks. Thus the
//! answer to a query reflects every event that was recorded before the query was added.
//!
//! An update that was handed out to a decider is kept until the task ends, even if no caller waits for the update. Thus
//! the decider's answer can be matched to the update.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use history::admit::must_have_decider;
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

/// Maximum number of different queries that wait for a run at the same time. The same maximum applies to updates. Our
/// choice: one task can take this number of queries; each update costs a turn or a part of a turn.
const RIDERS_PER_RUN_MAX: usize = history::limits::QUERY_RESULTS_MAX;

/// Maximum total size in bytes of the queries that wait for a run, including ids, names and inputs. The same maximum
/// applies to updates. Our choice: 32 inputs of the maximum size.
const RIDER_BYTES_PER_RUN_MAX: usize = 8 * 1024 * 1024;

/// Maximum number of callers at a node that wait for answers to queries. Our choice: at about half a kilobyte each, the
/// callers take at most 50 MB, in addition to their connections.
const ASKERS_MAX: usize = 100_000;

/// A query that is about to be added to a run's riders.
pub(crate) struct NewQuery {
    pub(crate) query: Arc<Query>,
    /// Version of the run that the caller has already seen, if the caller watches for changes.
    pub(crate) seen: Option<SeenVersion>,
    pub(crate) caller: u64,
    pub(crate) reply: oneshot::Sender<DeciderAnswer>,
}

/// An update that is about to be added to a run's riders.
pub(crate) struct NewUpdate {
    pub(crate) asked: ProposedUpdate,
    /// True if the caller chose the id.
    pub(crate) is_named: bool,
    pub(crate) caller: u64,
    pub(crate) reply: oneshot::Sender<UpdateTurnOutcome>,
}

/// All riders (queries and updates) at this node.
#[derive(Default)]
pub(crate) struct Riders {
    runs: Mutex<HashMap<HeadKey, VecDeque<Rider>>>,
    query_callers: Arc<AtomicUsize>,
    updates: Arc<AtomicUsize>,
    rejections: Rejections,
}

/// A waiting caller of a rider. Dropping this value removes the caller from the rider, for example when the caller
/// disconnects.
pub(crate) struct WaitingCaller<'a> {
    riders: &'a Riders,
    key: &'a HeadKey,
    caller: u64,
}

impl WaitingCaller<'_> {
    /// Removes the caller and returns the rider's state. Returns `None` if the rider no longer exists, because its
    /// answer is about to arrive.
    pub(crate) fn leave(self) -> Option<RiderPlace> {
        self.riders.leave(self.key, self.caller, |_| true)
    }

    /// Removes the caller if its rider is still waiting for a task. Returns true if the caller was removed.
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
    /// Returns the guard for a caller whose rider was added.
    pub(crate) fn part<'a>(&'a self, key: &'a HeadKey, caller: u64) -> WaitingCaller<'a> {
        WaitingCaller { riders: self, key, caller }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HeadKey, VecDeque<Rider>>> {
        self.runs.lock().expect("no code panics while it holds this lock")
    }

    /// Returns the number of callers that wait for answers to queries.
    pub(crate) fn query_callers(&self) -> usize {
        self.query_callers.load(Ordering::SeqCst)
    }

    /// Returns the number of updates among the riders.
    pub(crate) fn updates(&self) -> usize {
        self.updates.load(Ordering::SeqCst)
    }

    /// Calls a function with the riders of a workflow id, if there are any. Then removes riders that are no longer
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

    /// Adds a query to a run, or adds its caller to an equal query. If the caller has already seen the current version,
    /// the query is [held](RiderPlace::Held) until the run changes. If a turn is outstanding, the query waits for this
    /// turn instead. The answer of the turn also serves callers that watch for changes.
    pub(crate) fn put_query(&self, key: &HeadKey, run: &Run, new: NewQuery) -> Result<(), Refusal> {
        must_have_decider(run)?;
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

    /// Adds an update to a run, or adds its caller to the update with the same id. If the update was recently rejected,
    /// does not add it and returns the rejection.
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

    /// Removes a caller of an update. Returns the channel for the update's outcome.
    pub(crate) fn take_back(&self, key: &HeadKey, caller: u64) -> Option<oneshot::Sender<UpdateTurnOutcome>> {
        self.with(key, |riders| riders.iter_mut().find_map(|rider| rider.take_back(caller)))
    }

    /// Removes a caller if `may` returns true for the state of the caller's rider. Returns that state.
    fn leave(&self, key: &HeadKey, caller: u64, may: impl Fn(RiderPlace) -> bool) -> Option<RiderPlace> {
        self.with(key, |riders| {
            let rider = riders.iter_mut().find(|rider| rider.has_caller(caller) && may(rider.place))?;
            rider.leave(caller);
            Some(rider.place)
        })
    }

    /// Assigns riders to a turn that is handed out. If the turn is handed out again because its delivery failed, it
    /// also takes the riders that are already assigned to it.
    pub(crate) fn take_with_turn(&self, key: &HeadKey, run: &Run, turn: TurnId, taker: &Taker) -> TakenAlong {
        self.lose(key, By::Turn(turn));
        self.take(key, run, &Carrier::Turn(turn, taker))
    }

    /// Assigns to a task the waiting riders that the task may take.
    pub(crate) fn take(&self, key: &HeadKey, run: &Run, takes: &Carrier<'_>) -> TakenAlong {
        self.with(key, |riders| take(riders, run, takes))
    }

    /// Returns the riders that a task has taken.
    pub(crate) fn with_task(&self, key: &HeadKey, by: By) -> WithTask {
        self.with(key, |riders| WithTask::of(riders.iter().filter(|rider| rider.place == RiderPlace::Out(by))))
    }

    /// Marks the riders of a task while the task's answer is being recorded. If `judges` is false, does not mark
    /// updates, because another delivery of the task has taken them.
    pub(crate) fn begin_answering(&self, key: &HeadKey, by: By, judges: bool) -> WithTask {
        self.with(key, |riders| {
            let may = riders.iter_mut().filter(|rider| judges || rider.kind() == RiderKind::Query);
            let begun = may.filter_map(|rider| rider.apply_event(RiderEvent::AnswerComes(by)).then_some(&*rider));
            WithTask::of(begun)
        })
    }

    /// Handles an answer that could not be recorded. If the task is not lost, its decider may answer again. Returns
    /// true if the task had any riders.
    pub(crate) fn end_answering(&self, key: &HeadKey, by: By, is_lost: bool) -> bool {
        self.happen(key, RiderEvent::AnswerFails { by, is_lost }, |_| true)
    }

    /// Makes the riders of a task wait again, because the task is lost or was not delivered. Returns true if the task
    /// had any riders.
    pub(crate) fn lose(&self, key: &HeadKey, by: By) -> bool {
        self.happen(key, RiderEvent::TaskLost(by), |_| true)
    }

    /// Marks a waiting update as lent to another node and returns it.
    pub(crate) fn lend(&self, key: &HeadKey, run_id: Uuid, update_id: &str) -> Option<ProposedUpdate> {
        self.with(key, |riders| {
            let rider = riders.iter_mut().find(|rider| rider.is_update(run_id, update_id))?;
            if rider.apply_event(RiderEvent::Lent) { rider.asked().cloned() } else { None }
        })
    }

    /// Makes a lent update wait again after it was returned without having been accepted or rejected. The next turn
    /// takes it.
    pub(crate) fn end_lending(&self, key: &HeadKey, run_id: Uuid, update_id: &str) {
        self.happen(key, RiderEvent::Returned, |rider| rider.is_update(run_id, update_id));
    }

    /// Applies an event to the riders for which `to` returns true. Returns true if the state of any rider has changed.
    fn happen(&self, key: &HeadKey, happens: RiderEvent, to: impl Fn(&Rider) -> bool) -> bool {
        self.with(key, |riders| {
            // `any` would stop at the first rider that changes, but all must be changed.
            let moved = riders.iter_mut().filter(|rider| to(rider)).map(|rider| rider.apply_event(happens));
            moved.filter(|moved| *moved).count() > 0
        })
    }

    /// Sends answers to queries to their callers. `shown` is the newest event that the task showed. Callers that
    /// require a newer event get no answer. Answers without callers are ignored. Returns true if a caller still watches
    /// for changes.
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

    /// Sends the outcome of an update to its callers. If the outcome is a rejection, remembers it.
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

    /// Handles the message in which another node reports the rejection of an update. If a task or another node has
    /// taken the update from this node, returns false and changes nothing. Otherwise rejects the update and any later
    /// repetition of it at this node, and returns true.
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
        // The rejection must be remembered before the update can be added again.
        self.rejections.remember(run_id, update_id, heard, now);
        tidy(&mut runs, key);
        drop(runs);
        if let Some(rider) = given_up {
            rider.send_outcome(heard);
        }
        true
    }

    /// Returns the rejection of an update, if the update was recently rejected.
    pub(crate) fn rejection(&self, run_id: Uuid, update_id: &str, now: Timestamp) -> Option<UpdateTurnOutcome> {
        self.rejections.find(run_id, update_id, now)
    }

    /// Updates the states of the riders of a workflow id after a commit, or after a rider was added to the newest run.
    /// Riders of a turn that has ended wait again. Callers of riders that can no longer be answered get the outcome.
    /// Returns the kinds of riders that need a separate task.
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
            // A run has only one speculative turn at a time.
            let is_out = riders.iter().any(|it| it.kind() == RiderKind::Update && it.place != RiderPlace::Waits);
            let query = Some(RiderKind::Query).filter(|_| place::has_no_turn_to_come(run));
            let update = Some(RiderKind::Update).filter(|_| run.is_open() && place::is_idle(run) && !is_out);
            query.into_iter().chain(update).filter(waits).collect()
        })
    }

    /// Updates the states of the queries that wait for a closed run. This run need not be the newest of its workflow
    /// id. Returns true if a separate task must be created for any of these queries.
    pub(crate) fn settle_closed(&self, key: &HeadKey, run: &Run) -> bool {
        let run_id = run.started.run_id;
        self.happen(key, place::seen(run), |rider| rider.run_id == run_id && rider.kind() == RiderKind::Query);
        place::has_no_turn_to_come(run) && self.is_waiting(key, run_id, RiderKind::Query)
    }

    /// Returns true if a rider of this kind waits for a task.
    pub(crate) fn is_waiting(&self, key: &HeadKey, run_id: Uuid, kind: RiderKind) -> bool {
        self.with(key, |riders| riders.iter().any(|rider| rider.waits(run_id, kind)))
    }
}

/// Adds a rider, or adds its callers to an equal rider.
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

/// Removes an update, regardless of its state, and returns it.
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
