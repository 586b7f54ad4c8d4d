//! Writing a commit: once at most whatever the store says of it, and what follows from it once it is durable.

use std::time::Duration;

use bytes::Bytes;
use history::{EventId, Timestamp, Transition};
use store::{Cas, Expect, Head, HeadKey, PartKey};

use super::commit::{self, Draft, LATE_OFFERS, Loaded, Prepared};
use super::worker::Worker;
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

impl Worker<'_> {
    /// Commits a transition, with pollers that wait for the tasks it makes (sync match). `None`: try again on what the
    /// store has.
    pub(super) async fn write(
        &mut self,
        mut transition: Transition,
        last_event_id: EventId,
        waited_before: EventId,
        attempt: &mut u32,
    ) -> Result<Option<()>, Refusal> {
        let (engine, key) = (self.engine, self.key);
        let now = engine.clock.now().max(transition.run().last_timestamp);
        let run_id = transition.run().started.run_id;
        let same_run = self.state.known().map(Loaded::run).filter(|base| base.started.run_id == run_id);
        let committed = same_run.map_or(0, |base| base.last_event_id);
        let spilled = transition.spill(committed, now);
        if let Err(refusal) = engine.keep_marks(key, &spilled).await {
            self.state.forget();
            return Err(refusal);
        }
        let (reserved, unmatched) = engine.match_new_tasks(key, &mut transition, last_event_id, waited_before, now);
        let (only_looks, copied) = (!transition.is_changed(), transition.copied());
        let (run, links, events) = transition.into_all();
        let base = self.state.known();
        let offers = match base {
            Some(base) if only_looks => engine.offers_after(key, base, now).await,
            Some(base) if unmatched.is_empty() && !backlog::waits_anew(base.run(), &run) => base.body.offers,
            _ => 0,
        };
        let beats = base.map(|base| base.beats.as_slice()).unwrap_or_default();
        let due = commit::due(&run, &links, beats, offers, now);
        let due = engine.lazily(base, due, now);
        let (recorded, last) = (events.len(), events.last().map(|event| event.kind.name()));
        let op = engine.ids.op();
        let draft = Draft { base, run, links, events, copied, offers, op, due };
        let weigh = |head: &Head| engine.store.weight(key, head);
        let Prepared { mut next, parts } = commit::prepare(draft, &engine.limits, weigh);
        let round = next.body.links.outbox.round();
        let owed_before = base.map(|base| base.body.links.outbox.clone()).unwrap_or_default();
        let replaced = base.filter(|base| base.head.run != next.head.run).map(commit::replaced);
        let expect = match (base, &replaced) {
            (_, Some(replaced)) => Expect::Replacing(replaced),
            (Some(base), None) => Expect::Exactly { run: base.head.run, version: base.head.version },
            (None, None) => Expect::Absent,
        };
        let landed = engine.commit_surely(key, expect, &next.head, &parts, op, attempt).await;
        match landed {
            Ok(Landed::No) => {
                engine.unreserve(reserved, None);
                engine.metrics.conflicts.inc();
                tracing::debug!(workflow_id = %key.workflow_id, recorded, last, attempt, "another has written to this run");
                self.state.forget();
                *attempt += 1;
                if *attempt >= ATTEMPTS_MAX {
                    let why = "too many others write to this run".to_owned();
                    return Err(Refusal::Unavailable { why, retry_after: None });
                }
                if *attempt > 1 {
                    tokio::time::sleep(engine.ids.up_to(RACE_WAIT * 2_u32.saturating_pow(*attempt - 2))).await;
                }
                Ok(None)
            }
            Ok(Landed::Later) => {
                engine.unreserve(reserved, None);
                self.state.forget();
                Ok(None)
            }
            Ok(landed) => {
                if let Landed::AndMore(found) = landed {
                    next = *found;
                }
                engine.metrics.committed(recorded);
                engine.metrics.marks_written.inc_by(spilled.marks.len() as u64);
                engine.metrics.requests_forgotten_early.inc_by(spilled.forgotten_early);
                if let Some(base) = base {
                    engine.withdraw_ended(key, base.run(), next.run());
                }
                next.beats.retain(|beat| next.body.run.activities.contains_key(&beat.scheduled_event_id));
                engine.publish(key, &next, reserved, unmatched);
                engine.deliver(key, &next, next.body.links.outbox.newly_ready(&owed_before), round);
                self.state.is(next);
                Ok(Some(()))
            }
            Err(refusal) => {
                engine.unreserve(reserved, Some(&refusal));
                // What was about to be started may have been, or may wait.
                engine.look_again(key);
                self.state.forget();
                Err(refusal)
            }
        }
    }
}

impl Engine {
    /// Commits until the store has said what became of it. Once an outcome was not known, it is the very same commit that
    /// is tried again: its version lets it land once at most, so that nothing is recorded twice by a write that was only
    /// late (STORAGE.md §3.7).
    async fn commit_surely(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
        op: u64,
        attempt: &mut u32,
    ) -> Result<Landed, Refusal> {
        let mut doubt: Option<String> = None;
        loop {
            let wait = match self.store.commit(key, expect.clone(), head, parts).await {
                Ok(Cas::Won) => return Ok(Landed::Yes),
                Ok(Cas::Lost(_)) if self.limits.op_ids == 0 => return Ok(Landed::No),
                // To an earlier try of our own, perhaps, or to a client library's, on which others may have built.
                Ok(Cas::Lost(_)) => match self.find_op(key, op).await {
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
    async fn find_op(&self, key: &HeadKey, op: u64) -> Result<Option<Loaded>, Refusal> {
        let Some(head) = self.store.load(key).await? else {
            return Ok(None);
        };
        let mut loaded = Box::pin(self.open_head(key, head)).await?;
        if !loaded.body.ops.contains(&op) {
            return Ok(None);
        }
        loaded.beats = self.read_beats(key, loaded.run()).await?;
        Ok(Some(loaded))
    }
}
