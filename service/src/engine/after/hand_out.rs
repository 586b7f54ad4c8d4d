//! Tasks on their way out: to pollers who wait while they are made (sync match), to those who come later, and to those
//! who took them.

use std::sync::Arc;

use history::{Author, Command, EventId, LAMBDA_LIST, PollId, TaskRef, Timestamp, Transition, TurnId};
use store::HeadKey;

use crate::engine::commit::Loaded;
use crate::engine::lists::grant::{Grant, Granted, TakenAlong};
use crate::engine::lists::{ListKey, Offered, OnList, Poller, Side, Taker, WaitingTask};
use crate::engine::{Engine, Refusal, after};

/// A poller that is about to get a task.
pub(crate) struct Reserved {
    pub(crate) list: ListKey,
    pub(crate) poller: Poller,
    pub(crate) scheduled_event_id: EventId,
    /// See [`take_task`].
    pub(crate) start: u32,
}

impl Engine {
    /// For every task that has begun to wait: starts it in the same commit, if a poller is there.
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
        for task in transition.run().waiting_tasks() {
            match task {
                TaskRef::Turn(task) => {
                    let is_held_back = task.not_before.is_some_and(|at| at > now);
                    if task.scheduled_event_id != waited_before && !is_held_back {
                        let name: Arc<str> = transition.run().list_of_turn(task).into();
                        let priority = transition.run().started.priority();
                        new_tasks.push((Side::Decider, name, task.scheduled_event_id, priority.unwrap_or(0)));
                    }
                }
                TaskRef::Activity(task) => {
                    // What waits for another try may have begun to wait now, or be on its list already, which is as good.
                    let is_held_back = task.activity.not_before().is_some_and(|at| at > now);
                    let is_retry = task.activity.tries.is_some();
                    let is_released = task.activity.released.is_some_and(|it| it.event_id > last_event_id);
                    let is_new = task.scheduled_event_id > last_event_id;
                    if (is_new || is_released || is_retry) && !is_held_back {
                        let name: Arc<str> = task.activity.task_list.as_str().into();
                        let priority = task.activity.task_priority.unwrap_or(0);
                        new_tasks.push((Side::Activity, name, task.scheduled_event_id, priority));
                    }
                }
            }
        }
        for (side, name, scheduled_event_id, priority) in new_tasks {
            let list = ListKey { domain: Arc::clone(&key.domain), side, name };
            let Some(poller) = self.matching.reserve(&list) else {
                unmatched
                    .push((list, WaitingTask { key: key.clone(), run_id, scheduled_event_id, lost: None, priority }));
                continue;
            };
            match take_task(transition, (scheduled_event_id, None), &list, &poller.taker, now) {
                Some(start) => reserved.push(Reserved { list, poller, scheduled_event_id, start }),
                None => self.return_poller(&list, poller),
            }
        }
        (reserved, unmatched)
    }

    /// Puts pollers back whose tasks were not started, or with this refusal may have been.
    pub(crate) fn unreserve(self: &Arc<Self>, reserved: Vec<Reserved>, refusal: Option<&Refusal>) {
        for Reserved { list, poller, .. } in reserved.into_iter().rev() {
            self.unreserve_one(&list, poller, refusal);
        }
    }

    fn unreserve_one(self: &Arc<Self>, list: &ListKey, poller: Poller, refusal: Option<&Refusal>) {
        match refusal {
            // Its poll may stand in the run as the one that has the task, and must get no other: its wait ends.
            Some(refusal) if self.lose_if_unknown(refusal, poller.taker.poll) => drop(poller),
            _ => self.return_poller(list, poller),
        }
    }

    /// Puts a task on its list.
    pub(crate) fn offer(self: &Arc<Self>, list: &ListKey, task: impl Into<OnList>) {
        let task = task.into();
        if list.side == Side::Activity
            && &*list.name == LAMBDA_LIST
            && let Some(caller) = self.lambda.get()
        {
            drop(caller.send(Arc::clone(&list.domain)));
        }
        let to_write_down = task.task().map(|task| task.key.clone());
        if !self.put_on_list(list, task)
            && let Some(key) = to_write_down
        {
            self.write_down_full(list, &key);
        }
    }

    /// Puts a task on its list or into the hands of a poller; false when there is no room for it in memory.
    pub(crate) fn put_on_list(self: &Arc<Self>, list: &ListKey, task: impl Into<OnList>) -> bool {
        match self.matching.offer(list, task) {
            Offered::Poller(poller, task) => {
                let (engine, list) = (Arc::clone(self), list.clone());
                self.background.spawn(async move { engine.hand_over(list, poller, task).await });
            }
            Offered::Waits => self.offer_elsewhere(list),
            Offered::Known => {}
            Offered::Full => return false,
        }
        true
    }

    /// Gives a waiting task to a waiting poller.
    pub(crate) async fn hand_over(self: Arc<Self>, list: ListKey, poller: Poller, task: OnList) {
        match self.take(&list, task, poller.taker.clone()).await {
            Ok(Some(grant)) => poller.grant(grant),
            Ok(None) => self.return_poller(&list, poller),
            Err(refusal) => {
                tracing::warn!(%refusal, "a waiting task could not be taken");
                self.unreserve_one(&list, poller, Some(&refusal));
            }
        }
    }

    /// What the taker of a started task gets; `start` as [`take_task`] has it.
    pub(crate) fn grant(
        self: &Arc<Self>,
        key: &HeadKey,
        loaded: &Loaded,
        (scheduled_event_id, start): (EventId, u32),
        taker: &Taker,
    ) -> Option<Grant> {
        let run = loaded.run();
        // After a commit of unknown outcome others may have sent it elsewhere.
        if loaded.body.links.sent.poll_of(scheduled_event_id) != taker.poll {
            return None;
        }
        let turn = run.turn.as_ref().filter(|turn| turn.scheduled_event_id == scheduled_event_id);
        let mut riders = TakenAlong::default();
        let (task_list, what) = if let Some(turn) = turn {
            let id = TurnId { scheduled_event_id, started_event_id: turn.started_event_id };
            let previous_started_event_id = run.previous_started_event_id;
            riders = self.riders.take_with_turn(key, run, id, taker);
            let what = Granted::Turn { turn: id, previous_started_event_id, attempt: turn.attempt };
            (run.list_of_held_turn().to_owned(), what)
        } else {
            let activity = run.activities.get(&scheduled_event_id)?;
            // After a commit of unknown outcome the try may be over, and a later one in other hands.
            let task = activity.task(scheduled_event_id).filter(|task| task.start == start)?;
            // What an earlier try left for this one.
            let mut beats = loaded.beats.iter().filter(|_| activity.tries.is_some());
            let beat = beats.find(|beat| beat.scheduled_event_id == scheduled_event_id);
            let details = beat.and_then(|beat| beat.details.clone());
            (activity.task_list.clone(), Granted::Activity { task, activity: Box::new(activity.clone()), details })
        };
        if let Some(poll) = taker.poll {
            self.carry_out(key, loaded, vec![after::remember(key, run, scheduled_event_id, poll)]);
        }
        Some(Grant {
            poll: taker.poll,
            back: Some(Arc::clone(self) as _),
            key: key.clone(),
            run_id: run.started.run_id,
            workflow_type: run.started.workflow_type.clone(),
            task_list,
            tail: loaded.tail.clone(),
            tail_first: loaded.body.tail_first,
            what,
            riders,
        })
    }
}

/// The DeciderScheduled of the turn that can be taken; 0 when there is none.
pub(crate) fn waiting_turn(run: &history::Run) -> EventId {
    match run.waiting_tasks().next() {
        Some(TaskRef::Turn(task)) => task.scheduled_event_id,
        _ => 0,
    }
}

/// Starts a waiting task, or has one sent again that went astray; `None` when it does not wait, or not on this list any more. Which
/// start of it this is, where tries of it are counted; 0 otherwise.
pub(crate) fn take_task(
    transition: &mut Transition,
    (scheduled_event_id, lost): (EventId, Option<PollId>),
    list: &ListKey,
    taker: &Taker,
    now: Timestamp,
) -> Option<u32> {
    let Taker { identity, by, poll, .. } = taker.clone();
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
        Some(lost) => Command::SendAgain { scheduled_event_id, lost, poll },
        None if list.side == Side::Decider => Command::StartTurn { scheduled_event_id, identity, poll },
        None => Command::StartActivity { scheduled_event_id, identity, poll },
    };
    transition.admit_of(&command, &Author::named(by), now).ok()?;
    let started = transition.run().activities.get(&scheduled_event_id).and_then(|it| it.task(scheduled_event_id));
    Some(started.map_or(0, |task| task.start))
}
