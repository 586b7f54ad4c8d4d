//! Notifies callers that watch a domain. A notification only says that something has changed, so one notification can
//! cover many changes. A domain without watchers causes no cost.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

type Senders = HashMap<Arc<str>, watch::Sender<()>>;

/// Watchers of domains.
#[derive(Default)]
pub(crate) struct DomainNews {
    domains: Mutex<Senders>,
    /// Number of watched domains. If it is zero, notifying does not need the lock.
    count: AtomicUsize,
}

/// A watcher of a domain.
pub struct DomainWatch {
    news: Arc<DomainNews>,
    domain: Arc<str>,
    receiver: watch::Receiver<()>,
}

impl DomainNews {
    fn lock(&self) -> MutexGuard<'_, Senders> {
        self.domains.lock().expect("no code panics while it holds this lock")
    }

    /// Watches a domain for changes after this call.
    pub(crate) fn watch(self: &Arc<Self>, domain: &str) -> DomainWatch {
        let (mut domains, domain): (_, Arc<str>) = (self.lock(), domain.into());
        let receiver = domains.entry(Arc::clone(&domain)).or_insert_with(|| watch::Sender::new(())).subscribe();
        self.count.store(domains.len(), Relaxed);
        DomainWatch { news: Arc::clone(self), domain, receiver }
    }

    /// Notifies the watchers of a domain that something has changed.
    pub(crate) fn notify(&self, domain: &str) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        if let Some(sender) = self.lock().get(domain) {
            sender.send_replace(());
        }
    }

    /// Ends all waits.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }
}

impl DomainWatch {
    /// Waits for a change since the last call. Returns false if the service is stopping.
    pub async fn changed(&mut self) -> bool {
        self.receiver.changed().await.is_ok()
    }
}

impl Drop for DomainWatch {
    fn drop(&mut self) {
        let mut domains = self.news.lock();
        // If only one receiver is left, it belongs to this watcher.
        if domains.get(&self.domain).is_some_and(|sender| sender.receiver_count() <= 1) {
            domains.remove(&self.domain);
        }
        self.news.count.store(domains.len(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_are_merged_and_reach_watchers_of_their_domain() {
        let news = Arc::<DomainNews>::default();
        news.notify("a");
        let (mut one, mut other) = (news.watch("a"), news.watch("b"));
        for _ in 0..3 {
            news.notify("a");
        }
        assert!(one.changed().await);
        assert!(!one.receiver.has_changed().unwrap() && !other.receiver.has_changed().unwrap());
        let second = news.watch("a");
        assert_eq!(news.count.load(Relaxed), 2);
        drop(one);
        assert_eq!(news.count.load(Relaxed), 2, "another looks at it still");
        drop(second);
        assert_eq!(news.count.load(Relaxed), 1);
        news.close();
        assert!(!other.changed().await);
    }
}
