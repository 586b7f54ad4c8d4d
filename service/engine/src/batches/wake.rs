//! Wake of a batch: makes the step that is due.
//!
//! A step stores the selected runs as a plan, together with the position of the next page, before it operates on them.
//! If a node stops in between, the next node finds the plan and operates on the same runs with the same idempotency
//! keys. The outcomes of a plan are stored with the number of the plan, so that they are counted once, even if two
//! nodes operate on it.

use futures_util::future::join_all;
use history::{BatchOutcome, BatchPlan, BatchStep, SelectedRun, Timestamp};
use store::{Head, HeadKey};
use uuid::Uuid;

use super::record::BatchRecord;
use super::{Batches, TRIES_MAX, contended, select};
use crate::Refusal;
use crate::base::records::domain_of_batch;

/// Number of runs on which a step operates concurrently. Our choice.
const OPERATIONS_AT_ONCE: usize = 16;

impl Batches {
    /// Wakes a batch and makes the step that is due.
    ///
    /// # Errors
    ///
    /// An error of the store. The due index still lists the batch, so the step is repeated later.
    pub(crate) async fn wake(&self, key: &HeadKey) -> Result<(), Refusal> {
        self.runs.leave_to_home(key).await;
        let Some(domain) = domain_of_batch(key) else { return Ok(()) };
        let Some(busy) = self.busy.begin(key) else {
            // The step in progress may have read the batch before the change because of which it is woken.
            self.agenda.wake_again(key, self.clock.now());
            return Ok(());
        };
        let due = self.make_step(domain, key).await?;
        // A wake that comes while the batch is busy makes no step, so the next one is put on the agenda only now.
        drop(busy);
        self.agenda.set(key, due);
        Ok(())
    }

    /// Makes the step that is due, and returns the time of the next one.
    async fn make_step(&self, domain: &str, key: &HeadKey) -> Result<Option<Timestamp>, Refusal> {
        let mut planned = None;
        for _ in 0..TRIES_MAX {
            let Some(head) = self.store.load(key).await? else { return Ok(None) };
            let mut record = BatchRecord::decode(&head)?;
            let now = self.clock.now();
            match record.state.step(now) {
                BatchStep::Rest => return Ok(None),
                BatchStep::Wait(at) => return Ok(Some(at)),
                BatchStep::Read { limit } => {
                    // Runs that start later are not selected, so that the batch ends.
                    let until = Timestamp::from_millis(record.created_at.as_millis().saturating_add(1));
                    let query = select::query(domain, &record.batch, Some(until), limit);
                    let ids = &record.batch.filter.workflow_ids;
                    let selection = select::read(&*self.store, &query, ids, &record.state.cursor).await?;
                    record.state.plan(selection.into_page(), now);
                    if let Some(head) = self.write(key, &head, &record).await? {
                        planned = record.state.plan.as_ref().map(|plan| plan.number);
                        if planned.is_none() {
                            return Ok(head.due.map(Timestamp::from_millis));
                        }
                    }
                }
                BatchStep::Operate => {
                    let Some(plan) = record.state.plan.clone() else { return Ok(None) };
                    // If another wake has stored the plan, it may have operated on some of the runs.
                    let is_repeat = planned != Some(plan.number);
                    let outcomes = self.operate_on_all(domain, &head, &record, &plan, is_repeat).await;
                    return self.store_outcomes(key, plan.number, &outcomes).await;
                }
            }
        }
        Err(contended())
    }

    async fn operate_on_all(
        &self,
        domain: &str,
        head: &Head,
        record: &BatchRecord,
        plan: &BatchPlan,
        is_repeat: bool,
    ) -> Vec<(SelectedRun, BatchOutcome)> {
        let (batch_id, mut outcomes) = (Uuid::from_bytes(head.run), Vec::with_capacity(plan.runs.len()));
        for runs in plan.runs.chunks(OPERATIONS_AT_ONCE) {
            let operate = |run: &SelectedRun| {
                let run = run.clone();
                async move {
                    let outcome = self.operate(domain, batch_id, record, &run, is_repeat).await;
                    (run, outcome)
                }
            };
            outcomes.extend(join_all(runs.iter().map(operate)).await);
        }
        outcomes
    }

    /// Stores the outcomes of a plan, and keeps other changes of the batch. Returns the time of the next step.
    async fn store_outcomes(
        &self,
        key: &HeadKey,
        number: u64,
        outcomes: &[(SelectedRun, BatchOutcome)],
    ) -> Result<Option<Timestamp>, Refusal> {
        for _ in 0..TRIES_MAX {
            let Some(head) = self.store.load(key).await? else { return Ok(None) };
            let mut record = BatchRecord::decode(&head)?;
            let stored = if record.state.apply(number, outcomes.to_vec(), self.clock.now()) {
                self.write(key, &head, &record).await?
            } else {
                Some(head)
            };
            if let Some(head) = stored {
                return Ok(head.due.map(Timestamp::from_millis));
            }
        }
        Err(contended())
    }
}
