//! Check that a run may be retried.

use super::HistoryReader;
use super::rule::{Rule, Violation, broken, or_none};
use crate::event::{Event, EventKind, Successor, WorkflowTimeout};

impl HistoryReader {
    pub(super) fn check_retry(&self, event: &Event, reason: Option<&str>) -> Result<(), Violation> {
        let (Some(Successor { not_before, .. }), Some((start, started_at))) = (event.kind.followed_by(), &self.start)
        else {
            return Ok(());
        };
        let id = event.id;
        let Some(policy) = &start.retry else { return broken(Rule::Retry, id, "the run has no retry policy") };
        let attempt = start.attempt.unwrap_or(1);
        if !policy.allows_after(attempt) {
            return broken(
                Rule::Retry,
                id,
                format!("it was attempt {attempt} of {}", or_none(policy.maximum_attempts)),
            );
        }
        if let Some(reason) = reason.filter(|reason| !policy.retries(reason)) {
            return broken(Rule::Retry, id, format!("`{reason}` is not retryable"));
        }
        let first_turn_at = started_at.plus(start.start_after.unwrap_or_default());
        let (from, limit) = (start.execution_from.unwrap_or(first_turn_at), start.execution_timeout);
        let is_in_time = |at| self.clock.counted(from, at) < limit.as_millis();
        let is_execution =
            matches!(&event.kind, EventKind::WorkflowTimedOut(it) if it.timeout == WorkflowTimeout::Execution);
        match not_before {
            Some(at) if !is_execution && event.at() <= at && is_in_time(at) => Ok(()),
            other => {
                let next = or_none(other);
                broken(Rule::Retry, id, format!("the next attempt is at {next}, but all must end {limit} after {from}"))
            }
        }
    }
}
