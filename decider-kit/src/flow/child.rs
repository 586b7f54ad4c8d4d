//! Children that a flow can await.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use baton_history::{Payload, StartChild};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::core::{WaitTarget, lock};
use super::wait::WaitFuture;
use crate::decisions::child_options;
use crate::failure::Failure;
use crate::payload::payload;

impl Context {
    /// Returns a future of a child's result, an `O`. The child is started when the future is first awaited. Dropping
    /// the future before the child has closed requests the child's cancellation.
    pub fn child<O: DeserializeOwned>(
        &self,
        workflow_type: impl Into<String>,
        workflow_id: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> ChildFuture<O> {
        ChildFuture::new(self.clone(), workflow_type.into(), workflow_id.into(), payload(input))
    }
}

/// A child: a builder until it is started, then a future of its result. See [`Context::child`].
#[must_use = "a child is started only when it is awaited, started or detached"]
pub struct ChildFuture<O> {
    context: Context,
    workflow_id: String,
    stage: ChildStage,
    result: PhantomData<fn() -> O>,
}

enum ChildStage {
    Described(Box<StartChild>),
    Wanted(WaitFuture),
    Over,
}

impl<O> fmt::Debug for ChildFuture<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildFuture").field("workflow_id", &self.workflow_id).finish_non_exhaustive()
    }
}

impl<O> ChildFuture<O> {
    pub(super) fn new(context: Context, workflow_type: String, workflow_id: String, input: Payload) -> Self {
        let described =
            StartChild { workflow_id: workflow_id.clone(), workflow_type, input: Some(input), ..StartChild::default() };
        Self { context, workflow_id, stage: ChildStage::Described(Box::new(described)), result: PhantomData }
    }

    /// Changes any field of the decision. Does nothing once the child is started.
    pub fn with(mut self, set: impl FnOnce(&mut StartChild)) -> Self {
        if let ChildStage::Described(described) = &mut self.stage {
            set(described);
            self.workflow_id.clone_from(&described.workflow_id);
        }
        self
    }

    child_options!();

    /// Starts the child now, so that you can await it later. In a canceled scope nothing is started.
    pub fn start(mut self) -> Self {
        if self.context.cancellation().is_none() {
            self.want();
        }
        self
    }

    /// Starts the child now and detaches it: the flow does not wait for the child and never cancels it. Only the close
    /// of this run may end the child.
    pub fn detach(mut self) {
        if let ChildStage::Described(described) = std::mem::replace(&mut self.stage, ChildStage::Over) {
            lock(self.context.shared()).issue(*described, None);
        }
    }

    fn want(&mut self) {
        let ChildStage::Described(described) = std::mem::replace(&mut self.stage, ChildStage::Over) else { return };
        let waiting = self.context.wait(WaitTarget::Child { workflow_id: described.workflow_id.clone() });
        lock(self.context.shared()).issue(*described, waiting.key());
        self.stage = ChildStage::Wanted(waiting);
    }
}

impl<O: DeserializeOwned> Future for ChildFuture<O> {
    type Output = Result<O, Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.stage, ChildStage::Described(_)) {
            if let Some(canceled) = this.context.cancellation() {
                this.stage = ChildStage::Over;
                return Poll::Ready(Err(canceled));
            }
            this.want();
        }
        let ChildStage::Wanted(waiting) = &mut this.stage else { return Poll::Pending };
        let Poll::Ready((event_id, outcome)) = waiting.poll(task) else { return Poll::Pending };
        this.stage = ChildStage::Over;
        this.context.read_result(event_id, &this.workflow_id, outcome)
    }
}
