//! Resets a run: a new run continues it from one of its events (ADR 15). A reset takes two commits. The first commit
//! records the reset and terminates the run if it is open. The second commit starts the new run. Between the two
//! commits the workflow id counts as in use, as it does for any run whose successor has not started yet (ADR 9).

use history::event::ResetPlan;
use history::{Branch, BranchReader, Branching, Event, Fault, PlannedReset, RequestKey, Transition};
use store::HeadKey;
use uuid::Uuid;

use crate::commit::StoredRun;
use crate::lists::sync_match::waiting_turn;
use crate::run::context::RunContext;
use crate::run::worker::RunWorker;
use crate::{EventRange, Refusal, Reset, WasReset};

/// Minimum remaining time until a run expires for a reset of the run to be accepted. The run must still exist when the
/// new run starts. Our choice: longer than a slow start of the service takes.
const KEPT_AT_LEAST: history::Duration = history::Duration::from_secs(3_600);

impl RunWorker<'_> {
    pub(crate) async fn run_reset(&mut self, run_id: Option<Uuid>, reset: &Reset) -> Result<WasReset, Refusal> {
        let (context, key) = (self.context, self.key);
        let mut attempt = 0;
        loop {
            // Reads the state from the store, so that no request fails because of an outdated cached state.
            self.state.forget();
            self.start_successor().await?;
            let current = self.loaded().await?.cloned();
            let current = current.ok_or_else(|| Refusal::unknown_workflow(key))?;
            if let Some(repeated) = context.was_reset(key, &current, reset.key).await? {
                return Ok(repeated);
            }
            let base = context.base(key, &current, run_id).await?;
            let now = context.clock.now();
            let expires_at = [&base, &current].into_iter().filter_map(|loaded| loaded.head.expires_at).min();
            if expires_at.is_some_and(|at| at < now.plus(KEPT_AT_LEAST).as_millis()) {
                let problem = format!("its retention ends in less than {KEPT_AT_LEAST}");
                return Err(Fault::ResetNotPossible { problem }.into());
            }
            context.read_branch(key, &base, BranchReader::new(reset.branching)).await?;
            let Branching { event_id, signals } = reset.branching;
            let base_run_id = base.run().started.run_id;
            let plan = ResetPlan { new_run_id: context.ids.run_id(now), run_id: base_run_id, event_id, signals };
            let mut transition = Transition::linked(current.run().clone(), current.body.links.clone());
            transition.plan_reset(plan, &reset.operator, reset.key, reset.by.clone(), now)?;
            let (last_event_id, waiting_turn) = (current.run().last_event_id, waiting_turn(current.run()));
            if self.write(transition, last_event_id, waiting_turn, &mut attempt).await?.is_none() {
                continue;
            }
            if let Err(refusal) = self.start_successor().await {
                // The reset is recorded. The new run is started when the due index wakes the run.
                tracing::warn!(
                    %refusal, workflow_id = %key.workflow_id,
                    "the successor run could not be started; retrying at the next wake"
                );
            }
            let (run_id, base_event_id) = (plan.new_run_id, event_id);
            return Ok(WasReset { run_id, base_run_id, base_event_id, repeated: false });
        }
    }
}

impl RunContext {
    /// Returns the transition that starts the new run of a reset.
    pub(crate) async fn branch(
        &self,
        key: &HeadKey,
        current: &StoredRun,
        reset: &PlannedReset,
    ) -> Result<Transition, Refusal> {
        let ResetPlan { run_id, event_id, signals, .. } = reset.plan;
        let base = self.base(key, current, Some(run_id)).await?;
        let branch = self.read_branch(key, &base, BranchReader::planned(Branching { event_id, signals })).await?;
        Ok(Transition::branch(branch, reset))
    }

    /// Returns the result of an earlier reset request with the same idempotency key; `None` if there was no such
    /// request.
    async fn was_reset(
        &self,
        key: &HeadKey,
        current: &StoredRun,
        request: Option<RequestKey>,
    ) -> Result<Option<WasReset>, Refusal> {
        let Some(request) = request else { return Ok(None) };
        let mut run = Box::new(current.run().clone());
        self.marks.recall(key, &mut run, &[request]).await?;
        let Some(known) = run.request(request) else { return Ok(None) };
        let branch = match self.base(key, current, Some(known.run_id)).await {
            Ok(branch) => branch,
            Err(Refusal::UnknownRun { .. }) => return Ok(None),
            Err(refusal) => return Err(refusal),
        };
        let branched = branch.run().branched.as_deref().filter(|branched| branched.event_id == known.event_id);
        Ok(branched.map(|branched| {
            let (run_id, base_run_id, base_event_id) = (known.run_id, branched.run_id, branched.base_event_id);
            WasReset { run_id, base_run_id, base_event_id, repeated: true }
        }))
    }

    async fn base(&self, key: &HeadKey, current: &StoredRun, run_id: Option<Uuid>) -> Result<StoredRun, Refusal> {
        match run_id {
            Some(run_id) if run_id != current.run().started.run_id => self.reader.load_run(key, run_id).await,
            _ => Ok(current.clone()),
        }
    }

    async fn read_branch(&self, key: &HeadKey, base: &StoredRun, mut reader: BranchReader) -> Result<Branch, Refusal> {
        let mut page = EventRange::default();
        loop {
            let read = self.reader.read_page(key, base, &page).await?;
            read.events.into_iter().try_for_each(|event: Event| reader.read(event))?;
            match read.next {
                Some(after) => page.after = after,
                None => return Ok(reader.finish()?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use history::event::{LaterSignals, OperatorAction};
    use history::{Command, Payload, Start, Timestamp, codec};
    use store::{Limits, PartKey};

    use super::*;
    use crate::commit::{self, Draft};

    /// Limits that are so small that the whole history moves out of the head.
    const LIMITS: Limits = Limits {
        head_soft: 1 << 10,
        head_hard: 64 << 10,
        part_max: 4 << 10,
        payload_inline_max: 256,
        due_shards: 1,
        op_ids: 16,
        due_moves_are_cheap: false,
        is_shared: false,
    };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + millis)
    }

    /// Returns the transition that starts the new run of a reset. The old run has received this number of signals, each
    /// with a large payload.
    fn branch(signals: usize) -> Transition {
        let old = Uuid::from_u128(7);
        let mut transition = Transition::start(&Start::new("w", "t", "l"), old, at(0)).unwrap();
        for number in 0..signals {
            let input =
                Some(Payload::of(&format!("{number}{}", "x".repeat(if number % 2 == 0 { 700 } else { 70 }))).unwrap());
            let name = "s".to_owned();
            let signal = Command::Signal { name, input, identity: None, key: None, if_version: None };
            transition.admit(&signal, at(number as u64)).unwrap();
        }
        let last = transition.run().last_event_id;
        let (event_id, signals) = ((last - 2).max(2), LaterSignals::Reapply);
        let mut reader = BranchReader::new(Branching { event_id, signals });
        transition.events().iter().try_for_each(|event| reader.read(event.clone())).unwrap();
        let plan = ResetPlan { new_run_id: Uuid::from_u128(8), run_id: old, event_id, signals };
        let operator = OperatorAction::default();
        Transition::branch(
            reader.finish().unwrap(),
            &PlannedReset { plan, operator, at: at(9_000), key: None, by: None },
        )
    }

    fn laid_out(mut transition: Transition, now: Timestamp, op: u64) -> commit::Prepared {
        let start = Command::StartTurn { scheduled_event_id: 2, identity: Some(op.to_string()), poll: None };
        transition.admit(&start, now).unwrap();
        let copied = transition.copied();
        let (run, links, events) = transition.into_all();
        let draft = Draft { base: None, run, links, events, copied, offers: 0, op, due: None };
        commit::prepare(draft, &LIMITS, |head| head.body.len())
    }

    #[test]
    fn nodes_that_start_the_same_branch_write_the_same_parts() {
        for signals in [3, 200] {
            let transition = branch(signals);
            let one = laid_out(transition.clone(), at(10_000), 1);
            let other = laid_out(transition.clone(), at(20_000), 2);
            assert!(!one.parts.is_empty());
            assert_eq!(one.parts, other.parts, "{signals}");
            assert_ne!(one.next.tail, other.next.tail, "each hands its own turn out");
            assert!(one.parts.iter().all(|(_, bytes)| bytes.len() <= LIMITS.part_max));
            // Together, the parts must contain the whole history.
            let chunks = one.parts.iter().filter(|(key, _)| matches!(key, PartKey::Chunk { .. }));
            let mut ids = Vec::new();
            for (key, bytes) in chunks {
                ids.extend(codec::events(bytes).map(|event| event.unwrap().id));
                assert_eq!(Some(key), ids.last().map(|last| PartKey::Chunk { last: *last }).as_ref());
            }
            assert_eq!(one.next.body.tail_first, ids.len() as u64 + 1);
            ids.extend(codec::events(&one.next.tail).map(|event| event.unwrap().id));
            assert_eq!(ids, (1..=one.next.run().last_event_id).collect::<Vec<_>>());
        }
        // With larger limits, a short history stays in the head.
        let short = laid_out(branch(1), at(10_000), 1);
        assert_eq!((short.parts.len(), short.next.body.tail_first), (1, 1), "one pack");
    }
}
