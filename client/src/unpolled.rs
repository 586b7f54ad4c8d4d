//! Lists that nobody polls, as the service names them to whoever polls in vain.

use std::sync::{Arc, Mutex, PoisonError};

/// What was last said of lists that nobody polls: it is told again only when it is about others.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnpolledLists(Arc<Mutex<Vec<String>>>);

impl UnpolledLists {
    /// Whether this is about others than what was said last.
    pub(crate) fn is_news(&self, lists: &str) -> bool {
        // Since when is no news.
        let names = lists.split(", ").map(|list| list.split(";since=").next().unwrap_or(list).to_owned()).collect();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *told != names;
        *told = names;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_nobody_polls_are_told_once() {
        let told = UnpolledLists::default();
        assert!(told.is_news("hello;decider;since=2026-01-01T00:00:00.000Z"));
        assert!(!told.is_news("hello;decider;since=2026-01-01T00:00:07.000Z"));
        assert!(told.is_news("hello;activity;since=2026-01-01T00:00:07.000Z"));
        assert!(
            told.is_news("hello;activity;since=2026-01-01T00:00:07.000Z, b;decider;since=2026-01-01T00:00:07.000Z")
        );
    }
}
