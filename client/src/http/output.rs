//! Calls that read the output of activities.

use std::time::Duration;

use history::EventId;
use uuid::Uuid;

use super::{Client, encode, push_query, run_query};
use crate::Error;
use crate::body::ActivityOutput;

/// Position in the output of an activity. The default is the start of the newest activity with the requested id, in the
/// newest run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputPosition {
    /// Run id.
    pub run_id: Option<Uuid>,
    /// Event id of the activity's ActivityScheduled.
    pub scheduled_event_id: Option<EventId>,
    /// Id of the stream.
    pub stream: Option<String>,
    /// Offset of the first chunk.
    pub from: u64,
}

impl OutputPosition {
    /// Returns the position after a page.
    pub fn after(page: &ActivityOutput) -> Self {
        Self {
            run_id: Some(page.run_id),
            scheduled_event_id: Some(page.scheduled_event_id),
            stream: page.stream.clone(),
            from: page.next,
        }
    }
}

impl Client {
    /// Returns output of an activity from a position. If there is none yet, waits up to `wait` for output or for the
    /// end of the activity.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `output-not-kept` if the service does not have the output from this position.
    pub async fn activity_output(
        &self,
        workflow_id: &str,
        activity_id: &str,
        at: &OutputPosition,
        wait: Option<Duration>,
    ) -> Result<ActivityOutput, Error> {
        let mut query = run_query(at.run_id);
        push_query(&mut query, "scheduledEventId", at.scheduled_event_id.map(|id| id.to_string()).as_deref());
        push_query(&mut query, "stream", at.stream.as_deref());
        push_query(&mut query, "from", Some(&at.from.to_string()));
        let path = format!("/activities/{}/output{query}", encode(activity_id));
        self.get(&self.workflow_url(workflow_id, &path), wait).await
    }
}
