//! What a schedule does: which of its times are due, what becomes of each while earlier runs are open, what it remembers.
//!
//! Pure, and the same whoever asks: nodes that look at a schedule at the same time find the same to do, and the one whose
//! write wins has decided it. An action is decided and written down before its run is started ([`ScheduleState::starting`]),
//! so that it is neither lost nor done otherwise when the node dies in between.

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

/// How a schedule behaves; its user may change it at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// What an action does while an earlier run is open.
    pub overlap: Overlap,
    /// Times that were missed by less than this are made good.
    pub catch_up: Duration,
    /// Whether a run that failed or took too long pauses it.
    pub pause_on_failure: bool,
}

/// Why there is an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionCause {
    /// Its time has come.
    Time,
    /// Somebody asked for it.
    Trigger,
    /// Somebody asked for the times of a span.
    Backfill,
}

/// A run to be started.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// 1, 2, 3, … among the actions of the schedule; 0 before it is decided.
    pub number: u64,
    /// The time that the schedule names.
    pub nominal: Timestamp,
    /// Cause, for programs.
    pub cause: ActionCause,
    /// What to do while an earlier run is open, where that is not what the schedule says.
    pub overlap: Option<Overlap>,
    /// Its run has to be ended as soon as it is there.
    pub end: Option<OverlapEnd>,
}

/// How a run is ended because of a later action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapEnd {
    /// It is asked to cancel.
    Canceled,
    /// It is terminated.
    Terminated,
}

/// A run that the schedule started and that is not known to have closed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Of which action.
    pub number: u64,
    /// Its workflow id.
    pub workflow_id: String,
    /// The run, or the first of those that go on for it.
    pub run_id: Uuid,
    /// It has to be ended.
    pub end: Option<OverlapEnd>,
    /// It has been told so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_told: bool,
}

/// What became of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionOutcome {
    /// It is being started.
    Starting,
    /// Its run is open.
    Running,
    /// Its run has closed.
    Closed(Status),
    /// Its run could not be started, for this reason.
    Refused(String),
    /// Its run was forgotten before anybody looked.
    Unknown,
}

/// An action that was decided.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    /// Which.
    pub number: u64,
    /// The time that the schedule names.
    pub nominal: Timestamp,
    /// Cause, for programs.
    pub cause: ActionCause,
    /// When it was decided.
    pub at: Timestamp,
    /// The run's workflow id and run, once it was started.
    pub run: Option<(String, Uuid)>,
    /// What became of it.
    pub outcome: ActionOutcome,
    /// Why its run could not be started at once, when that was tried last: it is tried until it is started, or refused.
    pub put_off: Option<String>,
    /// When its run closed.
    pub closed_at: Option<Timestamp>,
}

/// What has been done, and what not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleCounts {
    /// Runs that were started.
    pub started: u64,
    /// Runs that could not be started.
    pub refused: u64,
    /// Actions that were left out because an earlier run was open.
    pub skipped: u64,
    /// Times that were found too late to be made good; where there were very many, at least so many.
    pub missed: u64,
}

/// What is seen of a run that the schedule started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// It is open, or another one goes on for it.
    Open,
    /// It has closed.
    Closed(Status, Timestamp),
    /// It is not there any more.
    Gone,
}

/// What a schedule remembers.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleState {
    /// How many actions were decided.
    pub actions: u64,
    /// Every time up to this one is decided.
    pub cursor: Timestamp,
    /// Since when it is paused, and why.
    pub paused: Option<(Timestamp, String)>,
    /// How many more times have an action; no limit when absent.
    pub remaining: Option<u64>,
    /// Asked for by hand, and not looked at yet.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub asked: VecDeque<Action>,
    /// Waiting for earlier runs to close.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub waiting: VecDeque<Action>,
    /// Decided; somebody is starting them, or has to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starting: Vec<Action>,
    /// Runs that are not known to have closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Running>,
    /// The newest actions, oldest first.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub recent: VecDeque<Recent>,
    /// What has been done.
    pub counts: ScheduleCounts,
    /// How often in a row somebody looked in vain whether a run has closed.
    pub looks: u32,
    /// The newest requests that had a key, oldest first.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub requests: VecDeque<RequestKey>,
    /// Until when the store keeps marks of earlier ones; absent when there is none.
    pub marks_until: Option<Timestamp>,
}

impl ScheduleState {
    /// Of a schedule that begins now.
    pub fn begin(now: Timestamp, remaining: Option<u64>) -> Self {
        Self { cursor: now, remaining, ..Self::default() }
    }

    /// Whether the request with this key was taken before; `None` when only the store can tell, by a mark of it.
    pub fn is_repeated(&self, key: RequestKey, now: Timestamp) -> Option<bool> {
        if self.requests.contains(&key) {
            return Some(true);
        }
        self.marks_until.is_none_or(|until| until < now).then_some(false)
    }

    /// Counts the request with this key as taken. Answers which one leaves the state for it, which the store is to keep a mark
    /// of, and until when.
    pub fn remember(&mut self, key: RequestKey, now: Timestamp) -> Option<(RequestKey, Timestamp)> {
        self.requests.push_back(key);
        if self.requests.len() <= limits::SCHEDULE_REQUESTS_MAX {
            return None;
        }
        // An hour for clocks that differ.
        let until = now.plus(limits::REQUESTS_KEPT).plus(Duration::from_secs(3_600));
        self.marks_until = self.marks_until.max(Some(until));
        self.requests.pop_front().map(|key| (key, until))
    }

    /// Pauses it, if it is not paused: times pass without an action.
    pub fn pause(&mut self, now: Timestamp, why: String) {
        self.paused.get_or_insert((now, why));
    }

    /// Lets it go on, from now: what was named meanwhile is not made good.
    pub fn resume(&mut self, now: Timestamp) {
        if self.paused.take().is_some() {
            self.cursor = self.cursor.max(now);
        }
    }

    /// Asks for an action besides those that the spec names.
    pub fn ask(&mut self, nominal: Timestamp, cause: ActionCause, overlap: Option<Overlap>) {
        self.asked.push_back(Action { number: 0, nominal, cause, overlap, end: None });
    }

    /// Decides what there is to decide at `now`. `sights` is what was seen of each of [`running`](Self::running), in that order;
    /// what was not looked at counts as open. `id` is what makes the jitter of this schedule its own.
    pub fn step(&mut self, rules: Rules, times: &ScheduleTimes, id: Uuid, now: Timestamp, sights: &[Sight]) {
        self.see(rules, sights, now);
        while self.has_room() {
            let Some(action) = self.asked.pop_front() else { break };
            self.offer(action, rules, now);
        }
        // What the clock has yet to come to was decided by one that was ahead: it goes on from now.
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

    fn has_room(&self) -> bool {
        self.starting.len() < limits::SCHEDULE_STARTS_AT_ONCE
    }

    fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.starting.is_empty()
    }

    /// Takes in what was seen of each of [`running`](Self::running), in that order.
    pub fn see(&mut self, rules: Rules, sights: &[Sight], now: Timestamp) {
        let mut sights = sights.iter();
        let running = std::mem::take(&mut self.running);
        for run in running {
            let (outcome, closed_at) = match sights.next() {
                None | Some(Sight::Open) => {
                    self.running.push(run);
                    continue;
                }
                Some(Sight::Closed(status, at)) => (ActionOutcome::Closed(*status), Some(*at)),
                Some(Sight::Gone) => (ActionOutcome::Unknown, None),
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

    /// Looks at every time that has come.
    fn pass_time(&mut self, rules: Rules, times: &ScheduleTimes, id: Uuid, now: Timestamp) {
        if self.paused.is_some() {
            return;
        }
        let mut missed = 0;
        let mut search = times.search(self.cursor);
        // What is left of a long time that has passed is for the next look, which is due at once.
        while self.has_room() && self.remaining != Some(0) && search.evaluations() < EVALUATIONS_AT_ONCE {
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

    /// What becomes of an action, given the runs that are open.
    fn offer(&mut self, action: Action, rules: Rules, now: Timestamp) {
        let is_free = !self.is_busy() && self.waiting.is_empty();
        match action.overlap.unwrap_or(rules.overlap) {
            Overlap::AllowAll => self.decide(action, now),
            _ if is_free => self.decide(action, now),
            Overlap::BufferOne if self.waiting.is_empty() => self.waiting.push_back(action),
            Overlap::BufferAll if self.waiting.len() < limits::SCHEDULE_WAITING_MAX => self.waiting.push_back(action),
            Overlap::Skip | Overlap::BufferOne | Overlap::BufferAll => self.counts.skipped += 1,
            Overlap::CancelOther => {
                self.end_others(OverlapEnd::Canceled);
                self.counts.skipped += self.waiting.len() as u64;
                self.waiting = VecDeque::from([action]);
            }
            Overlap::TerminateOther => {
                self.end_others(OverlapEnd::Terminated);
                self.decide(action, now);
            }
        }
    }

    fn end_others(&mut self, how: OverlapEnd) {
        for run in &mut self.running {
            if run.end != Some(OverlapEnd::Terminated) && run.end != Some(how) {
                (run.end, run.is_told) = (Some(how), false);
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

    /// The run of an action was started, or could not be for the reason given. Nothing when that is known already.
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
                self.running.push(Running { number, workflow_id, run_id, end, is_told: false });
            }
            Err(why) => {
                self.counts.refused += 1;
                if let Some(recent) = recent {
                    recent.outcome = ActionOutcome::Refused(why);
                }
            }
        }
    }

    /// The run of an action could not be started yet, for the reason given. Nothing when it is known to be started or refused.
    pub fn put_off(&mut self, number: u64, why: &str) {
        let is_starting = |recent: &&mut Recent| recent.number == number && recent.outcome == ActionOutcome::Starting;
        if let Some(recent) = self.recent.iter_mut().find(is_starting) {
            recent.put_off = Some(why.to_owned());
        }
    }

    /// The run of an action was told to end.
    pub fn told(&mut self, number: u64, how: OverlapEnd) {
        if let Some(run) = self.running.iter_mut().find(|run| run.number == number && run.end == Some(how)) {
            run.is_told = true;
        }
    }

    /// Runs that are to be ended and have not been told so.
    pub fn to_tell(&self) -> impl Iterator<Item = &Running> {
        self.running.iter().filter(|run| run.end.is_some() && !run.is_told)
    }

    /// When somebody must look at it; `None` when nobody has to.
    pub fn due(&self, rules: Rules, times: &ScheduleTimes, id: Uuid, now: Timestamp) -> Option<Timestamp> {
        let has_work = !self.starting.is_empty() || self.to_tell().next().is_some();
        let soon = (has_work || !self.asked.is_empty()).then(|| now.plus(limits::EFFECT_WAIT_FIRST));
        // That a run has closed is said at once, but by word of mouth: what depends on it is not left to that.
        let depends = !self.running.is_empty() && (!self.waiting.is_empty() || rules.pause_on_failure);
        let wait = limits::EFFECT_WAIT_FIRST.times(4_u64.saturating_pow(self.looks.min(8)));
        let look = depends.then(|| now.plus(wait.min(limits::SCHEDULE_LOOK_MAX)));
        let next = if self.paused.is_some() || self.remaining == Some(0) { None } else { times.next(self.cursor) };
        let next = next.map(|next| if next.is_named { times.action_at(next.at, chance(id, next.at)) } else { next.at });
        [soon, look, next].into_iter().flatten().min()
    }
}

/// What the jitter of a time is drawn with.
fn chance(id: Uuid, nominal: Timestamp) -> u64 {
    retry::chance(id, nominal.as_millis(), 0)
}

#[cfg(test)]
mod tests;
