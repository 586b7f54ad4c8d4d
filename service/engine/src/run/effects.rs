//! Delivers effects, which are actions of one run on another run (ADR 5). A delivery first applies the effect to the
//! target run. Then it records the result in the source run, which removes the effect from its outbox.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use history::{
    Author, Command, Effect, EffectKind, EffectResult, EventId, Origin, OutboundEffect, Outbox, RunStart, Timestamp,
    Transition,
};
use store::{HeadKey, Store};
use uuid::Uuid;

use crate::base::admission::open_runs::OpenRuns;
use crate::base::background::Background;
use crate::commit::StoredRun;
use crate::commit::read::{self, RunReader};
use crate::run::request::{EffectOutcome, EffectSource, RunRequest};
use crate::run::runs::Runs;
use crate::{Metrics, Refusal, commit::head};

/// Maximum number of effects of one run that are delivered concurrently. Our choice.
const EFFECTS_AT_ONCE: usize = 64;

/// Number of received effects that a target run remembers without a check. If it remembers more, it checks which of
/// them are still in the outboxes of their source runs, and forgets all others.
const SEEN_MAX: usize = 4;

/// Returns true if a command records the result of an effect that is no longer in the run's outbox, or never was.
pub(crate) fn is_settled(command: &Command, transition: &Transition) -> bool {
    let (holder, outbox) = (transition.run().started.run_id, &transition.links().outbox);
    matches!(command, Command::SettleEffect { owner, event_id, .. } if !outbox.owes_for(holder, *owner, *event_id))
}

/// Applies an effect to the target run if the effect is still in the outbox of the source run.
pub(crate) fn apply_owed_effect(
    owed: Option<Result<bool, Refusal>>,
    transition: &mut Transition,
    outbound: &OutboundEffect,
    now: Timestamp,
) -> Result<EffectOutcome, Refusal> {
    if !owed.unwrap_or(Ok(false))? {
        return Ok(EffectOutcome::Moot);
    }
    // If the run has no space to remember the effect, it must not apply the effect, because a second delivery would
    // apply it again. The source run delivers the effect again later.
    let seen = &transition.links().seen;
    let is_new = outbound.origin().is_some_and(|origin| seen.find(origin).is_none());
    if is_new && !seen.has_space() {
        let why = "the run has received too many effects of other runs recently".to_owned();
        return Err(Refusal::Unavailable { why, retry_after: None });
    }
    Ok(EffectOutcome::Settled(transition.apply_effect(outbound, now)))
}

/// Returns true if a child can never be started: its start is not allowed, or its initial state is too large for the
/// store. Unreadable data in the store does not count as permanent, because the data may be restored.
fn never_starts(kind: EffectKind, refusal: &Refusal) -> bool {
    kind == EffectKind::StartChild && matches!(refusal, Refusal::Fault(_) | Refusal::RunTooLarge { .. })
}

/// Effects of a source run, and the state of the source run from which the content of the effects is read.
struct Bundle {
    key: HeadKey,
    started: RunStart,
    tail: Bytes,
    tail_first: EventId,
    effects: Vec<Effect>,
    /// Delivery round; see [`Outbox::round`].
    round: u32,
}

/// Delivery of effects.
pub(crate) struct Effects {
    pub(crate) runs: Arc<Runs>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) open_runs: Arc<OpenRuns>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: Arc<Background>,
}

impl Effects {
    /// Returns, for each effect in a batch of requests, whether the effect is still in its source run's outbox in the
    /// store.
    pub(crate) async fn still_owed(
        &self,
        key: &HeadKey,
        sources: &[&EffectSource],
        transition: &mut Transition,
    ) -> Vec<Result<bool, Refusal>> {
        if !sources.is_empty() && transition.links().seen.iter().len() > SEEN_MAX {
            // Settled effects must be forgotten before `is_owed` is called. If an effect is settled between the two
            // steps, it is then either still in `seen` or no longer in the outbox. With the opposite order, an effect
            // could be found in the outbox, then be removed from `seen`, and be applied again.
            self.forget_settled(&key.domain, transition).await;
        }
        join_all(sources.iter().map(async |source: &&EffectSource| self.is_owed(source).await)).await
    }

    /// Returns true if the effect is still in the outbox of its source run.
    pub(crate) async fn is_owed(&self, source: &EffectSource) -> Result<bool, Refusal> {
        let Some((holder, outbox)) = self.outbox_of(&source.key).await? else { return Ok(false) };
        Ok(outbox.owes_in(source.round, &source.effect.held_by(holder, source.run_id)))
    }

    /// Reads the outbox of a workflow id from the store, together with the id of the newest run, which has the outbox.
    /// Returns `None` if the runs have expired. Runs expire only after all their effects are settled.
    async fn outbox_of(&self, key: &HeadKey) -> Result<Option<(Uuid, Outbox)>, Refusal> {
        let Some(found) = self.store.load(key).await? else { return Ok(None) };
        Ok(Some((Uuid::from_bytes(found.run), head::decode_links(&found.body)?.outbox)))
    }

    /// Forgets the received effects that are no longer in the outboxes of their source runs. They cannot be delivered
    /// again.
    async fn forget_settled(&self, domain: &Arc<str>, transition: &mut Transition) {
        let seen: Vec<Origin> = transition.links().seen.iter().map(|seen| seen.origin.clone()).collect();
        let checks = seen.iter().map(async |origin| {
            let key = HeadKey::new(Arc::clone(domain), &*origin.workflow_id);
            match self.outbox_of(&key).await {
                Ok(Some((holder, outbox))) => outbox.owes_for(holder, origin.run_id, origin.event_id),
                Ok(None) => false,
                // If the outbox of the source run cannot be read, the effect is kept.
                Err(_) => true,
            }
        });
        let mut may_come = join_all(checks).await.into_iter();
        transition.links_mut().seen.retain(|_| may_come.next().unwrap_or(true));
    }

    /// Starts delivering effects. A failed delivery is repeated at the run's next wake, whose time is in the store.
    /// `round` is the round of the commit that made the effects ready. It is used even if other nodes have committed
    /// since, because within a round each effect is delivered by only one node.
    pub(crate) fn deliver(self: &Arc<Self>, key: &HeadKey, loaded: &StoredRun, effects: Vec<Effect>, round: u32) {
        let (key, started) = (key.clone(), loaded.run().started.clone());
        let (tail, tail_first) = (loaded.tail.clone(), loaded.body.tail_first);
        let bundle = Bundle { key, started, tail, tail_first, effects, round };
        let this = Arc::clone(self);
        self.background.spawn(async move {
            let (this, bundle) = (&this, &bundle);
            let deliveries =
                futures_util::stream::iter(&bundle.effects).for_each_concurrent(EFFECTS_AT_ONCE, async |effect| {
                    match this.deliver_one(bundle, *effect).await {
                        Ok(()) => drop(this.metrics.effects.inc()),
                        Err(refusal) => {
                            this.metrics.put_off(refusal.code());
                            let workflow_id = &bundle.key.workflow_id;
                            let (effect, event_id) = (effect.kind.word(), effect.event_id);
                            tracing::warn!(
                                %refusal, %workflow_id, effect, event_id,
                                "an effect on another run is postponed"
                            );
                        }
                    }
                });
            deliveries.await;
        });
    }

    async fn deliver_one(&self, bundle: &Bundle, effect: Effect) -> Result<(), Refusal> {
        let (key, round) = (&bundle.key, bundle.round);
        // The content of an effect that an earlier run has caused is read from the history of that run.
        let earlier = match effect.of {
            Some(owner) => match self.reader.load_run(key, owner).await {
                // The earlier run has expired. The content of the effect was lost with its history.
                Err(Refusal::UnknownRun { .. }) => {
                    return self.settle(key, owner, effect, round, EffectResult::Unknown).await;
                }
                found => Some(found?),
            },
            None => None,
        };
        let (started, tail, tail_first) = match &earlier {
            Some(earlier) => (&earlier.run().started, &earlier.tail, earlier.body.tail_first),
            None => (&bundle.started, &bundle.tail, bundle.tail_first),
        };
        let run_id = started.run_id;
        let source = read::RunEvents { key, run_id, tail, tail_first };
        let asked = self.reader.read_one(&source, effect.event_id).await?;
        let outbound = asked.as_ref().and_then(|event| effect.outbound(started, event));
        let nothing = || format!("event {} of run {run_id} does not request {}", effect.event_id, effect.kind.word());
        let outbound = Box::new(outbound.ok_or_else(|| Refusal::Corrupt { what: nothing() })?);
        let target = HeadKey::new(&*key.domain, &*outbound.workflow_id);
        let source = EffectSource { key: key.clone(), run_id, effect, round };
        // If the result is `Moot`, the effect is already settled or another node delivers it.
        let taken = self.runs.submit(&target, |reply| RunRequest::effect(source, outbound, reply)).await;
        if effect.kind == EffectKind::StartChild {
            self.open_runs.child_settled(&key.domain);
        }
        let result = match taken {
            Ok(EffectOutcome::Settled(result)) => result,
            Ok(EffectOutcome::Moot) => return Ok(()),
            Err(refusal) if never_starts(effect.kind, &refusal) => {
                let workflow_id = &target.workflow_id;
                tracing::warn!(%refusal, %workflow_id, "a child can never be started with these parameters");
                EffectResult::NeverStarts
            }
            Err(refusal) => return Err(refusal),
        };
        self.settle(key, run_id, effect, round, result).await
    }

    async fn settle(
        &self,
        key: &HeadKey,
        owner: Uuid,
        effect: Effect,
        round: u32,
        result: EffectResult,
    ) -> Result<(), Refusal> {
        let Effect { event_id, kind, .. } = effect;
        let settle = Command::SettleEffect { owner, event_id, kind, round, result };
        self.runs.submit(key, |reply| RunRequest::command(None, settle, Author::default(), reply)).await.map(drop)
    }
}
