//! The dispatch gate of a list: every task that leaves a list for a poller passes through [`TaskList::dispatch`].
//!
//! | departure | task | recipient |
//! |---|---|---|
//! | [`ToPoll`] | the first task that the poller can handle | a new poll, or a poller that is put back |
//! | [`ToNode`] | the first turn or activity on the list | a poller that waits at another node |
//! | [`ToWaiting`] | a task that is about to be committed or put on the list | the poller that has waited longest |
//!
//! Rules about when tasks may leave a list belong only in this file. A rule for a whole list belongs at the top of
//! `dispatch`. A rule for single tasks belongs in [`TaskList::take_first`] and [`ToWaiting`]. Each rule has a variant
//! of [`Stays`] that names its reason. If a rule prevents a departure, the task stays on its list, or the caller puts
//! it on the list.

use crate::lists::grant::RiderKind;
use crate::lists::matching::task_list::TaskList;
use crate::lists::{OnList, Poller, Taker, WaitingTask};

/// Reason why no task leaves a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stays {
    /// No task waits that the recipient can handle.
    NoTask,
    /// No poller waits that can handle the task.
    NoPoller,
    /// Other tasks have waited longer and must be taken first. If pollers are waiting, each of them is about to get one
    /// of these other tasks.
    BehindOthers,
}

/// A way in which a task leaves its list.
pub(crate) trait Departure {
    /// Result of a departure: the task if a recipient requests a task; the recipient if a task requests a recipient.
    type Left;

    /// Reason that is returned for a list that has neither tasks nor pollers.
    const IF_EMPTY: Stays;

    /// Takes the task, or the recipient, off the list.
    fn leave(self, list: &mut TaskList) -> Result<Self::Left, Stays>;
}

/// Takes the first task that this poller can handle.
pub(crate) struct ToPoll<'a>(pub(crate) &'a Taker);

/// Takes the first turn or activity for a poller of another node. Riders are sent to other nodes through
/// `riders/nodes.rs`.
pub(crate) struct ToNode;

/// Takes the first waiting poller for a task that is not on the list.
pub(crate) enum ToWaiting<'a> {
    /// A turn or an activity.
    Task(&'a WaitingTask),
    /// Riders of this kind.
    Riders(RiderKind),
}

impl<'a> From<&'a OnList> for ToWaiting<'a> {
    fn from(task: &'a OnList) -> Self {
        match task {
            OnList::Task(task) => Self::Task(task),
            OnList::Riders(riders) => Self::Riders(riders.kind),
        }
    }
}

impl TaskList {
    /// Lets a task leave the list.
    pub(crate) fn dispatch<D: Departure>(&mut self, departure: D) -> Result<D::Left, Stays> {
        departure.leave(self)
    }
}

impl Departure for ToPoll<'_> {
    type Left = OnList;
    const IF_EMPTY: Stays = Stays::NoTask;

    fn leave(self, list: &mut TaskList) -> Result<OnList, Stays> {
        list.take_first(|task| task.is_for(self.0).then(|| task.clone())).ok_or(Self::IF_EMPTY)
    }
}

impl Departure for ToNode {
    type Left = WaitingTask;
    const IF_EMPTY: Stays = Stays::NoTask;

    fn leave(self, list: &mut TaskList) -> Result<WaitingTask, Stays> {
        list.take_first(|task| task.task().cloned()).ok_or(Self::IF_EMPTY)
    }
}

impl Departure for ToWaiting<'_> {
    type Left = Poller;
    const IF_EMPTY: Stays = Stays::NoPoller;

    fn leave(self, list: &mut TaskList) -> Result<Poller, Stays> {
        let poller = match self {
            Self::Task(_) if list.has_tasks() => return Err(Stays::BehindOthers),
            Self::Task(task) => {
                debug_assert!(!list.has(task), "a task on the list leaves with a departure that takes it off");
                list.take_poller(|_| true)
            }
            // Riders may overtake waiting tasks, because these tasks may be waiting for pollers that do not handle
            // riders.
            Self::Riders(kind) => list.take_poller(|taker| taker.takes(kind)),
        };
        poller.ok_or(Self::IF_EMPTY)
    }
}
