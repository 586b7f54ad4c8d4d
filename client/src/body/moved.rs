//! Bodies of the export and import of closed runs.

use history::limits::IMPORTED_EVENTS_MAX;
use history::{Event, EventId, bounded};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Memory of each parsed event of an import, in addition to its text.
const EVENT_BYTES: usize = size_of::<Event>();

/// A closed run that was recorded by another service and is to be imported.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportRun {
    /// Complete history of the run. Each element is an Event, exactly as the other service returned it. At most 524,288
    /// events of at most 1 MiB each.
    #[serde(deserialize_with = "bounded::weighed::<IMPORTED_EVENTS_MAX, EVENT_BYTES, _, _>")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>"),
        schemars(length(max = IMPORTED_EVENTS_MAX))
    )]
    pub events: Vec<Box<RawValue>>,
}

answers! {
    /// An imported run.
    ImportedRun {
        /// Workflow id.
        workflow_id: String,
        /// Run id, equal to the run id in the other service.
        run_id: Uuid,
        /// True if the run had already been imported with the same history.
        repeated: bool,
    }
}

/// Events of a run as raw JSON, unchanged from the service's response.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawHistory {
    /// Events, oldest first.
    pub events: Vec<Box<RawValue>>,
    /// Run id.
    pub run_id: Uuid,
    /// True if the run has closed.
    pub closed: bool,
    /// Event id at which the next page begins; absent on the last page.
    pub next: Option<EventId>,
}
