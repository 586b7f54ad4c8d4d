//! A rider, which is a query or an update with its state and its waiting callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use history::{CallerName, EventId, Payload, ProposedUpdate, Timestamp};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::SeenVersion;
use crate::lists::grant::{Query, RiderKind};
use crate::riders::outcome::{DeciderAnswer, UpdateTurnOutcome};
use crate::riders::place::{By, RiderEvent, RiderPlace};

/// Aborts a waiting tokio task when the last rider that needs the task is dropped.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(pub(crate) tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A separate task for riders that was handed out.
#[derive(Debug)]
pub(crate) struct OwnTask {
    pub(crate) number: u64,
    /// Id of the newest event that the task shows to its decider.
    pub(crate) last_event_id: EventId,
    /// Time when a poller took the task.
    pub(crate) started_at: Timestamp,
    /// Identity of the decider that has the task.
    pub(crate) identity: Option<String>,
    /// Name of the credential of the decider that has the task.
    pub(crate) by: Option<CallerName>,
    /// Timer that ends the task when it times out.
    pub(crate) _timer: AbortOnDrop,
}

/// Increments a counter until this value is dropped.
pub(super) struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    pub(super) fn new(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(all))
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A caller that waits for the answer to a query.
pub(super) struct QueryCaller {
    pub(super) id: u64,
    pub(super) seen: Option<SeenVersion>,
    pub(super) reply: oneshot::Sender<DeciderAnswer>,
    pub(super) _counted: CountGuard,
}

/// A caller that waits for the outcome of an update.
pub(super) struct UpdateCaller {
    pub(super) id: u64,
    pub(super) reply: oneshot::Sender<UpdateTurnOutcome>,
}

/// Content of a rider, with its callers.
pub(super) enum RiderContent {
    Query {
        query: Arc<Query>,
        callers: Vec<QueryCaller>,
    },
    Update {
        asked: ProposedUpdate,
        callers: Vec<UpdateCaller>,
        /// True if the caller chose the update's id and may repeat the update with this id.
        is_named: bool,
        _counted: CountGuard,
    },
}

/// A rider, which is a query or an update.
pub(super) struct Rider {
    /// Id of the rider's first caller.
    pub(super) id: u64,
    pub(super) run_id: Uuid,
    /// Id of the run's newest event when the query was added. A task that takes the query must show at least this
    /// event. For an update, the value is 0, because an update can state the version that it expects instead.
    pub(super) since: EventId,
    pub(super) what: RiderContent,
    pub(super) place: RiderPlace,
    /// The separate task that has the rider, if any.
    pub(super) own: Option<Arc<OwnTask>>,
}

impl Rider {
    pub(super) fn kind(&self) -> RiderKind {
        match &self.what {
            RiderContent::Query { .. } => RiderKind::Query,
            RiderContent::Update { .. } => RiderKind::Update,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.what {
            RiderContent::Query { query, .. } => query.bytes(),
            RiderContent::Update { asked, .. } => {
                asked.update_id.len() + asked.name.len() + asked.input.as_ref().map_or(0, Payload::len)
            }
        }
    }

    pub(super) fn asked(&self) -> Option<&ProposedUpdate> {
        match &self.what {
            RiderContent::Query { .. } => None,
            RiderContent::Update { asked, .. } => Some(asked),
        }
    }

    pub(super) fn is_update(&self, run_id: Uuid, update_id: &str) -> bool {
        self.run_id == run_id && self.asked().is_some_and(|asked| asked.update_id == update_id)
    }

    pub(super) fn waits(&self, run_id: Uuid, kind: RiderKind) -> bool {
        self.run_id == run_id && self.place == RiderPlace::Waits && self.kind() == kind
    }

    pub(super) fn has_caller(&self, caller: u64) -> bool {
        match &self.what {
            RiderContent::Query { callers, .. } => callers.iter().any(|it| it.id == caller),
            RiderContent::Update { callers, .. } => callers.iter().any(|it| it.id == caller),
        }
    }

    pub(super) fn leave(&mut self, caller: u64) {
        match &mut self.what {
            RiderContent::Query { callers, .. } => callers.retain(|it| it.id != caller),
            RiderContent::Update { callers, .. } => callers.retain(|it| it.id != caller),
        }
    }

    /// Returns true if `new` can be merged into this rider. A query can be merged into an equal query to the same run,
    /// if both are in the same state. An update can be merged into an update with the same run and id, in any state.
    pub(super) fn is_same(&self, new: &Self) -> bool {
        match (&self.what, &new.what) {
            (RiderContent::Query { query, .. }, RiderContent::Query { query: same, .. }) => {
                self.run_id == new.run_id && self.place == new.place && query == same
            }
            (RiderContent::Update { .. }, RiderContent::Update { asked, .. }) => {
                self.is_update(new.run_id, &asked.update_id)
            }
            (RiderContent::Query { .. }, RiderContent::Update { .. })
            | (RiderContent::Update { .. }, RiderContent::Query { .. }) => false,
        }
    }

    /// Adds the callers of an equal rider to this rider.
    pub(super) fn join(&mut self, same: Self) {
        self.since = self.since.max(same.since);
        match (&mut self.what, same.what) {
            (RiderContent::Query { callers, .. }, RiderContent::Query { callers: more, .. }) => callers.extend(more),
            (RiderContent::Update { callers, .. }, RiderContent::Update { callers: more, .. }) => callers.extend(more),
            (RiderContent::Query { .. }, RiderContent::Update { .. })
            | (RiderContent::Update { .. }, RiderContent::Query { .. }) => {}
        }
    }

    /// Applies an event. Returns true if the state has changed.
    pub(super) fn apply_event(&mut self, happens: RiderEvent) -> bool {
        let Some(place) = self.place.after(self.kind(), happens) else { return false };
        self.place = place;
        if !matches!(place, RiderPlace::Out(By::Own(_)) | RiderPlace::Answering(By::Own(_))) {
            self.own = None;
        }
        true
    }

    /// Removes callers that have disconnected. Returns true if the rider can be removed, because no caller waits for it
    /// and no decider can still accept it.
    pub(super) fn is_forgotten(&mut self) -> bool {
        match &mut self.what {
            RiderContent::Query { callers, .. } => callers.is_empty(),
            RiderContent::Update { callers, .. } => {
                // A caller may have disconnected before its update was added. Such a caller could not remove itself.
                callers.retain(|caller| !caller.reply.is_closed());
                callers.is_empty() && self.place == RiderPlace::Waits
            }
        }
    }

    /// Sends the outcome of an update to its callers.
    pub(super) fn send_outcome(self, heard: &UpdateTurnOutcome) {
        let RiderContent::Update { callers, .. } = self.what else { return };
        for caller in callers {
            drop(caller.reply.send(heard.clone()));
        }
    }

    /// Sends the answer to a query to its callers. Returns true if a caller still watches for changes.
    pub(super) fn answer(&mut self, answer: &DeciderAnswer) -> bool {
        let RiderContent::Query { callers, .. } = &mut self.what else { return false };
        for caller in callers.extract_if(.., |caller| !caller.seen.is_some_and(|seen| seen.is_still(answer))) {
            drop(caller.reply.send(answer.clone()));
        }
        !callers.is_empty()
    }

    /// Removes a caller of an update and returns the channel for that caller's outcome.
    pub(super) fn take_back(&mut self, caller: u64) -> Option<oneshot::Sender<UpdateTurnOutcome>> {
        let RiderContent::Update { callers, .. } = &mut self.what else { return None };
        let at = callers.iter().position(|it| it.id == caller)?;
        Some(callers.swap_remove(at).reply)
    }

    /// Returns true if this is an update whose id was chosen by its caller.
    pub(super) fn is_named(&self) -> bool {
        matches!(&self.what, RiderContent::Update { is_named: true, .. })
    }
}
