//! Signals that a flow can await.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use baton_history::Payload;
use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::core::{WaitTarget, lock};
use super::wait::WaitFuture;
use crate::failure::{Cause, Failure};

impl Context {
    /// Returns the signals of this name, each deserialized as a `T`, in the order of the history. Signals received
    /// before this call are included.
    pub fn signals<T: DeserializeOwned>(&self, name: impl Into<String>) -> Signals<T> {
        Signals::new(self.clone(), name.into())
    }
}

/// The signals of one name, one after the other. This type is also a [`Stream`], which ends after a cancellation. Each
/// signal is returned only once. If two values are created with the same name, each signal is returned by one of them.
/// See [`Context::signals`].
#[must_use = "signals are awaited"]
pub struct Signals<T> {
    context: Context,
    name: String,
    waiting: Option<WaitFuture>,
    is_over: bool,
    input: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Signals<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T> Signals<T> {
    pub(super) fn new(context: Context, name: String) -> Self {
        Self { context, name, waiting: None, is_over: false, input: PhantomData }
    }
}

impl<T: DeserializeOwned> Signals<T> {
    /// Waits for the next signal.
    ///
    /// # Errors
    ///
    /// [`Cause::Unreadable`] if the input is not a `T`. The sender already knows that the signal is recorded, so the
    /// flow must decide how to handle a wrong input. A cancellation if the scope is canceled.
    pub async fn next(&mut self) -> Result<T, Failure> {
        // The wait belongs to this call, so dropping the future, e.g. in a `select`, ends the wait.
        let mut waiting = None;
        poll_fn(|task| self.poll_signal(&mut waiting, task)).await
    }

    /// Returns the next signal if it has already been received.
    ///
    /// # Errors
    ///
    /// [`Cause::Unreadable`] if the input is not a `T`.
    pub fn try_next(&mut self) -> Result<Option<T>, Failure> {
        let taken = lock(self.context.shared()).take_signal(&self.name);
        taken.map(|(_, input)| self.read(input.as_ref())).transpose()
    }

    fn read(&self, input: Option<&Payload>) -> Result<T, Failure> {
        let text = input.and_then(Payload::text).unwrap_or("null");
        serde_json::from_str(text).map_err(|error| {
            let reason = format!("cannot read signal `{}`", self.name);
            Failure::of(reason, None, Cause::Unreadable).details(&error.to_string())
        })
    }

    fn poll_signal(&self, waiting: &mut Option<WaitFuture>, task: &mut Task<'_>) -> Poll<Result<T, Failure>> {
        let taken = lock(self.context.shared()).take_signal(&self.name);
        if let Some((_, input)) = taken {
            *waiting = None;
            return Poll::Ready(self.read(input.as_ref()));
        }
        if let Some(canceled) = self.context.cancellation() {
            *waiting = None;
            return Poll::Ready(Err(canceled));
        }
        let waiting = waiting.get_or_insert_with(|| self.context.wait(WaitTarget::Signal { name: self.name.clone() }));
        // This poll only stores the waker: signals and cancellations are handled above.
        let _ = waiting.poll(task);
        Poll::Pending
    }
}

impl<T: DeserializeOwned> Stream for Signals<T> {
    type Item = Result<T, Failure>;

    fn poll_next(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        let mut waiting = this.waiting.take();
        let polled = this.poll_signal(&mut waiting, task);
        this.waiting = waiting;
        if let Poll::Ready(Err(failure)) = &polled {
            this.is_over = failure.is_canceled();
        }
        polled.map(Some)
    }
}
