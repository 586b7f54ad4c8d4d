//! What nodes say to each other: each message, with what is said to it.

use std::time::Duration;

use async_trait::async_trait;
use history::bounded;
use history::limits::{AWAITING_MAX, DECISIONS_MAX, QUERY_RESULTS_MAX, UPDATE_RESULTS_MAX};
use history::{
    CallerName, Decision, EventId, Fault, Payload, Permissions, ProposedUpdate, UpdateAnswer, event::TurnList,
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use crate::{QueryOutcome, SeenVersion};

/// Names a task list between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListName {
    pub(crate) domain: String,
    pub(crate) is_decider: bool,
    pub(crate) name: String,
}

/// A waiting task between nodes.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// The list that it waits on.
    pub list: ListName,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) scheduled_event_id: u64,
    /// The poll that it went to without arriving.
    pub(crate) lost: Option<u64>,
}

/// A query on its way to another node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forwarded {
    pub(crate) domain: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) name: String,
    #[serde(deserialize_with = "history::payload_present", default)]
    pub(crate) input: Option<Payload>,
    pub(crate) seen: Option<SeenVersion>,
    /// How long to wait for the answer.
    pub wait: Duration,
}

/// What another node makes of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromNode {
    /// This is the answer.
    Answer {
        /// The newest news that it reflects.
        version: EventId,
        /// What the decider says.
        outcome: QueryOutcome,
    },
    /// There was nothing new in time.
    Unchanged {
        /// The run's version.
        version: EventId,
    },
    /// There was no answer in time, or no way to ask.
    None,
}

/// What a decider said to a node that did not ask it, on its way to the one that did.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StrayAnswer {
    pub(crate) domain: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) scheduled_event_id: EventId,
    pub(crate) started_event_id: EventId,
    pub(crate) only_asks: bool,
    pub(crate) version: EventId,
    pub(crate) outcomes: Vec<(u64, QueryOutcome)>,
    /// To whatever is not among them.
    pub(crate) otherwise: Option<QueryOutcome>,
}

/// An update on its way to another node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LentUpdate {
    pub(crate) domain: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) asked: ProposedUpdate,
    /// How long to wait for the verdict.
    pub wait: Duration,
}

/// What another node makes of it.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromJudge {
    /// It is done.
    Done {
        /// Its UpdateCompleted.
        event_id: EventId,
        /// The run's version after it.
        version: EventId,
        /// The answer.
        #[serde(default, deserialize_with = "history::payload_present")]
        result: Option<Payload>,
    },
    /// The run knows more of it.
    Recorded,
    /// It is rejected.
    Rejected {
        /// Why, for programs.
        reason: String,
        /// Why, for people and programs.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    },
    /// A decider took it along and said nothing to it.
    Unanswered,
    /// No decider has it there, nor will one get it.
    Withdrawn,
    /// A decider has it, and may accept it yet.
    Held,
}

/// A decider's answer to a turn, on its way to the node that has the turn's updates.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedAnswer {
    pub(crate) token: String,
    pub(crate) what: Passed,
    #[serde(deserialize_with = "bounded::list::<QUERY_RESULTS_MAX, _, _>")]
    pub(crate) results: Vec<(String, QueryOutcome)>,
    #[serde(deserialize_with = "bounded::list::<UPDATE_RESULTS_MAX, _, _>")]
    pub(crate) updates: Vec<UpdateAnswer>,
    /// What its decider may decide: whatever one of these allows; everything when absent.
    pub(crate) may: Option<Vec<Permissions>>,
    /// The name of its decider's credential.
    pub(crate) by: Option<CallerName>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Passed {
    Completed {
        #[serde(deserialize_with = "bounded::list::<DECISIONS_MAX, _, _>")]
        decisions: Vec<Decision>,
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "history::payload_present")]
        context: Option<Payload>,
        #[serde(deserialize_with = "bounded::list::<AWAITING_MAX, _, _>")]
        awaiting: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moves_to: Option<TurnList>,
    },
    Failed {
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    },
}

/// What the node that has a turn's updates says to its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromRecorder {
    /// It is recorded, or there was nothing to record.
    Recorded,
    /// The rules refuse it.
    Refused(Fault),
    /// It may be, and may be tried again.
    Unknown(String),
}

/// An update that a decider has rejected, on its way to another node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedUpdate {
    pub(crate) domain: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) update_id: String,
    /// Why, for programs; absent when the decider said nothing to it.
    pub(crate) reason: Option<String>,
    /// Why, for people and programs.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "history::payload_present")]
    pub(crate) details: Option<Payload>,
}

/// How nodes talk to each other.
#[async_trait]
pub trait Peers: Send + Sync + 'static {
    /// Tells a node that somebody waits here on a list.
    async fn wait_on(&self, node: &str, list: &ListName) -> Result<(), String>;

    /// Offers a task to a node; answers whether somebody waits for it there.
    async fn offer(&self, node: &str, offer: &Offer) -> Result<bool, String>;

    /// Tells a node that the answers to these polls were lost; answers what had been started for them, as far as it knows.
    async fn lost(&self, node: &str, polls: &[u64]) -> Result<Option<Offer>, String>;

    /// Asks a node's deciders.
    async fn query(&self, node: &str, forwarded: &Forwarded) -> Result<FromNode, String>;

    /// Lends an update to a node, for its deciders to judge.
    async fn judge(&self, node: &str, lent: &LentUpdate) -> Result<FromJudge, String>;

    /// Tells a node what a decider said to a turn whose updates it has.
    async fn record(&self, node: &str, answer: &PassedAnswer) -> Result<FromRecorder, String>;

    /// Tells a node that an update is rejected; answers whether no decider has it that was asked from there.
    async fn give_up(&self, node: &str, rejected: &RejectedUpdate) -> Result<bool, String>;

    /// Tells a node what a decider said to its queries; answers whether anybody waited for it.
    async fn say(&self, node: &str, said: &StrayAnswer) -> Result<bool, String>;
}
