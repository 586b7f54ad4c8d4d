//! Updates that a flow can await.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use baton_history::{Payload, Verdict};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::core::{WaitTarget, lock};
use super::updates::{Accepted, Validator};
use super::wait::WaitFuture;
use crate::failure::Failure;
use crate::payload::payload;
use crate::update::Rejection;

fn read<I: DeserializeOwned>(input: Option<&Payload>) -> Result<I, serde_json::Error> {
    serde_json::from_str(input.and_then(Payload::text).unwrap_or("null"))
}

fn readable<I: DeserializeOwned>(input: Option<&Payload>) -> Result<I, Rejection> {
    read(input).map_err(|error| Rejection::of("bad-input", &error.to_string()))
}

impl Context {
    /// Accepts updates of this name, and returns them in the order of acceptance, each deserialized as an `I`. Until
    /// the returned value is dropped, an update is accepted if its input is an `I` and passes [`Updates::validate`].
    /// The caller of an accepted update waits for the [answer](super::AcceptedUpdate::done).
    pub fn updates<I: DeserializeOwned + 'static>(&self, name: impl Into<String>) -> Updates<I> {
        Updates::new(self.clone(), name.into())
    }
}

/// The updates of one name, one after the other. While this value exists, updates of this name are accepted. When this
/// value is dropped, accepted updates fail if the code has not taken them, and later updates are rejected. See
/// [`Context::updates`].
#[must_use = "updates are awaited"]
pub struct Updates<I> {
    context: Context,
    name: String,
    /// Distinguishes this registration from other registrations with the same name.
    number: u64,
    input: std::marker::PhantomData<fn() -> I>,
}

impl<I> fmt::Debug for Updates<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updates").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<I: DeserializeOwned + 'static> Updates<I> {
    pub(super) fn new(context: Context, name: String) -> Self {
        let validator: Validator = Arc::new(|input| readable::<I>(input).map(drop));
        let number = lock(context.shared()).updates.register(&name, validator);
        Self { context, name, number, input: std::marker::PhantomData }
    }

    /// Adds a validator. It must be a pure function of the input and of state shared with the flow, e.g. an
    /// `Arc<Mutex<…>>`. A rejected update leaves no trace, and the flow never sees it.
    pub fn validate(self, validate: impl Fn(&I) -> Result<(), Rejection> + Send + Sync + 'static) -> Self {
        let validator: Validator = Arc::new(move |input| validate(&readable::<I>(input)?));
        lock(self.context.shared()).updates.validate(&self.name, self.number, validator);
        self
    }

    /// Waits for the next update. The update's caller waits until you [answer](AcceptedUpdate::done) the update.
    ///
    /// # Errors
    ///
    /// A cancellation if the scope is canceled.
    pub async fn next(&mut self) -> Result<AcceptedUpdate<I>, Failure> {
        // The wait belongs to this call, so dropping the future, e.g. in a `select`, ends the wait.
        let mut waiting = None;
        poll_fn(|task| self.poll_update(&mut waiting, task)).await
    }

    fn poll_update(
        &self,
        waiting: &mut Option<WaitFuture>,
        task: &mut Task<'_>,
    ) -> Poll<Result<AcceptedUpdate<I>, Failure>> {
        let taken = lock(self.context.shared()).updates.take(&self.name);
        if let Some(Accepted { update_id, input }) = taken {
            *waiting = None;
            return match read(input.as_ref()) {
                Ok(input) => {
                    let reply = Reply { context: self.context.clone(), update_id: Some(update_id) };
                    Poll::Ready(Ok(AcceptedUpdate { input, reply }))
                }
                Err(error) => {
                    // The update was accepted by earlier code that could read the input. The turn is given back and
                    // waits for code that can read it.
                    self.context.unreadable(0, format!("the input of update `{update_id}`"), &error);
                    Poll::Pending
                }
            };
        }
        if let Some(canceled) = self.context.cancellation() {
            *waiting = None;
            return Poll::Ready(Err(canceled));
        }
        let waiting = waiting.get_or_insert_with(|| self.context.wait(WaitTarget::Update { name: self.name.clone() }));
        // This poll only stores the waker: updates and cancellations are handled above.
        let _ = waiting.poll(task);
        Poll::Pending
    }
}

impl<I> Drop for Updates<I> {
    fn drop(&mut self) {
        lock(self.context.shared()).forget_updates(&self.name, self.number);
    }
}

/// An accepted update and the handle to answer it. If it is dropped without an answer, the update fails as
/// `unanswered`.
#[must_use = "the caller of the update waits for an answer"]
#[derive(Debug)]
pub struct AcceptedUpdate<I> {
    /// Input of the update.
    pub input: I,
    /// Reply to the caller.
    pub reply: Reply,
}

impl<I> AcceptedUpdate<I> {
    /// Returns the update's id, chosen by the caller.
    pub fn id(&self) -> &str {
        self.reply.update_id.as_deref().unwrap_or_default()
    }

    /// Completes the update with this result.
    pub fn done<T: Serialize + ?Sized>(self, result: &T) {
        self.reply.done(result);
    }

    /// Fails the update.
    pub fn failed(self, failure: &Failure) {
        self.reply.failed(failure);
    }
}

/// Handle to answer an update.
#[must_use = "the caller of the update waits for an answer"]
pub struct Reply {
    context: Context,
    update_id: Option<String>,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("update_id", &self.update_id).finish_non_exhaustive()
    }
}

impl Reply {
    /// Completes the update with this result.
    pub fn done<T: Serialize + ?Sized>(mut self, result: &T) {
        self.answer(Verdict::Done { result: Some(payload(result)) });
    }

    /// Fails the update.
    pub fn failed(mut self, failure: &Failure) {
        let (reason, details) = (failure.reason().to_owned(), failure.payload().cloned());
        self.answer(Verdict::Failed { reason, details });
    }

    fn answer(&mut self, verdict: Verdict) {
        if let Some(update_id) = self.update_id.take() {
            lock(self.context.shared()).answer_update(update_id, verdict);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.answer(Verdict::Failed { reason: "unanswered".to_owned(), details: None });
    }
}
