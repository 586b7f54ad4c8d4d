//! The part of memory for one workflow id: its newest run, and the requests that wait for the run.

use store::HeadKey;

use crate::commit::state::CachedRun;
use crate::run::inbox::Inbox;

/// State in memory of one workflow id.
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
