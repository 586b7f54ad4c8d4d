//! Telling those who look at a domain that something in it has changed: not what, so that one message stands for many. Costs nothing
//! for domains that nobody looks at, and nothing while nothing happens.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

type Senders = HashMap<Arc<str>, watch::Sender<()>>;

/// Who watches which domain.
#[derive(Default)]
pub(crate) struct DomainNews {
    domains: Mutex<Senders>,
    /// How many of them there are, for those who have something to tell.
    count: AtomicUsize,
}

/// One watcher of one domain.
pub struct DomainWatch {
    news: Arc<DomainNews>,
    domain: Arc<str>,
    receiver: watch::Receiver<()>,
}

impl DomainNews {
    fn lock(&self) -> MutexGuard<'_, Senders> {
        self.domains.lock().expect("no code panics while it holds this lock")
    }

    /// Watches a domain: what changes after this call is told.
    pub(crate) fn watch(self: &Arc<Self>, domain: &str) -> DomainWatch {
        let (mut domains, domain): (_, Arc<str>) = (self.lock(), domain.into());
        let receiver = domains.entry(Arc::clone(&domain)).or_insert_with(|| watch::Sender::new(())).subscribe();
        self.count.store(domains.len(), Relaxed);
        DomainWatch { news: Arc::clone(self), domain, receiver }
    }

    /// Something in a domain has changed.
    pub(crate) fn tell(&self, domain: &str) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        if let Some(sender) = self.lock().get(domain) {
            sender.send_replace(());
        }
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }
}

impl DomainWatch {
    /// Waits until something has changed since the last time; false when the service stops.
    pub async fn changed(&mut self) -> bool {
        self.receiver.changed().await.is_ok()
    }
}

impl Drop for DomainWatch {
    fn drop(&mut self) {
        let mut domains = self.news.lock();
        // Ours is the last receiver exactly when the count is still one here.
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
    async fn what_changes_is_told_once_for_many_and_to_those_who_look_at_its_domain() {
        let news = Arc::<DomainNews>::default();
        news.tell("a");
        let (mut one, mut other) = (news.watch("a"), news.watch("b"));
        for _ in 0..3 {
            news.tell("a");
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
