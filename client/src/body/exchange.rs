//! Exchanges: many answers to tasks of one list in one request, and as many tasks as there is room for.

use history::bounded;
use history::limits::EXCHANGE_ANSWERS_MAX;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{CancelActivity, CompleteTurn, FailActivity, FailTurn, Problem, SucceedActivity, TaskHistory, Warning};

bodies! {@request
    /// Answers turns of a task list and takes others.
    ExchangeTurns {
        /// Answers to turns of this list, at most 256. Each is judged by itself, and has its receipt at the same place.
        #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<EXCHANGE_ANSWERS_MAX, _, _>")]
        #[at_most(EXCHANGE_ANSWERS_MAX)]
        answers: Vec<TurnReply>,
        /// How many turns to take at most, 0 to 256. Each comes into a slot of its own, numbered from 0 on.
        #[serde(default)]
        room: u32,
        /// In the place of `room`, with a later `attempt`: the slots into which nothing had come.
        #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<EXCHANGE_ANSWERS_MAX, _, _>")]
        #[at_most(EXCHANGE_ANSWERS_MAX)]
        slots: Vec<u32>,
        /// Who polls; shown in the history.
        identity: Option<String>,
        /// Which events come with a task, as with a poll.
        history: Option<TaskHistory>,
        /// The most events that come with a task; 10,000 when absent or more.
        max_events: Option<usize>,
        /// This decider answers queries, as with a poll.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        queries: bool,
        /// The most updates that a turn may ask this decider to judge, as for a poll.
        updates: Option<usize>,
        /// Names this exchange, so that it can be repeated when what came of it is lost; not used for another one. At most 256
        /// characters.
        poll_id: Option<String>,
        /// Which try of it this is, 1 to 32; 1 when absent. A later one says that what had been sent into `slots` was lost, and gets
        /// the turns that had been started for them.
        attempt: Option<u32>,
    }
    /// An answer to a turn: `complete` or `fail`, without `next`.
    TurnReply {
        /// The turn's token, exactly as it came.
        token: String,
        /// Completes the turn.
        complete: Option<CompleteTurn>,
        /// Gives the turn back.
        fail: Option<FailTurn>,
    }
    /// Answers activities of a task list and takes others.
    ExchangeActivities {
        /// Answers to activities of this list, at most 256. Each is judged by itself, and has its receipt at the same place.
        #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<EXCHANGE_ANSWERS_MAX, _, _>")]
        #[at_most(EXCHANGE_ANSWERS_MAX)]
        answers: Vec<ActivityReply>,
        /// How many activities to take at most, 0 to 256. Each comes into a slot of its own, numbered from 0 on.
        #[serde(default)]
        room: u32,
        /// In the place of `room`, with a later `attempt`: the slots into which nothing had come.
        #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<EXCHANGE_ANSWERS_MAX, _, _>")]
        #[at_most(EXCHANGE_ANSWERS_MAX)]
        slots: Vec<u32>,
        /// Who polls; shown in the history.
        identity: Option<String>,
        /// Names this exchange, so that it can be repeated when what came of it is lost; not used for another one. At most 256
        /// characters.
        poll_id: Option<String>,
        /// Which try of it this is, 1 to 32; 1 when absent. A later one says that what had been sent into `slots` was lost, and gets
        /// the activities that had been started for them.
        attempt: Option<u32>,
    }
    /// An answer to an activity: `success`, `failure` or `canceled`, without `next`.
    ActivityReply {
        /// The activity's token, exactly as it came.
        token: String,
        /// It is done.
        success: Option<SucceedActivity>,
        /// It could not be done.
        failure: Option<FailActivity>,
        /// It stopped, as it was asked to.
        canceled: Option<CancelActivity>,
    }
}

answers! {
    /// What became of one answer.
    AnswerReceipt {
        /// Why it was refused; absent where it is recorded.
        problem: Option<Problem>,
        /// Decisions that were recorded and are probably not meant.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<Warning>,
    }
}

/// What came of an exchange: all of it, or as a stream a piece of it a line, the receipts first.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Exchanged{T}"))]
pub struct Exchanged<T> {
    /// What became of the answers, in their order. In a stream on its first line alone.
    pub receipts: Option<Vec<AnswerReceipt>>,
    /// Tasks that came.
    pub tasks: Vec<SlotTask<T>>,
    /// Where nothing came: lists of the domain on which tasks wait and nobody polls, as `Baton-Unpolled` has them with a poll.
    pub unpolled: Option<String>,
}

/// A task that came into a slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Slot{T}"))]
pub struct SlotTask<T> {
    /// The slot.
    pub slot: u32,
    /// The task.
    pub task: T,
}
