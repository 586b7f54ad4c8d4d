//! Timers that a flow can await.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context as Task, Poll};

use baton_history::{Duration, StartTimer, Timestamp};

use super::context::Context;
use super::core::{WaitTarget, lock};
use super::wait::WaitFuture;
use crate::failure::{Cause, Failure};

/// Default name of a timer.
const NAME: &str = "sleep";

impl Context {
    /// Returns a timer. It is started when it is first awaited, and canceled when it is dropped before it expires.
    pub fn sleep(&self, span: impl Into<Duration>) -> Sleep {
        Sleep::new(self.clone(), span.into())
    }

    /// Returns a timer that expires at this instant, or immediately if the instant has passed.
    pub fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.sleep(at.since(self.now()))
    }

    /// Runs `work` with a time limit. If the limit expires first, `work` is dropped, which cancels everything it has in
    /// progress.
    ///
    /// # Errors
    ///
    /// A failure with [`Cause::Elapsed`] if the limit expires. A cancellation if the scope is canceled before `work`
    /// has ended.
    pub async fn within<T>(&self, limit: impl Into<Duration>, work: impl Future<Output = T>) -> Result<T, Failure> {
        let mut work = pin!(work);
        let mut sleep = pin!(self.sleep(limit));
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            sleep.as_mut().poll(context).map(|slept| Err(slept.err().unwrap_or_else(elapsed)))
        })
        .await
    }
}

fn elapsed() -> Failure {
    Failure::of("elapsed", None, Cause::Elapsed)
}

/// A timer. See [`Context::sleep`].
#[must_use = "a timer is started only when it is awaited or started"]
pub struct Sleep {
    context: Context,
    span: Duration,
    name: Option<String>,
    stage: TimerStage,
}

enum TimerStage {
    Described,
    Set(WaitFuture),
    Over,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("span", &self.span).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Sleep {
    pub(super) fn new(context: Context, span: Duration) -> Self {
        Self { context, span, name: None, stage: TimerStage::Described }
    }

    /// Sets the timer's name in the history, with a number appended from the second timer of that name on. Default:
    /// `sleep`.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Starts the timer now, so that you can await it later. In a canceled scope nothing is started.
    pub fn start(mut self) -> Self {
        if self.context.cancellation().is_none() {
            self.set();
        }
        self
    }

    fn set(&mut self) {
        if !matches!(self.stage, TimerStage::Described) {
            return;
        }
        let timer_id = lock(self.context.shared()).id_for(self.name.as_deref().unwrap_or(NAME));
        let waiting = self.context.wait(WaitTarget::Timer { timer_id: timer_id.clone() });
        lock(self.context.shared()).issue(StartTimer { timer_id, after: self.span, control: None }, waiting.key());
        self.stage = TimerStage::Set(waiting);
    }
}

impl Future for Sleep {
    type Output = Result<(), Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.stage, TimerStage::Described) {
            if let Some(canceled) = this.context.cancellation() {
                this.stage = TimerStage::Over;
                return Poll::Ready(Err(canceled));
            }
            this.set();
        }
        let TimerStage::Set(waiting) = &mut this.stage else { return Poll::Pending };
        let Poll::Ready((_, outcome)) = waiting.poll(task) else { return Poll::Pending };
        this.stage = TimerStage::Over;
        Poll::Ready(outcome.map(|_| ()))
    }
}
