//! The agenda: when things happen in the test service.

use baton_history::{Command, EventId, TaskRef, Timestamp};

use super::{Item, TestRunner, TestService};

impl TestService {
    pub(super) fn plan(&mut self, at: Timestamp, item: Item) {
        if let Item::Complete(index, ..) | Item::Answer(index, ..) | Item::Heartbeat(index, ..) = &item {
            self.at_mut(*index).expected += 1;
        }
        self.items += 1;
        self.agenda.insert((at, self.items), item);
    }

    pub(super) fn schedule_wake(&mut self, index: usize, at: Option<Timestamp>) {
        let Some(known) = self.wake_of.get_mut(index) else {
            return;
        };
        if let Some(known) = known.take() {
            self.wakes.remove(&(known, index));
        }
        *known = at;
        if let Some(at) = at {
            self.wakes.insert((at, index));
        }
    }

    /// Performs the next action. Returns false if there is no action, or if it is later than `until`.
    #[track_caller]
    pub(super) fn step(&mut self, until: Option<Timestamp>, skips_stuck: bool) -> bool {
        let item = self.agenda.first_key_value().map(|(key, _)| *key);
        let wake = self.wakes.first().copied();
        let item_is_next = match (item, wake) {
            (None, None) => return false,
            (Some((item, _)), Some((wake, _))) => item <= wake,
            (Some(_), None) => true,
            (None, Some(_)) => false,
        };
        let next = if item_is_next { item.map(|(at, _)| at) } else { wake.map(|(at, _)| at) };
        let next = next.unwrap_or(self.now);
        if until.is_some_and(|until| next > until) {
            return false;
        }
        if item_is_next {
            self.now = self.now.max(next);
            if let Some((_, item)) = self.agenda.pop_first() {
                self.happens(item);
            }
        } else if let Some((_, index)) = wake {
            // Only `advance` waits for execution timeouts. A run that waits only for its execution timeout is stuck.
            if skips_stuck && next > self.now && self.is_stuck(index) {
                self.schedule_wake(index, None);
                return true;
            }
            self.now = self.now.max(next);
            self.run_wake(index);
        }
        true
    }

    #[track_caller]
    fn happens(&mut self, item: Item) {
        match item {
            Item::Start(start) => {
                if let Err(fault) = self.try_start(&start) {
                    self.refused.push((start.workflow_id, fault));
                }
            }
            Item::Command(workflow_id, command, expects) => {
                if let Some(run) = expects.and_then(|index| self.runs.get_mut(index)) {
                    run.expected -= 1;
                }
                let Some(index) = self.newest.get(&workflow_id).copied() else {
                    panic!("no run of `{workflow_id}` was started by {}", self.now);
                };
                if let Err(fault) = self.admit(index, &command) {
                    self.refused.push((workflow_id, fault));
                }
            }
            Item::Complete(index, turn, proposed, decisions) => {
                self.at_mut(index).expected -= 1;
                self.complete(index, turn, proposed, decisions);
            }
            Item::Answer(index, task, answer) => {
                self.at_mut(index).expected -= 1;
                self.answer(index, task, answer);
            }
            Item::Heartbeat(index, task, work) => {
                self.at_mut(index).expected -= 1;
                self.heartbeat(index, task, *work);
            }
        }
    }

    /// Fires the run's due deadlines and hands out its ready tasks.
    #[track_caller]
    fn run_wake(&mut self, index: usize) {
        let now = self.now;
        let run = self.at(index);
        if run.run.next_deadline(&run.heartbeats).is_some_and(|at| at <= now) {
            let fire =
                Command::FireDeadlines { heartbeats: run.heartbeats.clone(), stopped: std::sync::Arc::default() };
            self.admit_or_fail(index, &fire);
        }
        while let Some(task) = self.waits(index) {
            match task {
                ReadyTask::Turn { scheduled_event_id, attempt } => self.turn(index, scheduled_event_id, attempt),
                ReadyTask::Activity { scheduled_event_id, runner } => {
                    self.activity_of(index, scheduled_event_id, runner);
                }
            }
        }
        self.reschedule(index);
    }

    /// Returns the run's next task that can be taken now.
    pub(super) fn waits(&self, index: usize) -> Option<ReadyTask> {
        self.at(index).run.waiting_tasks().find_map(|task| match task {
            TaskRef::Turn(turn) => turn
                .not_before
                .is_none_or(|at| at <= self.now)
                .then_some(ReadyTask::Turn { scheduled_event_id: turn.scheduled_event_id, attempt: turn.attempt }),
            TaskRef::Activity(task) if task.activity.not_before().is_some_and(|at| at > self.now) => None,
            TaskRef::Activity(task) => {
                let is_for = |runner: &TestRunner| {
                    runner.activity_type == task.activity.activity_type
                        && runner.list.as_ref().is_none_or(|list| *list == task.activity.task_list)
                };
                let scheduled_event_id = task.scheduled_event_id;
                // A later registration replaces an earlier registration.
                let runner = self.runners.iter().rposition(is_for)?;
                Some(ReadyTask::Activity { scheduled_event_id, runner })
            }
        })
    }

    /// Schedules the run's next wake.
    pub(super) fn reschedule(&mut self, index: usize) {
        let run = self.at(index);
        let deadline = run.run.next_deadline(&run.heartbeats);
        let held_back = run.run.waiting_tasks().find_map(|task| match task {
            TaskRef::Turn(turn) => turn.not_before,
            TaskRef::Activity(_) => None,
        });
        let at = [deadline, held_back].into_iter().flatten().min();
        let is_waited_for = self.waits(index).is_some();
        self.schedule_wake(index, if is_waited_for { Some(self.now) } else { at });
    }
}

/// A task that a decider or runner can take now.
pub(super) enum ReadyTask {
    Turn { scheduled_event_id: EventId, attempt: u32 },
    Activity { scheduled_event_id: EventId, runner: usize },
}
