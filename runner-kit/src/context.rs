//! The context of an activity: its identity, heartbeats, output and cancellation.

use std::sync::Arc;

use baton_history::{EventId, Payload, TraceContext, event::ActivityTimeouts};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use uuid::Uuid;

use crate::output::OutputSender;

/// Context of an activity: its identity, heartbeats, output and cancellation. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ActivityContext {
    /// Workflow id.
    pub workflow_id: Arc<str>,
    /// Run id.
    pub run_id: Uuid,
    /// Activity id, chosen by the decider.
    pub activity_id: Arc<str>,
    /// Event id of the activity's ActivityScheduled. The run id and this id together identify the activity permanently.
    pub scheduled_event_id: EventId,
    /// Attempt number, starting at 1. Always 1 without a retry policy.
    pub attempt: u32,
    /// Timeouts of the activity.
    pub timeouts: ActivityTimeouts,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) last_details: Option<Payload>,
    pub(crate) details: Arc<watch::Sender<Option<Payload>>>,
    pub(crate) canceled: watch::Receiver<bool>,
    pub(crate) output: Arc<OutputSender>,
}

impl ActivityContext {
    /// Sets the details of the next heartbeat, which report progress. The host sends the newest details within a third
    /// of the heartbeat timeout. If the activity times out, they are recorded. Details that cannot be serialized as
    /// JSON are ignored.
    pub fn heartbeat<T: Serialize + ?Sized>(&self, details: &T) {
        if let Ok(details) = Payload::of(details) {
            self.details.send_replace(Some(details));
        }
    }

    /// Appends a chunk to the output of the activity: a text, or another value that is serialized as JSON, of at most
    /// 64 KiB. Readers follow the output while the activity runs, for example with `baton activity output --follow`.
    ///
    /// The host sends the output in the background, and waits at most 5 seconds for it before it answers the activity.
    /// Output is no part of the history: the service keeps the newest mebibyte in memory, until an hour after the
    /// activity has ended. A chunk that is too large or cannot be serialized is dropped.
    ///
    /// ```
    /// # fn copy(context: &baton_runner_kit::ActivityContext) {
    /// context.append("copied table `orders`\n");
    /// context.append(&serde_json::json!({ "table": "orders", "rows": 2_000 }));
    /// # }
    /// ```
    pub fn append<T: Serialize + ?Sized>(&self, chunk: &T) {
        match Payload::of(chunk) {
            Ok(chunk) => self.output.append(chunk),
            Err(error) => tracing::warn!(%error, "a chunk of output is dropped: it has no JSON form"),
        }
    }

    /// Returns the details of the last [`heartbeat`](Self::heartbeat) of an earlier attempt, so that this attempt can
    /// continue from that point. Returns `None` on the first attempt, if there were no details, or if the details are
    /// not a `T`.
    pub fn last_heartbeat<T: DeserializeOwned>(&self) -> Option<T> {
        self.last_details.as_ref()?.read().ok()
    }

    /// Returns the activity's trace context in the W3C `traceparent` format, or `None` if its run is not traced.
    pub fn traceparent(&self) -> Option<String> {
        self.trace.as_ref().map(|trace| trace.traceparent.to_string())
    }

    /// Returns the headers that add a call to another service to the run's trace: `traceparent`, and `tracestate` if
    /// there is one. Empty if the run is not traced.
    ///
    /// ```
    /// # fn call(context: &baton_runner_kit::ActivityContext) -> Vec<(&'static str, String)> {
    /// let mut headers = vec![("accept", "application/json".to_owned())];
    /// headers.extend(context.trace_headers());
    /// # headers
    /// # }
    /// ```
    pub fn trace_headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.trace.iter().flat_map(TraceContext::headers)
    }

    /// Waits until the activity should stop, because its cancellation was requested or it is no longer open. Heartbeats
    /// report this, so the activity needs a heartbeat timeout or must call [`heartbeat`](Self::heartbeat). Each
    /// heartbeat waits at the service until the next one, so that the activity is notified at once and not with the
    /// next heartbeat. If several nodes share the store, this can take 2 seconds.
    pub async fn canceled(&self) {
        if self.canceled.clone().wait_for(|canceled| *canceled).await.is_err() {
            // The host no longer exists, so no cancellation can arrive.
            std::future::pending::<()>().await;
        }
    }

    /// Returns true if the activity should stop.
    pub fn is_canceled(&self) -> bool {
        *self.canceled.borrow()
    }
}
