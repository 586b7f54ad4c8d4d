//! Writes a commit at most once, even if the store cannot report the outcome of a write. `after.rs` computes the
//! consequences of a commit.

use std::time::Duration;

use bytes::Bytes;
use history::{EventId, Timestamp, Transition};
use store::{Cas, Expect, Head, HeadKey, PartKey};
use tokio::time::Instant;

use crate::commit::{self, Draft, LATE_OFFERS, Prepared, StoredRun};
use crate::run::after::{self, CommitCounts, MadeWith, facts, notice};
use crate::run::context::RunContext;
use crate::run::worker::RunWorker;
use crate::{Refusal, lists::backlog};

/// Maximum number of attempts for a commit that conflicts with other commits or that the store did not apply.
const ATTEMPTS_MAX: u32 = 8;

/// Pause after the first attempt that the store did not apply. The pause doubles after each further attempt.
const ATTEMPT_WAIT: Duration = Duration::from_millis(20);

/// Maximum pause after the second conflict with another commit. The maximum doubles after each further conflict. The
/// actual pause is random, so that competing nodes do not collide again. There is no pause after the first conflict,
/// because most conflicts are between two nodes only.
const RACE_WAIT: Duration = Duration::from_millis(5);

/// Outcome of a commit.
enum CommitOutcome {
    /// The store has exactly this commit.
    Applied,
    /// The store has this newer state. Either it includes the commit, or it belongs to a later run of the workflow id
    /// that was started after the commit.
    AppliedThenSuperseded(Box<StoredRun>),
    /// The store does not have the commit and will never have it, because it has a conflicting commit.
    Conflict,
    /// The store has neither the commit nor a conflicting commit. The commit can be retried.
    NotApplied,
}

impl RunWorker<'_> {
    /// Commits a transition. In the same commit, starts its new tasks for which pollers wait (sync match). Returns
    /// `None` if nothing was committed because the store may have a newer state. The requests must then be admitted
    /// again, in the newer state.
    pub(crate) async fn write(
        &mut self,
        mut transition: Transition,
        last_event_id: EventId,
        waited_before: EventId,
        attempt: &mut u32,
    ) -> Result<Option<()>, Refusal> {
        let (context, key) = (self.context, self.key);
        let now = context.clock.now();
        let spilled = transition.spill(self.committed(&transition), now, context.marks.past());
        if let Err(refusal) = context.marks.keep_marks(key, &spilled).await {
            self.state.forget();
            return Err(refusal);
        }
        let (reserved, unmatched) =
            context.lists.match_new_tasks(key, &mut transition, last_event_id, waited_before, now);
        let recorded = transition.events().len();
        let before = self.state.known().map(StoredRun::run);
        let facts = facts::of_transition(before, &transition);
        let spans = context.traces.ended(before, &transition);
        let notice = notice::of_transition(before, &transition);
        let began = Instant::now();
        let base = self.state.known();
        let (op, Prepared { mut next, parts }) =
            context.lay_out(key, base, transition, unmatched.is_empty(), now).await;
        let round = next.body.links.outbox.round();
        let replaced = base.filter(|base| base.head.run != next.head.run).map(commit::replaced);
        let expect = match (base, &replaced) {
            (_, Some(replaced)) => Expect::Replacing(replaced),
            (Some(base), None) => Expect::Exactly { run: base.head.run, version: base.head.version },
            (None, None) => Expect::Absent,
        };
        match context.commit_until_known(key, expect, &next.head, &parts, op, attempt).await {
            Ok(CommitOutcome::Conflict) => {
                context.apply_after_failure(key, after::of_failure(reserved, None));
                self.state.forget();
                context.lost_race(key, recorded, attempt).await.map(|()| None)
            }
            Ok(CommitOutcome::NotApplied) => {
                context.apply_after_failure(key, after::of_failure(reserved, None));
                self.state.forget();
                Ok(None)
            }
            Ok(outcome) => {
                let run_id = next.run().started.run_id;
                if let CommitOutcome::AppliedThenSuperseded(found) = outcome {
                    next = *found;
                }
                let (marks_written, forgotten_early) = (spilled.marks.len(), spilled.forgotten_early);
                let counts =
                    CommitCounts { events: recorded, took: began.elapsed(), facts, marks_written, forgotten_early };
                let made = MadeWith { run_id, counts: Box::new(counts), spans, notice, reserved, unmatched, round };
                let after = after::of_commit(key, base, &next, made, context.clock.now());
                context.apply_after(key, &next, after);
                self.state.replace(next);
                Ok(Some(()))
            }
            Err(refusal) => {
                context.apply_after_failure(key, after::of_failure(reserved, Some(&refusal)));
                self.state.forget();
                Err(refusal)
            }
        }
    }

    /// Returns the id of the newest event of the transition's run that is known to be in the store.
    fn committed(&self, transition: &Transition) -> EventId {
        let run_id = transition.run().started.run_id;
        let same_run = self.state.known().map(StoredRun::run).filter(|base| base.started.run_id == run_id);
        same_run.map_or(0, |base| base.last_event_id)
    }
}

impl RunContext {
    /// Prepares a commit: selects its operation id and the time of the next wake. A transition without changes results
    /// from a wake of a run whose tasks are still waiting.
    async fn lay_out(
        &self,
        key: &HeadKey,
        base: Option<&StoredRun>,
        transition: Transition,
        are_all_matched: bool,
        now: Timestamp,
    ) -> (u64, Prepared) {
        let (only_looks, copied) = (!transition.is_changed(), transition.copied());
        let (run, links, events) = transition.into_all();
        let offers = match base {
            Some(base) if only_looks => Box::pin(self.offers_after(key, base, now)).await,
            Some(base) if are_all_matched && !backlog::has_new_waiting_task(base.run(), &run) => base.body.offers,
            _ => 0,
        };
        let heartbeats = base.map(|base| base.heartbeats.as_slice()).unwrap_or_default();
        let stopped = self.lists.stopped(&key.domain);
        let due = self.due_to_store(base, commit::due(&run, &links, heartbeats, offers, &stopped, now), now);
        let op = self.ids.op();
        let draft = Draft { base, run, links, events, copied, offers, op, due };
        let mut prepared = commit::prepare(draft, &self.limits, |head| self.store.weight(key, head));
        let next = &mut prepared.next;
        let kept_until =
            next.body.run.closed_at.and_then(|at| self.newest.kept_until(at, next.body.run.started.retention));
        next.head.expires_at = next.head.expires_at.map(|at| kept_until.map_or(at, |until| at.max(until.as_millis())));
        (op, prepared)
    }

    /// Pauses briefly after a conflict with another node's commit. Fails if there were too many conflicts.
    async fn lost_race(&self, key: &HeadKey, recorded: usize, attempt: &mut u32) -> Result<(), Refusal> {
        self.metrics.conflicts.inc();
        tracing::debug!(workflow_id = %key.workflow_id, recorded, attempt, "a concurrent write to this run was first");
        *attempt += 1;
        if *attempt >= ATTEMPTS_MAX {
            let why = "too many concurrent writes to this run".to_owned();
            return Err(Refusal::Unavailable { why, retry_after: None });
        }
        if *attempt > 1 {
            tokio::time::sleep(self.ids.up_to(RACE_WAIT * 2_u32.saturating_pow(*attempt - 2))).await;
        }
        Ok(())
    }

    /// Commits until the outcome is known. If the outcome of a write is unknown, tries exactly the same commit again. A
    /// commit names the version that it follows, so the store applies it at most once, even if the first write arrives
    /// late.
    async fn commit_until_known(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
        op: u64,
        attempt: &mut u32,
    ) -> Result<CommitOutcome, Refusal> {
        let mut doubt: Option<String> = None;
        loop {
            let wait = match self.store.commit(key, expect.clone(), head, parts).await {
                Ok(Cas::Won) => return Ok(CommitOutcome::Applied),
                Ok(Cas::Lost(_)) if self.limits.op_ids == 0 => return Ok(CommitOutcome::Conflict),
                // The conflicting commit may be this commit: an earlier attempt, or a retry by the store's client
                // library, may have been applied. Other nodes may have written further commits on top of it.
                Ok(Cas::Lost(_)) => match Box::pin(self.find_op(key, op)).await {
                    Ok(Some(found)) => return Ok(CommitOutcome::AppliedThenSuperseded(Box::new(found))),
                    Ok(None) => return Ok(CommitOutcome::Conflict),
                    Err(refusal) => {
                        doubt.get_or_insert_with(|| refusal.to_string());
                        None
                    }
                },
                Err(store::Error::Unknown { why }) => {
                    doubt = Some(why);
                    None
                }
                Err(store::Error::NotApplied { why, retry_after }) => {
                    if doubt.is_none() && *attempt + 1 >= ATTEMPTS_MAX {
                        return Err(Refusal::Unavailable { why, retry_after });
                    }
                    retry_after
                }
                Err(error) if doubt.is_none() => return Err(error.into()),
                Err(_) => None,
            };
            if let Some(why) = doubt.as_ref().filter(|_| *attempt + 1 >= ATTEMPTS_MAX) {
                return Err(Refusal::OutcomeUnknown { why: why.clone() });
            }
            tokio::time::sleep(wait.unwrap_or(ATTEMPT_WAIT * 2_u32.saturating_pow(*attempt))).await;
            *attempt += 1;
            if doubt.is_none() {
                // No write of this commit can still be in progress. The store's state may have changed, so the requests
                // are admitted again.
                return Ok(CommitOutcome::NotApplied);
            }
        }
    }

    /// Returns the number of times that the waiting tasks of a run have been offered to their lists, including the
    /// current offer. The pauses between offers grow with this number. Before the pauses become long, writes rows for
    /// the run to the backlog. If the rows cannot be written, limits the number so that the pauses remain short.
    async fn offers_after(&self, key: &HeadKey, base: &StoredRun, now: Timestamp) -> u32 {
        let offers = base.body.offers.saturating_add(1);
        if offers < LATE_OFFERS || self.lists.write_down(key, base.run(), now).await { offers } else { LATE_OFFERS - 1 }
    }

    /// Returns the due time to store. If the stored time is early enough and a change would cost an additional write,
    /// returns the stored time.
    fn due_to_store(&self, base: Option<&StoredRun>, need: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let stored = base.and_then(|base| base.head.due).map(Timestamp::from_millis);
        match (stored, need) {
            (Some(stored), Some(need)) if !self.limits.due_moves_are_cheap && now < stored && stored <= need => {
                Some(stored)
            }
            _ => need,
        }
    }

    /// Returns the run's state in the store if it contains the commit with this operation id. Called after a write of
    /// this commit had an unknown outcome.
    async fn find_op(&self, key: &HeadKey, op: u64) -> Result<Option<StoredRun>, Refusal> {
        let Some(head) = self.store.load(key).await? else {
            return Ok(None);
        };
        let mut loaded = Box::pin(self.reader.open_head(key, head)).await?;
        if !loaded.body.ops.contains(&op) {
            return Ok(None);
        }
        loaded.heartbeats = self.reader.read_heartbeats(key, loaded.run()).await?;
        Ok(Some(loaded))
    }
}
