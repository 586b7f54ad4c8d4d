//! Riders on their way to the worker of their run, and the results of submitting them.

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
    /// Waits at this run for a decider that polls this list.
    Waits(Uuid, ListKey),
    /// Its run continues as another one, which is about to start.
    Continued(Box<NewQuery>),
    /// Refers to a run that is not the newest one.
    Earlier(Box<NewQuery>, Uuid),
}

/// An update on its way to the worker of its run.
pub(crate) struct SubmittedUpdate {
    pub(crate) asked: ProposedUpdate,
    pub(crate) is_named: bool,
    pub(crate) caller: u64,
    /// Channel for its outcome, until it is put.
    pub(crate) reply: Option<oneshot::Sender<UpdateTurnOutcome>>,
    /// Start of a run, for the case that none is open.
    pub(crate) start: Option<Box<Start>>,
}

impl SubmittedUpdate {
    /// Puts the update to a run that is about to start, so that its first turn takes it.
    pub(crate) fn put_ahead(
        &mut self,
        riders: &Riders,
        key: &HeadKey,
        run_id: Uuid,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let Some(reply) = self.reply.take() else { return Ok(()) };
        let new = NewUpdate { asked: self.asked.clone(), is_named: self.is_named, caller: self.caller, reply };
        // A new run has no rejections.
        riders.put_update(key, run_id, new, now).map(drop)
    }

    /// Takes the update back, because the run was not started.
    pub(crate) fn take_back(&mut self, riders: &Riders, key: &HeadKey) {
        self.reply = riders.take_back(key, self.caller);
    }
}

/// Result of submitting an update.
pub(crate) enum UpdateSubmission {
    /// Waits for a decider that polls this list.
    Waits(Uuid, ListKey),
    /// A run was started for it; it waits for the decider of its first turn.
    Started(Uuid, ListKey),
    /// Its run continues as another one, which is about to start.
    Continued,
    /// The update was judged before.
    Known(Uuid, UpdateTurnOutcome),
}
