//! Bodies of exchanges. An exchange is one request that answers many tasks of a list and takes new tasks.

use history::bounded;
use history::limits::EXCHANGE_ANSWERS_MAX;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{CancelActivity, CompleteTurn, FailActivity, FailTurn, Problem, SucceedActivity, TaskHistory, Warning};

bodies! {@request
    /// Answers to turns of a task list, and a request for further turns.
    ExchangeTurns {
        /// Answers to turns of this list. Each answer is handled separately. The receipt of an answer has the same
        /// index in `receipts`. At most 256.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<EXCHANGE_ANSWERS_MAX, _, _>"
        )]
        #[at_most(EXCHANGE_ANSWERS_MAX)]
        answers: Vec<TurnReply>,
        /// Maximum number of turns to take, 0 to 256; 0 by default. Each turn gets a separate slot. Slots are numbered
        /// from 0.
        #[serde(default)]
        max_tasks: u32,
        /// Numbers of the slots for which no turn has arrived yet. Send them instead of `maxTasks` if you repeat an
        /// exchange and some of its turns have already arrived. At most 256.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<EXCHANGE_ANSWERS_MAX, _, _>"
        )]
        #[at_most(EXCHANGE_ANSWERS_MAX)]
        slots: Vec<u32>,
        /// Name of the poller; recorded in the history.
        identity: Option<String>,
        /// Events that are returned with a task, as for a poll.
        history: Option<TaskHistory>,
        /// Maximum number of events that are returned with a task. The default and the maximum are 10,000.
        max_events: Option<usize>,
        /// True if this decider answers queries, as for a poll.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queries: bool,
        /// Maximum number of updates that this decider validates in one turn, as for a poll.
        updates: Option<usize>,
        /// Unique id of this exchange. With this id the exchange can be repeated if its response is lost. At most 256
        /// characters.
        poll_id: Option<String>,
        /// Number of this attempt of the exchange, 1 to 32; 1 by default. Send 2 or more to repeat an exchange whose
        /// response was lost or incomplete. If an earlier attempt started a turn for one of the requested slots, the
        /// service then sends this turn again.
        attempt: Option<u32>,
        /// Workflow id of the only run whose tasks the exchange returns, as for a poll.
        workflow_id: Option<String>,
    }
    /// An answer to a turn: exactly one of `complete` and `fail`.
    TurnReply {
        /// Token of the turn, exactly as received.
        token: String,
        /// Completes the turn.
        complete: Option<CompleteTurn>,
        /// Gives the turn back without deciding it.
        fail: Option<FailTurn>,
    }
    /// Answers to activities of a task list, and a request for further activities.
    ExchangeActivities {
        /// Answers to activities of this list. Each answer is handled separately. The receipt of an answer has the same
        /// index in `receipts`. At most 256.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<EXCHANGE_ANSWERS_MAX, _, _>"
        )]
        #[at_most(EXCHANGE_ANSWERS_MAX)]
        answers: Vec<ActivityReply>,
        /// Maximum number of activities to take, 0 to 256; 0 by default. Each activity gets a separate slot. Slots are
        /// numbered from 0.
        #[serde(default)]
        max_tasks: u32,
        /// Numbers of the slots for which no activity has arrived yet. Send them instead of `maxTasks` if you repeat an
        /// exchange and some of its activities have already arrived. At most 256.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<EXCHANGE_ANSWERS_MAX, _, _>"
        )]
        #[at_most(EXCHANGE_ANSWERS_MAX)]
        slots: Vec<u32>,
        /// Name of the poller; recorded in the history.
        identity: Option<String>,
        /// Unique id of this exchange. With this id the exchange can be repeated if its response is lost. At most 256
        /// characters.
        poll_id: Option<String>,
        /// Number of this attempt of the exchange, 1 to 32; 1 by default. Send 2 or more to repeat an exchange whose
        /// response was lost or incomplete. If an earlier attempt started an activity for one of the requested slots,
        /// the service then sends this activity again.
        attempt: Option<u32>,
        /// Workflow id of the only run whose tasks the exchange returns, as for a poll.
        workflow_id: Option<String>,
    }
    /// An answer to an activity: exactly one of `success`, `failure` and `canceled`.
    ActivityReply {
        /// Token of the activity, exactly as received.
        token: String,
        /// Completes the activity.
        success: Option<SucceedActivity>,
        /// Fails the activity.
        failure: Option<FailActivity>,
        /// Confirms that the activity stopped after a cancel request.
        canceled: Option<CancelActivity>,
    }
}

answers! {
    /// The outcome of one answer.
    AnswerReceipt {
        /// Reason why the answer was refused; absent if the answer was recorded.
        problem: Option<Problem>,
        /// Warnings about decisions that were recorded but are probably mistakes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Warning>,
    }
}

/// The response to an exchange. A streamed response consists of several such objects, one per line. The first line
/// contains the receipts.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Exchanged{T}"))]
#[serde(rename_all = "camelCase")]
pub struct Exchanged<T> {
    /// Outcomes of the answers, in the order of the answers. In a streamed response, only the first line contains them.
    pub receipts: Option<Vec<AnswerReceipt>>,
    /// Tasks that were taken.
    pub tasks: Vec<SlotTask<T>>,
    /// Lists of the domain that have waiting tasks and no pollers, in the format of the `Baton-No-Pollers` header of
    /// polls. Present only if no task was taken.
    pub no_pollers: Option<String>,
}

/// A task in a slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Slot{T}"))]
pub struct SlotTask<T> {
    /// Number of the slot.
    pub slot: u32,
    /// The task.
    pub task: T,
}
