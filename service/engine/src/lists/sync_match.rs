//! Sync match: starts a task in the same commit that creates it, if a poller waits for it.

use std::sync::Arc;

use history::{Author, Command, EventId, PollId, TaskRef, Timestamp, Transition};
use store::HeadKey;

use crate::Refusal;
use crate::lists::backlog::concurrency_key;
use crate::lists::hand_out::TaskLists;
use crate::lists::matching::ToWaiting;
use crate::lists::{ListKey, Poller, Side, Taker, WaitingTask};

/// A waiting poller that was taken off its list for a task of a commit in progress.
pub(crate) struct Reserved {
    pub(crate) list: ListKey,
    pub(crate) poller: Poller,
    pub(crate) scheduled_event_id: EventId,
    /// Number of the task's start, as [`start_task`] returns it.
    pub(crate) start: u32,
}

impl TaskLists {
    /// If a poller waits for a task that becomes available with this commit, starts the task. Returns the pollers
    /// reserved for these tasks, and the tasks for which no poller waits.
    pub(crate) fn match_new_tasks(
        self: &Arc<Self>,
        key: &HeadKey,
        transition: &mut Transition,
        last_event_id: EventId,
        waited_before: EventId,
        now: Timestamp,
    ) -> (Vec<Reserved>, Vec<(ListKey, WaitingTask)>) {
        let (mut reserved, mut unmatched) = (Vec::new(), Vec::new());
        let run_id = transition.run().started.run_id;
        let mut new_tasks = Vec::new();
        let mut add = |side, name: Arc<str>, scheduled_event_id, priority: Option<i32>, since, concurrency_key| {
            let list = ListKey { domain: Arc::clone(&key.domain), side, name };
            let (key, priority, since) = (key.clone(), priority.unwrap_or(0), Some(since));
            let task = WaitingTask { key, run_id, scheduled_event_id, lost: None, priority, since, concurrency_key };
            new_tasks.push((list, task));
        };
        for task in transition.run().waiting_tasks() {
            let concurrency_key = concurrency_key(transition.run(), &task);
            match task {
                TaskRef::Turn(task) => {
                    let is_held_back = task.not_before.is_some_and(|at| at > now);
                    if task.scheduled_event_id != waited_before && !is_held_back {
                        let name: Arc<str> = transition.run().list_of_turn(task).into();
                        let priority = transition.run().started.priority();
                        let since = task.not_before.map_or(task.waits_since, |at| at.max(task.waits_since));
                        add(Side::Decider, name, task.scheduled_event_id, priority, since, concurrency_key);
                    }
                }
                TaskRef::Activity(task) => {
                    // A retry either becomes available with this commit or is already on its list. Both cases are
                    // handled in the same way.
                    let is_held_back = task.activity.not_before().is_some_and(|at| at > now);
                    let is_retry = task.activity.attempts.is_some();
                    let is_released = task.activity.released.is_some_and(|it| it.event_id > last_event_id);
                    let is_new = task.scheduled_event_id > last_event_id;
                    if (is_new || is_released || is_retry) && !is_held_back {
                        let name: Arc<str> = task.activity.task_list.as_str().into();
                        let priority = task.activity.task_priority;
                        let since = task.activity.waits_since();
                        let since = task.activity.not_before().map_or(since, |at| at.max(since));
                        add(Side::Activity, name, task.scheduled_event_id, priority, since, concurrency_key);
                    }
                }
            }
        }
        for (list, task) in new_tasks {
            let scheduled_event_id = task.scheduled_event_id;
            let Ok(poller) = self.matching.dispatch(&list, ToWaiting::Task(&task)) else {
                unmatched.push((list, task));
                continue;
            };
            match start_task(transition, scheduled_event_id, None, &list, &poller.taker, now) {
                Some(start) => reserved.push(Reserved { list, poller, scheduled_event_id, start }),
                None => self.return_poller(&list, poller),
            }
        }
        (reserved, unmatched)
    }

    /// Puts back pollers whose tasks were not started. If the service does not know whether a task was started, this
    /// function may end the poll instead.
    pub(crate) fn unreserve(self: &Arc<Self>, reserved: Vec<Reserved>, refusal: Option<&Refusal>) {
        for Reserved { list, mut poller, .. } in reserved.into_iter().rev() {
            if matches!(refusal, Some(Refusal::OutcomeUnknown { .. })) {
                std::mem::take(&mut poller.permit).keep();
            }
            self.unreserve_one(&list, poller, refusal);
        }
    }
}

/// Returns the id of the DeciderScheduled event of the waiting turn. Returns 0 if there is no waiting turn, or if the
/// turn was held back at the time of the run's last event.
pub(crate) fn waiting_turn(run: &history::Run) -> EventId {
    let is_available = |not_before: Option<Timestamp>| not_before.is_none_or(|at| at <= run.last_timestamp);
    match run.waiting_tasks().next() {
        Some(TaskRef::Turn(task)) if is_available(task.not_before) => task.scheduled_event_id,
        _ => 0,
    }
}

/// Starts a waiting task, or sends a started task again if the response that contained the task was lost. Returns
/// `None` if the task no longer waits on this list. Otherwise returns the number of this start, or 0 if starts of the
/// task are not counted.
pub(crate) fn start_task(
    transition: &mut Transition,
    scheduled_event_id: EventId,
    lost: Option<PollId>,
    list: &ListKey,
    taker: &Taker,
    now: Timestamp,
) -> Option<u32> {
    let Taker { identity, by, poll, .. } = taker.clone();
    // Pollers that use SWF's protocol may take tasks of any run, but only histories of SWF runs may contain an empty
    // identity.
    let is_swf = transition.run().started.is_swf();
    let identity = identity.filter(|identity| is_swf || !identity.is_empty());
    let is_here = |task_list: &str| task_list == &*list.name;
    let activity = transition.run().activities.get(&scheduled_event_id);
    if activity.is_some_and(|activity| !is_here(&activity.task_list)) {
        return None;
    }
    let turn = transition.run().turn_task.as_ref().filter(|turn| turn.scheduled_event_id == scheduled_event_id);
    if turn.is_some_and(|turn| !is_here(transition.run().list_of_turn(turn))) {
        return None;
    }
    let command = match lost {
        Some(lost) => Command::Redeliver { scheduled_event_id, lost, poll },
        None if list.side == Side::Decider => Command::StartTurn { scheduled_event_id, identity, poll },
        None => Command::StartActivity { scheduled_event_id, identity, poll },
    };
    transition.admit_as(&command, &Author::named(by), now).ok()?;
    let started = transition.run().activities.get(&scheduled_event_id).and_then(|it| it.task(scheduled_event_id));
    Some(started.map_or(0, |task| task.start))
}
