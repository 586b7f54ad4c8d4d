//! The updates of a run: those that were accepted and not answered, and where to find the answers of the newest others.

use std::collections::{BTreeMap, VecDeque};

use minicbor::{Decode, Encode};

use crate::event::{EventId, UpdateAccepted};
use crate::limits;
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
    /// It was answered.
    Ended {
        /// Its UpdateCompleted or UpdateFailed.
        event_id: EventId,
    },
}

/// The updates of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Updates {
    #[n(0)]
    open: BTreeMap<EventId, PendingUpdate>,
    /// The newest that were answered, by whom and by which event; oldest first.
    #[n(1)]
    ended: VecDeque<(String, EventId)>,
}

impl Updates {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.ended.is_empty()
    }

    /// Those that were accepted and not answered, by their UpdateAccepted.
    pub fn open(&self) -> &BTreeMap<EventId, PendingUpdate> {
        &self.open
    }

    /// How many are known that were answered.
    pub fn ended_len(&self) -> usize {
        self.ended.len()
    }

    /// What is known of an update.
    pub fn standing(&self, update_id: &str) -> UpdateStanding {
        if let Some((event_id, _)) = self.open.iter().find(|(_, it)| it.update_id == update_id) {
            return UpdateStanding::Accepted { event_id: *event_id };
        }
        match self.ended.iter().rev().find(|(known, _)| known == update_id) {
            Some((_, event_id)) => UpdateStanding::Ended { event_id: *event_id },
            None => UpdateStanding::New,
        }
    }

    pub(super) fn accept(&mut self, event_id: EventId, at: Timestamp, it: &UpdateAccepted) {
        let pending = PendingUpdate { update_id: it.update_id.clone(), name: it.name.clone(), accepted_at: at };
        self.open.insert(event_id, pending);
    }

    pub(super) fn end(&mut self, event_id: EventId, accepted_event_id: EventId, update_id: &str) {
        self.open.remove(&accepted_event_id);
        if self.ended.len() >= limits::UPDATE_IDS_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((update_id.to_owned(), event_id));
    }

    /// The run has closed: what was accepted will not be answered.
    pub(super) fn close(&mut self) {
        self.open.clear();
    }
}
