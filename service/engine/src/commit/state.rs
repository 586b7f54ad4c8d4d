//! The state of a run in memory, and the rule that a request fails only on the basis of the store's state.

use crate::commit::StoredRun;

/// The state of a run in memory. It may be outdated, because other nodes write to the store.
#[derive(Debug, Default)]
pub(crate) struct CachedRun(Option<Box<StoredRun>>);

impl CachedRun {
    /// Returns the state in memory; `None` if the state must be read from the store.
    pub(crate) fn known(&self) -> Option<&StoredRun> {
        self.0.as_deref()
    }

    /// Returns the state in memory for modification.
    pub(crate) fn known_mut(&mut self) -> Option<&mut StoredRun> {
        self.0.as_deref_mut()
    }

    /// Replaces the state with one that was just read or written.
    pub(crate) fn replace(&mut self, loaded: StoredRun) {
        self.0 = Some(Box::new(loaded));
    }

    /// Removes the state, so that the next request reads it from the store.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Ensures that no request fails because of a cached state, which may lack commits of other nodes or a commit of
    /// unknown outcome. `before` says whether the state was already in memory when the request arrived. If it was, this
    /// function removes the state and returns true. The caller must then read the state from the store and admit the
    /// request again. Otherwise it returns false, because the error is already based on the store's state.
    #[must_use]
    pub(crate) fn invalidate_if_served_from_cache(&mut self, before: WasCached) -> bool {
        if before.0 {
            self.forget();
        }
        before.0
    }

    /// Returns a record of whether the state is in memory now. If it is, it may be outdated.
    pub(crate) fn was_cached(&self) -> WasCached {
        WasCached(self.0.is_some())
    }
}

/// True if a request was handled with a state that was already in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WasCached(bool);

impl WasCached {
    pub(crate) fn get(self) -> bool {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::tests::commit;

    #[test]
    fn only_cached_state_is_invalidated_by_a_refusal() {
        let mut state = CachedRun::default();
        let before = state.was_cached();
        state.replace(commit(None, &[], 1).next);
        assert!(!state.invalidate_if_served_from_cache(before) && state.known().is_some());
        let before = state.was_cached();
        assert!(state.invalidate_if_served_from_cache(before) && state.known().is_none());
    }
}
