//! Telling those who wait for a run to change. Costs nothing for runs that nobody watches.

pub(crate) mod news;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use history::EventId;
use store::HeadKey;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};
use uuid::Uuid;

use crate::base::watch::news::{DomainNews, DomainWatch};

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunProgress {
    pub(crate) run_id: Uuid,
    pub(crate) last_event_id: EventId,
    pub(crate) closed: bool,
}

struct WatchEntry {
    sender: watch::Sender<Option<RunProgress>>,
    /// When somebody last went to the store for all who watch.
    looked: Instant,
}

type Watched = HashMap<HeadKey, WatchEntry>;

/// Who watches what.
#[derive(Default)]
pub(crate) struct Watchers {
    watched: Mutex<Watched>,
    news: Arc<DomainNews>,
}

/// One watcher of one run.
pub(crate) struct Watching<'a> {
    watchers: &'a Watchers,
    key: &'a HeadKey,
    receiver: watch::Receiver<Option<RunProgress>>,
}

impl Watchers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().expect("no code panics while it holds this lock")
    }

    /// Watches a run. What changes after this call is not missed; look at the run once after it.
    pub(crate) fn watch<'a>(&'a self, key: &'a HeadKey) -> Watching<'a> {
        let mut watched = self.lock();
        let receiver = match watched.get(key) {
            Some(entry) => entry.sender.subscribe(),
            None => {
                let entry = WatchEntry { sender: watch::Sender::new(None), looked: Instant::now() };
                watched.entry(key.clone()).or_insert(entry).sender.subscribe()
            }
        };
        Watching { watchers: self, key, receiver }
    }

    /// Says how far a run has come.
    pub(crate) fn tell(&self, key: &HeadKey, progress: RunProgress) {
        self.news.tell(&key.domain);
        let watched = self.lock();
        if let Some(entry) = watched.get(key) {
            entry.sender.send_replace(Some(progress));
        }
    }

    /// Whether nobody has looked at the run for so long; whoever hears so does.
    pub(crate) fn is_time_to_look(&self, key: &HeadKey, every: Duration) -> bool {
        let mut watched = self.lock();
        let Some(entry) = watched.get_mut(key).filter(|entry| entry.looked.elapsed() >= every) else { return false };
        entry.looked = Instant::now();
        true
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        self.lock().clear();
        self.news.close();
    }

    /// Watches a domain: what changes in it after this call is told.
    pub(crate) fn watch_domain(&self, domain: &str) -> DomainWatch {
        self.news.watch(domain)
    }

    /// How many runs are watched.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Watching<'_> {
    /// Waits until the run has gone beyond `after`, or has closed, or is another run; or until the service stops.
    pub(crate) async fn beyond(&mut self, run_id: Uuid, after: EventId) {
        let moved = |progress: &Option<RunProgress>| {
            progress.is_some_and(|at| at.run_id != run_id || at.last_event_id > after || at.closed)
        };
        // An error means that the sender is gone, and so that the service is stopping.
        drop(self.receiver.wait_for(moved).await);
    }

    /// Waits until there is another run; or until the service stops.
    pub(crate) async fn another(&mut self, run_id: Uuid) {
        drop(self.receiver.wait_for(|progress| progress.is_some_and(|at| at.run_id != run_id)).await);
    }

    /// Waits until the run has closed, or is another run; or until the service stops.
    pub(crate) async fn closed(&mut self, run_id: Uuid) {
        self.beyond(run_id, EventId::MAX).await;
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut watched = self.watchers.lock();
        // Ours is the last receiver exactly when the count is still one here, unless our sender is gone and this is another.
        let is_last = |entry: &WatchEntry| {
            entry.sender.receiver_count() <= 1 && entry.sender.subscribe().same_channel(&self.receiver)
        };
        if watched.get(self.key).is_some_and(is_last) {
            watched.remove(self.key);
        }
    }
}
