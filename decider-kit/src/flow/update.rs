//! Updates, awaited.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use baton_history::{Payload, Verdict};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::core::{On, lock};
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
    /// The updates of this name, each an `I`, in the order in which they were accepted. From now on, until what this gives is
    /// dropped, updates of this name are accepted whose input is an `I`, and which [`Updates::validate`] finds acceptable.
    /// Their callers wait for the [answers](super::AcceptedUpdate::done).
    pub fn updates<I: DeserializeOwned + 'static>(&self, name: impl Into<String>) -> Updates<I> {
        Updates::new(self.clone(), name.into())
    }
}

/// The updates of one name, one after the other. See [`Context::updates`]. While it is there, updates of this name are
/// accepted; when it is dropped, those that nobody has taken fail, and later ones are rejected.
#[must_use = "updates are awaited"]
pub struct Updates<I> {
    context: Context,
    name: String,
    /// Tells it from another one with the same name.
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

    /// Accepts only what `validate` finds acceptable: a pure look at the input, and at what it shares with the flow, e.g. an
    /// `Arc<Mutex<…>>`. What it rejects leaves no trace, and the flow never hears of it.
    pub fn validate(self, validate: impl Fn(&I) -> Result<(), Rejection> + Send + Sync + 'static) -> Self {
        let validator: Validator = Arc::new(move |input| validate(&readable::<I>(input)?));
        lock(self.context.shared()).updates.validate(&self.name, self.number, validator);
        self
    }

    /// The next update, which its caller waits for until it is [answered](AcceptedUpdate::done).
    ///
    /// # Errors
    ///
    /// A cancellation when the scope is canceled.
    pub async fn next(&mut self) -> Result<AcceptedUpdate<I>, Failure> {
        // The wait belongs to this call: whoever drops it, e.g. a `select`, waits no more.
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
                    // It was accepted by code that read it: the turn waits for such code.
                    self.context.unreadable(0, format!("the input of update `{update_id}`"), &error);
                    Poll::Pending
                }
            };
        }
        if let Some(canceled) = self.context.cancellation() {
            *waiting = None;
            return Poll::Ready(Err(canceled));
        }
        let waiting = waiting.get_or_insert_with(|| self.context.wait(On::Update { name: self.name.clone() }));
        // Only the waker is left here: an update or a cancellation is seen above.
        let _ = waiting.poll(task);
        Poll::Pending
    }
}

impl<I> Drop for Updates<I> {
    fn drop(&mut self) {
        lock(self.context.shared()).forget_updates(&self.name, self.number);
    }
}

/// An update that was accepted, and its answer. Dropped without one it fails as `unanswered`.
#[must_use = "its caller waits for the answer"]
#[derive(Debug)]
pub struct AcceptedUpdate<I> {
    /// What it says.
    pub input: I,
    /// Where its answer goes.
    pub reply: Reply,
}

impl<I> AcceptedUpdate<I> {
    /// The caller's name for it.
    pub fn id(&self) -> &str {
        self.reply.update_id.as_deref().unwrap_or_default()
    }

    /// Answers it.
    pub fn done<T: Serialize + ?Sized>(self, result: &T) {
        self.reply.done(result);
    }

    /// Answers that it could not be done.
    pub fn failed(self, failure: &Failure) {
        self.reply.failed(failure);
    }
}

/// Where the answer of an update goes.
#[must_use = "its caller waits for the answer"]
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
    /// Answers the update.
    pub fn done<T: Serialize + ?Sized>(mut self, result: &T) {
        self.say(Verdict::Done { result: Some(payload(result)) });
    }

    /// Answers that it could not be done.
    pub fn failed(mut self, failure: &Failure) {
        let (reason, details) = (failure.reason().to_owned(), failure.payload().cloned());
        self.say(Verdict::Failed { reason, details });
    }

    fn say(&mut self, verdict: Verdict) {
        if let Some(update_id) = self.update_id.take() {
            lock(self.context.shared()).answer_update(update_id, verdict);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.say(Verdict::Failed { reason: "unanswered".to_owned(), details: None });
    }
}
