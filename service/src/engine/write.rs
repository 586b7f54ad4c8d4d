//! Writing a commit: once at most whatever the store says of it, and what follows from it once it is durable.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use history::{EventId, Timestamp, Transition};
use store::{Cas, Expect, Head, HeadKey, PartKey};

use super::cell::{RunCell, State};
use super::commit::{self, Draft, LATE_OFFERS, Loaded, Prepared};
use super::{Engine, Refusal, backlog};

/// How often a commit that lost a race, or was not applied, is tried in all.
const ATTEMPTS_MAX: u32 = 8;

/// The wait after the first attempt that was not applied; doubled after each further one.
const ATTEMPT_WAIT: Duration = Duration::from_millis(20);

/// The longest wait after the second race that a commit lost; doubled after each further one. How long of it is drawn, so that
/// nodes that race for one run do not meet again; after the first race there is none, for most races are between two.
const RACE_WAIT: Duration = Duration::from_millis(5);

/// What became of a commit.
enum Landed {
    /// It is what the store has.
    Yes,
    /// It is in what the store has, this.
    AndMore(Box<Loaded>),
    /// It is not in the store, and never will be: something else is.
    No,
    /// It is not in the store, and nothing else is; there is time for another try.
    Later,
}

impl Engine {
    /// Commits a transition, with pollers that wait for the tasks it makes (sync match). `None`: try again on what the
    /// store has.
    pub(super) async fn write(
        self: &Arc<Self>,
        cell: &Arc<RunCell>,
        state: &mut State,
        mut transition: Transition,
        last_event_id: EventId,
        waited_before: EventId,
        attempt: &mut u32,
    ) -> Result<Option<()>, Refusal> {
        let now = self.clock.now().max(transition.run().last_timestamp);
        let committed = match state {
            State::Loaded(base) if base.run().started.run_id == transition.run().started.run_id => {
                base.run().last_event_id
            }
            State::Loaded(_) | State::Unloaded => 0,
        };
        let spilled = transition.spill(committed, now);
        if let Err(refusal) = self.keep_marks(&cell.key, &spilled).await {
            *state = State::Unloaded;
            return Err(refusal);
        }
        let (reserved, unmatched) = self.match_new_tasks(cell, &mut transition, last_event_id, waited_before, now);
        let (only_looks, copied) = (!transition.is_changed(), transition.copied());
        let (run, links, events) = transition.into_all();
        let base = match state {
            State::Loaded(loaded) => Some(&**loaded),
            State::Unloaded => None,
        };
        let offers = match base {
            Some(base) if only_looks => self.offers_after(&cell.key, base, now).await,
            Some(base) if unmatched.is_empty() && !backlog::waits_anew(base.run(), &run) => base.body.offers,
            _ => 0,
        };
        let beats = base.map(|base| base.beats.as_slice()).unwrap_or_default();
        let due = commit::due(&run, &links, beats, offers, now);
        let due = self.lazily(base, due, now);
        let (recorded, last) = (events.len(), events.last().map(|event| event.kind.name()));
        let op = self.ids.op();
        let draft = Draft { base, run, links, events, copied, offers, op, due };
        let weigh = |head: &Head| self.store.weight(&cell.key, head);
        let Prepared { mut next, parts } = commit::prepare(draft, &self.limits, weigh);
        let round = next.body.links.outbox.round();
        let owed_before = base.map(|base| base.body.links.outbox.clone()).unwrap_or_default();
        let replaced = base.filter(|base| base.head.run != next.head.run).map(commit::replaced);
        let expect = match (base, &replaced) {
            (_, Some(replaced)) => Expect::Replacing(replaced),
            (Some(base), None) => Expect::Exactly { run: base.head.run, version: base.head.version },
            (None, None) => Expect::Absent,
        };
        let landed = self.commit_surely(cell, expect, &next.head, &parts, op, attempt).await;
        match landed {
            Ok(Landed::No) => {
                self.unreserve(reserved, None);
                self.metrics.conflicts.inc();
                tracing::debug!(workflow_id = %cell.key.workflow_id, recorded, last, attempt, "another has written to this run");
                *state = State::Unloaded;
                *attempt += 1;
                if *attempt >= ATTEMPTS_MAX {
                    let why = "too many others write to this run".to_owned();
                    return Err(Refusal::Unavailable { why, retry_after: None });
                }
                if *attempt > 1 {
                    tokio::time::sleep(self.ids.up_to(RACE_WAIT * 2_u32.saturating_pow(*attempt - 2))).await;
                }
                Ok(None)
            }
            Ok(Landed::Later) => {
                self.unreserve(reserved, None);
                *state = State::Unloaded;
                Ok(None)
            }
            Ok(landed) => {
                if let Landed::AndMore(found) = landed {
                    next = *found;
                }
                self.metrics.committed(recorded);
                self.metrics.marks_written.inc_by(spilled.marks.len() as u64);
                self.metrics.requests_forgotten_early.inc_by(spilled.forgotten_early);
                if let Some(base) = base {
                    self.withdraw_ended(cell, base.run(), next.run());
                }
                next.beats.retain(|beat| next.body.run.activities.contains_key(&beat.scheduled_event_id));
                self.publish(cell, &next, reserved, unmatched);
                self.deliver(cell, &next, next.body.links.outbox.newly_ready(&owed_before), round);
                *state = State::Loaded(Box::new(next));
                Ok(Some(()))
            }
            Err(refusal) => {
                self.unreserve(reserved, Some(&refusal));
                // What was about to be started may have been, or may wait.
                self.look_again(&cell.key);
                *state = State::Unloaded;
                Err(refusal)
            }
        }
    }

    /// Commits until the store has said what became of it. Once an outcome was not known, it is the very same commit that
    /// is tried again: its version lets it land once at most, so that nothing is recorded twice by a write that was only
    /// late (STORAGE.md §3.7).
    async fn commit_surely(
        &self,
        cell: &RunCell,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
        op: u64,
        attempt: &mut u32,
    ) -> Result<Landed, Refusal> {
        let mut doubt: Option<String> = None;
        loop {
            let wait = match self.store.commit(&cell.key, expect.clone(), head, parts).await {
                Ok(Cas::Won) => return Ok(Landed::Yes),
                Ok(Cas::Lost(_)) if self.limits.op_ids == 0 => return Ok(Landed::No),
                // To an earlier try of our own, perhaps, or to a client library's, on which others may have built.
                Ok(Cas::Lost(_)) => match self.find_op(cell, op).await {
                    Ok(Some(found)) => return Ok(Landed::AndMore(Box::new(found))),
                    Ok(None) => return Ok(Landed::No),
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
                // Nothing is in flight: better on what the store has by now.
                return Ok(Landed::Later);
            }
        }
    }

    /// How often the waiting tasks of a run have been offered after one more time. Where the next look is to be late, its
    /// lists have a row of it first; as long as that cannot be written it is not late.
    async fn offers_after(&self, key: &HeadKey, base: &Loaded, now: Timestamp) -> u32 {
        let offers = base.body.offers.saturating_add(1);
        if offers < LATE_OFFERS || self.write_down(key, base.run(), now).await { offers } else { LATE_OFFERS - 1 }
    }

    /// Keeps the stored instant where moving it costs something and it is still a lower bound (STORAGE.md §3.2 rule D).
    fn lazily(&self, base: Option<&Loaded>, need: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let stored = base.and_then(|base| base.head.due).map(Timestamp::from_millis);
        match (stored, need) {
            (Some(stored), Some(need)) if !self.limits.due_moves_are_cheap && now < stored && stored <= need => {
                Some(stored)
            }
            _ => need,
        }
    }

    /// After a commit of unknown outcome: the head, if it carries our operation id.
    async fn find_op(&self, cell: &RunCell, op: u64) -> Result<Option<Loaded>, Refusal> {
        let Some(head) = self.store.load(&cell.key).await? else {
            return Ok(None);
        };
        let mut loaded = Box::pin(self.open_head(&cell.key, head)).await?;
        if !loaded.body.ops.contains(&op) {
            return Ok(None);
        }
        loaded.beats = self.read_beats(&cell.key, loaded.run()).await?;
        Ok(Some(loaded))
    }
}
