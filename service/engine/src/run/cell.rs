//! A workflow id in memory: its newest run, and the requests that wait for it.

use store::HeadKey;

use crate::commit::state::CachedRun;
use crate::run::inbox::Inbox;

/// A workflow id in memory.
pub(crate) struct RunCell {
    pub(crate) key: HeadKey,
    pub(crate) inbox: Inbox,
    pub(crate) state: tokio::sync::Mutex<CachedRun>,
}

impl RunCell {
    pub(crate) fn new(key: HeadKey) -> Self {
        Self { key, inbox: Inbox::default(), state: tokio::sync::Mutex::default() }
    }
}
