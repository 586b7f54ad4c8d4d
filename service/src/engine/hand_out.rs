//! Tasks on their way out: to pollers who wait while they are made (sync match), to those who come later, and to those
//! who took them.

use std::sync::Arc;

use history::{Author, Command, EventId, LAMBDA_LIST, PollId, Run, TaskRef, Timestamp, Transition, TurnId};
use store::HeadKey;

use super::commit::Loaded;
use super::grant::{Grant, Granted};
use super::matching::{ListKey, Offered, Poller, Side, Taker, WaitingTask};
use super::watch::Progress;
use super::{Engine, Refusal, backlog, schedules};

/// A poller that is about to get a task.
pub(super) struct Reserved {
    list: ListKey,
    poller: Poller,
    scheduled_event_id: EventId,
    /// See [`take_task`].
    start: u32,
}

impl Engine {
    /// For every task that has begun to wait: starts it in the same commit, if a poller is there.
    pub(super) fn match_new_tasks(
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
    pub(super) fn unreserve(self: &Arc<Self>, reserved: Vec<Reserved>, refusal: Option<&Refusal>) {
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

    /// After a commit: hands out what was matched, offers what was not, tells who watches.
    pub(super) fn publish(
        self: &Arc<Self>,
        key: &HeadKey,
        next: &Loaded,
        reserved: Vec<Reserved>,
        unmatched: Vec<(ListKey, WaitingTask)>,
    ) {
        let run = next.run();
        self.agenda.set(key, next.head.due.map(Timestamp::from_millis));
        // What rode with a turn that is over can ride with the one that begins.
        self.questions.settle(key, run);
        for Reserved { poller, scheduled_event_id, start, .. } in reserved {
            self.metrics.matched_at_once.inc();
            match self.grant(key, next, (scheduled_event_id, start), &poller.taker) {
                Some(grant) => poller.grant(grant),
                // Only after a commit of unknown outcome that others have built on; the timeout takes care of it.
                None => tracing::warn!(workflow_id = %key.workflow_id, "a matched task has moved on"),
            }
        }
        for (list, task) in unmatched {
            self.offer(&list, task);
        }
        self.see_to_questions(key, next);
        self.see_to_updates(key, next);
        let progress =
            Progress { run_id: run.started.run_id, last_event_id: run.last_event_id, closed: !run.is_open() };
        self.watchers.tell(key, progress);
        let schedule = run.started.schedule.as_ref().filter(|_| !run.is_open() && !run.goes_on());
        if let Some(schedule) = schedule {
            // By word of mouth: where it matters, the schedule has a date to look by itself.
            let key = schedules::key_of(&key.domain, &schedule.schedule_id);
            self.agenda.set_by(&key, self.clock.now());
        }
    }

    /// After a commit: takes off their lists the tasks that have come to their end there, such as those of a run that was
    /// terminated.
    pub(super) fn withdraw_ended(&self, key: &HeadKey, before: &Run, after: &Run) {
        let is_same = before.started.run_id == after.started.run_id;
        for task in before.waiting_tasks() {
            let (side, name, scheduled_event_id, goes_on) = match task {
                TaskRef::Turn(task) => {
                    let id = task.scheduled_event_id;
                    let waits = after.turn_task.as_ref().is_some_and(|task| task.scheduled_event_id == id);
                    let is_held = after.turn.as_ref().is_some_and(|turn| turn.scheduled_event_id == id);
                    (Side::Decider, before.list_of_turn(task), id, waits || is_held)
                }
                TaskRef::Activity(task) => {
                    let id = task.scheduled_event_id;
                    (Side::Activity, task.activity.task_list.as_str(), id, after.activities.contains_key(&id))
                }
            };
            if !(is_same && goes_on) {
                let list = ListKey { domain: Arc::clone(&key.domain), side, name: name.into() };
                self.matching.withdraw(&list, before.started.run_id, scheduled_event_id);
            }
        }
    }

    /// Puts a task on its list.
    pub(super) fn offer(self: &Arc<Self>, list: &ListKey, task: WaitingTask) {
        if list.side == Side::Activity
            && &*list.name == LAMBDA_LIST
            && let Some(caller) = self.lambda.get()
        {
            drop(caller.send(Arc::clone(&list.domain)));
        }
        let (key, only_asks) = (task.key.clone(), task.only_asks());
        if !self.put_on_list(list, task) && !only_asks {
            self.write_down_full(list, &key);
        }
    }

    /// Puts a task on its list or into the hands of a poller; false when there is no room for it in memory.
    pub(super) fn put_on_list(self: &Arc<Self>, list: &ListKey, task: WaitingTask) -> bool {
        match self.matching.offer(list, task) {
            Offered::Poller(poller, task) => {
                let (engine, list) = (Arc::clone(self), list.clone());
                tokio::spawn(async move { engine.hand_over(list, poller, task).await });
            }
            Offered::Waits => self.offer_elsewhere(list),
            Offered::Known => {}
            Offered::Full => return false,
        }
        true
    }

    /// Gives a waiting task to a waiting poller.
    pub(super) async fn hand_over(self: Arc<Self>, list: ListKey, poller: Poller, task: WaitingTask) {
        match self.take(&list, task, poller.taker.clone()).await {
            Ok(Some(grant)) => poller.grant(grant),
            Ok(None) => self.return_poller(&list, poller),
            Err(refusal) => {
                tracing::warn!(%refusal, "a waiting task could not be taken");
                self.unreserve_one(&list, poller, Some(&refusal));
            }
        }
    }

    /// Offers every task of the run that waits; those already on their lists stay there.
    pub(super) fn offer_waiting(self: &Arc<Self>, key: &HeadKey, loaded: &Loaded) {
        self.note_sent(key, loaded);
        let now = self.clock.now();
        for (list, task, not_before) in backlog::waiting(key, loaded.run()) {
            if not_before.is_none_or(|at| at <= now) {
                self.offer(&list, task);
            }
        }
    }

    /// What the taker of a started task gets; `start` as [`take_task`] has it.
    pub(super) fn grant(
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
        let (mut questions, mut updates) = (Vec::new(), Vec::new());
        let (task_list, what) = if let Some(turn) = turn {
            let id = TurnId { scheduled_event_id, started_event_id: turn.started_event_id };
            let previous_started_event_id = run.previous_started_event_id;
            // Where the turn went astray and is sent again, so did what it took along.
            self.questions.get_off(key, id);
            self.updates.get_off(key, id);
            if taker.answers {
                questions = self.questions.ride(key, run.started.run_id, id);
            }
            if taker.updates > 0 {
                updates = self.updates.ride(key, run, id, taker.updates);
            }
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
            self.note_one_sent(key, loaded, scheduled_event_id, poll);
        }
        Some(Grant {
            poll: taker.poll,
            back: Some(self.returns.clone()),
            key: key.clone(),
            run_id: run.started.run_id,
            workflow_type: run.started.workflow_type.clone(),
            task_list,
            tail: loaded.tail.clone(),
            tail_first: loaded.body.tail_first,
            what,
            questions,
            updates,
        })
    }
}

/// The DeciderScheduled of the turn that can be taken; 0 when there is none.
pub(super) fn waiting_turn(run: &history::Run) -> EventId {
    match run.waiting_tasks().next() {
        Some(TaskRef::Turn(task)) => task.scheduled_event_id,
        _ => 0,
    }
}

/// Starts a waiting task, or has one sent again that went astray; `None` when it does not wait, or not on this list any more. Which
/// start of it this is, where tries of it are counted; 0 otherwise.
pub(super) fn take_task(
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
