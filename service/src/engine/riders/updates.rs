//! Updates that wait for a decider's verdict, and where each of them is. In memory only, and allowed to be lost: whoever asks
//! waits, and has it put again; the update's id keeps it from happening twice.
//!
//! An update waits until a turn takes it along: one that starts for another reason, or a speculative one that is made for it
//! (ADR 10). One with a condition is judged alone, in a speculative turn. What a decider has been given stays until its turn
//! is over, also when nobody waits for it any more, so that the turn's answer finds what it answers. One that was lent to
//! another node is in its hands alone until that one has answered, or is lost.

mod lent;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use history::{
    AskedUpdate, CallerName, EventId, Fault, Payload, Run, Status, Timestamp, TurnId, UpdateStanding, limits,
};
use store::HeadKey;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::engine::Refusal;
use crate::engine::riders::questions::{Timer, is_idle};

/// Updates that are put to one run at the same time, at most. Ours: each costs a turn, or a part of one.
pub(crate) const UPDATES_PER_RUN_MAX: usize = 1_000;

/// Bytes of ids, names and inputs of the updates that are put to one run, at most. Ours: 32 inputs of the largest size.
pub(crate) const UPDATE_BYTES_PER_RUN_MAX: usize = 8 * 1024 * 1024;

/// Bytes of ids, names and inputs that one turn takes along, unless its first update alone has more. Ours: a quarter of what
/// a window may have.
pub(crate) const TURN_UPDATE_BYTES_MAX: usize = 1024 * 1024;

/// How many rejections are remembered at one node. Ours: a caller who lost the answer asks again within seconds.
pub(crate) const REJECTIONS_MAX: usize = 10_000;

/// Largest details that are remembered of a rejection, in bytes. Ours: what is longer is judged again.
pub(crate) const REJECTION_BYTES_MAX: usize = 4 * 1024;

/// How long a rejection is remembered. Ours: longer than any client tries again.
pub(crate) const REJECTION_KEPT: history::Duration = history::Duration::from_secs(120);

/// What came of an update, as far as its turn goes.
#[derive(Debug, Clone)]
pub(crate) enum Heard {
    /// It is done.
    Done { event_id: EventId, version: EventId, result: Option<Payload> },
    /// It was accepted, and is not done yet.
    Accepted,
    /// It was rejected, and nothing is recorded.
    Rejected { reason: String, details: Option<Payload> },
    /// The turn is over, and said nothing to it.
    Unanswered,
    /// It will not come to a decider any more.
    Refused(Refusal),
    /// Its run has gone on as another one.
    GoneOn,
}

/// The turn that has taken updates along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A turn like any other.
    Turn(TurnId),
    /// A speculative one, by its number.
    Task(u64),
}

/// A speculative turn that is out.
#[derive(Debug)]
pub(crate) struct Speculation {
    /// The newest event that its decider was shown.
    pub(crate) last_event_id: EventId,
    /// When it was taken.
    pub(crate) started_at: Timestamp,
    /// By whom.
    pub(crate) identity: Option<String>,
    /// With what credential.
    pub(crate) by: Option<CallerName>,
    /// Loses it when its time is over.
    pub(crate) _timer: Timer,
}

/// Where an update is.
#[derive(Debug)]
enum UpdatePlace {
    /// The next turn takes it along.
    Waits,
    /// Another node has it, and no turn of this one takes it along.
    Lent,
    /// A turn that is started has taken it along.
    Out { by: By, speculation: Option<Arc<Speculation>> },
    /// That turn's answer is being recorded.
    Answering { by: By, speculation: Option<Arc<Speculation>> },
}

impl UpdatePlace {
    fn is_out(&self, of: By) -> bool {
        matches!(self, Self::Out { by, .. } if *by == of)
    }

    fn is_answering(&self, of: By) -> bool {
        matches!(self, Self::Answering { by, .. } if *by == of)
    }
}

struct UpdateCaller {
    id: u64,
    reply: oneshot::Sender<Heard>,
}

struct Put {
    run_id: Uuid,
    asked: AskedUpdate,
    place: UpdatePlace,
    callers: Vec<UpdateCaller>,
    /// Its caller chose the id, and may ask again with it.
    is_named: bool,
}

impl Put {
    fn bytes(&self) -> usize {
        bytes(&self.asked)
    }

    fn tell(self, heard: &Heard) {
        for caller in self.callers {
            drop(caller.reply.send(heard.clone()));
        }
    }
}

fn bytes(asked: &AskedUpdate) -> usize {
    asked.update_id.len() + asked.name.len() + asked.input.as_ref().map_or(0, Payload::len)
}

/// A rejection that is remembered.
struct Rejection {
    run_id: Uuid,
    update_id: String,
    reason: String,
    details: Option<Payload>,
    at: Timestamp,
}

/// Every update that is put at this node.
#[derive(Default)]
pub(crate) struct Updates {
    runs: Mutex<HashMap<HeadKey, VecDeque<Put>>>,
    /// Oldest first.
    rejections: Mutex<VecDeque<Rejection>>,
    /// How many are put. Without any there is nothing to look for.
    count: AtomicUsize,
}

impl Updates {
    fn lock(&self) -> MutexGuard<'_, HashMap<HeadKey, VecDeque<Put>>> {
        self.runs.lock().expect("no code panics while it holds this lock")
    }

    /// How many updates are put.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Puts an update to a run, or joins the same one. `caller` names whoever waits for it. One that was rejected not long ago
    /// is not put; answers what is known of it then.
    #[expect(clippy::too_many_arguments, reason = "a run, an update of it, who asks, and when")]
    pub(crate) fn put(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        asked: AskedUpdate,
        is_named: bool,
        caller: u64,
        reply: oneshot::Sender<Heard>,
        now: Timestamp,
    ) -> Result<Option<Heard>, Refusal> {
        let mut runs = self.lock();
        if let Some(heard) = self.rejection(run_id, &asked.update_id, now) {
            return Ok(Some(heard));
        }
        let puts = runs.entry(key.clone()).or_default();
        let caller = UpdateCaller { id: caller, reply };
        if let Some(same) = puts.iter_mut().find(|put| put.run_id == run_id && put.asked.update_id == asked.update_id) {
            same.callers.push(caller);
            return Ok(None);
        }
        let (count, size) = (puts.len(), puts.iter().map(Put::bytes).sum::<usize>() + bytes(&asked));
        let refused = if count >= UPDATES_PER_RUN_MAX {
            Some((count, UPDATES_PER_RUN_MAX, "updates are put to this run"))
        } else if size > UPDATE_BYTES_PER_RUN_MAX {
            Some((size, UPDATE_BYTES_PER_RUN_MAX, "bytes of updates are put to this run"))
        } else {
            None
        };
        if let Some((found, max, what)) = refused {
            if puts.is_empty() {
                runs.remove(key);
            }
            return Err(Refusal::TooManyQuestions { found, max, what });
        }
        puts.push_back(Put { run_id, asked, place: UpdatePlace::Waits, callers: vec![caller], is_named });
        self.count.fetch_add(1, Ordering::SeqCst);
        Ok(None)
    }

    /// Takes back what a caller has put and no decider has; answers where its answer was to go.
    pub(crate) fn take_back(&self, key: &HeadKey, caller: u64) -> Option<oneshot::Sender<Heard>> {
        let mut runs = self.lock();
        let reply = runs.get_mut(key)?.iter_mut().find_map(|put| {
            let at = put.callers.iter().position(|it| it.id == caller)?;
            Some(put.callers.swap_remove(at).reply)
        });
        self.tidy(&mut runs, key);
        reply
    }

    /// A caller no longer waits. Answers whether its update may be accepted all the same, because a decider has it.
    pub(crate) fn leave(&self, key: &HeadKey, update_id: &str, caller: u64) -> bool {
        let mut runs = self.lock();
        let Some(puts) = runs.get_mut(key) else { return false };
        for put in puts.iter_mut().filter(|put| put.asked.update_id == update_id) {
            put.callers.retain(|it| it.id != caller);
        }
        let is_out =
            puts.iter().any(|put| put.asked.update_id == update_id && !matches!(put.place, UpdatePlace::Waits));
        self.tidy(&mut runs, key);
        is_out
    }

    /// Forgets what waits although nobody waits for it.
    fn tidy(&self, runs: &mut HashMap<HeadKey, VecDeque<Put>>, key: &HeadKey) {
        let Some(puts) = runs.get_mut(key) else { return };
        let before = puts.len();
        for put in puts.iter_mut() {
            // Whoever left before it was put could not take it back.
            put.callers.retain(|caller| !caller.reply.is_closed());
        }
        puts.retain(|put| !put.callers.is_empty() || !matches!(put.place, UpdatePlace::Waits));
        self.count.fetch_sub(before - puts.len(), Ordering::SeqCst);
        if puts.is_empty() {
            runs.remove(key);
        }
    }

    /// A turn takes along what waits and has no condition.
    pub(crate) fn ride(&self, key: &HeadKey, run: &Run, turn: TurnId, most: usize) -> Vec<AskedUpdate> {
        let may = |put: &Put| put.asked.if_version.is_none() && is_new(put, run);
        self.take_along(key, run.started.run_id, most, may, || UpdatePlace::Out {
            by: By::Turn(turn),
            speculation: None,
        })
    }

    /// A speculative turn takes along what waits: several without a condition, or one with one.
    pub(crate) fn send(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        task: u64,
        most: usize,
        speculation: Speculation,
    ) -> Vec<AskedUpdate> {
        let is_conditional = {
            let runs = self.lock();
            let first = runs.get(key).into_iter().flatten().find(|put| is_waiting(put, run_id));
            first.is_some_and(|put| put.asked.if_version.is_some())
        };
        let speculation = Arc::new(speculation);
        let most = if is_conditional { 1 } else { most };
        let may = |put: &Put| put.asked.if_version.is_some() == is_conditional;
        self.take_along(key, run_id, most, may, || UpdatePlace::Out {
            by: By::Task(task),
            speculation: Some(Arc::clone(&speculation)),
        })
    }

    fn take_along(
        &self,
        key: &HeadKey,
        run_id: Uuid,
        most: usize,
        may: impl Fn(&Put) -> bool,
        place: impl Fn() -> UpdatePlace,
    ) -> Vec<AskedUpdate> {
        let mut taken: Vec<AskedUpdate> = Vec::new();
        if self.len() == 0 {
            return taken;
        }
        let mut size = 0;
        for put in self.lock().get_mut(key).into_iter().flatten().filter(|put| is_waiting(put, run_id) && may(put)) {
            size += put.bytes();
            if taken.len() >= most.min(limits::UPDATES_PER_TURN_MAX)
                || (size > TURN_UPDATE_BYTES_MAX && !taken.is_empty())
            {
                break;
            }
            put.place = place();
            taken.push(put.asked.clone());
        }
        taken
    }

    /// Whether a turn has taken updates along.
    pub(crate) fn has(&self, key: &HeadKey, of: By) -> bool {
        self.len() > 0 && self.lock().get(key).into_iter().flatten().any(|put| put.place.is_out(of))
    }

    /// A turn's answer is about to be recorded: until it is known whether it was, its updates stay with it. Answers which they
    /// are.
    pub(crate) fn begin_answering(&self, key: &HeadKey, of: By) -> (Vec<AskedUpdate>, Option<Arc<Speculation>>) {
        let (mut asked, mut found) = (Vec::new(), None);
        if self.len() == 0 {
            return (asked, found);
        }
        for put in self.lock().get_mut(key).into_iter().flatten().filter(|put| put.place.is_out(of)) {
            if let UpdatePlace::Out { by, speculation } = std::mem::replace(&mut put.place, UpdatePlace::Waits) {
                found = found.or_else(|| speculation.clone());
                put.place = UpdatePlace::Answering { by, speculation };
            }
            asked.push(put.asked.clone());
        }
        (asked, found)
    }

    /// It was not recorded: the turn may be answered again, or is lost. Answers whether any update was with it.
    pub(crate) fn end_answering(&self, key: &HeadKey, of: By, is_lost: bool) -> bool {
        let mut runs = self.lock();
        let mut any = false;
        for put in runs.get_mut(key).into_iter().flatten().filter(|put| put.place.is_answering(of)) {
            any = true;
            if let UpdatePlace::Answering { by, speculation } = std::mem::replace(&mut put.place, UpdatePlace::Waits)
                && !is_lost
            {
                put.place = UpdatePlace::Out { by, speculation };
            }
        }
        self.tidy(&mut runs, key);
        any
    }

    /// Gives a verdict to those who wait for it, and remembers a rejection.
    pub(crate) fn hear(&self, key: &HeadKey, run_id: Uuid, update_id: &str, heard: &Heard, now: Timestamp) {
        let mut runs = self.lock();
        let Some(puts) = runs.get_mut(key) else { return };
        let Some(at) = puts.iter().position(|put| put.run_id == run_id && put.asked.update_id == update_id) else {
            return;
        };
        let Some(put) = puts.remove(at) else { return };
        if puts.is_empty() {
            runs.remove(key);
        }
        drop(runs);
        self.count.fetch_sub(1, Ordering::SeqCst);
        if put.is_named {
            self.remember(run_id, update_id, heard, now);
        }
        put.tell(heard);
    }

    /// Remembers a rejection.
    fn remember(&self, run_id: Uuid, update_id: &str, heard: &Heard, now: Timestamp) {
        if let Heard::Rejected { reason, details } = heard
            && details.as_ref().map_or(0, Payload::len) <= REJECTION_BYTES_MAX
        {
            let (reason, details, update_id) = (reason.clone(), details.clone(), update_id.to_owned());
            let mut rejections = self.rejections();
            while rejections.len() >= REJECTIONS_MAX || rejections.front().is_some_and(|it| is_over(it, now)) {
                rejections.pop_front();
            }
            rejections.push_back(Rejection { run_id, update_id, reason, details, at: now });
        }
    }

    /// An update was rejected at another node. Unless a decider has it that was asked from here, that is what becomes of it
    /// here, too, also when it comes again. Answers whether it is.
    pub(crate) fn give_up(&self, key: &HeadKey, run_id: Uuid, update_id: &str, heard: &Heard, now: Timestamp) -> bool {
        let mut runs = self.lock();
        let mut given_up = None;
        if let Some(puts) = runs.get_mut(key)
            && let Some(at) = puts.iter().position(|put| put.run_id == run_id && put.asked.update_id == update_id)
        {
            if !puts.get(at).is_some_and(|put| matches!(put.place, UpdatePlace::Waits)) {
                return false;
            }
            given_up = puts.remove(at);
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        // Before anybody can put it again.
        self.remember(run_id, update_id, heard, now);
        self.tidy(&mut runs, key);
        drop(runs);
        if let Some(put) = given_up {
            put.tell(heard);
        }
        true
    }

    fn rejections(&self) -> MutexGuard<'_, VecDeque<Rejection>> {
        self.rejections.lock().expect("no code panics while it holds this lock")
    }

    /// The verdict on an update that was rejected not long ago.
    pub(crate) fn rejection(&self, run_id: Uuid, update_id: &str, now: Timestamp) -> Option<Heard> {
        let rejections = self.rejections();
        let found = rejections.iter().rev().find(|it| it.run_id == run_id && it.update_id == update_id)?;
        (!is_over(found, now)).then(|| Heard::Rejected { reason: found.reason.clone(), details: found.details.clone() })
    }

    /// A turn has gone astray on its way to whoever took it: what rides with it waits again.
    pub(crate) fn get_off(&self, key: &HeadKey, turn: TurnId) {
        if self.len() > 0 {
            self.put_back(key, By::Turn(turn));
        }
    }

    /// A speculative turn is lost: its updates wait for another. Answers whether there were any.
    pub(crate) fn lose(&self, key: &HeadKey, task: u64) -> bool {
        self.put_back(key, By::Task(task))
    }

    fn put_back(&self, key: &HeadKey, of: By) -> bool {
        let mut runs = self.lock();
        let mut any = false;
        for put in runs.get_mut(key).into_iter().flatten().filter(|put| put.place.is_out(of)) {
            put.place = UpdatePlace::Waits;
            any = true;
        }
        self.tidy(&mut runs, key);
        any
    }

    /// After a commit, and after an update was put: what rode with a turn that is over waits again, and who waits for what
    /// can no longer come hears of it. Answers whether a speculative turn is wanted.
    pub(crate) fn settle(&self, key: &HeadKey, run: &Run) -> bool {
        if self.len() == 0 {
            return false;
        }
        let mut runs = self.lock();
        let Some(puts) = runs.get_mut(key) else { return false };
        let run_id = run.started.run_id;
        let mut refused = Vec::new();
        for put in puts.iter_mut() {
            if put.run_id == run_id
                && let UpdatePlace::Out { by: By::Turn(turn), .. } = put.place
                && !holds(run, turn)
            {
                put.place = UpdatePlace::Waits;
            }
        }
        let mut at = 0;
        while let Some(put) = puts.get(at) {
            let heard = match (&put.place, put.asked.if_version) {
                // Who has it says what becomes of it.
                (UpdatePlace::Answering { .. } | UpdatePlace::Lent, _) => None,
                // A decider at another node has accepted it: whoever waits for it looks at the run.
                (UpdatePlace::Waits, _) if !is_new(put, run) => Some(Heard::Accepted),
                _ if put.run_id != run_id || run.status == Status::ContinuedAsNew => Some(Heard::GoneOn),
                _ if !run.is_open() => Some(Heard::Refused(Fault::RunClosed { status: run.status }.into())),
                // Its caller waits on a line, and somebody has to see to the run first (ADR 11).
                (UpdatePlace::Waits, _) if run.paused.is_some() => Some(Heard::Refused(Fault::RunPaused.into())),
                (UpdatePlace::Waits, Some(expected)) if expected != run.version => {
                    Some(Heard::Refused(Fault::VersionMoved { expected, found: run.version }.into()))
                }
                (UpdatePlace::Waits | UpdatePlace::Out { .. }, _) => None,
            };
            match heard.and_then(|heard| Some((puts.remove(at)?, heard))) {
                Some(it) => refused.push(it),
                None => at += 1,
            }
        }
        self.count.fetch_sub(refused.len(), Ordering::SeqCst);
        self.tidy(&mut runs, key);
        let puts = runs.get(key);
        let is_out = puts.into_iter().flatten().any(|put| !matches!(put.place, UpdatePlace::Waits));
        let waits = puts.into_iter().flatten().any(|put| is_waiting(put, run_id));
        drop(runs);
        for (put, heard) in refused {
            put.tell(&heard);
        }
        run.is_open() && is_idle(run) && waits && !is_out
    }

    /// Why an update has no verdict yet, for its caller, and whether it waits for a decider to take it.
    pub(crate) fn whereabouts(&self, key: &HeadKey, update_id: &str) -> (&'static str, bool) {
        let runs = self.lock();
        let put = runs.get(key).into_iter().flatten().find(|put| put.asked.update_id == update_id);
        match put.map(|put| &put.place) {
            Some(UpdatePlace::Out { .. } | UpdatePlace::Answering { .. }) => {
                ("the decider that was asked has not answered", false)
            }
            Some(UpdatePlace::Lent) => ("no decider has answered at the node where it was asked for", false),
            Some(UpdatePlace::Waits) | None => {
                ("no decider that takes updates took a turn of the run, or a turn is under way", true)
            }
        }
    }
}

fn is_waiting(put: &Put, run_id: Uuid) -> bool {
    put.run_id == run_id && matches!(put.place, UpdatePlace::Waits)
}

/// Whether its run knows nothing of it.
fn is_new(put: &Put, run: &Run) -> bool {
    put.run_id != run.started.run_id || run.update_standing(&put.asked.update_id) == UpdateStanding::New
}

fn is_over(rejection: &Rejection, now: Timestamp) -> bool {
    rejection.at.plus(REJECTION_KEPT) < now
}

fn holds(run: &Run, turn: TurnId) -> bool {
    run.is_open()
        && run.turn.as_ref().is_some_and(|held| {
            held.scheduled_event_id == turn.scheduled_event_id && held.started_event_id == turn.started_event_id
        })
}
