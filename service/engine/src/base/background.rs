//! What the service does beside what it is asked: tasks that are owned here, so that none is at work on a store that is closed.
//! When the service stops, some end at once and others are waited for.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};

/// How long what is under way is waited for when the service stops. Ours: longer than a commit is tried that the store does
/// not take.
const FINISH_WAIT: Duration = Duration::from_secs(5);

/// When work begins anew that has panicked. Ours: others wait for it, and what made it panic may be there still.
const ANEW_AFTER: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Background {
    is_stopping: AtomicBool,
    stopping: Notify,
    /// How many tasks are waited for when the service stops.
    under_way: watch::Sender<usize>,
    /// See [`keeps`](Self::keeps).
    kept: OnceLock<Weak<dyn Any + Send + Sync>>,
}

/// A task that is waited for, until this is dropped.
struct TaskUnderWay(Arc<Background>);

impl Drop for TaskUnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|count| *count -= 1);
    }
}

impl Background {
    pub(crate) fn new() -> Arc<Self> {
        let (is_stopping, stopping) = (AtomicBool::new(false), Notify::new());
        Arc::new(Self { is_stopping, stopping, under_way: watch::Sender::new(0), kept: OnceLock::new() })
    }

    /// Has what is under way keep this, which it may need to come to its end.
    pub(crate) fn keeps(&self, it: Weak<dyn Any + Send + Sync>) {
        drop(self.kept.set(it));
    }

    /// What is under way [keeps](Self::keeps) this; `None` once nobody has it any more.
    pub(crate) fn kept(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.kept.get()?.upgrade()
    }

    /// The service stops.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.stopping.notify_waiters();
    }

    /// Whether the service stops.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Resolves when the service stops.
    pub(crate) async fn stopped(&self) {
        let stopping = self.stopping.notified();
        tokio::pin!(stopping);
        // Registered before the flag is read, so that it cannot be missed.
        stopping.as_mut().enable();
        if !self.is_stopping() {
            stopping.await;
        }
    }

    /// Does some work that is waited for when the service stops, such as a commit.
    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        // Outside a runtime the process is ending.
        let Ok(runtime) = Handle::try_current() else { return };
        self.under_way.send_modify(|count| *count += 1);
        let (under_way, kept) = (TaskUnderWay(Arc::clone(self)), self.kept());
        drop(runtime.spawn(async move {
            work.await;
            drop((under_way, kept));
        }));
    }

    /// Does some work until it is done or the service stops, whichever comes first.
    pub(crate) fn spawn_until_stopped(
        self: &Arc<Self>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let (background, kept) = (Arc::clone(self), self.kept());
        tokio::spawn(async move {
            tokio::select! { biased; () = background.stopped() => {} () = work => {} }
            drop(kept);
        })
    }

    /// Does some work until it is done or the service stops. If it panics, which none should, it begins anew: what waits for it would wait for ever.
    pub(crate) fn keep(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Fn() -> BoxFuture<'static, ()> + Send + 'static,
    ) {
        self.spawn_until_stopped(async move {
            while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
                tracing::error!("{what} panicked, and begins anew; this is a defect of the service");
                tokio::time::sleep(ANEW_AFTER).await;
            }
        });
    }

    /// Does something after a while, unless that is aborted, or the service stops before.
    pub(crate) fn after(self: &Arc<Self>, wait: Duration, work: impl FnOnce() + Send + 'static) -> AbortHandle {
        let waiting = self.spawn_until_stopped(async move {
            tokio::time::sleep(wait).await;
            work();
        });
        waiting.abort_handle()
    }

    /// Waits until nothing is under way any more that is to be waited for, or for as long as it is.
    pub(crate) async fn finish(&self) {
        let mut under_way = self.under_way.subscribe();
        if tokio::time::timeout(FINISH_WAIT, under_way.wait_for(|count| *count == 0)).await.is_err() {
            let count = *self.under_way.borrow();
            tracing::warn!(count, "the service stops while something is under way");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_is_waited_for_when_the_service_stops() {
        let background = Background::new();
        let (done, is_done) = oneshot::channel();
        background.spawn(async move {
            tokio::time::sleep(FINISH_WAIT / 2).await;
            done.send(()).unwrap();
        });
        background.stop();
        background.finish().await;
        assert_eq!(is_done.await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_ends_is_not_waited_for_for_ever() {
        let (background, began) = (Background::new(), Instant::now());
        background.spawn(std::future::pending());
        background.stop();
        background.finish().await;
        assert_eq!(began.elapsed(), FINISH_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn what_panics_begins_anew_until_it_is_done_or_the_service_stops() {
        let (background, began) = (Background::new(), Instant::now());
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        for panics in [2, usize::MAX] {
            let (tell, tries) = (tell.clone(), std::sync::atomic::AtomicUsize::new(0));
            background.keep("trying", move || {
                let (tell, tried) = (tell.clone(), tries.fetch_add(1, Ordering::SeqCst));
                Box::pin(async move {
                    tell.send((panics, tried, began.elapsed())).unwrap();
                    assert!(tried >= panics, "a defect");
                })
            });
        }
        drop(tell);
        let mut tries = Vec::new();
        for _ in 0..7 {
            tries.push(told.recv().await.unwrap());
        }
        tries.sort_unstable();
        let all = [(2, 0, 0), (2, 1, 1), (2, 2, 2)].into_iter().chain((0..4).map(|tried| (usize::MAX, tried, tried)));
        let all = all.map(|(panics, tried, waits)| (panics, tried, ANEW_AFTER * u32::try_from(waits).unwrap()));
        assert_eq!(tries, all.collect::<Vec<_>>());
        background.stop();
        assert_eq!(told.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_or_goes_on_for_ever_ends_when_the_service_stops_and_nobody_waits_for_it() {
        let (background, began) = (Background::new(), Instant::now());
        let (told, is_told) = oneshot::channel::<()>();
        let for_ever = background.spawn_until_stopped(std::future::pending());
        background.after(FINISH_WAIT, move || told.send(()).unwrap_or_default());
        background.stop();
        background.finish().await;
        assert!(for_ever.await.is_ok() && is_told.await.is_err());
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(background.is_stopping());
        background.stopped().await;
    }
}
