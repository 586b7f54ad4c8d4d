//! Bodies of runs that go from one service to another.

use history::limits::IMPORTED_EVENTS_MAX;
use history::{Event, EventId, bounded};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Memory that each event of an import takes in addition to its text: it is read into this.
const EVENT_BYTES: usize = size_of::<Event>();

/// Takes over a closed run that another service has recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportRun {
    /// Its whole history: each an Event, as that service gives it. At most 524,288, each of at most 1 MiB.
    #[serde(deserialize_with = "bounded::weighed::<IMPORTED_EVENTS_MAX, EVENT_BYTES, _, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>"), schemars(length(max = IMPORTED_EVENTS_MAX)))]
    pub events: Vec<Box<RawValue>>,
}

answers! {
    /// A run that was taken over.
    ImportedRun {
        /// Its workflow id.
        workflow_id: String,
        /// The run, which has the id that it had.
        run_id: Uuid,
        /// Whether it was there already, with this history.
        repeated: bool,
    }
}

/// Events of a run as their texts, byte for byte as the service gives them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawHistory {
    /// The events, oldest first.
    pub events: Vec<Box<RawValue>>,
    /// The run.
    pub run_id: Uuid,
    /// Whether the run has closed.
    pub closed: bool,
    /// Where to go on; absent on the last page.
    pub next: Option<EventId>,
}
