//! Starts child runs. The start of a child is an effect that the parent run must deliver. It may be delivered more than
//! once.

use history::{EffectResult, OutboundAction, OutboundEffect, Transition};

use crate::Refusal;
use crate::run::request::{EffectOutcome, EffectSource};
use crate::run::worker::RunWorker;

impl RunWorker<'_> {
    /// Starts a child at most once: the effect determines the run id, and a run with an id that exists or has existed
    /// is not started again.
    pub(crate) async fn run_child_start(
        &mut self,
        source: &EffectSource,
        outbound: &OutboundEffect,
    ) -> Result<EffectOutcome, Refusal> {
        let (context, key) = (self.context, self.key);
        let (OutboundAction::Start(start), Some(run_id)) = (&outbound.task, outbound.run_id) else {
            return Ok(EffectOutcome::Moot);
        };
        let mut attempt = 0;
        loop {
            let before = self.state.was_cached();
            let now = context.clock.now();
            if let Some(existing) = self.loaded().await? {
                let result = Transition::of(existing.run().clone()).apply_effect(outbound, now);
                let is_free = result == EffectResult::Closed;
                if let EffectResult::Done { .. } = result {
                    return Ok(EffectOutcome::Settled(result));
                }
                if !is_free && self.state.invalidate_if_served_from_cache(before) {
                    continue;
                }
                // The child may have closed already, and a newer run of the same workflow id may have replaced it.
                if context.store.load_run(key, *run_id.as_bytes()).await?.is_some() {
                    return Ok(EffectOutcome::Settled(EffectResult::Done { run_id }));
                }
                if !is_free {
                    return Ok(EffectOutcome::Settled(result));
                }
            }
            if !context.effects.is_owed(source).await? {
                return Ok(EffectOutcome::Moot);
            }
            let mut transition = Transition::start(start, run_id, now)?;
            if let Some(existing) = self.state.known() {
                existing.hand_over(&mut transition, context.marks.past());
            }
            if self.write(transition, 0, 0, &mut attempt).await?.is_some() {
                return Ok(EffectOutcome::Settled(EffectResult::Done { run_id }));
            }
        }
    }
}
