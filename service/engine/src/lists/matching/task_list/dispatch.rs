//! The dispatch gate of a list: every task that leaves a list for a poller passes through [`TaskList::dispatch`].
//!
//! | departure | task | recipient |
//! |---|---|---|
//! | [`ToPoll`] | the next task that the poller can handle | a new poll, or a poller that waited or is put back |
//! | [`ToNode`] | the next turn or activity on the list | a poller that waits at another node |
//! | [`ToHome`] | limited tasks in their order | the list of the node that decides about the limits |
//! | [`ToWaiting`] | a new task: about to be committed or offered | a poller of its run, or the longest waiting one |
//!
//! Rules about when tasks may leave a list belong here and nowhere else. The limits of the list are asked through
//! [`ListGate`]. Each rule has a variant of [`Stays`] that names its reason. The task then stays on its list, or the
//! caller puts it there. A task that leaves a limited list gets a [`Permit`], which holds its slot until the task has
//! started.
//!
//! Riders (queries and updates) and tasks whose response was lost are not limited: riders are no tasks at a runner, and
//! a lost task already has its slot.

use std::sync::{Arc, MutexGuard};

use tokio::time::Instant;

use crate::base::list_reports::LimitHold;
use crate::lists::grant::RiderKind;
use crate::lists::limits::limiter::Limiter;
use crate::lists::limits::permit::{Permit, ReturnedSlots};
use crate::lists::matching::task_list::TaskList;
use crate::lists::matching::task_list::keys::{Key, MayStart, PlaceOnList};
use crate::lists::{ListKey, OnList, Poller, Taker, WaitingTask};

/// Reason why no task leaves a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stays {
    /// No task waits that the recipient can handle.
    NoTask,
    /// No poller waits that can handle the task.
    NoPoller,
    /// Other tasks have waited longer and must be taken first. If pollers are waiting, each of them is about to get one
    /// of these other tasks.
    BehindOthers,
    /// A limit of the list, or its pause.
    Limited(LimitHold),
}

/// The limits of one list. A list without settings has none.
pub(crate) struct ListGate<'a> {
    limiter: Option<MutexGuard<'a, Limiter>>,
    list: &'a ListKey,
    returned_slots: &'a Arc<ReturnedSlots>,
}

impl<'a> ListGate<'a> {
    pub(in crate::lists::matching) fn new(
        limiter: Option<MutexGuard<'a, Limiter>>,
        list: &'a ListKey,
        returned_slots: &'a Arc<ReturnedSlots>,
    ) -> Self {
        Self { limiter, list, returned_slots }
    }

    /// Returns the time if the list is limited.
    fn now(&self) -> Option<Instant> {
        self.limiter.as_ref().map(|_| Instant::now())
    }

    /// Returns why no task of the list may start, whatever its key is.
    fn check_list(&mut self, now: Instant) -> Result<(), LimitHold> {
        self.limiter.as_mut().map_or(Ok(()), |limiter| limiter.check_list(self.list, now))
    }

    fn check_key(&mut self, key: &Key, now: Instant) -> Result<(), LimitHold> {
        self.limiter.as_mut().map_or(Ok(()), |limiter| limiter.check_key(self.list, key.as_ref(), now))
    }

    /// Returns the number of tasks that a key gets when its turn comes.
    fn weight(&self, key: &Key) -> u32 {
        self.limiter.as_ref().map_or(1, |limiter| limiter.weight(self.list, key.as_ref()))
    }

    /// Takes a slot for a task that is not on the list.
    pub(in crate::lists::matching) fn take(mut self, task: &WaitingTask) -> Result<Permit, Stays> {
        self.check(task).map(|()| self.permit(task))
    }

    /// Returns why a task may not leave the list.
    fn check(&mut self, task: &WaitingTask) -> Result<(), Stays> {
        let Some(now) = self.now().filter(|_| task.lost.is_none()) else { return Ok(()) };
        self.check_list(now).map_err(Stays::Limited)?;
        self.check_key(&task.concurrency_key, now).map_err(Stays::Limited)
    }

    /// Takes a slot for a task that leaves the list.
    fn permit(&mut self, task: &WaitingTask) -> Permit {
        let Some(limiter) = self.limiter.as_mut().filter(|_| task.lost.is_none()) else { return Permit::default() };
        let slot = task.slot(self.list);
        limiter.take(&slot, Instant::now());
        Permit::new(self.returned_slots, slot)
    }
}

/// A task that leaves its list, with its slot.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) task: OnList,
    pub(crate) permit: Permit,
}

/// A task that leaves its list for a poller of another node.
pub(crate) struct LeavingNode {
    pub(crate) task: WaitingTask,
    pub(crate) permit: Permit,
    /// Place of the task, to which it returns if the other node has no poller.
    pub(crate) place: PlaceOnList,
}

/// A way in which a task leaves its list.
pub(crate) trait Departure {
    /// Result of a departure: the task if a recipient requests a task; the recipient if a task requests a recipient.
    type Left;

    /// Reason that is returned for a list that has neither tasks nor pollers.
    const IF_EMPTY: Stays;

    /// Takes the task, or the recipient, off the list.
    fn leave(self, list: &mut TaskList, gate: ListGate<'_>) -> Result<Self::Left, Stays>;
}

/// Takes the next task that this poller can handle.
pub(crate) struct ToPoll<'a>(pub(crate) &'a Taker);

/// Takes the next turn or activity for a poller of another node. Riders are sent to other nodes through
/// `riders/nodes.rs`.
pub(crate) struct ToNode;

/// Takes tasks, at most this number, to which limits apply. The limits are not asked, because the tasks only move to
/// another list.
pub(crate) struct ToHome(pub(crate) usize);

/// Takes the first waiting poller for a task that is not on the list.
pub(crate) enum ToWaiting<'a> {
    /// A turn or an activity.
    Task(&'a WaitingTask),
    /// A turn or an activity that another node has permitted to start.
    Permitted(&'a WaitingTask),
    /// Riders of this kind, of the run with this workflow id.
    Riders { kind: RiderKind, workflow_id: &'a str },
}

impl<'a> From<&'a OnList> for ToWaiting<'a> {
    fn from(task: &'a OnList) -> Self {
        match task {
            OnList::Task(task) => Self::Task(task),
            OnList::Riders(riders) => Self::Riders { kind: riders.kind, workflow_id: task.workflow_id() },
        }
    }
}

impl TaskList {
    /// Lets a task leave the list.
    pub(crate) fn dispatch<D: Departure>(&mut self, departure: D, gate: ListGate<'_>) -> Result<D::Left, Stays> {
        departure.leave(self, gate)
    }

    /// Takes the next entry that `can` accepts and that no limit holds back.
    fn take_next(&mut self, can: impl Fn(&OnList) -> bool, gate: ListGate<'_>) -> Result<Leaving, Stays> {
        self.take_next_at(can, gate).map(|(_, leaving)| leaving)
    }

    fn take_next_at(
        &mut self,
        can: impl Fn(&OnList) -> bool,
        mut gate: ListGate<'_>,
    ) -> Result<(PlaceOnList, Leaving), Stays> {
        let now = gate.now();
        let hold = now.and_then(|now| gate.check_list(now).err());
        let may_leave = |task: &OnList| can(task) && (hold.is_none() || !is_limited(task));
        let at = |tasks: &Self, place: PlaceOnList| tasks.tasks.get(&place).is_some_and(|kept| may_leave(&kept.task));
        let place = match self.order.take() {
            // If the list is held back as a whole, only entries without a key can leave, and the keys keep their order.
            Some(mut order) if hold.is_none() => {
                let may_start = |key: &Key| match now.map_or(Ok(()), |now| gate.check_key(key, now)) {
                    Ok(()) => MayStart::Yes { weight: gate.weight(key) },
                    Err(LimitHold::Rate { until, .. }) => MayStart::NotBefore(until),
                    Err(_) => MayStart::NotYet,
                };
                let place = order.next(now, |place| at(self, place), may_start);
                self.order = Some(order);
                place
            }
            order => {
                self.order = order;
                self.tasks.iter().find(|(_, kept)| may_leave(&kept.task)).map(|(place, _)| *place)
            }
        };
        let stays = || hold.clone().map_or(Stays::NoTask, Stays::Limited);
        let (place, task) = place.and_then(|place| Some((place, self.remove(place)?))).ok_or_else(stays)?;
        let permit = task.task().map_or_else(Permit::default, |task| gate.permit(task));
        Ok((place, Leaving { task, permit }))
    }

    /// Takes the next entry of the run that the poller names. The keys of other tasks keep their turns. Reads all
    /// entries, which only such polls have to wait for.
    fn take_next_of_run(&mut self, taker: &Taker, mut gate: ListGate<'_>) -> Result<Leaving, Stays> {
        let mut stays = Stays::NoTask;
        let place =
            self.tasks.iter().filter(|(_, kept)| kept.task.is_for(taker)).find_map(|(place, kept)| {
                match kept.task.task().map_or(Ok(()), |task| gate.check(task)) {
                    Ok(()) => Some(*place),
                    Err(held_back) => {
                        stays = held_back;
                        None
                    }
                }
            });
        let task = place.and_then(|place| self.remove(place)).ok_or(stays)?;
        let permit = task.task().map_or_else(Permit::default, |task| gate.permit(task));
        Ok(Leaving { task, permit })
    }
}

/// Takes a waiting poller that takes only tasks of this task's run, if the limits permit the task.
fn take_of_run(list: &mut TaskList, task: &WaitingTask, gate: &mut ListGate<'_>) -> Option<Poller> {
    if list.of_runs.is_empty() || gate.check(task).is_err() {
        return None;
    }
    let mut poller = list.take_poller_of_run(&task.key.workflow_id, |_| true)?;
    poller.permit = gate.permit(task);
    Some(poller)
}

/// Returns true if limits apply to an entry.
fn is_limited(task: &OnList) -> bool {
    task.task().is_some_and(|task| task.lost.is_none())
}

impl Departure for ToPoll<'_> {
    type Left = Leaving;
    const IF_EMPTY: Stays = Stays::NoTask;

    fn leave(self, list: &mut TaskList, gate: ListGate<'_>) -> Result<Leaving, Stays> {
        match &self.0.workflow_id {
            Some(_) => list.take_next_of_run(self.0, gate),
            None => list.take_next(|task| task.is_for(self.0), gate),
        }
    }
}

impl Departure for ToNode {
    type Left = LeavingNode;
    const IF_EMPTY: Stays = Stays::NoTask;

    fn leave(self, list: &mut TaskList, gate: ListGate<'_>) -> Result<LeavingNode, Stays> {
        let (place, Leaving { task, permit }) = list.take_next_at(|task| !task.is_riders(), gate)?;
        match task {
            OnList::Task(task) => Ok(LeavingNode { task, permit, place }),
            OnList::Riders(_) => Err(Self::IF_EMPTY),
        }
    }
}

impl Departure for ToHome {
    type Left = Vec<WaitingTask>;
    const IF_EMPTY: Stays = Stays::NoTask;

    fn leave(self, list: &mut TaskList, _gate: ListGate<'_>) -> Result<Vec<WaitingTask>, Stays> {
        let limited = list.tasks.iter().filter(|(_, kept)| is_limited(&kept.task));
        let places: Vec<PlaceOnList> = limited.take(self.0).map(|(place, _)| *place).collect();
        if places.is_empty() {
            return Err(Self::IF_EMPTY);
        }
        let tasks = places.into_iter().filter_map(|place| list.remove(place));
        Ok(tasks.filter_map(|task| task.task().cloned()).collect())
    }
}

impl Departure for ToWaiting<'_> {
    type Left = Poller;
    const IF_EMPTY: Stays = Stays::NoPoller;

    fn leave(self, list: &mut TaskList, mut gate: ListGate<'_>) -> Result<Poller, Stays> {
        if let Self::Task(task) = self
            && let Some(poller) = take_of_run(list, task, &mut gate)
        {
            // A poller of this run takes no tasks of other runs, so the task need not wait behind them.
            return Ok(poller);
        }
        match self {
            Self::Permitted(task) => {
                let of_run = list.take_poller_of_run(&task.key.workflow_id, |_| true);
                of_run.or_else(|| list.take_poller(|_| true)).ok_or(Self::IF_EMPTY)
            }
            Self::Task(_) if list.has_tasks() => Err(Stays::BehindOthers),
            Self::Task(task) => {
                debug_assert!(!list.has(task), "a task on the list leaves with a departure that takes it off");
                gate.check(task)?;
                let mut poller = list.take_poller(|_| true).ok_or(Self::IF_EMPTY)?;
                poller.permit = gate.permit(task);
                Ok(poller)
            }
            // Riders may overtake waiting tasks, because those may wait for pollers that do not handle riders.
            Self::Riders { kind, workflow_id } => {
                let of_run = list.take_poller_of_run(workflow_id, |taker| taker.takes(kind));
                of_run.or_else(|| list.take_poller(|taker| taker.takes(kind))).ok_or(Self::IF_EMPTY)
            }
        }
    }
}
