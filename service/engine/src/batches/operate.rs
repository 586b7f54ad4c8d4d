//! Operation of a batch on one run.
//!
//! All operations except deletions have an idempotency key that is derived from the ids of the batch and of the run. A
//! repeated operation therefore has no second effect. A deletion needs no key: a run that no longer exists is deleted.

use history::event::{LaterSignals, OperatorAction};
use history::{Author, BatchAction, BatchOutcome, Branching, Command, EventId, RequestKey, ResetPoints, SelectedRun};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Batches;
use super::record::BatchRecord;
use crate::{Deletion, EventRange, Refusal, Reset, RunRef};

impl Batches {
    /// Performs the operation of a batch on a run. `is_repeat` is true if the operation may have been performed before.
    pub(super) async fn operate(
        &self,
        domain: &str,
        batch_id: Uuid,
        record: &BatchRecord,
        run: &SelectedRun,
        is_repeat: bool,
    ) -> BatchOutcome {
        let SelectedRun { workflow_id, run_id } = run;
        let at = RunRef { domain: domain.into(), workflow_id: workflow_id.as_str().into(), run_id: Some(*run_id) };
        let key = Some(key_of_run(batch_id, *run_id));
        let done = match record.batch.operation.r#type {
            BatchAction::Delete => self.delete_run(&at, record).await,
            BatchAction::Reset => self.reset_run(&at, record, key, is_repeat).await,
            BatchAction::RetryActivities
            | BatchAction::Pause
            | BatchAction::Resume
            | BatchAction::Signal
            | BatchAction::Cancel
            | BatchAction::Terminate => match command(record, key) {
                Some(command) => {
                    self.commands.submit_as(&at, command, Author::named(record.by.clone())).await.map(drop)
                }
                None => Err(Refusal::Corrupt { what: "a batch: its operation".to_owned() }),
            },
        };
        match done {
            Ok(()) => BatchOutcome::Done,
            Err(refusal) => {
                let (code, reason) = (refusal.code().to_owned(), refusal.to_string());
                if refusal.is_retryable() {
                    tracing::debug!(%refusal, workflow_id = %run.workflow_id, "an operation of a batch must wait");
                    BatchOutcome::Retry { code, reason }
                } else {
                    BatchOutcome::Refused { code, reason }
                }
            }
        }
    }

    async fn delete_run(&self, at: &RunRef, record: &BatchRecord) -> Result<(), Refusal> {
        let (reason, identity) = (record.batch.reason.clone(), record.batch.identity.clone());
        let deletion = Deletion { terminates: false, reason, identity, by: record.by.clone() };
        match self.commands.delete(at, &deletion).await {
            // An earlier attempt, or another caller, has deleted the run.
            Ok(_) | Err(Refusal::UnknownRun { .. } | Refusal::UnknownWorkflow { .. }) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Resets a run, if it is the newest of its workflow id. The reset of an earlier run would terminate the newest.
    async fn reset_run(
        &self,
        at: &RunRef,
        record: &BatchRecord,
        key: Option<RequestKey>,
        is_repeat: bool,
    ) -> Result<(), Refusal> {
        let newest = self.lookup.look_up(&RunRef { run_id: None, ..at.clone() }).await?;
        let current = newest.run().started.run_id;
        let continues = newest.run().branched.as_deref().map(|branched| branched.run_id);
        let run_id = at.run_id.unwrap_or(current);
        // If the reset is repeated, the newest run is the one that the first attempt has started.
        if current != run_id && !(is_repeat && continues == Some(run_id)) {
            return Err(Refusal::RunNotCurrent { workflow_id: at.workflow_id.to_string(), run_id, current });
        }
        let operation = &record.batch.operation;
        let event_id = self.reset_point(at, record).await?;
        let branching = Branching { event_id, signals: operation.signals.unwrap_or(LaterSignals::Reapply) };
        let reset = Reset { branching, operator: operator(record), key, by: record.by.clone() };
        self.commands.reset(at, reset).await.map(drop)
    }

    /// Returns the event from which the new run of a reset continues.
    async fn reset_point(&self, at: &RunRef, record: &BatchRecord) -> Result<EventId, Refusal> {
        let operation = &record.batch.operation;
        let to = match (operation.event_id, operation.to) {
            (Some(event_id), _) => return Ok(event_id),
            (None, Some(to)) => to,
            (None, None) => return Err(Refusal::Corrupt { what: "a batch: its operation".to_owned() }),
        };
        let mut points = ResetPoints::default();
        let mut range = EventRange { leaves_payloads_out: true, ..EventRange::default() };
        loop {
            let page = self.lookup.history(at, &range).await?;
            page.events.iter().for_each(|event| points.read(event));
            match page.next {
                Some(after) => range.after = after,
                None => return Ok(points.find(to)?),
            }
        }
    }
}

fn operator(record: &BatchRecord) -> OperatorAction {
    OperatorAction { identity: record.batch.identity.clone(), reason: record.batch.reason.clone() }
}

/// Returns the command of an operation; `None` if the operation is not a command.
fn command(record: &BatchRecord, key: Option<RequestKey>) -> Option<Command> {
    let operation = &record.batch.operation;
    let OperatorAction { identity, reason } = operator(record);
    Some(match operation.r#type {
        BatchAction::RetryActivities => {
            let failure_reason = operation.failure_reason.clone();
            Command::RetryActivities { failure_reason, operator: operator(record), key }
        }
        BatchAction::Pause => Command::Pause { stop_clocks: operation.stop_clocks, operator: operator(record), key },
        BatchAction::Resume => Command::Resume { operator: operator(record), key },
        BatchAction::Signal => {
            let (name, input) = (operation.name.clone()?, operation.input.clone());
            Command::Signal { name, input, identity, key, if_version: None }
        }
        BatchAction::Cancel => Command::RequestCancel { reason, identity, key },
        BatchAction::Terminate => Command::Terminate { reason, details: None, identity, key, child_policy: None },
        BatchAction::Reset | BatchAction::Delete => return None,
    })
}

/// Returns the idempotency key of a batch's operation on a run. It is the same on every node and for every attempt.
fn key_of_run(batch_id: Uuid, run_id: Uuid) -> RequestKey {
    let digest = Sha256::new()
        .chain_update("batch")
        .chain_update(batch_id.as_bytes())
        .chain_update(run_id.as_bytes())
        .finalize();
    RequestKey(u64::from_be_bytes(digest.first_chunk().copied().unwrap_or_default()))
}
