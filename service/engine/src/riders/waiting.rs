//! Every rider at this node, and what happens to it. In memory only, and allowed to be lost: whoever asks waits, and has it put
//! again; the id of an update keeps it from happening twice.
//!
//! A rider waits until a task takes it along: a turn that starts, or where no turn is outstanding a task of its own, which
//! costs no write and no event. It never joins a task that is out already. Who asks the same of the same run at the same time
//! shares one query; who sends an update with the same id shares that. Riders are put and taken along by whoever works on the
//! run's cell, so a task that takes a query along shows every event that was recorded before the query was put.
//!
//! What a decider has been given of updates stays until its task is over, also when nobody waits for it any more, so that the
//! answer finds what it answers.

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
use crate::riders::heard::{DeciderAnswer, UpdateHeard};
use crate::riders::place::{self, By, Happens, RiderPlace};
use crate::riders::rejections::Rejections;
use crate::riders::rider::{CountGuard, QueryCaller, Rider, RiderContent, UpdateCaller};
use crate::{QueryOutcome, Refusal, SeenVersion};

/// Different queries, and updates, that are put to one run at the same time, at most of each. Ours: one task takes so many queries
/// along; each update costs a turn, or a part of one.
const RIDERS_PER_RUN_MAX: usize = history::limits::QUERY_RESULTS_MAX;

/// Bytes of the queries, and of the updates, that are put to one run, at most of each: ids, names and inputs. Ours: 32 inputs
/// of the largest size.
const RIDER_BYTES_PER_RUN_MAX: usize = 8 * 1024 * 1024;

/// Callers who wait for answers to queries at one node, at most. Ours: about half a kilobyte each, beside their connections.
const ASKERS_MAX: usize = 100_000;

/// A query that is put to a run.
pub(crate) struct NewQuery {
    pub(crate) query: Arc<Query>,
    /// What its caller has seen.
    pub(crate) seen: Option<SeenVersion>,
    pub(crate) caller: u64,
    pub(crate) reply: oneshot::Sender<DeciderAnswer>,
}

/// An update that is put to a run.
pub(crate) struct NewUpdate {
    pub(crate) asked: ProposedUpdate,
    /// Its caller chose the id.
    pub(crate) is_named: bool,
    pub(crate) caller: u64,
    pub(crate) reply: oneshot::Sender<UpdateHeard>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Riders {
    runs: Mutex<HashMap<HeadKey, VecDeque<Rider>>>,
    askers: Arc<AtomicUsize>,
    updates: Arc<AtomicUsize>,
    rejections: Rejections,
}

/// A caller's part in a rider, which it leaves when it stops waiting, for whatever reason.
pub(crate) struct WaitingCaller<'a> {
    riders: &'a Riders,
    key: &'a HeadKey,
    caller: u64,
}

impl WaitingCaller<'_> {
    /// Where the rider is; `None` where it is gone, and its answer on the way.
    pub(crate) fn leave(self) -> Option<RiderPlace> {
        self.riders.leave(self.key, self.caller, |_| true)
    }

    /// Leaves it unless somebody has it; answers whether it did.
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
    /// The part of a caller whose rider was put.
    pub(crate) fn part<'a>(&'a self, key: &'a HeadKey, caller: u64) -> WaitingCaller<'a> {
        WaitingCaller { riders: self, key, caller }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HeadKey, VecDeque<Rider>>> {
        self.runs.lock().expect("no code panics while it holds this lock")
    }

    /// How many callers wait for answers to queries.
    pub(crate) fn askers(&self) -> usize {
        self.askers.load(Ordering::SeqCst)
    }

    /// How many updates are put.
    pub(crate) fn updates(&self) -> usize {
        self.updates.load(Ordering::SeqCst)
    }

    /// Does something with the riders of a workflow id, if there are any; then forgets what nobody waits for.
    fn with<T: Default>(&self, key: &HeadKey, act: impl FnOnce(&mut VecDeque<Rider>) -> T) -> T {
        if self.askers() == 0 && self.updates() == 0 {
            return T::default();
        }
        let mut runs = self.lock();
        let done = runs.get_mut(key).map(act).unwrap_or_default();
        tidy(&mut runs, key);
        done
    }

    /// Puts a query to a run, or joins one that is the same. It is [held](RiderPlace::Held) where its caller knows all that is
    /// there, unless a turn is outstanding: that answers those who watch, too.
    pub(crate) fn put_query(&self, key: &HeadKey, run: &Run, new: NewQuery) -> Result<(), Refusal> {
        let NewQuery { query, seen, caller: id, reply } = new;
        let askers = self.askers();
        if askers >= ASKERS_MAX {
            let what = "callers wait for answers at this node";
            return Err(Refusal::TooManyWaiting { found: askers, max: ASKERS_MAX, what });
        }
        let (run_id, version) = (run.started.run_id, run.version);
        let is_seen = seen.is_some_and(|seen| seen.run_id == run_id && seen.version == version);
        let is_held = is_seen && place::has_no_turn_to_come(run);
        let place = if is_held { RiderPlace::Held { version } } else { RiderPlace::Waits };
        let callers = vec![QueryCaller { id, seen, reply, _counted: CountGuard::new(&self.askers) }];
        let what = RiderContent::Query { query, callers };
        put(&mut self.lock(), key, Rider { id, run_id, since: run.last_event_id, what, place, own: None })
    }

    /// Puts an update to a run, or joins the same one. One that was rejected not long ago is not put; answers what is known of
    /// it then.
    pub(crate) fn put_update(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        new: NewUpdate,
        now: Timestamp,
    ) -> Result<Option<UpdateHeard>, Refusal> {
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

    /// Takes back an update that a caller has put and no decider has; answers where its answer was to go.
    pub(crate) fn take_back(&self, key: &HeadKey, caller: u64) -> Option<oneshot::Sender<UpdateHeard>> {
        self.with(key, |riders| riders.iter_mut().find_map(|rider| rider.take_back(caller)))
    }

    /// A caller no longer waits, if the rider is where it may leave it. Answers where that is.
    fn leave(&self, key: &HeadKey, caller: u64, may: impl Fn(RiderPlace) -> bool) -> Option<RiderPlace> {
        self.with(key, |riders| {
            let rider = riders.iter_mut().find(|rider| rider.has_caller(caller) && may(rider.place))?;
            rider.leave(caller);
            Some(rider.place)
        })
    }

    /// Has a turn take along what it may. Where it went astray and is sent again, so did what it took along.
    pub(crate) fn take_with_turn(&self, key: &HeadKey, run: &Run, turn: TurnId, taker: &Taker) -> TakenAlong {
        self.lose(key, By::Turn(turn));
        self.take(key, run, &Carrier::Turn(turn, taker))
    }

    /// Has a task take along what it may.
    pub(crate) fn take(&self, key: &HeadKey, run: &Run, takes: &Carrier<'_>) -> TakenAlong {
        self.with(key, |riders| take(riders, run, takes))
    }

    /// What a task has taken along and is out with.
    pub(crate) fn with_task(&self, key: &HeadKey, by: By) -> WithTask {
        self.with(key, |riders| WithTask::of(riders.iter().filter(|rider| rider.place == RiderPlace::Out(by))))
    }

    /// A task's answer is about to be recorded: until it is known whether it was, its riders stay with it; updates only where
    /// it `judges`, and otherwise it is they whom another try of it has taken along.
    pub(crate) fn begin_answering(&self, key: &HeadKey, by: By, judges: bool) -> WithTask {
        self.with(key, |riders| {
            let may = riders.iter_mut().filter(|rider| judges || rider.kind() == RiderKind::Query);
            let begun = may.filter_map(|rider| rider.undergo(Happens::AnswerComes(by)).then_some(&*rider));
            WithTask::of(begun)
        })
    }

    /// A task's answer was not recorded: it may be answered again, or is lost. Answers whether any rider was with it.
    pub(crate) fn end_answering(&self, key: &HeadKey, by: By, is_lost: bool) -> bool {
        self.happen(key, Happens::AnswerFails { by, is_lost }, |_| true)
    }

    /// A task is lost, or has gone astray on its way: its riders wait again. Answers whether there were any.
    pub(crate) fn lose(&self, key: &HeadKey, by: By) -> bool {
        self.happen(key, Happens::TaskLost(by), |_| true)
    }

    /// Takes an update that waits, to have it judged elsewhere.
    pub(crate) fn lend(&self, key: &HeadKey, run_id: Uuid, update_id: &str) -> Option<ProposedUpdate> {
        self.with(key, |riders| {
            let rider = riders.iter_mut().find(|rider| rider.is_update(run_id, update_id))?;
            if rider.undergo(Happens::Lent) { rider.asked().cloned() } else { None }
        })
    }

    /// It comes back without a verdict: the next turn takes it along.
    pub(crate) fn end_lending(&self, key: &HeadKey, run_id: Uuid, update_id: &str) {
        self.happen(key, Happens::Returned, |rider| rider.is_update(run_id, update_id));
    }

    /// Answers whether anything is elsewhere now.
    fn happen(&self, key: &HeadKey, happens: Happens, to: impl Fn(&Rider) -> bool) -> bool {
        self.with(key, |riders| {
            // All of them, and not only until one is.
            let moved = riders.iter_mut().filter(|rider| to(rider)).map(|rider| rider.undergo(happens));
            moved.filter(|moved| *moved).count() > 0
        })
    }

    /// Gives answers to those who wait for them, where what answers has shown the run up to `shown` at least as far as they
    /// may expect. What nobody waits for is ignored. Answers whether anybody goes on watching.
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
                    rider.undergo(Happens::Answered { version });
                }
            }
            goes_on
        })
    }

    /// Tells those who wait for an update what came of it, and remembers a rejection.
    pub(crate) fn hear(&self, key: &HeadKey, run_id: Uuid, update_id: &str, heard: &UpdateHeard, now: Timestamp) {
        let Some(rider) = self.with(key, |riders| take_out(riders, run_id, update_id)) else { return };
        if rider.is_named() {
            self.rejections.remember(run_id, update_id, heard, now);
        }
        rider.hear(heard);
    }

    /// An update was rejected at another node. Unless a decider has it that was asked from here, that is what becomes of it
    /// here, too, also when it comes again. Answers whether it is.
    pub(crate) fn give_up(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        update_id: &str,
        heard: &UpdateHeard,
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
        // Before anybody can put it again.
        self.rejections.remember(run_id, update_id, heard, now);
        tidy(&mut runs, key);
        drop(runs);
        if let Some(rider) = given_up {
            rider.hear(heard);
        }
        true
    }

    /// The verdict on an update that was rejected not long ago.
    pub(crate) fn rejection(&self, run_id: Uuid, update_id: &str, now: Timestamp) -> Option<UpdateHeard> {
        self.rejections.find(run_id, update_id, now)
    }

    /// After a commit, and after a rider was put to the newest run of a workflow id: what was with a turn that is over waits
    /// again, and who waits for what can no longer come hears of it. Answers which kinds want a task of their own.
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
            rider.hear(&heard);
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

    /// The same for queries of a run that has closed, whether it is the newest or not. Answers whether any wants a task.
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

/// Puts a rider, or has whoever waits for it join one that is the same.
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
        RiderKind::Query => ("queries are put to this run", "bytes of queries are put to this run"),
        RiderKind::Update => ("updates are put to this run", "bytes of updates are put to this run"),
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

/// Takes an update out, whatever becomes of it.
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
