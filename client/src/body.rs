//! Request and response bodies of every call of the REST API, shared by the service and its clients.
//!
//! The service refuses requests with unknown fields. The client ignores unknown fields of responses, so that an older
//! client can be used with a newer service.

use serde::{Deserialize, Serialize};

macro_rules! bodies {
    (@request $(
        $(#[doc = $doc:literal])+ $name:ident {
            $(
                $(#[doc = $fdoc:literal])+
                $(#[serde($($serde:meta),+)])*
                $(#[at_most($max:ident)])?
                $(#[at_most_members($members:ident)])?
                $field:ident: $type:ty,
            )*
        }
    )+) => {
        $(
            #[serde_with::skip_serializing_none]
            #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
            #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            $(#[doc = $doc])+
            pub struct $name {
                $(
                    $(#[doc = $fdoc])+
                    $(#[serde($($serde),+)])*
                    $(#[cfg_attr(feature = "schema", schemars(length(max = $max)))])?
                    $(#[cfg_attr(feature = "schema", schemars(extend("maxProperties" = $members)))])?
                    pub $field: $type,
                )*
            }
        )+
    };
}

macro_rules! answers {
    ($(
        $(#[doc = $doc:literal])+ $name:ident {
            $(
                $(#[doc = $fdoc:literal])+
                $(#[serde($($serde:meta),+)])*
                $field:ident: $type:ty,
            )*
        }
    )+) => {
        $(
            #[serde_with::skip_serializing_none]
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
            #[serde(rename_all = "camelCase")]
            $(#[doc = $doc])+
            pub struct $name {
                $(
                    $(#[doc = $fdoc])+
                    $(#[serde($($serde),+)])*
                    pub $field: $type,
                )*
            }
        )+
    };
}

mod audit;
mod batches;
mod domains;
mod exchange;
mod moved;
mod operate;
mod output;
mod queries;
mod readiness;
mod schedules;
mod session;
mod task_lists;
mod tasks;
mod types;
mod updates;
mod workflows;
pub use audit::*;
pub use batches::*;
pub use domains::*;
pub use exchange::*;
pub use moved::*;
pub use operate::*;
pub use output::*;
pub use queries::{QueryAnswer, QueryError, QueryResult, QueryWorkflow, TaskQuery, UNKNOWN_QUERY};
pub use readiness::*;
pub use schedules::{
    BackfillSchedule, CreateSchedule, DescribedSchedule, ListedSchedule, NextTimes, PauseSchedule, ResumeSchedule,
    ScheduleAction, ScheduleTotals, Schedules, TriggerSchedule,
};
pub use session::*;
pub use task_lists::*;
pub use tasks::*;
pub use types::*;
pub use updates::{Rejection, TaskUpdate, UpdateResult, UpdateWorkflow, Updated};
pub use workflows::*;

pub use history::{Schedule, StartActivity, StartSignal, StartWorkflow};

/// An error response (RFC 9457): the service did not do what was requested.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// URI that identifies the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// Short summary of the kind of problem, for people.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Explanation of this occurrence of the problem.
    pub detail: String,
    /// Kind of problem, for programs; stable.
    pub code: String,
    /// True if the same request may succeed later.
    pub retryable: bool,
    /// `false`, or `"unknown"` if the request may have been recorded.
    pub recorded: serde_json::Value,
    /// Recommended next step.
    pub advice: String,
    /// Further members of this kind of problem, such as `runId` or `max`.
    #[serde(flatten)]
    pub members: serde_json::Map<String, serde_json::Value>,
}
