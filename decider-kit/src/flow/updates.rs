//! State of a flow's updates: the names that the code accepts, the accepted updates that it has not taken yet, and the
//! answers of this turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use baton_history::{Event, EventKind, Payload, UpdateAnswer, Verdict};

use crate::update::{Rejection, Update};

/// Function that checks the input of an update before it is accepted. A replay does not call it.
pub(super) type Validator = Arc<dyn Fn(Option<&Payload>) -> Result<(), Rejection> + Send + Sync>;

/// An accepted update that the code has not taken yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Accepted {
    pub(super) update_id: String,
    pub(super) input: Option<Payload>,
}

/// Registration of an update name, and the accepted updates that the code has not taken yet.
struct Taking {
    validator: Validator,
    number: u64,
    waiting: VecDeque<Accepted>,
}

/// Registered update names and the answers of the current turn.
#[derive(Default)]
pub(super) struct UpdateHandlers {
    takes: BTreeMap<String, Taking>,
    numbers: u64,
    /// Answers of this turn, in order.
    answers: Vec<UpdateAnswer>,
}

impl UpdateHandlers {
    /// Discards the answers of the previous turn.
    pub(super) fn begin_turn(&mut self) {
        self.answers.clear();
    }

    /// Returns the answers of this turn.
    pub(super) fn answers(&self) -> &[UpdateAnswer] {
        &self.answers
    }

    /// Removes and returns the validators, which hold user code.
    pub(super) fn validators(&mut self) -> Vec<Validator> {
        std::mem::take(&mut self.takes).into_values().map(|taking| taking.validator).collect()
    }

    /// Returns the validator for this name.
    ///
    /// # Errors
    ///
    /// A rejection if the code does not accept updates of this name.
    pub(super) fn validator(&self, name: &str) -> Result<Validator, Rejection> {
        let taking = self.takes.get(name);
        taking.map(|it| it.validator.clone()).ok_or_else(|| Rejection::unknown(self.takes.keys().map(String::as_str)))
    }

    /// Registers the name and returns the number of the registration.
    pub(super) fn register(&mut self, name: &str, validator: Validator) -> u64 {
        self.numbers += 1;
        let number = self.numbers;
        let waiting = self.takes.remove(name).map(|before| before.waiting).unwrap_or_default();
        self.takes.insert(name.to_owned(), Taking { validator, number, waiting });
        number
    }

    pub(super) fn validate(&mut self, name: &str, number: u64, validator: Validator) {
        if let Some(taking) = self.takes.get_mut(name).filter(|taking| taking.number == number) {
            taking.validator = validator;
        }
    }

    /// Removes the registration. Accepted updates fail if the code has not taken them.
    pub(super) fn forget(&mut self, name: &str, number: u64) {
        if self.takes.get(name).is_none_or(|taking| taking.number != number) {
            return;
        }
        for left in self.takes.remove(name).into_iter().flat_map(|taking| taking.waiting) {
            self.answer(left.update_id, Verdict::Failed { reason: "not-taken".to_owned(), details: None });
        }
    }

    /// Queues an accepted update for the code. Returns false if the code does not accept updates of this name.
    pub(super) fn deliver(&mut self, update: &Update) -> bool {
        let Some(taking) = self.takes.get_mut(&update.name) else { return false };
        taking.waiting.push_back(Accepted { update_id: update.id.clone(), input: update.input.clone() });
        true
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Accepted> {
        self.takes.get_mut(name)?.waiting.pop_front()
    }

    pub(super) fn answer(&mut self, update_id: String, verdict: Verdict) {
        match self.answers.iter_mut().find(|answer| answer.update_id == update_id) {
            Some(answer) => answer.verdict = verdict,
            None => self.answers.push(UpdateAnswer { update_id, verdict }),
        }
    }

    /// Returns the first difference between the recorded events of a turn and the code's answers.
    pub(super) fn differs(&self, events: &[Event]) -> Option<UpdateMismatch> {
        let mut recorded: BTreeMap<&str, (u64, UpdateEnd)> = BTreeMap::new();
        for event in events {
            let (id, end) = match &event.kind {
                EventKind::UpdateAccepted(it) => (&it.update_id, UpdateEnd::Open),
                EventKind::UpdateCompleted(it) => (&it.update_id, UpdateEnd::Completed),
                EventKind::UpdateFailed(it) => (&it.update_id, UpdateEnd::Failed),
                EventKind::WorkflowStarted(_)
                | EventKind::WorkflowSuccess(_)
                | EventKind::WorkflowFailed(_)
                | EventKind::WorkflowCanceled(_)
                | EventKind::WorkflowTimedOut(_)
                | EventKind::WorkflowTerminated(_)
                | EventKind::WorkflowCloseFailed(_)
                | EventKind::WorkflowCancelRequested(_)
                | EventKind::DeciderScheduled(_)
                | EventKind::DeciderStarted(_)
                | EventKind::DeciderCompleted(_)
                | EventKind::DeciderTimedOut(_)
                | EventKind::DeciderFailed(_)
                | EventKind::ActivityScheduled(_)
                | EventKind::ActivityScheduleFailed(_)
                | EventKind::ActivityStarted(_)
                | EventKind::ActivitySuccess(_)
                | EventKind::ActivityFailed(_)
                | EventKind::ActivityCanceled(_)
                | EventKind::ActivityTimedOut(_)
                | EventKind::ActivityScheduledTimeout(_)
                | EventKind::ActivityTaskCancel(_)
                | EventKind::ActivityTaskCancelFailed(_)
                | EventKind::TimerScheduled(_)
                | EventKind::TimerScheduleFailed(_)
                | EventKind::TimerExpired(_)
                | EventKind::TimerCanceled(_)
                | EventKind::TimerCancelFailed(_)
                | EventKind::Signal(_)
                | EventKind::Marker(_)
                | EventKind::MarkerFailed(_)
                | EventKind::WorkflowContinuedAsNew(_)
                | EventKind::ChildScheduled(_)
                | EventKind::ChildScheduleFailed(_)
                | EventKind::ChildStarted(_)
                | EventKind::ChildSuccess(_)
                | EventKind::ChildFailed(_)
                | EventKind::ChildTimedOut(_)
                | EventKind::ChildCanceled(_)
                | EventKind::ChildTerminated(_)
                | EventKind::ExternalSignalScheduled(_)
                | EventKind::ExternalSignalDelivered(_)
                | EventKind::ExternalSignalFailed(_)
                | EventKind::ExternalCancelScheduled(_)
                | EventKind::ExternalCancelDelivered(_)
                | EventKind::ExternalCancelFailed(_)
                | EventKind::ActivityPaused(_)
                | EventKind::ActivityResumed(_)
                | EventKind::ActivityRetried(_)
                | EventKind::ActivityOptionsChanged(_)
                | EventKind::WorkflowPaused(_)
                | EventKind::WorkflowResumed(_)
                | EventKind::WorkflowReset(_) => continue,
            };
            recorded.insert(id, (event.id, end));
        }
        for answer in &self.answers {
            let end = match answer.verdict {
                Verdict::Rejected { .. } => continue,
                Verdict::Done { .. } => UpdateEnd::Completed,
                Verdict::Failed { .. } => UpdateEnd::Failed,
                Verdict::Later => UpdateEnd::Open,
            };
            let id = answer.update_id.as_str();
            let found = recorded.remove(id);
            if found.map(|(_, end)| end) != Some(end) {
                let expected = found.map_or("nothing about it".to_owned(), |(_, end)| end.describe(id));
                return Some(UpdateMismatch {
                    event_id: found.map(|(event_id, _)| event_id),
                    expected,
                    found: end.describe(id),
                });
            }
        }
        let (id, (event_id, end)) = recorded.into_iter().next()?;
        Some(UpdateMismatch {
            event_id: Some(event_id),
            expected: end.describe(id),
            found: format!("nothing about update `{id}`"),
        })
    }
}

/// First difference between the recorded events about updates and the code's answers, described for people.
pub(super) struct UpdateMismatch {
    /// Id of the event that differs, if the history has such an event.
    pub(super) event_id: Option<u64>,
    /// Recorded event.
    pub(super) expected: String,
    /// Answer of the code.
    pub(super) found: String,
}

/// State of an accepted update at the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpdateEnd {
    Open,
    Completed,
    Failed,
}

impl UpdateEnd {
    /// Describes the event that records this state, in an error message.
    fn describe(self, update_id: &str) -> String {
        let event = match self {
            Self::Open => "UpdateAccepted",
            Self::Completed => "UpdateCompleted",
            Self::Failed => "UpdateFailed",
        };
        format!("{event} `{update_id}`")
    }
}

/// Returns whether an event concerns an update.
pub(super) fn is_about_update(event: &Event) -> bool {
    matches!(event.kind, EventKind::UpdateAccepted(_) | EventKind::UpdateCompleted(_) | EventKind::UpdateFailed(_))
}

/// Returns the updates that a turn accepted.
pub(super) fn accepted(events: &[Event]) -> Vec<Update> {
    let accepted = |event: &Event| match &event.kind {
        EventKind::UpdateAccepted(it) => Some(Update {
            id: it.update_id.clone(),
            name: it.name.clone(),
            input: it.input.clone(),
            identity: it.identity.clone(),
        }),
        _ => None,
    };
    events.iter().filter_map(accepted).collect()
}
