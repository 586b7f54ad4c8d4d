//! Slots of limited lists that are held for tasks that have left their list but may not start.

use std::sync::{Arc, Mutex, PoisonError};

use history::EventId;
use store::HeadKey;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::lists::list_key::ListKey;

/// Identifies a task by its run and the event that scheduled it.
pub(crate) type SlotKey = (Uuid, EventId);

/// Place of one task under the limits of its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskSlot {
    pub(crate) list: ListKey,
    pub(crate) workflow_id: Arc<str>,
    pub(crate) run_id: Uuid,
    pub(crate) scheduled_event_id: EventId,
    /// Concurrency key of the task.
    pub(crate) concurrency_key: Option<Arc<str>>,
}

impl TaskSlot {
    pub(crate) fn key(&self) -> SlotKey {
        (self.run_id, self.scheduled_event_id)
    }

    /// Returns the key of the run in the store.
    pub(crate) fn run(&self) -> HeadKey {
        HeadKey { domain: Arc::clone(&self.list.domain), workflow_id: Arc::clone(&self.workflow_id) }
    }
}

/// Slots that were given back because their task may not have started.
#[derive(Debug, Default)]
pub(crate) struct ReturnedSlots {
    slots: Mutex<Vec<TaskSlot>>,
    /// Slots of tasks of which it is unknown whether they have started.
    unknown: Mutex<Vec<TaskSlot>>,
    /// Notified when a slot is given back.
    pub(crate) news: Notify,
}

impl ReturnedSlots {
    /// Takes the slots that were given back.
    pub(crate) fn take(&self) -> Vec<TaskSlot> {
        std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the slots of tasks of which it is unknown whether they have started.
    pub(crate) fn take_unknown(&self) -> Vec<TaskSlot> {
        std::mem::take(&mut *self.unknown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A slot for a task that is about to start. When it is dropped, the slot is given back, unless the task has started.
/// The permit of a task of an unlimited list holds nothing.
#[derive(Debug, Default)]
pub(crate) struct Permit(Option<Box<(Arc<ReturnedSlots>, TaskSlot)>>);

impl Permit {
    pub(crate) fn new(returned_slots: &Arc<ReturnedSlots>, slot: TaskSlot) -> Self {
        Self(Some(Box::new((Arc::clone(returned_slots), slot))))
    }

    /// Returns true if the permit holds a slot.
    pub(crate) fn holds_slot(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps the slot, because it is unknown whether the task was started. The slot is freed when the state of the run
    /// is known again.
    pub(crate) fn keep(mut self) {
        if let Some((returned_slots, slot)) = self.0.take().map(|held| *held) {
            returned_slots.unknown.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
            returned_slots.news.notify_one();
        }
    }

    /// Leaves the slot to the node that got the task. That node reports whether the task has started.
    pub(crate) fn hand_over(mut self) {
        self.0 = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((returned_slots, slot)) = self.0.take().map(|held| *held) {
            returned_slots.slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
            returned_slots.news.notify_one();
        }
    }
}
