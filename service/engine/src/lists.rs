//! Task lists: tasks that wait on them and pollers that wait for tasks, on this node and on others. Task lists are only
//! in memory and may be lost. Waiting tasks are then restored from the store's due index.

pub(super) mod backlog;
pub(super) mod elsewhere;
pub(super) mod grant;
pub(super) mod hand_out;
pub(super) mod in_flight;
pub(super) mod limits;
pub(super) mod list_key;
pub(super) mod lost;
pub(super) mod matching;
pub(super) mod offers;
pub(super) mod pollers;
pub(super) mod polls;
pub(super) mod refill;
pub(super) mod report;
pub(super) mod shown;
pub(super) mod sync_match;
pub(super) mod undelivered;
pub(super) mod unpolled;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use history::{CallerName, EventId, PollId, Timestamp};
use store::HeadKey;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::lists::grant::{Grant, RiderKind};
use crate::lists::limits::permit::{Permit, TaskSlot};
pub(crate) use crate::lists::list_key::{ListKey, Side};

/// A waiting task, as a hint: the task is started by a commit, which fails if another poller has already taken the
/// task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WaitingTask {
    pub(crate) key: HeadKey,
    pub(crate) run_id: Uuid,
    pub(crate) scheduled_event_id: EventId,
    /// Poll to which the task was sent but which the task did not reach. The task must then be handed out again. `None`
    /// if the task was not started.
    pub(crate) lost: Option<PollId>,
    /// Tasks with a higher priority are taken first. Among tasks of equal priority, the one that has waited longest is
    /// first.
    pub(crate) priority: i32,
    /// Time when the task began to wait for a poller, if known.
    pub(crate) since: Option<Timestamp>,
    /// Concurrency key of the task.
    pub(crate) concurrency_key: Option<Arc<str>>,
}

/// Riders (queries and updates) of a run that has no turn to carry them. They wait for a separate task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingRiders {
    pub(crate) key: HeadKey,
    pub(crate) run_id: Uuid,
    pub(crate) kind: RiderKind,
}

/// An entry that waits on a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OnList {
    /// A turn or an activity that waits according to the history.
    Task(WaitingTask),
    /// Riders, which leave no event in the history.
    Riders(WaitingRiders),
}

/// Identifies an entry within a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TaskKey {
    Task(Uuid, EventId, Option<PollId>),
    Riders(Uuid, RiderKind),
}

impl From<WaitingTask> for OnList {
    fn from(task: WaitingTask) -> Self {
        Self::Task(task)
    }
}

impl WaitingTask {
    /// Returns the place of the task under the limits of its list.
    pub(crate) fn slot(&self, list: &ListKey) -> TaskSlot {
        TaskSlot {
            list: list.clone(),
            workflow_id: Arc::clone(&self.key.workflow_id),
            run_id: self.run_id,
            scheduled_event_id: self.scheduled_event_id,
            concurrency_key: self.concurrency_key.clone(),
        }
    }

    fn known(&self) -> TaskKey {
        TaskKey::Task(self.run_id, self.scheduled_event_id, self.lost)
    }
}

impl OnList {
    fn known(&self) -> TaskKey {
        match self {
            Self::Task(task) => task.known(),
            Self::Riders(riders) => TaskKey::Riders(riders.run_id, riders.kind),
        }
    }

    /// Returns the task if this entry is a turn or an activity.
    pub(crate) fn task(&self) -> Option<&WaitingTask> {
        match self {
            Self::Task(task) => Some(task),
            Self::Riders(_) => None,
        }
    }

    fn is_riders(&self) -> bool {
        self.task().is_none()
    }

    fn priority(&self) -> i32 {
        // Riders have priority 0.
        self.task().map_or(0, |task| task.priority)
    }

    /// Returns the workflow id of the entry's run.
    fn workflow_id(&self) -> &str {
        match self {
            Self::Task(task) => &task.key.workflow_id,
            Self::Riders(riders) => &riders.key.workflow_id,
        }
    }

    /// Returns true if the poller can handle the entry.
    fn is_for(&self, taker: &Taker) -> bool {
        if taker.workflow_id.as_deref().is_some_and(|id| id != self.workflow_id()) {
            return false;
        }
        match self {
            Self::Task(_) => true,
            Self::Riders(riders) => taker.takes(riders.kind),
        }
    }
}

/// A poller's identity and abilities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taker {
    /// Identity that the history records.
    pub(crate) identity: Option<String>,
    /// Name of the credential that the poller uses.
    pub(crate) by: Option<CallerName>,
    /// True if the poller answers queries.
    pub(crate) answers: bool,
    /// Maximum number of updates that the poller validates with one task.
    pub(crate) updates: usize,
    /// Id of this attempt of the poll; `None` if the poll has no id.
    pub(crate) poll: Option<PollId>,
    /// Workflow id of the only run whose tasks the poller takes; `None` if it takes the tasks of all runs.
    pub(crate) workflow_id: Option<Arc<str>>,
}

impl Taker {
    /// Returns true if the poller handles riders of this kind.
    pub(crate) fn takes(&self, kind: RiderKind) -> bool {
        match kind {
            RiderKind::Query => self.answers,
            RiderKind::Update => self.updates > 0,
        }
    }

    /// Returns the poller for one slot of an exchange. An exchange polls for several tasks, and each slot receives one.
    pub(crate) fn of_slot(&self, slot: u32) -> Self {
        Self { poll: self.poll.map(|poll| poll.of_slot(slot)), ..self.clone() }
    }
}

/// Number of a slot with its task; `None` instead of the task if the slot will get no task.
pub(crate) type IntoSlot = (u32, Option<Box<Grant>>);

/// Channel to the exchange request that has the slots.
type SlotSender = UnboundedSender<IntoSlot>;

/// A poller that waits on a list for one task or for several.
pub(crate) struct Poller {
    pub(crate) taker: Taker,
    id: u64,
    answer: PollAnswer,
    /// Slot of the task for which the poller is reserved, on a limited list.
    pub(crate) permit: Permit,
}

/// Channels through which a poller gets its tasks.
enum PollAnswer {
    /// The poll is for one task. The task is boxed because the channel of each waiting poll has space for it.
    Task(oneshot::Sender<Box<Grant>>),
    /// One slot of an exchange.
    Slot(SlotSender, u32),
    /// Several free slots of an exchange. The last slot is used first. While the flag is set, the slots are on standby,
    /// which means that other pollers are served first.
    Slots(SlotSender, Vec<u32>, Arc<AtomicBool>),
}

impl Poller {
    /// Returns true if the poll has not ended.
    fn is_waiting(&self) -> bool {
        match &self.answer {
            PollAnswer::Task(answer) => !answer.is_closed(),
            PollAnswer::Slot(answer, _) | PollAnswer::Slots(answer, ..) => !answer.is_closed(),
        }
    }

    /// Returns true if the poller is on standby. Other pollers are then served first, even those that have waited less.
    fn is_standby(&self) -> bool {
        matches!(&self.answer, PollAnswer::Slots(_, _, is_standby) if is_standby.load(Relaxed))
    }

    /// Returns the number of tasks that the poller waits for.
    fn free_slots(&self) -> usize {
        match &self.answer {
            PollAnswer::Task(_) | PollAnswer::Slot(..) => 1,
            PollAnswer::Slots(_, slots, _) => slots.len(),
        }
    }

    /// Takes a free slot and returns a poller for it. Returns `None` if this poller does not have several slots.
    fn next_slot(&mut self) -> Option<Self> {
        let PollAnswer::Slots(answer, slots, _) = &mut self.answer else { return None };
        let slot = slots.pop()?;
        Some(Self {
            taker: self.taker.of_slot(slot),
            id: self.id,
            answer: PollAnswer::Slot(answer.clone(), slot),
            permit: Permit::default(),
        })
    }

    /// Ends the wait of this poll. Returns false if the poller waits for nothing else, so that it must be removed.
    fn stop_waiting_for(&mut self, poll: PollId) -> bool {
        match &mut self.answer {
            PollAnswer::Task(_) | PollAnswer::Slot(..) => self.taker.poll != Some(poll),
            PollAnswer::Slots(_, slots, _) => {
                slots.retain(|slot| self.taker.poll.map(|it| it.of_slot(*slot)) != Some(poll));
                !slots.is_empty()
            }
        }
    }

    /// Sends the poller its task. If the poller has disconnected, the grant (the started task) is dropped, which
    /// returns the task to its list.
    pub(crate) fn grant(self, grant: Grant) {
        match self.answer {
            PollAnswer::Task(answer) => {
                if let Err(grant) = answer.send(Box::new(grant)) {
                    grant.poller_gone();
                }
            }
            PollAnswer::Slot(answer, slot) => {
                if let Err(SendError((_, Some(grant)))) = answer.send((slot, Some(Box::new(grant)))) {
                    grant.poller_gone();
                }
            }
            // Cannot happen: before a poller with several slots leaves its list, it is split into pollers with one slot
            // each.
            PollAnswer::Slots(..) => drop(grant),
        }
    }

    /// Ends the wait of a slot that gets no task.
    pub(crate) fn end(self) {
        match self.answer {
            PollAnswer::Slot(answer, slot) => drop(answer.send((slot, None))),
            PollAnswer::Task(_) | PollAnswer::Slots(..) => {}
        }
    }
}
