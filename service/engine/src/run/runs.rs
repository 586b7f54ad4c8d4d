//! Access to all runs. A request is added to the inbox of its run. If the run has no worker, the caller runs one. The
//! executor of requests is a trait object, so that modules that send requests do not depend on the module that handles
//! them.

use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use store::{HeadKey, Store};
use tokio::sync::oneshot;

use crate::Refusal;
use crate::base::background::Background;
use crate::commit::StoredRun;
use crate::commit::read::RunReader;
use crate::nodes::Nodes;
use crate::run::cache::Cache;
use crate::run::cell::RunCell;
use crate::run::inbox::RunWork;
use crate::run::request::{Batched, Reply, RunRequest};

/// Delay before a node handles a due run whose home node is another node. The delay lets the home node handle the run
/// first. Our choice.
const FOREIGN_WAIT: Duration = Duration::from_millis(200);

/// Handles requests to runs.
pub(crate) trait RunExecutor: Send + Sync {
    /// Handles the requests in a run's inbox until it is empty.
    fn work(self: Arc<Self>, cell: Arc<RunCell>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Entry point for requests to runs, with the cache of runs in memory.
pub(crate) struct Runs {
    store: Arc<dyn Store>,
    reader: Arc<RunReader>,
    nodes: Arc<Nodes>,
    cache: Cache,
    background: Arc<Background>,
    executor: OnceLock<Weak<dyn RunExecutor>>,
}

impl Runs {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        reader: Arc<RunReader>,
        nodes: Arc<Nodes>,
        cache_bytes: usize,
        background: Arc<Background>,
    ) -> Self {
        Self { store, reader, nodes, cache: Cache::new(cache_bytes), background, executor: OnceLock::new() }
    }

    /// Sets the executor that handles requests. Only the first call has an effect.
    pub(crate) fn set_executor(&self, executor: Weak<dyn RunExecutor>) {
        drop(self.executor.set(executor));
    }

    /// Adds a request to a run's inbox. If this returns a worker, the caller must run it.
    #[must_use]
    fn enqueue(&self, cell: &Arc<RunCell>, request: RunRequest) -> Option<RunWork> {
        if !cell.inbox.add(request) {
            return None;
        }
        let Some(executor) = self.executor.get().and_then(Weak::upgrade) else {
            // The service has stopped. Dropping the requests reports to their callers that the outcome is unknown.
            drop(cell.inbox.begin());
            return None;
        };
        Some(RunWork::new(&self.background, executor.work(Arc::clone(cell))))
    }

    /// Submits a request to a run and waits for the response. All requests to runs go through this function. `make`
    /// creates the request from the channel for the response.
    pub(crate) async fn submit<T, R: Into<RunRequest>>(
        &self,
        key: &HeadKey,
        make: impl FnOnce(Reply<T>) -> R,
    ) -> Result<T, Refusal> {
        let (reply, mut answer) = oneshot::channel();
        let cell = self.cache.cell(key);
        let work = self.enqueue(&cell, make(reply).into());
        drop(cell);
        let answered = match work {
            None => answer.await,
            Some(work) => tokio::select! {
                biased;
                answered = &mut answer => answered,
                () = work => answer.await,
            },
        };
        let lost = |_| Refusal::OutcomeUnknown { why: "the run's worker ended early".to_owned() };
        answered.map_err(lost)?
    }

    /// Wakes one run now: fires the deadlines that are due and offers the waiting tasks.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub(crate) async fn wake(&self, key: &HeadKey) -> Result<(), Refusal> {
        self.leave_to_home(key).await;
        self.submit(key, |reply| Batched::Wake { reply }).await
    }

    /// Prepares for handling a due run if nodes share the store. Gives the run's home node time to handle the run
    /// first. Drops the state in memory, which may lack commits of other nodes.
    pub(crate) async fn leave_to_home(&self, key: &HeadKey) {
        if self.nodes.is_shared() {
            if !self.nodes.is_home(self.store.due_shard(key)) {
                tokio::time::sleep(FOREIGN_WAIT).await;
            }
            let cell = self.cache.cell(key);
            cell.state.lock().await.forget();
            self.cache.settle(&cell, None);
        }
    }

    /// Reads the newest run of a workflow id from the store, regardless of the state in memory.
    pub(crate) async fn stored(&self, key: &HeadKey) -> Result<Option<StoredRun>, Refusal> {
        self.store.load(key).await?.map(StoredRun::decode).transpose()
    }

    /// Returns the newest run of a workflow id from memory. Reads it from the store if memory has no such run, or if
    /// `is_old` returns true for the run in memory.
    pub(crate) async fn newest(
        &self,
        key: &HeadKey,
        is_old: impl Fn(&StoredRun) -> bool,
    ) -> Result<Option<StoredRun>, Refusal> {
        let cell = self.cache.cell(key);
        let mut state = cell.state.lock().await;
        if state.known().is_some_and(is_old) {
            state.forget();
        }
        let current = self.reader.loaded(key, &mut state).await?.cloned();
        let is_kept = current.as_ref().is_some_and(|loaded| loaded.run().is_open());
        if !is_kept {
            state.forget();
        }
        drop(state);
        self.settle(&cell, current.as_ref().filter(|_| is_kept).map(StoredRun::bytes));
        Ok(current)
    }

    /// Sets the size in memory of a cell after use. `bytes` is `None` if the cell has no run in memory, and then the
    /// cell is removed.
    pub(crate) fn settle(&self, cell: &Arc<RunCell>, bytes: Option<usize>) {
        self.cache.settle(cell, bytes);
    }

    /// Returns the number of runs in memory and their size in bytes.
    pub(crate) fn in_memory(&self) -> (usize, usize) {
        self.cache.size()
    }
}

#[cfg(test)]
mod tests {
    use store::memory::Memory;

    use super::*;
    use crate::base::records::Records;

    #[tokio::test]
    async fn without_an_executor_the_outcome_is_unknown() {
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let reader = Arc::new(RunReader::new(Arc::clone(&store)));
        let nodes = Arc::new(Nodes::new(Records::new(Arc::clone(&store)), None, 1, Arc::new(crate::SystemClock)));
        let runs = Runs::new(store, reader, nodes, usize::MAX, Background::new());
        for _ in 0..2 {
            let answer = runs.wake(&HeadKey::new("d", "w")).await;
            assert!(matches!(answer, Err(Refusal::OutcomeUnknown { .. })), "{answer:?}");
        }
    }
}
