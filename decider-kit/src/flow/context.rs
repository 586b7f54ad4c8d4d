//! The context of a flow: its only interface to the service.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Poll;

use baton_history::{Origin, Payload, RecordMarker, Timestamp, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::core::{ScopeNode, Shared, WaitTarget, cancel, lock};
use super::error::FlowError;
use super::query::query;
use super::wait::WaitFuture;
use crate::failure::{Cause, Failure};
use crate::payload::payload;

/// Prefix of the marker name of a patch.
const PATCH_PREFIX: &str = "patched:";

/// Context of a flow: its only interface to the service, and its only clock. Clones are equivalent.
#[derive(Clone)]
pub struct Context {
    shared: Shared,
    scope: Arc<ScopeNode>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("workflow_id", &self.workflow_id()).finish_non_exhaustive()
    }
}

/// Identity and time of the run.
impl Context {
    pub(super) fn new(shared: Shared, scope: Arc<ScopeNode>) -> Self {
        Self { shared, scope }
    }

    /// Returns the workflow id, chosen by the caller.
    pub fn workflow_id(&self) -> String {
        lock(&self.shared).identity.workflow_id.clone()
    }

    /// Returns the run id, assigned by the service.
    pub fn run_id(&self) -> Uuid {
        lock(&self.shared).identity.run_id
    }

    /// Returns the workflow type.
    pub fn workflow_type(&self) -> String {
        lock(&self.shared).identity.workflow_type.clone()
    }

    /// Returns the event of the parent that requested this run, if it is a child.
    pub fn parent(&self) -> Option<Origin> {
        lock(&self.shared).identity.parent.clone()
    }

    /// Returns the time of the turn's DeciderStarted, which is the same on every replay. The returned time advances
    /// only while the flow waits.
    pub fn now(&self) -> Timestamp {
        lock(&self.shared).now
    }

    /// Returns whether the code is replaying a turn that was already decided. Use it for logging only; a decision must
    /// never depend on it.
    pub fn is_replaying(&self) -> bool {
        lock(&self.shared).recorded_markers.is_some()
    }
}

/// Cancellation.
impl Context {
    /// Creates a scope. Everything requested through the scope can be canceled together. If this context is canceled,
    /// the scope is canceled, too.
    pub fn scope(&self) -> Scope {
        Scope { context: Self { shared: Arc::clone(&self.shared), scope: ScopeNode::within(&self.scope) } }
    }

    /// Returns a context that is never canceled, for cleanup after a cancellation.
    #[must_use]
    pub fn shielded(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), scope: Arc::default() }
    }

    /// Waits until the scope is canceled and returns the cancellation. The outermost scope is canceled when the run's
    /// cancellation is requested.
    pub fn canceled(&self) -> impl Future<Output = Failure> + Send + Unpin + use<> {
        let context = self.clone();
        let mut waiting = None;
        poll_fn(move |task| {
            if let Some(failure) = context.scope.canceled() {
                return Poll::Ready(failure);
            }
            let waiting = waiting.get_or_insert_with(|| context.wait(WaitTarget::Cancel));
            match waiting.poll(task) {
                Poll::Ready((_, Err(failure))) => Poll::Ready(failure),
                Poll::Ready((_, Ok(_))) | Poll::Pending => Poll::Pending,
            }
        })
    }

    /// Returns whether the scope is canceled.
    pub fn is_canceled(&self) -> bool {
        self.scope.canceled().is_some()
    }

    /// Fails if the scope is canceled. Use this method in loops that do not wait.
    ///
    /// # Errors
    ///
    /// Returns the cancellation.
    pub fn check(&self) -> Result<(), Failure> {
        self.scope.canceled().map_or(Ok(()), Err)
    }
}

/// Markers, side effects, patches and queries.
impl Context {
    /// Returns the result of `effect`, which runs only once. The result is recorded in a marker of this name and read
    /// back on every replay. Use it for ids, random numbers and the like; do work in activities.
    ///
    /// # Panics
    ///
    /// If the value has no JSON form or cannot be read back from it, or if the name is reserved. Like every panic of a
    /// flow, this panic gives the turn back.
    pub fn side_effect<T: Serialize + DeserializeOwned>(
        &self,
        name: impl Into<String>,
        effect: impl FnOnce() -> T,
    ) -> T {
        let name = name.into();
        check_not_reserved(&name);
        let recorded = lock(&self.shared).recorded(&name);
        let marker = recorded.unwrap_or_else(|| {
            let details = Some(payload(&effect()));
            RecordMarker { name: name.clone(), details }
        });
        let details = lock(&self.shared).mark(marker);
        let text = details.as_ref().and_then(baton_history::Payload::text).unwrap_or("null");
        // The first run also reads the value back from JSON, so that it sees the same value as every replay.
        serde_json::from_str(text).unwrap_or_else(|error| panic!("cannot read side effect `{name}`: {error}"))
    }

    /// Creates the failure that a flow returns to continue in a new run with this input and an empty history: `return
    /// Err(ctx.continue_as_new(&next))`. Open activities, timers and children are not carried over.
    #[must_use = "the flow must return it"]
    pub fn continue_as_new<T: Serialize + ?Sized>(&self, input: &T) -> Failure {
        Failure::of("continued as new", Some(payload(input)), Cause::ContinuedAsNew)
    }

    /// Records a marker for readers of the history.
    ///
    /// # Panics
    ///
    /// If the name is reserved.
    pub fn marker<T: Serialize + ?Sized>(&self, name: impl Into<String>, details: &T) {
        let name = name.into();
        check_not_reserved(&name);
        lock(&self.shared).mark(RecordMarker { name, details: Some(payload(details)) });
    }

    /// Returns whether the run takes the new branch of a code change. The result is true for runs that reach this call
    /// for the first time with the new code. It is false for runs that passed this point with the code before the
    /// change. The first call with this name determines the result for the run, and a marker named `patched:` plus the
    /// name records it.
    pub fn patched(&self, name: &str) -> bool {
        lock(&self.shared).patched(name, patch(name))
    }

    /// Declares that every open run takes the new branch. No further markers are recorded, and a marker that the
    /// history contains is skipped. Delete this call when no open run has the marker.
    pub fn deprecate_patch(&self, name: &str) {
        lock(&self.shared).pass_patch(name, patch(name));
    }

    /// Registers the answer to queries of this name. `answer` reads state that it shares with the flow, e.g. an
    /// `Arc<Mutex<…>>`. A later registration of the same name replaces this registration. See
    /// [`Flow::answer`](super::Flow::answer).
    ///
    /// If the answer is an object with a text `markdown`, the console shows it as a page, with buttons for the signals
    /// and updates that the page names. An approval needs no more than this:
    ///
    /// ```
    /// use baton_decider_kit::flow::{Context, Failure, Flow};
    /// use serde_json::json;
    ///
    /// async fn approval(ctx: Context, request: String) -> Result<bool, Failure> {
    ///     let page = format!(
    ///         "# Approval\n\n{request}\n\n[Approve](signal:verdict?true) [Reject](signal:verdict?false)"
    ///     );
    ///     ctx.query("page", move |(): ()| json!({ "markdown": page }));
    ///     ctx.signals("verdict").next().await
    /// }
    ///
    /// let flow = Flow::new(approval);
    /// # drop(flow);
    /// ```
    pub fn query<I: DeserializeOwned + 'static, O: Serialize + 'static>(
        &self,
        name: impl Into<String>,
        answer: impl Fn(I) -> O + Send + Sync + 'static,
    ) {
        let replaced = lock(&self.shared).queries.insert(name.into(), query(answer));
        drop(replaced);
    }
}

fn patch(name: &str) -> RecordMarker {
    RecordMarker { name: format!("{PATCH_PREFIX}{name}"), details: None }
}

fn check_not_reserved(name: &str) {
    assert!(
        !name.starts_with(limits::MARKER_PREFIX_RESERVED),
        "the name `{name}` is reserved: it begins with `{}`",
        limits::MARKER_PREFIX_RESERVED
    );
}

/// Internals that the futures of a context use.
impl Context {
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn cancellation(&self) -> Option<Failure> {
        self.scope.canceled()
    }

    pub(super) fn wait(&self, on: WaitTarget) -> WaitFuture {
        let key = lock(&self.shared).wait(on, &self.scope);
        WaitFuture::new(Arc::clone(&self.shared), key)
    }

    /// Deserializes the result of a wait as the type that the flow expects.
    pub(super) fn read_result<O: DeserializeOwned>(
        &self,
        event_id: u64,
        of: &str,
        outcome: Result<Option<Payload>, Failure>,
    ) -> Poll<Result<O, Failure>> {
        let result = match outcome {
            Ok(result) => result,
            Err(failure) => return Poll::Ready(Err(failure)),
        };
        let text = result.as_ref().and_then(Payload::text).unwrap_or("null");
        match serde_json::from_str(text) {
            Ok(result) => Poll::Ready(Ok(result)),
            Err(error) => {
                // A wrong type is a mistake in the code: the turn is given back and waits for corrected code.
                self.unreadable(event_id, format!("the result of `{of}`"), &error);
                Poll::Pending
            }
        }
    }

    pub(super) fn unreadable(&self, event_id: u64, what: String, error: &serde_json::Error) {
        lock(&self.shared).record_error(FlowError::Unreadable { event_id, what, error: error.to_string() });
    }
}

/// A part of a flow that can be canceled as a unit. Otherwise it works like any [`Context`].
#[derive(Debug, Clone)]
pub struct Scope {
    context: Context,
}

impl Scope {
    /// Cancels the scope: open activities are asked to stop, timers are canceled, and pending waits return a
    /// cancellation. Nothing new can be started in it.
    pub fn cancel(&self) {
        cancel(&self.context.shared, &self.context.scope, None);
    }
}

impl Deref for Scope {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}
