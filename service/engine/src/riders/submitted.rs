//! Riders (queries and updates) that are being submitted to the worker of their run, and the results of submitting
//! them.

use history::{ProposedUpdate, Start, Timestamp};
use store::HeadKey;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::Refusal;
use crate::lists::ListKey;
use crate::riders::outcome::UpdateTurnOutcome;
use crate::riders::waiting::{NewQuery, NewUpdate, Riders};

/// Result of submitting a query.
pub(crate) enum QuerySubmission {
    /// The query waits at this run for a decider that polls this list.
    Waits(Uuid, ListKey),
    /// Another run continues the query's run and is about to start.
    Continued(Box<NewQuery>),
    /// The query is for this run, which is not the newest run of its workflow id.
    Earlier(Box<NewQuery>, Uuid),
}

/// An update that is being submitted to the worker of its run.
pub(crate) struct SubmittedUpdate {
    pub(crate) asked: ProposedUpdate,
    pub(crate) is_named: bool,
    pub(crate) caller: u64,
    /// Channel for the update's outcome. Taken when the update is added to the run's riders.
    pub(crate) reply: Option<oneshot::Sender<UpdateTurnOutcome>>,
    /// Parameters of the run to start if no run is open.
    pub(crate) start: Option<Box<Start>>,
}

impl SubmittedUpdate {
    /// Adds the update to the riders of a run that is about to start, so that the run's first turn takes it.
    pub(crate) fn put_ahead(
        &mut self,
        riders: &Riders,
        key: &HeadKey,
        run_id: Uuid,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(reply) = self.reply.take() else { return Ok(()) };
        let new = NewUpdate { asked: self.asked.clone(), is_named: self.is_named, caller: self.caller, reply };
        // A new run has no rejections, so the ignored result cannot be a rejection.
        riders.put_update(key, run_id, new, now).map(drop)
    }

    /// Removes the update from the riders, because the run was not started.
    pub(crate) fn take_back(&mut self, riders: &Riders, key: &HeadKey) {
        self.reply = riders.take_back(key, self.caller);
    }
}

/// Result of submitting an update.
pub(crate) enum UpdateSubmission {
    /// The update waits at this run for a decider that polls this list.
    Waits(Uuid, ListKey),
    /// A run was started for the update. The update waits until a decider that polls this list takes the run's first
    /// turn.
    Started(Uuid, ListKey),
    /// Another run continues the update's run and is about to start.
    Continued,
    /// The update already has this outcome in this run.
    Known(Uuid, UpdateTurnOutcome),
}
