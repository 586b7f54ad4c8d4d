//! Effects of runs on others, on their way (ADR 5): done to the other run, then settled with the one that owes them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use history::{
    Command, Effect, EffectResult, Errand, ErrandTask, EventId, Links, Origin, Outbox, RunStart, Start, Timestamp,
    Transition,
};
use store::HeadKey;
use uuid::Uuid;

use super::cell::{Request, RunCell, Source, State, Taken};
use super::commit::{self, Loaded};
use super::drain::Pending;
use super::{Engine, Refusal, Started, head, read};

/// Effects of one run that are on their way at the same time.
const EFFECTS_AT_ONCE: usize = 64;

/// With more of them than this, a run looks which of the effects that it has seen nobody owes any more.
const SEEN_MAX: usize = 4;

/// How often a start looks again whether the run before it has delivered what it owes.
const START_LOOKS_MAX: u32 = 10;

/// Before which of those looks it no longer trusts that somebody delivers, and begins another round. Once, as a round ends the
/// deliveries of the one before it.
const START_LOOK_WITH_ROUND: u32 = 4;

/// The wait between such looks.
const START_WAIT: Duration = Duration::from_millis(50);

/// Whether a command settles an effect that is not owed, as far as this state knows.
pub(super) fn is_settled(command: &Command, links: &Links) -> bool {
    matches!(command, Command::SettleEffect { event_id, .. } if !links.outbox.owes_for(*event_id))
}

/// Does an effect to a run that its source was found to owe, or not.
pub(super) fn undergo(
    owed: Option<Result<bool, Refusal>>,
    transition: &mut Transition,
    errand: &Errand,
    now: Timestamp,
) -> Result<Taken, Refusal> {
    let is_owed = owed.unwrap_or(Ok(false))?;
    Ok(if is_owed { Taken::Settled(transition.undergo(errand, now)) } else { Taken::Moot })
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

impl Engine {
    /// Starts a run; waits a moment for the one before it to deliver what it owes.
    pub(super) async fn start_key(self: &Arc<Self>, key: &HeadKey, start: Start) -> Result<Started, Refusal> {
        for look in 0..START_LOOKS_MAX {
            let start = Box::new(start.clone());
            if let Some(started) = self.ask(key, |reply| Request::Start { start, reply }).await? {
                return Ok(started);
            }
            self.see_to_outbox(key, look).await?;
            tokio::time::sleep(START_WAIT).await;
        }
        let why = "the last run of this workflow id has yet to tell others what it owes them".to_owned();
        Err(Refusal::Unavailable { why, retry_after: Some(START_WAIT * START_LOOKS_MAX) })
    }

    /// While a start waits for what a run owes to others.
    async fn see_to_outbox(self: &Arc<Self>, key: &HeadKey, look: u32) -> Result<(), Refusal> {
        if look == START_LOOK_WITH_ROUND {
            return self.look(key).await;
        }
        // Another node may have delivered it.
        self.forget(key).await;
        Ok(())
    }

    /// For every effect in a batch, whether its source still owes it, by a look at the store.
    pub(super) async fn still_owed(
        &self,
        cell: &RunCell,
        pending: &[Pending],
        transition: &mut Transition,
    ) -> Vec<Result<bool, Refusal>> {
        let sources = pending.iter().filter_map(|request| match request {
            Pending::Effect { source, .. } => Some(source),
            Pending::Tell { .. } | Pending::Take { .. } | Pending::Look { .. } => None,
        });
        let sources: Vec<&Source> = sources.collect();
        if !sources.is_empty() && transition.links().seen.iter().len() > SEEN_MAX {
            // Before the look at what is owed: what another settles in between is then in `seen`, or not owed. The other way
            // round it would be owed when it was looked at, forgotten a moment later, and done again.
            self.forget_settled(&cell.key.domain, transition).await;
        }
        join_all(sources.into_iter().map(async |source: &Source| self.is_owed(source).await)).await
    }

    async fn is_owed(&self, source: &Source) -> Result<bool, Refusal> {
        let outbox = self.links_of(&source.key, source.run_id).await?.outbox;
        Ok(outbox.owes_in(source.round, &source.effect))
    }

    /// What the store has of a run's dealings with others.
    async fn links_of(&self, key: &HeadKey, run_id: Uuid) -> Result<Links, Refusal> {
        match self.store.load(key).await? {
            Some(found) if found.run == *run_id.as_bytes() => head::decode_links(&found.body),
            // Followed by another run or forgotten, which only happens to a run that owes nothing.
            _ => Ok(Links::default()),
        }
    }

    /// Forgets what was seen and is not owed any more: nobody can bring it again.
    async fn forget_settled(&self, domain: &Arc<str>, transition: &mut Transition) {
        let seen: Vec<Origin> = transition.links().seen.iter().map(|seen| seen.origin.clone()).collect();
        let looks = seen.iter().map(async |origin| {
            let key = commit::head_key(domain, &origin.workflow_id);
            let links = self.links_of(&key, origin.run_id).await;
            // When in doubt it is kept.
            links.map_or(true, |links| links.outbox.owes_for(origin.event_id))
        });
        let mut may_come = join_all(looks).await.into_iter();
        transition.links_mut().seen.retain(|_| may_come.next().unwrap_or(true));
    }

    /// After a look at a run: sees to everything that it owes, in case nobody is at it.
    pub(super) fn deliver_again(self: &Arc<Self>, cell: &RunCell, state: &State, before: &Outbox, round: u32) {
        let State::Loaded(loaded) = state else { return };
        // What has become ready since is on its way already.
        let owed = &loaded.body.links.outbox;
        let effects = before.ready().filter(|effect| owed.owes(effect)).collect();
        self.deliver(cell, loaded, effects, round);
    }

    /// Sends effects on their way. What fails is left to the next look at the run, which the store has a date for. `round`
    /// is that of the very commit that made them ready, whatever others have committed since: in a round there is only one
    /// who delivers an effect.
    pub(super) fn deliver(self: &Arc<Self>, cell: &RunCell, loaded: &Loaded, effects: Vec<Effect>, round: u32) {
        if effects.is_empty() {
            return;
        }
        let (key, started) = (cell.key.clone(), loaded.run().started.clone());
        let (tail, tail_first) = (loaded.tail.clone(), loaded.body.tail_first);
        let bundle = Bundle { key, started, tail, tail_first, effects, round };
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let (engine, bundle) = (&engine, &bundle);
            let deliveries =
                futures_util::stream::iter(&bundle.effects).for_each_concurrent(EFFECTS_AT_ONCE, async |effect| {
                    match engine.deliver_one(bundle, *effect).await {
                        Ok(()) => drop(engine.metrics.effects.inc()),
                        Err(refusal) => {
                            let workflow_id = &bundle.key.workflow_id;
                            tracing::warn!(%refusal, %workflow_id, ?effect, "an effect on another run must wait");
                        }
                    }
                });
            deliveries.await;
        });
    }

    async fn deliver_one(self: &Arc<Self>, bundle: &Bundle, effect: Effect) -> Result<(), Refusal> {
        let Bundle { key, started, tail, tail_first, .. } = bundle;
        let run_id = started.run_id;
        let source = read::Source { key, run_id, tail, tail_first: *tail_first };
        let asked = self.read_range(&source, effect.event_id, effect.event_id, 1, usize::MAX).await?;
        let errand = asked.first().and_then(|event| effect.errand(started, event));
        let nothing = || format!("event {} of run {run_id} does not ask for {effect:?}", effect.event_id);
        let errand = errand.ok_or_else(|| Refusal::Corrupt { what: nothing() })?;
        let target = commit::head_key(&key.domain, &errand.workflow_id);
        let mut taken = Taken::Later;
        for look in 0..START_LOOKS_MAX {
            let (source, errand) =
                (Source { key: key.clone(), run_id, effect, round: bundle.round }, Box::new(errand.clone()));
            taken = self.ask(&target, |reply| Request::Effect { source, errand, reply }).await?;
            if taken != Taken::Later {
                break;
            }
            self.see_to_outbox(&target, look).await?;
            tokio::time::sleep(START_WAIT).await;
        }
        // Otherwise it is settled already, or must wait for the next look.
        let Taken::Settled(result) = taken else { return Ok(()) };
        let Effect { event_id, kind, .. } = effect;
        let settle = Command::SettleEffect { event_id, kind, round: bundle.round, result };
        self.tell_key(key, Some(run_id), settle).await.map(drop)
    }

    /// Starts a child, once: its run id is always the same, and a run that is there, or was, is not started again.
    pub(super) async fn run_child_start(
        self: &Arc<Self>,
        cell: &Arc<RunCell>,
        state: &mut State,
        source: &Source,
        errand: &Errand,
    ) -> Result<Taken, Refusal> {
        let (ErrandTask::Start(start), Some(run_id)) = (&errand.task, errand.run_id) else { return Ok(Taken::Moot) };
        let mut attempt = 0;
        loop {
            let was_loaded = matches!(state, State::Loaded(_));
            let now = self.clock.now();
            let mut links = Links::default();
            if let Some(existing) = self.loaded(cell, state).await? {
                let result = Transition::of(existing.run().clone()).undergo(errand, now);
                let is_free = result == EffectResult::Closed;
                links = existing.body.links.clone();
                if let EffectResult::Done { .. } = result {
                    return Ok(Taken::Settled(result));
                }
                if was_loaded && !is_free {
                    // Never say no from a cache (STORAGE.md §3.7 S1).
                    *state = State::Unloaded;
                    continue;
                }
                // It may have come and gone, and another run have followed it.
                if self.store.load_run(&cell.key, *run_id.as_bytes()).await?.is_some() {
                    return Ok(Taken::Settled(EffectResult::Done { run_id }));
                }
                if !is_free {
                    return Ok(Taken::Settled(result));
                }
                if !links.outbox.is_empty() {
                    return Ok(Taken::Later);
                }
            }
            if !self.is_owed(source).await? {
                return Ok(Taken::Moot);
            }
            let mut transition = Transition::start(start, run_id, now)?;
            transition.links_mut().seen = links.seen;
            if self.write(cell, state, transition, 0, 0, &mut attempt).await?.is_some() {
                return Ok(Taken::Settled(EffectResult::Done { run_id }));
            }
        }
    }
}
