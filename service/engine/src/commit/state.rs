//! What is known of a run in memory, and the law that nobody is told no from there.

use crate::commit::StoredRun;

/// What is known of a run. It may be old: others write to the store.
#[derive(Debug, Default)]
pub(crate) struct CachedRun(Option<Box<StoredRun>>);

impl CachedRun {
    /// What is known; `None`: ask the store.
    pub(crate) fn known(&self) -> Option<&StoredRun> {
        self.0.as_deref()
    }

    /// The same, to be changed.
    pub(crate) fn known_mut(&mut self) -> Option<&mut StoredRun> {
        self.0.as_deref_mut()
    }

    /// It is this, as it was just read or written.
    pub(crate) fn is(&mut self, loaded: StoredRun) {
        self.0 = Some(Box::new(loaded));
    }

    /// Lets go of what is known: whoever says anything of the run next asks the store.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Never say no from a cache: what is known may lack what another node has written, or what a commit has whose outcome was
    /// not known. A no that rests on what was in memory `before` is looked into on what the store has; false when it is that already.
    #[must_use]
    pub(crate) fn must_look_into(&mut self, before: WasKnown) -> bool {
        if before.0 {
            self.forget();
        }
        before.0
    }

    /// Whether it is known already, and not as it is in the store by now.
    pub(crate) fn was_known(&self) -> WasKnown {
        WasKnown(self.0.is_some())
    }
}

/// Whether a judgment began with what was in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WasKnown(bool);

impl WasKnown {
    pub(crate) fn is_so(self) -> bool {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::tests::commit;

    #[test]
    fn a_no_that_rests_on_what_was_in_memory_is_looked_into_and_one_that_rests_on_the_store_is_not() {
        let mut state = CachedRun::default();
        let before = state.was_known();
        state.is(commit(None, &[], 1).next);
        assert!(!state.must_look_into(before) && state.known().is_some());
        let before = state.was_known();
        assert!(state.must_look_into(before) && state.known().is_none());
    }
}
