//! Updates that bring a start along: the run is started in the cell where the update is put, and the update is there before
//! the first turn can be taken.

use std::sync::Arc;

use history::Start;
use store::HeadKey;

use super::{PutUpdate, Putting};
use crate::engine::lists::{ListKey, Side};
use crate::engine::run::worker::RunWorker;
use crate::engine::{Engine, Refusal, Started};

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
            let heard = engine.updates.rejection(run_id, &put.asked.update_id, now)?;
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

impl Engine {
    /// Puts an update to a run that is about to begin, so that its first turn takes it along.
    pub(crate) fn put_ahead(
        &self,
        key: &HeadKey,
        run_id: uuid::Uuid,
        put: Option<&mut PutUpdate>,
    ) -> Result<(), Refusal> {
        let Some(put) = put else { return Ok(()) };
        let Some(reply) = put.reply.take() else { return Ok(()) };
        let (asked, now) = (put.asked.clone(), self.clock.now());
        // A run that begins has rejected nothing.
        self.updates.put(key, run_id, asked, put.is_named, put.caller, reply, now).map(drop)
    }

    /// The run has not begun.
    pub(crate) fn take_back(&self, key: &HeadKey, put: Option<&mut PutUpdate>) {
        if let Some(put) = put {
            put.reply = self.updates.take_back(key, put.caller);
        }
    }
}
