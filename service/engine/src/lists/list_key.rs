//! Names of task lists.

use std::sync::Arc;

use crate::base::notices::NoticeList;

/// Kind of task on a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Side {
    Decider,
    Activity,
}

impl Side {
    pub(crate) fn of(is_decider: bool) -> Self {
        if is_decider { Self::Decider } else { Self::Activity }
    }

    /// Returns the label value in metrics.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Decider => "decider",
            Self::Activity => "activity",
        }
    }
}

/// Identifies a task list.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ListKey {
    pub(crate) domain: Arc<str>,
    pub(crate) side: Side,
    pub(crate) name: Arc<str>,
}

impl ListKey {
    pub(crate) fn new(domain: &str, is_decider: bool, name: &str) -> Self {
        Self { domain: domain.into(), side: Side::of(is_decider), name: name.into() }
    }

    /// Returns the list's name as it appears in the log.
    pub(crate) fn named(&self) -> NoticeList {
        NoticeList { domain: Arc::clone(&self.domain), side: self.side.word(), name: Arc::clone(&self.name) }
    }
}
