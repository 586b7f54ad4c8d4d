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

use std::sync::Arc;

use history::{CallerName, EventId, PollId, Timestamp};
use store::HeadKey;
use tokio::sync::oneshot;
use uuid::Uuid;

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
}

/// A poller that waits.
pub(crate) struct Poller {
    pub(crate) taker: Taker,
    id: u64,
    answer: oneshot::Sender<Grant>,
}

impl Poller {
    /// Whether it is still there.
    fn is_waiting(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Hands it what it waited for. When the poller has gone, the grant gives itself back.
    pub(crate) fn grant(self, grant: Grant) {
        drop(self.answer.send(grant));
    }
}
