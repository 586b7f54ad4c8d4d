//! What is asked of a run for its riders, in its inbox, and what it says.

use history::{ProposedUpdate, Start, Timestamp};
use store::HeadKey;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::Refusal;
use crate::lists::ListKey;
use crate::riders::heard::UpdateHeard;
use crate::riders::waiting::{NewQuery, NewUpdate, Riders};

/// What became of a query that was put.
pub(crate) enum Posing {
    /// It waits, of this run, for a decider that polls this list.
    Put(Uuid, ListKey),
    /// Its run goes on as another, which is about to begin.
    GoesOn(Box<NewQuery>),
    /// It is for a run that is not the current one.
    Earlier(Box<NewQuery>, Uuid),
}

/// An update on its way into its run's cell.
pub(crate) struct PutUpdate {
    pub(crate) asked: ProposedUpdate,
    pub(crate) is_named: bool,
    pub(crate) caller: u64,
    /// Until it is put.
    pub(crate) reply: Option<oneshot::Sender<UpdateHeard>>,
    /// What starts the run unless it is open.
    pub(crate) start: Option<Box<Start>>,
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

/// What a run says to an update that is put to it.
pub(crate) enum Putting {
    /// A decider will be asked that polls this list.
    Waits(Uuid, ListKey),
    /// The decider that has the first turn of the run that was started for it will be asked.
    Began(Uuid, ListKey),
    /// Its run goes on as another, which is about to begin.
    GoesOn,
    /// It was judged before.
    Known(Uuid, UpdateHeard),
}
