//! A run's accepted updates that have no answer yet. Answered updates are [known requests](super::KnownRequests).

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::event::{EventId, UpdateAccepted};
use crate::ids::RunId;
use crate::time::Timestamp;

/// An accepted update that a later turn will answer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingUpdate {
    /// Update id chosen by the caller.
    #[n(0)]
    pub update_id: String,
    /// Name of the update.
    #[n(1)]
    pub name: String,
    /// Time at which the update was accepted.
    #[n(2)]
    pub accepted_at: Timestamp,
}

/// Status of an update in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateStatus {
    /// Unknown: the update was never received, was rejected, or was answered so long ago that it is forgotten.
    New,
    /// Accepted and not answered yet.
    Accepted {
        /// Id of the UpdateAccepted event.
        event_id: EventId,
    },
    /// The update was answered, or its run closed before an answer.
    Ended {
        /// Run that accepted the update.
        run_id: RunId,
        /// Id of the UpdateCompleted or UpdateFailed event. If the run closed first, the id of the UpdateAccepted
        /// event.
        event_id: EventId,
    },
}

/// A run's accepted updates that have no answer yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct OpenUpdates {
    #[n(0)]
    open: BTreeMap<EventId, PendingUpdate>,
}

impl OpenUpdates {
    /// Returns `true` if no accepted update waits for an answer.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the updates by the id of their UpdateAccepted event.
    pub fn open(&self) -> &BTreeMap<EventId, PendingUpdate> {
        &self.open
    }

    /// Returns the id of the UpdateAccepted event of this update. Returns `None` if the update does not wait for an
    /// answer.
    pub fn accepted(&self, update_id: &str) -> Option<EventId> {
        self.open.iter().find(|(_, it)| it.update_id == update_id).map(|(event_id, _)| *event_id)
    }

    pub(crate) fn accept(&mut self, event_id: EventId, at: Timestamp, it: &UpdateAccepted) {
        let pending = PendingUpdate { update_id: it.update_id.clone(), name: it.name.clone(), accepted_at: at };
        self.open.insert(event_id, pending);
    }

    pub(crate) fn end(&mut self, accepted_event_id: EventId) {
        self.open.remove(&accepted_event_id);
    }

    /// Removes all updates when the run closes, and returns them. They will not be answered.
    pub(crate) fn close(&mut self) -> BTreeMap<EventId, PendingUpdate> {
        std::mem::take(&mut self.open)
    }
}
