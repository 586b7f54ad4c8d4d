//! Notifies callers that wait for a run to change. A run without watchers causes no cost.

pub(crate) mod holders;
pub(crate) mod news;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use history::admit::HeldState;
use history::{EventId, Run, TaskId};
use store::HeadKey;
use tokio::sync::watch;
use tokio::time::{Duration, Instant};
use uuid::Uuid;

use crate::base::watch::holders::{HolderReceiver, Holders};
use crate::base::watch::news::{DomainNews, DomainWatch};

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunProgress {
    pub(crate) run_id: Uuid,
    pub(crate) last_event_id: EventId,
    pub(crate) closed: bool,
}

type ProgressSender = watch::Sender<Option<RunProgress>>;

struct WatchEntry {
    /// Sender to watchers that wait for each event.
    steps: Option<ProgressSender>,
    /// Sender to watchers that only wait for the end, which means that the run has closed or that a newer run has
    /// replaced it.
    end: Option<ProgressSender>,
    /// Runners that wait for a change of the activity that they hold.
    holders: Holders,
    /// Time when the run was last read from the store on behalf of all its watchers.
    looked: Instant,
}

impl WatchEntry {
    /// Returns true if the run has no other watchers than this number of receivers of its progress.
    fn is_unwatched(&self, except: usize) -> bool {
        let senders = [&self.steps, &self.end].into_iter().flatten();
        self.holders.is_empty() && senders.map(ProgressSender::receiver_count).sum::<usize>() <= except
    }
}

type Watched = HashMap<HeadKey, WatchEntry>;

/// Watchers of all runs and domains at this node.
#[derive(Default)]
pub(crate) struct Watchers {
    watched: Mutex<Watched>,
    news: Arc<DomainNews>,
}

/// A watcher of a run.
pub(crate) struct Watching<'a> {
    watchers: &'a Watchers,
    key: &'a HeadKey,
    receiver: watch::Receiver<Option<RunProgress>>,
}

/// A watcher of the activity that a runner holds.
pub(crate) struct HolderWatching<'a> {
    watchers: &'a Watchers,
    key: &'a HeadKey,
    receiver: HolderReceiver,
}

impl Watchers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().expect("no code panics while it holds this lock")
    }

    /// Watches each event of a run. To miss no change, the caller must read the run once after this call.
    pub(crate) fn watch<'a>(&'a self, key: &'a HeadKey) -> Watching<'a> {
        self.watch_some(key, |entry| &mut entry.steps)
    }

    /// Watches only the end of a run.
    pub(crate) fn watch_end<'a>(&'a self, key: &'a HeadKey) -> Watching<'a> {
        self.watch_some(key, |entry| &mut entry.end)
    }

    fn watch_some<'a>(
        &'a self,
        key: &'a HeadKey,
        which: impl FnOnce(&mut WatchEntry) -> &mut Option<ProgressSender>,
    ) -> Watching<'a> {
        let subscribe =
            |entry: &mut WatchEntry| which(entry).get_or_insert_with(|| ProgressSender::new(None)).subscribe();
        Watching { watchers: self, key, receiver: self.with_entry(key, subscribe) }
    }

    /// Watches the activity that a runner holds. No change after this call is missed; the caller must read the run once
    /// after this call.
    pub(crate) fn watch_holder<'a>(&'a self, key: &'a HeadKey, run_id: Uuid, task: TaskId) -> HolderWatching<'a> {
        let receiver = self.with_entry(key, |entry| entry.holders.add(run_id, task));
        HolderWatching { watchers: self, key, receiver }
    }

    fn with_entry<T>(&self, key: &HeadKey, act: impl FnOnce(&mut WatchEntry) -> T) -> T {
        let mut watched = self.lock();
        act(match watched.get_mut(key) {
            Some(entry) => entry,
            None => {
                let (steps, end, holders, looked) = (None, None, Holders::default(), Instant::now());
                watched.entry(key.clone()).or_insert(WatchEntry { steps, end, holders, looked })
            }
        })
    }

    /// Notifies the watchers of a run of its progress, and the runners that wait for a change of their activity of the
    /// run's state.
    pub(crate) fn notify(&self, key: &HeadKey, progress: RunProgress, state: Option<&Run>) {
        self.news.notify(&key.domain);
        let watched = self.lock();
        let Some(entry) = watched.get(key) else { return };
        if let Some(run) = state {
            entry.holders.notify(run);
        }
        if let Some(steps) = &entry.steps {
            steps.send_replace(Some(progress));
        }
        if let Some(end) = &entry.end {
            end.send_if_modified(|told| {
                let before = told.replace(progress);
                progress.closed || before.is_none_or(|before| before.run_id != progress.run_id)
            });
        }
    }

    /// Returns true if the run was last read from the store at least `every` ago. In that case the caller must read it.
    pub(crate) fn is_check_due(&self, key: &HeadKey, every: Duration) -> bool {
        let mut watched = self.lock();
        let Some(entry) = watched.get_mut(key).filter(|entry| entry.looked.elapsed() >= every) else { return false };
        entry.looked = Instant::now();
        true
    }

    /// Ends all waits.
    pub(crate) fn close(&self) {
        self.lock().clear();
        self.news.close();
    }

    /// Watches a domain for changes after this call.
    pub(crate) fn watch_domain(&self, domain: &str) -> DomainWatch {
        self.news.watch(domain)
    }

    /// Returns the number of watched runs.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Watching<'_> {
    /// Waits until the run has an event after `after`, has closed or has been replaced by another run, or until the
    /// service stops.
    pub(crate) async fn beyond(&mut self, run_id: Uuid, after: EventId) {
        let moved = |progress: &Option<RunProgress>| {
            progress.is_some_and(|at| at.run_id != run_id || at.last_event_id > after || at.closed)
        };
        // An error means that the sender was dropped because the service is stopping.
        drop(self.receiver.wait_for(moved).await);
    }

    /// Waits until another run is the newest run of the workflow id, or until the service stops.
    pub(crate) async fn another(&mut self, run_id: Uuid) {
        drop(self.receiver.wait_for(|progress| progress.is_some_and(|at| at.run_id != run_id)).await);
    }

    /// Waits until the run has closed or has been replaced by another run, or until the service stops.
    pub(crate) async fn closed(&mut self, run_id: Uuid) {
        self.beyond(run_id, EventId::MAX).await;
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut watched = self.watchers.lock();
        // If only one receiver is left, it belongs to this watcher, unless the sender was dropped and replaced by
        // another sender.
        let is_last = |entry: &WatchEntry| {
            let mut senders = [&entry.steps, &entry.end].into_iter().flatten();
            entry.is_unwatched(1) && senders.any(|sender| sender.subscribe().same_channel(&self.receiver))
        };
        if watched.get(self.key).is_some_and(is_last) {
            watched.remove(self.key);
        }
    }
}

impl HolderWatching<'_> {
    /// Waits until the activity has a state that is news to a runner that knows the state `known`, or until the service
    /// stops. Returns `None` if the caller must read the run: the runner no longer holds the activity, the service is
    /// stopping, or the set of nodes has changed.
    pub(crate) async fn news(&mut self, known: HeldState) -> Option<HeldState> {
        self.receiver.news(known).await
    }
}

impl Drop for HolderWatching<'_> {
    fn drop(&mut self) {
        let mut watched = self.watchers.lock();
        let Some(entry) = watched.get_mut(self.key) else { return };
        entry.holders.remove(&self.receiver);
        if entry.is_unwatched(0) {
            watched.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn at(run: u128, last_event_id: EventId, closed: bool) -> RunProgress {
        RunProgress { run_id: Uuid::from_u128(run), last_event_id, closed }
    }

    #[test]
    fn a_watcher_of_the_end_is_not_woken_by_each_event() {
        for end in [at(1, 9, true), at(2, 1, false)] {
            let (watchers, key) = (Watchers::default(), HeadKey { domain: "d".into(), workflow_id: "w".into() });
            let woken = Arc::<Counted>::default();
            let waker = Waker::from(Arc::clone(&woken));
            let mut watching = watchers.watch_end(&key);
            watchers.notify(&key, at(1, 1, false), None);
            let mut closed = pin!(watching.closed(Uuid::from_u128(1)));
            let mut is_over = || closed.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            assert!(!is_over());
            for step in 2..9 {
                watchers.notify(&key, at(1, step, false), None);
            }
            assert_eq!(woken.0.load(Ordering::SeqCst), 0);
            watchers.notify(&key, end, None);
            assert_eq!((woken.0.load(Ordering::SeqCst), is_over()), (1, true));
        }
    }

    #[test]
    fn entries_without_watchers_are_removed() {
        let (watchers, key) = (Watchers::default(), HeadKey { domain: "d".into(), workflow_id: "w".into() });
        let (step, end, other) = (watchers.watch(&key), watchers.watch_end(&key), watchers.watch_end(&key));
        for watching in [end, step, other] {
            assert_eq!(watchers.len(), 1);
            drop(watching);
        }
        assert_eq!(watchers.len(), 0);
    }
}
