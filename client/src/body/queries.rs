//! Bodies of queries: the caller's request with its response, and the query that a decider receives with its result.

use history::limits::KNOWN_QUERIES_MAX;
use history::{EventId, Payload, bounded};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

/// Reason with which a decider reports that it has no query with the requested name.
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
    /// Version of the run that the answer reflects. The entity tag of the response contains this version.
    pub version: EventId,
    /// Result of the query; absent if it is `null`.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
}

/// A query in a decider task.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskQuery {
    /// Id of the query, which its result must contain.
    pub id: String,
    /// Name of the query.
    pub name: String,
    /// Input of the query.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
}

/// A decider's result for a query.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryResult {
    /// Id of the query.
    pub id: String,
    /// Result of the query; `null` by default.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
    /// Reason why the query has no result. Only this query fails.
    pub error: Option<QueryError>,
}

/// Reason why a decider has no result for a query.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryError {
    /// Reason, for programs; `unknown-query` if the decider has no query with this name.
    pub reason: String,
    /// Explanation, for people.
    pub message: Option<String>,
    /// Names of the queries that the decider has, for the reason `unknown-query`. Names beyond 1,000 are dropped.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::list::<KNOWN_QUERIES_MAX, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = KNOWN_QUERIES_MAX)))]
    pub known: Vec<String>,
}
