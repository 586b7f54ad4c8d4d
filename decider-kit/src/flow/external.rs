//! Messages to other runs that a flow can await.

use std::fmt;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use baton_history::{CancelExternal, Decision, SignalExternal};
use serde::Serialize;

use super::context::Context;
use super::core::{WaitTarget, lock};
use super::wait::WaitFuture;
use crate::failure::Failure;
use crate::payload::payload;

impl Context {
    /// Signals the newest run of another workflow id. The signal is sent when the future is first awaited, and the
    /// future resolves when the signal is delivered.
    pub fn signal_external(
        &self,
        workflow_id: impl Into<String>,
        name: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> External {
        let (workflow_id, name) = (workflow_id.into(), name.into());
        let signal = SignalExternal {
            workflow_id: workflow_id.clone(),
            run_id: None,
            name,
            input: Some(payload(input)),
            control: None,
        };
        External::new(self.clone(), workflow_id, signal)
    }

    /// Requests the cancellation of the newest run of another workflow id. The request is sent when the future is first
    /// awaited, and the future resolves when the request is delivered. The decider of the other run chooses how to
    /// react.
    pub fn cancel_external(&self, workflow_id: impl Into<String>) -> External {
        let workflow_id = workflow_id.into();
        let cancel = CancelExternal { workflow_id: workflow_id.clone(), ..CancelExternal::default() };
        External::new(self.clone(), workflow_id, cancel)
    }
}

/// A signal or a cancellation request to another run; a future of its delivery. See [`Context::signal_external`] and
/// [`Context::cancel_external`].
#[must_use = "the message is sent only when it is awaited or sent"]
pub struct External {
    context: Context,
    workflow_id: String,
    stage: ExternalStage,
}

enum ExternalStage {
    Described(Box<Decision>),
    Sent(WaitFuture),
    Over,
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External").field("workflow_id", &self.workflow_id).finish_non_exhaustive()
    }
}

impl External {
    pub(super) fn new(context: Context, workflow_id: String, decision: impl Into<Decision>) -> Self {
        Self { context, workflow_id, stage: ExternalStage::Described(Box::new(decision.into())) }
    }

    /// Sends the message now, whether or not the future is awaited. The message is sent even in a canceled scope, and
    /// dropping the future does not recall the message.
    pub fn send(mut self) -> Self {
        self.issue();
        self
    }

    fn issue(&mut self) {
        let ExternalStage::Described(decision) = std::mem::replace(&mut self.stage, ExternalStage::Over) else {
            return;
        };
        let waiting = self.context.wait(WaitTarget::External { workflow_id: self.workflow_id.clone() });
        lock(self.context.shared()).issue(*decision, waiting.key());
        self.stage = ExternalStage::Sent(waiting);
    }
}

impl Future for External {
    type Output = Result<(), Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if matches!(this.stage, ExternalStage::Described(_)) {
            if let Some(canceled) = this.context.cancellation() {
                this.stage = ExternalStage::Over;
                return Poll::Ready(Err(canceled));
            }
            this.issue();
        }
        let ExternalStage::Sent(waiting) = &mut this.stage else { return Poll::Pending };
        let Poll::Ready((_, outcome)) = waiting.poll(task) else { return Poll::Pending };
        this.stage = ExternalStage::Over;
        Poll::Ready(outcome.map(|_| ()))
    }
}
