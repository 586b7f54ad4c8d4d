//! Bodies of queries: the caller's request and response, and a decider's question and result.

use history::limits::KNOWN_QUERIES_MAX;
use history::{EventId, Payload, bounded};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

/// Reason with which a decider reports that it has no query of the name.
pub const UNKNOWN_QUERY: &str = "unknown-query";

/// A query to a run's decider.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryWorkflow {
    /// Input of the query.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
}

/// The decider's answer to a query.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueryAnswer {
    /// Run id.
    pub run_id: Uuid,
    /// Version of the run that the answer is based on; also in the entity tag.
    pub version: EventId,
    /// Result of the query; absent for `null`.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
}

/// A query in a decider task.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskQuery {
    /// Id that identifies the query in its result.
    pub id: String,
    /// Name of the query.
    pub name: String,
    /// Input of the query.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
}

/// A decider's result of a query.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryResult {
    /// Id of the query.
    pub id: String,
    /// Result; `null` by default.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
    /// Reason why there is no result. It fails only this query.
    pub error: Option<QueryError>,
}

/// Reason why a decider has no result for a query.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryError {
    /// Reason, for programs; `unknown-query` if the decider has no query of this name.
    pub reason: String,
    /// Explanation, for people.
    pub message: Option<String>,
    /// With `unknown-query`: names of the decider's queries. Those beyond 1,000 are dropped.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::list::<KNOWN_QUERIES_MAX, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = KNOWN_QUERIES_MAX)))]
    pub known: Vec<String>,
}
