//! Definition of a batch, as a user requests it, and its validation.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::event::{EventId, LaterSignals};
use crate::fault::{Fault, Unit};
use crate::limits::{self, BATCH_IDS_MAX};
use crate::payload::Payload;
use crate::reset::ResetTo;
use crate::run::RunCondition;
use crate::time::Timestamp;
use crate::{bounded, validate};

/// Kind of operation of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BatchAction {
    /// Retry all activities of the run that are blocked or wait for their next attempt.
    RetryActivities,
    /// Pause the run.
    Pause,
    /// Resume the run.
    Resume,
    /// Send a signal to the run.
    Signal,
    /// Ask the run's decider to cancel the run.
    Cancel,
    /// Terminate the run.
    Terminate,
    /// Start a new run that continues from an event of the run.
    Reset,
    /// Delete the closed run.
    Delete,
}

impl BatchAction {
    /// All kinds of operations.
    pub const ALL: [Self; 8] = [
        Self::RetryActivities,
        Self::Pause,
        Self::Resume,
        Self::Signal,
        Self::Cancel,
        Self::Terminate,
        Self::Reset,
        Self::Delete,
    ];

    /// Returns the word used in requests and in stores.
    pub const fn word(self) -> &'static str {
        match self {
            Self::RetryActivities => "retry-activities",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Signal => "signal",
            Self::Cancel => "cancel",
            Self::Terminate => "terminate",
            Self::Reset => "reset",
            Self::Delete => "delete",
        }
    }

    /// Returns the kind of operation with this word, or `None` if there is none.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.word() == word)
    }

    /// Returns whether the operation needs open runs (`Some(true)`), closed runs (`Some(false)`), or works on both.
    pub const fn needs_open(self) -> Option<bool> {
        match self {
            Self::RetryActivities | Self::Pause | Self::Resume | Self::Signal | Self::Cancel | Self::Terminate => {
                Some(true)
            }
            Self::Delete => Some(false),
            Self::Reset => None,
        }
    }
}

/// Operation of a batch on each selected run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchedOperation {
    /// Kind of operation.
    pub r#type: BatchAction,
    /// Only activities whose last failure has this reason. Only for `retry-activities`.
    pub failure_reason: Option<String>,
    /// Name of the signal. Only for `signal`, which needs it.
    pub name: Option<String>,
    /// Input of the signal. Only for `signal`.
    #[serde(default, deserialize_with = "crate::payload::present")]
    pub input: Option<Payload>,
    /// True if timers and timeouts of the run stop as well. Only for `pause`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_clocks: bool,
    /// Last event that the new run copies from the old run. Only for `reset`, which needs `to` or `eventId`.
    pub to: Option<ResetTo>,
    /// Id of the last event that the new run copies from the old run; the same id is used for all runs of the batch.
    /// Only for `reset`.
    pub event_id: Option<EventId>,
    /// Treatment of signals that the old run received after the last copied event; `reapply` when absent. Only for
    /// `reset`.
    pub signals: Option<LaterSignals>,
}

impl BatchedOperation {
    /// Returns an operation of this kind without further members.
    pub const fn of(action: BatchAction) -> Self {
        Self {
            r#type: action,
            failure_reason: None,
            name: None,
            input: None,
            stop_clocks: false,
            to: None,
            event_id: None,
            signals: None,
        }
    }

    fn check(&self) -> Result<(), Fault> {
        let action = self.r#type;
        let invalid =
            |field: &str, problem: String| Err(Fault::Invalid { field: format!("operation.{field}"), problem });
        for (member, is_given, of) in [
            ("failureReason", self.failure_reason.is_some(), BatchAction::RetryActivities),
            ("name", self.name.is_some(), BatchAction::Signal),
            ("input", self.input.is_some(), BatchAction::Signal),
            ("stopClocks", self.stop_clocks, BatchAction::Pause),
            ("to", self.to.is_some(), BatchAction::Reset),
            ("eventId", self.event_id.is_some(), BatchAction::Reset),
            ("signals", self.signals.is_some(), BatchAction::Reset),
        ] {
            if is_given && action != of {
                let problem = format!("is only for `{}`, and the operation is `{}`; omit it", of.word(), action.word());
                return invalid(member, problem);
            }
        }
        match action {
            BatchAction::Signal => {
                let Some(name) = &self.name else {
                    return invalid("name", "is missing, expected the name of the signal".to_owned());
                };
                validate::name("operation.name", name)?;
                validate::payload("operation.input", self.input.as_ref())
            }
            BatchAction::Reset if self.to.is_some() == self.event_id.is_some() => {
                invalid("to", "or `eventId` must be given, and not both".to_owned())
            }
            BatchAction::Reset if self.event_id == Some(0) => {
                invalid("eventId", "is 0, expected an event id from 1".to_owned())
            }
            BatchAction::RetryActivities
            | BatchAction::Pause
            | BatchAction::Resume
            | BatchAction::Cancel
            | BatchAction::Terminate
            | BatchAction::Reset
            | BatchAction::Delete => Ok(()),
        }
    }
}

/// Filter of the runs of a batch. All conditions must hold.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BatchFilter {
    /// Only runs with this status: `open`; `closed`; a state of open runs (`paused`, `blocked`, `stuck`, `failing`,
    /// `retrying` or `repeating`; if several apply, the first one counts); or an outcome (`success`, `failed`,
    /// `canceled`, `timed-out`, `terminated` or `continued-as-new`). When absent, `delete` selects closed runs, and the
    /// other operations select open runs. The operation `reset` requires a status.
    pub status: Option<String>,
    /// Only runs of this workflow type.
    pub r#type: Option<String>,
    /// Only runs of this workflow id.
    pub workflow_id: Option<String>,
    /// Only runs whose workflow id has this prefix.
    pub workflow_id_prefix: Option<String>,
    /// Only runs of these workflow ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<BATCH_IDS_MAX, _, _>")]
    #[cfg_attr(feature = "schema", schemars(length(max = BATCH_IDS_MAX)))]
    pub workflow_ids: Vec<String>,
    /// Only runs with this tag.
    pub tag: Option<String>,
    /// Only runs that closed with this `reason` (exact match).
    pub reason: Option<String>,
    /// Only runs that started at or after this time.
    pub started_from: Option<Timestamp>,
    /// Only runs that started before this time. Runs that start after the creation of the batch are never selected.
    pub started_before: Option<Timestamp>,
    /// Only runs that closed at or after this time.
    pub closed_from: Option<Timestamp>,
    /// Only runs that closed before this time.
    pub closed_before: Option<Timestamp>,
}

impl BatchFilter {
    fn check(&self, action: BatchAction) -> Result<(), Fault> {
        let invalid = |field: &str, problem: String| Err(Fault::Invalid { field: format!("filter.{field}"), problem });
        let is_open = match self.status.as_deref() {
            None if action == BatchAction::Reset => {
                let problem = "is missing; a batch of resets needs a status, for example `failed`".to_owned();
                return invalid("status", problem);
            }
            None => action.needs_open(),
            Some("closed") => Some(false),
            Some(word) => match RunCondition::from_word(word) {
                Some(condition) => Some(condition.is_open()),
                None => {
                    let problem = format!("is `{word}`, expected `open`, `closed`, a state or an outcome of runs");
                    return invalid("status", problem);
                }
            },
        };
        if let (Some(needed), Some(selected)) = (action.needs_open(), is_open)
            && needed != selected
        {
            let (needed, selected) = if needed { ("open", "closed") } else { ("closed", "open") };
            let problem = format!(
                "selects {selected} runs, and `{}` needs {needed} runs; choose another status or operation",
                action.word()
            );
            return invalid("status", problem);
        }
        if self.workflow_ids.len() > BATCH_IDS_MAX {
            let problem = format!("has more than {BATCH_IDS_MAX} entries; use several batches, or another filter");
            return invalid("workflowIds", problem);
        }
        if !self.workflow_ids.is_empty() && self.workflow_id.is_some() {
            return invalid("workflowId", "cannot be combined with `workflowIds`; omit one of them".to_owned());
        }
        for id in self.workflow_ids.iter().chain(&self.workflow_id) {
            validate::name("filter.workflowIds", id)?;
        }
        let distinct: std::collections::BTreeSet<&String> = self.workflow_ids.iter().collect();
        if distinct.len() < self.workflow_ids.len() {
            return invalid("workflowIds", "names a workflow id more than once".to_owned());
        }
        Ok(())
    }
}

/// Definition of a batch.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Operation on each run.
    pub operation: BatchedOperation,
    /// Filter of the runs.
    pub filter: BatchFilter,
    /// Reason, which the histories of the runs record.
    pub reason: Option<String>,
    /// Identity of the operator, which the histories of the runs record.
    pub identity: Option<String>,
}

impl Batch {
    /// Validates the definition.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] that describes the mistake.
    pub fn check(&self) -> Result<(), Fault> {
        let (identity, reason) = (self.identity.clone(), self.reason.clone());
        validate::operator(&crate::event::OperatorAction { identity, reason })?;
        self.operation.check()?;
        self.filter.check(self.operation.r#type)?;
        let found = serde_json::to_vec(self).map_or(usize::MAX, |bytes| bytes.len());
        let max = limits::BATCH_BYTES_MAX;
        if found > max {
            return Err(Fault::TooLarge { field: "batch".to_owned(), found, max, unit: Unit::Bytes });
        }
        Ok(())
    }
}

/// Checks a pace.
///
/// # Errors
///
/// Returns a [`Fault`] if the pace is not within its limits.
pub fn check_pace(pace: u32) -> Result<(), Fault> {
    if (1..=limits::BATCH_PACE_MAX).contains(&pace) {
        return Ok(());
    }
    let problem = format!("is {pace}, expected 1 to {} runs per second", limits::BATCH_PACE_MAX);
    Err(Fault::Invalid { field: "pace".to_owned(), problem })
}
