//! Timers, awaited.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context as Task, Poll};

use baton_history::{Duration, StartTimer, Timestamp};

use super::context::Context;
use super::core::{On, lock};
use super::wait::WaitFuture;
use crate::failure::{Cause, Failure};

/// What timers are named unless they are given a name.
const NAME: &str = "sleep";

impl Context {
    /// A timer. It is set when it is first awaited, and taken back when it is dropped before its time.
    pub fn sleep(&self, span: Duration) -> Sleep {
        Sleep::new(self.clone(), span)
    }

    /// A timer that expires at this instant; at once when it is over.
    pub fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.sleep(at.since(self.now()))
    }

    /// What `work` comes to, if that happens within this span; otherwise `work` is dropped, which takes back what it had
    /// under way.
    ///
    /// # Errors
    ///
    /// A failure with [`Cause::Elapsed`]; a cancellation when the scope is canceled before `work` has ended.
    pub async fn within<T>(&self, span: Duration, work: impl Future<Output = T>) -> Result<T, Failure> {
        let mut work = pin!(work);
        let mut sleep = pin!(self.sleep(span));
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
#[must_use = "a timer is set when it is awaited"]
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

    /// With this name in the history, and a number from the second of its name on; `sleep` unless set.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets it now, to be awaited later. In a canceled scope nothing is set.
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
        let waiting = self.context.wait(On::Timer { timer_id: timer_id.clone() });
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
