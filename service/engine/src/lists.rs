//! Task lists: what waits on them and who waits for it, here and at other nodes. In memory only, and allowed to be lost: the
//! store's due index brings back whatever was waiting here.

pub(super) mod backlog;
pub(super) mod elsewhere;
pub(super) mod grant;
pub(super) mod hand_out;
pub(super) mod in_flight;
pub(super) mod lost;
pub(super) mod matching;
pub(super) mod offers;
pub(super) mod pollers;
pub(super) mod polls;
pub(super) mod refill;
pub(super) mod report;
pub(super) mod shown;
pub(super) mod sync_match;
pub(super) mod unpolled;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use history::{CallerName, EventId, PollId, Timestamp};
use store::HeadKey;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::base::notices::NoticeList;
use crate::lists::grant::{Grant, RiderKind};

/// Whose list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Side {
    Decider,
    Activity,
}

impl Side {
    pub(crate) fn of(is_decider: bool) -> Self {
        if is_decider { Self::Decider } else { Self::Activity }
    }

    /// What labels of metrics say of it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Decider => "decider",
            Self::Activity => "activity",
        }
    }
}

/// Names a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ListKey {
    pub(crate) domain: Arc<str>,
    pub(crate) side: Side,
    pub(crate) name: Arc<str>,
}

impl ListKey {
    pub(crate) fn new(domain: &str, is_decider: bool, name: &str) -> Self {
        Self { domain: domain.into(), side: Side::of(is_decider), name: name.into() }
    }

    /// Its name in the log.
    pub(crate) fn named(&self) -> NoticeList {
        NoticeList { domain: Arc::clone(&self.domain), side: self.side.word(), name: Arc::clone(&self.name) }
    }
}

/// A task that waits. It confers no right: whoever takes it must still win the commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WaitingTask {
    pub(crate) key: HeadKey,
    pub(crate) run_id: Uuid,
    pub(crate) scheduled_event_id: EventId,
    /// The poll that it went to without arriving; `None` while nobody has taken it.
    pub(crate) lost: Option<PollId>,
    /// Taken before those of lower ones; of equals the one that has waited longest comes first.
    pub(crate) priority: i32,
    /// Since when it waits to be taken, where that is known.
    pub(crate) since: Option<Timestamp>,
}

/// Riders of a run that no turn will take along: they wait for a task of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingRiders {
    pub(crate) key: HeadKey,
    pub(crate) run_id: Uuid,
    pub(crate) kind: RiderKind,
}

/// What waits on a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OnList {
    /// A turn or an activity, of which the history says that it waits.
    Task(WaitingTask),
    /// What is asked beside a turn, of which it says nothing.
    Riders(WaitingRiders),
}

/// What tells tasks of a list apart.
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

impl OnList {
    fn known(&self) -> TaskKey {
        match self {
            Self::Task(task) => TaskKey::Task(task.run_id, task.scheduled_event_id, task.lost),
            Self::Riders(riders) => TaskKey::Riders(riders.run_id, riders.kind),
        }
    }

    /// The task, where it is one of which the history says that it waits.
    pub(crate) fn task(&self) -> Option<&WaitingTask> {
        match self {
            Self::Task(task) => Some(task),
            Self::Riders(_) => None,
        }
    }

    fn only_asks(&self) -> bool {
        self.task().is_none()
    }

    fn priority(&self) -> i32 {
        // What is asked is asked beside all else.
        self.task().map_or(0, |task| task.priority)
    }

    /// Whether such a taker can do it.
    fn is_for(&self, taker: &Taker) -> bool {
        match self {
            Self::Task(_) => true,
            Self::Riders(riders) => taker.takes(riders.kind),
        }
    }
}

/// Who polls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taker {
    /// Shown in the history.
    pub(crate) identity: Option<String>,
    /// With what credential.
    pub(crate) by: Option<CallerName>,
    /// Whether it answers queries.
    pub(crate) answers: bool,
    /// How many updates it judges at once, at most.
    pub(crate) updates: usize,
    /// This try of the poll, where it has an id.
    pub(crate) poll: Option<PollId>,
}

impl Taker {
    /// Whether it does what riders of this kind ask.
    pub(crate) fn takes(&self, kind: RiderKind) -> bool {
        match kind {
            RiderKind::Query => self.answers,
            RiderKind::Update => self.updates > 0,
        }
    }

    /// The same for one slot of several.
    pub(crate) fn of_slot(&self, slot: u32) -> Self {
        Self { poll: self.poll.map(|poll| poll.of_slot(slot)), ..self.clone() }
    }
}

/// What comes into a slot: a task, or that none will.
pub(crate) type IntoSlot = (u32, Option<Box<Grant>>);

/// Where it goes.
type SlotSender = UnboundedSender<IntoSlot>;

/// A poller that waits for a task, or on its list for several.
pub(crate) struct Poller {
    pub(crate) taker: Taker,
    id: u64,
    answer: PollAnswer,
}

/// Where what a poller waits for goes to.
enum PollAnswer {
    /// To whoever polls for one task. In a box, as there is room for it in each that waits.
    Task(oneshot::Sender<Box<Grant>>),
    /// Into this slot.
    Slot(SlotSender, u32),
    /// Into each of these slots, the next one last. Whoever is given a task has one of them. While the last says so, others are given it first.
    Slots(SlotSender, Vec<u32>, Arc<AtomicBool>),
}

impl Poller {
    /// Whether it is still there.
    fn is_waiting(&self) -> bool {
        match &self.answer {
            PollAnswer::Task(answer) => !answer.is_closed(),
            PollAnswer::Slot(answer, _) | PollAnswer::Slots(answer, ..) => !answer.is_closed(),
        }
    }

    /// Whether others go before it, whoever has waited longer.
    fn stands_by(&self) -> bool {
        matches!(&self.answer, PollAnswer::Slots(_, _, stands_by) if stands_by.load(Relaxed))
    }

    /// How many tasks it waits for.
    fn room(&self) -> usize {
        match &self.answer {
            PollAnswer::Task(_) | PollAnswer::Slot(..) => 1,
            PollAnswer::Slots(_, slots, _) => slots.len(),
        }
    }

    /// A poller for its next slot, where it has several.
    fn next_slot(&mut self) -> Option<Self> {
        let PollAnswer::Slots(answer, slots, _) = &mut self.answer else { return None };
        let slot = slots.pop()?;
        Some(Self { taker: self.taker.of_slot(slot), id: self.id, answer: PollAnswer::Slot(answer.clone(), slot) })
    }

    /// Takes away what it waits for by this poll; whether it waits for anything else.
    fn goes_on_without(&mut self, poll: PollId) -> bool {
        match &mut self.answer {
            PollAnswer::Task(_) | PollAnswer::Slot(..) => self.taker.poll != Some(poll),
            PollAnswer::Slots(_, slots, _) => {
                slots.retain(|slot| self.taker.poll.map(|it| it.of_slot(*slot)) != Some(poll));
                !slots.is_empty()
            }
        }
    }

    /// Hands it what it waited for. When the poller has gone, the grant gives itself back.
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
            // None leaves its list but by way of a slot.
            PollAnswer::Slots(..) => drop(grant),
        }
    }

    /// Ends its wait: nothing will come.
    pub(crate) fn end(self) {
        match self.answer {
            PollAnswer::Slot(answer, slot) => drop(answer.send((slot, None))),
            PollAnswer::Task(_) | PollAnswer::Slots(..) => {}
        }
    }
}
