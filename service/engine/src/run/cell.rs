//! Memory for one workflow id: its newest run, and the requests that wait for the run.

use store::HeadKey;

use crate::commit::state::CachedRun;
use crate::run::inbox::Inbox;

/// Newest run of one workflow id in memory, with its inbox.
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
