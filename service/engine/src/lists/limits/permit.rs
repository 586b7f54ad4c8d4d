//! Slots of limited lists that are held for tasks that have left their list but may not start.

use std::sync::{Arc, Mutex, PoisonError};

use history::EventId;
use tokio::sync::Notify;
use uuid::Uuid;

/// Identifies a task by its run and the event that scheduled it.
pub(crate) type SlotKey = (Uuid, EventId);

/// Slots that were given back because their task may not have started. The limiter frees them.
#[derive(Debug, Default)]
pub(crate) struct ReturnedSlots {
    slots: Mutex<Vec<SlotKey>>,
    /// Slots of tasks of which it is unknown whether they have started.
    unknown: Mutex<Vec<SlotKey>>,
    /// Notified when a slot is given back.
    pub(crate) news: Notify,
}

impl ReturnedSlots {
    /// Takes the slots that were given back.
    pub(crate) fn take(&self) -> Vec<SlotKey> {
        std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the slots of tasks of which it is unknown whether they have started.
    pub(crate) fn take_unknown(&self) -> Vec<SlotKey> {
        std::mem::take(&mut *self.unknown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A slot for a task that is about to start. When it is dropped, the slot is given back, unless the task has started.
/// The permit of a task of an unlimited list holds nothing.
#[derive(Debug, Default)]
pub(crate) struct Permit(Option<(Arc<ReturnedSlots>, SlotKey)>);

impl Permit {
    pub(crate) fn new(given_back: &Arc<ReturnedSlots>, slot: SlotKey) -> Self {
        Self(Some((Arc::clone(given_back), slot)))
    }

    /// Keeps the slot, because it is unknown whether the task was started. The slot is freed when the state of the run
    /// is known again.
    pub(crate) fn keep(mut self) {
        if let Some((given_back, slot)) = self.0.take() {
            given_back.unknown.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((given_back, slot)) = self.0.take() {
            given_back.slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
            given_back.news.notify_one();
        }
    }
}
