//! Work that is woken while it is polled, as a connection is when one part of it has something for another: it is polled again at once.
//! By way of the runtime a second thread would be woken for it, and mostly find it done.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// How often work is polled in a row. Ours: a request is read, worked on and answered in as many; what wakes itself without end lets others
/// have their turn.
const POLLS_IN_A_ROW: u32 = 4;

/// Nobody polls the work: who wakes it wakes its task.
const RESTS: u8 = 0;
/// It is polled.
const IS_POLLED: u8 = 1;
/// It is polled, and was woken since that began.
const IS_WOKEN: u8 = 2;

/// What the work is woken by.
#[derive(Debug, Default)]
struct OwnWaker {
    standing: AtomicU8,
    task: AtomicWaker,
}

impl Wake for OwnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = |standing| (standing != RESTS).then_some(IS_WOKEN);
        if self.standing.fetch_update(Ordering::AcqRel, Ordering::Acquire, woken).is_err() {
            self.task.wake();
        }
    }
}

pin_project_lite::pin_project! {
    /// See the module.
    pub(super) struct PolledAgain<W> {
        #[pin]
        work: W,
        own: Arc<OwnWaker>,
    }
}

impl<W: Future> PolledAgain<W> {
    pub(super) fn new(work: W) -> Self {
        Self { work, own: Arc::default() }
    }
}

impl<W: Future> Future for PolledAgain<W> {
    type Output = W::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        let mut this = self.project();
        let waker = Waker::from(Arc::clone(this.own));
        this.own.task.register(context.waker());
        for _ in 0..POLLS_IN_A_ROW {
            this.own.standing.store(IS_POLLED, Ordering::Release);
            let polled = this.work.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() || this.own.standing.swap(RESTS, Ordering::AcqRel) == IS_POLLED {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls work once that wakes itself so many times: whether it was done, and how often its task was woken.
    fn polled(times: u32) -> (Poll<()>, usize) {
        let (task, mut left) = (Arc::<Counted>::default(), times);
        let mut work = PolledAgain::new(poll_fn(move |context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        let polled = Pin::new(&mut work).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&task))));
        (polled, task.0.load(Ordering::SeqCst))
    }

    #[test]
    fn what_wakes_itself_is_polled_again_at_once_and_its_task_is_not_woken() {
        assert_eq!(polled(0), (Poll::Ready(()), 0));
        assert_eq!(polled(POLLS_IN_A_ROW - 1), (Poll::Ready(()), 0));
    }

    #[test]
    fn what_wakes_itself_without_end_gives_way_and_goes_on_later() {
        assert_eq!(polled(POLLS_IN_A_ROW), (Poll::Pending, 1));
    }

    #[test]
    fn what_is_woken_at_rest_has_its_task_woken_each_time_and_is_polled_no_more_than_that() {
        let (task, polls) = (Arc::<Counted>::default(), Arc::<AtomicUsize>::default());
        let (waker, counted) = (Arc::new(std::sync::Mutex::new(None)), Arc::clone(&polls));
        let kept = Arc::clone(&waker);
        let mut work = PolledAgain::new(poll_fn(move |context| {
            *kept.lock().unwrap() = Some(context.waker().clone());
            counted.fetch_add(1, Ordering::SeqCst);
            Poll::<()>::Pending
        }));
        let of_task = Waker::from(Arc::clone(&task));
        for round in 1..=3 {
            assert_eq!(Pin::new(&mut work).poll(&mut Context::from_waker(&of_task)), Poll::Pending);
            let woken = waker.lock().unwrap().take();
            woken.unwrap().wake();
            assert_eq!((task.0.load(Ordering::SeqCst), polls.load(Ordering::SeqCst)), (round, round));
        }
    }
}
