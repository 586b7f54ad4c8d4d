//! Evaluation of a schedule: which times are due, how open runs affect an action, and the stored state.
//!
//! The functions are deterministic. If several nodes evaluate a schedule at the same time, they reach the same
//! decision, and the first write wins. An action is stored in [`ScheduleState::starting`] before its run is started. If
//! the node crashes between these two steps, the action is therefore neither lost nor changed.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use super::Overlap;
use super::times::{EVALUATIONS_AT_ONCE, ScheduleTimes};
use crate::event::RequestKey;
use crate::limits;
use crate::retry;
use crate::run::Status;
use crate::time::{Duration, Timestamp};

/// Rules for the actions of a schedule. Users can change them at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Behavior of an action while an earlier run is open.
    pub overlap: Overlap,
    /// Maximum age of a missed time for which the action is still taken.
    pub catch_up: Duration,
    /// True if the schedule pauses when one of its runs fails or times out.
    pub pause_on_failure: bool,
}

/// Reason for an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionCause {
    /// The schedule specifies the time.
    Time,
    /// A user requested one action.
    Trigger,
    /// A user requested actions for all times of a period.
    Backfill,
}

/// An action: a run that the schedule starts.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Number of the action in its schedule (1, 2, 3, …); 0 until it is decided.
    pub number: u64,
    /// Scheduled time.
    pub nominal: Timestamp,
    /// Reason for the action.
    pub cause: ActionCause,
    /// Behavior of the action while an earlier run is open. Absent if the schedule's own setting applies.
    pub overlap: Option<Overlap>,
    /// Set if a later action has requested the end of the run before the run has started. The run is ended at once
    /// after its start.
    pub end: Option<OverlapEnd>,
}

/// Method by which a later action ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapEnd {
    /// By a cancel request.
    Canceled,
    /// By termination.
    Terminated,
}

/// A run that the schedule has started and whose close the schedule has not observed yet.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Number of the action.
    pub number: u64,
    /// Workflow id of the run.
    pub workflow_id: String,
    /// Run id of the first run of the workflow. Successors of that run count as the same run.
    pub run_id: Uuid,
    /// Set if a later action has requested the end of the run.
    pub end: Option<OverlapEnd>,
    /// True if the request to end the run was delivered.
    #[serde(default, rename = "isTold", skip_serializing_if = "std::ops::Not::not")]
    pub end_delivered: bool,
}

/// Outcome of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionOutcome {
    /// The run is being started.
    Starting,
    /// The run is open.
    Running,
    /// The run has closed.
    Closed(Status),
    /// The run could not be started, for this reason.
    Refused(String),
    /// The run expired before the schedule saw its outcome.
    Unknown,
}

/// An action with its outcome, as shown to users.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    /// Number of the action.
    pub number: u64,
    /// Scheduled time.
    pub nominal: Timestamp,
    /// Reason for the action.
    pub cause: ActionCause,
    /// Time at which the schedule decided to take the action.
    pub at: Timestamp,
    /// Workflow id and run id, after the run was started.
    pub run: Option<(String, Uuid)>,
    /// Outcome of the action.
    pub outcome: ActionOutcome,
    /// Reason why the latest attempt to start the run failed. Attempts continue until the run is started or refused.
    pub put_off: Option<String>,
    /// Time at which the run closed.
    pub closed_at: Option<Timestamp>,
}

/// Numbers of actions by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleCounts {
    /// Runs that were started.
    pub started: u64,
    /// Runs that could not be started.
    pub refused: u64,
    /// Actions that were skipped because an earlier run was open.
    pub skipped: u64,
    /// Missed times that were too old for an action. A lower bound if very many times were missed at once.
    pub missed: u64,
}

/// State in which a run of the schedule was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedRun {
    /// The run is open, or continued by a successor.
    Open,
    /// The run closed with this status at this time.
    Closed(Status, Timestamp),
    /// The run has expired.
    Gone,
}

/// Stored state of a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleState {
    /// Number of decided actions.
    pub actions: u64,
    /// Time up to which all scheduled times have been processed.
    pub cursor: Timestamp,
    /// Time and reason of the pause; absent if the schedule is not paused.
    pub paused: Option<(Timestamp, String)>,
    /// Number of further times at which an action starts a run; unlimited when absent.
    pub remaining: Option<u64>,
    /// Manually requested actions that have not been processed yet.
    #[serde(rename = "asked", skip_serializing_if = "VecDeque::is_empty")]
    pub requested: VecDeque<Action>,
    /// Actions that wait for earlier runs to close.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub waiting: VecDeque<Action>,
    /// Decided actions whose runs are being started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starting: Vec<Action>,
    /// Runs whose close the schedule has not observed yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Running>,
    /// Latest actions, oldest first.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub recent: VecDeque<Recent>,
    /// Numbers of actions by outcome.
    pub counts: ScheduleCounts,
    /// Number of consecutive checks of the open runs in which none had closed.
    pub looks: u32,
    /// Keys of the latest requests to change the schedule, oldest first.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub requests: VecDeque<RequestKey>,
    /// Time until which the store keeps records of the keys of older requests; absent if there are none.
    pub marks_until: Option<Timestamp>,
}

impl ScheduleState {
    /// Creates the state of a new schedule.
    pub fn begin(now: Timestamp, remaining: Option<u64>) -> Self {
        Self { cursor: now, remaining, ..Self::default() }
    }

    /// Returns `true` if a request with this key was accepted before. Returns `None` if the state does not show it and
    /// the store must be read.
    pub fn is_repeated(&self, key: RequestKey, now: Timestamp) -> Option<bool> {
        if self.requests.contains(&key) {
            return Some(true);
        }
        self.marks_until.is_none_or(|until| until < now).then_some(false)
    }

    /// Adds the key of an accepted request. If another key must leave the state, returns that key and the time until
    /// which the store must keep a record of it.
    pub fn remember(&mut self, key: RequestKey, now: Timestamp) -> Option<(RequestKey, Timestamp)> {
        self.requests.push_back(key);
        if self.requests.len() <= limits::SCHEDULE_REQUESTS_MAX {
            return None;
        }
        // The additional hour allows for differences between clocks.
        let until = now.plus(limits::REQUESTS_KEPT).plus(Duration::from_secs(3_600));
        self.marks_until = self.marks_until.max(Some(until));
        self.requests.pop_front().map(|key| (key, until))
    }

    /// Pauses the schedule, unless it is already paused. While it is paused, no action is taken at scheduled times.
    pub fn pause(&mut self, now: Timestamp, why: String) {
        self.paused.get_or_insert((now, why));
    }

    /// Resumes the schedule. No actions are taken for times that have passed during the pause.
    pub fn resume(&mut self, now: Timestamp) {
        if self.paused.take().is_some() {
            self.cursor = self.cursor.max(now);
        }
    }

    /// Requests an additional action.
    pub fn request_action(&mut self, nominal: Timestamp, cause: ActionCause, overlap: Option<Overlap>) {
        self.requested.push_back(Action { number: 0, nominal, cause, overlap, end: None });
    }

    /// Makes all decisions that are due at `now`. `observed` contains the observed state of each run in
    /// [`running`](Self::running), in the same order. Runs without an entry count as open. The jitter is derived from
    /// `id`, which identifies the schedule.
    pub fn step(&mut self, rules: Rules, times: &ScheduleTimes, id: Uuid, now: Timestamp, observed: &[ObservedRun]) {
        self.observe(rules, observed, now);
        while self.can_start() {
            let Some(action) = self.requested.pop_front() else { break };
            self.offer(action, rules, now);
        }
        // If the cursor is far in the future, it was set while the clock was ahead.
        self.cursor = if self.cursor > now.plus(limits::SCHEDULE_AHEAD_MAX) { now } else { self.cursor };
        self.pass_time(rules, times, id, now);
        while !self.is_busy()
            && let Some(action) = self.waiting.front()
            && (self.paused.is_none() || action.cause != ActionCause::Time)
            && let Some(action) = self.waiting.pop_front()
        {
            self.decide(action, now);
        }
    }

    fn can_start(&self) -> bool {
        self.starting.len() < limits::SCHEDULE_STARTS_AT_ONCE
    }

    fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.starting.is_empty()
    }

    /// Records the observed state of each run in [`running`](Self::running), in the same order.
    pub fn observe(&mut self, rules: Rules, observed: &[ObservedRun], now: Timestamp) {
        let mut observed = observed.iter();
        let running = std::mem::take(&mut self.running);
        for run in running {
            let (outcome, closed_at) = match observed.next() {
                None | Some(ObservedRun::Open) => {
                    self.running.push(run);
                    continue;
                }
                Some(ObservedRun::Closed(status, at)) => (ActionOutcome::Closed(*status), Some(*at)),
                Some(ObservedRun::Gone) => (ActionOutcome::Unknown, None),
            };
            if rules.pause_on_failure && matches!(outcome, ActionOutcome::Closed(Status::Failed | Status::TimedOut)) {
                self.pause(now, format!("run {} of `{}` did not succeed", run.run_id, run.workflow_id));
            }
            self.looks = 0;
            if let Some(recent) = self.recent.iter_mut().find(|recent| recent.number == run.number) {
                (recent.outcome, recent.closed_at) = (outcome, closed_at);
            }
        }
    }

    /// Processes every scheduled time that has passed.
    fn pass_time(&mut self, rules: Rules, times: &ScheduleTimes, id: Uuid, now: Timestamp) {
        if self.paused.is_some() {
            return;
        }
        let mut missed = 0;
        let mut search = times.search(self.cursor);
        // If a long period has passed, the remaining times are processed in the next evaluation, which is due at once.
        while self.can_start() && self.remaining != Some(0) && search.evaluations() < EVALUATIONS_AT_ONCE {
            let Some(next) = search.next(EVALUATIONS_AT_ONCE - search.evaluations()) else { break };
            let at = if next.is_named { times.action_at(next.at, chance(id, next.at)) } else { next.at };
            if at > now {
                break;
            }
            self.cursor = next.at;
            if !next.is_named {
                continue;
            }
            if at.plus(rules.catch_up) < now {
                missed += 1;
                if missed >= limits::SCHEDULE_MISSED_MAX {
                    let from = now.as_millis().saturating_sub(rules.catch_up.as_millis());
                    let from = from.saturating_sub(limits::SCHEDULE_JITTER_MAX.as_millis());
                    self.cursor = self.cursor.max(Timestamp::from_millis(from));
                    search = times.search(self.cursor);
                    missed = 0;
                    self.counts.missed += limits::SCHEDULE_MISSED_MAX;
                }
                continue;
            }
            self.offer(
                Action { number: 0, nominal: next.at, cause: ActionCause::Time, overlap: None, end: None },
                rules,
                now,
            );
        }
        self.counts.missed += missed;
    }

    /// Starts an action, lets it wait, or skips it, depending on the open runs.
    fn offer(&mut self, action: Action, rules: Rules, now: Timestamp) {
        let is_free = !self.is_busy() && self.waiting.is_empty();
        match action.overlap.unwrap_or(rules.overlap) {
            Overlap::AllowAll => self.decide(action, now),
            _ if is_free => self.decide(action, now),
            Overlap::BufferOne if self.waiting.is_empty() => self.waiting.push_back(action),
            Overlap::BufferAll if self.waiting.len() < limits::SCHEDULE_WAITING_MAX => self.waiting.push_back(action),
            Overlap::Skip | Overlap::BufferOne | Overlap::BufferAll => self.counts.skipped += 1,
            Overlap::CancelOther => {
                self.end_running(OverlapEnd::Canceled);
                self.counts.skipped += self.waiting.len() as u64;
                self.waiting = VecDeque::from([action]);
            }
            Overlap::TerminateOther => {
                self.end_running(OverlapEnd::Terminated);
                self.decide(action, now);
            }
        }
    }

    fn end_running(&mut self, how: OverlapEnd) {
        for run in &mut self.running {
            if run.end != Some(OverlapEnd::Terminated) && run.end != Some(how) {
                (run.end, run.end_delivered) = (Some(how), false);
            }
        }
        for action in &mut self.starting {
            if action.end != Some(OverlapEnd::Terminated) {
                action.end = Some(how);
            }
        }
    }

    fn decide(&mut self, action: Action, now: Timestamp) {
        if action.cause == ActionCause::Time {
            self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
        }
        self.actions += 1;
        self.looks = 0;
        let action = Action { number: self.actions, ..action };
        if self.recent.len() >= limits::SCHEDULE_RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent {
            number: action.number,
            nominal: action.nominal,
            cause: action.cause,
            at: now,
            run: None,
            outcome: ActionOutcome::Starting,
            put_off: None,
            closed_at: None,
        });
        self.starting.push(action);
    }

    /// Records that the run of an action was started, or that it was refused and why. Does nothing if the outcome is
    /// already known.
    pub fn started(&mut self, number: u64, result: Result<(String, Uuid), String>) {
        let Some(place) = self.starting.iter().position(|action| action.number == number) else { return };
        let end = self.starting.remove(place).end;
        let recent = self.recent.iter_mut().find(|recent| recent.number == number);
        match result {
            Ok((workflow_id, run_id)) => {
                self.counts.started += 1;
                if let Some(recent) = recent {
                    (recent.run, recent.outcome) = (Some((workflow_id.clone(), run_id)), ActionOutcome::Running);
                }
                if self.running.len() >= limits::SCHEDULE_RUNNING_MAX {
                    let left = self.running.remove(0);
                    if let Some(recent) = self.recent.iter_mut().find(|recent| recent.number == left.number) {
                        recent.outcome = ActionOutcome::Unknown;
                    }
                }
                self.running.push(Running { number, workflow_id, run_id, end, end_delivered: false });
            }
            Err(why) => {
                self.counts.refused += 1;
                if let Some(recent) = recent {
                    recent.outcome = ActionOutcome::Refused(why);
                }
            }
        }
    }

    /// Records that an attempt to start the run of an action failed, and why. Does nothing if the run has already been
    /// started or refused.
    pub fn put_off(&mut self, number: u64, why: &str) {
        let is_starting = |recent: &&mut Recent| recent.number == number && recent.outcome == ActionOutcome::Starting;
        if let Some(recent) = self.recent.iter_mut().find(is_starting) {
            recent.put_off = Some(why.to_owned());
        }
    }

    /// Records that the request to end a run was delivered.
    pub fn mark_end_delivered(&mut self, number: u64, how: OverlapEnd) {
        if let Some(run) = self.running.iter_mut().find(|run| run.number == number && run.end == Some(how)) {
            run.end_delivered = true;
        }
    }

    /// Returns the runs whose end was requested, if that request was not delivered yet.
    pub fn undelivered_ends(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().filter(|run| run.end.is_some() && !run.end_delivered)
    }

    /// Returns the time at which the schedule must be evaluated next, or `None` if nothing is due.
    pub fn due(&self, rules: Rules, times: &ScheduleTimes, id: Uuid, now: Timestamp) -> Option<Timestamp> {
        let has_work = !self.starting.is_empty() || self.undelivered_ends().next().is_some();
        let soon = (has_work || !self.requested.is_empty()).then(|| now.plus(limits::EFFECT_WAIT_FIRST));
        // A run reports its close at once, but this report can be lost. If a waiting action or a pause depends on the
        // close, the schedule also checks the run periodically.
        let depends = !self.running.is_empty() && (!self.waiting.is_empty() || rules.pause_on_failure);
        let wait = limits::EFFECT_WAIT_FIRST.times(4_u64.saturating_pow(self.looks.min(8)));
        let check = depends.then(|| now.plus(wait.min(limits::SCHEDULE_LOOK_MAX)));
        let next = if self.paused.is_some() || self.remaining == Some(0) { None } else { times.next(self.cursor) };
        let next = next.map(|next| if next.is_named { times.action_at(next.at, chance(id, next.at)) } else { next.at });
        [soon, check, next].into_iter().flatten().min()
    }
}

/// Returns a pseudo-random number for the jitter of a scheduled time.
fn chance(id: Uuid, nominal: Timestamp) -> u64 {
    retry::chance(id, nominal.as_millis(), 0)
}

#[cfg(test)]
mod tests;
