//! Queries: what an application asks, what a decider is asked, and what both are answered.

use history::limits::KNOWN_QUERIES_MAX;
use history::{EventId, Payload, bounded};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

/// The reason with which a decider says that it knows no query of the name.
pub const UNKNOWN_QUERY: &str = "unknown-query";

/// Asks a run's decider.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryWorkflow {
    /// The input.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
}

/// What a run's decider answered.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueryAnswer {
    /// The run.
    pub run_id: Uuid,
    /// The newest news that the answer reflects; also in its entity tag.
    pub version: EventId,
    /// The answer; absent for `null`.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
}

/// A query to a decider.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskQuery {
    /// What to answer with.
    pub id: String,
    /// The query's name.
    pub name: String,
    /// Its input.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub input: Option<Payload>,
}

/// What a decider says to a query.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryResult {
    /// The query's id.
    pub id: String,
    /// The answer; `null` when absent.
    #[serde(default, deserialize_with = "history::payload_present")]
    pub result: Option<Payload>,
    /// Why there is none. It fails the query and nothing else.
    pub error: Option<QueryError>,
}

/// Why a decider has no answer to a query.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueryError {
    /// Why, for programs; `unknown-query` when it knows no query of this name.
    pub reason: String,
    /// Why, for people.
    pub message: Option<String>,
    /// With `unknown-query`: the names that it knows; those beyond 1,000 are left out.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::list::<KNOWN_QUERIES_MAX, _, _>"
    )]
    #[cfg_attr(feature = "schema", schemars(length(max = KNOWN_QUERIES_MAX)))]
    pub known: Vec<String>,
}
