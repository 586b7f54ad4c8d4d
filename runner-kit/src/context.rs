//! What an activity knows of itself, and what it can tell while it runs.

use std::sync::Arc;

use baton_history::{EventId, Payload, TraceContext, event::ActivityTimeouts};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use uuid::Uuid;

/// What an activity knows of itself. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    /// The workflow id.
    pub workflow_id: Arc<str>,
    /// The run.
    pub run_id: Uuid,
    /// The decider's name for the activity.
    pub activity_id: Arc<str>,
    /// The activity's ActivityScheduled: with the run id it names this activity among all, for ever.
    pub scheduled_event_id: EventId,
    /// Which try it is: 1, 2, 3, …; without a retry policy always 1.
    pub attempt: u32,
    /// Its timeouts.
    pub timeouts: ActivityTimeouts,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) last_details: Option<Payload>,
    pub(crate) details: Arc<watch::Sender<Option<Payload>>>,
    pub(crate) canceled: watch::Receiver<bool>,
}

impl Context {
    /// Says how far the activity is. The newest word goes out with the next heartbeat, at the latest a third of the
    /// heartbeat timeout later, and is recorded if the activity times out. What has no JSON form is left out.
    pub fn heartbeat<T: Serialize + ?Sized>(&self, details: &T) {
        if let Ok(details) = Payload::of(details) {
            self.details.send_replace(Some(details));
        }
    }

    /// What the last [`heartbeat`](Self::heartbeat) of an earlier try said, so that this one can go on from there. `None`
    /// on the first try, when there was none, and when it is no `T`.
    pub fn last_heartbeat<T: DeserializeOwned>(&self) -> Option<T> {
        self.last_details.as_ref()?.read().ok()
    }

    /// The trace that the activity is in, as W3C's `traceparent`; `None` where its run belongs to none.
    pub fn traceparent(&self) -> Option<String> {
        self.trace.as_ref().map(|trace| trace.traceparent.to_string())
    }

    /// What to set on calls to others, so that what they do is found in the trace of the run: `traceparent`, and `tracestate` where
    /// there is one. Nothing where the run belongs to none.
    ///
    /// ```
    /// # fn call(context: &baton_runner_kit::Context) -> Vec<(&'static str, String)> {
    /// let mut headers = vec![("accept", "application/json".to_owned())];
    /// headers.extend(context.trace_headers());
    /// # headers
    /// # }
    /// ```
    pub fn trace_headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.trace.iter().flat_map(TraceContext::headers)
    }

    /// Resolves when the activity should stop: somebody asked for that, or nobody waits for it any more. An activity
    /// learns of it with its heartbeats, so it needs a heartbeat timeout, or calls of [`heartbeat`](Self::heartbeat).
    pub async fn canceled(&self) {
        if self.canceled.clone().wait_for(|canceled| *canceled).await.is_err() {
            // The host is gone; nobody will ever say more.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the activity should stop.
    pub fn is_canceled(&self) -> bool {
        *self.canceled.borrow()
    }
}
