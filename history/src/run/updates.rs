//! The updates of a run that were accepted and not answered. Those that were answered are [known](super::KnownRequests) like other requests.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use crate::event::{EventId, UpdateAccepted};
use crate::ids::RunId;
use crate::time::Timestamp;

/// An update that was accepted, and that a later turn will answer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PendingUpdate {
    /// The caller's name for it.
    #[n(0)]
    pub update_id: String,
    /// What kind of update it is.
    #[n(1)]
    pub name: String,
    /// When it was accepted.
    #[n(2)]
    pub accepted_at: Timestamp,
}

/// What a run knows of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateStanding {
    /// Nothing: it never came, or was rejected, or was answered too long ago.
    New,
    /// It was accepted and is not answered yet.
    Accepted {
        /// Its UpdateAccepted.
        event_id: EventId,
    },
    /// It was answered, or its run closed before.
    Ended {
        /// Where.
        run_id: RunId,
        /// Its UpdateCompleted or UpdateFailed; its UpdateAccepted where its run closed before.
        event_id: EventId,
    },
}

/// The updates of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct OpenUpdates {
    #[n(0)]
    open: BTreeMap<EventId, PendingUpdate>,
}

impl OpenUpdates {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Those that were accepted and not answered, by their UpdateAccepted.
    pub fn open(&self) -> &BTreeMap<EventId, PendingUpdate> {
        &self.open
    }

    /// The UpdateAccepted of an update that is not answered.
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

    /// The run has closed: what was accepted will not be answered. Answers what that was.
    pub(crate) fn close(&mut self) -> BTreeMap<EventId, PendingUpdate> {
        std::mem::take(&mut self.open)
    }
}
