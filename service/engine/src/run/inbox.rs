//! Inbox of a run: the requests that wait for it. The inbox guarantees that at most one worker handles the requests,
//! and that there is a worker whenever requests wait.
//!
//! A caller that adds a request while there is no worker runs the worker in its own tokio task. Adding a request and
//! ending the worker use the same lock. Without it, a worker could find the queue empty and end just when a caller adds
//! a request and relies on this worker.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use crate::base::background::Background;
use crate::run::request::{Alone, Batched, RunRequest};

/// Maximum size of the payloads of one commit, in bytes. Source: every store accepts parts of at least this size.
const FOLD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum number of requests in one commit. Our choice.
const FOLD_REQUESTS_MAX: usize = 256;

/// The next item that a worker handles.
pub(crate) enum InboxItem {
    /// Requests that are admitted and committed together, in this order. There is at least one.
    Batch(Vec<Batched>),
    /// One request that is handled separately.
    Alone(Alone),
}

#[derive(Default)]
struct InboxState {
    queue: VecDeque<InboxItem>,
    /// Size in bytes of the last batch that was added to the queue.
    last_batch_bytes: usize,
    /// True while a worker handles the queue.
    is_worked_on: bool,
}

impl InboxState {
    fn push(&mut self, request: RunRequest) {
        match request {
            RunRequest::Alone(request) => self.queue.push_back(InboxItem::Alone(request)),
            RunRequest::Batched(request) => {
                let bytes = request.bytes();
                if let Some(InboxItem::Batch(batch)) = self.queue.back_mut()
                    && batch.len() < FOLD_REQUESTS_MAX
                    && self.last_batch_bytes.saturating_add(bytes) <= FOLD_BYTES_MAX
                {
                    self.last_batch_bytes += bytes;
                    batch.push(request);
                } else {
                    self.last_batch_bytes = bytes;
                    self.queue.push_back(InboxItem::Batch(vec![request]));
                }
            }
        }
    }
}

/// Queue of the requests to a run.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<InboxState>);

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    /// Adds a request. Returns true if there is no worker. In that case the caller must run a worker.
    #[must_use]
    pub(crate) fn add(&self, request: RunRequest) -> bool {
        let mut state = self.lock();
        state.push(request);
        !std::mem::replace(&mut state.is_worked_on, true)
    }

    /// Begins the use of the inbox by a worker. Called only by the caller that [must run the worker](Self::add).
    pub(crate) fn begin(&self) -> Shift<'_> {
        Shift(self)
    }
}

/// Use of the inbox by a worker. If this value is dropped without a call of [`end`](Self::end), the waiting requests
/// are dropped.
pub(crate) struct Shift<'a>(&'a Inbox);

impl Shift<'_> {
    /// Takes the next item. Returns `None` if the inbox is empty. The worker must then stop, and the next caller runs
    /// another worker.
    pub(crate) fn next(&mut self) -> Option<InboxItem> {
        let mut state = self.0.lock();
        let next = state.queue.pop_front();
        // The flag is set while the queue is locked, so that the caller of the next request starts another worker.
        state.is_worked_on = next.is_some();
        next
    }

    /// Ends the use of the inbox after [`next`](Self::next) has returned `None`.
    pub(crate) fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Shift<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_worked_on = false;
        // Dropping the requests reports to their callers that the outcome is unknown.
        state.queue.clear();
    }
}

/// A run's worker as a future. A caller that found no worker polls this future in its tokio task. If this task is
/// dropped during a commit, the future continues in a background task.
pub(crate) struct RunWork {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    background: Arc<Background>,
}

impl RunWork {
    pub(crate) fn new(background: &Arc<Background>, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), background: Arc::clone(background) }
    }
}

impl Future for RunWork {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let polled = self.work.as_mut().map_or(Poll::Ready(()), |work| work.as_mut().poll(context));
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl Drop for RunWork {
    fn drop(&mut self) {
        // Without a runtime, the process is ending. The callers then get the error that the outcome is unknown.
        if let Some(work) = self.work.take() {
            self.background.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use history::{Author, Command, Payload};
    use tokio::sync::oneshot;

    use super::*;
    use crate::run::request::Reply;

    fn wake() -> RunRequest {
        Batched::Wake { reply: oneshot::channel().0 }.into()
    }

    /// Returns a signal with a payload of this size.
    fn signal(bytes: usize, reply: Reply<crate::Admitted>) -> RunRequest {
        let input = Some(Payload::from_trusted(&"1".repeat(bytes)));
        let command = Command::Signal { name: "s".to_owned(), input, identity: None, key: None, if_version: None };
        RunRequest::command(None, command, Author::default(), reply)
    }

    /// Returns the number of requests in a batch; 0 for a request that is handled separately.
    fn size(work: InboxItem) -> usize {
        match work {
            InboxItem::Batch(batch) => batch.len(),
            InboxItem::Alone(_) => 0,
        }
    }

    #[test]
    fn a_request_that_is_handled_alone_divides_batches() {
        let inbox = Inbox::default();
        let alone = || Alone::DispatchRiders { reply: oneshot::channel().0 }.into();
        for request in [wake(), wake(), alone(), wake(), alone(), alone()] {
            let _ = inbox.add(request);
        }
        let mut shift = inbox.begin();
        assert_eq!(std::iter::from_fn(|| shift.next()).map(size).collect::<Vec<_>>(), [2, 0, 1, 0, 0]);
    }

    #[test]
    fn only_the_first_caller_runs_the_worker() {
        let inbox = Inbox::default();
        assert_eq!([inbox.add(wake()), inbox.add(wake())], [true, false]);
        let mut shift = inbox.begin();
        assert_eq!(shift.next().map(size), Some(2));
        assert!(!inbox.add(wake()), "a worker handles the first two");
        assert_eq!(shift.next().map(size), Some(1));
        assert!(shift.next().is_none());
        shift.end();
        assert!(inbox.add(wake()), "there is no worker any more");
    }

    #[test]
    fn a_request_after_the_last_batch_starts_a_new_worker() {
        let inbox = Inbox::default();
        assert!(inbox.add(wake()));
        let mut shift = inbox.begin();
        assert!(shift.next().is_some() && shift.next().is_none());
        assert!(inbox.add(wake()));
        shift.end();
        assert!(!inbox.add(wake()), "that caller runs the worker");
        assert_eq!(inbox.begin().next().map(size), Some(2));
    }

    #[test]
    fn a_shift_dropped_early_clears_the_inbox() {
        let inbox = Inbox::default();
        let (reply, mut answer) = oneshot::channel();
        assert!(inbox.add(signal(1, reply)));
        drop(inbox.begin());
        assert!(answer.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        assert!(inbox.add(wake()));
    }

    #[test]
    fn requests_are_batched_up_to_the_size_of_a_commit() {
        let batches = |sizes: &[usize]| {
            let inbox = Inbox::default();
            for bytes in sizes {
                let _ = inbox.add(signal(*bytes, oneshot::channel().0));
            }
            let mut shift = inbox.begin();
            std::iter::from_fn(|| shift.next()).map(size).collect::<Vec<_>>()
        };
        assert_eq!(batches(&[1; FOLD_REQUESTS_MAX + 1]), [FOLD_REQUESTS_MAX, 1]);
        assert_eq!(batches(&[FOLD_BYTES_MAX, 0, 1]), [2, 1]);
        assert_eq!(batches(&[1, FOLD_BYTES_MAX + 1, 1]), [1, 1, 1]);
    }

    #[tokio::test]
    async fn work_continues_after_its_caller_is_dropped() {
        let (done, is_done) = oneshot::channel();
        let mut work = RunWork::new(&Background::new(), async move {
            tokio::task::yield_now().await;
            done.send(()).unwrap();
        });
        tokio::select! {
            biased;
            () = &mut work => panic!("it has not been done at once"),
            () = std::future::ready(()) => {}
        }
        drop(work);
        assert_eq!(is_done.await, Ok(()));
    }
}
