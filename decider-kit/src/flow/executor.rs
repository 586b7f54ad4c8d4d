//! Polling a flow: one thread, one waker, and no runtime around it.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use baton_history::Payload;
use tokio::runtime::{Handle, Runtime};

use super::trouble::FlowError;
use crate::failure::Failure;

/// What a flow comes to.
pub(super) type Ended = Result<Payload, Failure>;

/// A flow, its types forgotten.
pub(super) type Code = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// Polls without an event between, after which a flow is taken for one that runs in circles. Ours: a flow is polled once
/// for what an event wakes, and once more for each time that it wakes itself.
const POLLS_MAX: u32 = 10_000;

/// Remembers that the flow is to be polled.
#[derive(Debug)]
pub(super) struct Bell(AtomicBool);

impl Default for Bell {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Polls until nothing has woken the flow any more; what it came to, if it did.
///
/// # Errors
///
/// [`FlowError::Panicked`], [`FlowError::Spins`], [`FlowError::Spawned`].
pub(super) fn poll_until_quiet(code: &mut Code, bell: &Arc<Bell>) -> Result<Option<Ended>, FlowError> {
    let waker = Waker::from(Arc::clone(bell));
    let mut context = Context::from_waker(&waker);
    let mut polls = 0;
    while bell.0.swap(false, Ordering::Acquire) {
        polls += 1;
        if polls > POLLS_MAX {
            return Err(FlowError::Spins { polls: POLLS_MAX });
        }
        // Not held back by the budget of the task that polls us, which would make a flow's way depend on it.
        let polled = guarded(|| Pin::new(&mut tokio::task::unconstrained(code.as_mut())).poll(&mut context))?;
        if let Poll::Ready(ended) = polled {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}

/// Runs code of a flow where no runtime works for it, and contains its panics.
///
/// # Errors
///
/// [`FlowError::Panicked`], [`FlowError::Spawned`].
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, FlowError> {
    let handle = idle_runtime();
    let done = handle.as_ref().map_or_else(
        || Ok(None),
        |handle| {
            let _entered = handle.enter();
            catch_unwind(AssertUnwindSafe(run)).map(Some)
        },
    );
    if handle.is_some_and(|handle| handle.metrics().num_alive_tasks() > 0) {
        discard_idle_runtime();
        return Err(FlowError::Spawned);
    }
    match done {
        Ok(Some(done)) => Ok(done),
        Ok(None) => Err(FlowError::Panicked { message: "no runtime could be made".to_owned(), advice: "" }),
        Err(panic) => {
            let message = baton_client::shutdown::panic_message(&*panic);
            // What tokio says when it misses its timers and its reactor.
            let is_tokio = message.contains("Tokio 1.x");
            let advice = if is_tokio {
                ". A flow runs without a tokio runtime, because no replay could repeat what a runtime does: use `ctx.sleep` \
                 for time and an activity for work"
            } else {
                ""
            };
            Err(FlowError::Panicked { message, advice })
        }
    }
}

thread_local! {
    /// A runtime that has neither timers nor IO, and that nobody drives: entered while a flow is polled, it hides the one
    /// which the host runs on, so that a flow cannot lean on it. Never dropped with its thread, because a thread that ends
    /// is no place to shut a runtime down.
    static IDLE: RefCell<Option<ManuallyDrop<Runtime>>> = const { RefCell::new(None) };
}

/// `None` where there can be none, e.g. while the thread ends.
fn idle_runtime() -> Option<Handle> {
    let handle = IDLE.try_with(|idle| {
        let mut idle = idle.try_borrow_mut().ok()?;
        if idle.is_none() {
            *idle = tokio::runtime::Builder::new_current_thread().build().ok().map(ManuallyDrop::new);
        }
        idle.as_ref().map(|runtime| runtime.handle().clone())
    });
    handle.ok().flatten()
}

/// Drops the runtime with the tasks that were spawned on it.
fn discard_idle_runtime() {
    if let Ok(Some(runtime)) = IDLE.try_with(RefCell::take) {
        ManuallyDrop::into_inner(runtime).shutdown_background();
    }
}
