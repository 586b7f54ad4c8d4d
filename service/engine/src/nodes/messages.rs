//! Messages between nodes, and the replies to them.

use std::time::Duration;

use async_trait::async_trait;
use history::bounded;
use history::limits::{AWAITING_MAX, DECISIONS_MAX, OUTPUT_CHUNKS_MAX, QUERY_RESULTS_MAX, UPDATE_RESULTS_MAX};
use history::{
    CallerName, Decision, EventId, Fault, Payload, Permissions, ProposedUpdate, Timestamp, UpdateAnswer,
    event::TurnList,
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use uuid::Uuid;

use crate::base::list_reports::HomeReport;
use crate::{AppendedOutput, OutputPage, QueryOutcome, SeenVersion};

/// Identifies a task list in messages between nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListName {
    pub(crate) domain: String,
    pub(crate) is_decider: bool,
    pub(crate) name: String,
}

/// Offer of a waiting task to another node.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// The list on which the task waits.
    pub list: ListName,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) scheduled_event_id: u64,
    /// Id of the poll to which the task was sent but which the task did not reach; `None` if the task was not started.
    pub(crate) lost: Option<u64>,
    #[serde(default)]
    pub(crate) priority: i32,
    /// Time when the task began to wait, if known.
    pub(crate) since: Option<Timestamp>,
    pub(crate) concurrency_key: Option<String>,
    /// True if the home node of the list's limits permits the start.
    #[serde(default)]
    pub(crate) is_permitted: bool,
}

/// Tasks of a limited list, for the home node of its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardedTasks {
    /// The tasks, all of one list.
    #[serde(deserialize_with = "bounded::list::<FORWARDED_MAX, _, _>")]
    pub tasks: Vec<Offer>,
}

/// What became of tasks of limited lists, for the home node of the limits of these lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotReports {
    /// Domain of the lists.
    pub domain: String,
    /// The reports, in the order in which things happened.
    #[serde(deserialize_with = "bounded::list::<SLOT_REPORTS_MAX, _, _>")]
    pub reports: Vec<SlotReport>,
}

/// What became of one task.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotReport {
    pub(crate) list: ListName,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) scheduled_event_id: EventId,
    pub(crate) concurrency_key: Option<String>,
    pub(crate) news: SlotNews,
}

/// Event in the life of a task that matters for limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SlotNews {
    /// A commit has started the task.
    Started,
    /// The permitted start did not happen.
    NotStarted,
    /// It is unknown whether a commit has started the task.
    Unknown,
    /// The task has ended or waits again.
    Ended,
}

/// Request for the state of limited lists at the home node of their limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShowLimits {
    /// The lists, all of one domain.
    #[serde(deserialize_with = "bounded::list::<SHOWN_LISTS_MAX, _, _>")]
    pub lists: Vec<ShownList>,
    /// True if the next tasks of the lists are wanted.
    pub with_tasks: bool,
}

/// A list in a request for the state of lists.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownList {
    /// The list.
    pub list: ListName,
    /// Concurrency key for which the reasons are wanted why a task may not start.
    pub key: Option<String>,
}

/// Maximum number of tasks in one message to the home node. Our choice: a message with names of maximum size fits into
/// a request body.
pub(crate) const FORWARDED_MAX: usize = 100;

/// Maximum number of reports in one message to the home node. Our choice, as for [`FORWARDED_MAX`].
pub(crate) const SLOT_REPORTS_MAX: usize = 100;

/// Maximum number of lists in one request for their state: the maximum number of lists with settings, and of waiting
/// tasks of a run. Our choice.
pub(crate) const SHOWN_LISTS_MAX: usize = 2_000;

/// A query forwarded to another node.
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
    /// Maximum time to wait for the answer.
    pub wait: Duration,
}

/// Reply to a forwarded query.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromNode {
    /// The answer.
    Answer {
        /// Newest version of the run that the answer reflects.
        version: EventId,
        /// Outcome that the decider reported.
        outcome: QueryOutcome,
    },
    /// The run, or the query's result, has not changed within the maximum wait.
    Unchanged {
        /// Version of the run.
        version: EventId,
    },
    /// There was no answer in time, or the query could not be sent to a decider.
    None,
}

/// Query results that a decider sent to a node that does not hold the queries. This message passes the results on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StrayAnswer {
    pub(crate) domain: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) scheduled_event_id: EventId,
    pub(crate) started_event_id: EventId,
    pub(crate) query_only: bool,
    pub(crate) version: EventId,
    pub(crate) outcomes: Vec<(u64, QueryOutcome)>,
    /// Outcome for the remaining queries of the task.
    pub(crate) otherwise: Option<QueryOutcome>,
}

/// An update that its node lends to another node, so that a decider of the other node can validate it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LentUpdate {
    pub(crate) domain: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) asked: ProposedUpdate,
    /// Maximum time to wait for a decider's answer.
    pub wait: Duration,
}

/// Reply of the node to which an update was lent.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum FromValidator {
    /// The update was accepted and completed.
    Done {
        /// Id of the update's UpdateCompleted event.
        event_id: EventId,
        /// Version of the run after the update.
        version: EventId,
        /// Result of the update.
        #[serde(default, deserialize_with = "history::payload_present")]
        result: Option<Payload>,
    },
    /// The outcome is recorded in the history of the run.
    Recorded,
    /// A decider rejected the update.
    Rejected {
        /// Machine-readable reason.
        reason: String,
        /// Details, for people and programs.
        #[serde(default, deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    },
    /// A decider took the update and did not answer it.
    Unanswered,
    /// No decider of the node has the update, and none will get it.
    Withdrawn,
    /// A decider of the node has the update and may still accept it.
    Held,
}

/// Answer of a decider to a turn, which is passed to the node that holds the turn's updates.
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
    /// Permissions of the decider. A decision is allowed if at least one element allows it. If the field is absent,
    /// every decision is allowed.
    pub(crate) may: Option<Vec<Permissions>>,
    /// Name of the decider's credential.
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
        next_task_list: Option<TurnList>,
    },
    Failed {
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "history::payload_present")]
        details: Option<Payload>,
    },
}

/// Reply to a passed answer of a decider, from the node that holds the turn's updates.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromRecorder {
    /// The answer is recorded, or there was nothing to record.
    Recorded,
    /// The rules of the crate `history` do not allow the answer.
    Refused(Fault),
    /// The outcome is unknown: the answer may have been recorded. The answer may be sent again.
    Unknown(String),
}

/// Message with which a node informs other nodes that a decider has rejected an update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedUpdate {
    pub(crate) domain: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) update_id: String,
    /// Machine-readable reason. Absent if the update was not rejected, but a decider took it without answering it.
    pub(crate) reason: Option<String>,
    /// Details, for people and programs.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "history::payload_present")]
    pub(crate) details: Option<Payload>,
}

/// Output of an activity, forwarded to the node that keeps it.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardedOutput {
    pub(crate) token: String,
    #[serde(deserialize_with = "bounded::list::<OUTPUT_CHUNKS_MAX, _, _>")]
    pub(crate) chunks: Vec<Payload>,
    pub(crate) sequence: Option<u32>,
}

/// Reply to forwarded output.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromOutputWriter {
    /// The output was appended.
    Appended(AppendedOutput),
    /// The rules of the crate `history` do not allow the request.
    Refused(Fault),
    /// The output of other activities leaves no room.
    Full,
    /// The node could not handle the request, for this reason.
    Failed(String),
}

/// Request for output of an activity, sent to the node that keeps it.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputRequest {
    pub(crate) domain: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    pub(crate) activity_id: String,
    pub(crate) scheduled_event_id: Option<EventId>,
    pub(crate) stream: Option<u64>,
    pub(crate) from: u64,
    /// Maximum time to wait for new output.
    pub wait: Duration,
}

/// Reply to a request for output.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FromOutputReader {
    /// The output.
    Page(OutputPage),
    /// The node does not have the output.
    NotKept,
    /// The node could not handle the request, for this reason.
    Failed(String),
}

/// Connection to the other nodes.
#[async_trait]
pub trait Peers: Send + Sync + 'static {
    /// Notifies a node that a poller waits on a list at this node.
    async fn wait_on(&self, node: &str, list: &ListName) -> Result<(), String>;

    /// Offers a task to a node. Returns true if a poller of that node takes the task.
    async fn offer(&self, node: &str, offer: &Offer) -> Result<bool, String>;

    /// Sends tasks of a limited list to the home node of its limits. Returns false if that node is not the home node.
    async fn forward(&self, node: &str, tasks: &ForwardedTasks) -> Result<bool, String>;

    /// Reports to the home node of limits what became of tasks. Returns false if that node is not the home node.
    async fn report_slots(&self, node: &str, reports: &SlotReports) -> Result<bool, String>;

    /// Returns the state of limited lists at the home node of their limits, in the order of the request.
    async fn show_limits(&self, node: &str, request: &ShowLimits) -> Result<Vec<HomeReport>, String>;

    /// Reports to a node that the responses to these polls were lost. If that node knows a task that was started for
    /// one of the polls, returns the task.
    async fn lost(&self, node: &str, polls: &[u64]) -> Result<Option<Offer>, String>;

    /// Forwards a query to a node, so that a decider of that node answers it.
    async fn query(&self, node: &str, forwarded: &Forwarded) -> Result<FromNode, String>;

    /// Lends an update to a node, so that a decider of that node validates it.
    async fn validate(&self, node: &str, lent: &LentUpdate) -> Result<FromValidator, String>;

    /// Passes a decider's answer to the node that holds the turn's updates.
    async fn record(&self, node: &str, answer: &PassedAnswer) -> Result<FromRecorder, String>;

    /// Notifies a node that an update was rejected. Returns true if no decider has received the update from that node.
    async fn withdraw_update(&self, node: &str, rejected: &RejectedUpdate) -> Result<bool, String>;

    /// Passes a decider's query results to the node that holds the queries. Returns true if a caller of that node
    /// waited for any of the results.
    async fn deliver_results(&self, node: &str, said: &StrayAnswer) -> Result<bool, String>;

    /// Forwards output of an activity to the node that keeps it.
    async fn append_output(&self, node: &str, output: &ForwardedOutput) -> Result<FromOutputWriter, String>;

    /// Requests output of an activity from the node that keeps it.
    async fn read_output(&self, node: &str, request: &OutputRequest) -> Result<FromOutputReader, String>;
}
