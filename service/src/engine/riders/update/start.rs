//! Updates that bring a start along: the run is started in the cell where the update is put, and the update is there before
//! the first turn can be taken.

use std::sync::Arc;

use history::{Start, Timestamp};
use store::HeadKey;
use uuid::Uuid;

use super::{PutUpdate, Putting};
use crate::engine::lists::{ListKey, Side};
use crate::engine::riders::waiting::{NewUpdate, Riders};
use crate::engine::run::worker::RunWorker;
use crate::engine::{Refusal, Started};

impl RunWorker<'_> {
    /// In the run's cell: starts the run for an update unless it is open, and puts the update to it.
    pub(super) async fn run_update_with_start(
        &mut self,
        mut put: PutUpdate,
        start: &Start,
    ) -> Result<Putting, Refusal> {
        let (engine, key) = (self.engine, self.key);
        let newest = self.loaded().await?.map(|loaded| loaded.run().started.run_id);
        let now = engine.clock.now();
        let rejection = newest.and_then(|run_id| {
            let heard = engine.riders.rejection(run_id, &put.asked.update_id, now)?;
            Some(Putting::Known(run_id, heard))
        });
        // Its run may have closed with that very turn, and must not be started for it once more.
        if let Some(known) = rejection {
            return Ok(known);
        }
        match Box::pin(self.run_start(start, Some(&mut put))).await? {
            Started { run_id, repeated: false, existing: false } => {
                let (domain, name) = (Arc::clone(&key.domain), start.task_list.as_str().into());
                Ok(Putting::Began(run_id, ListKey { domain, side: Side::Decider, name }))
            }
            Started { run_id, .. } => self.run_update(Some(run_id), put).await,
        }
    }
}

impl PutUpdate {
    /// Puts it to a run that is about to begin, so that its first turn takes it along.
    pub(crate) fn put_ahead(
        &mut self,
        riders: &Riders,
        key: &HeadKey,
        run_id: Uuid,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(reply) = self.reply.take() else { return Ok(()) };
        let new = NewUpdate { asked: self.asked.clone(), is_named: self.is_named, caller: self.caller, reply };
        // A run that begins has rejected nothing.
        riders.put_update(key, run_id, new, now).map(drop)
    }

    /// The run has not begun.
    pub(crate) fn take_back(&mut self, riders: &Riders, key: &HeadKey) {
        self.reply = riders.take_back(key, self.caller);
    }
}
