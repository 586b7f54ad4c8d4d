//! Background tasks of the service. Shutdown waits for some of these tasks and aborts the others, so that no task uses
//! the store after it is closed.

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

/// Maximum time to wait for running tasks at shutdown. Our choice: longer than the time for which a commit is retried
/// while the store does not accept it.
const FINISH_WAIT: Duration = Duration::from_secs(5);

/// Delay before a task that has panicked is restarted. Our choice: short, because other tasks depend on it, but not
/// zero, because the cause of the panic may persist.
const ANEW_AFTER: Duration = Duration::from_secs(1);

/// Owner of the background tasks.
#[derive(Debug)]
pub(crate) struct Background {
    is_stopping: AtomicBool,
    stopping: Notify,
    /// Number of running tasks for which shutdown waits.
    under_way: watch::Sender<usize>,
    /// Object that running tasks keep alive; see [`keeps`](Self::keeps).
    kept: OnceLock<Weak<dyn Any + Send + Sync>>,
}

/// Counts a task for which shutdown waits. The task is counted until this value is dropped.
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

    /// Sets an object that running tasks keep alive, because they may need it to finish.
    pub(crate) fn keeps(&self, it: Weak<dyn Any + Send + Sync>) {
        drop(self.kept.set(it));
    }

    /// Returns the object that was set with [`keeps`](Self::keeps); `None` if it was already dropped.
    pub(crate) fn kept(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.kept.get()?.upgrade()
    }

    /// Begins shutdown.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.stopping.notify_waiters();
    }

    /// Returns true if shutdown has begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Waits until shutdown begins.
    pub(crate) async fn stopped(&self) {
        let stopping = self.stopping.notified();
        tokio::pin!(stopping);
        // Registers for the notification before reading the flag, so that the notification cannot be missed.
        stopping.as_mut().enable();
        if !self.is_stopping() {
            stopping.await;
        }
    }

    /// Spawns a task that shutdown waits for, such as a commit.
    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime, the process is ending, so the task is not needed.
        let Ok(runtime) = Handle::try_current() else { return };
        self.under_way.send_modify(|count| *count += 1);
        let (under_way, kept) = (TaskUnderWay(Arc::clone(self)), self.kept());
        drop(runtime.spawn(async move {
            work.await;
            drop((under_way, kept));
        }));
    }

    /// Spawns a task that is aborted when shutdown begins.
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

    /// Runs a task until it is done or shutdown begins. A task that panics has a defect. It is restarted, because other
    /// tasks would wait for it forever.
    pub(crate) fn keep(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Fn() -> BoxFuture<'static, ()> + Send + 'static,
    ) {
        self.spawn_until_stopped(async move {
            while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
                tracing::error!("background task panicked and is restarted: {what}; this is a bug in the service");
                tokio::time::sleep(ANEW_AFTER).await;
            }
        });
    }

    /// Calls a function after a delay. The returned handle can abort the call, and so does shutdown.
    pub(crate) fn after(self: &Arc<Self>, wait: Duration, work: impl FnOnce() + Send + 'static) -> AbortHandle {
        let waiting = self.spawn_until_stopped(async move {
            tokio::time::sleep(wait).await;
            work();
        });
        waiting.abort_handle()
    }

    /// Waits until all tasks are done, but no longer than [`FINISH_WAIT`].
    pub(crate) async fn finish(&self) {
        let mut under_way = self.under_way.subscribe();
        if tokio::time::timeout(FINISH_WAIT, under_way.wait_for(|count| *count == 0)).await.is_err() {
            let count = *self.under_way.borrow();
            tracing::warn!(count, "the service stops while background tasks are still running");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_for_work_under_way() {
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
    async fn shutdown_does_not_wait_forever() {
        let (background, began) = (Background::new(), Instant::now());
        background.spawn(std::future::pending());
        background.stop();
        background.finish().await;
        assert_eq!(began.elapsed(), FINISH_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn panicking_work_is_restarted_until_it_is_done_or_stopped() {
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
    async fn endless_work_ends_at_shutdown_without_being_awaited() {
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
