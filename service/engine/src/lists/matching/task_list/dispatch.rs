//! The dispatch gate of a list: [`TaskList::dispatch`] is the only function through which a task leaves for a poller,
//! whoever asks for it.
//!
//! | departure | task | recipient |
//! |---|---|---|
//! | [`ToPoll`] | the first one on the list that the poller handles | a poll that asks now, or a poller that is put back |
//! | [`ToNode`] | the first turn or activity on the list | a poller that waits at another node |
//! | [`ToWaiting`] | one that is not on the list: a commit is about to create it, or it is offered to the list | the poller that has waited longest |
//!
//! A rule about when tasks may leave belongs here and nowhere else. A rule for a whole list belongs at the top of
//! `dispatch`, and a rule for single tasks into [`TaskList::take_first`] and [`ToWaiting`]. A rule names its reason
//! with a variant of [`Stays`], and the task stays on its list, or is put on it by the caller.

use crate::lists::grant::RiderKind;
use crate::lists::matching::task_list::TaskList;
use crate::lists::{OnList, Poller, Taker, WaitingTask};

/// Reason why no task leaves a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stays {
    /// No task waits that the recipient handles.
    NoTask,
    /// No poller waits that handles the task.
    NoPoller,
    /// Other tasks have waited longer. If there are any, each waiting poller is about to get one of them.
    BehindOthers,
}

/// A way in which a task leaves its list.
pub(crate) trait Departure {
    /// Result of leaving: the task for a recipient that asks, or the recipient for a task that asks.
    type Left;

    /// Reason why nothing leaves a list that has neither tasks nor pollers.
    const IF_EMPTY: Stays;

    /// Takes the task off the list, or the recipient.
    fn leave(self, list: &mut TaskList) -> Result<Self::Left, Stays>;
}

/// The first task that this poller handles, for the poller itself.
pub(crate) struct ToPoll<'a>(pub(crate) &'a Taker);

/// The first task for a poller of another node. Riders reach pollers of other nodes in another way.
pub(crate) struct ToNode;

/// A task that is not on the list, for a poller that waits.
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
            // Pollers that handle riders may be other ones than those that tasks wait for.
            Self::Riders(kind) => list.take_poller(|taker| taker.takes(kind)),
        };
        poller.ok_or(Self::IF_EMPTY)
    }
}
