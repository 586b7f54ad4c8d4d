//! What a flow is given: its only way to the world.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::Arc;
use std::task::Poll;

use baton_history::{Origin, Payload, RecordMarker, Timestamp, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::core::{On, ScopeNode, Shared, cancel, lock};
use super::query::query;
use super::trouble::FlowError;
use super::wait::WaitFuture;
use crate::failure::{Cause, Failure};
use crate::payload::payload;

/// What the marker of a patch is named: this, then the patch's name.
const PATCH_PREFIX: &str = "patched:";

/// What a flow is given: its only way to the world, and its only clock. Clones are the same.
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

/// The run.
impl Context {
    pub(super) fn new(shared: Shared, scope: Arc<ScopeNode>) -> Self {
        Self { shared, scope }
    }

    /// The workflow id, chosen by the caller.
    pub fn workflow_id(&self) -> String {
        lock(&self.shared).about.workflow_id.clone()
    }

    /// The run's id, given by the service.
    pub fn run_id(&self) -> Uuid {
        lock(&self.shared).about.run_id
    }

    /// The workflow type.
    pub fn workflow_type(&self) -> String {
        lock(&self.shared).about.workflow_type.clone()
    }

    /// The event of the parent that wanted the run, where it is a child.
    pub fn parent(&self) -> Option<Origin> {
        lock(&self.shared).about.parent.clone()
    }

    /// The time: that of the turn (its DeciderStarted), the same on every replay. It goes on only while the flow waits.
    pub fn now(&self) -> Timestamp {
        lock(&self.shared).now
    }

    /// Whether the code is being run for a turn that was decided before. For logging; a decision must never depend on it.
    pub fn is_replaying(&self) -> bool {
        lock(&self.shared).foreseen.is_some()
    }
}

/// Cancellation.
impl Context {
    /// A scope of its own: what is made with it can be canceled together, and is canceled with this one.
    pub fn scope(&self) -> Scope {
        Scope { context: Self { shared: Arc::clone(&self.shared), scope: ScopeNode::within(&self.scope) } }
    }

    /// A context that no cancellation reaches: for cleaning up after one.
    #[must_use]
    pub fn shielded(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), scope: Arc::default() }
    }

    /// Waits until the scope is canceled (for the outermost: until the run's cancellation is requested); the failure that
    /// says so.
    pub fn canceled(&self) -> impl Future<Output = Failure> + Send + Unpin + use<> {
        let context = self.clone();
        let mut waiting = None;
        poll_fn(move |task| {
            if let Some(failure) = context.scope.canceled() {
                return Poll::Ready(failure);
            }
            let waiting = waiting.get_or_insert_with(|| context.wait(On::Cancel));
            match waiting.poll(task) {
                Poll::Ready((_, Err(failure))) => Poll::Ready(failure),
                Poll::Ready((_, Ok(_))) | Poll::Pending => Poll::Pending,
            }
        })
    }

    /// Whether the scope is canceled.
    pub fn is_canceled(&self) -> bool {
        self.scope.canceled().is_some()
    }

    /// A cancellation if the scope is canceled, for loops that do not wait.
    ///
    /// # Errors
    ///
    /// The cancellation.
    pub fn check(&self) -> Result<(), Failure> {
        self.scope.canceled().map_or(Ok(()), Err)
    }
}

/// Recording.
impl Context {
    /// What `effect` gave when it was done, once: it is recorded with a marker of this name, and read back whenever the
    /// history is run again. For ids, random numbers and the like; work belongs into activities.
    ///
    /// # Panics
    ///
    /// When the value has no JSON form or cannot be read back from it, or the name is reserved; like every panic of a flow
    /// this gives the turn back.
    pub fn side_effect<T: Serialize + DeserializeOwned>(
        &self,
        name: impl Into<String>,
        effect: impl FnOnce() -> T,
    ) -> T {
        let name = name.into();
        must_be_free(&name);
        let recorded = lock(&self.shared).recorded(&name);
        let marker = recorded.unwrap_or_else(|| {
            let details = Some(payload(&effect()));
            RecordMarker { name: name.clone(), details }
        });
        let details = lock(&self.shared).mark(marker);
        let text = details.as_ref().and_then(baton_history::Payload::text).unwrap_or("null");
        // Also the first time through its JSON form, so that the first run sees what all later ones will.
        serde_json::from_str(text).unwrap_or_else(|error| panic!("side effect `{name}` cannot be read back: {error}"))
    }

    /// What a flow returns as its failure to go on in a new run, with this input and a history of its own:
    /// `return Err(ctx.continue_as_new(&next))`. What is open is left behind.
    #[must_use = "the flow must return it"]
    pub fn continue_as_new<T: Serialize + ?Sized>(&self, input: &T) -> Failure {
        Failure::of("continued as new", Some(payload(input)), Cause::ContinuedAsNew)
    }

    /// Records a note for whoever reads the history.
    ///
    /// # Panics
    ///
    /// When the name is reserved.
    pub fn marker<T: Serialize + ?Sized>(&self, name: impl Into<String>, details: &T) {
        let name = name.into();
        must_be_free(&name);
        lock(&self.shared).mark(RecordMarker { name, details: Some(payload(details)) });
    }

    /// Whether to take the new way: true for runs that get here for the first time with this code, false for those that
    /// went past here with code that did not know of the change. Decided once for a run and name, and recorded with a
    /// marker, `patched:` and the name.
    pub fn patched(&self, name: &str) -> bool {
        lock(&self.shared).patched(name, patch(name))
    }

    /// Says that every run that is still open takes the new way: the marker is passed over where the history has it, and
    /// no longer written. The last step before the call can be deleted, once runs that have the marker are gone.
    pub fn deprecate_patch(&self, name: &str) {
        lock(&self.shared).pass_patch(name, patch(name));
    }

    /// Answers queries of this name by asking `answer`, which looks at what it shares with the flow, e.g. an
    /// `Arc<Mutex<…>>`. A later one of the same name replaces it. See [`Flow::answer`](super::Flow::answer).
    ///
    /// An answer that is an object with a text `markdown` is a page in the console, with buttons for the signals and updates that it
    /// names. An approval is no more than this:
    ///
    /// ```
    /// use baton_decider_kit::flow::{Context, Failure, Flow};
    /// use serde_json::json;
    ///
    /// async fn approval(ctx: Context, asked: String) -> Result<bool, Failure> {
    ///     let page = format!(
    ///         "# Approval\n\n{asked}\n\n[Approve](signal:verdict?true) [Reject](signal:verdict?false)"
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

fn must_be_free(name: &str) {
    assert!(
        !name.starts_with(limits::MARKER_PREFIX_RESERVED),
        "the name `{name}` is reserved: it begins with `{}`",
        limits::MARKER_PREFIX_RESERVED
    );
}

/// What futures need.
impl Context {
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn cancellation(&self) -> Option<Failure> {
        self.scope.canceled()
    }

    pub(super) fn wait(&self, on: On) -> WaitFuture {
        let key = lock(&self.shared).wait(on, &self.scope);
        WaitFuture::new(Arc::clone(&self.shared), key)
    }

    /// The result of what a flow waited for, read as what the flow expects.
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
                // A mistake in the code rather than in the world: the turn waits for other code.
                self.unreadable(event_id, format!("the result of `{of}`"), &error);
                Poll::Pending
            }
        }
    }

    pub(super) fn unreadable(&self, event_id: u64, what: String, error: &serde_json::Error) {
        lock(&self.shared).in_trouble(FlowError::Unreadable { event_id, what, error: error.to_string() });
    }
}

/// A part of a flow that can be canceled as one. Otherwise a [`Context`] like any other.
#[derive(Debug, Clone)]
pub struct Scope {
    context: Context,
}

impl Scope {
    /// Cancels what was made in it and has not ended, and whatever will be: activities are asked to stop, timers are taken
    /// back, and those who wait get a cancellation.
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
