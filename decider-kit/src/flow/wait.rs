//! The future of a single wait.

use std::task::{Context, Poll};

use baton_history::EventId;

use super::core::{Key, Shared, lock};
use crate::ended::Outcome;

/// A wait in progress. Dropping it before the wait has ended cancels the awaited step.
pub(super) struct WaitFuture {
    shared: Shared,
    key: Option<Key>,
}

impl WaitFuture {
    pub(super) fn new(shared: Shared, key: Key) -> Self {
        Self { shared, key: Some(key) }
    }

    pub(super) fn key(&self) -> Option<Key> {
        self.key
    }

    /// Polls for the outcome and the id of the event that delivered it (0 for a cancellation). Must not be polled again
    /// after it has returned the outcome.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<(EventId, Outcome)> {
        let Some(key) = self.key else { return Poll::Pending };
        let taken = lock(&self.shared).take_outcome(key, context.waker());
        match taken {
            Some(outcome) => {
                self.key = None;
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for WaitFuture {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            lock(&self.shared).abandon(key);
        }
    }
}
