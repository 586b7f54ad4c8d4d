//! Effects of runs on others, on their way (ADR 5): done to the other run, then settled with the one that owes them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use history::{
    Command, Effect, EffectKind, EffectResult, EventId, Origin, OutboundEffect, Outbox, RunStart, Timestamp, Transition,
};
use store::{HeadKey, Store};
use uuid::Uuid;

use crate::base::background::Background;
use crate::commit::StoredRun;
use crate::commit::read::{self, RunReader};
use crate::registry::quotas::OpenRuns;
use crate::run::request::{EffectOutcome, EffectSource, RunRequest};
use crate::run::runs::Runs;
use crate::{Metrics, Refusal, commit::head};

/// Effects of one run that are on their way at the same time.
const EFFECTS_AT_ONCE: usize = 64;

/// With more of them than this, a run looks which of the effects that it has seen nobody owes any more.
const SEEN_MAX: usize = 4;

/// Whether a command settles an effect that is not owed, as far as this state knows.
pub(crate) fn is_settled(command: &Command, transition: &Transition) -> bool {
    let (holder, outbox) = (transition.run().started.run_id, &transition.links().outbox);
    matches!(command, Command::SettleEffect { owner, event_id, .. } if !outbox.owes_for(holder, *owner, *event_id))
}

/// Does an effect to a run that its source was found to owe, or not.
pub(crate) fn undergo(
    owed: Option<Result<bool, Refusal>>,
    transition: &mut Transition,
    errand: &OutboundEffect,
    now: Timestamp,
) -> Result<EffectOutcome, Refusal> {
    if !owed.unwrap_or(Ok(false))? {
        return Ok(EffectOutcome::Moot);
    }
    // What it cannot remember it must not take: it might come twice. The other run brings it again.
    let seen = &transition.links().seen;
    let is_new = errand.origin().is_some_and(|origin| seen.find(origin).is_none());
    if is_new && !seen.has_space() {
        let why = "it has taken so much of others lately that it cannot remember more".to_owned();
        return Err(Refusal::Unavailable { why, retry_after: None });
    }
    Ok(EffectOutcome::Settled(transition.apply_effect(errand, now)))
}

/// Whether another try at starting a child is as vain as this one: the rules refuse its start, or its state alone is more than
/// the store can take. Stored bytes that cannot be read are not for good: somebody may bring them back.
fn never_starts(kind: EffectKind, refusal: &Refusal) -> bool {
    kind == EffectKind::StartChild && matches!(refusal, Refusal::Fault(_) | Refusal::RunTooLarge { .. })
}

/// Effects that a run owes, and what is needed to find out what they are.
struct Bundle {
    key: HeadKey,
    started: RunStart,
    tail: Bytes,
    tail_first: EventId,
    effects: Vec<Effect>,
    /// Of deliveries; see [`Outbox::round`].
    round: u32,
}

/// Effects on their way.
pub(crate) struct Effects {
    pub(crate) runs: Arc<Runs>,
    pub(crate) reader: Arc<RunReader>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) open_runs: Arc<OpenRuns>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) background: Arc<Background>,
}

impl Effects {
    /// For every effect in a batch, by its source, whether that still owes it, by a look at the store.
    pub(crate) async fn still_owed(
        &self,
        key: &HeadKey,
        sources: &[&EffectSource],
        transition: &mut Transition,
    ) -> Vec<Result<bool, Refusal>> {
        if !sources.is_empty() && transition.links().seen.iter().len() > SEEN_MAX {
            // Before the look at what is owed: what another settles in between is then in `seen`, or not owed. The other way
            // round it would be owed when it was looked at, forgotten a moment later, and done again.
            self.forget_settled(&key.domain, transition).await;
        }
        join_all(sources.iter().map(async |source: &&EffectSource| self.is_owed(source).await)).await
    }

    /// Whether its source still owes an effect.
    pub(crate) async fn is_owed(&self, source: &EffectSource) -> Result<bool, Refusal> {
        let Some((holder, outbox)) = self.outbox_of(&source.key).await? else { return Ok(false) };
        Ok(outbox.owes_in(source.round, &source.effect.held_by(holder, source.run_id)))
    }

    /// What the store has of what the runs of a workflow id owe, and the newest of them, which has it. `None`: nothing, as the
    /// store has forgotten them, which only happens to runs that owe nothing.
    async fn outbox_of(&self, key: &HeadKey) -> Result<Option<(Uuid, Outbox)>, Refusal> {
        let Some(found) = self.store.load(key).await? else { return Ok(None) };
        Ok(Some((Uuid::from_bytes(found.run), head::decode_links(&found.body)?.outbox)))
    }

    /// Forgets what was seen and is not owed any more: nobody can bring it again.
    async fn forget_settled(&self, domain: &Arc<str>, transition: &mut Transition) {
        let seen: Vec<Origin> = transition.links().seen.iter().map(|seen| seen.origin.clone()).collect();
        let looks = seen.iter().map(async |origin| {
            let key = HeadKey::new(Arc::clone(domain), &*origin.workflow_id);
            match self.outbox_of(&key).await {
                Ok(Some((holder, outbox))) => outbox.owes_for(holder, origin.run_id, origin.event_id),
                Ok(None) => false,
                // When in doubt it is kept.
                Err(_) => true,
            }
        });
        let mut may_come = join_all(looks).await.into_iter();
        transition.links_mut().seen.retain(|_| may_come.next().unwrap_or(true));
    }

    /// Sends effects on their way. What fails is left to the next look at the run, which the store has a date for. `round`
    /// is that of the very commit that made them ready, whatever others have committed since: in a round there is only one
    /// who delivers an effect.
    pub(crate) fn deliver(self: &Arc<Self>, key: &HeadKey, loaded: &StoredRun, effects: Vec<Effect>, round: u32) {
        let (key, started) = (key.clone(), loaded.run().started.clone());
        let (tail, tail_first) = (loaded.tail.clone(), loaded.body.tail_first);
        let bundle = Bundle { key, started, tail, tail_first, effects, round };
        let room = Arc::clone(self);
        self.background.spawn(async move {
            let (room, bundle) = (&room, &bundle);
            let deliveries =
                futures_util::stream::iter(&bundle.effects).for_each_concurrent(EFFECTS_AT_ONCE, async |effect| {
                    match room.deliver_one(bundle, *effect).await {
                        Ok(()) => drop(room.metrics.effects.inc()),
                        Err(refusal) => {
                            room.metrics.put_off(refusal.code());
                            let workflow_id = &bundle.key.workflow_id;
                            tracing::warn!(%refusal, %workflow_id, effect = effect.kind.word(), event_id = effect.event_id, "an effect on another run must wait");
                        }
                    }
                });
            deliveries.await;
        });
    }

    async fn deliver_one(&self, bundle: &Bundle, effect: Effect) -> Result<(), Refusal> {
        let (key, round) = (&bundle.key, bundle.round);
        // What a run before this one asked for is read from that one.
        let earlier = match effect.of {
            Some(owner) => match self.reader.load_run(key, owner).await {
                // Forgotten, and with it what it asked for.
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
        let errand = asked.as_ref().and_then(|event| effect.outbound(started, event));
        let nothing = || format!("event {} of run {run_id} does not ask for {}", effect.event_id, effect.kind.word());
        let errand = Box::new(errand.ok_or_else(|| Refusal::Corrupt { what: nothing() })?);
        let target = HeadKey::new(&*key.domain, &*errand.workflow_id);
        let source = EffectSource { key: key.clone(), run_id, effect, round };
        // Otherwise it is settled already, or somebody else is at it.
        let taken = self.runs.ask(&target, |reply| RunRequest::Effect { source, errand, reply }).await;
        if effect.kind == EffectKind::StartChild {
            self.open_runs.child_settled(&key.domain);
        }
        let result = match taken {
            Ok(EffectOutcome::Settled(result)) => result,
            Ok(EffectOutcome::Moot) => return Ok(()),
            Err(refusal) if never_starts(effect.kind, &refusal) => {
                tracing::warn!(%refusal, workflow_id = %target.workflow_id, "a child can never be started as it is wanted");
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
        self.runs.tell(key, None, settle).await.map(drop)
    }
}
