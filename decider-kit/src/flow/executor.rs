//! The executor: polls a flow on one thread with one waker, outside any runtime.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use baton_history::Payload;
use tokio::runtime::{Handle, Runtime};

use super::error::FlowError;
use crate::failure::Failure;

/// Result of a flow.
pub(super) type Ended = Result<Payload, Failure>;

/// A flow with its types erased.
pub(super) type Code = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// Maximum number of polls between two events. A flow that exceeds it is considered to loop. Our choice: far more than
/// a correct flow needs. A flow is polled once after an event, and again each time that it wakes itself.
const POLLS_MAX: u32 = 10_000;

/// Waker that remembers that the flow must be polled.
#[derive(Debug)]
pub(super) struct WakeFlag(AtomicBool);

impl Default for WakeFlag {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Polls the flow until it is no longer woken. Returns its result if it has ended.
///
/// # Errors
///
/// [`FlowError::Panicked`], [`FlowError::Spins`], [`FlowError::Spawned`].
pub(super) fn poll_until_quiet(code: &mut Code, wake_flag: &Arc<WakeFlag>) -> Result<Option<Ended>, FlowError> {
    let waker = Waker::from(Arc::clone(wake_flag));
    let mut context = Context::from_waker(&waker);
    let mut polls = 0;
    while wake_flag.0.swap(false, Ordering::Acquire) {
        polls += 1;
        if polls > POLLS_MAX {
            return Err(FlowError::Spins { polls: POLLS_MAX });
        }
        // Unconstrained, because tokio's cooperative budget would otherwise make the flow's behavior depend on the
        // polling task.
        let polled = guarded(|| Pin::new(&mut tokio::task::unconstrained(code.as_mut())).poll(&mut context))?;
        if let Poll::Ready(ended) = polled {
            return Ok(Some(ended));
        }
    }
    Ok(None)
}

/// Runs code of a flow inside an idle runtime, whose timers and IO do not work, and catches panics of the code.
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
        Ok(None) => Err(FlowError::Panicked { message: "cannot create a runtime".to_owned(), advice: "" }),
        Err(panic) => {
            let message = baton_client::shutdown::panic_message(&*panic);
            // Part of tokio's panic message when its timers or its reactor are missing.
            let is_tokio = message.contains("Tokio 1.x");
            let advice = if is_tokio {
                ". A flow runs without a tokio runtime, because a replay could not repeat the work of a runtime: use \
                 `ctx.sleep` for time and an activity for work"
            } else {
                ""
            };
            Err(FlowError::Panicked { message, advice })
        }
    }
}

thread_local! {
    /// An idle runtime without timers and IO. It is entered while a flow is polled and hides the host's runtime, so
    /// that a flow cannot use it. It is never dropped with its thread, because a runtime cannot be shut down safely
    /// while its thread ends.
    static IDLE: RefCell<Option<ManuallyDrop<Runtime>>> = const { RefCell::new(None) };
}

/// Returns the idle runtime's handle, or `None` if the runtime cannot be created, e.g. while the thread ends.
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

/// Drops the idle runtime together with the tasks spawned on it.
fn discard_idle_runtime() {
    if let Ok(Some(runtime)) = IDLE.try_with(RefCell::take) {
        ManuallyDrop::into_inner(runtime).shutdown_background();
    }
}
