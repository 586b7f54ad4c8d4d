//! Evaluation of a schedule: due times, the effect of open runs, and the state it keeps.
//!
//! The functions are deterministic: nodes that evaluate a schedule at the same time reach the same decision, and
//! the first write wins. An action is stored in [`ScheduleState::starting`] before its run is started, so that it
//! is neither lost nor changed if the node crashes in between.

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

/// Rules for the actions of a schedule. Its user can change them at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Behavior of an action while an earlier run is open.
    pub overlap: Overlap,
    /// Maximum age of a missed time that is caught up.
    pub catch_up: Duration,
    /// True if a run that failed or timed out pauses the schedule.
    pub pause_on_failure: bool,
}

/// Cause of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionCause {
    /// A scheduled time.
    Time,
    /// A manual request for one action.
    Trigger,
    /// A manual request for the times of a period.
    Backfill,
}

/// A run to start.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Number among the actions of the schedule (1, 2, 3, …); 0 until the action is decided.
    pub number: u64,
    /// Scheduled time.
    pub nominal: Timestamp,
    /// Cause.
    pub cause: ActionCause,
    /// Behavior while an earlier run is open, if it differs from the schedule's.
    pub overlap: Option<Overlap>,
    /// Request to end the run as soon as it has started.
    pub end: Option<OverlapEnd>,
}

/// Method by which a later action ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapEnd {
    /// With a cancel request.
    Canceled,
    /// By termination.
    Terminated,
}

/// A run that the schedule started and that is not known to have closed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Number of the action.
    pub number: u64,
    /// Workflow id of the run.
    pub workflow_id: String,
    /// Run id of the first run of the workflow; successors continue it.
    pub run_id: Uuid,
    /// Request to end the run.
    pub end: Option<OverlapEnd>,
    /// True if the request to end was delivered.
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
    /// The run expired before its outcome was read.
    Unknown,
}

/// A decided action.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    /// Number of the action.
    pub number: u64,
    /// Scheduled time.
    pub nominal: Timestamp,
    /// Cause.
    pub cause: ActionCause,
    /// Time of the decision.
    pub at: Timestamp,
    /// Workflow id and run id, once the run was started.
    pub run: Option<(String, Uuid)>,
    /// Outcome.
    pub outcome: ActionOutcome,
    /// Reason for the latest failed attempt to start the run. Attempts continue until it is started or refused.
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
    /// Times that were too old to be caught up. If there were very many, a lower bound.
    pub missed: u64,
}

/// Observed state of a run that the schedule started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedRun {
    /// Open, or continued by a successor.
    Open,
    /// Closed.
    Closed(Status, Timestamp),
    /// Expired.
    Gone,
}

/// Stored state of a schedule.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleState {
    /// Number of decided actions.
    pub actions: u64,
    /// Time up to which all scheduled times are decided.
    pub cursor: Timestamp,
    /// Time and reason of the pause, if it is paused.
    pub paused: Option<(Timestamp, String)>,
    /// Number of remaining times that start an action; unlimited when absent.
    pub remaining: Option<u64>,
    /// Manually requested actions that are not processed yet.
    #[serde(rename = "asked", skip_serializing_if = "VecDeque::is_empty")]
    pub requested: VecDeque<Action>,
    /// Actions that wait for earlier runs to close.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub waiting: VecDeque<Action>,
    /// Decided actions whose runs are being started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starting: Vec<Action>,
    /// Runs that are not known to have closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Running>,
    /// Latest actions, oldest first.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub recent: VecDeque<Recent>,
    /// Numbers of actions by outcome.
    pub counts: ScheduleCounts,
    /// Number of checks in a row that found no run closed.
    pub looks: u32,
    /// Keys of the latest requests, oldest first.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub requests: VecDeque<RequestKey>,
    /// Time until which the store keeps marks of earlier requests; absent if there are none.
    pub marks_until: Option<Timestamp>,
}

impl ScheduleState {
    /// Creates the state of a new schedule.
    pub fn begin(now: Timestamp, remaining: Option<u64>) -> Self {
        Self { cursor: now, remaining, ..Self::default() }
    }

    /// Returns whether the request with this key was accepted before, or `None` if only a mark in the store can
    /// tell.
    pub fn is_repeated(&self, key: RequestKey, now: Timestamp) -> Option<bool> {
        if self.requests.contains(&key) {
            return Some(true);
        }
        self.marks_until.is_none_or(|until| until < now).then_some(false)
    }

    /// Records the key of an accepted request. Returns a key that leaves the state, with the time until which the
    /// store must keep a mark of it.
    pub fn remember(&mut self, key: RequestKey, now: Timestamp) -> Option<(RequestKey, Timestamp)> {
        self.requests.push_back(key);
        if self.requests.len() <= limits::SCHEDULE_REQUESTS_MAX {
            return None;
        }
        // One hour of tolerance for differing clocks.
        let until = now.plus(limits::REQUESTS_KEPT).plus(Duration::from_secs(3_600));
        self.marks_until = self.marks_until.max(Some(until));
        self.requests.pop_front().map(|key| (key, until))
    }

    /// Pauses the schedule, unless it is paused: times then pass without an action.
    pub fn pause(&mut self, now: Timestamp, why: String) {
        self.paused.get_or_insert((now, why));
    }

    /// Resumes the schedule. Times during the pause are not caught up.
    pub fn resume(&mut self, now: Timestamp) {
        if self.paused.take().is_some() {
            self.cursor = self.cursor.max(now);
        }
    }

    /// Requests an additional action.
    pub fn request_action(&mut self, nominal: Timestamp, cause: ActionCause, overlap: Option<Overlap>) {
        self.requested.push_back(Action { number: 0, nominal, cause, overlap, end: None });
    }

    /// Makes all decisions that are due at `now`. `observed` has the observed state of each of the
    /// [`running`](Self::running) runs, in order; missing entries count as open. `id` seeds the jitter of this
    /// schedule.
    pub fn step(&mut self, rules: Rules, times: &ScheduleTimes, id: Uuid, now: Timestamp, observed: &[ObservedRun]) {
        self.observe(rules, observed, now);
        while self.can_start() {
            let Some(action) = self.requested.pop_front() else { break };
            self.offer(action, rules, now);
        }
        // A cursor in the future was set by a clock that was ahead, so it is moved back to now.
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

    /// Records the observed state of each of the [`running`](Self::running) runs, in order.
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
        // The rest of a long period is processed in the next evaluation, which is due at once.
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

    /// Starts, queues or skips an action, depending on the open runs.
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

    /// Records that the run of an action was started, or refused for a reason. Does nothing if this is already
    /// known.
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

    /// Records that an attempt to start a run failed, for a reason. Does nothing if the run is known to be started
    /// or refused.
    pub fn put_off(&mut self, number: u64, why: &str) {
        let is_starting = |recent: &&mut Recent| recent.number == number && recent.outcome == ActionOutcome::Starting;
        if let Some(recent) = self.recent.iter_mut().find(is_starting) {
            recent.put_off = Some(why.to_owned());
        }
    }

    /// Records that a request to end a run was delivered.
    pub fn mark_end_delivered(&mut self, number: u64, how: OverlapEnd) {
        if let Some(run) = self.running.iter_mut().find(|run| run.number == number && run.end == Some(how)) {
            run.end_delivered = true;
        }
    }

    /// Returns the runs whose request to end was not delivered yet.
    pub fn undelivered_ends(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().filter(|run| run.end.is_some() && !run.end_delivered)
    }

    /// Returns the time of the next evaluation, or `None` if none is needed.
    pub fn due(&self, rules: Rules, times: &ScheduleTimes, id: Uuid, now: Timestamp) -> Option<Timestamp> {
        let has_work = !self.starting.is_empty() || self.undelivered_ends().next().is_some();
        let soon = (has_work || !self.requested.is_empty()).then(|| now.plus(limits::EFFECT_WAIT_FIRST));
        // The close of a run is reported at once, but the report can be lost. If an action depends on it, the
        // schedule also checks periodically.
        let depends = !self.running.is_empty() && (!self.waiting.is_empty() || rules.pause_on_failure);
        let wait = limits::EFFECT_WAIT_FIRST.times(4_u64.saturating_pow(self.looks.min(8)));
        let check = depends.then(|| now.plus(wait.min(limits::SCHEDULE_LOOK_MAX)));
        let next = if self.paused.is_some() || self.remaining == Some(0) { None } else { times.next(self.cursor) };
        let next = next.map(|next| if next.is_named { times.action_at(next.at, chance(id, next.at)) } else { next.at });
        [soon, check, next].into_iter().flatten().min()
    }
}

/// Returns the random value for the jitter of a scheduled time.
fn chance(id: Uuid, nominal: Timestamp) -> u64 {
    retry::chance(id, nominal.as_millis(), 0)
}

#[cfg(test)]
mod tests;
