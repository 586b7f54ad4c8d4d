//! Timers, awaited.

use std::fmt;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use history::{Duration, StartTimer};

use super::context::Context;
use super::core::{On, lock};
use super::wait::Waiting;
use crate::failure::Failure;

/// What timers are named unless they are given a name.
const NAME: &str = "sleep";

/// A timer. See [`Context::sleep`].
#[must_use = "a timer is set when it is awaited"]
pub struct Sleep {
    context: Context,
    span: Duration,
    name: Option<String>,
    stage: Stage,
}

enum Stage {
    Described,
    Set(Waiting),
    Over,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("span", &self.span).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Sleep {
    pub(super) fn new(context: Context, span: Duration) -> Self {
        Self { context, span, name: None, stage: Stage::Described }
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
        if !matches!(self.stage, Stage::Described) {
            return;
        }
        let timer_id = lock(self.context.shared()).id_for(self.name.as_deref().unwrap_or(NAME));
        let waiting = self.context.wait(On::Timer { timer_id: timer_id.clone() });
        lock(self.context.shared()).issue(StartTimer { timer_id, after: self.span, control: None }, waiting.key());
        self.stage = Stage::Set(waiting);
    }
}

impl Future for Sleep {
    type Output = Result<(), Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.stage, Stage::Described) {
            if let Some(canceled) = this.context.cancellation() {
                this.stage = Stage::Over;
                return Poll::Ready(Err(canceled));
            }
            this.set();
        }
        let Stage::Set(waiting) = &mut this.stage else { return Poll::Pending };
        let Poll::Ready((_, outcome)) = waiting.poll(task) else { return Poll::Pending };
        this.stage = Stage::Over;
        Poll::Ready(outcome.map(|_| ()))
    }
}
