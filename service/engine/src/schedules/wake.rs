//! Wake of a schedule: reads the state of the runs that the schedule has started, decides which actions are due, and
//! executes them.
//!
//! A decision is stored before it is executed (ADR 14). If a node stops between these steps, the record still lists the
//! action as being started, and the schedule is in the due index. The next node starts the action with the same
//! idempotency key, so the action is started only once.

use futures_util::future::join_all;
use history::{Action, Command, ObservedRun, OverlapEnd, RequestKey, Running, ScheduleState, Scheduled, Timestamp};
use sha2::{Digest, Sha256};
use store::HeadKey;
use uuid::Uuid;

use super::Scheduler;
use super::record::ScheduleRecord;
use crate::base::records::domain_of_schedule;
use crate::{Refusal, RunRef};

/// Maximum number of rounds of a wake. In a round, up to sixteen actions are decided and started, or the round ends
/// with a conflict with another node. Our choice.
const ROUNDS_MAX: u32 = 1_000;

/// Recorded reason for the termination of a run that the schedule's next action replaces.
const REPLACED: &str = "replaced by the schedule's next action";

/// Result of an executed action, which must be stored in the record.
enum ActionDone {
    Started(u64, Result<(String, Uuid), String>),
    PutOff(u64, &'static str),
    Told(u64, OverlapEnd),
}

impl Scheduler {
    /// Wakes a schedule and executes the actions that are due.
    ///
    /// # Errors
    ///
    /// An error of the store. The schedule is still in the due index, so the remaining actions are executed later.
    pub(crate) async fn wake(&self, key: &HeadKey) -> Result<(), Refusal> {
        self.runs.leave_to_home(key).await;
        let Some(domain) = domain_of_schedule(key) else { return Ok(()) };
        let mut done: Vec<ActionDone> = Vec::new();
        for round in 0..ROUNDS_MAX {
            let Some(head) = self.store.load(key).await? else {
                self.agenda.set(key, None);
                return Ok(());
            };
            let mut record = ScheduleRecord::decode(&head)?;
            let (rules, times, now) = (record.schedule.rules(), record.times()?, self.clock.now());
            let id = Uuid::from_bytes(head.run);
            let before = record.state.clone();
            let observed_runs = self.observed_runs(domain, &record.state).await?;
            record.state.observe(rules, &observed_runs, now);
            for it in &done {
                match it {
                    ActionDone::Started(number, result) => record.state.started(*number, result.clone()),
                    ActionDone::PutOff(number, why) => record.state.put_off(*number, why),
                    ActionDone::Told(number, how) => record.state.mark_end_delivered(*number, *how),
                }
            }
            record.state.step(rules, &times, id, now, &[]);
            let has_changed = record.state != before;
            let is_due = head.due.is_some_and(|due| due <= now.as_millis());
            if !has_changed && is_due {
                record.state.looks = record.state.looks.saturating_add(1);
            }
            if has_changed || is_due {
                if !self.write_schedule(key, &head, &record, now).await? {
                    continue;
                }
                self.metrics.scheduled(&before.counts, &record.state.counts);
                done.clear();
            } else {
                self.agenda.set(key, head.due.map(Timestamp::from_millis));
            }
            // Nothing was decided in this round. Only actions that failed in the previous round are left, and they must
            // wait for the next wake.
            if !has_changed && round > 0 {
                return Ok(());
            }
            done = self.act(domain, &key.workflow_id, id, &record).await;
            if done.is_empty() && record.state.requested.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the current state of a schedule's runs, in the order of `state.running`.
    pub(super) async fn observed_runs(&self, domain: &str, state: &ScheduleState) -> Result<Vec<ObservedRun>, Refusal> {
        join_all(state.running.iter().map(|run| self.observed_run(domain, run))).await.into_iter().collect()
    }

    async fn observed_run(&self, domain: &str, run: &Running) -> Result<ObservedRun, Refusal> {
        let Some(loaded) = self.runs.stored(&HeadKey::new(domain, &*run.workflow_id)).await? else {
            return Ok(ObservedRun::Gone);
        };
        let (found, started) = (loaded.run(), &loaded.run().started);
        let goes_on_for_it = started.schedule.as_ref().is_some_and(|schedule| schedule.action == run.number);
        Ok(match found.closed_at {
            _ if started.run_id != run.run_id && !goes_on_for_it => ObservedRun::Gone,
            Some(at) if !found.has_successor() => ObservedRun::Closed(found.status, at),
            _ => ObservedRun::Open,
        })
    }

    /// Starts and ends runs as the record requires, and returns the results.
    async fn act(&self, domain: &str, schedule_id: &str, id: Uuid, record: &ScheduleRecord) -> Vec<ActionDone> {
        let ends = record.state.undelivered_ends().map(async |run| self.end(domain, id, run).await);
        let ended = join_all(ends).await;
        let starts = record.state.starting.iter().map(async |action| {
            let started = self.start_action(domain, schedule_id, id, record, action).await;
            match started {
                Ok(started) => ActionDone::Started(action.number, Ok(started)),
                Err(refusal) if refusal.is_retryable() => {
                    tracing::warn!(%refusal, %schedule_id, "an action of a schedule is postponed");
                    ActionDone::PutOff(action.number, refusal.code())
                }
                Err(refusal) => ActionDone::Started(action.number, Err(refusal.code().to_owned())),
            }
        });
        let started = join_all(starts).await;
        ended.into_iter().flatten().chain(started).collect()
    }

    async fn start_action(
        &self,
        domain: &str,
        schedule_id: &str,
        id: Uuid,
        record: &ScheduleRecord,
        action: &Action,
    ) -> Result<(String, Uuid), Refusal> {
        let (asked, key) = (record.schedule.action_at(action.nominal), key_of_action(id, action.number, "start"));
        let mut start = self.commands.start_of(domain, asked, Some(key)).await?;
        let (schedule_id, nominal_time) = (schedule_id.to_owned(), action.nominal);
        start.schedule = Some(Scheduled { schedule_id, action: action.number, nominal_time });
        let workflow_id = start.workflow_id.clone();
        let started = self.commands.start(domain, start).await?;
        Ok((workflow_id, started.run_id))
    }

    /// Ends a run. A repeated call has no further effect.
    async fn end(&self, domain: &str, id: Uuid, run: &Running) -> Option<ActionDone> {
        let how = run.end?;
        let (reason, identity) = (Some(REPLACED.to_owned()), None);
        let command = match how {
            OverlapEnd::Canceled => {
                Command::RequestCancel { reason, identity, key: Some(key_of_action(id, run.number, "cancel")) }
            }
            OverlapEnd::Terminated => {
                let key = Some(key_of_action(id, run.number, "terminate"));
                Command::Terminate { reason, details: None, identity, key, child_policy: None }
            }
        };
        let at = RunRef { domain: domain.into(), workflow_id: run.workflow_id.as_str().into(), run_id: None };
        match self.commands.submit(&at, command).await {
            Err(refusal) if refusal.is_retryable() => {
                tracing::warn!(
                    %refusal, workflow_id = %run.workflow_id,
                    "a run of a schedule could not be ended; it is retried"
                );
                None
            }
            // The run has already closed, so it need not be ended.
            _ => Some(ActionDone::Told(run.number, how)),
        }
    }
}

/// Returns the idempotency key for executing an action. It is the same on every node and for every attempt.
fn key_of_action(id: Uuid, number: u64, what: &str) -> RequestKey {
    let digest =
        Sha256::new().chain_update(id.as_bytes()).chain_update(number.to_be_bytes()).chain_update(what).finalize();
    RequestKey(u64::from_be_bytes(digest.first_chunk().copied().unwrap_or_default()))
}
