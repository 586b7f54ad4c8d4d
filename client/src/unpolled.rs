//! Task lists without pollers, as the service reports them in empty poll responses.

use std::sync::{Arc, Mutex, PoisonError};

/// Lists in the last report. The lists are logged again only if a report contains other lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnpolledLists(Arc<Mutex<Vec<String>>>);

impl UnpolledLists {
    /// Replaces the known lists. Returns true if the new report contains other lists than the last report.
    pub(crate) fn replace(&self, lists: &str) -> bool {
        // The times in a report are not compared, because they differ in every report.
        let names = lists.split(", ").map(|list| list.split(";since=").next().unwrap_or(list).to_owned()).collect();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *last != names;
        *last = names;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_without_pollers_are_reported_once() {
        let last = UnpolledLists::default();
        assert!(last.replace("hello;decider;since=2026-01-01T00:00:00.000Z"));
        assert!(!last.replace("hello;decider;since=2026-01-01T00:00:07.000Z"));
        assert!(last.replace("hello;activity;since=2026-01-01T00:00:07.000Z"));
        assert!(
            last.replace("hello;activity;since=2026-01-01T00:00:07.000Z, b;decider;since=2026-01-01T00:00:07.000Z")
        );
    }
}
